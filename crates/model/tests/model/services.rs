//! Services: which endpoints get their traffic, and whose an address is.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::serde::Serialize;
use k8s_openapi::serde::de::DeserializeOwned;
use portolan_api::Family;
use portolan_model::fixtures::{mk_node, mk_service, mk_slice};
use portolan_model::service::{Affinity, Backend, Backends, Protocol, TrafficPolicy};
use portolan_model::view::{NodeRef, PlacedNode, ServiceView};
use portolan_model::{FirstInterface, Settings, Unit, UnitState, World, doors};
use serde_json::{Value, json};

fn world() -> World {
    let mut world = World::new(Settings { first_interface: FirstInterface::Portolan });
    for (name, zone) in [("n1", "east"), ("n2", "west")] {
        let node = portolan_model::Node { zone: Some(zone.into()), ..mk_node(name) };
        drop(world.apply(&node));
    }
    world
}

fn changed<K: Serialize + DeserializeOwned>(object: &K, pointer: &str, value: Value) -> K {
    let mut json = serde_json::to_value(object).unwrap();
    let (parent, last) = pointer.rsplit_once('/').unwrap();
    json.pointer_mut(parent).unwrap()[last] = value;
    serde_json::from_value(json).unwrap()
}

fn unit(name: &str) -> Unit {
    Unit::Service { namespace: "default".into(), name: name.into() }
}

fn view<'w>(world: &'w World, name: &str) -> ServiceView<'w> {
    world.service_view("default", name).unwrap()
}

/// The backends of a Service's only port for IPv4.
fn backends<'w>(world: &'w World, name: &str) -> Backends<'w> {
    let view = view(world, name);
    Backends::of(view.slices.iter().copied(), &view.service.ports[0], Family::IPv4)
}

fn texts(backends: &[Backend<'_>]) -> Vec<String> {
    backends.iter().map(|backend| backend.address.to_string()).collect()
}

#[test]
fn what_is_not_to_be_served_is_no_service() {
    let plain = mk_service("web", &["10.96.0.1"]);
    assert!(doors::service::service(&plain).is_some());
    for (why, service) in [
        ("headless", changed(&plain, "/spec/clusterIPs", json!(["None"]))),
        ("another name", changed(&plain, "/spec/type", json!("ExternalName"))),
        ("not allocated yet", changed(&plain, "/spec/clusterIPs", json!([""]))),
        (
            "another proxy",
            changed(&plain, "/metadata/labels", json!({"service.kubernetes.io/service-proxy-name": "x"})),
        ),
        (
            "labelled headless",
            changed(&plain, "/metadata/labels", json!({"service.kubernetes.io/headless": ""})),
        ),
    ] {
        let mut service = service;
        if why == "headless" || why == "not allocated yet" {
            service.spec.as_mut().unwrap().cluster_ip = None;
        }
        assert_eq!(doors::service::service(&service), None, "{why}");
    }
}

#[test]
fn every_field_that_counts_is_read() {
    let service: v1::Service = serde_json::from_value(json!({
        "metadata": {"namespace": "a", "name": "b", "uid": "c"},
        "spec": {
            "type": "LoadBalancer", "clusterIPs": ["10.96.0.1", "fd96::1"], "externalIPs": ["192.0.2.1", "nonsense"],
            "ports": [
                {"name": "dns", "port": 53, "protocol": "UDP", "nodePort": 30053},
                {"name": "wrong", "port": 70000}, {"name": "odd", "port": 1, "protocol": "ICMP"},
            ],
            "sessionAffinity": "ClientIP", "internalTrafficPolicy": "Local", "externalTrafficPolicy": "Local",
            "healthCheckNodePort": 32000, "loadBalancerSourceRanges": ["192.0.2.0/24", "x"],
        },
        "status": {"loadBalancer": {"ingress": [
            {"ip": "198.51.100.1"}, {"ip": "198.51.100.2", "ipMode": "Proxy"}, {"hostname": "lb"},
        ]}},
    }))
    .unwrap();
    let service = doors::service::service(&service).unwrap();
    assert_eq!(service.ports.len(), 1);
    assert_eq!((service.ports[0].protocol, service.ports[0].node_port), (Protocol::Udp, Some(30053)));
    assert_eq!(service.external_ips.len(), 1);
    assert_eq!(service.load_balancer_ips[..], ["198.51.100.1".parse::<std::net::IpAddr>().unwrap()]);
    assert_eq!((service.internal, service.external), (TrafficPolicy::Local, TrafficPolicy::Local));
    assert_eq!((service.affinity, service.health_check_node_port), (Affinity::ClientIp(10_800), Some(32000)));
    assert_eq!(service.source_ranges.len(), 1);
}

#[test]
fn endpoints_that_terminate_serve_only_when_nothing_else_does() {
    let mut world = world();
    drop(world.apply(&mk_service("web", &["10.96.0.1"])));
    let slice = mk_slice("web", &[("10.1.0.1", "n1"), ("10.1.0.2", "n2"), ("10.1.0.3", "n2")]);
    let with = |conditions: [Value; 3]| {
        let mut slice = serde_json::to_value(&slice).unwrap();
        for (at, conditions) in conditions.into_iter().enumerate() {
            slice["endpoints"][at]["conditions"] = conditions;
        }
        serde_json::from_value::<EndpointSlice>(slice).unwrap()
    };
    let (ready, terminating, gone) = (
        json!({"ready": true}),
        json!({"ready": false, "serving": true, "terminating": true}),
        json!({"ready": false, "serving": false, "terminating": true}),
    );
    let not_ready = json!({"ready": false, "serving": false});
    drop(world.apply(&with([ready, terminating.clone(), gone])));
    assert_eq!(texts(&backends(&world, "web").anywhere()), ["10.1.0.1:8080"]);
    assert_eq!(texts(&backends(&world, "web").on("n2")), ["10.1.0.2:8080"], "nothing else is on the node");
    drop(world.apply(&with([not_ready.clone(), terminating.clone(), terminating])));
    assert_eq!(texts(&backends(&world, "web").anywhere()), ["10.1.0.2:8080", "10.1.0.3:8080"]);
    // One that merely is not ready serves nobody, also as the last.
    drop(world.apply(&with([not_ready.clone(), not_ready.clone(), not_ready])));
    assert_eq!(backends(&world, "web"), Backends::default());
}

#[test]
fn an_endpoint_in_two_slices_is_one() {
    let mut world = world();
    drop(world.apply(&mk_service("web", &["10.96.0.1"])));
    let old = mk_slice("web", &[("10.1.0.1", "n1")]);
    let conditions = json!({"ready": false, "serving": true, "terminating": true});
    let old = changed(&old, "/endpoints/0/conditions", conditions);
    let new = changed(&mk_slice("web", &[("10.1.0.1", "n1")]), "/metadata/name", json!("web-new"));
    drop(world.apply(&old));
    drop(world.apply(&new));
    assert_eq!(texts(&backends(&world, "web").anywhere()), ["10.1.0.1:8080"]);
    assert!(!backends(&world, "web").anywhere()[0].endpoint.is_terminating);
}

#[test]
fn hints_count_where_all_that_is_ready_has_them_and_some_are_for_the_place() {
    let mut world = world();
    drop(world.apply(&mk_service("web", &["10.96.0.1"])));
    let slice = mk_slice("web", &[("10.1.0.1", "n1"), ("10.1.0.2", "n2")]);
    let hinted = |hints: [Value; 2]| {
        let [first, second] = hints;
        changed(&changed(&slice, "/endpoints/0/hints", first), "/endpoints/1/hints", second)
    };
    let zone = |name: &str| json!({"forZones": [{"name": name}]});
    let near = |world: &World, name: &str, zone: Option<&str>| {
        let node = NodeRef { name, uid: "" };
        texts(&backends(world, "web").near(PlacedNode { node, zone }))
    };
    let both = ["10.1.0.1:8080", "10.1.0.2:8080"];
    drop(world.apply(&hinted([zone("east"), zone("west")])));
    assert_eq!(near(&world, "n1", Some("east")), both[..1]);
    assert_eq!(near(&world, "n2", Some("west")), both[1..]);
    assert_eq!(near(&world, "n3", Some("south")), both, "no endpoint is for the zone");
    assert_eq!(near(&world, "n3", None), both);
    assert_eq!(view(&world, "web").nodes.len(), 2, "it differs per node");
    drop(world.apply(&hinted([zone("east"), Value::Null])));
    assert_eq!(near(&world, "n1", Some("east")), both, "one has none");
    assert_eq!(view(&world, "web").nodes, []);
    // Those for nodes come before those for zones.
    let node = |name: &str, zone: &str| json!({"forNodes": [{"name": name}], "forZones": [{"name": zone}]});
    drop(world.apply(&hinted([node("n1", "west"), node("n2", "west")])));
    assert_eq!(near(&world, "n1", Some("west")), both[..1]);
    assert_eq!(near(&world, "n3", Some("west")), both);
}

#[test]
fn an_address_that_several_services_name_is_the_oldest_ones_and_a_cluster_ip_nobody_elses() {
    let mut world = world();
    let named = |name: &str, created: &str, ip: &str| {
        let service = changed(
            &mk_service(name, &[&format!("10.96.0.{}", name.len())]),
            "/spec/externalIPs",
            json!([ip]),
        );
        changed(&service, "/metadata/creationTimestamp", json!(created))
    };
    let has = |world: &World, name: &str, ip: &str| {
        view(world, name).frontends.iter().any(|frontend| frontend.address.to_string() == ip)
    };
    let (late, early) =
        (named("late", "2026-02-01T00:00:00Z", "192.0.2.1"), named("e", "2026-01-01T00:00:00Z", "192.0.2.1"));
    drop(world.apply(&late));
    assert!(has(&world, "late", "192.0.2.1"));
    let dirty = world.apply(&early);
    assert_eq!(dirty.units, BTreeSet::from([unit("e"), unit("late")]));
    assert!(has(&world, "e", "192.0.2.1") && !has(&world, "late", "192.0.2.1"));
    let dirty = world.delete(&early);
    assert_eq!(dirty.units, BTreeSet::from([unit("e"), unit("late")]));
    assert!(has(&world, "late", "192.0.2.1"), "it gets what became free");
    // Who names another's cluster IP gets nothing, however old it is.
    let thief = named("thief", "2020-01-01T00:00:00Z", "10.96.0.4");
    drop(world.apply(&thief));
    assert!(!has(&world, "thief", "10.96.0.4") && has(&world, "late", "10.96.0.4"));
}

#[test]
fn services_are_of_the_primary_network_alone() {
    let mut world = World::default();
    drop(world.apply(&mk_service("web", &["10.96.0.1"])));
    assert_eq!((world.state(&unit("web")), world.view(&unit("web"))), (UnitState::Absent, None));
    assert_eq!("service/default/web".parse(), Ok(unit("web")));
    for wrong in ["service/web", "service/default/", "service/default/web/more", "service//web"] {
        assert!(wrong.parse::<Unit>().is_err(), "{wrong}");
    }
}

#[test]
fn a_service_of_another_proxy_from_now_on_is_given_up() {
    let mut world = world();
    let web = mk_service("web", &["10.96.0.1"]);
    drop(world.apply(&web));
    assert_eq!(world.state(&unit("web")), UnitState::Live);
    let labels = json!({"service.kubernetes.io/service-proxy-name": "other"});
    let dirty = world.apply(&changed(&web, "/metadata/labels", labels));
    assert_eq!(dirty.units, BTreeSet::from([unit("web")]));
    assert_eq!(world.state(&unit("web")), UnitState::Absent);
}
