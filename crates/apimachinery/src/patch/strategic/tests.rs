use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::status::Status;
use crate::test_values::fields;

static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    let schema = json!({
        "type": "object",
        "properties": {
            "containers": {
                "type": "array", "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name",
                "items": {"type": "object", "properties": {
                    "name": {"type": "string"}, "image": {"type": "string"},
                    "args": {"type": "array", "items": {"type": "string"}}
                }}
            },
            "finalizers": {"type": "array", "x-kubernetes-patch-strategy": "merge", "items": {"type": "string"}},
            "args": {"type": "array", "items": {"type": "string"}},
            "strategy": {"type": "object", "x-kubernetes-patch-strategy": "retainKeys", "properties": {
                "type": {"type": "string"}, "rolling": {"type": "object", "properties": {"max": {"type": "integer"}}}
            }},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}}
        }
    });
    Schema::from_json(&schema).unwrap()
});

fn patched(current: &Value, patch: Value) -> Result<Value, PatchError> {
    strategic(current, patch, &SCHEMA)
}

fn names(object: &Value) -> Vec<&str> {
    object["containers"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap()).collect()
}

#[test]
fn lists_of_objects_are_merged_by_key() {
    let current =
        json!({"containers": [{"name": "a", "image": "1", "args": ["x"]}, {"name": "b", "image": "2"}]});
    let result =
        patched(&current, json!({"containers": [{"name": "b", "image": "3"}, {"name": "c"}]})).unwrap();
    assert_eq!(
        result,
        json!({"containers": [{"name": "a", "image": "1", "args": ["x"]}, {"name": "b", "image": "3"}, {"name": "c"}]})
    );
    let result =
        patched(&current, json!({"containers": [{"name": "a", "args": ["z"], "image": null}]})).unwrap();
    assert_eq!(
        result["containers"][0],
        json!({"name": "a", "args": ["z"]}),
        "lists without a strategy are replaced"
    );
}

#[test]
fn lists_of_plain_values_are_joined() {
    let current = json!({"finalizers": ["a", "b"], "args": ["1"]});
    let result = patched(&current, json!({"finalizers": ["c", "a"], "args": ["2"]})).unwrap();
    assert_eq!(result, json!({"finalizers": ["c", "a", "b"], "args": ["2"]}));
    let result = patched(&current, json!({"$deleteFromPrimitiveList/finalizers": ["a", "z"]})).unwrap();
    assert_eq!(result["finalizers"], json!(["b"]));
}

#[test]
fn directives_delete_and_replace() {
    let current = json!({"containers": [{"name": "a"}, {"name": "b"}], "labels": {"x": "1"}});
    let result = patched(&current, json!({"containers": [{"name": "a", "$patch": "delete"}]})).unwrap();
    assert_eq!(names(&result), ["b"]);
    let result = patched(&current, json!({"containers": [{"$patch": "replace"}, {"name": "c"}]})).unwrap();
    assert_eq!(names(&result), ["c"]);
    let result = patched(&current, json!({"labels": {"$patch": "replace", "z": "2"}})).unwrap();
    assert_eq!(result["labels"], json!({"z": "2"}));
    let result = patched(&current, json!({"labels": {"$patch": "delete"}})).unwrap();
    assert_eq!(result["labels"], json!({}));
    let result =
        patched(&current, json!({"new": {"$patch": "delete"}, "other": [{"$patch": "delete"}, 1]})).unwrap();
    assert_eq!(result["other"], json!([1]), "a directive about nothing leaves nothing");
    assert_eq!(result.get("new"), None);
}

#[test]
fn a_directive_says_which_fields_stay() {
    let current = json!({"strategy": {"type": "Rolling", "rolling": {"max": 1}}});
    let recreate = json!({"strategy": {"$retainKeys": ["type"], "type": "Recreate"}});
    assert_eq!(patched(&current, recreate).unwrap(), json!({"strategy": {"type": "Recreate"}}));
    let contradiction = json!({"strategy": {"$retainKeys": ["type"], "rolling": {"max": 2}}});
    let error = patched(&current, contradiction).unwrap_err();
    assert_eq!(error, PatchError::Malformed("invalid patch format of retainKeys".to_owned()));
    assert_eq!(Status::from(error).code, 400);
}

#[test]
fn a_directive_says_the_order() {
    let current = json!({"containers": [{"name": "a"}, {"name": "b"}, {"name": "server"}]});
    let order = json!([{"name": "c"}, {"name": "b"}, {"name": "a"}]);
    let patch = json!({"$setElementOrder/containers": order, "containers": [{"name": "c"}]});
    assert_eq!(names(&patched(&current, patch).unwrap()), ["c", "b", "a", "server"]);
    let only = json!({"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]});
    assert_eq!(names(&patched(&current, only).unwrap()), ["b", "a", "server"]);
    let contradiction =
        json!({"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "c"}]});
    let error = patched(&current, contradiction).unwrap_err();
    assert_eq!(
        error.to_string(),
        "The order in patch list:\n[map[name:c]]\n doesn't match $setElementOrder list:\n[map[name:a]]\n"
    );
    assert_eq!(Status::from(error).code, 400);
}

#[test]
fn what_cannot_be_merged_is_refused() {
    let current = json!({"containers": [{"name": "a"}], "finalizers": ["x"]});
    let cases = [
        (
            json!({"containers": [{"image": "x"}]}),
            400,
            "map: map[image:x] does not contain declared merge key: name",
        ),
        (json!({"containers": ["x"]}), 400, "list element types are not identical: [[map[name:a]] [x]]"),
        (json!({"$patch": "oops"}), 400, "unknown patch type: oops in map: map[$patch:oops]"),
        (json!({"$deleteFromPrimitiveList": []}), 400, "invalid patch format of primitive list"),
        (json!({"$setElementOrder": []}), 400, "invalid patch format of setElementOrder list"),
        (
            json!({"$setElementOrder/finalizers": "x"}),
            400,
            "expected a []interface {}, but received a string",
        ),
        (
            json!({"$setElementOrder/nope": []}),
            400,
            "unable to find api field in struct for the json field \"nope\"",
        ),
        (json!([]), 400, "invalid JSON document"),
    ];
    for (patch, code, message) in cases {
        let status = Status::from(patched(&current, patch.clone()).unwrap_err());
        assert_eq!((status.code, status.message.as_str()), (code, message), "{patch}");
    }
    let lists = patched(&json!({"finalizers": [["x"]]}), json!({"finalizers": ["x"]})).unwrap_err();
    assert_eq!(Status::from(lists).code, 422);
}

#[test]
fn long_lists_are_merged_in_time() {
    let containers = |range: std::ops::Range<u32>| -> Value {
        range.map(|number| json!({"name": format!("c{number}"), "image": "i"})).collect()
    };
    let plain =
        |range: std::ops::Range<u32>| -> Value { range.map(|number| json!(format!("f{number}"))).collect() };
    let current = json!({"containers": containers(0..100_000), "finalizers": plain(0..100_000)});
    let patch = json!({
        "containers": containers(50_000..150_000),
        "$setElementOrder/containers": containers(0..150_000),
        "finalizers": plain(50_000..150_000),
        "$deleteFromPrimitiveList/finalizers": plain(0..10),
    });
    let result = patched(&current, patch).unwrap();
    assert_eq!(names(&result).len(), 150_000);
    assert_eq!(result["finalizers"].as_array().unwrap().len(), 149_990);
}

/// Whether a value has nothing that a patch would take for a directive or a deletion.
fn is_plain(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Array(items) => items.iter().all(is_plain),
        Value::Object(fields) => fields.values().all(is_plain),
        _ => true,
    }
}

proptest! {
    #[test]
    fn without_lists_to_merge_it_is_a_merge_patch(current in fields(), patch in fields()) {
        prop_assume!(is_plain(&patch));
        prop_assert_eq!(patched(&current, patch.clone()), crate::patch::merge(&current, patch));
    }

    #[test]
    fn a_patch_applied_twice_changes_nothing_more(
        current in proptest::sample::subsequence(vec!["a", "b", "c", "d"], 0..5).prop_shuffle(),
        change in proptest::sample::subsequence(vec!["b", "c", "e"], 0..4).prop_shuffle(),
    ) {
        let list = |names: &[&str]| -> Value { names.iter().map(|name| json!({"name": name})).collect() };
        let current = json!({"containers": list(&current), "finalizers": current});
        let patch = json!({"containers": list(&change), "finalizers": change});
        let once = patched(&current, patch.clone()).unwrap();
        prop_assert_eq!(patched(&once, patch), Ok(once));
    }

    #[test]
    fn nothing_stops_it(
        current in fields(), patch in fields(), key in "\\$(patch|retainKeys|setElementOrder/[a-c]|deleteFromPrimitiveList/[a-c])",
        directive in crate::test_values::json_value()
    ) {
        let mut patch = patch;
        patch[key] = directive;
        let _ = patched(&current, patch);
    }
}
