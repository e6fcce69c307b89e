//! The status of pools of addresses.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use portolan_api::kubeovn::IPPool;
use portolan_watch::{Plain, get};
use serde_json::{Value, json};

use super::writer::Write;
use crate::engine::{HasConditions, PoolStatus};

/// How often someone else may write in between before it counts as a failure.
const CONFLICTS: u32 = 10;

/// Writes the status of pools.
pub(crate) struct PoolStatusWriter(pub(crate) Client);

impl Write for PoolStatusWriter {
    type Key = String;
    type Value = PoolStatus;
    const ATTEMPTS: Option<u32> = None;

    fn merge(older: PoolStatus, mut newer: PoolStatus) -> PoolStatus {
        if older.uid == newer.uid {
            let is_new = |type_: &str| newer.conditions.iter().any(|condition| condition.type_ == type_);
            let kept: Vec<_> =
                older.conditions.into_iter().filter(|condition| !is_new(condition.type_)).collect();
            newer.conditions.extend(kept);
        }
        newer
    }

    /// Reads the pool and writes what differs, to the version that was read.
    async fn write(&self, name: String, wanted: PoolStatus) -> Result<(), String> {
        let api = Api::<IPPool>::all(self.0.clone());
        for _ in 0..CONFLICTS {
            let pool = match get(&self.0, &api, &name).await {
                Ok(pool) => pool,
                // An Event says so; once it can be read, its status is compared again.
                Err(kube::Error::SerdeError(_)) => return Ok(()),
                Err(error) => return Err(Plain(&error).to_string()),
            };
            let Some(pool) = pool.filter(|pool| pool.uid().as_ref() == Some(&wanted.uid)) else {
                return Ok(());
            };
            let Some(status) = changed(&pool, &wanted) else { return Ok(()) };
            let version = pool.resource_version();
            let patch = json!({"metadata": {"resourceVersion": version}, "status": status});
            match api.patch_status(&name, &PatchParams::default(), &Patch::Merge(patch)).await {
                Ok(_) => return Ok(()),
                Err(kube::Error::Api(status)) if status.is_conflict() => {
                    tracing::debug!(pool = name, "someone else wrote the IPPool: reading it again");
                }
                Err(error) => return Err(Plain(&error).to_string()),
            }
        }
        Err("others write the object all the time".to_owned())
    }
}

/// What of a status is to change, if anything.
fn changed(pool: &IPPool, wanted: &PoolStatus) -> Option<Value> {
    let conditions = pool.updated(&wanted.conditions, &Time(Timestamp::now()));
    let mut before = pool.status.clone().unwrap_or_default();
    (before.conditions, before.unknown) = Default::default();
    if conditions.is_none() && before == wanted.usage && pool.status.is_some() {
        return None;
    }
    // Plain data always serializes.
    let mut status = serde_json::to_value(&wanted.usage).unwrap_or_default();
    if let Some(conditions) = conditions {
        status["conditions"] = conditions;
    }
    Some(status)
}
