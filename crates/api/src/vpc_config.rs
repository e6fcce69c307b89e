//! What a Vpc of either API group says, as values: one parser for both.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::cidr::{
    Family, HostBits, InterfacePair, parse_address, parse_interface_pair, parse_net_or_address,
};
use crate::field_error::{FieldErrors, FieldPath, Reason};
use crate::names::{check_namespaces, check_object_name};
use crate::routes::{NO_NEXT_HOP, is_next_hop};

/// Highest priority of a policy route.
pub const MAX_PRIORITY: i64 = 32767;
/// Most next hops of one policy route.
pub const MAX_NEXT_HOPS: usize = 16;

/// A VPC that makes sense by itself. Whether it fits the others, only the World knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VpcConfig {
    /// Routes of its router by prefix.
    pub static_routes: Vec<StaticRouteConfig>,
    /// Routes of its router by match, the highest priority first in effect.
    pub policy_routes: Vec<PolicyRouteConfig>,
    /// The VPCs it wants to be connected with.
    pub peerings: Vec<PeeringConfig>,
    /// Namespaces whose pods use its default subnet.
    pub namespaces: Vec<String>,
    /// The subnet that pods of those namespaces are put on.
    pub default_subnet: Option<String>,
}

/// One static route. Several with one prefix and policy share the load (ECMP).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StaticRouteConfig {
    /// What the prefix is compared with.
    pub policy: RoutePolicy,
    /// The prefix, host bits clear.
    pub prefix: IpNet,
    /// The router to send to.
    pub next_hop: IpAddr,
    /// Whether replies take the way the request came.
    pub symmetric_reply: bool,
}

/// What a static route's prefix is compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RoutePolicy {
    /// The packet's destination.
    #[default]
    Destination,
    /// The packet's source.
    Source,
}

/// One policy route.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PolicyRouteConfig {
    /// 0 to 32767; the highest that matches decides.
    pub priority: u16,
    /// An OVN match expression, not yet parsed: `crates/model` has the grammar.
    pub matches: String,
    /// What happens to a packet that matches.
    pub action: PolicyAction,
}

/// What a policy route does.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PolicyAction {
    /// Routes as if there were no policies.
    Allow,
    /// Drops.
    Drop,
    /// Sends to one of these routers. Never empty; all of one family.
    Reroute(Vec<IpAddr>),
}

/// One half of a peering.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PeeringConfig {
    /// The other VPC.
    pub remote_vpc: String,
    /// This VPC's address in the network between the two.
    pub local_connect: InterfacePair,
}

/// The fields of a Vpc that both API groups have, borrowed from either.
pub(crate) struct VpcFields<'a> {
    pub(crate) name: &'a str,
    pub(crate) host_bits: HostBits,
    pub(crate) static_routes: Vec<StaticRouteFields<'a>>,
    pub(crate) policy_routes: Vec<PolicyRouteFields<'a>>,
    pub(crate) peerings: Vec<PeeringFields<'a>>,
    pub(crate) namespaces: &'a [String],
    pub(crate) default_subnet: Option<&'a str>,
}

pub(crate) struct StaticRouteFields<'a> {
    pub(crate) policy: Option<&'a str>,
    pub(crate) cidr: &'a str,
    pub(crate) next_hop_ip: &'a str,
    pub(crate) ecmp_mode: Option<&'a str>,
}

pub(crate) struct PolicyRouteFields<'a> {
    pub(crate) priority: i64,
    pub(crate) matches: &'a str,
    pub(crate) action: &'a str,
    pub(crate) next_hop_ip: Option<&'a str>,
}

pub(crate) struct PeeringFields<'a> {
    pub(crate) remote_vpc: &'a str,
    pub(crate) local_connect_ip: &'a str,
}

impl VpcFields<'_> {
    pub(crate) fn parse(&self) -> Result<VpcConfig, FieldErrors> {
        let errors = &mut FieldErrors::new();
        let spec = FieldPath::SPEC;
        check_namespaces(self.namespaces, &spec.field("namespaces"), errors);
        if let Some(name) = self.default_subnet
            && let Err(problem) = check_object_name(name)
        {
            errors.add_problem(&spec.field("defaultSubnet"), name, &problem);
        }
        let config = VpcConfig {
            static_routes: self.static_routes(errors),
            policy_routes: self.policy_routes(errors),
            peerings: self.peerings(errors),
            namespaces: self.namespaces.to_vec(),
            default_subnet: self.default_subnet.map(str::to_owned),
        };
        std::mem::take(errors).into_result(config)
    }

    fn static_routes(&self, errors: &mut FieldErrors) -> Vec<StaticRouteConfig> {
        let path = FieldPath::SPEC.field("staticRoutes");
        let mut routes: Vec<StaticRouteConfig> = Vec::with_capacity(self.static_routes.len());
        for (i, fields) in self.static_routes.iter().enumerate() {
            let at = path.index(i);
            let Some(route) = fields.parse(self.host_bits, &at, errors) else { continue };
            let same = |other: &&StaticRouteConfig| {
                (other.policy, other.prefix, other.next_hop) == (route.policy, route.prefix, route.next_hop)
            };
            if routes.iter().find(same).is_some() {
                let message = format!("has a route by {} already; remove one", route.next_hop);
                errors.add(&at.field("cidr"), fields.cidr, Reason::Duplicate, message);
            } else {
                routes.push(route);
            }
        }
        routes
    }

    fn policy_routes(&self, errors: &mut FieldErrors) -> Vec<PolicyRouteConfig> {
        let path = FieldPath::SPEC.field("policyRoutes");
        let mut routes: Vec<PolicyRouteConfig> = Vec::with_capacity(self.policy_routes.len());
        for (i, fields) in self.policy_routes.iter().enumerate() {
            let at = path.index(i);
            let Some(route) = fields.parse(&at, errors) else { continue };
            if routes.iter().any(|r| r.priority == route.priority && r.matches == route.matches) {
                let message = format!("appears twice with priority {}; remove one", route.priority);
                errors.add(&at.field("match"), fields.matches, Reason::Duplicate, message);
            } else {
                routes.push(route);
            }
        }
        routes
    }

    fn peerings(&self, errors: &mut FieldErrors) -> Vec<PeeringConfig> {
        let path = FieldPath::SPEC.field("vpcPeerings");
        let mut peerings: Vec<PeeringConfig> = Vec::with_capacity(self.peerings.len());
        for (i, fields) in self.peerings.iter().enumerate() {
            let at = path.index(i);
            let remote = at.field("remoteVpc");
            if fields.remote_vpc.is_empty() {
                errors.add_bare(&remote, Reason::Required, "is required; name the VPC to connect with");
            } else if let Err(problem) = check_object_name(fields.remote_vpc) {
                errors.add_problem(&remote, fields.remote_vpc, &problem);
            } else if fields.remote_vpc == self.name {
                let message = "is this VPC itself; name the VPC to connect with";
                errors.add(&remote, fields.remote_vpc, Reason::Invalid, message);
            } else if peerings.iter().any(|p| p.remote_vpc == fields.remote_vpc) {
                errors.add(
                    &remote,
                    fields.remote_vpc,
                    Reason::Duplicate,
                    "is peered with already; remove one",
                );
            }
            if let Some(local_connect) = fields.local_connect(&at.field("localConnectIP"), errors) {
                peerings.push(PeeringConfig { remote_vpc: fields.remote_vpc.to_owned(), local_connect });
            }
        }
        peerings
    }
}

impl StaticRouteFields<'_> {
    fn parse(
        &self,
        host_bits: HostBits,
        path: &FieldPath<'_>,
        errors: &mut FieldErrors,
    ) -> Option<StaticRouteConfig> {
        let policy = match self.policy {
            None | Some("policyDst") => Some(RoutePolicy::Destination),
            Some("policySrc") => Some(RoutePolicy::Source),
            Some(other) => {
                let message = "is neither policyDst (by destination) nor policySrc (by source)";
                errors.add(&path.field("policy"), other, Reason::Invalid, message);
                None
            }
        };
        let symmetric_reply = match self.ecmp_mode {
            None => Some(false),
            Some("ecmp_symmetric_reply") => Some(true),
            Some(other) => {
                let message = "is not an ECMP mode; use ecmp_symmetric_reply, or leave the field out";
                errors.add(&path.field("ecmpMode"), other, Reason::Invalid, message);
                None
            }
        };
        let prefix = parse_net_or_address(self.cidr, host_bits)
            .map_err(|problem| errors.add_problem(&path.field("cidr"), self.cidr, &problem))
            .ok();
        let next_hop = next_hop(self.next_hop_ip, &path.field("nextHopIP"), errors);
        let (prefix, next_hop) = (prefix?, next_hop?);
        let (have, want) = (Family::of(next_hop), Family::of_net(&prefix));
        if have != want {
            let message = format!("is an {have} address, but the route is for {prefix}, which is {want}");
            errors.add(&path.field("nextHopIP"), self.next_hop_ip, Reason::Invalid, message);
            return None;
        }
        Some(StaticRouteConfig { policy: policy?, prefix, next_hop, symmetric_reply: symmetric_reply? })
    }
}

impl PolicyRouteFields<'_> {
    fn parse(&self, path: &FieldPath<'_>, errors: &mut FieldErrors) -> Option<PolicyRouteConfig> {
        let priority = u16::try_from(self.priority).ok().filter(|p| i64::from(*p) <= MAX_PRIORITY);
        if priority.is_none() {
            let message = format!("is not a priority; use 0 to {MAX_PRIORITY}");
            errors.add(&path.field("priority"), self.priority.to_string(), Reason::Invalid, message);
        }
        if self.matches.trim().is_empty() {
            let message = "is required; write an OVN match such as ip4.dst == 10.1.0.0/16";
            errors.add_bare(&path.field("match"), Reason::Required, message);
        }
        let action = self.action(path, errors);
        Some(PolicyRouteConfig { priority: priority?, matches: self.matches.to_owned(), action: action? })
    }

    fn action(&self, path: &FieldPath<'_>, errors: &mut FieldErrors) -> Option<PolicyAction> {
        let hops_path = path.field("nextHopIP");
        match (self.action, self.next_hop_ip) {
            ("allow", None) => Some(PolicyAction::Allow),
            ("drop", None) => Some(PolicyAction::Drop),
            ("allow" | "drop", Some(hops)) => {
                let message =
                    format!("has no meaning with action {}; remove it, or use reroute", self.action);
                errors.add(&hops_path, hops, Reason::Invalid, message);
                None
            }
            ("reroute", None) => {
                let message = "is required with action reroute; name the routers, separated by commas";
                errors.add_bare(&hops_path, Reason::Required, message);
                None
            }
            ("reroute", Some(hops)) => next_hops(hops, &hops_path, errors).map(PolicyAction::Reroute),
            ("", _) => {
                errors.add_bare(
                    &path.field("action"),
                    Reason::Required,
                    "is required; use allow, drop or reroute",
                );
                None
            }
            (other, _) => {
                errors.add(
                    &path.field("action"),
                    other,
                    Reason::Invalid,
                    "is none of allow, drop and reroute",
                );
                None
            }
        }
    }
}

impl PeeringFields<'_> {
    fn local_connect(&self, path: &FieldPath<'_>, errors: &mut FieldErrors) -> Option<InterfacePair> {
        let text = self.local_connect_ip;
        if text.is_empty() {
            let message = "is required; give this side's address and prefix length, such as 169.254.0.1/30";
            errors.add_bare(path, Reason::Required, message);
            return None;
        }
        let pair =
            parse_interface_pair(text).map_err(|problem| errors.add_problem(path, text, &problem)).ok()?;
        let mut usable = true;
        for net in pair.nets() {
            let room_for_two = net.prefix_len() < net.max_prefix_len();
            if !room_for_two {
                let message = "leaves no address for the other side; use a /30, or a /126 of IPv6";
                errors.add(path, net.to_string(), Reason::Invalid, message);
                usable = false;
            } else if !is_host_of(net) {
                let message =
                    format!("is not a host of {}; add the host's bits, as in 169.254.0.1/30", net.trunc());
                errors.add(path, net.to_string(), Reason::Invalid, message);
                usable = false;
            }
        }
        usable.then_some(pair)
    }
}

/// True if the address part names one host: neither the network nor its broadcast address (a /31 has neither).
fn is_host_of(net: IpNet) -> bool {
    let point_to_point = net.prefix_len() + 1 == net.max_prefix_len();
    let broadcast = net.addr().is_ipv4() && net.addr() == net.broadcast();
    point_to_point || (net.addr() != net.network() && !broadcast)
}

fn next_hop(text: &str, path: &FieldPath<'_>, errors: &mut FieldErrors) -> Option<IpAddr> {
    if text.is_empty() {
        errors.add_bare(path, Reason::Required, "is required; name the address of a router");
        return None;
    }
    match parse_address(text) {
        Ok(address) if is_next_hop(address) => Some(address),
        Ok(_) => {
            errors.add(path, text, Reason::Invalid, NO_NEXT_HOP);
            None
        }
        Err(problem) => {
            errors.add_problem(path, text, &problem);
            None
        }
    }
}

fn next_hops(text: &str, path: &FieldPath<'_>, errors: &mut FieldErrors) -> Option<Vec<IpAddr>> {
    let mut hops: Vec<IpAddr> = Vec::new();
    let mut good = true;
    for part in text.split(',').map(str::trim) {
        let Some(hop) = next_hop(part, path, errors) else {
            good = false;
            continue;
        };
        if hops.contains(&hop) {
            errors.add(path, part, Reason::Duplicate, "is named twice; remove one");
            good = false;
        } else if hops.first().is_some_and(|first| Family::of(*first) != Family::of(hop)) {
            let message = "mixes IPv4 and IPv6 next hops; write one policy route per family";
            errors.add(path, text, Reason::Invalid, message);
            return None;
        } else if hops.len() == MAX_NEXT_HOPS {
            errors.add_bare(path, Reason::TooLong, format!("has more than {MAX_NEXT_HOPS} next hops"));
            return None;
        } else {
            hops.push(hop);
        }
    }
    good.then_some(hops)
}

#[cfg(test)]
mod tests;
