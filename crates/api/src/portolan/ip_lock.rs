//! `IPLock`: the fact that an address is taken, and by whom. The only hard state of addressing.

use std::fmt;
use std::net::IpAddr;

use kube_core::ResourceExt;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::lock_name::{LockAddress, LockName};
use crate::cidr::{Family, parse_address};
use crate::condition::Condition;
use crate::domain::Domain;
use crate::field_error::{FieldErrors, FieldPath, Reason};
use crate::mac::{Mac, parse_interface_mac};

/// The fact that an address of a domain is taken. Creating it is taking the address.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "portolan.dev",
    version = "v1alpha1",
    kind = "IPLock",
    status = "IPLockStatus",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core"),
    doc = "The fact that an address is taken, and by whom. Its name is a function of the domain and the address.",
    plural = "iplocks",
    shortname = "ipl",
    category = "portolan",
    selectable = ".spec.domain",
    selectable = ".spec.subnet",
    selectable = ".spec.node",
    selectable = ".spec.target.node",
    printcolumn(name = "Domain", type_ = "string", json_path = ".spec.domain"),
    printcolumn(name = "Address", type_ = "string", json_path = ".spec.address"),
    printcolumn(name = "Subnet", type_ = "string", json_path = ".spec.subnet"),
    printcolumn(name = "Kind", type_ = "string", json_path = ".spec.holder.kind"),
    printcolumn(name = "Namespace", type_ = "string", json_path = ".spec.holder.namespace"),
    printcolumn(name = "Holder", type_ = "string", json_path = ".spec.holder.name"),
    printcolumn(name = "Interface", type_ = "string", json_path = ".spec.holder.interface", priority = "1"),
    printcolumn(name = "Node", type_ = "string", json_path = ".spec.node"),
    printcolumn(name = "MAC", type_ = "string", json_path = ".spec.mac", priority = "1"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "self == oldSelf || oldSelf.holder.kind in ['StatefulSet', 'VirtualMachine']",
     "message": "a lock is immutable; only user, target, node, hostIP and interfaces of a StatefulSet's or a VirtualMachine's change, with the current pod"},
    {"rule": "has(self.mac) == has(oldSelf.mac) && (!has(self.mac) || self.mac == oldSelf.mac)",
     "message": "mac is immutable", "fieldPath": ".mac"},
    {"rule": "has(self.ifaceId) == has(oldSelf.ifaceId) && (!has(self.ifaceId) || self.ifaceId == oldSelf.ifaceId)",
     "message": "ifaceId is immutable", "fieldPath": ".ifaceId"},
    {"rule": "!has(self.target) || self.holder.kind == 'VirtualMachine'",
     "message": "only the lock of a VirtualMachine has a target", "fieldPath": ".target"},
    {"rule": "!has(self.target) || !has(self.user) || self.target.uid != self.user.uid",
     "message": "target must be another pod than user", "fieldPath": ".target"}
]))]
pub struct IPLockSpec {
    /// The address domain: `vpc/<name>`, `subnet/<name>` or `vni/<number>`. Immutable.
    #[schemars(length(min = 5, max = 260), regex(pattern = r"^((vpc|subnet)/[a-z0-9]([-a-z0-9.]*[a-z0-9])?|vni/[1-9][0-9]*)$"),
        extend("x-kubernetes-validations" = [{"rule": "self == oldSelf", "message": "domain is immutable"}]))]
    pub domain: String,
    /// The address that is taken: an IP address, or a MAC address that someone asked for. Immutable.
    #[schemars(length(min = 2, max = 45), extend("x-kubernetes-validations" = [
        {"rule": "self == oldSelf", "message": "address is immutable"},
        {"rule": "self.matches('^[0-9a-f]{2}(:[0-9a-f]{2}){5}$') || (isIP(self) && ip.isCanonical(self))",
         "message": "address must be an IP address or a MAC address in canonical form"}
    ]))]
    pub address: String,
    /// The subnet it was taken from; `node:<name>` for the prefixes of a Node. Immutable.
    #[schemars(length(min = 1, max = 258), extend("x-kubernetes-validations" = [{"rule": "self == oldSelf", "message": "subnet is immutable"}]))]
    pub subnet: String,
    /// The MAC address of the interface. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 17), regex(pattern = r"^[0-9a-f]{2}(:[0-9a-f]{2}){5}$"))]
    pub mac: Option<String>,
    /// Whose it is. Immutable.
    #[schemars(extend("x-kubernetes-validations" = [{"rule": "self == oldSelf", "message": "holder is immutable"}]))]
    pub holder: Holder,
    /// The node where it is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub node: Option<String>,
    /// The address that other nodes send its traffic to.
    #[serde(default, rename = "hostIP", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 45), extend("x-kubernetes-validations" = [{"rule": "isIP(self)", "message": "hostIP must be an IP address"}]))]
    pub host_ip: Option<String>,
    /// For a holder that outlives its pods: the pod that uses it now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<LockUser>,
    /// For a virtual machine that migrates: the pod that is about to use it, and where.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<LockTarget>,
    /// `external_ids:iface-id` of the interface, which is the name of its port in OVN. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub iface_id: Option<String>,
    /// All that was decided for the pod, so that its node knows when it has every lock. It changes only with `user`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    pub interfaces: Vec<DecidedInterface>,
}

/// Whose a lock is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Holder {
    /// The kind of the holder.
    pub kind: HolderKind,
    /// Its namespace; none for a Node, a Subnet and a Vip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub namespace: Option<String>,
    /// Its name. For a StatefulSet that of the ordinal's pod, such as `db-0`.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Its UID. For a StatefulSet that of the set.
    #[schemars(length(min = 1, max = 64))]
    pub uid: String,
    /// Which of its interfaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 15))]
    pub interface: Option<String>,
}

/// The kinds that can hold an address. Each says when it is freed.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[schemars(inline)]
pub enum HolderKind {
    /// A pod. Freed when it is deleted, has Succeeded or has Failed.
    #[default]
    Pod,
    /// An ordinal of a StatefulSet. Freed when no pod uses it, and it is not in the range of replicas or the set was deleted.
    StatefulSet,
    /// A virtual machine. Freed when it was deleted and no pod runs it.
    VirtualMachine,
    /// A `NetworkAttachment`. Freed when it is deleted.
    NetworkAttachment,
    /// A node's own port. Freed when the node is deleted.
    Node,
    /// A Subnet, for its gateway. Freed when the Subnet is deleted or has another gateway.
    Subnet,
    /// A `Vip` of `kubeovn.io`. Freed when it is deleted.
    Vip,
}

impl HolderKind {
    /// True for holders that keep their addresses while pods come and go: `user`, `node`, `hostIP` and `interfaces` follow the
    /// current pod.
    pub fn is_sticky(self) -> bool {
        matches!(self, HolderKind::StatefulSet | HolderKind::VirtualMachine)
    }

    /// True for holders that are in a namespace.
    pub fn is_namespaced(self) -> bool {
        !matches!(self, HolderKind::Node | HolderKind::Subnet | HolderKind::Vip)
    }
}

impl fmt::Display for HolderKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HolderKind::Pod => "Pod",
            HolderKind::StatefulSet => "StatefulSet ordinal",
            HolderKind::VirtualMachine => "VirtualMachine",
            HolderKind::NetworkAttachment => "NetworkAttachment",
            HolderKind::Node => "Node",
            HolderKind::Subnet => "the gateway of Subnet",
            HolderKind::Vip => "Vip",
        })
    }
}

/// A holder as people read it: `Pod default/web`.
impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.kind)?;
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}/")?;
        }
        f.write_str(&self.name)
    }
}

/// The pod that is about to use the lock of a migrating virtual machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LockTarget {
    /// The node it was scheduled to.
    #[schemars(length(min = 1, max = 253))]
    pub node: String,
    /// Its name, in the holder's namespace.
    #[schemars(length(min = 1, max = 253))]
    pub pod: String,
    /// Its UID.
    #[schemars(length(min = 1, max = 64))]
    pub uid: String,
}

/// The pod that uses the lock of a holder which outlives it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LockUser {
    /// Its name, in the holder's namespace.
    #[schemars(length(min = 1, max = 253))]
    pub pod: String,
    /// Its UID.
    #[schemars(length(min = 1, max = 64))]
    pub uid: String,
}

/// One interface of the pod, and an entry for each address it gets.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecidedInterface {
    /// The interface.
    #[schemars(length(min = 1, max = 15))]
    pub interface: String,
    /// The family of each of its addresses; one that has two of a family lists it twice.
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "atomic"))]
    pub families: Vec<Family>,
}

/// What happened to a lock after it was taken.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IPLockStatus {
    /// Why a lock is not in effect, if it is not. Not written yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// The parts of a lock that are values; the rest is read from its spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockConfig {
    /// Where the address is taken.
    pub domain: Domain,
    /// The address.
    pub address: LockAddress,
    /// The MAC address of its interface.
    pub mac: Option<Mac>,
    /// The address other nodes send its traffic to.
    pub host_ip: Option<IpAddr>,
}

impl IPLock {
    /// The lock on an address. Its name follows; set the rest of `spec` by `..`.
    pub fn of(domain: &Domain, address: LockAddress, rest: IPLockSpec) -> Self {
        let name = LockName::new(domain, address).to_string();
        Self::new(&name, IPLockSpec { domain: domain.to_string(), address: address.to_string(), ..rest })
    }

    /// The lock as values, or everything that is wrong with it.
    ///
    /// A lock whose name is not that of its address locks nothing, so that is an error too.
    pub fn parse(&self) -> Result<LockConfig, FieldErrors> {
        let errors = &mut FieldErrors::new();
        let (root, spec) = (FieldPath::SPEC, &self.spec);
        let domain = spec.domain.parse::<Domain>();
        if let Err(problem) = &domain {
            errors.add_problem(&root.field("domain"), &spec.domain, problem);
        }
        let address = spec.address.parse::<LockAddress>();
        if let Err(problem) = &address {
            errors.add_problem(&root.field("address"), &spec.address, problem);
        }
        let mac = spec.mac.as_deref().and_then(|text| {
            parse_interface_mac(text)
                .map_err(|problem| errors.add_problem(&root.field("mac"), text, &problem))
                .ok()
        });
        let host_ip = spec.host_ip.as_deref().and_then(|text| {
            parse_address(text)
                .map_err(|problem| errors.add_problem(&root.field("hostIP"), text, &problem))
                .ok()
        });
        self.check_holder(errors);
        if let (Ok(domain), Ok(address)) = (domain, address) {
            let (name, wanted) = (self.name_any(), LockName::new(&domain, address).to_string());
            if name == wanted {
                return std::mem::take(errors).into_result(LockConfig { domain, address, mac, host_ip });
            }
            let metadata = FieldPath::root("metadata");
            let message = format!("is not the name of a lock on {address} in {domain}; that is {wanted}");
            errors.add(&metadata.field("name"), name, Reason::Invalid, message);
        }
        Err(std::mem::take(errors))
    }

    fn check_holder(&self, errors: &mut FieldErrors) {
        let root = FieldPath::SPEC;
        let path = root.field("holder");
        let holder = &self.spec.holder;
        for (value, field) in [(&holder.name, "name"), (&holder.uid, "uid")] {
            if value.is_empty() {
                errors.add_bare(&path.field(field), Reason::Required, "is required");
            }
        }
        match (holder.kind.is_namespaced(), &holder.namespace) {
            (false, Some(namespace)) => {
                let message = format!("is set, but a {:?} has no namespace", holder.kind);
                errors.add(&path.field("namespace"), namespace, Reason::Invalid, message);
            }
            (false, None) | (true, Some(_)) => {}
            (true, None) => errors.add_bare(&path.field("namespace"), Reason::Required, "is required"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> IPLockSpec {
        IPLockSpec {
            subnet: "blue-1".into(),
            mac: Some("0a:58:0a:00:00:07".into()),
            holder: Holder {
                kind: HolderKind::Pod,
                namespace: Some("default".into()),
                name: "web".into(),
                uid: "u1".into(),
                interface: Some("eth0".into()),
            },
            ..IPLockSpec::default()
        }
    }

    #[test]
    fn a_lock_made_for_an_address_parses_back() {
        let (domain, address) = ("vpc/blue".parse().unwrap(), "10.0.0.7".parse().unwrap());
        let lock = IPLock::of(&domain, address, spec());
        assert_eq!(lock.name_any(), "10-0-0-7.vpc-blue");
        let config = lock.parse().unwrap();
        assert_eq!((config.domain, config.address), (domain, address));
    }

    #[test]
    fn a_lock_under_another_name_locks_nothing() {
        let mut lock = IPLock::of(&"vpc/blue".parse().unwrap(), "10.0.0.7".parse().unwrap(), spec());
        lock.metadata.name = Some("10-0-0-8.vpc-blue".into());
        assert_eq!(
            lock.parse().unwrap_err().to_string(),
            r#"metadata.name: "10-0-0-8.vpc-blue" is not the name of a lock on 10.0.0.7 in vpc/blue; that is 10-0-0-7.vpc-blue"#
        );
    }

    #[test]
    fn mistakes_are_named() {
        let mut lock = IPLock::new("x", spec());
        lock.spec.domain = "vlan/7".into();
        lock.spec.address = "FD00::1".into();
        lock.spec.mac = Some("zz".into());
        lock.spec.host_ip = Some("here".into());
        lock.spec.holder =
            Holder { kind: HolderKind::Node, namespace: Some("a".into()), ..Holder::default() };
        let errors = lock.parse().unwrap_err();
        let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                r#"spec.domain: "vlan/7" is not an address domain; write vpc/<name>, subnet/<name> or vni/<number>"#,
                r#"spec.address: "FD00::1" is not in canonical form; write fd00::1"#,
                r#"spec.mac: "zz" is not a MAC address; write six hexadecimal bytes, such as 02:00:00:00:00:01"#,
                r#"spec.hostIP: "here" is not an IP address"#,
                "spec.holder.name: is required",
                "spec.holder.uid: is required",
                r#"spec.holder.namespace: "a" is set, but a Node has no namespace"#,
            ]
        );
    }
}
