//! What Vips should say about themselves: which addresses they have.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt;
use portolan_api::condition::{ConditionStatus, READY, SUPPORTED};
use portolan_api::kubeovn::support::unsupported_vip;
use portolan_api::kubeovn::{Vip, VipStatus};
use portolan_api::portolan::HolderKind;
use portolan_ipam::Refusal;
use portolan_model::{Requester, World};
use portolan_watch::{Change, Listed};

use super::conditions::{Said, support};
use super::reports::Topic;
use super::{Action, DesiredCondition, Engine, HasConditions, Statement, Subject};

/// What the status of a Vip should be.
#[derive(Clone, Debug, PartialEq)]
pub struct VipUpdate {
    /// The Vip's name.
    pub name: String,
    /// Its UID: another Vip of its name is left alone.
    pub uid: String,
    /// Its addresses; without conditions.
    pub status: VipStatus,
    /// The conditions that differ.
    pub conditions: Vec<DesiredCondition>,
}

/// What a Vip says about itself.
#[derive(Debug)]
struct Seen {
    uid: String,
    generation: Option<i64>,
    type_: String,
    status: VipStatus,
    ready: Option<Said>,
    supported: Option<Said>,
    unsupported: Vec<String>,
}

/// What Vips say about themselves, and which are to be compared with what they should say.
#[derive(Debug, Default)]
pub(super) struct Vips {
    seen: BTreeMap<String, Seen>,
    to_compare: BTreeSet<String>,
}

impl Vips {
    /// Nothing is to be compared until everything is.
    pub(super) fn forget_comparisons(&mut self) {
        self.to_compare.clear();
    }

    /// How many are to be compared.
    pub(super) fn comparisons(&self) -> usize {
        self.to_compare.len()
    }

    /// Everything is compared again.
    pub(super) fn begin_anew(&mut self) {
        self.to_compare = self.seen.keys().cloned().collect();
    }
}

impl Engine {
    /// Takes in a change of a Vip.
    pub(super) fn observe_vips(&mut self, change: &Change<Vip>) {
        match change {
            Change::Applied(vip) => self.observe_vip(vip),
            // Nothing can be written to what cannot be read.
            Change::Unreadable(unreadable) => self.forget_vip(&unreadable.object.name_any()),
            Change::Deleted(vip) => self.forget_vip(&vip.name_any()),
            Change::Listed(Listed { objects, .. }) => {
                let listed: BTreeSet<String> = objects.iter().map(ResourceExt::name_any).collect();
                let world = &self.world;
                self.vips.seen.retain(|name, _| listed.contains(name) || world.is_missing_of::<Vip>(name));
                objects.iter().for_each(|vip| self.observe_vip(vip));
            }
        }
    }

    fn observe_vip(&mut self, vip: &Vip) {
        let mut status = vip.status.clone().unwrap_or_default();
        (status.conditions, status.unknown) = Default::default();
        let seen = Seen {
            uid: vip.uid().unwrap_or_default(),
            generation: vip.metadata.generation,
            type_: vip.spec.type_.clone().unwrap_or_default(),
            status,
            ready: vip.says(READY),
            supported: vip.says(SUPPORTED),
            unsupported: unsupported_vip(&vip.spec).iter().map(ToString::to_string).collect(),
        };
        self.vips.to_compare.insert(vip.name_any());
        self.vips.seen.insert(vip.name_any(), seen);
    }

    /// Something else was decided about a Vip.
    pub(super) fn compare_vip(&mut self, name: &str) {
        self.vips.to_compare.insert(name.to_owned());
    }

    /// A lock came or changed: it may be a Vip's.
    pub(super) fn compare_vip_of_lock(&mut self, name: &str) {
        let lock = self.world.lock(name).filter(|lock| lock.attachment.kind() == HolderKind::Vip);
        self.vips.to_compare.extend(lock.map(|lock| lock.attachment.name().to_owned()));
    }

    pub(super) fn forget_vip(&mut self, name: &str) {
        self.vips.seen.remove(name);
    }

    /// Asks for what differs.
    pub(super) fn compare_vips(&mut self) {
        for name in std::mem::take(&mut self.vips.to_compare) {
            let Some(seen) = self.vips.seen.get(&name) else { continue };
            let Some(status) = self.vip_status(&name, seen) else { continue };
            let Some(ready) = self.vip_readiness(&name, seen, status.ready) else { continue };
            let support = support(&seen.unsupported, seen.supported.as_ref());
            let problems = support.iter().filter(|says| says.status != ConditionStatus::True);
            let problems = problems.map(|says| (says.reason, says.message.clone())).collect();
            let desired =
                [(READY, Some(ready), seen.ready.as_ref()), (SUPPORTED, support, seen.supported.as_ref())];
            let desired = desired.map(|(type_, says, said)| {
                (DesiredCondition { type_, generation: seen.generation, says }, said)
            });
            let differing = desired.into_iter().filter(|(desired, said)| !desired.is_said_by(*said));
            let conditions: Vec<_> = differing.map(|(desired, _)| desired).collect();
            let uid = seen.uid.clone();
            if !conditions.is_empty() || status != seen.status {
                let update = VipUpdate { name: name.clone(), uid: uid.clone(), status, conditions };
                self.actions.push(Action::SetVipStatus(Box::new(update)));
            }
            self.report(Subject::from(&Requester::vip(name)), uid, Topic::Conditions, problems);
        }
    }

    /// What `Ready` of a Vip should say; none while its lock is being created.
    fn vip_readiness(&self, name: &str, seen: &Seen, is_ready: bool) -> Option<Statement> {
        if is_ready {
            return Some(Statement { status: true.into(), reason: "InEffect", message: String::new() });
        }
        let requester = Requester::vip(name);
        let subject = Subject::from(&requester);
        let refusals: Vec<_> = self.reports.of(&subject, &seen.uid, Topic::Request).collect();
        let (reason, message) = match refusals.first() {
            Some((reason, _)) => {
                let messages: Vec<&str> = refusals.iter().map(|(_, message)| message.as_str()).collect();
                (*reason, messages.join("; "))
            }
            // Its lock brings it back.
            None if self.creating.has_any_of(&requester) => return None,
            None => ("NoAddress", "it has no address yet".to_owned()),
        };
        Some(Statement { status: false.into(), reason, message })
    }

    /// Which addresses a Vip has; none if another of its name was seen.
    fn vip_status(&self, name: &str, seen: &Seen) -> Option<VipStatus> {
        let vip = self.world.vip(name).filter(|vip| vip.uid == seen.uid)?;
        let mut status = VipStatus { type_: seen.type_.clone(), ..VipStatus::default() };
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
