//! Finalizers: added and removed by whoever acts, to the object that was observed; and lists of what uses an object.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{ListParams, Patch, PatchParams};
use kube::core::ClusterResourceScope;
use kube::{Api, Client};
use portolan_api::finalizer::IN_USE;
use portolan_api::{kubeovn, portolan};
use portolan_model::life::is_protected;
use portolan_watch::{Plain, is_not_found, list, list_selected};
use serde_json::json;
use tokio::sync::mpsc::Sender;

use super::writer::Write;
use super::{Actor, CONFLICTS, is_refusal};
use crate::control::Message;
use crate::engine::{FinalizerChange, FinalizerUpdate, HasConditions, Kind, Protected, Usage};
use crate::metrics::Metrics;

/// Writes finalizers.
pub(crate) struct FinalizerWriter {
    client: Client,
    engine: Sender<Message>,
    metrics: Metrics,
}

/// Why a finalizer was not written.
enum Failure {
    /// The API server will not have it until somebody acts.
    Refused(String),
    /// It may pass.
    Passing(String),
}

impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Self {
        let why = Plain(&error).to_string();
        match error {
            kube::Error::Api(status) if is_refusal(&status) => Failure::Refused(why),
            _ => Failure::Passing(why),
        }
    }
}

impl Write for FinalizerWriter {
    type Key = (Kind, String);
    type Value = FinalizerUpdate;
    const ATTEMPTS: Option<u32> = None;

    fn merge(_: FinalizerUpdate, newer: FinalizerUpdate) -> FinalizerUpdate {
        newer
    }

    async fn write(&self, (kind, _): Self::Key, update: FinalizerUpdate) -> Result<(), String> {
        let written = match kind {
            Kind::Vpc => self.set::<portolan::Vpc>(&update).await,
            Kind::KubeOvnVpc => self.set::<kubeovn::Vpc>(&update).await,
            Kind::Subnet => self.set::<portolan::Subnet>(&update).await,
            Kind::KubeOvnSubnet => self.set::<kubeovn::Subnet>(&update).await,
            other => Err(Failure::Passing(format!("{other:?} has no finalizer of Portolan's"))),
        };
        match written {
            Ok(()) => Ok(()),
            Err(Failure::Passing(why)) => Err(why),
            Err(Failure::Refused(why)) => {
                self.metrics.finalizer_refused();
                let refused = why.clone();
                let told = Message::new(move |engine| engine.finalizer_refused(&update, &refused));
                // A loop that has ended tells nobody.
                drop(self.engine.send(told).await);
                Err(why)
            }
        }
    }
}

impl FinalizerWriter {
    pub(crate) fn new(client: Client, engine: Sender<Message>, metrics: Metrics) -> Self {
        FinalizerWriter { client, engine, metrics }
    }

    /// Reads the metadata, which can be read whatever the rest of the object says, and writes to the version that was read:
    /// the finalizers of others stay.
    async fn set<K: HasConditions + kube::Resource<Scope = ClusterResourceScope>>(
        &self,
        update: &FinalizerUpdate,
    ) -> Result<(), Failure> {
        let api = Api::<K>::all(self.client.clone());
        let Protected { kind, name, uid } = &update.object;
        for _ in 0..CONFLICTS {
            let metadata = match api.get_metadata(name).await {
                Ok(object) => object.metadata,
                Err(error) if is_not_found::<K>(&error, name) => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            if metadata.uid.as_ref() != Some(uid) {
                return Ok(());
            }
            let Some(finalizers) = changed(&metadata, update.change) else { return Ok(()) };
            let patch = json!({"metadata": {
                "uid": uid, "resourceVersion": metadata.resource_version, "finalizers": finalizers,
            }});
            match api.patch_metadata(name, &PatchParams::default(), &Patch::Merge(patch)).await {
                Ok(_) => {
                    tracing::info!(object = name, ?kind, change = ?update.change, "wrote the finalizer");
                    return Ok(());
                }
                Err(kube::Error::Api(status)) if status.is_conflict() => {
                    tracing::debug!(object = name, "someone else wrote the object: reading it again");
                }
                Err(error) if is_not_found::<K>(&error, name) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        Err(Failure::Passing("others write the object all the time".to_owned()))
    }
}

/// The finalizers that an object should have, if they are to change.
fn changed(metadata: &ObjectMeta, change: FinalizerChange) -> Option<Vec<String>> {
    let mut finalizers = metadata.finalizers.clone().unwrap_or_default();
    match (change, is_protected(metadata)) {
        (FinalizerChange::Add, true) | (FinalizerChange::Remove, false) => return None,
        // The API server takes no new finalizers then.
        (FinalizerChange::Add, false) if metadata.deletion_timestamp.is_some() => return None,
        (FinalizerChange::Add, false) => finalizers.push(IN_USE.to_owned()),
        // Somebody made it again, as it was.
        (FinalizerChange::Remove, true) if metadata.deletion_timestamp.is_none() => return None,
        (FinalizerChange::Remove, true) => finalizers.retain(|finalizer| finalizer != IN_USE),
    }
    Some(finalizers)
}

impl Actor {
    /// Lists what may use an object, and tells the engine.
    pub(super) async fn confirm_unused(&self, object: Protected) {
        let usage = usage(&self.client, &object).await.unwrap_or_else(|error| {
            tracing::warn!(object = object.name, kind = ?object.kind, error = %Plain(&error), "cannot list what uses the object that is being deleted");
            Usage::Failed
        });
        self.answer(move |engine| engine.usage(&object, &usage)).await;
    }
}

async fn usage(client: &Client, object: &Protected) -> kube::Result<Usage> {
    match object.kind {
        Kind::Vpc | Kind::KubeOvnVpc => Ok(Usage::Subnets(list(client).await?, list(client).await?)),
        _ => {
            let parameters = ListParams::default().fields(&format!("spec.subnet={}", object.name));
            Ok(Usage::Locks(list_selected(client, &parameters).await?))
        }
    }
}
