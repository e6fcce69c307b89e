use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use portolan_daemons::OvnDatabase;

use super::super::record::{cluster_key, recovery_key, server_key};
use super::*;

const DATABASE: OvnDatabase = OvnDatabase::Northbound;

/// The ConfigMap and the files of all members, as the steps change them.
#[derive(Clone, Default)]
struct World {
    map: ConfigMap,
    files: BTreeMap<u8, ClusterServer>,
    made: u32,
}

fn member(ordinal: u8) -> Member {
    Member::named(&format!("ovn-central-{ordinal}")).expect("it has an ordinal")
}

impl World {
    fn stored(&self, ordinal: u8) -> Stored {
        self.files.get(&ordinal).map_or(Stored::Nothing, |server| Stored::Member(server.clone()))
    }

    fn step(&self, ordinal: u8) -> Step {
        step(&self.stored(ordinal), Record::of(&self.map, DATABASE), &member(ordinal))
    }

    fn record(&self) -> Record<'_> {
        Record::of(&self.map, DATABASE)
    }

    fn annotate(&mut self, key: String, value: Option<String>) {
        let annotations = self.map.metadata.annotations.get_or_insert_default();
        match value {
            Some(value) => drop(annotations.insert(key, value)),
            None => drop(annotations.remove(&key)),
        }
    }

    /// The first half of a step: what it makes is in the file.
    fn make(&mut self, ordinal: u8, cluster: Option<String>) -> ClusterServer {
        self.made += 1;
        let cluster = cluster.unwrap_or_else(|| format!("c{}", self.made));
        let made = ClusterServer { cluster, server: format!("s{}", self.made) };
        self.files.insert(ordinal, made.clone());
        made
    }

    fn say(&mut self, ordinal: u8, made: &ClusterServer, claims: bool) {
        let said = announcement(made, self.record(), &member(ordinal));
        self.annotate(server_key(DATABASE, &member(ordinal).name), serde_json::to_string(&said).ok());
        if claims {
            self.annotate(cluster_key(DATABASE), Some(made.cluster.clone()));
            self.annotate(recovery_key(DATABASE), None);
        }
    }

    /// Does steps until the member can start, killed after that many halves of steps and begun anew.
    fn start(&mut self, ordinal: u8, mut killed_after: usize) -> ClusterServer {
        for _ in 0..20 {
            let step = self.step(ordinal);
            let mut killed = || {
                let left = killed_after;
                killed_after = left.saturating_sub(1);
                left == 1
            };
            match step {
                Step::Start(server) => return server,
                Step::Wait => panic!("there is no cluster"),
                Step::Claim(server) => self.say(ordinal, &server, true),
                Step::Publish(server) => self.say(ordinal, &server, false),
                Step::Make => {
                    let made = self.make(ordinal, None);
                    if !killed() {
                        self.say(ordinal, &made, true);
                    }
                }
                Step::Join(cluster) => {
                    let made = self.make(ordinal, Some(cluster));
                    if !killed() {
                        self.say(ordinal, &made, false);
                    }
                }
            }
        }
        panic!("it does not come to an end");
    }
}

#[test]
fn there_is_one_cluster_whoever_comes_first_and_wherever_somebody_is_killed() {
    for killed_after in 0..3 {
        let mut world = World::default();
        assert_eq!([world.step(1), world.step(2)], [Step::Wait, Step::Wait]);
        let cluster = world.start(0, killed_after).cluster;
        for ordinal in [2, 1] {
            assert_eq!(world.start(ordinal, killed_after).cluster, cluster);
        }
        let before = world.files.clone();
        for ordinal in 0..3 {
            world.start(ordinal, 0);
        }
        assert_eq!(world.files, before, "a restart makes nothing");
    }
}

#[test]
fn a_lost_file_is_replaced_and_the_cluster_is_told_whatever_happens_meanwhile() {
    for killed_after in 0..3 {
        let mut world = World::default();
        for ordinal in 0..3 {
            world.start(ordinal, 0);
        }
        for ordinal in 0..3 {
            let lost = world.files.remove(&ordinal).expect("it had one");
            let server = world.start(ordinal, killed_after);
            assert_eq!(server.cluster, lost.cluster);
            assert!(world.record().replaced(&lost.cluster).contains(&lost.server));
            assert!(!world.record().replaced(&lost.cluster).contains(&server.server));
        }
    }
}

#[test]
fn a_file_that_was_elsewhere_meanwhile_does_not_come_back() {
    let mut world = World::default();
    for ordinal in 0..3 {
        world.start(ordinal, 0);
    }
    let old = world.files.remove(&1).expect("it had one");
    world.start(1, 0);
    world.files.insert(1, old.clone());
    assert_ne!(world.start(1, 0), old);
    // And one of a cluster of earlier times.
    let foreign = ClusterServer { cluster: "other".into(), server: "one".into() };
    world.files.insert(2, foreign.clone());
    assert_eq!(world.start(2, 0).cluster, old.cluster);
}

#[test]
fn a_cluster_of_one_server_that_is_lost_is_made_anew() {
    let mut world = World::default();
    let first = world.start(0, 0);
    world.files.clear();
    let second = world.start(0, 0);
    assert_ne!(first.cluster, second.cluster);
    world.start(1, 0);
    world.files.remove(&0);
    assert_eq!(world.start(0, 0).cluster, second.cluster, "now another member has it too");
}

#[test]
fn a_recovery_makes_a_cluster_of_one_file_and_the_others_follow() {
    for killed_after in 0..3 {
        let mut world = World::default();
        let lost = world.start(0, 0);
        world.start(1, 0);
        world.start(2, 0);
        world.annotate(recovery_key(DATABASE), Some("ovn-central-1".into()));
        let running = world.files[&1].clone();
        assert!(is_over(&running, world.record(), &member(1)).is_some());
        assert_eq!(is_over(&lost, world.record(), &member(0)), None, "until the new one is there");
        let new = world.start(1, killed_after).cluster;
        assert_ne!(new, lost.cluster);
        assert!(is_over(&lost, world.record(), &member(0)).is_some());
        for ordinal in [0, 2] {
            assert_eq!(world.start(ordinal, killed_after).cluster, new);
        }
        assert_eq!(
            world.record().replaced(&new),
            Vec::<String>::new(),
            "those of the lost one are no business of this one"
        );
        assert_eq!(is_over(&world.files[&0], world.record(), &member(0)), None);
    }
}

#[test]
fn a_config_map_that_was_lost_is_no_reason_to_begin_anew() {
    let mut world = World::default();
    let cluster = world.start(0, 0).cluster;
    world.start(1, 0);
    world.map = ConfigMap::default();
    let running = world.files[&1].clone();
    assert_eq!(is_over(&running, world.record(), &member(1)), None);
    assert_eq!(world.start(0, 0).cluster, cluster);
    assert_eq!(world.start(1, 0), running);
}

#[test]
fn a_member_says_of_a_few_servers_that_it_had_them() {
    let mut world = World::default();
    world.start(0, 0);
    world.start(1, 0);
    for _ in 0..20 {
        world.files.remove(&1);
        world.start(1, 0);
    }
    let said = world.record().server("ovn-central-1").expect("it is said");
    assert_eq!(said.replaces.len(), 8);
}

#[test]
fn members_are_called_as_pods_of_a_stateful_set() {
    assert_eq!(member(2).sibling(0), member(0));
    for name in ["", "ovn-central", "ovn-central-x", "ovn-central-300"] {
        assert_eq!(Member::named(name), None, "{name}");
    }
}
