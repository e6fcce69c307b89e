//! What comes to a node for Services, through a real kernel: a client outside, another node, a pod and the node itself; and what has the
//! addresses of load balancers, behind a link.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use portolan_host::service_map::{self, Address, Clients, Element, Protocol};
use portolan_host::{ServiceMap, TableChange, TableMonitor};
use portolan_testbed::{Lab, Namespace};

const PATIENCE: Duration = Duration::from_secs(10);

/// What differs between the families.
#[derive(Clone, Copy)]
struct Family {
    node: &'static str,
    loopback: &'static str,
    client: &'static str,
    /// Nobody admits it.
    stranger: &'static str,
    other_node: &'static str,
    pod: &'static str,
    /// The second address.
    second: &'static str,
    cluster_ip: &'static str,
    node_local: &'static str,
    pods: &'static str,
    /// Around the client alone.
    admitted: &'static str,
    /// For the outside: anywhere, on the node, and guarded.
    addresses: [&'static str; 3],
}

const V4: Family = Family {
    node: "192.0.2.1",
    loopback: "127.0.0.1",
    client: "192.0.2.50",
    stranger: "192.0.2.60",
    other_node: "192.0.2.12",
    pod: "10.16.1.9",
    second: "10.16.1.3",
    cluster_ip: "10.96.0.1",
    node_local: "169.254.169.3",
    pods: "10.16.0.0/16",
    admitted: "192.0.2.48/30",
    addresses: ["203.0.113.10", "203.0.113.11", "203.0.113.12"],
};
const V6: Family = Family {
    node: "2001:db8:2::1",
    loopback: "::1",
    client: "2001:db8:2::50",
    stranger: "2001:db8:2::60",
    other_node: "2001:db8:2::12",
    pod: "fd00:16:1::9",
    second: "fd00:16:1::3",
    cluster_ip: "fd96::1",
    node_local: "fd8a:3c51:9e07:a9::3",
    pods: "fd00:16::/32",
    admitted: "2001:db8:2::50/124",
    addresses: ["2001:db8:113::10", "2001:db8:113::11", "2001:db8:113::12"],
};

/// A node port of policy `Cluster`, and one of policy `Local`.
const ANYWHERE: u16 = 30080;
const ON_NODE: u16 = 30081;
/// The port of the Services, and where the node-local frontend has that of the address which stays on the node.
const PORT: u16 = 80;
const FRONTEND: u16 = 30082;

const NODE: &str = "address add 192.0.2.1/24 dev up0
    address add 2001:db8:2::1/64 dev up0 nodad
    address add 10.16.1.2/24 dev pt0
    address add fd00:16:1::2/64 dev pt0 nodad
    link set lo up
    link set up0 up
    link set pt0 up
    route add 10.96.0.0/16 via 10.16.1.1
    route add 169.254.169.0/26 via 10.16.1.1
    route add fd96::/112 via fd00:16:1::1
    route add fd8a:3c51:9e07:a9::/64 via fd00:16:1::1
    route add default via 192.0.2.254
    route add default via 2001:db8:2::fe";
const OUTSIDE: &str = "address add 192.0.2.50/24 dev eth0
    address add 192.0.2.60/24 dev eth0
    address add 192.0.2.12/24 dev eth0
    address add 2001:db8:2::50/64 dev eth0 nodad
    address add 2001:db8:2::60/64 dev eth0 nodad
    address add 2001:db8:2::12/64 dev eth0 nodad
    link set eth0 up
    route add 203.0.113.0/24 via 192.0.2.1
    route add 2001:db8:113::/48 via 2001:db8:2::1";
/// In the place of OVN: the router, a pod and what answers for load balancers.
const BEHIND: &str = "address add 10.16.1.1/24 dev eth0
    address add 10.16.1.9/24 dev eth0
    address add fd00:16:1::1/64 dev eth0 nodad
    address add fd00:16:1::9/64 dev eth0 nodad
    address add 10.96.0.1/32 dev lo
    address add 169.254.169.3/32 dev lo
    address add fd96::1/128 dev lo nodad
    address add fd8a:3c51:9e07:a9::3/128 dev lo nodad
    link set lo up
    link set eth0 up
    route add default via 10.16.1.2
    route add 10.16.1.3/32 via 10.16.1.2
    route add default via fd00:16:1::2
    route add fd00:16:1::3/128 via fd00:16:1::2";

struct Stage {
    outside: Namespace,
    behind: Namespace,
}

impl Stage {
    /// The node is the lab's home namespace, in which a test runs.
    fn new(lab: &Lab) -> Self {
        let (outside, behind) = (lab.namespace("outside").unwrap(), lab.namespace("behind").unwrap());
        lab.home().veth("up0", &outside, "eth0").unwrap();
        lab.home().veth("pt0", &behind, "eth0").unwrap();
        for (namespace, lines) in [(lab.home(), NODE), (&outside, OUTSIDE), (&behind, BEHIND)] {
            namespace.ip(lines).unwrap();
        }
        for (setting, value) in [
            ("net.ipv4.ip_forward", "1"),
            ("net.ipv6.conf.all.forwarding", "1"),
            // As distributions set it.
            ("net.ipv4.conf.all.rp_filter", "1"),
            ("net.ipv4.conf.pt0.send_redirects", "0"),
            ("net.ipv4.conf.all.send_redirects", "0"),
        ] {
            lab.home().sysctl(setting, value).unwrap();
        }
        Self { outside, behind }
    }

    fn client(&self, address: &'static str) -> UdpSocket {
        bound(Some(&self.outside), address, 0)
    }
}

/// A socket in a namespace; in that of the node unless one is given.
fn bound(namespace: Option<&Namespace>, address: &str, port: u16) -> UdpSocket {
    let address = at(address, port);
    let socket = match namespace {
        Some(namespace) => namespace.run(move || UdpSocket::bind(address)),
        None => UdpSocket::bind(address),
    };
    let socket = socket.unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn at(address: &str, port: u16) -> SocketAddr {
    SocketAddr::new(ip(address), port)
}

/// Sends something to an address, has it answered, and returns whom the receiver saw. The answer comes from where it was sent to.
fn seen(from: &UdpSocket, to: SocketAddr, receiver: &UdpSocket) -> IpAddr {
    from.connect(to).unwrap();
    from.send(b"ask").unwrap();
    let mut read = [0; 16];
    let (length, source) = receiver.recv_from(&mut read).unwrap();
    assert_eq!(&read[..length], b"ask");
    receiver.send_to(b"answer", source).unwrap();
    let length = from.recv(&mut read).unwrap();
    assert_eq!(&read[..length], b"answer");
    source.ip()
}

fn map() -> ServiceMap {
    let nets = |texts: [&str; 2]| texts.map(|text| text.parse().unwrap()).into();
    ServiceMap {
        link: "pt0".into(),
        services: nets(["10.96.0.0/16", "fd96::/112"]),
        node_local: nets(["169.254.169.0/26", "fd8a:3c51:9e07:a9::/64"]),
        own: [V4.second, V6.second].map(ip).into(),
    }
}

fn elements(family: Family) -> Vec<Element> {
    let (all, outside) = (Clients::All, Clients::Outside);
    let cluster_ip = at(family.cluster_ip, PORT);
    let node_port = |from, protocol, port, to| Element::NodePort { from, protocol, port, to };
    let [anywhere, on_node, guarded] =
        family.addresses.map(|address| Address { ip: ip(address), protocol: Protocol::Udp, port: PORT });
    let address = |from, address, to| Element::Address { from, address, to };
    vec![
        node_port(all, Protocol::Udp, ANYWHERE, cluster_ip),
        node_port(all, Protocol::Tcp, ANYWHERE, cluster_ip),
        node_port(all, Protocol::Sctp, ANYWHERE, cluster_ip),
        node_port(all, Protocol::Udp, ON_NODE, cluster_ip),
        node_port(outside, Protocol::Udp, ON_NODE, at(family.node_local, ON_NODE)),
        address(all, anywhere, cluster_ip),
        address(all, on_node, cluster_ip),
        address(outside, on_node, at(family.node_local, FRONTEND)),
        address(all, guarded, cluster_ip),
        Element::Guarded(guarded),
        Element::Admitted(guarded, family.admitted.parse::<ipnet::IpNet>().unwrap().trunc()),
        Element::Admitted(guarded, family.other_node.parse::<IpAddr>().unwrap().into()),
        Element::Pods(family.pods.parse().unwrap()),
        Element::Node(ip(family.other_node)),
    ]
}

fn all_elements() -> Vec<Element> {
    [elements(V4), elements(V6)].concat()
}

#[test]
fn what_comes_for_services_goes_where_it_should_and_is_answered() {
    portolan_testbed::test(async |lab| {
        let stage = Stage::new(&lab);
        map().replace(&all_elements()).unwrap();
        for family in [V4, V6] {
            let Family { node, cluster_ip, second, client, .. } = family;
            let [anywhere, on_node, guarded] = family.addresses.map(|address| at(address, PORT));
            let of_cluster = bound(Some(&stage.behind), cluster_ip, PORT);
            let of_node = bound(Some(&stage.behind), family.node_local, ON_NODE);
            let of_address = bound(Some(&stage.behind), family.node_local, FRONTEND);
            let outside = || stage.client(client);
            let other_node = || stage.client(family.other_node);
            let pod = || bound(Some(&stage.behind), family.pod, 0);
            let itself = || bound(None, node, 0);
            let (port, local_port) = (at(node, ANYWHERE), at(node, ON_NODE));
            for (who, from, to, receiver, as_whom) in [
                ("outside", outside(), port, &of_cluster, second),
                ("another node", other_node(), port, &of_cluster, second),
                ("a pod", pod(), port, &of_cluster, second),
                ("itself", itself(), port, &of_cluster, second),
                ("outside", outside(), local_port, &of_node, client),
                ("another node", other_node(), local_port, &of_node, second),
                ("a pod", pod(), local_port, &of_cluster, second),
                ("itself", itself(), local_port, &of_cluster, second),
                ("outside", outside(), anywhere, &of_cluster, second),
                ("itself", itself(), anywhere, &of_cluster, second),
                ("outside", outside(), on_node, &of_address, client),
                ("another node", other_node(), on_node, &of_address, second),
                ("a pod", pod(), on_node, &of_cluster, second),
                ("itself", itself(), on_node, &of_cluster, second),
                ("outside", outside(), guarded, &of_cluster, second),
                ("another node", other_node(), guarded, &of_cluster, second),
                ("itself", itself(), guarded, &of_cluster, second),
                ("itself", itself(), at(cluster_ip, PORT), &of_cluster, second),
            ] {
                assert_eq!(seen(&from, to, receiver), ip(as_whom), "{who} to {to}");
            }
            // What somebody sends who is not admitted is dropped: what is sent after it arrives, and is the first that does.
            let stranger = stage.client(family.stranger);
            stranger.send_to(b"dropped", guarded).unwrap();
            assert_eq!(seen(&stranger, anywhere, &of_cluster), ip(second));
            // By a node port it may.
            assert_eq!(seen(&stage.client(family.stranger), port, &of_cluster), ip(second));
            // Loopback is the node's own.
            let own = bound(None, family.loopback, ANYWHERE);
            assert_eq!(
                seen(&bound(None, family.loopback, 0), at(family.loopback, ANYWHERE), &own),
                ip(family.loopback)
            );
        }
    });
}

#[test]
fn connections_by_a_node_port_carry_what_they_should_both_ways() {
    const LENGTH: usize = 200_000;
    portolan_testbed::test(async |lab| {
        let stage = Stage::new(&lab);
        map().replace(&all_elements()).unwrap();
        for family in [V4, V6] {
            let server = at(family.cluster_ip, PORT);
            let listener = stage.behind.run(move || TcpListener::bind(server)).unwrap();
            let to = at(family.node, ANYWHERE);
            let client = stage.outside.spawn_thread("client", move || {
                let mut stream = TcpStream::connect_timeout(&to, PATIENCE).unwrap();
                stream.write_all(&vec![7; LENGTH]).unwrap();
                let mut read = vec![0; LENGTH];
                stream.read_exact(&mut read).unwrap();
                assert!(read.iter().all(|byte| *byte == 9));
            });
            let (mut stream, source) = listener.accept().unwrap();
            assert_eq!(source.ip(), ip(family.second));
            let mut read = vec![0; LENGTH];
            stream.read_exact(&mut read).unwrap();
            assert!(read.iter().all(|byte| *byte == 7));
            stream.write_all(&vec![9; LENGTH]).unwrap();
            client.unwrap().join().unwrap();
        }
    });
}

#[test]
fn what_a_service_loses_and_gets_is_in_effect_and_nothing_else_is_touched() {
    portolan_testbed::test(async |lab| {
        let stage = Stage::new(&lab);
        map().replace(&all_elements()).unwrap();
        let monitor = TableMonitor::open(service_map::TABLE).unwrap();
        let objects = || {
            let text =
                lab.command("nft").args(["-a", "list", "table", "inet", service_map::TABLE]).read().unwrap();
            text.lines().filter(|line| line.contains("# handle")).map(str::to_owned).collect::<Vec<_>>()
        };
        let before = (objects(), service_map::listed().unwrap().unwrap());
        assert!(before.1.has(&all_elements()) && before.1.is_whole(&map()));
        for family in [V4, V6] {
            let moved = |port| Element::NodePort {
                from: Clients::All,
                protocol: Protocol::Udp,
                port: ANYWHERE,
                to: at(family.cluster_ip, port),
            };
            let address = Address { ip: ip(family.addresses[2]), protocol: Protocol::Udp, port: PORT };
            let admitted: ipnet::IpNet = family.admitted.parse().unwrap();
            let wider = admitted.trunc().supernet().unwrap();
            let remove = [moved(PORT), Element::Admitted(address, admitted.trunc())];
            // In the place of what goes, and around it.
            let add = [moved(81), Element::Admitted(address, wider)];
            service_map::change(&remove, &add).unwrap();
            assert_eq!(monitor.read().unwrap(), [TableChange::Transaction]);
            let mut expected = all_elements();
            expected.retain(|element| !remove.contains(element));
            expected.extend(add);
            let listed = service_map::listed().unwrap().unwrap();
            assert!(listed.has(&expected) && !listed.has(&all_elements()) && listed.has_rules_of(&before.1));
            let elsewhere = bound(Some(&stage.behind), family.cluster_ip, 81);
            assert_eq!(
                seen(&stage.client(family.client), at(family.node, ANYWHERE), &elsewhere),
                ip(family.second)
            );
            // What the table does not have cannot be removed: nothing is done by halves.
            let other = Element::Node(ip(family.client));
            assert!(
                service_map::change(&[moved(PORT), other], &[Element::Node(ip(family.stranger))]).is_err()
            );
            assert_eq!(service_map::listed().unwrap(), Some(listed));
            service_map::change(&add, &remove).unwrap();
            assert_eq!(monitor.read().unwrap(), [TableChange::Transaction]);
        }
        assert_eq!((objects(), service_map::listed().unwrap().unwrap()), before);
        service_map::change(&[], &[]).unwrap();
        // Of others, whatever they are called.
        for table in ["inet portolan", "ip portolan-services", "inet portolan-services2"] {
            lab.command("nft").args(["add", "table"]).args(table.split(' ')).read().unwrap();
        }
        let nothing =
            |monitor: &TableMonitor| monitor.read().is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
        assert!(nothing(&monitor));
        // Whatever somebody does to it is seen, and the same as one transaction.
        let table = format!("inet {}", service_map::TABLE);
        for damage in [
            format!("flush chain {table} guard"),
            format!("flush map {table} node-ports-v4"),
            format!("add element {table} nodes-v6 {{ fd00::77 }}"),
            format!("delete table {table}"),
        ] {
            map().replace(&all_elements()).unwrap();
            while monitor.read().is_ok() {}
            lab.command("nft").arg(&damage).read().unwrap();
            assert_eq!(monitor.read().unwrap(), [TableChange::Transaction], "{damage}");
            assert!(nothing(&monitor), "{damage}");
            let listed = service_map::listed().unwrap();
            assert_eq!(
                listed.as_ref().is_some_and(|is| is.is_whole(&map())),
                damage.contains("element") || damage.contains("map"),
                "{damage}"
            );
            let is_whole = listed.is_some_and(|is| is.has(&all_elements()) && is.has_rules_of(&before.1));
            assert!(!is_whole, "{damage}");
        }
        map().replace(&all_elements()).unwrap();
        assert_eq!(service_map::listed().unwrap(), Some(before.1));
        service_map::remove().unwrap();
        service_map::remove().unwrap();
        assert_eq!(service_map::listed().unwrap(), None);
    });
}

#[test]
fn ten_thousand_services_are_written_at_once_and_one_of_them_by_itself() {
    portolan_testbed::test(async |_lab| {
        let elements: Vec<Element> = (0..10_000_u16)
            .flat_map(|number| {
                let [high, low] = number.to_be_bytes();
                let to = SocketAddr::from(([10, 96, high, low], 80));
                let address = Address { ip: [203, 0, high, low].into(), protocol: Protocol::Tcp, port: 80 };
                let from = Clients::All;
                [
                    Element::NodePort { from, protocol: Protocol::Tcp, port: 20_000 + number, to },
                    Element::Address { from, address, to },
                    Element::Guarded(address),
                    Element::Admitted(address, "198.51.100.0/24".parse().unwrap()),
                ]
            })
            .collect();
        let timed = |what: &str, body: &dyn Fn()| {
            let began = Instant::now();
            body();
            println!("{what}: {:?}", began.elapsed());
            began.elapsed()
        };
        let whole = timed("10,000 Services", &|| map().replace(&elements).unwrap());
        timed("list them", &|| assert!(service_map::listed().unwrap().unwrap().has(&elements)));
        let (one, rest) = elements.split_at(4);
        let monitor = TableMonitor::open(service_map::TABLE).unwrap();
        let of_one = timed("one of them", &|| service_map::change(one, &[]).unwrap());
        assert_eq!(monitor.read().unwrap(), [TableChange::Transaction]);
        assert!(service_map::listed().unwrap().unwrap().has(rest));
        assert!(of_one * 4 < whole, "{of_one:?} and {whole:?}");
    });
}
