//! What a pod asks for, and the words in which it is told what stands in the way.

use portolan_api::portolan::HolderKind;
use portolan_model::fixtures::*;
use portolan_model::pod::VirtualMachine;
use portolan_model::{FirstInterface, Needs, Pod, PodController, Request, Requester, Settings, Unit, World};

const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";
const NFN: &str = "k8s.plugin.opnfv.org/nfn-network";

/// A World with the networks `default/net` (Subnet `web`), `default/foreign` (macvlan) and `default/nfn` (OVN4NFV).
fn world(first_interface: FirstInterface) -> World {
    let mut world = World::new(Settings { first_interface });
    let mut web = mk_subnet("web", "10.0.0.0/24", "");
    web.spec.provider = Some("net.default.ovn".to_owned());
    web.spec.allowed_namespaces = vec!["friends".to_owned()];
    let _ = world.apply(&web);
    let _ = world.apply(&mk_nad("default", "net"));
    let _ = world.apply(&mk_nad_of("default", "foreign", r#"{"type":"macvlan"}"#));
    let _ = world.apply(&mk_nad_of("default", "nfn", r#"{"type":"ovn4nfvk8s-cni"}"#));
    world
}

fn ask(world: &mut World, pod: &Pod) -> Request {
    let _ = world.apply(pod);
    world.request(&Requester::pod(pod.namespace.as_str(), pod.name.as_str())).unwrap()
}

fn request(annotations: &[(&str, &str)]) -> Request {
    ask(&mut world(FirstInterface::Other), &mk_pod("default", "a", annotations))
}

fn interfaces(request: &Request) -> Vec<String> {
    assert!(request.is_ready(), "{:?} {:?}", problems(request), waits(request));
    request.interfaces.iter().map(|i| format!("{}@{}", i.interface, i.subnet)).collect()
}

fn problems(request: &Request) -> Vec<String> {
    request.problems.iter().map(ToString::to_string).collect()
}

fn waits(request: &Request) -> Vec<String> {
    request.waits.iter().map(ToString::to_string).collect()
}

#[test]
fn interfaces_are_numbered_with_those_of_other_plugins() {
    assert_eq!(
        interfaces(&request(&[(NETWORKS, "foreign, net, foreign, net@x, net")])),
        ["net2@web", "x@web", "net5@web"]
    );
}

#[test]
fn what_each_interface_asks_for() {
    let request = request(&[
        (
            NETWORKS,
            r#"[{"name": "net", "ips": ["10.0.0.7", "10.0.0.8"], "mac": "02:00:00:00:00:07", "default-route": ["10.0.0.1"]}, {"name": "net"}]"#,
        ),
        ("net.default.ovn.net2.kubernetes.io/ip_address", "10.0.0.9"),
        ("net.default.ovn.kubernetes.io/routes", r#"[{"dst": "10.9.0.0/16", "gw": "10.0.0.254"}]"#),
    ]);
    assert_eq!(interfaces(&request), ["net1@web", "net2@web"]);
    let [first, second] = request.interfaces.as_slice() else { panic!() };
    assert_eq!(first.addresses.len(), 2);
    assert_eq!(first.mac.unwrap().to_string(), "02:00:00:00:00:07");
    assert_eq!(first.default_route.as_ref().unwrap().len(), 1);
    assert_eq!(second.addresses[0].to_string(), "10.0.0.9");
    assert_eq!(second.routes.len(), 1);
}

#[test]
fn ovn4nfv_asks_for_subnets_by_name() {
    let mut world = world(FirstInterface::Other);
    let _ = world.apply(&mk_subnet("green", "172.16.0.0/24", ""));
    let pod = mk_pod(
        "default",
        "a",
        &[
            (NETWORKS, "nfn"),
            (
                NFN,
                r#"{"type": "ovn4nfv", "interface": [{"name": "green", "interface": "net1", "defaultGateway": "true", "gwipaddress": "172.16.0.9"}, {"name": "green"}]}"#,
            ),
            (
                "ovnNetworkRoutes",
                r#"[{"dst": "10.9.0.0/16", "gw": "172.16.0.1"}, {"dst": "10.8.0.0/16", "gw": "172.16.0.1", "dev": "net3"}]"#,
            ),
        ],
    );
    let request = ask(&mut world, &pod);
    // The definition that calls the plugin counts as an entry, but makes no interface of its own.
    assert_eq!(interfaces(&request), ["net1@green", "net3@green"]);
    assert_eq!(request.interfaces[0].default_route.as_ref().unwrap()[0].to_string(), "172.16.0.9");
    assert_eq!((request.interfaces[0].routes.len(), request.interfaces[1].routes.len()), (1, 1));
}

#[test]
fn the_first_interface_is_ours_in_a_cluster_of_ours() {
    let mut world = world(FirstInterface::Portolan);
    let plain = mk_pod("default", "a", &[]);
    assert_eq!(
        waits(&ask(&mut world, &plain)),
        [
            "waiting for a Subnet for the pods of namespace default; none names it in spec.namespaces, none is the default, and no spec.podCIDRs were allocated to the pod's Node"
        ]
    );
    let mut all = mk_subnet("all", "10.1.0.0/16", "");
    all.spec.default = true;
    assert!(world.apply(&all).requesters.contains(&Requester::pod("default", "a")), "who waits is told");
    assert_eq!(interfaces(&ask(&mut world, &plain)), ["eth0@all"]);
    let mut vpc = mk_vpc("blue");
    vpc.spec.namespaces = vec!["default".to_owned()];
    vpc.spec.default_subnet = Some("blue-1".to_owned());
    let mut blue = mk_subnet("blue-1", "10.2.0.0/16", "blue");
    blue.spec.allowed_namespaces.clear();
    let _ = (world.apply(&vpc), world.apply(&blue));
    assert_eq!(interfaces(&ask(&mut world, &plain)), ["eth0@all", "vpc0@blue-1"]);
    let mut own = mk_subnet("own", "10.3.0.0/16", "");
    own.spec.namespaces = vec!["default".to_owned()];
    let _ = world.apply(&own);
    assert_eq!(interfaces(&ask(&mut world, &plain)), ["eth0@own", "vpc0@blue-1"]);
    let chosen = mk_pod("default", "a", &[("ovn.kubernetes.io/logical_switch", "all")]);
    assert_eq!(interfaces(&ask(&mut world, &chosen)), ["eth0@all"]);
    let replaced = mk_pod("default", "a", &[("v1.multus-cni.io/default-network", "default/net")]);
    assert_eq!(interfaces(&ask(&mut world, &replaced)), ["eth0@web"]);
    let on_host = Pod { host_network: true, ..plain };
    let _ = world.apply(&on_host);
    assert_eq!(world.request(&Requester::pod("default", "a")), None);
}

#[test]
fn what_does_not_exist_yet_is_waited_for() {
    let mut world = World::default();
    let pod = mk_pod("default", "a", &[(NETWORKS, "net")]);
    assert_eq!(
        waits(&ask(&mut world, &pod)),
        ["waiting for network attachment definition default/net, which does not exist"]
    );
    let me = Requester::pod("default", "a");
    assert!(world.apply(&mk_nad("default", "net")).requesters.contains(&me));
    assert_eq!(
        waits(&ask(&mut world, &pod)),
        ["waiting for a Subnet with provider net.default.ovn; there is none"]
    );
    let mut subnet = mk_subnet("web", "10.0.0.0/24", "");
    subnet.spec.provider = Some("net.default.ovn".to_owned());
    let mut invalid = subnet.clone();
    invalid.spec.gateway = Some("nonsense".to_owned());
    assert!(world.apply(&invalid).requesters.contains(&me));
    let held = ["waiting for Subnet web, which is invalid and not used; see its condition Ready"];
    assert_eq!(waits(&ask(&mut world, &pod)), held, "there is one");
    let _ = world.delete_named::<portolan_api::portolan::Subnet>(&invalid.metadata);
    let mut raw = subnet.clone();
    raw.status = None;
    assert!(world.apply(&raw).requesters.contains(&me));
    assert_eq!(
        waits(&ask(&mut world, &pod)),
        ["waiting for Subnet web, which is not used; see its conditions Validated and Ready"]
    );
    assert!(world.apply(&subnet).requesters.contains(&me));
    assert_eq!(interfaces(&ask(&mut world, &pod)), ["net1@web"]);
}

#[test]
fn a_network_of_another_namespace_must_let_its_users_in() {
    let mut world = world(FirstInterface::Other);
    assert_eq!(
        interfaces(&ask(&mut world, &mk_pod("friends", "a", &[(NETWORKS, "default/net")]))),
        ["net1@web"]
    );
    let request = ask(&mut world, &mk_pod("strangers", "a", &[(NETWORKS, "default/net")]));
    assert_eq!(
        problems(&request),
        [
            "metadata.annotations[k8s.v1.cni.cncf.io/networks][0]: asks for Subnet web, which namespace strangers may not use; whoever owns the Subnet can add strangers to its spec.allowedNamespaces"
        ]
    );
    let by_name = mk_pod("strangers", "b", &[(NFN, r#"{"type":"ovn4nfv","interface":[{"name":"web"}]}"#)]);
    assert_eq!(problems(&ask(&mut world, &by_name)).len(), 1);
}

#[test]
fn mistakes_are_told_and_nothing_is_decided() {
    let said = |annotations: &[(&str, &str)]| {
        let request = request(annotations);
        assert!(!request.is_ready());
        problems(&request)
    };
    assert_eq!(
        said(&[(NETWORKS, "net@net2,net")]),
        [
            r#"metadata.annotations[k8s.v1.cni.cncf.io/networks][1].interface: "net2" is the interface of another network of this pod already; choose another name"#
        ]
    );
    assert_eq!(
        said(&[(NETWORKS, "net@eth0")]),
        [
            r#"metadata.annotations[k8s.v1.cni.cncf.io/networks][0].interface: "eth0" is the interface of another network of this pod already; choose another name"#
        ]
    );
    assert_eq!(
        said(&[
            (NETWORKS, r#"[{"name": "net", "ips": ["10.0.0.5"]}]"#),
            ("net.default.ovn.kubernetes.io/ip_address", "10.0.0.6")
        ]),
        [
            "metadata.annotations[k8s.v1.cni.cncf.io/networks][0]: asks for the addresses 10.0.0.5, and another annotation of the pod for 10.0.0.6; remove one"
        ]
    );
    assert_eq!(
        said(&[(NETWORKS, "[{]")]),
        [
            r#"metadata.annotations[k8s.v1.cni.cncf.io/networks]: "[{]" is not valid JSON: key must be a string at line 1 column 3"#
        ]
    );
    assert_eq!(
        said(&[(NETWORKS, "net"), ("ovnNetworkRoutes", r#"[{"dst": "10.9.0.0/16", "gw": "10.7.0.1"}]"#)]),
        [
            r#"metadata.annotations[ovnNetworkRoutes][0].gw: "10.7.0.1" is on no network of this pod; name the interface in dev"#
        ]
    );
    let mut world = world(FirstInterface::Other);
    let _ = world.apply(&mk_nad_of("default", "net", r#"{"type":"kube-ovn","provider":"secret.admin.ovn"}"#));
    let request = ask(&mut world, &mk_pod("default", "a", &[(NETWORKS, "net")]));
    assert_eq!(
        problems(&request),
        [
            r#"metadata.annotations[k8s.v1.cni.cncf.io/networks][0]: asks for network attachment definition default/net, which is wrong: spec.config.provider: "secret.admin.ovn" is not this definition's own provider; write net.default.ovn"#
        ]
    );
}

#[test]
fn a_virtual_machine_keeps_what_its_pods_use_in_turn() {
    let mut world = world(FirstInterface::Other);
    let runs = |name: &str, created: i64| Pod {
        created,
        controller: PodController::VirtualMachine("vm".into()),
        ..mk_pod("default", name, &[(NETWORKS, "net")])
    };
    let request = ask(&mut world, &runs("launcher-1", 1));
    assert_eq!(waits(&request), ["waiting for VirtualMachine default/vm, which does not exist"]);
    let _ = world.apply(&VirtualMachine { namespace: "default".into(), name: "vm".into(), uid: "m".into() });
    let request = ask(&mut world, &runs("launcher-1", 1));
    assert_eq!(
        (request.holder.kind, request.holder.name.as_str(), request.holder.uid.as_str()),
        (HolderKind::VirtualMachine, "vm", "m")
    );
    assert_eq!(request.user.unwrap().pod, "launcher-1");
    let target = ask(&mut world, &runs("launcher-2", 2));
    assert_eq!(
        waits(&target),
        ["waiting for pod launcher-1, which runs the same virtual machine, to finish"]
    );
    let dirty = world.apply(&Pod { finished: true, ..runs("launcher-1", 1) });
    assert!(dirty.requesters.contains(&Requester::pod("default", "launcher-2")));
    assert!(ask(&mut world, &runs("launcher-2", 2)).is_ready());
}

#[test]
fn who_has_everything_is_left_in_peace() {
    let mut world = world(FirstInterface::Other);
    let _ = world.apply(&mk_pod("default", "a", &[(NETWORKS, "net@eth1")]));
    let pods = |world: &World| world.unsatisfied().filter(|one| matches!(one, Requester::Pod { .. })).count();
    assert_eq!(pods(&world), 1);
    let mut lock = mk_lock("subnet/web", "web", "10.0.0.7", "a", 1);
    lock.spec.holder.interface = Some("eth1".to_owned());
    lock.spec.interfaces[0].interface = "eth1".to_owned();
    let dirty = world.apply(&lock);
    assert_eq!((dirty.requesters.len(), pods(&world)), (0, 0));
    assert!(matches!(dirty.units.first(), Some(Unit::Attachment(_))));
    assert!(world.delete(&mk_nad("default", "net")).is_empty());
}

#[test]
fn a_pod_waits_for_the_vpc_that_its_subnet_names_and_is_woken_by_it() {
    let mut world = World::default();
    let mut web = mk_subnet("web", "10.0.0.0/24", "blue");
    web.spec.provider = Some("net.default.ovn".to_owned());
    let _ = (world.apply(&web), world.apply(&mk_nad("default", "net")));
    let request = ask(&mut world, &mk_pod("default", "a", &[(NETWORKS, "net")]));
    assert_eq!(waits(&request), ["waiting for VPC blue, which Subnet web names and which does not exist"]);
    assert!(world.apply(&mk_vpc("blue")).requesters.contains(&Requester::pod("default", "a")));
    assert!(world.request(&Requester::pod("default", "a")).unwrap().is_ready());
}

#[test]
fn annotations_that_no_interface_uses_are_warned_about() {
    let mut world = world(FirstInterface::Other);
    let key = "ovn.kubernetes.io/ip_address";
    let _ = world.apply(&mk_pod("default", "a", &[(key, "10.0.0.9")]));
    let Needs::Nothing { warnings } = world.needs(&Requester::pod("default", "a")) else { panic!() };
    let texts: Vec<_> = warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "metadata.annotations[ovn.kubernetes.io/ip_address]: has no effect: another plugin makes the pod's first interface; name the network whose interface is meant, as in <name>.<namespace>.ovn.kubernetes.io/…"
        ]
    );
    let used = [(NETWORKS, "net"), ("net.default.ovn.kubernetes.io/ip_address", "10.0.0.9")];
    let request = ask(&mut world, &mk_pod("default", "a", &used));
    assert_eq!(request.warnings, []);
    for key in [
        "db.default.ovn.kubernetes.io/ip_address",
        "net.default.ovn.kubernetes.io/ingress_rate.net7",
        "net.default.kubernetes.io/ingress_rate.net7",
    ] {
        let value = if key.contains("rate") { "10" } else { "10.0.0.9" };
        let other = [(NETWORKS, "net"), (key, value)];
        assert_eq!(ask(&mut world, &mk_pod("default", "a", &other)).warnings.len(), 1, "{key}");
    }
}

#[test]
fn a_rate_that_is_none_is_warned_about_and_the_pod_is_served() {
    let mut world = world(FirstInterface::Other);
    let key = "net.default.ovn.kubernetes.io/ingress_rate";
    for (value, shown) in [("-1", "-1"), ("abc", "abc"), ("1e9", "1e9"), ("0", "0"), (" 1.5 ", "1.5")] {
        let request = ask(&mut world, &mk_pod("default", "a", &[(NETWORKS, "net"), (key, value)]));
        let texts: Vec<_> = request.warnings.iter().map(ToString::to_string).collect();
        let text = format!(
            "metadata.annotations[{key}]: {shown:?} is not a rate and limits nothing; write a whole number of Mbit/s from 1 to 4294967, or remove the annotation for no limit"
        );
        assert_eq!(texts, [text]);
        assert!(request.is_ready() && request.interfaces.len() == 1, "{value}");
    }
    let huge = "9".repeat(100_000);
    let request = ask(&mut world, &mk_pod("default", "a", &[(NETWORKS, "net"), (key, &huge)]));
    assert!(request.warnings[0].to_string().len() < 1000);
    for value in ["", " ", "1", "4294967"] {
        let request = ask(&mut world, &mk_pod("default", "a", &[(NETWORKS, "net"), (key, value)]));
        assert_eq!(request.warnings, [], "{value:?}");
    }
}

#[test]
fn annotations_of_kube_ovn_that_are_not_supported_yet_are_warned_about() {
    let mut world = world(FirstInterface::Other);
    let unsupported = ["aaps", "eip", "port_security", "security_groups", "snat", "vip"];
    let keys: Vec<_> = unsupported.map(|what| format!("net.default.ovn.kubernetes.io/{what}")).into();
    let mut annotations = vec![(NETWORKS, "net"), ("topology.kubernetes.io/vip", "another project's")];
    annotations.extend(keys.iter().map(|key| (key.as_str(), "x")));
    let request = ask(&mut world, &mk_pod("default", "a", &annotations));
    let texts: Vec<_> = request.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(texts.len(), unsupported.len(), "{texts:?}");
    let aaps = "metadata.annotations[net.default.ovn.kubernetes.io/aaps]: not supported yet; the Vip keeps its address, and the pod cannot send from it";
    assert_eq!(texts[0], aaps);
    let groups = "metadata.annotations[net.default.ovn.kubernetes.io/security_groups]: not supported yet; it has no effect";
    assert_eq!(texts[3], groups);
    // One for another network is told of once.
    let other = [(NETWORKS, "net"), ("db.default.ovn.kubernetes.io/aaps", "front")];
    assert_eq!(ask(&mut world, &mk_pod("default", "a", &other)).warnings.len(), 1);
}
