//! Where what comes in at a node goes, for a port for which nodes differ.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use portolan_model::PlacedNode;
use portolan_model::service::TrafficPolicy;

use super::listed;
use crate::describe::sheet::Sheet;
use crate::get::services::traffic::PortTraffic;

/// Adds a table for each policy under which nodes differ. Nodes with the same endpoints share a row: there may be thousands.
pub(super) fn add(sheet: &mut Sheet, port: &PortTraffic<'_>) {
    for (at, (policy, by_node)) in port.policies.iter().zip(&port.by_node).enumerate() {
        // Where nothing answers anywhere, nodes do not differ.
        let Some(by_node) = by_node.as_ref().filter(|nodes| nodes.iter().any(|(_, found)| !found.is_empty()))
        else {
            continue;
        };
        let from = match port.policies.len() {
            1 => "",
            _ if at == 0 => ", internal traffic",
            _ => ", external traffic",
        };
        let title = format!("Port {}/{} by node{from}", port.port.port, port.port.protocol);
        sheet.table(title, ["NODES", "ENDPOINTS"], rows(*policy, by_node));
    }
}

fn rows(policy: TrafficPolicy, by_node: &[(PlacedNode<'_>, Vec<SocketAddr>)]) -> Vec<[String; 2]> {
    let mut groups = BTreeMap::<&[SocketAddr], Vec<String>>::new();
    for (node, endpoints) in by_node {
        // Only hints know zones.
        let zone = node.zone.filter(|_| policy == TrafficPolicy::Cluster);
        let zone = zone.map(|zone| format!(" ({zone})")).unwrap_or_default();
        groups.entry(endpoints).or_default().push(format!("{}{zone}", node.node.name));
    }
    // What goes nowhere comes last.
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by(|a, b| (a.0.is_empty(), &a.1).cmp(&(b.0.is_empty(), &b.1)));
    let row = |(endpoints, nodes): (&[SocketAddr], Vec<String>)| {
        let endpoints: Vec<_> = endpoints.iter().map(ToString::to_string).collect();
        let text = if endpoints.is_empty() {
            "none: what comes in there is dropped".into()
        } else {
            listed(&endpoints)
        };
        [listed(&nodes), text]
    };
    groups.into_iter().map(row).collect()
}
