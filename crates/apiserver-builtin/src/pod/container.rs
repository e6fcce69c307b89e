//! Containers.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::super::errors::Errors;
use super::super::format::dns1123_label;
use super::super::format::{descending_path, port, port_name};
use super::super::value::{entries, is_set, is_true, items, number, size, text};
use super::environment::{check_sources, check_variables};
use super::probe::{Probe, check_lifecycle, check_probe};
use super::resources::check_requirements;
use super::security::check_container_context;
use super::volume::Volumes;
use apischema::Path;

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

/// What the containers of a pod are checked against.
pub(super) struct Surroundings<'a> {
    pub(super) spec: &'a Value,
    pub(super) volumes: &'a Volumes<'a>,
    pub(super) claims: Vec<&'a str>,
}

/// Checks the containers that make a pod what it is.
pub(super) fn check_containers(errors: &mut Errors, path: Path<'_>, around: &Surroundings<'_>) {
    let containers = items(&around.spec["containers"]);
    if containers.is_empty() {
        return errors.required(path, "");
    }
    let mut names = HashSet::new();
    for (index, container) in containers.iter().enumerate() {
        let path = path.index(index);
        check_common(errors, path, container, around);
        let name = text(&container["name"]);
        if !names.insert(name) {
            errors.duplicate(path.field("name"), name);
        }
        check_running(errors, path, container, around.spec);
        if is_set(&container["restartPolicy"]) {
            errors.forbidden(path.field("restartPolicy"), "may not be set for non-init containers");
        }
    }
    check_host_ports(errors, path, containers);
}

/// Checks the containers that run before.
pub(super) fn check_init_containers(errors: &mut Errors, path: Path<'_>, around: &Surroundings<'_>) {
    let mut names: HashSet<_> =
        items(&around.spec["containers"]).iter().map(|other| text(&other["name"])).collect();
    for (index, container) in items(&around.spec["initContainers"]).iter().enumerate() {
        let at = path.index(index);
        check_common(errors, at, container, around);
        let policy = &container["restartPolicy"];
        if is_set(policy) && text(policy) != "Always" {
            errors.not_supported(at.field("restartPolicy"), text(policy), &["Always"]);
        }
        let name = text(&container["name"]);
        if !names.insert(name) {
            errors.duplicate(at.field("name"), name);
        }
        check_host_ports(errors, path, std::slice::from_ref(container));
        if text(policy) == "Always" {
            check_running(errors, at, container, around.spec);
            continue;
        }
        for name in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if is_set(&container[name]) {
                errors.forbidden(
                    at.field(name),
                    "may not be set for init containers without restartPolicy=Always",
                );
            }
        }
    }
}

/// Checks what containers that keep running have.
fn check_running(errors: &mut Errors, path: Path<'_>, container: &Value, spec: &Value) {
    if is_set(&container["lifecycle"]) {
        check_lifecycle(errors, path.field("lifecycle"), &container["lifecycle"], spec);
    }
    for (which, name) in Probe::ALL {
        check_probe(errors, path.field(name), which, &container[name]);
    }
}

fn check_common(errors: &mut Errors, path: Path<'_>, container: &Value, around: &Surroundings<'_>) {
    match text(&container["name"]) {
        "" => errors.required(path.field("name"), ""),
        name => errors.messages(path.field("name"), name, dns1123_label(name)),
    }
    if text(&container["image"]).is_empty() {
        errors.required(path.field("image"), "");
    }
    let policies = ["File", "FallbackToLogsOnError"];
    errors.one_of(
        path.field("terminationMessagePolicy"),
        text(&container["terminationMessagePolicy"]),
        &policies,
    );
    check_ports(errors, path.field("ports"), &container["ports"]);
    check_variables(errors, path.field("env"), &container["env"]);
    check_sources(errors, path.field("envFrom"), &container["envFrom"]);
    check_mounts(errors, path.field("volumeMounts"), container, around.volumes);
    check_devices(errors, path.field("volumeDevices"), container, around.volumes);
    let policies = ["Always", "IfNotPresent", "Never"];
    errors.one_of(path.field("imagePullPolicy"), text(&container["imagePullPolicy"]), &policies);
    check_requirements(errors, path.field("resources"), &container["resources"], &around.claims);
    check_resize_policy(errors, path.field("resizePolicy"), &container["resizePolicy"], around.spec);
    let own_users = around.spec["hostUsers"] == Value::Bool(false);
    check_container_context(errors, path.field("securityContext"), &container["securityContext"], own_users);
}

fn check_ports(errors: &mut Errors, path: Path<'_>, ports: &Value) {
    let mut names = HashSet::new();
    for (index, given) in items(ports).iter().enumerate() {
        let path = path.index(index);
        let name = text(&given["name"]);
        if !name.is_empty() {
            let wrong = port_name(name);
            if !wrong.is_empty() {
                errors.messages(path.field("name"), name, wrong);
            } else if !names.insert(name) {
                errors.duplicate(path.field("name"), name);
            }
        }
        match number(&given["containerPort"]) {
            0 => errors.required(path.field("containerPort"), ""),
            number => port(errors, path.field("containerPort"), number),
        }
        let host_port = number(&given["hostPort"]);
        if host_port != 0 {
            port(errors, path.field("hostPort"), host_port);
        }
        errors.one_of(path.field("protocol"), text(&given["protocol"]), &PROTOCOLS);
    }
}

fn check_host_ports(errors: &mut Errors, path: Path<'_>, containers: &[Value]) {
    let mut taken = HashSet::new();
    for (container, value) in containers.iter().enumerate() {
        for (index, given) in items(&value["ports"]).iter().enumerate() {
            let port = number(&given["hostPort"]);
            if port == 0 {
                continue;
            }
            let key = format!("{}/{}/{port}", text(&given["protocol"]), text(&given["hostIP"]));
            if taken.contains(&key) {
                errors.duplicate(path.index(container).field("ports").index(index).field("hostPort"), key);
            } else {
                taken.insert(key);
            }
        }
    }
}

fn by_name<'a>(list: &'a Value, field: &str) -> HashMap<&'a str, &'a str> {
    items(list).iter().map(|item| (text(&item["name"]), text(&item[field]))).collect()
}

fn check_mounts(errors: &mut Errors, path: Path<'_>, container: &Value, volumes: &Volumes<'_>) {
    let devices = by_name(&container["volumeDevices"], "devicePath");
    let privileged = is_true(&container["securityContext"]["privileged"]);
    let mut points = HashSet::new();
    for (index, mount) in items(&container["volumeMounts"]).iter().enumerate() {
        let at = path.index(index);
        let (name, point) = (text(&mount["name"]), text(&mount["mountPath"]));
        if name.is_empty() {
            errors.required(at.field("name"), "");
        }
        if !volumes.contains_key(name) {
            errors.not_found(at.field("name"), name);
        }
        if point.is_empty() {
            errors.required(at.field("mountPath"), "");
        }
        if !points.insert(point) {
            errors.invalid(at.field("mountPath"), point, "must be unique");
        }
        if devices.contains_key(name) {
            errors.invalid(at.field("name"), name, "must not already exist in volumeDevices");
        }
        if devices.values().any(|device| *device == point) {
            errors.invalid(at.field("mountPath"), point, "must not already exist as a path in volumeDevices");
        }
        let (sub_path, expression) = (text(&mount["subPath"]), text(&mount["subPathExpr"]));
        descending_path(errors, path.field("subPath"), sub_path);
        if !expression.is_empty() {
            if !sub_path.is_empty() {
                let detail = "subPathExpr and subPath are mutually exclusive";
                errors.invalid(at.field("subPathExpr"), expression, detail);
            }
            descending_path(errors, path.field("subPathExpr"), expression);
        }
        check_propagation(errors, path.field("mountPropagation"), mount, privileged);
        check_recursive(errors, path.field("recursiveReadOnly"), mount);
    }
}

fn check_propagation(errors: &mut Errors, path: Path<'_>, mount: &Value, privileged: bool) {
    let propagation = &mount["mountPropagation"];
    if !is_set(propagation) {
        return;
    }
    let supported = ["Bidirectional", "HostToContainer", "None"];
    if !supported.contains(&text(propagation)) {
        errors.not_supported(path, text(propagation), &supported);
    }
    if text(propagation) == "Bidirectional" && !privileged {
        errors.forbidden(path, "Bidirectional mount propagation is available only to privileged containers");
    }
}

fn check_recursive(errors: &mut Errors, path: Path<'_>, mount: &Value) {
    match text(&mount["recursiveReadOnly"]) {
        "" | "Disabled" => {}
        "Enabled" | "IfPossible" => {
            if !is_true(&mount["readOnly"]) {
                errors.forbidden(path, "may only be specified when readOnly is true");
            }
            if !matches!(text(&mount["mountPropagation"]), "" | "None") {
                errors
                    .forbidden(path, "may only be specified when mountPropagation is None or not specified");
            }
        }
        other => errors.not_supported(path, other, &["Disabled", "Enabled", "IfPossible"]),
    }
}

fn check_devices(errors: &mut Errors, path: Path<'_>, container: &Value, volumes: &Volumes<'_>) {
    let mounts = by_name(&container["volumeMounts"], "mountPath");
    let (mut names, mut paths) = (HashSet::new(), HashSet::new());
    for (index, device) in items(&container["volumeDevices"]).iter().enumerate() {
        let at = path.index(index);
        let (name, file) = (text(&device["name"]), text(&device["devicePath"]));
        if name.is_empty() {
            errors.required(at.field("name"), "");
        }
        if names.contains(name) {
            errors.invalid(at.field("name"), name, "must be unique");
        }
        match volumes.get(name) {
            None => errors.not_found(at.field("name"), name),
            Some(volume) if !is_set(&volume["persistentVolumeClaim"]) && !is_set(&volume["ephemeral"]) => {
                let detail =
                    "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                errors.invalid(at.field("name"), name, detail);
            }
            Some(_) => {}
        }
        if file.is_empty() {
            errors.required(at.field("devicePath"), "");
        }
        if paths.contains(file) {
            errors.invalid(at.field("devicePath"), file, "must be unique");
        }
        if file.split('/').any(|part| part == "..") {
            errors.invalid(at.field("devicePath"), file, "can not contain backsteps ('..')");
        } else {
            paths.insert(file);
        }
        if mounts.contains_key(name) {
            errors.invalid(at.field("name"), name, "must not already exist in volumeMounts");
        }
        if mounts.values().any(|mount| *mount == file) {
            errors.invalid(at.field("devicePath"), file, "must not already exist as a path in volumeMounts");
        }
        if !name.is_empty() {
            names.insert(name);
        }
    }
}

fn check_resize_policy(errors: &mut Errors, path: Path<'_>, policies: &Value, spec: &Value) {
    let mut seen = HashSet::new();
    for (index, policy) in items(policies).iter().enumerate() {
        let (resource, restart) = (text(&policy["resourceName"]), text(&policy["restartPolicy"]));
        if !seen.insert(resource) {
            errors.duplicate(path.index(index), resource);
        }
        errors.one_of(path, resource, &["cpu", "memory"]);
        errors.one_of(path, restart, &["NotRequired", "RestartContainer"]);
        if text(&spec["restartPolicy"]) == "Never" && restart != "NotRequired" {
            errors.invalid(path, restart, "must be 'NotRequired' when `restartPolicy` is 'Never'");
        }
    }
}

/// The fields that a container may have that is put into a running pod.
const EPHEMERAL: [&str; 17] = [
    "name",
    "image",
    "command",
    "args",
    "workingDir",
    "envFrom",
    "env",
    "volumeMounts",
    "volumeDevices",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "imagePullPolicy",
    "securityContext",
    "stdin",
    "stdinOnce",
    "tty",
    "targetContainerName",
];

/// Checks the containers that were put into a running pod.
pub(super) fn check_ephemeral_containers(errors: &mut Errors, path: Path<'_>, around: &Surroundings<'_>) {
    let named = |list: &'static str| items(&around.spec[list]).iter().map(|other| text(&other["name"]));
    let others: HashSet<_> = named("containers").chain(named("initContainers")).collect();
    let mut names = others.clone();
    for (index, container) in items(&around.spec["ephemeralContainers"]).iter().enumerate() {
        let path = path.index(index);
        check_common(errors, path, container, around);
        check_image(errors, path, container);
        let name = text(&container["name"]);
        if !names.insert(name) {
            errors.duplicate(path.field("name"), name);
        }
        let target = text(&container["targetContainerName"]);
        if !target.is_empty() && !others.contains(target) {
            errors.not_found(path.field("targetContainerName"), target);
        }
        let detail = "cannot be set for an Ephemeral Container";
        for (field, value) in entries(container) {
            if !EPHEMERAL.contains(&field) && (size(value) > 0 || !(value.is_object() || value.is_array())) {
                errors.forbidden(path.field(field), detail);
            }
        }
        for (index, mount) in items(&container["volumeMounts"]).iter().enumerate() {
            for field in ["subPath", "subPathExpr"] {
                if !text(&mount[field]).is_empty() {
                    errors.forbidden(path.field("volumeMounts").index(index).field(field), detail);
                }
            }
        }
    }
}

/// Checks what an image of a pod, rather than of a template, must be.
pub(super) fn check_image(errors: &mut Errors, path: Path<'_>, container: &Value) {
    let image = text(&container["image"]);
    if image.trim() != image {
        errors.invalid(path.field("image"), image, "must not have leading or trailing whitespace");
    }
}
