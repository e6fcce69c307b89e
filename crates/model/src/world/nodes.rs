//! Nodes, and what the primary network has for each: a subnet of its pod prefixes, and a port of its own.

use portolan_api::Domain;
use portolan_api::portolan::{Holder, HolderKind};

use super::World;
use super::evaluation::Evaluation;
use super::requests::Topic;
use super::rivals::Candidate;
use crate::attachment::{Attachment, AttachmentId, NODE_INTERFACE};
use crate::dirty::Dirty;
use crate::doors::Meta;
use crate::group::Group;
use crate::life::Life;
use crate::node::Node;
use crate::node_subnet::{NODE_ADDRESSES, node_addresses, node_of_subnet, node_subnet};
use crate::request::{InterfaceRequest, Requester, Wait};
use crate::subnet::{DEFAULT_VPC, Subnet};
use crate::unit::{Unit, UnitState};
use crate::view::{NodePort, NodeRef, NodeView, SubnetRef};

impl World {
    pub(super) fn set_node(&mut self, name: &str, new: Option<Node>, dirty: &mut Dirty) {
        let old = self.nodes.get(name);
        if old == new.as_ref() {
            return;
        }
        let before = self.chassis(name).to_owned();
        let tunnel_mtu_before = self.tunnel_mtu();
        let uid = |node: Option<&Node>| node.map(|node| node.uid.clone());
        let addresses = |node: Option<&Node>| node.map(|node| node.addresses.clone());
        let is_another = uid(old) != uid(new.as_ref());
        let has_moved = addresses(old) != addresses(new.as_ref());
        if let Some(mtu) = old.and_then(Node::tunnel_mtu) {
            self.node_indexes.by_tunnel_mtu.remove(&mtu, name);
        }
        if let Some(mtu) = new.as_ref().and_then(Node::tunnel_mtu) {
            self.node_indexes.by_tunnel_mtu.insert(mtu, name.to_owned());
        }
        if let Some(mtu) = old.and_then(Node::mtu_of_pods) {
            self.node_indexes.by_told_mtu.remove(&mtu, name);
        }
        if let Some(mtu) = new.as_ref().and_then(Node::mtu_of_pods) {
            self.node_indexes.by_told_mtu.insert(mtu, name.to_owned());
        }
        let old = old.cloned();
        self.index_node_addresses(old.as_ref(), new.as_ref(), dirty);
        self.note_services_of_nodes(name, old.as_ref(), new.as_ref(), dirty);
        let prefixes = new.as_ref().filter(|_| self.primary_vpc.is_some()).and_then(candidate);
        match new {
            Some(node) => self.nodes.insert(name.to_owned(), node),
            None => self.nodes.remove(name),
        };
        if tunnel_mtu_before != self.tunnel_mtu() {
            let concerned = self.subnets().filter(|subnet| subnet.config.mtu.is_none());
            dirty.units.extend(concerned.map(|subnet| Unit::Subnet(subnet.name.clone())));
        }
        let is_primary = self.primary_vpc.is_some();
        if before != self.chassis(name) || (is_another && is_primary) {
            let ids = self.holding_indexes.by_node.get(name).filter(|id| self.attachment(id).is_some());
            dirty.units.extend(ids.cloned().map(Unit::Attachment));
        }
        if is_primary && (is_another || has_moved) {
            dirty.units.insert(Unit::Node(name.to_owned()));
        }
        self.set_subnet(&node_subnet(name), Group::Core, prefixes, dirty);
        self.publish(&[Topic::Node(name.to_owned())], dirty);
        self.reconsider(&Requester::node(name), dirty);
    }

    /// What a node's unit looks at beside the Node: its subnet, and its port.
    pub(super) fn note_nodes(&self, dirty: &mut Dirty) {
        if self.primary_vpc.is_none() {
            return;
        }
        let node = |unit: &Unit| match unit {
            Unit::Subnet(name) => node_of_subnet(name).map(str::to_owned),
            Unit::Attachment(id) if id.kind() == HolderKind::Node => Some(id.name().to_owned()),
            _ => None,
        };
        let nodes: Vec<_> = dirty.units.iter().filter_map(node).map(Unit::Node).collect();
        let subnets: Vec<_> = dirty
            .units
            .iter()
            .filter_map(|unit| if let Unit::Subnet(name) = unit { self.known_subnet(name) } else { None })
            .collect();
        subnets.into_iter().for_each(|subnet| self.note_nodes_within(subnet, dirty));
        dirty.units.extend(nodes);
    }

    pub(super) fn node_state(&self, name: &str) -> UnitState {
        match self.primary_vpc.as_ref().and_then(|_| self.nodes.get(name)) {
            None => UnitState::Absent,
            Some(_) if self.vpc_of_subnets(DEFAULT_VPC).is_none() => UnitState::Held,
            // Its port has its addresses, and nobody knows whether they are in effect: what the node has is not taken from it.
            Some(node) if self.port_ids(node).any(|id| self.attachment_state(id) == UnitState::Held) => {
                UnitState::Held
            }
            Some(_) => UnitState::Live,
        }
    }

    /// A node of the primary network to be planned.
    pub fn node_view(&self, name: &str) -> Option<NodeView<'_>> {
        if self.node_state(name) != UnitState::Live {
            return None;
        }
        let (node, vpc) = (self.nodes.get(name)?, self.vpc_of_subnets(DEFAULT_VPC)?);
        Some(NodeView {
            node: NodeRef { name: &node.name, uid: &node.uid },
            addresses: self.node_addresses(node),
            prefixes: self.subnet(&node_subnet(name)).map(|subnet| subnet.config.cidr),
            vpc: self.vpc_ref(vpc),
            port: self.node_port(node),
        })
    }

    /// The port of a node, once it has its addresses.
    pub fn node_port(&self, node: &Node) -> Option<NodePort<'_>> {
        let attachment = self.port_ids(node).find_map(|id| self.attachment(id))?;
        Some(NodePort { attachment, subnet: SubnetRef::of(self.subnet(attachment.subnet())?) })
    }

    fn port_ids(&self, node: &Node) -> impl Iterator<Item = &AttachmentId> {
        self.held_in_name(HolderKind::Node, None, &node.name).filter(|id| *id.uid() == node.uid)
    }

    /// The node by which an attachment leaves the cluster, if that does not follow from its addresses.
    pub(super) fn leaves_by(&self, attachment: &Attachment) -> Option<NodeRef<'_>> {
        self.primary_vpc.as_ref()?;
        let is_ours = matches!(attachment.domain(), Domain::Vpc(vpc) if *vpc == *DEFAULT_VPC);
        if !is_ours
            || attachment.id.kind() == HolderKind::Node
            || node_of_subnet(attachment.subnet()).is_some()
        {
            return None;
        }
        let node = self.nodes.get(attachment.node()?)?;
        Some(NodeRef { name: &node.name, uid: &node.uid })
    }

    /// The subnet for a pod's first interface, by name, where the pod asks for none: one for its namespace, or the default one, or that
    /// of its node. A Subnet that somebody made for this has precedence over prefixes that were allocated by themselves, unless only the
    /// latter are in effect.
    pub fn first_subnet(&self, namespace: &str, node: &str) -> Option<String> {
        let is_primary = self.primary_vpc.is_some();
        let own = match is_primary {
            true => self.subnets_of_namespace(namespace).first,
            false => self.subnet_of_namespace(namespace),
        };
        if let Some(own) = own {
            return Some(own.to_owned());
        }
        // The pods of a tenant's VPC have another interface besides.
        let counts = |name: &&str| !is_primary || !self.known_subnet(name).is_some_and(Subnet::is_of_tenant);
        let mut defaults = self.default_subnets().filter(counts);
        let (default, of_node) = (defaults.next(), node_subnet(node));
        let in_effect = default.into_iter().chain(defaults).find(|name| self.subnet(name).is_some());
        match in_effect.or(default) {
            Some(default) if in_effect.is_some() || self.subnet(&of_node).is_none() => {
                Some(default.to_owned())
            }
            _ => (self.subnet_state(&of_node) != UnitState::Absent).then_some(of_node),
        }
    }

    /// The subnet for a node's own port: its own, or else one that serves all nodes.
    fn subnet_for_node(&self, name: &str) -> Option<String> {
        let own = node_subnet(name);
        let in_effect = self.subnet(&own).is_some().then_some(own);
        in_effect.or_else(|| Some(self.default_of_nodes()?.name.clone()))
    }

    /// The Subnet that serves all nodes which do not serve prefixes of their own, whether or not it is in effect.
    pub fn default_of_nodes(&self) -> Option<&Subnet> {
        let known = || self.default_subnets().filter_map(|name| self.known_subnet(name));
        let ours = || known().filter(|subnet| subnet.vpc() == Some(DEFAULT_VPC));
        ours().find(|subnet| self.subnet(&subnet.name).is_some()).or_else(|| ours().next())
    }

    pub(super) fn evaluate_node(&self, name: &str, requester: &Requester) -> Option<Evaluation<'_>> {
        self.primary_vpc.as_ref()?;
        let node = self.nodes.get(name)?;
        let mut evaluation = Evaluation::new(self, requester, name, String::new());
        evaluation.request.holder = Holder {
            kind: HolderKind::Node,
            namespace: None,
            name: name.to_owned(),
            uid: node.uid.clone(),
            interface: None,
        };
        evaluation.topics.extend([Topic::Default, Topic::Subnet(node_subnet(name))]);
        evaluation.topics.extend(self.default_subnets().map(|name| Topic::Subnet(name.to_owned())));
        match self.subnet_for_node(name) {
            // It asks once its prefixes were found free of clashes. If they are not, that is said by itself.
            None if self.subnet_state(&node_subnet(name)) != UnitState::Absent => {}
            None => evaluation.request.waits.push(Wait::NodePrefixes),
            Some(subnet) => {
                if let Some(usable) = evaluation.usable(&subnet, "spec.podCIDRs") {
                    let own = usable.node().map(|_| node_addresses(usable.config.cidr)).unwrap_or_default();
                    evaluation.request.interfaces.push(InterfaceRequest {
                        addresses: own,
                        count: NODE_ADDRESSES,
                        path: "spec.podCIDRs".to_owned(),
                        ..InterfaceRequest::new(NODE_INTERFACE, &subnet)
                    });
                }
            }
        }
        Some(evaluation)
    }
}

/// The subnet that a node's prefixes amount to, if it has some.
fn candidate(node: &Node) -> Option<Candidate<Subnet>> {
    let value = node.subnet()?;
    let meta = Meta { uid: node.uid.clone(), created: None, generation: None, life: Life::Protected };
    Some(Candidate {
        meta,
        validation: node.prefixes_validation(),
        value,
        provider: None,
        tenants: Vec::new(),
    })
}
