//! Stepping down and up again: nothing is done because of what was true in an earlier term.

use super::*;

impl Scene {
    /// Makes everything happen until a lock is about to be deleted; returns what is to be done then.
    fn until_a_deletion(&mut self) -> Action {
        for _ in 0..20 {
            for batch in self.engine.plan(&self.cache, 1000) {
                self.nb.transact(&batch.transaction()).unwrap();
            }
            self.nb.refresh(&mut self.cache);
            self.engine.settled(&self.cache);
            for action in self.engine.actions() {
                match action {
                    Action::DeleteLock { .. } => return action,
                    other => self.perform(other),
                }
            }
        }
        panic!("no lock is deleted");
    }

    /// Leads again, as the control loop does it.
    fn lead(&mut self) -> Vec<Action> {
        self.engine.lead();
        self.engine.compare_all(&self.cache);
        self.engine.actions()
    }
}

/// A pod that had an address and is gone.
fn gone() -> Scene {
    let mut scene = Scene::new();
    scene.pod("app", "web");
    scene.settle();
    scene.delete_pod("app");
    scene
}

#[test]
fn a_deletion_that_was_not_sent_is_decided_anew_in_the_next_term() {
    // It waited for its turn outside, or in the engine itself.
    for taken in [true, false] {
        let mut scene = gone();
        let deletion = scene.until_a_deletion();
        if !taken {
            scene.engine.actions.push(deletion.clone());
        }
        scene.engine.stand_by();
        if taken {
            scene.engine.dropped(deletion);
        }
        assert_eq!(scene.engine.actions(), []);
        let actions = scene.lead();
        assert!(!actions.iter().any(|action| matches!(action, Action::DeleteLock { .. })), "{actions:?}");
        assert!(
            actions.iter().any(|action| matches!(action, Action::Confirm(_))),
            "its holder is read live once more: {actions:?}"
        );
        actions.into_iter().for_each(|action| scene.perform(action));
        scene.settle();
        assert_eq!(scene.guest_locks().count(), 0);
    }
}

#[test]
fn a_release_that_was_under_way_ends_with_the_term() {
    let mut scene = gone();
    let actions = scene.engine.actions();
    let confirm = actions.into_iter().find(|action| matches!(action, Action::Confirm(_))).unwrap();
    // The answer comes when another one leads, who has removed the port.
    scene.engine.stand_by();
    scene.perform(confirm);
    let empty = MemDb::new(NB_SCHEMA).unwrap().cache(DATABASE.indexes());
    scene.engine.settled(&empty);
    assert_eq!(scene.engine.actions(), []);
    scene.lead().into_iter().for_each(|action| scene.perform(action));
    scene.settle();
    assert_eq!(scene.guest_locks().count(), 0);
}

#[test]
fn an_answer_to_a_question_of_an_earlier_term_confirms_nothing() {
    let mut scene = gone();
    let asked =
        |actions: Vec<Action>| actions.into_iter().find(|action| matches!(action, Action::Confirm(_)));
    let actions = scene.engine.actions();
    let early = asked(actions).unwrap();
    scene.engine.stand_by();
    let actions = scene.lead();
    let late = asked(actions).unwrap();
    assert_ne!(early, late);
    // What was read in the earlier term may have changed since.
    scene.perform(early);
    assert!(
        scene.engine.plan(&scene.cache, 1000).is_empty(),
        "the port stays until the last question is answered"
    );
    scene.perform(late);
    scene.settle();
    assert_eq!(scene.guest_locks().count(), 0);
}

#[test]
fn a_deletion_that_failed_in_an_earlier_term_is_not_repeated_without_being_decided() {
    let mut scene = gone();
    let Action::DeleteLock { lock, .. } = scene.until_a_deletion() else { panic!("a deletion") };
    // It was sent, and failed; and its pause ends while this engine stands by.
    scene.engine.stand_by();
    scene.engine.not_deleted(&lock);
    for retry in scene.engine.take_retries() {
        scene.engine.retry(retry);
    }
    scene.engine.settled(&scene.cache);
    assert_eq!(scene.engine.actions(), []);
    let actions = scene.lead();
    assert!(actions.iter().any(|action| matches!(action, Action::Confirm(_))), "{actions:?}");
    actions.into_iter().for_each(|action| scene.perform(action));
    scene.settle();
    assert_eq!(scene.guest_locks().count(), 0);
}

#[test]
fn a_lock_that_was_not_created_is_proposed_again_in_the_next_term() {
    let mut scene = Scene::new();
    scene.settle();
    scene.pod("app", "web");
    let proposals = scene.proposals();
    assert_eq!(proposals.len(), 1);
    scene.engine.stand_by();
    scene.engine.dropped(Action::CreateLock(Box::new(proposals[0].clone())));
    assert_eq!(scene.engine.actions(), []);
    scene.engine.lead();
    scene.engine.compare_all(&scene.cache);
    assert_eq!(scene.proposals().len(), 1);
}

/// A VPC that nothing can be made of.
fn wrong_vpc() -> Vpc {
    let mut vpc = mk_vpc("wrong");
    vpc.spec.static_routes = serde_json::from_value(serde_json::json!([
        {"cidr": "no prefix", "nextHopIP": "10.0.0.7", "policy": "policyDst"},
    ]))
    .unwrap();
    vpc
}

fn reasons(actions: &[Action]) -> Vec<&'static str> {
    let reported = actions.iter().filter_map(|action| match action {
        Action::Report { reason, .. } => Some(*reason),
        _ => None,
    });
    reported.collect()
}

#[test]
fn a_new_leader_reports_what_is_wrong_now_and_not_what_was_wrong_while_it_stood_by() {
    let mut scene = Scene::new();
    scene.settle();
    scene.engine.stand_by();
    scene.engine.feed(&Change::Applied(wrong_vpc()));
    assert_eq!(scene.engine.actions(), []);
    scene.engine.feed(&Change::Applied(mk_vpc("wrong")));
    assert_eq!(reasons(&scene.lead()), [""; 0], "it was corrected before");

    scene.engine.stand_by();
    scene.engine.feed(&Change::Applied(wrong_vpc()));
    assert_eq!(scene.engine.actions(), []);
    assert_eq!(reasons(&scene.lead()), ["InvalidSpec"], "whoever led may not have come to it");
}

#[test]
fn a_verdict_that_comes_after_stepping_down_is_not_written() {
    let mut scene = Scene::new();
    scene.settle();
    let mut late = mk_subnet("late", "10.0.9.0/24", "blue");
    late.status = None;
    scene.engine.feed(&Change::Applied(late.clone()));
    let judged = |actions: &[Action]| {
        actions.iter().find_map(|action| match action {
            Action::ValidateSubnets(candidates) => Some(candidates.clone()),
            _ => None,
        })
    };
    let actions = scene.engine.actions();
    let candidates = judged(&actions).unwrap();
    scene.engine.stand_by();
    let lists = Lists { subnets: vec![late], vpcs: scene.vpcs.clone(), ..Lists::default() };
    scene.engine.judge_and_write(&candidates, &lists);
    assert_eq!(scene.engine.actions(), []);
    let actions = scene.lead();
    let writes_verdict = |action: &Action| match action {
        Action::SetConditions(update) => update.conditions.iter().any(|one| one.type_ == "Validated"),
        _ => false,
    };
    assert!(!actions.iter().any(writes_verdict), "{actions:?}");
    assert_eq!(judged(&actions), Some(candidates), "it is judged by lists of this term");
}

#[test]
fn what_was_found_of_a_ports_binding_in_an_earlier_term_counts_for_nothing() {
    let mut scene = Scene::new();
    scene.pod("app", "web");
    scene.settle();
    let port = "port:default/app/net1/uid-app";
    let reasons = |scene: &mut Scene| {
        scene.settle();
        std::mem::take(&mut scene.reported).into_iter().map(|(reason, _)| reason).collect::<Vec<_>>()
    };
    let first = scene.engine.term().unwrap();
    scene.engine.port_bound_elsewhere(first, port, Some("by a thief".to_owned()));
    assert_eq!(reasons(&mut scene), ["BoundElsewhere"]);
    scene.engine.stand_by();
    assert_eq!(scene.engine.term(), None);
    scene.engine.port_bound_elsewhere(first, port, Some("by a thief".to_owned()));
    let actions = scene.lead();
    actions.into_iter().for_each(|action| scene.perform(action));
    // It is told by whoever finds it in this term, and by nobody else; or nobody could say that it is over.
    scene.engine.port_bound_elsewhere(first, port, Some("by a thief".to_owned()));
    assert_eq!(reasons(&mut scene), [""; 0]);
    let second = scene.engine.term().unwrap();
    scene.engine.port_bound_elsewhere(second, port, Some("by a thief".to_owned()));
    scene.engine.port_bound_elsewhere(second, port, None);
    assert_eq!(reasons(&mut scene), ["BoundElsewhere", "Resolved"]);
}
