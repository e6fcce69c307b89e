//! An interface.

use kube::ResourceExt as _;

use super::Description;
use super::sheet::Sheet;
use crate::cluster::Snapshot;
use crate::exit::Failure;
use crate::get::Ready;
use crate::get::attachments::{self, AttachmentRow};
use crate::near;

/// `POD`, `POD/INTERFACE` or `NAMESPACE/POD/INTERFACE`.
pub(super) fn describe(snapshot: &Snapshot, name: &str, namespace: &str) -> anyhow::Result<Vec<Description>> {
    let parts: Vec<_> = name.split('/').collect();
    let (namespace, pod, interface) = match *parts.as_slice() {
        [pod] => (namespace, pod, None),
        [pod, interface] => (namespace, pod, Some(interface)),
        [namespace, pod, interface] => (namespace, pod, Some(interface)),
        _ => {
            let message =
                format!("{name:?} is no interface; write POD, POD/INTERFACE or NAMESPACE/POD/INTERFACE");
            return Err(Failure::usage(message));
        }
    };
    let rows = attachments::rows(snapshot, Some(namespace));
    let of_pod: Vec<_> = rows.iter().filter(|row| row.pod == pod).collect();
    if of_pod.is_empty() {
        let hint = near::suggest(pod, rows.iter().map(|row| row.pod.as_str()));
        let message =
            format!("no pod {pod:?} in namespace {namespace:?} has an interface of Portolan's{hint}");
        return Err(Failure::not_found(message));
    }
    let wanted = |row: &&&AttachmentRow| interface.is_none() || row.interface.as_deref() == interface;
    let described: Vec<_> = of_pod.iter().filter(wanted).map(|row| describe_one(snapshot, row)).collect();
    if described.is_empty() {
        let names = of_pod.iter().filter_map(|row| row.interface.as_deref());
        let wanted = interface.unwrap_or_default();
        let hint = near::suggest(wanted, names);
        return Err(Failure::not_found(format!(
            "pod {pod:?} has no interface {wanted:?} of Portolan's{hint}"
        )));
    }
    Ok(described)
}

fn describe_one(snapshot: &Snapshot, row: &AttachmentRow) -> Description {
    let namespace = row.namespace.as_deref().unwrap_or_default();
    let interface = row.interface.as_deref().unwrap_or("(not known yet)");
    let mut sheet = Sheet::new(format!("Interface {interface} of {namespace}/{}", row.pod));
    let of = |value: &Option<String>| value.clone().unwrap_or_default();
    sheet.field("Ready", row.readiness.word());
    sheet.field("Held by", row.holder.clone());
    sheet.field("Subnet", of(&row.subnet));
    sheet.field("Network", of(&row.network));
    sheet.field("Addresses", row.addresses.join(", "));
    sheet.field("MAC", of(&row.mac));
    let subnet = row.subnet.as_ref().and_then(|subnet| snapshot.world.known_subnet(subnet));
    if let Some(subnet) = subnet {
        sheet.field("Gateway", subnet.config.gateway.to_string());
        sheet.field("VPC", subnet.config.vpc.clone().unwrap_or_else(|| "none".into()));
    }
    sheet.field("Node", of(&row.node));
    if let Some(link) = &row.link {
        sheet.field("Interface on the node", link.clone());
    }
    sheet.field("OVN port", of(&row.port));
    let locks = snapshot.world.locks().filter(|lock| {
        lock.attachment.namespace() == row.namespace.as_deref()
            && Some(lock.attachment.interface()) == row.interface.as_deref()
            && lock.iface_id().is_none_or(|port| Some(port) == row.port)
            && row.holder.ends_with(&format!(" {}", lock.attachment.name()))
    });
    let locks: Vec<_> = locks.map(|lock| lock.name.to_string()).collect();
    if !locks.is_empty() {
        sheet.lines("Locks", locks);
    }
    if row.readiness.ready != Ready::Yes {
        sheet.lines("Problems", [row.readiness.message.clone()]);
    }
    let pod = snapshot
        .lists
        .pods
        .iter()
        .find(|pod| pod.namespace().as_deref() == row.namespace.as_deref() && pod.name_any() == row.pod);
    let uid = match row.holder.starts_with("NetworkAttachment ") {
        true => row.uid.clone(),
        false => pod.and_then(kube::ResourceExt::uid),
    };
    Description { sheet, uid }
}
