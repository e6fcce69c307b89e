//! The volumes of pods.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::super::claim::check_claim_spec;
use super::super::errors::Errors;
use super::super::format::{descending_path, no_backsteps, unreserved_path};
use super::super::format::{dns1123_label, dns1123_subdomain};
use super::super::labels::{check_annotations, check_labels};
use super::super::value::{entries, is_set, items, number, text};
use super::environment::{InVolume, check_field_ref, check_resource_ref};
use apischema::Path;
use apischema::Quantity;

/// Volumes that are well defined, by name.
pub(super) type Volumes<'a> = HashMap<&'a str, &'a Value>;

/// The kinds of volumes, in the order in which they are looked for.
const SOURCES: [&str; 29] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
];

/// The fields of a pod that a file can show.
const FIELDS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

/// Checks volumes; those that are well defined are returned. `pod` is the pod's name, where there is a pod.
pub(super) fn check_volumes<'a>(
    errors: &mut Errors,
    path: Path<'_>,
    volumes: &'a Value,
    pod: Option<&str>,
) -> Volumes<'a> {
    let mut names = HashSet::new();
    let mut good = Volumes::new();
    let created: HashSet<String> = match pod {
        Some(pod) if !pod.is_empty() => items(volumes)
            .iter()
            .filter(|volume| is_set(&volume["ephemeral"]))
            .map(|volume| format!("{pod}-{}", text(&volume["name"])))
            .collect(),
        _ => HashSet::new(),
    };
    for (index, volume) in items(volumes).iter().enumerate() {
        let at = path.index(index);
        let name = text(&volume["name"]);
        let before = errors.len();
        check_source(errors, at, volume, pod);
        match name {
            "" => errors.required(at.field("name"), ""),
            name => errors.messages(at.field("name"), name, dns1123_label(name)),
        }
        if names.contains(name) {
            errors.duplicate(at.field("name"), name);
        }
        if errors.len() == before {
            names.insert(name);
            good.insert(name, volume);
        }
        let claim = text(&volume["persistentVolumeClaim"]["claimName"]);
        if created.contains(claim) {
            let detail = "must not reference a PVC that gets created for an ephemeral volume";
            errors.invalid(at.field("persistentVolumeClaim").field("claimName"), claim, detail);
        }
    }
    good
}

fn check_source(errors: &mut Errors, path: Path<'_>, volume: &Value, pod: Option<&str>) {
    let mut found = false;
    for kind in SOURCES.iter().filter(|kind| is_set(&volume[**kind])) {
        if found {
            errors.forbidden(path.field(kind), "may not specify more than 1 volume type");
            continue;
        }
        found = true;
        check_one_source(errors, path, kind, volume, pod);
    }
    if !found {
        errors.required(path, "must specify a volume type");
    }
}

fn check_one_source(errors: &mut Errors, at: Path<'_>, kind: &str, volume: &Value, pod: Option<&str>) {
    let (path, source) = (at.field(kind), &volume[kind]);
    match kind {
        "emptyDir" if Quantity::from_value(&source["sizeLimit"]).is_some_and(Quantity::is_negative) => {
            errors.forbidden(path.field("sizeLimit"), "SizeLimit field must be a valid resource quantity");
        }
        "hostPath" => check_host_path(errors, path, source),
        "gitRepo" => {
            require(errors, path, source, &["repository"]);
            descending_path(errors, path.field("directory"), text(&source["directory"]));
        }
        "secret" => {
            require(errors, path, source, &["secretName"]);
            check_files(errors, path, source);
        }
        "configMap" => {
            require(errors, path, source, &["name"]);
            check_files(errors, path, source);
        }
        "nfs" => {
            require(errors, path, source, &["server", "path"]);
            if !text(&source["path"]).starts_with('/') {
                errors.invalid(path.field("path"), text(&source["path"]), "must be an absolute path");
            }
        }
        "persistentVolumeClaim" => require(errors, path, source, &["claimName"]),
        "downwardAPI" => {
            check_mode(errors, path.field("defaultMode"), &source["defaultMode"]);
            for file in items(&source["items"]) {
                check_shown_field(errors, path, file);
            }
        }
        "projected" => check_projected(errors, path, source),
        "csi" => check_csi(errors, path, source),
        "ephemeral" => check_ephemeral(errors, at, source, text(&volume["name"]), pod),
        "glusterfs" => require(errors, path, source, &["endpoints", "path"]),
        "cephfs" | "rbd" if items(&source["monitors"]).is_empty() => {
            errors.required(path.field("monitors"), "");
        }
        "cinder" | "awsElasticBlockStore" | "portworxVolume" => require(errors, path, source, &["volumeID"]),
        "gcePersistentDisk" => require(errors, at.field("persistentDisk"), source, &["pdName"]),
        "vsphereVolume" => require(errors, path, source, &["volumePath"]),
        "azureFile" => require(errors, path, source, &["secretName", "shareName"]),
        "azureDisk" => require(errors, path, source, &["diskName", "diskURI"]),
        "flexVolume" => require(errors, path, source, &["driver"]),
        _ => {}
    }
}

fn require(errors: &mut Errors, path: Path<'_>, source: &Value, fields: &[&str]) {
    for field in fields.iter().filter(|field| text(&source[**field]).is_empty()) {
        errors.required(path.field(field), "");
    }
}

/// Checks a path of the node.
pub(in super::super) fn check_host_path(errors: &mut Errors, path: Path<'_>, source: &Value) {
    const TYPES: [&str; 8] =
        ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
    let file = text(&source["path"]);
    if file.is_empty() {
        return errors.required(path.field("path"), "");
    }
    no_backsteps(errors, path.field("path"), file);
    let kind = text(&source["type"]);
    if !TYPES.contains(&kind) {
        errors.not_supported(path.field("type"), kind, &TYPES);
    }
}

fn check_mode(errors: &mut Errors, path: Path<'_>, mode: &Value) {
    if let Some(mode) = mode.as_i64().filter(|mode| !(0..=0o777).contains(mode)) {
        errors.invalid(path, mode, "must be a number between 0 and 0777 (octal), both inclusive");
    }
}

fn check_files(errors: &mut Errors, path: Path<'_>, source: &Value) {
    check_mode(errors, path.field("defaultMode"), &source["defaultMode"]);
    for (index, item) in items(&source["items"]).iter().enumerate() {
        check_file(errors, path.field("items").index(index), item);
    }
}

fn check_file(errors: &mut Errors, path: Path<'_>, item: &Value) {
    require(errors, path, item, &["key", "path"]);
    unreserved_path(errors, path.field("path"), text(&item["path"]));
    check_mode(errors, path.field("mode"), &item["mode"]);
}

fn check_shown_field(errors: &mut Errors, path: Path<'_>, file: &Value) {
    require(errors, path, file, &["path"]);
    unreserved_path(errors, path.field("path"), text(&file["path"]));
    let (field, resource) = (&file["fieldRef"], &file["resourceFieldRef"]);
    match (is_set(field), is_set(resource)) {
        (true, both) => {
            check_field_ref(errors, path.field("fieldRef"), field, &FIELDS);
            if both {
                let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
                errors.invalid(path, "resource", detail);
            }
        }
        (false, true) => check_resource_ref(errors, path.field("resourceFieldRef"), resource, InVolume::Yes),
        (false, false) => errors.required(path, "one of fieldRef and resourceFieldRef is required"),
    }
    check_mode(errors, path.field("mode"), &file["mode"]);
}

fn check_projected(errors: &mut Errors, path: Path<'_>, source: &Value) {
    check_mode(errors, path.field("defaultMode"), &source["defaultMode"]);
    let mut files = HashSet::new();
    let mut once = |errors: &mut Errors, file: &str, shown: &str| {
        if !file.is_empty() && !files.insert(file.to_owned()) {
            errors.invalid(path, shown, "conflicting duplicate paths");
        }
    };
    let sources = path.field("sources");
    for (index, projection) in items(&source["sources"]).iter().enumerate() {
        let at = sources.index(index);
        for kind in ["secret", "configMap"] {
            if !is_set(&projection[kind]) {
                continue;
            }
            let (from, path) = (&projection[kind], at.field(kind));
            require(errors, path, from, &["name"]);
            for (index, item) in items(&from["items"]).iter().enumerate() {
                check_file(errors, path.field("items").index(index), item);
                once(errors, text(&item["path"]), text(&from["name"]));
            }
        }
        for file in items(&projection["downwardAPI"]["items"]) {
            check_shown_field(errors, at.field("downwardAPI"), file);
            once(errors, text(&file["path"]), text(&file["path"]));
        }
        if is_set(&projection["serviceAccountToken"]) {
            let (token, at) = (&projection["serviceAccountToken"], at.field("serviceAccountToken"));
            let seconds = number(&token["expirationSeconds"]);
            if seconds < 600 {
                let detail = "may not specify a duration less than 10 minutes";
                errors.invalid(at.field("expirationSeconds"), seconds, detail);
            }
            if seconds > 1 << 32 {
                let detail = "may not specify a duration larger than 2^32 seconds";
                errors.invalid(at.field("expirationSeconds"), seconds, detail);
            }
            match text(&token["path"]) {
                "" => errors.required(path.field("path"), ""),
                file => unreserved_path(errors, path.field("path"), file),
            }
        }
        if entries(projection).filter(|(_, value)| is_set(value)).count() > 1 {
            errors.forbidden(at, "may not specify more than 1 volume type per source");
        }
    }
}

/// Checks the name of a storage driver.
pub(in super::super) fn check_driver(errors: &mut Errors, path: Path<'_>, driver: &str) {
    if driver.is_empty() {
        errors.required(path, "");
    }
    if driver.len() > 63 {
        errors.too_long(path, 63);
    }
    errors.messages(path, driver, dns1123_subdomain(&driver.to_lowercase()));
}

fn check_csi(errors: &mut Errors, path: Path<'_>, source: &Value) {
    check_driver(errors, path.field("driver"), text(&source["driver"]));
    if is_set(&source["nodePublishSecretRef"]) {
        match text(&source["nodePublishSecretRef"]["name"]) {
            "" => errors.required(path.field("nodePublishSecretRef").field("name"), ""),
            name => errors.messages(path.field("name"), name, dns1123_subdomain(name)),
        }
    }
}

fn check_ephemeral(errors: &mut Errors, at: Path<'_>, source: &Value, name: &str, pod: Option<&str>) {
    let (ephemeral, template) = (at.field("ephemeral"), &source["volumeClaimTemplate"]);
    let path = ephemeral.field("volumeClaimTemplate");
    if is_set(template) {
        let metadata = path.field("metadata");
        check_annotations(errors, metadata.field("annotations"), &template["metadata"]["annotations"]);
        check_labels(errors, metadata.field("labels"), &template["metadata"]["labels"]);
        for (field, _) in entries(&template["metadata"]) {
            if !["annotations", "labels", "creationTimestamp"].contains(&field) {
                errors.forbidden(metadata.field(field), "cannot be set");
            }
        }
        check_claim_spec(errors, path.field("spec"), &template["spec"]);
    } else {
        errors.required(path, "");
    }
    if let Some(pod) = pod.filter(|pod| !pod.is_empty() && !name.is_empty()) {
        let claim = format!("{pod}-{name}");
        for message in dns1123_subdomain(&claim) {
            errors.invalid(at.field("name"), name, format!("PVC name {claim:?}: {message}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn wrong(volumes: &Value) -> Vec<String> {
        let mut errors = Errors::default();
        check_volumes(&mut errors, Path::root("volumes"), volumes, Some("p"));
        errors.into_vec().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_volume_has_a_name_and_one_source() {
        assert!(
            wrong(&json!([{"name": "a", "emptyDir": {}}, {"name": "b", "hostPath": {"path": "/x"}}]))
                .is_empty()
        );
        assert_eq!(
            wrong(&json!([{"name": "a"}])),
            ["volumes[0]: Required value: must specify a volume type"]
        );
        assert_eq!(
            wrong(&json!([{"name": "a", "emptyDir": {}, "secret": {"secretName": "s"}}])),
            ["volumes[0].secret: Forbidden: may not specify more than 1 volume type"]
        );
        assert_eq!(
            wrong(&json!([{"name": "a", "emptyDir": {}}, {"name": "a", "emptyDir": {}}])),
            ["volumes[1].name: Duplicate value: \"a\""]
        );
        assert!(
            wrong(&json!([{"name": "A_", "emptyDir": {}}]))[0]
                .starts_with("volumes[0].name: Invalid value: \"A_\"")
        );
    }

    #[test]
    fn files_stay_in_their_volume() {
        assert_eq!(
            wrong(
                &json!([{"name": "a", "configMap": {"name": "c", "items": [{"key": "k", "path": "../x"}]}}])
            ),
            ["volumes[0].configMap.items[0].path: Invalid value: \"../x\": must not contain '..'"]
        );
        assert_eq!(
            wrong(&json!([{"name": "a", "secret": {"secretName": "c", "defaultMode": 1000}}])),
            [
                "volumes[0].secret.defaultMode: Invalid value: 1000: must be a number between 0 and 0777 (octal), both \
              inclusive"
            ]
        );
        assert_eq!(
            wrong(&json!([{"name": "a", "hostPath": {"path": "/a/../b", "type": "Dir"}}])),
            [
                "volumes[0].hostPath.path: Invalid value: \"/a/../b\": must not contain '..'",
                "volumes[0].hostPath.type: Unsupported value: \"Dir\": supported values: \"\", \"BlockDevice\", \
                 \"CharDevice\", \"Directory\", \"DirectoryOrCreate\", \"File\", \"FileOrCreate\", \"Socket\""
            ]
        );
    }

    #[test]
    fn projected_files_do_not_hide_each_other() {
        let item = json!([{"key": "k", "path": "f"}]);
        assert_eq!(
            wrong(&json!([{"name": "a", "projected": {"sources": [
                {"secret": {"name": "s", "items": item}},
                {"configMap": {"name": "c", "items": item}},
                {"serviceAccountToken": {"path": "t", "expirationSeconds": 10}},
            ]}}])),
            [
                "volumes[0].projected: Invalid value: \"c\": conflicting duplicate paths",
                "volumes[0].projected.sources[2].serviceAccountToken.expirationSeconds: Invalid value: 10: may not \
                 specify a duration less than 10 minutes"
            ]
        );
    }
}
