//! What is observed: links, and ports and bridge of Open vSwitch.

use std::collections::BTreeMap;

use portolan_plan::host::{Configuration, Datapath, Key, LinkName, ObservedLink, ObservedPort, Switched};

use super::sandboxes::Half;
use super::{Engine, State};

impl Engine {
    /// A link was seen, or seen to be gone.
    pub(crate) fn link_changed(&self, name: &LinkName, link: Option<&ObservedLink>) {
        self.state().link_changed(name, link);
        self.changed();
    }

    /// A link without a note was seen: one that a call makes, or made before it was interrupted.
    pub(crate) fn unnoted_link(&self, name: &LinkName, switched: Switched) {
        self.state().unnoted_link(name, switched);
        self.changed();
    }

    /// These are all links there are, and those without a note.
    pub(crate) fn links_listed(
        &self,
        links: &BTreeMap<LinkName, ObservedLink>,
        unnoted: &BTreeMap<LinkName, Switched>,
    ) {
        let mut state = self.state();
        let is_gone = |name: &LinkName| !links.contains_key(name) && !unnoted.contains_key(name);
        let gone: Vec<_> = state.observed.units().into_iter().filter(is_gone).collect();
        for name in gone {
            state.link_changed(&name, None);
        }
        for (name, link) in links {
            state.link_changed(name, Some(link));
        }
        for (name, switched) in unnoted {
            state.unnoted_link(name, *switched);
        }
        state.listed = true;
        drop(state);
        self.changed();
    }

    /// Ports were observed up to this revision of the copy of Open vSwitch's database.
    pub(crate) fn ports_observed(&self, revision: u64) {
        self.state().revision = revision;
        self.changed();
    }

    /// Waits until links, and ports up to a revision of the copy of Open vSwitch's database, were observed.
    pub(crate) async fn has_observed(&self, revision: u64) {
        self.wait_for(|state| state.has_observed(revision).then_some(())).await;
    }

    /// Waits until a link is up.
    pub(crate) async fn is_up(&self, name: &LinkName) {
        self.wait_for(|state| state.observed.link(name).filter(|link| link.up).map(drop)).await;
    }

    /// A port was seen, or seen to be gone.
    pub(crate) fn port_changed(&self, name: &LinkName, port: Option<ObservedPort>) {
        let mut state = self.state();
        state.observed.set_port(name, port);
        state.touch(name);
        drop(state);
        self.changed();
    }

    /// The numbers of Open vSwitch's configuration were seen. To be said before what ports were seen then.
    pub(crate) fn configuration_changed(&self, now: Configuration) {
        let mut state = self.state();
        if state.observed.set_configuration(now) {
            state.reconciler.observed([], [Key::Removal]);
            drop(state);
            self.changed();
        }
    }

    /// OVN's bridge was seen with this datapath, or there is none.
    pub(crate) fn bridge_changed(&self, datapath: Option<Datapath>) {
        let mut state = self.state();
        if !state.observed.set_datapath(datapath) {
            return;
        }
        state.reconciler.observed([], [Key::Bridge]);
        state.compare_all();
        drop(state);
        self.changed();
    }
}

impl State {
    pub(super) fn has_observed(&self, revision: u64) -> bool {
        self.listed && self.revision >= revision
    }

    pub(super) fn unnoted_link(&mut self, name: &LinkName, switched: Switched) {
        self.observed.set_unnoted(name, switched);
        self.touch(name);
    }

    pub(super) fn link_changed(&mut self, name: &LinkName, link: Option<&ObservedLink>) {
        match link.map(ObservedLink::function) {
            Some(None) => drop(self.making.remove(name)),
            Some(Some(_)) => self.half_made(name, Half::Noted),
            None => {}
        }
        for unit in self.observed.set_link(name, link) {
            self.touch(&unit);
        }
    }
}
