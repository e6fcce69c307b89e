//! The values that fields may have. They are not in the OpenAPI documents that Kubernetes keeps,
//! but in the Go code that the server makes its own documents from.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Context;
use serde_json::{Value, json};

const FILE: &str = "pkg/generated/openapi/zz_generated.openapi.go";
// The code is written by a generator, so what a line is about can be told by how far it is indented.
const PROPERTY: &str = "\t\t\t\t\t";
const OF_PROPERTY: &str = "\t\t\t\t\t\t\t";
const OF_ITEMS: &str = "\t\t\t\t\t\t\t\t\t\t";

/// By type and field: keywords of the field's schema.
pub(super) type Enumerations = BTreeMap<String, BTreeMap<String, Value>>;

pub(super) fn read(source: &Path) -> anyhow::Result<Enumerations> {
    let path = source.join(FILE);
    let code = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    parse(&code).with_context(|| path.display().to_string())
}

fn parse(code: &str) -> anyhow::Result<Enumerations> {
    let mut names = BTreeMap::new();
    let mut found = Enumerations::new();
    let (mut type_name, mut property) = ("", "");
    for line in code.lines() {
        // "k8s.io/api/core/v1.Container": schema_k8sio_api_core_v1_Container(ref),
        if let Some((name, function)) = line.trim().split_once("\":")
            && let Some(function) = function.trim().strip_prefix("schema_")
            && let Some(function) = function.strip_suffix("(ref),")
        {
            names.insert(function, component_name(name.trim_matches('"')));
        } else if let Some(function) = line.strip_prefix("func schema_") {
            type_name = function.split('(').next().unwrap_or_default();
        } else if let Some(name) = within(line, PROPERTY).and_then(|line| line.strip_suffix(": {")) {
            property = name.trim_matches('"');
        } else if let Some(values) = within(line, OF_PROPERTY).and_then(|line| value(line, ENUM)) {
            let keywords = json!({"enum": list(values)?});
            found.entry(type_name.into()).or_default().insert(property.into(), keywords);
        } else if let Some(values) = within(line, OF_ITEMS).and_then(|line| value(line, ENUM)) {
            let keywords = json!({"items": {"enum": list(values)?}});
            found.entry(type_name.into()).or_default().insert(property.into(), keywords);
        }
    }
    let named =
        found.into_iter().filter_map(|(function, fields)| Some((names.get(&*function)?.clone(), fields)));
    Ok(named.collect())
}

const ENUM: &str = "Enum:";

/// A line that is indented this far.
fn within<'a>(line: &'a str, indentation: &str) -> Option<&'a str> {
    line.strip_prefix(indentation).filter(|line| !line.starts_with('\t'))
}

fn value<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.strip_prefix(name).map(|value| value.trim().trim_end_matches(','))
}

fn list(values: &str) -> anyhow::Result<Value> {
    let inner = values.strip_prefix("[]interface{}{").and_then(|values| values.strip_suffix('}'));
    let inner = inner.with_context(|| values.to_owned())?;
    serde_json::from_str(&format!("[{inner}]")).with_context(|| values.to_owned())
}

/// `k8s.io/api/core/v1.Container` is called `io.k8s.api.core.v1.Container`.
fn component_name(go: &str) -> String {
    let (host, path) = go.split_once('/').unwrap_or(("", go));
    let reversed: Vec<&str> = host.rsplit('.').collect();
    format!("{}.{}", reversed.join("."), path.replace('/', "."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_fields_and_of_lists_are_found() {
        let code = "
		\"k8s.io/api/core/v1.A\":    schema_k8sio_api_core_v1_A(ref),
func schema_k8sio_api_core_v1_A(ref common.ReferenceCallback) common.OpenAPIDefinition {
					\"plain\": {
					\"one\": {
							Enum:        []interface{}{\"X\", \"Y\"},
					\"many\": {
										Enum:    []interface{}{\"Z\"},
";
        let expected = json!({"io.k8s.api.core.v1.A": {
            "many": {"items": {"enum": ["Z"]}},
            "one": {"enum": ["X", "Y"]},
        }});
        assert_eq!(json!(parse(code).unwrap()), expected);
    }
}
