//! Which endpoints get the traffic of a Service, from where, and why the others get none.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;

use portolan_api::Family;
use portolan_model::service::{Backend, Backends, Service, ServicePort, TrafficPolicy};
use portolan_model::view::{NodeRef, PlacedNode};

use super::endpoints::{Candidate, Slices, State};
use crate::cluster::Snapshot;

/// What becomes of the traffic of a Service's port.
#[derive(Clone, Debug)]
pub(crate) struct PortTraffic<'a> {
    pub(crate) port: &'a ServicePort,
    /// The policies that its traffic is under: that for what comes to its cluster IPs, and that for what comes from outside where it is
    /// another one.
    pub(crate) policies: Vec<TrafficPolicy>,
    pub(crate) endpoints: Vec<EndpointTraffic<'a>>,
    /// By policy and node, where that makes a difference: the endpoints for what comes in there.
    pub(crate) by_node: Vec<Option<ByNode<'a>>>,
}

/// The endpoints for what comes in at each node.
pub(crate) type ByNode<'a> = Vec<(PlacedNode<'a>, Vec<SocketAddr>)>;

/// What an endpoint gets.
#[derive(Clone, Debug)]
pub(crate) struct EndpointTraffic<'a> {
    pub(crate) endpoint: Candidate<'a>,
    /// Under each of the policies.
    pub(crate) shares: Vec<Share>,
}

/// What an endpoint gets under one policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    /// Its part, wherever traffic comes in.
    Everywhere,
    /// Of what comes in at these nodes.
    AtNodes(Vec<String>),
    Nothing(WhyNot),
}

/// Why an endpoint gets no traffic.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WhyNot {
    NotReady,
    Ended,
    Terminating,
    /// Its slice does not have the port, but these.
    NoPort {
        slice: String,
        ports: Vec<String>,
    },
    OtherFamily(Family),
    Name,
    Headless,
    /// Under policy `Local`: it says no node.
    NoNode,
    /// Under policy `Local`: its node does not exist.
    UnknownNode(String),
    /// Clients at these nodes and in these zones should use it, and there are none.
    Hints(Vec<String>),
}

impl EndpointTraffic<'_> {
    pub(crate) fn gets_traffic(&self) -> bool {
        self.shares.iter().any(|share| !matches!(share, Share::Nothing(_)))
    }

    /// Why it gets none, under the first of the policies.
    pub(crate) fn why_not(&self) -> Option<&WhyNot> {
        match self.shares.first() {
            Some(Share::Nothing(why)) if !self.gets_traffic() => Some(why),
            _ => None,
        }
    }
}

/// The families of a Service's own addresses.
pub(crate) fn families(service: &Service) -> BTreeSet<Family> {
    service.cluster_ips.iter().chain(service.external_addresses()).map(|ip| Family::of(*ip)).collect()
}

/// The policies that a Service's traffic is under.
pub(crate) fn policies(service: &Service) -> Vec<TrafficPolicy> {
    let outside = service.is_reached_from_outside().then_some(service.external);
    let outside = outside.filter(|policy| *policy != service.internal);
    [service.internal].into_iter().chain(outside).collect()
}

impl<'a> PortTraffic<'a> {
    /// Of every port of a Service.
    pub(crate) fn of(snapshot: &'a Snapshot, slices: &Slices<'a>, service: &'a Service) -> Vec<Self> {
        service.ports.iter().map(|port| Self::of_port(snapshot, slices, service, port)).collect()
    }

    fn of_port(
        snapshot: &'a Snapshot,
        slices: &Slices<'a>,
        service: &'a Service,
        port: &'a ServicePort,
    ) -> Self {
        let policies = policies(service);
        let families = families(service);
        let nodes: Vec<PlacedNode<'a>> = snapshot.world.nodes().map(placed).collect();
        let chosen: Vec<_> =
            policies.iter().map(|policy| Chosen::of(snapshot, service, port, *policy, &nodes)).collect();
        let endpoints = slices.candidates(service, port).into_iter().map(|endpoint| {
            let share = |(policy, chosen): (&TrafficPolicy, &Chosen)| {
                chosen
                    .share(&endpoint)
                    .unwrap_or_else(|| Share::Nothing(why_not(snapshot, &endpoint, &families, *policy)))
            };
            let shares = policies.iter().zip(&chosen).map(share).collect();
            EndpointTraffic { endpoint, shares }
        });
        let endpoints = endpoints.collect();
        let by_node = chosen.into_iter().map(|chosen| chosen.by_node(&nodes)).collect();
        Self { port, policies, endpoints, by_node }
    }

    /// Those of a family.
    pub(crate) fn of_family(&self, family: Family) -> impl Iterator<Item = &EndpointTraffic<'a>> {
        self.endpoints.iter().filter(move |one| one.endpoint.family() == Some(family))
    }
}

fn placed(node: &portolan_model::Node) -> PlacedNode<'_> {
    PlacedNode { node: NodeRef { name: &node.name, uid: &node.uid }, zone: node.zone.as_deref() }
}

/// The endpoints that were chosen under a policy.
enum Chosen {
    Everywhere(BTreeSet<SocketAddr>),
    /// For what comes in at each of the nodes, in their order.
    PerNode {
        policy: TrafficPolicy,
        sockets: Vec<Vec<SocketAddr>>,
        nodes: BTreeMap<SocketAddr, Vec<String>>,
    },
}

impl Chosen {
    fn of(
        snapshot: &Snapshot,
        service: &Service,
        port: &ServicePort,
        policy: TrafficPolicy,
        nodes: &[PlacedNode<'_>],
    ) -> Self {
        let of_family = |family| Backends::of(snapshot.world.endpoint_slices_of(service), port, family);
        let backends: Vec<_> = families(service).into_iter().map(of_family).collect();
        let sockets = |found: Vec<Backend<'_>>| found.into_iter().map(|one| one.address).collect::<Vec<_>>();
        let at = |node: &PlacedNode<'_>, backends: &Backends<'_>| match policy {
            TrafficPolicy::Local => sockets(backends.on(node.node.name)),
            TrafficPolicy::Cluster => sockets(backends.near(*node)),
        };
        let has_hints = !nodes.is_empty() && backends.iter().any(Backends::have_hints);
        if policy == TrafficPolicy::Cluster && !has_hints {
            return Self::Everywhere(backends.iter().flat_map(|one| sockets(one.anywhere())).collect());
        }
        let mut at_nodes = BTreeMap::<_, Vec<_>>::new();
        let mut per_node = Vec::new();
        for node in nodes {
            let found: Vec<_> = backends.iter().flat_map(|backends| at(node, backends)).collect();
            for socket in &found {
                at_nodes.entry(*socket).or_default().push(node.node.name.to_owned());
            }
            per_node.push(found);
        }
        Self::PerNode { policy, sockets: per_node, nodes: at_nodes }
    }

    /// What an endpoint gets, if it is one of them.
    fn share(&self, endpoint: &Candidate<'_>) -> Option<Share> {
        let socket = endpoint.socket()?;
        match self {
            Self::Everywhere(all) => all.contains(&socket).then_some(Share::Everywhere),
            Self::PerNode { policy, sockets, nodes } => {
                let nodes = nodes.get(&socket)?;
                // By hints, an endpoint may serve all nodes; under `Local` it serves its own, be that the only one.
                let everywhere = *policy == TrafficPolicy::Cluster && nodes.len() == sockets.len();
                Some(if everywhere { Share::Everywhere } else { Share::AtNodes(nodes.clone()) })
            }
        }
    }

    fn by_node<'a>(self, nodes: &[PlacedNode<'a>]) -> Option<ByNode<'a>> {
        match self {
            Self::Everywhere(_) => None,
            Self::PerNode { sockets, .. } => Some(nodes.iter().copied().zip(sockets).collect()),
        }
    }
}

/// Why an endpoint was not chosen under a policy.
fn why_not(
    snapshot: &Snapshot,
    endpoint: &Candidate<'_>,
    families: &BTreeSet<Family>,
    policy: TrafficPolicy,
) -> WhyNot {
    let Some(family) = endpoint.family() else { return WhyNot::Name };
    if !families.contains(&family) {
        return WhyNot::OtherFamily(family);
    }
    if endpoint.is_of_headless() {
        return WhyNot::Headless;
    }
    if endpoint.number.is_none() {
        let slice = endpoint.slice.metadata.name.clone().unwrap_or_default();
        return WhyNot::NoPort { slice, ports: endpoint.ports() };
    }
    match (endpoint.state(), policy, endpoint.node()) {
        (State::NotReady, _, _) => WhyNot::NotReady,
        (State::Ended, _, _) => WhyNot::Ended,
        (_, TrafficPolicy::Local, None) => WhyNot::NoNode,
        (_, TrafficPolicy::Local, Some(node)) if snapshot.world.node(node).is_none() => {
            WhyNot::UnknownNode(node.to_owned())
        }
        (State::Terminating, _, _) => WhyNot::Terminating,
        (State::Ready, _, _) => WhyNot::Hints(endpoint.hints()),
    }
}

impl WhyNot {
    /// In a few words, after a number of endpoints.
    pub(crate) fn in_short(&self) -> &'static str {
        match self {
            Self::NotReady => "not ready",
            Self::Ended | Self::Terminating => "terminating",
            Self::NoPort { .. } => "without the port",
            Self::OtherFamily(_) => "of another family",
            Self::Name => "without an address",
            Self::Headless => "of a headless Service",
            Self::NoNode | Self::UnknownNode(_) => "of no node",
            Self::Hints(_) => "for other zones or nodes",
        }
    }
}

impl fmt::Display for WhyNot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotReady => f.write_str("not ready"),
            Self::Ended => f.write_str("terminating, and does not serve any more"),
            Self::Terminating => f.write_str("terminating, and others are ready"),
            Self::NoPort { slice, ports } if ports.is_empty() => {
                write!(f, "EndpointSlice {slice} has no ports")
            }
            Self::NoPort { slice, ports } => {
                write!(f, "EndpointSlice {slice} does not have this port; it has {}", ports.join(", "))
            }
            Self::OtherFamily(family) => write!(f, "{family}, and the Service has no {family} address"),
            Self::Name => f.write_str("not an IP address: names are not balanced"),
            Self::Headless => f.write_str("the label of its EndpointSlice says that the Service is headless"),
            Self::NoNode => f.write_str("policy Local, and its EndpointSlice names no node for it"),
            Self::UnknownNode(node) => write!(f, "policy Local, and node {node} does not exist"),
            Self::Hints(hints) if hints.is_empty() => f.write_str("others are nearer to every node"),
            Self::Hints(hints) => write!(f, "its hints are for {}, and no node uses it", hints.join(" and ")),
        }
    }
}
