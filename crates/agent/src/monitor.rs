//! Subscriptions to what the kernel reports. One that cannot be opened, as while there is no descriptor left, is opened later.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use portolan_watch::Retries;
use tokio::io::unix::AsyncFd;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::links::with_causes;
use crate::metrics::Metrics;

/// Pauses before one is opened again.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How often one is read on a thread until what it has is passed on.
const READS: usize = 64;

/// A subscription, or what is needed to open it.
pub(crate) struct Monitor<M: AsRawFd> {
    what: &'static str,
    open: fn() -> portolan_host::Result<M>,
    opened: Option<AsyncFd<M>>,
    later: Retries<()>,
    said: Option<String>,
    metrics: Metrics,
}

/// What a subscription has.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum News<C> {
    /// It was opened only now: whatever may have changed before is not reported.
    Opened,
    /// These changes.
    Changes(Vec<C>),
}

impl<M: AsRawFd> Monitor<M> {
    /// Opens a subscription if that succeeds. `what` is it that is reported, as metrics name it.
    pub(crate) fn new(what: &'static str, open: fn() -> portolan_host::Result<M>, metrics: &Metrics) -> Self {
        let (later, metrics) = (Retries::new(FIRST_PAUSE, LONGEST_PAUSE), metrics.clone());
        let mut monitor = Self { what, open, opened: None, later, said: None, metrics };
        monitor.try_to_open();
        monitor
    }

    fn try_to_open(&mut self) {
        let opened = (self.open)().map_err(|error| with_causes(&error));
        match opened.and_then(|monitor| watched(monitor).map_err(|error| error.to_string())) {
            Ok(monitor) => self.opened = Some(monitor),
            Err(error) => {
                // A kernel may lack it for ever.
                if self.said.as_ref() != Some(&error) {
                    tracing::warn!(error, "cannot watch {}; trying again", self.what);
                    self.said = Some(error);
                }
                self.later.failed((), Instant::now());
            }
        }
        self.metrics.watches(self.what, self.opened.is_some());
    }

    /// Opens it, as often as it takes.
    async fn opened_later(&mut self) {
        while self.opened.is_none() {
            self.later.wait().await;
            self.later.take_due(Instant::now());
            self.try_to_open();
        }
        tracing::info!("watching {}", self.what);
        self.said = None;
    }

    /// Whether it is open.
    pub(crate) fn is_open(&self) -> bool {
        self.opened.is_some()
    }

    /// Waits for what it has. Cancel-safe.
    pub(crate) async fn next<C>(&mut self, read: impl Fn(&M) -> io::Result<Vec<C>>) -> io::Result<News<C>> {
        if !self.is_open() {
            self.opened_later().await;
            return Ok(News::Opened);
        }
        next(self.opened.as_ref(), read).await.map(News::Changes)
    }

    /// Waits until it has something. False if it was opened only now.
    async fn is_ready(&mut self) -> io::Result<bool> {
        let Some(monitor) = &self.opened else {
            self.opened_later().await;
            return Ok(false);
        };
        // Whoever is told so reads all there is; what comes meanwhile is told again.
        monitor.readable().await?.clear_ready();
        Ok(true)
    }

    /// What it has now.
    pub(crate) fn read_now<C>(&self, read: impl Fn(&M) -> io::Result<Vec<C>>) -> Option<Vec<C>> {
        read(self.opened.as_ref()?.get_ref()).ok()
    }
}

/// A subscription whose reading may take as long as requests to the kernel do, and is done on threads that may block.
pub(crate) struct SlowMonitor<M: AsRawFd, C> {
    monitor: Monitor<Arc<M>>,
    read: fn(&M) -> io::Result<Vec<C>>,
    reading: Option<JoinHandle<io::Result<Read<C>>>>,
}

/// What was read.
struct Read<C> {
    changes: Vec<C>,
    /// There may be more.
    more: bool,
}

impl<M: AsRawFd + Send + Sync + 'static, C: Send + 'static> SlowMonitor<M, C> {
    /// As [`Monitor::new`].
    pub(crate) fn new(
        what: &'static str,
        open: fn() -> portolan_host::Result<Arc<M>>,
        read: fn(&M) -> io::Result<Vec<C>>,
        metrics: &Metrics,
    ) -> Self {
        Self { monitor: Monitor::new(what, open, metrics), read, reading: None }
    }

    /// Waits for what it has. Cancel-safe.
    pub(crate) async fn next(&mut self) -> io::Result<News<C>> {
        loop {
            if let Some(reading) = &mut self.reading {
                let read = reading.await.map_err(io::Error::other);
                self.reading = None;
                let Read { changes, more } = read??;
                if more {
                    self.begin();
                }
                if !changes.is_empty() {
                    return Ok(News::Changes(changes));
                }
            } else if self.monitor.is_ready().await? {
                self.begin();
            } else {
                return Ok(News::Opened);
            }
        }
    }

    fn begin(&mut self) {
        let Some(monitor) = self.monitor.opened.as_ref().map(|monitor| Arc::clone(monitor.get_ref())) else {
            return;
        };
        let read = self.read;
        self.reading = Some(tokio::task::spawn_blocking(move || {
            let mut changes = Vec::new();
            for _ in 0..READS {
                match read(&monitor) {
                    Ok(some) => changes.extend(some),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        return Ok(Read { changes, more: false });
                    }
                    Err(error) => return Err(error),
                }
            }
            Ok(Read { changes, more: true })
        }));
    }
}

pub(crate) fn watched<T: AsRawFd>(monitor: T) -> io::Result<AsyncFd<T>> {
    #[expect(
        deprecated,
        reason = "its successor is unsafe; the monitor keeps its descriptor open as long as it lives"
    )]
    AsyncFd::new(monitor)
}

/// The next changes that a monitor has; never any without one.
pub(crate) async fn next<T: AsRawFd, C>(
    monitor: Option<&AsyncFd<T>>,
    read: impl Fn(&T) -> io::Result<Vec<C>>,
) -> io::Result<Vec<C>> {
    let Some(monitor) = monitor else { return std::future::pending().await };
    loop {
        let mut ready = monitor.readable().await?;
        match ready.try_io(|monitor| read(monitor.get_ref())) {
            // What was read concerns nobody here, and there may be much more of it: others have their turn in between.
            Ok(Ok(changes)) if changes.is_empty() => {
                drop(ready);
                tokio::task::yield_now().await;
            }
            Ok(changes) => return changes,
            Err(_would_block) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::sync::{LazyLock, Mutex, mpsc};

    use portolan_host::Error;

    use super::*;

    static ATTEMPTS: AtomicUsize = AtomicUsize::new(0);
    static KERNEL: Mutex<Option<UnixStream>> = Mutex::new(None);

    /// Fails a few times, as while the process has no descriptor left.
    fn open() -> portolan_host::Result<UnixStream> {
        if ATTEMPTS.fetch_add(1, Ordering::Relaxed) < 3 {
            return Err(Error::NoLink("none".into()));
        }
        let (kernel, monitor) = UnixStream::pair().unwrap();
        monitor.set_nonblocking(true).unwrap();
        *KERNEL.lock().unwrap() = Some(kernel);
        Ok(monitor)
    }

    fn read(mut monitor: &UnixStream) -> io::Result<Vec<u8>> {
        let mut byte = [0];
        monitor.read_exact(&mut byte).map(|()| byte.to_vec())
    }

    #[tokio::test(start_paused = true)]
    async fn what_cannot_be_watched_at_first_is_watched_later_and_metrics_say_so_meanwhile() {
        let metrics = Metrics::new();
        let is_watched = |expected: u8| {
            let line = format!("portolan_agent_watching{{what=\"guards\"}} {expected}");
            let text = metrics.encode(|_| {});
            assert!(text.lines().any(|one| one == line), "{line} is not in:\n{text}");
        };
        let mut monitor = Monitor::new("guards", open, &metrics);
        is_watched(0);
        assert_eq!(monitor.read_now(read), None);
        let began = Instant::now();
        assert_eq!(monitor.next(read).await.unwrap(), News::Opened);
        assert_eq!(ATTEMPTS.load(Ordering::Relaxed), 4);
        assert_eq!(began.elapsed(), FIRST_PAUSE * 7, "with pauses");
        is_watched(1);
        KERNEL.lock().unwrap().as_mut().unwrap().write_all(b"x").unwrap();
        assert_eq!(monitor.next(read).await.unwrap(), News::Changes(b"x".to_vec()));
        assert_eq!(monitor.read_now(read), None);
    }

    /// Of the kernel, which answers what is asked about each notification once `ANSWERS` has something.
    fn read_slowly(monitor: &UnixStream) -> io::Result<Vec<u8>> {
        let read = read(monitor)?;
        BEGUN.store(true, Ordering::Relaxed);
        let answered = ANSWERS.lock().unwrap().1.recv_timeout(Duration::from_secs(5));
        answered.map(|()| read).map_err(io::Error::other)
    }

    static ANSWERS: LazyLock<Mutex<(mpsc::Sender<()>, mpsc::Receiver<()>)>> =
        LazyLock::new(|| Mutex::new(mpsc::channel()));
    static BEGUN: AtomicBool = AtomicBool::new(false);
    static SLOW: Mutex<Option<UnixStream>> = Mutex::new(None);

    fn open_slow() -> portolan_host::Result<Arc<UnixStream>> {
        let (kernel, monitor) = UnixStream::pair().unwrap();
        monitor.set_nonblocking(true).unwrap();
        *SLOW.lock().unwrap() = Some(kernel);
        Ok(Arc::new(monitor))
    }

    #[tokio::test]
    async fn a_request_to_the_kernel_that_hangs_holds_up_nobody_else_and_nothing_is_missed() {
        let answers = ANSWERS.lock().unwrap().0.clone();
        let mut monitor = SlowMonitor::new("guards", open_slow, read_slowly, &Metrics::new());
        let kernel = SLOW.lock().unwrap().take().unwrap();
        (&kernel).write_all(b"ab").unwrap();
        // Others go on while it hangs: on this one thread it is they that end that.
        let until_begun = async {
            while !BEGUN.load(Ordering::Relaxed) {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            biased;
            news = monitor.next() => panic!("{news:?}"),
            () = until_begun => {}
        }
        answers.send(()).unwrap();
        answers.send(()).unwrap();
        assert_eq!(
            monitor.next().await.unwrap(),
            News::Changes(b"ab".to_vec()),
            "also if it is given up meanwhile"
        );
        (&kernel).write_all(b"c").unwrap();
        answers.send(()).unwrap();
        assert_eq!(monitor.next().await.unwrap(), News::Changes(b"c".to_vec()));
    }
}
