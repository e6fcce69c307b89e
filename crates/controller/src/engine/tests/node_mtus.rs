//! What agents are told about the MTU of pods.

use portolan_model::node::{CHASSIS_ANNOTATION, MTU_ANNOTATION, TUNNEL_MTU_ANNOTATION};

use super::*;

fn node(name: &str, annotations: &[(&str, &str)]) -> Change<Node> {
    let mut node = Node::default();
    node.metadata.name = Some(name.to_owned());
    node.metadata.uid = Some(format!("uid-{name}"));
    let annotations = annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    node.metadata.annotations = Some(annotations.collect());
    Change::Applied(node)
}

/// A node whose agent has reported, and what it was told.
fn reported<'a>(mtu: &'a str, told: &'a str) -> Vec<(&'static str, &'a str)> {
    let told = (!told.is_empty()).then_some((MTU_ANNOTATION, told));
    [(CHASSIS_ANNOTATION, "c"), (TUNNEL_MTU_ANNOTATION, mtu)].into_iter().chain(told).collect()
}

impl Scene {
    fn tells(&mut self, change: &Change<Node>) -> Vec<(String, u16)> {
        self.engine.feed(change);
        self.settle();
        let mut told = std::mem::take(&mut self.told_mtus);
        // The scene's own node.
        told.retain(|(node, _)| node != "node-1");
        told
    }
}

fn is(told: &[(&str, u16)]) -> Vec<(String, u16)> {
    told.iter().map(|(node, mtu)| ((*node).to_owned(), *mtu)).collect()
}

#[test]
fn every_agent_is_told_what_fits_into_the_tunnels_of_all() {
    let mut scene = Scene::new();
    assert_eq!(scene.tells(&node("n1", &[])), [], "it has not reported");
    assert_eq!(scene.tells(&node("n1", &reported("1442", ""))), is(&[("n1", 1442)]));
    // Until it is seen, a change of the Node is a reason to write again; then no more.
    assert_eq!(scene.tells(&node("n1", &reported("1442", "1500"))), is(&[("n1", 1442)]));
    assert_eq!(scene.tells(&node("n1", &reported("1442", "1442"))), []);
    assert_eq!(scene.tells(&node("n2", &reported("8942", "1442"))), []);
    // The smallest decides for all, also where tunnels end nowhere.
    assert_eq!(scene.tells(&node("n3", &[(CHASSIS_ANNOTATION, "c")])), is(&[("n3", 1442)]));
    assert_eq!(
        scene.tells(&node("n2", &reported("1342", "1442"))),
        is(&[("n1", 1342), ("n2", 1342), ("n3", 1342)])
    );
    // Somebody writes something else.
    assert_eq!(scene.tells(&node("n2", &reported("1342", "9000"))), is(&[("n2", 1342)]));
}

#[test]
fn what_agents_were_told_does_not_rise_by_itself() {
    let mut scene = Scene::new();
    assert_eq!(
        scene.tells(&node("n0", &[(CHASSIS_ANNOTATION, "c")])),
        [],
        "nothing is known, and nothing guessed"
    );
    let first = scene.tells(&node("n1", &reported("1342", "")));
    assert_eq!(first, is(&[("n0", 1342), ("n1", 1342)]));
    assert_eq!(scene.tells(&node("n1", &reported("1342", "1342"))), []);
    assert_eq!(scene.tells(&node("n2", &reported("8942", "1342"))), []);
    // Its tunnels go on, and so do the pods of all nodes: they have what they were told.
    assert_eq!(scene.tells(&node("n1", &[(CHASSIS_ANNOTATION, "c"), (MTU_ANNOTATION, "1342")])), []);
    assert_eq!(scene.tells(&node("n1", &reported("8942", "1342"))), []);
    // Whoever wants more says so.
    scene.engine.plan_settings.mtu = Some(8942);
    let raised = scene.tells(&node("n3", &[]));
    assert_eq!(
        raised,
        is(&[("n0", 8942), ("n1", 8942), ("n2", 8942), ("n3", 8942)]),
        "also who has not reported"
    );
}

#[test]
fn what_the_controller_was_given_has_precedence() {
    let mut scene = Scene::new();
    scene.engine.plan_settings.mtu = Some(1400);
    assert_eq!(scene.tells(&node("n1", &reported("1342", ""))), is(&[("n1", 1400)]));
}
