use serde_json::json;

use super::*;

#[test]
fn who_applies_a_field_owns_it() {
    let object =
        apply_by(None, "a", &json!({"name": "x", "nested": {"b": {"c": "1"}}, "labels": {"l": "1"}}))
            .unwrap();
    assert_eq!(object["spec"], json!({"name": "x", "nested": {"b": {"c": "1"}}, "labels": {"l": "1"}}));
    assert_eq!(
        owned_by(&object, "a"),
        json!({"f:spec": {"f:name": {}, "f:nested": {"f:b": {"f:c": {}}}, "f:labels": {"f:l": {}}}}),
        "structs and maps are not owned, only what is in them"
    );
}

#[test]
fn who_applies_the_same_value_shares_it() {
    let object = stored(apply_by(None, "a", &json!({"name": "x", "replicas": 1})).unwrap());
    let object = stored(apply_by(Some(&object), "b", &json!({"name": "x"})).unwrap());
    assert_eq!(owned_by(&object, "b"), json!({"f:spec": {"f:name": {}}}));
    assert_eq!(owned_by(&object, "a"), json!({"f:spec": {"f:name": {}, "f:replicas": {}}}));
    // It stays as long as one of them applies it.
    let object = stored(apply_by(Some(&object), "a", &json!({"replicas": 1})).unwrap());
    assert_eq!(object["spec"], json!({"name": "x", "replicas": 1}));
    let object = apply_by(Some(&object), "b", &json!({})).unwrap();
    assert_eq!(object["spec"], json!({"replicas": 1}));
    assert_eq!(owned_by(&object, "b"), json!({"f:spec": {}}), "an empty struct is a value");
}

#[test]
fn who_changes_the_value_of_another_is_refused() {
    let object = stored(apply_by(None, "a", &json!({"name": "x"})).unwrap());
    let error = apply_by(Some(&object), "b", &json!({"name": "z"})).unwrap_err();
    assert_eq!(error.to_string(), "Apply failed with 1 conflict: conflict with \"a\": .spec.name");
    let status = Status::from(error);
    assert_eq!(status.code, 409);
    let causes = status.details.unwrap().causes;
    assert_eq!(
        causes,
        [StatusCause {
            reason: "FieldManagerConflict".to_owned(),
            message: "conflict with \"a\"".to_owned(),
            field: ".spec.name".to_owned()
        }]
    );
    let taken = force_by(&object, "b", &json!({"name": "z"}));
    assert_eq!(taken["spec"], json!({"name": "z"}));
    assert_eq!(
        (owned_by(&taken, "a"), owned_by(&taken, "b")),
        (Value::Null, json!({"f:spec": {"f:name": {}}}))
    );
}

#[test]
fn several_conflicts_are_told_by_manager() {
    let object = create_by("u", &json!({"name": "x", "replicas": 1, "ports": [{"port": 80, "name": "p"}]}));
    let error = apply_by(Some(&object), "b", &json!({"name": "z", "ports": [{"port": 80, "name": "q"}]}))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "Apply failed with 2 conflicts: conflicts with \"u\" using example.com/v1:\n- .spec.name\n- \
         .spec.ports[port=80,protocol=\"TCP\"].name"
    );
}

#[test]
fn what_is_no_longer_applied_goes() {
    let object = stored(apply_by(None, "a", &json!({"name": "x", "nested": {"b": {"c": "1"}}})).unwrap());
    let object = apply_by(Some(&object), "a", &json!({"name": "x"})).unwrap();
    assert_eq!(object["spec"], json!({"name": "x"}), "with the structs that it was in");
}

#[test]
fn what_is_no_longer_applied_stays_if_others_own_it() {
    let object = stored(apply_by(None, "a", &json!({"replicas": 1, "labels": {"x": "1"}})).unwrap());
    let object = update_by(&object, "u", |object| object["spec"]["labels"]["z"] = json!("2"));
    let object = apply_by(Some(&object), "a", &json!({"replicas": 1})).unwrap();
    assert_eq!(object["spec"], json!({"replicas": 1, "labels": {"z": "2"}}));
}

#[test]
fn what_nobody_owns_stays_beside_what_is_applied() {
    let mut object = stored(apply_by(None, "a", &json!({"labels": {"x": "1", "z": "1"}})).unwrap());
    object["spec"]["labels"]["dangling"] = json!("2");
    object["spec"]["name"] = json!("dangling");
    let object = apply_by(Some(&object), "a", &json!({"labels": {"x": "1"}})).unwrap();
    assert_eq!(object["spec"], json!({"labels": {"x": "1", "dangling": "2"}, "name": "dangling"}));
}

#[test]
fn what_loses_everything_that_was_applied_becomes_null() {
    let object = stored(apply_by(None, "a", &json!({"labels": {"x": "1"}})).unwrap());
    let object = apply_by(Some(&object), "a", &json!({})).unwrap();
    assert_eq!(object["spec"], json!(null), "whoever stores the object drops it");
}

#[test]
fn an_atomic_map_has_one_owner() {
    let object = stored(apply_by(None, "a", &json!({"selector": {"x": "1"}})).unwrap());
    assert_eq!(owned_by(&object, "a"), json!({"f:spec": {"f:selector": {}}}));
    assert!(apply_by(Some(&object), "b", &json!({"selector": {"z": "2"}})).is_err());
    let object = force_by(&object, "b", &json!({"selector": {"z": "2"}}));
    assert_eq!(object["spec"]["selector"], json!({"z": "2"}), "nothing is merged");
}

#[test]
fn untyped_objects_have_fields_and_untyped_lists_have_not() {
    let object = stored(apply_by(None, "a", &json!({"raw": {"x": {"y": 1}, "l": [1]}})).unwrap());
    assert_eq!(
        owned_by(&object, "a"),
        json!({"f:spec": {"f:raw": {"f:l": {}, "f:x": {".": {}, "f:y": {}}}}})
    );
    let object = apply_by(Some(&object), "b", &json!({"raw": {"x": {"z": 2}}})).unwrap();
    assert_eq!(object["spec"]["raw"], json!({"x": {"y": 1, "z": 2}, "l": [1]}));
    assert!(apply_by(Some(&stored(object)), "b", &json!({"raw": {"l": [2]}})).is_err());
}

#[test]
fn nobody_owns_what_says_which_object_it_is() {
    let mut object = foo(&json!({"name": "x"}));
    object["metadata"]["labels"] = json!({"l": "1"});
    object["metadata"]["generation"] = json!(3);
    object["metadata"]["resourceVersion"] = json!("7");
    track_update(None, &mut object, &SCHEMA, &by("m"));
    assert_eq!(
        owned_by(&object, "m"),
        json!({"f:metadata": {"f:labels": {".": {}, "f:l": {}}}, "f:spec": {".": {}, "f:name": {}}})
    );
}

#[test]
fn owners_and_finalizers_are_merged() {
    let owner = |uid: &str| json!({"apiVersion": "v1", "kind": "Node", "name": "n", "uid": uid});
    let applied = |manager: &str, live: Option<&Value>, uid: &str, finalizer: &str| {
        let mut object = foo(&json!({}));
        object["metadata"]["ownerReferences"] = json!([owner(uid)]);
        object["metadata"]["finalizers"] = json!([finalizer]);
        stored(apply(live, &object, &SCHEMA, "Foo", &by(manager), Force::No).unwrap())
    };
    let object = applied("a", None, "1", "x");
    let object = applied("b", Some(&object), "2", "z");
    assert_eq!(object["metadata"]["ownerReferences"], json!([owner("1"), owner("2")]));
    assert_eq!(object["metadata"]["finalizers"], json!(["x", "z"]));
    assert_eq!(
        owned_by(&object, "b")["f:metadata"],
        json!({"f:finalizers": {"v:\"z\"": {}}, "f:ownerReferences": {"k:{\"uid\":\"2\"}": {}}}),
        "a reference is one field"
    );
}

#[test]
fn a_configuration_must_fit_the_kind() {
    let cases = [
        (
            json!({"nope": 1}),
            "failed to create typed patch object (ns/n; example.com/v1, Kind=Foo): .spec.nope: field not declared in schema",
        ),
        (
            json!({"ports": [{"name": "x"}, {"port": 1}, {"port": 1}]}),
            "failed to create typed patch object (ns/n; example.com/v1, Kind=Foo): .spec.ports: duplicate entries for key \
             [port=1,protocol=\"TCP\"]",
        ),
        (
            json!({"replicas": "x", "name": 1}),
            "failed to create typed patch object (ns/n; example.com/v1, Kind=Foo): errors:\n  .spec.name: expected string, \
             got &value.valueUnstructured{Value:1}\n  .spec.replicas: expected numeric (int or float), got string",
        ),
    ];
    for (spec, message) in cases {
        let error = apply_by(None, "m", &spec).unwrap_err();
        assert_eq!(error.to_string(), message);
        assert_eq!(Status::from(error).code, 400);
    }
    let refused = |object: &Value| {
        let error = apply(None, object, &SCHEMA, "Foo", &by("m"), Force::No).unwrap_err();
        (Status::from(error.clone()).code, error.to_string())
    };
    let mut other = foo(&json!({}));
    other["kind"] = json!("Bar");
    assert_eq!(refused(&other), (400, "invalid object type: example.com/v1, Kind=Bar".to_owned()));
    assert_eq!(refused(&json!([])), (400, "invalid object type: /, Kind=".to_owned()));
    let mut managed = foo(&json!({}));
    managed["metadata"]["managedFields"] = json!([]);
    assert_eq!(refused(&managed), (400, "metadata.managedFields must be nil".to_owned()));
}
