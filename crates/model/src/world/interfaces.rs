//! The interfaces of a request: which subnet each is on, and what was asked of it.

use portolan_api::nad::NadConfig;
use portolan_api::nfn_network::{NFN_ROUTES, NfnRoute};
use portolan_api::pod_annotations::{self, IpPool, parse_interface_request};
use portolan_api::portolan::HolderKind;
use portolan_api::{Family, FieldError, GuestRoute, Provider, Reason};

use super::World;
use super::evaluation::Evaluation;
use super::requests::Topic;
use crate::attachment::Attachment;
use crate::doors::pod::{
    RequestedInterface, RequestedNetwork, VPC_INTERFACE, is_kube_ovn_annotation, unsupported_annotation,
    wrong_rate,
};
use crate::group::Group;
use crate::life::Life;
use crate::node_subnet::node_subnet;
use crate::pod::Pod;
use crate::request::{InterfaceRequest, Pool, Requester, Wait};
use crate::subnet::{DEFAULT_VPC, Subnet};
use crate::unit::UnitState;

impl<'w> Evaluation<'w> {
    /// Finds the subnet of an interface that a pod asks for, and adds what the pod asks of it.
    pub(super) fn resolve(&mut self, wanted: &RequestedInterface, pod: &Pod) {
        let world = self.world;
        let (provider, network_routes) = match &wanted.network {
            RequestedNetwork::First if !world.settings.first_interface.is_portolan() => {
                self.interfaces.insert(wanted.interface.clone());
                return;
            }
            RequestedNetwork::First => {
                self.resolve_first(wanted, pod);
                return;
            }
            RequestedNetwork::Subnet(_) => {
                if self.name_interface(wanted) {
                    self.resolve_on_subnet(wanted);
                }
                return;
            }
            RequestedNetwork::Nad { namespace, name } => {
                let key = (namespace.clone(), name.clone());
                self.topics.insert(Topic::Nad(key.clone()));
                match world.nads.get(&key.0, &key.1).map(|nad| &nad.config) {
                    None => {
                        self.request.waits.push(Wait::Nad { namespace: key.0, name: key.1 });
                        return;
                    }
                    Some(Err(errors)) => {
                        let message = format!(
                            "asks for network attachment definition {namespace}/{name}, which is wrong: {errors}"
                        );
                        self.problem(&wanted.path, None, Reason::Invalid, message);
                        return;
                    }
                    // It makes no interface of its own: what the pod gets, its other annotation says.
                    Some(Ok(NadConfig::Nfn { .. })) => return,
                    Some(Ok(NadConfig::Foreign { .. })) => {
                        self.name_interface(wanted);
                        return;
                    }
                    Some(Ok(NadConfig::Portolan(nad))) => (nad.provider.clone(), nad.routes.clone()),
                }
            }
        };
        if !self.name_interface(wanted) {
            return;
        }
        let asked = match parse_interface_request(&pod.annotations, &provider, Some(&wanted.interface)) {
            Ok(asked) => asked,
            Err(errors) => {
                self.request.problems.extend(errors);
                return;
            }
        };
        let Some(subnet) = self.subnet_of(&provider, wanted, asked.subnet.as_deref()) else { return };
        if self.usable(&subnet, &wanted.path).is_some() {
            let request = self.interface(wanted, asked, subnet, Some(provider), network_routes);
            self.request.interfaces.extend(request);
        }
    }

    /// Notes the name of an interface; false if another has it.
    fn name_interface(&mut self, wanted: &RequestedInterface) -> bool {
        let new = self.interfaces.insert(wanted.interface.clone());
        if !new {
            let is_kept =
                self.world.settings.first_interface.is_portolan() && wanted.interface == VPC_INTERFACE;
            let message = if is_kept {
                "is the interface in the VPC of the pod's namespace, if it has one; choose another name"
            } else {
                "is the interface of another network of this pod already; choose another name"
            };
            let path = format!("{}.interface", wanted.path);
            self.problem(&path, Some(&wanted.interface), Reason::Duplicate, message.to_owned());
        }
        new
    }

    /// An interface on a subnet that the pod names, as OVN4NFV has it.
    fn resolve_on_subnet(&mut self, wanted: &RequestedInterface) {
        let RequestedNetwork::Subnet(subnet) = &wanted.network else { return };
        if let Some(usable) = self.usable(subnet, &wanted.path) {
            for written in &wanted.prefixes {
                let own = usable.config.cidr.net(Family::of_net(written)).map(|net| net.prefix_len());
                if let Some(own) = own.filter(|own| *own != written.prefix_len()) {
                    let message =
                        format!("has another prefix length than Subnet {subnet}; write /{own}, or none");
                    let path = format!("{}.ipAddress", wanted.path);
                    self.problem(&path, Some(&written.to_string()), Reason::Invalid, message);
                }
            }
            let provider = self.world.known_subnet(subnet).and_then(|subnet| subnet.config.provider.clone());
            let asked = pod_annotations::InterfaceRequest::default();
            let request = self.interface(wanted, asked, subnet.clone(), provider, Vec::new());
            self.request.interfaces.extend(request);
        }
    }

    /// The name of the subnet that serves a provider, or of the one that the pod names.
    pub(super) fn subnet_of(
        &mut self,
        provider: &Provider,
        wanted: &RequestedInterface,
        named: Option<&str>,
    ) -> Option<String> {
        let world = self.world;
        if *provider == Provider::Default {
            if let Some(named) = named {
                return Some(named.to_owned());
            }
            self.topics.insert(Topic::Namespace(self.namespace.clone()));
            self.topics.insert(Topic::Default);
            self.topics
                .extend(world.subnet_indexes.by_namespace.get(&self.namespace).cloned().map(Topic::Subnet));
            self.topics.extend(world.default_subnets().map(|name| Topic::Subnet(name.to_owned())));
            self.topics.insert(Topic::Subnet(node_subnet(&self.request.node)));
            let found = world.first_subnet(&self.namespace, &self.request.node);
            let found = found.or_else(|| {
                let mut decided = self.decided().into_iter();
                let own = decided.find(|held| held.id.interface() == wanted.interface)?;
                Some(own.subnet().to_string())
            });
            if found.is_none() {
                self.request.waits.push(Wait::DefaultSubnet { namespace: self.namespace.clone() });
            }
            return found;
        }
        self.topics.insert(Topic::Provider(provider.clone()));
        let found: Vec<_> = world.subnet_indexes.by_provider.get(provider).cloned().collect();
        match (found.as_slice(), named) {
            ([], _) => {
                self.request.waits.push(match world.invalid_subnet_of(provider) {
                    Some(invalid) => Wait::Corrected(invalid.to_owned()),
                    None => Wait::SubnetOfProvider(provider.clone()),
                });
                None
            }
            ([only], None) => Some(only.clone()),
            (some, Some(named)) if some.iter().any(|name| name == named) => Some(named.to_owned()),
            (_, Some(named)) => {
                let message = format!("is a subnet that does not have the provider {provider}");
                let path = format!("metadata.annotations[{provider}.kubernetes.io/logical_switch]");
                self.problem(&path, Some(named), Reason::Forbidden, message);
                None
            }
            (several, None) => {
                let message = format!(
                    "asks for provider {provider}, which several subnets have ({}); remove all but one, or name one in the annotation {provider}.kubernetes.io/logical_switch",
                    several.join(", ")
                );
                self.problem(&wanted.path, None, Reason::Invalid, message);
                None
            }
        }
    }

    /// What the pod has already. What was decided stands: a pod whose sandbox is made anew has it there, also if no Subnet is for the pods of its
    /// namespace any more, or the namespace may not use it. An earlier pod of the name may hold others still.
    fn decided(&self) -> Vec<&'w Attachment> {
        let Requester::Pod { namespace, name } = &self.request.requester else { return Vec::new() };
        let (world, pod) = (self.world, self.world.pod(namespace, name));
        let held = world.holdings_of(&self.request.requester);
        let is_own = |held: &&Attachment| pod.zip(held.pod_uid()).is_some_and(|(pod, uid)| pod.uid == uid);
        held.iter().filter_map(|id| world.attachment(id)).filter(is_own).collect()
    }

    /// A subnet that the requester may use. What it has to wait for is noted; the request goes on without it, so that those
    /// who only ask for its content (the routes of a running guest) have all of it.
    pub(super) fn usable(&mut self, name: &str, path: &str) -> Option<&'w Subnet> {
        let world = self.world;
        self.topics.insert(Topic::Subnet(name.to_owned()));
        let Some(subnet) = world.known_subnet(name) else {
            let wait = match world.subnet_state(name) {
                UnitState::Absent => Wait::Subnet,
                UnitState::Held | UnitState::Live => Wait::Corrected,
            };
            self.request.waits.push(wait(name.to_owned()));
            return None;
        };
        // Nodes and Vips are in no namespace.
        let is_namespaced = self.request.holder.kind.is_namespaced();
        if is_namespaced {
            // A VPC may let the namespace in.
            self.topics.insert(Topic::Namespace(self.namespace.clone()));
        }
        if let Some(node) = subnet.node() {
            let is_port = matches!(self.request.holder.kind, HolderKind::Pod | HolderKind::Node);
            if !is_port || *node != *self.request.node {
                let message =
                    format!("asks for the prefixes of Node {node}, which are for the pods on that node");
                self.problem(path, None, Reason::Forbidden, message);
                return None;
            }
        } else if is_namespaced
            && !world.may_use(subnet, &self.namespace)
            && !self.decided().iter().any(|held| held.subnet() == name)
        {
            let field = match subnet.group {
                Group::KubeOvn => "spec.namespaces",
                Group::Portolan | Group::Core => "spec.allowedNamespaces",
            };
            let message = format!(
                "asks for Subnet {name}, which namespace {0} may not use; whoever owns the Subnet can add {0} to its {field}",
                self.namespace
            );
            self.problem(path, None, Reason::Forbidden, message);
            return None;
        }
        if subnet.life == Life::Terminating {
            self.request.waits.push(Wait::Terminating(name.to_owned()));
        } else if !subnet.is_validated() || world.subnet_state(name) != UnitState::Live {
            self.request.waits.push(Wait::Validated(name.to_owned()));
        } else if let Some(vpc) = world.missing_vpc(subnet) {
            self.request.waits.push(Wait::Vpc { subnet: name.to_owned(), vpc: vpc.to_owned() });
        } else if subnet.life == Life::Unprotected {
            self.request.waits.push(Wait::Protected(name.to_owned()));
        } else if let Some(vpc) = subnet.vpc().and_then(|vpc| world.vpc(vpc))
            && vpc.life == Life::Unprotected
        {
            let (subnet, vpc) = (name.to_owned(), vpc.name.clone());
            self.request.waits.push(Wait::ProtectedVpc { subnet, vpc });
        }
        Some(subnet)
    }

    /// Puts together what the two ways of asking say about one interface.
    pub(super) fn interface(
        &mut self,
        wanted: &RequestedInterface,
        asked: pod_annotations::InterfaceRequest,
        subnet: String,
        provider: Option<Provider>,
        network_routes: Vec<GuestRoute>,
    ) -> Option<InterfaceRequest> {
        let problems = self.request.problems.len();
        let disagree = |what: &str, ours: String, theirs: String| {
            format!("asks for {what} {ours}, and another annotation of the pod for {theirs}; remove one")
        };
        let list =
            |ips: &[std::net::IpAddr]| ips.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        if !wanted.addresses.is_empty() && !asked.addresses.is_empty() && wanted.addresses != asked.addresses
        {
            let message = disagree("the addresses", list(&wanted.addresses), list(&asked.addresses));
            self.problem(&wanted.path, None, Reason::Invalid, message);
        }
        if let (Some(ours), Some(theirs)) = (wanted.mac, asked.mac)
            && ours != theirs
        {
            let message = disagree("the MAC address", ours.to_string(), theirs.to_string());
            self.problem(&wanted.path, None, Reason::Invalid, message);
        }
        let pool = match asked.pool {
            None if asked.addresses.is_empty() && wanted.addresses.is_empty() => {
                self.pool_of_namespace(&subnet)
            }
            None => Pool::Any,
            Some(IpPool::Addresses(pairs)) => Pool::Listed(pairs),
            Some(IpPool::Named(name)) => self.named_pool(&name, &subnet, &wanted.path),
        };
        let by_annotation = asked.default_route.unwrap_or_default().then(Vec::new);
        (self.request.problems.len() == problems).then(|| InterfaceRequest {
            interface: wanted.interface.clone(),
            subnet,
            provider,
            holder: None,
            count: 1,
            addresses: if wanted.addresses.is_empty() { asked.addresses } else { wanted.addresses.clone() },
            pool,
            mac: wanted.mac.or(asked.mac),
            routes: wanted.routes.iter().copied().chain(asked.routes).collect(),
            network_routes,
            default_route: wanted.default_route.clone().or(by_annotation),
            is_way_out: false,
            path: wanted.path.clone(),
        })
    }

    /// The pool that the requester names. While it is not there, the interface stays what it is without one.
    fn named_pool(&mut self, name: &str, subnet: &str, path: &str) -> Pool {
        self.topics.insert(Topic::IpPool(name.to_owned()));
        match self.world.ip_pool(name).map(|pool| &pool.config) {
            None => self.request.waits.push(Wait::IpPool(name.to_owned())),
            Some(Err(_)) => self.request.waits.push(Wait::CorrectedIpPool(name.to_owned())),
            Some(Ok(pool)) if pool.subnet != subnet => {
                let message =
                    format!("is an IPPool of Subnet {}, and the interface is on {subnet}", pool.subnet);
                self.problem(path, Some(name), Reason::Invalid, message);
            }
            Some(Ok(pool)) => {
                return Pool::Named { names: vec![name.to_owned()], ranges: pool.ranges.clone() };
            }
        }
        Pool::Any
    }

    /// The pools that are for the pods of the namespace, if there are any on a subnet.
    fn pool_of_namespace(&mut self, subnet: &str) -> Pool {
        let (mut names, mut ranges) = (Vec::new(), Vec::new());
        for (name, pool) in self.world.ip_pools_of_subnet(subnet) {
            if pool.namespaces.contains(&self.namespace) {
                names.push(name.to_owned());
                ranges.extend(pool.ranges.iter().copied());
            }
        }
        if names.is_empty() { Pool::Any } else { Pool::Named { names, ranges } }
    }

    /// Adds the further routes of OVN4NFV to the interfaces they go by.
    pub(super) fn add_routes(&mut self, routes: &[NfnRoute]) {
        for (i, NfnRoute { route, interface }) in routes.iter().enumerate() {
            let world = self.world;
            let by_name = |request: &InterfaceRequest| interface.as_ref() == Some(&request.interface);
            let by_gateway = |request: &InterfaceRequest| {
                let subnet = world.known_subnet(&request.subnet);
                route.gateway.is_some_and(|gw| subnet.is_some_and(|subnet| subnet.config.cidr.contains(gw)))
            };
            let ready = self.request.is_ready();
            let interfaces = &mut self.request.interfaces;
            let found = match interface {
                Some(_) => interfaces.iter_mut().find(|request| by_name(request)),
                None => interfaces.iter_mut().find(|request| by_gateway(request)),
            };
            match (found, interface) {
                (Some(request), _) => request.routes.push(*route),
                // The interface may be one of those that are not known yet.
                _ if !ready => {}
                (None, Some(name)) => {
                    let path = format!("metadata.annotations[{NFN_ROUTES}][{i}].dev");
                    let message = "is no interface that Portolan makes for this pod".to_owned();
                    self.problem(&path, Some(name), Reason::Invalid, message);
                }
                (None, None) => {
                    let path = format!("metadata.annotations[{NFN_ROUTES}][{i}].gw");
                    let message = "is on no network of this pod; name the interface in dev".to_owned();
                    let gateway = route.gateway.map(|gw| gw.to_string());
                    self.problem(&path, gateway.as_deref(), Reason::Invalid, message);
                }
            }
        }
    }

    /// Annotations of Kube-OVN that no interface of the pod uses, those that are not supported yet, and rates that cannot be read have
    /// no effect.
    pub(super) fn warn_of_unused_annotations(&mut self, pod: &Pod) {
        if !self.request.is_ready() {
            return;
        }
        let other_first = !self.world.settings.first_interface.is_portolan();
        let warnings = pod.annotations.keys().filter(|key| is_kube_ovn_annotation(key)).filter_map(|key| {
            let message = if self.is_used(key) {
                // The interface is made all the same: without a limit, as if the annotation were not there.
                if let Some(wrong) = wrong_rate(key, pod.annotations.get(key)?) {
                    return Some(wrong);
                }
                unsupported_annotation(key)?
            } else if other_first && key.starts_with("ovn.kubernetes.io/") {
                "has no effect: another plugin makes the pod's first interface; name the network whose interface is meant, as in <name>.<namespace>.ovn.kubernetes.io/…"
            } else {
                "has no effect: the pod has no interface on this network"
            };
            Some(FieldError {
                path: format!("metadata.annotations[{key}]"),
                value: None,
                reason: Reason::NotSupported,
                message: message.to_owned(),
            })
        });
        let warnings: Vec<_> = warnings.collect();
        self.request.warnings.extend(warnings);
    }

    /// True if an annotation of Kube-OVN is about one of the interfaces of the request.
    fn is_used(&self, key: &str) -> bool {
        let interfaces = self.request.interfaces.iter();
        let mut of_networks =
            interfaces.filter_map(|one| Some((one.provider.as_ref()?, one.interface.as_str())));
        of_networks.any(|(provider, interface)| pod_annotations::is_about(key, provider, interface))
    }

    pub(super) fn problem(&mut self, path: &str, value: Option<&str>, reason: Reason, message: String) {
        self.request.problems.push(FieldError {
            path: path.to_owned(),
            value: value.map(str::to_owned),
            reason,
            message,
        });
    }
}

impl InterfaceRequest {
    pub(crate) fn new(interface: &str, subnet: &str) -> Self {
        Self {
            interface: interface.to_owned(),
            subnet: subnet.to_owned(),
            provider: None,
            holder: None,
            addresses: Vec::new(),
            count: 1,
            pool: Pool::Any,
            mac: None,
            routes: Vec::new(),
            network_routes: Vec::new(),
            default_route: None,
            is_way_out: false,
            path: String::new(),
        }
    }
}

impl World {
    /// The VPC that a subnet names and that does not exist. The default VPC is there without an object.
    pub fn missing_vpc<'s>(&self, subnet: &'s Subnet) -> Option<&'s str> {
        subnet.vpc().filter(|vpc| *vpc != DEFAULT_VPC && self.vpc_state(vpc) == UnitState::Absent)
    }
}
