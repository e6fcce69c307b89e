//! What every object goes through on its way to the store, whatever its kind.

use apimachinery::fieldvalidation::{self, StrictError, strict_message};
use apimachinery::{Status, meta};
use apischema::FieldError;
use serde_json::Value;

use super::type_meta::bad_patch;
use crate::context::Context;
use crate::endpoint::Endpoint;
use crate::options::{FieldValidation, WriteOptions};
use crate::registry::{Action, Generation};
use crate::verbs::{Patch, Submitted};

impl Endpoint {
    pub(crate) fn action<'a>(&'a self, context: &'a Context) -> Action<'a> {
        Action { user: &context.user, subresource: &self.subresource, now: context.now }
    }

    /// Makes a body an object of this version: it is of the right kind, has its defaults, and has no fields that the kind
    /// does not have.
    pub(crate) fn accept(
        &self,
        submitted: Submitted,
        context: &Context,
        options: &WriteOptions,
    ) -> Result<Value, Status> {
        let Submitted { mut object, mut strict_errors } = submitted;
        self.settle_type(&mut object)?;
        let forgets_managers = !self.resource.is_custom() && forgets_managers(&object);
        strict_errors.extend(self.complete(&mut object));
        if forgets_managers {
            meta::set(&mut object, "managedFields", Value::Array(Vec::new()));
        }
        match options.field_validation {
            FieldValidation::Strict if !strict_errors.is_empty() => {
                return Err(self.not_handled(&strict_message(&strict_errors)));
            }
            FieldValidation::Warn => context.warn_all(fieldvalidation::warnings(&strict_errors)),
            FieldValidation::Ignore | FieldValidation::Strict => {}
        }
        Ok(object)
    }

    /// The same for an object that a patch has made. `strict_errors` is what a strict reader would refuse in the patch.
    pub(crate) fn accept_patched(
        &self,
        mut object: Value,
        patch: &Patch,
        mut strict_errors: Vec<StrictError>,
        context: &Context,
        options: &WriteOptions,
    ) -> Result<Value, Status> {
        self.settle_patched_type(&mut object, patch)?;
        let shown = if options.field_validation == FieldValidation::Strict {
            patch.shown_in_errors(&object)
        } else {
            String::new()
        };
        strict_errors.extend(self.complete(&mut object));
        match options.field_validation {
            FieldValidation::Strict if !strict_errors.is_empty() => {
                return Err(bad_patch(shown, &strict_message(&strict_errors)));
            }
            FieldValidation::Warn => context.warn_all(fieldvalidation::warnings(&strict_errors)),
            FieldValidation::Ignore | FieldValidation::Strict => {}
        }
        Ok(object)
    }

    /// Drops the fields that the kind does not have, which are returned, and sets defaults.
    fn complete(&self, object: &mut Value) -> Vec<StrictError> {
        let unknown = match &self.version().schema {
            Some(schema) => apischema::prune(object, schema),
            None => Vec::new(),
        };
        self.resource.strategy.set_defaults(object);
        unknown.into_iter().map(StrictError::Unknown).collect()
    }

    /// The object has the name of the request.
    pub(crate) fn check_name(&self, object: &Value) -> Result<(), Status> {
        let name = meta::name(object);
        if name.is_empty() {
            return Err(Status::bad_request(format!(
                "the name of the object ({} based on URL) was undeterminable: name must be provided",
                self.name
            )));
        }
        if name != self.name {
            return Err(Status::bad_request(format!(
                "the name of the object ({name}) does not match the name on the URL ({})",
                self.name
            )));
        }
        Ok(())
    }

    /// A new object, with all that the server sets, checked.
    pub(crate) fn before_create(&self, object: &mut Value, context: &Context) -> Result<(), Status> {
        let (strategy, action) = (&self.resource.strategy, self.action(context));
        self.check_custom_type(object)?;
        meta::adopt_namespace(object, &self.namespace)?;
        strategy.prepare_for_create(object, action);
        // Where it means nothing, it is what the client says.
        if strategy.generation() != Generation::None {
            meta::set_generation(object, 1);
        }

        let mut errors = self.metadata_errors(object);
        errors.extend(strategy.validate(object, action));
        self.refuse_if(object, &errors)?;
        for warning in strategy.warnings(object, None, action) {
            context.warn(warning);
        }
        Ok(())
    }

    /// A changed object, with all that the server sets, checked.
    pub(crate) fn before_update(
        &self,
        object: &mut Value,
        old: &Value,
        context: &Context,
    ) -> Result<(), Status> {
        let (strategy, action) = (&self.resource.strategy, self.action(context));
        self.check_custom_type(object)?;
        meta::adopt_namespace(object, &self.namespace)?;
        meta::prepare_update(object, old);
        if self.subresource == "status" {
            strategy.prepare_for_status_update(object, old, action);
        } else {
            strategy.prepare_for_update(object, old, action);
            if self.content_changed(object, old) {
                meta::set_generation(object, meta::generation(old).saturating_add(1));
            }
        }

        let mut errors = self.metadata_errors(object);
        // Kubernetes looks at it twice: for all kinds, and for each. Clients see each finding twice among the causes.
        let changes = meta::validate_update(object, old);
        errors.extend(changes.iter().cloned().chain(changes.iter().cloned()));
        errors.extend(strategy.validate_update(object, old, action));
        self.refuse_if(object, &errors)?;
        for warning in strategy.warnings(object, Some(old), action) {
            context.warn(warning);
        }
        Ok(())
    }

    fn content_changed(&self, object: &Value, old: &Value) -> bool {
        let has_status = self.version().has_status();
        match self.resource.strategy.generation() {
            Generation::None => false,
            Generation::Spec => object.get("spec") != old.get("spec"),
            Generation::Content => {
                let counts = |name: &str| name != "metadata" && !(has_status && name == "status");
                let (Some(new), Some(old)) = (object.as_object(), old.as_object()) else { return false };
                new.iter().any(|(name, value)| counts(name) && old.get(name) != Some(value))
                    || old.keys().any(|name| counts(name) && !new.contains_key(name))
            }
        }
    }

    fn metadata_errors(&self, object: &Value) -> Vec<FieldError> {
        meta::validate_create(object, self.resource.scope, self.resource.name_rule)
    }

    fn refuse_if(&self, object: &Value, errors: &[FieldError]) -> Result<(), Status> {
        if errors.is_empty() { Ok(()) } else { Err(self.resource.invalid(meta::name(object), errors)) }
    }
}

/// Whether a client wants all managers of fields forgotten. An empty list says so, which is nothing to those who write objects out.
fn forgets_managers(object: &Value) -> bool {
    meta::managed_fields(object).is_some_and(Vec::is_empty)
}

/// Drops owner references that are there twice, and says so.
pub(crate) fn dedup_owners(object: &mut Value, context: &Context) {
    let twice = meta::dedup_owner_references(object);
    if !twice.is_empty() {
        context.warn(format!(
            ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may \
             reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            twice.join(", ")
        ));
    }
}
