//! What Subnets for namespaces, and Nodes, are told by Events on the primary network.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use portolan_model::FirstInterface;
use portolan_model::fixtures::{mk_kubeovn_subnet, mk_node_with};
use portolan_model::node::{POD_CIDRS_ANNOTATION, PRIMARY_ANNOTATION, PROBLEM_ANNOTATION};

use super::*;

fn scene(first_interface: FirstInterface, subnets: Vec<Subnet>) -> Scene {
    let mut scene = Scene::unlisted_with(MemDb::new(NB_SCHEMA).unwrap(), Settings { first_interface });
    scene.list_all(vec![mk_vpc("blue"), mk_vpc("red")], subnets, Vec::new());
    scene
}

fn for_shop(name: &str, cidr: &str, vpc: &str, made: i64) -> Subnet {
    let mut subnet = mk_subnet(name, cidr, vpc);
    subnet.spec.namespaces = vec!["shop".to_owned()];
    subnet.metadata.creation_timestamp = Some(Time(Timestamp::from_second(made).unwrap()));
    subnet
}

/// A Node whose prefix is in use, as the API server has it.
fn node(name: &str, cidr: &str, annotations: &[(&str, &str)]) -> Node {
    let served = mk_node_with(name, cidr).served_cidrs.unwrap();
    let mut metadata = named(name, &format!("node-{name}"));
    let annotations = annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    metadata.annotations = Some(annotations.chain([(POD_CIDRS_ANNOTATION.to_owned(), served)]).collect());
    let spec = k8s_openapi::api::core::v1::NodeSpec {
        pod_cidrs: Some(vec![cidr.to_owned()]),
        ..k8s_openapi::api::core::v1::NodeSpec::default()
    };
    Node { metadata, spec: Some(spec), ..Node::default() }
}

impl Scene {
    fn observes<K: Observed + Clone>(&mut self, object: &K) {
        self.engine.feed(&Change::Applied(object.clone()));
        self.settle_reports();
    }

    /// Carries out what is to be done now, and nothing that follows.
    fn settle_reports(&mut self) {
        for action in self.engine.actions() {
            if !matches!(action, Action::ValidateSubnets(_)) {
                self.perform(action);
            }
        }
    }

    /// The Events since this was asked last, but for those of nodes that wait for their prefixes.
    fn new_events(&mut self) -> Vec<(&'static str, String)> {
        let mut events = std::mem::take(&mut self.reported);
        events.retain(|(reason, _)| *reason != "Waiting");
        events
    }
}

#[test]
fn a_second_subnet_for_a_namespace_is_told_who_has_it() {
    let first = for_shop("red-1", "10.1.0.0/24", "red", 1);
    let mut scene = scene(FirstInterface::Portolan, vec![first.clone()]);
    scene.settle_reports();
    assert_eq!(scene.new_events(), []);
    let second = for_shop("blue-1", "10.1.0.0/24", "blue", 2);
    scene.observes(&second);
    let events = scene.new_events();
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0].0, "NamespaceNotServed");
    assert!(events[0].1.contains("\"shop\" Subnet red-1 names namespace shop too"), "{events:?}");
    scene.observes(&second);
    assert_eq!(scene.new_events(), [], "once is enough");
    // The other gives the namespace up.
    let mut given_up = first;
    given_up.spec.namespaces.clear();
    scene.observes(&given_up);
    assert_eq!(scene.new_events().iter().map(|(reason, _)| *reason).collect::<Vec<_>>(), ["Resolved"]);
    // A controller that starts tells it of both groups, once everything is listed.
    let mut of_kube_ovn = mk_kubeovn_subnet("green-1", "10.2.0.0/24");
    of_kube_ovn.spec.vpc = Some("red".into());
    of_kube_ovn.spec.namespaces = Some(vec!["shop".into()]);
    scene.observes(&of_kube_ovn);
    assert_eq!(scene.new_events()[0].0, "NamespaceNotServed");
}

#[test]
fn a_subnet_for_a_namespace_is_told_of_a_node_that_comes_within_it() {
    let mut scene = scene(
        FirstInterface::Portolan,
        vec![for_shop("blue-1", "10.17.0.0/16", "blue", 1), mk_subnet("other", "10.18.0.0/16", "red")],
    );
    scene.observes(&node("n1", "10.16.1.0/24", &[]));
    assert_eq!(scene.new_events(), []);
    let within = node("n2", "10.17.1.0/24", &[]);
    scene.observes(&within);
    let events = scene.new_events();
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0].0, "OverlapsCluster");
    assert!(
        events[0].1.starts_with("spec.cidrBlock: 10.17.0.0/16 overlaps 10.17.1.0/24 of Node n2"),
        "{events:?}"
    );
    scene.engine.feed(&Change::deleted(&within));
    scene.settle_reports();
    assert_eq!(scene.new_events().iter().map(|(reason, _)| *reason).collect::<Vec<_>>(), ["Resolved"]);
    // Another primary network is nothing that a tenant overlaps.
    let mut beside = self::scene(FirstInterface::Other, vec![for_shop("blue-1", "10.17.0.0/16", "blue", 1)]);
    beside.observes(&node("n2", "10.17.1.0/24", &[]));
    assert_eq!(beside.new_events(), []);
}

#[test]
fn a_node_is_told_what_its_agent_says_and_whether_that_agrees_about_the_primary_network() {
    for (first_interface, agent_is, disagrees) in [
        (FirstInterface::Portolan, "true", false),
        (FirstInterface::Portolan, "false", true),
        (FirstInterface::Other, "true", true),
        (FirstInterface::Other, "false", false),
        (FirstInterface::NoLonger, "false", false),
    ] {
        let mut scene = scene(first_interface, Vec::new());
        scene.new_events();
        let says = node("n1", "10.16.1.0/24", &[(PRIMARY_ANNOTATION, agent_is)]);
        scene.observes(&says);
        let events = scene.new_events();
        assert_eq!(events.iter().any(|(reason, _)| *reason == "PrimaryDisagrees"), disagrees, "{events:?}");
        if disagrees {
            assert!(events[0].1.ends_with("start both alike"), "{events:?}");
        }
    }
    let mut scene = scene(FirstInterface::Portolan, Vec::new());
    scene.observes(&node("n1", "10.16.1.0/24", &[(PROBLEM_ANNOTATION, "its tunnels end nowhere")]));
    assert_eq!(scene.new_events(), [("NodeProblem", "its tunnels end nowhere".to_owned())]);
    scene.observes(&node("n1", "10.16.1.0/24", &[]));
    assert_eq!(scene.new_events().iter().map(|(reason, _)| *reason).collect::<Vec<_>>(), ["Resolved"]);
}
