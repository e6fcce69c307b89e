//! A watch as a stream of bytes.

use std::collections::VecDeque;
use std::time::Duration;

use apimachinery::Status;
use bytes::{Bytes, BytesMut};
use futures::stream::{BoxStream, StreamExt as _};
use tokio::time::Instant;

use crate::content::Renderer;
use crate::metrics::WatchGauge;
use crate::storage::StoredObject;
use crate::verbs::Watching;
use crate::watch::{Delivery, EncodingKey};

/// How a watch is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct WatchTimes {
    pub(super) deadline: Instant,
    pub(super) bookmarks: bool,
}

// How often a client is told how far it is, and how long before the end once more.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);
const LAST_BOOKMARK: Duration = Duration::from_secs(2);

// Events that are there already are sent together, up to this size.
const CHUNK: usize = 64 << 10;

struct Stream {
    initial: VecDeque<StoredObject>,
    watching: Watching,
    renderer: Renderer,
    first_key: EncodingKey,
    key: EncodingKey,
    first: bool,
    times: WatchTimes,
    next_bookmark: Instant,
    ended: bool,
    _gauge: WatchGauge,
}

/// The bytes of a watch.
pub(super) fn stream(
    mut watching: Watching,
    renderer: Renderer,
    times: WatchTimes,
    gauge: WatchGauge,
) -> BoxStream<'static, Bytes> {
    let initial =
        watching.initial.as_mut().map(|listed| std::mem::take(&mut listed.objects)).unwrap_or_default();
    let stream = Stream {
        initial: initial.into(),
        first_key: renderer.encoding_key(true),
        key: renderer.encoding_key(false),
        first: true,
        next_bookmark: Instant::now() + BOOKMARK_INTERVAL,
        watching,
        renderer,
        times,
        ended: false,
        _gauge: gauge,
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
        if self.ended {
            return None;
        }
        if let Some(chunk) = self.initial_chunk() {
            return Some(chunk);
        }
        loop {
            let bookmark = self.bookmark_time();
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(self.times.deadline) => return None,
                delivery = self.watching.subscription.next() => match delivery {
                    Ok(delivery) => return self.chunk(&delivery?),
                    Err(error) => {
                        self.ended = true;
                        let status = match error {
                            apistore::StoreError::Compacted { asked, oldest } => {
                                Status::expired(format!("too old resource version: {} ({})", asked.0, oldest.0))
                            }
                            error => Status::internal_error(error),
                        };
                        return Some(self.renderer.error_event(&status));
                    }
                },
                () = tokio::time::sleep_until(bookmark), if self.times.bookmarks => {
                    self.next_bookmark = Instant::now() + BOOKMARK_INTERVAL;
                    if let Some(revision) = self.watching.subscription.progress() {
                        let first = std::mem::take(&mut self.first);
                        return Some(self.renderer.bookmark(revision, false, first));
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

    fn initial_chunk(&mut self) -> Option<Bytes> {
        let mut chunk = BytesMut::new();
        while chunk.len() < CHUNK
            && let Some(stored) = self.initial.pop_front()
        {
            let first = std::mem::take(&mut self.first);
            chunk.extend_from_slice(&self.renderer.initial_event(&stored, first));
        }
        if self.initial.is_empty()
            && let Some(listed) = self.watching.initial.take()
            && self.watching.marks_initial_end
        {
            let first = std::mem::take(&mut self.first);
            chunk.extend_from_slice(&self.renderer.bookmark(listed.revision, true, first));
        }
        (!chunk.is_empty()).then(|| chunk.freeze())
    }

    fn chunk(&mut self, delivery: &Delivery) -> Option<Bytes> {
        let first = self.event(delivery);
        let Some(second) = self.watching.subscription.try_next() else { return Some(first) };
        let mut chunk = BytesMut::from(&first[..]);
        let second = self.event(&second);
        chunk.extend_from_slice(&second);
        while chunk.len() < CHUNK
            && let Some(delivery) = self.watching.subscription.try_next()
        {
            let event = self.event(&delivery);
            chunk.extend_from_slice(&event);
        }
        Some(chunk.freeze())
    }

    fn event(&mut self, delivery: &Delivery) -> Bytes {
        let first = std::mem::take(&mut self.first);
        let key = if first { &self.first_key } else { &self.key };
        self.renderer.event(key, delivery.kind, &delivery.event, first)
    }
}
