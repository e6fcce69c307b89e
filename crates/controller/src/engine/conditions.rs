//! Which status objects should have, and the difference to the one they have.
//!
//! `Validated` is decided by the gate ([`subnets`](super::subnets)), `Ready` by [`readiness`](super::readiness), of pools and Vips by
//! [`ip_pools`](super::ip_pools) and [`vips`](super::vips), `Addressed` of `NetworkAttachment`s by
//! [`network_attachments`](super::network_attachments); the fields beside the conditions are in
//! [`status_fields`](super::status_fields). All but the first follow from the object, the World and the
//! databases at any time, so they are compared whenever one of these changes, and only a difference is written.
//!
//! What changes with every pod, and what usually passes by itself, is *deferred*: compared after a while, once for all changes
//! until then ([`Engine::compare_deferred_status`]). A write that happens anyway takes it along.

mod objects;

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt;
use portolan_api::condition::{ConditionStatus, PEERED, SUPPORTED, VALIDATED};
use portolan_model::{Group, PeeringProblem, Unit};
use portolan_watch::{Change, Listed};

use self::objects::name_of;
pub(super) use self::objects::split;
pub use self::objects::{DesiredCondition, HasConditions, Said, Statement, StatusUpdate};
use super::readiness::{Concern, Finding, Timing, is_refusal, is_subnet, is_vpc};
use super::reports::Topic;
use super::status_fields::StatusFields;
use super::subnets::Verdict;
use super::{Action, Engine, Kind, Subject};

/// What of an object its status depends on.
#[derive(Debug)]
pub(super) struct Facts {
    subject: Subject,
    pub(super) uid: String,
    pub(super) generation: Option<i64>,
    supported: Option<Said>,
    /// The condition that says most, by its type, and what it says.
    main: &'static str,
    pub(super) ready: Option<Said>,
    peered: Option<Said>,
    unsupported: Vec<String>,
    /// The VPCs that it names, or why it cannot be understood.
    pub(super) needs: Result<Vec<String>, String>,
    /// The other fields of its status, as they are.
    pub(super) fields: StatusFields,
}

impl Facts {
    fn vpcs(&self) -> &[String] {
        self.needs.as_deref().unwrap_or_default()
    }
}

/// The facts about all objects with conditions.
#[derive(Debug, Default)]
pub(super) struct Conditions {
    facts: BTreeMap<(Kind, String), Facts>,
    /// The objects that name a VPC.
    by_vpc: BTreeMap<String, BTreeSet<(Kind, String)>>,
    /// Objects whose whole status is to be compared after a while.
    deferred: BTreeSet<(Kind, String)>,
    /// Those of them whose `Ready` should say what usually passes by itself, since less than a while.
    passing: BTreeSet<(Kind, String)>,
    /// Those that were in `passing` the last time a while had passed, and for which it has been so ever since.
    lasting: BTreeSet<(Kind, String)>,
}

impl Conditions {
    fn insert(&mut self, key: (Kind, String), facts: Facts) {
        // What lasts goes on while the object changes, by our own writes too.
        if self.facts.get(&key).is_some_and(|known| known.uid == facts.uid) {
            self.unlink(&key);
        } else {
            self.remove(&key);
        }
        for vpc in facts.vpcs() {
            self.by_vpc.entry(vpc.clone()).or_default().insert(key.clone());
        }
        self.defer_vpcs_of(&key, &facts);
        self.deferred.insert(key.clone());
        self.facts.insert(key, facts);
    }

    pub(super) fn remove(&mut self, key: &(Kind, String)) {
        self.deferred.remove(key);
        self.passes_no_more(key);
        self.unlink(key);
    }

    fn unlink(&mut self, key: &(Kind, String)) {
        let Some(facts) = self.facts.remove(key) else { return };
        self.defer_vpcs_of(key, &facts);
        for vpc in facts.vpcs() {
            let Some(keys) = self.by_vpc.get_mut(vpc) else { continue };
            keys.remove(key);
            if keys.is_empty() {
                self.by_vpc.remove(vpc);
            }
        }
    }

    /// `Ready` of an object should say what usually passes by itself: it is looked at again after a while.
    fn passes(&mut self, key: &(Kind, String)) {
        if !self.lasting.contains(key) {
            self.passing.insert(key.clone());
        }
        self.deferred.insert(key.clone());
    }

    /// It has passed, or is said.
    fn passes_no_more(&mut self, key: &(Kind, String)) {
        self.passing.remove(key);
        self.lasting.remove(key);
    }

    /// A VPC lists its subnets.
    fn defer_vpcs_of(&mut self, (kind, _): &(Kind, String), facts: &Facts) {
        if is_subnet(*kind) {
            for vpc in facts.vpcs() {
                self.defer(&VPCS, vpc);
            }
        }
    }

    /// The status of the objects of this name is to be compared after a while.
    pub(super) fn defer(&mut self, kinds: &[Kind], name: &str) {
        for kind in kinds {
            let key = (*kind, name.to_owned());
            if self.facts.contains_key(&key) {
                self.deferred.insert(key);
            }
        }
    }
}

/// The kinds of VPCs, and of subnets.
const VPCS: [Kind; 2] = [Kind::Vpc, Kind::KubeOvnVpc];
pub(super) const SUBNETS: [Kind; 2] = [Kind::Subnet, Kind::KubeOvnSubnet];

impl Engine {
    /// Takes in a change of an object with conditions.
    pub(super) fn observe_conditions<K: HasConditions>(&mut self, change: &Change<K>) {
        match change {
            Change::Applied(object) => self.compare_conditions_of(object),
            // No condition can be written to what cannot be read.
            Change::Unreadable(unreadable) => {
                self.conditions.remove(&(K::KIND, name_of(&unreadable.object)));
            }
            Change::Deleted(object) => self.conditions.remove(&(K::KIND, name_of(object))),
            Change::Listed(Listed { objects, .. }) => {
                let names: BTreeSet<String> = objects.iter().map(name_of).collect();
                let known = self.conditions.facts.keys().filter(|(kind, _)| *kind == K::KIND);
                // What is only missing from the list is still known.
                let is_known =
                    |name: &String| names.contains(name) || self.world.is_missing_of::<K>(&K::key_of(name));
                let gone: Vec<_> = known.filter(|(_, name)| !is_known(name)).cloned().collect();
                gone.iter().for_each(|key| self.conditions.remove(key));
                objects.iter().for_each(|object| self.compare_conditions_of(object));
            }
        }
    }

    fn compare_conditions_of<K: HasConditions>(&mut self, object: &K) {
        let facts = Facts {
            subject: Subject::of(object),
            uid: object.uid().unwrap_or_default(),
            generation: object.meta().generation,
            supported: object.says(SUPPORTED),
            main: K::MAIN,
            ready: object.says(K::MAIN),
            peered: object.says(PEERED),
            unsupported: object.unsupported(self.world.settings().first_interface),
            needs: object.names_vpcs(),
            fields: object.fields(),
        };
        let key = (K::KIND, name_of(object));
        self.conditions.insert(key.clone(), facts);
        self.to_compare.insert(key);
    }

    /// A unit changed in the World or in a database: so may have what the conditions of its objects should say.
    pub(super) fn compare_conditions_of_unit(&mut self, unit: &Unit) {
        match unit {
            Unit::Subnet(name) => {
                self.to_compare.extend(SUBNETS.map(|kind| (kind, name.clone())));
                let facts = SUBNETS.map(|kind| self.conditions.facts.get(&(kind, name.clone())));
                let vpcs: Vec<String> = facts.into_iter().flatten().flat_map(Facts::vpcs).cloned().collect();
                for vpc in vpcs {
                    self.conditions.defer(&VPCS, &vpc);
                }
                self.compare_pools_of_subnet(name);
            }
            Unit::Vpc(name) => {
                self.to_compare.extend(VPCS.map(|kind| (kind, name.clone())));
                self.to_compare.extend(self.conditions.by_vpc.get(name).into_iter().flatten().cloned());
            }
            Unit::Peering(pair) => {
                for vpc in [pair.first(), pair.second()] {
                    self.to_compare.extend(VPCS.map(|kind| (kind, vpc.to_owned())));
                    self.conditions.defer(&VPCS, vpc);
                }
            }
            Unit::Attachment(_) | Unit::Node(_) | Unit::Chassis(_) | Unit::Service { .. } => {}
        }
    }

    /// What an object should say may have changed: its conditions are compared, and after a while the rest of its status.
    pub(super) fn compare_object(&mut self, kind: Kind, name: &str) {
        self.to_compare.insert((kind, name.to_owned()));
        self.conditions.defer(&[kind], name);
    }

    /// What all objects of a kind should say may have changed.
    pub(super) fn compare_all_of(&mut self, kind: Kind) {
        let keys: Vec<_> = self.conditions.facts.keys().filter(|(of, _)| *of == kind).cloned().collect();
        self.to_compare.extend(keys.iter().cloned());
        self.conditions.deferred.extend(keys);
    }

    /// The conditions of all objects are compared again.
    pub(super) fn compare_all_conditions(&mut self) {
        self.to_compare.extend(self.conditions.facts.keys().cloned());
    }

    /// The conditions of all objects are compared again, and after a while the rest of their statuses.
    pub(super) fn compare_all_status(&mut self) {
        self.compare_all_conditions();
        self.conditions.deferred = self.conditions.facts.keys().cloned().collect();
    }

    /// Asks for what differs.
    pub(super) fn compare_conditions(&mut self) {
        for key in std::mem::take(&mut self.to_compare) {
            self.compare_status(key, Timing::Now);
        }
    }

    /// Whether [`Engine::compare_deferred_status`] is to be called after a while.
    pub fn has_deferred_status(&self) -> bool {
        !self.conditions.deferred.is_empty() && self.is_synced() && !self.stands_by()
    }

    /// A while has passed since there was something to be compared: asks for what still differs. What usually passes by itself is said
    /// if it was so the last time too, and has been since.
    pub fn compare_deferred_status(&mut self) {
        if !self.has_deferred_status() {
            return;
        }
        for key in std::mem::take(&mut self.conditions.deferred) {
            self.compare_status(key, Timing::Later);
        }
        // All that lasted was among the deferred, and is said or has passed.
        self.conditions.lasting = std::mem::take(&mut self.conditions.passing);
    }

    fn compare_status(&mut self, key: (Kind, String), timing: Timing) {
        let Some(facts) = self.conditions.facts.get(&key) else { return };
        let (kind, name) = (key.0, key.1.as_str());
        if self.is_being_addressed(kind, name) {
            return;
        }
        let ready = self.finding_of(kind, name, facts);
        let mut desired = vec![(facts.desired_support(), facts.supported.as_ref())];
        desired
            .extend(self.desired_peering(kind, name, facts).map(|desired| (desired, facts.peered.as_ref())));
        let is_problem = |says: &Statement| says.status == ConditionStatus::False;
        let problem = |says: &Statement| (says.reason, says.message.clone());
        let says = desired.iter().filter_map(|(desired, _)| desired.says.as_ref());
        let mut problems: Vec<_> = says.filter(|says| is_problem(says)).map(problem).collect();
        let status = ready.as_ref().map(|finding| finding.says.status);
        let mut passes = false;
        if let Some(finding) = ready {
            if finding.concern == Concern::Event {
                problems.push(problem(&finding.says));
            }
            let ready = DesiredCondition {
                type_: facts.main,
                generation: facts.generation,
                says: Some(finding.says),
            };
            // Not what began just before, because something else of the object is due: it is to last from one time to the next.
            let is_due = timing == Timing::Later && self.conditions.lasting.contains(&key);
            passes = finding.timing == Timing::Later && !is_due && !ready.is_said_by(facts.ready.as_ref());
            if !passes {
                desired.push((ready, facts.ready.as_ref()));
            }
        }
        if timing == Timing::Later {
            desired.extend(self.desired_usage(&key, &facts.uid));
        }
        let differing = desired.into_iter().filter(|(desired, said)| !desired.is_said_by(*said));
        let conditions: Vec<DesiredCondition> = differing.map(|(desired, _)| desired).collect();
        let (subject, uid) = (facts.subject.clone(), facts.uid.clone());
        let told = self.reports.of(&subject, &uid, Topic::Conditions);
        let refusals: Vec<_> = told.filter(|told| is_refusal(told)).cloned().collect();
        // While nobody knows what the database has, what it refused is not over.
        if !refusals.is_empty() && !problems.iter().any(is_refusal) && !self.has_its_rows(kind, name) {
            problems.extend(refusals);
        }
        // A write that happens anyway takes them along.
        let fields = match timing {
            Timing::Now if conditions.is_empty() => StatusFields::default(),
            Timing::Now | Timing::Later => {
                self.desired_fields(kind, name, facts, status).unless_said_by(&facts.fields)
            }
        };
        match passes {
            true => self.conditions.passes(&key),
            false => self.conditions.passes_no_more(&key),
        }
        if !conditions.is_empty() || !fields.is_empty() {
            let (kind, name) = key;
            let update = StatusUpdate { kind, name, uid: uid.clone(), conditions, fields };
            self.actions.push(Action::SetConditions(update));
        }
        self.report(subject, uid, Topic::Conditions, problems);
    }

    /// What `Ready` of an object should say; none if this controller has nothing to say about it.
    fn finding_of(&self, kind: Kind, name: &str, facts: &Facts) -> Option<Finding> {
        match kind {
            Kind::IPPool => self.pool_finding(name),
            Kind::Vip => self.vip_finding(name, facts),
            Kind::NetworkAttachment => self.network_attachment_finding(name, facts),
            _ => self.readiness_of(kind, name, facts),
        }
    }

    /// Whether the peerings that a VPC asks for stand. Nothing of a VPC that asks for none, or that has lost its name to another.
    fn desired_peering(&self, kind: Kind, name: &str, facts: &Facts) -> Option<DesiredCondition> {
        let desired = |says| DesiredCondition { type_: PEERED, generation: facts.generation, says };
        if !is_vpc(kind) {
            return None;
        }
        let vpc = self.world.vpc(name).filter(|vpc| vpc.uid == facts.uid)?;
        if vpc.config.peerings.is_empty() {
            return Some(desired(None));
        }
        let problems = vpc.config.peerings.iter().enumerate().filter_map(|(index, peering)| {
            let problem = self.world.peering_problem(vpc, &peering.remote_vpc)?;
            let (field, value) = match problem {
                PeeringProblem::NoRemote { .. } | PeeringProblem::OneSided { .. } => {
                    ("remoteVpc", peering.remote_vpc.clone())
                }
                PeeringProblem::OtherNetwork { .. } | PeeringProblem::SameAddress { .. } => {
                    ("localConnectIP", peering.local_connect.to_string())
                }
            };
            let todo = match problem {
                PeeringProblem::OneSided { .. } => format!(
                    "; add to VPC {} in spec.vpcPeerings: remoteVpc {name}, with a localConnectIP in one network with {}",
                    peering.remote_vpc, peering.local_connect
                ),
                _ => String::new(),
            };
            let message = format!("spec.vpcPeerings[{index}].{field}: {value:?} {problem}{todo}");
            Some((reason_of(&problem), message))
        });
        let problems: Vec<(&'static str, String)> = problems.collect();
        let statement = match problems.first() {
            None => Statement { status: true.into(), reason: "Peered", message: String::new() },
            Some((reason, _)) => {
                let messages: Vec<&str> = problems.iter().map(|(_, message)| message.as_str()).collect();
                Statement { status: false.into(), reason, message: messages.join("; ") }
            }
        };
        Some(desired(Some(statement)))
    }

    /// What a verdict asks to be written.
    pub(super) fn verdict_as_update(verdict: &Verdict) -> StatusUpdate {
        let (group, name) = verdict.subnet.clone();
        let kind = match group {
            Group::KubeOvn => Kind::KubeOvnSubnet,
            // A verdict about a Node is no condition.
            Group::Portolan | Group::Core => Kind::Subnet,
        };
        let (uid, generation) = verdict.judged.clone();
        let holds = verdict.errors.is_empty();
        let reason = if holds { "Valid" } else { "Invalid" };
        let says = Some(Statement { status: holds.into(), reason, message: verdict.errors.clone() });
        let conditions = vec![DesiredCondition { type_: VALIDATED, generation, says }];
        StatusUpdate { kind, name, uid, conditions, fields: StatusFields::default() }
    }
}

fn reason_of(problem: &PeeringProblem) -> &'static str {
    match problem {
        PeeringProblem::NoRemote { .. } => "RemoteVpcNotFound",
        PeeringProblem::OneSided { .. } => "OneSidedPeering",
        PeeringProblem::OtherNetwork { .. } => "OtherNetwork",
        PeeringProblem::SameAddress { .. } => "SameAddress",
    }
}

impl Facts {
    fn desired_support(&self) -> DesiredCondition {
        let says = support(&self.unsupported, self.supported.as_ref());
        DesiredCondition { type_: SUPPORTED, generation: self.generation, says }
    }
}

/// What `Supported` should say. It is written once a field has no effect, and kept from then on.
fn support(unsupported: &[String], said: Option<&Said>) -> Option<Statement> {
    let holds = unsupported.is_empty();
    let reason = if holds { "AllFieldsSupported" } else { "UnsupportedFields" };
    let message = unsupported.join("; ");
    (!holds || said.is_some()).then_some(Statement { status: holds.into(), reason, message })
}
