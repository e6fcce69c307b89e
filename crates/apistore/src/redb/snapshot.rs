//! The store as it stood after one commit: what every reader reads.

use bytes::Bytes;
use redb::{
    AccessGuard, Database, ReadOnlyTable, ReadTransaction, ReadableDatabase, ReadableTable, TableError,
};

use super::layout::{
    COUNTS, CURRENT, ENDED, FORMAT, FORMAT_VERSION, Held, LEAPS, LOG, Logged, MARKS, META, OLDEST, What,
    failed, malformed,
};
use super::recent::Stretch;
use crate::{Entry, Event, Revision, StoreError};

/// A read transaction with its tables open. The writer makes one after each commit and shares it, so that a read pays
/// for neither, and every reader agrees with the others about the revision.
pub(super) struct Snapshot {
    pub(super) revision: u64,
    /// The oldest revision that can be listed at or watched from.
    pub(super) oldest: u64,
    pub(super) current: ReadOnlyTable<&'static [u8], &'static [u8]>,
    pub(super) log: ReadOnlyTable<u64, &'static [u8]>,
    pub(super) ended: ReadOnlyTable<(&'static [u8], u64), ()>,
    pub(super) counts: ReadOnlyTable<&'static [u8], u64>,
}

impl Snapshot {
    /// Of a database whose last commit left it at `revision` and `oldest`.
    pub(super) fn of(database: &Database, revision: u64, oldest: u64) -> Result<Self, StoreError> {
        Self::open(&database.begin_read().map_err(failed)?, revision, oldest)
    }

    /// Of a database that was just opened. Makes the tables if there are none.
    pub(super) fn first(database: &Database) -> Result<Self, StoreError> {
        let read = database.begin_read().map_err(failed)?;
        let read = match read.open_table(META) {
            Ok(_) => read,
            Err(TableError::TableDoesNotExist(_)) => {
                drop(read);
                make_tables(database)?;
                database.begin_read().map_err(failed)?
            }
            Err(error) => return Err(failed(error)),
        };
        let meta = read.open_table(META).map_err(failed)?;
        let number = |name| Ok(meta.get(name).map_err(failed)?.map(|guard| guard.value()));
        let format = number(FORMAT)?;
        if format != Some(FORMAT_VERSION) {
            let found = format.map_or_else(|| "unknown".to_owned(), |format| format.to_string());
            return Err(StoreError::Failed(format!(
                "the database has format {found}; this is made for format {FORMAT_VERSION}"
            )));
        }
        let oldest = number(OLDEST)?.unwrap_or(0);
        let log = read.open_table(LOG).map_err(failed)?;
        let revision = log.last().map_err(failed)?.map_or(0, |(revision, _)| revision.value());
        Self::open(&read, revision, oldest)
    }

    fn open(read: &ReadTransaction, revision: u64, oldest: u64) -> Result<Self, StoreError> {
        Ok(Snapshot {
            revision,
            oldest,
            current: read.open_table(CURRENT).map_err(failed)?,
            log: read.open_table(LOG).map_err(failed)?,
            ended: read.open_table(ENDED).map_err(failed)?,
            counts: read.open_table(COUNTS).map_err(failed)?,
        })
    }

    /// Refuses a revision that is compacted, has not happened, or is not of this store.
    pub(super) fn check(&self, asked: Revision) -> Result<(), StoreError> {
        if asked.0 > self.revision {
            return Err(StoreError::Future { asked, current: Revision(self.revision) });
        }
        if asked.0 < self.oldest {
            return Err(StoreError::Compacted { asked, oldest: Revision(self.oldest) });
        }
        let is_known = asked.0 == self.oldest || asked.0 == self.revision;
        if !is_known && ReadableTable::get(&self.log, asked.0).map_err(failed)?.is_none() {
            return Err(StoreError::Unknown { asked });
        }
        Ok(())
    }

    pub(super) fn get(&self, key: &Bytes) -> Result<Option<Entry>, StoreError> {
        let Some(guard) = self.current.get(&key[..]).map_err(failed)? else { return Ok(None) };
        Ok(Some(entry(key.clone(), Held::decode(guard.value())?)))
    }

    /// Events with this prefix after `after`, no more than `limit`, or few more bytes than `max_bytes`.
    pub(super) fn events(
        &self,
        prefix: &[u8],
        after: u64,
        limit: usize,
        max_bytes: usize,
    ) -> Result<Stretch, StoreError> {
        let mut stretch = Stretch { events: Vec::new(), until: self.revision };
        let mut bytes = 0;
        for item in self.log.range(after + 1..).map_err(failed)? {
            let (revision, record) = item.map_err(failed)?;
            let (revision, logged) = (revision.value(), Logged::decode(record.value())?);
            bytes += record.value().len();
            if logged.key.starts_with(prefix) {
                let event = self.event(revision, logged)?;
                bytes += event.value.as_ref().map_or(0, Bytes::len);
                stretch.events.push(event);
            }
            if stretch.events.len() == limit || bytes >= max_bytes {
                stretch.until = revision;
                break;
            }
        }
        Ok(stretch)
    }

    fn event(&self, revision: u64, logged: Logged<'_>) -> Result<Event, StoreError> {
        let previous =
            logged.what.before().map(|held| (Bytes::copy_from_slice(held.value), Revision(held.modified)));
        let value = match logged.what {
            What::Created | What::Updated(_) => Some(self.left_by(logged.key, revision)?),
            What::Deleted(_) => None,
        };
        Ok(Event { revision: Revision(revision), key: Bytes::copy_from_slice(logged.key), value, previous })
    }

    /// What the change with this revision left at this key: the next change to the key has it, else it is still there.
    fn left_by(&self, key: &[u8], revision: u64) -> Result<Bytes, StoreError> {
        let mut later = self.ended.range((key, revision + 1)..=(key, u64::MAX)).map_err(failed)?;
        if let Some(next) = later.next() {
            let record = self.logged(next.map_err(failed)?.0.value().1)?;
            let held = Logged::decode(record.value())?.what.before().ok_or_else(malformed)?;
            return value_of(held, revision);
        }
        let guard = self.current.get(key).map_err(failed)?.ok_or_else(malformed)?;
        value_of(Held::decode(guard.value())?, revision)
    }

    /// The record of a change that is known to be in the log.
    pub(super) fn logged(&self, revision: u64) -> Result<AccessGuard<'_, &'static [u8]>, StoreError> {
        ReadableTable::get(&self.log, revision).map_err(failed)?.ok_or_else(malformed)
    }
}

/// An entry of its own memory.
pub(super) fn entry(key: Bytes, held: Held<'_>) -> Entry {
    Entry {
        key,
        value: Bytes::copy_from_slice(held.value),
        created: Revision(held.created),
        modified: Revision(held.modified),
    }
}

fn value_of(held: Held<'_>, modified: u64) -> Result<Bytes, StoreError> {
    if held.modified != modified {
        return Err(malformed());
    }
    Ok(Bytes::copy_from_slice(held.value))
}

fn make_tables(database: &Database) -> Result<(), StoreError> {
    let write = database.begin_write().map_err(failed)?;
    {
        write.open_table(CURRENT).map_err(failed)?;
        write.open_table(LOG).map_err(failed)?;
        write.open_table(ENDED).map_err(failed)?;
        write.open_table(COUNTS).map_err(failed)?;
        write.open_table(MARKS).map_err(failed)?;
        write.open_table(LEAPS).map_err(failed)?;
        let mut meta = write.open_table(META).map_err(failed)?;
        meta.insert(FORMAT, FORMAT_VERSION).map_err(failed)?;
    }
    write.commit().map_err(failed)
}
