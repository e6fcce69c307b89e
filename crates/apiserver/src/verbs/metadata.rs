//! What the verbs read from and write to the metadata of objects, besides what [`apimachinery::meta`] has.

use apimachinery::meta;
use jiff::Timestamp;
use serde_json::Value;

/// Whether the deletion has begun.
pub(crate) fn is_deleting(object: &Value) -> bool {
    meta::deletion_timestamp(object).is_some()
}

/// The finalizers, to be changed.
pub(crate) fn finalizers(object: &Value) -> Vec<String> {
    meta::finalizers(object).map(String::from).collect()
}

/// Sets the finalizers; none at all leave no empty list.
pub(crate) fn set_finalizers(object: &mut Value, finalizers: Vec<String>) {
    let value = if finalizers.is_empty() { Value::Null } else { finalizers.into() };
    meta::set(object, "finalizers", value);
}

/// A time as Kubernetes writes it: whole seconds, UTC.
pub(crate) fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
