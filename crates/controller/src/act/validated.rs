//! The condition `Validated` of subnets, written to the group that the user wrote to.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Resource, ResourceExt};
use portolan_api::condition::{ConditionUpdate, VALIDATED, set_condition};
use portolan_api::{kubeovn, portolan};
use portolan_model::Group;
use portolan_watch::list;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::sync::oneshot;

use super::Actor;
use crate::engine::{Engine, Lists, Verdict};

impl Actor {
    /// Lists, asks the engine, and writes what it says.
    pub(super) async fn validate_subnets(&self) {
        let lists = match lists(&self.client).await {
            Ok(lists) => lists,
            Err(error) => {
                tracing::warn!(%error, "cannot list the subnets");
                return self.tell(Engine::not_judged).await;
            }
        };
        let (sender, receiver) = oneshot::channel();
        let judged = lists.clone();
        self.tell(move |engine| drop(sender.send(engine.judge(&judged)))).await;
        let Ok(verdicts) = receiver.await else { return };
        for verdict in verdicts {
            if let Err(error) = self.write_verdict(&lists, &verdict).await {
                tracing::warn!(subnet = verdict.subnet.1, %error, "cannot write the condition");
                self.tell(Engine::not_judged).await;
            }
        }
    }

    async fn write_verdict(&self, lists: &Lists, verdict: &Verdict) -> kube::Result<()> {
        let (group, name) = &verdict.subnet;
        let update = |generation| ConditionUpdate {
            type_: VALIDATED,
            status: verdict.valid,
            reason: verdict.reason,
            message: &verdict.message,
            generation,
        };
        let now = Time(Timestamp::now());
        match group {
            Group::Portolan => {
                let Some(subnet) = lists.subnets.iter().find(|subnet| subnet.name_any() == *name) else {
                    return Ok(());
                };
                let mut conditions = subnet.status.clone().unwrap_or_default().conditions;
                if set_condition(&mut conditions, update(subnet.metadata.generation), &now) {
                    self.write_conditions::<portolan::Subnet>(subnet, &conditions, verdict).await?;
                }
            }
            Group::KubeOvn => {
                let Some(subnet) = lists.kubeovn_subnets.iter().find(|subnet| subnet.name_any() == *name)
                else {
                    return Ok(());
                };
                let mut conditions = subnet.status.clone().unwrap_or_default().conditions.unwrap_or_default();
                if kubeovn::set_condition(&mut conditions, update(subnet.metadata.generation), &now) {
                    self.write_conditions::<kubeovn::Subnet>(subnet, &conditions, verdict).await?;
                }
            }
        }
        Ok(())
    }

    async fn write_conditions<K>(
        &self,
        subnet: &K,
        conditions: &impl Serialize,
        verdict: &Verdict,
    ) -> kube::Result<()>
    where
        K: Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope> + DeserializeOwned,
    {
        // With the version that was judged: a subnet that changed meanwhile is judged again.
        let version = subnet.resource_version();
        let patch = json!({"metadata": {"resourceVersion": version}, "status": {"conditions": conditions}});
        let api = Api::<K>::all(self.client.clone());
        let name = subnet.name_any();
        match api.patch_status(&name, &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(_) => {
                tracing::info!(subnet = name, valid = verdict.valid, message = verdict.message, "validated");
                Ok(())
            }
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            Err(error) => Err(error),
        }
    }
}

async fn lists(client: &Client) -> kube::Result<Lists> {
    Ok(Lists {
        subnets: list(client).await?,
        kubeovn_subnets: list(client).await?,
        vpcs: list(client).await?,
        kubeovn_vpcs: list(client).await?,
    })
}
