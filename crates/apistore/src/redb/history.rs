//! How much history is kept.
//!
//! Age is known from marks: each tells that everything up to a revision had happened at a time. There are a few dozen
//! at most, whatever the age to be kept.

use std::collections::VecDeque;

use redb::{Database, ReadableDatabase, ReadableTable, TableError};

use super::Options;
use super::batch::{Batch, Leap, Position};
use super::layout::{LEAPS, MARKS, failed};
use crate::StoreError;

/// How many marks there are within the age to be kept. History is kept longer than asked for by one part of that at
/// most.
const MARKS_PER_AGE: u64 = 32;

#[derive(Debug)]
pub(super) struct History {
    /// In milliseconds, as all times here.
    age: u64,
    max_events: u64,
    max_bytes: u64,
    marks: VecDeque<Mark>,
    /// Gaps between the revisions that are kept, in order.
    leaps: VecDeque<Leap>,
}

/// Everything up to `revision` had happened at `time`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    time: u64,
    revision: u64,
}

impl History {
    pub(super) fn open(database: &Database, options: &Options) -> Result<Self, StoreError> {
        let read = database.begin_read().map_err(failed)?;
        let table = read.open_table(MARKS).map_err(failed)?;
        let mut marks = VecDeque::new();
        for item in table.iter().map_err(failed)? {
            let (time, revision) = item.map_err(failed)?;
            marks.push_back(Mark { time: time.value(), revision: revision.value() });
        }
        let leaps = match read.open_table(LEAPS) {
            Ok(table) => table
                .iter()
                .map_err(failed)?
                .map(|item| item.map(|(after, before)| Leap { before: before.value(), after: after.value() }))
                .collect::<Result<_, _>>()
                .map_err(failed)?,
            // An earlier version made the store.
            Err(TableError::TableDoesNotExist(_)) => VecDeque::new(),
            Err(error) => return Err(failed(error)),
        };
        Ok(History {
            age: u64::try_from(options.history_age.as_millis()).unwrap_or(u64::MAX),
            max_events: options.history_events,
            max_bytes: options.history_bytes,
            marks,
            leaps,
        })
    }

    /// Notes a gap after the last revision.
    pub(super) fn leap(&mut self, leap: Leap) {
        self.leaps.push_back(leap);
    }

    /// When there is something to do even if nothing happens until then.
    pub(super) fn due(&self, position: &Position) -> Option<u64> {
        let next_mark = match self.marks.back() {
            Some(last) if last.revision == position.revision => None,
            Some(last) => Some(last.time.saturating_add(self.step())),
            None => (position.revision > position.oldest).then_some(0),
        };
        let next_end = self.marks.front().map(|first| first.time.saturating_add(self.age));
        next_mark.into_iter().chain(next_end).min()
    }

    /// Marks the time, and forgets what is too old or too much.
    pub(super) fn keep(&mut self, batch: &mut Batch<'_>, now: u64) -> Result<(), StoreError> {
        self.mark(batch, now)?;
        let oldest = self.by_age(now).max(self.by_events(&batch.position)).max(self.by_bytes(batch)?);
        if oldest > batch.position.oldest {
            batch.compact(oldest)?;
        }
        let oldest = batch.position.oldest;
        self.marks.retain(|mark| mark.revision > oldest);
        self.leaps.retain(|leap| leap.after > oldest);
        Ok(())
    }

    fn mark(&mut self, batch: &mut Batch<'_>, now: u64) -> Result<(), StoreError> {
        let revision = batch.position.revision;
        let is_due = match self.marks.back() {
            // The clock was wrong then, or is wrong now. Either way that mark would be kept too long.
            Some(last) if now < last.time => true,
            Some(last) => revision > last.revision && now >= last.time.saturating_add(self.step()),
            None => revision > batch.position.oldest,
        };
        if is_due {
            batch.mark(now)?;
            self.marks.retain(|mark| mark.time < now);
            self.marks.push_back(Mark { time: now, revision });
        }
        Ok(())
    }

    /// The revision up to which everything is too old.
    fn by_age(&self, now: u64) -> u64 {
        let is_old = |mark: &&Mark| mark.time.saturating_add(self.age) <= now;
        self.marks.iter().take_while(is_old).last().map_or(0, |mark| mark.revision)
    }

    /// Where history must start to have few enough events. An eighth more goes than must, so that this is not done
    /// for each change.
    fn by_events(&self, position: &Position) -> u64 {
        let gaps: u64 = self.leaps.iter().map(|leap| leap.after - leap.before - 1).sum();
        if position.revision - position.oldest - gaps <= self.max_events {
            return 0;
        }
        let (mut last, mut left) = (position.revision, lower(self.max_events));
        for leap in self.leaps.iter().rev() {
            let run = last - leap.after + 1;
            if left < run {
                break;
            }
            left -= run;
            last = leap.before;
        }
        last.saturating_sub(left)
    }

    /// The same for bytes.
    fn by_bytes(&self, batch: &Batch<'_>) -> Result<u64, StoreError> {
        let position = &batch.position;
        if position.total - position.oldest_total <= self.max_bytes {
            return Ok(0);
        }
        let (mut low, mut high) = (position.oldest, position.revision);
        while low < high {
            let middle = low.midpoint(high);
            if position.total - batch.total_at(middle)? <= lower(self.max_bytes) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Ok(low)
    }

    fn step(&self) -> u64 {
        (self.age / MARKS_PER_AGE).max(1)
    }
}

fn lower(limit: u64) -> u64 {
    limit - limit / 8
}
