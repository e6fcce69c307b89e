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

/// A pod of `shop` on node `n1`.
fn pod_of_shop(name: &str, made: i64) -> Pod {
    let mut metadata = named(name, &format!("uid-{name}"));
    metadata.namespace = Some("shop".to_owned());
    metadata.creation_timestamp = Some(Time(Timestamp::from_second(made).unwrap()));
    let spec = PodSpec { node_name: Some("n1".to_owned()), ..PodSpec::default() };
    Pod { metadata, spec: Some(spec), status: None }
}

fn reasons(events: &[(&'static str, String)]) -> Vec<&'static str> {
    events.iter().map(|(reason, _)| *reason).collect()
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

#[test]
fn a_pod_that_was_decided_before_the_subnet_of_its_namespace_was_seen_is_told_to_be_made_again() {
    let shop = for_shop("blue-1", "10.1.0.0/24", "blue", 5);
    // The Subnet is seen once the pod has its address, or while its lock is being created.
    for is_served in [true, false] {
        let mut scene = scene(FirstInterface::Portolan, Vec::new());
        scene.observes(&node("n1", "10.16.1.0/24", &[]));
        scene.settle();
        scene.engine.feed(&Change::Applied(pod_of_shop("older", 4)));
        scene.settle();
        scene.engine.feed(&Change::Applied(pod_of_shop("app", 5)));
        let locks = scene.proposals();
        assert_eq!(locks.len(), 1, "{locks:?}");
        scene.new_events();
        if is_served {
            locks.iter().for_each(|lock| scene.store(lock.clone()));
            scene.settle();
        }
        scene.observes(&shop);
        if !is_served {
            assert_eq!(scene.new_events(), []);
            locks.iter().for_each(|lock| scene.store(lock.clone()));
        }
        scene.settle();
        let events = scene.new_events();
        assert_eq!(reasons(&events), ["OutsideVpc"], "{events:?}");
        assert!(events[0].1.starts_with("the pod has no interface in VPC blue"), "{events:?}");
        // Once is enough. One that is made now is in the VPC.
        scene.observes(&shop);
        scene.engine.feed(&Change::Applied(pod_of_shop("newer", 6)));
        scene.settle();
        assert_eq!(scene.new_events(), []);
        let networks: Vec<_> = scene.guest_locks().filter(|lock| lock.spec.holder.name == "newer").collect();
        assert_eq!(networks.len(), 2, "{networks:?}");
        // A controller that starts tells it, too.
        let mut next = self::scene(FirstInterface::Portolan, Vec::new());
        next.locks = scene.locks.clone();
        next.observes(&node("n1", "10.16.1.0/24", &[]));
        next.list(vec![shop.clone()]);
        next.list(vec![pod_of_shop("older", 4), pod_of_shop("app", 5)]);
        next.list(next.locks.values().cloned().collect());
        next.settle_reports();
        assert_eq!(reasons(&next.new_events()), ["OutsideVpc"]);
        // The namespace is no tenant's any more.
        let mut given_up = shop.clone();
        given_up.spec.namespaces.clear();
        scene.observes(&given_up);
        assert_eq!(reasons(&scene.new_events()), ["Resolved"]);
    }
}

#[test]
fn no_pod_is_made_outside_of_its_vpc_while_subnets_cannot_be_followed() {
    let mut scene = scene(FirstInterface::Portolan, Vec::new());
    scene.observes(&node("n1", "10.16.1.0/24", &[]));
    scene.settle();
    scene.new_events();
    scene.reported.clear();
    scene.engine.set_networks_behind(true);
    scene.engine.feed(&Change::Applied(pod_of_shop("app", 5)));
    assert_eq!(scene.proposals(), []);
    let (reason, said) = scene.reported.pop().unwrap();
    assert_eq!(reason, "Waiting");
    assert!(said.contains("namespace shop, which are not made outside of their VPC"), "{said}");
    // It was the Subnet that could not be seen. Once it is, the pod needs nothing else.
    scene.observes(&for_shop("blue-1", "10.1.0.0/24", "blue", 5));
    let interfaces = scene.guest_locks().filter(|lock| lock.spec.holder.name == "app");
    let interfaces: BTreeSet<_> = interfaces.filter_map(|lock| lock.spec.holder.interface.clone()).collect();
    assert_eq!(interfaces, ["eth0".to_owned(), "vpc0".to_owned()].into());
    // Or there was none.
    let mut other = pod_of_shop("other", 5);
    other.metadata.namespace = Some("elsewhere".to_owned());
    scene.engine.feed(&Change::Applied(other));
    assert_eq!(scene.proposals(), []);
    scene.engine.set_networks_behind(false);
    assert_eq!(scene.proposals().len(), 1);
    // Beside another primary network nobody waits for that.
    let mut beside = Scene::new();
    beside.engine.set_networks_behind(true);
    beside.pod("app", "web");
    assert_eq!(beside.proposals().len(), 1);
}

#[test]
fn what_is_told_of_a_subnet_for_namespaces_ends_with_what_it_was_about() {
    let mut vpc = mk_vpc("red");
    (vpc.spec.namespaces, vpc.spec.default_subnet) = (vec!["mall".to_owned()], Some("red-1".to_owned()));
    let by_vpc = mk_subnet("red-1", "10.17.0.0/16", "red");
    let mut scene = scene(FirstInterface::Portolan, vec![by_vpc]);
    scene.observes(&vpc);
    scene.new_events();
    let apps = mk_subnet("apps", "10.17.3.0/24", "ovn-cluster");
    let within = node("n2", "10.17.1.0/24", &[]);
    let addressed = |address: &str| {
        let mut node = node("n3", "10.16.3.0/24", &[]);
        let status = serde_json::json!({"addresses": [{"type": "InternalIP", "address": address}]});
        node.status = serde_json::from_value(status).unwrap();
        node
    };
    // Each is followed by something else, about which nothing is to be said.
    scene.observes(&within);
    scene.observes(&node("n4", "10.16.4.0/24", &[]));
    assert_eq!(reasons(&scene.new_events()), ["OverlapsCluster"], "the VPC gives it to the namespace");
    scene.engine.feed(&Change::deleted(&within));
    scene.settle_reports();
    assert_eq!(reasons(&scene.new_events()), ["Resolved"]);
    scene.observes(&apps);
    assert_eq!(reasons(&scene.new_events()), ["OverlapsCluster"]);
    scene.engine.feed(&Change::deleted(&apps));
    scene.settle_reports();
    assert_eq!(reasons(&scene.new_events()), ["Resolved"]);
    scene.observes(&addressed("10.17.9.9"));
    assert_eq!(reasons(&scene.new_events()), ["OverlapsCluster"]);
    scene.observes(&addressed("192.168.0.9"));
    assert_eq!(reasons(&scene.new_events()), ["Resolved"]);
    // The VPC takes the namespace back.
    scene.observes(&within);
    assert_eq!(reasons(&scene.new_events()), ["OverlapsCluster"]);
    scene.observes(&mk_vpc("red"));
    assert_eq!(reasons(&scene.new_events()), ["Resolved"]);
}

#[test]
fn what_is_told_of_a_subnet_ends_with_a_node_that_a_list_lacks() {
    let mut scene = scene(FirstInterface::Portolan, vec![for_shop("blue-1", "10.17.0.0/16", "blue", 1)]);
    scene.observes(&node("n2", "10.17.1.0/24", &[]));
    assert_eq!(reasons(&scene.new_events()), ["OverlapsCluster"]);
    // A live read confirms that it is gone.
    scene.list::<Node>(scene.nodes.clone());
    scene.settle_reports();
    scene.settle_reports();
    assert_eq!(reasons(&scene.new_events()), ["Resolved"]);
}
