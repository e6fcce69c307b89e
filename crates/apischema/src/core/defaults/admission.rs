//! Admission webhooks and policies.

use super::cluster::service_port;
use super::{Fields, each, inside, present, set};

pub(super) fn webhooks_and_policies(kind: &str, object: &mut Fields) {
    match kind {
        "ValidatingWebhookConfiguration" => each(object, "webhooks").for_each(webhook),
        "MutatingWebhookConfiguration" => {
            for hook in each(object, "webhooks") {
                webhook(hook);
                set(hook, "reinvocationPolicy", "Never");
            }
        }
        "ValidatingAdmissionPolicy" => {
            let spec = inside(object, "spec");
            set(spec, "failurePolicy", "Fail");
            if let Some(constraints) = present(spec, "matchConstraints") {
                match_resources(constraints);
            }
        }
        "ValidatingAdmissionPolicyBinding" => {
            if let Some(resources) = present(inside(object, "spec"), "matchResources") {
                match_resources(resources);
            }
        }
        _ => {}
    }
}

fn webhook(webhook: &mut Fields) {
    set(webhook, "failurePolicy", "Fail");
    set(webhook, "matchPolicy", "Equivalent");
    set(webhook, "namespaceSelector", Fields::new());
    set(webhook, "objectSelector", Fields::new());
    set(webhook, "timeoutSeconds", 10);
    each(webhook, "rules").for_each(rule);
    if let Some(config) = present(webhook, "clientConfig") {
        service_port(config);
    }
}

fn rule(rule: &mut Fields) {
    set(rule, "scope", "*");
}

fn match_resources(resources: &mut Fields) {
    set(resources, "matchPolicy", "Equivalent");
    set(resources, "namespaceSelector", Fields::new());
    set(resources, "objectSelector", Fields::new());
    for list in ["resourceRules", "excludeResourceRules"] {
        each(resources, list).for_each(rule);
    }
}
