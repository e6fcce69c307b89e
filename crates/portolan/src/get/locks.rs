//! Locks: the addresses that are taken.

use kube::ResourceExt as _;
use portolan_api::portolan::IPLock;
use serde::Serialize;

use super::{Format, Row};
use crate::cluster::{Snapshot, created};
use crate::output::age;

/// An address that is taken.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LockRow {
    pub(crate) name: String,
    #[serde(skip)]
    pub(crate) uid: Option<String>,
    pub(crate) address: String,
    pub(crate) subnet: String,
    pub(crate) domain: String,
    /// Whose it is: `Pod default/web`.
    pub(crate) owner: String,
    pub(crate) interface: Option<String>,
    /// The pod that uses it now, where that is not the owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) user: Option<String>,
    pub(crate) mac: Option<String>,
    pub(crate) node: Option<String>,
    /// Why it is invalid, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) problem: Option<String>,
    #[serde(serialize_with = "super::timestamp")]
    pub(crate) created: Option<i64>,
}

/// All locks, or those whose owners are of a namespace; by subnet and address.
pub(crate) fn rows(snapshot: &Snapshot, namespace: Option<&str>) -> Vec<LockRow> {
    let of_namespace = |lock: &&IPLock| {
        namespace.is_none_or(|namespace| lock.spec.holder.namespace.as_deref() == Some(namespace))
    };
    let mut locks: Vec<_> = snapshot.lists.locks.iter().filter(of_namespace).collect();
    // By number, so that .10 comes after .9.
    let key = |lock: &IPLock| {
        let address: Option<std::net::IpAddr> = lock.spec.address.parse().ok();
        (lock.spec.subnet.clone(), address, lock.spec.address.clone())
    };
    locks.sort_by_cached_key(|lock| key(lock));
    locks.into_iter().map(row).collect()
}

/// One lock.
pub(crate) fn row(lock: &IPLock) -> LockRow {
    let spec = &lock.spec;
    let holder = &spec.holder;
    let of = holder.namespace.as_ref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
    LockRow {
        name: lock.name_any(),
        uid: lock.uid(),
        address: spec.address.clone(),
        subnet: spec.subnet.clone(),
        domain: spec.domain.clone(),
        owner: format!("{:?} {of}{}", holder.kind, holder.name),
        interface: holder.interface.clone(),
        user: spec.user.as_ref().map(|user| user.pod.clone()),
        mac: spec.mac.clone(),
        node: spec.node.clone(),
        problem: lock.parse().err().map(|errors| errors.to_string()),
        created: created(lock),
    }
}

impl Row for LockRow {
    const WHAT: &'static str = "lock";

    fn columns(format: Format) -> Vec<&'static str> {
        let mut columns = vec!["ADDRESS", "SUBNET", "OWNER", "INTERFACE", "NODE", "AGE"];
        if format.wide {
            columns.extend(["MAC", "DOMAIN", "NAME", "MESSAGE"]);
        }
        columns
    }

    fn cells(&self, format: Format) -> Vec<String> {
        let of = |value: &Option<String>| value.clone().unwrap_or_default();
        let mut cells = vec![
            self.address.clone(),
            self.subnet.clone(),
            self.owner.clone(),
            of(&self.interface),
            of(&self.node),
            age(self.created, format.now),
        ];
        if format.wide {
            cells.extend([of(&self.mac), self.domain.clone(), self.name.clone(), of(&self.problem)]);
        }
        cells
    }

    fn names(&self) -> Vec<&str> {
        vec![&self.address, &self.name]
    }

    fn full_name(&self) -> String {
        format!("iplock.portolan.dev/{}", self.name)
    }

    fn uid(&self) -> Option<&str> {
        self.uid.as_deref()
    }
}
