//! Who waits for an address, a MAC address or a subnet with something free, and whose turn it is when that becomes free.
//!
//! Whoever waits is registered under everything that it waits for. When one of those becomes free, the first in line has the turn:
//! it is decided again. Whatever comes of that, the turn ends or is passed on ([`Waiters::decided`]): it ends when the thing is
//! taken now, as no one further back could have it either; it is passed on to the next in line while the thing is still free, be it
//! because the attempt failed for another reason, because it needs more than there is, or because there is more than it needed.

use std::collections::{BTreeMap, BTreeSet};

use portolan_api::Family;
use portolan_model::Requester;

/// Something that can become free.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitKey {
    /// One address or MAC address: the name of the lock on it.
    Lock(String),
    /// Any address of a family in a subnet.
    Subnet {
        /// The subnet.
        name: String,
        /// The family.
        family: Family,
    },
    /// Any address of a family in a pool.
    Pool {
        /// The `IPPool`.
        name: String,
        /// The family.
        family: Family,
    },
}

/// Those who wait, in the order in which they came.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Waiters {
    next_ticket: u64,
    tickets: BTreeMap<Requester, (u64, BTreeSet<WaitKey>)>,
    queues: BTreeMap<WaitKey, BTreeMap<u64, Requester>>,
    /// Who has the turn for what, and has not been decided since.
    turns: BTreeMap<Requester, BTreeSet<WaitKey>>,
}

impl Waiters {
    /// Something became free: who is to be decided again.
    pub fn freed(&mut self, key: &WaitKey) -> Option<Requester> {
        let first = self.queues.get(key)?.values().next()?.clone();
        self.give_turn(first, key.clone())
    }

    /// A requester was decided, and now waits for these; for nothing, if it got what it asked for or asks for nothing.
    /// Answers who is to be decided next: whoever is behind it in line for what is still free.
    pub fn decided(
        &mut self,
        requester: &Requester,
        waits_for: BTreeSet<WaitKey>,
        is_free: impl Fn(&WaitKey) -> bool,
    ) -> Vec<Requester> {
        let had = self.turns.remove(requester).unwrap_or_default();
        let ticket = self.tickets.get(requester).map(|(ticket, _)| *ticket);
        self.remove(requester);
        let passed: Vec<_> = had.into_iter().filter(is_free).collect();
        if !waits_for.is_empty() {
            let ticket = ticket.unwrap_or(self.next_ticket);
            self.next_ticket = self.next_ticket.max(ticket + 1);
            for key in &waits_for {
                self.queues.entry(key.clone()).or_default().insert(ticket, requester.clone());
            }
            self.tickets.insert(requester.clone(), (ticket, waits_for));
        }
        let after = ticket.map_or(0, |ticket| ticket + 1);
        let next =
            |waiters: &Self, key: &WaitKey| Some(waiters.queues.get(key)?.range(after..).next()?.1.clone());
        passed
            .into_iter()
            .filter_map(|key| {
                let requester = next(self, &key)?;
                self.give_turn(requester, key)
            })
            .collect()
    }

    fn give_turn(&mut self, requester: Requester, key: WaitKey) -> Option<Requester> {
        self.turns.entry(requester.clone()).or_default().insert(key);
        Some(requester)
    }

    fn remove(&mut self, requester: &Requester) {
        let Some((ticket, keys)) = self.tickets.remove(requester) else { return };
        for key in keys {
            if let Some(queue) = self.queues.get_mut(&key) {
                queue.remove(&ticket);
                if queue.is_empty() {
                    self.queues.remove(&key);
                }
            }
        }
    }

    /// The place in line of a requester that waits: whoever came earlier has a lower one, whatever each waits for.
    pub fn place(&self, requester: &Requester) -> Option<u64> {
        self.tickets.get(requester).map(|(ticket, _)| *ticket)
    }

    /// What a requester waits for.
    pub fn waits_for(&self, requester: &Requester) -> impl Iterator<Item = &WaitKey> {
        self.tickets.get(requester).into_iter().flat_map(|(_, keys)| keys)
    }

    /// True if someone waits for this.
    pub fn has(&self, key: &WaitKey) -> bool {
        self.queues.contains_key(key)
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.tickets.len()
    }

    /// True if no one waits.
    pub fn is_empty(&self) -> bool {
        self.tickets.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(name: &str) -> WaitKey {
        WaitKey::Lock(name.to_owned())
    }

    fn set(keys: &[&str]) -> BTreeSet<WaitKey> {
        keys.iter().map(|key| lock(key)).collect()
    }

    /// Decides for a requester while these are free.
    fn decide(waiters: &mut Waiters, who: &Requester, waits_for: &[&str], free: &[&str]) -> Vec<Requester> {
        let free = set(free);
        waiters.decided(who, set(waits_for), |key| free.contains(key))
    }

    #[test]
    fn first_come_first_served_and_a_vain_attempt_keeps_the_place() {
        let mut waiters = Waiters::default();
        let [a, b] = ["a", "b"].map(|name| Requester::pod("default", name));
        assert_eq!(decide(&mut waiters, &b, &["x"], &[]), []);
        assert_eq!(decide(&mut waiters, &a, &["x"], &[]), []);
        assert_eq!(waiters.freed(&lock("x")), Some(b.clone()));
        assert_eq!(
            decide(&mut waiters, &b, &["x"], &[]),
            [],
            "it is taken after all: no use to ask the next"
        );
        assert_eq!(waiters.freed(&lock("x")), Some(b.clone()));
        assert_eq!(decide(&mut waiters, &b, &[], &["x"]), std::slice::from_ref(&a), "there is more");
        assert_eq!(decide(&mut waiters, &a, &[], &[]), []);
        assert!(waiters.is_empty());
    }

    #[test]
    fn whoever_cannot_use_what_is_free_does_not_keep_it_from_others() {
        let mut waiters = Waiters::default();
        let [a, b, c] = ["a", "b", "c"].map(|name| Requester::pod("default", name));
        let _ = decide(&mut waiters, &a, &["x", "y"], &[]);
        let _ = decide(&mut waiters, &b, &["x"], &[]);
        let _ = decide(&mut waiters, &c, &["y"], &[]);
        assert_eq!(waiters.freed(&lock("x")), Some(a.clone()));
        assert_eq!(decide(&mut waiters, &a, &["y"], &["x"]), std::slice::from_ref(&b));
        assert_eq!(decide(&mut waiters, &b, &[], &[]), []);
        assert_eq!(waiters.freed(&lock("y")), Some(a.clone()), "its place in the other line is kept");
        assert_eq!(decide(&mut waiters, &a, &[], &["y"]), [c]);
    }

    #[test]
    fn whoever_needs_more_than_there_is_passes_its_turn_on_and_keeps_its_place() {
        let mut waiters = Waiters::default();
        let [a, b] = ["a", "b"].map(|name| Requester::pod("default", name));
        let _ = decide(&mut waiters, &a, &["x"], &[]);
        let _ = decide(&mut waiters, &b, &["x"], &[]);
        assert_eq!(waiters.freed(&lock("x")), Some(a.clone()));
        // It needs two of what there is one of.
        assert_eq!(decide(&mut waiters, &a, &["x"], &["x"]), std::slice::from_ref(&b));
        assert_eq!(decide(&mut waiters, &b, &[], &[]), []);
        assert_eq!(waiters.freed(&lock("x")), Some(a));
    }
}
