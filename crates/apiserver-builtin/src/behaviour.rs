//! How core kinds behave, as a table of what differs between them.

use std::fmt;

use apimachinery::apply::FieldSet;
use apischema::FieldError;
use serde_json::Value;

use super::errors::Errors;
use super::kind::{metadata_errors, reset_with_status, set_defaults};
use super::value::{fields_mut, set};
use apiserver::registry::{Action, GarbageCollection, Generation, Strategy, keep_all_but};
use apiserver::verbs::spec_field;

/// What a core kind does in its own way. Everything has a default: what most kinds do.
#[derive(Clone, Copy)]
pub(super) struct Behaviour {
    pub(super) generation: Generation,
    /// Who writes the status.
    pub(super) status: StatusWriter,
    /// Fills in what has two names from the one that is there, after defaults are set.
    pub(super) settle: fn(&mut Value),
    /// Makes a new object ready, after the status is cleared.
    pub(super) prepare_create: fn(&mut Value, Action<'_>),
    /// Makes a changed object ready, after the status is taken from the old one.
    pub(super) prepare_update: fn(&mut Value, &Value, Action<'_>),
    /// Makes an object ready whose status alone is written, after all else is taken from the old one.
    pub(super) prepare_status: fn(&mut Value, &Value, Action<'_>),
    /// What writes of the status ignore, where there is one.
    pub(super) ignored_by_status: fn() -> &'static FieldSet<'static>,
    /// What is wrong with an object, new or changed.
    pub(super) validate: fn(&Value, &mut Errors),
    /// What else is wrong with a new object.
    pub(super) validate_create: fn(&Value, &mut Errors),
    /// What else is wrong with a changed object.
    pub(super) validate_update: fn(&Value, &Value, &mut Errors),
    /// What is wrong with a status that is written by itself.
    pub(super) validate_status: fn(&Value, &Value, &mut Errors),
    /// What whoever writes the object should know.
    pub(super) warnings: fn(&Value, Option<&Value>) -> Vec<String>,
    /// What whoever selects by another field is told, if it is not what is usual.
    pub(super) unsupported_field: fn(&str) -> Option<String>,
    pub(super) creates_on_update: bool,
    pub(super) updates_unconditionally: bool,
    pub(super) garbage_collection: GarbageCollection,
    pub(super) answers_with_deleted: bool,
}

/// Who writes the status of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StatusWriter {
    /// There is none, or whoever writes the object.
    Anybody,
    /// Whoever writes the `status` subresource. A new object has an empty one.
    Subresource,
    /// Whoever writes the `status` subresource, or makes the object.
    SubresourceOrCreator,
}

impl Behaviour {
    /// What most kinds do.
    pub(super) const PLAIN: Behaviour = Behaviour {
        generation: Generation::None,
        status: StatusWriter::Anybody,
        settle: |_| {},
        prepare_create: |_, _| {},
        prepare_update: |_, _, _| {},
        prepare_status: |_, _, _| {},
        ignored_by_status: spec_field,
        validate: |_, _| {},
        validate_create: |_, _| {},
        validate_update: |_, _, _| {},
        validate_status: |_, _, _| {},
        warnings: |_, _| Vec::new(),
        unsupported_field: |_| None,
        creates_on_update: false,
        updates_unconditionally: true,
        garbage_collection: GarbageCollection::DeleteDependents,
        answers_with_deleted: false,
    };

    /// What kinds with a status of their own do.
    pub(super) const WITH_STATUS: Behaviour =
        Behaviour { status: StatusWriter::Subresource, ..Behaviour::PLAIN };
}

impl fmt::Debug for Behaviour {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Behaviour").field("generation", &self.generation).finish_non_exhaustive()
    }
}

/// The strategy of a kind that behaves so.
#[derive(Clone, Debug)]
pub(super) struct Behaving {
    pub(super) behaviour: Behaviour,
    /// What an object has before anything is set.
    pub(super) empty: Value,
}

impl Strategy for Behaving {
    fn prepare_for_create(&self, object: &mut Value, action: Action<'_>) {
        if self.behaviour.status == StatusWriter::Subresource {
            fields_mut(object).insert("status".into(), Value::Object(serde_json::Map::new()));
        }
        (self.behaviour.prepare_create)(object, action);
    }

    fn prepare_for_update(&self, object: &mut Value, old: &Value, action: Action<'_>) {
        if self.behaviour.status != StatusWriter::Anybody {
            set(fields_mut(object), "status", old.get("status").cloned());
        }
        (self.behaviour.prepare_update)(object, old, action);
    }

    fn prepare_for_status_update(&self, object: &mut Value, old: &Value, action: Action<'_>) {
        keep_all_but(object, old, &["status", "metadata"]);
        (self.behaviour.prepare_status)(object, old, action);
    }

    fn validate(&self, object: &Value, _action: Action<'_>) -> Vec<FieldError> {
        let mut errors = metadata_errors(object);
        (self.behaviour.validate)(object, &mut errors);
        (self.behaviour.validate_create)(object, &mut errors);
        errors.into_vec()
    }

    fn validate_update(&self, object: &Value, old: &Value, action: Action<'_>) -> Vec<FieldError> {
        let mut errors = metadata_errors(object);
        if action.subresource == "status" {
            (self.behaviour.validate_status)(object, old, &mut errors);
        } else {
            (self.behaviour.validate)(object, &mut errors);
            (self.behaviour.validate_update)(object, old, &mut errors);
        }
        errors.into_vec()
    }

    fn warnings(&self, object: &Value, old: Option<&Value>, action: Action<'_>) -> Vec<String> {
        if action.subresource.is_empty() { (self.behaviour.warnings)(object, old) } else { Vec::new() }
    }

    fn generation(&self) -> Generation {
        self.behaviour.generation
    }

    fn creates_on_update(&self) -> bool {
        self.behaviour.creates_on_update
    }

    fn updates_unconditionally(&self) -> bool {
        self.behaviour.updates_unconditionally
    }

    fn garbage_collection(&self) -> GarbageCollection {
        self.behaviour.garbage_collection
    }

    fn answers_with_deleted(&self) -> bool {
        self.behaviour.answers_with_deleted
    }

    fn unsupported_field(&self, field: &str) -> Option<String> {
        (self.behaviour.unsupported_field)(field)
    }

    fn reset_fields(&self, subresource: &str) -> Option<&FieldSet<'static>> {
        match (self.behaviour.status, subresource) {
            (StatusWriter::Anybody, _) => None,
            (_, "status") => Some((self.behaviour.ignored_by_status)()),
            _ => reset_with_status(subresource),
        }
    }

    fn empty(&self) -> Option<&Value> {
        Some(&self.empty)
    }

    fn set_defaults(&self, object: &mut Value) {
        set_defaults(object);
        (self.behaviour.settle)(object);
    }
}
