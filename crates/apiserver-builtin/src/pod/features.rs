//! What Kubernetes has only for those who ask for it. A server that nobody asked drops it.

use serde_json::Value;

use super::super::value::{fields_mut, is_set, items, items_mut, text};

/// Drops from the spec of a pod what is off unless a cluster turns it on.
pub(super) fn drop_disabled(spec: &mut Value) {
    if let Some(fields) = spec.as_object_mut() {
        fields.remove("hostnameOverride");
    }
    drop_image_volumes(spec);
    for kind in ["initContainers", "containers", "ephemeralContainers"] {
        for container in items_mut(spec, kind) {
            // An init container that always restarts is a sidecar.
            let is_sidecar = kind == "initContainers" && text(&container["restartPolicy"]) == "Always";
            let fields = fields_mut(container);
            if !is_sidecar {
                fields.remove("restartPolicy");
            }
            fields.remove("restartPolicyRules");
            if let Some(lifecycle) = fields.get_mut("lifecycle").and_then(Value::as_object_mut)
                && lifecycle.remove("stopSignal").is_some()
                && lifecycle.is_empty()
            {
                fields.remove("lifecycle");
            }
            for variable in items_mut(container, "env") {
                if let Some(source) = variable.get_mut("valueFrom").and_then(Value::as_object_mut) {
                    source.remove("fileKeyRef");
                }
            }
        }
    }
}

fn drop_image_volumes(spec: &mut Value) {
    let is_image = |volume: &&Value| is_set(&volume["image"]);
    let images: Vec<_> =
        items(&spec["volumes"]).iter().filter(is_image).map(|volume| volume["name"].clone()).collect();
    if images.is_empty() {
        return;
    }
    retain(spec, "volumes", |volume| !is_image(&volume));
    for kind in ["initContainers", "containers", "ephemeralContainers"] {
        for container in items_mut(spec, kind) {
            retain(container, "volumeMounts", |mount| !images.contains(&mount["name"]));
        }
    }
}

/// Keeps only such elements of a list. A list of which none is kept goes too.
fn retain(object: &mut Value, name: &str, keep: impl Fn(&Value) -> bool) {
    let Some(list) = object.get_mut(name).and_then(Value::as_array_mut) else { return };
    list.retain(|element| keep(element));
    if list.is_empty() {
        fields_mut(object).remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_off_is_dropped() {
        let mut spec = json!({
            "hostnameOverride": "x",
            "initContainers": [{"name": "a", "restartPolicy": "Always"}, {"name": "b", "restartPolicy": "Never"}],
            "containers": [{
                "name": "c",
                "restartPolicy": "Always",
                "lifecycle": {"stopSignal": "SIGTERM"},
                "volumeMounts": [{"name": "i", "mountPath": "/i"}],
            }],
            "volumes": [{"name": "i", "image": {"reference": "x"}}],
        });
        drop_disabled(&mut spec);
        assert_eq!(
            spec,
            json!({
                "initContainers": [{"name": "a", "restartPolicy": "Always"}, {"name": "b"}],
                "containers": [{"name": "c"}],
            })
        );
    }
}
