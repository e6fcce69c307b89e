//! `caBundle` of the webhooks in a ValidatingWebhookConfiguration.

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::api::Patch;
use serde_json::{Value, json};

use super::HasCaBundle;

/// Of every webhook that is reached by a Service. One that has a URL has been set up by somebody else, with an authority of theirs.
impl HasCaBundle for ValidatingWebhookConfiguration {
    fn with_bundle(&self, bundle: &str) -> Option<Value> {
        let has =
            |present: Option<&ByteString>| present.is_some_and(|present| present.0 == bundle.as_bytes());
        let webhooks = self.webhooks.iter().flatten();
        let behind = webhooks.filter(|webhook| {
            webhook.client_config.service.is_some() && !has(webhook.client_config.ca_bundle.as_ref())
        });
        let bundle = ByteString(bundle.as_bytes().to_vec());
        let changes: Vec<Value> = behind
            .map(|webhook| json!({"name": webhook.name, "clientConfig": {"caBundle": bundle}}))
            .collect();
        (!changes.is_empty()).then(|| json!({"webhooks": changes}))
    }

    /// By the webhooks' names: a merge patch would replace the list, with all that operators have set in it.
    fn patch(change: Value) -> Patch<Value> {
        Patch::Strategic(change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_bundle_of_webhooks_behind_a_service_is_written() {
        let service = json!({"namespace": "system", "name": "webhook"});
        let mut configuration: ValidatingWebhookConfiguration = serde_json::from_value(json!({
            "webhooks": [
                {"name": "ours.example.io", "clientConfig": {"service": service}, "failurePolicy": "Fail",
                 "admissionReviewVersions": ["v1"], "sideEffects": "None"},
                {"name": "current.example.io", "clientConfig": {"service": service, "caBundle": "Y2E="},
                 "admissionReviewVersions": ["v1"], "sideEffects": "None"},
                {"name": "url.example.io", "clientConfig": {"url": "https://example.io"},
                 "admissionReviewVersions": ["v1"], "sideEffects": "None"},
            ]
        }))
        .unwrap();
        let change = json!({"webhooks": [{"name": "ours.example.io", "clientConfig": {"caBundle": "Y2E="}}]});
        assert_eq!(configuration.with_bundle("ca"), Some(change));
        configuration.webhooks.as_mut().unwrap()[0].client_config.ca_bundle =
            Some(ByteString(b"ca".to_vec()));
        assert_eq!(configuration.with_bundle("ca"), None);
        assert_eq!(ValidatingWebhookConfiguration::default().with_bundle("ca"), None);
        assert!(matches!(ValidatingWebhookConfiguration::patch(json!({})), Patch::Strategic(_)));
    }
}
