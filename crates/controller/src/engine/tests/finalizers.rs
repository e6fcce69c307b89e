//! What is in use does not vanish, what is not does, and nothing is stuck.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use portolan_api::condition::{TERMINATING, VALIDATED};
use portolan_api::finalizer::IN_USE;
use portolan_model::Group;
use portolan_model::fixtures::{mk_kubeovn_subnet, mk_lock};
use portolan_watch::{Listed, Unreadable};

use super::*;

fn terminating<K: kube::Resource>(mut object: K) -> K {
    object.meta_mut().deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    object.meta_mut().generation = object.meta().generation.map(|generation| generation + 1);
    object
}

impl Scene {
    /// What `kubectl delete` does.
    fn delete_subnet(&mut self, name: &str) {
        let at = self.subnets.iter().position(|subnet| subnet.name_any() == name).unwrap();
        self.subnets[at] = terminating(self.subnets[at].clone());
        self.engine.feed(&Change::Applied(self.subnets[at].clone()));
    }

    fn delete_vpc(&mut self) {
        self.vpcs[0] = terminating(self.vpcs[0].clone());
        self.engine.feed(&Change::Applied(self.vpcs[0].clone()));
    }

    /// What the API server does, and what the watch shows of it.
    pub(super) fn set_finalizer(&mut self, update: &FinalizerUpdate) {
        let Protected { kind, name, uid } = &update.object;
        match kind {
            Kind::Vpc => change_finalizer(&mut self.engine, &mut self.vpcs, name, uid, update.change),
            Kind::Subnet => change_finalizer(&mut self.engine, &mut self.subnets, name, uid, update.change),
            _ => {}
        }
    }

    /// What live lists show.
    pub(super) fn usage(&self, kind: Kind) -> Usage {
        match kind {
            Kind::Vpc | Kind::KubeOvnVpc => Usage::Subnets(self.subnets.clone().into(), Vec::new().into()),
            _ => Usage::Locks(self.locks.values().cloned().collect::<Vec<_>>().into()),
        }
    }

    /// What the condition `Terminating` of an object was last to say.
    fn says(&self, name: &str) -> Option<String> {
        let updates = self.conditions.iter().filter(|update| update.name == name);
        let mut said = updates.flat_map(|update| &update.conditions).filter(|one| one.type_ == TERMINATING);
        let said = said.next_back()?.says.as_ref()?;
        assert_eq!(said.status, true.into());
        Some(format!("{}: {}", said.reason, said.message))
    }

    /// A process that starts now, with what the API server and the database have.
    fn restarted(self) -> Self {
        let mut next = Scene::unlisted(self.nb);
        (next.pods, next.locks, next.version) = (self.pods, self.locks, self.version);
        next.list_all(self.vpcs, self.subnets, self.nads);
        next
    }

    fn is_clean(&self) -> bool {
        self.subnets.is_empty() && self.vpcs.is_empty() && self.locks.is_empty() && self.units().is_empty()
    }
}

fn change_finalizer<K: Observed + Clone>(
    engine: &mut Engine,
    objects: &mut Vec<K>,
    name: &str,
    uid: &str,
    change: FinalizerChange,
) {
    let is_it = |object: &K| object.name_any() == name && object.meta().uid.as_deref() == Some(uid);
    let Some(at) = objects.iter().position(is_it) else { return };
    let finalizers = objects[at].meta_mut().finalizers.get_or_insert_default();
    match change {
        FinalizerChange::Add => finalizers.push(IN_USE.to_owned()),
        FinalizerChange::Remove => finalizers.retain(|finalizer| finalizer != IN_USE),
    }
    let vanishes = finalizers.is_empty() && objects[at].meta().deletion_timestamp.is_some();
    if vanishes {
        engine.feed(&Change::deleted(&objects.remove(at)));
    } else {
        engine.feed(&Change::Applied(objects[at].clone()));
    }
}

/// The changes of finalizers that are wanted now.
fn finalizer_changes(actions: &[Action]) -> Vec<(Kind, &str, FinalizerChange)> {
    let changes = actions.iter().filter_map(|action| match action {
        Action::SetFinalizer(update) => {
            Some((update.object.kind, update.object.name.as_str(), update.change))
        }
        _ => None,
    });
    changes.collect()
}

fn is_question(action: &Action) -> bool {
    matches!(action, Action::ConfirmUnused(_))
}

#[test]
fn a_subnet_gets_its_finalizer_before_it_is_judged_and_its_vpc_before_an_address_is_taken() {
    let mut scene = Scene::new();
    let mut subnet = mk_subnet("new", "10.8.0.0/16", "green");
    (subnet.metadata.finalizers, subnet.status) = (None, None);
    subnet.spec.provider = Some("new.default.ovn".into());
    let mut vpc = mk_vpc("green");
    vpc.metadata.finalizers = None;
    scene.engine.feed(&Change::Applied(mk_nad("default", "new")));
    scene.engine.feed(&Change::Applied(vpc.clone()));
    scene.engine.feed(&Change::Applied(subnet.clone()));
    scene.pod("app", "new");
    let actions = scene.engine.actions();
    let expected = [(Kind::Vpc, "green", FinalizerChange::Add), (Kind::Subnet, "new", FinalizerChange::Add)];
    assert_eq!(finalizer_changes(&actions), expected);
    let judged = |actions: &[Action]| actions.iter().any(|one| matches!(one, Action::ValidateSubnets(_)));
    assert!(!judged(&actions), "{actions:?}");
    subnet.metadata.finalizers = Some(vec![IN_USE.into()]);
    scene.engine.feed(&Change::Applied(subnet.clone()));
    assert!(judged(&scene.engine.actions()));
    // Valid, but not protected: someone removed the finalizer by hand.
    let unprotected = Subnet {
        metadata: kube::core::ObjectMeta { finalizers: None, ..subnet.metadata.clone() },
        ..mk_validated(subnet.clone(), Some(1))
    };
    scene.engine.feed(&Change::Applied(unprotected));
    assert!(scene.proposals().is_empty());
    scene.engine.feed(&Change::Applied(mk_validated(subnet, Some(1))));
    assert!(scene.proposals().is_empty(), "the VPC may still vanish");
    let waits: Vec<_> = scene.reported.iter().map(|(_, message)| message.as_str()).collect();
    assert!(waits.iter().any(|wait| wait.starts_with("waiting for VPC green of Subnet new")), "{waits:?}");
    vpc.metadata.finalizers = Some(vec![IN_USE.into()]);
    scene.engine.feed(&Change::Applied(vpc));
    assert_eq!(scene.proposals().len(), 1);
}

#[test]
fn a_subnet_that_is_deleted_stays_while_pods_use_it_and_goes_with_the_last() {
    let mut scene = Scene::new();
    scene.pod("first", "web");
    scene.pod("second", "web");
    scene.settle();
    let rows = scene.nb.content().clone();
    scene.delete_subnet("web");
    scene.pod("late", "web");
    scene.settle();
    assert_eq!(scene.nb.content(), &rows, "whoever uses it goes on");
    assert_eq!(scene.guest_locks().count(), 2, "and nobody new begins");
    let says = scene.says("web").unwrap();
    assert!(says.starts_with("InUse: 2 addresses are in use: 10.0.0."), "{says}");
    assert!(says.contains(" by Pod default/first") && says.contains(" by Pod default/second"), "{says}");
    let waits = ("Waiting", "waiting for Subnet web, which is being deleted and gives no new addresses; make it again once it is gone, or use another".to_owned());
    assert!(scene.reported.contains(&waits), "{:?}", scene.reported);
    assert_eq!(scene.reasons().iter().filter(|reason| **reason == "InUse").count(), 1);
    scene.delete_pod("first");
    scene.settle();
    scene.engine.compare_deferred_status();
    scene.settle();
    let says = scene.says("web").unwrap();
    assert!(says.starts_with("InUse: 1 address is in use: 10.0.0."), "{says}");
    scene.delete_pod("second");
    scene.settle();
    assert_eq!(scene.subnets.len(), 1, "{:?}", scene.subnets);
    assert_eq!(scene.units(), ["subnet/db", "vpc/blue"].map(String::from).into());
    assert!(scene.locks.values().all(|lock| lock.spec.subnet == "db"), "{:?}", scene.locks.keys());
    assert_eq!(scene.reasons().iter().filter(|reason| **reason == "InUse").count(), 1, "told once");
    // Made again, it serves the pod that waits.
    let mut again = subnets().remove(0);
    again.metadata.uid = Some("another".into());
    scene.subnets.push(again.clone());
    scene.engine.feed(&Change::Applied(again));
    scene.settle();
    assert_eq!(scene.guest_locks().map(|lock| lock.spec.holder.name.as_str()).collect::<Vec<_>>(), ["late"]);
}

#[test]
fn of_many_users_the_first_are_named_and_the_others_counted() {
    let mut scene = Scene::new();
    for number in 0..5 {
        scene.pod(&format!("pod-{number}"), "web");
    }
    scene.settle();
    scene.delete_subnet("web");
    scene.delete_vpc();
    scene.settle();
    let says = scene.says("web").unwrap();
    assert!(says.starts_with("InUse: 5 addresses are in use: "), "{says}");
    assert!(says.ends_with(
        " and 2 more; it is removed once nothing uses it; list them: kubectl get iplocks --field-selector spec.subnet=web"
    ), "{says}");
    assert_eq!(
        scene.says("blue").unwrap(),
        "InUse: 2 Subnets are in it: db of portolan.dev, web of portolan.dev; it is removed once nothing uses it"
    );
}

#[test]
fn everything_may_be_deleted_in_any_order_and_a_controller_die_at_any_point() {
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    for (order, death) in orders.into_iter().flat_map(|order| (0..40).map(move |death| (order, death))) {
        let mut scene = Scene::new();
        scene.pod("app", "web,db");
        scene.settle();
        for step in order {
            match step {
                0 => scene.delete_pod("app"),
                1 => ["web", "db"].into_iter().for_each(|subnet| scene.delete_subnet(subnet)),
                _ => scene.delete_vpc(),
            }
        }
        // So many actions happen, and the rest of what was decided is lost with the process.
        let mut left = death;
        'life: for _ in 0..20 {
            let actions = scene.engine.actions();
            for action in actions {
                if left == 0 {
                    break 'life;
                }
                left -= 1;
                scene.perform(action);
            }
            for batch in scene.engine.plan(&scene.cache, 1000) {
                scene.nb.transact(&batch.transaction()).unwrap();
            }
            scene.nb.refresh(&mut scene.cache);
            scene.engine.compare_all(&scene.cache);
        }
        let mut scene = scene.restarted();
        scene.settle();
        assert!(scene.is_clean(), "{order:?} {death}: {:?} {:?}", scene.units(), scene.locks.keys());
    }
}

#[test]
fn what_a_live_list_shows_keeps_a_subnet_although_the_watch_does_not() {
    let mut scene = Scene::new();
    scene.settle();
    // Another controller's lock, which this one's watch has not shown.
    let lock = mk_lock("vpc/blue", "web", "10.0.0.9", "app", 90);
    scene.locks.insert(lock.name_any(), lock.clone());
    scene.delete_subnet("web");
    let actions = scene.engine.actions();
    assert_eq!(actions.iter().filter(|action| is_question(action)).count(), 1, "{actions:?}");
    actions.into_iter().for_each(|action| scene.perform(action));
    scene.settle();
    assert_eq!(scene.subnets.len(), 2);
    let says = scene.says("web").unwrap();
    assert!(says.starts_with("InUse: 1 address is in use: 10.0.0.9 by Pod default/app"), "{says}");
    // It may come and go unseen: it is asked again, after a pause and not before.
    assert!(!scene.engine.actions().iter().any(is_question));
    scene.locks.remove(&lock.name_any());
    let retry = Retry::Usage(Kind::Subnet, "web".into());
    assert!(scene.engine.take_retries().contains(&retry));
    scene.engine.retry(retry);
    scene.settle();
    assert_eq!(scene.subnets.len(), 1);
}

#[test]
fn lists_that_failed_are_made_again_after_a_pause() {
    let mut scene = Scene::new();
    scene.settle();
    scene.delete_subnet("web");
    let actions = scene.engine.actions();
    let asked = actions.into_iter().find_map(|action| match action {
        Action::ConfirmUnused(object) => Some(object),
        _ => None,
    });
    scene.engine.usage(&asked.unwrap(), &Usage::Failed);
    let actions = scene.engine.actions();
    assert!(!actions.iter().any(is_question) && finalizer_changes(&actions).is_empty(), "{actions:?}");
    let retry = Retry::Usage(Kind::Subnet, "web".into());
    assert!(scene.engine.take_retries().contains(&retry));
    scene.engine.retry(retry);
    scene.settle();
    assert_eq!(scene.subnets.len(), 1);
}

#[test]
fn a_lock_that_is_being_created_keeps_its_subnet() {
    let mut scene = Scene::new();
    scene.settle();
    scene.pod("app", "web");
    let proposals = scene.proposals();
    scene.delete_subnet("web");
    for _ in 0..3 {
        let actions = scene.engine.actions();
        assert!(!actions.iter().any(is_question), "its lock may be there when nobody looks: {actions:?}");
    }
    proposals.into_iter().for_each(|lock| scene.store(lock));
    scene.settle();
    assert_eq!(scene.subnets.len(), 2);
    scene.delete_pod("app");
    scene.settle();
    assert_eq!(scene.subnets.len(), 1);
    // One that could not be created keeps nothing.
    let mut scene = Scene::new();
    scene.settle();
    scene.pod("app", "web");
    let proposal = scene.proposals().remove(0);
    scene.delete_subnet("web");
    scene.engine.created(&proposal.name_any(), &Creation::Failed);
    scene.settle();
    assert_eq!(scene.subnets.len(), 1);
}

#[test]
fn a_vpc_that_is_deleted_takes_no_new_subnets_and_goes_with_the_last() {
    let mut scene = Scene::new();
    scene.settle();
    scene.delete_vpc();
    scene.settle();
    assert_eq!(scene.vpcs.len(), 1);
    let mut late = mk_subnet("late", "10.8.0.0/16", "blue");
    late.status = None;
    scene.engine.feed(&Change::Applied(late.clone()));
    let judged = scene.engine.actions().into_iter().find_map(|action| match action {
        Action::ValidateSubnets(candidates) => Some(candidates),
        _ => None,
    });
    let lists = Lists { subnets: vec![late.clone()], vpcs: scene.vpcs.clone(), ..Lists::default() };
    let verdicts = scene.engine.judge(&judged.unwrap(), &lists);
    assert!(
        verdicts[0].errors.contains("spec.vpc") && verdicts[0].errors.contains("is being deleted"),
        "{verdicts:?}"
    );
    // One that is in it may still be edited.
    let mut web = scene.subnets[0].clone();
    web.metadata.generation = Some(2);
    scene.engine.feed(&Change::Applied(web.clone()));
    let judged = [((Group::Portolan, "web".to_owned()), ("subnet-web".to_owned(), Some(2)))].into();
    let lists = Lists { subnets: vec![web], ..lists };
    assert_eq!(scene.engine.judge(&judged, &lists)[0].errors, "");
    // Until that is written it may be valid; then it does not hold the VPC, which would never go if it were made again and again.
    let update = portolan_api::condition::ConditionUpdate {
        type_: VALIDATED,
        status: false.into(),
        reason: "Invalid",
        message: &verdicts[0].errors,
        generation: Some(1),
    };
    let conditions = &mut late.status.get_or_insert_default().conditions;
    portolan_api::condition::set_condition(conditions, update, &Time(Timestamp::UNIX_EPOCH));
    scene.subnets.push(late.clone());
    scene.engine.feed(&Change::Applied(late));
    for subnet in ["web", "db"] {
        scene.delete_subnet(subnet);
    }
    scene.settle();
    assert_eq!((scene.vpcs.len(), scene.subnets.len()), (0, 1), "{:?} {:?}", scene.vpcs, scene.subnets);
    assert!(scene.locks.is_empty() && scene.units().is_empty());
}

#[test]
fn a_vpc_is_held_by_a_subnet_in_use_whose_last_edit_is_wrong_or_refused() {
    for refused in [false, true] {
        for edited_first in [false, true] {
            let mut scene = Scene::new();
            scene.pod("app", "web");
            scene.settle();
            let db = scene.subnets.iter().position(|subnet| subnet.name_any() == "db").unwrap();
            let db = scene.subnets.remove(db);
            scene.engine.feed(&Change::deleted(&db));
            let mut web = scene.subnets[0].clone();
            web.metadata.generation = Some(2);
            if refused {
                // As the gate would write it of an edit that makes the Subnet as good as new.
                let message = format!("spec.vpc: {}", portolan_model::validate::VPC_IS_TERMINATING);
                let update = portolan_api::condition::ConditionUpdate {
                    type_: VALIDATED,
                    status: false.into(),
                    reason: "Invalid",
                    message: &message,
                    generation: Some(2),
                };
                let conditions = &mut web.status.get_or_insert_default().conditions;
                portolan_api::condition::set_condition(conditions, update, &Time(Timestamp::UNIX_EPOCH));
            } else {
                web.spec.gateway = Some("nowhere".into());
            }
            scene.subnets[0] = web.clone();
            if edited_first {
                scene.engine.feed(&Change::Applied(web.clone()));
                scene.delete_vpc();
            } else {
                scene.delete_vpc();
                scene.engine.feed(&Change::Applied(web.clone()));
            }
            scene.settle();
            assert_eq!(scene.vpcs.len(), 1, "refused: {refused}, edited first: {edited_first}");
            assert!(scene.units().contains("vpc/blue"));
            // With its last pod, one that was refused holds it no longer; one that is only wrong does.
            scene.delete_pod("app");
            scene.settle();
            assert_eq!(scene.vpcs.is_empty(), refused, "refused: {refused}, edited first: {edited_first}");
            scene.delete_subnet("web");
            scene.settle();
            assert!(scene.is_clean(), "refused: {refused}, edited first: {edited_first}");
        }
    }
}

#[test]
fn a_vpc_is_held_by_subnets_of_both_groups_and_by_those_that_cannot_be_read() {
    let mut scene = Scene::new();
    scene.subnets.iter().for_each(|subnet| scene.engine.feed(&Change::deleted(subnet)));
    scene.delete_vpc();
    let actions = scene.engine.actions();
    let asked = actions.into_iter().find_map(|action| match action {
        Action::ConfirmUnused(object) => Some(object),
        _ => None,
    });
    let asked = asked.unwrap();
    let mut foreign = mk_kubeovn_subnet("foreign", "10.9.0.0/16");
    foreign.spec.vpc = Some("blue".into());
    let metadata = named("broken", "uid-broken");
    let content = serde_json::json!({"metadata": metadata, "spec": {"vpc": "blue", "cidrBlock": 7}});
    let object = kube::core::PartialObjectMeta { types: None, metadata, _phantom: std::marker::PhantomData };
    let broken: Unreadable<Subnet> =
        Unreadable { object, content, field: "spec.cidrBlock".into(), problem: "wrong".into() };
    let native = Listed { objects: vec![], unreadable: vec![broken] };
    scene.engine.usage(&asked, &Usage::Subnets(native, vec![foreign].into()));
    let actions = scene.engine.actions();
    assert!(finalizer_changes(&actions).is_empty());
    actions.into_iter().for_each(|action| scene.perform(action));
    assert_eq!(
        scene.says("blue").unwrap(),
        "InUse: 2 Subnets are in it: broken of portolan.dev, foreign of kubeovn.io; it is removed once nothing uses it"
    );
}

#[test]
fn a_subnet_of_the_other_group_that_never_had_the_name_is_not_held_by_its_rival_s_pods() {
    let mut scene = Scene::new();
    scene.pod("app", "web");
    scene.settle();
    let mut rival = mk_kubeovn_subnet("web", "10.9.0.0/16");
    rival.status = None;
    scene.engine.feed(&Change::Applied(terminating(rival)));
    let actions = scene.engine.actions();
    let asked = actions.into_iter().find_map(|action| match action {
        Action::ConfirmUnused(object) => Some(object),
        _ => None,
    });
    let usage = scene.usage(Kind::KubeOvnSubnet);
    scene.engine.usage(&asked.unwrap(), &usage);
    let actions = scene.engine.actions();
    let expected = [(Kind::KubeOvnSubnet, "web", FinalizerChange::Remove)];
    assert_eq!(finalizer_changes(&actions), expected);
}

#[test]
fn a_subnet_that_was_removed_by_force_leaves_its_pods_their_locks_and_nothing_behind_after_them() {
    let mut scene = Scene::new();
    scene.pod("app", "web");
    scene.settle();
    scene.delete_subnet("web");
    scene.settle();
    let web = scene.subnets.remove(0);
    scene.engine.feed(&Change::deleted(&web));
    scene.settle();
    assert_eq!(scene.guest_locks().count(), 1, "its pod still has the address");
    assert!(!scene.units().contains("subnet/web"), "{:?}", scene.units());
    // Made again under its name, elsewhere: the old lock is none of its addresses and does not hold it.
    let mut elsewhere = mk_subnet("web", "10.77.0.0/24", "blue");
    elsewhere.metadata.uid = Some("another".into());
    scene.subnets.push(elsewhere.clone());
    scene.engine.feed(&Change::Applied(elsewhere));
    scene.settle();
    scene.delete_subnet("web");
    scene.settle();
    assert_eq!(scene.subnets.len(), 1, "{:?}", scene.says("web"));
    // Made again as it was: its pod is connected again, and holds it.
    let mut again = subnets().remove(0);
    again.metadata.uid = Some("a-third".into());
    scene.subnets.push(again.clone());
    scene.engine.feed(&Change::Applied(again));
    scene.settle();
    assert!(scene.units().contains("attachment/pod/default/app/net1/uid-app"), "{:?}", scene.units());
    scene.delete_subnet("web");
    scene.settle();
    assert_eq!(scene.subnets.len(), 2);
    scene.delete_pod("app");
    scene.settle();
    assert_eq!((scene.subnets.len(), scene.guest_locks().count()), (1, 0));
}

#[test]
fn a_controller_that_stands_by_writes_no_finalizers_and_acts_when_it_leads() {
    let mut scene = Scene::new();
    scene.settle();
    scene.delete_subnet("web");
    let asked = scene.engine.actions().into_iter().find_map(|action| match action {
        Action::ConfirmUnused(object) => Some(object),
        _ => None,
    });
    scene.engine.stand_by();
    let usage = scene.usage(Kind::Subnet);
    scene.engine.usage(&asked.unwrap(), &usage);
    let mut vpc = mk_vpc("new");
    vpc.metadata.finalizers = None;
    scene.vpcs.push(vpc.clone());
    scene.engine.feed(&Change::Applied(vpc));
    assert_eq!(scene.engine.actions(), []);
    scene.engine.lead();
    scene.engine.compare_all(&scene.cache);
    scene.settle();
    assert_eq!(scene.subnets.len(), 1, "asked anew, and let go");
    assert_eq!(scene.vpcs[1].metadata.finalizers.as_deref(), Some(&[IN_USE.to_owned()][..]));
}

#[test]
fn finalizers_whose_change_was_not_begun_are_looked_at_anew_in_the_next_term() {
    let mut scene = Scene::new();
    scene.settle();
    let mut vpc = mk_vpc("new");
    vpc.metadata.finalizers = None;
    scene.engine.feed(&Change::Applied(vpc));
    scene.delete_subnet("web");
    // A question that was answered in the term before is asked again: the answer may have become wrong.
    for begun in [Action::is_for_standby as fn(&Action) -> bool, is_question] {
        let mut actions = scene.engine.actions();
        let is_open = |action: &Action| matches!(action, Action::SetFinalizer(_)) || is_question(action);
        assert_eq!(actions.iter().filter(|action| is_open(action)).count(), 2, "{actions:?}");
        let answered: Vec<Action> = actions.extract_if(.., |action| begun(action)).collect();
        answered.into_iter().for_each(|action| scene.perform(action));
        scene.engine.stand_by();
        actions.into_iter().for_each(|action| scene.engine.dropped(action));
        assert_eq!(scene.engine.actions(), []);
        scene.engine.lead();
        scene.engine.compare_all(&scene.cache);
    }
    let actions = scene.engine.actions();
    assert_eq!(finalizer_changes(&actions), [(Kind::Vpc, "new", FinalizerChange::Add)]);
    assert!(actions.iter().any(is_question), "{actions:?}");
}

#[test]
fn an_object_that_others_hold_says_that_it_is_not_for_its_users() {
    let mut scene = Scene::new();
    scene.pod("app", "web");
    scene.settle();
    scene.subnets[0].metadata.finalizers = Some(vec!["example.com/backup".into(), IN_USE.into()]);
    scene.delete_subnet("web");
    scene.settle();
    assert!(scene.says("web").unwrap().starts_with("InUse"));
    // The condition is stored, and then the last user goes.
    let update = portolan_api::condition::ConditionUpdate {
        type_: TERMINATING,
        status: true.into(),
        reason: "InUse",
        message: "",
        generation: Some(2),
    };
    let conditions = &mut scene.subnets[0].status.get_or_insert_default().conditions;
    portolan_api::condition::set_condition(conditions, update, &Time(Timestamp::UNIX_EPOCH));
    assert!(conditions.iter().any(|condition| condition.type_ == VALIDATED));
    scene.engine.feed(&Change::Applied(scene.subnets[0].clone()));
    scene.delete_pod("app");
    for _ in 0..20 {
        let actions = scene.engine.actions();
        actions.into_iter().for_each(|action| scene.perform(action));
        for batch in scene.engine.plan(&scene.cache, 1000) {
            scene.nb.transact(&batch.transaction()).unwrap();
        }
        scene.nb.refresh(&mut scene.cache);
        scene.engine.compare_all(&scene.cache);
    }
    assert_eq!(scene.subnets[0].metadata.finalizers.as_deref(), Some(&["example.com/backup".to_owned()][..]));
    assert_eq!(
        scene.says("web").unwrap(),
        "FinalizersRemaining: nothing uses it any more; it stays for example.com/backup"
    );
}

#[test]
fn a_subnet_that_cannot_be_read_is_let_go_as_well() {
    let mut scene = Scene::new();
    scene.pod("app", "web");
    scene.settle();
    scene.subnets[0] = terminating(scene.subnets[0].clone());
    let metadata = scene.subnets[0].metadata.clone();
    let content = serde_json::to_value(&scene.subnets[0]).unwrap();
    let object = kube::core::PartialObjectMeta { types: None, metadata, _phantom: std::marker::PhantomData };
    let broken: Unreadable<Subnet> =
        Unreadable { object, content, field: "spec.cidrBlock".into(), problem: "wrong".into() };
    scene.engine.feed(&Change::Unreadable(Box::new(broken)));
    scene.settle();
    assert_eq!(scene.subnets.len(), 2, "its pod runs");
    scene.delete_pod("app");
    scene.settle();
    assert_eq!(scene.subnets.len(), 1);
}

#[test]
fn whoever_owns_an_object_hears_that_its_finalizer_is_refused_and_that_it_no_longer_is() {
    let update = |change| FinalizerUpdate {
        object: Protected { kind: Kind::Subnet, name: "web".into(), uid: "subnet-web".into() },
        change,
    };
    let told = |scene: &mut Scene| -> Vec<(&'static str, String)> {
        let actions = scene.engine.actions();
        actions
            .into_iter()
            .filter_map(|action| match action {
                Action::Report { reason, message, subject, uid, .. } => {
                    assert_eq!((subject.kind.as_str(), uid.as_str()), ("Subnet", "subnet-web"));
                    Some((reason, message))
                }
                _ => None,
            })
            .collect()
    };
    let mut scene = Scene::new();
    scene.settle();
    // It has one, so nobody is to be told.
    scene.engine.finalizer_refused(&update(FinalizerChange::Add), "forbidden");
    assert_eq!(told(&mut scene), []);
    let mut web = scene.subnets[0].clone();
    assert_eq!(web.metadata.uid.as_deref(), Some("subnet-web"));
    web.metadata.finalizers = None;
    scene.engine.feed(&Change::Applied(web.clone()));
    let _ = scene.engine.actions();
    for _ in 0..2 {
        scene.engine.finalizer_refused(&update(FinalizerChange::Add), "forbidden");
    }
    let events = told(&mut scene);
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0].0, "FinalizerRefused");
    assert!(events[0].1.contains(IN_USE) && events[0].1.contains("forbidden"), "{events:?}");
    web.metadata.finalizers = Some(vec![IN_USE.into()]);
    scene.engine.feed(&Change::Applied(web));
    assert_eq!(told(&mut scene), [("Resolved", "FinalizerRefused is resolved".to_owned())]);
    // One that is to go, and cannot.
    scene.delete_subnet("web");
    scene.engine.finalizer_refused(&update(FinalizerChange::Remove), "denied by a webhook");
    let events = told(&mut scene);
    assert!(events.len() == 1 && events[0].1.contains("denied by a webhook"), "{events:?}");
    // A standby says nothing, and a new leader hears of it when it tries.
    scene.engine.stand_by();
    scene.engine.finalizer_refused(&update(FinalizerChange::Remove), "denied by a webhook");
    scene.engine.lead();
    scene.engine.compare_all(&scene.cache);
    let events = told(&mut scene);
    assert!(!events.iter().any(|(reason, _)| *reason == "FinalizerRefused"), "{events:?}");
    scene.engine.finalizer_refused(&update(FinalizerChange::Remove), "denied by a webhook");
    assert_eq!(told(&mut scene).len(), 1);
}

/// What is kept about a Subnet's users follows its own locks: of those of others none is looked at.
#[test]
fn what_uses_a_subnet_is_found_without_looking_at_the_locks_of_others() {
    for others in [10, 100, 1000] {
        let mut scene = Scene::new();
        for number in 0..others {
            let address = format!("10.1.{}.{}", number / 250, number % 250 + 2);
            scene.engine.feed(&Change::Applied(mk_lock(
                "vpc/blue",
                "db",
                &address,
                &format!("db-{number}"),
                number + 100,
            )));
        }
        scene.engine.feed(&Change::Applied(mk_lock("vpc/blue", "web", "10.0.0.9", "app", 90)));
        let visited: Vec<&str> = scene.engine.world.locks_of_subnet("web").collect();
        assert_eq!(visited, ["10-0-0-9.vpc-blue"], "{others}");
        scene.delete_subnet("web");
        let terminating = scene.engine.finalizers.terminating().map(|(_, users)| users).collect::<Vec<_>>();
        assert_eq!(terminating, [1]);
    }
}
