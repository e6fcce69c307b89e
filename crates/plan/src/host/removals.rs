//! Ports that are gone from Open vSwitch's database, and perhaps not yet from ovs-vswitchd.
//!
//! ovs-vswitchd compares what it has with the database now and then. To it a port that was removed and added again in between is the one that
//! it has, with a link that may be gone by now, or be another one. So a port is added again only after ovs-vswitchd has seen the database
//! without it. Whoever wants to know that raises `next_cfg`, to which ovs-vswitchd then sets `cur_cfg`.

use std::collections::BTreeMap;

/// The numbers of Open vSwitch's configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Configuration {
    /// `next_cfg`, of what is in the database.
    pub next: i64,
    /// `cur_cfg`, of what ovs-vswitchd has taken up.
    pub current: i64,
}

/// How far a removal is that ovs-vswitchd may not have seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// Nobody has raised `next_cfg` since.
    Unasked,
    /// `next_cfg` was raised: `cur_cfg` follows.
    Asked,
}

/// Removals of ports that ovs-vswitchd may not have seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Removals {
    configuration: Configuration,
    /// What `cur_cfg` says at least once ovs-vswitchd has seen what was in the database when it was first looked at: a port that was not there may
    /// have been removed before, and whoever did that may be gone. None if nothing was looked at yet.
    begun_seen_at: Option<i64>,
    /// What `cur_cfg` says at least once ovs-vswitchd has seen a port's removal, by the port's name.
    seen_at: BTreeMap<String, i64>,
}

impl Removals {
    /// The numbers were seen, no earlier than what is said of ports after this. True if who waits for a removal to be seen is to be compared again.
    pub fn configured(&mut self, now: Configuration) -> bool {
        // Another database, whose numbers say nothing of the former one's.
        let begins_anew = now.next < self.configuration.next;
        let was_seen = self.has_seen_beginning();
        self.configuration = now;
        if self.begun_seen_at.is_none() || begins_anew {
            self.begun_seen_at = Some(now.next);
        }
        if begins_anew {
            let number = self.next();
            self.seen_at.values_mut().for_each(|seen_at| *seen_at = number);
        }
        let before = self.seen_at.len();
        self.seen_at.retain(|_, number| *number > now.current);
        begins_anew || self.seen_at.len() < before || (!was_seen && self.has_seen_beginning())
    }

    /// Whether ovs-vswitchd has seen what was there at first.
    fn has_seen_beginning(&self) -> bool {
        self.begun_seen_at.is_none_or(|number| number <= self.configuration.current)
    }

    /// What ovs-vswitchd has not taken up before it has seen what is in the database now: it may have seen the numbers of now before.
    fn next(&self) -> i64 {
        self.configuration.next.saturating_add(1)
    }

    /// A port was seen to be gone.
    pub fn removed(&mut self, name: &str) {
        self.seen_at.insert(name.to_owned(), self.next());
    }

    /// The removal of a port that is not there, as long as ovs-vswitchd may not have seen it.
    pub fn of(&self, name: &str) -> Option<Removal> {
        match self.seen_at.get(name) {
            Some(number) if *number > self.configuration.next => Some(Removal::Unasked),
            Some(_) => Some(Removal::Asked),
            None => (!self.has_seen_beginning()).then_some(Removal::Asked),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configured(removals: &mut Removals, next: i64, current: i64) -> bool {
        removals.configured(Configuration { next, current })
    }

    #[test]
    fn a_port_that_was_removed_before_anybody_looked_is_waited_for_where_ovs_vswitchd_is_behind() {
        let mut removals = Removals::default();
        assert_eq!(removals.of("a"), None);
        configured(&mut removals, 7, 5);
        assert_eq!(removals.of("a"), Some(Removal::Asked));
        assert!(!configured(&mut removals, 8, 6));
        assert_eq!(removals.of("a"), Some(Removal::Asked));
        assert!(configured(&mut removals, 8, 7), "who waits is compared again");
        assert_eq!(removals.of("a"), None);
        // What is removed later is its own matter.
        removals.removed("a");
        assert_eq!((removals.of("a"), removals.of("b")), (Some(Removal::Unasked), None));
    }

    #[test]
    fn where_ovs_vswitchd_is_not_behind_nothing_is_waited_for() {
        let mut removals = Removals::default();
        configured(&mut removals, 7, 7);
        assert_eq!(removals.of("a"), None);
        configured(&mut removals, 9, 7);
        assert_eq!(removals.of("a"), None, "it was behind after the beginning only");
    }
}
