//! Certificates of the installation: those in its Secrets, and those that API servers trust for its webhook and its API. Keys are not looked at.

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use x509_parser::pem::Pem;

use super::super::facts::Certificate;
use super::Ask;

/// What Secrets have certificates in.
const KEYS: [&str; 2] = ["tls.crt", "ca.crt"];

pub(super) async fn all(ask: &Ask<'_>) -> anyhow::Result<Vec<Certificate>> {
    let namespace = ask.namespace;
    let secrets: Api<Secret> = Api::namespaced(ask.cluster.client.clone(), namespace);
    let what = format!("the list of Secrets in namespace {namespace}");
    let mut found = Vec::new();
    for secret in ask.list(&secrets, &what, &ListParams::default()).await? {
        for key in KEYS {
            let Some(ByteString(text)) = secret.data.as_ref().and_then(|data| data.get(key)) else {
                continue;
            };
            found.extend(read(&format!("Secret {namespace}/{}, {key}", secret.name_any()), text));
        }
    }
    let configurations = ask.all::<ValidatingWebhookConfiguration>();
    let configuration = configurations.get_opt("portolan-webhook").await;
    let configuration = configuration
        .map_err(|error| ask.cluster.explain("ValidatingWebhookConfiguration portolan-webhook", &error))?;
    for webhook in configuration.and_then(|one| one.webhooks).into_iter().flatten() {
        if let Some(ByteString(bundle)) = webhook.client_config.ca_bundle {
            found.extend(read("ValidatingWebhookConfiguration portolan-webhook, caBundle", &bundle));
        }
    }
    Ok(found)
}

/// The certificates in a text, which may have other things as well.
fn read(place: &str, text: &[u8]) -> Vec<Certificate> {
    let certificates = Pem::iter_from_buffer(text).flatten().filter(|pem| pem.label == "CERTIFICATE");
    certificates
        .filter_map(|pem| {
            let certificate = pem.parse_x509().ok()?;
            let validity = certificate.validity();
            Some(Certificate {
                place: place.to_owned(),
                subject: certificate.subject().to_string(),
                begins: validity.not_before.timestamp(),
                ends: validity.not_after.timestamp(),
            })
        })
        .collect()
}
