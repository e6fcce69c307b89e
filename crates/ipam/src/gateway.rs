//! The addresses of a Subnet's gateway: locked by the Subnet itself, so that no guest can ever have one of them.

use std::net::IpAddr;

use portolan_api::portolan::{IPLock, IPLockSpec, LockAddress};
use portolan_model::{AttachmentId, Request, World};

use crate::decide::Decision;
use crate::ipam::{Ipam, Owner};
use crate::refusal::Refusal;
use crate::release::ReleaseReason;

/// Locks the gateway's addresses. Those of a former gateway are released only once the new one has its locks.
pub(crate) fn decide(ipam: &Ipam, world: &World, request: &Request, decision: &mut Decision) {
    let Some(interface) = request.interfaces.first() else { return };
    let Some(subnet) = world.known_subnet(&interface.subnet) else { return };
    let Some(id) = AttachmentId::new(&request.holder, &interface.interface) else {
        decision.refusals.push(Refusal::BadHolder);
        return;
    };
    let mut missing: Vec<IpAddr> = Vec::new();
    for address in &interface.addresses {
        match ipam.owner(world, &subnet.domain, LockAddress::Ip(*address), &id) {
            Owner::Same => {}
            Owner::None => missing.push(*address),
            Owner::Other(by) => {
                let domain = subnet.domain.clone();
                decision.refusals.push(Refusal::Taken { address: *address, domain, by });
            }
        }
    }
    if !missing.is_empty() || !decision.refusals.is_empty() {
        // What a former Subnet of this name held goes all the same: it may be what is in the way.
        decision.releases.retain(|release| !matches!(release.reason, ReleaseReason::NotRequested { .. }));
    }
    if decision.refusals.is_empty() {
        decision.create = missing
            .into_iter()
            .map(|address| {
                let spec =
                    IPLockSpec { subnet: subnet.name.clone(), holder: id.holder(), ..IPLockSpec::default() };
                IPLock::of(&subnet.domain, LockAddress::Ip(address), spec)
            })
            .collect();
    }
}
