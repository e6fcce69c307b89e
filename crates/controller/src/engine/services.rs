//! What is wrong with Services that Portolan serves: Events of the Service say it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use portolan_api::Family;
use portolan_model::service::{Frontend, Service};
use portolan_model::{Unit, World};
use portolan_plan::service_addresses::{self, node_local_frontend};

use super::reports::{Problem, Topic};
use super::{Engine, Subject};

/// The reasons of the Events.
const IN_USE: &str = "AddressInUse";
const NOT_ROUTED: &str = "ClusterIPNotRouted";
const NO_ROOM: &str = "TooManyPorts";
const RESERVED: &str = "AddressReserved";

impl Engine {
    /// Reports what of a Service cannot be served, which its unit depends on.
    pub(super) fn report_service_of_unit(&mut self, unit: &Unit) {
        let Unit::Service { namespace, name } = unit else { return };
        let Some(service) = self.world.service(namespace, name) else { return };
        let mut problems = taken(service, &self.world);
        problems.extend(not_routed(service, &self.plan_settings.service_cidrs));
        problems.extend(without_room(service));
        problems.extend(reserved(service));
        let uid = service.uid.to_string();
        self.report(Subject::of_service(namespace, name), uid, Topic::Frontends, problems);
    }
}

/// The addresses that others have.
fn taken(service: &Service, world: &World) -> Vec<Problem> {
    let mut by_whom = BTreeMap::<(IpAddr, String), Vec<String>>::new();
    for frontend in service.frontends() {
        let Frontend { address, protocol, port } = frontend;
        let other = world.service_of(&frontend).filter(|other| other.uid != service.uid);
        if let Some(other) = other {
            let whose = format!("{}/{}", other.namespace, other.name);
            by_whom.entry((address, whose)).or_default().push(format!("{protocol} {port}"));
        }
    }
    let problem = |((address, whose), ports): ((IpAddr, String), Vec<String>)| {
        let ports = ports.join(", ");
        let message = format!(
            "{address} leads to Service {whose} at {ports}, whose cluster IP it is or which was there before: remove it from externalIPs, \
             or from the status of the load balancer, of one of the two"
        );
        (IN_USE, message)
    };
    by_whom.into_iter().map(problem).collect()
}

/// Cluster IPs that nodes do not send to OVN.
fn not_routed<'a>(service: &'a Service, networks: &'a [IpNet]) -> impl Iterator<Item = Problem> + 'a {
    let outside =
        service.cluster_ips.iter().filter(|address| !networks.iter().any(|net| net.contains(*address)));
    outside.map(|address| {
        let message = format!(
            "cluster IP {address} is in none of the networks of Services that controllers and agents were told: nodes, and clients outside, do \
             not reach it; give both its network, by --service-cidr and --service-network"
        );
        (NOT_ROUTED, message)
    })
}

/// Addresses that no Service may have.
fn reserved(service: &Service) -> impl Iterator<Item = Problem> + '_ {
    service.refused_ips.iter().map(|address| {
        let message = format!(
            "{address} is link-local or reserved for what nodes serve themselves, and does not lead to this Service: remove it from externalIPs, \
             or from the status of the load balancer"
        );
        (RESERVED, message)
    })
}

/// Ports that clients outside cannot reach under policy Local, for want of addresses.
fn without_room(service: &Service) -> Option<Problem> {
    let has_no_room = |at: usize| {
        service.health_check_node_port.is_some() && node_local_frontend(service, at, Family::IPv4).is_none()
    };
    let first = (0..service.ports.len()).find(|at| service.keeps_outside_on_node() && has_no_room(*at))?;
    let message = format!(
        "spec.ports[{first}] and those after it are not reached from outside: with externalTrafficPolicy Local and without node ports a Service \
         may have {} ports; set allocateLoadBalancerNodePorts",
        service_addresses::PORTS_WITHOUT_NODE_PORT
    );
    Some((NO_ROOM, message))
}
