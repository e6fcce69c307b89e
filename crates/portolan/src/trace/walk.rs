//! The way of a packet as the model has it: what the objects say, OVN should do.

use std::collections::BTreeSet;
use std::net::IpAddr;

use portolan_api::Family;
use portolan_model::ovn_match::Packet;
use portolan_model::{Attachment, Subnet, VpcPair, World};

use super::guest::{Exit, Guest, Interface};
use super::path::{End, Home, Hop, Path, Stop};
use super::router::{Network, forward};

/// Whether a packet begins a conversation or answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    There,
    Back,
}

/// A packet on its way from a pod to another.
pub(crate) struct Walk<'a, 'w> {
    world: &'w World,
    packet: Packet,
    direction: Direction,
    from: &'a Guest<'w>,
    to: &'a Guest<'w>,
    hops: Vec<Hop>,
    assumed: Vec<String>,
    port: Option<String>,
}

/// The way of a packet, and by which interface it leaves the sender, if it does.
pub(crate) struct Walked<'a, 'w> {
    pub(crate) path: Path,
    pub(crate) exit: Option<Exit<'a, 'w>>,
}

/// Follows a packet. It leaves by `interface` if that is given, else as the pod's routes say.
pub(crate) fn walk<'a, 'w>(
    world: &'w World,
    packet: Packet,
    direction: Direction,
    from: &'a Guest<'w>,
    to: &'a Guest<'w>,
    interface: Option<&'a Interface<'w>>,
) -> Walked<'a, 'w> {
    let mut walk =
        Walk { world, packet, direction, from, to, hops: Vec::new(), assumed: Vec::new(), port: None };
    let (end, exit) = match walk.leave(interface) {
        Ok(exit) => (walk.follow(exit), Some(exit)),
        Err(stop) => (End::Stops(*stop), None),
    };
    let path = Path { hops: walk.hops, end, port: walk.port, assumed: walk.assumed };
    Walked { path, exit }
}

impl<'a, 'w> Walk<'a, 'w> {
    /// Out of the pod.
    fn leave(&mut self, interface: Option<&'a Interface<'w>>) -> Result<Exit<'a, 'w>, Box<Stop>> {
        let Packet { source, destination, .. } = self.packet;
        let own = self.from.with_address(source);
        let exit = match interface {
            Some(interface) => interface.exit(destination),
            None => self.from.exit(destination),
        };
        let named = own.or(self.from.interfaces.first());
        self.hops.push(Hop::Pod {
            namespace: self.from.namespace.clone(),
            name: self.from.name.clone(),
            interface: named.map(|one| one.name().to_owned()).unwrap_or_default(),
            address: source,
            node: self.from.node.clone(),
        });
        if self.from.with_address(destination).is_some() {
            return Err(Box::new(Stop::SameAddress { pod: self.from.name.clone(), address: destination }));
        }
        let Some(exit) = exit else {
            return Err(Box::new(Stop::PodHasNoRoute {
                pod: self.from.name.clone(),
                interface: interface.or(named).map(|one| one.name().to_owned()).unwrap_or_default(),
                to: destination,
                gateway: interface.or(named).and_then(|one| one.gateway(Family::of(destination))),
                subnet: interface.or(named).map(|one| one.subnet.name.clone()).unwrap_or_default(),
                isolated: interface.or(named).is_some_and(|one| one.subnet.vpc().is_none()),
            }));
        };
        if let Some(own) = own.filter(|own| own.attachment.id != exit.interface.attachment.id) {
            return Err(Box::new(Stop::OtherInterface {
                pod: self.from.name.clone(),
                leaves: exit.interface.name().to_owned(),
                came: own.name().to_owned(),
                address: source,
            }));
        }
        if exit.by_dhcp {
            let name = &self.from.name;
            self.assumed.push(format!("pod {name} got its default route by DHCP"));
        }
        Ok(exit)
    }

    /// From the pod's port on.
    fn follow(&mut self, exit: Exit<'a, 'w>) -> End {
        let subnet = exit.interface.subnet;
        self.hops.push(Hop::Switch { subnet: subnet.name.clone() });
        if exit.next_hop == self.packet.destination {
            return self.deliver(subnet, exit.next_hop);
        }
        let is_gateway = subnet.config.gateway.addresses().any(|gateway| gateway == exit.next_hop);
        let router = subnet.vpc().and_then(|vpc| self.world.vpc(vpc));
        match router {
            Some(vpc) if is_gateway => self.route(vpc),
            None if is_gateway => End::Stops(Stop::NoRouter {
                subnet: subnet.name.clone(),
                vpc: subnet.vpc().map(str::to_owned),
                gateway: exit.next_hop,
            }),
            _ => self.hand_over(subnet, exit.next_hop),
        }
    }

    /// From router to router, and at last onto a switch.
    fn route(&mut self, first: &'w portolan_model::Vpc) -> End {
        let mut vpc = first;
        let mut seen = BTreeSet::new();
        loop {
            if !seen.insert(vpc.name.as_str()) {
                return End::Stops(Stop::Loop { vpc: vpc.name.clone() });
            }
            let forwarding = match forward(self.world, vpc, &self.packet) {
                Ok(forwarding) => forwarding,
                Err(end) => {
                    self.hops.push(Hop::Router { vpc: vpc.name.clone(), by: Vec::new() });
                    return match *end {
                        End::Stops(Stop::NoRoute { vpc, to, ignored, .. }) => {
                            let home = self.home(&vpc);
                            End::Stops(Stop::NoRoute { vpc, to, ignored, home })
                        }
                        end => end,
                    };
                }
            };
            self.hops.push(Hop::Router { vpc: vpc.name.clone(), by: forwarding.by });
            match forwarding.network {
                Network::Subnet(subnet) => return self.onto_switch(vpc, subnet, forwarding.next_hop),
                Network::Peering(peering) => {
                    let other = peering.ends.iter().find(|end| end.vpc != vpc.name);
                    let is_other = |end: &&portolan_model::PeeringEnd| {
                        end.local_connect.nets().any(|net| net.addr() == forwarding.next_hop)
                    };
                    let next = other.filter(is_other).and_then(|end| self.world.vpc(&end.vpc));
                    let Some(next) = next else {
                        let (vpc, next_hop) = (vpc.name.clone(), forwarding.next_hop);
                        return End::Stops(Stop::NextHopNowhere { vpc, next_hop });
                    };
                    self.hops.push(Hop::Peering { from: vpc.name.clone(), to: next.name.clone() });
                    vpc = next;
                }
            }
        }
    }

    /// Where the destination is, seen from a VPC that has no route to it.
    fn home(&self, from: &str) -> Home {
        let address = self.packet.destination;
        let Some(interface) = self.to.with_address(address) else { return Home::Unknown };
        let subnet = interface.subnet;
        let Some(prefix) = subnet.config.cidr.net(Family::of(address)) else { return Home::Unknown };
        match subnet.vpc() {
            None => Home::Isolated { subnet: subnet.name.clone() },
            Some(vpc) if vpc == from => Home::Unknown,
            Some(vpc) => {
                let peering = VpcPair::new(from, vpc).and_then(|pair| self.world.peering(&pair));
                let end = peering.and_then(|peering| peering.ends.iter().find(|end| end.vpc == vpc));
                let mut peers = end.into_iter().flat_map(|end| end.local_connect.nets());
                let peer = peers.find(|net| Family::of_net(net) == Family::of(address)).map(|net| net.addr());
                Home::Vpc { vpc: vpc.to_owned(), prefix, peer }
            }
        }
    }

    /// From a router onto a switch.
    fn onto_switch(&mut self, vpc: &portolan_model::Vpc, subnet: &'w Subnet, next_hop: IpAddr) -> End {
        let on_switch = self.owner(subnet, next_hop).is_some();
        // A router asks who has the address before it sends the packet itself.
        if !on_switch {
            return if next_hop == self.packet.destination {
                self.neighbour_missing(subnet, next_hop)
            } else {
                End::Stops(Stop::NextHopNowhere { vpc: vpc.name.clone(), next_hop })
            };
        }
        self.hops.push(Hop::Switch { subnet: subnet.name.clone() });
        if next_hop == self.packet.destination {
            self.deliver(subnet, next_hop)
        } else {
            self.hand_over(subnet, next_hop)
        }
    }

    /// From a switch to who has the address.
    fn deliver(&mut self, subnet: &'w Subnet, address: IpAddr) -> End {
        let Some(owner) = self.owner(subnet, address) else {
            return self.neighbour_missing(subnet, address);
        };
        if self.is_kept_out(subnet) {
            return End::Stops(Stop::Private { subnet: subnet.name.clone(), from: self.packet.source });
        }
        self.port = Some(owner.iface_id.clone());
        let wanted = self.to.with_address(address).filter(|interface| interface.attachment.id == owner.id);
        let Some(interface) = wanted else {
            let (subnet, pod) = (subnet.name.clone(), name_of(owner));
            return End::Stops(Stop::OtherPod { subnet, address, pod });
        };
        if let (Some(from), Some(to)) = (&self.from.node, &self.to.node)
            && from != to
        {
            self.hops.push(Hop::Tunnel { from: from.clone(), to: to.clone() });
        }
        self.hops.push(Hop::Pod {
            namespace: self.to.namespace.clone(),
            name: self.to.name.clone(),
            interface: interface.name().to_owned(),
            address,
            node: self.to.node.clone(),
        });
        End::Arrives
    }

    /// To a pod that is to route the packet itself.
    fn hand_over(&mut self, subnet: &'w Subnet, router: IpAddr) -> End {
        match self.owner(subnet, router) {
            None => End::Stops(Stop::NoSuchNeighbour { subnet: subnet.name.clone(), address: router }),
            Some(owner) => {
                self.port = Some(owner.iface_id.clone());
                let pod = name_of(owner);
                End::Unknown(format!(
                    "switch {} hands it to {pod} ({router}), and only that pod knows where it sends it",
                    subnet.name
                ))
            }
        }
    }

    fn neighbour_missing(&self, subnet: &Subnet, address: IpAddr) -> End {
        End::Stops(Stop::NoSuchNeighbour { subnet: subnet.name.clone(), address })
    }

    fn owner(&self, subnet: &Subnet, address: IpAddr) -> Option<&'w Attachment> {
        self.world.attachments_of_subnet(&subnet.name).find(|one| one.addresses.contains(&address))
    }

    /// Whether a private subnet keeps the packet out. Answers are let in: the rules know of conversations.
    fn is_kept_out(&self, subnet: &Subnet) -> bool {
        let (config, source) = (&subnet.config, self.packet.source);
        let allowed =
            config.cidr.contains(source) || config.allow_subnets.iter().any(|net| net.contains(&source));
        config.private && self.direction == Direction::There && !allowed
    }
}

/// What an attachment is called among people.
fn name_of(attachment: &Attachment) -> String {
    let id = &attachment.id;
    let name = attachment.user.as_ref().map_or(id.name(), |user| &user.pod);
    id.namespace().map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"))
}
