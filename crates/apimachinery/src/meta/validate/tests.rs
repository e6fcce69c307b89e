use serde_json::json;

use super::*;

fn created(metadata: &Value) -> Vec<String> {
    let errors =
        validate_create(&json!({"metadata": metadata}), Scope::Namespaced, NameRule::Dns1123Subdomain);
    errors.iter().map(FieldError::to_string).collect()
}

fn named(mut metadata: Value) -> Value {
    metadata["name"] = json!("n");
    metadata["namespace"] = json!("ns");
    metadata
}

#[test]
fn good_metadata_is_not_complained_about() {
    let metadata = json!({
        "generateName": "n-", "labels": {"a/b": "c", "d": ""}, "annotations": {"Upper.Case/Key": "any\ntext"},
        "finalizers": ["example.com/x", "orphan"],
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "u", "controller": true}],
        "managedFields": [{"manager": "m", "operation": "Apply", "fieldsType": "FieldsV1", "subresource": "status"}]
    });
    assert_eq!(created(&named(metadata)), Vec::<String>::new());
}

#[test]
fn names_follow_the_rule_of_the_kind() {
    assert_eq!(
        created(&json!({})),
        [
            "metadata.name: Required value: name or generateName is required",
            "metadata.namespace: Required value"
        ]
    );
    let subdomain = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and \
                     must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
                     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
    assert_eq!(
        created(&json!({"name": "N", "generateName": "N", "namespace": "a.b"})),
        [
            format!("metadata.generateName: Invalid value: \"N\": {subdomain}"),
            format!("metadata.name: Invalid value: \"N\": {subdomain}"),
            "metadata.namespace: Invalid value: \"a.b\": must not contain dots".to_owned(),
        ]
    );
    let cluster = json!({"metadata": named(json!({}))});
    let errors = validate_create(&cluster, Scope::Cluster, NameRule::PathSegment);
    assert_eq!(errors[0].to_string(), "metadata.namespace: Forbidden: not allowed on this type");
}

#[test]
fn labels_annotations_and_finalizers_have_their_formats() {
    let bad = named(json!({"labels": {"-": "-"}, "annotations": {"a/b/c": ""}, "finalizers": ["x y"]}));
    let errors = created(&bad);
    let starts: Vec<_> = errors.iter().map(|error| error.split_once(": ").unwrap().0).collect();
    assert_eq!(starts, ["metadata.labels", "metadata.labels", "metadata.annotations", "metadata.finalizers"]);
    assert!(errors[1].contains("a valid label must be"), "{errors:?}");

    let at_limit = |size: usize| named(json!({"annotations": {"abc": "x".repeat(size - 3)}}));
    assert_eq!(created(&at_limit(ANNOTATIONS_LIMIT)), Vec::<String>::new());
    assert_eq!(
        created(&at_limit(ANNOTATIONS_LIMIT + 1)),
        ["metadata.annotations: Too long: may not be more than 262144 bytes"]
    );
    assert_eq!(
        created(&named(json!({"finalizers": ["orphan", "foregroundDeletion"]}))),
        ["metadata.finalizers: Invalid value: [\"orphan\",\"foregroundDeletion\"]: finalizer orphan and \
             foregroundDeletion cannot be both set"]
    );
    assert_eq!(
        created(&named(json!({"generation": -1}))),
        ["metadata.generation: Invalid value: -1: must be greater than or equal to 0"]
    );
}

#[test]
fn owners_are_named_in_full_and_one_controls() {
    assert_eq!(
        created(&named(json!({"ownerReferences": [{}]}))),
        [
            "metadata.ownerReferences.apiVersion: Invalid value: \"\": version must not be empty",
            "metadata.ownerReferences.kind: Invalid value: \"\": must not be empty",
            "metadata.ownerReferences.name: Invalid value: \"\": must not be empty",
            "metadata.ownerReferences.uid: Invalid value: \"\": must not be empty",
        ]
    );
    let owner =
        |kind: &str| json!({"apiVersion": "v1", "kind": kind, "name": "o", "uid": "u", "controller": true});
    let two = created(&named(json!({"ownerReferences": [owner("Pod"), owner("Node")]})));
    assert_eq!(two.len(), 1);
    assert!(two[0].ends_with(
        "Only one reference can have Controller set to true. Found \"true\" in references for Pod/o and Node/o"
    ));
    let event = created(&named(json!({"ownerReferences": [owner("Event")]})));
    assert!(event[0].ends_with("/v1, Kind=Event is disallowed from being an owner"), "{event:?}");
}

#[test]
fn managed_fields_are_looked_at() {
    let entries = json!([
        {"manager": "m\u{7}", "operation": "Create", "fieldsType": "V2", "subresource": "s".repeat(257)},
        {"manager": "m".repeat(129), "operation": "Update"}
    ]);
    assert_eq!(
        created(&named(json!({"managedFields": entries}))),
        [
            "metadata.managedFields[0].operation: Invalid value: \"Create\": must be `Apply` or `Update`",
            "metadata.managedFields[0].fieldsType: Invalid value: \"V2\": must be `FieldsV1`",
            "metadata.managedFields[0].manager: Invalid value: \"m\\a\": invalid character U+0007 (at position 1)",
            "metadata.managedFields[0].subresource: Too long: may not be more than 256 bytes",
            "metadata.managedFields[1].manager: Too long: may not be more than 128 bytes",
        ]
    );
}

#[test]
fn an_update_keeps_what_is_immutable() {
    let old = json!({"metadata": {
        "name": "n", "namespace": "ns", "uid": "u", "resourceVersion": "1", "generation": 2,
        "creationTimestamp": "2024-01-01T00:00:00Z"
    }});
    let updated = |changes: Value| {
        let mut new = old.clone();
        for (field, value) in changes.as_object().unwrap() {
            new["metadata"][field] = value.clone();
        }
        validate_update(&new, &old).iter().map(FieldError::to_string).collect::<Vec<_>>()
    };
    assert_eq!(updated(json!({})), Vec::<String>::new());
    assert_eq!(updated(json!({"creationTimestamp": "2024-01-01T01:00:00+01:00"})), Vec::<String>::new());
    assert_eq!(
        updated(json!({"name": "m", "namespace": "", "uid": "v", "resourceVersion": "", "generation": 1})),
        [
            "metadata.resourceVersion: Invalid value: \"\": must be specified for an update",
            "metadata.generation: Invalid value: 1: must not be decremented",
            "metadata.name: Invalid value: \"m\": field is immutable",
            "metadata.namespace: Invalid value: \"\": field is immutable",
            "metadata.uid: Invalid value: \"v\": field is immutable",
        ]
    );
    assert_eq!(
        updated(json!({
            "creationTimestamp": null, "deletionTimestamp": "2024-01-01T00:00:00Z", "deletionGracePeriodSeconds": 5
        })),
        [
            "metadata.creationTimestamp: Invalid value: null: field is immutable",
            "metadata.deletionTimestamp: Invalid value: \"2024-01-01T00:00:00Z\": field is immutable",
            "metadata.deletionGracePeriodSeconds: Invalid value: 5: field is immutable",
        ]
    );
}

#[test]
fn nothing_new_holds_an_object_that_is_being_deleted() {
    let object = |finalizers: &[&str]| {
        json!({"metadata": {
            "name": "n", "resourceVersion": "1", "deletionTimestamp": "2024-01-01T00:00:00Z", "finalizers": finalizers
        }})
    };
    let old = object(&["a", "b"]);
    assert_eq!(validate_update(&object(&["b"]), &old), []);
    assert_eq!(
        validate_update(&object(&["d", "b", "c"]), &old)[0].to_string(),
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new \
         finalizers []string{\"c\", \"d\"}"
    );
}
