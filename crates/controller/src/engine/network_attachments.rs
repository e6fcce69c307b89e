//! What `NetworkAttachment`s should say about their addresses. What became of their interfaces is said by the agents of their nodes.

use portolan_api::condition::ConditionStatus::{False, True};
use portolan_api::portolan::NetworkAttachmentStatus;
use portolan_model::Requester;
use portolan_model::world::HeldLocks;

use super::conditions::{Facts, split};
use super::readiness::Finding;
use super::reports::Topic;
use super::{Engine, Subject};

impl Engine {
    /// What `Addressed` of a `NetworkAttachment` should say; none if another of its name was seen.
    pub(super) fn network_attachment_finding(&self, name: &str, facts: &Facts) -> Option<Finding> {
        if self.held_by_network_attachment(name, facts)?.complete {
            return Some(Finding::new(True, "Addressed", ""));
        }
        // Events of their own tell of these.
        let subject = Subject::from(&requester(name));
        let refusals: Vec<_> = self.reports.of(&subject, &facts.uid, Topic::Request).collect();
        let Some((reason, _)) = refusals.first() else {
            return Some(Finding::new(False, "NoAddress", "it has no address yet"));
        };
        let messages: Vec<&str> = refusals.iter().map(|(_, message)| message.as_str()).collect();
        Some(Finding::new(False, reason, messages.join("; ")))
    }

    /// Which addresses a `NetworkAttachment` has; none if another of its name was seen.
    pub(super) fn network_attachment_status(
        &self,
        name: &str,
        facts: &Facts,
    ) -> Option<NetworkAttachmentStatus> {
        let held = self.held_by_network_attachment(name, facts)?;
        let mut status = NetworkAttachmentStatus::default();
        if held.complete {
            let mut ips: Vec<_> = held.ips().collect();
            ips.sort();
            let ips: Vec<_> = ips.iter().map(ToString::to_string).collect();
            status.address = Some(ips.join(","));
            status.mac = held.mac.map(|mac| mac.to_string());
        }
        Some(status)
    }

    fn held_by_network_attachment(&self, name: &str, facts: &Facts) -> Option<HeldLocks<'_>> {
        let (namespace, object) = split(name);
        self.world.network_attachment(namespace, object).filter(|object| object.uid == facts.uid)?;
        let ids = self.world.holdings_of(&requester(name));
        let id = ids.into_iter().find(|id| *id.uid() == facts.uid);
        Some(id.map(|id| self.world.held_locks(&id)).unwrap_or_default())
    }
}

fn requester(name: &str) -> Requester {
    let (namespace, name) = split(name);
    Requester::network_attachment(namespace, name)
}
