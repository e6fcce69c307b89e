//! PersistentVolumes. Nothing here provisions, attaches or reclaims them.

use serde_json::{Value, json};

use super::behaviour::Behaviour;
use super::claim::{VOLUME_MODES, access_modes, check_access_modes};
use super::diff::diff;
use super::errors::Errors;
use super::format::dns1123_subdomain;
use super::kind::{KindExt as _, core};
use super::pod::scheduling::check_node_selector;
use super::pod::volume::{check_driver, check_host_path};
use super::table::{age, columns, is_deleting, name, or};
use super::value::{entries, field_mut, is_set, object_mut, same, set, size, text, time};
use super::workload::check_unchanged;
use apischema::Path;
use apischema::Quantity;
use apiserver::registry::{Resource, Scope};

/// Where a volume can be.
const SOURCES: [&str; 22] = [
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "hostPath",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];

pub(super) fn resource() -> Resource {
    core("persistentvolumes", "PersistentVolume", Scope::Cluster)
        .short_names(&["pv"])
        .behaving(Behaviour {
            prepare_create: |volume, action| {
                *field_mut(volume, "status") =
                    json!({"phase": "Pending", "lastPhaseTransitionTime": time(action.now)});
            },
            prepare_status: |volume, old, action| {
                const TIME: &str = "lastPhaseTransitionTime";
                let (new, before) = (&volume["status"], &old["status"]);
                let changed = !same(&new["phase"], &before["phase"]);
                let kept = if changed && (!is_set(&new[TIME]) || same(&new[TIME], &before[TIME])) {
                    Some(time(action.now))
                } else if !changed && !is_set(&new[TIME]) {
                    before.get(TIME).cloned()
                } else {
                    return;
                };
                set(object_mut(volume, "status"), TIME, kept);
            },
            validate: check,
            validate_update: check_update,
            answers_with_deleted: true,
            ..Behaviour::WITH_STATUS
        })
        .shown(columns(
            &[
                "Name",
                "Capacity",
                "Access Modes",
                "Reclaim Policy",
                "Status",
                "Claim",
                "StorageClass",
                "VolumeAttributesClass",
                "Reason",
                "Age",
                "VolumeMode*",
            ],
            |volume, now| {
                let (spec, status) = (&volume["spec"], &volume["status"]);
                let claim = &spec["claimRef"];
                let capacity = Quantity::from_value(&spec["capacity"]["storage"]).unwrap_or(Quantity::ZERO);
                let claimed = format!("{}/{}", text(&claim["namespace"]), text(&claim["name"]));
                let old_class = &volume["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"];
                vec![
                    name(volume),
                    capacity.to_string().into(),
                    access_modes(&spec["accessModes"]).into(),
                    text(&spec["persistentVolumeReclaimPolicy"]).into(),
                    if is_deleting(volume) { "Terminating" } else { text(&status["phase"]) }.into(),
                    if is_set(claim) { claimed } else { String::new() }.into(),
                    or(old_class, text(&spec["storageClassName"])).into(),
                    or(&spec["volumeAttributesClassName"], "<unset>").into(),
                    text(&status["reason"]).into(),
                    age(volume, now),
                    or(&spec["volumeMode"], "<unset>").into(),
                ]
            },
        ))
        .with_status()
}

fn check(volume: &Value, errors: &mut Errors) {
    let (spec, path) = (&volume["spec"], Path::root("spec"));
    if size(&spec["accessModes"]) == 0 {
        errors.required(path.field("accessModes"), "");
    }
    check_access_modes(errors, path.field("accessModes"), &spec["accessModes"]);
    let (capacity, at) = (&spec["capacity"], path.field("capacity"));
    if size(capacity) == 0 {
        errors.required(at, "");
    }
    if capacity.get("storage").is_none() || size(capacity) > 1 {
        errors.not_supported(at, capacity.clone(), &["storage"]);
    }
    for (resource, amount) in entries(capacity) {
        let Some(amount) = Quantity::from_value(amount) else { continue };
        if amount.is_negative() {
            errors.invalid(at.key(resource), amount.value(), "must be a valid resource quantity");
        }
        if amount <= Quantity::ZERO {
            errors.invalid(at.key(resource), amount.to_string(), "must be greater than zero");
        }
    }
    let policy = text(&spec["persistentVolumeReclaimPolicy"]);
    let policies = ["Delete", "Recycle", "Retain"];
    if !policy.is_empty() && !policies.contains(&policy) {
        errors.not_supported(path.field("persistentVolumeReclaimPolicy"), policy, &policies);
    }
    let required = &spec["nodeAffinity"]["required"];
    if is_set(&spec["nodeAffinity"]) {
        let affinity = path.field("nodeAffinity");
        if is_set(required) {
            check_node_selector(errors, affinity.field("required"), required);
        } else {
            errors.required(affinity.field("required"), "must specify required node constraints");
        }
    }
    check_source(errors, path, spec);
    let class = text(&spec["storageClassName"]);
    if !class.is_empty() {
        errors.messages(path.field("storageClassName"), class, dns1123_subdomain(class));
    }
    let mode = &spec["volumeMode"];
    if is_set(mode) && !VOLUME_MODES.contains(&text(mode)) {
        errors.not_supported(path.field("volumeMode"), text(mode), &VOLUME_MODES);
    }
}

fn check_source(errors: &mut Errors, path: Path<'_>, spec: &Value) {
    let mut found = false;
    for kind in SOURCES.iter().filter(|kind| is_set(&spec[**kind])) {
        let (source, at) = (&spec[*kind], path.field(kind));
        if found {
            errors.forbidden(at, "may not specify more than 1 volume type");
            continue;
        }
        found = true;
        match *kind {
            "hostPath" => {
                check_host_path(errors, at, source);
                let recycled = text(&spec["persistentVolumeReclaimPolicy"]) == "Recycle";
                if recycled && text(&source["path"]).trim_matches('/').is_empty() {
                    let detail = "may not be 'recycle' for a hostPath mount of '/'";
                    errors.forbidden(path.field("persistentVolumeReclaimPolicy"), detail);
                }
            }
            "csi" => {
                check_driver(errors, at.field("driver"), text(&source["driver"]));
                if text(&source["volumeHandle"]).is_empty() {
                    errors.required(at.field("volumeHandle"), "");
                }
            }
            "local" => {
                if text(&source["path"]).is_empty() {
                    errors.required(at.field("path"), "");
                }
                if !is_set(&spec["nodeAffinity"]) {
                    errors.required(path.field("nodeAffinity"), "Local volume requires node affinity");
                }
            }
            "nfs" => {
                for field in ["server", "path"].into_iter().filter(|field| text(&source[*field]).is_empty()) {
                    errors.required(at.field(field), "");
                }
            }
            _ => {}
        }
    }
    if !found {
        errors.required(path, "must specify a volume type");
    }
}

fn check_update(volume: &Value, old: &Value, errors: &mut Errors) {
    let source = |volume: &Value| -> Value {
        entries(&volume["spec"])
            .filter(|(field, _)| SOURCES.contains(field))
            .map(|(field, value)| (field.to_owned(), value.clone()))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    let (new_source, old_source) = (source(volume), source(old));
    if !same(&new_source, &old_source) {
        let spec = Path::root("spec");
        let difference = diff(&old_source, &new_source);
        let detail = format!("spec.persistentvolumesource is immutable after creation\n{difference}");
        errors.forbidden(spec.field("persistentvolumesource"), detail);
    }
    let (new, before) = (&volume["spec"], &old["spec"]);
    check_unchanged(errors, Path::root("volumeMode"), &new["volumeMode"], &before["volumeMode"]);
    if is_set(&before["nodeAffinity"]) && !same(&new["nodeAffinity"], &before["nodeAffinity"]) {
        let detail = "field is immutable, except for updating from beta label to GA";
        errors.invalid(Path::root("nodeAffinity"), new["nodeAffinity"].clone(), detail);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{cells, create, prepared, update};
    use super::*;

    fn volume() -> Value {
        json!({"metadata": {"name": "v"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/x"},
            "persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem",
        }})
    }

    #[test]
    fn a_volume_is_somewhere_and_has_a_size() {
        assert!(create(&resource(), &volume()).is_empty());
        assert_eq!(
            create(&resource(), &json!({"spec": {}})),
            [
                "spec.accessModes: Required value",
                "spec.capacity: Required value",
                "spec.capacity: Unsupported value: null: supported values: \"storage\"",
                "spec: Required value: must specify a volume type"
            ]
        );
        let stored = prepared(&resource(), volume());
        assert_eq!(
            stored["status"],
            json!({"phase": "Pending", "lastPhaseTransitionTime": "1970-01-01T00:00:00Z"})
        );
        assert_eq!(
            cells(&resource(), &stored, "2024-01-01T00:00:00Z")[..5],
            ["v", "1Gi", "RWO", "Retain", "Pending"].map(Value::from)
        );
    }

    #[test]
    fn a_volume_stays_where_it_is() {
        let mut moved = volume();
        moved["spec"]["hostPath"]["path"] = json!("/y");
        moved["spec"]["volumeMode"] = json!("Block");
        let wrong = update(&resource(), &moved, &volume());
        assert!(wrong[0].starts_with(
            "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation\n@@"
        ));
        assert_eq!(wrong[1], "volumeMode: Invalid value: \"Block\": field is immutable");
    }
}
