//! Tables, which are what `kubectl get` shows.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::accept::{MetaVersion, TableObject};
use super::render::partial_metadata;
use crate::registry::{Column, Columns};

/// The metadata of a list or table.
#[derive(Clone, Debug, Default)]
pub(super) struct ListMeta {
    pub(super) resource_version: String,
    pub(super) continuation: String,
    pub(super) remaining: Option<usize>,
    /// Whether an empty continuation is shown too.
    pub(super) shows_empty: bool,
}

impl ListMeta {
    pub(super) fn to_value(&self) -> Value {
        let mut meta = Map::new();
        if self.shows_empty || !self.continuation.is_empty() {
            meta.insert("continue".into(), self.continuation.as_str().into());
        }
        if let Some(remaining) = self.remaining {
            meta.insert("remainingItemCount".into(), remaining.into());
        }
        meta.insert("resourceVersion".into(), self.resource_version.as_str().into());
        Value::Object(meta)
    }
}

/// Whether a table says what its columns are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Headers {
    Shown,
    Omitted,
}

pub(super) fn table<'a>(
    columns: &Columns,
    version: MetaVersion,
    include: TableObject,
    meta: &ListMeta,
    headers: Headers,
    objects: impl IntoIterator<Item = &'a Value>,
    now: Timestamp,
) -> Value {
    let definitions: Vec<Value> = match headers {
        Headers::Shown => columns.columns.iter().map(definition).collect(),
        Headers::Omitted => Vec::new(),
    };
    let rows: Vec<Value> =
        objects.into_iter().map(|object| row(columns, version, include, object, now)).collect();
    let definitions = if headers == Headers::Shown { Value::Array(definitions) } else { Value::Null };
    json!({
        "apiVersion": version.api_version(),
        "columnDefinitions": definitions,
        "kind": "Table",
        "metadata": meta.to_value(),
        "rows": rows,
    })
}

fn definition(column: &Column) -> Value {
    json!({
        "name": column.name,
        "type": column.kind,
        "format": column.format.as_str(),
        "description": column.description,
        "priority": column.priority,
    })
}

fn row(
    columns: &Columns,
    version: MetaVersion,
    include: TableObject,
    object: &Value,
    now: Timestamp,
) -> Value {
    let object_shown = match include {
        TableObject::None => Value::Null,
        TableObject::Metadata => partial_metadata(object, version),
        TableObject::Object => object.clone(),
    };
    json!({"cells": columns.cells(object, now), "object": object_shown})
}
