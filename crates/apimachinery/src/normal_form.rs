//! How Kubernetes writes objects of its own kinds.
//!
//! kube-apiserver reads an object into structs and writes it from them again. On the way, structs that a client left out appear
//! (`status: {}`), fields that are empty disappear (`hostNetwork: false`), and quantities and times take their one notation. What
//! is stored, shown and owned is the result. Custom resources stay as they are.
//!
//! Which fields of a type are always written, and which never when they are empty, is in `normal_form/types.json`. It is recorded
//! from the types themselves: their OpenAPI documents do not tell.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use apischema::{AdditionalProperties, Schema};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::time;

mod quantity;

/// How objects of one kind are written.
#[derive(Clone, Debug)]
pub struct NormalForm {
    schema: Arc<Schema>,
    empty: Value,
}

impl NormalForm {
    /// The form of a kind's objects.
    pub fn of(schema: &Arc<Schema>) -> Self {
        let mut empty = Value::Object(Map::new());
        complete(&mut empty, schema);
        NormalForm { schema: schema.clone(), empty }
    }

    /// What an object has before anything is set.
    pub fn empty(&self) -> &Value {
        &self.empty
    }

    /// Brings an object into the form. What is not of the type that the schema says is left alone.
    pub fn complete(&self, object: &mut Value) {
        complete(object, &self.schema);
    }
}

/// How the fields of a type are written.
#[derive(Debug, Default, Deserialize)]
struct Written {
    /// Written even if nothing is in them, with what is then written.
    #[serde(default)]
    always: HashMap<String, Value>,
    /// Not written if they are zero or empty.
    #[serde(default)]
    omitted: Vec<String>,
}

static TYPES: LazyLock<HashMap<String, Written>> = LazyLock::new(|| {
    serde_json::from_str(include_str!("normal_form/types.json"))
        .expect("invariant: the recorded file is JSON of this form; tests read it")
});

const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Time";
const MICRO_TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime";

fn complete(value: &mut Value, schema: &Schema) {
    match value {
        Value::Object(fields) if schema.properties.is_empty() => {
            if let AdditionalProperties::Of(field) = &schema.additional {
                fields.values_mut().for_each(|value| complete(value, field));
            }
        }
        Value::Object(fields) => complete_struct(fields, schema),
        Value::Array(items) => {
            if let Some(element) = &schema.items {
                items.iter_mut().for_each(|item| complete(item, element));
            }
        }
        Value::String(_) | Value::Number(_) => rewrite(value, schema),
        Value::Null | Value::Bool(_) => {}
    }
}

fn complete_struct(fields: &mut Map<String, Value>, schema: &Schema) {
    let written = schema.type_name.as_deref().and_then(|name| TYPES.get(name));
    fields.retain(|name, value| {
        let is_omitted = || written.is_some_and(|written| written.omitted.iter().any(|field| field == name));
        !(value.is_null() || is_zero(value) && is_omitted())
    });
    for (name, zero) in written.into_iter().flat_map(|written| &written.always) {
        if !fields.contains_key(name) {
            fields.insert(name.clone(), zero.clone());
        }
    }
    for (name, value) in fields {
        if let Some(field) = schema.properties.get(name) {
            complete(value, field);
        }
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(truth) => !truth,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

/// Gives values of a few types the notation that they are written in.
fn rewrite(value: &mut Value, schema: &Schema) {
    let rewritten = match (schema.type_name.as_deref(), &*value) {
        (Some(QUANTITY), Value::String(text)) => quantity::canonical(text),
        (Some(QUANTITY), Value::Number(number)) => quantity::canonical(&number.to_string()),
        (Some(TIME), Value::String(text)) => time::normal(text),
        (Some(MICRO_TIME), Value::String(text)) => time::normal_micro(text),
        _ => None,
    };
    if let Some(rewritten) = rewritten {
        *value = Value::String(rewritten);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod() -> NormalForm {
        NormalForm::of(&apischema::core::schema("", "v1", "Pod").unwrap())
    }

    #[test]
    fn every_recorded_type_is_one_that_there_is_a_schema_of() {
        assert!(TYPES.len() > 300);
        let documents = apischema::core::components().documents();
        assert_eq!(TYPES.keys().find(|name| !documents.contains_key(*name)), None);
        for kind in apischema::core::kinds() {
            let schema = apischema::core::schema(&kind.group, &kind.version, &kind.kind).unwrap();
            let form = NormalForm::of(&schema);
            let mut again = form.empty().clone();
            form.complete(&mut again);
            assert_eq!(again, *form.empty(), "{kind:?}");
        }
    }

    #[test]
    fn structs_appear_and_empty_fields_disappear() {
        let mut object =
            json!({"spec": {"hostNetwork": false, "containers": [{"name": "a", "args": [], "image": null}]}});
        pod().complete(&mut object);
        assert_eq!(
            object,
            json!({"metadata": {}, "spec": {"containers": [{"name": "a", "resources": {}}]}, "status": {}})
        );
        assert_eq!(pod().empty(), &json!({"metadata": {}, "spec": {"containers": null}, "status": {}}));
    }

    #[test]
    fn quantities_and_times_take_their_notation() {
        let mut object = json!({
            "metadata": {"creationTimestamp": "2024-01-01T01:00:00+01:00"},
            "spec": {"containers": [{"name": "a", "resources": {"limits": {"cpu": 0.5, "memory": "1024Mi", "x": "nonsense"}}}]}
        });
        pod().complete(&mut object);
        assert_eq!(object["metadata"]["creationTimestamp"], "2024-01-01T00:00:00Z");
        assert_eq!(
            object["spec"]["containers"][0]["resources"]["limits"],
            json!({"cpu": "500m", "memory": "1Gi", "x": "nonsense"})
        );
    }

    #[test]
    fn what_is_of_another_type_is_left_alone() {
        for odd in [json!(1), json!([1]), json!({"spec": "x", "metadata": [], "status": 5})] {
            let mut object = odd.clone();
            pod().complete(&mut object);
            assert_eq!(object, odd);
        }
    }
}
