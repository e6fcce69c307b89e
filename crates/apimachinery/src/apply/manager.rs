//! The two ways to write an object.

use std::borrow::Cow;
use std::sync::LazyLock;

use apischema::Schema;
use serde_json::{Map, Value, json};

use super::managed::{self, Manager, Managers, Operation, Owned};
use super::merge::merge;
use super::order;
use super::path::Path;
use super::set::FieldSet;
use super::to_set::applied_fields;
use super::types::Type;
use super::updater::{Change, Conflict, bring_up_to_date, prune, settle};
use super::validate::validate;
use super::versions::KnownVersions;
use super::{ApplyError, Force, Write};
use crate::meta;

/// Fields that nobody owns, as they are the server's or say what the object is.
static UNOWNED: LazyLock<FieldSet<'static>> = LazyLock::new(|| {
    const METADATA: [&str; 9] = [
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    ];
    let top = ["apiVersion", "kind", "metadata"].into_iter().map(|name| Path::of_fields(&[name]));
    FieldSet::of(top.chain(METADATA.into_iter().map(|name| Path::of_fields(&["metadata", name]))))
});

/// Who owned what when the first configuration was applied.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

fn versions<'a>(schema: &'a Schema, write: &Write<'a>) -> KnownVersions<'a> {
    KnownVersions { api_version: write.api_version, schema, others: write.versions }
}

/// The managed fields after an update; null if nobody manages any. `sent` are those that the client sent.
pub(super) fn update(
    live: Option<&Value>,
    new: &Value,
    sent: Option<&Value>,
    schema: &Schema,
    write: &Write<'_>,
) -> Value {
    let mut managers = current_managers(live, sent, write);
    // An object that nobody manages is not managed before a configuration is applied to it.
    if managers.is_empty() && live.is_some_and(|live| !meta::uid(live).is_empty()) {
        return Value::Null;
    }
    let versions = versions(schema, write);
    let nothing;
    let old = match live.or(write.empty) {
        Some(old) => old,
        None => {
            nothing = Value::Object(Map::new());
            &nothing
        }
    };
    let changed = if managers.is_empty() {
        // A create: there is nobody to take anything from.
        Change::between(old, new, versions.own(), write.reset_fields).changed
    } else {
        bring_up_to_date(&mut managers, versions);
        match settle(&mut managers, None, old, new, versions, write.reset_fields, true) {
            Ok(change) => change.changed,
            // Only a write that is not forced conflicts.
            Err(_) => FieldSet::new(),
        }
    };
    let name = if write.manager.is_empty() { "unknown" } else { write.manager };
    own_by_update(&mut managers, name, changed, write);
    managed::cap_updaters(&mut managers);
    managed::encode(&managers)
}

/// Whose the object is before an update: as the client says, or else as the stored object says.
fn current_managers<'a>(live: Option<&'a Value>, sent: Option<&'a Value>, write: &Write<'_>) -> Managers<'a> {
    let entries = |entries: Option<&'a Vec<Value>>| entries.map(Vec::as_slice).unwrap_or_default();
    let stored = || managed::decode(entries(live.and_then(meta::managed_fields))).unwrap_or_default();
    // On a subresource nobody can change them.
    if !write.subresource.is_empty() {
        return stored();
    }
    let sent = sent.and_then(Value::as_array);
    if managed::is_reset(sent) {
        return Managers::new();
    }
    match managed::decode(entries(sent)) {
        Ok(managers) if !managers.is_empty() => managers,
        // A client that does not know them must not delete them by accident.
        _ => stored(),
    }
}

/// Gives fields to who updated them, beside what he owned before.
fn own_by_update<'a>(managers: &mut Managers<'a>, name: &'a str, changed: FieldSet<'a>, write: &Write<'a>) {
    let changed = changed.difference(&UNOWNED);
    if changed.is_empty() {
        return;
    }
    let manager = Manager::new(name, Operation::Update, write.api_version, write.subresource);
    let now = Some(Cow::Borrowed(write.now));
    match managers.get_mut(&manager) {
        Some(owned) => {
            let set = changed.union(std::mem::take(&mut owned.set));
            *owned = Owned::new(set, write.api_version, now);
        }
        None => {
            managers.insert(manager, Owned::new(changed, write.api_version, now));
        }
    }
}

/// Why a configuration is not applied: the conflicts are sorted out by whoever called.
pub(super) enum Refusal {
    Conflicts(Vec<Conflict>),
    Error(ApplyError),
}

/// Applies a configuration. The result has its managed fields.
pub(super) fn apply(
    live: Option<&Value>,
    applied: &Value,
    schema: &Schema,
    kind: &str,
    write: &Write<'_>,
    force: Force,
) -> Result<Value, Refusal> {
    check_kind(applied, kind, write).map_err(Refusal::Error)?;
    let versions = versions(schema, write);
    let entries = live.and_then(meta::managed_fields).map(Vec::as_slice).unwrap_or_default();
    let unmergeable = |message| Refusal::Error(ApplyError::Unmergeable(message));
    let mut managers = managed::decode(entries)
        .map_err(|why| unmergeable(format!("failed to decode managed fields: {why}")))?;

    let empty = json!({"apiVersion": write.api_version, "kind": kind});
    if managers.is_empty() {
        // Until now nobody kept track: whatever is there was there before.
        let before = write.empty.unwrap_or(&empty);
        let change = live.map(|live| Change::between(before, live, versions.own(), write.reset_fields));
        let changed = change.map(|change| change.changed).unwrap_or_default();
        own_by_update(&mut managers, BEFORE_FIRST_APPLY, changed, write);
    }
    validate(applied, versions.own()).map_err(|why| {
        unmergeable(format!("failed to create typed patch object ({}): {why}", subject(applied)))
    })?;
    bring_up_to_date(&mut managers, versions);

    let live = live.unwrap_or(&empty);
    let (merged, changed) = merge_and_own(live, applied, &mut managers, versions, write, force)?;
    let manager = Manager::new(write.manager, Operation::Apply, write.api_version, write.subresource);
    if let Some(owned) = managers.get_mut(&manager) {
        owned.lose(&UNOWNED);
        if changed {
            owned.time = Some(Cow::Borrowed(write.now));
        }
        if owned.set.is_empty() {
            managers.remove(&manager);
        }
    }
    let mut result = merged;
    meta::set(&mut result, "managedFields", managed::encode(&managers));
    Ok(result)
}

/// Merges, prunes, and settles who owns what. Returns the new object, and whether it differs from the live one.
fn merge_and_own<'a>(
    live: &Value,
    applied: &'a Value,
    managers: &mut Managers<'a>,
    versions: KnownVersions<'a>,
    write: &Write<'a>,
    force: Force,
) -> Result<(Value, bool), Refusal> {
    let own: Type<'a> = versions.own();
    let merged = merge(live, applied, own);
    let mut set = applied_fields(applied, own);
    if let Some(ignored) = write.reset_fields {
        set = set.recursive_difference(ignored);
    }
    let manager = Manager::new(write.manager, Operation::Apply, write.api_version, write.subresource);
    let last = managers.remove(&manager);
    let time = last.as_ref().and_then(|last| last.time.clone());
    managers.insert(manager.clone(), Owned::new(set, write.api_version, time));
    let merged = match &last {
        Some(last) => prune(merged, managers, &last.set, &last.api_version, versions),
        None => merged,
    };
    let forced = force == Force::Yes;
    settle(managers, Some(&manager), live, &merged, versions, write.reset_fields, forced)
        .map_err(Refusal::Conflicts)?;
    let changed = !order::equal(live, &merged);
    Ok((merged, changed))
}

fn check_kind(applied: &Value, kind: &str, write: &Write<'_>) -> Result<(), ApplyError> {
    let (api_version, applied_kind) = (meta::api_version(applied), meta::kind(applied));
    if api_version != write.api_version || applied_kind != kind {
        let message = format!("invalid object type: {}", group_version_kind(applied));
        return Err(ApplyError::BadRequest(message));
    }
    if meta::managed_fields(applied).is_some() {
        return Err(ApplyError::BadRequest("metadata.managedFields must be nil".to_owned()));
    }
    Ok(())
}

fn group_version_kind(object: &Value) -> crate::group::GroupVersionKind {
    let version = crate::group::GroupVersion::parse(meta::api_version(object)).unwrap_or_default();
    version.with_kind(meta::kind(object))
}

/// The object that an error is about.
fn subject(object: &Value) -> String {
    format!("{}/{}; {}", meta::namespace(object), meta::name(object), group_version_kind(object))
}
