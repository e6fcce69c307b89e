use apimachinery::meta;
use serde_json::{Value, json};

use super::resources;
use super::testing::{action, create, prepared, texts};
use super::value::{fields_mut, text};
use apiserver::registry::{Column, ColumnFormat, Resource, SubresourceKind};
use apiserver::request::Verb;

/// What discovery and tables of Kubernetes 1.34 say of the resources.
const KUBERNETES: &str = include_str!("tests/resources.txt");

#[test]
fn resources_are_called_and_shown_as_in_kubernetes() {
    let mut lines: Vec<_> = resources().iter().map(line).collect();
    lines.sort();
    for (ours, theirs) in lines.iter().zip(KUBERNETES.lines()) {
        assert_eq!(ours, theirs);
    }
    assert_eq!(lines.len(), KUBERNETES.lines().count());
}

fn line(resource: &Resource) -> String {
    let version = &resource.versions[0];
    let verbs = match resource.verb_names() {
        all if all.len() == 8 => "all".to_owned(),
        some => some.join(","),
    };
    let mut subresources: Vec<_> =
        version.subresources.iter().map(|subresource| &*subresource.name).collect();
    subresources.sort_unstable();
    let columns: Vec<_> = version.columns.columns.iter().map(heading).collect();
    [
        &*resource.api_version(&version.name),
        &resource.plural,
        &resource.singular,
        &resource.kind,
        &resource.short_names.join(","),
        &resource.categories.join(","),
        if resource.is_namespaced() { "Namespaced" } else { "Cluster" },
        &verbs,
        &subresources.join(","),
        &columns.join(", "),
    ]
    .join("; ")
}

fn heading(column: &Column) -> String {
    let name = if column.format == ColumnFormat::Name { "@" } else { "" };
    let kind = match &*column.kind {
        "string" => "",
        "integer" => "#",
        "boolean" => "?",
        other => &format!("!{other}"),
    };
    let wide = if column.priority > 0 { "*" } else { "" };
    format!("{name}{}{kind}{wide}", column.name)
}

#[test]
fn every_heading_has_a_meaning() {
    for resource in resources() {
        for column in &*resource.versions[0].columns.columns {
            assert_ne!(column.description, "", "{}", column.name);
        }
    }
}

#[test]
fn every_resource_has_a_schema_and_can_be_made() {
    for resource in resources() {
        assert!(resource.versions[0].schema.is_some(), "{}", resource.qualified());
        assert!(resource.verbs.contains(&Verb::Create), "{}", resource.qualified());
    }
}

#[test]
fn a_status_that_is_written_by_itself_is_not_written_with_the_object() {
    for resource in resources() {
        let has_status = resource.versions[0]
            .subresources
            .iter()
            .any(|subresource| matches!(subresource.kind, SubresourceKind::Status));
        assert_eq!(resource.strategy.reset_fields("").is_some(), has_status, "{}", resource.qualified());
    }
}

/// New objects, and what kube-apiserver finds wrong with each, recorded line by line.
const VALIDATION: &str = include_str!("tests/validation.jsonl");

#[test]
fn creates_are_refused_with_the_errors_of_kubernetes() {
    let resources = resources();
    for line in VALIDATION.lines() {
        let recorded: Value = serde_json::from_str(line).unwrap();
        let resource = find(&resources, text(&recorded["resource"]));
        let mut object = recorded["object"].clone();
        object["apiVersion"] = resource.api_version("v1").into();
        object["kind"] = resource.kind.as_str().into();
        object["metadata"]["uid"] = "11111111-2222-3333-4444-555555555555".into();
        if resource.is_namespaced() {
            object["metadata"]["namespace"] = "t1".into();
        }
        let object = prepared(resource, object);
        let mut errors = texts(&meta::validate_create(&object, resource.scope, resource.name_rule));
        errors.extend(create(resource, &object));
        let errors: Vec<Value> = errors.into_iter().map(Value::String).collect();
        assert_eq!(Value::Array(errors), recorded["errors"], "{line}");
    }
}

/// Stored objects, patches, and what kube-apiserver finds wrong with what they make, recorded line by line.
const UPDATES: &str = include_str!("tests/updates.jsonl");

#[test]
fn updates_are_refused_with_the_errors_of_kubernetes() {
    let resources = resources();
    for line in UPDATES.lines() {
        let recorded: Value = serde_json::from_str(line).unwrap();
        let resource = find(&resources, text(&recorded["resource"]));
        let (old, action) = (&recorded["old"], action(text(&recorded["subresource"])));
        let mut object = old.clone();
        merge(&mut object, &recorded["patch"]);
        resource.strategy.set_defaults(&mut object);
        if action.subresource == "status" {
            resource.strategy.prepare_for_status_update(&mut object, old, action);
        } else {
            resource.strategy.prepare_for_update(&mut object, old, action);
        }
        let errors = texts(&resource.strategy.validate_update(&object, old, action));
        // What follows in other lines is how the objects differ, which Kubernetes writes in a way of its own.
        let first_line = |error: String| Value::from(error.lines().next().unwrap_or_default());
        let errors: Vec<Value> = errors.into_iter().map(first_line).collect();
        assert_eq!(Value::Array(errors), recorded["errors"], "{line}");
    }
}

fn find<'a>(resources: &'a [Resource], wanted: &str) -> &'a Resource {
    let (group, plural) = wanted.split_once('/').unwrap_or(("", wanted));
    resources.iter().find(|known| known.group == group && known.plural == plural).expect(wanted)
}

/// A JSON merge patch.
fn merge(object: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *object = patch.clone();
        return;
    };
    let fields = fields_mut(object);
    for (name, value) in patch {
        if value.is_null() {
            fields.remove(name);
        } else {
            merge(fields.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}

#[test]
fn finalizers_without_a_domain_are_those_of_kubernetes() {
    let detail = "name is neither a standard finalizer name nor is it fully qualified";
    for plural in ["configmaps", "events", "namespaces", "pods"] {
        let (resources, object) =
            (resources(), json!({"metadata": {"finalizers": ["orphan", "a/b", "hold"]}}));
        let errors = create(find(&resources, plural), &object);
        let expected = format!("metadata.finalizers[2]: Invalid value: \"hold\": {detail}");
        assert_eq!(errors.first(), Some(&expected), "{plural}");
    }
}
