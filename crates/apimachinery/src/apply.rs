//! Server-side apply: who owns which fields of an object, and what happens when they change it.
//!
//! Every write is by a manager, and `metadata.managedFields` says which fields each manager owns. [`track_update`] keeps that
//! up to date for creates, updates and patches: whoever changes a field owns it. [`apply`] merges a configuration into an object:
//! it changes what the configuration says, removes what the manager applied before and does not any more, and refuses to
//! change what others own unless it is forced.
//!
//! ```text
//! apply = types (what a schema says about ownership)
//!       → validate, merge (the configuration into the object)
//!       → updater: prune (what is no longer applied), settle (who owns what now)
//!       → managed, fields_v1 (how that is written)
//! ```
//!
//! Objects of core kinds must have the form that Kubernetes writes: structs that are always there, such as `status: {}`, change
//! who owns what. See [`normal_form`](crate::normal_form).

use apischema::Schema;
use serde_json::Value;

use crate::meta;
use crate::status::{Status, StatusCause};

mod compare;
mod fields_v1;
mod last_applied;
mod managed;
mod manager;
mod merge;
mod no_op;
mod order;
mod path;
mod reconcile;
mod remove;
mod scale;
mod set;
mod to_set;
mod types;
mod updater;
mod validate;
mod versions;

pub use managed::validate_managed_fields;
pub use no_op::keep_times_of_no_op;
pub use path::{KeyField, Path, PathElement};
pub use scale::{ReplicasPath, from_scale, to_scale};
pub use set::FieldSet;
pub use versions::Versions;

/// A write and who makes it.
#[derive(Clone, Copy)]
pub struct Write<'a> {
    /// The field manager. Empty counts as `unknown`.
    pub manager: &'a str,
    /// The version of the kind that the request is for.
    pub api_version: &'a str,
    /// `status`, `scale`; empty for the object itself.
    pub subresource: &'a str,
    /// The time, as objects hold it.
    pub now: &'a str,
    /// What this endpoint ignores in a write, and so nobody owns by it: `status` on the object itself, all but `status` on its
    /// status.
    pub reset_fields: Option<&'a FieldSet<'static>>,
    /// The other versions of the kind, if it has any.
    pub versions: Option<&'a dyn Versions>,
    /// What an object of this kind has before anything is set. See [`NormalForm::empty`](crate::normal_form::NormalForm::empty); absent for custom resources.
    pub empty: Option<&'a Value>,
}

/// What to do about fields that others own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Force {
    /// Refuse.
    #[default]
    No,
    /// Take them.
    Yes,
}

/// Why a configuration is not applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// It is not of the kind or version that the request is for, or has managed fields itself: 400.
    #[error("{0}")]
    BadRequest(String),
    /// Others own fields that it changes: 409.
    #[error("{message}")]
    Conflict {
        /// All of them.
        message: String,
        /// Each of them.
        causes: Vec<StatusCause>,
    },
    /// It cannot be merged: 400, though Kubernetes answers 500.
    #[error("{0}")]
    Unmergeable(String),
}

impl From<ApplyError> for Status {
    fn from(error: ApplyError) -> Self {
        match error {
            ApplyError::BadRequest(message) => Status::bad_request(message),
            ApplyError::Conflict { message, causes } => Status::apply_conflict(message, causes),
            ApplyError::Unmergeable(message) => Status::unexpected(message),
        }
    }
}

/// Applies a configuration to an object, or makes the object if there is none. `kind` is the kind that the request is for.
pub fn apply(
    live: Option<&Value>,
    applied: &Value,
    schema: &Schema,
    kind: &str,
    write: &Write<'_>,
    force: Force,
) -> Result<Value, ApplyError> {
    last_applied::apply(live, applied, schema, kind, write, force)
}

/// Writes down who owns what after a create, an update or a patch. `new` is what will be stored; its managed fields are those
/// that the client sent, if any.
pub fn track_update(live: Option<&Value>, new: &mut Value, schema: &Schema, write: &Write<'_>) {
    let sent = meta::metadata_mut(new).and_then(|metadata| metadata.remove("managedFields"));
    let entries = manager::update(live, new, sent.as_ref(), schema, write);
    meta::set(new, "managedFields", entries);
}

#[cfg(test)]
mod tests;
