use super::*;
use crate::scene::{NOW, harbour};

fn format(wide: bool, namespaces: bool) -> Format {
    Format { wide, namespaces, now: NOW }
}

#[test]
fn vpcs_as_a_table() {
    let rows = vpcs::rows(&harbour().snapshot());
    insta::assert_snapshot!("vpcs", tabulate(&rows, format(false, false)));
    insta::assert_snapshot!("vpcs_wide", tabulate(&rows, format(true, false)));
}

#[test]
fn subnets_as_a_table() {
    let rows = subnets::rows(&harbour().snapshot());
    insta::assert_snapshot!("subnets", tabulate(&rows, format(false, false)));
    insta::assert_snapshot!("subnets_wide", tabulate(&rows, format(true, false)));
}

#[test]
fn attachments_as_a_table() {
    let snapshot = harbour().snapshot();
    let rows = attachments::rows(&snapshot, Some("default"));
    insta::assert_snapshot!("attachments", tabulate(&rows, format(false, false)));
    insta::assert_snapshot!("attachments_wide", tabulate(&rows, format(true, true)));
    assert!(attachments::rows(&snapshot, Some("kube-system")).is_empty());
}

#[test]
fn locks_as_a_table() {
    let snapshot = harbour().snapshot();
    insta::assert_snapshot!("locks", tabulate(&locks::rows(&snapshot, None), format(false, false)));
    assert!(locks::rows(&snapshot, Some("kube-system")).is_empty());
}

#[test]
fn programs_get_numbers_and_times() {
    let snapshot = harbour().snapshot();
    let rows = named(subnets::rows(&snapshot), "apart").unwrap();
    insta::assert_snapshot!("subnet_json", serde_json::to_string_pretty(&rows).unwrap());
}

#[test]
fn of_two_with_one_name_the_one_in_effect_is_told_from_the_other() {
    let rows = named(subnets::rows(&harbour().snapshot()), "web").unwrap();
    let words: Vec<_> = rows.iter().map(|row| (row.api_group.as_str(), row.readiness.word())).collect();
    assert_eq!(words, [("portolan.dev", "no (NameTaken)".into()), ("kubeovn.io", "yes".into())]);
}

#[test]
fn who_mistypes_a_name_is_helped() {
    let refused = |name: &str| named(subnets::rows(&harbour().snapshot()), name).unwrap_err().to_string();
    assert_eq!(refused("wbe"), "there is no subnet \"wbe\"; did you mean web?");
    assert_eq!(refused("\u{1b}[2J"), "there is no subnet \"\\u{1b}[2J\"");
    assert_eq!(refused(""), "there is no subnet \"\"");
    assert!(refused(&"x".repeat(100_000)).len() < 110_000);
}

#[test]
fn nothing_in_an_object_can_spoil_a_terminal() {
    let mut scene = harbour();
    scene.add(serde_json::json!({"apiVersion": "portolan.dev/v1alpha1", "kind": "Subnet",
        "metadata": {"name": "evil\u{1b}[31m"}, "spec": {"cidrBlock": "\u{1b}]0;title\u{7}".repeat(1000)}}));
    let snapshot = scene.snapshot();
    let text = tabulate(&subnets::rows(&snapshot), format(true, false));
    assert!(!text.contains(['\u{1b}', '\u{7}']), "{text:?}");
    assert!(text.lines().all(|line| line.chars().count() < 2000));
}
