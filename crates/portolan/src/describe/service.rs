//! A Service: by which addresses it is reached, and which endpoints get what comes there.

mod by_node;
mod frontends;

use k8s_openapi::api::core::v1;
use kube::ResourceExt as _;
use portolan_model::service::{Affinity, Backends, Service, TrafficPolicy};

use super::Description;
use super::sheet::Sheet;
use crate::cluster::Snapshot;
use crate::exit::Failure;
use crate::get::services::endpoints::Slices;
use crate::get::services::status::{problems, selector};
use crate::get::services::traffic::{EndpointTraffic, PortTraffic, Share, families};
use crate::get::services::{ServiceRow, in_model};
use crate::get::{Ready, services};
use crate::near;
use crate::output::{age, now};

/// `NAME` or `NAMESPACE/NAME`.
pub(super) fn describe(snapshot: &Snapshot, name: &str, namespace: &str) -> anyhow::Result<Description> {
    let (namespace, name) = match *name.split('/').collect::<Vec<_>>().as_slice() {
        [name] if !name.is_empty() => (namespace, name),
        [namespace, name] if !namespace.is_empty() && !name.is_empty() => (namespace, name),
        _ => return Err(Failure::usage(format!("{name:?} is no Service; write NAME or NAMESPACE/NAME"))),
    };
    let is_it = |one: &&v1::Service| one.namespace().as_deref() == Some(namespace) && one.name_any() == name;
    match snapshot.lists.services.iter().find(is_it) {
        Some(object) => Ok(describe_one(snapshot, object)),
        None => Err(missing(snapshot, namespace, name)),
    }
}

fn missing(snapshot: &Snapshot, namespace: &str, name: &str) -> anyhow::Error {
    let all: Vec<_> = snapshot
        .lists
        .services
        .iter()
        .map(|one| (one.namespace().unwrap_or_default(), one.name_any()))
        .collect();
    let elsewhere: Vec<_> =
        all.iter().filter(|one| one.1 == name).map(|one| format!("{}/{name}", one.0)).collect();
    let here: Vec<_> = all.iter().filter(|one| one.0 == namespace).map(|one| one.1.as_str()).collect();
    let hint = if !elsewhere.is_empty() {
        format!("; did you mean {}?", elsewhere.join(" or "))
    } else if here.is_empty() {
        let namespaces = near::suggest(namespace, all.iter().map(|one| one.0.as_str()));
        format!("; namespace {namespace:?} has no Services{namespaces}")
    } else {
        near::suggest(name, here)
    };
    Failure::not_found(format!("service {:?} does not exist{hint}", format!("{namespace}/{name}")))
}

fn describe_one(snapshot: &Snapshot, object: &v1::Service) -> Description {
    let slices = Slices::of(snapshot);
    let row = services::row(snapshot, &slices, object);
    let mut sheet = Sheet::new(format!("Service {}/{}: {}", row.namespace, row.name, row.kind));
    sheet.field("Ready", row.readiness.word());
    sheet.field("Age", age(row.created, now()));
    let service = in_model(snapshot, object);
    if service.is_some() {
        sheet.field("Served by", served_by(snapshot));
    }
    let none = service.map(|_| "none: whoever creates its EndpointSlices says what serves it");
    sheet.field("Selector", selector(object).or(none.map(str::to_owned)).unwrap_or_default());
    match service {
        Some(service) => of_served(&mut sheet, snapshot, &slices, object, service),
        None => of_others(&mut sheet, &row),
    }
    Description { sheet, uid: object.uid() }
}

/// Of one that has addresses of its own.
fn of_served(
    sheet: &mut Sheet,
    snapshot: &Snapshot,
    slices: &Slices<'_>,
    object: &v1::Service,
    service: &Service,
) {
    sheet.field("Internal traffic", internal(service.internal));
    if service.is_reached_from_outside() {
        sheet.field("External traffic", external(service));
    }
    if !service.source_ranges.is_empty() {
        let ranges: Vec<_> = service.source_ranges.iter().map(ToString::to_string).collect();
        sheet.field(
            "Source ranges",
            format!("{}: nobody else reaches the addresses of the load balancer", ranges.join(", ")),
        );
    }
    sheet.field("Hints", hints(snapshot, object, service));
    sheet.field("Affinity", affinity(service.affinity));
    if let Some(port) = service.health_check_node_port.filter(|_| service.keeps_outside_on_node()) {
        sheet.field("Health check", format!("port {port} of every node"));
    }
    frontends::add(sheet, snapshot, object, service);
    let ports = PortTraffic::of(snapshot, slices, service);
    for port in &ports {
        endpoints(sheet, snapshot, port);
        by_node::add(sheet, port);
    }
    let problems = problems(snapshot, slices, object, service, &ports);
    if !problems.is_empty() {
        sheet.lines("Problems", problems.into_iter().map(|problem| problem.message));
    }
}

/// Of one that Portolan leaves to others.
fn of_others(sheet: &mut Sheet, row: &ServiceRow) {
    sheet.field("Cluster IPs", row.cluster_ips.join(", "));
    sheet.field("External", row.external.join(", "));
    let ports: Vec<_> = row.ports.iter().map(services::PortRow::text).collect();
    sheet.field("Ports", ports.join(", "));
    let title = if row.readiness.ready == Ready::NotServed { "Not served by Portolan" } else { "Problems" };
    sheet.lines(title, [row.readiness.message.clone()]);
}

/// Who serves Services here, as far as the objects say.
fn served_by(snapshot: &Snapshot) -> &'static str {
    let is_primary = snapshot.world.nodes().any(|node| node.agent_is_primary == Some(true));
    match is_primary {
        true => "Portolan, if its controller has --service-cidr; another proxy otherwise",
        false => "another proxy: no node says that Portolan is its primary network",
    }
}

fn internal(policy: TrafficPolicy) -> &'static str {
    match policy {
        TrafficPolicy::Cluster => "policy Cluster: to endpoints on any node",
        TrafficPolicy::Local => {
            "policy Local: what comes to a cluster IP goes to endpoints on the node that it comes from, and is dropped where there are none"
        }
    }
}

fn external(service: &Service) -> &'static str {
    match service.external {
        TrafficPolicy::Cluster => "policy Cluster: to endpoints on any node",
        TrafficPolicy::Local => {
            "policy Local: to endpoints on the node where it comes in, and dropped where there are none; what pods send to an address \
             of the outside goes to endpoints on any node"
        }
    }
}

/// Whether the hints of endpoints count, if any has some.
fn hints(snapshot: &Snapshot, object: &v1::Service, service: &Service) -> String {
    let spec = object.spec.as_ref();
    let distribution = spec.and_then(|spec| spec.traffic_distribution.as_ref());
    let slices = || snapshot.world.endpoint_slices_of(service);
    let some_have =
        slices().flat_map(|slice| &slice.endpoints).any(|one| !one.zones.is_empty() || !one.nodes.is_empty());
    let count = service.ports.iter().any(|port| {
        families(service).into_iter().any(|family| Backends::of(slices(), port, family).have_hints())
    });
    let meaning = match (count, some_have) {
        (true, _) => "they count: clients use endpoints for their node or zone, where there are such",
        (false, true) => "they do not count: not every ready endpoint has them",
        (false, false) if distribution.is_some() => "no endpoint has any yet",
        (false, false) => return String::new(),
    };
    let distribution = distribution.map(|text| format!(" (trafficDistribution {text})"));
    format!("{meaning}{}", distribution.unwrap_or_default())
}

fn affinity(affinity: Affinity) -> String {
    match affinity {
        Affinity::None => String::new(),
        Affinity::ClientIp(seconds) => format!(
            "ClientIP: a client keeps its endpoint for as long as the endpoints stay the same; the timeout of {seconds} s has no effect \
             with OVN 23.03"
        ),
    }
}

/// Every endpoint of a port, with what it gets.
fn endpoints(sheet: &mut Sheet, snapshot: &Snapshot, port: &PortTraffic<'_>) {
    let of = port.port;
    let name = if of.name.is_empty() { String::new() } else { format!(" ({})", of.name) };
    let (serving, all) =
        (port.endpoints.iter().filter(|one| one.gets_traffic()).count(), port.endpoints.len());
    let port_text = format!("Port {}/{}{name}", of.port, of.protocol);
    if port.endpoints.is_empty() {
        sheet.lines(port_text, ["no endpoints: who connects is refused".to_owned()]);
        return;
    }
    let title = format!("{port_text}: {serving} of {all} endpoints get traffic");
    let place = |one: &EndpointTraffic<'_>| {
        let node = one.endpoint.node().unwrap_or_default().to_owned();
        let zone = one.endpoint.endpoint.zone.clone();
        let zone = zone.or_else(|| snapshot.world.node(&node)?.zone.clone()).unwrap_or_default();
        [one.endpoint.at(), one.endpoint.target(), node, zone]
    };
    match port.policies.as_slice() {
        [_, _, ..] => {
            let rows = port.endpoints.iter().map(|one| {
                let [address, pod, node, zone] = place(one);
                let share = |at: usize| one.shares.get(at).map(share).unwrap_or_default();
                [address, pod, node, zone, share(0), share(1)]
            });
            sheet.table(title, ["ENDPOINT", "POD", "NODE", "ZONE", "INTERNAL", "EXTERNAL"], rows.collect());
        }
        _ => {
            let rows = port.endpoints.iter().map(|one| {
                let [address, pod, node, zone] = place(one);
                [address, pod, node, zone, one.shares.first().map(share).unwrap_or_default()]
            });
            sheet.table(title, ["ENDPOINT", "POD", "NODE", "ZONE", "TRAFFIC"], rows.collect());
        }
    }
}

fn share(share: &Share) -> String {
    match share {
        Share::Everywhere => "yes".into(),
        Share::AtNodes(nodes) => format!("of {}", listed(nodes)),
        Share::Nothing(why) => format!("no: {why}"),
    }
}

/// Some of them, and how many more there are.
fn listed(all: &[String]) -> String {
    const MOST: usize = 6;
    match all.len().saturating_sub(MOST) {
        0 | 1 => all.join(", "),
        more => format!("{} and {more} more", all[..MOST].join(", ")),
    }
}
