use serde_json::{Value, json};

use super::*;

fn errors(schema: &Value) -> Vec<String> {
    let errors = structural_errors(schema, "s", StatusSubresource::Disabled);
    errors.iter().map(ToString::to_string).collect()
}

/// Checks `x` in the place of `properties[x]`.
#[track_caller]
fn check(x: Value, expected: &[&str]) {
    let mut schema = json!({"type": "object", "properties": {}});
    schema["properties"]["x"] = x;
    assert_eq!(errors(&schema), expected);
}

#[test]
fn a_structural_schema_has_nothing_wrong() {
    check(
        json!({"type": "object", "properties": {
            "a": {"type": "string", "default": "x"},
            "b": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
            "c": {"x-kubernetes-int-or-string": true,
                  "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"maximum": 3}]},
            "d": {"x-kubernetes-preserve-unknown-fields": true},
            "e": {"type": "object", "additionalProperties": {"type": "string"}},
        }, "anyOf": [{"properties": {"a": {"pattern": "^x"}}}, {"required": ["b"]}]}),
        &[],
    );
    assert_eq!(
        errors(&json!({"type": "object", "properties": {"metadata": {
            "type": "object", "properties": {"name": {"type": "string", "maxLength": 9}},
        }}})),
        [""; 0]
    );
}

#[test]
fn every_node_has_a_type() {
    check(
        json!({}),
        &["s.properties[x].type: Required value: must not be empty for specified object fields"],
    );
    check(
        json!({"type": "array", "items": {}}),
        &["s.properties[x].items.type: Required value: must not be empty for specified array items"],
    );
    check(json!({"type": "array"}), &["s.properties[x].items: Required value: must be specified"]);
    assert_eq!(errors(&json!({})), ["s.type: Required value: must not be empty at the root"]);
    assert_eq!(
        errors(&json!({"type": "string"})),
        [r#"s.type: Invalid value: "string": must be object at the root"#]
    );
    check(
        json!({"type": "thing"}),
        &[
            r#"s.properties[x].type: Unsupported value: "thing": supported values: "array", "boolean", "integer", "number", "object", "string""#,
        ],
    );
}

#[test]
fn branches_add_no_structure() {
    check(
        json!({"type": "object", "properties": {"a": {"type": "string"}}, "allOf": [
            {"properties": {"a": {"type": "string", "description": "d", "default": "x"}, "b": {"minLength": 1}}},
        ]}),
        &[
            "s.properties[x].allOf[0].properties[a].default: Forbidden: must be undefined to be structural",
            "s.properties[x].allOf[0].properties[a].description: Forbidden: must be empty to be structural",
            "s.properties[x].allOf[0].properties[a].type: Forbidden: must be empty to be structural",
        ],
    );
    assert_eq!(
        errors(&json!({"type": "object", "not": {"properties": {"b": {"minLength": 1}}}})),
        ["s.properties[b]: Required value: because it is defined in s.not.properties[b]"]
    );
}

#[test]
fn what_is_not_supported_is_named() {
    check(
        json!({"type": "string", "$ref": "#/a"}),
        &["s.properties[x].$ref: Forbidden: $ref is not supported"],
    );
    check(
        json!({"type": "array", "items": {"type": "string"}, "uniqueItems": true}),
        &[
            "s.properties[x].uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        ],
    );
    check(
        json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "string"}}),
        &[
            "s.properties[x].additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive",
        ],
    );
    check(
        json!({"type": "object", "patternProperties": {"a": {}}}),
        &["s.properties[x].patternProperties: Forbidden: patternProperties is not supported"],
    );
    check(
        json!({"type": "string", "pattern": "["}),
        &[
            r#"s.properties[x].pattern: Invalid value: "[": must be a valid regular expression, but isn't: error parsing regexp: missing closing ]: `[`"#,
        ],
    );
    check(
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": false}),
        &[
            "s.properties[x].x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined",
        ],
    );
    check(
        json!({"type": "string", "minLength": "a"}),
        &[r#"s: Invalid value: "": minLength must be a whole number that is not negative"#],
    );
}

#[test]
fn lists_are_sets_and_maps_only_of_what_can_be_told_apart() {
    check(
        json!({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "set"}),
        &[
            "s.properties[x].items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with x-kubernetes-list-type=set",
        ],
    );
    check(
        json!({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"}),
        &[
            "s.properties[x].x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map",
        ],
    );
    check(
        json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k", "l"],
               "items": {"type": "object", "properties": {"k": {"type": "string"}}}}),
        &[
            r#"s.properties[x].x-kubernetes-list-map-keys: Invalid value: ["k","l"]: entries must all be names of item properties"#,
            "s.properties[x].items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
        ],
    );
    check(
        json!({"type": "string", "x-kubernetes-list-type": "heap"}),
        &[
            r#"s.properties[x].type: Invalid value: "string": must be array if x-kubernetes-list-type is specified"#,
            r#"s.properties[x].x-kubernetes-list-type: Unsupported value: "heap": supported values: "atomic", "set", "map""#,
        ],
    );
    check(
        json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-map-keys": ["a"]}),
        &[
            "s.properties[x].x-kubernetes-list-type: Required value: must be map if x-kubernetes-list-map-keys is non-empty",
        ],
    );
}

#[test]
fn defaults_are_valid_and_pruned() {
    check(
        json!({"type": "object", "properties": {"a": {"type": "string"}}, "default": {"a": 1, "b": 2}}),
        &[
            r#"s.properties[x].default: Invalid value: {"a":1,"b":2}: must not have unknown fields"#,
            r#"s.properties[x].default.a: Invalid value: "integer": a in body must be of type string: "integer""#,
        ],
    );
    assert_eq!(
        errors(&json!({"type": "object", "properties": {"kind": {"type": "string", "default": "K"}}})),
        ["s.properties[kind].default: Forbidden: must not be set in top-level kind"]
    );
}

#[test]
fn metadata_and_the_root_are_special() {
    assert_eq!(
        errors(&json!({"type": "object", "properties": {"metadata": {
            "type": "object", "properties": {"labels": {"type": "object"}},
        }}})),
        [
            "s.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified"
        ]
    );
    assert_eq!(
        errors(&json!({"type": "object", "additionalProperties": {"type": "string"}})),
        ["s.additionalProperties: Forbidden: must not be used at the root"]
    );
    assert_eq!(
        errors(&json!({"type": "object", "nullable": true})),
        ["s.nullable: Forbidden: nullable cannot be true at the root"]
    );
    let schema = json!({"type": "object", "properties": {}, "anyOf": [{"required": ["spec"]}]});
    assert_eq!(errors(&schema), [""; 0]);
    let errors = structural_errors(&schema, "s", StatusSubresource::Enabled);
    assert!(errors[0].detail.starts_with("only [Description Type"), "{errors:?}");
    check(
        json!({"type": "object", "x-kubernetes-embedded-resource": true}),
        &[
            "s.properties[x].properties: Required value: must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
        ],
    );
}

#[test]
fn rules_are_well_formed() {
    check(
        json!({"type": "string", "x-kubernetes-validations": [
            {"rule": " "},
            {"rule": "true", "message": " "},
            {"rule": "true", "message": "a\nb"},
            {"rule": "true\n&& true"},
            {"rule": "true", "reason": "Because"},
            {"rule": "true", "fieldPath": ".a"},
        ]}),
        &[
            "s.properties[x].x-kubernetes-validations[0].rule: Required value: rule is not specified",
            r#"s.properties[x].x-kubernetes-validations[1].message: Invalid value: " ": must be non-empty if specified"#,
            r#"s.properties[x].x-kubernetes-validations[2].message: Invalid value: "a\nb": must not contain line breaks"#,
            "s.properties[x].x-kubernetes-validations[3].message: Required value: message must be specified if rule contains line breaks",
            r#"s.properties[x].x-kubernetes-validations[4].reason: Unsupported value: "Because": supported values: "FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired""#,
            r#"s.properties[x].x-kubernetes-validations[5].fieldPath: Invalid value: ".a": must be a valid path"#,
        ],
    );
}

#[test]
fn rules_compile_against_the_types_of_the_schema() {
    check(json!({"type": "integer", "x-kubernetes-validations": [{"rule": "self > 0"}]}), &[]);
    check(
        json!({"type": "object", "x-kubernetes-validations": [{"rule": "self.none == 1"}]}),
        &[
            "s.properties[x].x-kubernetes-validations[0].rule: Invalid value: {\"Rule\":\"self.none == 1\",\"Message\":\"\",\"MessageExpression\":\"\",\"Reason\":null,\"FieldPath\":\"\",\"OptionalOldSelf\":null}: compilation \
           failed: ERROR: <input>:1:5: undefined field 'none'\n | self.none == 1\n | ....^",
        ],
    );
    let detail = |x: Value| {
        let mut schema = json!({"type": "object", "properties": {}});
        schema["properties"]["x"] = x;
        let errors = structural_errors(&schema, "s", StatusSubresource::Disabled);
        errors.into_iter().map(|error| (error.path, error.detail)).collect::<Vec<_>>()
    };
    let rule = "s.properties[x].x-kubernetes-validations[0]";
    assert_eq!(
        detail(json!({"type": "integer", "x-kubernetes-validations": [{"rule": "self"}]})),
        [(format!("{rule}.rule"), "cel expression must evaluate to a bool".to_owned())]
    );
    assert_eq!(
        detail(
            json!({"type": "integer", "x-kubernetes-validations": [{"rule": "true", "messageExpression": "self"}]})
        ),
        [(format!("{rule}.messageExpression"), "messageExpression must evaluate to a string".to_owned())]
    );
    assert_eq!(
        detail(
            json!({"type": "integer", "x-kubernetes-validations": [{"rule": "true", "optionalOldSelf": true}]})
        ),
        [(format!("{rule}.optionalOldSelf"), "may not be set if oldSelf is not used in rule".to_owned())]
    );
    assert_eq!(
        detail(json!({"type": "array", "maxItems": 9, "items": {
            "type": "string", "maxLength": 9, "x-kubernetes-validations": [{"rule": "self == oldSelf"}],
        }})),
        [(
            "s.properties[x].items.x-kubernetes-validations[0].rule".to_owned(),
            "oldSelf cannot be used on the uncorrelatable portion of the schema within s.properties[x]"
                .to_owned()
        )]
    );
    assert_eq!(
        detail(json!({"type": "integer", "default": 0, "x-kubernetes-validations": [{"rule": "self > 0"}]})),
        [("s.properties[x].default".to_owned(), "failed rule: self > 0".to_owned())]
    );
}

#[test]
fn rules_that_could_cost_too_much_are_refused() {
    let details = |x: Value| {
        let mut schema = json!({"type": "object", "properties": {}});
        schema["properties"]["x"] = x;
        let errors = structural_errors(&schema, "s", StatusSubresource::Disabled);
        errors.into_iter().map(|error| format!("{}: {}", error.path, error.detail)).collect::<Vec<_>>()
    };
    let rule = json!([{"rule": "self.all(a, self.all(b, a != b || a == b))"}]);
    let list = |limit: u64| {
        json!({"type": "array", "maxItems": limit, "items": {"type": "string", "maxLength": 10},
               "x-kubernetes-validations": rule})
    };
    assert_eq!(details(list(100)), [""; 0]);
    let advice = "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and \
                  strings are declared)";
    assert_eq!(
        details(list(1000)),
        [format!(
            "s.properties[x].x-kubernetes-validations[0].rule: estimated rule cost exceeds budget by factor of 1.5x {advice}"
        )]
    );
    let unlimited = details(json!({
        "type": "array", "items": {"type": "string"}, "x-kubernetes-validations": rule,
    }));
    assert_eq!(unlimited, [
        format!("s.properties[x].x-kubernetes-validations[0].rule: estimated rule cost exceeds budget by factor of more than 100x {advice}"),
        "s.properties[x].x-kubernetes-validations[0].rule: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema".to_owned(),
        format!("s: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds budget by factor of more than 100x {advice}"),
    ]);
}
