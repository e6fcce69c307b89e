//! The last events, in memory, shared by all watches.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::{Event, Revision};

/// A bounded queue of the last events. Their revisions are dense: each is one more than that before. Where the store leaps over
/// revisions, the queue begins anew.
#[derive(Debug)]
pub(super) struct Recent {
    events: VecDeque<Event>,
    /// The revision of the last event there was, kept here or not.
    last: u64,
    bytes: usize,
    max_events: usize,
    max_bytes: usize,
}

/// Some events of a prefix, and up to where that is all of them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) events: Vec<Event>,
    pub(super) until: u64,
}

impl Recent {
    /// Nothing yet, in a store that is at `last`.
    pub(super) fn new(last: u64, max_events: usize, max_bytes: usize) -> Self {
        Recent { events: VecDeque::new(), last, bytes: 0, max_events, max_bytes }
    }

    pub(super) fn push(&mut self, event: Event) {
        debug_assert!(event.revision.0 > self.last, "events are pushed in order");
        if event.revision.0 != self.last + 1 {
            self.events.clear();
            self.bytes = 0;
        }
        self.last = event.revision.0;
        self.bytes += weight(&event);
        self.events.push_back(event);
        while self.events.len() > self.max_events || self.bytes > self.max_bytes {
            let Some(event) = self.events.pop_front() else { break };
            self.bytes -= weight(&event);
        }
    }

    /// The events with this prefix after `after` and up to `until`, no more than `limit`; none if the first of them
    /// is not kept.
    pub(super) fn read(&self, prefix: &[u8], after: u64, until: u64, limit: usize) -> Option<Stretch> {
        let skip = usize::try_from(after.checked_sub(self.before())?).ok()?;
        debug_assert!(until <= self.last, "events are here before anyone may look for them");
        let mut stretch = Stretch { events: Vec::new(), until };
        for event in self.events.iter().skip(skip).take_while(|event| event.revision.0 <= until) {
            if stretch.events.len() == limit {
                break;
            }
            stretch.until = event.revision.0;
            if event.key.starts_with(prefix) {
                stretch.events.push(event.clone());
            }
        }
        if stretch.events.len() < limit {
            stretch.until = until;
        }
        Some(stretch)
    }

    /// What the change with this revision left at its key, if it is kept here.
    pub(super) fn value(&self, revision: u64) -> Option<&Bytes> {
        let index = usize::try_from(revision.checked_sub(self.before() + 1)?).ok()?;
        let event = self.events.get(index)?;
        debug_assert_eq!(event.revision, Revision(revision));
        event.value.as_ref()
    }

    /// The revision before the first event kept.
    fn before(&self) -> u64 {
        self.last - self.events.len() as u64
    }
}

/// The memory that an event keeps, roughly. What was before is shared with an earlier event as a rule.
fn weight(event: &Event) -> usize {
    size_of::<Event>()
        + event.key.len()
        + event.value.as_ref().map_or(0, Bytes::len)
        + event.previous.as_ref().map_or(0, |(value, _)| value.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_event(revision: u64, key: &'static str) -> Event {
        Event {
            revision: Revision(revision),
            key: Bytes::from_static(key.as_bytes()),
            value: Some(Bytes::from(revision.to_string())),
            previous: None,
        }
    }

    fn revisions(stretch: &Stretch) -> Vec<u64> {
        stretch.events.iter().map(|event| event.revision.0).collect()
    }

    #[test]
    fn reads_what_is_kept_and_tells_when_it_is_not() {
        let mut recent = Recent::new(10, 3, 1 << 20);
        assert_eq!(recent.read(b"", 10, 10, 9).unwrap(), Stretch { events: Vec::new(), until: 10 });
        assert_eq!(recent.read(b"", 9, 10, 9), None);
        for revision in 11..=15 {
            recent.push(mk_event(revision, if revision % 2 == 0 { "even/a" } else { "odd/a" }));
        }
        assert_eq!(revisions(&recent.read(b"", 12, 15, 9).unwrap()), [13, 14, 15]);
        assert_eq!(recent.read(b"", 11, 15, 9), None);
        assert_eq!(revisions(&recent.read(b"odd/", 12, 15, 9).unwrap()), [13, 15]);
        assert_eq!(revisions(&recent.read(b"", 13, 14, 9).unwrap()), [14]);
        assert_eq!(recent.value(14).unwrap(), "14");
        assert_eq!(recent.value(12), None);
        assert_eq!(recent.value(16), None);
    }

    #[test]
    fn a_limited_read_ends_at_its_last_event_so_that_the_next_continues_there() {
        let mut recent = Recent::new(0, 9, 1 << 20);
        for (revision, key) in [(1, "a"), (2, "b"), (3, "a"), (4, "a"), (5, "b")] {
            recent.push(mk_event(revision, key));
        }
        let first = recent.read(b"a", 0, 5, 2).unwrap();
        assert_eq!((revisions(&first), first.until), (vec![1, 3], 3));
        let second = recent.read(b"a", 3, 5, 2).unwrap();
        assert_eq!((revisions(&second), second.until), (vec![4], 5));
    }

    #[test]
    fn bytes_are_bounded_even_for_one_event() {
        let mut recent = Recent::new(0, 100, 10_000);
        for revision in 1..=50 {
            let value = Some(Bytes::from(vec![0; 1000]));
            recent.push(Event { value, ..mk_event(revision, "a") });
            assert!(recent.bytes <= 10_000);
        }
        assert!(recent.read(b"", 49, 50, 9).is_some());
        recent.push(Event { value: Some(Bytes::from(vec![0; 20_000])), ..mk_event(51, "a") });
        assert_eq!(recent.bytes, 0);
        assert_eq!(recent.read(b"", 50, 51, 9), None);
        assert_eq!(recent.read(b"", 51, 51, 9).unwrap().until, 51);
    }
}
