//! What is desired: the objects that ask for interfaces of pods and for ports of the node itself, as the cluster reports them.

use std::collections::BTreeSet;

use portolan_plan::host::LinkName;

use super::Engine;

impl Engine {
    /// Pods were seen, or are missing from a list.
    pub(crate) fn pods_changed(&self, uids: impl IntoIterator<Item = String>) {
        let mut state = self.state();
        for uid in uids {
            for unit in state.observed.units_of_pod(&uid) {
                state.touch(&unit);
            }
        }
        drop(state);
        self.changed();
    }

    /// An event reported the deletion of a pod.
    pub(crate) fn pod_deleted(&self, uid: &str) {
        let mut state = self.state();
        let units = state.observed.units_of_pod(uid);
        if !units.is_empty() {
            state.deleted.insert(uid.to_owned());
        }
        for unit in units {
            state.touch(&unit);
        }
        drop(state);
        self.changed();
    }

    /// Attachments came into effect or changed: pod UIDs and interfaces.
    pub(crate) fn attachments_changed(&self, attachments: &[(String, String)]) {
        if attachments.is_empty() {
            return;
        }
        let mut state = self.state();
        for (uid, interface) in attachments {
            let units: Vec<_> = state.observed.links_of_pod(uid, interface).cloned().collect();
            for unit in units {
                state.touch(&unit);
            }
        }
        drop(state);
        self.changed();
    }

    /// Ports of the node itself were asked for, or what they depend on changed; or who asked for them is missing from a list.
    pub(crate) fn holders_changed(&self, units: impl IntoIterator<Item = LinkName>) {
        let mut state = self.state();
        let mut any = false;
        for unit in units {
            state.touch(&unit);
            any = true;
        }
        drop(state);
        if any {
            self.changed();
        }
    }

    /// These are all that were asked for, and those that are missing now.
    pub(crate) fn holders_listed(&self, units: BTreeSet<LinkName>) {
        let here = self.state().observed.units().into_iter().filter(LinkName::is_of_holder);
        self.holders_changed(units.into_iter().chain(here));
    }

    /// An event reported that nobody of this UID asks for a port of this node any more.
    pub(crate) fn holder_deleted(&self, unit: &LinkName, uid: &str) {
        let mut state = self.state();
        if state.observed.has(unit) {
            state.deleted.insert(uid.to_owned());
        }
        state.touch(unit);
        drop(state);
        self.changed();
    }
}
