//! Services, with how many of their endpoints get traffic.

pub(crate) mod endpoints;
pub(crate) mod status;
pub(crate) mod traffic;

use k8s_openapi::api::core::v1;
use kube::ResourceExt as _;
use portolan_api::Family;
use portolan_model::service::Service;
use serde::Serialize;

use self::endpoints::Slices;
use self::traffic::{PortTraffic, families};
use super::{Format, Readiness, Ready, Row};
use crate::cluster::{Snapshot, created};
use crate::output::age;

/// A Service.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServiceRow {
    pub(crate) namespace: String,
    pub(crate) name: String,
    #[serde(skip)]
    full_name: String,
    #[serde(skip)]
    pub(crate) uid: Option<String>,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    #[serde(rename = "clusterIPs")]
    pub(crate) cluster_ips: Vec<String>,
    /// Addresses and names by which it is reached from outside, or the name that it stands for.
    pub(crate) external: Vec<String>,
    pub(crate) ports: Vec<PortRow>,
    #[serde(flatten)]
    pub(crate) readiness: Readiness,
    pub(crate) internal_traffic_policy: Option<String>,
    pub(crate) external_traffic_policy: Option<String>,
    pub(crate) session_affinity: Option<String>,
    #[serde(serialize_with = "super::timestamp")]
    pub(crate) created: Option<i64>,
}

/// A port of a Service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PortRow {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    pub(crate) protocol: String,
    pub(crate) port: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) node_port: Option<i32>,
    /// Of each family of the Service's addresses.
    pub(crate) endpoints: Vec<EndpointsRow>,
}

/// The endpoints of a port, of one family.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct EndpointsRow {
    pub(crate) family: Family,
    /// Those that get traffic, from some node at least.
    pub(crate) serving: usize,
    pub(crate) all: usize,
}

/// All Services, or those of a namespace.
pub(crate) fn rows(snapshot: &Snapshot, namespace: Option<&str>) -> Vec<ServiceRow> {
    let slices = Slices::of(snapshot);
    let all = snapshot.lists.services.iter();
    let shown =
        all.filter(|one| namespace.is_none_or(|namespace| one.namespace().as_deref() == Some(namespace)));
    let mut rows: Vec<_> = shown.map(|service| row(snapshot, &slices, service)).collect();
    rows.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    rows
}

/// What the model has of a Service: nothing of one that Portolan does not serve.
pub(crate) fn in_model<'a>(snapshot: &'a Snapshot, object: &v1::Service) -> Option<&'a Service> {
    snapshot.world.service(object.metadata.namespace.as_deref()?, object.metadata.name.as_deref()?)
}

/// One Service.
pub(crate) fn row(snapshot: &Snapshot, slices: &Slices<'_>, object: &v1::Service) -> ServiceRow {
    let service = in_model(snapshot, object);
    let traffic = service.map(|service| PortTraffic::of(snapshot, slices, service)).unwrap_or_default();
    let readiness = match service {
        _ if object.metadata.deletion_timestamp.is_some() => Readiness {
            ready: Ready::Terminating,
            message: "it is being deleted".into(),
            ..Readiness::default()
        },
        Some(service) => status::readiness(&status::problems(snapshot, slices, object, service, &traffic)),
        None => status::not_served(object),
    };
    let spec = object.spec.clone().unwrap_or_default();
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let cluster_ips = spec.cluster_ips.filter(|ips| !ips.is_empty());
    let cluster_ips = cluster_ips.unwrap_or_else(|| spec.cluster_ip.into_iter().collect());
    ServiceRow {
        full_name: format!("{namespace}/{name}"),
        namespace,
        name,
        uid: object.uid(),
        kind: spec.type_.unwrap_or_else(|| "ClusterIP".into()),
        cluster_ips: cluster_ips.into_iter().filter(|ip| !ip.is_empty()).collect(),
        external: external(object),
        ports: spec.ports.iter().flatten().map(|port| port_row(port, service, &traffic)).collect(),
        readiness,
        internal_traffic_policy: spec.internal_traffic_policy,
        external_traffic_policy: spec.external_traffic_policy,
        session_affinity: spec.session_affinity,
        created: created(object),
    }
}

/// What others than the cluster gave it, or the name that it stands for.
fn external(object: &v1::Service) -> Vec<String> {
    let spec = object.spec.iter();
    let named = spec.flat_map(|spec| spec.external_ips.iter().flatten().chain(&spec.external_name).cloned());
    let balancer = object.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let ingress = balancer.and_then(|balancer| balancer.ingress.as_ref()).into_iter().flatten();
    named.chain(ingress.filter_map(|one| one.ip.clone().or_else(|| one.hostname.clone()))).collect()
}

fn port_row(port: &v1::ServicePort, service: Option<&Service>, traffic: &[PortTraffic<'_>]) -> PortRow {
    let protocol = port.protocol.clone().filter(|protocol| !protocol.is_empty());
    let protocol = protocol.unwrap_or_else(|| "TCP".into());
    let name = port.name.clone().filter(|name| !name.is_empty());
    let is_it = |one: &&PortTraffic<'_>| {
        one.port.name == name.as_deref().unwrap_or_default() && one.port.protocol.to_string() == protocol
    };
    let endpoints = traffic.iter().find(is_it).into_iter().flat_map(|traffic| {
        service.into_iter().flat_map(families).map(|family| EndpointsRow {
            family,
            serving: traffic.of_family(family).filter(|one| one.gets_traffic()).count(),
            all: traffic.of_family(family).count(),
        })
    });
    PortRow { endpoints: endpoints.collect(), name, protocol, port: port.port, node_port: port.node_port }
}

impl PortRow {
    /// As kubectl has it: `80:30080/TCP`.
    pub(crate) fn text(&self) -> String {
        let node_port = self.node_port.filter(|port| *port != 0).map(|port| format!(":{port}"));
        format!("{}{}/{}", self.port, node_port.unwrap_or_default(), self.protocol)
    }
}

/// `2/3`; by port and family where these differ.
fn endpoints(ports: &[PortRow]) -> String {
    let text = |row: &EndpointsRow| format!("{}/{}", row.serving, row.all);
    let same = |rows: &[EndpointsRow]| {
        let mut texts: Vec<_> = rows.iter().map(text).collect();
        texts.dedup();
        (texts.len() == 1).then(|| texts.swap_remove(0))
    };
    let all: Vec<_> = ports.iter().flat_map(|port| port.endpoints.clone()).collect();
    if let Some(text) = same(&all) {
        return text;
    }
    let of_port = |port: &PortRow| {
        let label = match ports {
            [_] => String::new(),
            _ => format!("{}:", port.name.clone().unwrap_or_else(|| port.port.to_string())),
        };
        match same(&port.endpoints) {
            Some(text) => vec![format!("{label}{text}")],
            None => port.endpoints.iter().map(|row| format!("{label}{}:{}", row.family, text(row))).collect(),
        }
    };
    ports.iter().flat_map(of_port).collect::<Vec<_>>().join(",")
}

impl Row for ServiceRow {
    const WHAT: &'static str = "service";

    fn columns(format: Format) -> Vec<&'static str> {
        let mut columns = if format.namespaces { vec!["NAMESPACE"] } else { Vec::new() };
        columns.extend(["NAME", "TYPE", "CLUSTER-IP", "PORTS", "ENDPOINTS", "READY"]);
        if format.wide {
            columns.extend(["EXTERNAL", "POLICY", "AFFINITY", "AGE", "MESSAGE"]);
        }
        columns
    }

    fn cells(&self, format: Format) -> Vec<String> {
        let mut cells = if format.namespaces { vec![self.namespace.clone()] } else { Vec::new() };
        cells.extend([
            self.name.clone(),
            self.kind.clone(),
            self.cluster_ips.join(","),
            self.ports.iter().map(PortRow::text).collect::<Vec<_>>().join(","),
            endpoints(&self.ports),
            self.readiness.word(),
        ]);
        if format.wide {
            cells.extend([
                self.external.join(","),
                self.policies(),
                self.session_affinity.clone().filter(|affinity| affinity != "None").unwrap_or_default(),
                age(self.created, format.now),
                self.readiness.message.clone(),
            ]);
        }
        cells
    }

    fn names(&self) -> Vec<&str> {
        vec![&self.name]
    }

    /// As `portolan describe service` takes it.
    fn full_name(&self) -> String {
        self.full_name.clone()
    }

    fn uid(&self) -> Option<&str> {
        self.uid.as_deref()
    }
}

impl ServiceRow {
    /// The policies that are not `Cluster`.
    fn policies(&self) -> String {
        let is_local = |policy: &Option<String>| policy.as_deref() == Some("Local");
        let internal = is_local(&self.internal_traffic_policy).then_some("internal:Local");
        let external = is_local(&self.external_traffic_policy).then_some("external:Local");
        internal.into_iter().chain(external).collect::<Vec<_>>().join(",")
    }
}
