//! The status of the kinds of `kubeovn.io` that have more than conditions in it.

use std::marker::PhantomData;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use portolan_api::kubeovn;
use portolan_watch::{Plain, get};
use serde::Serialize;
use serde_json::{Value, json};

use super::CONFLICTS;
use super::writer::Write;
use crate::engine::{DesiredCondition, HasConditions, PoolStatus, VipUpdate};

/// A status to be written.
pub(crate) trait StatusOf: Clone + Send + Sync + 'static {
    /// Whose.
    type Object: HasConditions + Serialize;
    /// The object's UID.
    fn uid(&self) -> &str;
    /// What the status should have beside conditions.
    fn fields(&self) -> Value;
    /// The conditions that differ.
    fn conditions(&mut self) -> &mut Vec<DesiredCondition>;
}

impl StatusOf for PoolStatus {
    type Object = kubeovn::IPPool;
    fn uid(&self) -> &str {
        &self.uid
    }
    fn fields(&self) -> Value {
        // Plain data always serializes.
        serde_json::to_value(&self.usage).unwrap_or_default()
    }
    fn conditions(&mut self) -> &mut Vec<DesiredCondition> {
        &mut self.conditions
    }
}

impl StatusOf for VipUpdate {
    type Object = kubeovn::Vip;
    fn uid(&self) -> &str {
        &self.uid
    }
    fn fields(&self) -> Value {
        serde_json::to_value(&self.status).unwrap_or_default()
    }
    fn conditions(&mut self) -> &mut Vec<DesiredCondition> {
        &mut self.conditions
    }
}

/// Writes the status of one kind.
pub(crate) struct KubeOvnStatusWriter<S>(Client, PhantomData<S>);

impl<S> KubeOvnStatusWriter<S> {
    pub(crate) fn new(client: Client) -> Self {
        Self(client, PhantomData)
    }
}

impl<S: StatusOf> Write for KubeOvnStatusWriter<S> {
    type Key = String;
    type Value = S;
    const ATTEMPTS: Option<u32> = None;

    fn merge(mut older: S, mut newer: S) -> S {
        if older.uid() == newer.uid() {
            let mut kept = std::mem::take(older.conditions());
            kept.retain(|older| !newer.conditions().iter().any(|condition| condition.type_ == older.type_));
            newer.conditions().extend(kept);
        }
        newer
    }

    /// Reads the object and writes what differs, to the version that was read.
    async fn write(&self, name: String, mut wanted: S) -> Result<(), String> {
        let api = Api::<S::Object>::all(self.0.clone());
        for _ in 0..CONFLICTS {
            let object = match get(&self.0, &api, &name).await {
                Ok(object) => object,
                // An Event says so; once it can be read, its status is compared again.
                Err(kube::Error::SerdeError(_)) => return Ok(()),
                Err(error) => return Err(Plain(&error).to_string()),
            };
            let Some(object) = object.filter(|object| object.uid().as_deref() == Some(wanted.uid())) else {
                return Ok(());
            };
            let Some(status) = changed(&object, &mut wanted) else { return Ok(()) };
            let version = object.resource_version();
            let patch = json!({"metadata": {"resourceVersion": version}, "status": status});
            match api.patch_status(&name, &PatchParams::default(), &Patch::Merge(patch)).await {
                Ok(_) => return Ok(()),
                Err(kube::Error::Api(status)) if status.is_conflict() => {
                    tracing::debug!(object = name, "someone else wrote the object: reading it again");
                }
                Err(error) => return Err(Plain(&error).to_string()),
            }
        }
        Err("others write the object all the time".to_owned())
    }
}

/// What of a status is to change, if anything.
fn changed<S: StatusOf>(object: &S::Object, wanted: &mut S) -> Option<Value> {
    let conditions = object.updated(wanted.conditions(), &Time(Timestamp::now()));
    let stored = serde_json::to_value(object).unwrap_or_default();
    let mut fields = wanted.fields();
    let differs = |(key, value): (&String, &Value)| stored["status"].get(key) != Some(value);
    if conditions.is_none() && !fields.as_object().is_some_and(|fields| fields.iter().any(differs)) {
        return None;
    }
    if let Some(conditions) = conditions {
        fields["conditions"] = conditions;
    }
    Some(fields)
}
