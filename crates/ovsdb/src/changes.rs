//! Streams of changes whose memory is bounded by the rows that changed.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use ovsdb_core::change::{Batch, Coalescer};
use tokio::sync::Notify;

/// How many changes wait one by one before later ones are summed up.
const MAX_QUEUED: usize = 4096;

/// The changes of a client's cache, from empty on: what there is comes first, as one batch.
///
/// Each batch is one transaction of the server, or several that it told of together. A consumer that falls behind finds the transactions it missed summed up
/// in one batch, so applying all batches in order always gives the cache; nothing is lost and nothing piles up.
#[derive(Debug)]
pub struct Changes {
    queue: Arc<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    batches: VecDeque<Arc<Batch>>,
    /// How many changes `batches` hold.
    queued: usize,
    /// What did not find a place in `batches`.
    rest: Option<Coalescer>,
    closed: bool,
}

impl Changes {
    /// The next batch; none once the client is gone. Cancel-safe.
    pub async fn next(&mut self) -> Option<Arc<Batch>> {
        loop {
            let changed = self.queue.changed.notified();
            {
                let mut state = self.queue.lock();
                if let Some(batch) = state.pop() {
                    return Some(batch);
                }
                if state.closed {
                    return None;
                }
            }
            changed.await;
        }
    }

    /// The next batch, if one is waiting.
    pub fn try_next(&mut self) -> Option<Arc<Batch>> {
        self.queue.lock().pop()
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves the queue consistent: every step below completes or does nothing.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn push(&mut self, batch: &Arc<Batch>) {
        match &mut self.rest {
            Some(rest) => rest.add(batch),
            None if self.queued < MAX_QUEUED => {
                self.queued += batch.changes.len();
                self.batches.push_back(batch.clone());
            }
            None => self.rest.insert(Coalescer::default()).add(batch),
        }
    }

    fn pop(&mut self) -> Option<Arc<Batch>> {
        if let Some(batch) = self.batches.pop_front() {
            self.queued -= batch.changes.len();
            return Some(batch);
        }
        // The sum of what was missed may be nothing at all.
        self.rest.take().map(|rest| Arc::new(rest.into_batch())).filter(|batch| !batch.changes.is_empty())
    }
}

/// The consumers of one cache.
#[derive(Debug, Default)]
pub(crate) struct Publisher {
    queues: Mutex<Vec<Weak<Queue>>>,
}

impl Publisher {
    /// A new consumer that starts with `snapshot`. The caller keeps the cache from changing meanwhile.
    pub(crate) fn subscribe(&self, snapshot: Batch) -> Changes {
        let queue = Arc::new(Queue::default());
        if !snapshot.changes.is_empty() {
            queue.lock().push(&Arc::new(snapshot));
        }
        let mut queues = self.queues();
        queues.retain(|queue| queue.strong_count() > 0);
        queues.push(Arc::downgrade(&queue));
        drop(queues);
        Changes { queue }
    }

    pub(crate) fn publish(&self, batch: Batch) {
        if batch.changes.is_empty() {
            return;
        }
        let batch = Arc::new(batch);
        self.queues().retain(|queue| {
            let Some(queue) = queue.upgrade() else { return false };
            queue.lock().push(&batch);
            queue.changed.notify_one();
            true
        });
    }

    /// Ends all streams after what is queued.
    pub(crate) fn close(&self) {
        for queue in self.queues().drain(..).filter_map(|queue| queue.upgrade()) {
            queue.lock().closed = true;
            queue.changed.notify_one();
        }
    }

    fn queues(&self) -> MutexGuard<'_, Vec<Weak<Queue>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
