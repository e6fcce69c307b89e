//! One scene per feature: what users wrote. `golden.rs` shows the rows that follow, `northd.rs` the traffic.

use portolan_api::portolan::{HolderKind, LockUser};
use portolan_model::{FirstInterface, World};
use portolan_plan::Settings;
use serde_json::json;

use crate::object::{
    Guest, Object, annotated, node, node_port, pod, primary_node, service, slice, subnet, tunnelling, vpc,
};

pub(crate) struct Scene {
    pub(crate) name: &'static str,
    pub(crate) objects: Vec<Object>,
    /// The units whose rows are worth showing.
    pub(crate) shown: &'static [&'static str],
    /// Who makes first interfaces.
    pub(crate) first_interface: FirstInterface,
    /// What the operator decides.
    pub(crate) settings: Settings,
}

impl Scene {
    fn new(
        name: &'static str,
        shown: &'static [&'static str],
        objects: impl IntoIterator<Item = Object>,
        guests: &[Guest],
    ) -> Self {
        let nodes = [node("node-1", "chassis-of-node-1")];
        let locks = guests.iter().flat_map(Guest::locks);
        let objects = nodes.into_iter().chain(objects).chain(locks).collect();
        let (first_interface, settings) = (FirstInterface::Other, Settings::default());
        Scene { name, shown, objects, first_interface, settings }
    }

    /// Portolan is the cluster's primary network, and serves its Services.
    fn primary(self) -> Self {
        let service_cidrs = ["10.96.0.0/16", "fd96::/112"].map(|net| net.parse().unwrap()).into();
        let settings = Settings { service_cidrs, ..self.settings };
        Scene { first_interface: FirstInterface::Portolan, settings, ..self }
    }

    pub(crate) fn world(&self) -> World {
        let mut world = World::new(portolan_model::Settings { first_interface: self.first_interface });
        for object in &self.objects {
            drop(object.apply(&mut world));
        }
        world
    }
}

pub(crate) fn all() -> Vec<Scene> {
    vec![
        isolated_subnet(),
        subnets_of_a_vpc(),
        dual_stack(),
        dhcp(),
        dhcp_without_a_vpc(),
        dhcp_and_router_advertisements(),
        private_subnet(),
        static_routes(),
        policy_routes(),
        peering(),
        virtual_machine(),
        rates(),
        smallest_tunnel(),
        vxlan_subnet(),
        primary_network(),
        primary_network_of_one_subnet(),
        services(),
    ]
}

pub(crate) fn blue_web() -> Guest {
    pod("web", "blue-1", "vpc/blue", &["10.1.0.10"])
}

pub(crate) fn blue_db() -> Guest {
    pod("db", "blue-2", "vpc/blue", &["10.2.0.20"])
}

pub(crate) fn second_db() -> Guest {
    pod("db2", "blue-2", "vpc/blue", &["10.2.0.21"])
}

fn blue_subnets() -> [Object; 2] {
    [
        subnet("blue-1", "uid-blue-1", &json!({"vpc": "blue", "cidrBlock": "10.1.0.0/24"})),
        subnet("blue-2", "uid-blue-2", &json!({"vpc": "blue", "cidrBlock": "10.2.0.0/24"})),
    ]
}

/// Without a VPC a subnet is a switch and nothing else: two of them may even use the same addresses.
pub(crate) fn isolated_subnet() -> Scene {
    let cidr = json!({"cidrBlock": "10.1.0.0/24"});
    let objects = [subnet("lone", "uid-lone", &cidr), subnet("other", "uid-other", &cidr)];
    Scene::new(
        "isolated_subnet",
        &["subnet/lone", "attachment/pod/default/a/eth0/uid-a"],
        objects,
        &lone_guests(),
    )
}

pub(crate) fn lone_guests() -> [Guest; 3] {
    [
        pod("a", "lone", "subnet/lone", &["10.1.0.10"]),
        pod("b", "lone", "subnet/lone", &["10.1.0.11"]),
        pod("c", "other", "subnet/other", &["10.1.0.10"]),
    ]
}

/// The router of a VPC is a port of each of its subnets. Another VPC has a router of its own.
pub(crate) fn subnets_of_a_vpc() -> Scene {
    let green = json!({"vpc": "green", "cidrBlock": "10.2.0.0/24"});
    let objects = [
        vpc("blue", "uid-blue", &json!({})),
        vpc("green", "uid-green", &json!({})),
        subnet("green-1", "uid-green-1", &green),
    ];
    Scene::new(
        "subnets_of_a_vpc",
        &["vpc/blue", "subnet/blue-1", "attachment/pod/default/web/eth0/uid-web"],
        objects.into_iter().chain(blue_subnets()),
        &[blue_web(), blue_db(), green_db()],
    )
}

/// The same address as [`blue_db`], in another VPC.
pub(crate) fn green_db() -> Guest {
    pod("green", "green-1", "vpc/green", &["10.2.0.20"])
}

pub(crate) fn dual_stack() -> Scene {
    let (first, second) = ("10.1.0.0/24,fd00:1::/64", "10.2.0.0/24,fd00:2::/64");
    let gateway = "10.1.0.254,fd00:1::ffff";
    let objects = [
        vpc("blue", "uid-blue", &json!({})),
        subnet("blue-1", "uid-blue-1", &json!({"vpc": "blue", "cidrBlock": first, "gateway": gateway})),
        subnet("blue-2", "uid-blue-2", &json!({"vpc": "blue", "cidrBlock": second})),
    ];
    let shown = &["subnet/blue-1", "attachment/pod/default/web/eth0/uid-web"];
    Scene::new("dual_stack", shown, objects, &dual_guests())
}

pub(crate) fn dual_guests() -> [Guest; 2] {
    [
        pod("web", "blue-1", "vpc/blue", &["10.1.0.10", "fd00:1::10"]),
        pod("db", "blue-2", "vpc/blue", &["10.2.0.20", "fd00:2::20"]),
    ]
}

/// Guests are told their address, router, MTU, DNS server and routes. The default route is told twice: a guest that gets
/// classless routes ignores the router.
pub(crate) fn dhcp() -> Scene {
    let spec = json!({
        "vpc": "blue", "cidrBlock": "10.1.0.0/24", "enableDHCP": true, "mtu": 1342,
        "dhcpV4Options": "dns_server={10.1.0.53, 10.1.0.54},domain_name=example.org,lease_time=600",
        "routes": [{"dst": "172.16.0.0/12", "gw": "10.1.0.99"}, {"dst": "192.168.7.0/24"}],
    });
    let objects = [vpc("blue", "uid-blue", &json!({})), subnet("blue-1", "uid-blue-1", &spec)];
    let shown = &["subnet/blue-1", "attachment/pod/default/web/eth0/uid-web"];
    Scene::new("dhcp", shown, objects, &[blue_web()])
}

/// There is no router to tell of.
pub(crate) fn dhcp_without_a_vpc() -> Scene {
    let spec = json!({"cidrBlock": "10.1.0.0/24", "enableDHCP": true});
    let guest = pod("a", "lone", "subnet/lone", &["10.1.0.10"]);
    Scene::new("dhcp_without_a_vpc", &["subnet/lone"], [subnet("lone", "uid-lone", &spec)], &[guest])
}

/// DHCPv6 tells the address and DNS; prefix, router and MTU come by router advertisement.
pub(crate) fn dhcp_and_router_advertisements() -> Scene {
    let spec = json!({
        "vpc": "blue", "cidrBlock": "10.1.0.0/24,fd00:1::/64", "enableDHCP": true,
        "dhcpV6Options": "dns_server=fd00:1::53",
        "enableIPv6RA": true, "ipv6RAConfigs": "max_interval=60,rdnss=fd00:1::53",
    });
    let objects = [vpc("blue", "uid-blue", &json!({})), subnet("blue-1", "uid-blue-1", &spec)];
    let shown = &["subnet/blue-1", "attachment/pod/default/web/eth0/uid-web"];
    Scene::new("dhcp_and_router_advertisements", shown, objects, &[dual_guests()[0].clone()])
}

/// `blue-2` lets in `blue-1` and no one else, but may call anyone.
pub(crate) fn private_subnet() -> Scene {
    let private = json!({
        "vpc": "blue", "cidrBlock": "10.2.0.0/24,fd00:2::/64", "private": true, "enableDHCP": true,
        "allowSubnets": ["10.1.0.0/24", "fd00:1::/64"],
    });
    let objects = [
        vpc("blue", "uid-blue", &json!({})),
        subnet("blue-1", "uid-blue-1", &json!({"vpc": "blue", "cidrBlock": "10.1.0.0/24,fd00:1::/64"})),
        subnet("blue-2", "uid-blue-2", &private),
        subnet("blue-3", "uid-blue-3", &json!({"vpc": "blue", "cidrBlock": "10.3.0.0/24,fd00:3::/64"})),
    ];
    let [web, db] = dual_guests();
    Scene::new("private_subnet", &["subnet/blue-2"], objects, &[web, db, stranger(), neighbour()])
}

pub(crate) fn stranger() -> Guest {
    pod("stranger", "blue-3", "vpc/blue", &["10.3.0.30", "fd00:3::30"])
}

pub(crate) fn neighbour() -> Guest {
    pod("neighbour", "blue-2", "vpc/blue", &["10.2.0.21", "fd00:2::21"])
}

/// By destination and by source; two routes with one prefix share the load.
pub(crate) fn static_routes() -> Scene {
    let spec = json!({"staticRoutes": [
        {"cidr": "172.16.0.0/16", "nextHopIP": "10.2.0.20"},
        {"cidr": "172.17.0.0/16", "nextHopIP": "10.2.0.20", "policy": "policyDst"},
        {"cidr": "172.17.0.0/16", "nextHopIP": "10.2.0.21", "policy": "policyDst", "ecmpMode": "ecmp_symmetric_reply"},
        {"cidr": "10.1.0.0/16", "nextHopIP": "10.2.0.21", "policy": "policySrc"},
    ]});
    let guests = [blue_web(), blue_db(), second_db()];
    let objects = [vpc("blue", "uid-blue", &spec)].into_iter().chain(blue_subnets());
    Scene::new("static_routes", &["vpc/blue"], objects, &guests)
}

/// The highest priority that matches decides. Only packets that have a route at all come that far.
pub(crate) fn policy_routes() -> Scene {
    let spec = json!({"staticRoutes": [{"cidr": "172.16.0.0/12", "nextHopIP": "10.2.0.21"}], "policyRoutes": [
        {"priority": 30, "match": "ip4.src == 10.1.0.10 && ip4.dst == 10.2.0.20 && tcp.dst == 22", "action": "drop"},
        {"priority": 20, "match": "ip4.src == 10.1.0.0/24 && ip4.dst == 172.16.0.0/16", "action": "reroute",
         "nextHopIP": "10.2.0.20"},
        {"priority": 20, "match": "ip4.src == 10.1.0.0/24 && ip4.dst == 172.17.0.0/16", "action": "reroute",
         "nextHopIP": "10.2.0.20,10.2.0.21"},
        {"priority": 10, "match": "ip4.src == 10.1.0.0/24", "action": "allow"},
    ]});
    let guests = [blue_web(), blue_db(), second_db()];
    let objects = [vpc("blue", "uid-blue", &spec)].into_iter().chain(blue_subnets());
    Scene::new("policy_routes", &["vpc/blue"], objects, &guests)
}

/// `blue` and `green` name each other and route to each other. `red` names `blue`, and is not named by it.
pub(crate) fn peering() -> Scene {
    let side = |remote: &str, connect: &str, cidr: &str, hop: &str| {
        json!({
            "vpcPeerings": [{"remoteVpc": remote, "localConnectIP": connect}],
            "staticRoutes": [{"cidr": cidr, "nextHopIP": hop}],
        })
    };
    let red = json!({"vpcPeerings": [{"remoteVpc": "blue", "localConnectIP": "169.254.0.6/30"}]});
    let objects = [
        vpc("blue", "uid-blue", &side("green", "169.254.0.1/30", "10.9.0.0/24", "169.254.0.2")),
        vpc("green", "uid-green", &side("blue", "169.254.0.2/30", "10.1.0.0/24", "169.254.0.1")),
        vpc("red", "uid-red", &red),
        subnet("blue-1", "uid-blue-1", &json!({"vpc": "blue", "cidrBlock": "10.1.0.0/24"})),
        subnet("green-1", "uid-green-1", &json!({"vpc": "green", "cidrBlock": "10.9.0.0/24"})),
        subnet("red-1", "uid-red-1", &json!({"vpc": "red", "cidrBlock": "10.8.0.0/24"})),
    ];
    let red = pod("red", "red-1", "vpc/red", &["10.8.0.10"]);
    Scene::new("peering", &["peering/blue/green", "vpc/blue"], objects, &[blue_web(), peer(), red])
}

pub(crate) fn peer() -> Guest {
    pod("peer", "green-1", "vpc/green", &["10.9.0.90"])
}

/// The port of a virtual machine is the machine's; the pod that runs it now may use it.
pub(crate) fn virtual_machine() -> Scene {
    let machine = Guest {
        kind: HolderKind::VirtualMachine,
        mac: Some("52:54:00:12:34:56"),
        user: Some(LockUser { pod: "virt-launcher-vm-x7k2p".into(), uid: "uid-launcher".into() }),
        ..pod("vm", "blue-1", "vpc/blue", &["10.1.0.77"])
    };
    let objects = [vpc("blue", "uid-blue", &json!({}))].into_iter().chain(blue_subnets());
    Scene::new("virtual_machine", &["attachment/vm/default/vm/eth0/uid-vm"], objects, &[machine])
}

/// Both directions of `web` are limited, one of `db`. A rate that is none limits nothing.
pub(crate) fn rates() -> Scene {
    let spec = json!({"cidrBlock": "10.1.0.0/24", "provider": "lone.default.ovn"});
    let ingress = "lone.default.ovn.kubernetes.io/ingress_rate";
    let egress = "lone.default.ovn.kubernetes.io/egress_rate";
    let [web, db] = rate_guests();
    let objects = [
        subnet("lone", "uid-lone", &spec),
        annotated(&web, &[(ingress, "20"), (egress, "10")]),
        annotated(&db, &[(ingress, "1e9"), ("lone.default.ovn.eth0.kubernetes.io/egress_rate", "1")]),
    ];
    let shown = &["attachment/pod/default/web/eth0/uid-web", "attachment/pod/default/db/eth0/uid-db"];
    Scene::new("rates", shown, objects, &[web, db])
}

fn rate_guests() -> [Guest; 2] {
    [pod("web", "lone", "subnet/lone", &["10.1.0.10"]), pod("db", "lone", "subnet/lone", &["10.1.0.11"])]
}

/// Guests of subnets that name no MTU are told what fits into the tunnels of every node; others what their subnet names.
pub(crate) fn smallest_tunnel() -> Scene {
    let spec = json!({"cidrBlock": "10.1.0.0/24", "enableDHCP": true});
    let own = json!({"cidrBlock": "10.2.0.0/24", "enableDHCP": true, "mtu": 1300});
    let objects = [
        tunnelling("node-2", 8942),
        tunnelling("node-3", 1342),
        subnet("lone", "uid-lone", &spec),
        subnet("own", "uid-own", &own),
    ];
    Scene::new("smallest_tunnel", &["subnet/lone", "subnet/own"], objects, &[])
}

/// A subnet of the VXLAN fabric has no row in OVN, and neither have its attachments.
pub(crate) fn vxlan_subnet() -> Scene {
    let objects = [subnet("fabric", "uid-fabric", &json!({"vni": 7, "cidrBlock": "10.7.0.0/24"}))];
    let guest = pod("v", "fabric", "vni/7", &["10.7.0.10"]);
    let shown = &["subnet/fabric", "attachment/pod/default/v/eth0/uid-v"];
    Scene::new("vxlan_subnet", shown, objects, &[guest])
}

/// Each node has a switch with its pods' prefixes. A subnet that is bound to a namespace spans nodes; its pods leave the cluster by the node
/// that they are on, and that node may always talk to them.
pub(crate) fn primary_network() -> Scene {
    let apps = json!({
        "vpc": "ovn-cluster", "cidrBlock": "10.50.0.0/24,fd00:50::/64", "namespaces": ["default"], "private": true,
    });
    let objects = [
        primary_node("node-1", "uid-node-1", "10.16.1.0/24,fd00:16:1::/64", &addresses(11)),
        primary_node("node-2", "uid-node-2", "10.16.2.0/24,fd00:16:2::/64", &addresses(12)),
        subnet("apps", "uid-apps", &apps),
    ];
    let shown = &[
        "vpc/ovn-cluster",
        "subnet/node:node-1",
        "node/node-1",
        "attachment/node/node-1/node/uid-node-1",
        "attachment/pod/default/web/eth0/uid-web",
        "attachment/pod/default/app/eth0/uid-app",
    ];
    let [n1, n2] = node_ports();
    let [web, app, far] = primary_pods();
    Scene::new("primary_network", shown, objects, &[n1, n2, web, app, far]).primary()
}

fn addresses(last: u8) -> [String; 2] {
    [format!("172.30.0.{last}"), format!("fd00:30::{last}")]
}

pub(crate) fn node_ports() -> [Guest; 2] {
    [
        node_port("node-1", "uid-node-1", &["10.16.1.2", "10.16.1.3", "fd00:16:1::2", "fd00:16:1::3"]),
        node_port("node-2", "uid-node-2", &["10.16.2.2", "10.16.2.3", "fd00:16:2::2", "fd00:16:2::3"]),
    ]
}

/// One on its node's switch, one on the subnet of its namespace, and one on the other node's switch.
pub(crate) fn primary_pods() -> [Guest; 3] {
    [
        pod("web", "node:node-1", "vpc/ovn-cluster", &["10.16.1.10", "fd00:16:1::10"]),
        pod("app", "apps", "vpc/ovn-cluster", &["10.50.0.10", "fd00:50::10"]),
        Guest {
            node: Some("node-2"),
            ..pod("far", "node:node-2", "vpc/ovn-cluster", &["10.16.2.10", "fd00:16:2::10"])
        },
    ]
}

/// Without prefixes of nodes one subnet serves all of them, as in Kube-OVN.
pub(crate) fn primary_network_of_one_subnet() -> Scene {
    let spec = json!({"vpc": "ovn-cluster", "cidrBlock": "10.16.0.0/16", "default": true});
    let objects = [primary_node("node-1", "uid-node-1", "", &addresses(11)), subnet("all", "uid-all", &spec)];
    let port = Guest { subnet: "all", ..node_port("node-1", "uid-node-1", &["10.16.7.7", "10.16.8.8"]) };
    let shown = &["node/node-1", "attachment/pod/default/web/eth0/uid-web"];
    let web = pod("web", "all", "vpc/ovn-cluster", &["10.16.0.10"]);
    Scene::new("primary_network_of_one_subnet", shown, objects, &[port, web]).primary()
}

/// Services of the primary network: one for everybody, one that stays on the node, and one that nobody serves.
pub(crate) fn services() -> Scene {
    let mut scene = primary_network();
    let port = json!([{"port": 80, "targetPort": 8080}]);
    let web = json!({
        "clusterIPs": ["10.96.0.10", "fd96::10"], "externalIPs": ["192.0.2.10"], "ports": port,
        "sessionAffinity": "ClientIP",
    });
    let local = json!({
        "type": "LoadBalancer", "clusterIPs": ["10.96.0.11"], "internalTrafficPolicy": "Local",
        "externalTrafficPolicy": "Local", "healthCheckNodePort": 30011,
        "ports": [{"name": "a", "port": 80, "nodePort": 30080}, {"name": "b", "port": 53, "protocol": "UDP"}],
    });
    scene.objects.extend([
        service("web", &web),
        slice("web", &[("10.16.1.10", "node-1"), ("10.16.2.10", "node-2")]),
        slice("web", &[("fd00:16:1::10", "node-1"), ("fd00:16:2::10", "node-2")]),
        service("local", &local),
        local_slice("a", 8080, "TCP"),
        local_slice("b", 5353, "UDP"),
        service("near", &json!({"clusterIPs": ["10.96.0.13", "fd96::13"], "ports": port})),
        hinted_slice(&[("10.16.1.10", "node-1"), ("10.16.2.10", "node-2")]),
        hinted_slice(&[("fd00:16:1::10", "node-1"), ("fd00:16:2::10", "node-2")]),
        service("none", &json!({"clusterIPs": ["10.96.0.12"], "ports": port})),
    ]);
    scene.name = "services";
    scene.shown = &[
        "service/default/web",
        "service/default/local",
        "service/default/near",
        "service/default/none",
        "chassis/node-1",
        "chassis/node-2",
        "subnet/node:node-1",
    ];
    scene
}

/// Endpoints of `near`, each for the clients of its node.
fn hinted_slice(endpoints: &[(&str, &str)]) -> Object {
    let Object::Slice(mut slice) = slice("near", endpoints) else { unreachable!("it is a slice") };
    for endpoint in &mut slice.endpoints {
        let hints = json!({"forNodes": [{"name": endpoint.node_name}]});
        endpoint.hints = serde_json::from_value(hints).unwrap();
    }
    Object::Slice(slice)
}

/// The endpoints of a port of `local`: one on the second node.
fn local_slice(port: &str, number: u16, protocol: &str) -> Object {
    let slice = json!({
        "metadata": {
            "namespace": "default", "name": format!("local-{port}"),
            "labels": {"kubernetes.io/service-name": "local"},
        },
        "addressType": "IPv4", "ports": [{"name": port, "port": number, "protocol": protocol}],
        "endpoints": [{"addresses": ["10.16.2.10"], "nodeName": "node-2"}],
    });
    Object::Slice(Box::new(serde_json::from_value(slice).unwrap()))
}
