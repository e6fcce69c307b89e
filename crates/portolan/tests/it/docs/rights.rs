//! The table of the controller's rights says what its manifest gives it.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::docs::page::root;

/// An API group, a resource, and what may be done to it.
type Right = (String, String, String);

fn read(file: &str) -> String {
    std::fs::read_to_string(root().join(file)).unwrap()
}

fn rights(groups: &[String], resources: &[String], verbs: &[String]) -> BTreeSet<Right> {
    let mut rights = BTreeSet::new();
    for group in groups {
        for resource in resources {
            rights.extend(verbs.iter().map(|verb| (group.clone(), resource.clone(), verb.clone())));
        }
    }
    rights
}

/// What the rules of all roles in a manifest give.
fn given(manifest: &str) -> BTreeSet<Right> {
    let objects = manifest.split("\n---\n").map(|text| serde_saphyr::from_str::<Value>(text).unwrap());
    let rules = objects.flat_map(|object| object["rules"].as_array().cloned().unwrap_or_default());
    let list = |value: &Value| serde_json::from_value::<Vec<String>>(value.clone()).unwrap();
    rules
        .flat_map(|rule| rights(&list(&rule["apiGroups"]), &list(&rule["resources"]), &list(&rule["verbs"])))
        .collect()
}

/// What the table below the heading `## Rights` says: groups, resources and verbs are code, `core` is the group without a name.
fn documented(page: &str) -> BTreeSet<Right> {
    let section = page.split("\n## ").find(|section| section.starts_with("Rights\n")).unwrap();
    let rows = section.lines().filter(|line| line.starts_with('|')).skip(2);
    let code = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    let row = |line: &str| {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let groups = if cells[1] == "core" { vec![String::new()] } else { code(cells[1]) };
        rights(&groups, &code(cells[2]), &code(cells[3]))
    };
    rows.flat_map(row).collect()
}

#[test]
fn the_page_of_the_controller_lists_all_of_its_rights_and_no_others() {
    let (documented, given) =
        (documented(&read("docs/controller.md")), given(&read("deploy/controller-rbac.yaml")));
    let missing: Vec<_> = given.difference(&documented).collect();
    let invented: Vec<_> = documented.difference(&given).collect();
    assert!(
        given.len() > 50 && missing.is_empty() && invented.is_empty(),
        "missing {missing:?}, invented {invented:?}"
    );
}
