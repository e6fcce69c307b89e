use portolan_trace::api::{Cause, Difference, ObjectReference, Reason};

use super::*;

fn pod(name: &str, address: [u8; 4], node: &str) -> Hop {
    Hop::Pod {
        namespace: "default".into(),
        name: name.into(),
        interface: "net1".into(),
        address: address.into(),
        node: Some(node.into()),
    }
}

fn status(verdict: Verdict, forward: Leg, reply: Option<Leg>) -> TraceStatus {
    TraceStatus { verdict, question: "ping from default/a to default/c".into(), forward, reply }
}

fn leg(arrives: Option<bool>, path: Vec<Hop>) -> Leg {
    Leg { arrives, path, cause: None, differences: Vec::new(), notes: Vec::new(), error: None }
}

fn route(text: &str) -> Rule {
    let object = ObjectReference { kind: "Vpc".into(), namespace: None, name: "blue".into(), field: None };
    Rule { text: text.into(), object: Some(object) }
}

#[test]
fn a_path_is_shown_hop_by_hop_with_the_rules_that_applied() {
    let there = vec![
        pod("a", [10, 0, 0, 5], "node1"),
        Hop::Switch { name: "web".into(), rules: Vec::new() },
        Hop::Router { name: "blue".into(), rules: vec![route("connected network 10.0.1.0/24")] },
        Hop::Switch { name: "db".into(), rules: Vec::new() },
        Hop::Tunnel {
            from: "node1".into(),
            to: "node2".into(),
            encapsulation: Some("geneve 172.31.0.11 → 172.31.0.12".into()),
        },
        pod("c", [10, 0, 1, 9], "node2"),
    ];
    let mut back = there.clone();
    back.reverse();
    let status = status(Verdict::Reachable, leg(Some(true), there), Some(leg(Some(true), back)));
    insta::assert_snapshot!("reachable", text(&status, None));
}

#[test]
fn a_drop_is_shown_with_its_cause_and_what_to_do() {
    let path = vec![
        pod("a", [10, 0, 0, 5], "node1"),
        Hop::Switch { name: "web".into(), rules: Vec::new() },
        Hop::Router { name: "blue".into(), rules: Vec::new() },
    ];
    let cause = Cause {
        reason: Reason::PolicyRoute,
        message: "router blue drops it by policy route 100 (tcp.dst == 23)".into(),
        advice: "if that is not intended, correct policy route 100 in spec.policyRoutes of Vpc blue".into(),
        object: None,
        stage: Some("lr_in_policy".into()),
    };
    let dropped = Leg { cause: Some(cause), ..leg(Some(false), path) };
    insta::assert_snapshot!("dropped", text(&status(Verdict::NotReachable, dropped, None), Some(60)));
}

#[test]
fn differences_notes_and_errors_are_shown() {
    let difference =
        Difference { message: "OVN lacks router port vpc:blue/subnet:db of Subnet db".into(), object: None };
    let forward = Leg {
        differences: vec![difference],
        notes: vec!["assumed: pod default/a got its default route by DHCP".into()],
        error: Some("ovn-trace did not answer within 20 s".into()),
        ..leg(None, vec![pod("a", [10, 0, 0, 5], "node1")])
    };
    insta::assert_snapshot!("disagreement", text(&status(Verdict::Disagreement, forward, None), None));
}

#[test]
fn nothing_in_an_answer_can_spoil_a_terminal() {
    let evil = Hop::Switch { name: "evil\u{1b}[31m".into(), rules: vec![route("\u{1b}]0;title\u{7}")] };
    let text = text(&status(Verdict::Unknown, leg(None, vec![evil]), None), None);
    assert!(!text.contains(['\u{1b}', '\u{7}']), "{text:?}");
}
