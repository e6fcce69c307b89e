//! What Vips should say about themselves: which addresses they have.

use portolan_api::condition::ConditionStatus::{False, True};
use portolan_api::kubeovn::VipStatus;
use portolan_api::portolan::HolderKind;
use portolan_ipam::Refusal;
use portolan_model::{Requester, World};

use super::conditions::{Facts, split};
use super::readiness::Finding;
use super::reports::Topic;
use super::{Engine, Kind, Subject};

impl Engine {
    /// A lock came or changed: it may be that of an object which says what it has. When one goes, its holder is decided for again.
    pub(super) fn compare_holder_of_lock(&mut self, name: &str) {
        let Some(lock) = self.world.lock(name) else { return };
        let id = &lock.attachment;
        let holder = match (id.kind(), id.namespace()) {
            (HolderKind::Vip, _) => Some(Requester::vip(id.name())),
            (HolderKind::NetworkAttachment, Some(namespace)) => {
                Some(Requester::network_attachment(namespace, id.name()))
            }
            _ => None,
        };
        if let Some(holder) = holder {
            self.compare_holder(&holder);
        }
    }

    /// What someone who holds addresses should say about that may have changed.
    pub(super) fn compare_holder(&mut self, requester: &Requester) {
        match requester {
            Requester::Vip { name } => self.compare_object(Kind::Vip, name),
            Requester::NetworkAttachment { namespace, name } => {
                self.compare_object(Kind::NetworkAttachment, &format!("{namespace}/{name}"));
            }
            _ => {}
        }
    }

    /// Whether an object is about to have its addresses: its locks bring it back, and then there is one thing to say.
    pub(super) fn is_being_addressed(&self, kind: Kind, name: &str) -> bool {
        let requester = match kind {
            Kind::Vip => Requester::vip(name),
            Kind::NetworkAttachment => {
                let (namespace, name) = split(name);
                Requester::network_attachment(namespace, name)
            }
            _ => return false,
        };
        self.creating.has_any_of(&requester)
    }

    /// What `Ready` of a Vip should say; none if another of its name was seen.
    pub(super) fn vip_finding(&self, name: &str, facts: &Facts) -> Option<Finding> {
        if self.vip_status(name, facts)?.ready {
            return Some(Finding::new(True, "InEffect", ""));
        }
        // Events of their own tell of these.
        let subject = Subject::from(&Requester::vip(name));
        let refusals: Vec<_> = self.reports.of(&subject, &facts.uid, Topic::Request).collect();
        let Some((reason, _)) = refusals.first() else {
            return Some(Finding::new(False, "NoAddress", "it has no address yet"));
        };
        let messages: Vec<&str> = refusals.iter().map(|(_, message)| message.as_str()).collect();
        Some(Finding::new(False, reason, messages.join("; ")))
    }

    /// Which addresses a Vip has; none if another of its name was seen.
    pub(super) fn vip_status(&self, name: &str, facts: &Facts) -> Option<VipStatus> {
        let vip = self.world.vip(name).filter(|vip| vip.uid == facts.uid)?;
        let mut status = VipStatus { type_: vip.type_.clone(), ..VipStatus::default() };
        let held = self.world.held_locks(&World::vip_id(vip)?);
        if held.complete {
            status.ready = true;
            status.mac = held.mac.map(|mac| mac.to_string()).unwrap_or_default();
            for ip in held.ips() {
                let field = if ip.is_ipv4() { &mut status.v4ip } else { &mut status.v6ip };
                *field = ip.to_string();
            }
        }
        Some(status)
    }
}

/// Why a Vip cannot have what it asks for, with the field that asks for it.
pub(super) fn refusal_text(refusal: &Refusal) -> String {
    let field = match refusal {
        Refusal::Taken { address, .. }
        | Refusal::Address { address, .. }
        | Refusal::AskedTwice { address } => {
            if address.is_ipv4() {
                "spec.v4ip: "
            } else {
                "spec.v6ip: "
            }
        }
        Refusal::MacTaken { .. } | Refusal::MacOfOther { .. } => "spec.macAddress: ",
        Refusal::Problem(_)
        | Refusal::Waiting(_)
        | Refusal::Full { .. }
        | Refusal::PoolTaken { .. }
        | Refusal::PoolFull { .. }
        | Refusal::UnreadableLock { .. }
        | Refusal::BadHolder => "",
    };
    format!("{field}{refusal}")
}
