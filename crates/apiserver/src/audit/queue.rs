//! From the requests to the one thread that writes the log.
//!
//! A request takes a place in the queue when it begins, so that its line fits in whenever it ends, and gives it back with its
//! line. There are more places than requests can be under way ([`PLACES_BESIDES`]), so a request waits for one only when the log
//! is written more slowly than requests arrive. A thread that writes nothing for [`STALLED`] is taken for stuck, on a disk that
//! hangs: from then on, until it writes again, requests wait neither for a place nor for their line to be written. Those that find
//! no place leave no line, and are counted.

use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use http::{Request, StatusCode};
use prometheus_client::metrics::counter::Counter;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::{AuditEvent, AuditLog};

/// For how long requests wait for a log that is not written.
const STALLED: Duration = Duration::from_secs(5);
/// Places for requests that count towards no limit: those that are refused, and those that are not about resources.
const PLACES_BESIDES: usize = 1024;
/// Lines that wait are written together, up to about this size.
const BATCH_BYTES: usize = 256 << 10;

/// How many lines were written, and how many could not be.
#[derive(Clone, Debug, Default)]
pub(crate) struct AuditMetrics {
    pub(crate) events: Counter,
    pub(crate) errors: Counter,
}

/// The way to the thread that writes the log. The thread ends when the last of these is dropped.
#[derive(Clone, Debug)]
pub(crate) struct AuditQueue {
    lines: mpsc::Sender<Line>,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    metrics: AuditMetrics,
    /// Requests without a line that no line has told of yet.
    lost: AtomicU64,
    stalled: AtomicBool,
    shutting_down: AtomicBool,
}

/// A line, or nothing, and who waits until it is written.
#[derive(Debug, Default)]
struct Line {
    text: Vec<u8>,
    written: Option<oneshot::Sender<()>>,
}

impl AuditQueue {
    /// Starts the thread, for at most so many requests under way that count. The other is done when the thread has ended.
    pub(crate) fn start(
        mut log: AuditLog,
        requests: usize,
    ) -> io::Result<(AuditQueue, impl Future<Output = ()> + Send + 'static)> {
        Self::start_with(requests.saturating_add(PLACES_BESIDES), move |lines| log.write(lines))
    }

    fn start_with(
        places: usize,
        write: impl FnMut(&[u8]) -> io::Result<()> + Send + 'static,
    ) -> io::Result<(AuditQueue, impl Future<Output = ()> + Send + 'static)> {
        let (sender, receiver) = mpsc::channel(places.min(tokio::sync::Semaphore::MAX_PERMITS));
        let state = Arc::new(State::default());
        let writer = Writer { lines: receiver, state: state.clone(), write, failing: false };
        let (running, ended) = oneshot::channel::<Infallible>();
        std::thread::Builder::new().name("audit log".into()).spawn(move || {
            // Dropped also when the thread panics.
            let _running = running;
            writer.run();
        })?;
        Ok((AuditQueue { lines: sender, state }, ended.map(drop)))
    }

    pub(crate) fn metrics(&self) -> &AuditMetrics {
        &self.state.metrics
    }

    /// A request that arrives now.
    pub(crate) async fn begin<B>(&self, request: &Request<B>, source: Option<IpAddr>) -> Recording {
        let event = AuditEvent::begin(request, source);
        let mut recording = Recording { event: Some(event), place: None, queue: self.clone() };
        recording.place = self.place().await;
        recording
    }

    async fn place(&self) -> Option<mpsc::OwnedPermit<Line>> {
        if let Ok(place) = self.lines.clone().try_reserve_owned() {
            return Some(place);
        }
        if self.state.stalled.load(Ordering::Acquire) {
            return None;
        }
        match timeout(STALLED, self.lines.clone().reserve_owned()).await {
            Ok(place) => place.ok(),
            Err(_) => {
                self.state.stall();
                None
            }
        }
    }

    /// From now on, requests that are not answered are so because of the server.
    pub(crate) fn shut_down(&self) {
        self.state.shutting_down.store(true, Ordering::Release);
    }

    /// Waits until the lines of all requests are written; not for longer than for a log that is stuck.
    pub(crate) async fn flush(&self) {
        let flushed = async {
            // Every place is given back: no request is under way, and the thread has taken all lines.
            let places = self.lines.reserve_many(self.lines.max_capacity()).await;
            drop(places);
            let (written, is_written) = oneshot::channel();
            let line = Line { text: Vec::new(), written: Some(written) };
            if self.lines.send(line).await.is_ok() {
                let _ = is_written.await;
            }
        };
        if timeout(STALLED, flushed).await.is_err() {
            tracing::error!("the audit log could not be written to its end");
        }
    }
}

impl State {
    fn stall(&self) {
        if !self.stalled.swap(true, Ordering::AcqRel) {
            let seconds = STALLED.as_secs();
            tracing::error!(
                seconds,
                "the audit log is not written: requests are answered without waiting for it"
            );
        }
    }

    fn lose(&self, events: u64) {
        self.lost.fetch_add(events, Ordering::AcqRel);
        self.metrics.errors.inc_by(events);
    }
}

/// A request under way. It leaves its line when it is answered, or else when this is dropped.
#[derive(Debug)]
pub(crate) struct Recording {
    event: Option<AuditEvent>,
    place: Option<mpsc::OwnedPermit<Line>>,
    queue: AuditQueue,
}

impl Recording {
    /// What is known of the request. Nothing once it is answered.
    pub(crate) fn event(&mut self) -> Option<&mut AuditEvent> {
        self.event.as_mut()
    }

    /// Writes the line of a request that is about to be answered with this code, and returns when it is in the file.
    pub(crate) async fn answered(mut self, code: StatusCode) {
        if let Some(mut event) = self.event.take() {
            event.answered(code);
            self.write(event).await;
        }
    }

    /// Writes the line of a request whose handler panicked.
    pub(crate) async fn panicked(mut self, code: StatusCode) {
        if let Some(mut event) = self.event.take() {
            event.panicked(code);
            self.write(event).await;
        }
    }

    async fn write(&mut self, event: AuditEvent) {
        let (written, is_written) = oneshot::channel();
        self.send(Line { text: event.into_line(), written: Some(written) });
        let state = &self.queue.state;
        if !state.stalled.load(Ordering::Acquire) && timeout(STALLED, is_written).await.is_err() {
            state.stall();
        }
    }

    fn send(&mut self, line: Line) {
        match self.place.take() {
            Some(place) => drop(place.send(line)),
            None => {
                if self.queue.lines.try_send(line).is_err() {
                    self.queue.state.lose(1);
                }
            }
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let Some(mut event) = self.event.take() else { return };
        event.unanswered(if self.queue.state.shutting_down.load(Ordering::Acquire) {
            "the server was shut down"
        } else {
            "the client went away"
        });
        self.send(Line { text: event.into_line(), written: None });
    }
}

struct Writer<W> {
    lines: mpsc::Receiver<Line>,
    state: Arc<State>,
    write: W,
    failing: bool,
}

impl<W: FnMut(&[u8]) -> io::Result<()>> Writer<W> {
    fn run(mut self) {
        while let Some(first) = self.lines.blocking_recv() {
            let (mut text, mut events, mut waiting) = (Vec::new(), 0, Vec::new());
            let mut next = Some(first);
            while let Some(line) = next {
                events += u64::from(!line.text.is_empty());
                text.extend_from_slice(&line.text);
                waiting.extend(line.written);
                next = if text.len() < BATCH_BYTES { self.lines.try_recv().ok() } else { None };
            }
            self.write(text, events);
            self.state.stalled.store(false, Ordering::Release);
            for written in waiting {
                // Unless the client went away.
                let _ = written.send(());
            }
        }
    }

    /// Writes lines, after one that tells of those that could not be written before.
    fn write(&mut self, lines: Vec<u8>, events: u64) {
        let lost = self.state.lost.swap(0, Ordering::AcqRel);
        let text = match lost {
            0 => lines,
            lost => [AuditEvent::lost(lost).into_line(), lines].concat(),
        };
        if text.is_empty() {
            return;
        }
        match (self.write)(&text) {
            Ok(()) => {
                self.state.metrics.events.inc_by(events);
                if std::mem::take(&mut self.failing) {
                    tracing::info!(lost, "the audit log is written again");
                }
            }
            Err(error) => {
                self.state.lose(events);
                self.state.lost.fetch_add(lost, Ordering::AcqRel);
                if !std::mem::replace(&mut self.failing, true) {
                    tracing::error!(%error, "the audit log cannot be written: requests are answered without a line");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
