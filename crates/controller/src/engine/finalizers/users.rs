//! What uses a VPC or a Subnet: IPLocks on addresses of a Subnet, Subnets in a VPC.
//!
//! What the World knows is kept for the objects that are being deleted and follows every change, at a cost that follows what uses
//! them; live lists have the last word.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt;
use portolan_api::portolan::{HolderKind, IPLock};
use portolan_api::{Domain, kubeovn, portolan};
use portolan_model::subnet::DEFAULT_VPC;
use portolan_model::{Group, Lock, LockChange, World, doors};
use portolan_watch::Listed;

use super::{Finalizers, Key, subnet_group};
use crate::engine::subnets::{GatedSubnet, is_refusal_of_vpc};
use crate::engine::{Engine, HasConditions, Kind, SubnetKey};

/// How many of those that use an object its condition names.
pub(super) const NAMED: usize = 3;

/// What live lists show of those that may use an object.
#[derive(Clone, Debug)]
pub enum Usage {
    /// All IPLocks that name the Subnet.
    Locks(Listed<IPLock>),
    /// All Subnets, of both groups.
    Subnets(Listed<portolan::Subnet>, Listed<kubeovn::Subnet>),
    /// The lists could not be had.
    Failed,
}

/// Something that uses an object, as the World knows it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum User {
    Lock(String),
    Subnet(Group, String),
}

/// The VPCs that Subnets name, also Subnets that are not in effect, for what was made of them before may be.
#[derive(Debug, Default)]
pub(super) struct NamedVpcs {
    by_subnet: BTreeMap<SubnetKey, String>,
    // Invariant: the same, the other way round; no set is empty.
    by_vpc: BTreeMap<String, BTreeSet<SubnetKey>>,
}

impl NamedVpcs {
    /// A Subnet names this VPC, or none any more; answers which one it named before.
    fn set(&mut self, subnet: &SubnetKey, vpc: Option<&str>) -> Option<String> {
        let before = self.by_subnet.remove(subnet);
        if let Some(before) = &before
            && let Some(subnets) = self.by_vpc.get_mut(before)
        {
            subnets.remove(subnet);
            if subnets.is_empty() {
                self.by_vpc.remove(before);
            }
        }
        if let Some(vpc) = vpc {
            self.by_subnet.insert(subnet.clone(), vpc.to_owned());
            self.by_vpc.entry(vpc.to_owned()).or_default().insert(subnet.clone());
        }
        before
    }

    /// The Subnets that name a VPC.
    fn naming(&self, vpc: &str) -> impl Iterator<Item = &SubnetKey> {
        self.by_vpc.get(vpc).into_iter().flatten()
    }

    /// Whether a Subnet names a VPC.
    fn names(&self, subnet: &SubnetKey, vpc: &str) -> bool {
        self.by_subnet.get(subnet).is_some_and(|named| named == vpc)
    }
}

impl Finalizers {
    /// A Subnet uses a VPC, or does not.
    fn set_user_of_vpc(&mut self, vpc: &str, subnet: &SubnetKey, is_used: bool) {
        let user = User::Subnet(subnet.0, subnet.1.clone());
        for kind in [Kind::Vpc, Kind::KubeOvnVpc] {
            let key = (kind, vpc.to_owned());
            let Some(entry) = self.terminating.get_mut(&key).filter(|entry| entry.is_effective) else {
                continue;
            };
            let changed = match is_used {
                true => entry.users.insert(user.clone()),
                false => entry.users.remove(&user),
            };
            if changed {
                self.to_check.insert(key);
            }
        }
    }
}

impl Engine {
    /// A Subnet names this VPC, or none any more.
    pub(super) fn observe_named_vpc(&mut self, subnet: &SubnetKey, vpc: Option<&str>) {
        let before = self.finalizers.named_vpcs.set(subnet, vpc);
        if let Some(before) = before.filter(|before| Some(before.as_str()) != vpc) {
            self.finalizers.set_user_of_vpc(&before, subnet, false);
        }
        if let Some(vpc) = vpc {
            self.reconsider_user_of_vpc(vpc, subnet);
        }
    }

    /// True if a Subnet says that it was refused because its VPC is being deleted, and is not in use. One that is, because only a
    /// later edit of it was refused, still needs its router.
    fn is_of_no_account(&self, subnet: &SubnetKey) -> bool {
        let uid = self.subnets.uid(subnet).unwrap_or_default();
        self.subnets.waits_for_another_vpc(subnet) && !self.world.is_in_use(&subnet.1, uid)
    }

    /// What uses an object, as far as the World knows.
    pub(super) fn users_in_world(&self, (kind, name): &Key, is_effective: bool) -> BTreeSet<User> {
        if !is_effective {
            return BTreeSet::new();
        }
        if subnet_group(*kind).is_none() {
            let naming = self.finalizers.named_vpcs.naming(name);
            let using = naming.filter(|subnet| !self.is_of_no_account(subnet));
            return using.map(|(group, subnet)| User::Subnet(*group, subnet.clone())).collect();
        }
        let locks = self.world.locks_of_subnet(name);
        locks.filter(|lock| self.is_used_by(name, lock)).map(|lock| User::Lock(lock.to_owned())).collect()
    }

    /// Whether a lock that the World has is on an address of a Subnet.
    fn is_used_by(&self, subnet: &str, lock: &str) -> bool {
        if let Some(lock) = self.world.lock(lock) {
            return uses(&self.world, subnet, lock);
        }
        let unreadable = self.world.unreadable_lock(lock);
        unreadable.and_then(|lock| lock.claim.as_ref()?.subnet.as_deref()) == Some(subnet)
    }

    /// Whether a Subnet uses a VPC may have changed.
    fn reconsider_user_of_vpc(&mut self, vpc: &str, subnet: &SubnetKey) {
        let is_used = self.finalizers.named_vpcs.names(subnet, vpc) && !self.is_of_no_account(subnet);
        self.finalizers.set_user_of_vpc(vpc, subnet, is_used);
    }

    /// The World has seen a lock come, change or go.
    pub(in crate::engine) fn lock_of_subnet_changed(&mut self, change: &LockChange) {
        if self.finalizers.terminating.is_empty() {
            return;
        }
        for claim in change.before.iter().chain(&change.after) {
            if let Domain::Vpc(vpc) = &claim.domain {
                self.lock_in_vpc_changed(vpc, claim.subnet.as_deref());
            }
        }
        let claims = change.before.iter().chain(&change.after);
        let subnets: BTreeSet<&String> = claims.filter_map(|claim| claim.subnet.as_ref()).collect();
        for subnet in subnets {
            for kind in [Kind::Subnet, Kind::KubeOvnSubnet] {
                let key = (kind, subnet.clone());
                let is_used = self.is_used_by(subnet, &change.lock);
                let Some(entry) = self.finalizers.terminating.get_mut(&key) else { continue };
                if is_used && entry.is_effective {
                    entry.users.insert(User::Lock(change.lock.clone()));
                } else {
                    entry.users.remove(&User::Lock(change.lock.clone()));
                }
                self.finalizers.to_check.insert(key);
            }
        }
    }

    /// A lock in a VPC changed, on an address of this Subnet or, if none is named, of some gateway. Whether a Subnet is of account
    /// depends on what is on it.
    fn lock_in_vpc_changed(&mut self, vpc: &str, subnet: Option<&str>) {
        let is_terminating = |kind| self.finalizers.terminating.contains_key(&(kind, vpc.to_owned()));
        if ![Kind::Vpc, Kind::KubeOvnVpc].into_iter().any(is_terminating) {
            return;
        }
        let subnets: Vec<SubnetKey> = match subnet {
            Some(name) => [Group::Portolan, Group::KubeOvn].map(|group| (group, name.to_owned())).into(),
            None => self.finalizers.named_vpcs.naming(vpc).cloned().collect(),
        };
        for subnet in subnets {
            self.reconsider_user_of_vpc(vpc, &subnet);
        }
    }

    /// How many of those that were listed use an object, and the first of them.
    pub(super) fn users_in_lists(
        &self,
        name: &str,
        usage: &Usage,
        is_effective: bool,
    ) -> (usize, Vec<String>) {
        let users: Vec<String> = match usage {
            _ if !is_effective => Vec::new(),
            Usage::Failed => Vec::new(),
            Usage::Locks(Listed { objects, unreadable }) => {
                let locks =
                    objects.iter().filter_map(|object| match doors::portolan::lock_or_claim(object) {
                        Some(Ok(lock)) => uses(&self.world, name, &lock).then(|| describe_lock(&lock)),
                        // It takes an address of this Subnet, or may.
                        _ => Some(describe_unreadable(&object.name_any())),
                    });
                let unreadable = unreadable.iter().map(|lock| describe_unreadable(&lock.object.name_any()));
                locks.chain(unreadable).collect()
            }
            Usage::Subnets(native, kubeovn) => {
                let native = self.naming(native, name, Group::Portolan);
                native.into_iter().chain(self.naming(kubeovn, name, Group::KubeOvn)).collect()
            }
        };
        (users.len(), users.into_iter().take(NAMED).collect())
    }

    /// The Subnets of a list that use a VPC.
    fn naming<K: HasConditions + GatedSubnet>(
        &self,
        subnets: &Listed<K>,
        vpc: &str,
        group: Group,
    ) -> Vec<String> {
        let is_in = |subnet: &&K| {
            let is_refused = is_refusal_of_vpc(subnet.refusal().as_deref());
            let uid = subnet.uid().unwrap_or_default();
            let is_of_no_account = is_refused && !self.world.is_in_use(&subnet.name_any(), &uid);
            vpc_of(*subnet).as_deref() == Some(vpc) && !is_of_no_account
        };
        let readable = subnets.objects.iter().filter(is_in).map(ResourceExt::name_any);
        let unreadable = subnets.unreadable.iter().filter(|subnet| subnet.content["spec"]["vpc"] == vpc);
        let names = readable.chain(unreadable.map(|subnet| subnet.object.name_any()));
        names.map(|name| describe_subnet(group, &name)).collect()
    }

    pub(super) fn describe(&self, user: &User) -> String {
        match user {
            User::Lock(name) => match self.world.lock(name) {
                Some(lock) => describe_lock(lock),
                None => describe_unreadable(name),
            },
            User::Subnet(group, name) => describe_subnet(*group, name),
        }
    }
}

/// Whether a lock is on an address of a Subnet. Of one that cannot be understood nobody knows which addresses are its own.
fn uses(world: &World, subnet: &str, lock: &Lock) -> bool {
    match world.known_subnet(subnet) {
        Some(subnet) => subnet.is_used_by(lock),
        None => *lock.subnet() == subnet && lock.attachment.kind() != HolderKind::Subnet,
    }
}

/// The VPC that a Subnet names, also where the rest of it is wrong.
pub(super) fn vpc_of<K: HasConditions>(subnet: &K) -> Option<String> {
    match subnet.names_vpcs() {
        Ok(vpcs) => vpcs.into_iter().next(),
        Err(_) => {
            let object = serde_json::to_value(subnet).ok()?;
            let text = |field: &str| object["spec"][field].as_str().filter(|text| !text.is_empty());
            let is_default = K::KIND == Kind::KubeOvnSubnet && matches!(text("provider"), None | Some("ovn"));
            text("vpc").or(is_default.then_some(DEFAULT_VPC)).map(str::to_owned)
        }
    }
}

fn describe_lock(lock: &Lock) -> String {
    format!("{} by {}", lock.address, lock.attachment.holder())
}

fn describe_unreadable(lock: &str) -> String {
    format!("IPLock {lock}, which cannot be read")
}

fn describe_subnet(group: Group, name: &str) -> String {
    format!("{name} of {group}")
}

/// What a condition says of those that use an object.
pub(super) fn in_use((kind, name): &Key, names: &[String], count: usize) -> String {
    let what = match (subnet_group(*kind), count) {
        (Some(_), 1) => "1 address is in use",
        (Some(_), _) => "addresses are in use",
        (None, 1) => "1 Subnet is in it",
        (None, _) => "Subnets are in it",
    };
    let number = if count == 1 { String::new() } else { format!("{count} ") };
    let (more, list) = match (count.saturating_sub(names.len()), subnet_group(*kind)) {
        (0, _) => (String::new(), String::new()),
        (more, Some(_)) => (
            format!(" and {more} more"),
            format!("; list them: kubectl get iplocks --field-selector spec.subnet={name}"),
        ),
        (more, None) => (
            format!(" and {more} more"),
            "; list them: kubectl get subnets.kubeovn.io,subnets.portolan.dev".to_owned(),
        ),
    };
    format!("{number}{what}: {}{more}; it is removed once nothing uses it{list}", names.join(", "))
}
