//! Managed fields of the `scale` subresource.
//!
//! A Scale is a view of an object that has only its replicas. Who owns them there owns them in the object, where they may be
//! somewhere else.

use serde_json::Value;

use super::managed::{self, Managers};
use super::path::Path;
use super::set::FieldSet;

const SCALE: &str = "autoscaling/v1";

fn replicas_in_scale() -> Path<'static> {
    Path::of_fields(&["spec", "replicas"])
}

/// Where an object of a version has its replicas; nothing if the kind does not have the version. The path is empty if it has the
/// version but no replicas.
pub type ReplicasPath<'a> = dyn Fn(&str) -> Option<Path<'static>> + 'a;

/// The managed fields of a Scale, from those of its object.
pub fn to_scale(object_entries: &[Value], replicas_path: &ReplicasPath<'_>) -> Result<Value, String> {
    let mut managers = managed::decode(object_entries)?;
    managers.retain(|_, owned| {
        let path = replicas_path(&owned.api_version).filter(|path| !path.0.is_empty());
        path.is_some_and(|path| owned.set.contains(&path))
    });
    for owned in managers.values_mut() {
        owned.replace(FieldSet::of([replicas_in_scale()]));
        owned.api_version = SCALE.into();
    }
    Ok(managed::encode(&managers))
}

/// The managed fields of an object of this version, from those that it had and those of its Scale after a write.
pub fn from_scale(
    object_entries: &[Value],
    scale_entries: &[Value],
    api_version: &str,
    replicas_path: &ReplicasPath<'_>,
) -> Result<Value, String> {
    let parent = managed::decode(object_entries)?;
    let mut scale = managed::decode(scale_entries)?;
    // Kubernetes does not say when someone scaled, unless he is known from before.
    for (manager, owned) in &mut scale {
        owned.time = parent.get(manager).and_then(|before| before.time.clone());
    }
    let mut managers = Managers::new();
    for (manager, mut owned) in parent {
        let Some(path) = replicas_path(&owned.api_version) else { continue };
        if !path.0.is_empty() && owned.set.contains(&path) && scale.remove(&manager).is_none() {
            // Someone took them.
            owned.lose(&FieldSet::of([path]));
            if owned.set.is_empty() {
                continue;
            }
        }
        managers.insert(manager, owned);
    }
    let own_path = replicas_path(api_version).unwrap_or_default();
    for (manager, mut owned) in scale {
        if owned.set.contains(&replicas_in_scale()) {
            owned.replace(FieldSet::of([own_path.clone()]));
            owned.api_version = api_version.into();
            managers.insert(manager, owned);
        }
    }
    Ok(managed::encode(&managers))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn path(version: &str) -> Option<Path<'static>> {
        match version {
            "apps/v1" => Some(Path::of_fields(&["spec", "replicas"])),
            "apps/v2" => Some(Path::of_fields(&["spec", "size"])),
            "apps/v3" => Some(Path::default()),
            _ => None,
        }
    }

    fn entry(manager: &str, version: &str, fields: &Value) -> Value {
        json!({
            "manager": manager, "operation": "Update", "apiVersion": version, "time": "2024-01-01T00:00:00Z",
            "fieldsType": "FieldsV1", "fieldsV1": fields
        })
    }

    #[test]
    fn a_scale_shows_only_who_owns_the_replicas() {
        let entries = [
            entry("a", "apps/v1", &json!({"f:spec": {"f:replicas": {}, "f:other": {}}})),
            entry("b", "apps/v1", &json!({"f:spec": {"f:other": {}}})),
            entry("c", "apps/v2", &json!({"f:spec": {"f:size": {}}})),
            entry("d", "apps/v9", &json!({"f:spec": {"f:replicas": {}}})),
        ];
        assert_eq!(
            to_scale(&entries, &path).unwrap(),
            json!([
                entry("a", "autoscaling/v1", &json!({"f:spec": {"f:replicas": {}}})),
                entry("c", "autoscaling/v1", &json!({"f:spec": {"f:replicas": {}}})),
            ])
        );
    }

    #[test]
    fn who_scales_owns_the_replicas_of_the_object() {
        let object = [
            entry("a", "apps/v1", &json!({"f:spec": {"f:replicas": {}, "f:other": {}}})),
            entry("b", "apps/v1", &json!({"f:spec": {"f:replicas": {}}})),
            entry("c", "apps/v3", &json!({"f:spec": {"f:x": {}}})),
        ];
        let scaler = |manager: &str| {
            let mut scaler = entry(manager, "autoscaling/v1", &json!({"f:spec": {"f:replicas": {}}}));
            scaler["subresource"] = json!("scale");
            scaler
        };
        let mut after = entry("s", "apps/v1", &json!({"f:spec": {"f:replicas": {}}}));
        after["subresource"] = json!("scale");
        after.as_object_mut().unwrap().remove("time");
        assert_eq!(
            from_scale(&object, &[scaler("s")], "apps/v1", &path).unwrap(),
            json!([
                after,
                entry("a", "apps/v1", &json!({"f:spec": {"f:other": {}}})),
                entry("c", "apps/v3", &json!({"f:spec": {"f:x": {}}})),
            ])
        );
    }
}
