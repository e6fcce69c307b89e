//! Which conditions objects should have, and the difference to those they have.
//!
//! `Validated` is decided by the gate ([`subnets`](super::subnets)). The others follow from the object and the World at any time,
//! so they are compared whenever either changes, and only a difference is written.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::core::ClusterResourceScope;
use kube::{Resource, ResourceExt};
use portolan_api::condition::{self, ConditionUpdate, READY, SUPPORTED, VALIDATED};
use portolan_api::kubeovn::support::{
    unsupported_ip_pool, unsupported_subnet, unsupported_vip, unsupported_vpc,
};
use portolan_api::{kubeovn, portolan};
use portolan_model::{Group, Source, Unit, UnitState, doors};
use portolan_watch::{Change, Listed, Object};

use super::reports::Topic;
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
    pub holds: bool,
    /// Why, as one word.
    pub reason: &'static str,
    /// Why, for people.
    pub message: String,
}

/// Conditions that an object should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusUpdate {
    /// The kind of the object.
    pub kind: Kind,
    /// Its name; all kinds with conditions are cluster-scoped.
    pub name: String,
    /// Its UID: another object of its name is left alone.
    pub uid: String,
    /// The conditions, each of another type.
    pub conditions: Vec<DesiredCondition>,
}

/// An object whose conditions are ours to write.
pub trait HasConditions:
    HasKind + Source<Key = String> + Object + Resource<Scope = ClusterResourceScope>
{
    /// The conditions as they should be stored, if they are to change.
    fn updated(&self, desired: &[DesiredCondition], now: &Time) -> Option<serde_json::Value>;
    /// What the condition of a type says, and about which generation.
    fn says(&self, type_: &str) -> Option<Said>;
    /// The fields that are set and have no effect yet.
    fn unsupported(&self) -> Vec<String>;
    /// The VPC that it names, if it is one that must exist.
    fn needs_vpc(&self) -> Option<String>;
}

/// What a stored condition says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    status: String,
    reason: String,
    message: String,
    generation: Option<i64>,
}

impl DesiredCondition {
    pub(super) fn is_said_by(&self, said: Option<&Said>) -> bool {
        match (&self.says, said) {
            (None, None) => true,
            (Some(statement), Some(said)) => {
                said.status == if statement.holds { "True" } else { "False" }
                    && said.reason == statement.reason
                    && said.message == statement.message
                    && said.generation == self.generation
            }
            _ => false,
        }
    }

    fn as_update(&self) -> Option<ConditionUpdate<'_>> {
        let says = self.says.as_ref()?;
        let (status, reason, message) = (says.holds, says.reason, says.message.as_str());
        Some(ConditionUpdate { type_: self.type_, status, reason, message, generation: self.generation })
    }
}

/// The differences between both groups are in how they store conditions, and in which fields have no effect.
macro_rules! has_conditions {
    ($object:ty, $set:path, |$o:ident| $stored:expr, |$u:ident| $unsupported:expr, |$v:ident| $vpc:expr) => {
        impl HasConditions for $object {
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

            fn unsupported(&self) -> Vec<String> {
                let $u = self;
                $unsupported
            }

            fn needs_vpc(&self) -> Option<String> {
                let $v = self;
                $vpc
            }
        }
    };
}

has_conditions!(
    portolan::Subnet,
    condition::set_condition,
    |o| o.status.clone().unwrap_or_default().conditions,
    |_u| Vec::new(),
    |v| doors::portolan::subnet(v).ok()?.config.vpc
);
has_conditions!(
    portolan::Vpc,
    condition::set_condition,
    |o| o.status.clone().unwrap_or_default().conditions,
    |_u| Vec::new(),
    |_v| None
);
has_conditions!(
    kubeovn::Subnet,
    kubeovn::set_condition,
    |o| o.status.clone().unwrap_or_default().conditions.unwrap_or_default(),
    |u| unsupported_subnet(&u.spec).iter().map(ToString::to_string).collect(),
    |v| doors::kubeovn::subnet(v).ok()?.config.vpc
);
has_conditions!(
    kubeovn::Vpc,
    kubeovn::set_condition,
    |o| o.status.clone().unwrap_or_default().conditions.unwrap_or_default(),
    |u| unsupported_vpc(&u.spec).iter().map(ToString::to_string).collect(),
    |_v| None
);

has_conditions!(
    kubeovn::IPPool,
    kubeovn::set_condition,
    |o| o.status.clone().unwrap_or_default().conditions.unwrap_or_default(),
    |u| unsupported_ip_pool(&u.spec).iter().map(ToString::to_string).collect(),
    |_v| None
);

has_conditions!(
    kubeovn::Vip,
    kubeovn::set_condition,
    |o| o.status.clone().unwrap_or_default().conditions.unwrap_or_default(),
    |u| unsupported_vip(&u.spec).iter().map(ToString::to_string).collect(),
    |_v| None
);

/// What of an object its conditions depend on.
#[derive(Debug)]
struct Facts {
    subject: Subject,
    uid: String,
    generation: Option<i64>,
    supported: Option<Said>,
    ready: Option<Said>,
    unsupported: Vec<String>,
    needs_vpc: Option<String>,
}

/// The facts about all objects with conditions.
#[derive(Debug, Default)]
pub(super) struct Conditions {
    facts: BTreeMap<(Kind, String), Facts>,
    /// The objects that name a VPC.
    by_vpc: BTreeMap<String, BTreeSet<(Kind, String)>>,
}

impl Conditions {
    fn insert(&mut self, key: (Kind, String), facts: Facts) {
        self.remove(&key);
        if let Some(vpc) = &facts.needs_vpc {
            self.by_vpc.entry(vpc.clone()).or_default().insert(key.clone());
        }
        self.facts.insert(key, facts);
    }

    pub(super) fn remove(&mut self, key: &(Kind, String)) {
        let Some(vpc) = self.facts.remove(key).and_then(|facts| facts.needs_vpc) else { return };
        if let Some(keys) = self.by_vpc.get_mut(&vpc) {
            keys.remove(key);
            if keys.is_empty() {
                self.by_vpc.remove(&vpc);
            }
        }
    }
}

impl Engine {
    /// Takes in a change of an object with conditions.
    pub(super) fn observe_conditions<K: HasConditions>(&mut self, change: &Change<K>) {
        match change {
            Change::Applied(object) => self.compare_conditions_of(object),
            // No condition can be written to what cannot be read.
            Change::Unreadable(unreadable) => {
                self.conditions.remove(&(K::KIND, unreadable.object.name_any()));
            }
            Change::Deleted(object) => self.conditions.remove(&(K::KIND, object.name_any())),
            Change::Listed(Listed { objects, .. }) => {
                let names: BTreeSet<String> = objects.iter().map(ResourceExt::name_any).collect();
                let known = self.conditions.facts.keys().filter(|(kind, _)| *kind == K::KIND);
                // What is only missing from the list is still known.
                let is_known = |name: &String| names.contains(name) || self.world.is_missing_of::<K>(name);
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
            ready: object.says(READY),
            unsupported: object.unsupported(),
            needs_vpc: object.needs_vpc(),
        };
        let key = (K::KIND, object.name_any());
        self.conditions.insert(key.clone(), facts);
        self.to_compare.insert(key);
    }

    /// Units changed in the World: so may have what the conditions of their objects should say.
    pub(super) fn compare_conditions_of_unit(&mut self, unit: &Unit) {
        match unit {
            Unit::Subnet(name) => {
                for kind in [Kind::Subnet, Kind::KubeOvnSubnet] {
                    self.to_compare.insert((kind, name.clone()));
                }
                self.compare_pools_of_subnet(name);
            }
            Unit::Vpc(name) => {
                self.to_compare.extend(self.conditions.by_vpc.get(name).into_iter().flatten().cloned());
            }
            Unit::Peering(_) | Unit::Attachment(_) => {}
        }
    }

    /// Asks for what differs.
    pub(super) fn compare_conditions(&mut self) {
        for key in std::mem::take(&mut self.to_compare) {
            let Some(facts) = self.conditions.facts.get(&key) else { continue };
            let desired = [
                (facts.desired_support(), facts.supported.as_ref()),
                (self.desired_readiness(facts), facts.ready.as_ref()),
            ];
            let (subject, uid) = (facts.subject.clone(), facts.uid.clone());
            let says = desired.iter().filter_map(|(desired, _)| desired.says.as_ref());
            let problems = says.filter(|says| !says.holds).map(|says| (says.reason, says.message.clone()));
            let problems = problems.collect();
            let differing = desired.into_iter().filter(|(desired, said)| !desired.is_said_by(*said));
            let conditions: Vec<DesiredCondition> = differing.map(|(desired, _)| desired).collect();
            if !conditions.is_empty() {
                let (kind, name) = key;
                let update = StatusUpdate { kind, name, uid: uid.clone(), conditions };
                self.actions.push(Action::SetConditions(update));
            }
            self.report(subject, uid, Topic::Conditions, problems);
        }
    }

    /// A subnet without its VPC has no router, and its pods reach nothing beyond it. Beside that nothing is claimed: whether
    /// OVN has it is not observed yet.
    fn desired_readiness(&self, facts: &Facts) -> DesiredCondition {
        // A VPC that cannot be understood, or that only a list lacks, is not missing.
        let is_absent = |vpc: &&str| self.world.state(&Unit::Vpc((*vpc).to_owned())) == UnitState::Absent;
        let missing = facts.needs_vpc.as_deref().filter(is_absent);
        let says = missing.map(|vpc| Statement {
            holds: false,
            reason: "VpcNotFound",
            message: format!("spec.vpc: there is no VPC {vpc:?}; the subnet has no router until there is"),
        });
        DesiredCondition { type_: READY, generation: facts.generation, says }
    }

    /// What a verdict asks to be written.
    pub(super) fn verdict_as_update(verdict: &Verdict) -> StatusUpdate {
        let (group, name) = verdict.subnet.clone();
        let kind = match group {
            Group::Portolan => Kind::Subnet,
            Group::KubeOvn => Kind::KubeOvnSubnet,
        };
        let (uid, generation) = verdict.judged.clone();
        let holds = verdict.errors.is_empty();
        let reason = if holds { "Valid" } else { "Invalid" };
        let says = Some(Statement { holds, reason, message: verdict.errors.clone() });
        let conditions = vec![DesiredCondition { type_: VALIDATED, generation, says }];
        StatusUpdate { kind, name, uid, conditions }
    }
}

impl std::fmt::Display for DesiredCondition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.says {
            None => write!(f, "{} removed", self.type_),
            Some(Statement { holds, message, .. }) => {
                write!(f, "{}={}", self.type_, if *holds { "True" } else { "False" })?;
                if message.is_empty() { Ok(()) } else { write!(f, ": {message}") }
            }
        }
    }
}

impl Facts {
    /// `Supported` is written once a field has no effect, and kept from then on.
    fn desired_support(&self) -> DesiredCondition {
        let (holds, reason) = match self.unsupported.is_empty() {
            true => (true, "AllFieldsSupported"),
            false => (false, "UnsupportedFields"),
        };
        let says = (!holds || self.supported.is_some()).then(|| Statement {
            holds,
            reason,
            message: self.unsupported.join("; "),
        });
        DesiredCondition { type_: SUPPORTED, generation: self.generation, says }
    }
}
