//! Whether traffic of a Service arrives, as far as the objects say, and what is wrong.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1;
use kube::ResourceExt as _;
use portolan_api::Family;
use portolan_model::doors::service::{HEADLESS, SERVICE_NAME, SERVICE_PROXY_NAME};
use portolan_model::service::{Frontend, Service, ServicePort};

use super::endpoints::Slices;
use super::traffic::{EndpointTraffic, PortTraffic, WhyNot};
use crate::cluster::Snapshot;
use crate::get::Readiness;

/// Why Portolan does not serve a Service that the model does not have.
pub(super) fn not_served(object: &v1::Service) -> Readiness {
    let spec = object.spec.as_ref();
    if spec.and_then(|spec| spec.type_.as_deref()) == Some("ExternalName") {
        let name = spec.and_then(|spec| spec.external_name.as_deref()).unwrap_or_default();
        return Readiness::not_served(
            "ExternalName",
            format!("DNS answers with the name {name}; nothing is balanced"),
        );
    }
    if let Some(proxy) = object.labels().get(SERVICE_PROXY_NAME) {
        return Readiness::not_served(
            "OtherProxy",
            format!("its label {SERVICE_PROXY_NAME} leaves it to proxy {proxy}"),
        );
    }
    let headless = "DNS answers with the addresses of its endpoints; nothing is balanced";
    if object.labels().contains_key(HEADLESS) {
        return Readiness::not_served("Headless", format!("it has the label {HEADLESS}: {headless}"));
    }
    if spec.and_then(|spec| spec.cluster_ip.as_deref()) == Some("None") {
        return Readiness::not_served("Headless", headless);
    }
    Readiness::no("NoClusterIP", "the API server has not given it a cluster IP")
}

/// What is wrong with a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    reason: &'static str,
    pub(crate) message: String,
}

impl Problem {
    fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

/// By what is wrong: whether the traffic of a Service arrives.
pub(super) fn readiness(problems: &[Problem]) -> Readiness {
    let Some(first) = problems.first() else { return Readiness::yes() };
    let messages: Vec<_> = problems.iter().map(|problem| problem.message.as_str()).collect();
    Readiness::no(first.reason, messages.join("; "))
}

/// All that keeps traffic of a Service from its endpoints.
pub(crate) fn problems(
    snapshot: &Snapshot,
    slices: &Slices<'_>,
    object: &v1::Service,
    service: &Service,
    ports: &[PortTraffic<'_>],
) -> Vec<Problem> {
    let mut problems: Vec<_> =
        taken(snapshot, service).into_iter().map(|text| Problem::new("AddressInUse", text)).collect();
    let slices = slices.of_service(&service.namespace, &service.name);
    if slices.is_empty() {
        problems.push(Problem::new("NoEndpointSlice", no_slice(object, service)));
    } else if slices.iter().all(|slice| slice.endpoints.is_empty()) {
        problems.push(Problem::new("NoEndpoints", no_endpoints(object, service)));
    } else {
        let serves = ports.iter().flat_map(|port| &port.endpoints).any(EndpointTraffic::gets_traffic);
        let reason = if serves { "PartlyServed" } else { "NoneServes" };
        let lacking = ports.iter().flat_map(|port| lacking(object, service, port));
        problems.extend(lacking.map(|text| Problem::new(reason, text)));
    }
    problems
}

/// The addresses that it names and others have.
fn taken(snapshot: &Snapshot, service: &Service) -> Vec<String> {
    let mut taken = BTreeMap::<_, Vec<String>>::new();
    for frontend in service.frontends() {
        if let Some(other) = other_owner(snapshot, service, &frontend) {
            let key = (frontend.address, format!("{}/{}", other.namespace, other.name));
            taken.entry(key).or_default().push(format!("{}/{}", frontend.port, frontend.protocol));
        }
    }
    let text = |((address, owner), ports): ((_, String), Vec<String>)| {
        format!(
            "{address} (port {}) is Service {owner}'s, which gets what is sent there; name another address",
            ports.join(", ")
        )
    };
    taken.into_iter().map(text).collect()
}

/// The Service that gets what is sent to an address which this one names, if that is another.
pub(crate) fn other_owner<'a>(
    snapshot: &'a Snapshot,
    service: &Service,
    frontend: &Frontend,
) -> Option<&'a Service> {
    let owner = snapshot.world.service_of(frontend)?;
    (owner.namespace != service.namespace || owner.name != service.name).then_some(owner)
}

fn no_slice(object: &v1::Service, service: &Service) -> String {
    let none = format!(
        "no EndpointSlice in namespace {} has the label {SERVICE_NAME}={}",
        service.namespace, service.name
    );
    match selector(object) {
        Some(selector) => format!(
            "{none}: kube-controller-manager makes one for the pods with the labels of spec.selector ({selector}); does it run?"
        ),
        None => format!(
            "{none}, and without spec.selector none is made: set a selector, or create an EndpointSlice with this label"
        ),
    }
}

fn no_endpoints(object: &v1::Service, service: &Service) -> String {
    match selector(object) {
        Some(selector) => format!(
            "no pod with an address has the labels of spec.selector: `kubectl get pods -n {} -l {selector} -o wide`",
            service.namespace
        ),
        None => "its EndpointSlices have no endpoints, and without spec.selector nobody adds any but who created them".into(),
    }
}

/// What of a port no endpoint serves.
fn lacking(object: &v1::Service, service: &Service, port: &PortTraffic<'_>) -> Vec<String> {
    let has = |family| service.cluster_ips.iter().any(|ip| Family::of(*ip) == family);
    let families: Vec<_> = [Family::IPv4, Family::IPv6].into_iter().filter(|family| has(*family)).collect();
    let lacks = |family: &&Family| !port.of_family(**family).any(EndpointTraffic::gets_traffic);
    let lacking: Vec<_> = families.iter().filter(lacks).copied().collect();
    let label = label(port.port);
    if lacking.len() == families.len() {
        let all: Vec<_> = port.endpoints.iter().filter_map(|endpoint| endpoint.why_not()).collect();
        let hint = all
            .iter()
            .any(|why| matches!(why, WhyNot::NoPort { .. }))
            .then(|| named_target(object, port.port));
        return vec![format!("port {label}: {}{}", counted(&all), hint.flatten().unwrap_or_default())];
    }
    let text = |family: Family| {
        let all: Vec<_> = port.of_family(family).filter_map(|endpoint| endpoint.why_not()).collect();
        format!("port {label}, {family}: {}", counted(&all))
    };
    lacking.into_iter().map(text).collect()
}

/// `no endpoint gets traffic: 2 not ready, 1 terminating`.
fn counted(all: &[&WhyNot]) -> String {
    if all.is_empty() {
        return "there are no endpoints".into();
    }
    let mut counts = BTreeMap::<&str, usize>::new();
    for why in all {
        *counts.entry(why.in_short()).or_default() += 1;
    }
    let counts: Vec<_> = counts.into_iter().map(|(why, count)| format!("{count} {why}")).collect();
    format!("no endpoint gets traffic: {}", counts.join(", "))
}

/// What to check where a port of the containers is named.
fn named_target(object: &v1::Service, port: &ServicePort) -> Option<String> {
    use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
    let ports = object.spec.as_ref()?.ports.iter().flatten();
    let port = ports.into_iter().find(|one| one.name.as_deref().unwrap_or_default() == port.name)?;
    match port.target_port.as_ref()? {
        IntOrString::String(name) => {
            Some(format!("; does a container of the pods have a port named {name}, as targetPort says?"))
        }
        IntOrString::Int(_) => None,
    }
}

/// `http`, or the number of a port that has no name.
pub(crate) fn label(port: &ServicePort) -> String {
    if port.name.is_empty() { port.port.to_string() } else { port.name.to_string() }
}

/// The selector as kubectl takes it, if there is one.
pub(crate) fn selector(object: &v1::Service) -> Option<String> {
    let selector = object.spec.as_ref()?.selector.as_ref().filter(|selector| !selector.is_empty())?;
    Some(selector.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(","))
}
