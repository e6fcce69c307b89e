//! Keeps the authority's certificate in the APIService by which kube-apiserver knows this server.

use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{Patch, PatchParams};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client};
use portolan_watch::Pause;
use serde_json::json;

/// Between attempts to write.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

const NAME: &str = "v1alpha1.trace.portolan.dev";

/// Writes the certificate whenever the APIService has another. The APIService itself is part of the installation.
pub(crate) async fn keep(client: Client, certificate: String) {
    let api = Api::<APIService>::all(client);
    let config = watcher::Config::default().fields(&format!("metadata.name={NAME}"));
    let mut services = watcher(api.clone(), config).default_backoff().applied_objects().boxed();
    while let Some(service) = services.next().await {
        let service = match service {
            Ok(service) => service,
            Err(error) => {
                tracing::warn!(%error, "cannot watch APIService {NAME}");
                continue;
            }
        };
        let bundle = service.spec.as_ref().and_then(|spec| spec.ca_bundle.as_ref());
        if bundle.is_some_and(|bundle| bundle.0 == certificate.as_bytes()) {
            continue;
        }
        let bundle = k8s_openapi::ByteString(certificate.clone().into_bytes());
        let patch = json!({"spec": {"caBundle": bundle, "insecureSkipTLSVerify": false}});
        write(&api, &patch).await;
    }
}

/// Writes until it succeeds, or until the APIService is not there any more: if it comes again, the watch shows it.
async fn write(api: &Api<APIService>, patch: &serde_json::Value) {
    let mut pause = Pause::new(FIRST_PAUSE, LONGEST_PAUSE);
    loop {
        match api.patch(NAME, &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(_) => {
                tracing::info!("APIService {NAME} has the certificate of this server's authority");
                return;
            }
            Err(kube::Error::Api(status)) if status.code == 404 => return,
            Err(error) => {
                tracing::warn!(%error, "cannot write the certificate into APIService {NAME}; trying again");
            }
        }
        pause.wait().await;
    }
}
