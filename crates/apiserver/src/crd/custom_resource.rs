//! The resource that a definition defines.

mod columns;
mod mark;
mod strategy;

use std::sync::Arc;

use apischema::{CompiledSchema, Schema};
use serde_json::Value;

pub(crate) use columns::age;

use self::strategy::{CustomResourceStrategy, VersionBehaviour};
use super::definition::{Definition, DefinitionVersion, Scale, Spec};
use crate::discovery::version_priority;
use crate::registry::{Origin, Resource, ScalePaths, Scope, Subresource, Version};
use crate::request::Verb;
use crate::selection::SelectableField;

/// What can be done with custom resources, in the order in which discovery shows it.
const VERBS: [Verb; 8] = [
    Verb::Delete,
    Verb::DeleteCollection,
    Verb::Get,
    Verb::List,
    Verb::Patch,
    Verb::Create,
    Verb::Update,
    Verb::Watch,
];

/// The resource that a definition defines, under the names that were accepted.
pub(super) fn resource(definition: &Definition) -> Result<Resource, String> {
    let Definition { spec, status, .. } = definition;
    let names = &status.accepted_names;
    let mut ordered: Vec<&DefinitionVersion> = spec.versions.iter().collect();
    ordered.sort_by_key(|version| std::cmp::Reverse(version_priority(&version.name)));
    let storage_version = ordered.iter().position(|version| version.storage).ok_or("no version is stored")?;

    let mut versions = Vec::new();
    let mut behaviours = Vec::new();
    for version in &ordered {
        let schema = Arc::new(schema(spec, version)?);
        let api_version = format!("{}/{}", spec.group, version.name);
        let mark = mark::mark(&api_version, &schema);
        behaviours.push(VersionBehaviour {
            api_version,
            schema: CompiledSchema::new(schema.clone()),
            has_status: version.has_status(),
            scale: version.scale().map(scale_paths),
        });
        versions.push(Version {
            served: version.served,
            deprecation_warning: deprecation_warning(spec, version),
            schema: Some(schema),
            mark,
            columns: columns::columns(&version.additional_printer_columns),
            subresources: subresources(version),
            ..Version::new(&version.name)
        });
    }
    let scope = if spec.scope == "Namespaced" { Scope::Namespaced } else { Scope::Cluster };
    Ok(Resource {
        singular: names.singular.clone(),
        list_kind: names.list_kind.clone(),
        short_names: names.short_names.clone(),
        categories: names.categories.clone(),
        origin: Origin::Custom,
        verbs: VERBS.into(),
        versions,
        storage_version,
        selectable_fields: selectable_fields(&ordered),
        strategy: Arc::new(CustomResourceStrategy::new(behaviours)),
        ..Resource::new(&spec.group, "", &names.plural, &names.kind, scope)
    })
}

fn schema(spec: &Spec, version: &DefinitionVersion) -> Result<Schema, String> {
    let mut schema = match version.open_api_schema() {
        Some(schema) => Schema::from_json(schema).map_err(|error| error.to_string())?,
        None => Schema::default(),
    };
    schema.preserve_unknown_fields |= spec.preserve_unknown_fields;
    Ok(schema)
}

fn subresources(version: &DefinitionVersion) -> Vec<Subresource> {
    let status = version.has_status().then(Subresource::status);
    let scale = version.scale().map(|scale| Subresource::scale(scale_paths(scale)));
    status.into_iter().chain(scale).collect()
}

fn scale_paths(scale: &Scale) -> ScalePaths {
    ScalePaths {
        spec_replicas: scale.spec_replicas_path.clone(),
        status_replicas: scale.status_replicas_path.clone(),
        label_selector: scale.label_selector_path.clone().filter(|path| !path.is_empty()),
    }
}

/// The fields of all versions. Values are the same in all of them, since nothing but the version differs between them.
fn selectable_fields(versions: &[&DefinitionVersion]) -> Vec<SelectableField> {
    let mut fields: Vec<SelectableField> = Vec::new();
    for path in versions.iter().flat_map(|version| &version.selectable_fields).map(|field| &field.json_path) {
        let name = path.strip_prefix('.').unwrap_or(path);
        if !fields.iter().any(|field| &*field.name == name) {
            fields.push(SelectableField::at(name));
        }
    }
    fields
}

fn deprecation_warning(spec: &Spec, version: &DefinitionVersion) -> Option<String> {
    if !version.deprecated {
        return None;
    }
    if let Some(warning) = &version.deprecation_warning {
        return Some(warning.clone());
    }
    let (group, kind) = (&spec.group, &spec.names.kind);
    let mut warning = format!("{group}/{} {kind} is deprecated", version.name);
    let better =
        spec.versions.iter().filter(|other| other.served && !other.deprecated).map(|other| &*other.name);
    let better = better.filter(|other| version_priority(other) > version_priority(&version.name));
    if let Some(better) = better.max_by_key(|other| version_priority(other)) {
        warning.push_str(&format!("; use {group}/{better} {kind}"));
    }
    Some(warning)
}

/// The value at a path such as `.spec.replicas`, or what is in the way, as Go would say it.
fn nested<'a>(object: &'a Value, path: &str) -> Result<Option<&'a Value>, String> {
    let fields: Vec<&str> = path.strip_prefix('.').unwrap_or(path).split('.').collect();
    let mut value = object;
    for (index, field) in fields.iter().enumerate() {
        match value {
            Value::Null => return Ok(None),
            Value::Object(map) => match map.get(*field) {
                Some(inner) => value = inner,
                None => return Ok(None),
            },
            other => return Err(accessor_error(&fields[..=index], other, "map[string]interface {}")),
        }
    }
    Ok(Some(value))
}

fn accessor_error(fields: &[&str], value: &Value, expected: &str) -> String {
    let kind = match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    };
    let shown = match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    format!(".{} accessor error: {shown} is of the type {kind}, expected {expected}", fields.join("."))
}

#[cfg(test)]
mod tests;
