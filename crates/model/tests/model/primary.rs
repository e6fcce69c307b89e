//! The primary network: the subnet of each node, what pods and nodes get of it, and who may not.

use portolan_api::portolan::{HolderKind, Subnet};
use portolan_model::fixtures::*;
use portolan_model::node_subnet::{node_addresses, node_subnet};
use portolan_model::pod::{SetOfPod, StatefulSet};
use portolan_model::validate::{node_prefixes, validate};
use portolan_model::view::View;
use portolan_model::{
    Dirty, FirstInterface, Node, Pod, PodController, Request, Requester, Settings, Unit, UnitState, World,
};

const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";
const PREFIXES: &str = "10.16.1.0/24,fd00:16:1::/64";

fn world(nodes: &[Node]) -> World {
    let mut world = World::new(Settings { first_interface: FirstInterface::Portolan });
    for node in nodes {
        drop(world.apply(node));
    }
    world
}

fn ask(world: &mut World, pod: &Pod) -> Request {
    drop(world.apply(pod));
    world.request(&Requester::pod(pod.namespace.as_str(), pod.name.as_str())).unwrap()
}

/// The subnets of a pod's interfaces, or what stands in its way.
fn answer(world: &mut World, pod: &Pod) -> String {
    let request = ask(world, pod);
    if !request.is_ready() {
        let waits = request.waits.iter().map(ToString::to_string);
        return waits.chain(request.problems.iter().map(ToString::to_string)).collect::<Vec<_>>().join("; ");
    }
    let of = |one: &portolan_model::InterfaceRequest| format!("{}@{}", one.interface, one.subnet);
    request.interfaces.iter().map(of).collect::<Vec<_>>().join(" ")
}

fn unserved(name: &str, cidr: &str) -> Node {
    Node { served_cidrs: None, ..mk_node_with(name, cidr) }
}

fn in_cluster(name: &str, cidr: &str) -> Subnet {
    mk_subnet(name, cidr, "ovn-cluster")
}

#[test]
fn a_pod_gets_addresses_of_its_node_or_of_whoever_was_chosen_for_it() {
    let mut world = world(&[mk_node_with("node-1", PREFIXES)]);
    let pod = mk_pod("default", "a", &[]);
    assert_eq!(answer(&mut world, &pod), "eth0@node:node-1");
    // A Subnet for the namespace comes before all.
    let mut apps = in_cluster("apps", "10.50.0.0/24");
    apps.spec.namespaces = vec!["default".into()];
    let dirty = world.apply(&apps);
    assert!(dirty.requesters.contains(&Requester::pod("default", "a")), "{dirty:?}");
    assert_eq!(answer(&mut world, &pod), "eth0@apps");
    drop(world.delete(&apps));
    // So does one that somebody made for all pods; unless it is not in effect and the node's prefixes are.
    let mut all = in_cluster("all", "10.60.0.0/16");
    all.spec.default = true;
    all.status = None;
    drop(world.apply(&all));
    assert_eq!(answer(&mut world, &pod), "eth0@node:node-1");
    drop(world.apply(&mk_validated(all, Some(1))));
    assert_eq!(answer(&mut world, &pod), "eth0@all");
    // A pod may name a subnet, as in Kube-OVN.
    drop(world.apply(&in_cluster("other", "10.61.0.0/16")));
    let named = mk_pod("default", "b", &[("ovn.kubernetes.io/logical_switch", "other")]);
    assert_eq!(answer(&mut world, &named), "eth0@other");
}

#[test]
fn whoever_waits_for_prefixes_is_told_and_woken() {
    let mut world = world(&[mk_node("node-1")]);
    let (pod, node) = (mk_pod("default", "a", &[]), Requester::node("node-1"));
    assert!(answer(&mut world, &pod).ends_with("and no spec.podCIDRs were allocated to the pod's Node"));
    let wait = world.request(&node).unwrap().waits[0].to_string();
    assert!(wait.starts_with("waiting for spec.podCIDRs, which kube-controller-manager allocates"), "{wait}");
    for next in [unserved("node-1", PREFIXES), mk_node_with("node-1", PREFIXES)] {
        let dirty = world.apply(&next);
        for requester in [Requester::pod("default", "a"), node.clone()] {
            assert!(dirty.requesters.contains(&requester), "{requester} after {next:?}");
        }
        if next.served_cidrs.is_none() {
            let told =
                "waiting for spec.podCIDRs of Node node-1 to be found free of clashes with other subnets";
            assert!(answer(&mut world, &pod).starts_with(told));
        }
    }
    assert_eq!(answer(&mut world, &pod), "eth0@node:node-1");
}

#[test]
fn a_node_asks_for_two_addresses_of_each_family() {
    let mut world = world(&[mk_node_with("node-1", PREFIXES), mk_node("node-2")]);
    let mut all = in_cluster("all", "10.60.0.0/16");
    all.spec.default = true;
    drop(world.apply(&all));
    let own = world.request(&Requester::node("node-1")).unwrap();
    let interface = &own.interfaces[0];
    assert_eq!(interface.subnet, "node:node-1");
    assert_eq!(interface.addresses, node_addresses(world.subnet("node:node-1").unwrap().config.cidr));
    assert_eq!((own.holder.kind, own.holder.name.as_str()), (HolderKind::Node, "node-1"));
    // One without prefixes has its port on the subnet that serves all nodes.
    let shared = world.request(&Requester::node("node-2")).unwrap();
    assert_eq!((shared.interfaces[0].subnet.as_str(), shared.interfaces[0].count), ("all", 2));
    // A subnet of a tenant is none for nodes.
    let mut tenants = mk_subnet("tenants", "10.70.0.0/16", "blue");
    tenants.spec.default = true;
    drop(world.delete(&all));
    drop(world.apply(&mk_vpc("blue")));
    drop(world.apply(&tenants));
    assert!(!world.request(&Requester::node("node-2")).unwrap().is_ready());
}

#[test]
fn an_address_of_a_node_goes_with_its_pod() {
    let mut world = world(&[mk_node_with("node-1", PREFIXES)]);
    let mut web = mk_subnet("web", "10.0.0.0/24", "");
    web.spec.provider = Some("net.default.ovn".to_owned());
    drop(world.apply(&web));
    drop(world.apply(&mk_nad("default", "net")));
    let set = PodController::StatefulSet(Box::new(SetOfPod { name: "db".into(), uid: "set-db".into() }));
    let replicas = StatefulSet {
        name: "db".into(),
        namespace: "default".into(),
        uid: "set-db".into(),
        start: 0,
        replicas: 1,
    };
    drop(world.apply(&replicas));
    let kinds = |request: &Request| {
        let of =
            |one: &portolan_model::InterfaceRequest| (one.interface.clone(), request.holder_of(one).kind);
        request.interfaces.iter().map(of).collect::<Vec<_>>()
    };
    let plain = Pod { controller: set.clone(), ..mk_pod("default", "db-0", &[]) };
    let request = ask(&mut world, &plain);
    assert_eq!(kinds(&request), [("eth0".to_owned(), HolderKind::Pod)]);
    // What the ordinal had elsewhere is given back.
    assert_eq!(request.former.map(|holder| holder.uid), Some("set-db".to_owned()));
    // A further interface of the same pod keeps its address across the pods of its name.
    let further = Pod { controller: set, ..mk_pod("default", "db-0", &[(NETWORKS, "net")]) };
    let request = ask(&mut world, &further);
    let expected = [("eth0".to_owned(), HolderKind::Pod), ("net1".to_owned(), HolderKind::StatefulSet)];
    assert_eq!(kinds(&request), expected);
    // A machine that migrates does not wait for its other pod because of it.
    let machine = PodController::VirtualMachine("vm".into());
    let launcher = Pod { controller: machine, ..mk_pod("default", "virt-launcher-vm-x", &[]) };
    assert_eq!(kinds(&ask(&mut world, &launcher)), [("eth0".to_owned(), HolderKind::Pod)]);
}

#[test]
fn the_prefixes_of_a_node_are_for_its_own_pods() {
    let mut world = world(&[mk_node_with("node-1", PREFIXES), mk_node_with("node-2", "10.16.2.0/24")]);
    let pod = mk_pod("default", "a", &[("ovn.kubernetes.io/logical_switch", "node:node-2")]);
    let answer = answer(&mut world, &pod);
    // It is no name that anybody could give.
    assert!(answer.contains("\"node:node-2\" cannot be the name of an object"), "{answer}");
    drop(world.apply(&mk_network_attachment("default", "n", "node:node-1")));
    let request = world.request(&Requester::network_attachment("default", "n")).unwrap();
    assert_eq!(request.interfaces, []);
    assert!(!request.is_ready());
}

#[test]
fn what_changes_about_a_node_dirties_that_node_alone() {
    let units = |dirty: &Dirty| dirty.units.iter().map(ToString::to_string).collect::<Vec<_>>();
    let mut world = world(&[]);
    assert_eq!(world.units().map(|unit| unit.to_string()).collect::<Vec<_>>(), ["vpc/ovn-cluster"]);
    let node = mk_node_with("node-1", PREFIXES);
    assert_eq!(units(&world.apply(&node)), ["subnet/node:node-1", "node/node-1", "chassis/node-1"]);
    let addresses = vec![[192, 168, 0, 2].into()];
    let other = Node { addresses, ..mk_node_with("node-2", "10.16.2.0/24") };
    assert_eq!(units(&world.apply(&other)), ["subnet/node:node-2", "node/node-2", "chassis/node-2"]);
    let moved = Node { addresses: vec![[192, 168, 0, 7].into()], ..node.clone() };
    assert_eq!(units(&world.apply(&moved)), ["node/node-1"]);
    // Its port comes about.
    let mut lock = mk_lock("vpc/ovn-cluster", "node:node-1", "10.16.1.2", "node-1", 7);
    let holder = &mut lock.spec.holder;
    (holder.kind, holder.namespace) = (HolderKind::Node, None);
    (holder.uid, holder.interface) = ("node-node-1".into(), Some("node".into()));
    lock.spec.interfaces[0].interface = "node".into();
    assert_eq!(units(&world.apply(&lock)), ["node/node-1", "attachment/node/node-1/node/node-node-1"]);
    let Some(View::Node(view)) = world.view(&Unit::Node("node-1".into())) else { panic!("no view") };
    assert_eq!(view.port.map(|port| port.subnet.name), Some("node:node-1"));
    // A pod on a subnet that spans nodes leaves the cluster by its node, for as long as that is there.
    drop(world.apply(&in_cluster("apps", "10.50.0.0/24")));
    drop(world.apply(&mk_lock("vpc/ovn-cluster", "apps", "10.50.0.9", "a", 8)));
    let attachment = Unit::Attachment("pod/default/a/eth0/pod-default-a".parse().unwrap());
    let leaves_by = |world: &World| match world.view(&attachment) {
        Some(View::Attachment(view)) => view.leaves_by.map(|node| node.uid.to_owned()),
        _ => panic!("it is not in effect"),
    };
    assert_eq!(leaves_by(&world).as_deref(), Some("node-node-1"));
    // Made again under its name, it is another.
    let again = mk_node_again(mk_node_with("node-1", "10.16.9.0/24"), "second");
    let dirty = world.apply(&again);
    assert!(dirty.units.contains(&attachment) && dirty.units.contains(&Unit::Subnet(node_subnet("node-1"))));
    assert_eq!(leaves_by(&world).as_deref(), Some("second"));
    let dirty = world.delete(&again);
    assert!(dirty.units.contains(&attachment), "{dirty:?}");
    assert_eq!(leaves_by(&world), None);
    assert_eq!(world.state(&Unit::Node("node-1".into())), UnitState::Absent);
    assert_eq!(world.state(&Unit::Subnet(node_subnet("node-1"))), UnitState::Absent);
}

#[test]
fn the_router_is_there_whether_or_not_it_has_an_object() {
    let mut world = world(&[]);
    let unit = Unit::Vpc("ovn-cluster".into());
    let owner = |world: &World| world.view(&unit).map(|view| view.owner().clone());
    assert_eq!(owner(&world).as_deref(), Some("ovn-cluster"));
    let mut vpc = mk_vpc("ovn-cluster");
    let dirty = world.apply(&vpc);
    assert!(dirty.units.contains(&unit));
    assert_eq!(owner(&world).as_deref(), Some("ovn-cluster"), "the router must not be made again");
    assert_eq!(world.object_uid(&unit).as_deref(), Some("vpc-ovn-cluster"));
    // A mistake in it takes nothing away.
    vpc.spec.namespaces = vec!["Not A Name".into()];
    drop(world.apply(&vpc));
    assert_eq!(world.state(&unit), UnitState::Held);
    let dirty = world.delete(&vpc);
    assert!(dirty.units.contains(&unit));
    assert_eq!(world.state(&unit), UnitState::Live);
    // Of another cluster's primary network nothing is known.
    assert_eq!(World::default().state(&unit), UnitState::Absent);
}

#[test]
fn prefixes_must_not_overlap() {
    let mut world = world(&[mk_node_with("node-1", "10.16.1.0/24"), unserved("node-2", "10.16.2.0/24")]);
    let errors = |subnet: &Subnet, world: &World| {
        validate(subnet, world).errors.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let mut wide = in_cluster("wide", "10.16.0.0/16");
    wide.status = None;
    let overlaps = |node: &str, third: u8| {
        format!(
            "spec.cidrBlock: \"10.16.0.0/16\" overlaps 10.16.{third}.0/24 of Node {node} (spec.podCIDRs) in vpc/ovn-cluster; choose another prefix"
        )
    };
    assert_eq!(errors(&wide, &world), [overlaps("node-1", 1), overlaps("node-2", 2)]);
    // Where one subnet serves all nodes, prefixes that are not in use do not count.
    wide.spec.default = true;
    assert_eq!(errors(&wide, &world), [overlaps("node-1", 1)]);
    // Another VPC is another world.
    wide.spec.vpc = Some("blue".into());
    assert_eq!(errors(&wide, &world), [""; 0]);

    let mut taken = in_cluster("taken", "10.16.0.0/22");
    drop(world.apply(&taken));
    let of = |node: &Node, world: &World| {
        node_prefixes(node, world, |_| true).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let found = of(&unserved("node-2", "10.16.2.0/24"), &world);
    assert_eq!(found.len(), 1);
    assert!(
        found[0].starts_with("spec.podCIDRs: \"10.16.2.0/24\" overlaps 10.16.0.0/22 of Subnet taken"),
        "{found:?}"
    );
    let found = of(&unserved("node-3", "10.16.1.128/25"), &world);
    assert!(found.iter().any(|text| text.contains("of Node node-1 (spec.podCIDRs)")), "{found:?}");
    assert_eq!(of(&unserved("node-3", "10.17.0.0/24"), &world), [""; 0]);
    taken.spec.cidr_block = "10.99.0.0/24".into();
    assert_eq!(of(&unserved("node-3", "10.16.3.0/30"), &world).len(), 1, "too small, whatever else there is");
}

#[test]
fn a_node_is_believed_an_address_that_nothing_else_has() {
    let with = |name: &str, created: i64, addresses: &[&str]| Node {
        created: Some(created),
        addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
        ..mk_node(name)
    };
    let mut world = world(&[mk_node_with("node-1", "10.16.1.0/24")]);
    drop(world.apply(&in_cluster("apps", "10.50.0.0/24")));
    let strange = ["127.0.0.1", "169.254.1.1", "fe80::1", "::", "224.0.0.1"];
    for address in strange.into_iter().chain(["10.50.0.9", "10.16.1.7"]) {
        drop(world.apply(&with("thief", 5, &[address, "192.168.0.5"])));
        let thief = world.node("thief").unwrap();
        assert_eq!(
            world.node_addresses(thief),
            ["192.168.0.5".parse::<std::net::IpAddr>().unwrap()],
            "{address}"
        );
        assert_eq!(world.node_address_problems(thief).count(), 1, "{address}");
    }
    let believed = |world: &World, name: &str| world.node_addresses(world.node(name).unwrap()).len();
    // The one that was there before has it; the other as soon as that is gone.
    let dirty = world.apply(&with("older", 3, &["192.168.0.5"]));
    assert!(dirty.units.contains(&Unit::Node("thief".into())), "{dirty:?}");
    assert_eq!((believed(&world, "thief"), believed(&world, "older")), (0, 1));
    let older = world.node("older").unwrap().clone();
    let dirty = world.delete(&older);
    assert!(dirty.units.contains(&Unit::Node("thief".into())), "{dirty:?}");
    assert_eq!(believed(&world, "thief"), 1);
    // A subnet that comes into effect around it, and goes.
    drop(world.apply(&with("thief", 5, &["10.60.0.5"])));
    let late = in_cluster("late", "10.60.0.0/24");
    let dirty = world.apply(&late);
    assert!(dirty.units.contains(&Unit::Node("thief".into())), "{dirty:?}");
    assert_eq!(believed(&world, "thief"), 0);
    let dirty = world.delete(&late);
    assert!(dirty.units.contains(&Unit::Node("thief".into())), "{dirty:?}");
    assert_eq!(believed(&world, "thief"), 1);
    // Beside another primary network, nobody asks.
    let mut secondary = World::default();
    drop(secondary.apply(&with("thief", 5, &["10.60.0.5"])));
    assert!(secondary.apply(&late).units.iter().all(|unit| !matches!(unit, Unit::Node(_))));
}

#[test]
fn no_subnet_may_have_addresses_of_nodes() {
    let node =
        Node { addresses: vec!["172.31.0.11".parse().unwrap()], ..mk_node_with("node-1", "10.16.1.0/24") };
    let mut world = world(&[node]);
    let errors = |subnet: &Subnet, world: &World| {
        validate(subnet, world).errors.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    for cidr in ["172.31.0.0/16", "172.31.0.8/29", "172.31.0.16/28,fd00::/64", "172.16.0.0/12"] {
        let mut around = in_cluster("around", cidr);
        around.status = None;
        let has_address = cidr != "172.31.0.16/28,fd00::/64";
        let found = errors(&around, &world);
        assert_eq!(
            found.iter().any(|one| one.contains("an address of Node node-1")),
            has_address,
            "{found:?}"
        );
        // The hosts of another VPC are others, and so is what is in effect already.
        around.spec.vpc = Some("blue".into());
        assert!(!errors(&around, &world).iter().any(|one| one.contains("node-1")), "{cidr}");
    }
    let around = in_cluster("around", "172.31.0.0/16");
    assert_eq!(errors(&around, &world), [""; 0], "a node that comes later is not believed");
    drop(world.apply(&around));
    assert_eq!(world.node_addresses(world.node("node-1").unwrap()).len(), 0);
    // Nor the prefixes of a node: of itself, or of one that was there before.
    let own = Node { addresses: vec!["10.17.0.9".parse().unwrap()], ..unserved("node-2", "10.17.0.0/24") };
    drop(world.apply(&own));
    let found = node_prefixes(&own, &world, |_| true);
    assert!(
        found.iter().any(|one| one.to_string().contains("10.17.0.9, an address of Node node-2")),
        "{found:?}"
    );
}

#[test]
fn a_node_keeps_what_it_has_when_it_has_lost_its_annotation() {
    let mut world = world(&[mk_node_with("node-1", "10.16.1.0/24")]);
    for (at, address) in ["10.16.1.2", "10.16.1.3"].into_iter().enumerate() {
        let mut lock = mk_lock("vpc/ovn-cluster", "node:node-1", address, "node-1", at as u64 + 1);
        let holder = &mut lock.spec.holder;
        (holder.kind, holder.namespace) = (HolderKind::Node, None);
        (holder.uid, holder.interface) = ("node-node-1".into(), Some("node".into()));
        lock.spec.interfaces[0].interface = "node".into();
        lock.spec.interfaces[0].families = vec![portolan_api::Family::IPv4; 2];
        drop(world.apply(&lock));
    }
    let unit = Unit::Node("node-1".into());
    assert_eq!(world.state(&unit), UnitState::Live);
    assert!(world.node_view("node-1").unwrap().port.is_some());
    let dirty = world.apply(&unserved("node-1", "10.16.1.0/24"));
    assert!(dirty.units.contains(&unit));
    assert_eq!(world.state(&unit), UnitState::Held);
    // Neither may a Subnet for all nodes have them now.
    let mut wide = in_cluster("wide", "10.16.0.0/16");
    (wide.status, wide.spec.default) = (None, true);
    assert!(!validate(&wide, &world).is_valid());
    drop(world.apply(&mk_node_with("node-1", "10.16.1.0/24")));
    assert_eq!(world.state(&unit), UnitState::Live);
}
