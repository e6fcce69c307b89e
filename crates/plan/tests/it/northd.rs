//! Every scene in a real northbound database with a real ovn-northd: it has nothing to complain about, and `ovn-trace`
//! sees the traffic that there should be, and none that there should not.

use std::collections::BTreeSet;

use ovsdb::{Client, Endpoint, Monitor, SmolStr};
use portolan_plan::northbound::DATABASE;
use portolan_plan::{Plan, batches, plan};
use portolan_testbed::{OvnCentral, TestLab};

use crate::object::{Guest, pod};
use crate::scene::{self, Scene};

/// As a driver would have it: a scene is one transaction. northd complains of routes that it sees before the router's ports.
const BATCH: usize = 1000;

const DHCP_DISCOVER: &str = "eth.dst == ff:ff:ff:ff:ff:ff && ip4.src == 0.0.0.0 && ip4.dst == 255.255.255.255 && \
                             ip.ttl == 64 && udp.src == 68 && udp.dst == 67";

/// A scene in a real OVN.
struct Ovn {
    lab: TestLab,
    central: OvnCentral,
    client: Client,
}

impl Ovn {
    /// Starts OVN and brings the scene about.
    async fn with(lab: TestLab, scene: &Scene) -> Self {
        let central = OvnCentral::builder().start(&lab).unwrap();
        let builder =
            Client::builder("OVN_Northbound", Endpoint::parse_list(&central.nb().endpoint()).unwrap());
        let client = monitors().into_iter().fold(builder, ovsdb::Builder::monitor).connect();
        client.ready().await;
        // northd complains of a port that asks for a chassis it does not know.
        central.sbctl(&["chassis-add", "chassis-of-node-1", "geneve", "127.0.0.1"]).unwrap();
        central.sbctl(&["chassis-add", "chassis-of-node-2", "geneve", "127.0.0.2"]).unwrap();
        let ovn = Ovn { lab, central, client };
        ovn.bring_about(scene).await;
        ovn
    }

    async fn bring_about(&self, scene: &Scene) {
        let world = scene.world();
        let rows: Vec<_> = world
            .units()
            .filter_map(|unit| match plan(&unit, &world, &scene.settings) {
                Plan::Desired(rows) => Some(rows),
                _ => None,
            })
            .collect();
        assert!(!rows.is_empty());
        let change = DATABASE.diff(&rows, &[], &self.client.read());
        assert_eq!(change.waiting, []);
        for batch in batches(change.atoms, BATCH) {
            self.client.transact(&batch.transaction()).await.unwrap();
        }
        assert_eq!(DATABASE.diff(&rows, &[], &self.client.read()), portolan_plan::Diff::default());
        self.central.nbctl(&["--wait=sb", "sync"]).unwrap();
        self.assert_no_complaint();
        // What northd and others add to the rows is left alone.
        assert_eq!(DATABASE.diff(&rows, &[], &self.client.read()), portolan_plan::Diff::default());
    }

    async fn remove(&self, scene: &Scene) {
        let stale: Vec<SmolStr> = scene.world().units().map(|unit| unit.to_string().into()).collect();
        let change = DATABASE.diff(&[], &stale, &self.client.read());
        for batch in batches(change.atoms, BATCH) {
            self.client.transact(&batch.transaction()).await.unwrap();
        }
        assert_eq!(self.client.read().tables().iter().map(ovsdb::Table::len).sum::<usize>(), 0);
        self.central.nbctl(&["--wait=sb", "sync"]).unwrap();
        self.assert_no_complaint();
    }

    fn assert_no_complaint(&self) {
        let log = std::fs::read_to_string(self.central.northd().log()).unwrap();
        let complaints: Vec<_> = log
            .lines()
            .filter(|line| ["|WARN|", "|ERR|", "|EMER|"].iter().any(|level| line.contains(level)))
            .collect();
        assert!(complaints.is_empty(), "{complaints:#?}");
    }

    /// What becomes of a packet, as `ovn-trace` tells it.
    fn trace(&self, options: &[&str], from: &Guest, packet: &str) -> String {
        let is_of_node = from.subnet.starts_with("node:");
        let datapath = if is_of_node { from.subnet.to_owned() } else { format!("subnet:{}", from.subnet) };
        let flow = format!("inport == \"{}\" && eth.src == {} && {packet}", from.port(), from.mac());
        let trace = self.lab.command("ovn-trace").arg(format!("--db={}", self.central.sb().endpoint()));
        trace.args(["--minimal", "--no-leader-only"]).args(options).args([datapath, flow]).read().unwrap()
    }

    /// The ports that a new connection's first packet of `protocol` from one address to another comes out of.
    fn reaches(&self, from: &Guest, source: &str, to: &str, next: &str, protocol: &str) -> Vec<String> {
        let ip = if source.contains(':') { "ip6" } else { "ip4" };
        let packet = format!(
            "eth.dst == {next} && {ip}.src == {source} && {ip}.dst == {to} && ip.ttl == 64 && {protocol}"
        );
        let new = ["--ct=new", "--ct=new"];
        outputs(&self.trace(&new, from, &packet))
    }

    /// A new connection to port 80 of a Service that is sent to this endpoint comes out of these ports.
    fn service(&self, from: &Guest, gateway: &str, vip: &str, backend: &str) -> Vec<String> {
        outputs(&self.service_trace(from, gateway, vip, backend))
    }

    fn service_trace(&self, from: &Guest, gateway: &str, vip: &str, backend: &str) -> String {
        let source = from.addresses.iter().find(|own| own.contains(':') == vip.contains(':')).unwrap();
        let ip = if vip.contains(':') { "ip6" } else { "ip4" };
        let next = mac_of(gateway);
        let packet = format!(
            "eth.dst == {next} && {ip}.src == {source} && {ip}.dst == {vip} && ip.ttl == 64 && tcp && tcp.dst == 80"
        );
        let backend = format!("--lb-dst={backend}");
        self.trace(&["--ct=new", "--ct=new", "--ct=new", &backend], from, &packet)
    }

    /// A new connection of one guest to another of the same switch comes out of these ports.
    fn directly(&self, from: &Guest, to: &Guest) -> Vec<String> {
        let (source, target) = (from.addresses[0], to.addresses[0]);
        self.reaches(from, source, target, &to.mac(), "icmp4.type == 8")
    }

    /// A new connection of a guest to an address behind its router comes out of these ports.
    fn routed(&self, from: &Guest, gateway: &str, to: &str) -> Vec<String> {
        let source = from.addresses.iter().find(|own| own.contains(':') == to.contains(':')).unwrap();
        let icmp = if to.contains(':') { "icmp6.type == 128" } else { "icmp4.type == 8" };
        self.reaches(from, source, to, &mac_of(gateway), icmp)
    }

    /// The MAC address that a guest's router sends a packet to; none if it sends it nowhere.
    ///
    /// A guest may be a next hop, but port security keeps packets from it that are for others: its port does not show.
    fn next_hop(&self, options: &[&str], from: &Guest, gateway: &str, to: &str) -> Option<String> {
        let (gateway, source) = (mac_of(gateway), from.addresses[0]);
        let packet = format!(
            "eth.dst == {gateway} && ip4.src == {source} && ip4.dst == {to} && ip.ttl == 64 && icmp4.type == 8"
        );
        let trace = self.trace(options, from, &packet);
        let mut set =
            trace.lines().filter_map(|line| line.trim().strip_prefix("eth.dst = ")?.strip_suffix(';'));
        set.next_back().map(str::to_owned)
    }

    /// Where two routes share the load, the MAC addresses of both; ovn-trace takes the one it is told.
    fn two_ways(&self, from: &Guest, gateway: &str, to: &str) -> BTreeSet<String> {
        let way = |id: &str| self.next_hop(&[id], from, gateway, to);
        ["--select-id=1", "--select-id=2"].into_iter().filter_map(way).collect()
    }
}

fn monitors() -> Vec<Monitor> {
    let with_indexes = |(table, indexes): (&'static str, Vec<ovsdb::Index>)| {
        indexes.into_iter().fold(Monitor::table(table), Monitor::index)
    };
    DATABASE.indexes().into_iter().map(with_indexes).collect()
}

fn mac_of(address: &str) -> String {
    portolan_api::Mac::derive(address.parse().unwrap(), None).to_string()
}

/// The guests' ports that a traced packet comes out of.
fn outputs(trace: &str) -> Vec<String> {
    let ports = trace.lines().filter_map(|line| line.trim().strip_prefix("output(\"")?.strip_suffix("\");"));
    ports.map(str::to_owned).collect()
}

/// Runs a scene in an OVN of its own, and takes it away again.
fn in_ovn(scene: fn() -> Scene, body: impl FnOnce(&Ovn) + Send + 'static) {
    portolan_testbed::test(async move |lab| {
        let scene = scene();
        let ovn = Ovn::with(lab, &scene).await;
        body(&ovn);
        ovn.remove(&scene).await;
    });
}

#[test]
fn guests_of_an_isolated_subnet_reach_each_other_and_no_one_else() {
    in_ovn(scene::isolated_subnet, |ovn| {
        let [a, b, c] = scene::lone_guests();
        assert_eq!(ovn.directly(&a, &b), [b.port()]);
        // The other switch has a guest with this very address.
        assert_eq!(ovn.directly(&b, &c), [a.port()]);
        assert_eq!(ovn.directly(&c, &b), [""; 0]);
    });
}

#[test]
fn a_guest_cannot_pretend_to_be_another() {
    in_ovn(scene::isolated_subnet, |ovn| {
        let [a, b, _] = scene::lone_guests();
        assert_eq!(ovn.reaches(&a, "10.1.0.10", "10.1.0.11", &b.mac(), "icmp4.type == 8"), [b.port()]);
        assert_eq!(ovn.reaches(&a, "10.1.0.12", "10.1.0.11", &b.mac(), "icmp4.type == 8"), [""; 0]);
        let other_mac = Guest { mac: Some("52:54:00:00:00:01"), ..a };
        assert_eq!(ovn.directly(&other_mac, &b), [""; 0]);
    });
}

#[test]
fn subnets_of_a_vpc_reach_each_other_and_other_vpcs_stay_apart() {
    in_ovn(scene::subnets_of_a_vpc, |ovn| {
        let (web, db, green) = (scene::blue_web(), scene::blue_db(), scene::green_db());
        assert_eq!(ovn.routed(&web, "10.1.0.1", "10.2.0.20"), [db.port()]);
        assert_eq!(ovn.routed(&db, "10.2.0.1", "10.1.0.10"), [web.port()]);
        assert_eq!(ovn.routed(&green, "10.2.0.1", "10.1.0.10"), [""; 0]);
        // The gateway answers.
        let ping = ovn.trace(&[], &web, &format!(
            "eth.dst == {} && ip4.src == 10.1.0.10 && ip4.dst == 10.1.0.1 && ip.ttl == 64 && icmp4.type == 8 && icmp4.code == 0",
            mac_of("10.1.0.1")
        ));
        assert_eq!(outputs(&ping), [web.port()], "{ping}");
    });
}

#[test]
fn both_families_are_routed_by_the_gateways_that_were_named() {
    in_ovn(scene::dual_stack, |ovn| {
        let [web, db] = scene::dual_guests();
        assert_eq!(ovn.routed(&web, "10.1.0.254", "10.2.0.20"), [db.port()]);
        assert_eq!(ovn.routed(&web, "10.1.0.254", "fd00:2::20"), [db.port()]);
        assert_eq!(ovn.routed(&db, "10.2.0.1", "fd00:1::10"), [web.port()]);
    });
}

#[test]
fn guests_are_answered_dhcp() {
    in_ovn(scene::dhcp, |ovn| {
        let web = scene::blue_web();
        let trace = ovn.trace(&[], &web, DHCP_DISCOVER);
        assert!(trace.contains("put_dhcp_opts(offerip = 10.1.0.10"), "{trace}");
        for option in [
            "router = 10.1.0.1",
            "server_id = 10.1.0.1",
            "lease_time = 600",
            "mtu = 1342",
            "netmask = 255.255.255.0",
            "dns_server = {10.1.0.53, 10.1.0.54}",
            "classless_static_route = {172.16.0.0/12, 10.1.0.99, 192.168.7.0/24, 10.1.0.1, 0.0.0.0/0, 10.1.0.1}",
        ] {
            assert!(trace.contains(option), "{option}: {trace}");
        }
        assert_eq!(outputs(&trace), [web.port()], "{trace}");
    });
}

#[test]
fn guests_without_a_router_are_told_of_none() {
    in_ovn(scene::dhcp_without_a_vpc, |ovn| {
        let guest = pod("a", "lone", "subnet/lone", &["10.1.0.10"]);
        let trace = ovn.trace(&[], &guest, DHCP_DISCOVER);
        assert!(trace.contains("put_dhcp_opts(offerip = 10.1.0.10"), "{trace}");
        assert!(!trace.contains("router ="), "{trace}");
    });
}

#[test]
fn guests_are_answered_dhcpv6_and_router_solicitations() {
    in_ovn(scene::dhcp_and_router_advertisements, |ovn| {
        let web = scene::dual_guests()[0].clone();
        let solicit = "eth.dst == 33:33:00:01:00:02 && ip6.src == fe80::858:aff:fe01:a && ip6.dst == ff02::1:2 && \
                       ip.ttl == 1 && udp.src == 546 && udp.dst == 547";
        let trace = ovn.trace(&[], &web, solicit);
        assert!(trace.contains("put_dhcpv6_opts(ia_addr = fd00:1::10"), "{trace}");
        assert!(trace.contains("dns_server = fd00:1::53"), "{trace}");
        // This release's ovn-trace dies of router solicitations, so the flow itself is looked at.
        let flows = ovn.central.sbctl(&["--no-leader-only", "lflow-list", "vpc:blue"]).unwrap();
        let advertisement = flows.lines().find(|flow| flow.contains("put_nd_ra_opts")).unwrap();
        for option in ["addr_mode = \"dhcpv6_stateful\"", "mtu = 1400", "prefix = fd00:1::/64", "rdnss"] {
            assert!(advertisement.contains(option), "{option}: {advertisement}");
        }
    });
}

#[test]
fn a_private_subnet_lets_in_only_whom_it_allows_and_may_call_anyone() {
    in_ovn(scene::private_subnet, |ovn| {
        let [web, db] = scene::dual_guests();
        let (stranger, neighbour) = (scene::stranger(), scene::neighbour());
        for (address, stranger_of) in [("10.2.0.20", "10.3.0.30"), ("fd00:2::20", "fd00:3::30")] {
            assert_eq!(ovn.routed(&web, "10.1.0.1", address), [db.port()], "an allowed subnet");
            assert_eq!(ovn.routed(&stranger, "10.3.0.1", address), [""; 0], "another subnet");
            assert_eq!(ovn.routed(&db, "10.2.0.1", stranger_of), [stranger.port()], "outwards");
        }
        assert_eq!(ovn.directly(&neighbour, &db), [db.port()], "its own guests");
        let reply = "eth.dst == 0a:58:0a:03:00:01 && ip4.src == 10.3.0.30 && ip4.dst == 10.2.0.20 && ip.ttl == 64 && icmp4.type == 0";
        let replied = ovn.trace(&["--ct=est,rpl", "--ct=est,rpl"], &stranger, reply);
        assert_eq!(outputs(&replied), [db.port()], "an answer: {replied}");
        // Neighbour discovery passes: without it nobody could be reached.
        let solicitation = "eth.dst == 33:33:ff:00:00:20 && ip6.src == fd00:2::21 && ip6.dst == ff02::1:ff00:20 && \
             ip.ttl == 255 && icmp6.type == 135 && icmp6.code == 0 && nd.target == fd00:2::20 && nd.sll == 0a:58:0a:02:00:15";
        let trace = ovn.trace(&[], &neighbour, solicitation);
        assert!(trace.contains("nd_na"), "{trace}");
        let discovered = ovn.trace(&["--ct=new", "--ct=new"], &db, DHCP_DISCOVER);
        assert_eq!(outputs(&discovered), [db.port()], "DHCP: {discovered}");
    });
}

#[test]
fn static_routes_lead_where_they_should() {
    in_ovn(scene::static_routes, |ovn| {
        let (web, db, second) = (scene::blue_web(), scene::blue_db(), scene::second_db());
        assert_eq!(ovn.next_hop(&[], &web, "10.1.0.1", "172.16.3.4"), Some(db.mac()));
        assert_eq!(ovn.two_ways(&web, "10.1.0.1", "172.17.3.4"), BTreeSet::from([db.mac(), second.mac()]));
        // By source, where no route by destination fits.
        assert_eq!(ovn.next_hop(&[], &web, "10.1.0.1", "8.8.8.8"), Some(second.mac()));
        assert_eq!(ovn.next_hop(&[], &db, "10.2.0.1", "8.8.8.8"), None);
    });
}

#[test]
fn policy_routes_drop_and_reroute_by_priority() {
    in_ovn(scene::policy_routes, |ovn| {
        let (web, db, second) = (scene::blue_web(), scene::blue_db(), scene::second_db());
        let tcp = |port: u16| {
            let tcp = format!("tcp && tcp.dst == {port}");
            ovn.reaches(&web, "10.1.0.10", "10.2.0.20", &mac_of("10.1.0.1"), &tcp)
        };
        assert_eq!(tcp(22), [""; 0]);
        assert_eq!(tcp(80), [db.port()]);
        assert_eq!(ovn.next_hop(&[], &web, "10.1.0.1", "172.16.3.4"), Some(db.mac()));
        assert_eq!(ovn.two_ways(&web, "10.1.0.1", "172.17.3.4"), BTreeSet::from([db.mac(), second.mac()]));
        assert_eq!(ovn.next_hop(&[], &web, "10.1.0.1", "172.18.3.4"), Some(second.mac()), "as routed");
    });
}

#[test]
fn peered_vpcs_reach_each_other_and_one_sided_peerings_do_nothing() {
    in_ovn(scene::peering, |ovn| {
        let (web, peer) = (scene::blue_web(), scene::peer());
        assert_eq!(ovn.routed(&web, "10.1.0.1", "10.9.0.90"), [peer.port()]);
        assert_eq!(ovn.routed(&peer, "10.9.0.1", "10.1.0.10"), [web.port()]);
        assert_eq!(ovn.routed(&web, "10.1.0.1", "10.8.0.10"), [""; 0]);
        let ports = ovn.central.nbctl(&["--bare", "--columns=name", "list", "Logical_Router_Port"]).unwrap();
        assert!(!ports.contains("vpc:red/vpc:blue"), "{ports}");
    });
}

#[test]
fn the_port_of_a_virtual_machine_is_bound_for_the_pod_that_runs_it() {
    in_ovn(scene::virtual_machine, |ovn| {
        let options =
            ovn.central.sbctl(&["get", "Port_Binding", "port:default/vm/eth0/uid-vm", "options"]).unwrap();
        assert_eq!(options, "{iface-id-ver=uid-launcher, requested-chassis=chassis-of-node-1}");
    });
}

#[test]
fn pods_of_the_primary_network_reach_each_other_and_every_node() {
    in_ovn(scene::primary_network, |ovn| {
        let ([web, app, far], [n1, n2]) = (scene::primary_pods(), scene::node_ports());
        for (to, port) in [
            ("10.16.2.10", &far),
            ("fd00:16:2::10", &far),
            ("10.16.2.2", &n2),
            ("fd00:16:2::2", &n2),
            // By the address that a node has in its own network.
            ("172.30.0.11", &n1),
            ("172.30.0.12", &n2),
            ("fd00:30::12", &n2),
        ] {
            assert_eq!(ovn.routed(&web, "10.16.1.1", to), [port.port()], "{to}");
            assert_eq!(
                ovn.routed(&app, "10.50.0.1", to),
                [port.port()],
                "from the subnet of a namespace: {to}"
            );
        }
        // The node itself, and what it forwards; the subnet is private.
        assert_eq!(ovn.routed(&n1, "10.16.1.1", "10.50.0.10"), [app.port()]);
        assert_eq!(ovn.routed(&n1, "10.16.1.1", "fd00:50::10"), [app.port()]);
        assert_eq!(ovn.routed(&n2, "10.16.2.1", "10.50.0.10"), [""; 0], "another node is let in by nobody");
        let outside = "192.0.2.9";
        assert_eq!(ovn.reaches(&n1, outside, "10.16.1.10", &web.mac(), "icmp4.type == 8"), [web.port()]);
    });
}

#[test]
fn what_leaves_the_cluster_leaves_by_the_node_of_its_pod() {
    in_ovn(scene::primary_network, |ovn| {
        let ([web, app, far], [n1, n2]) = (scene::primary_pods(), scene::node_ports());
        for to in ["192.0.2.1", "2001:db8::1"] {
            assert_eq!(ovn.routed(&web, "10.16.1.1", to), [n1.port()], "{to}");
            assert_eq!(ovn.routed(&far, "10.16.2.1", to), [n2.port()], "{to}");
            // Its addresses say nothing about its node.
            assert_eq!(ovn.routed(&app, "10.50.0.1", to), [n1.port()], "{to}");
        }
        // Services that are not there, and what is only of a node, go nowhere; the metadata of clouds is the node's business.
        for to in ["10.96.0.99", "fd96::99", "169.254.169.3"] {
            assert_eq!(ovn.routed(&web, "10.16.1.1", to), [""; 0], "{to}");
        }
        assert_eq!(ovn.routed(&web, "10.16.1.1", "169.254.169.254"), [n1.port()]);
    });
}

#[test]
fn one_subnet_may_serve_all_nodes() {
    in_ovn(scene::primary_network_of_one_subnet, |ovn| {
        let web = pod("web", "all", "vpc/ovn-cluster", &["10.16.0.10"]);
        let port = "port:node-1/node/uid-node";
        assert_eq!(ovn.routed(&web, "10.16.0.1", "192.0.2.1"), [port]);
        assert_eq!(ovn.routed(&web, "10.16.0.1", "172.30.0.11"), [port]);
    });
}

#[test]
fn services_lead_to_their_endpoints() {
    in_ovn(scene::services, |ovn| {
        let ([web, app, far], _) = (scene::primary_pods(), scene::node_ports());
        for (from, gateway) in [(&web, "10.16.1.1"), (&app, "10.50.0.1")] {
            for (vip, backend, to) in [
                ("10.96.0.10", "10.16.2.10:8080", &far),
                ("192.0.2.10", "10.16.2.10:8080", &far),
                ("fd96::10", "[fd00:16:2::10]:8080", &far),
            ] {
                assert_eq!(ovn.service(from, gateway, vip, backend), [to.port()], "{vip}");
            }
            assert_eq!(ovn.routed(from, gateway, "10.96.0.99"), [""; 0], "no such Service");
        }
        let nobody = "eth.dst == 0a:58:0a:10:01:01 && ip4.src == 10.16.1.10 && ip4.dst == 10.96.0.12 && ip.ttl == 64 && tcp && tcp.dst == 80";
        let trace = ovn.trace(&["--ct=new"], &web, nobody);
        assert!(trace.contains("tcp_reset"), "who asks is told at once: {trace}");
    });
}
