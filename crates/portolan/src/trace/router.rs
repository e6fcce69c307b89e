//! What a VPC's router does with a packet, as OVN would: the route first, then policy routes.

use std::net::IpAddr;

use ipnet::IpNet;
use portolan_api::Family;
use portolan_api::vpc_config::{PolicyAction, RoutePolicy, StaticRouteConfig};
use portolan_model::ovn_match::Packet;
use portolan_model::{Peering, Subnet, Vpc, World};

use super::path::{End, Home, Rule, Stop};

/// A network that a router has a port in.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Network<'w> {
    /// A subnet.
    Subnet(&'w Subnet),
    /// The connection with another VPC.
    Peering(&'w Peering),
}

/// Where a router sends a packet.
#[derive(Clone, Debug)]
pub(crate) struct Forwarding<'w> {
    pub(crate) network: Network<'w>,
    pub(crate) next_hop: IpAddr,
    pub(crate) by: Vec<Rule>,
}

/// A route as OVN ranks them.
struct Route<'w> {
    /// By length first; among equals the router's own networks, then destinations, then sources.
    rank: (u8, u8),
    network: Network<'w>,
    next_hop: IpAddr,
    rule: Rule,
}

/// Where the router of a VPC sends a packet, or how the packet ends.
pub(crate) fn forward<'w>(
    world: &'w World,
    vpc: &'w Vpc,
    packet: &Packet,
) -> Result<Forwarding<'w>, Box<End>> {
    let router = Router { world, vpc };
    let Some(route) = router.route(packet)? else {
        if let Some(route) = router.doubtful(packet) {
            let why = format!(
                "the only route of router {} that fits is static route from {} via {}, which OVN ranks like no route at all: \
                 whether it counts is chance; write it as two halves, such as 0.0.0.0/1 and 128.0.0.0/1",
                vpc.name, route.prefix, route.next_hop
            );
            return Err(Box::new(End::Unknown(why)));
        }
        let ignored = router.ignored(packet);
        let (vpc, to) = (vpc.name.clone(), packet.destination);
        return Err(Box::new(End::Stops(Stop::NoRoute { vpc, to, ignored, home: Home::Unknown })));
    };
    let Route { network, next_hop, rule, .. } = route;
    let mut forwarding = Forwarding { network, next_hop, by: vec![rule] };
    router.apply_policies(packet, &mut forwarding)?;
    Ok(forwarding)
}

/// OVN ranks routes by length, and by source below by destination. One from everywhere is left with the rank of the rule that
/// drops whatever has no route, and of two rules of one rank either may count.
fn is_like_none(route: &StaticRouteConfig) -> bool {
    route.policy == RoutePolicy::Source && route.prefix.prefix_len() == 0
}

struct Router<'w> {
    world: &'w World,
    vpc: &'w Vpc,
}

impl<'w> Router<'w> {
    /// The networks that the router has ports in, with its prefixes there.
    fn networks(&self) -> impl Iterator<Item = (Network<'w>, IpNet)> {
        let subnets = self.world.subnets_of_vpc(&self.vpc.name).filter(|subnet| subnet.config.vni.is_none());
        let subnets = subnets
            .flat_map(|subnet| subnet.config.cidr.nets().map(move |net| (Network::Subnet(subnet), net)));
        let name = self.vpc.name.as_str();
        let peerings = self.world.peerings().flat_map(move |peering| {
            let ends = peering.ends.iter().filter(move |end| end.vpc == name);
            ends.flat_map(move |end| {
                end.local_connect.nets().map(move |net| (Network::Peering(peering), net.trunc()))
            })
        });
        subnets.chain(peerings)
    }

    fn network_of(&self, address: IpAddr) -> Option<Network<'w>> {
        self.networks().find(|(_, net)| net.contains(&address)).map(|(network, _)| network)
    }

    fn route(&self, packet: &Packet) -> Result<Option<Route<'w>>, Box<End>> {
        let own =
            self.networks().filter(|(_, net)| net.contains(&packet.destination)).map(|(network, net)| {
                Route {
                    rank: (net.prefix_len(), 2),
                    network,
                    next_hop: packet.destination,
                    rule: Rule::Connected { prefix: net },
                }
            });
        let fixed = self.matching(packet).filter(|route| !is_like_none(route)).filter_map(|route| {
            let by_source = route.policy == RoutePolicy::Source;
            Some(Route {
                rank: (route.prefix.prefix_len(), u8::from(!by_source)),
                // OVN ignores a route to a router that is in none of its networks.
                network: self.network_of(route.next_hop)?,
                next_hop: route.next_hop,
                rule: Rule::Static { by_source, prefix: route.prefix, next_hop: route.next_hop },
            })
        });
        let mut routes: Vec<_> = own.chain(fixed).collect();
        routes.sort_by_key(|route| route.rank);
        let best = routes.pop();
        match (&best, routes.last()) {
            (Some(best), Some(second)) if best.rank == second.rank && best.next_hop != second.next_hop => {
                Err(self.shared(&best.rule.to_string()))
            }
            _ => Ok(best),
        }
    }

    /// Several routers share the load, and only OVN knows how.
    fn shared(&self, rule: &str) -> Box<End> {
        let vpc = &self.vpc.name;
        Box::new(End::Unknown(format!(
            "router {vpc} shares the load among several next hops ({rule}, and others)"
        )))
    }

    fn matching(&self, packet: &Packet) -> impl Iterator<Item = &'w StaticRouteConfig> {
        let (source, destination) = (packet.source, packet.destination);
        self.vpc.config.static_routes.iter().filter(move |route| match route.policy {
            RoutePolicy::Destination => route.prefix.contains(&destination),
            RoutePolicy::Source => route.prefix.contains(&source),
        })
    }

    /// The static routes that would fit, and lead nowhere.
    fn ignored(&self, packet: &Packet) -> Vec<String> {
        let nowhere = self.matching(packet).filter(|route| self.network_of(route.next_hop).is_none());
        nowhere.map(|route| format!("{} via {}", route.prefix, route.next_hop)).collect()
    }

    /// A route of which nobody can say whether OVN takes it.
    fn doubtful(&self, packet: &Packet) -> Option<&'w StaticRouteConfig> {
        self.matching(packet).find(|route| is_like_none(route) && self.network_of(route.next_hop).is_some())
    }

    /// The policy route of the highest priority that matches decides.
    fn apply_policies(&self, packet: &Packet, forwarding: &mut Forwarding<'w>) -> Result<(), Box<End>> {
        let mut policies: Vec<_> = self.vpc.config.policy_routes.iter().zip(&self.vpc.matches).collect();
        policies.sort_by_key(|(policy, _)| std::cmp::Reverse(policy.priority));
        for (policy, expression) in policies {
            let (priority, matches) = (policy.priority, policy.matches.clone());
            let reroutes = match &policy.action {
                // northd leaves out what it cannot route.
                PolicyAction::Reroute(hops) => {
                    hops.iter().find_map(|hop| self.network_of(*hop).map(|network| (network, *hop)))
                }
                PolicyAction::Allow | PolicyAction::Drop => None,
            };
            if matches!(&policy.action, PolicyAction::Reroute(hops)
                if reroutes.is_none() || hops.iter().any(|hop| Family::of(*hop) != Family::of(packet.source)))
            {
                continue;
            }
            match expression.matches(packet) {
                Some(false) => continue,
                Some(true) => {}
                None => {
                    let vpc = &self.vpc.name;
                    let why = format!(
                        "only OVN knows whether policy route {priority} of VPC {vpc} ({matches}) matches"
                    );
                    return Err(Box::new(End::Unknown(why)));
                }
            }
            match (&policy.action, reroutes) {
                (PolicyAction::Drop, _) => {
                    let vpc = self.vpc.name.clone();
                    return Err(Box::new(End::Stops(Stop::PolicyDrop { vpc, priority, matches })));
                }
                (PolicyAction::Reroute(hops), _) if hops.len() > 1 => {
                    return Err(self.shared(&format!("policy route {priority} ({matches})")));
                }
                (_, Some((network, next_hop))) => {
                    forwarding.by.push(Rule::Reroute { priority, matches, next_hop });
                    (forwarding.network, forwarding.next_hop) = (network, next_hop);
                }
                (_, None) => forwarding.by.push(Rule::Allow { priority, matches }),
            }
            return Ok(());
        }
        Ok(())
    }
}
