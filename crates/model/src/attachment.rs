//! Attachments: one interface each, of a pod, a virtual machine, a node or a `NetworkAttachment`.

use std::fmt;
use std::net::IpAddr;
use std::ops::Deref;
use std::str::FromStr;
use std::sync::Arc;

use portolan_api::names::{check_interface, is_dns_label, is_dns_subdomain};
use portolan_api::portolan::{Holder, HolderKind, LockUser};
use portolan_api::{Domain, Family, Mac};
use smol_str::SmolStr;

use crate::lock::Network;
use crate::pod::Place;
use crate::uid::Uid;
use crate::unit::NoUnit;

/// The interface that a `NetworkAttachment` holds addresses for; its agent chooses the name in the node.
pub const NETWORK_ATTACHMENT_INTERFACE: &str = "attachment";
/// The interface that a node holds addresses for.
pub const NODE_INTERFACE: &str = "node";
/// The interface that a Subnet holds the addresses of its gateway for: a port of the VPC's router, and no attachment.
pub const GATEWAY_INTERFACE: &str = "gateway";
/// The interface that a Vip holds addresses for: none that exists, and no attachment.
pub const VIP_INTERFACE: &str = "vip";

/// Which interface of which holder. Cheap to clone; two lives of one pod name differ by their UIDs.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttachmentId(Arc<Parts>);

#[derive(PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Parts {
    // Invariant: no part has a slash, none is empty, and a namespace is there for every kind that has one.
    kind: HolderKind,
    namespace: Option<SmolStr>,
    name: SmolStr,
    interface: SmolStr,
    uid: Uid,
}

impl AttachmentId {
    /// The id of a holder's interface, if the holder is well formed.
    pub fn new(holder: &Holder, interface: &str) -> Option<Self> {
        let namespace_fits = match &holder.namespace {
            None => !holder.kind.is_namespaced(),
            Some(namespace) => holder.kind.is_namespaced() && is_dns_label(namespace),
        };
        let fits = namespace_fits
            && is_dns_subdomain(&holder.name)
            && check_interface(interface).is_ok()
            && is_uid(&holder.uid);
        fits.then(|| {
            Self(Arc::new(Parts {
                kind: holder.kind,
                namespace: holder.namespace.as_ref().map(SmolStr::new),
                name: SmolStr::new(&holder.name),
                interface: SmolStr::new(interface),
                uid: holder.uid.as_str().into(),
            }))
        })
    }

    /// What is sorted before all ids of holders of this name.
    pub(crate) fn before_all_of(kind: HolderKind, namespace: Option<&str>, name: &str) -> Self {
        let (namespace, name) = (namespace.map(SmolStr::new), SmolStr::new(name));
        Self(Arc::new(Parts { kind, namespace, name, interface: SmolStr::default(), uid: Uid::default() }))
    }

    /// True if both are of holders of one kind, namespace and name, whichever of its lives.
    pub(crate) fn has_holder_name_of(&self, other: &Self) -> bool {
        let (one, other) = (&*self.0, &*other.0);
        (one.kind, &one.namespace, &one.name) == (other.kind, &other.namespace, &other.name)
    }

    /// The kind of the holder.
    pub fn kind(&self) -> HolderKind {
        self.0.kind
    }

    /// The holder's namespace; none for a node and a Subnet.
    pub fn namespace(&self) -> Option<&str> {
        self.0.namespace.as_deref()
    }

    /// The holder's name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Which of the holder's interfaces.
    pub fn interface(&self) -> &str {
        &self.0.interface
    }

    /// The holder's UID: the owner of the attachment.
    pub fn uid(&self) -> &Uid {
        &self.0.uid
    }

    /// The holder as locks have it.
    pub fn holder(&self) -> Holder {
        Holder {
            kind: self.0.kind,
            namespace: self.0.namespace.as_ref().map(SmolStr::to_string),
            name: self.0.name.to_string(),
            uid: self.0.uid.to_string(),
            interface: Some(self.0.interface.to_string()),
        }
    }

    /// The name of its port in OVN and `iface-id` of its interface in Open vSwitch.
    ///
    /// OVN wants port names unique, and a pod may be made again under its name: a piece of the UID tells them apart.
    pub fn iface_id(&self) -> String {
        let Parts { namespace, name, interface, uid, .. } = &*self.0;
        let piece = uid.with_text(piece);
        match namespace {
            Some(namespace) => format!("port:{namespace}/{name}/{interface}/{piece}"),
            None => format!("port:{name}/{interface}/{piece}"),
        }
    }
}

/// What the name of a port tells of the holder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PortHolder {
    namespace: Option<String>,
    name: String,
    /// The beginning of its UID.
    uid: String,
}

impl PortHolder {
    /// What the names of a holder's ports tell.
    pub(crate) fn of(holder: &Holder) -> Self {
        Self { namespace: holder.namespace.clone(), name: holder.name.clone(), uid: piece(&holder.uid) }
    }

    /// What [`AttachmentId::iface_id`] tells; none if this is no such name.
    pub(crate) fn of_port(iface_id: &str) -> Option<Self> {
        let parts: Vec<_> = iface_id.strip_prefix("port:")?.split('/').collect();
        let (namespace, name, uid) = match *parts.as_slice() {
            [namespace, name, _, uid] => (Some(namespace), name, uid),
            [name, _, uid] => (None, name, uid),
            _ => return None,
        };
        Some(Self { namespace: namespace.map(str::to_owned), name: name.to_owned(), uid: uid.to_owned() })
    }
}

/// As much of a UID as is in the names of ports.
fn piece(uid: &str) -> String {
    // By characters: a UID is ASCII, but the type does not say so.
    uid.chars().take(8).collect()
}

/// True for what can be a UID: Kubernetes makes UUIDs, and hashes for static pods.
fn is_uid(text: &str) -> bool {
    !text.is_empty() && text.len() <= 64 && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

fn kind_text(kind: HolderKind) -> &'static str {
    match kind {
        HolderKind::Pod => "pod",
        HolderKind::StatefulSet => "statefulset",
        HolderKind::VirtualMachine => "vm",
        HolderKind::NetworkAttachment => "networkattachment",
        HolderKind::Node => "node",
        HolderKind::Subnet => "subnet",
        HolderKind::Vip => "vip",
    }
}

impl fmt::Display for AttachmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parts { kind, namespace, name, interface, uid } = &*self.0;
        write!(f, "{}/", kind_text(*kind))?;
        if let Some(namespace) = namespace {
            write!(f, "{namespace}/")?;
        }
        write!(f, "{name}/{interface}/{uid}")
    }
}

impl fmt::Debug for AttachmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for AttachmentId {
    type Err = NoUnit;

    fn from_str(text: &str) -> Result<Self, NoUnit> {
        let parts: Vec<_> = text.split('/').collect();
        let (kind, namespace, name, interface, uid) = match *parts.as_slice() {
            [kind @ ("node" | "subnet" | "vip"), name, interface, uid] => (kind, None, name, interface, uid),
            [kind, namespace, name, interface, uid] => (kind, Some(namespace), name, interface, uid),
            _ => return Err(NoUnit),
        };
        let kinds = [
            HolderKind::Pod,
            HolderKind::StatefulSet,
            HolderKind::VirtualMachine,
            HolderKind::NetworkAttachment,
            HolderKind::Node,
            HolderKind::Subnet,
            HolderKind::Vip,
        ];
        let holder = Holder {
            kind: kinds.into_iter().find(|k| kind_text(*k) == kind).ok_or(NoUnit)?,
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
            uid: uid.to_owned(),
            interface: None,
        };
        Self::new(&holder, interface).ok_or(NoUnit)
    }
}

/// One interface whose every address is locked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// Whose and which.
    pub id: AttachmentId,
    /// The subnet it is on, and where its addresses are unique.
    pub network: Arc<Network>,
    /// Its addresses, IPv4 first; the first of a family is the one its MAC was derived from, if it was. Never empty.
    pub addresses: Addresses,
    /// Its MAC address.
    pub mac: Mac,
    /// Where it is used.
    pub place: Arc<Place>,
    /// For a holder that outlives its pods: the pod that uses it now.
    pub user: Option<Box<LockUser>>,
    /// The name of its port, if it is not the usual one: see [`Attachment::iface_id`].
    pub unusual_iface_id: Option<Box<str>>,
}

/// The addresses of an attachment. One, as most have, takes no memory besides its own.
#[derive(Clone, PartialEq, Eq)]
pub struct Addresses(AddressesForm);

#[derive(Clone, PartialEq, Eq)]
enum AddressesForm {
    One(IpAddr),
    /// Invariant: not one, so that equal ones compare equal.
    Many(Box<[IpAddr]>),
}

impl From<Vec<IpAddr>> for Addresses {
    fn from(addresses: Vec<IpAddr>) -> Self {
        Self(match addresses.as_slice() {
            [one] => AddressesForm::One(*one),
            _ => AddressesForm::Many(addresses.into()),
        })
    }
}

impl Deref for Addresses {
    type Target = [IpAddr];

    fn deref(&self) -> &[IpAddr] {
        match &self.0 {
            AddressesForm::One(one) => std::slice::from_ref(one),
            AddressesForm::Many(many) => many,
        }
    }
}

impl fmt::Debug for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl Attachment {
    /// The name of its port in OVN, and `iface-id` in Open vSwitch.
    pub fn iface_id(&self) -> String {
        self.unusual_iface_id.as_ref().map_or_else(|| self.id.iface_id(), ToString::to_string)
    }

    /// The subnet it is on.
    pub fn subnet(&self) -> &SmolStr {
        &self.network.subnet
    }

    /// Where its addresses are unique.
    pub fn domain(&self) -> &Domain {
        &self.network.domain
    }

    /// The node where it is used.
    pub fn node(&self) -> Option<&str> {
        self.place.node.as_deref()
    }

    /// The UID of the object it comes from.
    pub fn owner(&self) -> &Uid {
        self.id.uid()
    }

    /// The pod that uses it now, by UID: `iface-id-ver`. None for a node and a `NetworkAttachment`.
    pub fn pod_uid(&self) -> Option<SmolStr> {
        match (&self.user, self.id.kind()) {
            (Some(user), _) => Some(SmolStr::new(&user.uid)),
            (None, HolderKind::Pod) => Some(self.id.uid().into()),
            (None, _) => None,
        }
    }

    /// Its addresses of one family.
    pub fn addresses_of(&self, family: Family) -> impl Iterator<Item = IpAddr> {
        self.addresses.iter().copied().filter(move |address| Family::of(*address) == family)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_port_tells_whose_it_is() {
        for (kind, namespace) in [(HolderKind::Pod, Some("default")), (HolderKind::Node, None)] {
            let namespace = namespace.map(str::to_owned);
            let (name, uid) = ("a.b".to_owned(), "0123456789".to_owned());
            let holder = Holder { kind, namespace, name, uid, interface: None };
            let id = AttachmentId::new(&holder, "net1").unwrap();
            assert_eq!(PortHolder::of_port(&id.iface_id()), Some(PortHolder::of(&holder)));
            let another = Holder { uid: "another".to_owned(), ..holder };
            assert_ne!(PortHolder::of_port(&id.iface_id()), Some(PortHolder::of(&another)));
        }
        for text in ["", "port:", "port:a/b", "default/app/net1/01234567", "port:a/b/c/d/e"] {
            assert_eq!(PortHolder::of_port(text), None, "{text}");
        }
    }
}
