//! The objects that a command needs, listed once, and the model of them.

use std::collections::BTreeSet;

use apimachinery::selector::LabelSelector;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Event, Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ListParams;
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource, ResourceExt as _};
use portolan_api::nad::NetworkAttachmentDefinition;
use portolan_api::portolan::{HolderKind, IPLock, NetworkAttachment};
use portolan_api::{kubeovn, portolan};
use portolan_ipam::Ipam;
use portolan_model::validate::{Findings, validate};
use portolan_model::{FirstInterface, Group, Settings, World};
use portolan_watch::{Listed, list_page};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Cluster;
use super::unreadable::UnreadableObject;
use crate::exit::{Exit, Failure};
use crate::waiting::Waiting;

/// The kinds of objects that a command needs. What it does not need is not listed: a user may not be allowed to, and there may be
/// many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kinds {
    /// Vpcs and Subnets of both groups, which depend on each other.
    pub(super) networks: bool,
    pub(super) locks: bool,
    /// Vips, which have no interfaces.
    pub(super) vips: bool,
    /// Pods and whatever else asks for interfaces.
    pub(super) guests: Option<Scope>,
    /// Services everywhere, as each may name an address of another, and nodes; endpoints where this says.
    pub(super) services: Option<Scope>,
}

/// Where namespaced objects are listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// In one namespace.
    Namespace(String),
    /// Everywhere.
    Cluster,
}

impl Kinds {
    fn none() -> Self {
        Self { networks: false, locks: false, vips: false, guests: None, services: None }
    }

    /// Vpcs and Subnets.
    pub(crate) fn networks() -> Self {
        Self { networks: true, ..Self::none() }
    }

    /// Vpcs, Subnets and the addresses that are taken.
    pub(crate) fn addresses() -> Self {
        Self { locks: true, ..Self::networks() }
    }

    /// The addresses that are taken.
    pub(crate) fn locks() -> Self {
        Self { locks: true, ..Self::none() }
    }

    /// Interfaces, with all that they depend on.
    pub(crate) fn interfaces(scope: Scope) -> Self {
        Self { guests: Some(scope), ..Self::addresses() }
    }

    /// Interfaces everywhere.
    pub(crate) fn all() -> Self {
        Self::interfaces(Scope::Cluster)
    }

    /// Whoever may ask for an address.
    pub(crate) fn requesters() -> Self {
        Self { vips: true, ..Self::all() }
    }

    /// Services, with the endpoints of those that are in the scope.
    pub(crate) fn services(endpoints: Scope) -> Self {
        Self { services: Some(endpoints), ..Self::none() }
    }
}

/// Objects that a label selector may choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Labelled {
    Vpcs,
    Subnets,
    Pods,
    Locks,
    Services,
}

/// The objects, as they were listed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lists {
    pub(crate) vpcs: Vec<portolan::Vpc>,
    pub(crate) kubeovn_vpcs: Vec<kubeovn::Vpc>,
    pub(crate) subnets: Vec<portolan::Subnet>,
    pub(crate) kubeovn_subnets: Vec<kubeovn::Subnet>,
    pub(crate) ip_pools: Vec<kubeovn::IPPool>,
    pub(crate) vips: Vec<kubeovn::Vip>,
    pub(crate) nads: Vec<NetworkAttachmentDefinition>,
    pub(crate) network_attachments: Vec<NetworkAttachment>,
    pub(crate) locks: Vec<IPLock>,
    pub(crate) pods: Vec<Pod>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) stateful_sets: Vec<StatefulSet>,
    pub(crate) services: Vec<Service>,
    pub(crate) endpoint_slices: Vec<EndpointSlice>,
    /// Objects that exist, and that the lists lack because they cannot be decoded.
    pub(crate) unreadable: Vec<UnreadableObject>,
    /// The lists of kinds that the API server does not serve, or that were not needed.
    pub(super) absent: Vec<&'static str>,
}

impl Lists {
    /// The UIDs of the objects that a label selector chooses.
    pub(crate) fn selected(&self, kind: Labelled, selector: &LabelSelector) -> BTreeSet<String> {
        match kind {
            Labelled::Vpcs => &select(&self.vpcs, selector) | &select(&self.kubeovn_vpcs, selector),
            Labelled::Subnets => &select(&self.subnets, selector) | &select(&self.kubeovn_subnets, selector),
            Labelled::Pods => select(&self.pods, selector),
            Labelled::Locks => select(&self.locks, selector),
            Labelled::Services => select(&self.services, selector),
        }
    }

    /// Whether a list is one that the API server gave.
    pub(super) fn serves(&self, list: &str) -> bool {
        !self.absent.contains(&list)
    }
}

fn select<K: Resource>(objects: &[K], selector: &LabelSelector) -> BTreeSet<String> {
    let is_chosen = |object: &&K| {
        let labels = object.meta().labels.as_ref();
        selector.matches_by(|key| labels?.get(key).map(String::as_str))
    };
    objects.iter().filter(is_chosen).filter_map(|object| object.meta().uid.clone()).collect()
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
    /// Somebody has deleted it.
    pub(crate) terminating: bool,
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
    /// Whether it is about an earlier generation of the object.
    pub(crate) fn is_outdated(&self, described: &Described) -> bool {
        self.observed_generation.is_some() && self.observed_generation != described.generation
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
        let mut world = World::new(settings(&lists));
        macro_rules! feed {
            ($($list:ident),*) => {
                // Nobody acts on what this changes: the world is only looked at.
                $(
                    let unreadable = lists.unreadable.iter().filter(|one| one.is_of(stringify!($list)));
                    drop(world.reset_with(&lists.$list, unreadable.map(UnreadableObject::in_model)));
                )*
            };
        }
        feed!(vpcs, kubeovn_vpcs, subnets, kubeovn_subnets, ip_pools, nads, network_attachments, nodes);
        feed!(stateful_sets, pods, vips, locks, services, endpoint_slices);
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

/// What controller and agents were started with, as far as it shows: on the primary network every node has a port.
fn settings(lists: &Lists) -> Settings {
    let is_of_node = |lock: &IPLock| lock.spec.holder.kind == HolderKind::Node;
    let is_primary = lists.locks.iter().any(is_of_node);
    let first_interface = if is_primary { FirstInterface::Portolan } else { FirstInterface::Other };
    Settings { first_interface }
}

impl Described {
    fn of<K: Resource>(object: &K, group: Group, conditions: Vec<Condition>, findings: Findings) -> Self {
        Self {
            name: object.name_any(),
            uid: object.uid().unwrap_or_default(),
            group,
            generation: object.meta().generation,
            created: created(object),
            terminating: object.meta().deletion_timestamp.is_some(),
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
    /// Lists the objects that a command needs.
    pub(crate) async fn snapshot(&self, kinds: Kinds) -> anyhow::Result<Snapshot> {
        let _waiting = Waiting::start(format!("asking the API server at {}", self.url));
        let (networks, locks, guests) = (kinds.networks, kinds.locks, kinds.guests.as_ref());
        let endpoints = kinds.services.as_ref();
        let (
            (vpcs, kubeovn_vpcs, subnets, kubeovn_subnets, locks, vips),
            (ip_pools, nads, network_attachments, pods, nodes, stateful_sets),
            (services, endpoint_slices),
        ) = futures::try_join!(
            async {
                futures::try_join!(
                    self.list(self.all(networks)),
                    self.list(self.all(networks)),
                    self.list(self.all(networks)),
                    self.list(self.all(networks)),
                    self.list::<IPLock>(self.all(locks)),
                    self.list::<kubeovn::Vip>(self.all(kinds.vips)),
                )
            },
            async {
                futures::try_join!(
                    self.list::<kubeovn::IPPool>(self.all(guests.is_some())),
                    // Pods may use networks of other namespaces.
                    self.list::<NetworkAttachmentDefinition>(self.all(guests.is_some())),
                    self.list::<NetworkAttachment>(self.within(guests)),
                    self.list::<Pod>(self.within(guests)),
                    self.list::<Node>(self.all(guests.is_some() || endpoints.is_some())),
                    self.list::<StatefulSet>(self.within(guests)),
                )
            },
            async {
                futures::try_join!(
                    self.list::<Service>(self.all(endpoints.is_some())),
                    self.list::<EndpointSlice>(self.within(endpoints)),
                )
            },
        )?;
        if (guests.is_some() && pods.is_none()) || (endpoints.is_some() && services.is_none()) {
            return Err(self.not_kubernetes());
        }
        let missing =
            vpcs.is_none() && kubeovn_vpcs.is_none() && subnets.is_none() && kubeovn_subnets.is_none();
        if (kinds.networks && missing) || (!kinds.networks && kinds.locks && locks.is_none()) {
            return Err(self.no_kinds().await);
        }
        let mut lists = Lists::default();
        macro_rules! take {
            ($($list:ident),*) => {
                $(match $list {
                    Some(Listed { objects, unreadable }) => {
                        lists.$list = objects;
                        let named = unreadable.into_iter().map(|one| UnreadableObject::of(stringify!($list), one));
                        lists.unreadable.extend(named);
                    }
                    None => lists.absent.push(stringify!($list)),
                })*
            };
        }
        take!(vpcs, kubeovn_vpcs, subnets, kubeovn_subnets, locks, vips);
        take!(ip_pools, nads, network_attachments, pods, nodes, stateful_sets, services, endpoint_slices);
        Ok(Snapshot::of(lists))
    }

    fn not_kubernetes(&self) -> anyhow::Error {
        let message = format!("the server at {} is not a Kubernetes API server: it serves no pods", self.url);
        Failure::with(Exit::Unreachable, message)
    }

    /// None of Portolan's kinds is served: by an API server that lacks the CRDs, or by something else.
    async fn no_kinds(&self) -> anyhow::Error {
        match self.client.list_core_api_versions().await {
            Ok(_) => Failure::with(
                Exit::NotFound,
                format!(
                    "the API server at {} does not serve Portolan's kinds; `kubectl apply -f deploy/crds/` adds them",
                    self.url
                ),
            ),
            Err(_) => self.not_kubernetes(),
        }
    }

    /// The Events of an object, the latest last.
    pub(crate) async fn events(&self, uid: &str) -> anyhow::Result<Vec<Event>> {
        let _waiting = Waiting::start(format!("asking the API server at {}", self.url));
        let api = Api::<Event>::all(self.client.clone());
        let parameters = ListParams::default().fields(&format!("involvedObject.uid={uid}"));
        let listed = list_page(&api, &parameters).await.map_err(|error| self.explain("events", &error));
        let (listed, _) = listed?;
        // A server that does not know the selector returns all.
        let ours = |event: &Event| event.involved_object.uid.as_deref() == Some(uid);
        let mut events: Vec<_> = listed.objects.into_iter().filter(ours).collect();
        events.sort_by_key(last_seen);
        Ok(events)
    }

    /// Where the objects of a kind are, if they are needed.
    fn all<K: Resource<DynamicType = ()>>(&self, needed: bool) -> Option<Api<K>> {
        needed.then(|| Api::all(self.client.clone()))
    }

    /// Where the objects of a namespaced kind are, if they are needed.
    fn within<K>(&self, scope: Option<&Scope>) -> Option<Api<K>>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        scope.map(|scope| match scope {
            Scope::Cluster => Api::all(self.client.clone()),
            Scope::Namespace(namespace) => Api::namespaced(self.client.clone(), namespace),
        })
    }

    /// The objects of a kind, if they are needed; none if the API server does not serve the kind.
    async fn list<K>(&self, api: Option<Api<K>>) -> anyhow::Result<Option<Listed<K>>>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned,
    {
        let Some(api) = api else { return Ok(None) };
        match list_page(&api, &ListParams::default()).await {
            Ok((listed, _)) => Ok(Some(listed)),
            // There is nothing else that a list could not find.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(self.explain(&K::plural(&()), &error)),
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
