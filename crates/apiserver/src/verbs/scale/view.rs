//! A Scale as a view of an object.

use apimachinery::apply::{Path, PathElement};
use apimachinery::{LabelSelector, Status};
use serde_json::{Map, Value, json};

use crate::registry::{Resource, ScalePaths, SubresourceKind};

/// The Scale of an object.
pub(super) struct View {
    pub(super) scale: Value,
    /// Whether the object says how many replicas it shall have.
    pub(super) has_replicas: bool,
}

pub(super) fn of(object: &Value, paths: &ScalePaths) -> Result<View, Status> {
    let at = |path: &str| parts(path).try_fold(object, |value, part| value.get(part));
    let replicas = |path: &str| match at(path) {
        None => Ok(0),
        Some(value) => value.as_i64().ok_or_else(|| {
            Status::internal_error(format!("the value at {path} is not a number of replicas"))
        }),
    };
    let mut metadata = Map::new();
    for name in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object.pointer(&format!("/metadata/{name}")) {
            metadata.insert(name.into(), value.clone());
        }
    }
    let mut spec = Map::new();
    let wanted = replicas(&paths.spec_replicas)?;
    if wanted != 0 {
        spec.insert("replicas".into(), wanted.into());
    }
    let mut status = json!({"replicas": replicas(&paths.status_replicas)?});
    let selector = match paths.label_selector.as_deref().and_then(at) {
        Some(selector) => selector_text(selector)?,
        None => String::new(),
    };
    if !selector.is_empty() {
        status["selector"] = selector.into();
    }
    let scale = json!({
        "apiVersion": super::API_VERSION,
        "kind": "Scale",
        "metadata": metadata,
        "spec": spec,
        "status": status,
    });
    Ok(View { scale, has_replicas: at(&paths.spec_replicas).is_some() })
}

/// A selector as text: objects have it as such, as a LabelSelector, or as the labels themselves.
fn selector_text(selector: &Value) -> Result<String, Status> {
    match selector {
        Value::String(text) => Ok(text.clone()),
        Value::Object(labels) if labels.values().all(Value::is_string) => {
            let pairs =
                labels.iter().map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
            Ok(pairs.collect::<Vec<_>>().join(","))
        }
        other => {
            let selector = LabelSelector::from_object(Some(other));
            Ok(selector.map_err(|error| Status::bad_request(error.to_string()))?.to_string())
        }
    }
}

/// Where objects of a version have their replicas; see [`apimachinery::apply::ReplicasPath`].
pub(super) fn replicas_path(resource: &Resource, api_version: &str) -> Option<Path<'static>> {
    let version =
        resource.versions.iter().find(|version| resource.api_version(&version.name) == api_version)?;
    let path = version.subresources.iter().find_map(|subresource| match &subresource.kind {
        SubresourceKind::Scale(paths) => Some(&paths.spec_replicas),
        _ => None,
    });
    let fields = path.into_iter().flat_map(|path| parts(path));
    Some(Path(fields.map(|name| PathElement::Field(name.to_owned().into())).collect()))
}

pub(super) fn set(object: &mut Value, path: &str, value: Value) {
    let mut at = object;
    for part in parts(path) {
        if !at.is_object() {
            *at = Value::Object(Map::new());
        }
        let Value::Object(fields) = at else { unreachable!("it was made an object above") };
        at = fields.entry(part).or_insert(Value::Null);
    }
    *at = value;
}

fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.split('.').filter(|part| !part.is_empty())
}
