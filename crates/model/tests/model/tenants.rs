//! Namespaces whose pods have an interface in a tenant's VPC, on the primary network.

use ipnet::IpNet;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube_core::ResourceExt;
use portolan_api::portolan::{DecidedInterface, HolderKind, Subnet};
use portolan_api::{Family, Mac};
use portolan_model::fixtures::*;
use portolan_model::guest::{Guest, GuestState, guest};
use portolan_model::pod::SetOfPod;
use portolan_model::validate::validate;
use portolan_model::{
    Dirty, FirstInterface, Pod, PodController, Request, Requester, Settings, Source, Unreadable, World,
};

const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";
const SWITCH: &str = "ovn.kubernetes.io/logical_switch";

/// A node with prefixes, and the VPCs `blue` and `red`.
fn world() -> World {
    let mut world = World::new(Settings { first_interface: FirstInterface::Portolan });
    drop(world.apply(&mk_node_with("node-1", "10.16.1.0/24")));
    drop((world.apply(&mk_vpc("blue")), world.apply(&mk_vpc("red"))));
    world
}

/// A Subnet for the pods of namespace `shop`, made that many seconds after the first.
fn for_shop(name: &str, cidr: &str, vpc: &str, made: i64) -> Subnet {
    let mut subnet = mk_subnet(name, cidr, vpc);
    subnet.spec.allowed_namespaces.clear();
    subnet.spec.namespaces = vec!["shop".to_owned()];
    subnet.metadata.creation_timestamp = Some(Time(Timestamp::from_second(made).unwrap()));
    subnet
}

fn ask(world: &mut World, pod: &Pod) -> Request {
    drop(world.apply(pod));
    world.request(&Requester::pod(pod.namespace.as_str(), pod.name.as_str())).unwrap()
}

/// The interfaces of a pod with their subnets, or what stands in its way.
fn answer(world: &mut World, pod: &Pod) -> String {
    let request = ask(world, pod);
    if !request.is_ready() {
        let waits = request.waits.iter().map(ToString::to_string);
        return waits.chain(request.problems.iter().map(ToString::to_string)).collect::<Vec<_>>().join("; ");
    }
    let of = |one: &portolan_model::InterfaceRequest| format!("{}@{}", one.interface, one.subnet);
    request.interfaces.iter().map(of).collect::<Vec<_>>().join(" ")
}

fn texts<T: ToString>(of: &[T]) -> Vec<String> {
    of.iter().map(ToString::to_string).collect()
}

#[test]
fn a_namespace_of_a_tenant_gives_its_pods_a_second_interface() {
    let mut world = world();
    let (pod, other) = (mk_pod("shop", "a", &[]), mk_pod("default", "b", &[]));
    assert_eq!(answer(&mut world, &pod), "eth0@node:node-1");
    let blue = for_shop("blue-1", "10.1.0.0/24", "blue", 1);
    let dirty = world.apply(&blue);
    assert!(dirty.requesters.contains(&Requester::pod("shop", "a")), "{dirty:?}");
    assert_eq!(answer(&mut world, &pod), "eth0@node:node-1 vpc0@blue-1");
    assert_eq!(answer(&mut world, &other), "eth0@node:node-1");
    // A Subnet of the primary network for the same namespace decides where the first interface is.
    drop(world.apply(&for_shop("shop", "10.50.0.0/24", "ovn-cluster", 2)));
    assert_eq!(answer(&mut world, &pod), "eth0@shop vpc0@blue-1");
    // So does one for all pods, which a tenant's cannot be.
    let mut tenants = mk_subnet("tenants", "10.70.0.0/16", "red");
    tenants.spec.default = true;
    drop(world.apply(&tenants));
    assert_eq!(answer(&mut world, &other), "eth0@node:node-1");
    assert!(texts(&validate(&tenants, &world).warnings)[0].contains("has no effect"));
    // It is for others to name the interface otherwise, wherever they are.
    drop((world.apply(&mk_nad("default", "net")), world.apply(&mk_nad("shop", "net"))));
    for namespace in ["default", "shop"] {
        let named = mk_pod(namespace, "c", &[(NETWORKS, "net@vpc0")]);
        assert!(answer(&mut world, &named).contains("choose another name"), "{namespace}");
    }
    // Beside another primary network a namespace only may use a Subnet.
    let mut beside = World::default();
    drop((beside.apply(&mk_vpc("blue")), beside.apply(&blue), beside.apply(&pod)));
    assert_eq!(beside.request(&Requester::pod("shop", "a")), None);
}

#[test]
fn what_a_pod_chooses_itself_has_precedence() {
    let mut world = world();
    drop(world.apply(&for_shop("blue-1", "10.1.0.0/24", "blue", 1)));
    drop(world.apply(&for_shop("shop", "10.50.0.0/24", "ovn-cluster", 2)));
    drop(world.apply(&mk_subnet("red-1", "10.1.0.0/24", "red")));
    let mut web = mk_subnet("web", "10.2.0.0/24", "blue");
    web.spec.provider = Some("net.shop.ovn".to_owned());
    web.spec.namespaces = vec!["shop".to_owned()];
    drop((world.apply(&web), world.apply(&mk_nad("shop", "net"))));
    let mut with = |annotations: &[(&str, &str)]| answer(&mut world, &mk_pod("shop", "a", annotations));
    // The Subnet of a definition is for those who ask for it, and comes beside.
    assert_eq!(with(&[]), "eth0@shop vpc0@blue-1");
    assert_eq!(with(&[(NETWORKS, "net")]), "eth0@shop vpc0@blue-1 net1@web");
    // Another tenant's Subnet, which lets the pod's namespace in; in any namespace.
    assert_eq!(with(&[(SWITCH, "red-1")]), "eth0@shop vpc0@red-1");
    assert_eq!(with(&[("ovn.vpc0.kubernetes.io/logical_switch", "red-1")]), "eth0@shop vpc0@red-1");
    assert_eq!(
        answer(&mut world, &mk_pod("default", "b", &[(SWITCH, "red-1")])),
        "eth0@node:node-1 vpc0@red-1"
    );
    let mut with = |annotations: &[(&str, &str)]| answer(&mut world, &mk_pod("shop", "a", annotations));
    // A Subnet of the primary network, or another network for the first interface: the pod is outside of the VPC.
    assert_eq!(with(&[(SWITCH, "shop")]), "eth0@shop");
    assert_eq!(with(&[("v1.multus-cni.io/default-network", "net")]), "eth0@web");
    assert!(with(&[("ovn.vpc0.kubernetes.io/logical_switch", "shop")]).contains("of no tenant's VPC"));
    assert!(with(&[(SWITCH, "later")]).contains("waiting for Subnet later"));
    let closed = answer(&mut world, &mk_pod("default", "c", &[(SWITCH, "blue-1")]));
    assert!(closed.contains("which namespace default may not use"), "{closed}");
}

#[test]
fn kube_ovns_annotations_are_about_the_interface_in_the_vpc() {
    let mut world = world();
    drop(world.apply(&for_shop("blue-1", "10.1.0.0/24", "blue", 1)));
    let pod = mk_pod(
        "shop",
        "a",
        &[
            ("ovn.kubernetes.io/ip_address", "10.1.0.9"),
            ("ovn.kubernetes.io/mac_address", "02:00:00:00:00:09"),
        ],
    );
    let request = ask(&mut world, &pod);
    assert!(request.is_ready() && request.warnings.is_empty(), "{request:?}");
    let [first, in_vpc] = request.interfaces.as_slice() else { panic!("{request:?}") };
    assert_eq!((first.addresses.len(), first.mac, first.is_way_out), (0, None, false));
    assert_eq!(in_vpc.addresses[0].to_string(), "10.1.0.9");
    assert!(in_vpc.mac.is_some() && in_vpc.is_way_out);
    let stays = mk_pod("shop", "a", &[("ovn.kubernetes.io/default_route", "false")]);
    assert!(!ask(&mut world, &stays).interfaces[1].is_way_out);
}

#[test]
fn of_several_the_one_that_was_made_first_has_the_namespace() {
    let mut world = world();
    let pod = mk_pod("shop", "a", &[]);
    let (first, second) =
        (for_shop("red-1", "10.1.0.0/24", "red", 1), for_shop("blue-1", "10.1.0.0/24", "blue", 2));
    drop((world.apply(&second), world.apply(&first)));
    assert_eq!(answer(&mut world, &pod), "eth0@node:node-1 vpc0@red-1");
    let warnings = |subnet: &Subnet, world: &World| texts(&validate(subnet, world).warnings);
    assert_eq!(warnings(&first, &world), [""; 0]);
    assert_eq!(
        warnings(&second, &world),
        [
            "spec.namespaces: \"shop\" Subnet red-1 names namespace shop too and was made before, so its pods are on that one; remove the namespace from one of the two"
        ]
    );
    let rivals: Vec<_> = world.rivals_for_namespaces("red-1").iter().map(|one| one.name.clone()).collect();
    assert_eq!(rivals, ["blue-1", "red-1"]);
    // One that is not in effect gives way, and a VPC that names the namespace comes last.
    let dirty = world.apply(&Subnet { status: None, ..first.clone() });
    assert!(dirty.requesters.contains(&Requester::pod("shop", "a")), "{dirty:?}");
    assert_eq!(answer(&mut world, &pod), "eth0@node:node-1 vpc0@blue-1");
    let mut vpc = mk_vpc("red");
    vpc.spec.namespaces = vec!["shop".to_owned()];
    vpc.spec.default_subnet = Some("red-2".to_owned());
    drop((world.apply(&vpc), world.apply(&mk_subnet("red-2", "10.3.0.0/24", "red"))));
    assert_eq!(answer(&mut world, &pod), "eth0@node:node-1 vpc0@blue-1");
    drop((world.delete(&first), world.delete(&second)));
    assert_eq!(answer(&mut world, &pod), "eth0@node:node-1 vpc0@red-2");
}

#[test]
fn pods_are_not_made_outside_of_their_vpc_while_something_is_wrong_with_it() {
    let mut world = world();
    let pod = mk_pod("shop", "a", &[]);
    let subnet = for_shop("blue-1", "10.1.0.0/24", "blue", 1);
    drop(world.apply(&Subnet { status: None, ..subnet.clone() }));
    assert!(answer(&mut world, &pod).contains("waiting for Subnet blue-1, which is not used"));
    let mut broken = subnet.clone();
    broken.spec.cidr_block = "10.1.0.0/33".to_owned();
    drop(world.apply(&broken));
    assert!(answer(&mut world, &pod).contains("waiting for Subnet blue-1, which is invalid"));
    let dirty = world.apply(&subnet);
    assert!(dirty.requesters.contains(&Requester::pod("shop", "a")), "{dirty:?}");
    assert_eq!(answer(&mut world, &pod), "eth0@node:node-1 vpc0@blue-1");
    drop(world.delete(&mk_vpc("blue")));
    assert!(answer(&mut world, &pod).contains("waiting for VPC blue"));
    drop(world.delete(&subnet));
    assert_eq!(answer(&mut world, &pod), "eth0@node:node-1");
}

#[test]
fn an_address_in_the_vpc_follows_the_ordinal_and_stays_with_no_machine() {
    let mut world = world();
    drop(world.apply(&for_shop("blue-1", "10.1.0.0/24", "blue", 1)));
    let kinds = |request: &Request| {
        request.interfaces.iter().map(|one| request.holder_of(one).kind).collect::<Vec<_>>()
    };
    let set = PodController::StatefulSet(Box::new(SetOfPod { name: "db".into(), uid: "set-db".into() }));
    let ordinal = Pod { controller: set, ..mk_pod("shop", "db-0", &[]) };
    assert_eq!(kinds(&ask(&mut world, &ordinal)), [HolderKind::Pod, HolderKind::StatefulSet]);
    let machine = PodController::VirtualMachine("vm".into());
    let launcher = Pod { controller: machine, ..mk_pod("shop", "virt-launcher-vm-x", &[]) };
    let request = ask(&mut world, &launcher);
    assert!(request.is_ready(), "{request:?}");
    assert_eq!(kinds(&request), [HolderKind::Pod, HolderKind::Pod]);
}

#[test]
fn a_subnet_for_namespaces_must_not_overlap_the_clusters_own_networks() {
    let mut world = world();
    world.set_cluster_networks(vec!["10.96.0.0/16".parse().unwrap()]);
    drop(world.apply(&mk_subnet("apps", "10.50.0.0/24", "ovn-cluster")));
    let new = |cidr: &str| Subnet { status: None, ..for_shop("blue-1", cidr, "blue", 1) };
    let errors = |subnet: &Subnet, world: &World| texts(&validate(subnet, world).errors);
    for (cidr, with) in [
        ("10.0.0.0/8", "10.96.0.0/16 of the cluster (--cluster-network)"),
        ("10.96.7.0/24", "10.96.0.0/16 of the cluster (--cluster-network)"),
        ("10.16.0.0/16", "10.16.1.0/24 of Node node-1 (spec.podCIDRs)"),
        ("10.50.0.0/16", "10.50.0.0/24 of Subnet apps"),
        ("192.168.0.0/24", "192.168.0.1/32 of Node node-1, an address of its own"),
    ] {
        let expected = format!(
            "spec.cidrBlock: \"{cidr}\" overlaps {with}, by which the pods of its namespaces reach probes, DNS and Services; choose another prefix"
        );
        assert_eq!(errors(&new(cidr), &world), [expected]);
    }
    assert_eq!(errors(&new("10.1.0.0/24,fd01::/64"), &world), [""; 0]);
    // Without namespaces a VPC is a world of its own; with them from its VPC it is none.
    let mut alone = new("10.96.7.0/24");
    alone.spec.namespaces.clear();
    assert_eq!(errors(&alone, &world), [""; 0]);
    let mut vpc = mk_vpc("blue");
    (vpc.spec.namespaces, vpc.spec.default_subnet) = (vec!["shop".to_owned()], Some("blue-1".to_owned()));
    drop(world.apply(&vpc));
    assert_eq!(errors(&alone, &world).len(), 1);
    // What is in effect stays so when a node comes, and is told.
    let subnet = for_shop("blue-1", "10.17.0.0/16", "blue", 1);
    drop(world.apply(&subnet));
    drop(world.apply(&mk_node_with("node-2", "10.17.2.0/24")));
    assert_eq!(errors(&subnet, &world), [""; 0]);
    let value = world.subnet("blue-1").unwrap();
    assert_eq!(world.tenant_problems(value).len(), 1);
    let within = world.tenants_within("10.17.2.0/24".parse().unwrap());
    assert_eq!(within.collect::<Vec<_>>(), [value]);
    // Beside another primary network there is nothing to overlap.
    let mut beside = World::default();
    drop((beside.apply(&mk_vpc("blue")), beside.apply(&mk_node_with("node-1", "10.16.1.0/24"))));
    assert_eq!(errors(&new("10.16.0.0/16"), &beside), [""; 0]);
}

const V4: &[Family] = &[Family::IPv4];

fn lock(world: &mut World, domain: &str, subnet: &str, address: &str, interface: &str, decided: &[&str]) {
    let mut lock = mk_lock(domain, subnet, address, "a", 1);
    lock.spec.holder.namespace = Some("shop".to_owned());
    lock.spec.holder.uid = "pod-shop-a".to_owned();
    lock.spec.holder.interface = Some(interface.to_owned());
    lock.spec.mac = Some(Mac::derive(address.parse().unwrap(), None).to_string());
    let one =
        |interface: &&str| DecidedInterface { interface: (*interface).to_owned(), families: V4.to_vec() };
    lock.spec.interfaces = decided.iter().map(one).collect();
    drop(world.apply(&lock));
}

fn decided<'w>(world: &'w World, kept: &[IpNet]) -> Guest<'w> {
    match guest(world, "shop", "a", kept) {
        GuestState::Decided(guest) => guest,
        other => panic!("{other:?}"),
    }
}

/// The routes of an interface as `ip route` would print them.
fn routes(guest: &Guest<'_>, interface: &str) -> Vec<String> {
    let found = guest.interfaces.iter().find(|one| one.name() == interface).unwrap();
    let text = |route: &portolan_model::guest::Route| {
        let gateway = route.gateway.map(|gateway| format!(" via {gateway}")).unwrap_or_default();
        format!("{}{gateway}", route.destination)
    };
    found.routes.iter().map(text).collect()
}

/// A pod of `shop` that got both interfaces.
fn placed(annotations: &[(&str, &str)]) -> World {
    let mut world = world();
    drop(world.apply(&mk_node_with("node-2", "10.16.4.0/24")));
    drop(world.apply(&for_shop("blue-1", "10.1.0.0/24", "blue", 1)));
    drop(world.apply(&mk_pod("shop", "a", annotations)));
    lock(&mut world, "vpc/ovn-cluster", "node:node-1", "10.16.1.9", "eth0", &["eth0", "vpc0"]);
    lock(&mut world, "vpc/blue", "blue-1", "10.1.0.9", "vpc0", &["eth0", "vpc0"]);
    world
}

#[test]
fn the_default_route_leads_into_the_vpc_and_the_first_interface_keeps_the_clusters_networks() {
    let world = placed(&[]);
    let services = ["10.96.0.0/16", "fd96::/112"].map(|net| net.parse().unwrap());
    let guest = decided(&world, &services);
    let kept = ["10.16.4.0/24", "10.96.0.0/16", "192.168.0.1/32"].map(|net| format!("{net} via 10.16.1.1"));
    assert_eq!(routes(&guest, "eth0"), kept);
    assert_eq!(routes(&guest, "vpc0"), ["0.0.0.0/0 via 10.1.0.1"]);
    assert_eq!(guest.default_taken, [Family::IPv4]);
}

#[test]
fn who_asks_for_the_default_route_has_it() {
    let world = placed(&[("ovn.kubernetes.io/default_route", "false")]);
    let guest = decided(&world, &[]);
    assert_eq!(routes(&guest, "eth0"), ["0.0.0.0/0 via 10.16.1.1"]);
    assert_eq!(routes(&guest, "vpc0"), [""; 0]);
    // Another interface that the pod asks to take it.
    let mut world = placed(&[(NETWORKS, r#"[{"name": "net", "default-route": ["10.9.0.1"]}]"#)]);
    drop(world.apply(&mk_nad("shop", "net")));
    let mut web = mk_subnet("web", "10.9.0.0/24", "");
    web.spec.provider = Some("net.shop.ovn".to_owned());
    drop(world.apply(&web));
    let all = ["eth0", "vpc0", "net1"];
    lock(&mut world, "vpc/ovn-cluster", "node:node-1", "10.16.1.9", "eth0", &all);
    lock(&mut world, "vpc/blue", "blue-1", "10.1.0.9", "vpc0", &all);
    lock(&mut world, "subnet/web", "web", "10.9.0.9", "net1", &all);
    let guest = decided(&world, &[]);
    assert_eq!(routes(&guest, "vpc0"), [""; 0]);
    assert_eq!(routes(&guest, "net1"), ["0.0.0.0/0 via 10.9.0.1"]);
}

#[test]
fn a_pod_that_runs_keeps_its_routes_whatever_its_namespace_is_given() {
    let mut world = placed(&[]);
    let before =
        format!("{:?}", decided(&world, &[]).interfaces.iter().map(|one| &one.routes).collect::<Vec<_>>());
    let mut subnet = for_shop("blue-1", "10.1.0.0/24", "blue", 1);
    subnet.spec.namespaces = vec!["other".to_owned()];
    let dirty = world.apply(&subnet);
    assert!(!dirty.requesters.contains(&Requester::pod("shop", "a")), "{dirty:?}");
    let routes_now = |world: &World| {
        format!("{:?}", decided(world, &[]).interfaces.iter().map(|one| &one.routes).collect::<Vec<_>>())
    };
    assert_eq!(routes_now(&world), before);
    drop(world.apply(&for_shop("red-1", "10.3.0.0/24", "red", 1)));
    assert_eq!(routes_now(&world), before);
    // Nor does one that was there before its namespace was given anything lose what it has.
    let mut plain = self::world();
    drop(plain.apply(&mk_pod("shop", "a", &[])));
    lock(&mut plain, "vpc/ovn-cluster", "node:node-1", "10.16.1.9", "eth0", &["eth0"]);
    let before = routes(&decided(&plain, &[]), "eth0");
    let dirty = plain.apply(&for_shop("blue-1", "10.1.0.0/24", "blue", 1));
    assert!(!dirty.requesters.contains(&Requester::pod("shop", "a")), "{dirty:?}");
    assert_eq!(routes(&decided(&plain, &[]), "eth0"), before);
    assert_eq!(before, ["0.0.0.0/0 via 10.16.1.1"]);
}

#[test]
fn a_pod_keeps_its_first_interface_when_no_subnet_is_for_its_namespace_any_more() {
    let mut world = World::new(Settings { first_interface: FirstInterface::Portolan });
    let mut own = for_shop("own", "10.3.0.0/24", "ovn-cluster", 1);
    drop(world.apply(&own));
    let routes_of_pod = r#"[{"dst": "10.9.0.0/16", "gw": "10.3.0.7"}]"#;
    drop(world.apply(&mk_pod("shop", "a", &[("ovn.kubernetes.io/routes", routes_of_pod)])));
    lock(&mut world, "vpc/ovn-cluster", "own", "10.3.0.9", "eth0", &["eth0"]);
    // An earlier pod of the name holds its own address still.
    let mut former = mk_lock("vpc/ovn-cluster", "own", "10.3.0.8", "a", 0);
    former.spec.holder.namespace = Some("shop".to_owned());
    former.spec.holder.uid = "former".to_owned();
    former.spec.holder.interface = Some("eth0".to_owned());
    former.spec.interfaces = vec![DecidedInterface { interface: "eth0".to_owned(), families: V4.to_vec() }];
    drop(world.apply(&former));
    let before = routes(&decided(&world, &[]), "eth0");
    assert_eq!(before, ["10.9.0.0/16 via 10.3.0.7", "0.0.0.0/0 via 10.3.0.1"]);
    own.spec.namespaces = vec!["other".to_owned()];
    drop(world.apply(&own));
    let guest = decided(&world, &[]);
    assert_eq!((guest.missing.len(), routes(&guest, "eth0")), (0, before));
    // A pod that has nothing yet waits.
    assert!(answer(&mut world, &mk_pod("shop", "b", &[])).starts_with("waiting for a Subnet for the pods"));
}

#[test]
fn a_pod_that_has_everything_waits_for_nothing() {
    let mut world = self::world();
    let mut own = mk_kubeovn_subnet("own", "10.3.0.0/24");
    (own.spec.vpc, own.spec.namespaces) = (Some("ovn-cluster".to_owned()), Some(vec!["shop".to_owned()]));
    drop(world.apply(&own));
    drop(world.apply(&mk_pod("shop", "a", &[("ovn.kubernetes.io/routes", "[]")])));
    lock(&mut world, "vpc/ovn-cluster", "own", "10.3.0.9", "eth0", &["eth0"]);
    let (before, results) = (routes(&decided(&world, &[]), "eth0"), world.results("shop", "a"));
    assert!(!results.is_empty());
    // A Subnet for its namespace comes and cannot be understood, or none can be seen.
    let mut broken = for_shop("blue-1", "10.1.0.0/33", "blue", 1);
    drop(world.apply(&broken));
    let is_left_alone = |world: &World| {
        let guest = decided(world, &[]);
        assert_eq!((guest.missing.len(), routes(&guest, "eth0")), (0, before.clone()));
        assert_eq!(world.results("shop", "a"), results);
    };
    is_left_alone(&world);
    assert!(answer(&mut world, &mk_pod("shop", "b", &[])).contains("waiting for Subnet blue-1"));
    broken.spec.namespaces.clear();
    drop((world.apply(&broken), world.set_networks_behind(true)));
    is_left_alone(&world);
    assert!(answer(&mut world, &mk_pod("shop", "b", &[])).contains("waiting for the API server"));
}

#[test]
fn no_pod_is_made_outside_of_a_vpc_that_cannot_be_understood() {
    let mut native = mk_vpc("red");
    (native.spec.namespaces, native.spec.default_subnet) =
        (vec!["mall".to_owned()], Some("red-1".to_owned()));
    let mut foreign = mk_kubeovn_vpc("red");
    (foreign.spec.namespaces, foreign.spec.default_subnet) =
        (Some(vec!["mall".to_owned()]), Some("red-1".to_owned()));
    let pod = mk_pod("mall", "a", &[]);
    let waits = "waiting for Subnet red-1, which is not used; see its conditions Validated and Ready";
    let apart = |mut world: World, vpc: Either| {
        drop(world.apply(&mk_subnet("red-1", "10.3.0.0/24", "red")));
        drop(vpc.put(&mut world));
        assert_eq!(answer(&mut world, &pod), "eth0@node:node-1 vpc0@red-1");
        drop(world.delete(&pod));
        drop(vpc.broken().put(&mut world));
        assert_eq!(answer(&mut world, &pod), waits);
        let dirty = vpc.put(&mut world);
        assert!(dirty.requesters.contains(&Requester::pod("mall", "a")), "{dirty:?}");
        assert_eq!(answer(&mut world, &pod), "eth0@node:node-1 vpc0@red-1");
        // Nor one of which a field is of another type; its namespaces can be read.
        vpc.unreadable(&mut world);
        assert_eq!(answer(&mut world, &pod), waits);
        // It gives them to nobody any more, or is gone.
        drop(vpc.of_nobody().broken().put(&mut world));
        assert_eq!(answer(&mut world, &pod), "eth0@node:node-1");
        drop(vpc.broken().put(&mut world));
        vpc.delete(&mut world);
        assert_eq!(answer(&mut world, &pod), "eth0@node:node-1");
    };
    let empty = || {
        let mut world = self::world();
        drop(world.delete(&mk_vpc("red")));
        world
    };
    apart(empty(), Either::Native(Box::new(native.clone())));
    apart(empty(), Either::Foreign(Box::new(foreign)));
    // Without a Subnet for them it gives its namespaces nothing.
    let mut world = empty();
    native.spec.default_subnet = None;
    drop(Either::Native(Box::new(native)).broken().put(&mut world));
    assert_eq!(answer(&mut world, &pod), "eth0@node:node-1");
}

/// A VPC of one of the groups.
enum Either {
    Native(Box<portolan_api::portolan::Vpc>),
    Foreign(Box<portolan_api::kubeovn::Vpc>),
}

impl Either {
    fn put(&self, world: &mut World) -> Dirty {
        match self {
            Either::Native(vpc) => world.apply(vpc.as_ref()),
            Either::Foreign(vpc) => world.apply(vpc.as_ref()),
        }
    }

    fn delete(&self, world: &mut World) {
        match self {
            Either::Native(vpc) => drop(world.delete(vpc.as_ref())),
            Either::Foreign(vpc) => drop(world.delete(vpc.as_ref())),
        }
    }

    fn broken(&self) -> Self {
        let route = serde_json::json!([{"cidr": "10.0.0.0/33", "nextHopIP": "10.3.0.1"}]);
        match self {
            Either::Native(vpc) => {
                let mut vpc = vpc.clone();
                vpc.spec.static_routes = serde_json::from_value(route).unwrap();
                Either::Native(vpc)
            }
            Either::Foreign(vpc) => {
                let mut vpc = vpc.clone();
                vpc.spec.static_routes = serde_json::from_value(route).unwrap();
                Either::Foreign(vpc)
            }
        }
    }

    fn of_nobody(&self) -> Self {
        match self {
            Either::Native(vpc) => {
                let mut vpc = vpc.clone();
                vpc.spec.namespaces.clear();
                Either::Native(vpc)
            }
            Either::Foreign(vpc) => {
                let mut vpc = vpc.clone();
                vpc.spec.namespaces = None;
                Either::Foreign(vpc)
            }
        }
    }

    fn unreadable(&self, world: &mut World) {
        fn take<O: Source + ResourceExt>(world: &mut World, object: &O, content: &serde_json::Value) {
            let (field, problem) = ("spec.staticRoutes", "invalid type: map");
            let unreadable = Unreadable { metadata: object.meta(), content, field, problem };
            drop(world.apply_unreadable::<O>(&unreadable));
        }
        match self {
            Either::Native(vpc) => take(world, vpc.as_ref(), &serde_json::json!(vpc)),
            Either::Foreign(vpc) => take(world, vpc.as_ref(), &serde_json::json!(vpc)),
        }
    }
}
