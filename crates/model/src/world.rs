//! The World: all that users asked for, in plain maps with the indexes that planning and deciding need.

mod evaluation;
mod few;
mod gateways;
mod holding;
mod index;
mod indexes;
mod interfaces;
mod ip_pools;
mod locks;
mod missing;
mod named;
mod node_addresses;
mod nodes;
mod pods;
mod prefixes;
mod rates;
mod requests;
mod results;
mod rivals;
mod services;
mod shared;
mod source;
mod subnets;
mod tenants;
mod vips;
mod vpcs;

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use portolan_api::Provider;
use portolan_api::kubeovn::support::Egress;
use portolan_api::portolan::{DecidedInterface, HolderKind};
use smol_str::SmolStr;

pub use self::gateways::GatewayProblem;
pub use self::holding::HeldLocks;
use self::holding::Holding;
use self::index::Index;
use self::indexes::{HoldingIndexes, LockIndexes, NodeIndexes, ServiceIndexes, SubnetIndexes, VpcIndexes};
use self::named::{Named, Namespaced};
pub use self::node_addresses::NodeAddressProblem;
use self::pods::Machine;
use self::requests::Topic;
use self::rivals::Rivals;
use self::shared::Shared;
pub use self::source::{ObjectKey, Source};
pub use self::subnets::HeldNetworks;
pub use self::tenants::TenantProblem;
use crate::attachment::{Attachment, AttachmentId};
use crate::dirty::Dirty;
use crate::doors::attachment::RequestedAttachment;
use crate::group::Group;
use crate::holder::Read;
use crate::ip_pool::IpPool;
use crate::lock::{Claim, Lock, Network, UnreadableLock};
use crate::nad::Nad;
use crate::node::{LEAST_MTU, Node};
use crate::peering::{Peering, VpcPair};
use crate::pod::{Place, Pod, StatefulSet, VirtualMachine};
use crate::request::Requester;
use crate::service::{EndpointSlice, Service};
use crate::subnet::{DEFAULT_VPC, Subnet};
use crate::unit::{Unit, UnitState};
use crate::unreadable::Unreadable;
use crate::view::{AttachmentView, PeeringView, SubnetRef, SubnetView, View, VpcRef, VpcView};
use crate::vip::Vip;
use crate::vpc::Vpc;

/// What is the same for a whole cluster, said once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Who makes the pods' first interfaces.
    pub first_interface: FirstInterface,
}

/// Who makes the pods' first interfaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FirstInterface {
    /// Portolan: it is the cluster's primary network.
    Portolan,
    /// Another plugin; Portolan makes further ones.
    #[default]
    Other,
    /// Another plugin, since Portolan is the cluster's primary network no longer: what it had as such is given up.
    NoLonger,
}

impl FirstInterface {
    /// Whether it is Portolan that makes them.
    pub fn is_portolan(self) -> bool {
        self == FirstInterface::Portolan
    }

    /// How pods of a Subnet of this VPC leave the cluster.
    pub fn egress(self, vpc: Option<&str>) -> Egress {
        if self.is_portolan() && vpc == Some(DEFAULT_VPC) { Egress::ByNode } else { Egress::Otherwise }
    }
}

/// Namespace and name.
pub(crate) type Name = (String, String);

/// All that users asked for.
///
/// Invariant: everything below the inputs is a function of the inputs, so Worlds that were told the same in any order are
/// equal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct World {
    settings: Settings,
    /// The VPC of the primary network, as it is without an object.
    primary_vpc: Option<Box<Vpc>>,
    /// Networks of the cluster, as far as the operator says.
    cluster_networks: Vec<IpNet>,
    /// VPCs and Subnets may be there that are not here.
    networks_are_behind: bool,
    // Inputs.
    vpcs: BTreeMap<String, Rivals<Vpc>>,
    subnets: BTreeMap<String, Rivals<Subnet>>,
    nads: Namespaced<Nad>,
    ip_pools: BTreeMap<String, IpPool>,
    vips: BTreeMap<String, Vip>,
    nodes: BTreeMap<String, Node>,
    pods: Namespaced<Pod>,
    stateful_sets: Namespaced<StatefulSet>,
    machines: BTreeMap<Name, Machine>,
    network_attachments: Namespaced<RequestedAttachment>,
    services: Namespaced<Service>,
    endpoint_slices: Namespaced<EndpointSlice>,
    locks: Named<Lock>,
    unreadable_locks: BTreeMap<String, UnreadableLock>,
    /// Attachments that a live read confirmed to be held no more; each is forgotten with its last lock, or when a lock changes.
    released: BTreeSet<AttachmentId>,
    /// Objects that a list lacks and no live read has confirmed to be gone: they are still here, as they were.
    missing: BTreeSet<Read>,
    // Derived.
    holdings: BTreeMap<AttachmentId, Holding>,
    peerings: BTreeMap<VpcPair, Peering>,
    // Indexes.
    subnet_indexes: SubnetIndexes,
    vpc_indexes: VpcIndexes,
    lock_indexes: LockIndexes,
    holding_indexes: HoldingIndexes,
    node_indexes: NodeIndexes,
    service_indexes: ServiceIndexes,
    /// Those that can be understood.
    ip_pools_by_subnet: Index<String, String>,
    pods_by_machine: Index<Name, Name>,
    /// Who has not got all that was asked for, by what the answer depends on.
    waiting: Index<Topic, Requester>,
    topics: Index<Requester, Topic>,
    // What many locks, pods and attachments have in common.
    decided: Shared<[DecidedInterface]>,
    networks: Shared<Network>,
    places: Shared<Place>,
}

impl World {
    /// A World that was told nothing yet.
    pub fn new(settings: Settings) -> Self {
        let is_primary = settings.first_interface == FirstInterface::Portolan;
        let primary_vpc = is_primary.then(|| Box::new(Vpc::of_primary_network()));
        Self { settings, primary_vpc, ..Self::default() }
    }

    /// What is the same for the whole cluster.
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// Takes an object in, new or changed.
    pub fn apply<O: Source>(&mut self, object: &O) -> Dirty {
        let mut dirty = Dirty::default();
        object.put(self, &mut dirty);
        self.found::<O>(&object.key());
        self.note_nodes(&mut dirty);
        dirty
    }

    /// Takes in that an object of a kind exists and cannot be decoded. What was made of it stays as it is.
    pub fn apply_unreadable<O: Source>(&mut self, object: &Unreadable<'_>) -> Dirty {
        let mut dirty = Dirty::default();
        O::put_unreadable(object, self, &mut dirty);
        self.found::<O>(&O::Key::of(object.metadata));
        self.note_nodes(&mut dirty);
        dirty
    }

    /// Forgets an object that is known to be gone.
    pub fn delete<O: Source>(&mut self, object: &O) -> Dirty {
        self.delete_key::<O>(&object.key())
    }

    /// Forgets the object of a kind that has this metadata and is known to be gone.
    pub fn delete_named<O: Source>(&mut self, metadata: &ObjectMeta) -> Dirty {
        self.delete_key::<O>(&O::Key::of(metadata))
    }

    fn delete_key<O: Source>(&mut self, key: &O::Key) -> Dirty {
        let mut dirty = Dirty::default();
        O::remove(key, self, &mut dirty);
        self.found::<O>(key);
        self.note_nodes(&mut dirty);
        dirty
    }

    /// Takes all objects of a kind in, and forgets those that are not among them: what a fresh list of them asks for.
    pub fn reset<'a, O: Source + 'a>(&mut self, objects: impl IntoIterator<Item = &'a O>) -> Dirty {
        self.reset_with(objects, [])
    }

    /// Like [`World::reset`], with objects that exist and cannot be decoded.
    pub fn reset_with<'a, O: Source + 'a>(
        &mut self,
        objects: impl IntoIterator<Item = &'a O>,
        unreadable: impl IntoIterator<Item = Unreadable<'a>>,
    ) -> Dirty {
        let mut dirty = Dirty::default();
        for key in self.take_all(objects, unreadable, &mut dirty) {
            O::remove(&key, self, &mut dirty);
        }
        self.note_nodes(&mut dirty);
        dirty
    }

    /// Takes all objects of a kind in. Answers those that are not among them.
    fn take_all<'a, O: Source + 'a>(
        &mut self,
        objects: impl IntoIterator<Item = &'a O>,
        unreadable: impl IntoIterator<Item = Unreadable<'a>>,
        dirty: &mut Dirty,
    ) -> BTreeSet<O::Key> {
        let mut missing: BTreeSet<O::Key> = O::keys(self).into_iter().collect();
        for object in objects {
            let key = object.key();
            missing.remove(&key);
            object.put(self, dirty);
            self.found::<O>(&key);
        }
        for object in unreadable {
            let key = O::Key::of(object.metadata);
            missing.remove(&key);
            O::put_unreadable(&object, self, dirty);
            self.found::<O>(&key);
        }
        missing
    }

    // What is planned.

    /// What is to be done about what was planned for a unit.
    pub fn state(&self, unit: &Unit) -> UnitState {
        match unit {
            Unit::Vpc(name) => self.vpc_state(name),
            Unit::Subnet(name) => self.subnet_state(name),
            Unit::Peering(pair) => self.peering_state(pair),
            Unit::Attachment(id) => self.attachment_state(id),
            Unit::Node(name) => self.node_state(name),
            Unit::Chassis(name) => self.chassis_state(name),
            Unit::Service { namespace, name } => self.service_state(namespace, name),
        }
    }

    /// What the plan of a unit may look at, if the unit is [`UnitState::Live`].
    pub fn view(&self, unit: &Unit) -> Option<View<'_>> {
        match unit {
            Unit::Vpc(name) => self.vpc(name).map(|vpc| {
                let is_primary = self.is_primary_vpc(name);
                View::Vpc(VpcView { vpc, owner: self.owner_of_vpc(vpc), is_primary })
            }),
            Unit::Subnet(name) => self.subnet_view(name).map(View::Subnet),
            Unit::Peering(pair) => self.peering(pair).map(|peering| View::Peering(PeeringView { peering })),
            Unit::Attachment(id) => self.attachment_view(id).map(View::Attachment),
            Unit::Node(name) => self.node_view(name).map(View::Node),
            Unit::Chassis(name) => self.chassis_view(name).map(View::Chassis),
            Unit::Service { namespace, name } => self.service_view(namespace, name).map(View::Service),
        }
    }

    /// Whose the rows of a unit are, if it is there, live or held: the UID of the object that it comes from, but for the VPC of the
    /// primary network.
    pub fn owner(&self, unit: &Unit) -> Option<SmolStr> {
        match unit {
            Unit::Vpc(name) if self.is_primary_vpc(name) => Some(DEFAULT_VPC.into()),
            Unit::Peering(pair) if self.is_primary_vpc(pair.first()) => Some(DEFAULT_VPC.into()),
            _ => self.object_uid(unit),
        }
    }

    /// The UID of the object that a unit comes from, if it is there, live or held.
    pub fn object_uid(&self, unit: &Unit) -> Option<SmolStr> {
        let uid = match unit {
            Unit::Vpc(name) => self.vpcs.get(name)?.effective()?.meta.uid.as_str(),
            Unit::Subnet(name) => self.subnets.get(name)?.effective()?.meta.uid.as_str(),
            Unit::Peering(pair) => self.vpcs.get(pair.first())?.effective()?.meta.uid.as_str(),
            Unit::Attachment(id) => return self.holdings.contains_key(id).then(|| id.uid().into()),
            Unit::Node(name) | Unit::Chassis(name) => self.nodes.get(name).map(|node| node.uid.as_str())?,
            Unit::Service { namespace, name } => {
                return self
                    .service(namespace, name)
                    .map(|service| service.uid.with_text(|uid| SmolStr::new(uid)));
            }
        };
        Some(uid.into())
    }

    /// Every unit that is live: VPCs, then subnets, peerings, nodes, attachments and Services, so that parents come first.
    pub fn units(&self) -> impl Iterator<Item = Unit> {
        let vpcs = self.vpcs().map(|vpc| Unit::Vpc(vpc.name.clone()));
        let subnets = self.subnets().map(|subnet| Unit::Subnet(subnet.name.clone()));
        let peerings =
            self.peerings.keys().filter(|pair| self.peering(pair).is_some()).cloned().map(Unit::Peering);
        let attachments = self.attachments().map(|attachment| Unit::Attachment(attachment.id.clone()));
        let nodes = self
            .nodes
            .keys()
            .filter(|name| self.node_state(name) == UnitState::Live)
            .cloned()
            .map(Unit::Node);
        let services = self.services.iter().map(|service| Unit::Service {
            namespace: service.namespace.to_string(),
            name: service.name.to_string(),
        });
        let all = vpcs.chain(subnets).chain(peerings).chain(nodes).chain(attachments);
        all.chain(self.chassis_units()).chain(services.filter(|unit| self.state(unit) == UnitState::Live))
    }

    // VPCs.

    /// The VPC of this name, if it is in effect.
    pub fn vpc(&self, name: &str) -> Option<&Vpc> {
        match self.vpcs.get(name).and_then(Rivals::effective) {
            Some(candidate) => candidate.value.as_ref().ok(),
            None => self.built_in_vpc(name),
        }
    }

    /// The VPC of the primary network as it is without an object, if this is its name.
    fn built_in_vpc(&self, name: &str) -> Option<&Vpc> {
        self.primary_vpc.as_deref().filter(|vpc| vpc.name == name)
    }

    /// The VPC of this name as far as its subnets and nodes need it: of that of the primary network they need no more than that it is there,
    /// so that a mistake in its object stops none of them.
    pub(crate) fn vpc_of_subnets(&self, name: &str) -> Option<&Vpc> {
        self.vpc(name).or_else(|| self.built_in_vpc(name))
    }

    /// The VPCs in effect, by name, but for that of the primary network where no object is there for it: it comes last.
    pub fn vpcs(&self) -> impl Iterator<Item = &Vpc> {
        let objects = self.vpcs.values().filter_map(|rivals| rivals.effective()?.value.as_ref().ok());
        objects.chain(self.primary_vpc.as_deref().filter(|vpc| !self.vpcs.contains_key(&vpc.name)))
    }

    /// Whether a VPC is that of the primary network.
    pub fn is_primary_vpc(&self, name: &str) -> bool {
        self.primary_vpc.as_deref().is_some_and(|vpc| vpc.name == name)
    }

    /// Whose the rows of a VPC are.
    pub fn owner_of_vpc<'w>(&self, vpc: &'w Vpc) -> &'w str {
        if self.is_primary_vpc(&vpc.name) { DEFAULT_VPC } else { &vpc.uid }
    }

    /// What others may know of a VPC.
    pub(crate) fn vpc_ref<'w>(&'w self, vpc: &'w Vpc) -> VpcRef<'w> {
        let is_primary = self.is_primary_vpc(&vpc.name);
        VpcRef { name: &vpc.name, owner: self.owner_of_vpc(vpc), is_primary }
    }

    /// The peering of two VPCs, if it is in effect.
    pub fn peering(&self, pair: &VpcPair) -> Option<&Peering> {
        self.peerings.get(pair)
    }

    /// The peerings in effect.
    pub fn peerings(&self) -> impl Iterator<Item = &Peering> {
        self.peerings.values()
    }

    // Subnets.

    /// The subnet of this name, if it is in effect.
    pub fn subnet(&self, name: &str) -> Option<&Subnet> {
        (self.subnet_state(name) == UnitState::Live).then(|| self.known_subnet(name))?
    }

    /// The subnet of this name, if it can be understood, whether or not it is in effect.
    pub fn known_subnet(&self, name: &str) -> Option<&Subnet> {
        self.subnets.get(name)?.effective()?.value.as_ref().ok()
    }

    /// The subnets in effect, by name.
    pub fn subnets(&self) -> impl Iterator<Item = &Subnet> {
        self.subnets.keys().filter_map(|name| self.subnet(name))
    }

    /// The subnets in effect that want to be attached to a VPC, by name.
    pub fn subnets_of_vpc(&self, vpc: &str) -> impl Iterator<Item = &Subnet> {
        self.subnet_indexes.by_vpc.get(vpc).filter_map(|name| self.subnet(name))
    }

    /// The subnets that are for pods which nothing else is chosen for, by name. There should be at most one.
    pub fn default_subnets(&self) -> impl Iterator<Item = &str> {
        self.subnet_indexes.default.get(&()).map(String::as_str)
    }

    /// True if there is a subnet of this name in this group, whether or not it has the name.
    pub fn has_subnet_of_group(&self, group: Group, name: &str) -> bool {
        self.subnets.get(name).is_some_and(|rivals| rivals.get(group).is_some())
    }

    /// True if there is a subnet of this name and UID, in either group and whether or not it can be understood.
    pub fn has_subnet_of_uid(&self, name: &str, uid: &str) -> bool {
        self.subnets.get(name).is_some_and(|rivals| rivals.iter().any(|(_, subnet)| subnet.meta.uid == uid))
    }

    /// The subnets that can be understood and serve a provider, whether or not they are in effect.
    pub fn subnets_of_provider(&self, provider: &Provider) -> impl Iterator<Item = &Subnet> {
        self.subnet_indexes.by_provider.get(provider).filter_map(|name| self.known_subnet(name))
    }

    /// A subnet to be planned.
    pub fn subnet_view(&self, name: &str) -> Option<SubnetView<'_>> {
        let subnet = self.subnet(name)?;
        let vpc = subnet.vpc().and_then(|name| self.vpc_of_subnets(name));
        let vpc = vpc.map(|vpc| self.vpc_ref(vpc));
        // Who names one is not concerned by that of others.
        let tunnel_mtu = subnet.config.mtu.is_none().then(|| self.tunnel_mtu()).flatten();
        Some(SubnetView { subnet, vpc, tunnel_mtu })
    }

    // Attachments.

    /// An attachment, if it is in effect.
    pub fn attachment(&self, id: &AttachmentId) -> Option<&Attachment> {
        (self.attachment_state(id) == UnitState::Live).then(|| self.holdings.get(id)?.attachment())?
    }

    /// The attachments in effect.
    pub fn attachments(&self) -> impl Iterator<Item = &Attachment> {
        self.holdings.keys().filter_map(|id| self.attachment(id))
    }

    /// The attachments in effect on a subnet.
    pub fn attachments_of_subnet(&self, subnet: &str) -> impl Iterator<Item = &Attachment> {
        self.holding_indexes.by_subnet.get(subnet).filter_map(|id| self.attachment(id))
    }

    /// True if something is on the Subnet of this name, and it is this Subnet and not an earlier one of its name: it has a lock on
    /// its gateway, as one has that is or was in effect.
    pub fn is_in_use(&self, subnet: &str, uid: &str) -> bool {
        self.has_guests(subnet)
            && self.held_in_name(HolderKind::Subnet, None, subnet).any(|id| *id.uid() == *uid)
    }

    /// True if somebody has addresses of a subnet, whether or not it is in effect; its gateway aside.
    pub fn has_guests(&self, subnet: &str) -> bool {
        self.holding_indexes.by_subnet.get(subnet).next().is_some()
    }

    /// The attachments in effect on a node.
    pub fn attachments_of_node(&self, node: &str) -> impl Iterator<Item = &Attachment> {
        self.holding_indexes.by_node.get(node).filter_map(|id| self.attachment(id))
    }

    /// An attachment to be planned.
    pub fn attachment_view(&self, id: &AttachmentId) -> Option<AttachmentView<'_>> {
        let attachment = self.attachment(id)?;
        let subnet = SubnetRef::of(self.subnet(attachment.subnet())?);
        Some(AttachmentView {
            attachment,
            subnet,
            chassis: attachment.node().map(|n| self.chassis(n)),
            rates: self.rates(attachment, subnet.provider),
            leaves_by: self.leaves_by(attachment),
        })
    }

    // Nodes and networks.

    /// A node.
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.get(name)
    }

    /// The nodes, by name.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values()
    }

    /// The size of packets that fits into the tunnels of every node and reaches the pods that run, as far as is known. Tunnels with less
    /// than IPv6 needs count only where all have. What was told before always counts: it may fall by itself, and does not rise when a
    /// node comes, goes or cannot say where its tunnels end. All nodes are told the same, so it is what most of them say: a single Node
    /// on which somebody writes something else changes nothing for the others.
    pub fn tunnel_mtu(&self) -> Option<u16> {
        let mut tunnels = self.node_indexes.by_tunnel_mtu.keys();
        let tunnels = tunnels.clone().find(|mtu| **mtu >= LEAST_MTU).or_else(|| tunnels.next());
        // Of as many it is the larger: that it fits is known of tunnels.
        let told = self.node_indexes.by_told_mtu.range(..).max_by_key(|(mtu, nodes)| (nodes.len(), **mtu));
        tunnels.into_iter().chain(told.map(|(mtu, _)| mtu)).min().copied()
    }

    /// The name of a node's chassis; that of the node, if nothing else was said.
    pub fn chassis<'a>(&'a self, node: &'a str) -> &'a str {
        self.nodes.get(node).map_or(node, |node| &node.chassis)
    }

    /// A network attachment definition.
    pub fn nad(&self, namespace: &str, name: &str) -> Option<&Nad> {
        self.nads.get(namespace, name)
    }

    /// A pod.
    pub fn pod(&self, namespace: &str, name: &str) -> Option<&Pod> {
        self.pods.get(namespace, name)
    }

    /// The pods.
    pub fn pods(&self) -> impl Iterator<Item = &Pod> {
        self.pods.iter()
    }

    /// The pods of a namespace.
    pub fn pods_of_namespace(&self, namespace: &str) -> impl Iterator<Item = &Pod> {
        self.pods.of(namespace)
    }

    /// A StatefulSet.
    pub fn stateful_set(&self, namespace: &str, name: &str) -> Option<&StatefulSet> {
        self.stateful_sets.get(namespace, name)
    }

    /// The virtual machine of this name: the one that holds addresses.
    pub fn machine(&self, namespace: &str, name: &str) -> Option<&VirtualMachine> {
        self.machines.get(&(namespace.to_owned(), name.to_owned()))?.holder()
    }

    /// A `NetworkAttachment`.
    pub fn network_attachment(&self, namespace: &str, name: &str) -> Option<&RequestedAttachment> {
        self.network_attachments.get(namespace, name)
    }

    // Locks.

    /// A lock by its name.
    pub fn lock(&self, name: &str) -> Option<&Lock> {
        self.locks.get(name)
    }

    /// All locks that can be read, by name.
    pub fn locks(&self) -> impl Iterator<Item = &Lock> {
        self.locks.iter()
    }

    /// The names of the locks that name a subnet, also of those that cannot be read; without gateways. The subnet may be another one
    /// than they were made in.
    pub fn locks_of_subnet(&self, subnet: &str) -> impl Iterator<Item = &str> {
        self.lock_indexes.by_subnet.get(subnet).map(SmolStr::as_str)
    }

    /// A lock that cannot be read, by its name.
    pub fn unreadable_lock(&self, name: &str) -> Option<&UnreadableLock> {
        self.unreadable_locks.get(name)
    }

    /// The locks that cannot be read.
    pub fn unreadable_locks(&self) -> impl Iterator<Item = &UnreadableLock> {
        self.unreadable_locks.values()
    }

    /// True if there are locks that cannot be read.
    pub fn has_unreadable_locks(&self) -> bool {
        !self.unreadable_locks.is_empty()
    }

    /// Every address that a lock takes.
    pub fn claims(&self) -> impl Iterator<Item = Claim> {
        let unreadable = self.unreadable_locks.values().filter_map(|lock| lock.claim.clone());
        self.locks().map(Claim::of).chain(unreadable)
    }
}
