//! VPCs and Subnets that are in use do not vanish: the finalizer [`IN_USE`](portolan_api::finalizer::IN_USE).
//!
//! ```text
//!  seen, not deleted ─▶ finalizer ─▶ (a Subnet is judged) ─▶ used ─▶ deleted ─▶ nothing new ─▶ unused ─▶ finalizer removed
//! ```
//!
//! **Before it is used** it has the finalizer: a Subnet is judged by the gate only once it has been observed with it, and nobody
//! takes an address from a Subnet that was not, or whose VPC was not (`Wait::Protected` in the model).
//!
//! **Once it is deleted** nobody new may use it. A Subnet gives no new addresses, and a VPC takes no new Subnets: the gate
//! refuses a Subnet whose VPC is being deleted.
//!
//! **It is let go** when the World knows of nothing that uses it, this process has no IPLock in it under way, and a list that was
//! begun after the deletion was observed shows none either: IPLocks for a Subnet, Subnets of both groups for a VPC. A Subnet that was
//! refused because its VPC is being deleted does not hold it: whoever keeps making both again (from a repository, say) would never get
//! either.
//!
//! A Subnet is judged by a list of VPCs that is made after the Subnet was stored, and a VPC is let go by a list of Subnets
//! that is made after it was deleted, so one of the two sees the other. For Subnets it is exact for every IPLock that was created before
//! the deletion, and for all that this process creates. What remains is a controller that is no longer the leader and has not observed
//! the deletion: it may create an IPLock, or write what it found about a Subnet, after that list. What comes of it is like a Subnet or
//! VPC that was removed by force: pods wait until one of that name is made again, and a lock goes with its pod.
//!
//! Everything here is found again by looking at the objects, so a crash at any point loses nothing: an object without the finalizer gets it, one that
//! is being deleted is asked about again.
//!
//! `users` knows what uses an object, `refusal` what its owner hears when the API server does not take the finalizer.

mod refusal;
mod users;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use portolan_api::condition::TERMINATING;
use portolan_model::life::{Life, is_protected};
use portolan_model::{Group, Unit};
use portolan_watch::{Change, Listed, Unreadable};

pub use self::users::Usage;
use self::users::{NAMED, NamedVpcs, User, in_use, vpc_of};
use super::conditions::{DesiredCondition, HasConditions, Said, Statement, StatusUpdate};
use super::kinds::Kind;
use super::reports::Topic;
use super::{Action, Engine, Retry, Severity, StatusFields, Subject};

/// An object, by kind and name.
type Key = (Kind, String);

/// A VPC or Subnet of either group, as it was observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protected {
    /// Its kind.
    pub kind: Kind,
    /// Its name; all of them are cluster-scoped.
    pub name: String,
    /// Its UID: another object of its name is left alone.
    pub uid: String,
}

/// What is to become of the finalizer of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinalizerUpdate {
    /// Which object.
    pub object: Protected,
    /// What is to be done.
    pub change: FinalizerChange,
}

/// What is to become of a finalizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinalizerChange {
    /// Add it, unless the object is being deleted.
    Add,
    /// Remove it: the object may vanish.
    Remove,
}

/// The objects whose finalizers are to change.
#[derive(Debug, Default)]
pub(super) struct Finalizers {
    /// Objects without the finalizer that are not being deleted, with their UIDs.
    unprotected: BTreeMap<Key, (Subject, String)>,
    /// Of those, the ones that are to get it.
    to_protect: BTreeSet<Key>,
    terminating: BTreeMap<Key, Terminating>,
    /// Of those, the ones for which something changed.
    to_check: BTreeSet<Key>,
    named_vpcs: NamedVpcs,
}

/// An object that someone deleted.
#[derive(Debug)]
struct Terminating {
    subject: Subject,
    uid: String,
    generation: Option<i64>,
    /// What its condition says; none if no condition can be written, because the object cannot be read.
    said: Option<Option<Said>>,
    finalizers: Vec<String>,
    is_protected: bool,
    /// Whether it is the one of its name that others mean.
    is_effective: bool,
    users: BTreeSet<User>,
    stage: Stage,
    /// Its condition and an Event have told why it stays.
    told: bool,
}

impl Terminating {
    /// What its condition should say.
    fn says(&self, reason: &'static str, message: String) -> DesiredCondition {
        let says = Some(Statement { status: true.into(), reason, message });
        DesiredCondition { type_: TERMINATING, generation: self.generation, says }
    }

    fn in_use(&self, message: String) -> DesiredCondition {
        self.says("InUse", message)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing is under way.
    Idle,
    /// Live lists are under way.
    Asking,
    /// They failed, or showed what the World does not know; they are made again after a pause.
    Paused,
    /// They showed that nothing uses it.
    Unused,
    /// The finalizer is being removed; the watch will tell.
    Removing,
}

impl Finalizers {
    pub(super) fn remove(&mut self, key: &Key) {
        self.unprotected.remove(key);
        self.to_protect.remove(key);
        self.terminating.remove(key);
    }

    /// Nothing is looked at until everything is.
    pub(super) fn forget_checks(&mut self) {
        self.to_protect.clear();
        self.to_check.clear();
    }

    /// How many are to be looked at.
    pub(super) fn checks(&self) -> usize {
        self.to_protect.len() + self.to_check.len()
    }

    /// Everything is looked at again, whatever was under way.
    pub(super) fn begin_anew(&mut self) {
        self.to_protect = self.unprotected.keys().cloned().collect();
        self.to_check = self.terminating.keys().cloned().collect();
        for entry in self.terminating.values_mut() {
            entry.stage = Stage::Idle;
        }
    }

    /// The objects that are being deleted and stay, for people who look for the reason.
    pub(super) fn terminating(&self) -> impl Iterator<Item = (&Subject, usize)> {
        self.terminating.values().map(|entry| (&entry.subject, entry.users.len()))
    }
}

impl Engine {
    /// Takes in a change of a VPC or Subnet, once the World has.
    pub(super) fn observe_life<K: HasConditions<Key = String>>(&mut self, change: &Change<K>) {
        match change {
            Change::Applied(object) => self.observe_life_of(object),
            Change::Unreadable(unreadable) => self.observe_life_of_unreadable(unreadable),
            Change::Deleted(object) => self.forget_life(&(K::KIND, object.name_any())),
            Change::Listed(Listed { objects, unreadable }) => {
                let listed = objects.iter().map(ResourceExt::name_any);
                let listed: BTreeSet<String> =
                    listed.chain(unreadable.iter().map(|unreadable| unreadable.object.name_any())).collect();
                let known = self.finalizers.unprotected.keys().chain(self.finalizers.terminating.keys());
                let is_gone = |key: &&Key| {
                    key.0 == K::KIND && !listed.contains(&key.1) && !self.world.is_missing_of::<K>(&key.1)
                };
                let gone: Vec<Key> = known.filter(is_gone).cloned().collect();
                gone.iter().for_each(|key| self.forget_life(key));
                objects.iter().for_each(|object| self.observe_life_of(object));
                unreadable.iter().for_each(|unreadable| self.observe_life_of_unreadable(unreadable));
            }
        }
    }

    fn observe_life_of<K: HasConditions>(&mut self, object: &K) {
        if let Some(group) = subnet_group(K::KIND) {
            self.observe_named_vpc(&(group, object.name_any()), vpc_of(object).as_deref());
        }
        let said = Some(object.says(TERMINATING));
        self.observe_metadata(K::KIND, Subject::of(object), object.meta(), said);
    }

    fn observe_life_of_unreadable<K: HasConditions>(&mut self, unreadable: &Unreadable<K>) {
        let object = &unreadable.object;
        if let Some(group) = subnet_group(K::KIND) {
            let vpc = unreadable.content["spec"]["vpc"].as_str();
            self.observe_named_vpc(&(group, object.name_any()), vpc);
        }
        self.observe_metadata(K::KIND, Subject::of(object), &object.metadata, None);
    }

    fn observe_metadata(
        &mut self,
        kind: Kind,
        subject: Subject,
        metadata: &ObjectMeta,
        said: Option<Option<Said>>,
    ) {
        let key = (kind, metadata.name.clone().unwrap_or_default());
        let uid = metadata.uid.clone().unwrap_or_default();
        let life = Life::of(metadata);
        let is_settled = match life {
            Life::Unprotected => false,
            Life::Protected => true,
            Life::Terminating => !is_protected(metadata),
        };
        if is_settled {
            // Whatever was in the way of writing its finalizer.
            self.report(subject.clone(), uid.clone(), Topic::Finalizer, Vec::new());
        }
        match life {
            // What was never understood is used by nobody, and what was has its finalizer.
            Life::Unprotected if said.is_none() => self.finalizers.remove(&key),
            Life::Unprotected => {
                self.finalizers.remove(&key);
                self.finalizers.unprotected.insert(key.clone(), (subject, uid));
                self.finalizers.to_protect.insert(key.clone());
            }
            Life::Protected => self.finalizers.remove(&key),
            Life::Terminating => {
                self.finalizers.unprotected.remove(&key);
                self.finalizers.to_protect.remove(&key);
                let before = self.finalizers.terminating.remove(&key).filter(|before| before.uid == uid);
                let is_effective = self.is_effective(&key, &uid);
                let known = before.filter(|before| before.is_effective == is_effective);
                let (users, stage, told) = match known {
                    Some(known) => (known.users, known.stage, known.told),
                    None => (self.users_in_world(&key, is_effective), Stage::Idle, false),
                };
                let entry = Terminating {
                    subject,
                    uid,
                    generation: metadata.generation,
                    said,
                    finalizers: metadata.finalizers.clone().unwrap_or_default(),
                    is_protected: is_protected(metadata),
                    is_effective,
                    users,
                    stage,
                    told,
                };
                self.finalizers.terminating.insert(key.clone(), entry);
                self.finalizers.to_check.insert(key.clone());
            }
        }
        self.reconsider_rival(&key);
    }

    /// Nothing is to be done about an object any more.
    pub(super) fn forget_life(&mut self, key: &Key) {
        self.finalizers.remove(key);
        if let Some(group) = subnet_group(key.0) {
            self.observe_named_vpc(&(group, key.1.clone()), None);
        }
        self.reconsider_rival(key);
    }

    /// The object of the other group may be the one that others mean now, or no longer.
    fn reconsider_rival(&mut self, key: &Key) {
        let rival = (other_group(key.0), key.1.clone());
        let Some(entry) = self.finalizers.terminating.get(&rival) else { return };
        let is_effective = self.is_effective(&rival, &entry.uid);
        if is_effective == entry.is_effective {
            return;
        }
        let users = self.users_in_world(&rival, is_effective);
        if let Some(entry) = self.finalizers.terminating.get_mut(&rival) {
            (entry.is_effective, entry.users) = (is_effective, users);
            self.finalizers.to_check.insert(rival);
        }
    }

    fn is_effective(&self, key: &Key, uid: &str) -> bool {
        let unit = match subnet_group(key.0) {
            Some(_) => Unit::Subnet(key.1.clone()),
            None => Unit::Vpc(key.1.clone()),
        };
        self.world.object_uid(&unit).is_some_and(|known| known == *uid)
    }

    /// Asks for what is to be done about finalizers, and about the conditions of what they hold.
    pub(super) fn check_finalizers(&mut self) {
        for key in std::mem::take(&mut self.finalizers.to_protect) {
            let Some((_, uid)) = self.finalizers.unprotected.get(&key).cloned() else { continue };
            let (kind, name) = key;
            let object = Protected { kind, name, uid };
            self.actions.push(Action::SetFinalizer(FinalizerUpdate { object, change: FinalizerChange::Add }));
        }
        for key in std::mem::take(&mut self.finalizers.to_check) {
            self.check_terminating(&key);
        }
    }

    fn check_terminating(&mut self, key: &Key) {
        let Some(entry) = self.finalizers.terminating.get(key) else { return };
        if !entry.is_protected {
            return self.say_who_else_holds(key);
        }
        if !entry.users.is_empty() {
            let (told, uses) = (entry.told, self.users_of(key, entry));
            self.set_stage(key, |stage| if stage == Stage::Unused { Stage::Idle } else { stage });
            // Its users go one by one: those that are left are named after a while.
            return if told { self.conditions.defer(&[key.0], &key.1) } else { self.say_in_use(key, uses) };
        }
        // What is under way may exist already. Its answer brings us back.
        if subnet_group(key.0).is_some() && self.creating.has_any_in(&key.1) {
            self.finalizers.to_check.insert(key.clone());
            return;
        }
        let object = Protected { kind: key.0, name: key.1.clone(), uid: entry.uid.clone() };
        match entry.stage {
            Stage::Idle => {
                self.set_stage(key, |_| Stage::Asking);
                self.actions.push(Action::ConfirmUnused(object));
            }
            Stage::Unused => {
                self.set_stage(key, |_| Stage::Removing);
                let change = FinalizerChange::Remove;
                self.actions.push(Action::SetFinalizer(FinalizerUpdate { object, change }));
            }
            Stage::Asking | Stage::Paused | Stage::Removing => {}
        }
    }

    /// What an object that stays should say of those that use it, and what it says. None if something else is to be said first.
    pub(super) fn desired_usage(&self, key: &Key, uid: &str) -> Option<(DesiredCondition, Option<&Said>)> {
        let entry = self.finalizers.terminating.get(key).filter(|entry| entry.uid == uid)?;
        let said = entry.said.as_ref()?.as_ref();
        let is_in_use = entry.told && entry.is_protected && !entry.users.is_empty();
        is_in_use.then(|| (entry.in_use(self.users_of(key, entry)), said))
    }

    /// What uses an object, as far as the World knows, for people.
    fn users_of(&self, key: &Key, entry: &Terminating) -> String {
        let names: Vec<_> = entry.users.iter().take(NAMED).map(|user| self.describe(user)).collect();
        in_use(key, &names, entry.users.len())
    }

    fn set_stage(&mut self, key: &Key, stage: impl FnOnce(Stage) -> Stage) {
        if let Some(entry) = self.finalizers.terminating.get_mut(key) {
            entry.stage = stage(entry.stage);
        }
    }

    /// Live lists answered an [`Action::ConfirmUnused`].
    pub fn usage(&mut self, object: &Protected, usage: &Usage) {
        let key = (object.kind, object.name.clone());
        let asked = self.finalizers.terminating.get(&key);
        if asked.is_none_or(|entry| entry.uid != object.uid || entry.stage != Stage::Asking) {
            return;
        }
        let is_effective = asked.is_some_and(|entry| entry.is_effective);
        let (count, names) = self.users_in_lists(&object.name, usage, is_effective);
        let stage = match usage {
            Usage::Failed => Stage::Paused,
            // Whoever leads by then asks anew.
            _ if self.stands_by() => Stage::Idle,
            _ if count == 0 => Stage::Unused,
            _ => Stage::Paused,
        };
        self.set_stage(&key, |_| stage);
        if stage == Stage::Paused {
            // What the World does not know may come and go without a change of it.
            self.retries.insert(Retry::Usage(key.0, key.1.clone()));
        }
        if count > 0 && !self.stands_by() {
            self.say_in_use(&key, in_use(&key, &names, count));
        }
        self.finalizers.to_check.insert(key);
    }

    /// The pause after a vain question is over.
    pub(super) fn ask_about_usage_again(&mut self, key: Key) {
        self.set_stage(&key, |stage| if stage == Stage::Paused { Stage::Idle } else { stage });
        self.finalizers.to_check.insert(key);
    }

    /// Says in the object's condition, and once in an Event, what uses it.
    fn say_in_use(&mut self, key: &Key, message: String) {
        let Some(entry) = self.finalizers.terminating.get(key) else { return };
        let desired = entry.in_use(message.clone());
        self.say_terminating(key, desired);
        let Some(entry) = self.finalizers.terminating.get_mut(key) else { return };
        if !std::mem::replace(&mut entry.told, true) {
            self.actions.push(Action::Report {
                subject: entry.subject.clone(),
                uid: entry.uid.clone(),
                severity: Severity::Normal,
                reason: "InUse",
                message,
            });
        }
    }

    /// An object that we let go and that others hold says so, if it said before that it is in use.
    fn say_who_else_holds(&mut self, key: &Key) {
        let Some(entry) = self.finalizers.terminating.get(key) else { return };
        if !matches!(entry.said, Some(Some(_))) || entry.finalizers.is_empty() {
            return;
        }
        let message = format!("nothing uses it any more; it stays for {}", entry.finalizers.join(", "));
        let desired = entry.says("FinalizersRemaining", message);
        self.say_terminating(key, desired);
    }

    fn say_terminating(&mut self, key: &Key, desired: DesiredCondition) {
        let Some(entry) = self.finalizers.terminating.get(key) else { return };
        let Some(said) = &entry.said else { return };
        if !desired.is_said_by(said.as_ref()) {
            let (kind, name) = key.clone();
            let (uid, conditions) = (entry.uid.clone(), vec![desired]);
            let update = StatusUpdate { kind, name, uid, conditions, fields: StatusFields::default() };
            self.actions.push(Action::SetConditions(update));
        }
    }
}

fn subnet_group(kind: Kind) -> Option<Group> {
    match kind {
        Kind::Subnet => Some(Group::Portolan),
        Kind::KubeOvnSubnet => Some(Group::KubeOvn),
        _ => None,
    }
}

/// The kind of the other group.
fn other_group(kind: Kind) -> Kind {
    match kind {
        Kind::Vpc => Kind::KubeOvnVpc,
        Kind::KubeOvnVpc => Kind::Vpc,
        Kind::Subnet => Kind::KubeOvnSubnet,
        Kind::KubeOvnSubnet => Kind::Subnet,
        other => other,
    }
}
