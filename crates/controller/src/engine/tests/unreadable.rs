//! Objects that cannot be decoded: what was made of them stays, everyone else is served, and their owners are told.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

use kube::core::PartialObjectMeta;
use portolan_watch::{Listed, Unreadable};
use serde::Serialize;
use serde_json::json;

use super::*;

/// An object whose field, a path from the top, has a value of another type.
pub(super) fn broken<K: Observed + Serialize>(object: &K, path: &str) -> Unreadable<K> {
    let mut content = serde_json::to_value(object).unwrap();
    *content.pointer_mut(&format!("/{}", path.replace('.', "/"))).unwrap() = json!([7]);
    Unreadable {
        object: PartialObjectMeta {
            types: None,
            metadata: object.meta().clone(),
            _phantom: std::marker::PhantomData,
        },
        content,
        field: path.to_owned(),
        problem: "invalid type: sequence, expected a string".to_owned(),
    }
}

impl Scene {
    fn break_object<K: Observed + Serialize>(&mut self, object: &K, path: &str) {
        self.engine.feed(&Change::Unreadable(Box::new(broken(object, path))));
        self.settle();
    }

    fn events(&self, reason: &str) -> Vec<&str> {
        let events = self.reported.iter().filter(|(known, _)| *known == reason);
        events.map(|(_, message)| message.as_str()).collect()
    }
}

#[test]
fn a_subnet_that_becomes_unreadable_keeps_its_rows_and_disturbs_no_other() {
    let mut scene = Scene::new();
    scene.pod("app", "web");
    scene.settle();
    let (rows, locks) = (scene.nb.content().clone(), scene.locks.clone());
    let web = subnets().remove(0);
    scene.break_object(&web, "spec.cidrBlock");
    assert_eq!((scene.nb.content(), &scene.locks), (&rows, &locks));
    assert_eq!(scene.live_reads, [""; 0], "nothing is in doubt");
    let events = scene.events("Unreadable");
    assert!(events.len() == 1 && events[0].contains("spec.cidrBlock"), "{events:?}");
    // Pods on other subnets are served; one on this waits, and is served when it can be read.
    scene.pod("other", "db");
    scene.pod("late", "web");
    scene.settle();
    let holders = |scene: &Scene| {
        scene.guest_locks().map(|lock| lock.spec.holder.name.clone()).collect::<BTreeSet<_>>()
    };
    assert_eq!(holders(&scene), ["app", "other"].map(String::from).into());
    scene.engine.feed(&Change::Applied(web));
    scene.settle();
    assert_eq!(holders(&scene), ["app", "late", "other"].map(String::from).into());
    assert!(
        scene.events("Resolved").iter().any(|message| message.contains("Unreadable")),
        "{:?}",
        scene.reported
    );
}

#[test]
fn a_controller_that_finds_unreadable_objects_serves_the_others_and_removes_nothing() {
    let mut scene = Scene::new();
    scene.pod("app", "web");
    scene.settle();
    let (rows, locks) = (scene.nb.content().clone(), scene.locks.clone());
    let mut next = Scene::unlisted(scene.nb);
    (next.pods, next.locks) = (scene.pods, scene.locks);
    next.list_all(vec![mk_vpc("blue")], subnets(), vec![mk_nad("default", "web"), mk_nad("default", "db")]);
    // What it was told so far is replaced: of each kind one object cannot be decoded.
    let web = broken(&subnets()[0], "spec.cidrBlock");
    next.engine.feed(&Change::listed(Listed { objects: subnets().split_off(1), unreadable: vec![web] }));
    let vpc = broken(&mk_vpc("blue"), "spec");
    next.engine.feed(&Change::listed(Listed { objects: vec![], unreadable: vec![vpc] }));
    let locks_found = next.locks.values().map(|lock| broken(lock, "spec.holder.interface")).collect();
    next.engine.feed(&Change::<IPLock>::listed(Listed { objects: vec![], unreadable: locks_found }));
    let pods = next.pods.values().map(|pod| broken(pod, "spec.nodeName")).collect();
    next.engine.feed(&Change::<Pod>::listed(Listed { objects: vec![], unreadable: pods }));
    next.settle();
    assert_eq!((next.nb.content(), &next.locks, next.creations), (&rows, &locks, 0));
    assert_eq!(next.live_reads, [""; 0], "nothing is in doubt");
    assert_eq!(next.events("Unreadable").len(), 3 + next.locks.len(), "{:?}", next.reported);
}

#[test]
fn a_pod_whose_lock_becomes_unreadable_keeps_its_port_and_gets_no_other_address() {
    for path in ["spec.node", "spec.holder"] {
        let mut scene = Scene::new();
        scene.pod("app", "web");
        scene.settle();
        let rows = scene.nb.content().clone();
        let lock = scene.guest_locks().next().unwrap().clone();
        scene.break_object(&lock, path);
        scene.retry_all();
        assert_eq!((scene.nb.content(), scene.creations), (&rows, 1), "{path}");
        assert!(scene.events("Unreadable")[0].contains(path), "{path}: {:?}", scene.reported);
        let of_pod = &scene.events("UnreadableLock")[0];
        assert!(of_pod.contains(&lock.name_any()), "{path}: {:?}", scene.reported);
        // The other way round the port would go while the pod runs.
        assert!(of_pod.ends_with("delete the pod first and then the lock"), "{path}: {of_pod}");
        // Nobody else gets the address.
        scene.pod("other", "web");
        scene.settle();
        assert_eq!(scene.guest_locks().count(), 2, "{path}");
        scene.delete_pod("other");
        scene.settle();
        // It can be read again: nothing was lost.
        scene.engine.feed(&Change::Applied(lock.clone()));
        scene.settle();
        assert_eq!((scene.nb.content(), scene.guest_locks().count()), (&rows, 1), "{path}");
        scene.delete_pod("app");
        scene.settle();
        assert_eq!(scene.guest_locks().count(), 0, "{path}");
    }
}

/// A controller that starts now and finds the locks of guests unreadable.
fn restarted_with_broken_locks(scene: Scene, path: &str) -> Scene {
    let (guests, gateways): (Vec<_>, Vec<_>) = scene.locks.values().cloned().partition(is_guest);
    let mut next = Scene::unlisted(scene.nb);
    (next.pods, next.version) = (scene.pods, scene.version);
    next.list_all(vec![mk_vpc("blue")], subnets(), vec![mk_nad("default", "web"), mk_nad("default", "db")]);
    let unreadable = guests.iter().map(|lock| broken(lock, path)).collect();
    next.engine.feed(&Change::listed(Listed { objects: gateways.clone(), unreadable }));
    next.locks = gateways.into_iter().chain(guests).map(|lock| (lock.name_any(), lock)).collect();
    next.settle();
    next.retry_all();
    next
}

/// Nobody remembers then whose it was: the name of its port tells.
#[test]
fn a_pod_whose_lock_does_not_say_whose_it_is_keeps_its_address_over_a_restart() {
    for path in ["spec.holder", "spec.holder.uid"] {
        let mut scene = Scene::new();
        scene.pod("app", "web");
        scene.settle();
        let rows = scene.nb.content().clone();
        let lock = scene.guest_locks().next().unwrap().clone();
        let mut scene = restarted_with_broken_locks(scene, path);
        assert_eq!((scene.nb.content(), scene.creations), (&rows, 0), "{path}");
        assert_eq!(scene.guest_locks().count(), 1, "{path}");
        let of_pod = scene.events("UnreadableLock");
        assert!(of_pod.len() == 1 && of_pod[0].contains(&lock.name_any()), "{path}: {:?}", scene.reported);
        scene.engine.feed(&Change::Applied(lock));
        scene.settle();
        assert_eq!((scene.nb.content(), scene.creations), (&rows, 0), "{path}");
        let resolved = scene.events("Resolved");
        assert!(resolved.iter().any(|said| said.contains("UnreadableLock")), "{:?}", scene.reported);
    }
}

#[test]
fn a_pod_gets_another_address_when_its_lock_that_does_not_say_whose_it_is_was_deleted() {
    let mut scene = Scene::new();
    scene.pod("app", "web");
    scene.settle();
    let mut scene = restarted_with_broken_locks(scene, "spec.holder");
    let lock = scene.guest_locks().next().unwrap().clone();
    scene.locks.remove(&lock.name_any());
    scene.engine.feed(&Change::deleted(&lock));
    scene.settle();
    assert_eq!(scene.creations, 1);
    assert!(scene.units().contains("attachment/pod/default/app/net1/uid-app"));
}

#[test]
fn an_unreadable_lock_that_is_deleted_takes_its_port_with_it_and_its_pod_gets_another() {
    let mut scene = Scene::new();
    scene.pod("app", "web");
    scene.settle();
    let lock = scene.guest_locks().next().unwrap().clone();
    scene.break_object(&lock, "spec.holder");
    scene.locks.remove(&lock.name_any());
    scene.engine.feed(&Change::deleted(&lock));
    scene.settle();
    assert_eq!(scene.creations, 2);
    assert!(scene.units().contains("attachment/pod/default/app/net1/uid-app"));
}

#[test]
fn a_lock_that_can_be_decoded_and_not_understood_is_reported_once() {
    let mut scene = Scene::new();
    scene.pod("app", "web");
    scene.settle();
    let mut lock = scene.guest_locks().next().unwrap().clone();
    let rows = scene.nb.content().clone();
    let address = std::mem::replace(&mut lock.spec.address, "nonsense".into());
    for _ in 0..2 {
        scene.engine.feed(&Change::Applied(lock.clone()));
        scene.settle();
    }
    let events = scene.events("Unreadable");
    assert!(events.len() == 1 && events[0].contains("spec.address"), "{events:?}");
    assert_eq!(*scene.nb.content(), rows);
    lock.spec.address = address;
    scene.engine.feed(&Change::Applied(lock));
    scene.settle();
    assert_eq!(scene.events("Resolved").len(), 2, "of the lock and of the pod: {:?}", scene.reported);
}

#[test]
fn a_definition_that_becomes_unreadable_leaves_running_pods_alone() {
    let mut scene = Scene::new();
    scene.pod("app", "web");
    scene.settle();
    let (rows, locks) = (scene.nb.content().clone(), scene.locks.clone());
    let nad = mk_nad("default", "web");
    scene.break_object(&nad, "spec.config");
    assert_eq!((scene.nb.content(), &scene.locks), (&rows, &locks));
    scene.pod("late", "web");
    scene.settle();
    assert!(scene.events("InvalidRequest")[0].contains("spec.config"), "{:?}", scene.reported);
    scene.engine.feed(&Change::Applied(nad));
    scene.settle();
    assert_eq!(scene.guest_locks().count(), 2);
}

impl Scene {
    /// Retries whatever failed, as the loop does after a while.
    fn retry_all(&mut self) {
        for retry in self.engine.take_retries() {
            self.engine.retry(retry);
        }
        self.settle();
    }
}
