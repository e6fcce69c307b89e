//! Who owns what after a write.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::Value;

use super::compare::compare;
use super::managed::{Manager, Managers};
use super::path::Path;
use super::reconcile::reconcile;
use super::remove::{remove, with_structs};
use super::set::FieldSet;
use super::to_set::applied_fields;
use super::types::Type;
use super::versions::KnownVersions;

/// A field that someone else owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Conflict {
    pub(super) manager: Manager<'static>,
    pub(super) path: Path<'static>,
}

/// What changed between two versions of an object, as fields of one version of the kind.
pub(super) struct Change<'v> {
    pub(super) changed: FieldSet<'v>,
    pub(super) removed: FieldSet<'v>,
}

impl<'v> Change<'v> {
    pub(super) fn between(
        old: &'v Value,
        new: &'v Value,
        kind: Type<'v>,
        ignored: Option<&FieldSet<'_>>,
    ) -> Self {
        let comparison = compare(old, new, kind).without(ignored);
        Change { changed: comparison.modified.union(comparison.added), removed: comparison.removed }
    }

    fn into_owned(self) -> Change<'static> {
        Change { changed: self.changed.into_owned(), removed: self.removed.into_owned() }
    }
}

/// Brings sets that are older than the schema up to date, and drops those of versions that the kind does not have any more.
pub(super) fn bring_up_to_date(managers: &mut Managers<'_>, versions: KnownVersions<'_>) {
    managers.retain(|_, owned| {
        let Some(kind) = versions.kind(&owned.api_version) else { return false };
        if let Some(current) = reconcile(&owned.set, kind) {
            owned.replace(current);
        }
        true
    });
}

/// Takes from all managers but the writer the fields that a write changed or removed. Returns the change at the version of the
/// request.
///
/// Unless it is forced, a write that changes what others own changes nothing, and returns what they own.
pub(super) fn settle<'v>(
    managers: &mut Managers<'_>,
    writer: Option<&Manager<'_>>,
    old: &'v Value,
    new: &'v Value,
    versions: KnownVersions<'v>,
    ignored: Option<&FieldSet<'_>>,
    force: bool,
) -> Result<Change<'v>, Vec<Conflict>> {
    let own = Change::between(old, new, versions.own(), ignored);
    let mut others: BTreeMap<Cow<'_, str>, Option<Change<'static>>> = BTreeMap::new();
    for (manager, owned) in managers.iter() {
        if Some(manager) != writer && owned.api_version != versions.api_version {
            others
                .entry(Cow::Owned(owned.api_version.to_string()))
                .or_insert_with(|| change_at(&owned.api_version, old, new, versions, ignored));
        }
    }
    let change = |api_version: &str| {
        if api_version == versions.api_version {
            return Some((&own.changed, &own.removed));
        }
        others.get(api_version)?.as_ref().map(|change| (&change.changed, &change.removed))
    };

    if !force {
        let mut conflicts = Vec::new();
        for (manager, owned) in managers.iter().filter(|(manager, _)| Some(*manager) != writer) {
            let Some((changed, _)) = change(&owned.api_version) else { continue };
            for path in owned.set.intersection(changed).paths() {
                let path = Path(path.0.into_iter().map(super::path::PathElement::into_owned).collect());
                conflicts.push(Conflict { manager: owned_manager(manager), path });
            }
        }
        if !conflicts.is_empty() {
            return Err(conflicts);
        }
    }
    managers.retain(|manager, owned| {
        if Some(manager) == writer {
            return !owned.set.is_empty();
        }
        let Some((changed, removed)) = change(&owned.api_version) else { return false };
        owned.lose(changed);
        owned.lose(removed);
        !owned.set.is_empty()
    });
    Ok(own)
}

fn change_at(
    api_version: &str,
    old: &Value,
    new: &Value,
    versions: KnownVersions<'_>,
    ignored: Option<&FieldSet<'_>>,
) -> Option<Change<'static>> {
    let kind = versions.kind(api_version)?;
    let old = versions.convert(old, api_version)?;
    let new = versions.convert(new, api_version)?;
    Some(Change::between(&old, &new, kind, ignored).into_owned())
}

fn owned_manager(manager: &Manager<'_>) -> Manager<'static> {
    Manager {
        name: Cow::Owned(manager.name.to_string()),
        operation: manager.operation,
        api_version: Cow::Owned(manager.api_version.to_string()),
        subresource: Cow::Owned(manager.subresource.to_string()),
    }
}

/// Takes out of a merged object what the applier applied last time and not this time, and nobody else owns.
pub(super) fn prune(
    merged: Value,
    managers: &Managers<'_>,
    last: &FieldSet<'_>,
    last_version: &str,
    versions: KnownVersions<'_>,
) -> Value {
    if last.is_empty() {
        return merged;
    }
    // What was applied at another version is pruned there.
    let (Some(kind), Some(converted)) =
        (versions.kind(last_version), versions.convert(&merged, last_version))
    else {
        return merged;
    };
    let last = with_structs(last.clone(), kind);
    let fields = applied_structs(&converted, kind);
    let pruned = remove(&converted, &last, kind);
    let pruned = add_back_owned(&converted, &fields, pruned, managers, last_version, versions);
    // Put back what the applier did not own.
    let gone = fields.difference(&applied_structs(&pruned, kind)).intersection(&last);
    let pruned = remove(&converted, &gone, kind);
    if last_version == versions.api_version {
        return pruned;
    }
    let back = versions.others.and_then(|others| others.convert(&pruned, versions.api_version));
    back.map_or(merged, Cow::into_owned)
}

/// Puts back what other managers own, or the applier with the new configuration. `fields` are those of the merged object.
fn add_back_owned(
    merged: &Value,
    fields: &FieldSet<'_>,
    mut pruned: Value,
    managers: &Managers<'_>,
    pruned_version: &str,
    versions: KnownVersions<'_>,
) -> Value {
    let mut by_version: BTreeMap<&str, Vec<&FieldSet<'_>>> = BTreeMap::new();
    for owned in managers.values() {
        by_version.entry(&owned.api_version).or_default().push(&owned.set);
    }
    // At the version at hand first: others may not convert what lost too much.
    if let (Some(owned), Some(kind)) = (by_version.remove(pruned_version), versions.kind(pruned_version)) {
        pruned = keep_owned(merged, fields.clone(), &pruned, &owned, kind);
    }
    let Some(others) = versions.others else { return pruned };
    for (api_version, owned) in by_version {
        let Some(kind) = versions.kind(api_version) else { continue };
        let (Some(merged), Some(there)) =
            (others.convert(merged, api_version), others.convert(&pruned, api_version))
        else {
            continue;
        };
        let kept = keep_owned(&merged, applied_structs(&merged, kind), &there, &owned, kind);
        if let Some(back) = others.convert(&kept, pruned_version) {
            pruned = back.into_owned();
        }
    }
    pruned
}

/// The merged object without what is neither in the pruned one nor owned.
fn keep_owned(
    merged: &Value,
    fields: FieldSet<'_>,
    pruned: &Value,
    owned: &[&FieldSet<'_>],
    kind: Type<'_>,
) -> Value {
    let gone = fields.difference(&applied_structs(pruned, kind));
    let gone =
        owned.iter().fold(gone, |gone, owned| gone.difference(&with_structs(FieldSet::clone(owned), kind)));
    remove(merged, &gone, kind)
}

/// The fields of a value, with the structs that hold them.
fn applied_structs<'v>(value: &'v Value, kind: Type<'v>) -> FieldSet<'v> {
    with_structs(applied_fields(value, kind), kind)
}
