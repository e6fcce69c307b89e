//! The gate that every subnet passes before it is used: create, then list.
//!
//! Two rivals that are created at once are both in each other's list, or one of them is in none and the other sees it. So at
//! most one of them is found valid, whoever looks and however often.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt;
use portolan_api::{kubeovn, portolan};
use portolan_model::validate::{Findings, validate};
use portolan_model::{Group, Validation, World, doors};

use super::Engine;

/// A subnet of either group, by name.
pub type SubnetKey = (Group, String);

/// The subnets that were seen, as far as the gate is concerned.
#[derive(Debug, Default)]
pub(super) struct SubnetGate {
    /// UID, generation and validation.
    seen: BTreeMap<SubnetKey, (String, Option<i64>, Validation)>,
    pending: bool,
}

/// What consistent lists of the API server have.
#[derive(Clone, Debug, Default)]
pub struct Lists {
    /// Of `portolan.dev`.
    pub subnets: Vec<portolan::Subnet>,
    /// Of `kubeovn.io`.
    pub kubeovn_subnets: Vec<kubeovn::Subnet>,
    /// Of `portolan.dev`.
    pub vpcs: Vec<portolan::Vpc>,
    /// Of `kubeovn.io`.
    pub kubeovn_vpcs: Vec<kubeovn::Vpc>,
}

/// What was found about a subnet, for its condition `Validated`.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Which subnet.
    pub subnet: SubnetKey,
    /// True if it fits the others.
    pub valid: bool,
    /// Why, as one word.
    pub reason: &'static str,
    /// Why, for people.
    pub message: String,
}

impl SubnetGate {
    pub(super) fn put(
        &mut self,
        key: SubnetKey,
        (uid, generation, validation): (String, Option<i64>, Validation),
    ) {
        // A condition that says no is news to no one: only what someone else did is looked at.
        self.pending |= match self.seen.get(&key) {
            Some((old_uid, old_generation, before)) if (old_uid, *old_generation) == (&uid, generation) => {
                *before != validation && validation != Validation::Current
            }
            _ => true,
        };
        self.seen.insert(key, (uid, generation, validation));
    }

    pub(super) fn remove(&mut self, key: &SubnetKey) {
        self.seen.remove(key);
        self.mark_if_any();
    }

    pub(super) fn keep_only(&mut self, group: Group, names: &BTreeSet<String>) {
        self.seen.retain(|key, _| key.0 != group || names.contains(&key.1));
        self.mark_if_any();
    }

    /// Looks at the subnets again.
    pub(super) fn mark(&mut self) {
        self.pending = true;
    }

    /// Looks at the subnets again if there is one that is not valid.
    pub(super) fn mark_if_any(&mut self) {
        self.pending |= self.seen.values().any(|(_, _, validation)| *validation != Validation::Current);
    }

    pub(super) fn take_pending(&mut self) -> bool {
        let any = self.seen.values().any(|(_, _, validation)| *validation != Validation::Current);
        std::mem::take(&mut self.pending) && any
    }
}

impl Engine {
    /// What is to be said about the subnets in these lists that are not valid as they are now. The lists must have been made
    /// after [`Action::ValidateSubnets`](super::Action::ValidateSubnets) was answered by the engine.
    pub fn judge(&self, lists: &Lists) -> Vec<Verdict> {
        let mut world = World::new(self.world.settings());
        drop(world.reset(&lists.vpcs));
        drop(world.reset(&lists.kubeovn_vpcs));
        drop(world.reset(&lists.subnets));
        drop(world.reset(&lists.kubeovn_subnets));
        let open = |validation: Validation| validation != Validation::Current;
        let native = lists.subnets.iter().filter(|subnet| open(doors::portolan::validation(subnet)));
        let native =
            native.map(|subnet| verdict((Group::Portolan, subnet.name_any()), &validate(subnet, &world)));
        let foreign = lists.kubeovn_subnets.iter().filter(|subnet| open(doors::kubeovn::validation(subnet)));
        let foreign =
            foreign.map(|subnet| verdict((Group::KubeOvn, subnet.name_any()), &validate(subnet, &world)));
        native.chain(foreign).collect()
    }

    /// The subnets could not be looked at, or their conditions not be written.
    pub fn not_judged(&mut self) {
        self.retries.insert(super::Retry::Subnets);
    }
}

fn verdict(subnet: SubnetKey, findings: &Findings) -> Verdict {
    let messages: Vec<String> = findings.errors.iter().map(ToString::to_string).collect();
    let (valid, reason) = if findings.is_valid() { (true, "Valid") } else { (false, "Invalid") };
    Verdict { subnet, valid, reason, message: messages.join("; ") }
}
