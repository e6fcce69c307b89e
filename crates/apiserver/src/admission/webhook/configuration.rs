//! The kinds by which webhooks are configured.

mod validation;

use apischema::FieldError;
use serde_json::{Map, Value, json};

use super::review::Purpose;
use crate::registry::{Action, Column, Columns, Generation, Resource, Scope, Strategy};

const GROUP: &str = "admissionregistration.k8s.io";

/// `MutatingWebhookConfiguration` and `ValidatingWebhookConfiguration`.
pub fn resources() -> Vec<Resource> {
    let resource = |plural: &str, kind: &str, purpose| {
        Resource::new(GROUP, "v1", plural, kind, Scope::Cluster)
            .categories(&["api-extensions"])
            .strategy(ConfigurationStrategy { purpose })
            .version(|version| {
                let version = version.columns(columns());
                match apischema::core::schema(GROUP, "v1", kind) {
                    Some(schema) => version.schema(schema),
                    None => version,
                }
            })
    };
    vec![
        resource("mutatingwebhookconfigurations", "MutatingWebhookConfiguration", Purpose::Mutating),
        resource("validatingwebhookconfigurations", "ValidatingWebhookConfiguration", Purpose::Validating),
    ]
}

fn columns() -> Columns {
    let description = "Webhooks indicates the number of webhooks registered in this configuration";
    let headings = [Column::name(), Column::new("Webhooks", "integer", description), Column::age()];
    Columns::new(headings, |object, now| {
        let webhooks = object["webhooks"].as_array().map_or(0, Vec::len);
        vec![object["metadata"]["name"].clone(), webhooks.into(), crate::crd::age(object, now).into()]
    })
}

#[derive(Clone, Copy, Debug)]
struct ConfigurationStrategy {
    purpose: Purpose,
}

impl Strategy for ConfigurationStrategy {
    fn set_defaults(&self, object: &mut Value) {
        for webhook in maps(object.get_mut("webhooks")) {
            let mut default = |name: &str, value: Value| {
                let field = webhook.entry(name).or_insert(Value::Null);
                if field.is_null() {
                    *field = value;
                }
            };
            default("failurePolicy", "Fail".into());
            default("matchPolicy", "Equivalent".into());
            default("namespaceSelector", json!({}));
            default("objectSelector", json!({}));
            default("timeoutSeconds", 10.into());
            if self.purpose == Purpose::Mutating {
                default("reinvocationPolicy", "Never".into());
            }
            for rule in maps(webhook.get_mut("rules")) {
                rule.entry("scope").or_insert_with(|| "*".into());
            }
            let service = webhook.get_mut("clientConfig").and_then(|config| config.get_mut("service"));
            if let Some(service) = service.and_then(Value::as_object_mut) {
                service.entry("port").or_insert_with(|| 443.into());
            }
        }
    }

    fn validate(&self, object: &Value, _action: Action<'_>) -> Vec<FieldError> {
        validation::errors(object, self.purpose)
    }

    fn validate_update(&self, object: &Value, old: &Value, _action: Action<'_>) -> Vec<FieldError> {
        // What is there already is not made worse by being written again.
        if object.get("webhooks") == old.get("webhooks") {
            return Vec::new();
        }
        validation::errors(object, self.purpose)
    }

    fn generation(&self) -> Generation {
        Generation::Content
    }

    fn updates_unconditionally(&self) -> bool {
        false
    }
}

fn maps(list: Option<&mut Value>) -> impl Iterator<Item = &mut Map<String, Value>> {
    list.and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_those_of_kubernetes() {
        let mut object = json!({"webhooks": [
            {"name": "a", "clientConfig": {"service": {"name": "s"}}, "rules": [{"operations": ["CREATE"]}], "timeoutSeconds": 3},
        ]});
        ConfigurationStrategy { purpose: Purpose::Mutating }.set_defaults(&mut object);
        assert_eq!(
            object["webhooks"][0],
            json!({
                "name": "a", "clientConfig": {"service": {"name": "s", "port": 443}},
                "rules": [{"operations": ["CREATE"], "scope": "*"}], "timeoutSeconds": 3, "failurePolicy": "Fail",
                "matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}, "reinvocationPolicy": "Never",
            })
        );
    }
}
