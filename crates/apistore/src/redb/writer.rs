//! The one thread that writes.
//!
//! It takes all changes that wait, up to a bound, makes them one after the other in one transaction, commits that
//! with one sync to storage, shows the new state to readers and watches, and only then answers. While it syncs, the
//! next changes gather: the more are made at once, the less each costs.

use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use redb::{Database, Durability, ReadableTable};
use tokio::sync::{OwnedSemaphorePermit, oneshot, watch};

use super::batch::{Batch, Position};
use super::history::History;
use super::layout::{Logged, failed};
use super::recent::Recent;
use super::snapshot::Snapshot;
use crate::{Change, Event, Outcome, Revision, StoreError};

/// The most requests in one transaction. What one costs the others in it is bounded by that.
const MAX_BATCH: usize = 1024;
/// How many records of the log are removed in a transaction of their own when there is nothing else to do.
const TRIM_SLICE: u64 = 512;

/// Something for the writer to do.
pub(super) struct Request {
    pub(super) work: Work,
    pub(super) answer: oneshot::Sender<Result<Outcome, StoreError>>,
    /// Room in the queue, given back when the request is answered.
    pub(super) room: Option<OwnedSemaphorePermit>,
}

pub(super) enum Work {
    Change(Change),
    Compact(Revision),
}

/// Tells the time, in milliseconds since 1970.
pub(super) type Clock = Box<dyn Fn() -> u64 + Send>;

pub(super) struct Writer {
    database: Database,
    position: Position,
    history: History,
    clock: Clock,
    recent: Arc<RwLock<Recent>>,
    published: watch::Sender<Arc<Snapshot>>,
    /// After a failure nothing is done but what is asked for: upkeep would only fail again and again.
    is_broken: bool,
}

impl Writer {
    pub(super) fn new(
        database: Database,
        history: History,
        clock: Clock,
        recent: Arc<RwLock<Recent>>,
        published: watch::Sender<Arc<Snapshot>>,
    ) -> Result<Self, StoreError> {
        let mut position = position_of(&published.borrow())?;
        // A store that is new has no copies.
        if position.revision > 0 {
            position.floor = first_revision_at((clock)());
        }
        Ok(Writer { database, position, history, clock, recent, published, is_broken: false })
    }

    /// Works until there is nobody who could ask for more.
    pub(super) fn run(mut self, queue: &Receiver<Request>) {
        while let Some(requests) = self.wait(queue) {
            let (works, answers): (Vec<_>, Vec<_>) =
                requests.into_iter().map(|request| (request.work, (request.answer, request.room))).unzip();
            let result = self.transact(works);
            self.is_broken = result.is_err();
            // Whoever does not wait for the answer any more is not told; the change is made all the same.
            match result {
                Ok(outcomes) => {
                    for ((answer, _room), outcome) in answers.into_iter().zip(outcomes) {
                        let _ = answer.send(outcome);
                    }
                }
                Err(error) => {
                    for (answer, _room) in answers {
                        let _ = answer.send(Err(error.clone()));
                    }
                }
            }
        }
    }

    /// The next requests; an empty list if it is time for upkeep.
    fn wait(&self, queue: &Receiver<Request>) -> Option<Vec<Request>> {
        let first = if self.is_broken {
            queue.recv().ok()?
        } else if self.position.first < self.position.oldest {
            match queue.try_recv() {
                Ok(first) => first,
                Err(TryRecvError::Empty) => return Some(Vec::new()),
                Err(TryRecvError::Disconnected) => return None,
            }
        } else if let Some(due) = self.history.due(&self.position) {
            let wait = Duration::from_millis(due.saturating_sub((self.clock)()));
            match queue.recv_timeout(wait) {
                Ok(first) => first,
                Err(RecvTimeoutError::Timeout) => return Some(Vec::new()),
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        } else {
            queue.recv().ok()?
        };
        let mut requests = vec![first];
        requests.extend(queue.try_iter().take(MAX_BATCH - 1));
        Some(requests)
    }

    fn transact(&mut self, works: Vec<Work>) -> Result<Vec<Result<Outcome, StoreError>>, StoreError> {
        let mut write = self.database.begin_write().map_err(failed)?;
        write.set_durability(Durability::Immediate).map_err(failed)?;
        let recent = self.recent.read().unwrap_or_else(PoisonError::into_inner);
        let mut batch = Batch::new(&write, self.position, &recent)?;
        let is_idle = works.is_empty();
        let outcomes = works
            .into_iter()
            .map(|work| match work {
                Work::Change(change) => batch.apply(change).map(Ok),
                Work::Compact(oldest) => compact(&mut batch, oldest),
            })
            .collect::<Result<_, _>>()?;
        if let Some(leap) = batch.leap {
            self.history.leap(leap);
        }
        self.history.keep(&mut batch, (self.clock)())?;
        // More goes than comes, so that the log ends up as short as it should be, however busy the store is.
        let slice = if is_idle { TRIM_SLICE } else { 16 + 2 * batch.events.len() as u64 };
        batch.trim(slice)?;
        let is_changed = batch.changed;
        let (position, events) = batch.finish()?;
        drop(recent);
        if is_changed {
            write.commit().map_err(failed)?;
            self.publish(position, events)?;
        } else {
            write.abort().map_err(failed)?;
        }
        Ok(outcomes)
    }

    /// Shows what is committed. Invariant: events are at hand before the snapshot that makes watches look for them.
    fn publish(&mut self, position: Position, events: Vec<Event>) -> Result<(), StoreError> {
        self.position = position;
        let mut recent = self.recent.write().unwrap_or_else(PoisonError::into_inner);
        events.into_iter().for_each(|event| recent.push(event));
        drop(recent);
        let snapshot = Snapshot::of(&self.database, position.revision, position.oldest)?;
        self.published.send_replace(Arc::new(snapshot));
        Ok(())
    }
}

/// The least revision of a change that is made after a store was opened at this time, in milliseconds since 1970. No store that was
/// opened earlier has made a change with as great a revision by then: that would take a thousand changes in each millisecond. So if
/// the store is a copy of one that went on, what both made since has different revisions, and a reader of the other is noticed.
fn first_revision_at(time: u64) -> u64 {
    time.saturating_sub(YEAR_2020) << 10
}

/// In milliseconds since 1970.
const YEAR_2020: u64 = 1_577_836_800_000;

/// The outer error is the store's, the inner one that of who asked.
fn compact(batch: &mut Batch<'_>, oldest: Revision) -> Result<Result<Outcome, StoreError>, StoreError> {
    let position = batch.position;
    if oldest.0 > position.revision {
        return Ok(Err(StoreError::Future { asked: oldest, current: Revision(position.revision) }));
    }
    if oldest.0 > position.oldest {
        batch.compact(oldest.0)?;
    }
    Ok(Ok(Outcome::Done(oldest)))
}

fn position_of(snapshot: &Snapshot) -> Result<Position, StoreError> {
    let total_at = |revision: u64| match revision {
        0 => Ok(0),
        revision => Ok::<_, StoreError>(Logged::decode(snapshot.logged(revision)?.value())?.total),
    };
    Ok(Position {
        revision: snapshot.revision,
        floor: 0,
        oldest: snapshot.oldest,
        first: snapshot.log.first().map_err(failed)?.map_or(1, |(first, _)| first.value()),
        total: total_at(snapshot.revision)?,
        oldest_total: total_at(snapshot.oldest)?,
    })
}
