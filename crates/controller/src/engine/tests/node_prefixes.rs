//! The prefixes of nodes: judged with the Subnets of the primary network, and said on the Node.

use k8s_openapi::api::core::v1::NodeSpec;
use portolan_model::FirstInterface;
use portolan_model::node::POD_CIDRS_ANNOTATION;

use super::*;

fn primary() -> Scene {
    let settings = Settings { first_interface: FirstInterface::Portolan };
    let mut scene = Scene::unlisted_with(MemDb::new(NB_SCHEMA).unwrap(), settings);
    scene.list_all(Vec::new(), Vec::new(), Vec::new());
    scene
}

fn node(name: &str, cidr: &str) -> Node {
    let spec = NodeSpec { pod_cidrs: Some(vec![cidr.to_owned()]), ..NodeSpec::default() };
    Node { metadata: named(name, &format!("uid-{name}")), spec: Some(spec), ..Node::default() }
}

fn served(mut node: Node, cidrs: &str) -> Node {
    let found = format!("{cidrs} of {}", node.uid().unwrap());
    node.annotations_mut().insert(POD_CIDRS_ANNOTATION.to_owned(), found);
    node
}

fn in_cluster(name: &str, cidr: &str) -> Subnet {
    mk_subnet(name, cidr, "ovn-cluster")
}

fn unvalidated(name: &str, cidr: &str) -> Subnet {
    Subnet { status: None, ..in_cluster(name, cidr) }
}

impl Scene {
    /// The names of what the engine wants judged now.
    fn wants_judged(&mut self) -> Option<Candidates> {
        let mut candidates = None;
        for action in self.engine.actions() {
            match action {
                Action::ValidateSubnets(wanted) => candidates = Some(wanted),
                other => self.perform(other),
            }
        }
        candidates
    }

    /// Judges whatever is to be judged by these objects, and answers what is said to Nodes.
    fn judge_by(&mut self, subnets: &[Subnet], nodes: &[Node]) -> Vec<(String, String)> {
        let Some(candidates) = self.wants_judged() else { return Vec::new() };
        let lists = Lists { subnets: subnets.to_vec(), nodes: nodes.to_vec(), ..Lists::default() };
        self.engine.judge_and_write(&candidates, &lists);
        drop(self.wants_judged());
        std::mem::take(&mut self.served)
    }

    /// The reasons of the Events so far, but for those about the node that has no prefixes.
    fn told(&self) -> Vec<&'static str> {
        self.reasons().into_iter().filter(|reason| *reason != "Waiting").collect()
    }

    fn sees<K: Observed + Clone>(&mut self, object: &K) {
        self.engine.feed(&Change::Applied(object.clone()));
    }
}

fn is(node: &str, cidrs: &str) -> Vec<(String, String)> {
    vec![(node.to_owned(), format!("{cidrs} of uid-{node}"))]
}

#[test]
fn prefixes_that_overlap_nothing_are_used_once_that_is_said() {
    let mut scene = primary();
    let n1 = node("n1", "10.16.1.0/24");
    scene.sees(&n1);
    assert_eq!(scene.judge_by(&[], std::slice::from_ref(&n1)), is("n1", "10.16.1.0/24"));
    assert_eq!(scene.wants_judged(), None);
    // The Node changes in other ways all the time.
    let mut changed = n1.clone();
    changed.metadata.resource_version = Some("9".into());
    scene.sees(&changed);
    assert_eq!(scene.wants_judged(), None);
    scene.sees(&served(n1.clone(), "10.16.1.0/24"));
    assert!(scene.engine.world().subnet("node:n1").is_some());
    assert_eq!(scene.wants_judged(), None);
    // Someone takes it away.
    scene.sees(&n1);
    assert_eq!(scene.judge_by(&[], &[n1]), is("n1", "10.16.1.0/24"));
    assert_eq!(scene.told(), [""; 0]);
}

#[test]
fn a_node_whose_prefixes_are_taken_is_told_and_judged_again_once_they_are_free() {
    let mut scene = primary();
    let (around, n1) = (in_cluster("around", "10.16.0.0/16"), node("n1", "10.16.1.0/24"));
    scene.sees(&around);
    scene.sees(&n1);
    assert_eq!(scene.judge_by(std::slice::from_ref(&around), std::slice::from_ref(&n1)), []);
    assert_eq!(scene.told(), ["PodCIDRsNotUsed"]);
    assert!(
        scene.reported.last().unwrap().1.contains("overlaps 10.16.0.0/16 of Subnet around"),
        "{:?}",
        scene.reported
    );
    // A change of something else is no reason to list everything again.
    scene.sees(&in_cluster("elsewhere", "10.99.0.0/24"));
    assert_eq!(scene.wants_judged(), None);
    scene.engine.feed(&Change::deleted(&around));
    assert_eq!(scene.judge_by(&[], &[n1]), is("n1", "10.16.1.0/24"));
    assert_eq!(scene.told(), ["PodCIDRsNotUsed", "Resolved"]);
}

#[test]
fn a_subnet_that_was_refused_keeps_no_node_from_joining() {
    let mut scene = primary();
    let n1 = served(node("n1", "10.16.1.0/24"), "10.16.1.0/24");
    scene.sees(&n1);
    let around = unvalidated("around", "10.16.0.0/16");
    scene.sees(&around);
    let judged = scene.wants_judged().unwrap();
    let lists = Lists { subnets: vec![around.clone()], nodes: vec![n1.clone()], ..Lists::default() };
    let verdict = scene.engine.judge(&judged, &lists).remove(0);
    assert!(verdict.errors.contains("overlaps 10.16.1.0/24 of Node n1 (spec.podCIDRs)"), "{verdict:?}");
    // While that is not known, neither may come about.
    let n2 = node("n2", "10.16.2.0/24");
    scene.sees(&n2);
    assert_eq!(scene.judge_by(std::slice::from_ref(&around), &[n1.clone(), n2.clone()]), []);
    let refused = gate::refused(around, &verdict);
    scene.sees(&refused);
    let told = scene.judge_by(std::slice::from_ref(&refused), &[n1, n2]);
    assert_eq!(told, is("n2", "10.16.2.0/24"));
}

#[test]
fn where_a_subnet_serves_all_nodes_their_prefixes_are_left_alone() {
    let mut scene = primary();
    let mut all = in_cluster("all", "10.16.0.0/16");
    all.spec.default = true;
    scene.sees(&all);
    let n1 = node("n1", "10.16.1.0/24");
    scene.sees(&n1);
    assert_eq!(scene.wants_judged(), None);
    assert_eq!(scene.told(), [""; 0], "nothing is wrong with that");
    scene.engine.feed(&Change::deleted(&all));
    assert_eq!(scene.judge_by(&[], &[n1]), is("n1", "10.16.1.0/24"));
}

#[test]
fn prefixes_that_make_no_sense_are_told_too() {
    let mut scene = primary();
    for (name, cidr, message) in
        [("n1", "10.16.1.0/31", "is too small"), ("n2", "nonsense", "spec.podCIDRs[0]: \"nonsense\"")]
    {
        let node = node(name, cidr);
        scene.sees(&node);
        assert_eq!(scene.judge_by(&[], &[node]), []);
        let (reason, said) = scene.reported.pop().unwrap();
        assert_eq!(reason, "PodCIDRsNotUsed");
        assert!(said.contains(message), "{said}");
    }
}

#[test]
fn a_node_that_was_made_again_is_another() {
    let mut scene = primary();
    let first = node("n1", "10.16.1.0/24");
    scene.sees(&first);
    let judged = scene.wants_judged().unwrap();
    let mut second = node("n1", "10.16.7.0/24");
    second.metadata.uid = Some("second".into());
    scene.engine.feed(&Change::deleted(&first));
    scene.sees(&second);
    // What was found about the first says nothing about it.
    let lists = Lists { nodes: vec![second.clone()], ..Lists::default() };
    assert_eq!(scene.engine.judge(&judged, &lists), []);
    let found = ("n1".to_owned(), "10.16.7.0/24 of second".to_owned());
    assert_eq!(scene.judge_by(&[], &[second]), [found]);
}

#[test]
fn a_node_comes_about_in_the_database_and_leaves_nothing_there() {
    let mut scene = primary();
    let n1 = served(node("n1", "10.16.1.0/24"), "10.16.1.0/24");
    scene.nodes.push(n1.clone());
    scene.sees(&n1);
    scene.settle();
    assert!(scene.units().contains("node/n1"), "{:?}", scene.units());
    assert!(scene.units().contains("subnet/node:n1"));
    let port = "attachment/node/n1/node/uid-n1".to_owned();
    assert!(scene.units().contains(&port), "{:?}", scene.units());
    assert_eq!(scene.locks.len(), 2);
    scene.nodes.retain(|node| node.name_any() != "n1");
    scene.engine.feed(&Change::deleted(&n1));
    scene.settle();
    assert_eq!(scene.units().iter().filter(|unit| unit.contains("n1")).count(), 0, "{:?}", scene.units());
    assert_eq!(scene.locks.len(), 0);
    // The router and the node that was there from the beginning stay.
    assert!(scene.units().contains("vpc/ovn-cluster"));
}

#[test]
fn what_was_found_of_a_node_counts_before_the_node_says_so() {
    let mut scene = primary();
    let n1 = node("n1", "10.16.1.0/24");
    scene.sees(&n1);
    assert_eq!(scene.judge_by(&[], std::slice::from_ref(&n1)), is("n1", "10.16.1.0/24"));
    // The list still shows the node's prefixes as unused. This Subnet could have them then.
    let mut all = unvalidated("all", "10.16.0.0/16");
    all.spec.default = true;
    scene.sees(&all);
    let judged = scene.wants_judged().unwrap();
    let lists = Lists { subnets: vec![all.clone()], nodes: vec![n1.clone()], ..Lists::default() };
    let verdict = scene.engine.judge(&judged, &lists).remove(0);
    assert!(verdict.errors.contains("overlaps 10.16.1.0/24 of Node n1"), "{verdict:?}");
    // Of another Node of the name nothing was found.
    let mut again = n1;
    again.metadata.uid = Some("again".to_owned());
    let lists = Lists { subnets: vec![all], nodes: vec![again], ..Lists::default() };
    assert_eq!(scene.engine.judge(&judged, &lists).remove(0).errors, "");
}

#[test]
fn a_node_that_cannot_be_told_holds_up_nobody_and_says_why() {
    let mut scene = primary();
    let n1 = node("n1", "10.16.1.0/24");
    scene.sees(&n1);
    assert_eq!(scene.judge_by(&[], std::slice::from_ref(&n1)), is("n1", "10.16.1.0/24"));
    scene.engine.prefixes_not_told("n1", "uid-n1", "403 Forbidden");
    scene.engine.prefixes_not_told("n1", "uid-of-another", "403 Forbidden");
    drop(scene.wants_judged());
    assert_eq!(scene.told(), ["PodCIDRsNotUsed"]);
    let said = &scene.reported.iter().find(|(reason, _)| *reason == "PodCIDRsNotUsed").unwrap().1;
    assert!(said.contains("403 Forbidden") && said.contains("nodes/status"), "{said}");
    // Others are judged.
    let n2 = node("n2", "10.16.2.0/24");
    scene.sees(&n2);
    assert_eq!(scene.judge_by(&[], &[n1.clone(), n2]), is("n2", "10.16.2.0/24"));
    scene.sees(&served(n1, "10.16.1.0/24"));
    drop(scene.wants_judged());
    assert_eq!(scene.told(), ["PodCIDRsNotUsed", "Resolved"]);
}

#[test]
fn of_two_nodes_with_one_prefix_the_older_has_it() {
    let mut scene = primary();
    let at = |mut node: Node, second| {
        let time = k8s_openapi::jiff::Timestamp::from_second(second).unwrap();
        node.metadata.creation_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(time));
        node
    };
    let (younger, older) = (at(node("a", "10.16.1.0/24"), 9), at(node("b", "10.16.1.0/24"), 8));
    let both = [younger.clone(), older.clone()];
    both.iter().for_each(|node| scene.sees(node));
    assert_eq!(scene.judge_by(&[], &both), is("b", "10.16.1.0/24"));
    assert_eq!(scene.told(), ["PodCIDRsNotUsed"]);
}

#[test]
fn prefixes_in_use_stay_in_use_when_the_node_has_lost_the_word_that_says_so() {
    let mut scene = primary();
    let n1 = node("n1", "10.16.1.0/24");
    scene.nodes.push(n1.clone());
    scene.sees(&served(n1.clone(), "10.16.1.0/24"));
    scene.settle();
    let rows = scene.units();
    assert!(rows.contains("attachment/node/n1/node/uid-n1"), "{rows:?}");
    // A Subnet serves all nodes that have no prefixes in use.
    let mut all = in_cluster("all", "10.99.0.0/16");
    all.spec.default = true;
    scene.sees(&all);
    scene.sees(&n1);
    assert_eq!(scene.judge_by(&[all], std::slice::from_ref(&n1)), is("n1", "10.16.1.0/24"));
    assert_eq!(scene.engine.world().state(&"node/n1".parse().unwrap()), portolan_model::UnitState::Held);
}

#[test]
fn addresses_that_a_node_cannot_have_are_said_on_it() {
    let mut scene = primary();
    let address = |mut node: Node, address: &str| {
        let address = serde_json::json!({"addresses": [{"type": "InternalIP", "address": address}]});
        node.status = serde_json::from_value(address).unwrap();
        node
    };
    scene.sees(&in_cluster("apps", "10.50.0.0/24"));
    scene.sees(&address(node("n1", "10.16.1.0/24"), "10.50.0.9"));
    drop(scene.wants_judged());
    assert_eq!(scene.told(), ["InternalIPNotUsed"]);
    let said = &scene.reported.iter().find(|(reason, _)| *reason == "InternalIPNotUsed").unwrap().1;
    assert!(said.starts_with("InternalIP 10.50.0.9 is in 10.50.0.0/24 of Subnet apps"), "{said}");
    scene.sees(&address(node("n1", "10.16.1.0/24"), "192.168.0.7"));
    drop(scene.wants_judged());
    assert_eq!(scene.told(), ["InternalIPNotUsed", "Resolved"]);
}

#[test]
fn what_a_nodes_address_stood_in_the_way_of_is_judged_again_when_the_address_goes() {
    let at = |node: Node, address: &str| {
        let address = serde_json::json!({"addresses": [{"type": "InternalIP", "address": address}]});
        Node { status: serde_json::from_value(address).unwrap(), ..node }
    };
    let candidate = unvalidated("apps", "10.50.0.0/24");
    let n1 = at(node("n1", "10.16.1.0/24"), "10.50.0.9");
    let mut tenant = Subnet { status: None, ..mk_subnet("shop", "10.50.0.0/16", "blue") };
    tenant.spec.namespaces = vec!["shop".to_owned()];
    for (subnet, says) in [
        (candidate, "contains 10.50.0.9, an address of Node n1"),
        (tenant, "overlaps 10.50.0.9/32 of Node n1, an address of its own"),
    ] {
        let name = subnet.name_any();
        for is_renumbered in [true, false] {
            let mut scene = primary();
            scene.sees(&mk_vpc("blue"));
            scene.sees(&n1);
            scene.sees(&subnet);
            let judged = scene.wants_judged().unwrap();
            let lists = Lists { subnets: vec![subnet.clone()], nodes: vec![n1.clone()], ..Lists::default() };
            let verdicts = scene.engine.judge(&judged, &lists);
            let verdict = verdicts.iter().find(|verdict| verdict.subnet.1 == name).unwrap();
            assert!(verdict.errors.contains(says), "{verdict:?}");
            scene.sees(&gate::refused(subnet.clone(), verdict));
            assert_eq!(scene.wants_judged(), None);
            match is_renumbered {
                true => scene.sees(&at(n1.clone(), "192.168.0.9")),
                false => scene.engine.feed(&Change::deleted(&n1)),
            }
            let judged = scene.wants_judged().unwrap_or_default();
            assert!(judged.keys().any(|(_, judged)| *judged == name), "{judged:?}");
        }
    }
    // So are the prefixes of another node.
    let mut scene = primary();
    let (n1, n2) = (at(node("n1", "10.16.1.0/24"), "10.16.2.9"), node("n2", "10.16.2.0/24"));
    scene.sees(&n1);
    scene.sees(&n2);
    let both = [n1.clone(), n2.clone()];
    assert_eq!(scene.judge_by(&[], &both), is("n1", "10.16.1.0/24"));
    let n1 = at(n1, "192.168.0.9");
    scene.sees(&n1);
    assert_eq!(scene.judge_by(&[], &[n1, n2]), is("n2", "10.16.2.0/24"));
}

#[test]
fn prefixes_and_a_subnet_that_two_controllers_found_valid_at_once_are_told_of_on_the_node() {
    let n1 = served(node("n1", "10.16.1.0/24"), "10.16.1.0/24");
    let mut all = in_cluster("all", "10.16.0.0/16");
    all.spec.default = true;
    let clashes = |scene: &mut Scene| {
        drop(scene.wants_judged());
        let told = std::mem::take(&mut scene.reported).into_iter();
        let told = told.filter(|(reason, said)| format!("{reason} {said}").contains("PodCIDRsOverlap"));
        told.map(|(_, said)| said).collect::<Vec<_>>()
    };
    for is_node_first in [true, false] {
        let mut scene = primary();
        scene.sees(&served(node("n2", "10.17.2.0/24"), "10.17.2.0/24"));
        match is_node_first {
            true => scene.sees(&n1),
            false => scene.sees(&all),
        }
        assert_eq!(clashes(&mut scene), [""; 0]);
        scene.sees(&n1);
        scene.sees(&all);
        let told = clashes(&mut scene);
        assert!(told.len() == 1 && told[0].contains("overlap 10.16.0.0/16 of Subnet all"), "{told:?}");
        // Either goes.
        match is_node_first {
            true => scene.engine.feed(&Change::deleted(&all)),
            false => scene.sees(&node("n1", "10.16.1.0/24")),
        }
        assert_eq!(clashes(&mut scene), ["PodCIDRsOverlap is resolved"]);
    }
}

#[test]
fn what_a_node_stood_in_the_way_of_is_judged_again_when_a_list_lacks_the_node() {
    let mut scene = primary();
    let address = serde_json::json!({"addresses": [{"type": "InternalIP", "address": "10.50.0.9"}]});
    let status = serde_json::from_value(address).unwrap();
    let n1 = Node { spec: None, status, ..node("n1", "10.16.1.0/24") };
    let apps = unvalidated("apps", "10.50.0.0/24");
    scene.sees(&n1);
    scene.sees(&apps);
    let judged = scene.wants_judged().unwrap();
    let lists = Lists { subnets: vec![apps.clone()], nodes: vec![n1], ..Lists::default() };
    let verdict = scene.engine.judge(&judged, &lists).remove(0);
    assert!(verdict.errors.contains("an address of Node n1"), "{verdict:?}");
    scene.sees(&gate::refused(apps, &verdict));
    assert_eq!(scene.wants_judged(), None);
    scene.list::<Node>(scene.nodes.clone());
    assert_eq!(scene.wants_judged(), None, "a list alone says nothing");
    let judged = scene.wants_judged().unwrap_or_default();
    assert!(judged.keys().any(|(_, name)| name == "apps"), "{judged:?}");
}
