//! Changing what is there: read, change, write if nobody else did, else again.

use apimachinery::{GroupKind, Reason, Status, apply, meta};
use apischema::FieldError;
use apistore::{Change, Expect, Outcome};
use serde_json::Value;

use super::create::decoded;
use super::metadata::is_deleting;
use super::prepare::dedup_owners;
use crate::admission::{Attributes, Operation};
use crate::api::Api;
use crate::authz;
use crate::context::Context;
use crate::endpoint::Endpoint;
use crate::options::WriteOptions;
use crate::request::Verb;
use crate::storage::StoredObject;

/// What is at an endpoint before a change.
#[derive(Clone, Copy, Debug)]
pub enum Existing<'a> {
    /// This object.
    Object(&'a Value),
    /// Nothing; an object may be made.
    Nothing,
}

/// Who owns the fields of a changed object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Whoever makes the change owns what changes.
    Writer,
    /// The change has said who owns what.
    Settled,
}

/// What became of a change.
#[derive(Clone, Debug)]
pub struct Modified {
    /// The object as it is now. If it was deleted, as it was last.
    pub stored: StoredObject,
    /// Whether it was made.
    pub created: bool,
}

/// A change: what an object becomes. It may be asked more than once, when others write at the same time.
pub(crate) type ChangeOf<'a> = dyn FnMut(Existing<'_>) -> Result<(Value, Owner), Status> + Send + 'a;

/// What may be done if there is nothing to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IfAbsent {
    Create,
    Fail,
}

impl Api {
    /// Changes an object. A resourceVersion in what `change` returns must be the object's.
    pub(crate) async fn modify(
        &self,
        endpoint: &Endpoint,
        context: &Context,
        options: &WriteOptions,
        if_absent: IfAbsent,
        change: &mut ChangeOf<'_>,
    ) -> Result<Modified, Status> {
        loop {
            if let Some(modified) = self.try_modify(endpoint, context, options, if_absent, change).await? {
                return Ok(modified);
            }
        }
    }

    /// One attempt; absent if somebody else wrote in between.
    async fn try_modify(
        &self,
        endpoint: &Endpoint,
        context: &Context,
        options: &WriteOptions,
        if_absent: IfAbsent,
        change: &mut ChangeOf<'_>,
    ) -> Result<Option<Modified>, Status> {
        let (resource, name) = (&endpoint.resource, &endpoint.name);
        let key = endpoint.key(name);
        let got = self.storage().get(&key).await.map_err(|error| resource.store_failed(&error))?;
        let Some(entry) = got.entry else {
            if if_absent == IfAbsent::Fail {
                return Err(resource.not_found(name));
            }
            return self.create_by_change(endpoint, context, options, change).await;
        };

        let stored = StoredObject::from_entry(&entry).map_err(Status::internal_error)?;
        let old = endpoint.read(&stored)?;
        let (mut new, owner) = change(Existing::Object(&old))?;
        meta::adopt_namespace(&mut new, &endpoint.namespace)?;
        endpoint.check_name(&new)?;
        if owner == Owner::Writer {
            endpoint.own_fields(context, Some(&old), &mut new, options);
        }
        let attributes =
            Attributes { operation: Operation::Update, endpoint, name, context, old: Some(&old), options };
        self.admission().admit(self, attributes, &mut new).await?;
        dedup_owners(&mut new, context);
        settle_resource_version(endpoint, &mut new, &old)?;
        endpoint.before_update(&mut new, &old, context)?;
        // A write that changes nothing but when fields were owned changes nothing.
        apply::keep_times_of_no_op(&old, &mut new);
        self.admission().validate(self, attributes, Some(&new)).await?;

        let raw = endpoint.write(&new)?;
        let deleted = is_over(endpoint, &new, &old);
        if (raw == *stored.raw() && !deleted) || options.dry_run {
            return Ok(Some(Modified { stored: decoded(raw, entry.modified)?, created: false }));
        }
        let value = (!deleted).then(|| raw.clone());
        let change = Change { key, expect: Expect::Modified(entry.modified), value };
        match self.storage().commit(change).await.map_err(|error| resource.store_failed(&error))? {
            // An object that is gone is shown as the client last knew it.
            Outcome::Done(_) if deleted => {
                Ok(Some(Modified { stored: decoded(raw, entry.modified)?, created: false }))
            }
            Outcome::Done(revision) => Ok(Some(Modified { stored: decoded(raw, revision)?, created: false })),
            Outcome::Mismatch(_) => Ok(None),
        }
    }

    async fn create_by_change(
        &self,
        endpoint: &Endpoint,
        context: &Context,
        options: &WriteOptions,
        change: &mut ChangeOf<'_>,
    ) -> Result<Option<Modified>, Status> {
        let (mut new, owner) = change(Existing::Nothing)?;
        if !meta::uid(&new).is_empty() {
            let why = format!(
                "uid mismatch: the provided object specified uid {}, and no existing object was found",
                meta::uid(&new)
            );
            return Err(endpoint.resource.conflict(&endpoint.name, &why));
        }
        meta::adopt_namespace(&mut new, &endpoint.namespace)?;
        endpoint.check_name(&new)?;
        if owner == Owner::Writer {
            endpoint.own_fields(context, None, &mut new, options);
        }
        check_may_create(endpoint, context).await?;
        match self.create_accepted(endpoint, context, new, options).await {
            Ok(stored) => Ok(Some(Modified { stored, created: true })),
            Err(status) if status.reason == Reason::AlreadyExists => Ok(None),
            Err(status) => Err(status),
        }
    }
}

/// Who may change an object may not therefore make it.
async fn check_may_create(endpoint: &Endpoint, context: &Context) -> Result<(), Status> {
    let Some(authorizer) = &context.authorizer else { return Ok(()) };
    let resource = authz::ResourceAttributes {
        group: &endpoint.resource.group,
        version: &endpoint.version().name,
        resource: &endpoint.resource.plural,
        subresource: &endpoint.subresource,
        namespace: &endpoint.namespace,
        name: &endpoint.name,
    };
    let create = Verb::Create.as_str();
    let asked = authz::Attributes { user: &context.user, verb: create, resource: Some(resource), path: "" };
    authz::check(&**authorizer, asked).await
}

/// A change is to the object that its resourceVersion names; without one, to whatever is there.
fn settle_resource_version(endpoint: &Endpoint, new: &mut Value, old: &Value) -> Result<(), Status> {
    let (resource, given) = (&endpoint.resource, meta::resource_version(new));
    if matches!(given, "" | "0") {
        if resource.strategy.updates_unconditionally() {
            meta::set_resource_version(new, meta::resource_version(old));
            return Ok(());
        }
        let error = FieldError::invalid("metadata.resourceVersion", 0, "must be specified for an update");
        return Err(Status::invalid(
            &GroupKind::new(&resource.group, &resource.plural),
            &endpoint.name,
            &[error],
        ));
    }
    if let Err(error) = given.parse::<u64>() {
        let reason = match error.kind() {
            std::num::IntErrorKind::PosOverflow => "value out of range",
            _ => "invalid syntax",
        };
        return Err(Status::unexpected(format!("strconv.ParseUint: parsing {given:?}: {reason}")));
    }
    if given == meta::resource_version(old) { Ok(()) } else { Err(resource.modified(&endpoint.name)) }
}

/// Whether a change ends an object: its deletion has begun, and nothing holds it any longer.
fn is_over(endpoint: &Endpoint, new: &Value, old: &Value) -> bool {
    is_deleting(old)
        && meta::deletion_grace_period_seconds(old).unwrap_or(0) == 0
        && meta::finalizers(new).next().is_none()
        && !endpoint.resource.strategy.holds_deletion(new)
}
