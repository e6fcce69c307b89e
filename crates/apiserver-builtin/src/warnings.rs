//! What whoever writes something that makes pods should know, though it is allowed.

use serde_json::Value;

use super::format::dns1123_label;
use super::pod::warnings::spec_warnings;
use super::value::text;
use apischema::Path;

/// Of what names its pods after itself, and has their template in its spec.
pub(super) fn of_named(object: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = if old.is_none() { pod_names(object) } else { Vec::new() };
    warnings.extend(of_template(object, old));
    warnings
}

/// Of what has a template of pods in its spec.
pub(super) fn of_template(object: &Value, old: Option<&Value>) -> Vec<String> {
    if old.is_some_and(|old| old["spec"] == object["spec"]) {
        return Vec::new();
    }
    let spec = Path::root("spec");
    let template = spec.field("template");
    spec_warnings(template.field("spec"), &object["spec"]["template"]["spec"])
}

/// The name of what makes pods is part of their names.
pub(super) fn pod_names(object: &Value) -> Vec<String> {
    let wrong = dns1123_label(text(&object["metadata"]["name"]));
    if wrong.is_empty() {
        return Vec::new();
    }
    vec![format!(
        "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is \
         recommended: [{}]",
        wrong.join(" ")
    )]
}
