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

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Api, Client, ResourceExt};
use portolan_api::condition::{
    self, ADDRESSED, ConditionStatus, ConditionUpdate, PEERED, READY, SUPPORTED, VALIDATED,
};
use portolan_api::kubeovn::support::{
    unsupported_ip_pool, unsupported_subnet, unsupported_vip, unsupported_vpc,
};
use portolan_api::portolan::NetworkAttachment;
use portolan_api::{kubeovn, portolan};
use portolan_model::{FirstInterface, Group, PeeringProblem, Source, Unit, doors};
use portolan_watch::{Change, Listed, Object};
use serde::Serialize;

use super::readiness::{Concern, Finding, Timing, is_refusal, is_subnet, is_vpc};
use super::reports::Topic;
use super::status_fields::StatusFields;
use super::subnets::Verdict;
use super::{Action, Engine, HasKind, Kind, Subject};

/// What one condition of an object should say about one generation of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesiredCondition {
    /// Which condition.
    pub type_: &'static str,
    /// The generation this was decided for.
    pub generation: Option<i64>,
    /// What it says; none: the object should not have the condition.
    pub says: Option<Statement>,
}

/// What a condition says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// Whether it holds.
    pub status: ConditionStatus,
    /// Why, as one word.
    pub reason: &'static str,
    /// Why, for people.
    pub message: String,
}

/// What of its status an object should have otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusUpdate {
    /// The kind of the object.
    pub kind: Kind,
    /// Its name; `namespace/name` if its kind has namespaces.
    pub name: String,
    /// Its UID: another object of its name is left alone.
    pub uid: String,
    /// The conditions, each of another type.
    pub conditions: Vec<DesiredCondition>,
    /// Other fields of its status, those of the conditions' generation or of none.
    pub fields: StatusFields,
}

/// An object whose status is ours to write.
pub trait HasConditions: HasKind + Source + Object + Serialize {
    /// The condition that says most: whether it is in effect.
    const MAIN: &'static str = READY;
    /// What the World knows an object by, from its name as [`StatusUpdate::name`] has it.
    fn key_of(name: &str) -> Self::Key;
    /// How to read and write an object of that name, and its name there.
    fn api(client: Client, name: &str) -> (Api<Self>, &str);
    /// The conditions as they should be stored, if they are to change.
    fn updated(&self, desired: &[DesiredCondition], now: &Time) -> Option<serde_json::Value>;
    /// What the condition of a type says, and about which generation.
    fn says(&self, type_: &str) -> Option<Said>;
    /// The fields that are set and have no effect yet.
    fn unsupported(&self, first: FirstInterface) -> Vec<String>;
    /// The VPCs that it names: that of a subnet, the remote ones of a VPC. Or why it cannot be understood.
    fn names_vpcs(&self) -> Result<Vec<String>, String>;
    /// The fields of its status that are ours, as they are; none if it has no status, for then it lacks also those of no value.
    fn fields(&self) -> StatusFields;
}

/// What a stored condition says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    status: String,
    reason: String,
    message: String,
    generation: Option<i64>,
}

impl Said {
    /// About which generation.
    pub(super) fn generation(&self) -> Option<i64> {
        self.generation
    }

    /// Why it says so.
    pub(super) fn reason(&self) -> &str {
        &self.reason
    }

    /// Why it says so, for people.
    pub(super) fn message(&self) -> &str {
        &self.message
    }
}

impl DesiredCondition {
    pub(super) fn is_said_by(&self, said: Option<&Said>) -> bool {
        match (&self.says, said) {
            (None, None) => true,
            (Some(statement), Some(said)) => {
                said.status == statement.status.as_str()
                    && said.reason == statement.reason
                    && said.message == statement.message
                    && said.generation == self.generation
            }
            _ => false,
        }
    }

    fn as_update(&self) -> Option<ConditionUpdate<'_>> {
        let says = self.says.as_ref()?;
        let (status, reason, message) = (says.status, says.reason, says.message.as_str());
        Some(ConditionUpdate { type_: self.type_, status, reason, message, generation: self.generation })
    }
}

/// The differences between both groups are in how they store conditions, and in which fields have no effect.
macro_rules! has_conditions {
    ($object:ty, $set:path, |$o:ident| $stored:expr, |$u:ident, $first:pat_param| $unsupported:expr, |$v:ident| $vpc:expr) => {
        has_conditions!($object, $set, |$o| $stored, |$u, $first| $unsupported, |$v| $vpc, {
            fn key_of(name: &str) -> String {
                name.to_owned()
            }

            fn api(client: Client, name: &str) -> (Api<Self>, &str) {
                (Api::all(client), name)
            }
        });
    };
    ($object:ty, $set:path, |$o:ident| $stored:expr, |$u:ident, $first:pat_param| $unsupported:expr, |$v:ident| $vpc:expr, { $($own:item)* }) => {
        impl HasConditions for $object {
            $($own)*

            fn updated(&self, desired: &[DesiredCondition], now: &Time) -> Option<serde_json::Value> {
                let $o = self;
                let mut conditions = $stored;
                let mut changed = false;
                for desired in desired.iter().filter(|desired| desired.generation == self.metadata.generation)
                {
                    match desired.as_update() {
                        Some(update) => changed |= $set(&mut conditions, update, now),
                        None => {
                            let before = conditions.len();
                            conditions.retain(|condition| condition.type_ != desired.type_);
                            changed |= conditions.len() != before;
                        }
                    }
                }
                changed.then(|| serde_json::json!(conditions))
            }

            fn says(&self, type_: &str) -> Option<Said> {
                let $o = self;
                let found = $stored.into_iter().find(|condition| condition.type_ == type_)?;
                let (reason, message) = (found.reason.into(), found.message.into());
                let text = |text: Option<String>| text.unwrap_or_default();
                Some(Said {
                    status: found.status,
                    reason: text(reason),
                    message: text(message),
                    generation: found.observed_generation,
                })
            }

            fn unsupported(&self, $first: FirstInterface) -> Vec<String> {
                let $u = self;
                $unsupported
            }

            fn names_vpcs(&self) -> Result<Vec<String>, String> {
                let $v = self;
                match $vpc {
                    Ok(vpcs) => Ok(vpcs.into_iter().collect()),
                    Err(errors) => Err(errors.to_string()),
                }
            }

            fn fields(&self) -> StatusFields {
                self.status.as_ref().map(StatusFields::from).unwrap_or_default()
            }
        }
    };
}

has_conditions!(
    portolan::Subnet,
    condition::set_condition,
    |o| o.status.clone().unwrap_or_default().conditions,
    |_u, _| Vec::new(),
    |v| doors::portolan::subnet(v).map(|subnet| subnet.config.vpc)
);
has_conditions!(
    portolan::Vpc,
    condition::set_condition,
    |o| o.status.clone().unwrap_or_default().conditions,
    |_u, _| Vec::new(),
    |v| doors::portolan::vpc(v).map(|vpc| vpc.config.peerings.into_iter().map(|peering| peering.remote_vpc))
);
has_conditions!(
    kubeovn::Subnet,
    kubeovn::set_condition,
    |o| o.status.clone().unwrap_or_default().conditions.unwrap_or_default(),
    |u, first| {
        let reports = unsupported_subnet(&u.spec, first.egress(u.spec.vpc()));
        reports.iter().map(ToString::to_string).collect()
    },
    |v| doors::kubeovn::subnet(v).map(|subnet| subnet.config.vpc)
);
has_conditions!(
    kubeovn::Vpc,
    kubeovn::set_condition,
    |o| o.status.clone().unwrap_or_default().conditions.unwrap_or_default(),
    |u, _| unsupported_vpc(&u.spec).iter().map(ToString::to_string).collect(),
    |v| doors::kubeovn::vpc(v).map(|vpc| vpc.config.peerings.into_iter().map(|peering| peering.remote_vpc))
);

has_conditions!(
    kubeovn::IPPool,
    kubeovn::set_condition,
    |o| o.status.clone().unwrap_or_default().conditions.unwrap_or_default(),
    |u, _| unsupported_ip_pool(&u.spec).iter().map(ToString::to_string).collect(),
    |_v| Ok::<Option<String>, String>(None)
);

has_conditions!(
    kubeovn::Vip,
    kubeovn::set_condition,
    |o| o.status.clone().unwrap_or_default().conditions.unwrap_or_default(),
    |u, _| unsupported_vip(&u.spec).iter().map(ToString::to_string).collect(),
    |_v| Ok::<Option<String>, String>(None)
);

has_conditions!(
    NetworkAttachment,
    condition::set_condition,
    |o| o.status.clone().unwrap_or_default().conditions,
    |_u, _| Vec::new(),
    |_v| Ok::<Option<String>, String>(None),
    {
        // `Ready` is the business of the agent of its node.
        const MAIN: &'static str = ADDRESSED;

        fn key_of(name: &str) -> (String, String) {
            let (namespace, name) = split(name);
            (namespace.to_owned(), name.to_owned())
        }

        fn api(client: Client, name: &str) -> (Api<Self>, &str) {
            let (namespace, name) = split(name);
            (Api::namespaced(client, namespace), name)
        }
    }
);

/// The namespace and the name of an object of a kind with namespaces.
pub(super) fn split(name: &str) -> (&str, &str) {
    name.split_once('/').unwrap_or_default()
}

/// The name of an object, with its namespace if it has one.
fn name_of(object: &impl ResourceExt) -> String {
    match object.namespace() {
        Some(namespace) => format!("{namespace}/{}", object.name_any()),
        None => object.name_any(),
    }
}

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
            Unit::Attachment(_) | Unit::Node(_) => {}
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

impl std::fmt::Display for DesiredCondition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.says {
            None => write!(f, "{} removed", self.type_),
            Some(Statement { status, message, .. }) => {
                write!(f, "{}={status}", self.type_)?;
                if message.is_empty() { Ok(()) } else { write!(f, ": {message}") }
            }
        }
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
