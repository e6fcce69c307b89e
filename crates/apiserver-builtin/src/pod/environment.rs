//! The environment variables of containers, and the fields of a pod that they and files can show.

use serde_json::Value;

use super::super::errors::Errors;
use super::super::format::{config_key, environment_name, no_backsteps};
use super::super::format::{dns1123_label, dns1123_subdomain, qualified_name};
use super::super::value::{is_set, items, text};
use apischema::Path;
use apischema::Quantity;

/// The fields of a pod that a variable can show.
const FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// Checks `env`.
pub(super) fn check_variables(errors: &mut Errors, path: Path<'_>, variables: &Value) {
    for (index, variable) in items(variables).iter().enumerate() {
        let path = path.index(index);
        match text(&variable["name"]) {
            "" => errors.required(path.field("name"), ""),
            name => errors.messages(path.field("name"), name, environment_name(name)),
        }
        if is_set(&variable["valueFrom"]) {
            check_source(errors, path.field("valueFrom"), variable);
        }
    }
}

fn check_source(errors: &mut Errors, path: Path<'_>, variable: &Value) {
    let source = &variable["valueFrom"];
    let mut sources = 0;
    let mut given = |name: &str| {
        let set = is_set(&source[name]);
        sources += usize::from(set);
        set
    };
    if given("fieldRef") {
        check_field_ref(errors, path.field("fieldRef"), &source["fieldRef"], &FIELDS);
    }
    if given("resourceFieldRef") {
        check_resource_ref(errors, path.field("resourceFieldRef"), &source["resourceFieldRef"], InVolume::No);
    }
    for name in ["configMapKeyRef", "secretKeyRef"] {
        if given(name) {
            check_key_ref(errors, path.field(name), &source[name]);
        }
    }
    if given("fileKeyRef") {
        check_file_ref(errors, path.field("fileKeyRef"), &source["fileKeyRef"]);
    }
    if sources == 0 {
        let detail =
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`";
        errors.invalid(path, "", detail);
    } else if !text(&variable["value"]).is_empty() {
        errors.invalid(path, "", "may not be specified when `value` is not empty");
    } else if sources > 1 {
        errors.invalid(path, "", "may not have more than one field specified at a time");
    }
}

/// Checks a reference to a field of the pod.
pub(super) fn check_field_ref(errors: &mut Errors, path: Path<'_>, reference: &Value, allowed: &[&str]) {
    let (version, field) = (text(&reference["apiVersion"]), text(&reference["fieldPath"]));
    if version.is_empty() {
        return errors.required(path.field("apiVersion"), "");
    }
    if field.is_empty() {
        return errors.required(path.field("fieldPath"), "");
    }
    if version != "v1" {
        let detail = format!("error converting fieldPath: unsupported pod version: {version}");
        return errors.invalid(path.field("fieldPath"), field, detail);
    }
    if let Some((map, subscript)) = subscripted(field) {
        match map {
            "metadata.annotations" => {
                errors.messages(path, &subscript.to_lowercase(), qualified_name(&subscript.to_lowercase()));
            }
            "metadata.labels" => errors.messages(path, subscript, qualified_name(subscript)),
            _ => {
                let detail =
                    format!("error converting fieldPath: field label does not support subscript: {field}");
                errors.invalid(path.field("fieldPath"), field, detail);
            }
        }
        return;
    }
    let others = [
        "metadata.labels",
        "metadata.annotations",
        "spec.restartPolicy",
        "spec.schedulerName",
        "status.phase",
    ];
    let known = FIELDS.contains(&field) || others.contains(&field);
    if !known {
        let detail = format!("error converting fieldPath: field label not supported: {field}");
        errors.invalid(path.field("fieldPath"), field, detail);
    } else if !allowed.contains(&field) {
        let mut allowed = allowed.to_vec();
        allowed.sort_unstable();
        errors.not_supported(path.field("fieldPath"), field, &allowed);
    }
}

/// `metadata.labels['a']` is the label `a`.
fn subscripted(field: &str) -> Option<(&str, &str)> {
    field.strip_suffix("']")?.split_once("['").filter(|(map, _)| !map.is_empty())
}

/// Where a reference to a resource is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InVolume {
    Yes,
    No,
}

/// Checks a reference to a resource of a container.
pub(super) fn check_resource_ref(
    errors: &mut Errors,
    path: Path<'_>,
    reference: &Value,
    in_volume: InVolume,
) {
    let resource = text(&reference["resource"]);
    let huge = resource.starts_with("limits.hugepages-") || resource.starts_with("requests.hugepages-");
    if in_volume == InVolume::Yes && text(&reference["containerName"]).is_empty() {
        errors.required(path.field("containerName"), "");
    } else if resource.is_empty() {
        errors.required(path.field("resource"), "");
    } else if !RESOURCES.contains(&resource) && !huge {
        errors.not_supported(path.field("resource"), resource, &RESOURCES);
    }
    let Some(divisor) = Quantity::from_value(&reference["divisor"]).filter(|divisor| !divisor.is_zero())
    else {
        return;
    };
    let what = match resource {
        "limits.cpu" | "requests.cpu" => {
            if !["1m", "1"].contains(&divisor.to_string().as_str()) {
                let detail = "only divisor's values 1m and 1 are supported with the cpu resource";
                errors.invalid(path.field("divisor"), resource, detail);
            }
            return;
        }
        "limits.memory" | "requests.memory" => "memory",
        "limits.ephemeral-storage" | "requests.ephemeral-storage" => "local ephemeral storage",
        _ if huge => "hugepages",
        _ => return,
    };
    const DIVISORS: [&str; 13] =
        ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
    if !DIVISORS.contains(&divisor.to_string().as_str()) {
        let detail =
            format!("only divisor's values {} are supported with the {what} resource", DIVISORS.join(", "));
        errors.invalid(path.field("divisor"), resource, detail);
    }
}

fn check_key_ref(errors: &mut Errors, path: Path<'_>, reference: &Value) {
    let (name, key) = (text(&reference["name"]), text(&reference["key"]));
    errors.messages(path.field("name"), name, dns1123_subdomain(name));
    match key {
        "" => errors.required(path.field("key"), ""),
        key => errors.messages(path.field("key"), key, config_key(key)),
    }
}

fn check_file_ref(errors: &mut Errors, path: Path<'_>, reference: &Value) {
    match text(&reference["key"]) {
        "" => errors.required(path.field("key"), ""),
        key => errors.messages(path.field("key"), key, environment_name(key)),
    }
    match text(&reference["volumeName"]) {
        "" => errors.required(path.field("volumeName"), ""),
        name => errors.messages(path.field("volumeName"), name, dns1123_label(name)),
    }
    match text(&reference["path"]) {
        "" => errors.required(path.field("path"), ""),
        file => no_backsteps(errors, path.field("path"), file),
    }
}

/// Checks `envFrom`.
pub(super) fn check_sources(errors: &mut Errors, path: Path<'_>, sources: &Value) {
    for (index, source) in items(sources).iter().enumerate() {
        let at = path.index(index);
        let prefix = text(&source["prefix"]);
        errors.messages(at.field("prefix"), prefix, environment_name(prefix));
        let given: Vec<_> =
            ["configMapRef", "secretRef"].into_iter().filter(|name| is_set(&source[*name])).collect();
        for reference in &given {
            let path = at.field(reference);
            match text(&source[*reference]["name"]) {
                "" => errors.required(path.field("name"), ""),
                name => {
                    errors.messages(path.field("name"), name, dns1123_subdomain(name.trim_end_matches('-')));
                }
            }
        }
        match given.len() {
            0 => errors.invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"),
            1 => {}
            _ => errors.invalid(path, "", "may not have more than one field specified at a time"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn wrong(check: fn(&mut Errors, Path<'_>, &Value), value: &Value) -> Vec<String> {
        let mut errors = Errors::default();
        check(&mut errors, Path::root("env"), value);
        errors.into_vec().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn variables_have_names_and_one_source() {
        let wrong = |value| wrong(check_variables, &value);
        assert!(wrong(json!([{"name": "A", "value": "1"}, {"name": "a.b-c 1"}])).is_empty());
        assert_eq!(wrong(json!([{"value": "1"}])), ["env[0].name: Required value"]);
        assert_eq!(
            wrong(json!([{"name": "a=b"}])),
            [
                "env[0].name: Invalid value: \"a=b\": a valid environment variable name must consist only of printable \
              ASCII characters other than '='"
            ]
        );
        assert_eq!(
            wrong(json!([{"name": "A", "valueFrom": {}}])),
            ["env[0].valueFrom: Invalid value: \"\": must specify one of: `fieldRef`, `resourceFieldRef`, \
              `configMapKeyRef` or `secretKeyRef`"]
        );
        assert_eq!(
            wrong(
                json!([{"name": "A", "value": "x", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}])
            ),
            ["env[0].valueFrom: Invalid value: \"\": may not be specified when `value` is not empty"]
        );
    }

    #[test]
    fn variables_show_only_some_fields() {
        let field = |field: &str| {
            let reference = json!({"apiVersion": "v1", "fieldPath": field});
            wrong(check_variables, &json!([{"name": "A", "valueFrom": {"fieldRef": reference}}]))
        };
        assert!(field("status.podIP").is_empty());
        assert!(field("metadata.labels['app']").is_empty());
        assert_eq!(
            field("metadata.labels"),
            [
                "env[0].valueFrom.fieldRef.fieldPath: Unsupported value: \"metadata.labels\": supported values: \
              \"metadata.name\", \"metadata.namespace\", \"metadata.uid\", \"spec.nodeName\", \
              \"spec.serviceAccountName\", \"status.hostIP\", \"status.hostIPs\", \"status.podIP\", \"status.podIPs\""
            ]
        );
        assert_eq!(
            field("spec.nope"),
            [
                "env[0].valueFrom.fieldRef.fieldPath: Invalid value: \"spec.nope\": error converting fieldPath: field \
              label not supported: spec.nope"
            ]
        );
    }

    #[test]
    fn sources_are_one_of_two() {
        assert!(wrong(check_sources, &json!([{"prefix": "P_", "secretRef": {"name": "s"}}])).is_empty());
        assert_eq!(
            wrong(check_sources, &json!([{}])),
            ["env: Invalid value: \"\": must specify one of: `configMapRef` or `secretRef`"]
        );
    }
}
