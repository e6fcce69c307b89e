//! The suite itself is whole: what is committed fits together.

use std::collections::BTreeSet;
use std::path::Path;

use apiserver_conformance::{Case, Step, Suite};
use serde_json::Value;

fn suite() -> Suite {
    Suite::load_from(Path::new(env!("CARGO_MANIFEST_DIR")), "").expect("the suite is well-formed")
}

#[test]
fn there_are_many_cases_in_every_topic_that_clients_rely_on() {
    let suite = suite();
    assert!(suite.cases().len() >= 150, "{} cases", suite.cases().len());
    let topics: BTreeSet<&str> = suite.cases().iter().map(Case::topic).collect();
    for topic in
        ["discovery", "create", "get", "list", "watch", "update", "patch", "apply", "delete", "crd", "auth"]
    {
        assert!(topics.contains(topic), "nothing about {topic}");
    }
}

#[test]
fn every_case_is_recorded_and_every_recording_has_its_case() {
    let suite = suite();
    let cases: Vec<&str> = suite.cases().iter().map(|case| case.name.as_str()).collect();
    let recordings = suite.recordings().unwrap();
    assert_eq!(cases, recordings, "record anew, or remove the recordings of cases that are gone");
}

#[test]
fn every_recording_answers_the_steps_of_its_case() {
    let suite = suite();
    for case in suite.cases() {
        let recording = suite.recording(case).unwrap();
        assert_eq!(
            titles(&case.steps),
            recorded_titles(&recording),
            "{} has changed: record it anew",
            case.name
        );
    }
}

#[test]
fn every_difference_is_of_a_step_that_there_is() {
    let suite = suite();
    for difference in suite.differences() {
        let case = suite.cases().iter().find(|case| case.name == difference.case);
        let case = case.unwrap_or_else(|| panic!("differences.yaml: there is no case {}", difference.case));
        let steps = titles(&case.steps).len();
        assert!((1..=steps).contains(&difference.step), "{} has no step {}", case.name, difference.step);
        assert!(!difference.reason.is_empty(), "{}: a difference needs a reason", case.name);
    }
}

#[test]
fn users_are_told_of_every_difference_and_of_no_other() {
    let told = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/apiserver.md"))
        .expect("the server is documented");
    let (_, told) = told.split_once("## Where it differs").expect("there is a section of differences");
    let told = told.split("\n## ").next().unwrap_or_default();
    let mut documented = BTreeSet::new();
    for line in told.lines() {
        let cells = line.strip_prefix("| `").and_then(|line| line.strip_suffix(" |")?.split_once(" | "));
        if let Some((cases, reason)) = cells {
            documented.extend(cases.split(", ").map(|case| (case.trim_matches('`'), reason)));
        }
    }
    let suite = suite();
    let listed = suite.differences().iter();
    let listed: BTreeSet<_> =
        listed.map(|difference| (difference.case.as_str(), difference.reason.as_str())).collect();
    assert_eq!(documented, listed, "docs/apiserver.md and differences.yaml say different things");
}

fn titles(steps: &[Step]) -> Vec<String> {
    steps.iter().filter_map(Step::title).collect()
}

fn recorded_titles(recording: &Value) -> Vec<String> {
    let records = recording.as_array().into_iter().flatten();
    records.map(|record| record["request"].as_str().unwrap_or_default().to_owned()).collect()
}
