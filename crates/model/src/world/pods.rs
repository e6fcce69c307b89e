//! Pods and the other things that ask for interfaces, and what they refer to.

use portolan_api::portolan::{Holder, HolderKind};

use super::rates::asks_for_rates;
use super::{Name, Topic, World};
use crate::attachment::AttachmentId;
use crate::dirty::Dirty;
use crate::doors::attachment::RequestedAttachment;
use crate::nad::Nad;
use crate::pod::{Pod, PodController, StatefulSet, VirtualMachine};
use crate::request::Requester;
use crate::unit::Unit;

/// The objects that stand for one virtual machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Machine {
    /// The machine.
    pub(super) machine: Option<VirtualMachine>,
    /// An instance that no machine made.
    pub(super) instance: Option<VirtualMachine>,
}

impl Machine {
    /// The one that holds the addresses.
    pub(super) fn holder(&self) -> Option<&VirtualMachine> {
        self.machine.as_ref().or(self.instance.as_ref())
    }
}

impl World {
    pub(super) fn set_pod(&mut self, key: &Name, new: Option<Pod>, dirty: &mut Dirty) {
        let old = self.pods.get(&key.0, &key.1);
        if old == new.as_ref() {
            return;
        }
        let machine_before = old.and_then(machine_of);
        let machine_after = new.as_ref().and_then(machine_of);
        let holder = Holder {
            kind: HolderKind::Pod,
            namespace: Some(key.0.clone()),
            name: key.1.clone(),
            ..Holder::default()
        };
        let held: Vec<_> = self.held_by(&holder).cloned().collect();
        let states: Vec<_> = held.iter().map(|id| self.attachment_state(id)).collect();
        let rates = if old.into_iter().chain(&new).any(asks_for_rates) {
            self.rates_in_name(key, machine_before.iter().chain(&machine_after))
        } else {
            Vec::new()
        };
        if let Some(machine) = &machine_before {
            self.pods_by_machine.remove(machine, key);
        }
        if let Some(machine) = &machine_after {
            self.pods_by_machine.insert(machine.clone(), key.clone());
        }
        match new {
            Some(mut pod) => {
                pod.place = self.places.share(&pod.place);
                self.pods.insert(&key.0, pod);
            }
            None => self.pods.remove(&key.0, &key.1),
        }
        for (id, before) in held.into_iter().zip(states) {
            // A pod that has finished gives its interfaces back.
            if before != self.attachment_state(&id) {
                dirty.units.insert(Unit::Attachment(id));
            }
        }
        self.dirty_changed_rates(rates, dirty);
        self.reconsider(&Requester::pod(&key.0, &key.1), dirty);
        // The pod may have had the addresses that another pod of its machine waits for, or have been the last to use them.
        for machine in [machine_before, machine_after].into_iter().flatten() {
            let (namespace, name) = machine.clone();
            self.publish(&[Topic::Machine(machine)], dirty);
            self.reconsider(&Requester::VirtualMachine { namespace, name }, dirty);
        }
    }

    /// The pod that uses a virtual machine's addresses: the oldest that has not finished, and of those that were made in one second the one
    /// that has them. While a machine migrates there are two, and the older one runs it until it is done.
    pub(crate) fn pod_of_machine(&self, machine: &Name) -> Option<&Name> {
        let pods =
            self.pods_by_machine.get(machine).filter_map(|key| Some((key, self.pods.get(&key.0, &key.1)?)));
        let requester = Requester::VirtualMachine { namespace: machine.0.clone(), name: machine.1.clone() };
        let users: Vec<_> =
            self.held_for(&requester).filter_map(|id| self.attachment(id)?.pod_uid()).collect();
        let has_them = |pod: &Pod| users.iter().any(|uid| pod.uid == *uid);
        let running = pods.filter(|(_, pod)| !pod.finished);
        running.min_by_key(|(_, pod)| (pod.created, !has_them(pod), &pod.uid)).map(|(key, _)| key)
    }

    pub(super) fn set_machine(&mut self, key: &Name, new: Option<VirtualMachine>, dirty: &mut Dirty) {
        self.change_machine(key, |machine| machine.machine = new, dirty);
    }

    pub(super) fn set_instance(&mut self, key: &Name, new: Option<VirtualMachine>, dirty: &mut Dirty) {
        self.change_machine(key, |machine| machine.instance = new, dirty);
    }

    fn change_machine(&mut self, key: &Name, change: impl FnOnce(&mut Machine), dirty: &mut Dirty) {
        let mut machine = self.machines.get(key).cloned().unwrap_or_default();
        let before = machine.clone();
        change(&mut machine);
        if machine == before {
            return;
        }
        match machine.holder() {
            Some(_) => self.machines.insert(key.clone(), machine),
            None => self.machines.remove(key),
        };
        self.publish(&[Topic::Machine(key.clone())], dirty);
        let (namespace, name) = key.clone();
        self.reconsider(&Requester::VirtualMachine { namespace, name }, dirty);
    }

    pub(super) fn set_stateful_set(&mut self, key: &Name, new: Option<StatefulSet>, dirty: &mut Dirty) {
        let old = self.stateful_sets.get(&key.0, &key.1);
        if old == new.as_ref() {
            return;
        }
        // Ordinals that leave the range may have to release their addresses: only those that have some are of interest.
        let prefix = format!("{}-", key.1);
        let first = AttachmentId::before_all_of(HolderKind::StatefulSet, Some(&key.0), &prefix);
        let held = self.holdings.range(first..).map(|(id, _)| id).take_while(|id| {
            id.kind() == HolderKind::StatefulSet
                && id.namespace() == Some(&key.0)
                && id.name().starts_with(&prefix)
        });
        let mut names: Vec<String> = held.map(|id| id.name().to_owned()).collect();
        names.dedup();
        match new {
            Some(set) => self.stateful_sets.insert(&key.0, set),
            None => self.stateful_sets.remove(&key.0, &key.1),
        }
        for name in names {
            self.reconsider(&Requester::pod(&key.0, name), dirty);
        }
    }

    pub(super) fn set_nad(&mut self, key: &Name, new: Option<Nad>, dirty: &mut Dirty) {
        if self.nads.get(&key.0, &key.1) == new.as_ref() {
            return;
        }
        match new {
            Some(nad) => self.nads.insert(&key.0, nad),
            None => self.nads.remove(&key.0, &key.1),
        }
        self.publish(&[Topic::Nad(key.clone())], dirty);
    }

    pub(super) fn set_network_attachment(
        &mut self,
        key: &Name,
        new: Option<RequestedAttachment>,
        dirty: &mut Dirty,
    ) {
        if self.network_attachments.get(&key.0, &key.1) == new.as_ref() {
            return;
        }
        match new {
            Some(wanted) => self.network_attachments.insert(&key.0, wanted),
            None => self.network_attachments.remove(&key.0, &key.1),
        }
        self.reconsider(&Requester::network_attachment(&key.0, &key.1), dirty);
    }
}

/// Namespace and name of the virtual machine that a pod runs.
pub(super) fn machine_of(pod: &Pod) -> Option<Name> {
    match &pod.controller {
        PodController::VirtualMachine(name) => Some((pod.namespace.to_string(), name.to_string())),
        _ => None,
    }
}
