//! ControllerRevisions: what a controller remembers of what was.

use serde_json::Value;

use super::super::behaviour::Behaviour;
use super::super::errors::Errors;
use super::super::kind::{KindExt as _, kind_of};
use super::super::table::{age, columns, name};
use super::super::value::{is_true, items, number, text};
use super::check_unchanged;
use apischema::Path;
use apiserver::registry::{Resource, Scope};

pub(super) fn resource() -> Resource {
    kind_of("apps", "controllerrevisions", "ControllerRevision", Scope::Namespaced)
        .behaving(Behaviour {
            validate: |revision, errors| {
                errors.nonnegative(Path::root("revision"), revision["revision"].as_i64());
            },
            validate_create: check_data,
            validate_update: |new, old, errors| {
                check_unchanged(errors, Path::root("data"), &new["data"], &old["data"]);
            },
            ..Behaviour::PLAIN
        })
        .shown(columns(&["Name", "Controller", "Revision", "Age"], |revision, now| {
            vec![
                name(revision),
                controller(revision).into(),
                number(&revision["revision"]).into(),
                age(revision, now),
            ]
        }))
}

fn controller(revision: &Value) -> String {
    let mut owners = items(&revision["metadata"]["ownerReferences"]).iter();
    let Some(owner) = owners.find(|owner| is_true(&owner["controller"])) else { return "<none>".into() };
    let group = text(&owner["apiVersion"]).split_once('/').map_or("", |(group, _)| group);
    let kind = text(&owner["kind"]);
    let kind = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
    format!("{}/{}", kind.to_lowercase(), text(&owner["name"]))
}

fn check_data(revision: &Value, errors: &mut Errors) {
    match &revision["data"] {
        Value::Null => errors.required(Path::root("data"), "data is mandatory"),
        Value::Object(_) => {}
        _ => errors.required(Path::root("data"), "data must be a valid JSON object"),
    }
}
