//! The addresses by which a Service is reached, and who gets what is sent there.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1;
use portolan_model::service::{Frontend, Service};

use crate::cluster::Snapshot;
use crate::describe::sheet::Sheet;
use crate::get::services::status::other_owner;

/// Adds a table of them.
pub(super) fn add(sheet: &mut Sheet, snapshot: &Snapshot, object: &v1::Service, service: &Service) {
    let mut rows = Vec::new();
    for (kind, addresses) in [
        ("cluster IP", &service.cluster_ips),
        ("external IP", &service.external_ips),
        ("load-balancer IP", &service.load_balancer_ips),
    ] {
        rows.extend(addresses.iter().flat_map(|address| of_address(snapshot, service, *address, kind)));
    }
    let node_ports =
        service.ports.iter().filter_map(|port| Some(format!("{}/{}", port.node_port?, port.protocol)));
    let node_ports: Vec<_> = node_ports.collect();
    if !node_ports.is_empty() {
        rows.push(["every node".into(), node_ports.join(", "), "node port".into(), "this Service".into()]);
    }
    rows.extend(by_balancer(object));
    sheet.table("Frontends", ["ADDRESS", "PORTS", "KIND", "TRAFFIC GOES TO"], rows);
}

/// An address, by who gets what is sent to its ports.
fn of_address(snapshot: &Snapshot, service: &Service, address: IpAddr, kind: &str) -> Vec<[String; 4]> {
    let mut by_owner = BTreeMap::<String, Vec<String>>::new();
    for port in &service.ports {
        let frontend = Frontend { address, protocol: port.protocol, port: port.port };
        let owner = match other_owner(snapshot, service, &frontend) {
            Some(owner) => taken_by(owner, address),
            None => own(snapshot, service, &frontend),
        };
        by_owner.entry(owner).or_default().push(format!("{}/{}", port.port, port.protocol));
    }
    let row =
        |(owner, ports): (String, Vec<String>)| [address.to_string(), ports.join(", "), kind.into(), owner];
    by_owner.into_iter().map(row).collect()
}

fn taken_by(owner: &Service, address: IpAddr) -> String {
    let why = if owner.is_cluster_ip(address) { "the cluster gave it the address" } else { "it is older" };
    format!("Service {}/{}, as {why}", owner.namespace, owner.name)
}

/// This Service; and who names the address in vain.
fn own(snapshot: &Snapshot, service: &Service, frontend: &Frontend) -> String {
    let is_other = |one: &&Service| (&one.namespace, &one.name) != (&service.namespace, &service.name);
    let others =
        snapshot.world.services().filter(is_other).filter(|one| one.frontends().any(|of| of == *frontend));
    let others: Vec<_> = others.map(|one| format!("{}/{}", one.namespace, one.name)).collect();
    match others.as_slice() {
        [] => "this Service".into(),
        others => format!("this Service, not {}, which names it too", others.join(", ")),
    }
}

/// What only the load balancer itself serves: names, and addresses that it keeps to itself.
fn by_balancer(object: &v1::Service) -> Vec<[String; 4]> {
    let is_one = object.spec.as_ref().and_then(|spec| spec.type_.as_deref()) == Some("LoadBalancer");
    let balancer = object.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let ingress = balancer.and_then(|balancer| balancer.ingress.as_ref()).into_iter().flatten();
    let ingress: Vec<_> = ingress.filter(|_| is_one).collect();
    let row =
        |address: String, goes_to: &str| [address, String::new(), "load balancer".into(), goes_to.into()];
    if is_one && ingress.is_empty() {
        return vec![row(String::new(), "nothing: no load balancer has given it an address yet")];
    }
    let rows = ingress.into_iter().filter_map(|one| match (&one.ip, &one.hostname) {
        (Some(ip), _) if one.ip_mode.as_deref() == Some("Proxy") => {
            Some(row(ip.clone(), "the load balancer itself (ipMode Proxy), which sends it on to node ports"))
        }
        (None, Some(name)) => {
            Some(row(name.clone(), "the load balancer itself, which sends it on to node ports"))
        }
        _ => None,
    });
    rows.collect()
}
