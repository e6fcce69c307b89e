//! `kubeovn.io`: Vpc, Subnet, IPPool and Vip.

use kube_core::ResourceExt;
use portolan_api::condition::VALIDATED;
use portolan_api::{FieldErrors, SubnetConfig, kubeovn};

use super::Meta;
use crate::group::Group;
use crate::ip_pool::IpPool;
use crate::subnet::{Subnet, Validation};
use crate::unreadable::Unreadable;
use crate::vip::Vip;
use crate::vpc::Vpc;

/// A Vpc as a value.
pub fn vpc(object: &kubeovn::Vpc) -> Result<Vpc, FieldErrors> {
    super::vpc(object.name_any(), Group::KubeOvn, &Meta::of(object), object.parse())
}

/// A Subnet as a value.
///
/// One that serves the cluster's own pods and names no VPC is in `ovn-cluster`, as its clients expect. One that serves a
/// network attachment definition and names none is an isolated switch.
pub fn subnet(object: &kubeovn::Subnet) -> Result<Subnet, FieldErrors> {
    let config = SubnetConfig { vpc: object.spec.vpc().map(str::to_owned), ..object.parse()? };
    let (name, meta) = (object.name_any(), Meta::of(object));
    Ok(Subnet {
        domain: Subnet::domain_of(&name, &config),
        name,
        uid: meta.uid,
        generation: meta.generation,
        group: Group::KubeOvn,
        config,
        validation: validation(object),
        life: meta.life,
    })
}

/// An IPPool as a value.
pub fn ip_pool(object: &kubeovn::IPPool) -> IpPool {
    IpPool { name: object.name_any(), uid: object.uid().unwrap_or_default(), config: object.parse() }
}

/// An IPPool that cannot be decoded.
pub(crate) fn unreadable_ip_pool(object: &Unreadable<'_>) -> IpPool {
    IpPool { name: object.name(), uid: object.uid(), config: Err(object.errors()) }
}

/// A Vip as a value.
pub fn vip(object: &kubeovn::Vip) -> Vip {
    Vip {
        name: object.name_any(),
        uid: object.uid().unwrap_or_default(),
        type_: object.spec.type_.clone().unwrap_or_default(),
        config: object.parse(),
    }
}

/// A Vip that cannot be decoded.
pub(crate) fn unreadable_vip(object: &Unreadable<'_>) -> Vip {
    Vip { name: object.name(), uid: object.uid(), type_: String::new(), config: Err(object.errors()) }
}

/// What the condition `Validated` of a Subnet says.
pub fn validation(object: &kubeovn::Subnet) -> Validation {
    let conditions = object.status.iter().filter_map(|status| status.conditions.as_ref()).flatten();
    let found =
        conditions.filter(|c| c.type_ == VALIDATED).map(|c| (c.status == "True", c.observed_generation));
    Validation::of(found, object.metadata.generation)
}
