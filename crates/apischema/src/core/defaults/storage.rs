//! Volumes and where they come from.

use super::{Fields, inside, present, set};

/// What volumes of pods and persistent volumes have in common.
pub(super) fn volume_source(volume: &mut Fields) {
    let defaults: &[(&str, &[(&str, &str)])] = &[
        ("iscsi", &[("iscsiInterface", "default")]),
        ("rbd", &[("pool", "rbd"), ("user", "admin"), ("keyring", "/etc/ceph/keyring")]),
        ("scaleIO", &[("storageMode", "ThinProvisioned"), ("fsType", "xfs")]),
        ("azureDisk", &[("cachingMode", "ReadWrite"), ("fsType", "ext4"), ("kind", "Shared")]),
    ];
    for (source, fields) in defaults {
        let Some(source) = present(volume, source) else { continue };
        for (name, value) in *fields {
            set(source, name, *value);
        }
    }
    if let Some(disk) = present(volume, "azureDisk") {
        set(disk, "readOnly", false);
    }
}

pub(super) fn persistent_volume(object: &mut Fields) {
    set(inside(object, "status"), "phase", "Pending");
    let spec = inside(object, "spec");
    set(spec, "persistentVolumeReclaimPolicy", "Retain");
    set(spec, "volumeMode", "Filesystem");
    if let Some(host_path) = present(spec, "hostPath") {
        set(host_path, "type", "");
    }
    volume_source(spec);
}

pub(super) fn persistent_volume_claim(object: &mut Fields) {
    set(inside(object, "status"), "phase", "Pending");
    set(inside(object, "spec"), "volumeMode", "Filesystem");
}

pub(super) fn storage_class(object: &mut Fields) {
    set(object, "reclaimPolicy", "Delete");
    set(object, "volumeBindingMode", "Immediate");
}

pub(super) fn csi_driver(object: &mut Fields) {
    let spec = inside(object, "spec");
    set(spec, "attachRequired", true);
    set(spec, "podInfoOnMount", false);
    set(spec, "storageCapacity", false);
    set(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    set(spec, "volumeLifecycleModes", vec!["Persistent"]);
    set(spec, "requiresRepublish", false);
    set(spec, "seLinuxMount", false);
}
