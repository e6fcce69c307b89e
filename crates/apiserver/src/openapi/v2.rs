//! OpenAPI version 2: the same schemas in an older language, which knows neither alternatives nor null.

mod protobuf;

use serde_json::{Map, Value, json};

use super::descriptions::Descriptions;
use super::{paths, schemas, versions};
use crate::discovery::Group;

/// The media type of the document as protobuf.
pub(super) const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// Whether a client asks for protobuf. It does so in one of two ways.
pub(super) fn wants_protobuf(accept: &str) -> bool {
    accept.split(',').any(|clause| {
        let media_type = clause.split(';').next().unwrap_or_default().trim();
        media_type == PROTOBUF || media_type == "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    })
}

/// The document as protobuf.
pub(super) fn protobuf(groups: &[Group<'_>]) -> Vec<u8> {
    protobuf::encode(&document(groups))
}

/// The document.
pub(super) fn document(groups: &[Group<'_>]) -> Value {
    let descriptions = Descriptions::make();
    let (mut definitions, mut all_paths) = (Map::new(), Map::new());
    for version in versions(groups) {
        if let Value::Object(mut schemas) = schemas::schemas(version) {
            // What is there already came with another group.
            schemas.retain(|name, _| !definitions.contains_key(name));
            schemas::describe(&mut schemas, version, &descriptions);
            definitions.extend(schemas.into_iter().map(|(name, schema)| (name, definition(schema))));
        }
        if let Value::Object(paths) = paths::paths(version) {
            all_paths.extend(paths.into_iter().map(|(path, item)| (path, path_item(item))));
        }
    }
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": "unversioned"},
        "paths": all_paths,
        "definitions": definitions,
    })
}

/// A schema in the older language. What that cannot say is left open.
fn definition(schema: Value) -> Value {
    let Value::Object(mut schema) = schema else { return schema };
    if schema.get("format").is_some_and(|format| format == "int-or-string")
        || schema.contains_key("oneOf") && !schema.contains_key("properties") && !schema.contains_key("type")
    {
        // IntOrString and Quantity, which are written as text.
        schema.insert("type".into(), json!("string"));
    }
    // A reference that carries a description or a default.
    if let Some(Value::Array(all)) = schema.remove("allOf")
        && let [one] = all.as_slice()
        && let Some(reference) = one.get("$ref")
    {
        schema.insert("$ref".into(), reference.clone());
    }
    for keyword in ["anyOf", "not", "oneOf"] {
        schema.remove(keyword);
    }
    let is = |schema: &Map<String, Value>, keyword: &str| schema.get(keyword) == Some(&Value::Bool(true));
    let anything = is(&schema, "x-kubernetes-preserve-unknown-fields");
    if schema.remove("nullable") == Some(Value::Bool(true)) {
        schema.remove("type");
        schema.remove("items");
        schema.remove("properties");
    }
    // Clients take fields that are not named for wrong as soon as one is.
    if anything {
        schema.remove("items");
        schema.remove("properties");
        if schema.get("type").is_some_and(|is| is == "object") {
            schema.remove("type");
        }
    }
    if is(&schema, "x-kubernetes-int-or-string") {
        schema.remove("type");
    }
    if schema.get("type").is_some_and(|is| is == "array") && !schema.contains_key("items") {
        schema.remove("type");
    }
    if let Some(Value::String(reference)) = schema.get_mut("$ref") {
        *reference = reference.replace("#/components/schemas/", "#/definitions/");
    }
    for keyword in ["additionalProperties", "items"] {
        if let Some(inner) = schema.get_mut(keyword) {
            *inner = definition(inner.take());
        }
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.values_mut().for_each(|property| *property = definition(property.take()));
    }
    Value::Object(schema)
}

/// What can be asked at a path: bodies are parameters, and answers have one schema.
fn path_item(mut item: Value) -> Value {
    for operation in item.as_object_mut().into_iter().flat_map(Map::values_mut) {
        for parameter in operation["parameters"].as_array_mut().into_iter().flatten() {
            let schema = parameter["schema"].take();
            if let Value::Object(parameter) = parameter {
                parameter.remove("schema");
                parameter.extend(schema.as_object().cloned().unwrap_or_default());
            }
        }
        let Value::Object(operation) = operation else { continue };
        if let Some(body) = operation.remove("requestBody") {
            let content = body["content"].as_object().cloned().unwrap_or_default();
            let schema = content.values().next().map(|content| definition(content["schema"].clone()));
            let body = json!({"name": "body", "in": "body", "required": true, "schema": schema});
            operation.insert("consumes".into(), content.keys().cloned().collect());
            if let Some(Value::Array(parameters)) = operation.get_mut("parameters") {
                parameters.push(body);
            }
        }
        for answer in operation.get_mut("responses").and_then(Value::as_object_mut).into_iter().flatten() {
            let schema = answer.1["content"]["application/json"]["schema"].take();
            *answer.1 = json!({"description": answer.1["description"], "schema": definition(schema)});
        }
    }
    item
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_openapi_v2_cannot_express_is_left_out() {
        let cases = [
            (
                json!({"allOf": [{"$ref": "#/components/schemas/a"}], "default": {}, "description": "d"}),
                json!({"$ref": "#/definitions/a", "default": {}, "description": "d"}),
            ),
            (
                json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]}),
                json!({"format": "int-or-string", "type": "string"}),
            ),
            (json!({"oneOf": [{"type": "string"}, {"type": "number"}]}), json!({"type": "string"})),
            (json!({"type": "string", "nullable": true}), json!({})),
            (
                json!({"type": "object", "properties": {"a": {}}, "x-kubernetes-preserve-unknown-fields": true}),
                json!({"x-kubernetes-preserve-unknown-fields": true}),
            ),
            (
                json!({"type": "array", "items": {"$ref": "#/components/schemas/a"}}),
                json!({"type": "array", "items": {"$ref": "#/definitions/a"}}),
            ),
        ];
        for (schema, expected) in cases {
            assert_eq!(definition(schema), expected);
        }
    }

    #[test]
    fn both_media_types_of_protobuf_are_accepted() {
        assert!(wants_protobuf("application/com.github.proto-openapi.spec.v2@v1.0+protobuf"));
        assert!(wants_protobuf(&format!("{PROTOBUF};q=0.9, application/json")));
        assert!(!wants_protobuf("application/json, */*"));
    }
}
