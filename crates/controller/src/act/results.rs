//! Annotations that tell pods what they got.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use portolan_watch::{Plain, get, is_not_found};
use serde_json::json;

use super::writer::Write;
use crate::engine::PodResults;

/// Writes the annotations, through the status subresource, as CNI plugins do: whoever may write them need not be able to change pods.
pub(crate) struct ResultsWriter(pub(crate) Client);

impl Write for ResultsWriter {
    type Key = (String, String);
    type Value = PodResults;
    const ATTEMPTS: Option<u32> = None;

    fn merge(older: PodResults, mut newer: PodResults) -> PodResults {
        if older.uid == newer.uid {
            for (key, value) in older.annotations {
                newer.annotations.entry(key).or_insert(value);
            }
        }
        newer
    }

    async fn write(&self, (namespace, name): Self::Key, results: PodResults) -> Result<(), String> {
        let api = Api::<Pod>::namespaced(self.0.clone(), &namespace);
        // The UID is a precondition. Others write other annotations, so the version is none.
        let patch = json!({"metadata": {"uid": results.uid, "annotations": results.annotations}});
        match api.patch_status(&name, &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(_) => Ok(()),
            Err(error) if is_not_found::<Pod>(&error, &name) => Ok(()),
            // It is another of its name, or others wrote it too often meanwhile.
            Err(kube::Error::Api(status)) if status.code == 409 => {
                let found = get(&self.0, &api, &name).await.map_err(|error| Plain(&error).to_string())?;
                match found.and_then(|pod| pod.metadata.uid) == Some(results.uid) {
                    true => Err(status.message),
                    false => Ok(()),
                }
            }
            // It would be refused again and again, for every pod.
            Err(kube::Error::Api(status)) if [400, 403, 422].contains(&status.code) => {
                let pod = format!("{namespace}/{name}");
                tracing::warn!(
                    pod,
                    error = status.message,
                    "the annotations that tell a pod what it got are refused"
                );
                Ok(())
            }
            Err(error) => Err(Plain(&error).to_string()),
        }
    }
}
