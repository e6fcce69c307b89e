//! Lists, as the store stands or as it stood.
//!
//! What stood at an older revision is what stands and is as old, and what has ended since: of each key that changed,
//! the first change after that revision tells what was there before it.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use bytes::Bytes;
use redb::{AccessGuard, Range, ReadableTable};

use super::layout::{Held, Logged, end_of, failed, malformed};
use super::snapshot::Snapshot;
use crate::{Entry, Revision, StoreError};

/// A list under way. It can be read in parts, each where its size belongs: a few entries at once, many on a thread
/// that may block.
pub(super) struct Listing {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) prefix: Bytes,
    /// The revision to show.
    pub(super) at: u64,
    /// No more entries than this.
    pub(super) limit: usize,
    /// Where to read on.
    pub(super) after: Option<Bytes>,
    pub(super) entries: Vec<Entry>,
    pub(super) state: ListState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListState {
    /// There may be more to read.
    Reading,
    /// The limit is reached; there may be more keys.
    Full,
    /// There are no more keys.
    Ended,
}

impl Listing {
    /// A list of which nothing is read yet.
    pub(super) fn new(snapshot: Arc<Snapshot>, range: crate::Range) -> Result<Self, StoreError> {
        let crate::Range { prefix, after, limit, at } = range;
        let at = at.unwrap_or(Revision(snapshot.revision));
        snapshot.check(at)?;
        Ok(Listing {
            snapshot,
            prefix,
            at: at.0,
            limit: if limit == 0 { usize::MAX } else { limit },
            after,
            entries: Vec::new(),
            state: ListState::Reading,
        })
    }

    /// Whether it shows the store as it stands.
    pub(super) fn is_current(&self) -> bool {
        self.at == self.snapshot.revision
    }

    /// Reads on, to the end or to a few more bytes than `max_bytes`.
    pub(super) fn read(&mut self, max_bytes: usize) -> Result<(), StoreError> {
        let mut bytes = 0;
        let mut state = ListState::Ended;
        let mut left = self.limit - self.entries.len();
        let mut chunk = Chunk::default();
        self.snapshot.visit(&self.prefix, self.after.as_deref(), self.at, |key, held| {
            chunk.push(key, held);
            if chunk.bytes.len() >= CHUNK_BYTES {
                std::mem::take(&mut chunk).cut_into(&mut self.entries);
            }
            bytes += key.len() + held.value.len() + size_of::<Entry>();
            left -= 1;
            if left == 0 {
                state = ListState::Full;
            } else if bytes >= max_bytes {
                state = ListState::Reading;
            } else {
                return ControlFlow::Continue(());
            }
            ControlFlow::Break(())
        })?;
        chunk.cut_into(&mut self.entries);
        self.state = state;
        if let Some(last) = self.entries.last() {
            self.after = Some(last.key.clone());
        }
        Ok(())
    }

    /// Counts the keys after those read, by walking over them.
    pub(super) fn count_rest(&self) -> Result<usize, StoreError> {
        let mut count = 0;
        self.snapshot.visit(&self.prefix, self.after.as_deref(), self.at, |_, _| {
            count += 1;
            ControlFlow::Continue(())
        })?;
        Ok(count)
    }
}

/// Entries that share memory. They are used and dropped together as a rule, and one allocation is cheaper than many,
/// the more so for what it leaves behind.
#[derive(Default)]
struct Chunk {
    bytes: Vec<u8>,
    entries: Vec<ChunkEntry>,
}

/// An entry of a chunk: where its key and its value end.
struct ChunkEntry {
    key: usize,
    value: usize,
    created: u64,
    modified: u64,
}

/// The size of a chunk, or a little more. Who keeps one entry keeps no more than that.
const CHUNK_BYTES: usize = 64 << 10;

impl Chunk {
    fn push(&mut self, key: &[u8], held: Held<'_>) {
        self.bytes.extend_from_slice(key);
        let key = self.bytes.len();
        self.bytes.extend_from_slice(held.value);
        let (value, created, modified) = (self.bytes.len(), held.created, held.modified);
        self.entries.push(ChunkEntry { key, value, created, modified });
    }

    fn cut_into(self, entries: &mut Vec<Entry>) {
        let bytes = Bytes::from(self.bytes);
        let mut start = 0;
        entries.extend(self.entries.into_iter().map(|entry| {
            let (key, value) = (bytes.slice(start..entry.key), bytes.slice(entry.key..entry.value));
            start = entry.value;
            Entry { key, value, created: Revision(entry.created), modified: Revision(entry.modified) }
        }));
    }
}

impl Snapshot {
    /// Shows each entry that stood at the revision `at`, in the order of keys, until told to stop.
    pub(super) fn visit(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        at: u64,
        mut show: impl FnMut(&[u8], Held<'_>) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let end = end_of(prefix);
        let end = end.as_deref();
        let from = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        // A key after the whole prefix leaves nothing, and would make a range that ends before it starts.
        if let (Some(after), Some(end)) = (after, end)
            && after >= end
        {
            return Ok(());
        }
        let mut past = if at < self.revision { Some(Past::new(self, from, end, at)?) } else { None };
        let mut ended = past.as_mut().map_or(Ok(None), Past::next)?;
        let current = self
            .current
            .range::<&[u8]>((from, end.map_or(Bound::Unbounded, Bound::Excluded)))
            .map_err(failed)?;
        for item in current {
            let (key, value) = item.map_err(failed)?;
            let held = Held::decode(value.value())?;
            if held.modified > at {
                continue;
            }
            while let Some(before) = ended.take_if(|before| before.key[..] < *key.value()) {
                if before.show(&mut show)?.is_break() {
                    return Ok(());
                }
                ended = past.as_mut().map_or(Ok(None), Past::next)?;
            }
            if show(key.value(), held).is_break() {
                return Ok(());
            }
        }
        while let Some(before) = ended {
            if before.show(&mut show)?.is_break() {
                return Ok(());
            }
            ended = past.as_mut().map_or(Ok(None), Past::next)?;
        }
        Ok(())
    }
}

/// What stood at a revision and has ended since, in the order of keys.
struct Past<'s> {
    snapshot: &'s Snapshot,
    at: u64,
    end: Option<&'s [u8]>,
    range: Range<'s, (&'static [u8], u64), ()>,
    /// The key that was found last; its later changes do not matter.
    found: Option<Vec<u8>>,
}

/// An entry that ended: its key, and the log's record of what ended it.
struct Before<'s> {
    key: Vec<u8>,
    record: AccessGuard<'s, &'static [u8]>,
}

/// How many changes are stepped over one by one before seeking past them all is cheaper.
const MAX_STEPS: usize = 8;

impl<'s> Past<'s> {
    fn new(
        snapshot: &'s Snapshot,
        from: Bound<&[u8]>,
        end: Option<&'s [u8]>,
        at: u64,
    ) -> Result<Self, StoreError> {
        let from = match from {
            Bound::Included(key) => Bound::Included((key, 0)),
            Bound::Excluded(key) => Bound::Excluded((key, u64::MAX)),
            Bound::Unbounded => Bound::Unbounded,
        };
        let range = seek(snapshot, from, end)?;
        Ok(Past { snapshot, at, end, range, found: None })
    }

    fn next(&mut self) -> Result<Option<Before<'s>>, StoreError> {
        let mut steps = 0;
        loop {
            let Some(item) = self.range.next() else { return Ok(None) };
            let (guard, _) = item.map_err(failed)?;
            let (key, revision) = guard.value();
            let seen = self.found.as_deref() == Some(key);
            if seen || revision <= self.at {
                steps += 1;
                if steps == MAX_STEPS {
                    steps = 0;
                    let from = if seen { (key, u64::MAX) } else { (key, self.at) };
                    self.range = seek(self.snapshot, Bound::Excluded(from), self.end)?;
                }
                continue;
            }
            self.found = Some(key.to_vec());
            let record = self.snapshot.logged(revision)?;
            let held = Logged::decode(record.value())?.what.before().ok_or_else(malformed)?;
            // Else it was made after the revision shown, and was not there then.
            if held.modified <= self.at {
                return Ok(Some(Before { key: key.to_vec(), record }));
            }
        }
    }
}

impl Before<'_> {
    fn show(
        &self,
        show: &mut impl FnMut(&[u8], Held<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, StoreError> {
        let held = Logged::decode(self.record.value())?.what.before().ok_or_else(malformed)?;
        Ok(show(&self.key, held))
    }
}

fn seek<'s>(
    snapshot: &'s Snapshot,
    from: Bound<(&[u8], u64)>,
    end: Option<&[u8]>,
) -> Result<Range<'s, (&'static [u8], u64), ()>, StoreError> {
    let end = end.map_or(Bound::Unbounded, |end| Bound::Excluded((end, 0)));
    ReadableTable::range::<(&[u8], u64)>(&snapshot.ended, (from, end)).map_err(failed)
}
