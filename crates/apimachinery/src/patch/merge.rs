//! Merge patch (RFC 7396), with one habit of the library that kube-apiserver uses: what a patch adds or puts in place of a list
//! or a plain value loses its nulls, even those of objects inside lists.

use serde_json::{Map, Value};

use super::PatchError;

/// Applies a merge patch to an object.
pub fn merge(document: &Value, patch: Value) -> Result<Value, PatchError> {
    let (Value::Object(document), Value::Object(patch)) = (document, patch) else {
        return Err(PatchError::Malformed("Invalid JSON Patch".to_owned()));
    };
    let mut document = document.clone();
    merge_fields(&mut document, patch);
    Ok(Value::Object(document))
}

fn merge_fields(document: &mut Map<String, Value>, patch: Map<String, Value>) {
    for (name, change) in patch {
        match (document.get_mut(&name), change) {
            (_, Value::Null) => {
                document.remove(&name);
            }
            (Some(Value::Object(current)), Value::Object(change)) => merge_fields(current, change),
            (Some(current @ Value::Object(_)), change) => *current = change,
            (_, mut change) => {
                prune_nulls(&mut change);
                document.insert(name, change);
            }
        }
    }
}

fn prune_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(prune_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(prune_nulls),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::test_values::fields;

    #[test]
    fn the_examples_of_the_rfc_hold() {
        let cases = [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
            (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!({"e": null}), json!({"a": 1}), json!({"a": 1, "e": null})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        ];
        for (document, patch, result) in cases {
            assert_eq!(merge(&document, patch.clone()), Ok(result), "{patch}");
        }
    }

    #[test]
    fn nulls_inside_lists_go_where_kubernetes_drops_them() {
        let listed = json!({"a": [{"b": null, "c": 1}, null]});
        let pruned = json!({"a": [{"c": 1}, null]});
        assert_eq!(merge(&json!({}), listed.clone()), Ok(pruned.clone()));
        assert_eq!(merge(&json!({"a": [1]}), listed.clone()), Ok(pruned.clone()));
        assert_eq!(merge(&json!({"a": null}), listed.clone()), Ok(pruned));
        assert_eq!(merge(&json!({"a": {}}), listed.clone()), Ok(listed), "in place of an object they stay");
    }

    #[test]
    fn only_objects_are_merged() {
        for (document, patch) in [(json!({}), json!(null)), (json!({}), json!([1])), (json!([]), json!({}))] {
            assert_eq!(merge(&document, patch), Err(PatchError::Malformed("Invalid JSON Patch".to_owned())));
        }
    }

    /// Without lists, where Kubernetes does not do what the RFC says.
    fn without_lists(value: Value) -> Value {
        match value {
            Value::Array(items) => json!(items.len()),
            Value::Object(fields) => {
                Value::Object(fields.into_iter().map(|(name, field)| (name, without_lists(field))).collect())
            }
            other => other,
        }
    }

    proptest! {
        #[test]
        fn another_implementation_agrees(document in fields(), patch in fields()) {
            let (document, patch) = (without_lists(document), without_lists(patch));
            let mut expected = document.clone();
            ::json_patch::merge(&mut expected, &patch);
            prop_assert_eq!(merge(&document, patch), Ok(expected));
        }

        #[test]
        fn a_patch_applied_twice_changes_nothing_more(document in fields(), patch in fields()) {
            let (document, patch) = (without_lists(document), without_lists(patch));
            let once = merge(&document, patch.clone()).unwrap();
            prop_assert_eq!(merge(&once, patch), Ok(once));
        }
    }
}
