//! The model's side: what the objects say becomes of a packet. `tests/cli` compares it with OVN and with real pings.

use super::path::{End, Stop};
use super::*;
use crate::cluster::Snapshot;
use crate::scene::harbour;

fn trace_by(snapshot: &Snapshot, from: &str, to: &str, carried: Payload, network: Option<&str>) -> Trace {
    let [from, to] = [from, to].map(|name| PodName::parse(name, "default").unwrap());
    let (a, b) = (from.find(snapshot).unwrap(), to.find(snapshot).unwrap());
    let conversation = Conversation::choose(&a, &b, network, "default").unwrap();
    let tracer = Tracer { world: &snapshot.world, from: &a, to: &b, conversation, carried, southbound: None };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(tracer.trace(from.to_string(), to.to_string()))
}

fn trace(from: &str, to: &str, carried: Payload) -> Trace {
    trace_by(&harbour().snapshot(), from, to, carried, None)
}

fn text(trace: &Trace) -> String {
    show::text(trace, None)
}

/// Where a packet stops on its way there.
#[track_caller]
fn stop(from: &str, to: &str, carried: Payload) -> String {
    let trace = trace(from, to, carried);
    assert_eq!(trace.verdict, Verdict::NotReachable, "{}", text(&trace));
    match trace.there.path.end {
        End::Stops(stop) => stop.to_string(),
        end => panic!("{end:?}"),
    }
}

#[track_caller]
fn reachable(from: &str, to: &str, carried: Payload) {
    let trace = trace(from, to, carried);
    assert_eq!(trace.verdict, Verdict::Reachable, "{}", text(&trace));
}

#[test]
fn the_way_is_shown_hop_by_hop() {
    insta::assert_snapshot!("one_switch_one_node", text(&trace("a", "a2", Payload::Icmp)));
    insta::assert_snapshot!("one_switch_two_nodes", text(&trace("a", "b", Payload::Icmp)));
    insta::assert_snapshot!("one_router", text(&trace("a", "c", Payload::Tcp(80))));
    insta::assert_snapshot!("peering", text(&trace("a", "d", Payload::Udp(5))));
}

#[test]
fn where_it_stops_is_shown_with_what_to_do() {
    insta::assert_snapshot!("no_route", show::text(&trace("d", "c", Payload::Icmp), Some(80)));
    insta::assert_snapshot!("policy_drop", text(&trace("a", "c", Payload::Tcp(443))));
    insta::assert_snapshot!("private", text(&trace("c", "d", Payload::Icmp)));
    insta::assert_snapshot!("json", show::json(&trace("a", "c", Payload::Tcp(443))).unwrap());
}

#[test]
fn no_way_leads_to_a_switch_without_a_router_or_from_it() {
    assert_eq!(stop("a", "e", Payload::Icmp), "router blue has no route to 10.2.0.3");
    assert_eq!(
        stop("e", "a", Payload::Icmp),
        "switch apart has no router: nobody is 10.2.0.1, as it is in no VPC"
    );
    assert_eq!(
        stop("twin", "c", Payload::Icmp),
        "switch lost has no router: nobody is 10.0.0.1, as VPC nowhere does not exist"
    );
}

#[test]
fn a_pod_without_a_route_is_named() {
    assert_eq!(stop("mute", "c", Payload::Icmp), "pod mute has no route to 10.0.1.9");
    // The way back counts as well.
    let trace = trace("c", "mute", Payload::Icmp);
    assert_eq!(trace.verdict, Verdict::NotReachable);
    assert_eq!(trace.there.path.end, End::Arrives);
    let back = trace.back.unwrap().path.end;
    assert!(matches!(back, End::Stops(Stop::PodHasNoRoute { .. })), "{back:?}");
}

#[test]
fn equal_prefixes_do_not_reach_each_other() {
    assert_eq!(stop("a", "twin", Payload::Icmp), "pod a itself has 10.0.0.5, and so never sends to it");
    assert_eq!(
        stop("b", "twin", Payload::Icmp),
        "on switch web, 10.0.0.5 is the address of another: default/a"
    );
    assert_eq!(stop("twin", "b", Payload::Icmp), "nobody on switch lost has 10.0.0.7");
}

#[test]
fn the_policy_route_of_the_highest_priority_decides() {
    assert!(stop("a", "c", Payload::Tcp(23)).starts_with("router blue drops it by policy route 100 "));
    assert!(stop("a", "c", Payload::Tcp(443)).starts_with("router blue drops it by policy route 100 "));
    reachable("a2", "c", Payload::Tcp(443));
    reachable("a", "c", Payload::Tcp(80));
    reachable("a", "c", Payload::Udp(443));
    // On one switch no router is asked.
    reachable("a", "b", Payload::Tcp(443));
}

#[test]
fn what_only_ovn_knows_is_left_to_ovn() {
    let trace = trace("a", "c", Payload::Udp(53));
    assert_eq!((trace.verdict, trace.verdict.exit_code()), (Verdict::Unknown, 2));
    assert_eq!(
        trace.there.path.end,
        End::Unknown(
            "only OVN knows whether policy route 50 of VPC blue (udp.dst == 53 && ip4.src == $clients) matches"
                .into()
        )
    );
}

#[test]
fn private_subnets_answer_those_whom_they_call() {
    assert_eq!(stop("c", "d", Payload::Icmp), "switch far is private and does not let 10.0.1.9 in");
    reachable("a", "d", Payload::Icmp);
    reachable("d", "a", Payload::Icmp);
}

#[test]
fn of_several_interfaces_the_right_one_is_chosen() {
    let snapshot = harbour().snapshot();
    let far = trace_by(&snapshot, "d", "two", Payload::Icmp, None);
    assert_eq!(far.there.path.datapaths(), ["subnet:far"], "one switch is better than a router");
    let db = trace_by(&snapshot, "a", "two", Payload::Icmp, None);
    assert_eq!(db.there.path.datapaths(), ["subnet:web", "vpc:blue", "subnet:db"]);
    // There it can be reached, but it answers by the interface that has the default route.
    let named = trace_by(&snapshot, "a", "two", Payload::Icmp, Some("far"));
    assert_eq!(named.there.path.end, End::Arrives);
    let End::Stops(stop) = named.back.unwrap().path.end else { panic!("it is answered") };
    assert_eq!(
        stop.to_string(),
        "pod two answers by net1, not by net2 where the packet came: port security drops what net1 sends from 10.9.0.20"
    );
}

#[test]
fn who_cannot_be_traced_is_told_why() {
    let snapshot = harbour().snapshot();
    let refused = |name: &str| {
        let found = PodName::parse(name, "default").and_then(|name| name.find(&snapshot).map(drop));
        found.unwrap_err().to_string()
    };
    assert_eq!(refused("mut"), "there is no pod default/mut; did you mean mute?");
    assert_eq!(refused("shop/a"), "there is no pod shop/a; did you mean default/a?");
    assert_eq!(
        refused("waits"),
        "pod default/waits has no interface of Portolan's yet: waiting for network attachment definition default/missing, which does not exist"
    );
    for wrong in ["", "/", "a/", "/a", "a/b/c", "../../etc"] {
        assert_eq!(refused(wrong), format!("{wrong:?} names no pod; write POD, or NAMESPACE/POD"));
    }
    assert!(!refused("\u{1b}[2J").contains('\u{1b}'));
    let a = PodName::parse("a", "default").unwrap().find(&snapshot).unwrap();
    let b = PodName::parse("b", "default").unwrap().find(&snapshot).unwrap();
    let network = Conversation::choose(&a, &b, Some("nix"), "default").unwrap_err().to_string();
    assert_eq!(network, "pod b is not on network \"nix\"; it is on: web.default.ovn");
}

#[test]
fn model_and_ovn_are_compared_by_way_and_end() {
    use super::ovn::output::{Flow, Traced, TracedEnd};
    let snapshot = harbour().snapshot();
    let path = trace("a", "c", Payload::Icmp).there.path;
    let port = path.port.clone().unwrap();
    let datapaths = path.datapaths();
    let output = |port: &str| TracedEnd::Output { port: port.to_owned() };
    let answer = |datapaths: &[String], end: TracedEnd| {
        let traced = Traced { datapaths: datapaths.to_vec(), end };
        compare(&path, &traced, &port, &snapshot.world)
    };
    assert_eq!(
        answer(&datapaths, output(&port)),
        Answer::Agrees("it comes out at pod default/c (net1)".into())
    );
    assert!(matches!(answer(&datapaths, output("port:x/y/z/1")), Answer::Disagrees(_)));
    assert!(matches!(answer(&datapaths[..1], output(&port)), Answer::Disagrees(_)));
    let drop = Flow { datapath: "vpc:blue".into(), stage: "lr_in_ip_routing".into(), ..Flow::default() };
    assert_eq!(
        answer(&datapaths[..2], TracedEnd::Dropped(drop)),
        Answer::Disagrees("its way is switch web → router blue, but router blue has no route".into())
    );
}

#[test]
fn of_routes_that_share_the_load_ovn_knows_which_it_takes() {
    let mut scene = harbour();
    scene.add(serde_json::json!({"apiVersion": "portolan.dev/v1alpha1", "kind": "Vpc", "metadata": {"name": "grey"},
        "spec": {"staticRoutes": [{"cidr": "10.77.0.0/16", "nextHopIP": "10.3.0.7"}, {"cidr": "10.77.0.0/16", "nextHopIP": "10.3.0.8"},
            {"cidr": "10.77.1.0/24", "nextHopIP": "10.3.0.9"}]}}));
    scene.add(serde_json::json!({"apiVersion": "portolan.dev/v1alpha1", "kind": "Subnet", "metadata": {"name": "fog"},
        "spec": {"cidrBlock": "10.3.0.0/24", "vpc": "grey"}}));
    let snapshot = scene.snapshot();
    let vpc = snapshot.world.vpc("grey").unwrap();
    let to = |destination: &str| {
        let (source, destination) = ("10.3.0.5".parse().unwrap(), destination.parse().unwrap());
        let packet = Packet { source, destination, protocol: Protocol::EchoRequest };
        router::forward(&snapshot.world, vpc, &packet).map(|forwarding| forwarding.next_hop.to_string())
    };
    assert!(matches!(*to("10.77.2.2").unwrap_err(), End::Unknown(_)));
    assert_eq!(to("10.77.1.2").unwrap(), "10.3.0.9", "the longer prefix is one");
    assert_eq!(to("10.3.0.44").unwrap(), "10.3.0.44", "its own network");
}

#[test]
fn a_static_route_that_has_no_effect_is_named() {
    let route = |cidr: &str, next_hop: &str, policy: &str| {
        let mut scene = harbour();
        scene.add(serde_json::json!({"apiVersion": "portolan.dev/v1alpha1", "kind": "Vpc", "metadata": {"name": "nowhere"},
            "spec": {"staticRoutes": [{"cidr": cidr, "nextHopIP": next_hop, "policy": policy}]}}));
        match trace_by(&scene.snapshot(), "twin", "c", Payload::Icmp, None).there.path.end {
            End::Stops(stop @ Stop::NoRoute { .. }) => stop.advice(),
            End::Unknown(why) => why,
            end => panic!("{end:?}"),
        }
    };
    assert_eq!(
        route("10.0.1.0/24", "192.168.7.7", "policyDst"),
        "correct nextHopIP of the static routes of Vpc nowhere that would fit: they lead to no network of the router, and have no effect: 10.0.1.0/24 via 192.168.7.7"
    );
    assert_eq!(
        route("0.0.0.0/0", "10.0.0.7", "policySrc"),
        "the only route of router nowhere that fits is static route from 0.0.0.0/0 via 10.0.0.7, which OVN ranks like no route at all: whether it counts is chance; write it as two halves, such as 0.0.0.0/1 and 128.0.0.0/1"
    );
    assert_eq!(
        route("10.200.0.0/24", "10.0.0.7", "policyDst"),
        "10.0.1.0/24 is in Vpc blue: connect nowhere and blue by spec.vpcPeerings of both, and give both static routes"
    );
}

#[test]
fn what_goes_round_and_round_ends_in_ovn_as_well() {
    use super::ovn::output::{Flow, Traced, TracedEnd};
    let path = path::Path {
        hops: ["a", "b"].map(|vpc| path::Hop::Router { vpc: vpc.into(), by: Vec::new() }).into(),
        end: End::Stops(Stop::Loop { vpc: "a".into() }),
        port: None,
        assumed: Vec::new(),
    };
    let datapaths = ["vpc:a", "vpc:b"].repeat(32).into_iter().map(str::to_owned).collect::<Vec<_>>();
    let end = TracedEnd::Answered { by: Flow::default(), with: "icmp4".into() };
    let world = World::default();
    let answer = compare(&path, &Traced { datapaths: datapaths.clone(), end }, "", &world);
    assert!(matches!(answer, Answer::Agrees(_)), "{answer:?}");
    let arrives = Traced { datapaths, end: TracedEnd::Output { port: "port:x".into() } };
    assert!(matches!(compare(&path, &arrives, "", &world), Answer::Disagrees(_)));
}
