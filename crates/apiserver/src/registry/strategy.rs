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

/// What is being done to an object, and by whom.
#[derive(Clone, Copy, Debug)]
pub struct Action<'a> {
    /// By whom.
    pub user: &'a UserInfo,
    /// `status`, or empty for the object itself.
    pub subresource: &'a str,
    /// When.
    pub now: Timestamp,
}

/// When `metadata.generation` grows.
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

/// What becomes of an owner's dependents when whoever deletes it says nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GarbageCollection {
    /// They are deleted, after the owner is gone.
    #[default]
    DeleteDependents,
    /// They are left alone.
    OrphanDependents,
    /// The kind takes no part in garbage collection.
    Unsupported,
}

/// How a kind behaves. Each method does by default what kinds without particulars do.
///
/// Objects are complete: defaults are set and unknown fields are gone. The version is that of the request.
pub trait Strategy: Send + Sync + fmt::Debug {
    /// Makes a new object ready: what clients may not set is cleared, what the server sets is set.
    fn prepare_for_create(&self, _object: &mut Value, _action: Action<'_>) {}

    /// Makes a changed object ready: what clients may not change is taken from the old one.
    fn prepare_for_update(&self, _object: &mut Value, _old: &Value, _action: Action<'_>) {}

    /// Makes an object ready whose status alone is written: all but status and metadata is taken from the old one.
    fn prepare_for_status_update(&self, object: &mut Value, old: &Value, _action: Action<'_>) {
        keep_all_but(object, old, &["status", "metadata"]);
    }

    /// What is wrong with a new object, besides what its schema says.
    fn validate(&self, _object: &Value, _action: Action<'_>) -> Vec<FieldError> {
        Vec::new()
    }

    /// What is wrong with a changed object, besides what its schema says: fields that may not change, above all.
    fn validate_update(&self, object: &Value, _old: &Value, action: Action<'_>) -> Vec<FieldError> {
        self.validate(object, action)
    }

    /// What whoever writes the object should know.
    fn warnings(&self, _object: &Value, _old: Option<&Value>, _action: Action<'_>) -> Vec<String> {
        Vec::new()
    }

    /// When `metadata.generation` grows.
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

    /// What becomes of dependents.
    fn garbage_collection(&self) -> GarbageCollection {
        GarbageCollection::DeleteDependents
    }

    /// How many seconds an object is given to end, if its kind is given any; `requested` is what the client says.
    fn grace_period(&self, _object: &Value, _requested: Option<i64>) -> Option<i64> {
        None
    }

    /// Whether something besides `metadata.finalizers` keeps the object from being deleted, as a namespace's contents do.
    fn holds_deletion(&self, _object: &Value) -> bool {
        false
    }

    /// Notes in an object that its deletion has begun, besides the deletionTimestamp.
    fn deletion_begins(&self, _object: &mut Value) {}

    /// Whether a deletion answers with the deleted object rather than with a Status.
    fn answers_with_deleted(&self) -> bool {
        false
    }

    /// The media types of patches that objects take.
    fn patch_types(&self) -> &'static [&'static str] {
        &PatchType::MEDIA_TYPES
    }

    /// What a write of the object, or of a subresource, ignores. Nobody comes to own it by such a write.
    fn reset_fields(&self, _subresource: &str) -> Option<&FieldSet<'static>> {
        None
    }

    /// What an object of this kind has before anything is set, where Kubernetes always writes some of it.
    fn empty(&self) -> Option<&Value> {
        None
    }

    /// What whoever selects objects by another field is told, where the kind says it in its own words.
    fn unsupported_field(&self, _field: &str) -> Option<String> {
        None
    }

    /// Fills in what an object does not say, after unknown fields were dropped.
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
    /// When `metadata.generation` grows.
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
    /// What is asked.
    pub verb: Verb,
    /// Of what.
    pub endpoint: &'a Endpoint,
    /// By whom.
    pub context: &'a Context,
    /// What was sent, if anything.
    pub body: Option<Value>,
    /// How to write.
    pub options: WriteOptions,
}

/// What answers for a subresource of a kind's own: `binding`, `eviction`, `token`.
pub trait SubresourceHandler: Send + Sync + fmt::Debug {
    /// Answers.
    fn handle<'a>(
        &'a self,
        api: &'a Api,
        request: SubresourceRequest<'a>,
    ) -> BoxFuture<'a, Result<Answer, Status>>;
}
