//! A watch as a stream of bytes.

use std::sync::Arc;
use std::time::Duration;

use apimachinery::Status;
use apistore::{Revision, StoreError};
use bytes::{Bytes, BytesMut};
use futures::stream::{BoxStream, StreamExt as _};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::Shared;
use super::initial_events::InitialEvents;
use crate::content::Renderer;
use crate::metrics::Counted;
use crate::verbs::{self, Watching};
use crate::watch::{Delivery, EncodingKey, Subscription};

/// When a watch ends, and whether it has bookmarks.
#[derive(Clone, Copy, Debug)]
pub(super) struct WatchTimes {
    pub(super) deadline: Instant,
    pub(super) bookmarks: bool,
}

// How often a watch gets a bookmark, and how long before its end it gets another.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);
const LAST_BOOKMARK: Duration = Duration::from_secs(2);

// Events that are at hand are sent together, up to this size.
const CHUNK: usize = 64 << 10;

struct Stream {
    phase: Phase,
    marks_initial_end: bool,
    renderer: Renderer,
    first_key: EncodingKey,
    key: EncodingKey,
    has_sent: bool,
    times: WatchTimes,
    next_bookmark: Instant,
    _counted: (Counted, OwnedSemaphorePermit),
}

enum Phase {
    Initial(InitialEvents),
    Following(Subscription),
    Ended,
}

/// The bytes of a watch, which counts as under way until they are dropped.
pub(super) fn stream(
    shared: Arc<Shared>,
    watching: Watching,
    renderer: Renderer,
    times: WatchTimes,
    counted: (Counted, OwnedSemaphorePermit),
) -> BoxStream<'static, Bytes> {
    let phase = match watching.phase {
        verbs::Phase::Initial(objects) => Phase::Initial(InitialEvents::new(shared, objects)),
        verbs::Phase::Following(subscription) => Phase::Following(subscription),
    };
    let stream = Stream {
        phase,
        marks_initial_end: watching.marks_initial_end,
        first_key: renderer.encoding_key(true),
        key: renderer.encoding_key(false),
        has_sent: false,
        next_bookmark: Instant::now() + BOOKMARK_INTERVAL,
        renderer,
        times,
        _counted: counted,
    };
    futures::stream::unfold(stream, |mut stream| async { stream.next().await.map(|bytes| (bytes, stream)) })
        .boxed()
}

/// A watch that ends as it begins, with an event that says why.
pub(super) fn refused(renderer: &Renderer, status: &Status) -> BoxStream<'static, Bytes> {
    futures::stream::iter([renderer.error_event(status)]).boxed()
}

impl Stream {
    async fn next(&mut self) -> Option<Bytes> {
        let deadline = self.times.deadline;
        tokio::select! {
            biased;
            () = tokio::time::sleep_until(deadline) => None,
            next = self.next_in_time() => match next {
                Ok(chunk) => chunk,
                Err(status) => {
                    self.phase = Phase::Ended;
                    Some(self.renderer.error_event(&status))
                }
            },
        }
    }

    async fn next_in_time(&mut self) -> Result<Option<Bytes>, Status> {
        loop {
            match &mut self.phase {
                Phase::Ended => return Ok(None),
                Phase::Following(_) => return self.next_followed().await,
                Phase::Initial(initial) => {
                    if let Some(events) = initial.next(&self.renderer, &mut self.has_sent).await? {
                        return Ok(Some(events));
                    }
                    let (revision, subscription) = (initial.revision(), initial.follow().await?);
                    self.phase = Phase::Following(subscription);
                    if self.marks_initial_end {
                        return Ok(Some(self.bookmark(revision, true)));
                    }
                }
            }
        }
    }

    async fn next_followed(&mut self) -> Result<Option<Bytes>, Status> {
        loop {
            let bookmark = self.bookmark_time();
            let Phase::Following(subscription) = &mut self.phase else { return Ok(None) };
            tokio::select! {
                biased;
                delivery = subscription.next() => return match delivery {
                    Ok(Some(delivery)) => Ok(Some(self.chunk(&delivery))),
                    Ok(None) => Ok(None),
                    Err(StoreError::Compacted { asked, oldest }) => {
                        Err(Status::expired(format!("too old resource version: {} ({})", asked.0, oldest.0)))
                    }
                    Err(error) => Err(Status::internal_error(error)),
                },
                () = tokio::time::sleep_until(bookmark), if self.times.bookmarks => {
                    self.next_bookmark = Instant::now() + BOOKMARK_INTERVAL;
                    if let Some(revision) = subscription.progress() {
                        return Ok(Some(self.bookmark(revision, false)));
                    }
                }
            }
        }
    }

    fn bookmark_time(&self) -> Instant {
        match self.times.deadline.checked_sub(LAST_BOOKMARK) {
            Some(last) if last > Instant::now() => last.min(self.next_bookmark),
            _ => self.next_bookmark,
        }
    }

    fn bookmark(&mut self, revision: Revision, initial_end: bool) -> Bytes {
        let first = !std::mem::replace(&mut self.has_sent, true);
        self.renderer.bookmark(revision, initial_end, first)
    }

    /// An event, and those that are at hand after it.
    fn chunk(&mut self, delivery: &Delivery) -> Bytes {
        let first = self.event(delivery);
        let Some(second) = self.at_hand() else { return first };
        let mut chunk = BytesMut::from(&first[..]);
        let second = self.event(&second);
        chunk.extend_from_slice(&second);
        while chunk.len() < CHUNK
            && let Some(delivery) = self.at_hand()
        {
            let event = self.event(&delivery);
            chunk.extend_from_slice(&event);
        }
        chunk.freeze()
    }

    fn at_hand(&mut self) -> Option<Delivery> {
        let Phase::Following(subscription) = &mut self.phase else { return None };
        subscription.try_next()
    }

    fn event(&mut self, delivery: &Delivery) -> Bytes {
        let first = !std::mem::replace(&mut self.has_sent, true);
        let key = if first { &self.first_key } else { &self.key };
        self.renderer.event(key, delivery.kind, &delivery.event, first)
    }
}
