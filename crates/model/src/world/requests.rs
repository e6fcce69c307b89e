//! What someone who asks for interfaces gets, as far as it is known; and who is to be asked again when something changes.

use std::collections::BTreeSet;

use portolan_api::nad::NadConfig;
use portolan_api::nfn_network::{NFN_ROUTES, NfnRoute};
use portolan_api::pod_annotations::{self, IpPool, parse_interface_request};
use portolan_api::portolan::{Holder, HolderKind, LockUser};
use portolan_api::{FieldError, Provider, Reason};

use super::pods::{PodEntry, machine_of};
use super::{FirstInterface, Name, World};
use crate::attachment::{AttachmentId, NETWORK_ATTACHMENT_INTERFACE, NODE_INTERFACE};
use crate::dirty::Dirty;
use crate::doors::pod::{Wish, WishedNetwork};
use crate::group::Group;
use crate::pod::{Pod, PodController};
use crate::request::{InterfaceRequest, Request, Requester, Wait};
use crate::subnet::Subnet;
use crate::unit::UnitState;

/// Something that the answer to a request depends on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Topic {
    Nad(Name),
    Provider(Provider),
    Subnet(String),
    /// Which subnet is for the pods of a namespace.
    Namespace(String),
    /// Which subnet is for all others.
    Default,
    Machine(Name),
    Node(String),
}

impl World {
    /// What someone asks for, if anything: a pod that is not scheduled yet, has finished or is on its node's network does not.
    pub fn request(&self, requester: &Requester) -> Option<Request> {
        self.evaluate(requester).filter(Inquiry::concerns_us).map(|inquiry| inquiry.request)
    }

    /// Whoever has not got all that was asked for, and may or may not be able to get it.
    pub fn unsatisfied(&self) -> impl Iterator<Item = &Requester> {
        self.topics.keys()
    }

    /// Finds out again whether someone has got all that was asked for.
    pub(super) fn reconsider(&mut self, requester: &Requester, dirty: &mut Dirty) {
        let topics: Vec<Topic> = self.topics.get(requester).cloned().collect();
        let was_open = !topics.is_empty();
        for topic in topics {
            self.waiting.remove(&topic, requester);
            self.topics.remove(requester, &topic);
        }
        let (topics, open) = match self.standing(requester) {
            Standing::Settled => (BTreeSet::new(), false),
            Standing::HoldsMore => (BTreeSet::new(), true),
            Standing::Open => match self.evaluate(requester) {
                None => (BTreeSet::new(), was_open || self.held_for(requester).next().is_some()),
                Some(inquiry) if inquiry.concerns_us() => (inquiry.topics, true),
                Some(mut inquiry) => {
                    // What a pod asks others for may become ours; where it runs does not make it so.
                    inquiry.topics.retain(|topic| !matches!(topic, Topic::Node(_)));
                    (inquiry.topics, was_open || self.held_for(requester).next().is_some())
                }
            },
        };
        for topic in topics {
            self.waiting.insert(topic.clone(), requester.clone());
            self.topics.insert(requester.clone(), topic);
        }
        if open {
            dirty.requesters.insert(requester.clone());
        }
    }

    /// Tells whoever waits for any of these that it changed.
    pub(super) fn publish(&mut self, topics: &[Topic], dirty: &mut Dirty) {
        let concerned: BTreeSet<_> =
            topics.iter().flat_map(|topic| self.waiting.get(topic)).cloned().collect();
        for requester in concerned {
            self.reconsider(&requester, dirty);
        }
    }

    /// Whether the locks alone show that someone has got everything.
    ///
    /// What was decided is written into each lock, so this does not depend on whether networks that were asked for still
    /// exist: who has got everything is left in peace whatever becomes of them.
    fn standing(&self, requester: &Requester) -> Standing {
        let (current, others): (Vec<_>, Vec<_>) =
            self.held_for(requester).partition(|id| self.is_current(requester, id));
        let whole = |id: &&AttachmentId| {
            self.holdings.get(*id).is_some_and(|holding| {
                let names = holding.locks.iter().filter_map(|name| self.locks.get(name));
                let mut decided = names.flat_map(|lock| &lock.interfaces);
                holding.attachment.is_some()
                    && !holding.surplus
                    && !self.released.contains(*id)
                    && decided.all(|decided| current.iter().any(|id| id.interface() == decided.interface))
            })
        };
        match () {
            () if current.is_empty() || !current.iter().all(whole) => Standing::Open,
            () if others.is_empty() => Standing::Settled,
            () => Standing::HoldsMore,
        }
    }

    /// True if an interface is held by the one who asks now, not by an earlier one of the same name.
    fn is_current(&self, requester: &Requester, id: &AttachmentId) -> bool {
        match requester {
            Requester::Pod { namespace, name } => {
                let Some(PodEntry { pod, .. }) = self.pods.get(&(namespace.clone(), name.clone())) else {
                    return false;
                };
                let asks = !pod.finished && !pod.host_network && pod.node.is_some();
                let attachment = self.holdings.get(id).and_then(|holding| holding.attachment.as_ref());
                let uses = || {
                    let user = attachment.and_then(|attachment| attachment.user.as_ref());
                    user.is_some_and(|user| user.pod == pod.name && user.uid == pod.uid)
                        && attachment.is_some_and(|attachment| attachment.node == pod.node)
                };
                let holds = match &pod.controller {
                    PodController::Other => id.kind() == HolderKind::Pod && id.uid() == pod.uid,
                    PodController::StatefulSet { uid, .. } => {
                        id.kind() == HolderKind::StatefulSet && id.uid() == uid && uses()
                    }
                    PodController::VirtualMachine { .. } => id.kind() == HolderKind::VirtualMachine && uses(),
                };
                asks && holds
            }
            Requester::NetworkAttachment { namespace, name } => {
                self.network_attachment(namespace, name).is_some_and(|wish| wish.uid == id.uid())
            }
            Requester::Node { name } => self.node(name).is_some_and(|node| node.uid == id.uid()),
            Requester::VirtualMachine { .. } => false,
        }
    }

    /// Everything that anyone asking in this name holds, now or in an earlier life.
    pub(super) fn held_for(&self, requester: &Requester) -> impl Iterator<Item = &AttachmentId> + use<'_> {
        let (kinds, namespace, name): (&[HolderKind], _, _) = match requester {
            Requester::Pod { namespace, name } => {
                (&[HolderKind::Pod, HolderKind::StatefulSet], Some(namespace.clone()), name)
            }
            Requester::NetworkAttachment { namespace, name } => {
                (&[HolderKind::NetworkAttachment], Some(namespace.clone()), name)
            }
            Requester::Node { name } => (&[HolderKind::Node], None, name),
            Requester::VirtualMachine { namespace, name } => {
                (&[HolderKind::VirtualMachine], Some(namespace.clone()), name)
            }
        };
        let machine = match requester {
            Requester::Pod { namespace, name } => {
                let key = (namespace.clone(), name.clone());
                let machine = self.pods.get(&key).and_then(|entry| machine_of(&entry.pod));
                machine.filter(|machine| self.pod_of_machine(machine) == Some(&key))
            }
            _ => None,
        };
        let machine = machine.map(|(namespace, name)| (HolderKind::VirtualMachine, Some(namespace), name));
        let names = kinds.iter().map(|kind| (*kind, namespace.clone(), name.clone())).chain(machine);
        names.collect::<Vec<_>>().into_iter().flat_map(|name| self.holdings_by_holder.get(&name))
    }

    /// Everything that anyone asking in this name holds, now or in an earlier life.
    pub fn holdings_of(&self, requester: &Requester) -> Vec<AttachmentId> {
        self.held_for(requester).cloned().collect()
    }

    fn evaluate(&self, requester: &Requester) -> Option<Inquiry<'_>> {
        match requester {
            Requester::Pod { namespace, name } => {
                self.evaluate_pod(self.pods.get(&(namespace.clone(), name.clone()))?, requester)
            }
            Requester::NetworkAttachment { namespace, name } => {
                self.evaluate_network_attachment(&(namespace.clone(), name.clone()), requester)
            }
            Requester::Node { name } => self.evaluate_node(name, requester),
            Requester::VirtualMachine { .. } => None,
        }
    }

    fn evaluate_pod(&self, entry: &PodEntry, requester: &Requester) -> Option<Inquiry<'_>> {
        let pod = &entry.pod;
        let node = pod.node.as_ref()?;
        if pod.finished || pod.host_network {
            return None;
        }
        let mut inquiry = Inquiry::new(self, requester, node, pod.namespace.clone());
        inquiry.request.host_ip = pod.host_ip.or(inquiry.request.host_ip);
        inquiry.request.problems.clone_from(&entry.wishes.problems);
        inquiry.request.warnings.clone_from(&entry.wishes.warnings);
        for wish in &entry.wishes.interfaces {
            inquiry.resolve(wish, pod);
        }
        inquiry.add_routes(&entry.wishes.routes);
        // A pod that asks Portolan for nothing is none of its business, whatever it runs.
        if inquiry.concerns_us() {
            inquiry.hold_for(pod);
        }
        Some(inquiry)
    }

    fn evaluate_network_attachment(&self, key: &Name, requester: &Requester) -> Option<Inquiry<'_>> {
        let wish = self.network_attachments.get(key)?;
        let config = match &wish.config {
            Ok(config) => config,
            Err(errors) => {
                let mut inquiry = Inquiry::new(self, requester, "", key.0.clone());
                inquiry.request.problems.extend(errors.iter().cloned());
                return Some(inquiry);
            }
        };
        let mut inquiry = Inquiry::new(self, requester, &config.node, key.0.clone());
        inquiry.request.holder = Holder {
            kind: HolderKind::NetworkAttachment,
            namespace: Some(key.0.clone()),
            name: key.1.clone(),
            uid: wish.uid.clone(),
            interface: None,
        };
        if !self.nodes.contains_key(&config.node) {
            inquiry.request.waits.push(Wait::Node(config.node.clone()));
        }
        if inquiry.usable(&config.subnet, "spec.subnet").is_some() {
            inquiry.request.interfaces.push(InterfaceRequest {
                addresses: config.address.map(|pair| pair.addresses().collect()).unwrap_or_default(),
                mac: config.mac,
                path: "spec".to_owned(),
                ..InterfaceRequest::new(NETWORK_ATTACHMENT_INTERFACE, &config.subnet)
            });
        }
        Some(inquiry)
    }

    fn evaluate_node(&self, name: &str, requester: &Requester) -> Option<Inquiry<'_>> {
        let node = self.nodes.get(name)?;
        if self.settings.first_interface == FirstInterface::Other {
            return None;
        }
        let mut inquiry = Inquiry::new(self, requester, name, String::new());
        inquiry.request.holder = Holder {
            kind: HolderKind::Node,
            namespace: None,
            name: name.to_owned(),
            uid: node.uid.clone(),
            interface: None,
        };
        inquiry.topics.insert(Topic::Default);
        match self.default_subnets.get(&()).next() {
            None => inquiry.request.waits.push(Wait::DefaultSubnet { namespace: "(nodes)".to_owned() }),
            Some(subnet) => {
                if inquiry.usable(subnet, "spec").is_some() {
                    inquiry.request.interfaces.push(InterfaceRequest::new(NODE_INTERFACE, subnet));
                }
            }
        }
        Some(inquiry)
    }

    /// The subnet for the pods of a namespace that ask for no other, by name.
    pub fn default_subnet(&self, namespace: &str) -> Option<&str> {
        let mut named = self.subnets_by_namespace.get(namespace).map(String::as_str).peekable();
        let first = named.peek().copied();
        let usable = named.find(|name| self.subnet(name).is_some());
        let by_vpc = || {
            let vpcs = self.vpcs_by_namespace.get(namespace).filter_map(|name| self.vpc(name));
            vpcs.filter_map(|vpc| vpc.config.default_subnet.as_deref()).next()
        };
        let default = || self.default_subnets.get(&()).next().map(String::as_str);
        usable.or(first).or_else(by_vpc).or_else(default)
    }

    /// True if pods of a namespace may have interfaces on a subnet.
    pub fn may_use(&self, subnet: &Subnet, namespace: &str) -> bool {
        let by_vpc = || {
            let mut vpcs = self.vpcs_by_namespace.get(namespace).filter_map(|name| self.vpc(name));
            vpcs.any(|vpc| vpc.config.default_subnet.as_ref() == Some(&subnet.name))
        };
        subnet.allows(namespace) || subnet.config.default || by_vpc()
    }
}

impl InterfaceRequest {
    fn new(interface: &str, subnet: &str) -> Self {
        Self {
            interface: interface.to_owned(),
            subnet: subnet.to_owned(),
            provider: None,
            addresses: Vec::new(),
            pool: Vec::new(),
            mac: None,
            routes: Vec::new(),
            default_route: None,
            path: String::new(),
        }
    }
}

/// What the locks of someone who asks show.
enum Standing {
    /// Something may be missing.
    Open,
    /// Everything that was decided is there.
    Settled,
    /// Everything is there, and more: an earlier one of the same name held something.
    HoldsMore,
}

/// A request in the making, with all that it depends on.
struct Inquiry<'w> {
    world: &'w World,
    namespace: String,
    request: Request,
    topics: BTreeSet<Topic>,
    /// Names of interfaces that are taken, other plugins' included.
    interfaces: BTreeSet<String>,
}

impl<'w> Inquiry<'w> {
    fn new(world: &'w World, requester: &Requester, node: &str, namespace: String) -> Self {
        let request = Request {
            requester: requester.clone(),
            holder: Holder::default(),
            user: None,
            node: node.to_owned(),
            host_ip: world.node(node).and_then(|node| node.addresses.first().copied()),
            interfaces: Vec::new(),
            problems: Vec::new(),
            waits: Vec::new(),
            warnings: Vec::new(),
        };
        let topics = BTreeSet::from([Topic::Node(node.to_owned())]);
        Self { world, namespace, request, topics, interfaces: BTreeSet::new() }
    }

    fn concerns_us(&self) -> bool {
        !self.request.interfaces.is_empty() || !self.request.is_ready()
    }

    /// Settles who holds a pod's addresses.
    fn hold_for(&mut self, pod: &Pod) {
        let holder = |kind, name: &str, uid: &str| Holder {
            kind,
            namespace: Some(pod.namespace.clone()),
            name: name.to_owned(),
            uid: uid.to_owned(),
            interface: None,
        };
        let user = || Some(LockUser { pod: pod.name.clone(), uid: pod.uid.clone() });
        match &pod.controller {
            PodController::Other => self.request.holder = holder(HolderKind::Pod, &pod.name, &pod.uid),
            PodController::StatefulSet { uid, .. } => {
                self.request.holder = holder(HolderKind::StatefulSet, &pod.name, uid);
                self.request.user = user();
            }
            PodController::VirtualMachine { name } => {
                let machine = (pod.namespace.clone(), name.clone());
                self.topics.insert(Topic::Machine(machine.clone()));
                match self.world.machines.get(&machine) {
                    Some(found) => {
                        self.request.holder = holder(HolderKind::VirtualMachine, name, &found.uid);
                        self.request.user = user();
                    }
                    None => {
                        let (namespace, name) = machine.clone();
                        self.request.waits.push(Wait::VirtualMachine { namespace, name });
                    }
                }
                let current = self.world.pod_of_machine(&machine);
                if let Some((_, other)) = current.filter(|(_, name)| *name != pod.name) {
                    self.request.waits.push(Wait::OtherPod { pod: other.clone() });
                }
            }
        }
    }

    /// Finds the subnet of an interface that a pod wishes for, and adds what the pod asks of it.
    fn resolve(&mut self, wish: &Wish, pod: &Pod) {
        let world = self.world;
        let provider = match &wish.network {
            WishedNetwork::First if world.settings.first_interface == FirstInterface::Other => {
                self.interfaces.insert(wish.interface.clone());
                return;
            }
            WishedNetwork::First => Provider::Default,
            WishedNetwork::Subnet(_) => {
                if self.name_interface(wish) {
                    self.resolve_on_subnet(wish);
                }
                return;
            }
            WishedNetwork::Nad { namespace, name } => {
                let key = (namespace.clone(), name.clone());
                self.topics.insert(Topic::Nad(key.clone()));
                match world.nads.get(&key).map(|nad| &nad.config) {
                    None => {
                        self.request.waits.push(Wait::Nad { namespace: key.0, name: key.1 });
                        return;
                    }
                    Some(Err(errors)) => {
                        let message = format!(
                            "asks for network attachment definition {namespace}/{name}, which is wrong: {errors}"
                        );
                        self.problem(&wish.path, None, Reason::Invalid, message);
                        return;
                    }
                    // It makes no interface of its own: what the pod gets, its other annotation says.
                    Some(Ok(NadConfig::Nfn { .. })) => return,
                    Some(Ok(NadConfig::Foreign { .. })) => {
                        self.name_interface(wish);
                        return;
                    }
                    Some(Ok(NadConfig::Portolan(nad))) => nad.provider.clone(),
                }
            }
        };
        if !self.name_interface(wish) {
            return;
        }
        let asked = match parse_interface_request(&pod.annotations, &provider, Some(&wish.interface)) {
            Ok(asked) => asked,
            Err(errors) => {
                self.request.problems.extend(errors);
                return;
            }
        };
        let Some(subnet) = self.subnet_of(&provider, wish, asked.subnet.as_deref()) else { return };
        if self.usable(&subnet, &wish.path).is_some() {
            self.add(wish, asked, subnet, provider);
        }
    }

    /// Notes the name of an interface; false if another has it.
    fn name_interface(&mut self, wish: &Wish) -> bool {
        let new = self.interfaces.insert(wish.interface.clone());
        if !new {
            let message = "is the interface of another network of this pod already; choose another name";
            let path = format!("{}.interface", wish.path);
            self.problem(&path, Some(&wish.interface), Reason::Duplicate, message.to_owned());
        }
        new
    }

    /// An interface on a subnet that the pod names, as OVN4NFV has it.
    fn resolve_on_subnet(&mut self, wish: &Wish) {
        let WishedNetwork::Subnet(subnet) = &wish.network else { return };
        if self.usable(subnet, &wish.path).is_some() {
            let provider = self.world.known_subnet(subnet).and_then(|subnet| subnet.config.provider.clone());
            let asked = pod_annotations::InterfaceRequest::default();
            let request = self.interface(wish, asked, subnet.clone(), provider);
            self.request.interfaces.extend(request);
        }
    }

    /// The name of the subnet that serves a provider, or of the one that the pod names.
    fn subnet_of(&mut self, provider: &Provider, wish: &Wish, named: Option<&str>) -> Option<String> {
        let world = self.world;
        if *provider == Provider::Default {
            if let Some(named) = named {
                return Some(named.to_owned());
            }
            self.topics.insert(Topic::Namespace(self.namespace.clone()));
            self.topics.insert(Topic::Default);
            self.topics.extend(world.subnets_by_namespace.get(&self.namespace).cloned().map(Topic::Subnet));
            let found = world.default_subnet(&self.namespace).map(str::to_owned);
            if found.is_none() {
                self.request.waits.push(Wait::DefaultSubnet { namespace: self.namespace.clone() });
            }
            return found;
        }
        self.topics.insert(Topic::Provider(provider.clone()));
        let found: Vec<_> = world.subnets_by_provider.get(provider).cloned().collect();
        match (found.as_slice(), named) {
            ([], _) => {
                self.request.waits.push(Wait::SubnetOfProvider(provider.clone()));
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
                self.problem(&wish.path, None, Reason::Invalid, message);
                None
            }
        }
    }

    /// A subnet that may be used by the one who asks, or what stands in the way.
    fn usable(&mut self, name: &str, path: &str) -> Option<&'w Subnet> {
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
        let node = self.request.holder.kind == HolderKind::Node;
        if !node && !world.may_use(subnet, &self.namespace) {
            let field = match subnet.group {
                Group::Portolan => "spec.allowedNamespaces",
                Group::KubeOvn => "spec.namespaces",
            };
            let message = format!(
                "asks for Subnet {name}, which namespace {0} may not use; whoever owns the Subnet can add {0} to its {field}",
                self.namespace
            );
            self.problem(path, None, Reason::Forbidden, message);
            return None;
        }
        if !subnet.is_validated() || world.subnet_state(name) != UnitState::Live {
            self.request.waits.push(Wait::Validated(name.to_owned()));
            return None;
        }
        Some(subnet)
    }

    fn add(
        &mut self,
        wish: &Wish,
        asked: pod_annotations::InterfaceRequest,
        subnet: String,
        provider: Provider,
    ) {
        let request = self.interface(wish, asked, subnet, Some(provider));
        self.request.interfaces.extend(request);
    }

    /// Puts together what the two ways of asking say about one interface.
    fn interface(
        &mut self,
        wish: &Wish,
        asked: pod_annotations::InterfaceRequest,
        subnet: String,
        provider: Option<Provider>,
    ) -> Option<InterfaceRequest> {
        let problems = self.request.problems.len();
        let disagree = |what: &str, ours: String, theirs: String| {
            format!("asks for {what} {ours}, and another annotation of the pod for {theirs}; remove one")
        };
        let list =
            |ips: &[std::net::IpAddr]| ips.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        if !wish.addresses.is_empty() && !asked.addresses.is_empty() && wish.addresses != asked.addresses {
            let message = disagree("the addresses", list(&wish.addresses), list(&asked.addresses));
            self.problem(&wish.path, None, Reason::Invalid, message);
        }
        if let (Some(ours), Some(theirs)) = (wish.mac, asked.mac)
            && ours != theirs
        {
            let message = disagree("the MAC address", ours.to_string(), theirs.to_string());
            self.problem(&wish.path, None, Reason::Invalid, message);
        }
        let pool = match asked.pool {
            None => Vec::new(),
            Some(IpPool::Addresses(pairs)) => pairs,
            Some(IpPool::Named(name)) => {
                let message = "is an IPPool, which is not supported yet; list the addresses".to_owned();
                self.problem(&wish.path, Some(&name), Reason::NotSupported, message);
                Vec::new()
            }
        };
        let by_annotation = asked.default_route.unwrap_or_default().then(Vec::new);
        (self.request.problems.len() == problems).then(|| InterfaceRequest {
            interface: wish.interface.clone(),
            subnet,
            provider,
            addresses: if wish.addresses.is_empty() { asked.addresses } else { wish.addresses.clone() },
            pool,
            mac: wish.mac.or(asked.mac),
            routes: asked.routes,
            default_route: wish.default_route.clone().or(by_annotation),
            path: wish.path.clone(),
        })
    }

    /// Adds the further routes of OVN4NFV to the interfaces they go by.
    fn add_routes(&mut self, routes: &[NfnRoute]) {
        if !self.request.is_ready() {
            return;
        }
        for (i, NfnRoute { route, interface }) in routes.iter().enumerate() {
            let world = self.world;
            let by_name = |request: &InterfaceRequest| interface.as_ref() == Some(&request.interface);
            let by_gateway = |request: &InterfaceRequest| {
                let subnet = world.known_subnet(&request.subnet);
                route.gateway.is_some_and(|gw| subnet.is_some_and(|subnet| subnet.config.cidr.contains(gw)))
            };
            let interfaces = &mut self.request.interfaces;
            let found = match interface {
                Some(_) => interfaces.iter_mut().find(|request| by_name(request)),
                None => interfaces.iter_mut().find(|request| by_gateway(request)),
            };
            match (found, interface) {
                (Some(request), _) => request.routes.push(*route),
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

    fn problem(&mut self, path: &str, value: Option<&str>, reason: Reason, message: String) {
        self.request.problems.push(FieldError {
            path: path.to_owned(),
            value: value.map(str::to_owned),
            reason,
            message,
        });
    }
}
