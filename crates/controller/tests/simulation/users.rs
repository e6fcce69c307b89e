//! What users do, and what Kubernetes' own controllers do for them.

use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetSpec};
use k8s_openapi::api::core::v1::{Node as NodeObject, NodeSpec, Pod, PodSpec, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use kube::core::ObjectMeta;
use portolan_api::kubeovn;
use portolan_api::portolan::{IPLock, Subnet, Vpc};
use portolan_model::fixtures::{mk_kubeovn_subnet, mk_nad, mk_subnet, mk_vpc};
use portolan_model::{Validation, doors};

use super::node::Guests;
use super::server::Server;
use super::{Faults, is_finished};

const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";
const IP_POOL: &str = "tiny.default.ovn.kubernetes.io/ip_pool";
const IP_ADDRESS: &str = "tiny.default.ovn.kubernetes.io/ip_address";

/// What pods ask for. `tiny` has five addresses for guests, `dual` both families.
const REQUESTS: &[(&str, Option<(&str, &str)>)] = &[
    ("tiny", None),
    ("tiny,tiny", None),
    ("dual", None),
    ("dual,tiny", None),
    ("tiny", Some((IP_ADDRESS, "10.0.2.4"))),
    ("tiny", Some((IP_POOL, "10.0.2.4,10.0.2.5"))),
    ("tiny", Some((IP_POOL, "10.0.2.5,10.0.2.6"))),
    ("missing", None),
];

const PODS: usize = 9;

/// A subnet of the primary network around the prefixes of all nodes.
pub(crate) const AROUND_NODES: &str = "around";

/// A VPC, its subnets and networks, and two nodes.
pub(crate) fn prepare(server: &mut Server, faults: &Faults) {
    server.create(mk_vpc("blue"));
    for subnet in ["tiny", "dual"] {
        server.create(subnet_object(subnet));
        server.create(mk_nad("default", subnet));
    }
    for node in 0..2 {
        server.create(node_object(node, faults.is_primary().then_some(0)));
    }
}

/// A node, with one of its prefixes where the primary network is ours.
fn node_object(node: usize, prefix: Option<usize>) -> NodeObject {
    let metadata = ObjectMeta { name: Some(format!("node-{node}")), ..ObjectMeta::default() };
    let prefixes =
        |prefix: usize| vec![format!("10.60.{}.0/28", node * 2 + prefix), format!("fd00:6{node}::/64")];
    let spec = prefix.map(|prefix| NodeSpec { pod_cidrs: Some(prefixes(prefix)), ..NodeSpec::default() });
    NodeObject { metadata, spec, ..NodeObject::default() }
}

/// What happens only where the primary network is ours.
fn act_on_nodes(server: &mut Server, faults: &mut Faults) {
    match faults.below(5) {
        0 => drop(server.create(subnet_object(AROUND_NODES))),
        1 => drop(server.delete::<Subnet>(AROUND_NODES)),
        2 => {
            // Nodes come at the moment at which somebody makes the subnet: neither was judged before.
            server.delete::<Subnet>(AROUND_NODES);
            (0..2).for_each(|node| drop(server.delete::<NodeObject>(&format!("node-{node}"))));
            server.create(subnet_object(AROUND_NODES));
            for node in 0..2 {
                server.create(node_object(node, Some(faults.below(2))));
            }
        }
        _ => {
            let node = faults.below(2);
            if server.delete::<NodeObject>(&format!("node-{node}")).is_none() || faults.below(2) == 0 {
                server.create(node_object(node, Some(faults.below(2))));
            }
        }
    }
}

/// Subnets for one prefix, of which one can have it.
const RIVALS: [&str; 3] = ["rival-a", "rival-b", "rival-c"];
/// Another one, of the other API group.
const KUBEOVN_RIVAL: &str = "rival-k";

fn kubeovn_rival() -> kubeovn::Subnet {
    let mut subnet = mk_kubeovn_subnet(KUBEOVN_RIVAL, "10.0.8.0/24");
    subnet.spec.vpc = Some("blue".to_owned());
    subnet.status = None;
    subnet
}

/// A subnet that nobody judged yet.
fn subnet_object(name: &str) -> Subnet {
    let (cidr, provider) = match name {
        "tiny" => ("10.0.2.0/29", Some("tiny.default.ovn")),
        "dual" => ("10.0.4.0/24,fd00::/64", Some("dual.default.ovn")),
        AROUND_NODES => ("10.60.0.0/16", None),
        // Rivals for one prefix.
        _ => ("10.0.8.0/24", None),
    };
    let vpc = if name == AROUND_NODES { "ovn-cluster" } else { "blue" };
    let mut subnet = mk_subnet(name, cidr, vpc);
    subnet.spec.provider = provider.map(str::to_owned);
    subnet.status = None;
    subnet
}

/// The pods of a node.
pub(crate) fn pods_of(server: &Server, node: usize) -> Vec<Pod> {
    let on = |pod: &&Pod| {
        pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(&format!("node-{node}"))
    };
    server.pods.objects.values().filter(|pod| on(pod) && !is_finished(pod)).cloned().collect()
}

/// The networks that a pod asks for.
pub(crate) fn networks(pod: &Pod) -> Vec<String> {
    let networks = pod.annotations().get(NETWORKS).map(String::as_str).unwrap_or_default();
    networks.split(',').map(str::to_owned).collect()
}

/// Those who change things.
#[derive(Debug, Default)]
pub(crate) struct Users;

impl Users {
    /// Someone does something.
    pub(crate) fn act(&mut self, server: &mut Server, guests: &mut Guests, faults: &mut Faults) {
        if faults.is_primary() && faults.below(12) == 0 {
            return act_on_nodes(server, faults);
        }
        match faults.below(40) {
            0..12 => {
                let (networks, annotation) = REQUESTS[faults.below(REQUESTS.len())];
                let name = format!("pod-{}", faults.below(PODS));
                server.create(pod(&name, faults.below(2), networks, annotation));
            }
            12..22 => {
                let name = format!("pod-{}", faults.below(PODS));
                delete_pod(server, guests, &name);
            }
            22..24 => {
                let name = format!("pod-{}", faults.below(PODS));
                let finish = |pod: &mut Pod| {
                    pod.status = Some(PodStatus { phase: Some("Succeeded".into()), ..PodStatus::default() });
                };
                if let Some(uid) = server.get::<Pod>(&name).and_then(ResourceExt::uid) {
                    server.change::<Pod>(&name, finish);
                    guests.remove(&uid);
                }
            }
            24..28 => scale(server, faults.below(3) as i32),
            28..33 => {
                run_set(server, guests, faults);
            }
            33 => drop(server.delete::<StatefulSet>("db")),
            34 if faults.below(2) == 0 => {
                let name = ["tiny", "dual"][faults.below(2)];
                if faults.below(4) == 0 {
                    server.force::<Subnet>(name);
                }
                if server.delete::<Subnet>(name).is_none() || faults.below(2) == 0 {
                    server.create(subnet_object(name));
                }
            }
            35 if faults.below(4) == 0 => {
                if faults.below(4) == 0 {
                    server.force::<Vpc>("blue");
                }
                if server.delete::<Vpc>("blue").is_none() || faults.below(2) == 0 {
                    server.create(mk_vpc("blue"));
                }
            }
            34..38 => match RIVALS.get(faults.below(RIVALS.len() + 2)) {
                Some(rival) => {
                    server.create(subnet_object(rival));
                }
                None => {
                    server.create(kubeovn_rival());
                }
            },
            38 => match RIVALS.get(faults.below(RIVALS.len() + 2)) {
                Some(rival) => drop(server.delete::<Subnet>(rival)),
                None => drop(server.delete::<kubeovn::Subnet>(KUBEOVN_RIVAL)),
            },
            39 if faults.below(3) == 0 => spoil_or_correct(server, faults),
            _ => {
                let name = ["tiny", "dual"][faults.below(2)];
                let gateway = ["10.0.2.1", "10.0.2.6"][faults.below(2)];
                if name == "tiny" {
                    server.change::<Subnet>(name, |subnet| {
                        if subnet.spec.gateway.as_deref() != Some(gateway) {
                            subnet.spec.gateway = Some(gateway.to_owned());
                            subnet.metadata.generation =
                                subnet.metadata.generation.map(|generation| generation + 1);
                        }
                    });
                }
            }
        }
    }

    /// Someone creates what is missing, and Kubernetes' controllers finish their work. False if there was nothing to do.
    pub(crate) fn settle(&mut self, server: &mut Server, guests: &mut Guests, faults: &Faults) -> bool {
        let mut busy = finish_deletions(server, guests);
        let around = server.get::<Subnet>(AROUND_NODES);
        if around.is_some_and(|subnet| subnet.metadata.deletion_timestamp.is_none()) {
            busy |= server.delete::<Subnet>(AROUND_NODES).is_some();
        }
        for node in 0..2 {
            busy |= server.create(node_object(node, faults.is_primary().then_some(0)));
        }
        if server.get::<Vpc>("blue").is_none() {
            busy |= server.create(mk_vpc("blue"));
        }
        for subnet in ["tiny", "dual"] {
            if server.get::<Subnet>(subnet).is_none() {
                busy |= server.create(subnet_object(subnet));
            }
        }
        for ordinal in 0..3 {
            busy |= run_ordinal(server, guests, ordinal, 0);
        }
        let spoilt = server.locks.objects.values().filter(|lock| is_spoilt(lock)).map(ResourceExt::name_any);
        for name in spoilt.collect::<Vec<_>>() {
            busy |= server.change::<IPLock>(&name, correct);
        }
        busy
    }
}

/// What makes a lock unreadable goes before its MAC address.
const SPOILT: &str = "spoilt ";

fn is_spoilt(lock: &IPLock) -> bool {
    lock.spec.mac.as_ref().is_some_and(|mac| mac.starts_with(SPOILT))
}

fn correct(lock: &mut IPLock) {
    lock.spec.mac = lock.spec.mac.as_ref().map(|mac| mac.trim_start_matches(SPOILT).to_owned());
}

/// Someone edits a lock so that it cannot be read, or corrects one.
fn spoil_or_correct(server: &mut Server, faults: &mut Faults) {
    let mut locks = server.locks.objects.values().filter(|lock| lock.spec.mac.is_some());
    let Some(name) = locks.nth(faults.below(server.locks.objects.len())).map(ResourceExt::name_any) else {
        return;
    };
    server.change::<IPLock>(&name, |lock| match is_spoilt(lock) {
        true => correct(lock),
        false => lock.spec.mac = lock.spec.mac.as_ref().map(|mac| format!("{SPOILT}{mac}")),
    });
}

/// Whoever uses what was deleted goes. False if there was nothing to do.
fn finish_deletions(server: &mut Server, guests: &mut Guests) -> bool {
    let mut busy = false;
    let is_deleted = |metadata: &ObjectMeta| metadata.deletion_timestamp.is_some();
    if server.get::<Vpc>("blue").is_some_and(|vpc| is_deleted(&vpc.metadata)) {
        // Those that were made since wait for the next VPC.
        let is_in = |subnet: &&Subnet| {
            // One that never was in effect does not hold its VPC; one whose last edit was refused may be in use all the same.
            let is_used = doors::portolan::validation(subnet) != Validation::Not
                || server.locks.objects.values().any(|lock| lock.spec.subnet == subnet.name_any());
            !is_deleted(&subnet.metadata) && is_used
        };
        let subnets = server.subnets.objects.values().filter(is_in);
        for name in subnets.map(ResourceExt::name_any).collect::<Vec<_>>() {
            busy |= server.delete::<Subnet>(&name).is_some();
        }
        if server.get::<kubeovn::Subnet>(KUBEOVN_RIVAL).is_some_and(|subnet| {
            !is_deleted(&subnet.metadata) && doors::kubeovn::validation(subnet) != Validation::Not
        }) {
            busy |= server.delete::<kubeovn::Subnet>(KUBEOVN_RIVAL).is_some();
        }
    }
    let deleted = server.subnets.objects.values().filter(|subnet| is_deleted(&subnet.metadata));
    let deleted: Vec<_> = deleted.map(ResourceExt::name_any).collect();
    if deleted.iter().any(|subnet| subnet == "dual") {
        busy |= server.delete::<StatefulSet>("db").is_some();
    }
    let uses = |pod: &&Pod| networks(pod).iter().any(|network| deleted.contains(network));
    let pods: Vec<_> = server.pods.objects.values().filter(uses).map(ResourceExt::name_any).collect();
    for pod in pods {
        busy |= delete_pod(server, guests, &pod);
    }
    busy
}

fn pod(name: &str, node: usize, networks: &str, annotation: Option<(&str, &str)>) -> Pod {
    let mut annotations = std::collections::BTreeMap::from([(NETWORKS.to_owned(), networks.to_owned())]);
    annotations.extend(annotation.map(|(key, value)| (key.to_owned(), value.to_owned())));
    let metadata = ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some("default".to_owned()),
        annotations: Some(annotations),
        ..ObjectMeta::default()
    };
    let spec = PodSpec { node_name: Some(format!("node-{node}")), ..PodSpec::default() };
    Pod { metadata, spec: Some(spec), status: None }
}

/// A pod's object goes when its sandbox is gone.
fn delete_pod(server: &mut Server, guests: &mut Guests, name: &str) -> bool {
    match server.delete::<Pod>(name) {
        Some(pod) => {
            guests.remove(&pod.uid().unwrap_or_default());
            true
        }
        None => false,
    }
}

fn scale(server: &mut Server, replicas: i32) {
    if server.get::<StatefulSet>("db").is_none() {
        let metadata = ObjectMeta {
            name: Some("db".into()),
            namespace: Some("default".into()),
            ..ObjectMeta::default()
        };
        server.create(StatefulSet { metadata, spec: Some(StatefulSetSpec::default()), status: None });
    }
    server.change::<StatefulSet>("db", |set| set.spec.get_or_insert_default().replicas = Some(replicas));
}

/// The StatefulSet controller does a bit of its work.
fn run_set(server: &mut Server, guests: &mut Guests, faults: &mut Faults) {
    run_ordinal(server, guests, faults.below(3) as i32, faults.below(2));
}

fn run_ordinal(server: &mut Server, guests: &mut Guests, ordinal: i32, node: usize) -> bool {
    let name = format!("db-{ordinal}");
    let set = server.get::<StatefulSet>("db").cloned();
    let wanted =
        set.as_ref().filter(|set| set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1) > ordinal);
    let exists = server.get::<Pod>(&name).cloned();
    match (wanted, exists) {
        (Some(set), None) => {
            let mut pod = pod(&name, node, "dual", None);
            pod.metadata.owner_references = Some(vec![OwnerReference {
                kind: "StatefulSet".into(),
                name: "db".into(),
                uid: set.uid().unwrap_or_default(),
                controller: Some(true),
                ..OwnerReference::default()
            }]);
            server.create(pod)
        }
        (Some(set), Some(pod)) => {
            let owner = pod.metadata.owner_references.iter().flatten().next().map(|owner| owner.uid.clone());
            owner != set.uid() && delete_pod(server, guests, &name)
        }
        (None, Some(_)) => delete_pod(server, guests, &name),
        (None, None) => false,
    }
}
