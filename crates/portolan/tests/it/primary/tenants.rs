//! Namespaces of two tenants with the same addresses, on the same nodes.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use portolan_testbed::Pod;

use crate::primary::on_stage;
use crate::primary::stage::Stage;

const PORT: u16 = 7777;
const PATIENCE: Duration = Duration::from_secs(30);
/// How long is waited for what must not come.
const SILENCE: Duration = Duration::from_secs(1);

const TENANTS: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: red}
---
apiVersion: v1
kind: Namespace
metadata: {name: blue}
---
apiVersion: portolan.dev/v1alpha1
kind: Vpc
metadata: {name: red}
---
apiVersion: kubeovn.io/v1
kind: Vpc
metadata: {name: blue}
---
apiVersion: portolan.dev/v1alpha1
kind: Subnet
metadata: {name: red}
spec: {vpc: red, cidrBlock: "10.1.0.0/24,fd01::/64", namespaces: [red]}
---
apiVersion: kubeovn.io/v1
kind: Subnet
metadata: {name: blue}
spec: {vpc: blue, cidrBlock: "10.1.0.0/24,fd01::/64", namespaces: [blue]}
"#;

/// A Subnet whose pods could not be probed.
const OVERLAPPING: &str = r#"
apiVersion: portolan.dev/v1alpha1
kind: Subnet
metadata: {name: overlapping}
spec: {vpc: red, cidrBlock: 10.96.7.0/24, namespaces: [default]}
"#;

impl Stage {
    /// A pod of a tenant that asks for an address.
    fn tenant(&self, tenant: &str, name: &str, node: &str, v4: &str, v6: &str) -> Pod {
        let name = format!("{tenant}-{name}");
        let addresses = format!("{v4},{v6}");
        let pod = self.testbed.pod(&name).namespace(tenant).on(node);
        pod.annotation("ovn.kubernetes.io/ip_address", &addresses).create().unwrap();
        self.testbed.sandbox_in(tenant, &name).unwrap().add().unwrap()
    }
}

/// A connection from one pod to an address arrives at one of two pods that have it, and not at the other.
#[track_caller]
fn arrives(from: &Pod, address: &str, at: &Pod, not_at: &Pod, sender: &str) {
    let [address, sender] = [address, sender].map(|address| address.parse::<IpAddr>().unwrap());
    let to = SocketAddr::new(address, PORT);
    let listen = |pod: &Pod| pod.netns().run(move || TcpListener::bind(to)).unwrap();
    let (at, not_at) = (listen(at), listen(not_at));
    [&at, &not_at].into_iter().for_each(|listener| listener.set_nonblocking(true).unwrap());
    let stream = from.netns().run(move || TcpStream::connect_timeout(&to, PATIENCE)).unwrap();
    loop {
        let wrong = not_at.accept();
        assert!(matches!(&wrong, Err(error) if error.kind() == ErrorKind::WouldBlock), "{wrong:?}");
        match at.accept() {
            Ok((_, peer)) => {
                return assert_eq!((peer.ip(), stream.peer_addr().unwrap().ip()), (sender, address));
            }
            // The kernel has seen the connection begin; its last packet is on its way.
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Nothing comes of a connection from a pod, and nothing of it arrives at `listener`.
#[track_caller]
fn is_dropped(from: &Pod, listener: &TcpListener) {
    let to = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    let outcome = from.netns().run(move || TcpStream::connect_timeout(&to, SILENCE));
    assert!(outcome.is_err(), "{to}: {outcome:?}");
    let arrived = listener.accept();
    assert!(matches!(&arrived, Err(error) if error.kind() == ErrorKind::WouldBlock), "{to}: {arrived:?}");
}

fn of_pod(pod: &Pod, arguments: &[&str]) -> String {
    pod.netns().command("ip").args(arguments).read().unwrap()
}

#[test]
fn pods_of_tenants_with_the_same_addresses_reach_their_own_vpc_and_their_nodes() {
    on_stage(|stage| {
        let testbed = &stage.testbed;
        testbed.apply(TENANTS).unwrap();
        for subnet in ["subnets.portolan.dev/red", "subnets.kubeovn.io/blue"] {
            stage.kubectl(&["wait", "--for=condition=Ready", subnet, "--timeout=30s"]);
        }
        let [red_a, blue_a] = ["red", "blue"].map(|t| stage.tenant(t, "a", "node1", "10.1.0.10", "fd01::10"));
        let [red_b, blue_b] = ["red", "blue"].map(|t| stage.tenant(t, "b", "node2", "10.1.0.20", "fd01::20"));
        let blue_c = stage.tenant("blue", "c", "node1", "10.1.0.30", "fd01::30");

        // What a pod is known by is on the primary network; what Kube-OVN's annotation asks for is in the VPC.
        assert!(stage.is_of_node(&red_a, 1) && stage.is_of_node(&blue_b, 2), "{:?}", red_a.addresses());
        let own = red_a.addresses()[0];
        let routes = of_pod(&red_a, &["-4", "route"]);
        for route in [
            "default via 10.1.0.1 dev vpc0",
            "10.1.0.0/24 dev vpc0",
            "10.16.0.0/14 via 10.16.1.1 dev eth0",
            "10.16.1.0/24 dev eth0",
            "10.96.0.0/16 via 10.16.1.1 dev eth0",
            "172.31.0.11 via 10.16.1.1 dev eth0",
        ] {
            assert!(routes.contains(route), "{route} is not in\n{routes}");
        }
        assert!(of_pod(&red_a, &["-6", "route"]).contains("default via fd01::1 dev vpc0"));

        // Each tenant's pods reach each other across nodes, and nobody else who has the same address on the same node.
        for (to, from) in [("10.1.0.20", "10.1.0.10"), ("fd01::20", "fd01::10")] {
            arrives(&red_a, to, &red_b, &blue_b, from);
            arrives(&blue_a, to, &blue_b, &red_b, from);
        }
        let only_blue = SocketAddr::new("10.1.0.30".parse().unwrap(), PORT);
        let listener = blue_c.netns().run(move || TcpListener::bind(only_blue)).unwrap();
        is_dropped(&red_a, &listener);
        stage.transfer(blue_a.netns(), blue_c.netns(), only_blue.ip());

        // The kubelet of its node, and what the node serves, reach it by its first interface, and it answers by that.
        for (node, pod) in [("node1", &red_a), ("node1", &blue_a), ("node2", &blue_b)] {
            let node = testbed.node(node).unwrap();
            for address in &pod.addresses()[..2] {
                stage.transfer(node.namespace(), pod.netns(), *address);
            }
            stage.transfer(pod.netns(), node.namespace(), node.address().into());
        }
        assert!(of_pod(&red_a, &["route", "get", "10.96.0.10"]).contains(&format!("dev eth0 src {own}")));
        // What leaves goes to the VPC's router, which has no way out yet.
        let outside = TcpListener::bind((testbed.underlay().home_address(), 0)).unwrap();
        is_dropped(&red_a, &outside);

        // What could not be probed is refused.
        testbed.apply(OVERLAPPING).unwrap();
        let overlapping = "subnets.portolan.dev/overlapping";
        stage.kubectl(&["wait", "--for=condition=Validated=False", overlapping, "--timeout=30s"]);
        let why = "-o=jsonpath={.status.conditions[?(@.type=='Validated')].message}";
        let why = stage.kubectl(&["get", overlapping, why]);
        assert!(why.contains("overlaps 10.96.0.0/16 of the cluster (--cluster-network)"), "{why}");
    });
}
