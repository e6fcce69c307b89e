//! Units that do not come about: the northbound database refuses their rows, or they have been waiting for another row for long.
//! Whoever asked for them is told, once, and once more when it is over.

use std::collections::{BTreeMap, BTreeSet};

use portolan_api::portolan::HolderKind;
use portolan_model::node_subnet::node_of_subnet;
use portolan_model::{AttachmentId, Requester, Unit};
use portolan_plan::Batch;

use super::northbound::units_of;
use super::reports::{Problem, Topic};
use super::{Engine, Subject};

/// The reason of an Event about rows that the database refuses.
const REFUSED: &str = "NorthboundRefused";
/// The reason of an Event about rows that wait.
const WAITING: &str = "NorthboundWaiting";

/// The units that do not come about, and who was told.
#[derive(Debug, Default)]
pub(super) struct Blocked {
    /// By unit: who was told.
    told: BTreeMap<Unit, Subject>,
    /// By who was told: the UID, and what about.
    problems: BTreeMap<Subject, (String, BTreeMap<Unit, Problem>)>,
    /// Why units wait, as the last comparison found.
    obstacles: BTreeMap<Unit, String>,
    /// The units that waited when that was looked at last.
    waited: BTreeSet<Unit>,
    refused: BTreeSet<Unit>,
    /// Those of them whose rows stay as they are for now, because something they depend on is not known: nothing came about.
    held: BTreeSet<Unit>,
}

impl Blocked {
    /// How many units the database refuses.
    pub(super) fn refused(&self) -> usize {
        self.refused.len()
    }

    /// A comparison found that a unit waits.
    pub(super) fn waits(&mut self, unit: Unit, obstacle: String) {
        self.obstacles.insert(unit, obstacle);
    }

    /// A unit was planned; `held` if its rows are to stay as they are.
    pub(super) fn planned(&mut self, unit: &Unit, held: bool) {
        if !held {
            self.held.remove(unit);
        } else if self.told.contains_key(unit) || self.refused.contains(unit) {
            self.held.insert(unit.clone());
        }
    }
}

impl Engine {
    /// The database refuses these units as they are, and says why: they are compared again after a while, and their owners are told.
    pub fn refused(&mut self, batch: &Batch, error: &str) {
        // What was sent before stepping down is another one's business by now.
        if self.stands_by() {
            return;
        }
        for unit in units_of(batch) {
            let message = format!(
                "OVN's northbound database refuses the rows of {unit}: {error}. They are written again when the object changes, and \
                 now and then"
            );
            self.rows_were_refused(&unit, error);
            self.blocked.refused.insert(unit.clone());
            self.block(&unit, &(REFUSED, message));
            self.northbound.refused(unit);
        }
    }

    /// To be called now and then, while units wait: those that waited the last time too have been waiting for long, and their owners
    /// are told why.
    pub fn report_waiting(&mut self) {
        if self.stands_by() {
            return;
        }
        let waiting: BTreeSet<Unit> = self.northbound.waiting_units().map(|(unit, _)| unit.clone()).collect();
        self.blocked.obstacles.retain(|unit, _| waiting.contains(unit));
        for unit in waiting.intersection(&self.blocked.waited).cloned().collect::<Vec<_>>() {
            let obstacle = self.blocked.obstacles.get(&unit).cloned().unwrap_or_default();
            self.block(&unit, &(WAITING, format!("{unit} cannot be written to OVN yet: {obstacle}")));
        }
        self.blocked.waited = waiting;
    }

    /// Whatever was compared and is not pending any more has come about, but for what is being written now.
    pub(super) fn unblock_what_came_about(&mut self, changing: &BTreeSet<Unit>) {
        let blocked = self.blocked.told.keys().chain(&self.blocked.refused);
        let done = |unit: &&Unit| self.came_about(unit) && !changing.contains(*unit);
        let done: Vec<Unit> = blocked.filter(done).cloned().collect();
        self.unblock(done);
        // Who waits again begins to wait.
        let northbound = &self.northbound;
        self.blocked.waited.retain(|unit| northbound.is_pending(unit));
    }

    /// These have come about, as far as they are neither pending nor held.
    pub(super) fn unblock(&mut self, units: impl IntoIterator<Item = Unit>) {
        if self.blocked.told.is_empty() && self.blocked.refused.is_empty() {
            return;
        }
        for unit in units {
            if self.came_about(&unit) {
                self.unblock_one(&unit);
            }
        }
    }

    fn came_about(&self, unit: &Unit) -> bool {
        !self.northbound.is_pending(unit) && !self.blocked.held.contains(unit)
    }

    fn block(&mut self, unit: &Unit, problem: &Problem) {
        let Some((subject, uid)) = self.owner_of(unit) else { return };
        let entry = self.blocked.problems.entry(subject.clone()).or_default();
        if entry.0 != uid {
            *entry = (uid, BTreeMap::new());
        }
        entry.1.insert(unit.clone(), problem.clone());
        self.report_blocked(&subject);
        self.blocked.told.insert(unit.clone(), subject);
    }

    fn unblock_one(&mut self, unit: &Unit) {
        self.blocked.refused.remove(unit);
        let Some(subject) = self.blocked.told.remove(unit) else { return };
        if let Some((_, problems)) = self.blocked.problems.get_mut(&subject) {
            problems.remove(unit);
            self.report_blocked(&subject);
        }
    }

    fn report_blocked(&mut self, subject: &Subject) {
        let Some((uid, problems)) = self.blocked.problems.get(subject) else { return };
        let (uid, problems) = (uid.clone(), problems.values().cloned().collect::<Vec<_>>());
        if problems.is_empty() {
            self.blocked.problems.remove(subject);
        }
        self.report(subject.clone(), uid, Topic::Northbound, problems);
    }

    /// Who asked for a unit, with its UID, as far as it is known. VPCs, subnets and peerings have the condition `Ready` for this,
    /// which has Events of its own.
    fn owner_of(&self, unit: &Unit) -> Option<(Subject, String)> {
        match unit {
            Unit::Attachment(id) => self.attachment_subject(id),
            Unit::Node(name) | Unit::Chassis(name) => self.node_subject(name),
            Unit::Service { namespace, name } => {
                let uid = self.world.service(namespace, name)?.uid.to_string();
                Some((Subject::of_service(namespace, name), uid))
            }
            Unit::Subnet(name) => self.node_subject(node_of_subnet(name)?),
            Unit::Vpc(_) | Unit::Peering(_) => None,
        }
    }

    fn node_subject(&self, name: &str) -> Option<(Subject, String)> {
        let node = self.world.node(name)?;
        Some((Subject::from(&Requester::node(name)), node.uid.clone()))
    }

    /// The pod that uses an attachment, where there is one.
    fn attachment_subject(&self, id: &AttachmentId) -> Option<(Subject, String)> {
        let namespace = id.namespace().unwrap_or_default();
        let user = self.world.attachment(id).and_then(|attachment| attachment.user.as_ref());
        let (requester, uid) = match (id.kind(), user) {
            (_, Some(user)) => (Requester::pod(namespace, &user.pod), user.uid.clone()),
            (HolderKind::Pod, None) => (Requester::pod(namespace, id.name()), id.uid().to_string()),
            (HolderKind::NetworkAttachment, None) => {
                (Requester::network_attachment(namespace, id.name()), id.uid().to_string())
            }
            (HolderKind::Node, None) => (Requester::node(id.name()), id.uid().to_string()),
            (HolderKind::VirtualMachine, None) => {
                let (namespace, name) = (namespace.to_owned(), id.name().to_owned());
                (Requester::VirtualMachine { namespace, name }, id.uid().to_string())
            }
            // Nobody uses it, or it has no port.
            (HolderKind::StatefulSet | HolderKind::Subnet | HolderKind::Vip, None) => return None,
        };
        Some((Subject::from(&requester), uid))
    }
}
