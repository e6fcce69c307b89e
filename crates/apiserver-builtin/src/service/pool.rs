//! What is given to services, and to whom.
//!
//! The pool remembers who was given what. It is told nothing of services that go away: whoever finds a thing taken looks whether
//! its owner still has it. So nothing has to be given back, and nothing is lost when a process ends in between: the next one
//! reads what services have.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

use jiff::Timestamp;

/// A Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) namespace: String,
    pub(super) name: String,
}

/// Who has what.
#[derive(Debug)]
pub(super) struct Pool<T> {
    taken: HashMap<T, Taken>,
}

#[derive(Clone, Debug)]
struct Taken {
    owner: Owner,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// The owner may not have stored it yet.
    Promised {
        until: Instant,
        /// When, by the clock that requests are told.
        at: Timestamp,
    },
    /// The owner had stored it, when it was looked at last.
    Held { seen: Instant },
}

/// What came of asking for a thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// The asker has it.
    Given,
    /// Somebody is about to have it.
    Promised,
    /// This one had it when last seen.
    Held(Owner),
}

/// How long a write may take, from when a service is given something to when it is stored.
pub(super) const PROMISE: Duration = Duration::from_secs(90);

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Pool { taken: HashMap::new() }
    }
}

impl<T: Copy + Eq + Hash> Pool<T> {
    /// Notes that a stored service has a thing, as seen at some time.
    pub(super) fn seen(&mut self, thing: T, owner: &Owner, seen: Instant) {
        // A promise may have been made since.
        let taken = Taken { owner: owner.clone(), state: State::Held { seen } };
        self.taken.entry(thing).or_insert(taken);
    }

    /// Notes that a service has stored what it was promised. `asked_at` is when somebody began to ask for the service: if its
    /// successor of the same name was promised the thing since, that one may not have stored it yet.
    pub(super) fn fulfilled(&mut self, thing: T, owner: &Owner, asked_at: Timestamp, now: Instant) {
        if let Some(taken) = self.taken.get_mut(&thing)
            && taken.owner == *owner
            && matches!(taken.state, State::Promised { at, .. } if at < asked_at)
        {
            taken.state = State::Held { seen: now };
        }
    }

    /// What would come of asking for a thing.
    pub(super) fn look(&self, thing: T, owner: &Owner, now: Instant) -> Asked {
        match self.taken.get(&thing) {
            // Whoever tries again gets the same again: of two services of one name only one is ever stored.
            Some(taken) if taken.owner == *owner => Asked::Given,
            Some(Taken { state: State::Promised { until, .. }, .. }) if now < *until => Asked::Promised,
            Some(taken) => Asked::Held(taken.owner.clone()),
            None => Asked::Given,
        }
    }

    /// Promises a thing to a service, if nobody has it.
    pub(super) fn ask(&mut self, thing: T, owner: &Owner, now: Instant) -> Asked {
        let asked = self.look(thing, owner, now);
        if asked == Asked::Given {
            self.promise(thing, owner, now);
        }
        asked
    }

    fn promise(&mut self, thing: T, owner: &Owner, now: Instant) {
        let state = State::Promised { until: now + PROMISE, at: Timestamp::now() };
        self.taken.insert(thing, Taken { owner: owner.clone(), state });
    }

    /// Promises a thing that nobody has, of those at places of which `first` is the one to start with. Places go round. An
    /// owner who was promised a thing that would do, and has not stored it, gets that again: whoever fails and tries again
    /// does not use up everything.
    pub(super) fn ask_any(
        &mut self,
        room: u64,
        first: u64,
        at: impl Fn(u64) -> T,
        would_do: impl Fn(T) -> bool,
        owner: &Owner,
        now: Instant,
    ) -> Option<T> {
        let promised = |taken: &Taken| matches!(taken.state, State::Promised { .. }) && taken.owner == *owner;
        let again = self.taken.iter().find(|(thing, taken)| promised(taken) && would_do(**thing));
        if let Some((thing, _)) = again {
            let thing = *thing;
            self.promise(thing, owner, now);
            return Some(thing);
        }
        // Among so many places and one more, at least one is free.
        let tries = room.min(self.taken.len() as u64 + 1);
        let mut places = (0..tries).map(|step| (first + step) % room);
        let free =
            places.find_map(|place| Some(at(place)).filter(|thing| !self.taken.contains_key(thing)))?;
        self.promise(free, owner, now);
        Some(free)
    }

    /// Forgets what was last seen before a time, and promises that were over by then.
    pub(super) fn forget_before(&mut self, time: Instant) {
        self.taken.retain(|_, taken| match taken.state {
            State::Promised { until, .. } => time < until,
            State::Held { seen } => time <= seen,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(name: &str) -> Owner {
        Owner { namespace: "default".into(), name: name.into() }
    }

    #[test]
    fn an_item_is_allocated_once() {
        let (mut pool, now) = (Pool::default(), Instant::now());
        assert_eq!(pool.ask(1, &owner("a"), now), Asked::Given);
        assert_eq!(pool.ask(1, &owner("a"), now), Asked::Given, "whoever tries again gets it again");
        assert_eq!(pool.ask(1, &owner("b"), now), Asked::Promised);
        let later = now + PROMISE;
        assert_eq!(pool.ask(1, &owner("b"), later), Asked::Held(owner("a")));
        pool.forget_before(later);
        assert_eq!(pool.look(1, &owner("b"), later), Asked::Given, "to look takes nothing");
        assert_eq!(pool.ask(1, &owner("c"), later), Asked::Given);
    }

    #[test]
    fn an_item_that_nobody_asked_for_by_name_is_a_free_one() {
        let (mut pool, now) = (Pool::default(), Instant::now());
        pool.seen(2, &owner("stored"), now);
        let mut any = |name: &str| pool.ask_any(3, 2, |place| place, |_| true, &owner(name), now);
        assert_eq!([any("a"), any("b"), any("c")], [Some(0), Some(1), None]);
        assert_eq!(any("b"), Some(1), "whoever tries again gets it again");
        pool.forget_before(now + Duration::from_nanos(1));
        assert_eq!(pool.ask_any(3, 0, |place| place, |_| true, &owner("d"), now), Some(2));
        pool.forget_before(now + PROMISE);
        assert_eq!(pool.ask_any(3, 0, |place| place, |_| true, &owner("d"), now), Some(0));
    }

    #[test]
    fn a_stored_allocation_is_no_longer_pending() {
        let (mut pool, now) = (Pool::default(), Instant::now());
        let before = Timestamp::now();
        pool.ask(1, &owner("a"), now);
        pool.fulfilled(1, &owner("a"), before, now);
        assert_eq!(pool.look(1, &owner("b"), now), Asked::Promised, "what was asked for before says nothing");
        pool.fulfilled(1, &owner("c"), Timestamp::MAX, now);
        assert_eq!(pool.look(1, &owner("b"), now), Asked::Promised, "of another it says nothing");
        pool.fulfilled(1, &owner("a"), Timestamp::MAX, now);
        assert_eq!(pool.look(1, &owner("b"), now), Asked::Held(owner("a")));
    }

    #[test]
    fn a_pending_allocation_survives_a_refresh() {
        let (mut pool, now) = (Pool::default(), Instant::now());
        pool.ask(1, &owner("new"), now);
        pool.seen(1, &owner("old"), now);
        assert_eq!(pool.look(1, &owner("b"), now), Asked::Promised);
    }
}
