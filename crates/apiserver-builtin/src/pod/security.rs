//! What pods and containers may do on their node.

use std::collections::HashSet;

use serde_json::Value;

use super::super::errors::Errors;
use super::super::format::{descending_path, unix_id};
use super::super::value::{is_set, is_true, items, text, texts};
use apischema::Path;

/// Checks the security context of a container. `own_users` is whether the pod has a user namespace of its own.
pub(super) fn check_container_context(errors: &mut Errors, path: Path<'_>, context: &Value, own_users: bool) {
    if !is_set(context) {
        return;
    }
    unix_id(errors, path.field("runAsUser"), context["runAsUser"].as_i64());
    unix_id(errors, path.field("runAsGroup"), context["runAsGroup"].as_i64());
    match text(&context["procMount"]) {
        "" | "Default" => {}
        "Unmasked" => {
            if !own_users {
                let detail = "`hostUsers` must be false to use `Unmasked`";
                errors.invalid(path.field("procMount"), "Unmasked", detail);
            }
        }
        other => errors.not_supported(path.field("procMount"), other, &["Default", "Unmasked"]),
    }
    check_seccomp(errors, path.field("seccompProfile"), &context["seccompProfile"]);
    if context["allowPrivilegeEscalation"] == Value::Bool(false) {
        if is_true(&context["privileged"]) {
            let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            errors.invalid(path, context.clone(), detail);
        }
        if texts(&context["capabilities"]["add"]).any(|capability| capability == "CAP_SYS_ADMIN") {
            let detail =
                "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            errors.invalid(path, context.clone(), detail);
        }
    }
    check_app_armor(errors, path.field("appArmorProfile"), &context["appArmorProfile"]);
}

/// Checks the security context of a pod.
pub(super) fn check_pod_context(errors: &mut Errors, path: Path<'_>, spec: &Value) {
    let context = &spec["securityContext"];
    for name in ["fsGroup", "runAsUser", "runAsGroup"] {
        unix_id(errors, path.field(name), context[name].as_i64());
    }
    for (index, group) in items(&context["supplementalGroups"]).iter().enumerate() {
        unix_id(errors, path.field("supplementalGroups").index(index), group.as_i64());
    }
    if is_true(&spec["shareProcessNamespace"]) && is_true(&spec["hostPID"]) {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.invalid(path.field("shareProcessNamespace"), true, detail);
    }
    check_sysctls(errors, path.field("sysctls"), &context["sysctls"], spec);
    let mut one_of = |name: &str, supported: &[&str]| {
        if is_set(&context[name]) && !supported.contains(&text(&context[name])) {
            errors.not_supported(path.field(name), text(&context[name]), supported);
        }
    };
    one_of("fsGroupChangePolicy", &["Always", "OnRootMismatch"]);
    one_of("supplementalGroupsPolicy", &["Merge", "Strict"]);
    one_of("seLinuxChangePolicy", &["MountOption", "Recursive"]);
    check_seccomp(errors, path.field("seccompProfile"), &context["seccompProfile"]);
    check_app_armor(errors, path.field("appArmorProfile"), &context["appArmorProfile"]);
}

/// Checks that a pod with users of its own shares nothing else with its node.
pub(super) fn check_host_users(errors: &mut Errors, path: Path<'_>, spec: &Value) {
    if spec["hostUsers"] != Value::Bool(false) {
        return;
    }
    for (field, name) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if is_true(&spec[field]) {
            errors.forbidden(path.field(name), "when `hostUsers` is false");
        }
    }
}

fn check_seccomp(errors: &mut Errors, path: Path<'_>, profile: &Value) {
    if !is_set(profile) {
        return;
    }
    let kinds = ["Localhost", "RuntimeDefault", "Unconfined"];
    match text(&profile["type"]) {
        "" => errors.required(path.field("type"), "type is required when seccompProfile is set"),
        kind if kinds.contains(&kind) => {}
        other => errors.not_supported(path.field("type"), other, &kinds),
    }
    let local = &profile["localhostProfile"];
    match (text(&profile["type"]) == "Localhost", is_set(local)) {
        (true, false) => {
            errors.required(path.field("localhostProfile"), "must be set when seccomp type is Localhost");
        }
        (true, true) => descending_path(errors, path.field("localhostProfile"), text(local)),
        (false, true) => {
            let detail = "can only be set when seccomp type is Localhost";
            errors.invalid(path.field("localhostProfile"), profile.clone(), detail);
        }
        (false, false) => {}
    }
}

fn check_app_armor(errors: &mut Errors, path: Path<'_>, profile: &Value) {
    if !is_set(profile) {
        return;
    }
    let local = &profile["localhostProfile"];
    let local_path = path.field("localhostProfile");
    match text(&profile["type"]) {
        "Localhost" => match text(local) {
            "" => errors.required(local_path, "must be set when AppArmor type is Localhost"),
            name if name.trim() != name => {
                errors.invalid(local_path, name, "must not be padded with whitespace");
            }
            name if name.len() > 4095 => errors.too_long(local_path, 4095),
            _ => {}
        },
        "RuntimeDefault" | "Unconfined" => {
            if is_set(local) {
                errors.invalid(local_path, local.clone(), "can only be set when AppArmor type is Localhost");
            }
        }
        "" => errors.required(path.field("type"), "type is required when appArmorProfile is set"),
        other => {
            errors.not_supported(path.field("type"), other, &["Localhost", "RuntimeDefault", "Unconfined"]);
        }
    }
}

fn check_sysctls(errors: &mut Errors, path: Path<'_>, sysctls: &Value, spec: &Value) {
    let mut names = HashSet::new();
    for (index, sysctl) in items(sysctls).iter().enumerate() {
        let (path, name) = (path.index(index), text(&sysctl["name"]));
        let path = path.field("name");
        if name.is_empty() {
            errors.required(path, "");
        } else if !is_sysctl(name) {
            let detail = "must have at most 253 characters and match regex \
                          ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
            errors.invalid(path, name, detail);
        } else if names.contains(name) {
            errors.duplicate(path, name);
        }
        let dotted = name.replace('/', ".");
        let of_network = dotted.starts_with("net.");
        let of_ipc = dotted.starts_with("fs.mqueue.")
            || ["kernel.msg", "kernel.sem", "kernel.shm"].iter().any(|prefix| dotted.starts_with(prefix));
        if of_network && is_true(&spec["hostNetwork"]) {
            errors.invalid(path, name, "may not be specified when 'hostNetwork' is true");
        } else if of_ipc && is_true(&spec["hostIPC"]) {
            errors.invalid(path, name, "may not be specified when 'hostIPC' is true");
        }
        names.insert(name);
    }
}

fn is_sysctl(name: &str) -> bool {
    let edge = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_segment = |segment: &str| match segment.as_bytes() {
        [] => false,
        [only] => edge(only),
        [first, middle @ .., last] => {
            edge(first) && edge(last) && middle.iter().all(|byte| edge(byte) || matches!(byte, b'-' | b'_'))
        }
    };
    name.len() <= 253 && name.split(['.', '/']).all(is_segment)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn profiles_are_of_known_types() {
        let mut errors = Errors::default();
        let context = json!({
            "runAsUser": -1,
            "procMount": "Unmasked",
            "seccompProfile": {"type": "Localhost"},
            "allowPrivilegeEscalation": false,
            "privileged": true,
        });
        check_container_context(&mut errors, Path::root("c"), &context, false);
        let texts: Vec<_> = errors.into_vec().iter().map(ToString::to_string).collect();
        assert_eq!(texts[0], "c.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive");
        assert_eq!(
            texts[1],
            "c.procMount: Invalid value: \"Unmasked\": `hostUsers` must be false to use `Unmasked`"
        );
        assert_eq!(
            texts[2],
            "c.seccompProfile.localhostProfile: Required value: must be set when seccomp type is Localhost"
        );
        assert!(
            texts[3].ends_with("cannot set `allowPrivilegeEscalation` to false and `privileged` to true")
        );
        assert_eq!(texts.len(), 4);
    }

    #[test]
    fn sysctls_are_those_of_the_pod() {
        let mut errors = Errors::default();
        let spec = json!({"hostNetwork": true, "securityContext": {"sysctls": [
            {"name": "net.ipv4.ip_forward"}, {"name": "A"}, {"name": "kernel.sem"}, {"name": "kernel.sem"},
        ]}});
        check_pod_context(&mut errors, Path::root("s"), &spec);
        let texts: Vec<_> = errors.into_vec().iter().map(ToString::to_string).collect();
        assert_eq!(
            texts[0],
            "s.sysctls[0].name: Invalid value: \"net.ipv4.ip_forward\": may not be specified when 'hostNetwork' is true"
        );
        assert!(
            texts[1].starts_with("s.sysctls[1].name: Invalid value: \"A\": must have at most 253 characters")
        );
        assert_eq!(texts[2], "s.sysctls[3].name: Duplicate value: \"kernel.sem\"");
    }
}
