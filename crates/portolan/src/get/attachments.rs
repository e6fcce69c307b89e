//! Attachments: interfaces that have addresses, and those that are requested and wait.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use portolan_api::Provider;
use portolan_api::condition::READY;
use portolan_api::portolan::{HolderKind, NetworkAttachment};
use portolan_model::{AttachmentId, Lock, Request, Requester, UnitState};
use serde::Serialize;

use super::{Format, Readiness, Row};
use crate::cluster::{Condition, Snapshot};

/// An interface.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AttachmentRow {
    pub(crate) namespace: Option<String>,
    /// The pod that uses it, or whatever else holds it.
    pub(crate) pod: String,
    /// The UID of the pod.
    #[serde(skip)]
    pub(crate) uid: Option<String>,
    /// What holds it: a Pod, a StatefulSet, a VirtualMachine, a NetworkAttachment, a Node.
    pub(crate) holder: String,
    pub(crate) interface: Option<String>,
    /// Its name on the node, if it is one of the node itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) link: Option<String>,
    pub(crate) subnet: Option<String>,
    /// The network attachment definition, `NAMESPACE/NAME`: what `portolan trace --network` takes.
    pub(crate) network: Option<String>,
    pub(crate) addresses: Vec<String>,
    pub(crate) mac: Option<String>,
    pub(crate) node: Option<String>,
    /// The name of its port in OVN.
    pub(crate) port: Option<String>,
    #[serde(flatten)]
    pub(crate) readiness: Readiness,
}

/// All interfaces, or those of a namespace.
pub(crate) fn rows(snapshot: &Snapshot, namespace: Option<&str>) -> Vec<AttachmentRow> {
    let world = &snapshot.world;
    let mut held: BTreeMap<&AttachmentId, Vec<&Lock>> = BTreeMap::new();
    // A gateway's address is locked too, and is no interface of anyone's.
    for lock in
        world.locks().filter(|lock| !matches!(lock.attachment.kind(), HolderKind::Subnet | HolderKind::Vip))
    {
        held.entry(&lock.attachment).or_default().push(lock);
    }
    let pods = PodsByUid::of(snapshot);
    let mut rows: Vec<_> = held.iter().map(|(id, locks)| held_row(snapshot, &pods, id, locks)).collect();
    let have: BTreeSet<_> = held.keys().map(|id| (id.uid().to_string(), id.interface())).collect();
    for requester in world.unsatisfied() {
        let request = world.request(requester);
        if let Some(request) =
            request.filter(|request| !matches!(request.holder.kind, HolderKind::Subnet | HolderKind::Vip))
        {
            let has = |interface: &str| have.contains(&(request.holder.uid.clone(), interface));
            rows.extend(requested_rows(requester, &request, has));
        }
    }
    rows.retain(|row| namespace.is_none_or(|namespace| row.namespace.as_deref() == Some(namespace)));
    let key = |row: &AttachmentRow| (row.namespace.clone(), row.pod.clone(), row.interface.clone());
    rows.sort_by_key(key);
    for row in &mut rows {
        let subnet = row.subnet.as_ref().and_then(|subnet| world.known_subnet(subnet));
        row.network = subnet.and_then(|subnet| subnet.config.provider.as_ref()).and_then(network_of);
    }
    rows
}

/// Pods by UID: there may be many, and each is asked after.
struct PodsByUid<'a>(HashMap<&'a str, &'a Pod>);

impl<'a> PodsByUid<'a> {
    fn of(snapshot: &'a Snapshot) -> Self {
        let pods = snapshot.lists.pods.iter();
        Self(pods.filter_map(|pod| Some((pod.metadata.uid.as_deref()?, pod))).collect())
    }
}

/// An interface that has addresses.
fn held_row(snapshot: &Snapshot, pods: &PodsByUid<'_>, id: &AttachmentId, locks: &[&Lock]) -> AttachmentRow {
    let attachment = snapshot.world.attachment(id);
    let first = locks.first();
    let user = locks.iter().find_map(|lock| lock.user.as_ref());
    let addresses: Vec<_> = match attachment {
        Some(attachment) => attachment.addresses.iter().map(ToString::to_string).collect(),
        None => locks.iter().filter_map(|lock| lock.ip()).map(|ip| ip.to_string()).collect(),
    };
    let mac = attachment.map(|attachment| attachment.mac).or_else(|| first.and_then(|lock| lock.mac));
    AttachmentRow {
        namespace: id.namespace().map(str::to_owned),
        pod: user.map_or_else(|| id.name().to_owned(), |user| user.pod.clone()),
        uid: Some(user.map_or_else(|| id.uid().to_string(), |user| user.uid.clone())),
        holder: format!("{:?} {}", id.kind(), id.name()),
        interface: Some(id.interface().to_owned()),
        link: network_attachment(snapshot, id).and_then(|found| found.status.as_ref()?.interface.clone()),
        subnet: first.map(|lock| lock.subnet().to_string()),
        network: None,
        addresses,
        mac: mac.map(|mac| mac.to_string()),
        node: locks.iter().find_map(|lock| lock.node().map(str::to_owned)),
        port: locks.iter().find_map(|lock| lock.iface_id()).or_else(|| Some(id.iface_id())),
        readiness: match attachment {
            Some(_) => of_holder(snapshot, pods, id, locks),
            None => not_in_effect(snapshot, locks),
        },
    }
}

/// Why an interface that has addresses is not in effect.
fn not_in_effect(snapshot: &Snapshot, locks: &[&Lock]) -> Readiness {
    let subnet = locks.first().map(|lock| lock.subnet().clone()).unwrap_or_default();
    match snapshot.world.state(&portolan_model::Unit::Subnet(subnet.to_string())) {
        UnitState::Absent => {
            let message = format!("its Subnet {subnet} does not exist; create it again, or delete the pod");
            Readiness::no("NoSubnet", message)
        }
        UnitState::Held => Readiness::no(
            "SubnetNotReady",
            format!("its Subnet {subnet} is invalid: see `portolan describe subnet {subnet}`"),
        ),
        UnitState::Live => Readiness::no("Incomplete", "not all of its addresses are taken yet"),
    }
}

/// The `NetworkAttachment` that holds addresses, if it is one.
fn network_attachment<'a>(snapshot: &'a Snapshot, id: &AttachmentId) -> Option<&'a NetworkAttachment> {
    snapshot.lists.network_attachments.iter().find(|one| one.uid().is_some_and(|uid| *id.uid() == uid))
}

/// Whether the holder of an interface uses it.
fn of_holder(snapshot: &Snapshot, pods: &PodsByUid<'_>, id: &AttachmentId, locks: &[&Lock]) -> Readiness {
    match id.kind() {
        HolderKind::Node => Readiness::unknown("NotReported", "agents do not report on their own interfaces"),
        HolderKind::Subnet | HolderKind::Vip => Readiness::yes(),
        HolderKind::NetworkAttachment => {
            let found = network_attachment(snapshot, id);
            let conditions = found.and_then(|found| found.status.as_ref()).map(|status| &status.conditions);
            let condition = conditions.into_iter().flatten().find(|condition| condition.type_ == READY);
            match condition.map(Condition::from) {
                Some(condition) => Readiness::from(&condition),
                None => Readiness::unknown("NotReported", "the agent of its node has not reported on it yet"),
            }
        }
        HolderKind::Pod | HolderKind::StatefulSet | HolderKind::VirtualMachine => {
            let user = locks.iter().find_map(|lock| lock.user.as_ref());
            let (name, uid) =
                user.map_or((id.name(), id.uid().to_string()), |user| (user.pod.as_str(), user.uid.clone()));
            of_pod(pods, name, &uid)
        }
    }
}

fn of_pod(pods: &PodsByUid<'_>, name: &str, uid: &str) -> Readiness {
    let pod = pods.0.get(uid);
    let phase = pod.and_then(|pod| pod.status.as_ref()).and_then(|status| status.phase.as_deref());
    match (pod, phase) {
        (None, _) => Readiness::no(
            "PodDeleted",
            "its pod does not exist any more; the controller is about to release its address",
        ),
        (Some(_), Some("Running")) => Readiness::yes(),
        (Some(_), Some("Succeeded" | "Failed")) => Readiness::no(
            "PodFinished",
            "its pod has finished; the controller is about to release its address",
        ),
        (Some(_), _) => Readiness::no(
            "Starting",
            format!("its pod does not run yet; `portolan describe pod {name}` shows why"),
        ),
    }
}

/// Interfaces that are requested and have no address.
fn requested_rows(
    requester: &Requester,
    request: &Request,
    has: impl Fn(&str) -> bool,
) -> Vec<AttachmentRow> {
    let (namespace, pod) = match requester {
        Requester::Pod { namespace, name }
        | Requester::NetworkAttachment { namespace, name }
        | Requester::VirtualMachine { namespace, name } => (Some(namespace.clone()), name.clone()),
        Requester::Node { name } | Requester::Subnet { name } | Requester::Vip { name } => {
            (None, name.clone())
        }
    };
    let readiness = why(request);
    let row = |interface: Option<String>, subnet: Option<String>| AttachmentRow {
        namespace: namespace.clone(),
        pod: pod.clone(),
        uid: Some(request.user.as_ref().map_or_else(|| request.holder.uid.clone(), |user| user.uid.clone())),
        holder: format!("{:?} {pod}", request.holder.kind),
        interface,
        link: None,
        subnet,
        network: None,
        addresses: Vec::new(),
        mac: None,
        node: Some(request.node.clone()).filter(|node| !node.is_empty()),
        port: None,
        readiness: readiness.clone(),
    };
    let missing = request.interfaces.iter().filter(|interface| !has(&interface.interface));
    let mut rows: Vec<_> =
        missing.map(|one| row(Some(one.interface.clone()), Some(one.subnet.clone()))).collect();
    if rows.is_empty() && !request.is_ready() {
        rows.push(row(None, None));
    }
    rows
}

/// Why a requester has no address yet.
pub(crate) fn why(request: &Request) -> Readiness {
    let texts = |texts: Vec<String>| texts.join("; ");
    if !request.problems.is_empty() {
        return Readiness::no(
            "InvalidRequest",
            texts(request.problems.iter().map(ToString::to_string).collect()),
        );
    }
    if !request.waits.is_empty() {
        return Readiness::no("Waiting", texts(request.waits.iter().map(ToString::to_string).collect()));
    }
    let message =
        "no address is assigned yet: the subnet may be full, or `portolan controller` is not running";
    Readiness::no("NoAddress", message)
}

impl Row for AttachmentRow {
    const WHAT: &'static str = "an interface of pod";

    fn columns(format: Format) -> Vec<&'static str> {
        let mut columns = if format.namespaces { vec!["NAMESPACE"] } else { Vec::new() };
        columns.extend(["POD", "INTERFACE", "SUBNET", "ADDRESSES", "MAC", "NODE", "READY"]);
        if format.wide {
            columns.extend(["NETWORK", "HOLDER", "PORT", "MESSAGE"]);
        }
        columns
    }

    fn cells(&self, format: Format) -> Vec<String> {
        let of = |value: &Option<String>| value.clone().unwrap_or_default();
        let mut cells = if format.namespaces { vec![of(&self.namespace)] } else { Vec::new() };
        cells.extend([
            self.pod.clone(),
            self.link.clone().unwrap_or_else(|| of(&self.interface)),
            of(&self.subnet),
            self.addresses.join(","),
            of(&self.mac),
            of(&self.node),
            self.readiness.word(),
        ]);
        if format.wide {
            cells.extend([
                of(&self.network),
                self.holder.clone(),
                of(&self.port),
                self.readiness.message.clone(),
            ]);
        }
        cells
    }

    fn names(&self) -> Vec<&str> {
        vec![&self.pod]
    }

    /// As `portolan describe attachment` takes it.
    fn full_name(&self) -> String {
        let namespace = self.namespace.as_ref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
        let interface = self.interface.as_ref().map(|interface| format!("/{interface}")).unwrap_or_default();
        format!("{namespace}{}{interface}", self.pod)
    }

    fn uid(&self) -> Option<&str> {
        self.uid.as_deref()
    }
}

/// The network attachment definition of a provider.
fn network_of(provider: &Provider) -> Option<String> {
    match provider {
        Provider::Nad { namespace, name } => Some(format!("{namespace}/{name}")),
        _ => None,
    }
}
