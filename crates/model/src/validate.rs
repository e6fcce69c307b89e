//! Whether an object fits the others: what webhook, API server and CLI tell users before it is stored, and the controller
//! after.

use std::net::IpAddr;

use ipnet::IpNet;
use portolan_api::kubeovn::support::{
    FieldReport, nat_outgoing_unset, unsupported_ip_pool, unsupported_subnet, unsupported_vip,
    unsupported_vpc,
};
use portolan_api::kubeovn::{IpPoolConfig, VipConfig};
use portolan_api::nad::{NadConfig, NetworkAttachmentDefinition};
use portolan_api::portolan::{IPLock, NetworkAttachment};
use portolan_api::{FieldError, FieldErrors, FieldPath, Provider, Reason, kubeovn, portolan};

use crate::doors;
use crate::ip_pool::IpPoolProblem;
use crate::life::Life;
use crate::node::Node;
use crate::peering::PeeringProblem;
use crate::pod::Pod;
use crate::subnet::{DEFAULT_VPC, Subnet, Validation};
use crate::vpc::Vpc;
use crate::world::{GatewayProblem, TenantProblem, World};

/// Why a Subnet cannot be in a VPC that someone deleted.
pub const VPC_IS_TERMINATING: &str = "is a VPC that is being deleted and takes no new Subnets; make the VPC again once it is gone, or name another";

/// What there is to say about an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Why it cannot be in effect.
    pub errors: Vec<FieldError>,
    /// What its author may not have meant: it is in effect, or will be once something else is there.
    pub warnings: Vec<FieldError>,
}

/// A kind that can be compared with the World.
pub trait Validate {
    /// What there is to say about the object, by itself and beside the others.
    fn validate(&self, world: &World) -> Findings;
}

/// What there is to say about an object, by itself and beside the others. The object may be in the World already, as it is
/// or as it was.
pub fn validate<O: Validate>(object: &O, world: &World) -> Findings {
    object.validate(world)
}

impl Validate for portolan::Subnet {
    fn validate(&self, world: &World) -> Findings {
        let mut findings = subnet(doors::portolan::subnet(self), world);
        let is_of_pods = self.spec.vpc.as_deref() == Some(DEFAULT_VPC);
        if is_of_pods && self.spec.nat_outgoing.is_some() && !world.settings().first_interface.is_portolan() {
            findings.warnings.push(FieldError {
                path: FieldPath::SPEC.field("natOutgoing").to_string(),
                value: None,
                reason: Reason::NotSupported,
                message: "has no effect where Portolan is not the primary network".to_owned(),
            });
        }
        findings
    }
}

impl Validate for kubeovn::Subnet {
    fn validate(&self, world: &World) -> Findings {
        let mut findings = subnet(doors::kubeovn::subnet(self), world);
        let egress = world.settings().first_interface.egress(self.spec.vpc());
        findings.warnings.extend(unsupported_subnet(&self.spec, egress).into_iter().map(unsupported));
        findings.warnings.extend(nat_outgoing_unset(&self.spec, egress).map(unset));
        findings
    }
}

impl Validate for portolan::Vpc {
    fn validate(&self, world: &World) -> Findings {
        vpc(doors::portolan::vpc(self), world)
    }
}

impl Validate for kubeovn::Vpc {
    fn validate(&self, world: &World) -> Findings {
        let mut findings = vpc(doors::kubeovn::vpc(self), world);
        findings.warnings.extend(unsupported_vpc(&self.spec).into_iter().map(unsupported));
        findings
    }
}

impl Validate for kubeovn::IPPool {
    fn validate(&self, world: &World) -> Findings {
        let pool = doors::kubeovn::ip_pool(self);
        let mut findings = match &pool.config {
            Ok(config) => ip_pool(&pool.name, config, world),
            Err(errors) => Findings { errors: errors.iter().cloned().collect(), warnings: Vec::new() },
        };
        findings.warnings.extend(unsupported_ip_pool(&self.spec).into_iter().map(unsupported));
        findings
    }
}

impl Validate for kubeovn::Vip {
    fn validate(&self, world: &World) -> Findings {
        let mut findings = match &doors::kubeovn::vip(self).config {
            Ok(config) => vip(config, world),
            Err(errors) => Findings { errors: errors.iter().cloned().collect(), warnings: Vec::new() },
        };
        findings.warnings.extend(unsupported_vip(&self.spec).into_iter().map(unsupported));
        findings
    }
}

fn unsupported(report: FieldReport) -> FieldError {
    FieldError { path: report.path, value: None, reason: Reason::NotSupported, message: report.message }
}

fn unset(report: FieldReport) -> FieldError {
    FieldError { reason: Reason::Required, ..unsupported(report) }
}

impl Validate for NetworkAttachmentDefinition {
    fn validate(&self, world: &World) -> Findings {
        let mut findings = Notes::default();
        match doors::nad::nad(self).config {
            Err(errors) => findings.errors = errors,
            Ok(NadConfig::Nfn { .. } | NadConfig::Foreign { .. }) => {}
            Ok(NadConfig::Portolan(nad)) => {
                if world.subnets_of_provider(&nad.provider).next().is_none() {
                    let message = format!(
                        "names a network without a Subnet; pods wait until there is one with provider {}",
                        nad.provider
                    );
                    let spec = FieldPath::SPEC;
                    findings.warnings.add_bare(&spec.field("config"), Reason::Invalid, message);
                }
                let mut findings = findings.into_findings();
                findings.warnings.extend(nad.warnings);
                return findings;
            }
        }
        findings.into_findings()
    }
}

impl Validate for NetworkAttachment {
    fn validate(&self, world: &World) -> Findings {
        let mut notes = Notes::default();
        let wanted = doors::attachment::network_attachment(self);
        let config = match wanted.config {
            Ok(config) => config,
            Err(errors) => return Notes { errors, ..Notes::default() }.into_findings(),
        };
        let spec = FieldPath::SPEC;
        if world.node(&config.node).is_none() {
            let message = "is no Node that exists; the interface is created once it does";
            notes.warnings.add(&spec.field("node"), &config.node, Reason::Invalid, message);
        }
        let at = spec.field("subnet");
        let Some(subnet) = world.known_subnet(&config.subnet) else {
            let message = "is no Subnet that exists; the interface is created once it does";
            notes.warnings.add(&at, &config.subnet, Reason::Invalid, message);
            return notes.into_findings();
        };
        if !world.may_use(subnet, &wanted.namespace) {
            let message = format!(
                "is a Subnet that namespace {0} may not use; whoever owns it can let {0} in",
                wanted.namespace
            );
            notes.errors.add(&at, &config.subnet, Reason::Forbidden, message);
        }
        for address in config.address.iter().flat_map(portolan_api::Pair::addresses) {
            if let Some(problem) = subnet.address_problem(address) {
                let message = problem.to_string();
                notes.errors.add(&spec.field("address"), address.to_string(), Reason::Invalid, message);
            }
        }
        notes.into_findings()
    }
}

impl Validate for IPLock {
    fn validate(&self, _: &World) -> Findings {
        Notes { errors: doors::portolan::lock(self).err().unwrap_or_default(), ..Notes::default() }
            .into_findings()
    }
}

impl Validate for Pod {
    fn validate(&self, _: &World) -> Findings {
        // What a pod refers to may come later, so only its own words count.
        let networks = doors::pod::requested_networks(self);
        Findings { errors: networks.problems, warnings: networks.warnings }
    }
}

impl Validate for k8s_openapi::api::core::v1::Pod {
    fn validate(&self, world: &World) -> Findings {
        doors::pod::pod(self).validate(world)
    }
}

/// Findings in the making.
#[derive(Default)]
struct Notes {
    errors: FieldErrors,
    warnings: FieldErrors,
}

impl Notes {
    fn into_findings(self) -> Findings {
        Findings { errors: self.errors.into_iter().collect(), warnings: self.warnings.into_iter().collect() }
    }
}

/// A pool that can be understood, beside its Subnet and the other pools of it.
fn ip_pool(name: &str, config: &IpPoolConfig, world: &World) -> Findings {
    let mut findings = Findings::default();
    match world.known_subnet(&config.subnet) {
        None => {
            let missing = IpPoolProblem::SubnetNotFound { subnet: config.subnet.clone() };
            findings.warnings.push(FieldError::from(&missing));
        }
        // A Subnet that was made a moment ago is not in effect yet. What its addresses are does not change.
        Some(subnet) => match IpPoolProblem::out_of(subnet, config) {
            Some(problem) => findings.errors.push(FieldError::from(&problem)),
            None => {
                let overlap = world.ip_pool_overlap(name, config);
                findings.warnings.extend(overlap.as_ref().map(FieldError::from));
            }
        },
    }
    findings
}

/// A Vip that can be understood, beside its Subnet. Who has its address is for the controller to find out: that one may be given back.
fn vip(config: &VipConfig, world: &World) -> Findings {
    let mut findings = Findings::default();
    let Some(subnet) = world.known_subnet(&config.subnet) else {
        let mut missing = FieldErrors::new();
        let message = "is no Subnet that exists; the address is taken once it does";
        missing.add(&FieldPath::SPEC.field("subnet"), &config.subnet, Reason::Invalid, message);
        findings.warnings.extend(missing);
        return findings;
    };
    for address in &config.addresses {
        if let Some(problem) = subnet.address_problem(*address) {
            // In the words of the condition, which has the address unquoted.
            let field = if address.is_ipv4() { "v4ip" } else { "v6ip" };
            findings.errors.push(FieldError {
                path: FieldPath::SPEC.field(field).to_string(),
                value: None,
                reason: Reason::Invalid,
                message: format!("{address} {problem}"),
            });
        }
    }
    findings
}

fn subnet(subnet: Result<Subnet, FieldErrors>, world: &World) -> Findings {
    let subnet = match subnet {
        Ok(subnet) => subnet,
        Err(errors) => return Notes { errors, ..Notes::default() }.into_findings(),
    };
    let mut notes = Notes::default();
    check_name(&subnet, world, &mut notes);
    check_immutable(&subnet, world, &mut notes);
    check_overlap(&subnet, world, &mut notes);
    check_gateway(&subnet, world, &mut notes);
    check_vpc(&subnet, world, &mut notes);
    check_provider(&subnet, world, &mut notes);
    check_tenant(&subnet, world, &mut notes);
    if subnet.config.default
        && let Some(other) = world.default_subnets().find(|other| *other != subnet.name)
    {
        let message =
            format!("is set for Subnet {other} already, which the pods get if its name sorts first");
        let spec = FieldPath::SPEC;
        notes.warnings.add(&spec.field("default"), "true", Reason::Duplicate, message);
    }
    notes.into_findings()
}

/// True if a subnet need not give way to another: it was found valid before, and the other was not.
fn stands_first(subnet: &Subnet, other: &Subnet, world: &World) -> bool {
    best_validation(subnet, world) != Validation::Not && other.validation == Validation::Not
}

/// What was found about a subnet, as it is or as it is stored.
fn best_validation(subnet: &Subnet, world: &World) -> Validation {
    let stored = world.subnet_of_group(subnet.group, &subnet.name).filter(|stored| stored.uid == subnet.uid);
    stored.map_or(Validation::Not, |stored| stored.validation).max(subnet.validation)
}

fn check_name(subnet: &Subnet, world: &World, notes: &mut Notes) {
    let Some(other) = subnet.group.other() else { return };
    let rival = world.subnet_of_group(other, &subnet.name);
    let first = rival.is_some_and(|rival| stands_first(subnet, rival, world));
    if world.has_subnet_of_group(other, &subnet.name) && !first {
        let message = format!(
            "is the name of a Subnet of {other} already; both groups share their names, choose another"
        );
        let metadata = FieldPath::root("metadata");
        notes.errors.add(&metadata.field("name"), &subnet.name, Reason::Duplicate, message);
    }
}

fn check_immutable(subnet: &Subnet, world: &World, notes: &mut Notes) {
    let Some(old) = world.subnet_of_group(subnet.group, &subnet.name).filter(|old| old.uid == subnet.uid)
    else {
        return;
    };
    let spec = FieldPath::SPEC;
    let vni = |subnet: &Subnet| subnet.config.vni.map(|vni| vni.to_string()).unwrap_or_default();
    let changes = [
        ("cidrBlock", old.config.cidr.to_string(), subnet.config.cidr.to_string()),
        ("vpc", old.config.vpc.clone().unwrap_or_default(), subnet.config.vpc.clone().unwrap_or_default()),
        ("vni", vni(old), vni(subnet)),
    ];
    for (field, old, new) in changes.iter().filter(|(_, old, new)| old != new) {
        let message = format!("cannot be changed from {old:?}; make a new Subnet");
        notes.errors.add(&spec.field(field), new, Reason::Forbidden, message);
    }
}

fn check_overlap(subnet: &Subnet, world: &World, notes: &mut Notes) {
    let spec = FieldPath::SPEC;
    let itself = |other: &Subnet| other.name == subnet.name && other.group == subnet.group;
    for other in world.subnets_of_domain(&subnet.domain).filter(|other| !itself(other)) {
        if stands_first(subnet, other, world) || gives_way(other, subnet, world) {
            continue;
        }
        for (net, theirs) in
            overlaps(subnet.config.cidr.nets(), &other.config.cidr.nets().collect::<Vec<_>>())
        {
            let message =
                format!("overlaps {theirs} of {} in {}; choose another prefix", title(other), subnet.domain);
            notes.errors.add(&spec.field("cidrBlock"), net.to_string(), Reason::Duplicate, message);
        }
    }
    check_nodes(subnet, world, notes);
    let vpc = subnet.vpc().and_then(|name| world.vpc(name));
    for peering in vpc.iter().flat_map(|vpc| &vpc.config.peerings) {
        let connect: Vec<_> = peering.local_connect.nets().map(|net| net.trunc()).collect();
        for (net, theirs) in overlaps(subnet.config.cidr.nets(), &connect) {
            let message = format!(
                "overlaps {theirs}, which connects the VPC with {}; choose another prefix",
                peering.remote_vpc
            );
            notes.errors.add(&spec.field("cidrBlock"), net.to_string(), Reason::Duplicate, message);
        }
    }
}

/// A Subnet of the primary network must not have addresses of nodes: all others would send to pods what is meant for them. One that is in
/// effect stays so: a node that comes later is not believed to have such an address.
fn check_nodes(subnet: &Subnet, world: &World, notes: &mut Notes) {
    if subnet.vpc() != Some(DEFAULT_VPC) || best_validation(subnet, world) != Validation::Not {
        return;
    }
    let spec = FieldPath::SPEC;
    for net in subnet.config.cidr.nets() {
        let mut believed =
            world.nodes_within(net).filter(|(address, node)| world.node_addresses(node).contains(address));
        if let Some((address, node)) = believed.next() {
            let message = format!(
                "contains {address}, an address of Node {}, which the other nodes would not reach any more; choose another prefix",
                node.name
            );
            notes.errors.add(&spec.field("cidrBlock"), net.to_string(), Reason::Duplicate, message);
        }
    }
}

/// True for the prefixes of a node that are not in use and never will be while there is a Subnet that serves all nodes.
fn gives_way(other: &Subnet, subnet: &Subnet, world: &World) -> bool {
    let serves_all = subnet.config.default || world.default_of_nodes().is_some();
    let is_unused = other.validation == Validation::Not && !world.has_guests(&other.name);
    other.node().is_some() && is_unused && serves_all
}

/// What a subnet is called in a message.
pub fn title(subnet: &Subnet) -> String {
    match subnet.node() {
        Some(node) => format!("Node {node} (spec.podCIDRs)"),
        None => format!("Subnet {}", subnet.name),
    }
}

/// Why the prefixes of a node cannot be used beside the subnets of its VPC; those for which `counts` is false are left out.
pub fn node_prefixes(node: &Node, world: &World, counts: impl Fn(&Subnet) -> bool) -> Vec<FieldError> {
    let subnet = match node.subnet() {
        None => return Vec::new(),
        Some(Err(errors)) => return errors.into_iter().collect(),
        Some(Ok(subnet)) => subnet,
    };
    let mut errors = FieldErrors::new();
    let list = FieldPath::SPEC;
    let list = list.field("podCIDRs");
    let others = world.subnets_of_domain(&subnet.domain).filter(|other| other.name != subnet.name);
    // Of two that were given the same, the one that was there before has it.
    let yields = |other: &Subnet| {
        let other_node = other.node().and_then(|name| world.node(name));
        let is_younger = other_node.is_some_and(|other| node.is_older(other));
        is_younger && other.validation == Validation::Not && other.config.cidr == subnet.config.cidr
    };
    for other in others.filter(|other| counts(other) && !yields(other)) {
        for (net, theirs) in
            overlaps(subnet.config.cidr.nets(), &other.config.cidr.nets().collect::<Vec<_>>())
        {
            let message = format!(
                "overlaps {theirs} of {}, so the node's pods get no addresses of it; remove one of the two",
                title(other)
            );
            errors.add(&list, net.to_string(), Reason::Duplicate, message);
        }
    }
    for net in subnet.config.cidr.nets() {
        // A node that comes later is not believed to have such an address.
        let stands = |other: &Node| other.name == node.name || other.is_older(node);
        if let Some((address, other)) = world.nodes_within(net).find(|(_, other)| stands(other)) {
            let message = format!(
                "contains {address}, an address of Node {}, so the node's pods get no addresses of it; allocate prefixes outside the nodes' network",
                other.name
            );
            errors.add(&list, net.to_string(), Reason::Duplicate, message);
        }
    }
    errors.into_iter().collect()
}

fn overlaps(ours: impl Iterator<Item = IpNet>, theirs: &[IpNet]) -> Vec<(IpNet, IpNet)> {
    let overlap = |a: &IpNet, b: &IpNet| a.contains(&b.network()) || b.contains(&a.network());
    ours.flat_map(|net| {
        theirs.iter().filter(move |other| overlap(&net, other)).map(move |other| (net, *other))
    })
    .collect()
}

fn check_gateway(subnet: &Subnet, world: &World, notes: &mut Notes) {
    let spec = FieldPath::SPEC;
    match world.gateway_problem(subnet) {
        // The controller locks it, or finds out who has it.
        None | Some(GatewayProblem::Pending { .. }) => {}
        Some(problem @ GatewayProblem::Taken { address, .. }) => {
            notes.errors.add(
                &spec.field("gateway"),
                address.to_string(),
                Reason::Duplicate,
                problem.to_string(),
            );
        }
        Some(problem @ GatewayProblem::OtherDomain { .. }) => {
            notes.errors.add_bare(&spec.field("provider"), Reason::Forbidden, problem.to_string());
        }
    }
}

fn check_vpc(subnet: &Subnet, world: &World, notes: &mut Notes) {
    let spec = FieldPath::SPEC;
    let is_new = best_validation(subnet, world) == Validation::Not;
    if let Some(vpc) = subnet.vpc().and_then(|name| world.vpc(name))
        && vpc.life == Life::Terminating
        && is_new
    {
        notes.errors.add(&spec.field("vpc"), &vpc.name, Reason::Forbidden, VPC_IS_TERMINATING);
    }
    if let Some(vpc) = subnet.vpc().filter(|name| world.vpc(name).is_none()) {
        let message = "is no VPC that is in effect; the subnet has no router until it is";
        notes.warnings.add(&spec.field("vpc"), vpc, Reason::Invalid, message);
    }
}

/// What a Subnet of a tenant's VPC is to the pods of the namespaces that it names. One that is in effect as it is stays so: a node may come
/// later, and that is reported by itself.
fn check_tenant(subnet: &Subnet, world: &World, notes: &mut Notes) {
    let spec = FieldPath::SPEC;
    if subnet.config.default && subnet.is_of_tenant() && world.settings().first_interface.is_portolan() {
        let message = format!(
            "has no effect: pods' first interfaces are on Subnets of {DEFAULT_VPC}; name the namespaces whose pods are to be in this VPC in namespaces"
        );
        notes.warnings.add(&spec.field("default"), "true", Reason::Invalid, message);
    }
    for problem in world.tenant_problems(subnet) {
        let message = problem.to_string();
        match problem {
            TenantProblem::OtherServes { namespace, .. } => {
                notes.warnings.add(&spec.field("namespaces"), namespace, Reason::Duplicate, message);
            }
            TenantProblem::Overlap { net, .. } if subnet.validation != Validation::Current => {
                notes.errors.add(&spec.field("cidrBlock"), net.to_string(), Reason::Duplicate, message);
            }
            TenantProblem::Overlap { .. } => {}
        }
    }
}

fn check_provider(subnet: &Subnet, world: &World, notes: &mut Notes) {
    let Some(provider @ Provider::Nad { namespace, name }) = &subnet.config.provider else { return };
    let spec = FieldPath::SPEC;
    let (path, text) = (spec.field("provider"), provider.to_string());
    match world.nad(namespace, name).map(|nad| &nad.config) {
        None => {
            let message =
                format!("names network attachment definition {namespace}/{name}, which does not exist yet");
            notes.warnings.add(&path, &text, Reason::Invalid, message);
        }
        Some(Ok(NadConfig::Portolan(_))) => {}
        Some(Ok(NadConfig::Foreign { plugin })) => {
            let plugin = plugin.as_deref().unwrap_or("no plugin");
            let message = format!(
                "names network attachment definition {namespace}/{name}, which is of {plugin} and not Portolan's"
            );
            notes.errors.add(&path, &text, Reason::Invalid, message);
        }
        Some(Ok(NadConfig::Nfn { .. })) => {
            let message = format!(
                "names network attachment definition {namespace}/{name}, which is OVN4NFV's and has no subnet"
            );
            notes.errors.add(&path, &text, Reason::Invalid, message);
        }
        Some(Err(errors)) => {
            let message =
                format!("names network attachment definition {namespace}/{name}, which is wrong: {errors}");
            notes.warnings.add(&path, &text, Reason::Invalid, message);
        }
    }
    if let Some(other) = world.subnets_of_provider(provider).find(|other| other.name != subnet.name) {
        let message = format!(
            "is the provider of Subnet {} too; pods must name one in the annotation {provider}.kubernetes.io/logical_switch",
            other.name
        );
        notes.warnings.add(&path, &text, Reason::Duplicate, message);
    }
}

fn vpc(vpc: Result<Vpc, FieldErrors>, world: &World) -> Findings {
    let vpc = match vpc {
        Ok(vpc) => vpc,
        Err(errors) => return Notes { errors, ..Notes::default() }.into_findings(),
    };
    let mut notes = Notes::default();
    if let Some(other) = vpc.group.other()
        && world.has_vpc_of_group(other, &vpc.name)
    {
        let message =
            format!("is the name of a Vpc of {other} already; both groups share their names, choose another");
        let metadata = FieldPath::root("metadata");
        notes.errors.add(&metadata.field("name"), &vpc.name, Reason::Duplicate, message);
    }
    check_peerings(&vpc, world, &mut notes);
    check_routes(&vpc, world, &mut notes);
    check_default_subnet(&vpc, world, &mut notes);
    notes.into_findings()
}

fn check_peerings(vpc: &Vpc, world: &World, notes: &mut Notes) {
    let spec = FieldPath::SPEC;
    let list = spec.field("vpcPeerings");
    for (i, peering) in vpc.config.peerings.iter().enumerate() {
        let at = list.index(i);
        let (remote, local) = (at.field("remoteVpc"), at.field("localConnectIP"));
        match world.peering_problem(vpc, &peering.remote_vpc) {
            None => {}
            Some(problem @ (PeeringProblem::NoRemote { .. } | PeeringProblem::OneSided { .. })) => {
                notes.warnings.add(&remote, &peering.remote_vpc, Reason::Invalid, problem.to_string());
            }
            Some(problem) => {
                notes.errors.add(
                    &local,
                    peering.local_connect.to_string(),
                    Reason::Invalid,
                    problem.to_string(),
                );
            }
        }
        let nets = || peering.local_connect.nets().map(|net| net.trunc());
        for other in &vpc.config.peerings[..i] {
            let theirs: Vec<_> = other.local_connect.nets().map(|net| net.trunc()).collect();
            for (net, theirs) in overlaps(nets(), &theirs) {
                let message = format!(
                    "overlaps {theirs}, which connects this VPC with {}; choose another network",
                    other.remote_vpc
                );
                notes.errors.add(&local, net.to_string(), Reason::Duplicate, message);
            }
        }
        let domain = portolan_api::Domain::Vpc(vpc.name.as_str().into());
        for subnet in world.subnets_of_domain(&domain) {
            for (net, theirs) in overlaps(nets(), &subnet.config.cidr.nets().collect::<Vec<_>>()) {
                let message = format!(
                    "overlaps {theirs} of Subnet {} of this VPC; choose another network",
                    subnet.name
                );
                notes.errors.add(&local, net.to_string(), Reason::Duplicate, message);
            }
        }
    }
}

/// A next hop that no router port of the VPC is in a network with can never be reached.
fn check_routes(vpc: &Vpc, world: &World, notes: &mut Notes) {
    let spec = FieldPath::SPEC;
    let domain = portolan_api::Domain::Vpc(vpc.name.as_str().into());
    let reachable = |hop: IpAddr| {
        world.subnets_of_domain(&domain).any(|subnet| subnet.config.cidr.contains(hop))
            || vpc.config.peerings.iter().any(|peering| peering.local_connect.contains(hop))
    };
    let list = spec.field("staticRoutes");
    for (i, route) in
        vpc.config.static_routes.iter().enumerate().filter(|(_, route)| !reachable(route.next_hop))
    {
        let at = list.index(i);
        let message = "is in no subnet and no peering of this VPC; the route has no effect until it is";
        notes.warnings.add(&at.field("nextHopIP"), route.next_hop.to_string(), Reason::Invalid, message);
    }
}

fn check_default_subnet(vpc: &Vpc, world: &World, notes: &mut Notes) {
    let Some(name) = &vpc.config.default_subnet else { return };
    let spec = FieldPath::SPEC;
    let path = spec.field("defaultSubnet");
    match world.known_subnet(name) {
        None => {
            let message = "is no Subnet that exists; pods of the VPC's namespaces wait until it does";
            notes.warnings.add(&path, name, Reason::Invalid, message);
        }
        Some(subnet) if subnet.vpc() != Some(&vpc.name) => {
            let message = "is a Subnet of another VPC, or of none; name one of this VPC";
            notes.errors.add(&path, name, Reason::Invalid, message);
        }
        Some(_) => {}
    }
}

impl Findings {
    /// True if nothing stands in the way.
    pub fn is_valid(&self) -> bool {
        self.errors.is_empty()
    }
}
