//! The guards of links, as the kernel reports and lists them, and as they are made: which of two pieces of news is the newer, `guard_news` says.

use std::collections::BTreeMap;

use portolan_plan::host::{Admits, Guard, LinkName};

use super::{Engine, State};
use crate::guard_news::Serial;

impl Engine {
    /// The kernel reported that a link was given its guard, or lost it.
    pub(crate) fn guard_reported(&self, name: &LinkName, guard: Guard) {
        let mut state = self.state();
        state.guard_news.reported(name);
        state.set_guard(name, guard);
        drop(state);
        self.changed();
    }

    /// Whether somebody else has removed or changed the guard of a link, if the kernel reports that it is like this now.
    pub(crate) fn is_missed(&self, name: &LinkName, guard: Guard) -> bool {
        let state = self.state();
        let known = state.observed.guard(name);
        let is_changed = match guard {
            Guard::Absent => true,
            // What the agent itself is changing is no news.
            Guard::Present(admits) => known != Some(admits) && !state.applying.contains_key(name),
        };
        known.is_some() && is_changed && state.observed.link(name).is_some()
    }

    /// The kernel lost reports about guards: they are to be listed.
    pub(crate) fn guard_reports_lost(&self) {
        self.state().guard_news.lost();
    }

    /// The moment before a guard is made.
    pub(crate) fn before_guard(&self) -> Serial {
        self.state().guard_news.now()
    }

    /// A guard was made some time since `since`.
    pub(crate) fn guard_made(&self, name: &LinkName, admits: Admits, since: Serial) {
        self.state().guard_changed(name, Guard::Present(admits), since);
        self.changed();
    }

    /// Begins a listing of guards, if they are to be listed.
    pub(crate) fn begin_guard_listing(&self) -> Option<Serial> {
        self.state().guard_news.begin_listing()
    }

    /// These were all guards there are, some time since the listing began.
    pub(crate) fn guards_listed(&self, began: Serial, guards: &BTreeMap<LinkName, Admits>) {
        let mut state = self.state();
        state.guard_news.listing_ended(began);
        let mut known = state.observed.units();
        known.retain(|name| state.observed.is_guarded(name));
        for name in known.iter().filter(|name| !guards.contains_key(name)) {
            state.guard_changed(name, Guard::Absent, began);
        }
        for (name, admits) in guards {
            state.guard_changed(name, Guard::Present(*admits), began);
        }
        drop(state);
        self.changed();
    }
}

impl State {
    pub(super) fn set_guard(&mut self, name: &LinkName, guard: Guard) {
        self.observed.set_guard(name, guard);
        self.touch(name);
    }

    /// A link's guard was seen or made some time since `since`, unless there is newer news of it.
    pub(super) fn guard_changed(&mut self, name: &LinkName, guard: Guard, since: Serial) {
        if self.guard_news.is_newest(name, since) {
            self.set_guard(name, guard);
        }
    }
}
