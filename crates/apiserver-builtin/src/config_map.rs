//! ConfigMaps.

use serde_json::Value;

use super::behaviour::Behaviour;
use super::errors::Errors;
use super::format::config_key;
use super::kind::{KindExt as _, core};
use super::table::{age, columns, name};
use super::value::{entries, is_true, same, size, text};
use apischema::Path;
use apiserver::registry::{Resource, Scope};

/// The most bytes that the data of a ConfigMap or a Secret may have.
pub(super) const MOST_DATA: usize = 1024 * 1024;

pub(super) fn resource() -> Resource {
    core("configmaps", "ConfigMap", Scope::Namespaced)
        .short_names(&["cm"])
        .behaving(Behaviour {
            validate: check,
            validate_update: |new, old, errors| check_immutable(new, old, errors, &["data", "binaryData"]),
            ..Behaviour::PLAIN
        })
        .shown(columns(&["Name", "Data", "Age"], |config_map, now| {
            let entries = size(&config_map["data"]) + size(&config_map["binaryData"]);
            vec![name(config_map), entries.into(), age(config_map, now)]
        }))
}

fn check(config_map: &Value, errors: &mut Errors) {
    let (data, binary) = (Path::root("data"), Path::root("binaryData"));
    let mut total = 0;
    for (key, value) in entries(&config_map["data"]) {
        errors.messages(data.key(key), key, config_key(key));
        if config_map["binaryData"].get(key).is_some() {
            errors.invalid(data.key(key), key, "duplicate of key present in binaryData");
        }
        total += text(value).len();
    }
    for (key, value) in entries(&config_map["binaryData"]) {
        errors.messages(binary.key(key), key, config_key(key));
        total += decoded_len(text(value));
    }
    if total > MOST_DATA {
        errors.too_long(Path::root("[]"), MOST_DATA as u64);
    }
}

/// How many bytes a text of base64 stands for.
pub(super) fn decoded_len(base64: &str) -> usize {
    let padding = base64.bytes().rev().take_while(|byte| *byte == b'=').count();
    (base64.len() / 4 * 3).saturating_sub(padding)
}

/// Once data is said to be immutable, neither that nor the data changes.
pub(super) fn check_immutable(new: &Value, old: &Value, errors: &mut Errors, data: &[&str]) {
    if !is_true(&old["immutable"]) {
        return;
    }
    let detail = "field is immutable when `immutable` is set";
    if !is_true(&new["immutable"]) {
        errors.forbidden(Path::root("immutable"), detail);
    }
    for field in data {
        if !same(&new[*field], &old[*field]) {
            errors.forbidden(Path::root(field), detail);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{cells, create, update};
    use super::*;
    use serde_json::json;

    #[test]
    fn keys_are_file_names_and_appear_once() {
        let wrong = |config_map| create(&resource(), &config_map);
        assert!(wrong(json!({"data": {"a.b": "c"}, "binaryData": {"d": "AA=="}})).is_empty());
        assert_eq!(
            wrong(json!({"data": {"a": "", "..": ""}, "binaryData": {"a": ""}})),
            [
                "data[..]: Invalid value: \"..\": must not be '..'",
                "data[a]: Invalid value: \"a\": duplicate of key present in binaryData"
            ]
        );
        assert_eq!(
            wrong(json!({"data": {"a": "x".repeat(MOST_DATA + 1)}})),
            ["[]: Too long: may not be more than 1048576 bytes"]
        );
        assert!(wrong(json!({"data": {"a": "x".repeat(MOST_DATA)}})).is_empty());
    }

    #[test]
    fn immutable_data_does_not_change() {
        let old = json!({"data": {"a": "b"}, "immutable": true});
        assert!(update(&resource(), &old, &old).is_empty());
        assert_eq!(
            update(&resource(), &json!({"data": {"a": "c"}}), &old),
            [
                "immutable: Forbidden: field is immutable when `immutable` is set",
                "data: Forbidden: field is immutable when `immutable` is set"
            ]
        );
        assert!(update(&resource(), &json!({"data": {"a": "c"}}), &json!({"data": {}})).is_empty());
    }

    #[test]
    fn the_table_counts_keys() {
        let config_map = json!({
            "metadata": {"name": "a", "creationTimestamp": "2024-01-01T00:00:00Z"},
            "data": {"x": "", "y": ""}, "binaryData": {"z": ""},
        });
        assert_eq!(
            cells(&resource(), &config_map, "2024-01-01T00:01:05Z"),
            [json!("a"), json!(3), json!("65s")]
        );
    }

    #[test]
    fn base64_stands_for_three_bytes_in_four() {
        assert_eq!(["", "AA==", "AAA=", "AAAA"].map(decoded_len), [0, 1, 2, 3]);
    }
}
