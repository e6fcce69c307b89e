#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1 as k8s;
use portolan_model::fixtures::mk_service;
use portolan_model::{FirstInterface, Settings, Unit};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

use super::*;

fn world() -> World {
    World::new(Settings { first_interface: FirstInterface::Portolan })
}

/// A Service of two families with these fields of its spec and these addresses of its load balancer.
fn service(name: &str, spec: &Value, balancer: &[&str]) -> k8s::Service {
    let mut object = serde_json::to_value(mk_service(name, &["10.96.0.1", "fd96::1"])).unwrap();
    for (field, value) in spec.as_object().unwrap() {
        object["spec"][field] = value.clone();
    }
    if !balancer.is_empty() {
        object["spec"]["type"] = "LoadBalancer".into();
    }
    let ingress: Vec<Value> = balancer.iter().map(|ip| json!({ "ip": ip })).collect();
    object["status"] = json!({ "loadBalancer": { "ingress": ingress } });
    serde_json::from_value(object).unwrap()
}

/// What a Service alone leads to.
fn texts(spec: &Value, balancer: &[&str]) -> Vec<String> {
    let mut world = world();
    drop(world.apply(&service("web", spec, balancer)));
    let mut services = NodeServices::default();
    services.update(&world, [("default".to_owned(), "web".to_owned())]);
    services.elements().map(|element| element.to_string()).collect()
}

fn port(number: u16, protocol: &str, node_port: u16) -> Value {
    json!({ "name": format!("p{number}{protocol}"), "port": number, "protocol": protocol, "nodePort": node_port })
}

#[test]
fn a_service_of_the_cluster_alone_needs_nothing_on_nodes() {
    assert_eq!(texts(&json!({}), &[]), [""; 0]);
}

#[test]
fn what_comes_to_a_node_port_goes_to_the_cluster_ip_of_the_family() {
    let ports = json!({ "ports": [port(80, "TCP", 30080), port(53, "UDP", 30053), port(9, "SCTP", 30080)] });
    assert_eq!(
        texts(&ports, &[]),
        [
            "all to node port 30080 TCP: 10.96.0.1:80",
            "all to node port 30053 UDP: 10.96.0.1:53",
            "all to node port 30080 SCTP: 10.96.0.1:9",
            "all to node port 30080 TCP: [fd96::1]:80",
            "all to node port 30053 UDP: [fd96::1]:53",
            "all to node port 30080 SCTP: [fd96::1]:9",
        ]
    );
    let of_one_family = json!({ "ports": [port(80, "TCP", 30080)], "clusterIPs": ["fd96::1"], "clusterIP": "fd96::1",
        "externalIPs": ["192.0.2.1", "2001:db8::1"] });
    assert_eq!(
        texts(&of_one_family, &[]),
        ["all to node port 30080 TCP: [fd96::1]:80", "all to [2001:db8::1]:80 TCP: [fd96::1]:80"]
    );
}

#[test]
fn what_stays_on_the_node_has_a_frontend_of_its_own_for_those_outside() {
    let spec = json!({ "ports": [port(80, "TCP", 30080)], "externalTrafficPolicy": "Local", "externalIPs": ["192.0.2.1"] });
    assert_eq!(
        texts(&spec, &["2001:db8::1"]),
        [
            "all to node port 30080 TCP: 10.96.0.1:80",
            "all to node port 30080 TCP: [fd96::1]:80",
            "outside to node port 30080 TCP: 169.254.169.3:30080",
            "outside to node port 30080 TCP: [fd8a:3c51:9e07:a9::3]:30080",
            "all to 192.0.2.1:80 TCP: 10.96.0.1:80",
            "all to [2001:db8::1]:80 TCP: [fd96::1]:80",
            "outside to 192.0.2.1:80 TCP: 169.254.169.3:30080",
            "outside to [2001:db8::1]:80 TCP: [fd8a:3c51:9e07:a9::3]:30080",
        ]
    );
    let without_node_ports = json!({ "ports": [{ "port": 80, "protocol": "TCP" }], "externalTrafficPolicy": "Local",
        "allocateLoadBalancerNodePorts": false, "healthCheckNodePort": 32000 });
    assert_eq!(
        texts(&without_node_ports, &["192.0.2.9"]),
        ["all to 192.0.2.9:80 TCP: 10.96.0.1:80", "outside to 192.0.2.9:80 TCP: 169.254.169.8:32000"]
    );
}

#[test]
fn ranges_guard_the_addresses_of_the_load_balancer_and_nothing_else() {
    let with = |ranges: &[&str]| {
        let spec = json!({ "ports": [port(80, "TCP", 30080)], "externalIPs": ["192.0.2.1"],
            "loadBalancerSourceRanges": ranges });
        let texts = texts(&spec, &["192.0.2.9", "2001:db8::9"]);
        texts.into_iter().filter(|text| !text.starts_with("all")).collect::<Vec<_>>()
    };
    assert_eq!(
        with(&["198.51.100.0/25", "198.51.100.128/25", "198.51.100.7/32", "203.0.113.1/32"]),
        [
            "guarded 192.0.2.9:80 TCP",
            "admitted to 192.0.2.9:80 TCP 198.51.100.0/24",
            "admitted to 192.0.2.9:80 TCP 203.0.113.1/32",
        ],
        "without what lies in another; and the other family is open"
    );
    assert_eq!(
        with(&["2001:db8:1::/48"]),
        ["guarded [2001:db8::9]:80 TCP", "admitted to [2001:db8::9]:80 TCP 2001:db8:1::/48"]
    );
    assert_eq!(with(&["0.0.0.0/0", "198.51.100.0/24"]), [""; 0], "everybody may");
}

#[test]
fn addresses_that_a_node_has_for_itself_are_left_alone() {
    let special = [
        "127.0.0.1",
        "169.254.169.254",
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
        "::1",
        "fe80::1",
        "ff02::1",
    ];
    assert_eq!(texts(&json!({ "externalIPs": special }), &special), [""; 0]);
}

#[test]
fn a_change_is_of_what_changes() {
    let mut world = world();
    let mut services = NodeServices::default();
    let mut update = |object: &k8s::Service| {
        drop(world.apply(object));
        let name = object.metadata.name.clone().unwrap();
        let change = services.update(&world, [("default".to_owned(), name)]);
        let texts = |of: &[ServiceElement]| of.iter().map(ToString::to_string).collect::<Vec<_>>();
        (texts(&change.remove), texts(&change.add))
    };
    let with = |port: Value| json!({ "ports": [port], "clusterIPs": ["10.96.0.1"] });
    let one = service("one", &with(port(80, "TCP", 30080)), &[]);
    assert_eq!(update(&one), (vec![], vec!["all to node port 30080 TCP: 10.96.0.1:80".to_owned()]));
    assert_eq!(update(&one), (vec![], vec![]));
    let moved = service("one", &with(port(81, "TCP", 30080)), &[]);
    assert_eq!(
        update(&moved),
        (
            vec!["all to node port 30080 TCP: 10.96.0.1:80".to_owned()],
            vec!["all to node port 30080 TCP: 10.96.0.1:81".to_owned()]
        )
    );
}

#[test]
fn ten_thousand_services_are_planned_once_and_one_of_them_alone_again() {
    let mut world = world();
    let key = |number: u32| ("default".to_owned(), format!("s{number}"));
    for number in 0..10_000_u32 {
        let ip = format!("10.96.{}.{}", number >> 8, number & 255);
        let external = format!("192.1.{}.{}", number >> 8, number & 255);
        let node_port = u16::try_from(20_000 + number).unwrap();
        let spec =
            json!({ "ports": [port(80, "TCP", node_port)], "clusterIPs": [ip], "externalIPs": [external] });
        drop(world.apply(&service(&format!("s{number}"), &spec, &[])));
    }
    let mut services = NodeServices::default();
    let began = std::time::Instant::now();
    let change = services.update(&world, (0..10_000).map(key));
    println!("planned {} elements in {:?}", change.add.len(), began.elapsed());
    assert_eq!(change.add.len(), 20_000);
    let spec = json!({ "ports": [port(80, "TCP", 19_999)], "clusterIPs": ["10.96.0.7"] });
    drop(world.apply(&service("s7", &spec, &[])));
    let change = services.update(&world, [key(7)]);
    assert_eq!((change.remove.len(), change.add.len()), (2, 1));
}

/// An event of one of a few Services that ask for the same.
#[derive(Clone, Debug)]
struct Event {
    name: &'static str,
    object: Option<k8s::Service>,
}

fn event() -> impl Strategy<Value = Event> {
    let names = prop::sample::select(vec!["a", "b", "c", "d"]);
    let addresses =
        prop::sample::subsequence(vec!["192.0.2.1", "192.0.2.2", "2001:db8::1", "10.96.0.1"], 0..4);
    let balancer = prop::sample::subsequence(vec!["192.0.2.2", "192.0.2.3", "2001:db8::1"], 0..3);
    let node_ports = prop::collection::vec((80_u16..82, 30_000_u16..30_003, any::<Index>()), 0..3);
    let cluster_ips = prop::sample::select(vec![
        vec!["10.96.0.1"],
        vec!["10.96.0.2", "fd96::2"],
        vec!["fd96::3", "10.96.0.3"],
        vec![],
    ]);
    let ranges =
        prop::sample::subsequence(vec!["198.51.100.0/24", "198.51.100.0/25", "2001:db8:1::/64"], 0..3);
    let policy = prop::sample::select(vec!["Cluster", "Local"]);
    let created = 0_i64..3;
    (names, prop::option::weighted(0.8, (addresses, balancer, node_ports, cluster_ips, ranges, policy, created)))
        .prop_map(|(name, spec)| Event {
            name,
            object: spec.map(|(addresses, balancer, ports, cluster_ips, ranges, policy, created)| {
                let ports: Vec<Value> = ports
                    .iter()
                    .map(|(number, node_port, protocol)| {
                        port(*number, ["TCP", "UDP", "SCTP"][protocol.index(3)], *node_port)
                    })
                    .collect();
                let spec = json!({ "ports": ports, "clusterIPs": cluster_ips, "externalIPs": addresses,
                    "loadBalancerSourceRanges": ranges, "externalTrafficPolicy": policy, "healthCheckNodePort": 32000 });
                let mut object = serde_json::to_value(service(name, &spec, &balancer)).unwrap();
                object["metadata"]["creationTimestamp"] = format!("2026-01-01T00:00:0{created}Z").into();
                // One that was made again under its name is another.
                object["metadata"]["uid"] = format!("{name}-{created}").into();
                serde_json::from_value(object).unwrap()
            }),
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn any_order_of_events_ends_in_the_same_and_each_difference_leads_there(
        events in prop::collection::vec(event(), 1..25),
    ) {
        let (mut world, mut services) = (world(), NodeServices::default());
        let mut there = BTreeSet::new();
        let mut last = BTreeMap::new();
        for Event { name, object } in events {
            let dirty = match &object {
                Some(object) => world.apply(object),
                None => match last.remove(name) {
                    Some(object) => world.delete::<k8s::Service>(&object),
                    None => continue,
                },
            };
            last.extend(object.map(|object| (name, object)));
            let changed = dirty.units.into_iter().filter_map(|unit| match unit {
                Unit::Service { namespace, name } => Some((namespace, name)),
                _ => None,
            });
            let change = services.update(&world, changed);
            for element in &change.remove {
                prop_assert!(there.remove(element), "{element} was not there");
            }
            for element in &change.add {
                prop_assert!(there.insert(*element), "{element} was there");
            }
            prop_assert_eq!(&there, &services.elements().collect::<BTreeSet<_>>());
        }
        let places: BTreeSet<Place> = there.iter().map(ServiceElement::place).collect();
        prop_assert_eq!(places.len(), there.len(), "nothing is translated twice");
        let (mut anew, mut planned) = (self::world(), NodeServices::default());
        for object in last.values().rev() {
            drop(anew.apply(object));
        }
        let names = last.keys().map(|name| ("default".to_owned(), (*name).to_owned()));
        planned.update(&anew, names);
        prop_assert_eq!(there, planned.elements().collect::<BTreeSet<_>>());
    }
}

#[test]
fn node_ports_lead_to_any_endpoint_though_the_cluster_ip_stays_on_the_node() {
    let spec = json!({ "ports": [port(80, "TCP", 30080)], "internalTrafficPolicy": "Local" });
    assert_eq!(
        texts(&spec, &[]),
        [
            "all to node port 30080 TCP: 169.254.169.4:30080",
            "all to node port 30080 TCP: [fd8a:3c51:9e07:a9::4]:30080",
        ]
    );
}
