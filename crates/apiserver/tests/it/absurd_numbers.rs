//! Every numeric field of every kind, with numbers that no arithmetic survives.

use apischema::{AdditionalProperties, Schema, Type};
use apiserver::registry::{Resource, Scope};
use http::Method;
use serde_json::{Map, Number, Value, json};

use crate::support::{TestServer, resources};

/// What is put into numeric fields.
fn numbers() -> Vec<Value> {
    let float = |number| Value::Number(Number::from_f64(number).unwrap());
    let texts = [
        "9223372036854775807",
        "-9223372036854775808",
        "2147483647",
        "-2147483648",
        "1e30E",
        "9999999999999999999E",
        "-1n",
    ];
    let mut values: Vec<Value> = [i64::MAX, i64::MIN, i64::from(i32::MAX), i64::from(i32::MIN), -1, 0]
        .into_iter()
        .map(Value::from)
        .collect();
    values.extend([Value::from(u64::MAX), float(1e308), float(-1e-308), float(0.5)]);
    values.extend(texts.into_iter().map(Value::from));
    values
}

/// An object of a schema in which everything that can be a number is this one.
fn filled(schema: &Schema, number: &Value, depth: usize) -> Value {
    if schema.int_or_string || schema.format == "int-or-string" {
        return number.clone();
    }
    let is_text = number.is_string();
    match schema.kind {
        Some(Type::Integer | Type::Number) if is_text => json!(1),
        Some(Type::Integer | Type::Number) => number.clone(),
        Some(Type::Boolean) => json!(true),
        Some(Type::String) if schema.format == "date-time" => json!("2026-01-01T00:00:00Z"),
        Some(Type::String) => json!("a"),
        Some(Type::Array) if depth == 0 => json!([]),
        Some(Type::Array) => match &schema.items {
            Some(items) => json!([filled(items, number, depth - 1)]),
            None => json!([]),
        },
        _ if depth == 0 => json!({}),
        _ => {
            let mut fields: Map<String, Value> = schema
                .properties
                .iter()
                .map(|(name, field)| (name.clone(), filled(field, number, depth - 1)))
                .collect();
            if let AdditionalProperties::Of(values) = &schema.additional {
                fields.insert("cpu".into(), filled(values, number, depth - 1));
            }
            Value::Object(fields)
        }
    }
}

fn path(resource: &Resource, version: &str) -> String {
    let base = if resource.group.is_empty() {
        format!("/api/{version}")
    } else {
        format!("/apis/{}/{version}", resource.group)
    };
    match resource.scope {
        Scope::Namespaced => format!("{base}/namespaces/default/{}", resource.plural),
        Scope::Cluster => format!("{base}/{}", resource.plural),
    }
}

#[tokio::test]
async fn absurd_numbers_in_any_field_of_any_kind_are_no_internal_errors() {
    let server = TestServer::start().await;
    let mut refused = 0;
    for resource in resources() {
        for version in &resource.versions {
            let Some(schema) = &version.schema else { continue };
            let path = path(&resource, &version.name);
            for (index, number) in numbers().iter().enumerate() {
                let mut object = filled(schema, number, 14);
                let name = format!("absurd-{index}");
                object["apiVersion"] = resource.api_version(&version.name).into();
                object["kind"] = resource.kind.clone().into();
                object["metadata"] = json!({"name": name});
                let reply = server.client.create(&path, &object).await;
                assert!(!reply.code.is_server_error(), "{path} with {number}: {reply:?}");
                refused += usize::from(reply.code.is_client_error());

                // In a patch of what exists, and so in the comparison with it.
                let headers = [("content-type", "application/merge-patch+json")];
                object.as_object_mut().unwrap().remove("metadata");
                let path = format!("{path}/{name}");
                let body = object.to_string().into_bytes();
                let reply = server.client.request(Method::PATCH, &path, &headers, body).await;
                assert!(!reply.code.is_server_error(), "{path} with {number}: {reply:?}");
            }
        }
    }
    assert!(refused > 100, "objects of most kinds make no sense so");
}
