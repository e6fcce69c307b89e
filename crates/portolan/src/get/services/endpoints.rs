//! The endpoints of a Service as its EndpointSlices have them, also those that never get traffic.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use k8s_openapi::api::discovery::v1 as discovery;
use kube::ResourceExt as _;
use portolan_api::Family;
use portolan_model::doors::service::{HEADLESS, SERVICE_NAME};
use portolan_model::service::{Service, ServicePort};

use crate::cluster::Snapshot;

/// An endpoint at a port of its Service.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Candidate<'a> {
    /// Its address as the slice has it.
    pub(crate) address: &'a str,
    pub(crate) ip: Option<IpAddr>,
    /// The number of the port there; none if the slice does not have the port.
    pub(crate) number: Option<u16>,
    pub(crate) slice: &'a discovery::EndpointSlice,
    pub(crate) endpoint: &'a discovery::Endpoint,
}

/// How far an endpoint can take connections, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    Ready,
    /// It is about to end, and serves until it does.
    Terminating,
    /// It is about to end, and does not serve any more.
    Ended,
    NotReady,
}

impl Candidate<'_> {
    pub(crate) fn state(&self) -> State {
        let conditions = self.endpoint.conditions.as_ref();
        // What is not said counts as ready, and what is ready serves.
        let is_ready = conditions.and_then(|conditions| conditions.ready).unwrap_or(true);
        let serves = conditions.and_then(|conditions| conditions.serving).unwrap_or(is_ready);
        let terminates = conditions.and_then(|conditions| conditions.terminating).unwrap_or(false);
        match (is_ready, terminates, serves) {
            (true, _, _) => State::Ready,
            (false, true, true) => State::Terminating,
            (false, true, false) => State::Ended,
            (false, false, _) => State::NotReady,
        }
    }

    /// The family of its address; none of a name.
    pub(crate) fn family(&self) -> Option<Family> {
        let has_addresses = matches!(self.slice.address_type.as_str(), "IPv4" | "IPv6");
        self.ip.filter(|_| has_addresses).map(Family::of)
    }

    /// What backends are told apart by.
    pub(crate) fn socket(&self) -> Option<SocketAddr> {
        Some(SocketAddr::new(self.ip?, self.number?))
    }

    pub(crate) fn node(&self) -> Option<&str> {
        self.endpoint.node_name.as_deref()
    }

    /// Whether its slice says that it is of a headless Service.
    pub(crate) fn is_of_headless(&self) -> bool {
        self.slice.labels().contains_key(HEADLESS)
    }

    /// The address with the port, if that is known.
    pub(crate) fn at(&self) -> String {
        match (self.socket(), self.number) {
            (Some(socket), _) => socket.to_string(),
            (None, Some(number)) => format!("{}:{number}", self.address),
            (None, None) => self.address.to_owned(),
        }
    }

    /// `web-1` for a pod, the kind with the name for anything else.
    pub(crate) fn target(&self) -> String {
        let Some(target) = &self.endpoint.target_ref else { return String::new() };
        let name = target.name.as_deref().unwrap_or_default();
        match target.kind.as_deref() {
            None | Some("Pod") => name.to_owned(),
            Some(kind) => format!("{kind} {name}"),
        }
    }

    /// Where the clients are that should use it: `zone east`, `node n1`.
    pub(crate) fn hints(&self) -> Vec<String> {
        let hints = self.endpoint.hints.as_ref();
        let zones = hints.and_then(|hints| hints.for_zones.as_ref()).into_iter().flatten();
        let nodes = hints.and_then(|hints| hints.for_nodes.as_ref()).into_iter().flatten();
        let nodes = nodes.map(|node| format!("node {}", node.name));
        zones.map(|zone| format!("zone {}", zone.name)).chain(nodes).collect()
    }

    /// The names and numbers of the ports that the slice has: `http (TCP 8080)`.
    pub(crate) fn ports(&self) -> Vec<String> {
        let ports = self.slice.ports.iter().flatten();
        ports
            .map(|port| {
                let name = port.name.as_deref().filter(|name| !name.is_empty()).unwrap_or("without a name");
                let protocol = port.protocol.as_deref().unwrap_or("TCP");
                let number = port.port.map(|number| format!(" {number}")).unwrap_or_default();
                format!("{name} ({protocol}{number})")
            })
            .collect()
    }
}

/// EndpointSlices by the namespace and name of their Service, which their label has: there may be many, and each Service asks for its own.
pub(crate) struct Slices<'a>(BTreeMap<&'a str, BTreeMap<&'a str, Vec<&'a discovery::EndpointSlice>>>);

impl<'a> Slices<'a> {
    pub(crate) fn of(snapshot: &'a Snapshot) -> Self {
        let mut slices = BTreeMap::<&str, BTreeMap<&str, Vec<_>>>::new();
        for slice in &snapshot.lists.endpoint_slices {
            if let (Some(namespace), Some(service)) =
                (&slice.metadata.namespace, slice.labels().get(SERVICE_NAME))
            {
                slices.entry(namespace).or_default().entry(service).or_default().push(slice);
            }
        }
        Self(slices)
    }

    pub(crate) fn of_service(&self, namespace: &str, name: &str) -> &[&'a discovery::EndpointSlice] {
        self.0.get(namespace).and_then(|slices| slices.get(name)).map(Vec::as_slice).unwrap_or_default()
    }

    /// All endpoints of a Service at one of its ports, in the order of addresses and each once: of one that is in two slices while it
    /// moves, what the better of them says.
    pub(crate) fn candidates(&self, service: &Service, port: &ServicePort) -> Vec<Candidate<'a>> {
        let mut found = BTreeMap::<(Option<IpAddr>, &str, Option<u16>), Candidate<'a>>::new();
        for slice in self.of_service(&service.namespace, &service.name) {
            let numbers = numbers(slice, port);
            for endpoint in &slice.endpoints {
                // All addresses of an endpoint lead to the same; clients use the first.
                let Some(address) = endpoint.addresses.first() else { continue };
                let ip = address.parse().ok();
                for number in &numbers {
                    let one = Candidate { address, ip, number: *number, slice, endpoint };
                    let known = found.entry((ip, address, *number)).or_insert_with(|| one.clone());
                    if one.state() < known.state() {
                        *known = one;
                    }
                }
            }
        }
        // Where one slice has the port, another without it says nothing more.
        let have_port: BTreeSet<&str> =
            found.values().filter(|one| one.number.is_some()).map(|one| one.address).collect();
        found.into_values().filter(|one| one.number.is_some() || !have_port.contains(one.address)).collect()
    }
}

/// The numbers of a port at the endpoints of a slice; one unknown number if the slice does not have the port.
fn numbers(slice: &discovery::EndpointSlice, port: &ServicePort) -> Vec<Option<u16>> {
    let is_it = |one: &&discovery::EndpointPort| {
        let protocol = one.protocol.as_deref().filter(|protocol| !protocol.is_empty()).unwrap_or("TCP");
        one.name.as_deref().unwrap_or_default() == port.name && protocol == port.protocol.to_string()
    };
    let numbers = slice.ports.iter().flatten().filter(is_it).filter_map(|one| u16::try_from(one.port?).ok());
    let numbers: Vec<_> = numbers.filter(|number| *number != 0).map(Some).collect();
    if numbers.is_empty() { vec![None] } else { numbers }
}
