//! Sandboxes, as the calls of the container runtime begin and end them, and the links that calls are making.

use portolan_plan::host::{LinkName, Note, Sandbox};

use super::{Engine, State};

/// A link that a call is making.
pub(super) struct Making {
    pub(super) sandbox: Sandbox,
    /// Of a representor, which is noted before the call is done with it: the one of the two that has come, as both have to. What the
    /// kernel reports of it before the note may be seen after the call is done.
    pub(super) half: Option<Half>,
}

/// What has come of a representor that a call is making.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Half {
    /// Its note was seen.
    Noted,
    /// The call is done with it.
    Made,
}

impl Engine {
    /// The container runtime began a sandbox, or one of its calls.
    pub(crate) fn begin(&self, sandbox: &Sandbox) {
        self.state().ended.remove(sandbox);
    }

    /// The container runtime ended a sandbox, or one of its calls: everything that the call made goes.
    pub(crate) fn end(&self, sandbox: &Sandbox) {
        let mut state = self.state();
        state.ended.insert(sandbox.clone());
        let mut units = state.observed.units_of(sandbox);
        units.extend(state.making.extract_if(.., |_, of| of.sandbox == *sandbox).map(|(name, _)| name));
        for unit in units {
            state.touch(&unit);
        }
        drop(state);
        self.changed();
    }

    /// A call begins to make a link.
    pub(crate) fn making(&self, name: &LinkName, sandbox: &Sandbox) {
        let making = Making { sandbox: sandbox.clone(), half: None };
        self.state().making.insert(name.clone(), making);
    }

    /// A call is done with a representor: its function is where it should be.
    pub(crate) fn made(&self, name: &LinkName) {
        let mut state = self.state();
        state.half_made(name, Half::Made);
        state.touch(name);
        drop(state);
        self.changed();
    }

    /// A call could not make a link.
    pub(crate) fn not_made(&self, name: &LinkName) {
        let mut state = self.state();
        state.making.remove(name);
        state.touch(name);
        drop(state);
        self.changed();
    }

    /// Waits until nothing is left of a sandbox that was ended, in a copy of Open vSwitch's database of at least this revision.
    pub(crate) async fn is_removed(&self, sandbox: &Sandbox, revision: u64) {
        let removed = |state: &mut State| {
            let settled = !state.is_applying(sandbox) && state.has_observed(revision);
            let units = state.observed.units_of(sandbox);
            let removed = settled && units.iter().all(|unit| state.observed.is_returning(unit));
            removed.then(|| state.ended.remove(sandbox))
        };
        self.wait_for(removed).await;
    }

    /// What is noted of the functions that have not come back from a sandbox.
    pub(crate) fn returning_of(&self, sandbox: &Sandbox) -> Vec<Note> {
        let state = self.state();
        let units = state.observed.units_of(sandbox);
        let returning = units.iter().filter(|unit| state.observed.is_returning(unit));
        returning.filter_map(|unit| state.observed.note(unit).cloned()).collect()
    }

    /// What is left of a sandbox, and why.
    pub(crate) fn left_of(&self, sandbox: &Sandbox) -> String {
        let state = self.state();
        let units = state.observed.units_of(sandbox);
        let left = units.iter().map(|unit| match state.failures.get(unit) {
            Some(error) => format!("{unit}: {error}"),
            None if state.observed.port(unit).is_some() => format!("port {unit} of Open vSwitch"),
            None => format!("link {unit}"),
        });
        left.collect::<Vec<_>>().join("; ")
    }
}

impl State {
    /// Whether something of a sandbox is being changed.
    pub(super) fn is_applying(&self, sandbox: &Sandbox) -> bool {
        self.applying_of.contains_key(sandbox) || self.applying.contains_key(&sandbox.link(&sandbox.call))
    }

    pub(super) fn half_made(&mut self, name: &LinkName, half: Half) {
        let Some(making) = self.making.get_mut(name) else { return };
        if *making.half.get_or_insert(half) != half {
            self.making.remove(name);
        }
    }
}
