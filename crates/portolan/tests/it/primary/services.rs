//! Services in OVN, without a proxy on the nodes: from pods and nodes to endpoints anywhere, by the real binaries. The test plays the part of
//! kube-controller-manager, which makes EndpointSlices.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use portolan_testbed::{Namespace, Pod, Test, TestLab};
use serde_json::{Value, json};

use crate::primary::stage::{PATIENCE, Stage};

const PORT: u16 = 8080;
/// How long an answer may take that should not come: a fence tells that the packet is dropped, and not late.
const NO_ANSWER: Duration = Duration::from_secs(2);

fn on_stage(body: impl FnOnce(&Stage) + Send + 'static) {
    Test::new().deadline(Duration::from_secs(240)).run(async move |lab: TestLab| body(&Stage::serving(&lab)));
}

/// Answers each connection, and each datagram, with its name and the address that it sees.
struct Server {
    namespace: Namespace,
    at: Vec<SocketAddr>,
    ended: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Server {
    fn start(name: &str, namespace: &Namespace, addresses: &[IpAddr]) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let at: Vec<SocketAddr> = addresses.iter().map(|address| SocketAddr::new(*address, PORT)).collect();
        let mut threads = Vec::new();
        for at in at.clone() {
            let (tcp, udp) =
                namespace.run(move || (TcpListener::bind(at).unwrap(), UdpSocket::bind(at).unwrap()));
            udp.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
            let (flag, name) = (Arc::clone(&ended), name.to_owned());
            threads.push(std::thread::spawn(move || {
                while let Ok((mut stream, peer)) = tcp.accept()
                    && !flag.load(Ordering::Relaxed)
                {
                    drop(stream.write_all(format!("{name} {}", peer.ip()).as_bytes()));
                }
            }));
            let (flag, name) = (Arc::clone(&ended), at);
            threads.push(std::thread::spawn(move || {
                let mut buffer = [0; 64];
                while !flag.load(Ordering::Relaxed) {
                    if let Ok((_, peer)) = udp.recv_from(&mut buffer) {
                        drop(udp.send_to(name.ip().to_string().as_bytes(), peer));
                    }
                }
            }));
        }
        Self { namespace: namespace.clone(), at, ended, threads }
    }

    fn of_pod(pod: &Pod) -> Self {
        Self::start(pod.name(), pod.netns(), pod.addresses())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        for at in self.at.clone() {
            drop(self.namespace.run(move || TcpStream::connect_timeout(&at, NO_ANSWER)));
        }
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

/// Who answers, and the address that the server sees.
fn ask_within(from: &Namespace, to: &str, time: Duration) -> std::io::Result<(String, IpAddr)> {
    let to: SocketAddr = to.parse().unwrap();
    from.run(move || {
        let mut stream = TcpStream::connect_timeout(&to, time)?;
        stream.set_read_timeout(Some(time))?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (name, peer) = answer.split_once(' ').ok_or(ErrorKind::UnexpectedEof)?;
        Ok((name.to_owned(), peer.parse().unwrap()))
    })
}

#[track_caller]
fn ask(from: &Namespace, to: &str) -> String {
    ask_within(from, to, PATIENCE).unwrap_or_else(|error| panic!("{to}: {error}")).0
}

/// Everybody who answers, of many times asked.
#[track_caller]
fn who_answers(from: &Namespace, to: &str) -> Vec<String> {
    let mut all: Vec<String> = (0..24).map(|_| ask(from, to)).collect();
    all.sort();
    all.dedup();
    all
}

impl Stage {
    fn service(&self, name: &str, spec: &Value) {
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default"}, "spec": spec,
        });
        self.testbed.apply(&service.to_string()).unwrap();
    }

    /// The endpoints of a Service, each with its node. One family each.
    fn endpoints(&self, service: &str, endpoints: &[(IpAddr, &str)]) {
        self.endpoints_for(service, endpoints, |_| Value::Null);
    }

    /// The same, each for the clients that its node's name says by hints.
    fn endpoints_for(&self, service: &str, endpoints: &[(IpAddr, &str)], hints: impl Fn(&str) -> Value) {
        for (family, is_v6) in [("IPv4", false), ("IPv6", true)] {
            let of_family = endpoints.iter().filter(|(address, _)| address.is_ipv6() == is_v6);
            let endpoint = |(address, node): &(IpAddr, &str)| json!({"addresses": [address.to_string()], "nodeName": node, "hints": hints(node), "conditions": {"ready": true}});
            let slice = json!({
                "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": family,
                "metadata": {
                    "name": format!("{service}-{}", family.to_lowercase()), "namespace": "default",
                    "labels": {"kubernetes.io/service-name": service},
                },
                "ports": [{"name": "", "port": PORT, "protocol": "TCP"}, {"name": "u", "port": PORT, "protocol": "UDP"}],
                "endpoints": of_family.map(endpoint).collect::<Vec<_>>(),
            });
            self.testbed.apply(&slice.to_string()).unwrap();
        }
    }

    /// Waits until every node's flows follow from what the northbound database has.
    fn wait_for_nodes(&self) {
        self.testbed.central().nbctl(&["--wait=hv", "--timeout=60", "sync"]).unwrap();
    }

    /// Waits until the load balancers of a Service have these endpoints, and every node's flows.
    fn wait_for_endpoints(&self, service: &str, endpoints: &[(IpAddr, &str)]) {
        let name = format!("service:default/{service}/tcp");
        let wanted: Vec<String> =
            endpoints.iter().map(|(address, _)| SocketAddr::new(*address, PORT).to_string()).collect();
        self.northbound.wait_until(move |cache| {
            let rows = cache.table("Load_Balancer").into_iter().flat_map(ovsdb::Table::iter);
            let texts: Vec<String> = rows
                .filter(|row| row.datum("name").is_some_and(|of| of.to_string().contains(&name)))
                .filter_map(|row| Some(row.datum("vips")?.to_string()))
                .collect();
            let all = texts.concat();
            !texts.is_empty()
                && wanted.iter().all(|one| all.contains(one))
                && all.matches(&format!(":{PORT}")).count() >= wanted.len()
        });
        self.wait_for_nodes();
    }
}

impl Stage {
    /// Waits until so many variables are at chassis, and every node's flows follow.
    fn wait_for_variables(&self, count: usize) {
        self.northbound.wait_until(move |cache| {
            let rows = cache.table("Chassis_Template_Var").into_iter().flat_map(ovsdb::Table::iter);
            rows.filter_map(|row| row.datum("variables")).map(|map| map.keys().count()).sum::<usize>()
                == count
        });
        self.wait_for_nodes();
    }
}

/// All addresses of pods, each with the pod's node.
fn endpoints_of<'a>(pods: &[&'a Pod]) -> Vec<(IpAddr, &'a str)> {
    let of_pod = |pod: &&'a Pod| pod.addresses().iter().map(|one| (*one, pod.node())).collect::<Vec<_>>();
    pods.iter().flat_map(of_pod).collect()
}

/// The API server of the lab gives Services IPv4 addresses alone; an address from outside may be an IPv6 one.
fn web(v4: &str, v6: &str) -> Value {
    json!({"clusterIP": v4, "externalIPs": [v6], "ports": [{"port": 80, "protocol": "TCP"}]})
}

#[test]
fn services_lead_from_pods_and_nodes_to_endpoints_on_any_node() {
    on_stage(|stage| {
        let testbed = &stage.testbed;
        stage.service("web", &web("10.96.0.10", "2001:db8:96::10"));
        stage.service("none", &web("10.96.0.12", "2001:db8:96::12"));
        let [a, b, c] =
            [("a", "node1"), ("b", "node2"), ("c", "node1")].map(|(name, node)| stage.pod(name, node));
        let [node1, node3] = ["node1", "node3"].map(|name| testbed.node(name).unwrap());
        let _servers = [&a, &b].map(Server::of_pod);
        let both = endpoints_of(&[&a, &b]);
        stage.endpoints("web", &both);
        stage.wait_for_endpoints("web", &both);
        stage.bind_subnet_to_default_namespace();
        let far = stage.pod("far", "node3");
        stage.wait_for_nodes();
        // Pods on the same node as an endpoint and on another, of a node's prefix and of a namespace's Subnet; an endpoint itself; nodes.
        for from in [c.netns(), b.netns(), far.netns(), a.netns()] {
            for vip in ["10.96.0.10:80", "[2001:db8:96::10]:80"] {
                assert_eq!(who_answers(from, vip), ["a", "b"], "{vip}");
            }
        }
        for from in [node1, node3] {
            assert_eq!(who_answers(from.namespace(), "10.96.0.10:80"), ["a", "b"], "{}", from.name());
        }
        // Nobody answers: who asks is told at once.
        for (from, vip) in [
            (c.netns(), "10.96.0.12:80"),
            (c.netns(), "[2001:db8:96::12]:80"),
            (node1.namespace(), "10.96.0.12:80"),
        ] {
            let refused = ask_within(from, vip, PATIENCE).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::ConnectionRefused, "{vip}: {refused}");
        }
        // An address that no Service has leads nowhere, also not round.
        let nowhere = ask_within(c.netns(), "10.96.0.99:80", NO_ANSWER).unwrap_err();
        assert!(matches!(
            nowhere.kind(),
            ErrorKind::TimedOut | ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable
        ));
        // Pods are seen with their own addresses.
        let (_, seen) = ask_within(c.netns(), "10.96.0.10:80", PATIENCE).unwrap();
        assert!(c.addresses().contains(&seen), "{seen}");
        // One endpoint goes: nobody gets there any more, and only this Service's row changes.
        let recording = stage.northbound.record();
        let left = endpoints_of(&[&b]);
        stage.endpoints("web", &left);
        stage.northbound.wait_until({
            let gone = SocketAddr::new(a.address(), PORT).to_string();
            let gone6 = SocketAddr::new(a.addresses()[1], PORT).to_string();
            move |cache| {
                let rows = cache.table("Load_Balancer").into_iter().flat_map(ovsdb::Table::iter);
                let vips: String = rows.filter_map(|row| Some(row.datum("vips")?.to_string())).collect();
                !vips.contains(&gone) && !vips.contains(&gone6)
            }
        });
        stage.wait_for_nodes();
        for from in [c.netns(), a.netns(), node1.namespace()] {
            assert_eq!(who_answers(from, "10.96.0.10:80"), ["b"]);
        }
        let disturbed = recording.disturbed();
        assert!(disturbed.iter().all(|unit| unit.contains("service/default/web")), "{disturbed:?}");
    });
}

#[test]
fn a_service_of_policy_local_stays_on_the_node_where_its_traffic_comes_in() {
    on_stage(|stage| {
        let testbed = &stage.testbed;
        let mut spec = web("10.96.0.20", "2001:db8:96::20");
        spec["internalTrafficPolicy"] = json!("Local");
        stage.service("local", &spec);
        stage.service("web", &web("10.96.0.10", "2001:db8:96::10"));
        let [a, b, c, d] = [("a", "node1"), ("b", "node2"), ("c", "node1"), ("d", "node3")]
            .map(|(name, node)| stage.pod(name, node));
        let _servers = [&a, &b].map(Server::of_pod);
        let all = endpoints_of(&[&a, &b]);
        stage.endpoints("local", &all);
        stage.endpoints("web", &all);
        stage.wait_for_endpoints("web", &all);
        stage.wait_for_variables(2);
        let [node1, node2] = ["node1", "node2"].map(|name| testbed.node(name).unwrap());
        let vip = "10.96.0.20:80";
        for (from, answers) in [
            (c.netns(), "a"),
            (a.netns(), "a"),
            (b.netns(), "b"),
            (node1.namespace(), "a"),
            (node2.namespace(), "b"),
        ] {
            assert_eq!(who_answers(from, vip), [answers]);
        }
        // None is on the third node: dropped, and not refused. The other Service is the fence: it answers all the while.
        assert_eq!(who_answers(d.netns(), "10.96.0.10:80"), ["a", "b"]);
        let dropped = ask_within(d.netns(), vip, NO_ANSWER).unwrap_err();
        assert_eq!(dropped.kind(), ErrorKind::TimedOut, "{dropped}");
        // By an address from outside pods get anywhere, whatever the policy for cluster IPs is.
        assert_eq!(who_answers(d.netns(), "[2001:db8:96::20]:80"), ["a", "b"]);
    });
}

#[test]
fn a_service_with_hints_leads_to_endpoints_of_the_clients_node_by_both_families() {
    on_stage(|stage| {
        let testbed = &stage.testbed;
        stage.service("near", &web("10.96.0.30", "2001:db8:96::30"));
        let [a, b, c, d] = [("a", "node1"), ("b", "node2"), ("c", "node1"), ("d", "node3")]
            .map(|(name, node)| stage.pod(name, node));
        let _servers = [&a, &b].map(Server::of_pod);
        let all = endpoints_of(&[&a, &b]);
        stage.endpoints_for("near", &all, |node| json!({"forNodes": [{"name": node}]}));
        // Of each node its endpoints of either family, and the IPv6 address itself.
        stage.wait_for_variables(9);
        for vip in ["10.96.0.30:80", "[2001:db8:96::30]:80"] {
            for (from, answers) in [(&c, &["a"][..]), (&a, &["a"]), (&b, &["b"]), (&d, &["a", "b"])] {
                assert_eq!(who_answers(from.netns(), vip), answers, "{} to {vip}", from.name());
            }
        }
        let node2 = testbed.node("node2").unwrap();
        assert_eq!(who_answers(node2.namespace(), "10.96.0.30:80"), ["b"]);
    });
}
