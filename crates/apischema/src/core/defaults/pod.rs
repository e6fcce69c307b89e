//! Pods and templates of pods.

use serde_json::Value;

use super::{Fields, add_missing, each, inside, present, set, text};

pub(super) fn pod(pod: &mut Fields) {
    let spec = inside(pod, "spec");
    for list in ["containers", "initContainers"] {
        each(spec, list).for_each(request_what_is_limited);
    }
    set(spec, "enableServiceLinks", true);
    if spec.get("hostNetwork") == Some(&Value::Bool(true)) {
        for list in ["containers", "initContainers"] {
            each(spec, list).flat_map(|container| each(container, "ports")).for_each(|port| {
                if let Some(container_port) = port.get("containerPort").cloned() {
                    set(port, "hostPort", container_port);
                }
            });
        }
    }
    pod_spec(spec);
}

/// A pod asks for what it may have at most, unless it says otherwise. A template does not.
fn request_what_is_limited(container: &mut Fields) {
    let Some(resources) = present(container, "resources") else { return };
    let Some(limits) = present(resources, "limits").map(|limits| limits.clone()) else { return };
    add_missing(inside(resources, "requests"), &limits);
}

/// The template in a `template` field.
pub(super) fn template_in(owner: &mut Fields) {
    pod_spec(inside(inside(owner, "template"), "spec"));
}

fn pod_spec(spec: &mut Fields) {
    set(spec, "dnsPolicy", "ClusterFirst");
    set(spec, "restartPolicy", "Always");
    set(spec, "securityContext", Fields::new());
    set(spec, "terminationGracePeriodSeconds", 30);
    set(spec, "schedulerName", "default-scheduler");
    each(spec, "volumes").for_each(volume);
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        each(spec, list).for_each(container);
    }
}

fn volume(volume: &mut Fields) {
    if volume.keys().all(|name| name == "name") {
        volume.insert("emptyDir".to_owned(), Value::Object(Fields::new()));
    }
    if let Some(image) = present(volume, "image") {
        let policy = pull_policy(text(image, "reference"));
        set(image, "pullPolicy", policy);
    }
    if let Some(host_path) = present(volume, "hostPath") {
        set(host_path, "type", "");
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = present(volume, source) {
            set(source, "defaultMode", 0o644);
        }
    }
    if let Some(downward) = present(volume, "downwardAPI") {
        downward_items(downward);
    }
    if let Some(projected) = present(volume, "projected") {
        for source in each(projected, "sources") {
            if let Some(downward) = present(source, "downwardAPI") {
                downward_items(downward);
            }
            if let Some(token) = present(source, "serviceAccountToken") {
                set(token, "expirationSeconds", 3600);
            }
        }
    }
    if let Some(ephemeral) = present(volume, "ephemeral")
        && let Some(template) = present(ephemeral, "volumeClaimTemplate")
    {
        set(inside(template, "spec"), "volumeMode", "Filesystem");
    }
    super::storage::volume_source(volume);
}

fn downward_items(source: &mut Fields) {
    each(source, "items").for_each(|item| field_reference(item, "fieldRef"));
}

fn field_reference(fields: &mut Fields, name: &str) {
    if let Some(reference) = present(fields, name) {
        set(reference, "apiVersion", "v1");
    }
}

fn container(container: &mut Fields) {
    let policy = pull_policy(text(container, "image"));
    set(container, "imagePullPolicy", policy);
    set(container, "terminationMessagePath", "/dev/termination-log");
    set(container, "terminationMessagePolicy", "File");
    each(container, "ports").for_each(|port| set(port, "protocol", "TCP"));
    for variable in each(container, "env") {
        let Some(source) = present(variable, "valueFrom") else { continue };
        field_reference(source, "fieldRef");
        if let Some(file) = present(source, "fileKeyRef") {
            set(file, "optional", false);
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = present(container, probe) else { continue };
        set(probe, "timeoutSeconds", 1);
        set(probe, "periodSeconds", 10);
        set(probe, "successThreshold", 1);
        set(probe, "failureThreshold", 3);
        http_get(probe);
        if let Some(grpc) = present(probe, "grpc") {
            set(grpc, "service", "");
        }
    }
    if let Some(lifecycle) = present(container, "lifecycle") {
        for hook in ["postStart", "preStop"] {
            if let Some(hook) = present(lifecycle, hook) {
                http_get(hook);
            }
        }
    }
}

fn http_get(handler: &mut Fields) {
    if let Some(get) = present(handler, "httpGet") {
        set(get, "path", "/");
        set(get, "scheme", "HTTP");
    }
}

/// An image that may change under its name is pulled always.
fn pull_policy(image: &str) -> &'static str {
    if tag(image) == Some("latest") { "Always" } else { "IfNotPresent" }
}

/// The tag of an image's name; without tag and digest it is `latest`. A name that is none has none.
fn tag(image: &str) -> Option<&str> {
    let (name, digest) = image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
    let slash = name.rfind('/').map_or(0, |slash| slash + 1);
    let (path, tag) = match name[slash..].split_once(':') {
        Some((_, tag)) => (&name[..name.len() - tag.len() - 1], Some(tag)),
        None => (name, None),
    };
    // The first part may be a host; the others are lower case.
    let (host, rest) = path.split_once('/').unwrap_or(("", path));
    let host_like = host.contains(['.', ':']) || host == "localhost" || host.chars().any(char::is_uppercase);
    let repository = if host_like { rest } else { path };
    let part = |part: &str| {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
        let end =
            |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        part.bytes().all(inner) && end(part.bytes().next()) && end(part.bytes().last())
    };
    if !repository.split('/').all(part) {
        return None;
    }
    tag.or(digest.is_none().then_some("latest"))
}
