use serde_json::{Value, json};

use super::*;

/// A definition that is right, with this in place of its parts.
fn definition(changes: &[(&str, Value)]) -> Value {
    let mut object = json!({
        "metadata": {"name": "foos.ex.io"},
        "spec": {
            "group": "ex.io", "scope": "Namespaced", "conversion": {"strategy": "None"},
            "names": {"plural": "foos", "singular": "foo", "kind": "Foo", "listKind": "FooList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {
                    "spec": {"type": "object", "properties": {"a": {"type": "string"}, "o": {"type": "object"}}},
                }}}}],
        },
        "status": {"acceptedNames": {}, "storedVersions": ["v1"]},
    });
    for (pointer, value) in changes {
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        let parent = object.pointer_mut(parent).unwrap();
        match (parent.as_array_mut(), field.parse::<usize>()) {
            (Some(items), Ok(index)) if index >= items.len() => items.push(value.clone()),
            _ => parent[field] = value.clone(),
        }
    }
    object
}

fn told(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

fn created(changes: &[(&str, Value)]) -> Vec<String> {
    let object = definition(changes);
    told(&create_errors(&object, &Definition::read(&object).unwrap()))
}

fn updated(changes: &[(&str, Value)], old_changes: &[(&str, Value)]) -> Vec<String> {
    let (object, old) = (definition(changes), definition(old_changes));
    let old = Definition::read(&old).unwrap();
    told(&update_errors(&object, &Definition::read(&object).unwrap(), &old))
}

#[test]
fn a_right_definition_has_nothing_wrong() {
    assert_eq!(created(&[]), [""; 0]);
}

#[test]
fn an_empty_definition_is_refused_with_all_required_fields() {
    let object = json!({"metadata": {"name": "foo2.ex.io"}, "spec": {"conversion": {"strategy": "None"}}});
    assert_eq!(
        told(&create_errors(&object, &Definition::read(&object).unwrap())),
        [
            r#"metadata.name: Invalid value: "foo2.ex.io": must be spec.names.plural+"."+spec.group"#,
            "spec.group: Required value",
            "spec.scope: Required value",
            "spec.versions: Invalid value: null: must have exactly one version marked as storage version",
            "spec.names.plural: Required value",
            "spec.names.singular: Required value",
            "spec.names.kind: Required value",
            "spec.names.listKind: Required value",
            "status.storedVersions: Invalid value: null: must have at least one stored version",
        ]
    );
}

#[test]
fn names_are_labels() {
    let label = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
                 character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation \
                 is '[a-z]([-a-z0-9]*[a-z0-9])?')";
    assert_eq!(
        created(&[("/spec/names/shortNames", json!(["a_b"])), ("/spec/names/listKind", json!("Foo"))]),
        [
            format!(r#"spec.names.shortNames[0]: Invalid value: "a_b": {label}"#),
            r#"spec.names.listKind: Invalid value: "Foo": kind and listKind may not be the same"#.to_owned(),
        ]
    );
    assert_eq!(
        created(&[("/spec/group", json!("io")), ("/metadata/name", json!("foos.io"))]),
        [r#"spec.group: Invalid value: "io": should be a domain with at least one dot"#]
    );
    assert_eq!(
        created(&[("/spec/scope", json!("World"))]),
        [r#"spec.scope: Unsupported value: "World": supported values: "Cluster", "Namespaced""#]
    );
}

#[test]
fn versions_have_names_and_one_is_stored() {
    let second = |name: &str, storage: bool| {
        json!({"name": name, "served": true, "storage": storage,
        "schema": {"openAPIV3Schema": {"type": "object"}}})
    };
    let twice = created(&[("/spec/versions/1", second("v1", true))]);
    assert!(
        twice[0].starts_with("spec.versions: Invalid value: [{")
            && twice[0].ends_with("must contain unique version names")
    );
    assert!(twice[1].ends_with("must have exactly one version marked as storage version"), "{twice:?}");
    assert_eq!(twice[2], r#"status.storedVersions: Invalid value: ["v1"]: must have the storage version v1"#);
    assert_eq!(
        created(&[("/spec/versions/1", json!({"name": "v2"}))]),
        ["spec.versions[1].schema.openAPIV3Schema: Required value"]
    );
    let wrong = created(&[("/spec/versions/0/name", json!("V1")), ("/status/storedVersions", json!(["V1"]))]);
    assert!(wrong[0].starts_with("spec.versions[0].name: Invalid value"), "{wrong:?}");
    assert!(wrong[1].starts_with("spec.version: Invalid value"), "{wrong:?}");
}

#[test]
fn what_all_versions_share_is_called_as_if_it_were_not_in_them() {
    let scale = json!({"scale": {"specReplicasPath": ".foo.a", "statusReplicasPath": ""}});
    let column = json!([{"name": "", "type": "x", "jsonPath": "a", "format": "q"}]);
    let changes = [
        ("/spec/versions/0/deprecationWarning", json!("a")),
        ("/spec/versions/0/subresources", scale),
        ("/spec/versions/0/additionalPrinterColumns", column),
        ("/spec/versions/0/selectableFields", json!([{"jsonPath": ".spec.x"}])),
        ("/spec/preserveUnknownFields", json!(true)),
    ];
    assert_eq!(
        created(&changes),
        [
            r#"spec.versions[0].deprecationWarning: Invalid value: "a": can only be set for deprecated versions"#,
            r#"spec.subresources.scale.specReplicasPath: Invalid value: ".foo.a": should be a json path under .spec"#,
            "spec.subresources.scale.statusReplicasPath: Required value",
            "spec.additionalPrinterColumns[0].name: Required value",
            r#"spec.additionalPrinterColumns[0].type: Invalid value: "x": must be one of boolean,date,integer,number,string"#,
            r#"spec.additionalPrinterColumns[0].format: Invalid value: "q": must be one of byte,date,date-time,double,float,int32,int64,password"#,
            r#"spec.additionalPrinterColumns[0].JSONPath: Invalid value: "a": must be a simple json path starting with ."#,
            r#"spec.selectableFields[0].jsonPath: Invalid value: ".spec.x": is an invalid path: does not refer to a valid field"#,
            "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        ]
    );
}

#[test]
fn what_differs_between_versions_is_called_as_it_is() {
    let second = json!({"name": "v2", "served": true, "schema": {"openAPIV3Schema": {"type": "object", "nullable": true}},
        "additionalPrinterColumns": [{"name": "C", "type": "string"}]});
    let errors = created(&[("/spec/versions/1", second)]);
    assert!(
        errors.iter().any(|error| error.starts_with("spec.versions[1].schema.openAPIV3Schema.nullable:")),
        "{errors:?}"
    );
    let column = "spec.versions[1].additionalPrinterColumns[0].JSONPath: Required value";
    assert!(errors.iter().any(|error| error == column), "{errors:?}");
}

#[test]
fn selectable_fields_are_plain_and_not_many() {
    let fields =
        json!([{"jsonPath": ".spec.a"}, {"jsonPath": ".spec.a"}, {"jsonPath": ".spec.o"}, {"jsonPath": ""}]);
    assert_eq!(
        created(&[("/spec/versions/0/selectableFields", fields)]),
        [
            r#"spec.selectableFields[1].jsonPath: Duplicate value: ".spec.a""#,
            r#"spec.selectableFields[2].jsonPath: Invalid value: ".spec.o": must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."#,
            "spec.selectableFields[3].jsonPath: Required value",
        ]
    );
}

#[test]
fn conversion_by_webhook_is_refused() {
    assert_eq!(
        created(&[("/spec/conversion", json!({"strategy": "Webhook"}))]),
        [
            r#"spec.conversion.strategy: Invalid value: "Webhook": conversion by webhook is not available in this server, only None is"#
        ]
    );
    assert_eq!(
        created(&[("/spec/conversion", json!({"strategy": "Magic"}))]),
        [r#"spec.conversion.strategy: Unsupported value: "Magic": supported values: "None", "Webhook""#]
    );
}

#[test]
fn groups_of_the_community_need_an_approval() {
    let group = |annotations: Value| {
        let name = json!({"name": "foos.ex.k8s.io", "annotations": annotations});
        created(&[("/metadata", name), ("/spec/group", json!("ex.k8s.io"))])
    };
    assert_eq!(
        group(json!({})),
        [
            r#"metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have approval annotation "api-approved.kubernetes.io", see https://github.com/kubernetes/enhancements/pull/1111"#
        ]
    );
    assert!(group(json!({"api-approved.kubernetes.io": "yes"}))[0].contains("with either a URL or a reason"));
    for good in ["https://github.com/kubernetes/enhancements/pull/1", "unapproved, for testing"] {
        assert_eq!(group(json!({"api-approved.kubernetes.io": good})), [""; 0]);
    }
}

#[test]
fn what_is_served_keeps_its_kind_and_scope() {
    let established = json!([{"type": "Established", "status": "True"}]);
    let other = [("/spec/scope", json!("Cluster")), ("/spec/names/kind", json!("Bar"))];
    assert_eq!(
        updated(&other, &[("/status/conditions", established)]),
        [
            r#"spec.scope: Invalid value: "Cluster": field is immutable"#,
            r#"spec.names.kind: Invalid value: "Bar": field is immutable"#,
        ]
    );
    assert_eq!(updated(&other, &[]), [""; 0], "what is not yet served may change");
    assert_eq!(
        updated(&[("/spec/names/plural", json!("bars"))], &[]),
        [r#"spec.names.plural: Invalid value: "bars": field is immutable"#]
    );
}

#[test]
fn a_version_stays_while_objects_are_stored_in_it() {
    let stored = [("/status/storedVersions", json!(["v0", "v1"]))];
    assert_eq!(
        updated(&stored, &[]),
        [
            r#"status.storedVersions[0]: Invalid value: "v0": missing from spec.versions; v0 was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in v0 and removes v0 from status.storedVersions"#
        ]
    );
}
