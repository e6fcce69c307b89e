//! Which subnets are judged, when, and by what.

use super::*;

fn unvalidated(name: &str, cidr: &str) -> Subnet {
    let mut subnet = mk_subnet(name, cidr, "blue");
    subnet.status = None;
    subnet.metadata.uid = Some(format!("uid-{name}"));
    subnet
}

/// The candidates that the engine wants judged now.
fn candidates(engine: &mut Engine) -> Option<Candidates> {
    let mut wanted = engine.actions().into_iter().filter_map(|action| match action {
        Action::ValidateSubnets(candidates) => Some(candidates),
        _ => None,
    });
    let candidates = wanted.next();
    assert!(wanted.next().is_none(), "one judgement at a time");
    candidates
}

fn names(candidates: &Candidates) -> Vec<&str> {
    candidates.keys().map(|(_, name)| name.as_str()).collect()
}

fn lists(subnets: &[Subnet]) -> Lists {
    Lists { subnets: subnets.to_vec(), ..Lists::default() }
}

/// A subnet with the verdict on it.
pub(super) fn refused(mut subnet: Subnet, verdict: &Verdict) -> Subnet {
    let update = portolan_api::condition::ConditionUpdate {
        type_: portolan_api::condition::VALIDATED,
        status: false.into(),
        reason: "Invalid",
        message: &verdict.errors,
        generation: subnet.metadata.generation,
    };
    let now = serde_json::from_value("2026-01-01T00:00:00Z".into()).unwrap();
    let status = subnet.status.get_or_insert_default();
    portolan_api::condition::set_condition(&mut status.conditions, update, &now);
    subnet
}

#[test]
fn of_subnets_that_overlap_only_the_one_that_was_valid_before_is_valid() {
    let mut scene = Scene::new();
    let [valid, rival] = [mk_subnet("a", "10.9.0.0/16", "blue"), unvalidated("b", "10.9.1.0/24")];
    scene.engine.feed(&Change::Applied(rival.clone()));
    let judged = candidates(&mut scene.engine).unwrap();
    let verdicts = scene.engine.judge(&judged, &lists(&[valid, rival.clone()]));
    assert_eq!(verdicts.len(), 1);
    assert!(verdicts[0].errors.contains("overlaps"), "{verdicts:?}");

    let first = unvalidated("a", "10.9.0.0/16");
    scene.engine.feed(&Change::Applied(first.clone()));
    let judged = candidates(&mut scene.engine).unwrap();
    let verdicts = scene.engine.judge(&judged, &lists(&[first.clone(), rival]));
    assert!(verdicts.iter().all(|verdict| !verdict.errors.is_empty()), "{verdicts:?}");
}

#[test]
fn what_the_lists_show_but_was_not_observed_before_is_not_judged() {
    let mut scene = Scene::new();
    let (ours, rival) = (unvalidated("a", "10.9.0.0/16"), unvalidated("b", "10.9.1.0/24"));
    scene.engine.feed(&Change::Applied(ours.clone()));
    let judged = candidates(&mut scene.engine).unwrap();
    assert_eq!(names(&judged), ["a"]);
    // Two that were created after the listing had begun: the lists are of different instants, and show only one of them.
    let verdicts = scene.engine.judge(&judged, &lists(&[ours.clone(), rival.clone()]));
    assert_eq!(verdicts.iter().map(|verdict| verdict.subnet.1.as_str()).collect::<Vec<_>>(), ["a"]);
    assert!(!verdicts[0].errors.is_empty(), "it is compared with, though");

    // The same name with another UID, and the same object with another spec, are not what was observed either.
    let mut scene = Scene::new();
    scene.engine.feed(&Change::Applied(ours.clone()));
    let judged = candidates(&mut scene.engine).unwrap();
    let (mut other, mut changed) = (ours.clone(), ours);
    other.metadata.uid = Some("another".into());
    changed.metadata.generation = Some(7);
    assert_eq!(scene.engine.judge(&judged, &lists(&[other])), []);
    assert_eq!(scene.engine.judge(&judged, &lists(&[changed])), []);
}

#[test]
fn one_judgement_is_under_way_at_a_time() {
    let mut scene = Scene::new();
    let (first, second) = (unvalidated("a", "10.8.0.0/16"), unvalidated("b", "10.9.0.0/16"));
    scene.engine.feed(&Change::Applied(first.clone()));
    let judged = candidates(&mut scene.engine).unwrap();
    scene.engine.feed(&Change::Applied(second));
    assert_eq!(candidates(&mut scene.engine), None, "the first is not answered yet");
    scene.engine.judge(&judged, &lists(&[first]));
    assert_eq!(names(&candidates(&mut scene.engine).unwrap()), ["b"]);
    // Lists that failed are made again after a pause, and not before.
    scene.engine.not_judged();
    assert_eq!(candidates(&mut scene.engine), None);
    assert_eq!(scene.engine.take_retries(), [Retry::Subnets].into());
    scene.engine.retry(Retry::Subnets);
    assert_eq!(names(&candidates(&mut scene.engine).unwrap()), ["b"]);
}

/// A subnet that overlaps `web`, and the verdict on it, which is not written yet.
fn judged_rival() -> (Scene, Subnet, Verdict) {
    let mut scene = Scene::new();
    let rival = unvalidated("rival", "10.0.0.0/25");
    scene.engine.feed(&Change::Applied(rival.clone()));
    let judged = candidates(&mut scene.engine).unwrap();
    let mut all = subnets();
    all.push(rival.clone());
    let verdict = scene.engine.judge(&judged, &lists(&all)).remove(0);
    (scene, rival, verdict)
}

#[test]
fn an_invalid_subnet_is_judged_again_only_when_the_verdict_would_be_another() {
    let (mut scene, rival, verdict) = judged_rival();
    scene.engine.feed(&Change::Applied(refused(rival, &verdict)));
    for index in 0..10 {
        scene.engine.feed(&Change::Applied(mk_vpc(&format!("other-{index}"))));
        assert_eq!(candidates(&mut scene.engine), None, "a VPC has nothing to do with it");
    }
    let web = subnets().into_iter().find(|subnet| subnet.name_any() == "web").unwrap();
    scene.engine.feed(&Change::deleted(&web));
    assert_eq!(
        names(&candidates(&mut scene.engine).unwrap()),
        ["rival"],
        "what stood in its way was deleted"
    );
}

#[test]
fn a_subnet_is_judged_when_it_changes_and_not_when_its_condition_does() {
    let mut scene = Scene::new();
    let mut subnet = unvalidated("new", "10.8.0.0/16");
    scene.engine.feed(&Change::Applied(subnet.clone()));
    let judged = candidates(&mut scene.engine).unwrap();
    scene.engine.judge(&judged, &lists(&[subnet.clone()]));
    subnet.metadata.resource_version = Some("2".into());
    scene.engine.feed(&Change::Applied(subnet.clone()));
    assert_eq!(candidates(&mut scene.engine), None, "someone wrote its status");
    subnet.metadata.generation = Some(2);
    scene.engine.feed(&Change::Applied(mk_validated(subnet, Some(1))));
    assert_eq!(names(&candidates(&mut scene.engine).unwrap()), ["new"]);
}

#[test]
fn what_stood_in_the_way_may_go_before_the_refusal_is_observed() {
    let (mut scene, rival, verdict) = judged_rival();
    let web = subnets().into_iter().find(|subnet| subnet.name_any() == "web").unwrap();
    scene.engine.feed(&Change::deleted(&web));
    assert_eq!(candidates(&mut scene.engine), None);
    scene.engine.feed(&Change::Applied(refused(rival, &verdict)));
    assert_eq!(names(&candidates(&mut scene.engine).unwrap()), ["rival"]);
}

#[test]
fn a_subnet_that_cannot_be_decoded_still_has_its_prefix() {
    let mut scene = Scene::new();
    let rival = unvalidated("rival", "10.9.1.0/24");
    scene.engine.feed(&Change::Applied(rival.clone()));
    let judged = candidates(&mut scene.engine).unwrap();
    let outlined = Lists { outlined_subnets: vec![unvalidated("bad", "10.9.0.0/16")], ..lists(&[rival]) };
    let verdicts = scene.engine.judge(&judged, &outlined);
    assert_eq!(verdicts.len(), 1, "what cannot be decoded is not judged itself");
    assert!(verdicts[0].errors.contains("Subnet bad"), "{verdicts:?}");
}
