//! In the userspace datapath the kernel of the node sees a copy of every frame of a pod. A tenant whose network contains the node's own
//! addresses neither reaches the node nor is reached by it.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::time::Duration;

use portolan_host::{Admits, GuardMonitor};
use portolan_testbed::{Namespace, Node, Test};

use crate::guards::wait_for_guards;
use crate::stage::{Agents, Runtime, Stage, blocking};

const PORT: u16 = 7000;

/// A place that has addresses, with sockets that wait there for what comes.
pub(crate) struct Receiver {
    sockets: Vec<UdpSocket>,
    listeners: Vec<TcpListener>,
}

impl Receiver {
    pub(crate) fn at(namespace: &Namespace, addresses: &[IpAddr]) -> Self {
        let addresses: Vec<SocketAddr> = addresses.iter().map(|address| (*address, PORT).into()).collect();
        namespace.run(move || {
            let sockets =
                addresses.iter().map(|address| UdpSocket::bind(address).unwrap()).collect::<Vec<_>>();
            let listeners = addresses.iter().map(|one| TcpListener::bind(one).unwrap()).collect::<Vec<_>>();
            sockets.iter().for_each(|socket| socket.set_nonblocking(true).unwrap());
            listeners.iter().for_each(|listener| listener.set_nonblocking(true).unwrap());
            Self { sockets, listeners }
        })
    }

    /// What has come by now.
    pub(crate) fn received(&self) -> Vec<String> {
        let mut received = Vec::new();
        for socket in &self.sockets {
            let mut buffer = [0; 64];
            while let Some((length, from)) = nothing_yet(socket.recv_from(&mut buffer)) {
                received.push(format!("{from}: {}", String::from_utf8_lossy(&buffer[..length])));
            }
        }
        for listener in &self.listeners {
            while let Some((_, from)) = nothing_yet(listener.accept()) {
                received.push(format!("{from} connected"));
            }
        }
        received
    }
}

fn nothing_yet<T>(result: std::io::Result<T>) -> Option<T> {
    match result {
        Err(error) if error.kind() == ErrorKind::WouldBlock => None,
        result => Some(result.unwrap()),
    }
}

/// Sends a packet to each of these addresses, with the far end's MAC address known: no answer to ARP is needed for it to arrive.
pub(crate) fn send(from: &Namespace, link: &str, to: &[IpAddr], mac: &str, text: &'static str) {
    for address in to {
        from.ip(&format!("neighbour replace {address} lladdr {mac} dev {link} nud permanent")).unwrap();
        let address = *address;
        from.run(move || {
            let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
            UdpSocket::bind(any).unwrap().send_to(text.as_bytes(), (address, PORT)).unwrap();
        });
        from.ip(&format!("neighbour del {address} dev {link}")).unwrap();
    }
}

pub(crate) fn mac_of(namespace: &Namespace, link: &str) -> String {
    let text = namespace.command("ip").args(["-o", "link", "show", link]).read().unwrap();
    let mut words = text.split_whitespace();
    words.find(|word| *word == "link/ether").unwrap();
    words.next().unwrap().to_owned()
}

/// Waits until an address answers a ping.
pub(crate) fn reaches(from: &Namespace, address: IpAddr) {
    from.command("ping").args(["-c1", "-w10", "-i0.05", &address.to_string()]).read().unwrap();
}

/// Whether an address answers one ping.
pub(crate) fn answers(from: &Namespace, address: IpAddr) -> bool {
    let output = from.command("ping").args(["-c1", "-W0.2", &address.to_string()]).output().unwrap();
    output.status.success()
}

/// What is known of a neighbour.
fn known(namespace: &Namespace, address: IpAddr) -> String {
    namespace.command("ip").args(["neighbour", "show", &address.to_string()]).read().unwrap()
}

/// Asserts that a pod and the node do not reach each other, though the witness reaches the pod all the while.
fn assert_apart(node: &Node, pod: (&Namespace, &str), witness: (&Namespace, &Receiver), sides: &Sides) {
    let (pod, link) = pod;
    let (node_receives, pod_receives) =
        (Receiver::at(node.namespace(), &sides.node), Receiver::at(pod, &sides.pod));
    for address in &sides.node {
        assert!(!answers(pod, *address), "{address} of the node answers the pod");
        let known = known(pod, *address);
        assert!(!known.contains("lladdr"), "the pod heard an answer to ARP: {known}");
    }
    let (mac, node_mac) = (mac_of(node.namespace(), link), mac_of(node.namespace(), "br-und"));
    for mac in [&mac, &node_mac] {
        send(pod, "eth0", &sides.node, mac, "from the pod");
    }
    for address in &sides.pod {
        assert!(!answers(node.namespace(), *address), "{address} of the pod answers the node");
    }
    send(node.namespace(), "br-und", &sides.pod, &mac_of(pod, "eth0"), "from the node");
    // What the pod sends after all that arrives: what it sent before has passed its link. The other way likewise.
    let (witness, witness_receives) = witness;
    sides.witness.iter().for_each(|address| reaches(pod, *address));
    sides.pod.iter().for_each(|address| reaches(witness, *address));
    while witness_receives.received().is_empty() {
        send(pod, "eth0", &sides.witness, &mac_of(witness, "eth0"), "from the pod");
        sides.witness.iter().for_each(|address| reaches(pod, *address));
    }
    assert_eq!(node_receives.received(), Vec::<String>::new(), "the node received what a pod sent");
    assert_eq!(pod_receives.received(), Vec::<String>::new(), "the pod received what the node sent");
}

struct Sides {
    node: Vec<IpAddr>,
    pod: Vec<IpAddr>,
    witness: Vec<IpAddr>,
}

#[test]
fn a_tenant_whose_network_contains_the_nodes_own_addresses_is_apart_from_the_node() {
    Test::new().deadline(Duration::from_secs(300)).run(async |lab| {
        blocking(move || {
            let mut stage = Stage::start(&lab, 1, Agents::default());
            let addresses = |texts: [&str; 2]| texts.map(|text| text.parse().unwrap()).to_vec();
            let sides = Sides {
                node: addresses(["10.0.0.200", "fd00::200"]),
                pod: addresses(["10.0.0.7", "fd00::7"]),
                witness: addresses(["10.0.0.8", "fd00::8"]),
            };
            let node = &stage.testbed.nodes()[0];
            // The network of the pods, which is their tenant's, is also one that the node is in.
            node.namespace()
                .ip("address add 10.0.0.200/24 dev br-und\naddress add fd00::200/64 dev br-und nodad")
                .unwrap();
            let mut pods = Vec::new();
            for (last, name) in [(7, "argo"), (8, "witness")] {
                let uid = stage.pod(name, "node1");
                stage.assign(name, &uid, "node1", last);
                let netns = node.namespace().network_beside(name).unwrap();
                let runtime = Runtime::new(node, &format!("cafe0{last}"), name, &uid, &netns);
                runtime.succeeds("ADD");
                pods.push((runtime, netns));
            }
            let [(argo, argo_netns), (_, witness_netns)] = &pods[..] else { unreachable!() };
            let link = argo.link();
            let witness_receives = Receiver::at(witness_netns, &sides.witness);
            let apart = |node: &Node| {
                assert_apart(node, (argo_netns, &link), (witness_netns, &witness_receives), &sides);
            };
            apart(node);

            // Without guards, and nobody to make them again, the node hears the pod: so the test would notice.
            stage.stop_agents();
            let node = &stage.testbed.nodes()[0];
            node.command("nft").args(["flush", "ruleset"]).read().unwrap();
            let node_receives = Receiver::at(node.namespace(), &sides.node[..1]);
            send(argo_netns, "eth0", &sides.node[..1], &mac_of(node.namespace(), &link), "from the pod");
            reaches(argo_netns, sides.witness[0]);
            assert_eq!(node_receives.received().len(), 1, "without its guard");
            drop(node_receives);
            let heard = || {
                answers(argo_netns, sides.node[0]);
                known(argo_netns, sides.node[0]).contains("lladdr")
            };
            assert!(heard(), "without its guard the node answers ARP");
            argo_netns.ip(&format!("neighbour flush to {}", sides.node[0])).unwrap();

            // An agent that starts makes the guards again, and one that runs does too.
            let monitor = node.namespace().run(GuardMonitor::open).unwrap();
            stage.start_agents();
            wait_for_guards(monitor, std::slice::from_ref(&link), Admits::Nothing);
            let node = &stage.testbed.nodes()[0];
            apart(node);
            let monitor = node.namespace().run(GuardMonitor::open).unwrap();
            node.command("nft").args(["flush", "ruleset"]).read().unwrap();
            wait_for_guards(monitor, std::slice::from_ref(&link), Admits::Nothing);
            apart(node);
            pods.iter().for_each(|(runtime, _)| drop(runtime.succeeds("DEL")));
        })
        .await;
    });
}
