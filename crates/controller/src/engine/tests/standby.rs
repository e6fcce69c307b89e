//! An engine that stands by knows everything and does nothing.

use super::*;

#[test]
fn a_standby_decides_nothing_and_goes_on_where_the_leader_ended() {
    let mut scene = Scene::new();
    scene.pod("old", "web");
    scene.settle();
    scene.engine.stand_by();
    scene.pod("new", "web");
    scene.delete_pod("old");
    assert_eq!(scene.engine.actions(), []);
    assert!(scene.engine.plan(&scene.cache, 1000).is_empty());
    scene.engine.settled(&scene.cache);
    assert_eq!(scene.engine.actions(), []);
    scene.engine.lead();
    scene.engine.compare_all(&scene.cache);
    scene.settle();
    let units: Vec<_> = scene.units().into_iter().filter(|unit| unit.starts_with("attachment/")).collect();
    assert_eq!(units, ["attachment/pod/default/new/net1/uid-new"]);
    assert_eq!(scene.guest_locks().count(), 1);
}

#[test]
fn what_was_under_way_when_an_engine_stepped_down_comes_to_its_end() {
    let mut scene = Scene::new();
    scene.pod("app", "web");
    let proposals = scene.proposals();
    scene.engine.stand_by();
    // One creation fails, and the retry comes while standing by.
    for lock in proposals {
        scene.engine.created(&lock.name_any(), &Creation::Failed);
    }
    for retry in scene.engine.take_retries() {
        scene.engine.retry(retry);
    }
    assert_eq!(scene.engine.actions(), []);
    scene.engine.lead();
    scene.engine.compare_all(&scene.cache);
    scene.settle();
    assert_eq!(scene.guest_locks().count(), 1);
    // A release that was confirmed: the lock is deleted only after the port, which the database still has.
    scene.delete_pod("app");
    let actions = scene.engine.actions();
    scene.engine.stand_by();
    actions.into_iter().for_each(|action| scene.perform(action));
    scene.engine.settled(&scene.cache);
    assert_eq!(scene.engine.actions(), []);
    scene.engine.lead();
    scene.engine.compare_all(&scene.cache);
    scene.settle();
    assert_eq!(scene.guest_locks().count(), 0);
}

#[test]
fn what_a_standby_keeps_follows_what_there_is_and_not_what_happens() {
    let mut scene = Scene::new();
    scene.settle();
    scene.engine.stand_by();
    for number in 0..5000 {
        // A name is not used twice, and the network does not make sense: there would be an Event about it.
        let name = format!("pod-{number}");
        scene.pod(&name, "web");
        let mut nad = mk_nad("default", &format!("nad-{number}"));
        nad.spec.config = Some("{".into());
        scene.engine.feed(&Change::Applied(nad.clone()));
        assert_eq!(scene.engine.actions(), []);
        scene.delete_pod(&name);
        scene.engine.feed(&Change::deleted(&nad));
    }
    assert_eq!(scene.engine.actions(), []);
    let kept = scene.engine.queues();
    assert!(kept.requesters < 1100 && kept.units < 10 && kept.objects < 10, "{kept:?}");
    assert!(scene.engine.actions.len() < 1100, "{} actions", scene.engine.actions.len());
    // What is still wrong is told by the next leader.
    let mut nad = mk_nad("default", "broken");
    nad.spec.config = Some("{".into());
    scene.engine.feed(&Change::Applied(nad));
    scene.engine.lead();
    scene.engine.compare_all(&scene.cache);
    scene.settle();
    assert!(scene.reasons().contains(&"InvalidDefinition"), "{:?}", scene.reasons());
}
