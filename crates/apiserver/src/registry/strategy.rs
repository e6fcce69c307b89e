//! How a kind adds behaviour of its own to what the server does with all kinds.

use std::fmt;

use apimachinery::Status;
use apimachinery::apply::FieldSet;
use apischema::FieldError;
use futures::future::BoxFuture;
use jiff::Timestamp;
use serde_json::Value;

use crate::api::Api;
use crate::authn::UserInfo;
use crate::context::Context;
use crate::endpoint::Endpoint;
use crate::options::WriteOptions;
use crate::request::Verb;
use crate::verbs::{Answer, PatchType, spec_field, status_field};

/// The request that a strategy is called for.
#[derive(Clone, Copy, Debug)]
pub struct Action<'a> {
    /// The user.
    pub user: &'a UserInfo,
    /// `status`, or empty for the object itself.
    pub subresource: &'a str,
    /// The time of the request.
    pub now: Timestamp,
}

/// When `metadata.generation` is incremented.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Generation {
    /// The kind has none.
    #[default]
    None,
    /// When the spec changes.
    Spec,
    /// When anything but metadata changes; a status that is written by itself does not count either.
    Content,
}

/// What happens to an owner's dependents when a deletion has no `propagationPolicy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GarbageCollection {
    /// They are deleted, after the owner is.
    #[default]
    DeleteDependents,
    /// They are left alone.
    OrphanDependents,
    /// The kind takes no part in garbage collection.
    Unsupported,
}

/// The behaviour of a kind. Every method has a default, which fits kinds without rules of their own.
///
/// Objects are complete: defaults are set and unknown fields are removed. The version is that of the request.
pub trait Strategy: Send + Sync + fmt::Debug {
    /// Prepares a new object: clears fields that clients may not set, and sets those that the server sets.
    fn prepare_for_create(&self, _object: &mut Value, _action: Action<'_>) {}

    /// Prepares an updated object: takes fields that clients may not change from the old one.
    fn prepare_for_update(&self, _object: &mut Value, _old: &Value, _action: Action<'_>) {}

    /// Prepares an object whose status is updated: takes all but status and metadata from the old one.
    fn prepare_for_status_update(&self, object: &mut Value, old: &Value, _action: Action<'_>) {
        keep_all_but(object, old, &["status", "metadata"]);
    }

    /// Validates a new object, beyond its schema.
    fn validate(&self, _object: &Value, _action: Action<'_>) -> Vec<FieldError> {
        Vec::new()
    }

    /// Validates an updated object, beyond its schema: immutable fields, above all.
    fn validate_update(&self, object: &Value, _old: &Value, action: Action<'_>) -> Vec<FieldError> {
        self.validate(object, action)
    }

    /// Warnings for the client that writes the object.
    fn warnings(&self, _object: &Value, _old: Option<&Value>, _action: Action<'_>) -> Vec<String> {
        Vec::new()
    }

    /// When `metadata.generation` is incremented.
    fn generation(&self) -> Generation {
        Generation::None
    }

    /// Whether a replacement of what does not exist creates it.
    fn creates_on_update(&self) -> bool {
        false
    }

    /// Whether a replacement without a resourceVersion replaces whatever is there.
    fn updates_unconditionally(&self) -> bool {
        true
    }

    /// What happens to dependents when the object is deleted.
    fn garbage_collection(&self) -> GarbageCollection {
        GarbageCollection::DeleteDependents
    }

    /// The grace period of a deletion in seconds, if the kind has one; `requested` is that of the client.
    fn grace_period(&self, _object: &Value, _requested: Option<i64>) -> Option<i64> {
        None
    }

    /// Whether something besides `metadata.finalizers` keeps the object from being deleted, as a namespace's contents do.
    fn holds_deletion(&self, _object: &Value) -> bool {
        false
    }

    /// Marks an object as being deleted, besides the deletionTimestamp.
    fn deletion_begins(&self, _object: &mut Value) {}

    /// Whether a deletion answers with the deleted object rather than with a Status.
    fn answers_with_deleted(&self) -> bool {
        false
    }

    /// The media types of patches that objects take.
    fn patch_types(&self) -> &'static [&'static str] {
        &PatchType::MEDIA_TYPES
    }

    /// The fields that a write of the object, or of a subresource, ignores. Such a write makes nobody their manager.
    fn reset_fields(&self, _subresource: &str) -> Option<&FieldSet<'static>> {
        None
    }

    /// The fields that every object of this kind has, where Kubernetes always writes some.
    fn empty(&self) -> Option<&Value> {
        None
    }

    /// The error for a field selector with another field, where the kind has a message of its own.
    fn unsupported_field(&self, _field: &str) -> Option<String> {
        None
    }

    /// Sets defaults, after unknown fields were removed.
    fn set_defaults(&self, _object: &mut Value) {}

    /// Converts an object to another apiVersion of its kind.
    fn convert(&self, object: &mut Value, api_version: &str) -> Result<(), Status> {
        if let Some(fields) = object.as_object_mut() {
            fields.insert("apiVersion".into(), Value::String(api_version.into()));
        }
        Ok(())
    }
}

/// The strategy of kinds without particulars.
#[derive(Clone, Copy, Debug, Default)]
pub struct GenericStrategy {
    /// When `metadata.generation` is incremented.
    pub generation: Generation,
    /// Whether there is a status that is written by itself: then writes of the object do not touch it.
    pub has_status: bool,
}

impl Strategy for GenericStrategy {
    fn prepare_for_create(&self, object: &mut Value, _action: Action<'_>) {
        if self.has_status
            && let Some(fields) = object.as_object_mut()
        {
            fields.remove("status");
        }
    }

    fn prepare_for_update(&self, object: &mut Value, old: &Value, _action: Action<'_>) {
        if self.has_status {
            take_field(object, old, "status");
        }
    }

    fn generation(&self) -> Generation {
        self.generation
    }

    fn reset_fields(&self, subresource: &str) -> Option<&FieldSet<'static>> {
        match subresource {
            "" if self.has_status => Some(status_field()),
            "status" => Some(spec_field()),
            _ => None,
        }
    }
}

/// Takes every field but these from the old object.
pub fn keep_all_but(object: &mut Value, old: &Value, but: &[&str]) {
    let (Some(fields), Some(old)) = (object.as_object_mut(), old.as_object()) else { return };
    fields.retain(|name, _| but.contains(&name.as_str()));
    for (name, value) in old {
        if !but.contains(&name.as_str()) {
            fields.insert(name.clone(), value.clone());
        }
    }
}

/// Takes a field from the old object, or its absence.
pub fn take_field(object: &mut Value, old: &Value, name: &str) {
    let Some(fields) = object.as_object_mut() else { return };
    match old.get(name) {
        Some(value) => {
            fields.insert(name.into(), value.clone());
        }
        None => {
            fields.remove(name);
        }
    }
}

/// A request to a subresource of a kind's own.
#[derive(Debug)]
pub struct SubresourceRequest<'a> {
    /// The verb.
    pub verb: Verb,
    /// The object.
    pub endpoint: &'a Endpoint,
    /// The user, and the warnings of the answer.
    pub context: &'a Context,
    /// The body, if there was one.
    pub body: Option<Value>,
    /// The options of the request.
    pub options: WriteOptions,
}

/// Handles a subresource of a kind's own: `binding`, `eviction`, `token`.
pub trait SubresourceHandler: Send + Sync + fmt::Debug {
    /// Handles a request.
    fn handle<'a>(
        &'a self,
        api: &'a Api,
        request: SubresourceRequest<'a>,
    ) -> BoxFuture<'a, Result<Answer, Status>>;
}
