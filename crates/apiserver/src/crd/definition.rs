//! A CustomResourceDefinition, read.

use std::collections::BTreeMap;

use apistore::Revision;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::condition::Condition;

/// What keeps a definition until all its objects are gone.
pub(super) const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// A CustomResourceDefinition, as far as the server acts on it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Definition {
    pub(super) metadata: Metadata,
    pub(super) spec: Spec,
    pub(super) status: State,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Metadata {
    pub(super) name: String,
    pub(super) resource_version: String,
    pub(super) deletion_timestamp: Option<String>,
    pub(super) finalizers: Vec<String>,
    pub(super) annotations: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Spec {
    pub(super) group: String,
    pub(super) names: Names,
    pub(super) scope: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) versions: Vec<DefinitionVersion>,
    pub(super) conversion: Option<Conversion>,
    pub(super) preserve_unknown_fields: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct State {
    #[serde(deserialize_with = "or_default")]
    pub(super) conditions: Vec<Condition>,
    pub(super) accepted_names: Names,
    #[serde(deserialize_with = "or_default")]
    pub(super) stored_versions: Vec<String>,
}

/// What a resource is called. The plural and the kind are written even if they are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Names {
    pub(super) plural: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) singular: String,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub(super) short_names: Vec<String>,
    pub(super) kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) list_kind: String,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub(super) categories: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct DefinitionVersion {
    pub(super) name: String,
    pub(super) served: bool,
    pub(super) storage: bool,
    pub(super) deprecated: bool,
    pub(super) deprecation_warning: Option<String>,
    pub(super) schema: Option<SchemaField>,
    pub(super) subresources: Option<Subresources>,
    #[serde(deserialize_with = "or_default")]
    pub(super) additional_printer_columns: Vec<ColumnDefinition>,
    #[serde(deserialize_with = "or_default")]
    pub(super) selectable_fields: Vec<SelectableFieldDefinition>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct SchemaField {
    #[serde(rename = "openAPIV3Schema")]
    pub(super) open_api: Option<Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Subresources {
    pub(super) status: Option<Value>,
    pub(super) scale: Option<Scale>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Scale {
    pub(super) spec_replicas_path: String,
    pub(super) status_replicas_path: String,
    pub(super) label_selector_path: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ColumnDefinition {
    pub(super) name: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) format: String,
    pub(super) description: String,
    pub(super) priority: i32,
    pub(super) json_path: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct SelectableFieldDefinition {
    pub(super) json_path: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Conversion {
    pub(super) strategy: String,
    pub(super) webhook: Option<Value>,
}

impl Definition {
    /// Reads an object.
    pub(super) fn read(object: &Value) -> Result<Definition, serde_json::Error> {
        Definition::deserialize(object)
    }

    /// The change that made it what it is.
    pub(super) fn revision(&self) -> Revision {
        Revision(self.metadata.resource_version.parse().unwrap_or(0))
    }

    /// Whether its deletion has begun.
    pub(super) fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Whether its objects have yet to be deleted before it is.
    pub(super) fn awaits_cleanup(&self) -> bool {
        self.is_deleting() && self.metadata.finalizers.iter().any(|finalizer| finalizer == CLEANUP_FINALIZER)
    }

    /// Whether a condition is there and true.
    pub(super) fn is(&self, kind: &str) -> bool {
        self.status.conditions.iter().any(|condition| condition.kind == kind && condition.status == "True")
    }
}

impl Spec {
    /// What is the same in all versions: kube-apiserver moves that out of them, and calls it so in errors.
    pub(super) fn shared<T: PartialEq>(&self, of: impl Fn(&DefinitionVersion) -> &T) -> Option<&T> {
        let first = of(self.versions.first()?);
        self.versions.iter().all(|version| of(version) == first).then_some(first)
    }
}

impl DefinitionVersion {
    /// The schema, if there is one.
    pub(super) fn open_api_schema(&self) -> Option<&Value> {
        self.schema.as_ref()?.open_api.as_ref()
    }

    /// Whether there is a status that is written by itself.
    pub(super) fn has_status(&self) -> bool {
        self.subresources.as_ref().is_some_and(|subresources| subresources.status.is_some())
    }

    /// Where the replicas are, if objects can be scaled.
    pub(super) fn scale(&self) -> Option<&Scale> {
        self.subresources.as_ref()?.scale.as_ref()
    }
}

/// What JSON has as `null`, Kubernetes takes as absent.
fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
