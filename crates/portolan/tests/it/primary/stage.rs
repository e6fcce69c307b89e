//! The cluster of these tests: three nodes whose pods' first interfaces are Portolan's. The test calls the CNI plugin as a runtime does.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use portolan_testbed::cluster::Programs;
use portolan_testbed::{
    Daemon, Namespace, Node, Northbound, Pod, Process, Ready, TestLab, Testbed, TestbedBuilder,
};

/// A port of a node that leads to a pod.
const PORT: u16 = 8089;
/// What goes each way of a connection.
const STREAM: usize = 200_000;
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

const SUBNET: &str = r#"
apiVersion: portolan.dev/v1alpha1
kind: Subnet
metadata: {name: apps}
spec: {vpc: ovn-cluster, cidrBlock: "10.50.0.0/24,fd00:50::/64", namespaces: [default]}
"#;

/// Runs a program, and has the kernel refuse it and all that it starts each socket(AF_NETLINK, .., NETLINK_NETFILTER).
const WITHOUT_NFTABLES: &str = r#"
import ctypes, os, platform, struct, sys
SOCKET = {"x86_64": 41, "aarch64": 198}[platform.machine()]
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
def instruction(code, skip_if_not, value): return struct.pack("HBBI", code, 0, skip_if_not, value)
program = b"".join([
    instruction(LOAD, 0, 0), instruction(EQUAL, 5, SOCKET),
    instruction(LOAD, 0, 16), instruction(EQUAL, 3, 16),
    instruction(LOAD, 0, 32), instruction(EQUAL, 1, 12),
    instruction(RETURN, 0, 0x50000 | 93),
    instruction(RETURN, 0, 0x7fff0000),
])
code = ctypes.create_string_buffer(program)
filter = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code))
libc = ctypes.CDLL(None, use_errno=True)
no_new_privileges, seccomp, by_filter = 38, 22, 2
assert libc.prctl(no_new_privileges, 1, 0, 0, 0) == 0
assert libc.prctl(seccomp, by_filter, ctypes.c_char_p(filter)) == 0, ctypes.get_errno()
os.execv(sys.argv[1], sys.argv[1:])
"#;

pub(crate) struct Stage {
    pub(crate) testbed: Testbed,
    pub(crate) northbound: Northbound,
}

impl Stage {
    /// Raises everything and waits until every node has its port.
    pub(crate) fn start(lab: &TestLab) -> Self {
        Self::with(lab, |testbed| testbed.services(&["10.96.0.0/16"]))
    }

    /// The same where Portolan serves Services.
    pub(crate) fn serving(lab: &TestLab) -> Self {
        Self::with(lab, |testbed| testbed.serves_services(&["10.96.0.0/16", "fd96::/112"]))
    }

    fn with(lab: &TestLab, how: impl FnOnce(TestbedBuilder) -> TestbedBuilder) -> Self {
        let networks = ["10.16.0.0/14", "fd00:16::/32"];
        let testbed = how(Testbed::builder().nodes(3).primary(&networks));
        let testbed = testbed.without_runtimes().start(lab).unwrap();
        let northbound = testbed.northbound();
        let stage = Self { testbed, northbound };
        for number in 1..=3 {
            stage.give_prefixes(&format!("node{number}"), number);
        }
        stage.wait_for_node_ports();
        stage
    }

    pub(crate) fn kubectl(&self, arguments: &[&str]) -> String {
        self.testbed.kubectl().unwrap().args(arguments).read().unwrap()
    }

    /// As kube-controller-manager does.
    pub(crate) fn give_prefixes(&self, node: &str, number: u8) {
        let (v4, v6) = (format!("10.16.{number}.0/24"), format!("fd00:16:{number}::/64"));
        let patch = format!(r#"{{"spec": {{"podCIDR": "{v4}", "podCIDRs": ["{v4}", "{v6}"]}}}}"#);
        self.kubectl(&["patch", "node", node, "--type=merge", "-p", &patch]);
    }

    /// As a kubelet does that registers its node.
    pub(crate) fn make_node(&self, name: &str) {
        let address = self.testbed.node(name).unwrap().address();
        let node = format!(r#"{{"apiVersion": "v1", "kind": "Node", "metadata": {{"name": "{name}"}}}}"#);
        self.testbed.kubectl().unwrap().args(["create", "-f-"]).stdin(node).read().unwrap();
        let status =
            format!(r#"{{"status": {{"addresses": [{{"type": "InternalIP", "address": "{address}"}}]}}}}"#);
        self.kubectl(&["patch", "node", name, "--subresource=status", "--type=merge", "-p", &status]);
    }

    pub(crate) fn wait_for_node_ports(&self) {
        self.northbound.wait_until(|cache| {
            let units = Northbound::units_in(cache);
            units.iter().filter(|unit| unit.starts_with("attachment/node/")).count() == 3
        });
    }

    /// An agent with other flags, in the place of a node's own, which was killed.
    pub(crate) fn agent_with(&self, node: &Node, flags: &[&str]) -> Process {
        let name = node.name();
        let daemon =
            Daemon::new(format!("{name}/agent{}", flags.concat()), Programs::built().unwrap().portolan());
        self.start_agent(daemon.arg("agent").args(flags), node)
    }

    /// The same with `--primary`, on what is to the agent a kernel without nftables.
    pub(crate) fn agent_without_nftables(&self, node: &Node) -> Process {
        let daemon = Daemon::new(format!("{}/agent-without-nftables", node.name()), "python3");
        let daemon = daemon.args(["-c", WITHOUT_NFTABLES]).arg(Programs::built().unwrap().portolan());
        self.start_agent(daemon.args(["agent", "--primary"]), node)
    }

    fn start_agent(&self, daemon: Daemon, node: &Node) -> Process {
        let kubeconfig = self.testbed.kubeconfig_for(node.name()).unwrap();
        let daemon = daemon.args(["--node", node.name(), "--kubeconfig"]).arg(kubeconfig);
        daemon.ready(Ready::Notify).start(node.namespace()).unwrap()
    }

    /// Waits until a node has nothing of the primary network. What is waited for are changes of the kernel; the deadline is the test's.
    pub(crate) fn wait_until_nothing_is_left_on(&self, node: &Node) {
        let is_left = |words: &[&str]| node.command(words[0]).args(&words[1..]).read().is_ok();
        while is_left(&["ip", "link", "show", "portolan0"])
            || is_left(&["nft", "list", "table", "inet", "portolan"])
        {
            std::thread::yield_now();
        }
    }

    /// A pod with a sandbox on a node.
    pub(crate) fn pod(&self, name: &str, node: &str) -> Pod {
        self.testbed.pod(name).on(node).create().unwrap();
        self.testbed.sandbox(name).unwrap().add().unwrap()
    }

    /// Whether a pod has addresses of both families of a node's prefixes.
    pub(crate) fn is_of_node(&self, pod: &Pod, number: u8) -> bool {
        let prefixes = [format!("10.16.{number}."), format!("fd00:16:{number}:")];
        let has = |prefix: &String| pod.addresses().iter().any(|one| one.to_string().starts_with(prefix));
        prefixes.iter().all(has)
    }

    pub(crate) fn bind_subnet_to_default_namespace(&self) {
        self.testbed.apply(SUBNET).unwrap();
        self.kubectl(&["wait", "--for=condition=Ready", "subnets.portolan.dev/apps", "--timeout=30s"]);
    }

    /// Sends each way over a connection from one namespace to an address of another.
    #[track_caller]
    pub(crate) fn transfer(&self, from: &Namespace, to: &Namespace, address: IpAddr) {
        let listener = to.run(move || TcpListener::bind((address, 0))).unwrap();
        let port = listener.local_addr().unwrap();
        let server = to.spawn_thread("server", move || exchange(listener.accept()?.0)).unwrap();
        let client = from.spawn_thread("client", move || exchange(connect(port)?)).unwrap();
        let (client, server) = (client.join().unwrap(), server.join().unwrap());
        assert_eq!((client.unwrap(), server.unwrap()), (STREAM, STREAM), "{address}");
    }

    /// The address that a pod has for a server outside the cluster.
    pub(crate) fn seen_outside(&self, pod: &Pod) -> Ipv4Addr {
        let outside = self.testbed.underlay().home_address();
        let listener = TcpListener::bind((outside, 0)).unwrap();
        let to = listener.local_addr().unwrap();
        let client = pod.netns().spawn_thread("client", move || connect(to)).unwrap();
        let (_, peer) = listener.accept().unwrap();
        client.join().unwrap().unwrap();
        match peer.ip() {
            IpAddr::V4(v4) => v4,
            IpAddr::V6(v6) => panic!("{v6}"),
        }
    }

    /// Leads a port of a node to a pod on it, as the plugin `portmap` does.
    pub(crate) fn forward_port(&self, node: &Node, pod: &Pod) {
        let script = format!(
            "table ip ports {{ chain to_pod {{ fib daddr type local tcp dport {PORT} dnat to {}\n}}
             chain prerouting {{ type nat hook prerouting priority -100; jump to_pod\n}}
             chain output {{ type nat hook output priority -100; jump to_pod\n}}\n}}",
            pod.address()
        );
        node.command("nft").args(["-f", "-"]).stdin(script).read().unwrap();
    }

    /// The address that a client at that port has for the pod.
    #[track_caller]
    pub(crate) fn seen_behind_port(&self, from: &Namespace, node: IpAddr, pod: &Pod) -> IpAddr {
        let behind = SocketAddr::new(pod.address(), PORT);
        let listener = pod.netns().run(move || TcpListener::bind(behind)).unwrap();
        from.run(move || connect(SocketAddr::new(node, PORT))).unwrap();
        listener.accept().unwrap().1.ip()
    }

    /// A node reaches a pod: at once, or once what was restarted is back.
    #[track_caller]
    pub(crate) fn node_reaches(&self, node: &Node, pod: &Pod) {
        for address in pod.addresses() {
            let (begun, address) = (Instant::now(), address.to_string());
            // It ends early where its neighbour does not answer, as while Open vSwitch has no flows yet.
            while let Err(error) = node.command("ping").args(["-c1", "-w30", &address]).read() {
                assert!(begun.elapsed() < PATIENCE, "{error}");
            }
        }
    }

    /// OVN's switches and routers with their ports, in an order of their own.
    pub(crate) fn of_ovn(&self) -> BTreeSet<String> {
        self.testbed.central().nbctl(&["show"]).unwrap().lines().map(str::to_owned).collect()
    }

    /// The node's own part, once it is whole. Its last route is that of the second address.
    pub(crate) fn whole_host(&self, node: &Node, number: u8) -> String {
        loop {
            let host = self.of_host(node);
            if host.contains(&format!("fd00:16:{number}::3 via")) {
                return host;
            }
            std::thread::yield_now();
        }
    }

    /// The node's own part, as the kernel and Open vSwitch have it.
    pub(crate) fn of_host(&self, node: &Node) -> String {
        let read = |words: &[&str]| {
            let output = node.command(words[0]).args(&words[1..]).output().unwrap();
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        // Without what is another every time: numbers of links, and what is on its way.
        let parts = [
            // A tap that is up may say that it does not know.
            read(&["ip", "-br", "address", "show", "dev", "portolan0", "scope", "global"])
                .split_whitespace()
                .map(|word| if word == "UNKNOWN" { "UP" } else { word })
                .collect::<Vec<_>>()
                .join(" "),
            read(&["ip", "-4", "route", "show", "dev", "portolan0"]),
            read(&["ip", "-6", "route", "show", "dev", "portolan0", "proto", "static"]),
            read(&["nft", "list", "table", "inet", "portolan"]),
            read(&["sysctl", "net.ipv4.conf.all.send_redirects"]),
        ];
        parts.join("---\n")
    }

    /// Waits until the node's own part is like this again. What is waited for are changes of the kernel; the deadline is the test's.
    pub(crate) fn wait_for_host(&self, node: &Node, expected: &str) {
        while self.of_host(node) != expected {
            std::thread::yield_now();
        }
    }
}

pub(crate) fn connect(to: SocketAddr) -> std::io::Result<TcpStream> {
    TcpStream::connect_timeout(&to, PATIENCE)
}

/// Sends, and receives the same amount.
fn exchange(mut stream: TcpStream) -> std::io::Result<usize> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut writer = stream.try_clone()?;
    let sender = std::thread::spawn(move || {
        writer.write_all(&vec![7; STREAM])?;
        writer.shutdown(std::net::Shutdown::Write)
    });
    let mut received = Vec::new();
    stream.read_to_end(&mut received)?;
    sender.join().map_err(|_| std::io::Error::other("the sender panicked"))??;
    Ok(received.len())
}
