use super::*;
use crate::scene::{NOW, harbour, market};

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
fn services_as_a_table() {
    let snapshot = market().snapshot();
    let rows = services::rows(&snapshot, Some("default"));
    insta::assert_snapshot!("services", tabulate(&rows, format(false, false)));
    insta::assert_snapshot!("services_wide", tabulate(&services::rows(&snapshot, None), format(true, true)));
    assert!(services::rows(&snapshot, Some("kube-system")).is_empty());
    let refused = |name: &str| named(rows.clone(), name).unwrap_err().to_string();
    assert_eq!(refused("wbe"), "service \"wbe\" does not exist; did you mean web?");
    assert_eq!(refused("\u{1b}[2J"), "service \"\\u{1b}[2J\" does not exist");
}

#[test]
fn programs_get_the_endpoints_of_each_port() {
    let rows = services::rows(&market().snapshot(), None);
    insta::assert_snapshot!(
        "service_json",
        serde_json::to_string_pretty(&named(rows, "shop").unwrap()).unwrap()
    );
}

#[test]
fn labels_of_services_choose_what_is_shown() {
    let snapshot = market().snapshot();
    let selector = LabelSelector::parse("tier=front").unwrap();
    let chosen = snapshot.lists.selected(Labelled::Services, &selector);
    assert_eq!(chosen.into_iter().collect::<Vec<_>>(), ["service-web"]);
}

#[test]
fn programs_get_numbers_and_times() {
    let snapshot = harbour().snapshot();
    let rows = named(subnets::rows(&snapshot), "apart").unwrap();
    insta::assert_snapshot!("subnet_json", serde_json::to_string_pretty(&rows).unwrap());
}

#[test]
fn of_two_with_one_name_only_one_is_in_effect() {
    let rows = named(subnets::rows(&harbour().snapshot()), "web").unwrap();
    let words: Vec<_> = rows.iter().map(|row| (row.api_group.as_str(), row.readiness.word())).collect();
    assert_eq!(words, [("portolan.dev", "no (NameTaken)".into()), ("kubeovn.io", "unknown".into())]);
}

#[test]
fn a_mistyped_name_gets_a_suggestion() {
    let refused = |name: &str| named(subnets::rows(&harbour().snapshot()), name).unwrap_err().to_string();
    assert_eq!(refused("wbe"), "subnet \"wbe\" does not exist; did you mean web?");
    assert_eq!(refused("\u{1b}[2J"), "subnet \"\\u{1b}[2J\" does not exist");
    assert_eq!(refused(""), "subnet \"\" does not exist");
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

#[test]
fn readiness_is_what_conditions_say_and_unknown_without_one() {
    let ready = |status: Option<(&str, i64)>| {
        let mut scene = crate::scene::Scene::of("");
        let conditions = status.map(|(status, generation)| {
            serde_json::json!({"type": "Ready", "status": status, "reason": "Because", "message": "so",
                "observedGeneration": generation, "lastTransitionTime": "2026-01-01T00:00:00Z"})
        });
        scene.add(serde_json::json!({"apiVersion": "portolan.dev/v1alpha1", "kind": "Vpc", "metadata": {"name": "blue"},
            "spec": {}, "status": {"conditions": conditions.into_iter().collect::<Vec<_>>()}}));
        vpcs::rows(&scene.snapshot())[0].readiness.word()
    };
    assert_eq!(ready(None), "unknown");
    assert_eq!(ready(Some(("True", 1))), "yes");
    assert_eq!(ready(Some(("False", 1))), "no (Because)");
    assert_eq!(ready(Some(("Unknown", 1))), "unknown");
    assert_eq!(ready(Some(("True", 0))), "unknown", "of an earlier generation");
}

#[test]
fn large_counts_are_whole_numbers() {
    let rows = named(subnets::rows(&harbour().snapshot()), "apart").unwrap();
    let table = tabulate(&rows, format(false, false));
    assert!(table.contains("252,18446744073709551614"), "{table}");
    let json = serde_json::to_string(&rows).unwrap();
    assert!(json.contains(r#""free":18446744073709551614"#), "{json}");
    assert!(serde_saphyr::to_string(&rows).unwrap().contains("free: 18446744073709551614"));
}

#[test]
fn names_are_those_that_commands_take() {
    let snapshot = harbour().snapshot();
    let name = |names: Vec<String>, wanted: &str| assert!(names.contains(&wanted.to_owned()), "{names:?}");
    name(vpcs::rows(&snapshot).iter().map(Row::full_name).collect(), "vpc.kubeovn.io/blue");
    name(subnets::rows(&snapshot).iter().map(Row::full_name).collect(), "subnet.portolan.dev/far");
    name(services::rows(&market().snapshot(), None).iter().map(Row::full_name).collect(), "backoffice/api");
    name(attachments::rows(&snapshot, None).iter().map(Row::full_name).collect(), "default/two/net2");
    name(
        locks::rows(&snapshot, None).iter().map(Row::full_name).collect(),
        "iplock.portolan.dev/10-0-0-5.vpc-blue",
    );
}

#[test]
fn what_is_being_deleted_says_so_and_what_keeps_it() {
    let word = |conditions: serde_json::Value| {
        let mut scene = crate::scene::Scene::of("");
        let metadata = serde_json::json!({"name": "web", "generation": 2, "finalizers": ["portolan.dev/in-use"],
            "deletionTimestamp": "2026-01-01T00:00:00Z"});
        scene.add(
            serde_json::json!({"apiVersion": "portolan.dev/v1alpha1", "kind": "Subnet", "metadata": metadata,
            "spec": {"cidrBlock": "10.0.0.0/24"}, "status": {"conditions": conditions}}),
        );
        let readiness = subnets::rows(&scene.snapshot())[0].readiness.clone();
        (readiness.word(), readiness.message)
    };
    let condition = |type_: &str, reason: &str, generation: i64| {
        serde_json::json!({"type": type_, "status": "True", "reason": reason, "message": "4 addresses are in use",
            "observedGeneration": generation, "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let validated = condition("Validated", "Valid", 1);
    let in_use = serde_json::json!([validated, condition("Terminating", "InUse", 2)]);
    assert_eq!(word(in_use), ("terminating (InUse)".into(), "4 addresses are in use".into()));
    assert_eq!(word(serde_json::json!([validated])).0, "terminating");
}
