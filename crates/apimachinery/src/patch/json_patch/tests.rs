use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::status::Status;
use crate::test_values::fields;

fn patched(document: Value, patch: Value) -> Result<Value, PatchError> {
    JsonPatch::from_value(patch)?.apply(document)
}

#[test]
fn each_operation_does_what_the_rfc_says() {
    let cases = [
        (json!({"a": 1}), json!([{"op": "add", "path": "/b", "value": 2}]), json!({"a": 1, "b": 2})),
        (json!({"a": [1, 3]}), json!([{"op": "add", "path": "/a/1", "value": 2}]), json!({"a": [1, 2, 3]})),
        (json!({"a": [1]}), json!([{"op": "add", "path": "/a/-", "value": 2}]), json!({"a": [1, 2]})),
        (json!({"a": [1]}), json!([{"op": "add", "path": "/a/1", "value": 2}]), json!({"a": [1, 2]})),
        (json!({"a": 1, "b": 2}), json!([{"op": "remove", "path": "/b"}]), json!({"a": 1})),
        (json!({"a": [1, 2]}), json!([{"op": "remove", "path": "/a/0"}]), json!({"a": [2]})),
        (json!({"a": 1}), json!([{"op": "replace", "path": "/a", "value": 2}]), json!({"a": 2})),
        (json!({"a": [1]}), json!([{"op": "replace", "path": "/a/0", "value": 2}]), json!({"a": [2]})),
        (
            json!({"a": {"x": 1}, "b": {}}),
            json!([{"op": "move", "from": "/a/x", "path": "/b/y"}]),
            json!({"a": {}, "b": {"y": 1}}),
        ),
        (
            json!({"a": {"x": 1}}),
            json!([{"op": "copy", "from": "/a", "path": "/b"}]),
            json!({"a": {"x": 1}, "b": {"x": 1}}),
        ),
        (
            json!({"a": {"x": [1]}}),
            json!([{"op": "test", "path": "/a", "value": {"x": [1]}}]),
            json!({"a": {"x": [1]}}),
        ),
        (json!({"a": 1}), json!([{"op": "test", "path": "", "value": {"a": 1}}]), json!({"a": 1})),
        (json!({"a": 1}), json!([{"op": "replace", "path": "", "value": {}}]), json!({})),
        (
            json!({"m/n": 1, "~": 2}),
            json!([{"op": "remove", "path": "/m~1n"}, {"op": "remove", "path": "/~0"}]),
            json!({}),
        ),
        (json!({"~1": 1}), json!([{"op": "remove", "path": "/~01"}]), json!({})),
        (json!({"": 1}), json!([{"op": "remove", "path": "/"}]), json!({})),
        (json!({"a": 1}), json!([]), json!({"a": 1})),
    ];
    for (document, patch, result) in cases {
        assert_eq!(patched(document, patch.clone()), Ok(result), "{patch}");
    }
}

#[test]
fn habits_of_kubernetes_are_kept() {
    let cases = [
        (json!({}), json!([{"op": "replace", "path": "/a", "value": 1}]), json!({"a": 1})),
        (json!({"a": [1, 2]}), json!([{"op": "remove", "path": "/a/-1"}]), json!({"a": [1]})),
        (json!({"a": [1, 2]}), json!([{"op": "add", "path": "/a/-1", "value": 3}]), json!({"a": [1, 2, 3]})),
        (json!({}), json!([{"op": "test", "path": "/a", "value": null}]), json!({})),
        (json!({}), json!([{"op": "add", "path": "/a"}]), json!({"a": null})),
        (json!({"a": 1}), json!([{"op": "remove", "path": "x/a"}]), json!({})),
        (json!({"a": 1}), json!([{"op": "replace", "path": "", "value": 1}]), json!({"a": 1})),
    ];
    for (document, patch, result) in cases {
        assert_eq!(patched(document, patch.clone()), Ok(result), "{patch}");
    }
}

#[test]
fn what_does_not_fit_is_refused_without_saying_why() {
    let cases = [
        json!([{"op": "remove", "path": "/nope"}]),
        json!([{"op": "add", "path": "/nope/deeper", "value": 1}]),
        json!([{"op": "add", "path": "/list/5", "value": 1}]),
        json!([{"op": "add", "path": "/list/x", "value": 1}]),
        json!([{"op": "replace", "path": "/list/1", "value": 1}]),
        json!([{"op": "remove", "path": "/list/-2"}]),
        json!([{"op": "test", "path": "/a", "value": 2}]),
        json!([{"op": "test", "path": "/a"}]),
        json!([{"op": "move", "from": "/nope", "path": "/b"}]),
        json!([{"op": "copy", "from": "/list/7", "path": "/b"}]),
        json!([{"op": "add", "path": "/a/b", "value": 1}]),
        json!([{"op": "add", "path": "", "value": {}}]),
        json!([{"op": "add", "value": 1}]),
        json!([{"op": "move", "path": "/b"}]),
        json!([{"op": "frob", "path": "/a"}]),
        json!([{"path": "/a"}]),
        json!([{}]),
        json!([null]),
    ];
    for patch in cases {
        let error = patched(json!({"a": 1, "list": [1]}), patch.clone()).unwrap_err();
        let status = Status::from(error);
        assert_eq!(status.code, 422, "{patch}");
        assert_eq!(status.message, "the server rejected our request due to an error in our request");
    }
}

#[test]
fn what_is_no_patch_is_a_bad_request() {
    let cases: [(&[u8], &str); 4] = [
        (b"{}", "json: cannot unmarshal object into Go value of type jsonpatch.Patch"),
        (b"[1]", "json: cannot unmarshal number into Go value of type jsonpatch.Operation"),
        (b"[", "unexpected end of JSON input"),
        (b"x", "invalid character 'x' looking for beginning of value"),
    ];
    for (patch, message) in cases {
        let status = Status::from(json(&json!({}), patch).unwrap_err());
        assert_eq!((status.code, status.message.as_str()), (400, message));
    }
    assert_eq!(json(&json!({"a": 1}), b"null"), Ok(json!({"a": 1})));
}

#[test]
fn a_patch_has_limits() {
    let operations = |count: usize| Value::Array(vec![json!({"op": "add", "path": "/a", "value": 1}); count]);
    assert_eq!(patched(json!({}), operations(MAX_OPERATIONS)), Ok(json!({"a": 1})));
    let status = Status::from(patched(json!({}), operations(MAX_OPERATIONS + 1)).unwrap_err());
    assert_eq!(
        (status.code, status.message.as_str()),
        (413, "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001")
    );

    // Doubling: a kilobyte would become a gigabyte in twenty steps.
    let doubling = Value::Array(vec![json!({"op": "copy", "from": "/a", "path": "/a/-"}); 30]);
    let big = json!({"a": ["x".repeat(1024)]});
    assert!(matches!(patched(big, doubling), Err(PatchError::Inapplicable(_))));

    // Each three operations nest everything one level deeper.
    let mut deeper = Vec::new();
    for _ in 0..3_000 {
        deeper.push(json!({"op": "add", "path": "/b", "value": {}}));
        deeper.push(json!({"op": "move", "from": "/a", "path": "/b/a"}));
        deeper.push(json!({"op": "move", "from": "/b", "path": "/a"}));
    }
    assert!(matches!(patched(json!({"a": {}}), Value::Array(deeper)), Err(PatchError::Inapplicable(_))));
}

#[test]
fn long_lists_are_patched_in_time() {
    let list: Vec<_> = (0..100_000).collect();
    let removals = Value::Array(vec![json!({"op": "remove", "path": "/list/0"}); 10_000]);
    let result = patched(json!({"list": list}), removals).unwrap();
    assert_eq!(result["list"].as_array().unwrap().len(), 90_000);
}

proptest! {
    /// Patches that are made by comparing two documents use every operation but `copy`, `move` and `test`.
    #[test]
    fn another_implementation_agrees(left in fields(), right in fields()) {
        let patch = serde_json::to_value(::json_patch::diff(&left, &right)).unwrap();
        prop_assert_eq!(patched(left, patch), Ok(right));
    }

    #[test]
    fn nothing_stops_the_parser(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        let _ = json(&json!({"a": [1, {"b": 2}]}), &bytes);
    }

    #[test]
    fn no_path_stops_it(op in "add|remove|replace|test|move|copy", path in "(/(a|b|-|0|1|-1|~0|~1|é))*", from in "(/(a|b|0))*") {
        let patch = json!([{"op": op, "path": path, "from": from, "value": {"c": 1}}]);
        let _ = patched(json!({"a": [1, {"b": 2}], "b": {"0": {}}}), patch);
    }
}
