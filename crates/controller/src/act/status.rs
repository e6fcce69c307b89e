//! Status, written to the object that the user wrote, whichever group it is of.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Patch, PatchParams};
use portolan_api::{kubeovn, portolan};
use portolan_watch::{Plain, get};
use serde_json::json;

use super::CONFLICTS;
use super::writer::Write;
use crate::engine::{DesiredCondition, HasConditions, Kind, StatusUpdate};

/// Writes what differs of a status.
pub(crate) struct StatusWriter(pub(crate) Client);

impl Write for StatusWriter {
    type Key = (Kind, String);
    type Value = StatusUpdate;
    const ATTEMPTS: Option<u32> = None;

    fn merge(older: StatusUpdate, mut newer: StatusUpdate) -> StatusUpdate {
        if older.uid == newer.uid {
            let is_new =
                |condition: &DesiredCondition| newer.conditions.iter().any(|c| c.type_ == condition.type_);
            let kept: Vec<_> = older.conditions.into_iter().filter(|condition| !is_new(condition)).collect();
            newer.conditions.extend(kept);
            newer.fields = older.fields.updated_by(newer.fields);
        }
        newer
    }

    async fn write(&self, (kind, _): Self::Key, update: StatusUpdate) -> Result<(), String> {
        match kind {
            Kind::Vpc => self.set::<portolan::Vpc>(&update).await,
            Kind::KubeOvnVpc => self.set::<kubeovn::Vpc>(&update).await,
            Kind::Subnet => self.set::<portolan::Subnet>(&update).await,
            Kind::KubeOvnSubnet => self.set::<kubeovn::Subnet>(&update).await,
            Kind::IPPool => self.set::<kubeovn::IPPool>(&update).await,
            Kind::Vip => self.set::<kubeovn::Vip>(&update).await,
            Kind::NetworkAttachment => self.set::<portolan::NetworkAttachment>(&update).await,
            other => Err(format!("{other:?} has no conditions")),
        }
    }
}

impl StatusWriter {
    /// Reads the object and writes what differs, to the version that was read: a generation that nobody judged never gets a
    /// condition. If someone else wrote in between, it is read again.
    async fn set<K: HasConditions>(&self, update: &StatusUpdate) -> Result<(), String> {
        let (api, name) = K::api(self.0.clone(), &update.name);
        for _ in 0..CONFLICTS {
            let object = match get(&self.0, &api, name).await {
                Ok(object) => object,
                // An Event says so; once it can be read, its conditions are compared again.
                Err(kube::Error::SerdeError(_)) => return Ok(()),
                Err(error) => return Err(Plain(&error).to_string()),
            };
            let Some(object) = object.filter(|object| object.meta().uid.as_ref() == Some(&update.uid)) else {
                return Ok(());
            };
            let conditions = object.updated(&update.conditions, &Time(Timestamp::now()));
            let mut status = update.fields.clone().unless_said_by(&object.fields()).into_json();
            status.extend(conditions.map(|conditions| ("conditions".to_owned(), conditions)));
            if status.is_empty() {
                return Ok(());
            }
            let version = &object.meta().resource_version;
            let patch = json!({"metadata": {"resourceVersion": version}, "status": status});
            let patch = Patch::Merge(patch);
            match api.patch_status(name, &PatchParams::default(), &patch).await {
                Ok(_) => {
                    for condition in &update.conditions {
                        tracing::info!(object = update.name, kind = ?update.kind, condition = %condition, "wrote a condition");
                    }
                    return Ok(());
                }
                Err(kube::Error::Api(status)) if status.is_conflict() => {
                    tracing::debug!(object = update.name, "someone else wrote the object: reading it again");
                }
                Err(error) => return Err(Plain(&error).to_string()),
            }
        }
        Err("others write the object all the time".to_owned())
    }
}
