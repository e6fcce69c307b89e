//! Which endpoints get the traffic of a Service's port: by the rules of kube-proxy, which are Kubernetes' own.
//!
//! | what comes | goes to |
//! |---|---|
//! | under policy `Cluster` | every ready endpoint; where none is ready, those that serve while they terminate |
//! | where all ready endpoints have hints, and some are for the node or its zone | those |
//! | under policy `Local` | the ready endpoints of the node; where none is ready, those of it that serve while they terminate |

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use portolan_api::Family;

use super::{Endpoint, EndpointSlice, ServicePort};
use crate::view::PlacedNode;

/// What may serve a port of a Service, in one family of addresses. In the order of addresses, each once: of an endpoint that is in two
/// slices while it moves, one that is ready counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Backends<'w>(Vec<Backend<'w>>);

/// An endpoint with the number of the port.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backend<'w> {
    /// Its address.
    pub address: SocketAddr,
    /// The endpoint.
    pub endpoint: &'w Endpoint,
}

impl<'w> Backends<'w> {
    /// Of a port, by the slices of its Service.
    pub fn of(
        slices: impl IntoIterator<Item = &'w EndpointSlice>,
        port: &ServicePort,
        family: Family,
    ) -> Self {
        let mut found = BTreeMap::<SocketAddr, &'w Endpoint>::new();
        for slice in slices {
            let ports = slice.ports.iter();
            let numbers = ports.filter(|of| of.name == port.name && of.protocol == port.protocol);
            for number in numbers.map(|of| of.port) {
                for endpoint in slice.endpoints.iter().filter(|one| Family::of(one.address) == family) {
                    let address = SocketAddr::new(endpoint.address, number);
                    found
                        .entry(address)
                        .and_modify(|known| {
                            if known.is_terminating {
                                *known = endpoint;
                            }
                        })
                        .or_insert(endpoint);
                }
            }
        }
        Backends(found.into_iter().map(|(address, endpoint)| Backend { address, endpoint }).collect())
    }

    /// Those under policy `Cluster`.
    pub fn anywhere(&self) -> Vec<Backend<'w>> {
        first_ready(self.0.iter())
    }

    /// Those under policy `Local` on a node.
    pub fn on(&self, node: &str) -> Vec<Backend<'w>> {
        first_ready(self.0.iter().filter(|backend| backend.endpoint.node.as_deref() == Some(node)))
    }

    /// The nodes that some of them are on.
    pub fn node_names(&self) -> BTreeSet<&'w str> {
        self.0.iter().filter_map(|backend| backend.endpoint.node.as_deref()).collect()
    }

    /// Whether which of them a client should use may follow from where it is.
    pub fn have_hints(&self) -> bool {
        let mut ready = self.ready().peekable();
        ready.peek().is_some()
            && (self.ready().all(|one| !one.nodes.is_empty()) || ready.all(|one| !one.zones.is_empty()))
    }

    /// Those that clients on a node should use: by hints, where these say something about the node.
    pub fn near(&self, place: PlacedNode<'_>) -> Vec<Backend<'w>> {
        let only = |is_near: &dyn Fn(&Endpoint) -> bool| -> Option<Vec<Backend<'w>>> {
            let near: Vec<Backend<'w>> = self
                .0
                .iter()
                .filter(|one| !one.endpoint.is_terminating && is_near(one.endpoint))
                .copied()
                .collect();
            (!near.is_empty()).then_some(near)
        };
        let by_node = || {
            let all_have = self.ready().all(|one| !one.nodes.is_empty());
            all_have.then(|| only(&|one| one.nodes.iter().any(|name| *name == *place.node.name)))?
        };
        let by_zone = || {
            let zone = place.zone?;
            let all_have = self.ready().all(|one| !one.zones.is_empty());
            all_have.then(|| only(&|one| one.zones.iter().any(|name| *name == *zone)))?
        };
        by_node().or_else(by_zone).unwrap_or_else(|| self.anywhere())
    }

    fn ready(&self) -> impl Iterator<Item = &'w Endpoint> {
        self.0.iter().map(|backend| backend.endpoint).filter(|endpoint| !endpoint.is_terminating)
    }
}

/// Those that are ready; where none is, those that serve while they terminate.
fn first_ready<'a, 'w: 'a>(all: impl Iterator<Item = &'a Backend<'w>> + Clone) -> Vec<Backend<'w>> {
    let ready: Vec<_> = all.clone().filter(|one| !one.endpoint.is_terminating).copied().collect();
    if ready.is_empty() { all.copied().collect() } else { ready }
}
