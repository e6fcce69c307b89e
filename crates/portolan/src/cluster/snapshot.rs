//! All that the API server has to say about networks, at one time, and the model of it.

use std::fmt::Debug;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::api::ListParams;
use kube::{Api, Resource, ResourceExt as _};
use portolan_api::nad::NetworkAttachmentDefinition;
use portolan_api::portolan::{IPLock, NetworkAttachment};
use portolan_api::{kubeovn, portolan};
use portolan_ipam::Ipam;
use portolan_model::validate::{Findings, validate};
use portolan_model::{Group, Settings, World};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Cluster;
use crate::waiting::Waiting;

/// The objects, as they were listed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lists {
    pub(crate) vpcs: Vec<portolan::Vpc>,
    pub(crate) kubeovn_vpcs: Vec<kubeovn::Vpc>,
    pub(crate) subnets: Vec<portolan::Subnet>,
    pub(crate) kubeovn_subnets: Vec<kubeovn::Subnet>,
    pub(crate) nads: Vec<NetworkAttachmentDefinition>,
    pub(crate) network_attachments: Vec<NetworkAttachment>,
    pub(crate) locks: Vec<IPLock>,
    pub(crate) pods: Vec<Pod>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) stateful_sets: Vec<StatefulSet>,
}

/// The objects, and what the model makes of them.
pub(crate) struct Snapshot {
    pub(crate) world: World,
    pub(crate) ipam: Ipam,
    pub(crate) vpcs: Vec<Described>,
    pub(crate) subnets: Vec<Described>,
    pub(crate) lists: Lists,
}

/// What there is to say about a Vpc or Subnet beyond its spec, whichever group it is of.
#[derive(Clone, Debug)]
pub(crate) struct Described {
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) group: Group,
    pub(crate) generation: Option<i64>,
    pub(crate) created: Option<i64>,
    pub(crate) conditions: Vec<Condition>,
    pub(crate) findings: Findings,
}

/// A condition of either group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Condition {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) status: String,
    pub(crate) reason: String,
    pub(crate) message: String,
    /// Which generation of the object it speaks of.
    pub(crate) observed_generation: Option<i64>,
}

impl Condition {
    pub(crate) fn is_true(&self) -> bool {
        self.status == "True"
    }
}

impl From<&portolan_api::condition::Condition> for Condition {
    fn from(condition: &portolan_api::condition::Condition) -> Self {
        Self {
            kind: condition.type_.clone(),
            status: condition.status.clone(),
            reason: condition.reason.clone(),
            message: condition.message.clone(),
            observed_generation: condition.observed_generation,
        }
    }
}

impl From<&kubeovn::Condition> for Condition {
    fn from(condition: &kubeovn::Condition) -> Self {
        Self {
            kind: condition.type_.clone(),
            status: condition.status.clone(),
            reason: condition.reason.clone().unwrap_or_default(),
            message: condition.message.clone().unwrap_or_default(),
            observed_generation: condition.observed_generation,
        }
    }
}

impl Snapshot {
    /// What the model makes of these objects.
    pub(crate) fn of(lists: Lists) -> Self {
        // As the controller has it.
        let mut world = World::new(Settings::default());
        macro_rules! feed {
            ($($list:ident),*) => {
                // Nobody acts on what this changes: the world is only looked at.
                $(drop(world.reset(&lists.$list));)*
            };
        }
        feed!(vpcs, kubeovn_vpcs, subnets, kubeovn_subnets, nads, network_attachments, nodes);
        feed!(stateful_sets, pods, locks);
        let portolan_conditions = |conditions: Option<&Vec<portolan_api::condition::Condition>>| {
            conditions.into_iter().flatten().map(Into::into).collect::<Vec<Condition>>()
        };
        let kubeovn_conditions = |conditions: Option<&Vec<kubeovn::Condition>>| {
            conditions.into_iter().flatten().map(Into::into).collect::<Vec<Condition>>()
        };
        let (mut vpcs, mut subnets) = (Vec::new(), Vec::new());
        for vpc in &lists.vpcs {
            let conditions = portolan_conditions(vpc.status.as_ref().map(|status| &status.conditions));
            vpcs.push(Described::of(vpc, Group::Portolan, conditions, validate(vpc, &world)));
        }
        for vpc in &lists.kubeovn_vpcs {
            let conditions =
                kubeovn_conditions(vpc.status.as_ref().and_then(|status| status.conditions.as_ref()));
            vpcs.push(Described::of(vpc, Group::KubeOvn, conditions, validate(vpc, &world)));
        }
        for subnet in &lists.subnets {
            let conditions = portolan_conditions(subnet.status.as_ref().map(|status| &status.conditions));
            subnets.push(Described::of(subnet, Group::Portolan, conditions, validate(subnet, &world)));
        }
        for subnet in &lists.kubeovn_subnets {
            let conditions =
                kubeovn_conditions(subnet.status.as_ref().and_then(|status| status.conditions.as_ref()));
            subnets.push(Described::of(subnet, Group::KubeOvn, conditions, validate(subnet, &world)));
        }
        for described in [&mut vpcs, &mut subnets] {
            described.sort_by(|a, b| (&a.name, a.group).cmp(&(&b.name, b.group)));
        }
        Self { ipam: Ipam::of(&world), world, vpcs, subnets, lists }
    }
}

impl Described {
    fn of<K: Resource>(object: &K, group: Group, conditions: Vec<Condition>, findings: Findings) -> Self {
        Self {
            name: object.name_any(),
            uid: object.uid().unwrap_or_default(),
            group,
            generation: object.meta().generation,
            created: created(object),
            conditions,
            findings,
        }
    }

    pub(crate) fn condition(&self, kind: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.kind == kind)
    }
}

/// When an object was made, in seconds since 1970.
pub(crate) fn created<K: Resource>(object: &K) -> Option<i64> {
    object.creation_timestamp().map(|time| time.0.as_second())
}

impl Cluster {
    /// Lists everything that has to do with networks.
    pub(crate) async fn snapshot(&self) -> anyhow::Result<Snapshot> {
        let _waiting = Waiting::start(format!("asking the API server at {}", self.url));
        let (
            (vpcs, kubeovn_vpcs, subnets, kubeovn_subnets, locks),
            (nads, network_attachments, pods, nodes, stateful_sets),
        ) = futures::try_join!(
            async { futures::try_join!(self.list(), self.list(), self.list(), self.list(), self.list()) },
            async { futures::try_join!(self.list(), self.list(), self.list(), self.list(), self.list()) },
        )?;
        if pods.is_none() {
            anyhow::bail!("what answers at {} is no API server of Kubernetes: it has no pods", self.url);
        }
        if vpcs.is_none() && kubeovn_vpcs.is_none() && subnets.is_none() && kubeovn_subnets.is_none() {
            anyhow::bail!(
                "the API server at {} does not know Portolan's kinds; `kubectl apply -f deploy/crds/` defines them",
                self.url
            );
        }
        Ok(Snapshot::of(Lists {
            vpcs: vpcs.unwrap_or_default(),
            kubeovn_vpcs: kubeovn_vpcs.unwrap_or_default(),
            subnets: subnets.unwrap_or_default(),
            kubeovn_subnets: kubeovn_subnets.unwrap_or_default(),
            nads: nads.unwrap_or_default(),
            network_attachments: network_attachments.unwrap_or_default(),
            locks: locks.unwrap_or_default(),
            pods: pods.unwrap_or_default(),
            nodes: nodes.unwrap_or_default(),
            stateful_sets: stateful_sets.unwrap_or_default(),
        }))
    }

    /// The Events of an object, the latest last.
    pub(crate) async fn events(&self, uid: &str) -> anyhow::Result<Vec<Event>> {
        let _waiting = Waiting::start(format!("asking the API server at {}", self.url));
        let api = Api::<Event>::all(self.client.clone());
        let parameters = ListParams::default().fields(&format!("involvedObject.uid={uid}"));
        let listed = api.list(&parameters).await.map_err(|error| self.complain("events", &error))?;
        // A server that does not know the selector gives all.
        let ours = |event: &Event| event.involved_object.uid.as_deref() == Some(uid);
        let mut events: Vec<_> = listed.items.into_iter().filter(ours).collect();
        events.sort_by_key(last_seen);
        Ok(events)
    }

    /// All objects of a kind; none if the API server does not know the kind.
    async fn list<K>(&self) -> anyhow::Result<Option<Vec<K>>>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
    {
        match Api::<K>::all(self.client.clone()).list(&ListParams::default()).await {
            Ok(list) => Ok(Some(list.items)),
            // There is nothing else that a list could not find.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(self.complain(&K::plural(&()), &error)),
        }
    }
}

/// When an Event was seen last, in seconds since 1970.
pub(crate) fn last_seen(event: &Event) -> Option<i64> {
    let series = event.series.as_ref().and_then(|series| series.last_observed_time.as_ref());
    let precise = series.or(event.event_time.as_ref()).map(|time| time.0.as_second());
    let seen =
        event.last_timestamp.as_ref().or(event.first_timestamp.as_ref()).map(|time| time.0.as_second());
    seen.or(precise).or_else(|| created(event))
}
