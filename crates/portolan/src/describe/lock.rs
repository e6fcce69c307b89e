//! A lock: an address that is taken.

use kube::ResourceExt as _;
use portolan_api::portolan::{HolderKind, IPLock};

use super::Description;
use super::sheet::Sheet;
use crate::cluster::Snapshot;
use crate::exit::Failure;
use crate::get::locks;
use crate::near;
use crate::output::age;

/// By name, or by address: there may be several of one address, each in its own domain.
pub(super) fn describe(snapshot: &Snapshot, name: &str, now: i64) -> anyhow::Result<Vec<Description>> {
    let all = &snapshot.lists.locks;
    let is_named = |lock: &&IPLock| lock.name_any() == name || lock.spec.address == name;
    let found: Vec<_> = all.iter().filter(is_named).map(|lock| describe_one(snapshot, lock, now)).collect();
    if found.is_empty() {
        let names: Vec<_> = all.iter().map(|lock| lock.spec.address.clone()).collect();
        let hint = near::suggest(name, names.iter().map(String::as_str));
        return Err(Failure::not_found(format!(
            "lock {name:?} does not exist: the address is not taken{hint}"
        )));
    }
    Ok(found)
}

fn describe_one(snapshot: &Snapshot, lock: &IPLock, now: i64) -> Description {
    let row = locks::row(lock);
    let mut sheet = Sheet::new(format!("Lock {}: {} is taken in {}", row.name, row.address, row.domain));
    let of = |value: &Option<String>| value.clone().unwrap_or_default();
    sheet.field("Owner", row.owner.clone());
    sheet.field("Interface", of(&row.interface));
    sheet.field("Used by", of(&row.user));
    sheet.field("Subnet", row.subnet.clone());
    sheet.field("MAC", of(&row.mac));
    sheet.field("Node", of(&row.node));
    sheet.field("Age", age(row.created, now));
    sheet.field("Released", when_released(lock.spec.holder.kind));
    let mut problems: Vec<_> = row.problem.into_iter().collect();
    if snapshot.world.known_subnet(&row.subnet).is_none() {
        problems.push(format!("its Subnet {} does not exist any more, or is invalid", row.subnet));
    }
    let holder = &lock.spec.holder;
    let namespace = holder.namespace.as_deref().unwrap_or_default();
    let pod = snapshot.world.pod(namespace, &holder.name);
    if holder.kind == HolderKind::Pod && pod.is_none_or(|pod| pod.uid != holder.uid) {
        problems.push("its pod does not exist any more; the controller releases it, if it runs".into());
    }
    if !problems.is_empty() {
        sheet.lines("Problems", problems);
    }
    Description { sheet, uid: lock.uid() }
}

fn when_released(kind: HolderKind) -> &'static str {
    match kind {
        HolderKind::Pod => "when the pod is deleted or has finished",
        HolderKind::StatefulSet => {
            "when no pod uses it, and the StatefulSet is scaled below this ordinal or deleted"
        }
        HolderKind::VirtualMachine => "when the virtual machine is deleted and no pod runs it",
        HolderKind::NetworkAttachment => "when the NetworkAttachment is deleted",
        HolderKind::Node => "when the Node is deleted",
        HolderKind::Subnet => "when the Subnet is deleted or has another gateway",
        HolderKind::Vip => "when the Vip is deleted",
    }
}
