//! Writes that change nothing.

use serde_json::Value;

use super::order::equal;
use crate::meta;

/// Puts the old times of managed fields back if nothing else differs: a write that changes nothing must not make a new revision.
/// Both must be as they would be stored.
pub fn keep_times_of_no_op(old: &Value, new: &mut Value) {
    let (Some(old_entries), Some(new_entries)) = (meta::managed_fields(old), meta::managed_fields(new))
    else {
        return;
    };
    if old_entries.len() != new_entries.len() || new_entries.is_empty() || old_entries == new_entries {
        return;
    }
    let same_but_time = |(old, new): (&Value, &Value)| match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let timeless = |entry: &serde_json::Map<String, Value>| {
                entry.len() - usize::from(entry.contains_key("time"))
            };
            timeless(old) == timeless(new)
                && old.iter().all(|(field, value)| field == "time" || new.get(field) == Some(value))
        }
        (old, new) => old == new,
    };
    if !old_entries.iter().zip(new_entries).all(same_but_time) || !equal_but_managed_fields(old, new) {
        return;
    }
    let entries = Value::Array(old_entries.clone());
    if let Some(metadata) = meta::metadata_mut(new) {
        metadata.insert("managedFields".to_owned(), entries);
    }
}

fn equal_but_managed_fields(old: &Value, new: &Value) -> bool {
    let (Value::Object(old), Value::Object(new)) = (old, new) else { return old == new };
    old.len() == new.len()
        && old.iter().zip(new).all(|((old_name, old), (new_name, new))| {
            old_name == new_name
                && match (old_name.as_str(), old, new) {
                    ("metadata", Value::Object(old), Value::Object(new)) => {
                        let old = old.iter().filter(|(name, _)| *name != "managedFields");
                        let mut new = new.iter().filter(|(name, _)| *name != "managedFields");
                        let same = |(old_name, old): (&String, &Value)| {
                            new.next().is_some_and(|(new_name, new)| old_name == new_name && equal(old, new))
                        };
                        let mut old = old;
                        old.all(same) && new.next().is_none()
                    }
                    _ => equal(old, new),
                }
        })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(labels: &Value, entries: &Value) -> Value {
        json!({"metadata": {"name": "n", "labels": labels, "managedFields": entries}, "spec": {"a": 1}})
    }

    fn entry(time: &str, fields: &Value) -> Value {
        json!({"manager": "m", "operation": "Apply", "time": time, "fieldsV1": fields})
    }

    #[test]
    fn only_a_write_that_changes_nothing_keeps_its_time() {
        let old = object(&json!({}), &json!([entry("old", &json!({"f:a": {}}))]));
        let written = |mut new: Value| {
            keep_times_of_no_op(&old, &mut new);
            new["metadata"]["managedFields"][0]["time"].clone()
        };
        assert_eq!(written(object(&json!({}), &json!([entry("new", &json!({"f:a": {}}))]))), "old");
        assert_eq!(written(object(&json!({"l": "1"}), &json!([entry("new", &json!({"f:a": {}}))]))), "new");
        assert_eq!(written(object(&json!({}), &json!([entry("new", &json!({"f:b": {}}))]))), "new");
        let two = json!([entry("new", &json!({"f:a": {}})), entry("new", &json!({}))]);
        assert_eq!(written(object(&json!({}), &two)), "new");
        let mut more = object(&json!({}), &json!([entry("new", &json!({"f:a": {}}))]));
        more["metadata"]["z"] = json!(1);
        assert_eq!(written(more), "new");
    }

    #[test]
    fn an_entry_without_a_time_keeps_none() {
        let timeless = json!({"manager": "m", "operation": "Apply", "fieldsV1": {}});
        let old = object(&json!({}), &json!([timeless]));
        let mut new = object(&json!({}), &json!([entry("new", &json!({}))]));
        keep_times_of_no_op(&old, &mut new);
        assert_eq!(new, old);
    }
}
