//! Pauses between attempts: short at first, longer as long as they fail, bounded.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

/// A pause that doubles with every failure, up to a limit.
#[derive(Clone, Debug)]
pub struct Pause {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Pause {
    /// Pauses from `first` to `longest`.
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Pause { first, longest, next: first }
    }

    /// The next failure is a first one again.
    pub fn reset(&mut self) {
        self.next = self.first;
    }

    /// How long to pause after another failure.
    pub fn lengthen(&mut self) -> Duration {
        let length = self.next;
        self.next = (length * 2).min(self.longest);
        length
    }

    /// Pauses after another failure.
    pub async fn wait(&mut self) {
        sleep(self.lengthen()).await;
    }
}

/// About the first pause of a follower.
const FIRST: Duration = Duration::from_millis(100);
/// The longest one: how late a follower that nobody wakes may notice that the API server is back.
const LONGEST: Duration = Duration::from_secs(3);
/// How soon a follower can be woken again.
const WAKE_AGAIN: Duration = Duration::from_secs(15);
/// Whoever is woken early waits up to this long, so that not everyone comes at the same instant.
const SPREAD_MILLIS: u64 = 30;

/// Tells all followers of one API server that a request got through after failures.
#[derive(Clone, Debug)]
pub(crate) struct Recovery(watch::Sender<u64>);

impl Recovery {
    pub(crate) fn new() -> Self {
        Recovery(watch::Sender::new(0))
    }

    pub(crate) fn announce(&self) {
        self.0.send_modify(|count| *count += 1);
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }
}

/// The pauses of one follower: jittered, and over as soon as another follower gets through.
#[derive(Debug)]
pub(crate) struct FollowerPauses {
    recovery: Recovery,
    pause: Pause,
    /// Waking starts the pauses anew, so it happens only once in a while: otherwise two followers that fail in turns would
    /// keep each other from ever slowing down.
    wake_after: Option<Instant>,
}

impl FollowerPauses {
    pub(crate) fn new(recovery: Recovery) -> Self {
        FollowerPauses { recovery, pause: Pause::new(FIRST, LONGEST), wake_after: None }
    }

    /// The next failure is a first one again.
    pub(crate) fn reset(&mut self) {
        self.pause.reset();
    }

    /// Waits until it is time for another attempt, and at least `floor`.
    pub(crate) async fn wait(&mut self, floor: Option<Duration>) {
        let mut recovered = self.recovery.subscribe();
        let now = Instant::now();
        let length = self.pause.lengthen().mul_f64(0.5 + fastrand::f64() / 2.0);
        let floor = floor.unwrap_or_default().min(LONGEST);
        let woken = async {
            sleep_until(self.wake_after.unwrap_or(now).max(now + floor)).await;
            if recovered.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = sleep(length.max(floor)) => {}
            () = woken => {
                self.wake_after = Some(Instant::now() + WAKE_AGAIN);
                self.reset();
                sleep(Duration::from_millis(fastrand::u64(0..=SPREAD_MILLIS))).await;
            }
        }
    }
}
