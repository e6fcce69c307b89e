//! Why a packet stops: the last logical flow that it met, and the object behind it.

use std::collections::BTreeSet;
use std::net::IpAddr;

use portolan_api::Family;
use portolan_api::vpc_config::{RoutePolicy, StaticRouteConfig};
use portolan_model::{Unit, VpcPair};
use portolan_plan::DesiredRow;

use super::Explanation;
use crate::api::{Cause, Hop, Reason};
use crate::observed::prefix;
use crate::ovn_trace::output::{End, Flow, Traced};
use crate::rule::{self, RuleRow};
use crate::start::no_neighbour;

/// Whether a packet stops.
pub(super) enum Stopped<'t> {
    /// It left by a logical port.
    No {
        port: &'t str,
    },
    Because(Box<Cause>),
}

impl<'t> Stopped<'t> {
    pub(super) fn of(explanation: &Explanation<'_>, traced: &'t Traced) -> Self {
        let because = |cause| Stopped::Because(Box::new(cause));
        let place = Place::of(explanation, traced);
        match &traced.end {
            End::Output { port } => Stopped::No { port },
            End::NeighbourUnknown => because(place.neighbour_unknown(traced)),
            End::Flooded => because(place.no_port_with_mac()),
            End::Answered { with } => because(place.answered(traced, with)),
            End::Dropped => because(place.dropped()),
        }
    }
}

/// Where a packet stops.
struct Place<'a> {
    explanation: &'a Explanation<'a>,
    /// `switch web`, `router blue`.
    name: String,
    /// OVN's name of it.
    datapath: &'a str,
    unit: Option<&'a Unit>,
    flow: Flow,
    /// The row that the flow was made for.
    row: Option<RuleRow<'a>>,
}

impl<'a> Place<'a> {
    fn of(explanation: &'a Explanation<'a>, traced: &'a Traced) -> Self {
        let passage = traced.passages.last().expect("invariant: a trace has a first switch");
        let flow = passage.flows.last().cloned().unwrap_or_default();
        let name = match explanation.hop(passage) {
            Hop::Router { name, .. } => format!("router {name}"),
            Hop::Switch { name, .. } => format!("switch {name}"),
            _ => passage.datapath.clone(),
        };
        let unit = explanation.observed.datapaths.get(&passage.datapath).and_then(|one| one.unit.as_ref());
        let row = explanation.observed.row_of(&flow);
        Self { explanation, name, datapath: &passage.datapath, unit, flow, row }
    }

    fn cause(&self, reason: Reason, message: String, advice: String) -> Cause {
        let object = self.row.and_then(RuleRow::object);
        Cause { reason, message, advice, object, stage: Some(self.flow.stage.clone()) }
    }

    fn dropped(&self) -> Cause {
        let (name, stage) = (&self.name, self.flow.stage.as_str());
        match stage {
            "ls_in_check_port_sec" | "ls_in_apply_port_sec" => self.sender_not_allowed(),
            "ls_out_check_port_sec" | "ls_out_apply_port_sec" => self.cause(
                Reason::PortSecurity,
                format!("port security on {name} drops it: the receiving port has another MAC or IP address"),
                String::new(),
            ),
            "ls_in_l2_lkup" | "ls_in_l2_unknown" => self.no_port_with_mac(),
            "lr_in_ip_routing" | "lr_in_ip_routing_ecmp" => self.no_route(),
            "lr_in_policy" | "lr_in_policy_ecmp" => self.policy_route(),
            "lr_in_arp_resolve" => self.cause(
                Reason::NextHopUnknown,
                format!("{name} does not know the MAC address of the next hop"),
                "correct the next hop of the route".into(),
            ),
            "lr_in_admission" => self.cause(
                Reason::Dropped,
                format!("{name} does not accept it: it is not addressed to the router's MAC address"),
                String::new(),
            ),
            stage if stage.contains("_acl") => self.acl(),
            stage => {
                let flow = match self.flow.priority {
                    Some(priority) => format!("priority {priority}, match {}", self.flow.matches),
                    None => "no flow matches".to_owned(),
                };
                self.cause(
                    Reason::Dropped,
                    format!("{name} drops it in stage {stage} ({flow})"),
                    String::new(),
                )
            }
        }
    }

    fn sender_not_allowed(&self) -> Cause {
        let (explanation, source) = (self.explanation, self.explanation.packet.source);
        let interface = explanation.sender().map(|port| port.interface.as_str()).unwrap_or_default();
        let message = format!(
            "port security on {} drops it: {source} is not an address of the interface {interface} that sends it",
            self.name
        );
        let advice = "give the pod a route by the interface that has the address, or trace another interface with --network";
        self.cause(Reason::PortSecurity, message, advice.into())
    }

    fn no_port_with_mac(&self) -> Cause {
        let destination = self.explanation.packet.destination_mac;
        self.cause(
            Reason::NoNeighbour,
            format!("{} has no port with MAC address {destination}", self.name),
            String::new(),
        )
    }

    fn acl(&self) -> Cause {
        let source = self.explanation.packet.source;
        let subnet = match self.row.and_then(RuleRow::unit) {
            Some(Unit::Subnet(subnet)) => self.explanation.world.subnet(&subnet),
            _ => None,
        };
        match (subnet, self.row) {
            (Some(subnet), _) if subnet.config.private => self.cause(
                Reason::Acl,
                format!("{} is private and does not admit {source}", self.name),
                format!("add a prefix with {source} to spec.allowSubnets of Subnet {0}, or set its spec.private to false", subnet.name),
            ),
            (_, Some(row)) => self.cause(
                Reason::Acl,
                format!("{} drops it by {}", self.name, row.describe()),
                row.object().map(|object| format!("if that is not intended, correct {}", rule::named(&object))).unwrap_or_default(),
            ),
            (_, None) => self.cause(
                Reason::Acl,
                format!("{} drops it by an ACL (match {})", self.name, self.flow.matches),
                String::new(),
            ),
        }
    }

    fn policy_route(&self) -> Cause {
        let of = |column: &str| self.row.and_then(|row| row.text(column));
        let priority = of("priority").or_else(|| self.flow.priority.map(|priority| priority.to_string()));
        let priority = priority.unwrap_or_default();
        let matches = of("match").unwrap_or_else(|| self.flow.matches.clone());
        let object = self.row.and_then(RuleRow::object).map(|object| rule::named(&object));
        let advice = object.map(|object| {
            format!(
                "if that is not intended, correct policy route {priority} in spec.policyRoutes of {object}"
            )
        });
        let message = format!("{} drops it by policy route {priority} ({matches})", self.name);
        self.cause(Reason::PolicyRoute, message, advice.unwrap_or_default())
    }

    fn no_route(&self) -> Cause {
        if let Some(row) = self.row.filter(|row| row.0.table() == "Logical_Router_Static_Route") {
            let message = format!("{} discards it by {}", self.name, row.describe());
            return self.cause(Reason::NoRoute, message, String::new());
        }
        let message = format!("{} has no route to {}", self.name, self.explanation.packet.destination);
        let vpc = match self.unit {
            Some(Unit::Vpc(vpc)) => vpc.as_str(),
            _ => return self.cause(Reason::NoRoute, message, String::new()),
        };
        let advice = self.ineffective_routes(vpc).unwrap_or_else(|| self.advice_on_routes(vpc));
        self.cause(Reason::NoRoute, message, advice)
    }

    /// The static routes of a VPC that have the destination, and for which OVN made no flow.
    fn ineffective_routes(&self, vpc: &str) -> Option<String> {
        let in_effect = self.explanation.observed.routes_in_effect.get(self.datapath)?;
        let packet = self.explanation.packet;
        let applies = |route: &StaticRouteConfig| match route.policy {
            RoutePolicy::Destination => route.prefix.contains(&packet.destination),
            RoutePolicy::Source => route.prefix.contains(&packet.source),
        };
        let config = &self.explanation.world.vpc(vpc)?.config;
        let applying: BTreeSet<_> = config
            .static_routes
            .iter()
            .filter(|route| applies(route))
            .map(|route| (route.prefix.to_string(), route.next_hop.to_string()))
            .collect();
        let unit = Unit::Vpc(vpc.to_owned());
        let planned = self.explanation.desired.iter().find(|desired| desired.unit == unit)?;
        let is_route = |row: &&DesiredRow| row.table().name == "Logical_Router_Static_Route";
        let text = |row: &DesiredRow, column: &str| {
            let (_, value) = row.columns().find(|(name, _)| *name == column)?;
            Some(value.keys().next()?.as_str()?.to_owned())
        };
        let ineffective = planned
            .rows
            .iter()
            .filter(is_route)
            .filter(|row| !in_effect.contains(&prefix(row.uuid())))
            .filter_map(|row| Some((text(row, "ip_prefix")?, text(row, "nexthop")?)))
            .filter(|route| applying.contains(route))
            .map(|(prefix, next_hop)| format!("{prefix} via {next_hop}"));
        let ineffective: Vec<_> = ineffective.collect();
        (!ineffective.is_empty()).then(|| {
            format!(
                "OVN ignores static routes of Vpc {vpc} whose nextHopIP is in no network of the router; correct {}",
                ineffective.join(", ")
            )
        })
    }

    /// Where the destination is, seen from a VPC that has no route to it, and what would lead there.
    fn advice_on_routes(&self, vpc: &str) -> String {
        let (world, address) = (self.explanation.world, self.explanation.packet.destination);
        let fallback = format!("add a route to spec.staticRoutes of Vpc {vpc}");
        let to = self.explanation.start.to.as_ref();
        let subnet = to.and_then(|to| match &to.unit {
            Unit::Attachment(id) => world.subnet(world.attachment(id)?.subnet()),
            _ => None,
        });
        let Some(subnet) = subnet else { return fallback };
        let Some(net) = subnet.config.cidr.net(Family::of(address)) else { return fallback };
        let Some(other) = subnet.vpc() else {
            return format!(
                "{address} is on switch {}, which belongs to no VPC: only pods on that switch reach it",
                subnet.name
            );
        };
        if other == vpc {
            return fallback;
        }
        let peering = VpcPair::new(vpc, other).and_then(|pair| world.peering(&pair));
        let end = peering.and_then(|peering| peering.ends.iter().find(|end| end.vpc == other));
        let mut addresses = end.into_iter().flat_map(|end| end.local_connect.nets());
        match addresses.find(|net| Family::of_net(net) == Family::of(address)) {
            Some(peer) => format!(
                "{net} is in Vpc {other}, which is connected: add {{cidr: {net}, nextHopIP: {}}} to spec.staticRoutes of Vpc {vpc}",
                peer.addr()
            ),
            None => format!(
                "{net} is in Vpc {other}: connect {vpc} and {other} by spec.vpcPeerings of both, and give both static routes"
            ),
        }
    }

    fn neighbour_unknown(&self, traced: &Traced) -> Cause {
        let destination = self.explanation.packet.destination;
        let next_hop = next_hop(traced).unwrap_or(destination);
        if next_hop != destination {
            let message = format!("{} sends it to {next_hop}, which nothing has", self.name);
            let rule = self
                .explanation
                .rules(traced.passages.last().expect("invariant: a trace has a first switch"));
            let advice =
                rule.last().map(|rule| format!("correct the next hop of {}", rule.text)).unwrap_or_default();
            let object = rule.into_iter().last().and_then(|rule| rule.object);
            return Cause { object, ..self.cause(Reason::NextHopUnknown, message, advice) };
        }
        let world = self.explanation.world;
        let vpc = match self.unit {
            Some(Unit::Vpc(vpc)) => vpc.as_str(),
            _ => "",
        };
        let mut subnets = world.subnets_of_vpc(vpc);
        let subnet = subnets
            .find(|subnet| subnet.config.cidr.contains(destination))
            .map(|subnet| subnet.name.as_str());
        match subnet {
            Some(subnet) => {
                Cause { stage: Some(self.flow.stage.clone()), ..no_neighbour(subnet, destination) }
            }
            None => self.cause(
                Reason::NoNeighbour,
                format!("{} does not know the MAC address of {destination}", self.name),
                String::new(),
            ),
        }
    }

    fn answered(&self, traced: &Traced, with: &str) -> Cause {
        let mut seen = BTreeSet::new();
        let repeated = traced.passages.iter().find(|passage| !seen.insert(&passage.datapath));
        if let Some(repeated) = repeated {
            let name = match self.explanation.hop(repeated) {
                Hop::Router { name, .. } => format!("router {name}"),
                _ => self.name.clone(),
            };
            return Cause {
                reason: Reason::RoutingLoop,
                message: format!("routing loop: the packet returns to {name}"),
                advice: "correct the static routes of the VPCs on the path: they point at each other".into(),
                object: None,
                stage: Some(self.flow.stage.clone()),
            };
        }
        let message = format!("{} rejects it with {with} in stage {}", self.name, self.flow.stage);
        self.cause(Reason::Rejected, message, String::new())
    }
}

/// The next hop that a router has chosen last.
fn next_hop(traced: &Traced) -> Option<IpAddr> {
    let flows = traced.passages.last()?.flows.iter().rev();
    let mut values = flows.filter_map(|flow| flow.assigned("reg0").or_else(|| flow.assigned("xxreg0")));
    // `ip4.dst` and `ip6.dst` are no addresses: then the destination is the next hop.
    values.next()?.parse().ok()
}
