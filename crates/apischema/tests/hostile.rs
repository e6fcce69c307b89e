//! Input that means harm costs little.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

use std::sync::Arc;
use std::time::Duration;

use apischema::{CompiledSchema, Schema, StatusSubresource, default, prune, structural_errors, validate};
use serde_json::{Value, json};

/// Far more than any of these takes, and far less than what they would take if they were not stopped: time on a processor, so that a
/// busy machine changes nothing.
const LIMIT: Duration = Duration::from_secs(60);

fn cheaply<T>(work: impl FnOnce() -> T) -> T {
    let before = processor_time();
    let result = work();
    let spent = processor_time() - before;
    assert!(spent < LIMIT, "it took {spent:?}");
    result
}

/// For how long this thread has run.
fn processor_time() -> Duration {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(schedstat.split(' ').next().unwrap().parse().unwrap())
}

type Wrapper = fn(Value) -> Value;

fn object(name: &str, inner: Value) -> Value {
    Value::Object([(name.to_owned(), inner)].into_iter().collect())
}

#[test]
fn deep_schemas_are_refused() {
    let wrappers: &[(&str, Wrapper)] = &[
        ("properties", |schema| object("properties", object("a", schema))),
        ("items", |schema| object("items", schema)),
        ("not", |schema| object("not", schema)),
        ("allOf", |schema| object("allOf", Value::Array(vec![schema]))),
        ("anyOf", |schema| object("anyOf", Value::Array(vec![schema]))),
    ];
    for (keyword, wrap) in wrappers {
        let mut schema = json!({"maxLength": 1});
        for _ in 0..2_000 {
            schema = wrap(schema);
        }
        schema["type"] = "object".into();
        assert!(Schema::from_json(&schema).is_err(), "{keyword}");
        let errors = structural_errors(&schema, "s", StatusSubresource::Disabled);
        assert_eq!(errors.len(), 1, "{keyword}");
    }
}

#[test]
fn deep_values_are_walked_only_as_far_as_the_schema_goes() {
    let schema = Schema::from_json(&json!({"type": "object", "properties": {
        "a": {"type": "object", "additionalProperties": true}, "b": {"x-kubernetes-preserve-unknown-fields": true},
        "c": {"type": "array", "items": {"type": "array", "items": {"type": "string"}}},
    }}))
    .unwrap();
    let mut deep = json!("x");
    for _ in 0..100 {
        deep = json!([deep]);
    }
    let mut object = json!({"a": {"k": deep}, "b": deep, "c": deep});
    prune(&mut object, &schema);
    default(&mut object, &schema);
    assert!(!validate(&object, None, &schema).is_empty());
}

#[test]
fn regular_expressions_have_a_size() {
    for pattern in ["((a{1000}){1000}){1000}", "(a|b|c){100000}", "\\p{L}{5000}\\p{N}{5000}\\p{S}{5000}"] {
        let schema = json!({"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}});
        let errors = cheaply(|| structural_errors(&schema, "s", StatusSubresource::Disabled));
        assert_eq!(errors.len(), 1, "{pattern}");
        assert!(errors[0].detail.contains("must be a valid regular expression"), "{errors:?}");
        // One that got in all the same matches nothing.
        let schema = Schema::from_json(&schema).unwrap();
        assert_eq!(cheaply(|| validate(&json!({"a": "x"}), None, &schema)).len(), 1);
    }
    let backtracking =
        json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}});
    let schema = Schema::from_json(&backtracking).unwrap();
    let text = format!("{}!", "a".repeat(1_000_000));
    assert_eq!(cheaply(|| validate(&json!({"a": text}), None, &schema)).len(), 1);
}

#[test]
fn patterns_made_by_rules_have_a_size_and_a_price() {
    let schema = json!({"type": "object", "properties": {"p": {"type": "array", "items": {"type": "string"}}},
        "x-kubernetes-validations": [{"rule": "self.p.all(a, self.p.all(b, !a.matches(b)))", "message": "m"}]});
    let compiled = CompiledSchema::new(Arc::new(Schema::from_json(&schema).unwrap()));
    let patterns: Vec<String> =
        (0..2_000).map(|number| format!("({number}|a{{50}}){{50}}x{number}")).collect();
    let errors = cheaply(|| compiled.validate(&json!({"p": patterns}), None));
    assert_eq!(errors.len(), 1);
}

#[test]
fn many_errors_cost_what_they_are() {
    let schema = Schema::from_json(&json!({"type": "object", "properties": {
        "list": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
    }}))
    .unwrap();
    let object = json!({"list": vec![1; 100_000]});
    assert_eq!(cheaply(|| validate(&object, None, &schema)).len(), 100_000);
    let compiled = CompiledSchema::new(Arc::new(schema));
    let same: Value = json!({"list": vec!["x"; 100_000]});
    assert_eq!(cheaply(|| compiled.validate(&same, None)).len(), 1);
}

#[test]
fn choices_within_choices_do_not_multiply() {
    let mut schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    for _ in 0..60 {
        schema =
            json!({"type": "object", "anyOf": [schema.clone()], "properties": {"a": {"type": "integer"}}});
        schema["allOf"] = json!([{"required": ["b"]}]);
    }
    let schema = Schema::from_json(&schema).unwrap();
    assert!(!cheaply(|| validate(&json!({"a": true}), None, &schema)).is_empty());
}
