//! Changes on their way into one transaction.

use std::collections::BTreeMap;

use bytes::Bytes;
use redb::{ReadableTable, Table, WriteTransaction};

use super::counts::directories;
use super::layout::{
    COUNTS, CURRENT, ENDED, Held, LEAPS, LOG, Logged, MARKS, META, OLDEST, What, failed, malformed,
};
use super::recent::Recent;
use super::snapshot::entry;
use crate::{Change, Event, Expect, Outcome, Revision, StoreError};

/// Where the store stands: what the writer knows without reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) revision: u64,
    /// The oldest revision that can be listed at or watched from.
    pub(super) oldest: u64,
    /// The first revision that is in the log. What is before `oldest` is on its way out.
    pub(super) first: u64,
    /// The next change has this revision or a later one.
    pub(super) floor: u64,
    /// The bytes of the log's records since the store was made.
    pub(super) total: u64,
    /// The same up to `oldest`.
    pub(super) oldest_total: u64,
}

/// A gap between the revisions of two changes that follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Leap {
    /// The revision of the change before the gap.
    pub(super) before: u64,
    /// The revision of the change after it.
    pub(super) after: u64,
}

/// A transaction being filled.
pub(super) struct Batch<'t> {
    pub(super) position: Position,
    /// What has happened in it, in order.
    pub(super) events: Vec<Event>,
    /// Where the revisions of the first change in it follow after a gap.
    pub(super) leap: Option<Leap>,
    /// Whether there is anything to commit.
    pub(super) changed: bool,
    write: &'t WriteTransaction,
    current: Table<'t, &'static [u8], &'static [u8]>,
    log: Table<'t, u64, &'static [u8]>,
    ended: Table<'t, (&'static [u8], u64), ()>,
    recent: &'t Recent,
    /// By how much the number of keys below each directory changes.
    counts: BTreeMap<Bytes, i64>,
    record: Vec<u8>,
}

impl<'t> Batch<'t> {
    pub(super) fn new(
        write: &'t WriteTransaction,
        position: Position,
        recent: &'t Recent,
    ) -> Result<Self, StoreError> {
        Ok(Batch {
            position,
            events: Vec::new(),
            leap: None,
            changed: false,
            write,
            current: write.open_table(CURRENT).map_err(failed)?,
            log: write.open_table(LOG).map_err(failed)?,
            ended: write.open_table(ENDED).map_err(failed)?,
            recent,
            counts: BTreeMap::new(),
            record: Vec::new(),
        })
    }

    /// Makes a change if its key is as expected.
    pub(super) fn apply(&mut self, change: Change) -> Result<Outcome, StoreError> {
        let Change { key, expect, value } = change;
        let guard = self.current.get(&key[..]).map_err(failed)?;
        let held = guard.as_ref().map(|guard| Held::decode(guard.value())).transpose()?;
        let (what, previous) = match (expect, held, &value) {
            (Expect::Absent, None, Some(_)) => (What::Created, None),
            (Expect::Modified(revision), Some(held), value) if held.modified == revision.0 => {
                let what = if value.is_some() { What::Updated(held) } else { What::Deleted(held) };
                (what, Some((previous_value(held, &self.events, self.recent), revision)))
            }
            _ => return Ok(Outcome::Mismatch(held.map(|held| entry(key, held)))),
        };
        let revision = self.position.floor.max(self.position.revision + 1);
        if revision != self.position.revision + 1 {
            let leap = Leap { before: self.position.revision, after: revision };
            let mut leaps = self.write.open_table(LEAPS).map_err(failed)?;
            leaps.insert(leap.after, leap.before).map_err(failed)?;
            self.leap = Some(leap);
        }
        let created = held.map_or(revision, |held| held.created);

        self.record.clear();
        self.position.total = Logged::encode(self.position.total, &key, what, &mut self.record);
        self.log.insert(revision, &self.record[..]).map_err(failed)?;
        if held.is_some() {
            self.ended.insert((&key[..], revision), ()).map_err(failed)?;
        }
        let count = match what {
            What::Created => 1,
            What::Updated(_) => 0,
            What::Deleted(_) => -1,
        };
        drop(guard);
        if count != 0 {
            for directory in directories(&key) {
                *self.counts.entry(directory).or_default() += count;
            }
        }
        if let Some(value) = &value {
            self.record.clear();
            Held { created, modified: revision, value }.encode(&mut self.record);
            self.current.insert(&key[..], &self.record[..]).map_err(failed)?;
        } else {
            self.current.remove(&key[..]).map_err(failed)?;
        }
        self.position.revision = revision;
        self.changed = true;
        self.events.push(Event { revision: Revision(revision), key, value, previous });
        Ok(Outcome::Done(Revision(revision)))
    }

    /// Forgets history before `oldest`, or before the next change if that is no change's revision; what is in the log goes by and
    /// by.
    pub(super) fn compact(&mut self, oldest: u64) -> Result<(), StoreError> {
        let first_kept = self.log.range(oldest..).map_err(failed)?.next().transpose().map_err(failed)?;
        let oldest = first_kept.map_or(self.position.revision, |(revision, _)| revision.value());
        self.position.oldest_total = self.total_at(oldest)?;
        self.position.oldest = oldest;
        self.changed = true;
        self.write.open_table(META).map_err(failed)?.insert(OLDEST, oldest).map_err(failed)?;
        let mut marks = self.write.open_table(MARKS).map_err(failed)?;
        marks.retain(|_, revision| revision > oldest).map_err(failed)?;
        let mut leaps = self.write.open_table(LEAPS).map_err(failed)?;
        leaps.retain(|after, _| after > oldest).map_err(failed)
    }

    /// Removes no more than `limit` records that history no longer needs.
    pub(super) fn trim(&mut self, limit: u64) -> Result<(), StoreError> {
        // Invariant: the record of the oldest revision stays. So the log is never empty, and its last record tells
        // the revision.
        if self.position.oldest <= self.position.first {
            return Ok(());
        }
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let removed = self.log.extract_from_if(..self.position.oldest, |_, _| true).map_err(failed)?;
        for item in removed.take(limit) {
            let (revision, record) = item.map_err(failed)?;
            let logged = Logged::decode(record.value())?;
            if logged.what.before().is_some() {
                self.ended.remove((logged.key, revision.value())).map_err(failed)?;
            }
        }
        let first = self.log.first().map_err(failed)?;
        self.position.first = first.map_or(self.position.oldest, |(revision, _)| revision.value());
        self.changed = true;
        Ok(())
    }

    /// Notes that everything up to now had happened at `time`; what is noted for later times was noted by a wrong
    /// clock.
    pub(super) fn mark(&mut self, time: u64) -> Result<(), StoreError> {
        let mut marks = self.write.open_table(MARKS).map_err(failed)?;
        marks.retain_in(time.., |_, _| false).map_err(failed)?;
        marks.insert(time, self.position.revision).map_err(failed)?;
        self.changed = true;
        Ok(())
    }

    /// The bytes of the log's records up to and with this revision, which is not older than the oldest.
    pub(super) fn total_at(&self, revision: u64) -> Result<u64, StoreError> {
        if revision == 0 {
            return Ok(0);
        }
        let last = self.log.range(..=revision).map_err(failed)?.next_back().transpose().map_err(failed)?;
        match last {
            Some((_, record)) => Ok(Logged::decode(record.value())?.total),
            None => Ok(0),
        }
    }

    /// Ends the batch: the transaction can be committed then.
    pub(super) fn finish(mut self) -> Result<(Position, Vec<Event>), StoreError> {
        self.counts.retain(|_, change| *change != 0);
        if !self.counts.is_empty() {
            let mut counts = self.write.open_table(COUNTS).map_err(failed)?;
            for (directory, change) in &self.counts {
                let count = counts.get(&directory[..]).map_err(failed)?.map_or(0, |count| count.value());
                match count.checked_add_signed(*change).ok_or_else(malformed)? {
                    0 => counts.remove(&directory[..]).map_err(failed)?,
                    count => counts.insert(&directory[..], count).map_err(failed)?,
                };
            }
        }
        Ok((self.position, self.events))
    }
}

/// What a key held, sharing memory with the event that put it there if that is still at hand.
fn previous_value(held: Held<'_>, events: &[Event], recent: &Recent) -> Bytes {
    let in_batch = || {
        let index = held.modified.checked_sub(events.first()?.revision.0)?;
        events.get(usize::try_from(index).ok()?)?.value.as_ref()
    };
    let value = in_batch().or_else(|| recent.value(held.modified));
    value.cloned().unwrap_or_else(|| Bytes::copy_from_slice(held.value))
}
