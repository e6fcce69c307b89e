//! From client-side to server-side apply.
//!
//! `kubectl apply` without `--server-side` writes down what it applied in an annotation, and owns the fields as an updater. When
//! kubectl then applies on the server, it would conflict with itself. So what the annotation says and the object still has is
//! taken over without a conflict, and the annotation is kept up to date.

use std::collections::BTreeMap;

use apischema::Schema;
use serde_json::{Map, Value};

use super::compare::compare;
use super::manager::{self, Refusal};
use super::path::Path;
use super::set::FieldSet;
use super::to_set::applied_fields;
use super::types::Type;
use super::updater::Conflict;
use super::{ApplyError, Force, Write};
use crate::meta;
use crate::status::StatusCause;
use apischema::go_text;

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
const KUBECTL: &str = "kubectl";

/// Applies a configuration, minding what kubectl applied before it knew server-side apply.
pub(super) fn apply(
    live: Option<&Value>,
    applied: &Value,
    schema: &Schema,
    kind: &str,
    write: &Write<'_>,
    force: Force,
) -> Result<Value, ApplyError> {
    let mut result = match manager::apply(live, applied, schema, kind, write, force) {
        Ok(result) => result,
        Err(Refusal::Error(error)) => return Err(error),
        Err(Refusal::Conflicts(conflicts)) => {
            let allowed = live
                .filter(|_| write.manager == KUBECTL)
                .and_then(|live| last_applied_fields(live, schema, write.api_version));
            let Some(allowed) = allowed else { return Err(conflict(&conflicts)) };
            let rest: Vec<_> =
                conflicts.into_iter().filter(|conflict| !allowed.contains(&conflict.path)).collect();
            if !rest.is_empty() {
                return Err(conflict(&rest));
            }
            match manager::apply(live, applied, schema, kind, write, Force::Yes) {
                Ok(result) => result,
                Err(Refusal::Error(error)) => return Err(error),
                Err(Refusal::Conflicts(conflicts)) => return Err(conflict(&conflicts)),
            }
        }
    };
    if write.manager == KUBECTL && meta::annotation(&result, ANNOTATION).is_some_and(|text| !text.is_empty())
    {
        set_last_applied(&mut result, applied);
    }
    Ok(result)
}

/// The fields of the last configuration that the object still has as they were.
fn last_applied_fields(live: &Value, schema: &Schema, api_version: &str) -> Option<FieldSet<'static>> {
    let annotation = meta::annotation(live, ANNOTATION).filter(|text| !text.is_empty())?;
    let last: Value = serde_json::from_str(annotation).ok()?;
    if meta::api_version(&last) != api_version {
        return None;
    }
    let kind = Type::Object(schema);
    let fields = applied_fields(&last, kind).into_owned();
    let comparison = compare(&last, live, kind);
    Some(
        fields.difference(&comparison.modified).difference(&comparison.added).difference(&comparison.removed),
    )
}

/// Writes down what was applied, unless that takes more than annotations may.
fn set_last_applied(object: &mut Value, applied: &Value) {
    let mut applied = applied.clone();
    let annotations = applied.get_mut("metadata").and_then(|metadata| metadata.get_mut("annotations"));
    if let Some(Value::Object(annotations)) = annotations {
        annotations.remove(ANNOTATION);
    }
    let mut text = String::new();
    go_text::write_json(&mut text, &applied);
    text.push('\n');
    let Some(metadata) = meta::metadata_mut(object) else { return };
    let Value::Object(annotations) =
        metadata.entry("annotations").or_insert_with(|| Value::Object(Map::new()))
    else {
        return;
    };
    annotations.insert(ANNOTATION.to_owned(), Value::String(text));
    if meta::annotations_size(annotations) > meta::ANNOTATIONS_LIMIT {
        annotations.remove(ANNOTATION);
    }
}

/// What a client is told about fields that others own.
fn conflict(conflicts: &[Conflict]) -> ApplyError {
    let causes = conflicts.iter().map(|Conflict { manager, path }| StatusCause {
        reason: "FieldManagerConflict".to_owned(),
        message: format!("conflict with {manager}"),
        field: path.to_string(),
    });
    let message = match conflicts {
        [Conflict { manager, path }] => {
            format!("Apply failed with 1 conflict: conflict with {manager}: {path}")
        }
        several => {
            let mut by_manager: BTreeMap<_, Vec<&Path<'_>>> = BTreeMap::new();
            for Conflict { manager, path } in several {
                by_manager.entry(manager).or_default().push(path);
            }
            let mut lines = Vec::new();
            for (manager, paths) in by_manager {
                lines.push(format!("conflicts with {manager}:"));
                lines.extend(paths.into_iter().map(|path| format!("- {path}")));
            }
            format!("Apply failed with {} conflicts: {}", several.len(), lines.join("\n"))
        }
    };
    ApplyError::Conflict { message, causes: causes.collect() }
}
