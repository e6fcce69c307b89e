//! The number of replicas of an object, read and written as a `Scale`.

mod view;

use apimachinery::apply::{self, Force, Write};
use apimachinery::normal_form::NormalForm;
use apimachinery::{Status, meta, options};
use apischema::{FieldError, Schema};
use serde_json::Value;
use std::sync::{Arc, LazyLock};

use super::metadata::time;
use super::modify::{Existing, IfAbsent, Owner};
use super::patch::{Patch, PatchType};
use super::update::check_uid;
use crate::api::Api;
use crate::context::Context;
use crate::endpoint::Endpoint;
use crate::options::WriteOptions;
use crate::registry::ScalePaths;
use crate::verbs::{Answer, Content};

const API_VERSION: &str = "autoscaling/v1";

// What a Scale says of an object that does not say how many replicas it has. No client asks for so many.
const UNSET: i64 = i32::MIN as i64;

static SCHEMA: LazyLock<Arc<Schema>> = LazyLock::new(|| {
    apischema::core::schema("autoscaling", "v1", "Scale").expect("invariant: Scale is one of the core kinds")
});
static EMPTY: LazyLock<Value> = LazyLock::new(|| NormalForm::of(&SCHEMA).empty().clone());

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
        let scale = view::of(&object, paths)?;
        if endpoint.resource.is_custom() && !scale.has_replicas {
            let why = format!("the spec replicas field {:?} does not exist", paths.spec_replicas);
            return Err(Status::internal_error(why));
        }
        Ok(Answer::ok(Content::Other(scale.scale)))
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
        if let ScaleWrite::Replace(scale) = write {
            check_name(endpoint, scale)?;
        }
        let mut change = |existing: Existing<'_>| {
            let Existing::Object(old) = existing else {
                return Err(endpoint.resource.not_found(&endpoint.name));
            };
            let before = before(endpoint, old, paths)?;
            let after = write.apply(endpoint, context, &before, options)?;
            check(endpoint, paths, &after)?;
            Ok((scaled(endpoint, old, paths, &after)?, Owner::Settled))
        };
        let modified = self.modify(endpoint, context, options, IfAbsent::Fail, &mut change).await?;
        Ok(Answer::ok(Content::Other(view::of(&endpoint.read(&modified.stored)?, paths)?.scale)))
    }
}

/// The scale of an object with who owns the replicas.
fn before(endpoint: &Endpoint, old: &Value, paths: &ScalePaths) -> Result<Value, Status> {
    let view::View { mut scale, has_replicas } = view::of(old, paths)?;
    if endpoint.resource.is_custom() && !has_replicas {
        scale["spec"]["replicas"] = UNSET.into();
    }
    let entries = meta::managed_fields(old).map(Vec::as_slice).unwrap_or_default();
    let entries = apply::to_scale(entries, &|version| view::replicas_path(&endpoint.resource, version))
        .map_err(Status::unexpected)?;
    meta::set(&mut scale, "managedFields", entries);
    Ok(scale)
}

impl ScaleWrite {
    /// What a write makes of a scale, and who owns the replicas then.
    fn apply(
        &self,
        endpoint: &Endpoint,
        context: &Context,
        before: &Value,
        options: &WriteOptions,
    ) -> Result<Value, Status> {
        let manager = options::field_manager(&options.field_manager, &context.user_agent);
        let now = time(context.now);
        let write = Write {
            manager: &manager,
            api_version: API_VERSION,
            subresource: "scale",
            now: &now,
            reset_fields: None,
            versions: None,
            empty: Some(&EMPTY),
        };
        let mut after = match self {
            ScaleWrite::Replace(scale) => {
                check_uid(endpoint, meta::uid(scale), before)?;
                scale.clone()
            }
            ScaleWrite::Patch(patch) if patch.kind == PatchType::Apply => {
                let configuration = patch.read_configuration(context, options)?;
                let force = if options.force == Some(true) { Force::Yes } else { Force::No };
                return Ok(apply::apply(Some(before), &configuration, &SCHEMA, "Scale", &write, force)?);
            }
            ScaleWrite::Patch(patch) => {
                patch.change(before, Some(&SCHEMA), endpoint, options.field_validation)?.0
            }
        };
        complete(&mut after)?;
        check_name(endpoint, &after)?;
        apply::track_update(Some(before), &mut after, &SCHEMA, &write);
        Ok(after)
    }
}

/// Makes what a client sent a Scale.
fn complete(scale: &mut Value) -> Result<(), Status> {
    let is = |given: &str, expected: &str| given.is_empty() || given == expected;
    if !is(meta::kind(scale), "Scale") || !is(meta::api_version(scale), API_VERSION) {
        return Err(Status::bad_request(format!(
            "{} of {} cannot be handled as a Scale of {API_VERSION}",
            meta::kind(scale),
            meta::api_version(scale)
        )));
    }
    if let Some(error) = apischema::core::decode_error("autoscaling", "v1", "Scale", scale) {
        let why = format!("Scale in version \"v1\" cannot be handled as a Scale: {error}");
        return Err(Status::bad_request(why));
    }
    apischema::prune(scale, &SCHEMA);
    apischema::core::default("autoscaling", "Scale", scale);
    Ok(())
}

fn check_name(endpoint: &Endpoint, scale: &Value) -> Result<(), Status> {
    let mut scale = scale.clone();
    meta::adopt_namespace(&mut scale, &endpoint.namespace)?;
    endpoint.check_name(&scale)
}

fn replicas(scale: &Value) -> i64 {
    scale.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(0)
}

fn check(endpoint: &Endpoint, paths: &ScalePaths, scale: &Value) -> Result<(), Status> {
    match replicas(scale) {
        // What is wrong with that of a custom resource is found with all else.
        UNSET if endpoint.resource.is_custom() => {
            let why = format!("the spec replicas field {:?} cannot be empty", paths.spec_replicas);
            Err(Status::bad_request(why))
        }
        replicas if replicas < 0 && !endpoint.resource.is_custom() => {
            let detail = "must be greater than or equal to 0";
            let error = FieldError::invalid("spec.replicas", replicas, detail);
            let kind = apimachinery::GroupKind::new("autoscaling", "Scale");
            Err(Status::invalid(&kind, &endpoint.name, &[error]))
        }
        _ => Ok(()),
    }
}

/// The object with the replicas of a scale, and with who owns them.
fn scaled(endpoint: &Endpoint, old: &Value, paths: &ScalePaths, scale: &Value) -> Result<Value, Status> {
    let mut new = old.clone();
    view::set(&mut new, &paths.spec_replicas, replicas(scale).into());
    let version = meta::resource_version(scale);
    if !version.is_empty() || !endpoint.resource.is_custom() {
        meta::set_resource_version(&mut new, version);
    }
    let of = |object| meta::managed_fields(object).map(Vec::as_slice).unwrap_or_default();
    let path = |version: &str| view::replicas_path(&endpoint.resource, version);
    let entries =
        apply::from_scale(of(old), of(scale), &endpoint.api_version(), &path).map_err(Status::unexpected)?;
    meta::set(
        &mut new,
        "managedFields",
        if entries.as_array().is_some_and(Vec::is_empty) { Value::Null } else { entries },
    );
    Ok(new)
}
