//! What holds for every schema and every object.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

use std::sync::Arc;

use apischema::{
    CompiledSchema, Schema, StatusSubresource, core, decode_error, default, prune, structural_errors,
    validate,
};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

const NAMES: &[&str] = &["a", "b", "c", "spec", "metadata", "kind", "apiVersion", "x-y"];

fn name() -> impl Strategy<Value = String> {
    proptest::sample::select(NAMES).prop_map(str::to_owned)
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-10_i64..10).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-c]{0,3}".prop_map(Value::from),
        ".{0,6}".prop_map(Value::from),
        proptest::sample::select(&["10.0.0.1", "2024-01-01T00:00:00Z", "1h", "YQ=="][..])
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            proptest::collection::btree_map(name(), inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// Schemas of all shapes, structural or not.
fn schema() -> impl Strategy<Value = Value> {
    let limits = proptest::sample::select(
        &[
            ("maxLength", "1"),
            ("minLength", "1"),
            ("maximum", "3"),
            ("multipleOf", "2"),
            ("maxItems", "1"),
            ("minProperties", "1"),
            ("pattern", "\"^a\""),
            ("enum", "[\"a\", 1, null]"),
            ("format", "\"date-time\""),
            ("format", "\"ipv4\""),
            ("nullable", "true"),
            ("uniqueItems", "true"),
            ("required", "[\"a\"]"),
            ("default", "{}"),
            ("default", "\"a\""),
            ("default", "[null]"),
            ("x-kubernetes-preserve-unknown-fields", "true"),
            ("x-kubernetes-embedded-resource", "true"),
            ("x-kubernetes-int-or-string", "true"),
            ("x-kubernetes-list-type", "\"set\""),
            ("x-kubernetes-validations", "[{\"rule\": \"self == oldSelf\"}, {\"rule\": \"has(self.a)\"}]"),
            ("anyOf", "[{\"required\": [\"a\"]}, {\"maxLength\": 1}]"),
            ("oneOf", "[{\"minimum\": 1}, {\"minLength\": 1}]"),
            ("not", "{\"enum\": [1]}"),
        ][..],
    );
    let kind =
        proptest::sample::select(&["", "string", "integer", "number", "boolean", "object", "array"][..]);
    let leaf = (kind, proptest::collection::vec(limits, 0..4)).prop_map(|(kind, limits)| {
        let mut fields = Map::new();
        if !kind.is_empty() {
            fields.insert("type".to_owned(), kind.into());
        }
        for (keyword, value) in limits {
            fields.insert(keyword.to_owned(), serde_json::from_str(value).unwrap());
        }
        Value::Object(fields)
    });
    leaf.prop_recursive(4, 24, 4, |inner| {
        let object = (proptest::collection::btree_map(name(), inner.clone(), 0..4), any::<bool>()).prop_map(
            |(properties, preserve)| {
                let mut schema = json!({"type": "object", "properties": properties});
                if preserve {
                    schema["x-kubernetes-preserve-unknown-fields"] = true.into();
                }
                schema
            },
        );
        prop_oneof![
            object,
            inner.clone().prop_map(|items| json!({"type": "array", "items": items})),
            inner.clone().prop_map(|values| json!({"type": "object", "additionalProperties": values})),
            Just(json!({"type": "object", "additionalProperties": true})),
            (inner.clone(), inner).prop_map(|(a, b)| json!({"type": "object", "allOf": [a, b]})),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn a_schema_survives_the_way_there_and_back(json in schema()) {
        let schema = Schema::from_json(&json).unwrap();
        prop_assert_eq!(Schema::from_json(&schema.to_json()).unwrap(), schema);
    }

    #[test]
    fn whatever_is_checked_nothing_breaks(json in schema(), object in json_value(), old in json_value()) {
        let _ = structural_errors(&json, "s", StatusSubresource::Enabled);
        let schema = Arc::new(Schema::from_json(&json).unwrap());
        let compiled = CompiledSchema::new(schema.clone());
        let mut object = object;
        let _ = decode_error(&object, &schema);
        prune(&mut object, &schema);
        default(&mut object, &schema);
        for old in [None, Some(&old), Some(&object)] {
            for error in validate(&object, old, &schema).iter().chain(&compiled.validate(&object, old)) {
                prop_assert!(!error.to_string().is_empty());
                prop_assert!(error.reason().starts_with("FieldValue"));
            }
        }
        let _ = compiled.validate_status(&object, &old);
    }

    #[test]
    fn pruning_twice_is_pruning_once(json in schema(), object in json_value()) {
        let schema = Schema::from_json(&json).unwrap();
        let mut object = object;
        prune(&mut object, &schema);
        let once = object.clone();
        prop_assert_eq!(prune(&mut object, &schema), Vec::<String>::new());
        prop_assert_eq!(object, once);
    }

    #[test]
    fn pruning_names_what_it_drops(json in schema(), object in json_value()) {
        let schema = Schema::from_json(&json).unwrap();
        let mut pruned = object.clone();
        let dropped = prune(&mut pruned, &schema);
        prop_assert_eq!(dropped.is_empty(), pruned == object);
    }

    #[test]
    fn defaulting_twice_is_defaulting_once(json in schema(), object in json_value()) {
        let schema = Schema::from_json(&json).unwrap();
        let mut object = object;
        default(&mut object, &schema);
        let once = object.clone();
        default(&mut object, &schema);
        prop_assert_eq!(object, once);
    }

    #[test]
    fn what_is_valid_alone_is_valid_as_a_change(json in schema(), object in json_value(), old in json_value()) {
        let schema = Schema::from_json(&json).unwrap();
        if validate(&object, None, &schema).is_empty() {
            prop_assert_eq!(validate(&object, Some(&old), &schema), vec![]);
        }
    }

    #[test]
    fn core_kinds_take_anything(kind in proptest::sample::select(core::kinds()), object in json_value()) {
        let schema = core::schema(&kind.group, &kind.version, &kind.kind).unwrap();
        let mut object = json!({"spec": object.clone(), "status": object.clone(), "metadata": object.clone(), "data": object});
        let _ = core::decode_error(&kind.group, &kind.version, &kind.kind, &object);
        prune(&mut object, &schema);
        core::default(&kind.group, &kind.kind, &mut object);
        let once = object.clone();
        core::default(&kind.group, &kind.kind, &mut object);
        prop_assert_eq!(object, once);
    }

    #[test]
    fn no_expression_breaks_the_compiler(source in "[a-z0-9 .,:?!&|<>=+*/%'\"\\\\(){}\\[\\]_-]{0,40}") {
        let schema = json!({"type": "object", "x-kubernetes-validations": [{"rule": source}]});
        let _ = structural_errors(&schema, "s", StatusSubresource::Disabled);
    }
}
