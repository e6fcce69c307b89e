//! How a packet starts: by which addresses two ends talk, and what leaves the sending pod, or why nothing does.

use std::net::IpAddr;

use ovn_schema::nb::{LogicalRouterPort, LogicalSwitch};
use ovsdb_core::TypedRow as _;
use portolan_api::{Family, Mac, Provider};
use portolan_model::guest::GuestInterface;
use portolan_model::{Attachment, Subnet, Unit, World};
use portolan_plan::Settings;

use crate::api::{Cause, Hop, Reason};
use crate::desired::Desired;
use crate::error::Error;
use crate::guest::{Exit, Guest, address, exit_by};
use crate::packet::{Direction, Packet, Payload};
use crate::question::{Destination, PodName, Question};

/// Two ends, with the addresses by which they talk.
#[derive(Clone, Debug)]
pub(crate) struct Conversation {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    /// The interface that the first packet leaves by, if that is not left to the pod's routes.
    by: Option<String>,
    /// The receiving pod, if a pod is meant. Where an address is meant, OVN decides what has it.
    pub(crate) receiver: Option<PodName>,
}

/// One direction, before OVN is asked.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    /// The sending pod.
    pub(crate) sender: Hop,
    pub(crate) outcome: Result<Packet, Box<Cause>>,
    pub(crate) notes: Vec<String>,
    /// The logical ports of both ends, with the chassis that they should be on.
    pub(crate) from: Option<Port>,
    pub(crate) to: Option<Port>,
}

/// The logical port of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Port {
    pub(crate) name: String,
    pub(crate) unit: Unit,
    pub(crate) pod: PodName,
    pub(crate) interface: String,
    pub(crate) node: Option<String>,
    pub(crate) chassis: Option<String>,
}

impl Conversation {
    /// Chooses addresses: on the named network; else on a switch that both are on; else those that the sender has a route to.
    pub(crate) fn choose(world: &World, question: &Question) -> Result<Self, Error> {
        let from = Guest::find(world, &question.from)?;
        let by = named(&from, question.network.as_ref());
        match &question.to {
            Destination::Address(destination) => {
                let leaves = by.or_else(|| from.exit(*destination).map(|exit| exit.interface));
                let family = Family::of(*destination);
                let source = leaves.or(from.interfaces.first()).and_then(|one| address(one, family));
                let source = source.ok_or_else(|| Error::Invalid {
                    field: "spec.to.address",
                    problem: format!("pod {} has no {family} address", question.from),
                })?;
                let by = by.map(|one| one.name().to_owned());
                Ok(Self { source, destination: *destination, by, receiver: None })
            }
            Destination::Pod(to) => {
                let to = Guest::find(world, to)?;
                Self::between(&from, &to, by, question.network.as_ref())
            }
        }
    }

    fn between(
        from: &Guest<'_>,
        to: &Guest<'_>,
        by: Option<&GuestInterface<'_>>,
        network: Option<&Provider>,
    ) -> Result<Self, Error> {
        let receivers: Vec<_> = to.interfaces.iter().filter(|one| is_on(one, network)).collect();
        if let (Some(network), true) = (network, receivers.is_empty()) {
            let networks = to.interfaces.iter().filter_map(|one| one.subnet.config.provider.as_ref());
            let networks: Vec<_> = networks.map(ToString::to_string).collect();
            let problem =
                format!("pod {} is not on network {network}; it is on: {}", to.name, networks.join(", "));
            return Err(Error::Invalid { field: "spec.network", problem });
        }
        let addresses =
            receivers.iter().flat_map(|one| one.attachment.addresses.iter().map(move |ip| (*one, *ip)));
        let candidates = addresses.filter_map(|(receiver, destination)| {
            let family = Family::of(destination);
            let exit = by.map_or_else(|| from.exit(destination), |interface| exit_by(interface, destination));
            let leaves = exit.map(|exit| exit.interface).or(by);
            let leaves =
                leaves.or_else(|| from.interfaces.iter().find(|one| address(one, family).is_some()))?;
            let source = address(leaves, family)?;
            // The best first: one switch, then a route, then any.
            let rank = (leaves.subnet.name != receiver.subnet.name, exit.is_none());
            Some((rank, source, destination))
        });
        let best = candidates.min_by_key(|(rank, ..)| *rank);
        let (_, source, destination) = best.ok_or_else(|| Error::Invalid {
            field: "spec.to.pod",
            problem: format!("pods {} and {} have no addresses of one family", from.name, to.name),
        })?;
        let by = by.map(|interface| interface.name().to_owned());
        Ok(Self { source, destination, by, receiver: Some(to.name.clone()) })
    }

    /// The start of one direction. None for the reply of an end that is no pod.
    pub(crate) fn start(
        &self,
        world: &World,
        sender: &PodName,
        payload: Payload,
        direction: Direction,
    ) -> Result<Option<Start>, Error> {
        let (from, to, by, source, destination) = match (direction, &self.receiver) {
            (Direction::Forward, receiver) => {
                (sender, receiver.as_ref(), self.by.as_deref(), self.source, self.destination)
            }
            (Direction::Reply, Some(receiver)) => {
                (receiver, Some(sender), None, self.destination, self.source)
            }
            (Direction::Reply, None) => return Ok(None),
        };
        let guest = Guest::find(world, from)?;
        let to = to.map(|to| Guest::find(world, to)).transpose()?;
        let leaving = Leaving { world, guest: &guest, by, source, destination };
        Ok(Some(leaving.start(to.as_ref(), payload, direction)))
    }
}

/// A packet that is about to leave a pod.
struct Leaving<'a, 'w> {
    world: &'w World,
    guest: &'a Guest<'w>,
    by: Option<&'a str>,
    source: IpAddr,
    destination: IpAddr,
}

impl<'a, 'w> Leaving<'a, 'w> {
    fn start(&self, to: Option<&Guest<'_>>, payload: Payload, direction: Direction) -> Start {
        let guest = self.guest;
        let exit = self.exit();
        let own = guest.with_address(self.source).or(guest.interfaces.first());
        let leaves = exit.map(|exit| exit.interface).or(own);
        let sender = Hop::Pod {
            namespace: guest.name.namespace.clone(),
            name: guest.name.name.clone(),
            interface: leaves.map(|one| one.name().to_owned()).unwrap_or_default(),
            address: self.source,
            node: guest.node.clone(),
        };
        let mut notes = Vec::new();
        if let Some((exit, own)) = exit.zip(own).filter(|(exit, own)| exit.interface.name() != own.name()) {
            notes.push(format!(
                "pod {} sends from {} by {}, which has another address: {} belongs to {}",
                guest.name,
                self.source,
                exit.interface.name(),
                self.source,
                own.name()
            ));
        }
        if exit.is_some_and(|exit| exit.by_dhcp) {
            notes.push(format!("assumed: pod {} got its default route by DHCP", guest.name));
        }
        let outcome = match exit {
            _ if guest.with_address(self.destination).is_some() => Err(Box::new(self.same_address())),
            None => Err(Box::new(self.no_route(own))),
            Some(exit) => self.packet(exit, payload, direction),
        };
        let to = to.and_then(|to| Some(port(self.world, to, to.with_address(self.destination)?)));
        let from = leaves.map(|one| port(self.world, guest, one));
        Start { sender, outcome, notes, from, to }
    }

    fn exit(&self) -> Option<Exit<'a, 'w>> {
        let by = self.by.and_then(|by| self.guest.interfaces.iter().find(|one| one.name() == by));
        by.map_or_else(|| self.guest.exit(self.destination), |interface| exit_by(interface, self.destination))
    }

    fn packet(
        &self,
        exit: Exit<'_, '_>,
        payload: Payload,
        direction: Direction,
    ) -> Result<Packet, Box<Cause>> {
        let subnet = exit.interface.subnet;
        let rows = Desired::of(self.world, &Unit::Subnet(subnet.name.clone()), &Settings::default());
        let datapath = rows.text(LogicalSwitch::TABLE, "name").unwrap_or_default();
        let destination_mac = self.neighbour(subnet, exit.next_hop, &rows)?;
        Ok(Packet {
            datapath,
            inport: exit.interface.attachment.iface_id(),
            source_mac: exit.interface.attachment.mac,
            destination_mac,
            source: self.source,
            destination: self.destination,
            payload,
            direction,
        })
    }

    /// The MAC address that the pod learns for the next hop: that of a port on the switch, or of the router.
    fn neighbour(&self, subnet: &Subnet, next_hop: IpAddr, rows: &Desired) -> Result<Mac, Box<Cause>> {
        let mut neighbours = self.world.attachments_of_subnet(&subnet.name);
        if let Some(neighbour) = neighbours.find(|one| one.addresses.contains(&next_hop)) {
            return Ok(neighbour.mac);
        }
        let is_gateway = subnet.config.gateway.addresses().any(|gateway| gateway == next_hop);
        let router = rows.text(LogicalRouterPort::TABLE, "mac").and_then(|mac| mac.parse().ok());
        match (is_gateway, router) {
            (true, Some(router)) => Ok(router),
            (true, None) => Err(Box::new(no_router(subnet, next_hop))),
            (false, _) => Err(Box::new(no_neighbour(&subnet.name, next_hop))),
        }
    }

    fn same_address(&self) -> Cause {
        let (pod, address) = (&self.guest.name, self.destination);
        Cause {
            reason: Reason::SameAddress,
            message: format!("pod {pod} itself has {address}, so it never sends packets for it"),
            advice: "use different prefixes for networks that should reach each other".into(),
            object: None,
            stage: None,
        }
    }

    fn no_route(&self, interface: Option<&GuestInterface<'_>>) -> Cause {
        let (pod, to) = (&self.guest.name, self.destination);
        let gateway = interface.and_then(|one| one.subnet.config.gateway.address(Family::of(to)));
        let advice = match interface {
            Some(one) if one.subnet.vpc().is_none() => {
                format!("Subnet {} is in no VPC: only pods on it can be reached through it", one.subnet.name)
            }
            Some(one) => format!(
                "give the pod a route by {}: \"default-route\": [\"{}\"] in its networks annotation, or spec.routes of Subnet {}",
                one.name(),
                gateway.map_or_else(|| "GATEWAY".to_owned(), |gateway| gateway.to_string()),
                one.subnet.name
            ),
            None => String::new(),
        };
        let message = format!("pod {pod} has no route to {to} by Portolan's interfaces");
        Cause { reason: Reason::PodHasNoRoute, message, advice, object: None, stage: None }
    }
}

pub(crate) fn no_neighbour(subnet: &str, address: IpAddr) -> Cause {
    Cause {
        reason: Reason::NoNeighbour,
        message: format!("no port on switch {subnet} has {address}"),
        advice:
            "if a pod elsewhere has this address: networks with overlapping prefixes cannot reach each other"
                .into(),
        object: None,
        stage: None,
    }
}

fn no_router(subnet: &Subnet, gateway: IpAddr) -> Cause {
    let name = &subnet.name;
    let (message, advice) = match subnet.vpc() {
        None => (
            format!(
                "switch {name} has no router: it belongs to no VPC, so nothing answers at gateway {gateway}"
            ),
            format!(
                "put both Subnets into one VPC (spec.vpc cannot be changed: create {name} again with it)"
            ),
        ),
        Some(vpc) => (
            format!(
                "switch {name} has no router: VPC {vpc} does not exist, so nothing answers at gateway {gateway}"
            ),
            format!("create Vpc {vpc}, which Subnet {name} names"),
        ),
    };
    Cause { reason: Reason::NoRouter, message, advice, object: None, stage: None }
}

fn is_on(interface: &GuestInterface<'_>, network: Option<&Provider>) -> bool {
    network.is_none() || interface.subnet.config.provider.as_ref() == network
}

fn named<'g, 'w>(guest: &'g Guest<'w>, network: Option<&Provider>) -> Option<&'g GuestInterface<'w>> {
    guest.interfaces.iter().find(|interface| network.is_some() && is_on(interface, network))
}

fn port(world: &World, guest: &Guest<'_>, interface: &GuestInterface<'_>) -> Port {
    let attachment = interface.attachment;
    Port {
        name: attachment.iface_id(),
        unit: Unit::Attachment(attachment.id.clone()),
        pod: guest.name.clone(),
        interface: interface.name().to_owned(),
        node: guest.node.clone(),
        chassis: guest.node.as_deref().map(|node| world.chassis(node).to_owned()),
    }
}

/// The pod that uses an attachment.
pub(crate) fn pod_of(attachment: &Attachment) -> Option<PodName> {
    use portolan_api::portolan::HolderKind;
    let id = &attachment.id;
    let name = match (&attachment.user, id.kind()) {
        (Some(user), _) => &user.pod,
        (None, HolderKind::Pod | HolderKind::StatefulSet) => id.name(),
        (None, _) => return None,
    };
    Some(PodName { namespace: id.namespace()?.to_owned(), name: name.to_owned() })
}
