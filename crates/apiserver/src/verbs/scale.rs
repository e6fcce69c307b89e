//! The number of replicas of an object, read and written as a `Scale`.

use apimachinery::{Status, meta};
use apischema::FieldError;
use serde_json::{Map, Value, json};

use super::modify::{Existing, IfAbsent, Owner};
use super::patch::Patch;
use crate::api::Api;
use crate::context::Context;
use crate::endpoint::Endpoint;
use crate::options::WriteOptions;
use crate::registry::ScalePaths;
use crate::verbs::{Answer, Content};

/// What a client writes to a scale.
#[derive(Clone, Debug)]
pub enum ScaleWrite {
    /// A whole Scale.
    Replace(Value),
    /// A patch of the Scale.
    Patch(Patch),
}

impl Api {
    /// The scale of an object.
    pub async fn get_scale(&self, endpoint: &Endpoint, paths: &ScalePaths) -> Result<Answer, Status> {
        let object = endpoint.read(&self.read(endpoint).await?)?;
        Ok(Answer::ok(Content::Other(scale_of(&object, paths)?)))
    }

    /// Writes the scale of an object.
    pub async fn write_scale(
        &self,
        endpoint: &Endpoint,
        context: &Context,
        paths: &ScalePaths,
        write: &ScaleWrite,
        options: &WriteOptions,
    ) -> Result<Answer, Status> {
        let mut change = |existing: Existing<'_>| {
            let Existing::Object(old) = existing else {
                return Err(endpoint.resource.not_found(&endpoint.name));
            };
            let scale = match write {
                ScaleWrite::Replace(scale) => scale.clone(),
                ScaleWrite::Patch(patch) => {
                    let before = scale_of(old, paths)?;
                    patch.apply(endpoint, context, Existing::Object(&before), options)?.0
                }
            };
            check(endpoint, &scale)?;
            let mut new = old.clone();
            let replicas = scale.pointer("/spec/replicas").cloned().unwrap_or(json!(0));
            set(&mut new, &paths.spec_replicas, replicas);
            meta::set_resource_version(&mut new, meta::resource_version(&scale));
            Ok((new, Owner::Writer))
        };
        let modified = self.modify(endpoint, context, options, IfAbsent::Fail, &mut change).await?;
        Ok(Answer::ok(Content::Other(scale_of(&endpoint.read(&modified.stored)?, paths)?)))
    }
}

fn check(endpoint: &Endpoint, scale: &Value) -> Result<(), Status> {
    if meta::name(scale) != endpoint.name {
        return Err(Status::bad_request(format!(
            "the name of the object ({}) does not match the name on the URL ({})",
            meta::name(scale),
            endpoint.name
        )));
    }
    match scale.pointer("/spec/replicas").and_then(Value::as_i64) {
        Some(replicas) if replicas < 0 => {
            let detail = "must be greater than or equal to 0";
            let error = FieldError::invalid("spec.replicas", replicas, detail);
            let kind = apimachinery::GroupKind::new("autoscaling", "Scale");
            Err(Status::invalid(&kind, &endpoint.name, &[error]))
        }
        _ => Ok(()),
    }
}

fn scale_of(object: &Value, paths: &ScalePaths) -> Result<Value, Status> {
    let at = |path: &str| {
        path.split('.').filter(|part| !part.is_empty()).try_fold(object, |value, part| value.get(part))
    };
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
    let mut status = json!({"replicas": replicas(&paths.status_replicas)?});
    if let Some(selector) = paths.label_selector.as_deref().and_then(at).and_then(Value::as_str) {
        status["selector"] = selector.into();
    }
    Ok(json!({
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": metadata,
        "spec": {"replicas": replicas(&paths.spec_replicas)?},
        "status": status,
    }))
}

fn set(object: &mut Value, path: &str, value: Value) {
    let mut at = object;
    for part in path.split('.').filter(|part| !part.is_empty()) {
        if !at.is_object() {
            *at = Value::Object(Map::new());
        }
        let Value::Object(fields) = at else { unreachable!("it was made an object above") };
        at = fields.entry(part).or_insert(Value::Null);
    }
    *at = value;
}
