//! PersistentVolumeClaims. Nothing here binds or provisions them.

use serde_json::{Value, json};

use super::behaviour::Behaviour;
use super::diff::diff;
use super::errors::Errors;
use super::format::{dns1123_label, dns1123_subdomain};
use super::kind::{KindExt as _, core};
use super::labels::check_selector;
use super::table::{age, columns, is_deleting, name, or};
use super::value::{fields_mut, is_set, object_mut, same, set, size, text, texts};
use apischema::Path;
use apischema::Quantity;
use apiserver::registry::{Resource, Scope};

/// The ways in which volumes are used.
pub(super) const ACCESS_MODES: [&str; 4] =
    ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
pub(super) const VOLUME_MODES: [&str; 2] = ["Block", "Filesystem"];
const STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

pub(super) fn resource() -> Resource {
    core("persistentvolumeclaims", "PersistentVolumeClaim", Scope::Namespaced)
        .short_names(&["pvc"])
        .behaving(Behaviour {
            prepare_create: |claim, _| {
                fields_mut(claim).insert("status".into(), json!({"phase": "Pending"}));
                settle_sources(claim);
            },
            prepare_update: |claim, _, _| settle_sources(claim),
            validate: |claim, errors| check_claim_spec(errors, Path::root("spec"), &claim["spec"]),
            validate_update: check_update,
            answers_with_deleted: true,
            ..Behaviour::WITH_STATUS
        })
        .shown(columns(
            &[
                "Name",
                "Status",
                "Volume",
                "Capacity",
                "Access Modes",
                "StorageClass",
                "VolumeAttributesClass",
                "Age",
                "VolumeMode*",
            ],
            |claim, now| {
                let (spec, status) = (&claim["spec"], &claim["status"]);
                let bound = !text(&spec["volumeName"]).is_empty();
                let capacity = Quantity::from_value(&status["capacity"]["storage"]).unwrap_or(Quantity::ZERO);
                let old_class = &claim["metadata"]["annotations"][STORAGE_CLASS];
                vec![
                    name(claim),
                    if is_deleting(claim) { "Terminating" } else { text(&status["phase"]) }.into(),
                    text(&spec["volumeName"]).into(),
                    if bound { capacity.to_string() } else { String::new() }.into(),
                    if bound { access_modes(&status["accessModes"]) } else { String::new() }.into(),
                    or(old_class, text(&spec["storageClassName"])).into(),
                    or(&spec["volumeAttributesClassName"], "<unset>").into(),
                    age(claim, now),
                    or(&spec["volumeMode"], "<unset>").into(),
                ]
            },
        ))
        .with_status()
}

/// The ways in which a volume is used, in the letters that people know.
pub(super) fn access_modes(modes: &Value) -> String {
    let known = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let used = known.iter().filter(|(mode, _)| texts(modes).any(|used| used == *mode));
    used.map(|(_, letters)| *letters).collect::<Vec<_>>().join(",")
}

/// What a claim is filled from has two names, of which the newer can say more.
fn settle_sources(claim: &mut Value) {
    let spec = object_mut(claim, "spec");
    let (old, new) = (spec.get("dataSource").cloned(), spec.get("dataSourceRef").cloned());
    match (old.filter(is_set), new.filter(is_set)) {
        (Some(source), None) => set(spec, "dataSourceRef", Some(source)),
        (None, Some(source)) if text(&source["namespace"]).is_empty() => {
            set(spec, "dataSource", Some(source));
        }
        _ => {}
    }
}

/// Checks the ways in which a volume shall be used.
pub(super) fn check_access_modes(errors: &mut Errors, path: Path<'_>, modes: &Value) {
    let (mut alone, mut others) = (false, false);
    for mode in texts(modes) {
        if !ACCESS_MODES.contains(&mode) {
            errors.not_supported(path, mode, &ACCESS_MODES);
        } else if mode == "ReadWriteOncePod" {
            alone = true;
        } else {
            others = true;
        }
    }
    if alone && others {
        errors.forbidden(path, "may not use ReadWriteOncePod with other access modes");
    }
}

/// Checks what a claim wants.
pub(super) fn check_claim_spec(errors: &mut Errors, path: Path<'_>, spec: &Value) {
    if size(&spec["accessModes"]) == 0 {
        errors.required(path.field("accessModes"), "at least 1 access mode is required");
    }
    check_selector(errors, path.field("selector"), &spec["selector"]);
    check_access_modes(errors, path.field("accessModes"), &spec["accessModes"]);
    let resources = path.field("resources");
    match Quantity::from_value(&spec["resources"]["requests"]["storage"]) {
        None => errors.required(resources.key("storage"), ""),
        Some(storage) if storage <= Quantity::ZERO => {
            errors.invalid(resources.key("storage"), storage.to_string(), "must be greater than zero");
        }
        Some(_) => {}
    }
    for field in ["storageClassName", "volumeAttributesClassName"] {
        let class = text(&spec[field]);
        if !class.is_empty() {
            errors.messages(path.field(field), class, dns1123_subdomain(class));
        }
    }
    let mode = &spec["volumeMode"];
    if is_set(mode) && !VOLUME_MODES.contains(&text(mode)) {
        errors.not_supported(path.field("volumeMode"), text(mode), &VOLUME_MODES);
    }
    for field in ["dataSource", "dataSourceRef"] {
        if is_set(&spec[field]) {
            check_source(errors, path.field(field), &spec[field]);
        }
    }
    let (old, new) = (&spec["dataSource"], &spec["dataSourceRef"]);
    if is_set(old) && is_set(new) {
        let shown = json!({});
        if !text(&new["namespace"]).is_empty() {
            errors.invalid(path, shown, "may not be specified when dataSourceRef.namespace is specified");
        } else if !["apiGroup", "kind", "name"].iter().all(|field| same(&old[*field], &new[*field])) {
            errors.invalid(path, shown, "must match dataSourceRef");
        }
    }
}

fn check_source(errors: &mut Errors, path: Path<'_>, source: &Value) {
    for field in ["name", "kind"] {
        if text(&source[field]).is_empty() {
            errors.required(path.field(field), "");
        }
    }
    let (group, kind) = (text(&source["apiGroup"]), text(&source["kind"]));
    if group.is_empty() && kind != "PersistentVolumeClaim" {
        let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        errors.invalid(path, kind, detail);
    }
    if !group.is_empty() {
        errors.messages(path.field("apiGroup"), group, dns1123_subdomain(group));
    }
    let namespace = text(&source["namespace"]);
    if !namespace.is_empty() {
        errors.messages(path.field("namespace"), namespace, dns1123_label(namespace));
    }
}

fn check_update(claim: &Value, old: &Value, errors: &mut Errors) {
    let (new_spec, old_spec, path) = (&claim["spec"], &old["spec"], Path::root("spec"));
    let bound = text(&claim["status"]["phase"]) == "Bound";
    let mut rest = new_spec.clone();
    if text(&old_spec["volumeName"]).is_empty() {
        fields_mut(&mut rest).remove("volumeName");
    }
    if !is_set(&old_spec["storageClassName"]) {
        fields_mut(&mut rest).remove("storageClassName");
    }
    if bound {
        let fields = fields_mut(&mut rest);
        set(fields, "volumeAttributesClassName", old_spec.get("volumeAttributesClassName").cloned());
        let requests = object_mut(super::value::field_mut(&mut rest, "resources"), "requests");
        set(requests, "storage", old_spec["resources"]["requests"].get("storage").cloned());
    }
    if !same(&rest, old_spec) {
        errors.forbidden(
            path,
            format!(
                "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound \
                 claims\n{}",
                diff(old_spec, &rest)
            ),
        );
    }
    let storage = |value: &Value| Quantity::from_value(value).unwrap_or(Quantity::ZERO);
    let new_size = storage(&new_spec["resources"]["requests"]["storage"]);
    if new_size < storage(&old_spec["resources"]["requests"]["storage"])
        && new_size <= storage(&old["status"]["capacity"]["storage"])
    {
        let at = path.field("resources");
        let at = at.field("requests");
        errors.forbidden(at.field("storage"), "field can not be less than status.capacity");
    }
    if !same(&new_spec["volumeMode"], &old_spec["volumeMode"]) {
        errors.invalid(Path::root("volumeMode"), new_spec["volumeMode"].clone(), "field is immutable");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim() -> Value {
        json!({"spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "volumeMode": "Filesystem",
        }})
    }

    fn texts_of(errors: Errors) -> Vec<String> {
        errors.into_vec().iter().map(ToString::to_string).collect()
    }

    fn wrong(claim: &Value) -> Vec<String> {
        let mut errors = Errors::default();
        check_claim_spec(&mut errors, Path::root("spec"), &claim["spec"]);
        texts_of(errors)
    }

    #[test]
    fn a_claim_says_how_much_and_how() {
        assert!(wrong(&claim()).is_empty());
        assert_eq!(
            wrong(&json!({})),
            [
                "spec.accessModes: Required value: at least 1 access mode is required",
                "spec.resources[storage]: Required value"
            ]
        );
        let mut bad = claim();
        bad["spec"]["accessModes"] = json!(["ReadWriteOnce", "ReadWriteOncePod", "Write"]);
        bad["spec"]["resources"]["requests"]["storage"] = json!("0");
        assert_eq!(
            wrong(&bad),
            [
                "spec.accessModes: Unsupported value: \"Write\": supported values: \"ReadOnlyMany\", \"ReadWriteMany\", \
                 \"ReadWriteOnce\", \"ReadWriteOncePod\"",
                "spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes",
                "spec.resources[storage]: Invalid value: \"0\": must be greater than zero"
            ]
        );
    }

    #[test]
    fn a_claim_changes_only_by_being_bound_and_growing() {
        let old = claim();
        let wrong = |new: &Value| {
            let mut errors = Errors::default();
            check_update(new, &old, &mut errors);
            texts_of(errors)
        };
        let mut bound = claim();
        bound["spec"]["volumeName"] = json!("v");
        assert!(wrong(&bound).is_empty());
        let mut other = claim();
        other["spec"]["accessModes"] = json!(["ReadOnlyMany"]);
        assert!(wrong(&other)[0].starts_with(
            "spec: Forbidden: spec is immutable after creation except resources.requests and \
             volumeAttributesClassName for bound claims\n@@"
        ));
        let mut grown = claim();
        grown["status"] = json!({"phase": "Bound"});
        grown["spec"]["resources"]["requests"]["storage"] = json!("2Gi");
        assert!(wrong(&grown).is_empty());
    }

    #[test]
    fn modes_are_shown_in_letters() {
        assert_eq!(access_modes(&json!(["ReadWriteMany", "ReadWriteOnce"])), "RWO,RWX");
    }
}
