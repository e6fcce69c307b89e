//! What volumes are made from and by: StorageClasses, drivers, nodes' drivers and attachments. Nothing here makes volumes.

use serde_json::{Value, json};

use super::behaviour::Behaviour;
use super::errors::Errors;
use super::format::{dns1123_subdomain, qualified_name};
use super::kind::{KindExt as _, kind_of};
use super::table::{age, columns, name};
use super::value::{is_set, is_true, items, same, size, text, texts};
use super::workload::check_unchanged;
use apischema::Path;
use apiserver::registry::{Resource, Scope};

const GROUP: &str = "storage.k8s.io";

pub(super) fn resources() -> [Resource; 4] {
    [storage_class(), csi_driver(), csi_node(), volume_attachment()]
}

fn storage_class() -> Resource {
    kind_of(GROUP, "storageclasses", "StorageClass", Scope::Cluster)
        .short_names(&["sc"])
        .behaving(Behaviour {
            validate: check_class,
            validate_update: |new, old, errors| {
                for field in ["parameters", "provisioner", "reclaimPolicy"] {
                    if !same(&new[field], &old[field]) {
                        errors.forbidden(Path::root(field), format!("updates to {field} are forbidden."));
                    }
                }
                let path = Path::root("volumeBindingMode");
                check_unchanged(errors, path, &new["volumeBindingMode"], &old["volumeBindingMode"]);
            },
            answers_with_deleted: true,
            ..Behaviour::PLAIN
        })
        .shown(columns(
            &["Name", "Provisioner", "ReclaimPolicy", "VolumeBindingMode", "AllowVolumeExpansion", "Age"],
            |class, now| {
                let annotations = &class["metadata"]["annotations"];
                let default = [
                    "storageclass.kubernetes.io/is-default-class",
                    "storageclass.beta.kubernetes.io/is-default-class",
                ]
                .iter()
                .any(|annotation| text(&annotations[*annotation]) == "true");
                let own = text(&class["metadata"]["name"]);
                vec![
                    if default { format!("{own} (default)") } else { own.to_owned() }.into(),
                    text(&class["provisioner"]).into(),
                    class["reclaimPolicy"].as_str().unwrap_or("Delete").into(),
                    class["volumeBindingMode"].as_str().unwrap_or("Immediate").into(),
                    is_true(&class["allowVolumeExpansion"]).into(),
                    age(class, now),
                ]
            },
        ))
}

fn check_class(class: &Value, errors: &mut Errors) {
    let provisioner = text(&class["provisioner"]);
    if provisioner.is_empty() {
        errors.required(Path::root("provisioner"), "");
    } else {
        let lower = provisioner.to_lowercase();
        errors.messages(Path::root("provisioner"), &lower, qualified_name(&lower));
    }
    let policy = text(&class["reclaimPolicy"]);
    if !policy.is_empty() && !["Delete", "Retain"].contains(&policy) {
        errors.not_supported(Path::root("reclaimPolicy"), policy, &["Delete", "Retain"]);
    }
    let mode = &class["volumeBindingMode"];
    let modes = ["Immediate", "WaitForFirstConsumer"];
    if !is_set(mode) {
        errors.required(Path::root("volumeBindingMode"), "");
    } else if !modes.contains(&text(mode)) {
        errors.not_supported(Path::root("volumeBindingMode"), text(mode), &modes);
    }
}

fn csi_driver() -> Resource {
    kind_of(GROUP, "csidrivers", "CSIDriver", Scope::Cluster)
        .behaving(Behaviour {
            updates_unconditionally: false,
            answers_with_deleted: true,
            ..Behaviour::PLAIN
        })
        .shown(columns(
            &[
                "Name",
                "AttachRequired?",
                "PodInfoOnMount?",
                "StorageCapacity?",
                "TokenRequests",
                "RequiresRepublish?",
                "Modes",
                "Age",
            ],
            |driver, now| {
                let spec = &driver["spec"];
                let audiences: Vec<_> =
                    items(&spec["tokenRequests"]).iter().map(|request| text(&request["audience"])).collect();
                let modes: Vec<_> = texts(&spec["volumeLifecycleModes"]).collect();
                vec![
                    name(driver),
                    spec["attachRequired"].as_bool().unwrap_or(true).into(),
                    is_true(&spec["podInfoOnMount"]).into(),
                    is_true(&spec["storageCapacity"]).into(),
                    if is_set(&spec["tokenRequests"]) { audiences.join(",") } else { "<unset>".into() }
                        .into(),
                    is_true(&spec["requiresRepublish"]).into(),
                    if modes.is_empty() { "<none>".into() } else { modes.join(",") }.into(),
                    age(driver, now),
                ]
            },
        ))
}

fn csi_node() -> Resource {
    kind_of(GROUP, "csinodes", "CSINode", Scope::Cluster)
        .behaving(Behaviour {
            updates_unconditionally: false,
            answers_with_deleted: true,
            ..Behaviour::PLAIN
        })
        .shown(columns(&["Name", "Drivers#", "Age"], |node, now| {
            vec![name(node), size(&node["spec"]["drivers"]).into(), age(node, now)]
        }))
}

fn volume_attachment() -> Resource {
    kind_of(GROUP, "volumeattachments", "VolumeAttachment", Scope::Cluster)
        .behaving(Behaviour {
            prepare_create: |attachment, _| attachment["status"] = json!({"attached": false}),
            validate: check_attachment,
            validate_update: |new, old, errors| {
                check_unchanged(errors, Path::root("spec"), &new["spec"], &old["spec"]);
            },
            updates_unconditionally: false,
            answers_with_deleted: true,
            ..Behaviour::WITH_STATUS
        })
        .shown(columns(&["Name", "@Attacher", "PV", "Node", "Attached?", "Age"], |attachment, now| {
            let spec = &attachment["spec"];
            vec![
                name(attachment),
                text(&spec["attacher"]).into(),
                text(&spec["source"]["persistentVolumeName"]).into(),
                text(&spec["nodeName"]).into(),
                is_true(&attachment["status"]["attached"]).into(),
                age(attachment, now),
            ]
        }))
        .with_status()
}

fn check_attachment(attachment: &Value, errors: &mut Errors) {
    let (spec, path) = (&attachment["spec"], Path::root("spec"));
    let attacher = text(&spec["attacher"]);
    if attacher.is_empty() {
        errors.required(path.field("attacher"), "");
    }
    let detail = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (is_set(&spec["source"]["inlineVolumeSpec"]), is_set(&spec["source"]["persistentVolumeName"])) {
        (false, false) => errors.required(path.field("source"), detail),
        (true, true) => errors.forbidden(path.field("source"), detail),
        _ => {}
    }
    let node = text(&spec["nodeName"]);
    errors.messages(path.field("nodeName"), node, dns1123_subdomain(node));
    if !attacher.is_empty() {
        errors.messages(path.field("attacher"), attacher, dns1123_subdomain(&attacher.to_lowercase()));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{cells, create, prepared, update};
    use super::*;

    #[test]
    fn a_class_stays_what_it_is() {
        let class = json!({"metadata": {"name": "c"}, "provisioner": "x/y", "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"});
        assert!(create(&storage_class(), &class).is_empty());
        let mut other = class.clone();
        other["provisioner"] = json!("x/z");
        other["volumeBindingMode"] = json!("WaitForFirstConsumer");
        assert_eq!(
            update(&storage_class(), &other, &class),
            [
                "provisioner: Forbidden: updates to provisioner are forbidden.",
                "volumeBindingMode: Invalid value: \"WaitForFirstConsumer\": field is immutable"
            ]
        );
        let mut default = class;
        default["metadata"]["annotations"] = json!({"storageclass.kubernetes.io/is-default-class": "true"});
        assert_eq!(cells(&storage_class(), &default, "2024-01-01T00:00:00Z")[0], "c (default)");
    }

    #[test]
    fn an_attachment_is_of_one_volume() {
        let attachment =
            json!({"spec": {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "v"}}});
        assert!(create(&volume_attachment(), &attachment).is_empty());
        assert_eq!(prepared(&volume_attachment(), attachment)["status"], json!({"attached": false}));
        assert_eq!(
            create(&volume_attachment(), &json!({"spec": {"attacher": "a", "nodeName": "n", "source": {}}})),
            [
                "spec.source: Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName"
            ]
        );
    }
}
