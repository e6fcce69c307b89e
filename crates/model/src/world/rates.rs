//! How much interfaces may send and receive: what the pods that use them ask for now.
//!
//! Kept nowhere: a pod's annotations are read again when an interface of it is planned, and few pods have any about rates.

use portolan_api::networks_annotation::DEFAULT_NETWORK;
use portolan_api::pod_annotations::{EGRESS_RATE, INGRESS_RATE, parse_rates};
use portolan_api::portolan::HolderKind;
use portolan_api::{Provider, Rates};

use super::{FirstInterface, Name, World};
use crate::attachment::{Attachment, AttachmentId};
use crate::dirty::Dirty;
use crate::doors::pod::{FIRST_INTERFACE, VPC_INTERFACE};
use crate::holder;
use crate::pod::Pod;
use crate::unit::Unit;

impl World {
    /// The rates of an attachment on a subnet with this provider.
    pub(super) fn rates(&self, attachment: &Attachment, provider: Option<&Provider>) -> Rates {
        let Some(pod) = self.user_of(attachment).filter(|pod| asks_for_rates(pod)) else {
            return Rates::default();
        };
        let interface = attachment.id.interface();
        let is_primary = self.settings.first_interface == FirstInterface::Portolan;
        let is_first = interface == FIRST_INTERFACE && !pod.annotations.contains_key(DEFAULT_NETWORK);
        // The first interface, and that in the VPC of the namespace, go by the name of no network, whichever subnet they are on.
        let is_unnamed = is_primary && (is_first || interface == VPC_INTERFACE);
        let provider = if is_unnamed { Some(&Provider::Default) } else { provider };
        provider.map(|provider| parse_rates(&pod.annotations, provider, interface)).unwrap_or_default()
    }

    /// The pod that uses an attachment.
    fn user_of(&self, attachment: &Attachment) -> Option<&Pod> {
        let (id, user) = (&attachment.id, attachment.user.as_deref());
        let pod = self.pod(id.namespace()?, user.map_or(id.name(), |user| &user.pod))?;
        holder::is_used_by(id, user, pod).then_some(pod)
    }

    /// The attachments that a pod of this name may use, with their rates.
    pub(super) fn rates_in_name<'m>(
        &self,
        (namespace, name): &Name,
        machines: impl IntoIterator<Item = &'m Name>,
    ) -> Vec<(AttachmentId, Option<Rates>)> {
        let own = [HolderKind::Pod, HolderKind::StatefulSet].map(|kind| (kind, namespace, name));
        let of_machines =
            machines.into_iter().map(|(namespace, name)| (HolderKind::VirtualMachine, namespace, name));
        let holders = own.into_iter().chain(of_machines);
        let ids = holders.flat_map(|(kind, namespace, name)| self.held_in_name(kind, Some(namespace), name));
        ids.map(|id| (id.clone(), self.rates_of(id))).collect()
    }

    /// Has those planned again whose rates are no longer what they were.
    pub(super) fn dirty_changed_rates(&self, before: Vec<(AttachmentId, Option<Rates>)>, dirty: &mut Dirty) {
        for (id, before) in before {
            let after = self.rates_of(&id);
            if after.is_some() && after != before {
                dirty.units.insert(Unit::Attachment(id));
            }
        }
    }

    /// The rates of an attachment, if it is in effect.
    fn rates_of(&self, id: &AttachmentId) -> Option<Rates> {
        self.attachment_view(id).map(|view| view.rates)
    }
}

/// True if a pod has annotations about rates, of whichever interface.
pub(super) fn asks_for_rates(pod: &Pod) -> bool {
    let is_rate = |key: &str| {
        let what = key.rsplit_once('/').map_or("", |(_, what)| what);
        [INGRESS_RATE, EGRESS_RATE].iter().any(|rate| what.starts_with(rate))
    };
    pod.annotations.keys().any(is_rate)
}
