//! What a server does to metadata before it stores an object.

use serde_json::Value;

use super::{metadata, metadata_mut, set_generation, set_namespace};
use crate::status::Status;

/// Drops from an object to be created what only the server may set.
pub fn wipe_system_fields(object: &mut Value) {
    let Some(metadata) = metadata_mut(object) else { return };
    for field in ["creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        metadata.remove(field);
    }
}

/// Sets what the server gives every new object.
pub fn fill_system_fields(object: &mut Value, uid: &str, now: &str) {
    let Some(metadata) = metadata_mut(object) else { return };
    metadata.insert("uid".to_owned(), uid.into());
    metadata.insert("creationTimestamp".to_owned(), now.into());
}

/// Puts an object into the namespace of the request, which is empty for what is in none. An object that names another one is
/// refused.
pub fn adopt_namespace(object: &mut Value, namespace: &str) -> Result<(), Status> {
    let own = super::namespace(object);
    if own == namespace {
        return Ok(());
    }
    if own.is_empty() || namespace.is_empty() {
        set_namespace(object, namespace);
        return Ok(());
    }
    Err(Status::bad_request(
        "the namespace of the provided object does not match the namespace sent on the request",
    ))
}

/// Takes over from the stored object what an update cannot change or need not repeat: the generation, the UID, the creation
/// time, and that it is being deleted.
pub fn prepare_update(new: &mut Value, old: &Value) {
    set_generation(new, super::generation(old));
    let Some(old) = metadata(old) else { return };
    let Some(new) = metadata_mut(new) else { return };
    // Nobody sets it any more, but old clients still send it.
    new.remove("selfLink");
    let mut take = |field: &str| {
        if let Some(value) = old.get(field).filter(|value| !value.is_null()) {
            new.insert(field.to_owned(), value.clone());
        }
    };
    take("creationTimestamp");
    take("deletionTimestamp");
    let lacks = |field: &str| new.get(field).is_none_or(|value| value.is_null() || value == "");
    let missing = ["uid", "deletionGracePeriodSeconds"].map(|field| (field, lacks(field)));
    for (field, _) in missing.into_iter().filter(|(_, is_missing)| *is_missing) {
        if let Some(value) = old.get(field) {
            new.insert(field.to_owned(), value.clone());
        }
    }
}

/// Drops owner references that are there twice. Returns the UIDs of those dropped: a server warns about them.
pub fn dedup_owner_references(object: &mut Value) -> Vec<String> {
    if super::owner_references(object).len() < 2 {
        return Vec::new();
    }
    let references = metadata_mut(object).and_then(|metadata| metadata.get_mut("ownerReferences"));
    let Some(references) = references.and_then(Value::as_array_mut) else { return Vec::new() };
    let mut duplicates = Vec::new();
    // By text, as values have no order: a long list must not cost its square.
    let mut seen = std::collections::HashSet::new();
    references.retain(|reference| {
        let first = seen.insert(reference.to_string());
        if !first {
            duplicates.push(reference.get("uid").and_then(Value::as_str).unwrap_or_default().to_owned());
        }
        first
    });
    duplicates
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_client_cannot_set_what_the_server_sets() {
        let mut object = json!({"metadata": {
            "name": "n", "uid": "mine", "creationTimestamp": "1970-01-01T00:00:00Z", "selfLink": "/x",
            "deletionTimestamp": "1970-01-01T00:00:00Z", "deletionGracePeriodSeconds": 5
        }});
        wipe_system_fields(&mut object);
        assert_eq!(object, json!({"metadata": {"name": "n"}}));
        fill_system_fields(&mut object, "u", "2024-01-01T00:00:00Z");
        assert_eq!(
            object,
            json!({"metadata": {"name": "n", "uid": "u", "creationTimestamp": "2024-01-01T00:00:00Z"}})
        );
    }

    #[test]
    fn an_object_goes_where_the_request_goes() {
        let namespaced = |namespace: &str| json!({"metadata": {"namespace": namespace}});
        let adopted =
            |mut object: Value, namespace: &str| adopt_namespace(&mut object, namespace).map(|()| object);
        assert_eq!(adopted(json!({"metadata": {}}), "a"), Ok(namespaced("a")));
        assert_eq!(adopted(namespaced("a"), "a"), Ok(namespaced("a")));
        assert_eq!(
            adopted(namespaced("a"), ""),
            Ok(json!({"metadata": {}})),
            "nothing of the cluster is in one"
        );
        assert_eq!(adopted(namespaced("a"), "b").unwrap_err().code, 400);
    }

    #[test]
    fn an_update_cannot_change_an_object_s_identity() {
        let old = json!({"metadata": {
            "uid": "u", "generation": 4, "creationTimestamp": "t", "deletionTimestamp": "d",
            "deletionGracePeriodSeconds": 3
        }});
        let mut new = json!({"metadata": {"generation": 9, "creationTimestamp": "other"}});
        prepare_update(&mut new, &old);
        assert_eq!(new, old);
        let mut other = json!({"metadata": {"uid": "v", "deletionGracePeriodSeconds": 1}});
        prepare_update(&mut other, &old);
        assert_eq!(other["metadata"]["uid"], "v", "validation refuses it");
        assert_eq!(other["metadata"]["deletionGracePeriodSeconds"], 1, "validation refuses it");
    }

    #[test]
    fn owner_references_are_kept_once() {
        let reference = |uid: &str| json!({"apiVersion": "v1", "kind": "Pod", "name": "n", "uid": uid});
        let mut object =
            json!({"metadata": {"ownerReferences": [reference("a"), reference("b"), reference("a")]}});
        assert_eq!(dedup_owner_references(&mut object), ["a"]);
        assert_eq!(object, json!({"metadata": {"ownerReferences": [reference("a"), reference("b")]}}));
        assert_eq!(dedup_owner_references(&mut object), Vec::<String>::new());
    }
}
