//! Core Kubernetes: Service and EndpointSlice.

use std::net::IpAddr;

use k8s_openapi::api::core::v1;
use k8s_openapi::api::discovery::v1 as discovery;
use kube_core::ResourceExt;
use portolan_api::cidr::{HostBits, parse_net};
use smol_str::SmolStr;

use crate::service::{
    Affinity, Endpoint, EndpointSlice, Protocol, Service, ServicePort, SlicePort, TrafficPolicy, is_reserved,
};

/// Another proxy serves a Service with this label.
pub const SERVICE_PROXY_NAME: &str = "service.kubernetes.io/service-proxy-name";
/// Set on EndpointSlices, and on the Endpoints, of headless Services; nothing balances what has it.
pub const HEADLESS: &str = "service.kubernetes.io/headless";
/// The label of an EndpointSlice that names its Service.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// How long a client keeps its endpoint, unless the Service says otherwise.
const AFFINITY_SECONDS: u32 = 10_800;

/// A Service as a value; none if it has no addresses, or another proxy is to serve it.
pub fn service(object: &v1::Service) -> Option<Service> {
    let spec = object.spec.as_ref()?;
    let is_of_others =
        object.labels().contains_key(SERVICE_PROXY_NAME) || object.labels().contains_key(HEADLESS);
    let cluster_ips = cluster_ips(spec);
    if is_of_others || spec.type_.as_deref() == Some("ExternalName") || cluster_ips.is_empty() {
        return None;
    }
    let external = spec.external_ips.iter().flatten().filter_map(|text| text.parse().ok());
    let (mut refused, external): (Vec<IpAddr>, Vec<IpAddr>) = external.partition(|one| is_reserved(*one));
    let (of_balancer, load_balancer): (Vec<IpAddr>, Vec<IpAddr>) =
        load_balancer_ips(object).partition(|one| is_reserved(*one));
    refused.extend(of_balancer);
    let is_local = |policy: &Option<String>| match policy.as_deref() {
        Some("Local") => TrafficPolicy::Local,
        _ => TrafficPolicy::Cluster,
    };
    let affinity = match spec.session_affinity.as_deref() {
        Some("ClientIP") => {
            let config = spec.session_affinity_config.as_ref().and_then(|config| config.client_ip.as_ref());
            let seconds = config.and_then(|config| config.timeout_seconds);
            Affinity::ClientIp(seconds.and_then(|n| u32::try_from(n).ok()).unwrap_or(AFFINITY_SECONDS))
        }
        _ => Affinity::None,
    };
    let ranges = spec.load_balancer_source_ranges.iter().flatten();
    Some(Service {
        namespace: object.namespace().unwrap_or_default().into(),
        name: object.name_any().into(),
        uid: object.uid().unwrap_or_default().into(),
        created: object.creation_timestamp().map(|time| time.0.as_second()),
        ports: spec.ports.iter().flatten().filter_map(service_port).collect(),
        cluster_ips,
        external_ips: external.into(),
        refused_ips: refused.into(),
        load_balancer_ips: load_balancer.into(),
        source_ranges: ranges.filter_map(|text| parse_net(text.trim(), HostBits::Mask).ok()).collect(),
        internal: is_local(&spec.internal_traffic_policy),
        external: is_local(&spec.external_traffic_policy),
        affinity,
        health_check_node_port: spec.health_check_node_port.and_then(port_number),
    })
}

/// Empty for a headless Service, and for one that has no addresses yet.
fn cluster_ips(spec: &v1::ServiceSpec) -> Box<[IpAddr]> {
    let listed = spec.cluster_ips.as_deref().unwrap_or_default();
    // The older field has the first of them.
    let texts = if listed.is_empty() { spec.cluster_ip.as_slice() } else { listed };
    texts.iter().filter_map(|text| text.parse().ok()).collect()
}

/// What comes by a `Proxy` has the address of a node, and not that of the load balancer.
fn load_balancer_ips(object: &v1::Service) -> impl Iterator<Item = IpAddr> + '_ {
    let is_one = object.spec.as_ref().and_then(|spec| spec.type_.as_deref()) == Some("LoadBalancer");
    let balancer = object.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let ingress = balancer.and_then(|balancer| balancer.ingress.as_ref()).filter(|_| is_one);
    let direct = ingress.into_iter().flatten().filter(|one| one.ip_mode.as_deref() != Some("Proxy"));
    direct.filter_map(|one| one.ip.as_deref()?.parse().ok())
}

fn service_port(port: &v1::ServicePort) -> Option<ServicePort> {
    Some(ServicePort {
        name: port.name.as_deref().unwrap_or_default().into(),
        protocol: protocol(port.protocol.as_deref())?,
        port: port_number(port.port)?,
        node_port: port.node_port.and_then(port_number),
    })
}

fn port_number(number: i32) -> Option<u16> {
    u16::try_from(number).ok().filter(|number| *number != 0)
}

fn protocol(text: Option<&str>) -> Option<Protocol> {
    match text {
        None | Some("" | "TCP") => Some(Protocol::Tcp),
        Some("UDP") => Some(Protocol::Udp),
        Some("SCTP") => Some(Protocol::Sctp),
        Some(_) => None,
    }
}

/// An EndpointSlice as a value; none if it is of no Service, or of names instead of addresses.
pub fn endpoint_slice(object: &discovery::EndpointSlice) -> Option<EndpointSlice> {
    let service = object.labels().get(SERVICE_NAME).filter(|name| !name.is_empty())?;
    if !matches!(object.address_type.as_str(), "IPv4" | "IPv6") || object.labels().contains_key(HEADLESS) {
        return None;
    }
    let port = |port: &discovery::EndpointPort| {
        Some(SlicePort {
            name: port.name.as_deref().unwrap_or_default().into(),
            protocol: protocol(port.protocol.as_deref())?,
            port: port.port.and_then(port_number)?,
        })
    };
    Some(EndpointSlice {
        namespace: object.namespace().unwrap_or_default().into(),
        name: object.name_any().into(),
        service: service.into(),
        ports: object.ports.iter().flatten().filter_map(port).collect(),
        endpoints: object.endpoints.iter().filter_map(endpoint).collect(),
    })
}

/// An endpoint that may get traffic.
fn endpoint(object: &discovery::Endpoint) -> Option<Endpoint> {
    let conditions = object.conditions.as_ref();
    // What is not said counts as ready, and what is ready serves.
    let is_ready = conditions.and_then(|conditions| conditions.ready).unwrap_or(true);
    let serves = conditions.and_then(|conditions| conditions.serving).unwrap_or(is_ready);
    let terminates = conditions.and_then(|conditions| conditions.terminating).unwrap_or(false);
    let is_terminating = !is_ready && serves && terminates;
    if !(is_ready || is_terminating) {
        return None;
    }
    let hints = object.hints.as_ref();
    let zones = hints.and_then(|hints| hints.for_zones.as_ref()).into_iter().flatten();
    let nodes = hints.and_then(|hints| hints.for_nodes.as_ref()).into_iter().flatten();
    Some(Endpoint {
        // All addresses of an endpoint lead to the same; clients use the first.
        address: object.addresses.first()?.parse().ok()?,
        is_terminating,
        node: object.node_name.as_deref().map(SmolStr::new),
        zones: zones.map(|zone| zone.name.as_str().into()).collect(),
        nodes: nodes.map(|node| node.name.as_str().into()).collect(),
    })
}
