#![allow(clippy::needless_pass_by_value, reason = "cases read better without references")]

use serde_json::{Value, json};

use super::*;

#[track_caller]
fn errors(schema: &Value, new: &Value, old: Option<&Value>) -> Vec<String> {
    let schema = Schema::from_json(schema).unwrap();
    validate(new, old, &schema).iter().map(ToString::to_string).collect()
}

/// Checks `x` in the place of `spec.x`.
#[track_caller]
fn check(x: Value, value: Value, expected: &[&str]) {
    let schema =
        json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"x": x}}}});
    assert_eq!(errors(&schema, &json!({"spec": {"x": value}}), None), expected);
}

#[test]
fn wrong_types_are_named() {
    check(
        json!({"type": "integer"}),
        json!("a"),
        &[r#"spec.x: Invalid value: "string": spec.x in body must be of type integer: "string""#],
    );
    check(
        json!({"type": "string"}),
        json!(3),
        &[r#"spec.x: Invalid value: "integer": spec.x in body must be of type string: "integer""#],
    );
    check(
        json!({"type": "object"}),
        json!([]),
        &[r#"spec.x: Invalid value: "array": spec.x in body must be of type object: "array""#],
    );
    check(
        json!({"type": "boolean"}),
        Value::Null,
        &[r#"spec.x: Invalid value: "null": spec.x in body must be of type boolean: "null""#],
    );
    check(json!({"type": "boolean", "nullable": true}), Value::Null, &[]);
    check(json!({"type": "integer"}), json!(3.0), &[]);
    check(json!({"type": "number"}), json!(3), &[]);
    check(
        json!({"type": "integer"}),
        json!(3.5),
        &[r#"spec.x: Invalid value: "number": spec.x in body must be of type integer: "number""#],
    );
    check(json!({"x-kubernetes-int-or-string": true}), json!("a"), &[]);
    check(json!({"x-kubernetes-int-or-string": true}), json!(1), &[]);
    check(
        json!({"x-kubernetes-int-or-string": true}),
        json!(true),
        &[r#"spec.x: Invalid value: "boolean": spec.x in body must be of type integer,string: "boolean""#],
    );
}

#[test]
fn formats_are_checked_and_integers_have_none() {
    check(
        json!({"type": "string", "format": "date-time"}),
        json!("x"),
        &[r#"spec.x: Invalid value: "x": spec.x in body must be of type date-time: "x""#],
    );
    check(json!({"type": "integer", "format": "int32"}), json!(5_000_000_000_i64), &[]);
    check(
        json!({"type": "string", "format": "date-time"}),
        json!(3),
        &[r#"spec.x: Invalid value: "int64": spec.x in body must be of type date-time: "int64""#],
    );
}

#[test]
fn limits_are_told_in_the_words_of_kubernetes() {
    check(
        json!({"type": "string", "maxLength": 2}),
        json!("äöü"),
        &["spec.x: Too long: may not be more than 2 bytes"],
    );
    check(json!({"type": "string", "maxLength": 3}), json!("äöü"), &[]);
    check(
        json!({"type": "string", "minLength": 2}),
        json!("a"),
        &[r#"spec.x: Invalid value: "a": spec.x in body should be at least 2 chars long"#],
    );
    check(
        json!({"type": "string", "pattern": "^b"}),
        json!("a"),
        &[r#"spec.x: Invalid value: "a": spec.x in body should match '^b'"#],
    );
    check(
        json!({"type": "integer", "minimum": 1}),
        json!(0),
        &["spec.x: Invalid value: 0: spec.x in body should be greater than or equal to 1"],
    );
    check(
        json!({"type": "integer", "maximum": 1, "exclusiveMaximum": true}),
        json!(1),
        &["spec.x: Invalid value: 1: spec.x in body should be less than 1"],
    );
    check(
        json!({"type": "number", "maximum": 1_000_000}),
        json!(1_000_000.5),
        &["spec.x: Invalid value: 1.0000005e+06: spec.x in body should be less than or equal to 1e+06"],
    );
    check(
        json!({"type": "integer", "multipleOf": 2}),
        json!(3),
        &["spec.x: Invalid value: 3: spec.x in body should be a multiple of 2"],
    );
    check(json!({"type": "number", "multipleOf": 0.1}), json!(0.3), &[]);
    check(
        json!({"type": "array", "items": {"type": "string"}, "minItems": 1}),
        json!([]),
        &["spec.x: Invalid value: 0: spec.x in body should have at least 1 items"],
    );
    check(
        json!({"type": "array", "items": {"type": "string"}, "maxItems": 1}),
        json!(["a", "b"]),
        &["spec.x: Too many: 2: must have at most 1 item"],
    );
    check(
        json!({"type": "array", "items": {"type": "string"}, "uniqueItems": true}),
        json!(["a", "a"]),
        &[r#"spec.x: Invalid value: "": spec.x in body shouldn't contain duplicates"#],
    );
    check(
        json!({"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 1}),
        json!({"a": "", "b": ""}),
        &["spec.x: Too many: 2: must have at most 1 item"],
    );
    check(
        json!({"type": "object", "minProperties": 1}),
        json!({}),
        &["spec.x: Invalid value: 0: spec.x in body should have at least 1 properties"],
    );
}

#[test]
fn what_is_required_or_not_supported_is_named() {
    check(
        json!({"type": "object", "required": ["b", "a"], "properties": {"a": {"type": "string"}}}),
        json!({}),
        &["spec.x.b: Required value", "spec.x.a: Required value"],
    );
    check(
        json!({"type": "string", "enum": ["a", "b"]}),
        json!("c"),
        &[r#"spec.x: Unsupported value: "c": supported values: "a", "b""#],
    );
    check(json!({"type": "integer", "enum": [1, 2]}), json!(2), &[]);
    check(
        json!({"type": "string", "nullable": true, "enum": ["a"]}),
        Value::Null,
        &[r#"spec.x: Unsupported value: null: supported values: "a""#],
    );
    let root = json!({"type": "object", "required": ["spec"]});
    assert_eq!(errors(&root, &json!({}), None), ["spec: Required value"]);
}

#[test]
fn places_in_lists_and_maps_are_named() {
    check(
        json!({"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}}),
        json!([{"a": "x"}, {"a": 1}]),
        &[r#"spec.x[1].a: Invalid value: "integer": spec.x[1].a in body must be of type string: "integer""#],
    );
    check(
        json!({"type": "object", "additionalProperties": {"type": "string"}}),
        json!({"k/l": 1}),
        &[r#"spec.x.k/l: Invalid value: "integer": spec.x.k/l in body must be of type string: "integer""#],
    );
}

#[test]
fn combinations_are_told_as_kubernetes_tells_them() {
    check(
        json!({"type": "integer", "anyOf": [{"maximum": 1}, {"minimum": 5}]}),
        json!(3),
        &[
            r#"<nil>: Invalid value: "": "spec.x" must validate at least one schema (anyOf)"#,
            "spec.x: Invalid value: 3: spec.x in body should be less than or equal to 1",
        ],
    );
    check(json!({"type": "integer", "anyOf": [{"maximum": 1}, {"minimum": 5}]}), json!(6), &[]);
    check(
        json!({"type": "integer", "oneOf": [{"maximum": 9}, {"minimum": 5}]}),
        json!(6),
        &[
            r#"<nil>: Invalid value: "": "spec.x" must validate one and only one schema (oneOf). Found 2 valid alternatives"#,
        ],
    );
    check(
        json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
               "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}),
        json!({}),
        &[
            r#"<nil>: Invalid value: "": "spec.x" must validate one and only one schema (oneOf). Found none valid"#,
            "spec.x.a: Required value",
        ],
    );
    check(
        json!({"type": "integer", "allOf": [{"maximum": 1}, {"maximum": 9}]}),
        json!(3),
        &[
            "spec.x: Invalid value: 3: spec.x in body should be less than or equal to 1",
            r#"<nil>: Invalid value: "": "spec.x" must validate all the schemas (allOf)"#,
        ],
    );
    check(
        json!({"type": "integer", "not": {"maximum": 4}}),
        json!(3),
        &[r#"<nil>: Invalid value: "": "spec.x" must not validate the schema (not)"#],
    );
    // Two branches want the same; it is said once.
    check(
        json!({"type": "object", "required": ["a"], "allOf": [{"required": ["a"]}]}),
        json!({}),
        &[
            "spec.x.a: Required value",
            r#"<nil>: Invalid value: "": "spec.x" must validate all the schemas (allOf). None validated"#,
        ],
    );
}

#[test]
fn what_was_wrong_and_has_not_changed_is_let_pass() {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "a": {"type": "string", "maxLength": 1},
        "b": {"type": "string"},
        "atomic": {"type": "array", "items": {"type": "string", "maxLength": 1}},
        "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "required": ["k"], "properties": {
                    "k": {"type": "string"}, "v": {"type": "string", "maxLength": 1}}}},
    }}}});
    let old = json!({"spec": {"a": "long", "b": "x", "map": [{"k": "1", "v": "long"}], "atomic": ["long"]}});
    let same = |spec: Value| errors(&schema, &json!({"spec": spec}), Some(&old));
    let none: [&str; 0] = [];
    assert_eq!(same(json!({"a": "long", "b": "changed"})), none);
    assert_eq!(same(json!({"a": "other", "b": "x"})), ["spec.a: Too long: may not be more than 1 byte"]);
    assert_eq!(same(json!({"map": [{"k": "0"}, {"k": "1", "v": "long"}]})), none);
    assert_eq!(
        same(json!({"map": [{"k": "2", "v": "long"}]})),
        ["spec.map[0].v: Too long: may not be more than 1 byte"]
    );
    assert_eq!(same(json!({"atomic": ["long"]})), none);
    assert_eq!(
        same(json!({"atomic": ["long", "b"]})),
        ["spec.atomic[0]: Too long: may not be more than 1 byte"]
    );
    assert_eq!(errors(&schema, &old, None).len(), 3);
}

#[test]
fn the_status_is_checked_as_if_it_were_alone() {
    let schema = Schema::from_json(&json!({
        "type": "object", "properties": {"replicas": {"type": "integer"}}, "anyOf": [{"required": ["x"]}],
    }))
    .unwrap();
    let errors = validate_at(Some("status"), &json!({"replicas": "a"}), None, &schema);
    let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        errors,
        [
            r#"status: Invalid value: "": "" must validate at least one schema (anyOf)"#,
            "status.x: Required value",
            r#"status.replicas: Invalid value: "string": replicas in body must be of type integer: "string""#,
        ]
    );
}

#[test]
fn sets_and_maps_have_nothing_twice() {
    let schema = Schema::from_json(&json!({"type": "object", "properties": {
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a", "b"],
                "items": {"type": "object"}},
        "one": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"],
                "items": {"type": "object"}},
    }}))
    .unwrap();
    let object = json!({
        "set": ["a", "b", "a", "a"],
        "map": [{"a": 1, "b": 2}, {"a": 1, "b": 3}, {"a": 1, "b": 2, "c": 4}],
        "one": [{}, {"a": "x"}, {}, {"a": "x"}],
    });
    let errors: Vec<_> = list_errors(&object, &schema).iter().map(ToString::to_string).collect();
    assert_eq!(
        errors,
        [
            r#"map[2]: Duplicate value: {"a":1,"b":2}"#,
            "one[2]: Duplicate value: {}",
            r#"one[3]: Duplicate value: {"a":"x"}"#,
            r#"set[2]: Duplicate value: "a""#,
        ]
    );
    let errors: Vec<_> = list_errors(&json!({"map": [1]}), &schema).iter().map(ToString::to_string).collect();
    assert_eq!(errors, ["map[0]: Invalid value: 1: must be an object for an array of list-type map"]);
}

#[test]
fn embedded_resources_have_a_version_and_a_kind() {
    let schema = Schema::from_json(&json!({"type": "object", "properties": {"e": {
        "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
    }}}))
    .unwrap();
    let errors = |object: Value| {
        let errors = embedded_errors(&object, &schema);
        errors.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(errors(json!({"e": {"apiVersion": "v1", "kind": "Pod"}})), [""; 0]);
    assert_eq!(errors(json!({"e": {}})), ["e.apiVersion: Required value", "e.kind: Required value"]);
    assert_eq!(
        errors(json!({"e": {"apiVersion": "", "kind": 3}})),
        [
            r#"e.apiVersion: Invalid value: "": must not be empty"#,
            "e.kind: Invalid value: 3: must be a string"
        ]
    );
}
