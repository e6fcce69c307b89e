//! Services and their endpoints.

use std::collections::BTreeSet;

use portolan_api::Family;

use super::{Name, World};
use crate::dirty::Dirty;
use crate::node::Node;
use crate::service::{Backends, EndpointSlice, Frontend, Service, TrafficPolicy};
use crate::subnet::DEFAULT_VPC;
use crate::unit::{Unit, UnitState};
use crate::view::{ChassisView, NodeRef, PlacedNode, ServiceView};

impl World {
    pub(super) fn set_service(&mut self, key: &Name, new: Option<Service>, dirty: &mut Dirty) {
        let old = self.services.get(&key.0, &key.1);
        if old == new.as_ref() {
            return;
        }
        let frontends = |service: Option<&Service>| -> BTreeSet<Frontend> {
            service.into_iter().flat_map(Service::frontends).collect()
        };
        let (before, after) = (frontends(old), frontends(new.as_ref()));
        let age = |service: Option<&Service>| service.map(|one| (one.uid.clone(), one.created));
        let is_another = age(old) != age(new.as_ref());
        let kinds = |service: Option<&Service>| service.map(|one| one.cluster_ips.clone());
        let ranks_change = is_another || kinds(old) != kinds(new.as_ref());
        for gone in before.difference(&after) {
            self.service_indexes.by_frontend.remove(gone, key);
        }
        for come in after.difference(&before) {
            self.service_indexes.by_frontend.insert(*come, key.clone());
        }
        match new {
            Some(service) => self.services.insert(&key.0, service),
            None => self.services.remove(&key.0, &key.1),
        }
        self.index_per_node(key);
        dirty.units.insert(service_unit(key));
        // Who else wants one of these may get it, or lose it.
        let contested =
            before.union(&after).filter(|one| ranks_change || !(before.contains(one) && after.contains(one)));
        for frontend in contested {
            dirty.units.extend(self.service_indexes.by_frontend.get(frontend).map(service_unit));
        }
    }

    pub(super) fn set_endpoint_slice(&mut self, key: &Name, new: Option<EndpointSlice>, dirty: &mut Dirty) {
        let old = self.endpoint_slices.get(&key.0, &key.1);
        if old == new.as_ref() {
            return;
        }
        let service = |slice: Option<&EndpointSlice>| {
            slice.map(|slice| (slice.namespace.to_string(), slice.service.to_string()))
        };
        let (before, after) = (service(old), service(new.as_ref()));
        if let Some(before) = &before {
            self.service_indexes.slices.remove(before, &key.1);
        }
        if let Some(after) = &after {
            self.service_indexes.slices.insert(after.clone(), key.1.clone());
        }
        match new {
            Some(slice) => self.endpoint_slices.insert(&key.0, slice),
            None => self.endpoint_slices.remove(&key.0, &key.1),
        }
        for service in before.into_iter().chain(after) {
            self.index_per_node(&service);
            dirty.units.insert(service_unit(&service));
        }
    }

    /// A node came, went, or is somewhere else: what Services have for each node follows.
    pub(super) fn note_services_of_nodes(
        &self,
        name: &str,
        before: Option<&Node>,
        after: Option<&Node>,
        dirty: &mut Dirty,
    ) {
        if self.primary_vpc.is_none() {
            return;
        }
        if before.map(placed) != after.map(placed) {
            dirty.units.extend(self.service_indexes.per_node.iter().map(service_unit));
        }
        let chassis = |node: Option<&Node>| node.map(|node| (node.uid.clone(), node.chassis.clone()));
        if chassis(before) != chassis(after) {
            dirty.units.insert(Unit::Chassis(name.to_owned()));
        }
    }

    pub(super) fn chassis_state(&self, node: &str) -> UnitState {
        match self.primary_vpc.as_ref().and_then(|_| self.nodes.get(node)) {
            Some(_) => UnitState::Live,
            None => UnitState::Absent,
        }
    }

    /// The chassis of a node to be planned.
    pub fn chassis_view(&self, node: &str) -> Option<ChassisView<'_>> {
        self.primary_vpc.as_ref()?;
        let node = self.nodes.get(node)?;
        Some(ChassisView { node: NodeRef { name: &node.name, uid: &node.uid }, chassis: &node.chassis })
    }

    pub(super) fn chassis_units(&self) -> impl Iterator<Item = Unit> {
        let nodes = self.nodes.keys().filter(|_| self.primary_vpc.is_some());
        nodes.cloned().map(Unit::Chassis)
    }

    fn index_per_node(&mut self, key: &Name) {
        let differs = self.service(&key.0, &key.1).is_some_and(|service| self.differs_per_node(service));
        match differs {
            true => self.service_indexes.per_node.insert(key.clone()),
            false => self.service_indexes.per_node.remove(key),
        };
    }

    /// Whether where its traffic goes depends on the node where that comes in.
    fn differs_per_node(&self, service: &Service) -> bool {
        let families = [Family::IPv4, Family::IPv6];
        service.internal == TrafficPolicy::Local
            || service.keeps_outside_on_node()
            || service.ports.iter().any(|port| {
                families
                    .iter()
                    .any(|family| Backends::of(self.endpoint_slices_of(service), port, *family).have_hints())
            })
    }

    /// A Service that has addresses of its own.
    pub fn service(&self, namespace: &str, name: &str) -> Option<&Service> {
        self.services.get(namespace, name)
    }

    /// The Services that have addresses of their own, by namespace and name.
    pub fn services(&self) -> impl Iterator<Item = &Service> {
        self.services.iter()
    }

    /// Where the traffic of a Service may go.
    pub fn endpoint_slices_of<'w>(&'w self, service: &Service) -> impl Iterator<Item = &'w EndpointSlice> {
        let key = (service.namespace.to_string(), service.name.to_string());
        self.service_indexes.slices.get(&key).filter_map(move |name| self.endpoint_slices.get(&key.0, name))
    }

    /// The Service that is reached by an address and port: the one that the cluster gave the address to, or else the oldest that names it.
    pub fn service_of(&self, frontend: &Frontend) -> Option<&Service> {
        let claimants = self.service_indexes.by_frontend.get(frontend);
        let claimants = claimants.filter_map(|(namespace, name)| self.service(namespace, name));
        claimants.min_by_key(|service| {
            let is_named = !service.is_cluster_ip(frontend.address);
            (is_named, service.created.unwrap_or(i64::MAX), &service.uid)
        })
    }

    pub(super) fn service_state(&self, namespace: &str, name: &str) -> UnitState {
        match self.primary_vpc.as_ref().and_then(|_| self.service(namespace, name)) {
            Some(_) => UnitState::Live,
            None => UnitState::Absent,
        }
    }

    /// A Service to be planned.
    pub fn service_view(&self, namespace: &str, name: &str) -> Option<ServiceView<'_>> {
        self.primary_vpc.as_ref()?;
        let (service, vpc) = (self.service(namespace, name)?, self.vpc_of_subnets(DEFAULT_VPC)?);
        let is_ours = |frontend: &Frontend| {
            self.service_of(frontend)
                .is_some_and(|of| of.namespace == service.namespace && of.name == service.name)
        };
        let per_node = self.service_indexes.per_node.contains(&(namespace.to_owned(), name.to_owned()));
        Some(ServiceView {
            service,
            vpc: self.vpc_ref(vpc),
            frontends: service.frontends().filter(is_ours).collect(),
            slices: self.endpoint_slices_of(service).collect(),
            nodes: if per_node { self.nodes.values().map(placed).collect() } else { Vec::new() },
        })
    }
}

fn placed(node: &Node) -> PlacedNode<'_> {
    PlacedNode { node: NodeRef { name: &node.name, uid: &node.uid }, zone: node.zone.as_deref() }
}

fn service_unit((namespace, name): &Name) -> Unit {
    Unit::Service { namespace: namespace.clone(), name: name.clone() }
}
