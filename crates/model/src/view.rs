//! What the plan of one unit may look at.
//!
//! Invariant: whenever a view changes, its unit is dirty. A planner that reads nothing else is therefore never asked too
//! seldom; one that reads the World behind a view's back may miss a change.

use std::collections::BTreeSet;
use std::net::IpAddr;

use portolan_api::{CidrBlock, Domain, Provider, Rates};
use smol_str::SmolStr;

use crate::attachment::Attachment;
use crate::peering::Peering;
use crate::service::{EndpointSlice, Frontend, Service};
use crate::subnet::Subnet;
use crate::vpc::Vpc;

/// What the plan of one unit may look at.
#[derive(Clone, Debug, PartialEq)]
pub enum View<'w> {
    /// Of a VPC.
    Vpc(VpcView<'w>),
    /// Of a subnet.
    Subnet(SubnetView<'w>),
    /// Of a peering.
    Peering(PeeringView<'w>),
    /// Of an attachment.
    Attachment(AttachmentView<'w>),
    /// Of a node.
    Node(NodeView<'w>),
    /// Of a node's chassis.
    Chassis(ChassisView<'w>),
    /// Of a Service.
    Service(ServiceView<'w>),
}

/// A VPC to be planned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VpcView<'w> {
    /// The VPC.
    pub vpc: &'w Vpc,
    /// Whose its rows are: see [`VpcRef::owner`].
    pub owner: &'w str,
    /// Whether it is the router of the primary network.
    pub is_primary: bool,
}

/// A subnet to be planned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SubnetView<'w> {
    /// The subnet.
    pub subnet: &'w Subnet,
    /// Its VPC, if it wants one and it is there.
    pub vpc: Option<VpcRef<'w>>,
    /// The size of packets that fits into the tunnels of every node, if that is known and the subnet names no MTU.
    pub tunnel_mtu: Option<u16>,
}

/// What others may know of a VPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VpcRef<'w> {
    /// Its name.
    pub name: &'w str,
    /// Whose its rows are: the UID of the object it comes from. Those of the primary network's are the network's: whether there is an
    /// object for its router, and which, must not move the router.
    pub owner: &'w str,
    /// Whether it is the router of the primary network.
    pub is_primary: bool,
}

/// A peering to be planned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PeeringView<'w> {
    /// The peering.
    pub peering: &'w Peering,
}

/// An attachment to be planned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttachmentView<'w> {
    /// The attachment.
    pub attachment: &'w Attachment,
    /// The subnet it is on.
    pub subnet: SubnetRef<'w>,
    /// The chassis of its node.
    pub chassis: Option<&'w str>,
    /// How much the pod that uses it may send and receive.
    pub rates: Rates,
    /// The node by which it leaves the cluster, if that does not follow from its addresses.
    pub leaves_by: Option<NodeRef<'w>>,
}

/// What others may know of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeRef<'w> {
    /// Its name.
    pub name: &'w str,
    /// Its UID.
    pub uid: &'w str,
}

/// A node of the primary network to be planned.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeView<'w> {
    /// The node.
    pub node: NodeRef<'w>,
    /// Its own addresses, in the network of the nodes: those that are believed.
    pub addresses: Vec<IpAddr>,
    /// Its pods' prefixes, if these are in use.
    pub prefixes: Option<CidrBlock>,
    /// The VPC of the primary network.
    pub vpc: VpcRef<'w>,
    /// Its port, once that has its addresses.
    pub port: Option<NodePort<'w>>,
}

/// The port of a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NodePort<'w> {
    /// The port: of each family the first address is the node's own, the second the one it masquerades with.
    pub attachment: &'w Attachment,
    /// The subnet it is on.
    pub subnet: SubnetRef<'w>,
}

/// A node's chassis, as far as Services have something for it alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChassisView<'w> {
    /// The node.
    pub node: NodeRef<'w>,
    /// The name of its chassis.
    pub chassis: &'w str,
}

/// A Service to be planned.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceView<'w> {
    /// The Service.
    pub service: &'w Service,
    /// The VPC of the primary network.
    pub vpc: VpcRef<'w>,
    /// The addresses and ports by which it is reached in the whole cluster: those that no other Service has.
    pub frontends: BTreeSet<Frontend>,
    /// Where its traffic may go.
    pub slices: Vec<&'w EndpointSlice>,
    /// The nodes, if where its traffic goes depends on where it comes in.
    pub nodes: Vec<PlacedNode<'w>>,
}

/// A node, and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedNode<'w> {
    /// The node.
    pub node: NodeRef<'w>,
    /// Its zone.
    pub zone: Option<&'w str>,
}

/// What attachments may know of their subnet. A change of anything else in a subnet leaves its attachments alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubnetRef<'w> {
    /// Its name.
    pub name: &'w str,
    /// The UID of the object it comes from.
    pub uid: &'w str,
    /// Where its addresses are unique.
    pub domain: &'w Domain,
    /// What pods name it by: their annotations about interfaces on it have this in their keys.
    pub provider: Option<&'w Provider>,
    /// True if guests are answered DHCP.
    pub dhcp: bool,
    /// True if guests are sent router advertisements.
    pub ipv6_ra: bool,
}

impl<'w> SubnetRef<'w> {
    pub(crate) fn of(subnet: &'w Subnet) -> Self {
        Self {
            name: &subnet.name,
            uid: &subnet.uid,
            domain: &subnet.domain,
            provider: subnet.config.provider.as_ref(),
            dhcp: subnet.config.dhcp.is_some(),
            ipv6_ra: subnet.config.ipv6_ra.is_some(),
        }
    }
}

impl AttachmentView<'_> {
    /// Its addresses, IPv4 first.
    pub fn addresses(&self) -> &[IpAddr] {
        &self.attachment.addresses
    }
}

impl View<'_> {
    /// The UID of the object that the unit comes from: the tag `portolan/owner` of everything planned for it.
    pub fn owner(&self) -> SmolStr {
        match self {
            View::Vpc(view) => view.owner.into(),
            View::Subnet(view) => view.subnet.uid.as_str().into(),
            View::Peering(view) => view.peering.owner().into(),
            View::Attachment(view) => view.attachment.owner().into(),
            View::Node(view) => view.node.uid.into(),
            View::Chassis(view) => view.node.uid.into(),
            View::Service(view) => view.service.uid.with_text(|uid| SmolStr::new(uid)),
        }
    }
}
