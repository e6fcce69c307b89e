#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

use std::cell::Cell;
use std::collections::BTreeMap;

use super::*;

/// A target in its simplest form: numbers by unit, each with an owner. A unit `child` needs the unit `parent`.
#[derive(Debug, Default)]
struct Numbers {
    /// How many desired units were compared last.
    compared: Cell<usize>,
}

type Observed = BTreeMap<&'static str, (u32, SmolStr)>;

impl Target for Numbers {
    type Unit = &'static str;
    type Desired = u32;
    type Observed = Observed;
    type Change = (&'static str, Option<u32>);
    type Key = &'static str;
    type Obstacle = ();

    fn owners(&self, unit: &Self::Unit, observed: &Observed) -> BTreeSet<SmolStr> {
        observed.get(unit).map(|(_, owner)| owner.clone()).into_iter().collect()
    }

    fn compare(
        &self,
        desired: Vec<(Self::Unit, u32)>,
        stale: Vec<Self::Unit>,
        observed: &Observed,
    ) -> Comparison<Self> {
        self.compared.set(desired.len());
        let mut comparison = Comparison { changes: Vec::new(), waiting: Vec::new() };
        comparison.changes.extend(stale.into_iter().map(|unit| (unit, None)));
        for (unit, number) in desired {
            if unit == "child" && !observed.contains_key("parent") {
                comparison.waiting.push(Waiting { unit, until: "parent", obstacle: () });
            } else if observed.get(unit).is_none_or(|(is, _)| *is != number) {
                comparison.changes.push((unit, Some(number)));
            }
        }
        comparison
    }

    fn is_met(&self, unit: &Self::Unit, desired: &u32, observed: &Observed) -> bool {
        observed.get(unit).is_some_and(|(is, _)| is == desired)
    }

    fn unit_of(&self, change: &Self::Change) -> Option<Self::Unit> {
        Some(change.0)
    }
}

fn reconciler() -> Reconciler<Numbers> {
    Reconciler::new(Numbers::default())
}

fn desired(_: &&'static str) -> Plan<u32> {
    Plan::Desired(1)
}

fn remove(_: &&'static str) -> Plan<u32> {
    Plan::Remove
}

fn one(unit: &'static str) -> Observed {
    BTreeMap::from([(unit, (1, SmolStr::new("owner")))])
}

#[test]
fn a_unit_that_is_only_missing_goes_after_a_live_read_and_is_asked_for_once() {
    let mut numbers = reconciler();
    let observed = one("a");
    for attempt in 0..2 {
        numbers.changed("a", Urgency::Deferrable);
        let round = numbers.reconcile(remove, &observed);
        assert!(round.changes.is_empty());
        assert_eq!(round.confirm.len(), usize::from(attempt == 0), "one live read at a time");
    }
    numbers.answered("a", ["owner".into()].into(), Absence::Refuted);
    assert_eq!(numbers.take_retries(), ["a"].into());
    numbers.changed("a", Urgency::Deferrable);
    assert!(numbers.reconcile(remove, &observed).confirm.is_empty(), "not before the pause is over");
    numbers.retry("a");
    assert_eq!(numbers.reconcile(remove, &observed).confirm.len(), 1);
    numbers.answered("a", ["owner".into()].into(), Absence::Confirmed);
    assert_eq!(numbers.reconcile(remove, &observed).changes, [("a", None)]);
}

#[test]
fn a_unit_that_an_event_removed_goes_without_a_live_read_unless_it_is_desired_again() {
    let mut numbers = reconciler();
    let observed = one("a");
    numbers.removed("a");
    assert_eq!(numbers.reconcile(remove, &observed).changes, [("a", None)]);
    numbers.removed("a");
    assert!(numbers.reconcile(desired, &observed).changes.is_empty());
    numbers.changed("a", Urgency::Deferrable);
    let round = numbers.reconcile(remove, &observed);
    assert!(round.changes.is_empty(), "the evidence was about its former life");
    assert_eq!(round.confirm.len(), 1);
}

#[test]
fn who_waits_is_compared_again_when_that_changes_and_not_before() {
    let mut numbers = reconciler();
    numbers.changed("child", Urgency::Immediate);
    assert_eq!(numbers.reconcile(desired, &Observed::new()).waiting.len(), 1);
    assert_eq!((numbers.waiting(), numbers.urgency()), (1, None));
    numbers.observed([], ["unrelated"]);
    assert_eq!(numbers.urgency(), None, "nothing is planned because of something else");
    assert!(numbers.is_pending(&"child"));
    numbers.observed([], ["parent"]);
    assert_eq!(numbers.urgency(), Some(Urgency::Immediate));
    assert_eq!(numbers.reconcile(desired, &one("parent")).changes, [("child", Some(1))]);
    assert_eq!(numbers.waiting(), 0);
}

#[test]
fn a_change_that_goes_on_being_outdated_is_paused() {
    let mut numbers = reconciler();
    let nothing = Observed::new();
    numbers.changed("a", Urgency::Immediate);
    assert_eq!(numbers.reconcile(desired, &nothing).changes.len(), 1);
    numbers.outdated(["a"]);
    assert_eq!(numbers.urgency(), Some(Urgency::Immediate), "at once the first time");
    assert_eq!(numbers.reconcile(desired, &nothing).changes.len(), 1);
    numbers.outdated(["a"]);
    assert_eq!(numbers.urgency(), None, "after a pause the second time");
    assert_eq!(numbers.take_retries(), ["a"].into());
    // What is found to be as it should be has not failed.
    numbers.changed("a", Urgency::Immediate);
    assert!(numbers.reconcile(desired, &one("a")).changes.is_empty());
    numbers.outdated(["a"]);
    assert_eq!(numbers.urgency(), Some(Urgency::Immediate));
}

#[test]
fn removals_alone_are_deferrable() {
    let mut numbers = reconciler();
    numbers.removed("a");
    assert_eq!(numbers.urgency(), Some(Urgency::Deferrable));
    numbers.changed("b", Urgency::Immediate);
    numbers.removed("c");
    assert_eq!(numbers.urgency(), Some(Urgency::Immediate));
}

#[test]
fn a_unit_on_hold_keeps_what_its_owner_has_and_not_what_a_former_one_had() {
    let hold = |owner: &'static str| move |_: &&'static str| Plan::Hold { owner: Some(owner.into()) };
    let mut numbers = reconciler();
    let observed = one("a");
    numbers.changed("a", Urgency::Immediate);
    let round = numbers.reconcile(hold("owner"), &observed);
    assert!(round.changes.is_empty() && round.confirm.is_empty());
    numbers.changed("a", Urgency::Immediate);
    let round = numbers.reconcile(|_| Plan::Hold { owner: None }, &observed);
    assert!(round.changes.is_empty() && round.confirm.is_empty(), "nobody knows whose it is now");
    numbers.changed("a", Urgency::Immediate);
    let round = numbers.reconcile(hold("next"), &observed);
    assert!(round.changes.is_empty(), "the former owner may still be there");
    assert_eq!(round.confirm.len(), 1);
    numbers.answered("a", ["owner".into()].into(), Absence::Confirmed);
    assert_eq!(numbers.reconcile(hold("next"), &observed).changes, [("a", None)]);
}

#[test]
fn a_unit_whose_change_failed_is_pending_until_it_is_as_it_should_be() {
    let mut numbers = reconciler();
    let nothing = Observed::new();
    numbers.changed("a", Urgency::Immediate);
    numbers.reconcile(desired, &nothing);
    numbers.refused("a");
    assert!(numbers.is_pending(&"a"));
    numbers.take_retries();
    assert!(numbers.is_pending(&"a"), "the pause does not make it right");
    numbers.retry("a");
    numbers.reconcile(desired, &one("a"));
    assert!(!numbers.is_pending(&"a"));
}

#[test]
fn an_answer_about_other_owners_says_nothing() {
    let mut numbers = reconciler();
    numbers.changed("a", Urgency::Deferrable);
    assert_eq!(numbers.reconcile(remove, &one("a")).confirm.len(), 1);
    // The pause of an earlier doubt is over, and the unit has another owner by now.
    numbers.retry("a");
    let observed = BTreeMap::from([("a", (1, SmolStr::new("next")))]);
    assert_eq!(numbers.reconcile(remove, &observed).confirm.len(), 1);
    numbers.answered("a", ["owner".into()].into(), Absence::Confirmed);
    numbers.changed("a", Urgency::Deferrable);
    assert!(numbers.reconcile(remove, &observed).changes.is_empty());
}

#[test]
fn of_many_units_those_that_have_what_they_should_are_not_compared_together() {
    let mut numbers = reconciler();
    let units: Vec<&'static str> =
        (0..=MUCH).map(|n| &*Box::leak(format!("{n:05}").into_boxed_str())).collect();
    let mut observed: Observed = units.iter().map(|unit| (*unit, (1, SmolStr::new("owner")))).collect();
    observed.insert(units[7], (2, SmolStr::new("owner")));
    observed.remove(units[8]);
    units.iter().for_each(|unit| numbers.changed(unit, Urgency::Immediate));
    assert_eq!(numbers.reconcile(desired, &observed).changes, [(units[7], Some(1)), (units[8], Some(1))]);
    assert_eq!(numbers.target().compared.take(), 2);
    assert_eq!((numbers.dirty(), numbers.urgency()), (0, None));
}
