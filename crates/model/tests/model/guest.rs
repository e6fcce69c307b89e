//! The network inside a guest.

use ipnet::IpNet;
use portolan_api::portolan::{DecidedInterface, IPLock};
use portolan_api::routes::Route;
use portolan_api::{Family, Mac};
use portolan_model::fixtures::*;
use portolan_model::guest::{Guest, GuestState, MissingPart, RouteOrigin, guest};
use portolan_model::{AttachmentId, FirstInterface, Settings, World};

const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";

/// Subnet `web` for NAD `default/net` and the default Subnet `pods`, both dual stack.
fn world(first_interface: FirstInterface, nad: &str) -> World {
    let mut world = World::new(Settings { first_interface });
    let mut web = mk_subnet("web", "10.1.0.0/24,fd01::/64", "");
    web.spec.provider = Some("net.default.ovn".to_owned());
    web.spec.routes = vec![route("10.20.0.0/16", None)];
    let mut pods = mk_subnet("pods", "10.0.0.0/24,fd00::/64", "");
    pods.spec.default = true;
    let _ = (world.apply(&web), world.apply(&pods));
    let _ = world.apply(&mk_nad_of("default", "net", nad));
    world
}

const PLAIN: &str = r#"{"type":"kube-ovn"}"#;

fn route(dst: &str, gw: Option<&str>) -> Route {
    Route { dst: dst.to_owned(), gw: gw.map(str::to_owned) }
}

/// A lock on an address of one of the pod's interfaces; all of `decided` were decided for it.
fn lock(subnet: &str, address: &str, interface: &str, decided: &[(&str, &[Family])], version: u64) -> IPLock {
    let mut lock = mk_lock(&format!("subnet/{subnet}"), subnet, address, "a", version);
    lock.spec.holder.interface = Some(interface.to_owned());
    lock.spec.mac = Some(Mac::derive(address.parse().unwrap(), None).to_string());
    lock.spec.interfaces = decided
        .iter()
        .map(|(interface, families)| DecidedInterface {
            interface: (*interface).to_owned(),
            families: families.to_vec(),
        })
        .collect();
    lock
}

const V4: &[Family] = &[Family::IPv4];

/// A pod with both interfaces, IPv4 only.
fn two_interfaces(first: FirstInterface, nad: &str, annotations: &[(&str, &str)]) -> World {
    let mut world = world(first, nad);
    let _ = world.apply(&mk_pod("default", "a", annotations));
    let decided: &[(&str, &[Family])] = &[("eth0", V4), ("net1", V4)];
    let _ = world.apply(&lock("pods", "10.0.0.7", "eth0", decided, 1));
    let _ = world.apply(&lock("web", "10.1.0.7", "net1", decided, 2));
    world
}

fn decided<'w>(world: &'w World, kept: &[IpNet]) -> Guest<'w> {
    match guest(world, "default", "a", kept) {
        GuestState::Decided(guest) => guest,
        other => panic!("{other:?}"),
    }
}

/// The routes of an interface as `ip route` would print them, with their origin.
fn routes(guest: &Guest<'_>, interface: &str) -> Vec<String> {
    let found = guest.interfaces.iter().find(|one| one.name() == interface).unwrap();
    found
        .routes
        .iter()
        .map(|route| {
            let gateway = route.gateway.map(|gateway| format!(" via {gateway}")).unwrap_or_default();
            format!("{}{gateway} {:?}", route.destination, route.origin)
        })
        .collect()
}

#[test]
fn the_default_route_goes_by_the_first_interface() {
    let world = two_interfaces(FirstInterface::Portolan, PLAIN, &[(NETWORKS, "net")]);
    let guest = decided(&world, &[]);
    assert_eq!(routes(&guest, "eth0"), ["0.0.0.0/0 via 10.0.0.1 Default"]);
    assert_eq!(routes(&guest, "net1"), ["10.20.0.0/16 via 10.1.0.1 Subnet"]);
    assert_eq!((guest.missing.len(), guest.default_taken.len()), (0, 0));
    assert_eq!(guest.interfaces[0].addresses, ["10.0.0.7/24".parse::<IpNet>().unwrap()]);
    assert_eq!(guest.interfaces[0].gateways.len(), 1, "no IPv6 address, no IPv6 gateway");
}

#[test]
fn routes_of_the_definition_reach_the_guest_and_the_requester_has_precedence() {
    let nad = r#"{"type":"kube-ovn","routes":[{"dst":"10.30.0.0/16","gw":"10.1.0.9"},{"dst":"10.20.0.0/16","gw":"10.1.0.8"},{"dst":"fd99::/16"}]}"#;
    let asked = r#"[{"dst": "10.30.0.0/16", "gw": "10.1.0.254"}]"#;
    let annotations = [(NETWORKS, "net"), ("net.default.ovn.kubernetes.io/routes", asked)];
    let world = two_interfaces(FirstInterface::Portolan, nad, &annotations);
    assert_eq!(
        routes(&decided(&world, &[]), "net1"),
        ["10.30.0.0/16 via 10.1.0.254 Requester", "10.20.0.0/16 via 10.1.0.8 Network"]
    );
}

#[test]
fn a_first_interface_that_loses_the_default_route_keeps_the_clusters_networks() {
    let kept: Vec<IpNet> =
        ["10.0.0.0/24", "10.96.0.0/12", "fd96::/112"].iter().map(|net| net.parse().unwrap()).collect();
    let annotations = [(NETWORKS, r#"[{"name": "net", "default-route": ["10.1.0.200"]}]"#)];
    let world = two_interfaces(FirstInterface::Portolan, PLAIN, &annotations);
    let guest = decided(&world, &kept);
    assert_eq!(routes(&guest, "eth0"), ["10.96.0.0/12 via 10.0.0.1 Kept"], "its own prefix is on the link");
    assert_eq!(
        routes(&guest, "net1"),
        ["10.20.0.0/16 via 10.1.0.1 Subnet", "0.0.0.0/0 via 10.1.0.200 Default"]
    );
    assert_eq!(guest.default_taken, [Family::IPv4]);
}

#[test]
fn a_route_to_everything_takes_the_default_route_of_its_family_only() {
    let nad = r#"{"type":"kube-ovn","routes":[{"dst":"0.0.0.0/0"}]}"#;
    let mut world = world(FirstInterface::Portolan, nad);
    let _ = world.apply(&mk_pod("default", "a", &[(NETWORKS, "net")]));
    let both: &[Family] = &[Family::IPv4, Family::IPv6];
    let list: &[(&str, &[Family])] = &[("eth0", both), ("net1", both)];
    for (i, (subnet, address, interface)) in [
        ("pods", "10.0.0.7", "eth0"),
        ("pods", "fd00::7", "eth0"),
        ("web", "10.1.0.7", "net1"),
        ("web", "fd01::7", "net1"),
    ]
    .into_iter()
    .enumerate()
    {
        let mut lock = lock(subnet, address, interface, list, i as u64 + 1);
        lock.spec.mac = lock.spec.mac.filter(|_| !address.contains(':'));
        let _ = world.apply(&lock);
    }
    let guest = decided(&world, &[]);
    assert_eq!(routes(&guest, "eth0"), ["::/0 via fd00::1 Default"]);
    let expected = ["0.0.0.0/0 via 10.1.0.1 Network", "10.20.0.0/16 via 10.1.0.1 Subnet"];
    assert_eq!(routes(&guest, "net1"), expected);
    let default = guest.interfaces[1].routes.iter().find(|route| route.destination.prefix_len() == 0);
    assert_eq!(default.unwrap().origin, RouteOrigin::Network);
}

#[test]
fn a_guest_beside_another_plugin_is_told_which_default_routes_it_loses() {
    let annotations = [(NETWORKS, r#"[{"name": "net", "default-route": ["10.1.0.1"]}]"#)];
    let mut world = world(FirstInterface::Other, PLAIN);
    let _ = world.apply(&mk_pod("default", "a", &annotations));
    assert_eq!(guest(&world, "default", "a", &[]), GuestState::Undecided);
    let _ = world.apply(&lock("web", "10.1.0.7", "net1", &[("net1", V4)], 1));
    let found = decided(&world, &[]);
    assert_eq!(found.default_taken, [Family::IPv4]);
    assert_eq!(found.interfaces.len(), 1);
}

#[test]
fn what_is_missing_is_named() {
    let mut world = world(FirstInterface::Other, PLAIN);
    assert_eq!(guest(&world, "default", "a", &[]), GuestState::Unknown);
    let _ = world.apply(&mk_pod("default", "a", &[(NETWORKS, "net,later")]));
    let decided_list: &[(&str, &[Family])] = &[("net1", V4), ("net2", V4)];
    let _ = world.apply(&lock("web", "10.1.0.7", "net1", decided_list, 1));
    let found = decided(&world, &[]);
    assert_eq!(found.interfaces.len(), 1, "what the pod asks of net1 is known");
    assert_eq!(found.missing[0].interface, "net2");
    assert_eq!(found.missing[0].what, MissingPart::Attachment);
    // An interface whose network was not seen here: its routes are not known.
    let mut second = world.clone();
    let _ = second.delete(&mk_nad("default", "net"));
    let found = decided(&second, &[]);
    assert!(matches!(&found.missing[0].what, MissingPart::Request(waits) if !waits.is_empty()), "{found:?}");
}

#[test]
fn a_pod_that_asks_for_nothing_of_portolans_needs_nothing() {
    for annotations in [
        &[(NETWORKS, "foreign")][..],
        &[(NETWORKS, "")],
        &[("ovn.kubernetes.io/ip_address", "10.0.0.9")],
        &[],
    ] {
        let mut world = world(FirstInterface::Other, PLAIN);
        let _ = world.apply(&mk_nad_of("default", "foreign", r#"{"type":"macvlan"}"#));
        let _ = world.apply(&mk_pod("default", "a", annotations));
        assert_eq!(guest(&world, "default", "a", &[]), GuestState::Nothing, "{annotations:?}");
    }
}

#[test]
fn interfaces_of_an_earlier_pod_of_the_same_name_are_not_the_guests() {
    let mut world = two_interfaces(FirstInterface::Portolan, PLAIN, &[(NETWORKS, "net")]);
    let pod = portolan_model::Pod { uid: "second".into(), ..mk_pod("default", "a", &[(NETWORKS, "net")]) };
    let _ = world.apply(&pod);
    assert_eq!(guest(&world, "default", "a", &[]), GuestState::Undecided);
    assert!(
        world.attachment(&AttachmentId::new(&mk_holder("default", "a", "net1"), "net1").unwrap()).is_some()
    );
}
