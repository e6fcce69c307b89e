//! `portolan.dev`: Vpc, Subnet and IPLock.

use std::sync::Arc;

use kube_core::ResourceExt;
use portolan_api::condition::VALIDATED;
use portolan_api::portolan::{self, Holder, IPLock, LockDomain, LockName};
use portolan_api::{Domain, FieldErrors, FieldPath, Reason};

use smol_str::SmolStr;

use super::Meta;
use crate::attachment::{AttachmentId, NETWORK_ATTACHMENT_INTERFACE};
use crate::group::Group;
use crate::lock::{Claim, Lock, Network, PortName, UnreadableLock};
use crate::pod::Place;
use crate::subnet::{Subnet, Validation};
use crate::unreadable::Unreadable;
use crate::vpc::Vpc;

/// A Vpc as a value.
pub fn vpc(object: &portolan::Vpc) -> Result<Vpc, FieldErrors> {
    super::vpc(object.name_any(), Group::Portolan, &Meta::of(object), object.parse())
}

/// A Subnet as a value.
pub fn subnet(object: &portolan::Subnet) -> Result<Subnet, FieldErrors> {
    let config = object.parse()?;
    let (name, meta) = (object.name_any(), Meta::of(object));
    Ok(Subnet {
        domain: Subnet::domain_of(&name, &config),
        name,
        uid: meta.uid,
        generation: meta.generation,
        group: Group::Portolan,
        config,
        validation: validation(object),
        life: meta.life,
    })
}

/// What the condition `Validated` of a Subnet says.
pub fn validation(object: &portolan::Subnet) -> Validation {
    let conditions = object.status.iter().flat_map(|status| &status.conditions);
    let found =
        conditions.filter(|c| c.type_ == VALIDATED).map(|c| (c.status == "True", c.observed_generation));
    Validation::of(found, object.metadata.generation)
}

impl Validation {
    /// From the conditions `Validated` of an object: whether each is true, and for which generation.
    pub(super) fn of(
        mut conditions: impl Iterator<Item = (bool, Option<i64>)>,
        generation: Option<i64>,
    ) -> Self {
        match conditions.find(|(is_true, _)| *is_true) {
            None => Validation::Not,
            Some((_, observed)) if observed == generation => Validation::Current,
            Some(_) => Validation::Earlier,
        }
    }
}

/// An IPLock as a value, or as one that only takes the address its name says. None for an object whose name is no lock's: it
/// takes nothing.
pub fn lock_or_claim(object: &IPLock) -> Option<Result<Lock, UnreadableLock>> {
    let errors = match lock(object) {
        Ok(lock) => return Some(Ok(lock)),
        Err(errors) => errors,
    };
    let spec = &object.spec;
    let said = Said {
        domain: Some(&spec.domain),
        subnet: Some(&spec.subnet),
        iface_id: spec.iface_id.as_deref(),
        attachment: attachment(&spec.holder),
    };
    unreadable(object.name_any(), object.uid().unwrap_or_default(), said, errors).map(Err)
}

/// An IPLock that cannot be decoded: it takes the address its name says, for the holder it names.
pub fn unreadable_lock(object: &Unreadable<'_>) -> Option<UnreadableLock> {
    let spec = &object.content["spec"];
    let holder = serde_json::from_value::<Holder>(spec["holder"].clone()).ok();
    let said = Said {
        domain: spec["domain"].as_str(),
        subnet: spec["subnet"].as_str(),
        iface_id: spec["ifaceId"].as_str(),
        attachment: holder.as_ref().and_then(attachment),
    };
    unreadable(object.name(), object.uid(), said, object.errors())
}

/// What can be read of a lock that cannot be read as a whole.
struct Said<'a> {
    domain: Option<&'a str>,
    subnet: Option<&'a str>,
    iface_id: Option<&'a str>,
    attachment: Option<AttachmentId>,
}

fn unreadable(name: String, uid: String, said: Said<'_>, errors: FieldErrors) -> Option<UnreadableLock> {
    let parsed: LockName = name.parse().ok()?;
    let domain = match parsed.domain {
        LockDomain::Exact(domain) => Some(domain),
        // The name has a hash of the domain. What the spec says counts if it has the same one.
        LockDomain::Hashed { .. } => {
            let domain = said.domain.and_then(|domain| domain.parse::<Domain>().ok());
            domain.filter(|domain| LockName::new(domain, parsed.address).to_string() == name)
        }
    };
    let subnet = said.subnet.filter(|subnet| !subnet.is_empty()).map(str::to_owned);
    let claim = domain.map(|domain| Claim { lock: name.clone(), domain, address: parsed.address, subnet });
    let iface_id = said.iface_id.map(str::to_owned);
    Some(UnreadableLock { name, uid, claim, attachment: said.attachment, iface_id, errors })
}

/// The interface that a holder holds a lock for.
fn attachment(holder: &Holder) -> Option<AttachmentId> {
    AttachmentId::new(holder, holder.interface.as_deref().unwrap_or(NETWORK_ATTACHMENT_INTERFACE))
}

/// An IPLock as a value.
pub fn lock(object: &IPLock) -> Result<Lock, FieldErrors> {
    let config = object.parse()?;
    let spec = &object.spec;
    let Some(attachment) = attachment(&spec.holder) else {
        let mut errors = FieldErrors::new();
        let path = FieldPath::SPEC;
        errors.add_bare(&path.field("holder"), Reason::Invalid, "is none that Kubernetes could hold");
        return Err(errors);
    };
    Ok(Lock {
        name: object.name_any().into(),
        uid: object.uid().unwrap_or_default().into(),
        // One that is no number is of no API server we know; it counts as the latest.
        resource_version: object.resource_version().and_then(|text| text.parse().ok()).unwrap_or(u64::MAX),
        generation: object.metadata.generation.unwrap_or(1),
        network: Arc::new(Network { domain: config.domain, subnet: SmolStr::new(&spec.subnet) }),
        address: config.address,
        mac: config.mac,
        port: PortName::new(spec.iface_id.as_deref(), &attachment),
        attachment,
        place: Arc::new(Place { node: spec.node.as_ref().map(SmolStr::new), host_ip: config.host_ip }),
        user: spec.user.clone().map(Box::new),
        target: spec.target.clone().map(Box::new),
        interfaces: spec.interfaces.as_slice().into(),
    })
}
