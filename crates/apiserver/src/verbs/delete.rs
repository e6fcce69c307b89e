//! Deleting an object: at once, after a grace period, or when all finalizers are removed.

use apimachinery::{GroupResource, Status, meta};
use apistore::{Change, Entry, Expect, Outcome};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::create::decoded;
use super::metadata::{finalizers, is_deleting, set_finalizers, time};
use crate::admission::{Attributes, Operation};
use crate::api::Api;
use crate::context::Context;
use crate::endpoint::Endpoint;
use crate::options::{DeleteOptions, Propagation, WriteOptions};
use crate::registry::GarbageCollection;
use crate::storage::StoredObject;
use crate::verbs::{Answer, Content};

/// The finalizer that keeps an owner until it is removed from its dependents' owner references.
pub(crate) const ORPHAN: &str = "orphan";
/// The finalizer that keeps an owner until its dependents are deleted.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";

/// What a deletion does to the stored object.
#[derive(Debug)]
enum Deletion {
    /// The object is removed.
    Remove,
    /// The object is updated and then removed: watchers see that its grace period is over before it is deleted.
    UpdateAndRemove(Value),
    /// The object is updated, and remains until its finalizers are removed or its grace period is over.
    Update(Value),
    /// The object is being deleted already; nothing changes.
    Unchanged,
}

impl Api {
    /// Deletes an object, or begins to.
    pub async fn delete(
        &self,
        endpoint: &Endpoint,
        context: &Context,
        options: &DeleteOptions,
    ) -> Result<Answer, Status> {
        let (resource, name) = (&endpoint.resource, &endpoint.name);
        let key = endpoint.key(name);
        let write_options = WriteOptions { dry_run: options.dry_run, ..WriteOptions::default() };
        let mut begun: Option<(Value, StoredObject)> = None;
        loop {
            let got = self.storage().get(&key).await.map_err(|error| resource.store_failed(&error))?;
            let Some(entry) = got.entry else {
                // Whoever wrote it after this deletion had begun has completed the deletion.
                return match begun {
                    Some((old, stored)) => Ok(removed(endpoint, &old, stored)),
                    None => Err(resource.not_found(name)),
                };
            };
            let stored = StoredObject::from_entry(&entry).map_err(Status::internal_error)?;
            let old = endpoint.read(&stored)?;
            if let Some((before, stored)) = &begun
                && meta::uid(before) != meta::uid(&old)
            {
                // So has someone here, and another object has its name by now.
                return Ok(removed(endpoint, before, stored.clone()));
            }
            check_preconditions(endpoint, options, &old)?;
            let attributes = Attributes {
                operation: Operation::Delete,
                endpoint,
                name,
                context,
                old: Some(&old),
                options: &write_options,
            };
            self.admission().validate(self, attributes, None).await?;
            match self
                .write_deletion(endpoint, &entry, decide(endpoint, options, &old, context.now), options)
                .await?
            {
                Some(Written::Removed(stored)) => return Ok(removed(endpoint, &old, stored)),
                Some(Written::Remains(stored)) => return Ok(remains(options, stored)),
                Some(Written::Begun(stored)) => begun = Some((old, stored)),
                None => {}
            }
        }
    }

    /// Writes the deletion; absent if the object was written in between.
    async fn write_deletion(
        &self,
        endpoint: &Endpoint,
        entry: &Entry,
        deletion: Deletion,
        options: &DeleteOptions,
    ) -> Result<Option<Written>, Status> {
        let object = match deletion {
            Deletion::Remove => return self.remove(endpoint, entry, options).await,
            Deletion::Unchanged => {
                let stored = StoredObject::from_entry(entry).map_err(Status::internal_error)?;
                return Ok(Some(Written::Remains(stored)));
            }
            Deletion::UpdateAndRemove(ref object) | Deletion::Update(ref object) => object,
        };
        let raw = endpoint.write(object)?;
        let removes = matches!(deletion, Deletion::UpdateAndRemove(_));
        if options.dry_run || (raw == entry.value && !removes) {
            let stored = decoded(raw, entry.modified)?;
            return Ok(Some(if removes { Written::Removed(stored) } else { Written::Remains(stored) }));
        }
        let expect = Expect::Modified(entry.modified);
        let change = Change { key: entry.key.clone(), expect, value: Some(raw.clone()) };
        match self.storage().commit(change).await.map_err(|error| endpoint.resource.store_failed(&error))? {
            Outcome::Done(revision) if removes => {
                let noted = Entry { value: raw, modified: revision, ..entry.clone() };
                let begun = StoredObject::from_entry(&noted).map_err(Status::internal_error)?;
                let removed = self.remove(endpoint, &noted, options).await?;
                Ok(Some(removed.unwrap_or(Written::Begun(begun))))
            }
            Outcome::Done(revision) => Ok(Some(Written::Remains(decoded(raw, revision)?))),
            Outcome::Mismatch(_) => Ok(None),
        }
    }

    /// Removes the object from the store; absent if it was written in between.
    async fn remove(
        &self,
        endpoint: &Endpoint,
        entry: &Entry,
        options: &DeleteOptions,
    ) -> Result<Option<Written>, Status> {
        let stored = StoredObject::from_entry(entry).map_err(Status::internal_error)?;
        if options.dry_run {
            return Ok(Some(Written::Removed(stored)));
        }
        let change = Change { key: entry.key.clone(), expect: Expect::Modified(entry.modified), value: None };
        match self.storage().commit(change).await.map_err(|error| endpoint.resource.store_failed(&error))? {
            // A deleted object is shown with the resourceVersion of its deletion.
            Outcome::Done(revision) => Ok(Some(Written::Removed(stored.at(revision)))),
            Outcome::Mismatch(_) => Ok(None),
        }
    }
}

/// The stored object after a deletion.
enum Written {
    Removed(StoredObject),
    Remains(StoredObject),
    /// It was marked, and written or removed by someone else before it could be removed here.
    Begun(StoredObject),
}

fn removed(endpoint: &Endpoint, old: &Value, stored: StoredObject) -> Answer {
    if endpoint.resource.strategy.answers_with_deleted() {
        return Answer::ok(Content::Stored(stored));
    }
    let resource = &endpoint.resource;
    let status = Status::deleted(&resource.group_resource(), meta::name(old), meta::uid(old));
    Answer::ok(Content::Status(Box::new(status)))
}

fn remains(options: &DeleteOptions, stored: StoredObject) -> Answer {
    // Only with the deprecated `orphanDependents` does the code say that the deletion takes time.
    let code = if options.orphan_dependents == Some(false) {
        http::StatusCode::ACCEPTED
    } else {
        http::StatusCode::OK
    };
    Answer { code, content: Content::Stored(stored) }
}

fn check_preconditions(endpoint: &Endpoint, options: &DeleteOptions, old: &Value) -> Result<(), Status> {
    let resource = &endpoint.resource;
    // The kind stands where the plural should; clients know it so.
    let conflict = |why: String| {
        Err(Status::conflict(&GroupResource::new(&resource.group, &resource.kind), &endpoint.name, why))
    };
    if let Some(uid) = &options.preconditions.uid
        && uid != meta::uid(old)
    {
        return conflict(format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted \
             and then recreated",
            meta::uid(old)
        ));
    }
    if let Some(version) = &options.preconditions.resource_version
        && version != meta::resource_version(old)
    {
        return conflict(format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({}). The \
             object might have been modified",
            meta::resource_version(old)
        ));
    }
    Ok(())
}

/// Decides by the options, the finalizers, and the grace period of the kind.
fn decide(endpoint: &Endpoint, options: &DeleteOptions, old: &Value, now: Timestamp) -> Deletion {
    let strategy = &endpoint.resource.strategy;
    // A negative period means a second.
    let requested = options.grace_period_seconds.map(|seconds| if seconds < 0 { 1 } else { seconds });
    let mut object = old.clone();

    let mut graceful = None;
    if let Some(offered) = strategy.grace_period(old, requested) {
        if is_deleting(old) {
            let period = meta::deletion_grace_period_seconds(old).unwrap_or(0);
            if period > 0 {
                match requested {
                    // The period can only become shorter.
                    Some(shorter) if shorter < period => {
                        graceful = Some(shorten(&mut object, period, shorter, now));
                    }
                    _ => return Deletion::Unchanged,
                }
            }
        } else {
            let at = now.checked_add(SignedDuration::from_secs(offered)).unwrap_or(now);
            begin(&mut object, at, offered);
            strategy.deletion_begins(&mut object);
            graceful = Some(offered);
        }
    }

    // What the kind itself keeps is marked as being deleted once, and then waits.
    let held_by_kind = strategy.holds_deletion(&object);
    if held_by_kind && is_deleting(old) {
        return Deletion::Unchanged;
    }
    set_finalizers_by_policy(endpoint, options, &mut object);
    let held = !finalizers(&object).is_empty();
    match graceful {
        None if held_by_kind => {
            meta::set(&mut object, "deletionTimestamp", time(now));
            strategy.deletion_begins(&mut object);
            Deletion::Update(object)
        }
        None if held => {
            mark(&mut object, now);
            if !is_deleting(old) {
                strategy.deletion_begins(&mut object);
            }
            Deletion::Update(object)
        }
        None => Deletion::Remove,
        Some(period) if period > 0 || held => Deletion::Update(object),
        Some(_) => Deletion::UpdateAndRemove(object),
    }
}

/// Notes that the deletion has begun, or that there is no more time.
fn mark(object: &mut Value, now: Timestamp) {
    if !is_deleting(object) {
        return begin(object, now, 0);
    }
    let ends = meta::deletion_timestamp(object).and_then(|ends| ends.parse::<Timestamp>().ok());
    if ends.is_none_or(|ends| ends > now) {
        meta::set(object, "deletionTimestamp", time(now));
    }
    meta::set(object, "deletionGracePeriodSeconds", 0);
}

/// Notes that the deletion has begun. Whoever acts on the object's generation must see that.
fn begin(object: &mut Value, at: Timestamp, period: i64) {
    meta::set(object, "deletionTimestamp", time(at));
    meta::set(object, "deletionGracePeriodSeconds", period);
    let generation = meta::generation(object);
    if generation > 0 {
        meta::set_generation(object, generation.saturating_add(1));
    }
}

/// Moves the end of a deletion under way closer; not into the past. Returns the period.
fn shorten(object: &mut Value, old_period: i64, period: i64, now: Timestamp) -> i64 {
    let ends: Timestamp = meta::deletion_timestamp(object).unwrap_or_default().parse().unwrap_or(now);
    let mut at =
        ends.checked_add(SignedDuration::from_secs(period.saturating_sub(old_period))).unwrap_or(now);
    let mut period = period;
    if at < now {
        at = now;
        // Whoever asked for grace gets the least there is, so that someone sees the object end.
        period = period.min(1);
    }
    meta::set(object, "deletionTimestamp", time(at));
    meta::set(object, "deletionGracePeriodSeconds", period);
    period
}

/// The garbage collector's finalizers follow from the options, else from what is there, else from the kind.
fn set_finalizers_by_policy(endpoint: &Endpoint, options: &DeleteOptions, object: &mut Value) {
    let policy = endpoint.resource.strategy.garbage_collection();
    if policy == GarbageCollection::Unsupported {
        return;
    }
    let old = finalizers(object);
    let has = |name: &str| old.iter().any(|finalizer| finalizer == name);
    let chosen = match (options.orphan_dependents, options.propagation) {
        (Some(true), _) | (None, Some(Propagation::Orphan)) => Some(ORPHAN),
        (Some(false), _) | (None, Some(Propagation::Background)) => None,
        (None, Some(Propagation::Foreground)) => Some(FOREGROUND),
        (None, None) if has(ORPHAN) => Some(ORPHAN),
        (None, None) if has(FOREGROUND) => Some(FOREGROUND),
        (None, None) => (policy == GarbageCollection::OrphanDependents).then_some(ORPHAN),
    };
    let mut new: Vec<String> =
        old.iter().filter(|finalizer| *finalizer != ORPHAN && *finalizer != FOREGROUND).cloned().collect();
    new.extend(chosen.map(String::from));
    if new.iter().any(|finalizer| !has(finalizer)) || new.len() != old.len() {
        set_finalizers(object, new);
    }
}
