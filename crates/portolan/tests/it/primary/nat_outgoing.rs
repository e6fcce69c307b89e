//! With which address pods leave the cluster: what a host outside sees, as `natOutgoing` of a Subnet says and while it is changed.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};

use portolan_testbed::{Node, Pod};

use crate::primary::on_stage;
use crate::primary::stage::{PATIENCE, Stage, connect};

/// As a user of Kube-OVN makes it for a namespace.
const SUBNET: &str = r#"
apiVersion: kubeovn.io/v1
kind: Subnet
metadata: {name: shop}
spec: {vpc: ovn-cluster, cidrBlock: "10.51.0.0/24,fd00:51::/64", namespaces: [default]}
"#;

/// What a proxy of Services does on a node, for one of whose backends no pod is one.
const SERVICE: &str = "10.96.0.77";

fn ipv6_of(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(v4) => format!("fd00:ee::{:x}", v4.octets()[3]).parse().unwrap(),
        IpAddr::V6(v6) => v6,
    }
}

impl Stage {
    /// The host outside and the nodes, by both families.
    fn outside(&self) -> [IpAddr; 2] {
        let testbed = &self.testbed;
        let home = IpAddr::from(testbed.underlay().home_address());
        let nodes = testbed.nodes().iter().map(|node| (node.namespace(), "br-und", node.address().into()));
        for (namespace, link, address) in nodes.chain([(testbed.lab().home(), "underlay", home)]) {
            namespace.sysctl(&format!("net.ipv6.conf.{link}.disable_ipv6"), "0").unwrap();
            namespace.ip(&format!("address add {}/64 dev {link} nodad", ipv6_of(address))).unwrap();
        }
        [home, ipv6_of(home).into()]
    }

    /// What is outside routes to a pod by its node: nobody does that for pods who hide behind their node.
    fn route_from_outside(&self, pod: &Pod, node: &Node) {
        for address in pod.addresses() {
            let by = IpAddr::from(node.address());
            let by = if address.is_ipv4() { by } else { ipv6_of(by).into() };
            self.testbed.lab().home().ip(&format!("route add {address} via {by}")).unwrap();
        }
    }

    /// The address that a pod has for a host outside.
    fn seen_at(&self, pod: &Pod, outside: IpAddr) -> IpAddr {
        let listener = TcpListener::bind((outside, 0)).unwrap();
        let to = listener.local_addr().unwrap();
        let client = pod.netns().spawn_thread("client", move || connect(to)).unwrap();
        let (_, peer) = listener.accept().unwrap();
        client.join().unwrap().unwrap();
        peer.ip()
    }

    /// A pod leaves with its own addresses, or those of its node: at once, or once the agent knows. The deadline is the test's.
    fn wait_until_left_with(&self, pod: &Pod, outside: [IpAddr; 2], expected: &[IpAddr]) {
        for (outside, expected) in outside.into_iter().zip(expected) {
            while self.seen_at(pod, outside) != *expected {
                std::thread::yield_now();
            }
        }
    }

    fn set_nat_outgoing(&self, value: &str) {
        let patch = format!(r#"{{"spec": {{"natOutgoing": {value}}}}}"#);
        self.kubectl(&["patch", "subnets.kubeovn.io/shop", "--type=merge", "-p", &patch]);
    }
}

/// A connection that lasts.
struct Conversation {
    inside: TcpStream,
    outside: TcpStream,
}

impl Conversation {
    fn begin(pod: &Pod, outside: IpAddr) -> Self {
        let listener = TcpListener::bind((outside, 0)).unwrap();
        let to = listener.local_addr().unwrap();
        let inside = pod.netns().run(move || connect(to)).unwrap();
        let (outside, _) = listener.accept().unwrap();
        for stream in [&inside, &outside] {
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
        }
        Self { inside, outside }
    }

    #[track_caller]
    fn goes_on(&self) {
        for (mut from, mut to) in [(&self.inside, &self.outside), (&self.outside, &self.inside)] {
            from.write_all(b"still here").unwrap();
            let mut heard = [0; 10];
            to.read_exact(&mut heard).unwrap();
            assert_eq!(&heard, b"still here");
        }
    }
}

#[test]
fn pods_leave_the_cluster_with_the_address_that_nat_outgoing_of_their_subnet_says() {
    on_stage(|stage| {
        let testbed = &stage.testbed;
        let outside = stage.outside();
        let [node1, node3] = ["node1", "node3"].map(|node| testbed.node(node).unwrap());
        let of_node = |node: &Node| {
            let v4 = IpAddr::from(node.address());
            [v4, ipv6_of(v4).into()]
        };
        let of_prefix = stage.pod("prefix", "node1");
        testbed.apply(SUBNET).unwrap();
        stage.kubectl(&["wait", "--for=condition=Ready", "subnets.kubeovn.io/shop", "--timeout=30s"]);
        let [near, far] = [("near", "node1"), ("far", "node3")].map(|(name, node)| stage.pod(name, node));
        for (pod, node) in [(&near, node1), (&far, node3)] {
            assert!(pod.address().to_string().starts_with("10.51.0."), "{:?}", pod.addresses());
            stage.route_from_outside(pod, node);
        }

        // As with Kube-OVN, without the field pods of such a Subnet leave as themselves, and those of nodes' prefixes do not.
        stage.wait_until_left_with(&near, outside, near.addresses());
        stage.wait_until_left_with(&far, outside, far.addresses());
        stage.wait_until_left_with(&of_prefix, outside, &of_node(node1));

        // What is outside reaches such a pod too, and the pod sees who it is.
        let at = SocketAddr::new(near.address(), 7777);
        let listener = near.netns().run(move || TcpListener::bind(at)).unwrap();
        let _client = connect(at).unwrap();
        assert_eq!(listener.accept().unwrap().1.ip(), outside[0]);

        // What the node itself translates comes back to it, whatever the Subnet says.
        let service = TcpListener::bind((outside[0], 0)).unwrap();
        let port = service.local_addr().unwrap().port();
        let script = format!(
            "table ip services {{ chain prerouting {{ type nat hook prerouting priority dstnat; \
             ip daddr {SERVICE} tcp dport 80 dnat to {}:{port}\n}}\n}}",
            outside[0]
        );
        node1.command("nft").args(["-f", "-"]).stdin(script).read().unwrap();
        let to = SocketAddr::new(SERVICE.parse().unwrap(), 80);
        let client = near.netns().spawn_thread("client", move || connect(to)).unwrap();
        assert_eq!(service.accept().unwrap().1.ip(), of_node(node1)[0]);
        client.join().unwrap().unwrap();

        // The field changes while pods run: what begins afterwards follows, and what has begun goes on.
        let table = || {
            let listed =
                node1.command("nft").args(["-a", "list", "table", "inet", "portolan"]).read().unwrap();
            listed.lines().filter(|line| line.contains("# handle")).map(str::to_owned).collect::<Vec<_>>()
        };
        let rules = table();
        let as_itself = Conversation::begin(&near, outside[0]);
        stage.set_nat_outgoing("true");
        stage.wait_until_left_with(&near, outside, &of_node(node1));
        stage.wait_until_left_with(&far, outside, &of_node(node3));
        as_itself.goes_on();
        let as_the_node = Conversation::begin(&near, outside[1]);
        stage.set_nat_outgoing("false");
        stage.wait_until_left_with(&near, outside, near.addresses());
        stage.wait_until_left_with(&far, outside, far.addresses());
        as_itself.goes_on();
        as_the_node.goes_on();
        assert_eq!(table(), rules, "only elements of sets were written");

        // An agent that begins anew finds it as it is.
        testbed.agents()[0].kill().unwrap();
        testbed.agents()[0].restart().unwrap();
        stage.wait_until_left_with(&near, outside, near.addresses());
        stage.wait_until_left_with(&of_prefix, outside, &of_node(node1));
        as_itself.goes_on();
    });
}
