//! Locks in the engine: nobody hangs, no address is promised twice, and running pods keep what they have.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use portolan_api::Domain;
use portolan_api::portolan::{IPLockSpec, LockAddress, LockName};
use proptest::prelude::*;

use super::*;

const IP_POOL: &str = "web.default.ovn.kubernetes.io/ip_pool";
const IP_ADDRESS: &str = "web.default.ovn.kubernetes.io/ip_address";

impl Scene {
    /// A pod on network `web` with one more annotation.
    pub(super) fn annotated(&mut self, name: &str, uid: &str, networks: &str, annotation: (&str, &str)) {
        let mut pod = mk_pod_object(name, uid, networks);
        pod.metadata.annotations.get_or_insert_default().insert(annotation.0.into(), annotation.1.into());
        self.start(pod);
    }

    pub(super) fn start(&mut self, pod: Pod) {
        self.pods.insert(pod.name_any(), pod.clone());
        self.engine.feed(&Change::Applied(pod));
    }

    /// The addresses that locks are on, each with its holder's name and UID.
    fn held(&self) -> Vec<(String, String, String)> {
        self.guest_locks()
            .map(|lock| {
                let holder = &lock.spec.holder;
                (lock.spec.address.clone(), holder.name.clone(), holder.uid.clone())
            })
            .collect()
    }

    fn address_of(&self, pod: &str) -> Option<String> {
        self.held().into_iter().find(|(_, name, _)| name == pod).map(|(address, _, _)| address)
    }

    /// Retries whatever failed, as the loop does after a while.
    fn retry(&mut self) {
        for retry in self.engine.take_retries() {
            self.engine.retry(retry);
        }
    }

    fn set(&mut self, uid: &str, replicas: i32) {
        let mut metadata = named("db", uid);
        metadata.namespace = Some("default".into());
        let spec = StatefulSetSpec { replicas: Some(replicas), ..StatefulSetSpec::default() };
        let set = StatefulSet { metadata, spec: Some(spec), status: None };
        self.sets.insert("db".into(), set.clone());
        self.engine.feed(&Change::Applied(set));
    }

    fn delete_set(&mut self) {
        let set = self.sets.remove("db").unwrap();
        self.engine.feed(&Change::deleted(&set));
    }

    /// The ordinal's pod, controlled by the set of this UID, or an orphan.
    fn ordinal(&mut self, uid: &str, set: Option<&str>, networks: &str) {
        let mut pod = mk_pod_object("db-0", uid, networks);
        pod.metadata.owner_references = set.map(|set| {
            vec![OwnerReference {
                kind: "StatefulSet".into(),
                name: "db".into(),
                uid: set.into(),
                controller: Some(true),
                ..OwnerReference::default()
            }]
        });
        self.start(pod);
    }

    /// Settles, lets retries come due, and settles again.
    pub(super) fn rest(&mut self) {
        for _ in 0..3 {
            self.settle();
            self.retry();
        }
        self.settle();
    }

    /// As [`Scene::new`], with an IPv6 prefix too on Subnet `web`.
    fn dual_stack() -> Self {
        let mut subnets = subnets();
        subnets[0].spec.cidr_block = "10.0.0.0/24,fd00::/64".into();
        let mut scene = Scene::unlisted(MemDb::new(NB_SCHEMA).unwrap());
        scene.list_all(
            vec![mk_vpc("blue")],
            subnets,
            vec![mk_nad("default", "web"), mk_nad("default", "db")],
        );
        scene
    }

    /// The locks of a Subnet's gateways: addresses and UIDs.
    fn gateways(&self, subnet: &str) -> BTreeMap<String, String> {
        let locks = self.locks.values().filter(|lock| !is_guest(lock) && lock.spec.subnet == subnet);
        locks.map(|lock| (lock.spec.address.clone(), lock.uid().unwrap())).collect()
    }

    fn ports(&self) -> usize {
        self.units().iter().filter(|unit| unit.starts_with("attachment/")).count()
    }
}

fn mk_pod_object(name: &str, uid: &str, networks: &str) -> Pod {
    let mut metadata = named(name, uid);
    metadata.namespace = Some("default".into());
    metadata.annotations = Some([(NETWORKS.to_owned(), networks.to_owned())].into());
    let spec = PodSpec { node_name: Some("node-1".into()), ..PodSpec::default() };
    Pod { metadata, spec: Some(spec), status: None }
}

#[test]
fn a_pool_is_shared_out_while_creations_are_under_way() {
    let mut scene = Scene::new();
    scene.rest();
    for name in ["a", "b"] {
        scene.annotated(name, &format!("uid-{name}"), "web", (IP_POOL, "10.0.0.7,10.0.0.8"));
    }
    let proposals = scene.proposals();
    let names: Vec<_> = proposals.iter().map(ResourceExt::name_any).collect();
    assert_eq!(names, ["10-0-0-7.vpc-blue", "10-0-0-8.vpc-blue"]);
    proposals.into_iter().for_each(|lock| scene.store(lock));
    scene.rest();
    assert_eq!(scene.ports(), 2);
}

#[test]
fn of_two_pods_that_ask_for_one_address_the_second_gets_it_when_the_first_goes() {
    let mut scene = Scene::new();
    scene.rest();
    for name in ["a", "b"] {
        scene.annotated(name, &format!("uid-{name}"), "web", (IP_ADDRESS, "10.0.0.7"));
    }
    let proposals = scene.proposals();
    assert_eq!(proposals.len(), 1, "no address is promised twice: {proposals:?}");
    proposals.into_iter().for_each(|lock| scene.store(lock));
    scene.rest();
    assert!(scene.reasons().contains(&"AddressTaken"));
    scene.delete_pod("a");
    scene.rest();
    assert_eq!(scene.held(), [("10.0.0.7".into(), "b".into(), "uid-b".into())]);
}

#[test]
fn whoever_waits_for_a_promised_address_is_decided_again_when_the_promise_fails() {
    let mut scene = Scene::new();
    scene.rest();
    for name in ["a", "b"] {
        scene.annotated(name, &format!("uid-{name}"), "web", (IP_ADDRESS, "10.0.0.7"));
    }
    let first = scene.proposals().remove(0);
    scene.engine.created(&first.name_any(), &Creation::Failed);
    let second = scene.proposals().remove(0);
    assert_eq!((first.spec.holder.name.as_str(), second.spec.holder.name.as_str()), ("a", "b"));
    scene.store(second);
    scene.rest();
    assert_eq!(scene.address_of("b").unwrap(), "10.0.0.7");
    scene.delete_pod("b");
    scene.rest();
    assert_eq!(scene.address_of("a").unwrap(), "10.0.0.7");
}

#[test]
fn a_waiter_that_needs_something_else_too_does_not_keep_others_from_a_free_address() {
    let mut scene = Scene::new();
    scene.rest();
    scene.annotated("x", "uid-x", "web", (IP_ADDRESS, "10.0.0.7"));
    scene.rest();
    let both = r#"[{"name": "web", "ips": ["10.0.0.7"]}, {"name": "db", "ips": ["10.0.1.7"]}]"#;
    scene.start(mk_pod_object("y", "uid-y", r#"[{"name": "db", "ips": ["10.0.1.7"]}]"#));
    scene.rest();
    // `first` waits for both addresses, `second` for one of them.
    scene.start(mk_pod_object("first", "uid-first", both));
    scene.settle();
    scene.annotated("second", "uid-second", "web", (IP_ADDRESS, "10.0.0.7"));
    scene.settle();
    scene.delete_pod("x");
    scene.rest();
    assert_eq!(scene.address_of("second").unwrap(), "10.0.0.7");
}

#[test]
fn a_lock_that_could_not_be_moved_is_tried_again() {
    let mut scene = Scene::new();
    scene.set("set-1", 1);
    scene.ordinal("pod-1", Some("set-1"), "web");
    scene.rest();
    scene.delete_pod("db-0");
    scene.ordinal("pod-2", Some("set-1"), "web");
    let moves = |scene: &mut Scene| {
        let actions = scene.engine.actions().into_iter();
        actions
            .filter_map(|action| {
                if let Action::MoveLock { moved, requester } = action {
                    Some((moved, requester))
                } else {
                    None
                }
            })
            .collect::<Vec<_>>()
    };
    let [(moved, requester)] = moves(&mut scene).try_into().unwrap();
    assert!(moves(&mut scene).is_empty());
    scene.engine.not_moved(&moved.lock, requester.clone());
    scene.retry();
    assert_eq!(moves(&mut scene), [(moved, requester)]);
}

#[test]
fn every_lock_of_a_set_follows_its_pod_also_when_one_of_them_failed_to() {
    let mut scene = Scene::dual_stack();
    scene.set("set-1", 1);
    scene.ordinal("pod-1", Some("set-1"), "web");
    scene.rest();
    scene.delete_pod("db-0");
    scene.ordinal("pod-2", Some("set-1"), "web");
    let (moves, others): (Vec<_>, Vec<_>) =
        scene.engine.actions().into_iter().partition(|action| matches!(action, Action::MoveLock { .. }));
    others.into_iter().for_each(|action| scene.perform(action));
    let [first, second] = moves.try_into().unwrap();
    let Action::MoveLock { moved, requester } = second else { panic!("{second:?} moves a lock") };
    scene.perform(first);
    scene.engine.not_moved(&moved.lock, requester);
    scene.rest();
    let users: Vec<_> =
        scene.guest_locks().map(|lock| lock.spec.user.as_ref().unwrap().uid.as_str()).collect();
    assert_eq!(users, ["pod-2", "pod-2"]);
}

#[test]
fn the_gateways_of_a_dual_stack_subnet_keep_their_locks() {
    let mut scene = Scene::dual_stack();
    scene.rest();
    let before = scene.gateways("web");
    assert_eq!(before.keys().map(String::as_str).collect::<Vec<_>>(), ["10.0.0.1", "fd00::1"]);
    scene.rest();
    assert_eq!(scene.gateways("web"), before, "nothing changed, so no lock is made again");
}

#[test]
fn a_new_gateway_keeps_its_lock_when_the_former_one_loses_its_own() {
    let mut scene = Scene::new();
    scene.rest();
    let mut subnet = scene.subnets[0].clone();
    let name = subnet.name_any();
    let old = scene.gateways(&name);
    subnet.spec.gateway = Some("10.0.0.2".into());
    subnet.metadata.generation = Some(2);
    let subnet = mk_validated(subnet, Some(2));
    scene.subnets[0] = subnet.clone();
    scene.engine.feed(&Change::Applied(subnet));
    let mut seen = BTreeSet::new();
    for _ in 0..6 {
        scene.settle();
        seen.extend(scene.gateways(&name).remove("10.0.0.2"));
        scene.retry();
    }
    assert_eq!(seen.len(), 1, "the lock of the new gateway was made once");
    let now = scene.gateways(&name);
    assert_eq!(now.keys().map(String::as_str).collect::<Vec<_>>(), ["10.0.0.2"], "before: {old:?}");
}

#[test]
fn pods_of_a_deleted_set_keep_their_addresses_while_they_terminate() {
    let mut scene = Scene::new();
    scene.set("set-1", 1);
    scene.ordinal("pod-1", Some("set-1"), "web");
    scene.rest();
    let address = scene.address_of("db-0");
    scene.delete_set();
    scene.rest();
    assert_eq!((scene.address_of("db-0"), scene.ports()), (address, 1), "the pod is still terminating");
    scene.delete_pod("db-0");
    scene.rest();
    assert_eq!((scene.address_of("db-0"), scene.ports()), (None, 0));
}

#[test]
fn orphans_keep_their_addresses_until_they_go_also_when_a_new_set_adopts_them() {
    let mut scene = Scene::new();
    scene.set("set-1", 1);
    scene.ordinal("pod-1", Some("set-1"), "web");
    scene.rest();
    let held = scene.held();
    scene.delete_set();
    scene.ordinal("pod-1", None, "web");
    scene.rest();
    assert_eq!((scene.held(), scene.ports()), (held.clone(), 1), "an orphan runs on");
    scene.set("set-2", 1);
    scene.ordinal("pod-1", Some("set-2"), "web");
    scene.rest();
    assert_eq!((scene.held(), scene.ports()), (held, 1), "so does one that was adopted");
    scene.delete_pod("db-0");
    scene.ordinal("pod-2", Some("set-2"), "web");
    scene.rest();
    let [(_, name, uid)] = scene.held().try_into().unwrap();
    assert_eq!(
        (name.as_str(), uid.as_str(), scene.ports()),
        ("db-0", "set-2", 1),
        "the next pod is the new set's"
    );
}

#[test]
fn the_networks_of_a_set_s_template_can_change() {
    let mut scene = Scene::new();
    scene.set("set-1", 1);
    scene.ordinal("pod-1", Some("set-1"), "web");
    scene.rest();
    let kept = scene.address_of("db-0");
    let roll = |scene: &mut Scene, uid: &str, networks: &str| {
        scene.delete_pod("db-0");
        scene.ordinal(uid, Some("set-1"), networks);
        scene.rest();
        let locks = scene.locks.values().filter(|lock| lock.spec.holder.kind == HolderKind::StatefulSet);
        for lock in locks {
            assert_eq!(lock.spec.user.as_ref().unwrap().uid, uid, "every lock follows the pod");
            let decided: Vec<_> = lock.spec.interfaces.iter().map(|one| one.interface.as_str()).collect();
            let expected = if networks == "web,db" { vec!["net1", "net2"] } else { vec!["net1"] };
            assert_eq!(decided, expected, "the node knows when it has them all");
        }
    };
    roll(&mut scene, "pod-2", "web,db");
    assert_eq!((scene.held().len(), scene.ports()), (2, 2));
    roll(&mut scene, "pod-3", "web");
    assert_eq!((scene.held().len(), scene.ports(), scene.address_of("db-0")), (1, 1, kept));
    // Another network under the same interface name: the old address goes, then the new one comes.
    roll(&mut scene, "pod-4", "db");
    let [(address, _, _)] = scene.held().try_into().unwrap();
    assert!(address.starts_with("10.0.1.") && scene.ports() == 1, "{address}");
    roll(&mut scene, "pod-5", r#"[{"name": "db", "ips": ["10.0.1.77"]}]"#);
    assert_eq!(scene.address_of("db-0").unwrap(), "10.0.1.77");
}

#[test]
fn a_set_of_two_billion_replicas_costs_nothing() {
    let mut scene = Scene::new();
    scene.set("set-1", i32::MAX);
    scene.ordinal("pod-1", Some("set-1"), "web");
    scene.rest();
    scene.delete_set();
    scene.delete_pod("db-0");
    scene.rest();
    assert_eq!(scene.held(), []);
}

/// A Subnet `tiny` with five addresses for guests, and its network.
fn add_tiny(scene: &mut Scene) {
    let mut subnet = mk_subnet("tiny", "10.0.2.0/29", "blue");
    subnet.spec.provider = Some("tiny.default.ovn".into());
    scene.subnets.push(subnet.clone());
    scene.engine.feed(&Change::Applied(mk_nad("default", "tiny")));
    scene.engine.feed(&Change::Applied(subnet));
    scene.rest();
}

#[test]
fn an_address_that_became_free_goes_to_the_first_in_line_for_whom_it_is_enough() {
    let mut scene = Scene::new();
    add_tiny(&mut scene);
    for index in 0..5 {
        scene.pod(&format!("full-{index}"), "tiny");
        scene.rest();
    }
    // Two interfaces on one network: two addresses.
    scene.pod("needs-two", "tiny,tiny");
    scene.settle();
    scene.pod("needs-one", "tiny");
    scene.settle();
    scene.delete_pod("full-0");
    scene.rest();
    assert!(scene.address_of("needs-one").is_some() && scene.address_of("needs-two").is_none());
    scene.delete_pod("full-1");
    scene.delete_pod("full-2");
    scene.rest();
    let two = scene.held().into_iter().filter(|(_, name, _)| name == "needs-two").count();
    assert_eq!(two, 2, "it kept its place");
}

#[test]
fn an_address_that_became_free_goes_to_whoever_waited_longest_for_any_or_for_this_one() {
    for exact_first in [false, true] {
        let mut scene = Scene::new();
        add_tiny(&mut scene);
        for index in 0..5 {
            scene.pod(&format!("full-{index}"), "tiny");
            scene.rest();
        }
        let address = scene.address_of("full-0").unwrap();
        let exact = format!(r#"[{{"name": "tiny", "ips": ["{address}"]}}]"#);
        let mut waiters = [("wants-any", "tiny"), ("wants-this-one", exact.as_str())];
        if exact_first {
            waiters.reverse();
        }
        for (name, networks) in waiters {
            scene.pod(name, networks);
            scene.settle();
        }
        scene.delete_pod("full-0");
        scene.rest();
        let [first, second] = waiters.map(|(name, _)| scene.address_of(name));
        assert_eq!((first, second), (Some(address), None), "first in line: {}", waiters[0].0);
    }
}

#[test]
fn a_subnet_made_again_under_its_name_does_not_keep_what_the_former_one_had() {
    for restart in [false, true] {
        let mut scene = Scene::new();
        scene.rest();
        let former = scene.subnets.remove(0);
        let mut subnet = former.clone();
        subnet.metadata.uid = Some("subnet-web-again".into());
        subnet.spec.gateway = Some("10.0.0.9".into());
        subnet.status = None;
        scene.subnets.push(subnet.clone());
        if restart {
            // The one that saw the deletion is gone; this one finds rows of an owner that it never saw.
            let mut next = Scene::unlisted(scene.nb);
            next.locks = scene.locks;
            next.list_all(scene.vpcs, scene.subnets, vec![]);
            scene = next;
        } else {
            scene.engine.feed(&Change::deleted(&former));
            scene.engine.feed(&Change::Applied(subnet));
        }
        scene.rest();
        assert!(!scene.units().contains("subnet/web"), "restart: {restart}: {:?}", scene.units());
        assert_eq!(scene.gateways("web"), BTreeMap::new(), "restart: {restart}");
        let subnet = mk_validated(scene.subnets.last().unwrap().clone(), Some(1));
        scene.engine.feed(&Change::Applied(subnet));
        scene.rest();
        assert!(scene.units().contains("subnet/web"));
        assert_eq!(scene.gateways("web").keys().collect::<Vec<_>>(), ["10.0.0.9"]);
    }
}

#[test]
fn a_duplicate_stays_when_the_lock_that_counted_goes_before_it() {
    let mut scene = Scene::new();
    scene.pod("app", "web");
    scene.rest();
    let first = scene.guest_locks().next().unwrap().clone();
    // Another controller, whose watch was behind, gave the same interface an address, too.
    let mut second = first.clone();
    second.metadata.name = Some("10-0-0-200.vpc-blue".into());
    second.spec.address = "10.0.0.200".into();
    second.spec.mac = None;
    scene.version += 1;
    let second = mk_stored(second, scene.version);
    scene.locks.insert(second.name_any(), second.clone());
    scene.engine.feed(&Change::Applied(second.clone()));
    // Live reads confirm that the first is there: the second is to go.
    scene.engine.actions().into_iter().for_each(|action| scene.perform(action));
    // Now someone deletes the first.
    scene.locks.remove(&first.name_any());
    scene.engine.feed(&Change::deleted(&first));
    scene.rest();
    assert_eq!(scene.address_of("app").as_deref(), Some("10.0.0.200"), "{:?}", scene.held());
    assert_eq!((scene.held().len(), scene.ports()), (1, 1));
}

#[test]
fn an_ordinal_that_is_wanted_again_keeps_its_address_and_its_port_comes_back() {
    let mut scene = Scene::new();
    scene.set("set-1", 1);
    scene.ordinal("pod-1", Some("set-1"), "web");
    scene.rest();
    let held = scene.held();
    scene.delete_pod("db-0");
    scene.set("set-1", 0);
    // Live reads confirm that nobody needs it; then the set is scaled up again, before anything was written.
    scene.engine.actions().into_iter().for_each(|action| scene.perform(action));
    scene.set("set-1", 1);
    scene.rest();
    assert_eq!((scene.held(), scene.ports()), (held, 1));
}

#[test]
fn a_list_of_locks_that_is_older_than_an_answer_makes_no_second_lock() {
    let mut scene = Scene::new();
    scene.rest();
    let listed: Vec<IPLock> = scene.locks.values().cloned().collect();
    scene.pod("app", "web");
    let [lock]: [IPLock; 1] = scene.proposals().try_into().unwrap();
    let name = lock.name_any();
    scene.version += 1;
    scene.locks.insert(name.clone(), mk_stored(lock.clone(), scene.version));
    scene.engine.created(&name, &Creation::Exists);
    scene.list(listed);
    // It is read, as no watch may ever show it.
    scene.rest();
    assert_eq!((scene.held().len(), scene.ports()), (1, 1), "{:?}", scene.held());
}

#[test]
fn a_lock_that_was_deleted_before_any_watch_showed_it_is_created_again() {
    // The answer comes before the list that lacks it, or after.
    for answered_first in [true, false] {
        let mut scene = Scene::new();
        scene.rest();
        scene.pod("app", "web");
        let [lock]: [IPLock; 1] = scene.proposals().try_into().unwrap();
        if answered_first {
            scene.engine.created(&lock.name_any(), &Creation::Exists);
        }
        scene.list(scene.locks.values().cloned().collect());
        if !answered_first {
            scene.engine.created(&lock.name_any(), &Creation::Exists);
        }
        scene.rest();
        assert_eq!((scene.held().len(), scene.ports()), (1, 1), "answered first: {answered_first}");
    }
}

#[test]
fn locks_that_a_list_lacks_are_still_taken_while_a_live_read_finds_them() {
    let mut scene = Scene::new();
    scene.annotated("a", "uid-a", "web", (IP_ADDRESS, "10.0.0.7"));
    scene.rest();
    let rows = scene.nb.content().clone();
    scene.list::<IPLock>(vec![]);
    scene.annotated("b", "uid-b", "web", (IP_ADDRESS, "10.0.0.7"));
    scene.rest();
    assert_eq!((scene.held().len(), scene.nb.content()), (1, &rows));
    assert!(scene.reasons().contains(&"AddressTaken"), "{:?}", scene.reported);
    scene.delete_pod("a");
    scene.rest();
    assert_eq!(scene.address_of("b").as_deref(), Some("10.0.0.7"));
}

#[test]
fn whoever_waits_for_an_address_whose_lock_cannot_be_read_gets_it_when_that_goes() {
    // The name of a lock tells its address, unless the domain's name is too long to be in it.
    for vpc in ["blue".to_owned(), "x".repeat(250)] {
        let mut scene = Scene::unlisted(MemDb::new(NB_SCHEMA).unwrap());
        let mut web = mk_subnet("web", "10.0.0.0/24", &vpc);
        web.spec.provider = Some("web.default.ovn".into());
        scene.list_all(vec![mk_vpc(&vpc)], vec![web], vec![mk_nad("default", "web")]);
        scene.rest();
        let name = LockName::new(&Domain::Vpc(vpc.into()), LockAddress::Ip([10, 0, 0, 7].into())).to_string();
        let mut lock = mk_stored(IPLock::new(&name, IPLockSpec::default()), 77);
        lock.spec.address = "nonsense".into();
        scene.engine.feed(&Change::Applied(lock.clone()));
        scene.annotated("app", "uid-app", "web", (IP_ADDRESS, "10.0.0.7"));
        scene.rest();
        assert_eq!(scene.held(), [], "{name}");
        scene.engine.feed(&Change::deleted(&lock));
        scene.rest();
        assert_eq!(scene.address_of("app").as_deref(), Some("10.0.0.7"), "{name}");
    }
}

#[test]
fn the_lock_of_a_former_gateway_stays_while_the_database_refuses_the_new_one() {
    let mut scene = Scene::new();
    scene.rest();
    let mut subnet = scene.subnets[0].clone();
    subnet.spec.gateway = Some("10.0.0.2".into());
    subnet.metadata.generation = Some(2);
    let subnet = mk_validated(subnet, Some(2));
    scene.subnets[0] = subnet.clone();
    scene.engine.feed(&Change::Applied(subnet));
    for _ in 0..5 {
        scene.engine.actions().into_iter().for_each(|action| scene.perform(action));
        for batch in scene.engine.plan(&scene.cache, 1000) {
            scene.engine.refused(&batch, "constraint violation");
        }
        scene.engine.settled(&scene.cache);
    }
    let gateways = scene.gateways("web");
    assert_eq!(gateways.keys().collect::<Vec<_>>(), ["10.0.0.1", "10.0.0.2"]);
    scene.retry();
    scene.rest();
    assert_eq!(scene.gateways("web").keys().collect::<Vec<_>>(), ["10.0.0.2"]);
}

/// What can happen to three pods that ask for one static address or two of a pool, on a subnet with few addresses.
#[derive(Clone, Debug)]
enum Step {
    Start(usize),
    Stop(usize),
    /// The API server answers so many of the creations that are under way: as asked, or by failing.
    Answer(usize, bool),
    Settle,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..5_usize).prop_map(Step::Start),
        3 => (0..5_usize).prop_map(Step::Stop),
        3 => (1..3_usize, any::<bool>()).prop_map(|(count, works)| Step::Answer(count, works)),
        1 => Just(Step::Settle),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the order of starts, ends, failures and answers: no address is promised twice, and once all is quiet nobody waits
    /// for something that is free.
    #[test]
    fn nobody_waits_for_something_that_is_free(steps in prop::collection::vec(step(), 1..30)) {
        let mut scene = Scene::new();
        scene.rest();
        let pods = ["a", "b", "c", "d", "e"];
        let asks = [(IP_ADDRESS, "10.0.0.7"), (IP_ADDRESS, "10.0.0.7"), (IP_POOL, "10.0.0.7,10.0.0.8"), (IP_POOL, "10.0.0.8,10.0.0.9"), (IP_POOL, "10.0.0.8,10.0.0.7")];
        let mut open: Vec<IPLock> = Vec::new();
        for (life, step) in steps.into_iter().enumerate() {
            match step {
                Step::Start(i) if !scene.pods.contains_key(pods[i]) => {
                    scene.annotated(pods[i], &format!("uid-{}-{life}", pods[i]), "web", asks[i]);
                }
                Step::Stop(i) if scene.pods.contains_key(pods[i]) => scene.delete_pod(pods[i]),
                Step::Start(_) | Step::Stop(_) => {}
                Step::Answer(count, works) => {
                    for lock in open.drain(..count.min(open.len())).collect::<Vec<_>>() {
                        if works { scene.store(lock) } else { scene.engine.created(&lock.name_any(), &Creation::Failed) }
                    }
                    scene.retry();
                }
                Step::Settle => {
                    std::mem::take(&mut open).into_iter().for_each(|lock| scene.store(lock));
                    scene.settle();
                }
            }
            let (created, others): (Vec<_>, Vec<_>) =
                scene.engine.actions().into_iter().partition(|action| matches!(action, Action::CreateLock(_)));
            others.into_iter().for_each(|action| scene.perform(action));
            open.extend(created.into_iter().filter_map(|action| if let Action::CreateLock(lock) = action { Some(*lock) } else { None }));
            let mut names: Vec<_> = open.iter().map(ResourceExt::name_any).collect();
            names.sort();
            let all = names.len();
            names.dedup();
            prop_assert_eq!(names.len(), all, "an address is promised twice");
        }
        open.into_iter().for_each(|lock| scene.store(lock));
        for _ in 0..4 {
            scene.rest();
        }
        let held = scene.held();
        let taken: BTreeSet<_> = held.iter().map(|(address, _, _)| address.clone()).collect();
        prop_assert_eq!(taken.len(), held.len());
        for (name, (_, wanted)) in pods.iter().zip(asks) {
            let free = wanted.split(',').any(|address| !taken.contains(address));
            if scene.pods.contains_key(*name) && scene.address_of(name).is_none() {
                prop_assert!(!free, "{} waits for {}, of which something is free: {:?}", name, wanted, held);
            }
        }
    }
}

#[test]
fn annotations_without_effect_are_told_to_the_pod_once_and_until_they_are_gone() {
    let mut scene = Scene::new();
    let groups = "web.default.ovn.kubernetes.io/security_groups";
    scene.annotated("a", "uid-a", "web", (groups, "front"));
    scene.settle();
    let message = format!("metadata.annotations[{groups}]: not supported yet; it has no effect");
    assert_eq!(scene.reported, [("NoEffect", message.clone())]);
    assert_eq!(scene.guest_locks().count(), 1, "it has its address all the same");
    // The pod changes, in nothing that matters.
    scene.annotated("a", "uid-a", "web", (groups, "other"));
    scene.settle();
    assert_eq!(scene.reported.len(), 1);
    // What has its addresses is told too.
    let mut pod = scene.pods["a"].clone();
    let annotations = pod.metadata.annotations.get_or_insert_default();
    annotations.insert("web.default.ovn.kubernetes.io/ingress_rate".into(), "three".into());
    scene.start(pod.clone());
    scene.settle();
    assert_eq!(scene.reasons(), ["NoEffect", "NoEffect"]);
    // While its subnet is being changed nothing is known, and nothing is taken back.
    let mut subnet = scene.subnets[0].clone();
    subnet.metadata.generation = Some(7);
    scene.engine.feed(&Change::Applied(subnet));
    scene.start(pod.clone());
    scene.settle();
    assert_eq!(scene.reasons(), ["NoEffect", "NoEffect"]);
    scene.engine.feed(&Change::Applied(scene.subnets[0].clone()));
    pod.metadata.annotations.get_or_insert_default().retain(|key, _| key == NETWORKS);
    scene.start(pod);
    scene.settle();
    assert_eq!(scene.reported.last().unwrap(), &("Resolved", "NoEffect is resolved".to_owned()));
}
