use serde_json::{Value, json};

use super::*;

fn compiled(schema: &Value) -> CompiledSchema {
    let errors = crate::structural_errors(schema, "s", crate::StatusSubresource::Disabled);
    // What could cost too much is refused; here it shall show that it is stopped all the same.
    assert!(errors.iter().all(|error| error.kind == FieldErrorKind::Forbidden), "{errors:?}");
    CompiledSchema::new(Arc::new(Schema::from_json(schema).unwrap()))
}

fn messages(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

/// A schema whose `spec` has these rules and fields.
fn with_spec(rules: &Value, properties: &Value) -> CompiledSchema {
    compiled(&json!({"type": "object", "properties": {"spec": {
        "type": "object", "properties": properties, "x-kubernetes-validations": rules,
    }}}))
}

#[test]
fn a_rule_that_does_not_hold_is_told_with_its_message() {
    let schema = with_spec(
        &json!([
            {"rule": "self.min <= self.max", "message": " min must not exceed max "},
            {"rule": "self.min < self.max", "messageExpression": "'%d is not below %d'.format([self.min, self.max])"},
            {"rule": "self.min != self.max"},
            {"rule": "self.min > 0", "fieldPath": ".min", "reason": "FieldValueRequired", "message": "must be positive"},
            {"rule": "self.max > 0", "reason": "FieldValueForbidden", "message": "no"},
        ]),
        &json!({"min": {"type": "integer"}, "max": {"type": "integer"}}),
    );
    let check =
        |min: i64, max: i64| messages(&schema.validate(&json!({"spec": {"min": min, "max": max}}), None));
    assert_eq!(check(1, 2), [""; 0]);
    assert_eq!(
        check(3, 2),
        [
            "spec: Invalid value: \"object\": min must not exceed max",
            "spec: Invalid value: \"object\": 3 is not below 2",
        ]
    );
    assert_eq!(
        check(0, 0),
        [
            "spec: Invalid value: \"object\": 0 is not below 0",
            "spec: Invalid value: \"object\": failed rule: self.min != self.max",
            "spec.min: Required value: must be positive",
            "spec: Forbidden: no",
        ]
    );
}

#[test]
fn rules_about_changes_run_only_when_something_was_there() {
    let schema = with_spec(
        &json!([{"rule": "self.a == oldSelf.a", "message": "a is immutable"}]),
        &json!({
            "a": {"type": "string"},
            "b": {"type": "string", "x-kubernetes-validations": [
                {"rule": "self == oldSelf", "message": "b is immutable"},
            ]},
            "c": {"type": "string", "x-kubernetes-validations": [
                {"rule": "oldSelf.optMap(old, old == self).orValue(self == 'first')", "optionalOldSelf": true,
                 "message": "c starts as first"},
            ]},
        }),
    );
    let new = json!({"spec": {"a": "2", "b": "2"}});
    assert_eq!(schema.validate(&new, None), []);
    assert_eq!(schema.validate(&new, Some(&json!({"spec": {"a": "2"}}))), []);
    assert_eq!(
        messages(&schema.validate(&new, Some(&json!({"spec": {"a": "1", "b": "1"}})))),
        [
            "spec: Invalid value: \"object\": a is immutable",
            "spec.b: Invalid value: \"string\": b is immutable",
        ]
    );
    assert_eq!(
        messages(&schema.validate(&json!({"spec": {"a": "", "c": "x"}}), None)),
        ["spec.c: Invalid value: \"string\": c starts as first"]
    );
    assert_eq!(schema.validate(&json!({"spec": {"a": "", "c": "first"}}), None), []);
}

#[test]
fn elements_of_maps_are_compared_with_what_they_were() {
    let schema = with_spec(
        &json!([]),
        &json!({"list": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "required": ["k"], "properties": {
                "k": {"type": "string"},
                "v": {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf", "message": "grows"}]},
            }},
        }}),
    );
    let old = json!({"spec": {"list": [{"k": "a", "v": 1}, {"k": "b", "v": 5}]}});
    let new = json!({"spec": {"list": [{"k": "b", "v": 4}, {"k": "a", "v": 2}, {"k": "c", "v": 0}]}});
    assert_eq!(
        messages(&schema.validate(&new, Some(&old))),
        ["spec.list[0].v: Invalid value: \"integer\": grows"]
    );
}

#[test]
fn what_was_wrong_before_and_has_not_changed_is_let_pass() {
    let schema = with_spec(
        &json!([]),
        &json!({
            "a": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 0", "message": "positive"}]},
            "b": {"type": "string"},
        }),
    );
    let old = json!({"spec": {"a": -1, "b": "x"}});
    assert_eq!(schema.validate(&json!({"spec": {"a": -1, "b": "y"}}), Some(&old)), []);
    assert_eq!(
        messages(&schema.validate(&json!({"spec": {"a": -2, "b": "x"}}), Some(&old))),
        ["spec.a: Invalid value: \"integer\": positive"]
    );
}

#[test]
fn the_root_sees_its_name() {
    let schema = compiled(&json!({"type": "object", "x-kubernetes-validations": [
        {"rule": "self.metadata.name == 'only' && self.kind == 'K' && self.apiVersion == 'g/v1'", "message": "only one"},
    ], "properties": {"spec": {"type": "object"}}}));
    let object =
        |name: &str| json!({"apiVersion": "g/v1", "kind": "K", "metadata": {"name": name, "labels": {}}});
    assert_eq!(schema.validate(&object("only"), None), []);
    assert_eq!(
        messages(&schema.validate(&object("other"), None)),
        ["<nil>: Invalid value: \"object\": only one"]
    );
}

#[test]
fn rules_wait_until_types_are_right() {
    let schema = with_spec(
        &json!([{"rule": "self.a.startsWith('x')", "message": "x"}]),
        &json!({"a": {"type": "string", "maxLength": 3}}),
    );
    assert_eq!(
        messages(&schema.validate(&json!({"spec": {"a": 1}}), None)),
        [
            "spec.a: Invalid value: \"integer\": spec.a in body must be of type string: \"integer\"",
            "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct \
         the existing errors to complete validation",
        ]
    );
}

#[test]
fn a_rule_that_fails_to_evaluate_is_told() {
    let schema = with_spec(
        &json!([{"rule": "self.a == 'x'"}, {"rule": "self.m['k'] == 1", "message": "k is 1"}]),
        &json!({"a": {"type": "string"}, "m": {"type": "object", "additionalProperties": {"type": "integer"}}}),
    );
    assert_eq!(
        messages(&schema.validate(&json!({"spec": {"m": {}}}), None)),
        [
            "spec: Invalid value: \"object\": no such key: a evaluating rule: self.a == 'x'",
            "spec: Invalid value: \"object\": no such key: k evaluating rule: k is 1",
        ]
    );
}

#[test]
fn one_object_cannot_burn_time_for_ever() {
    let schema = with_spec(
        &json!([{"rule": "self.l.all(a, self.l.all(b, self.l.all(c, a + b + c > -1)))", "message": "cubic"}]),
        &json!({"l": {"type": "array", "items": {"type": "integer"}}}),
    );
    let object = json!({"spec": {"l": vec![1; 10_000]}});
    let errors = messages(&schema.validate(&object, None));
    assert_eq!(
        errors,
        [
            "spec: Invalid value: \"object\": 'operation cancelled: actual cost limit exceeded': no further validation \
          rules will be run due to call cost exceeds limit for rule: cubic"
        ]
    );
    // Many cheap ones add up as well.
    let many = with_spec(
        &json!([]),
        &json!({"l": {"type": "array", "items": {
            "type": "array", "items": {"type": "integer"},
            "x-kubernetes-validations": [{"rule": "self.all(i, i >= 0)", "message": "m"}],
        }}}),
    );
    let object = json!({"spec": {"l": vec![vec![1; 1_000]; 10_000]}});
    let errors = messages(&many.validate(&object, None));
    assert_eq!(errors.len(), 1);
    assert!(errors[0].contains("running out of cost budget"), "{errors:?}");
}

#[test]
fn the_status_is_checked_alone() {
    let schema = compiled(&json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"a": {"type": "string", "maxLength": 1}}},
        "status": {"type": "object", "properties": {"n": {"type": "integer"}}},
    }}));
    let old = json!({"spec": {"a": "long"}, "status": {"n": 1}});
    let new = json!({"spec": {"a": "long"}, "status": {"n": "x"}});
    assert_eq!(
        messages(&schema.validate_status(&new, &old)),
        ["status.n: Invalid value: \"string\": n in body must be of type integer: \"string\""]
    );
}

/// A schema as an older server may have stored it: nothing checks it now.
fn stored(rules: &Value) -> CompiledSchema {
    let spec = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "x-kubernetes-validations": rules});
    let schema = json!({"type": "object", "properties": {"spec": spec, "other": {"type": "string"}}});
    CompiledSchema::new(Arc::new(Schema::from_json(&schema).unwrap()))
}

#[test]
fn nothing_is_written_past_a_stored_rule_that_does_not_compile() {
    let schema = stored(&json!([{"rule": "self.unknown > 1"}, {"rule": "self.n > 1"}]));
    let (good, bad) = (json!({"spec": {"n": 2}}), json!({"spec": {"n": 1}}));
    let errors = messages(&schema.validate(&good, None));
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(
        errors[0].starts_with("spec: Invalid value: \"object\": rule compile error: compilation failed: "),
        "{errors:?}"
    );
    assert_eq!(schema.validate(&good, Some(&good)).len(), 1, "not even what does not change");
    assert_eq!(schema.validate(&bad, None).len(), 2, "the other rules hold");
    assert_eq!(
        messages(&schema.validate(&json!({"other": "a"}), None)),
        [""; 0],
        "what the rule is not about"
    );
}

#[test]
fn a_rule_holds_though_its_message_does_not_compile() {
    let schema = stored(&json!([{"rule": "self.n > 1", "messageExpression": "self.unknown"}]));
    assert_eq!(messages(&schema.validate(&json!({"spec": {"n": 2}}), None)), [""; 0]);
    assert_eq!(
        messages(&schema.validate(&json!({"spec": {"n": 1}}), None)),
        ["spec: Invalid value: \"object\": failed rule: self.n > 1"]
    );
}
