//! Numbered messages from one pod to another and back, all the time, whatever becomes of them.

use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use portolan_testbed::Pod;

/// One message each.
const PACE: Duration = Duration::from_millis(10);

/// How long answers that must come are waited for.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Pings {
    who: String,
    state: Arc<(Mutex<State>, Condvar)>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    sent: u64,
    answered: BTreeSet<u64>,
    last: Option<Instant>,
    longest_gap: Duration,
}

impl Pings {
    /// Begins, and waits for the first answers.
    pub(crate) fn between(a: &Pod, b: &Pod) -> Self {
        let to = b.address();
        let echo = b.netns().run(move || UdpSocket::bind((to, 0))).unwrap();
        let to = echo.local_addr().unwrap();
        let from = a.netns().run(move || UdpSocket::bind("0.0.0.0:0")).unwrap();
        for socket in [&echo, &from] {
            socket.set_read_timeout(Some(PACE)).unwrap();
        }
        let (state, stop) = (Arc::new((Mutex::default(), Condvar::new())), Arc::new(AtomicBool::new(false)));
        let stopped = Arc::clone(&stop);
        let echo = std::thread::spawn(move || {
            let mut message = [0; 8];
            while !stopped.load(Ordering::Relaxed) {
                if let Ok((8, from)) = echo.recv_from(&mut message) {
                    let _ = echo.send_to(&message, from);
                }
            }
        });
        let (stopped, shared) = (Arc::clone(&stop), Arc::clone(&state));
        let ping = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                round(&from, &to, &shared);
            }
        });
        let pings =
            Self { who: format!("{} and {}", a.name(), b.name()), state, stop, threads: vec![echo, ping] };
        pings.answered();
        pings
    }

    /// Waits for answers to messages that are sent after now, and returns how long the longest time without any was since the last look.
    #[track_caller]
    pub(crate) fn answered(&self) -> Duration {
        let begin = self.next();
        let mut state = self.wait(|state| state.answered.range(begin..).count() >= 3);
        std::mem::take(&mut state.longest_gap)
    }

    /// The number of the next message.
    pub(crate) fn next(&self) -> u64 {
        self.state.0.lock().unwrap().sent + 1
    }

    /// Waits until messages have been sent and later ones were answered; returns how many of them were not.
    #[track_caller]
    pub(crate) fn lost(&self, numbers: &Range<u64>) -> u64 {
        let state = self.wait(|state| state.answered.range(numbers.end..).count() >= 3);
        let answered = state.answered.range(numbers.clone()).count();
        numbers.end - numbers.start - u64::try_from(answered).unwrap()
    }

    #[track_caller]
    fn wait(&self, until: impl Fn(&State) -> bool) -> std::sync::MutexGuard<'_, State> {
        let (state, changed) = &*self.state;
        let waits = |state: &mut State| !until(state);
        let (state, late) = changed.wait_timeout_while(state.lock().unwrap(), PATIENCE, waits).unwrap();
        assert!(!late.timed_out(), "nothing comes through between {} any more", self.who);
        state
    }
}

impl Drop for Pings {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Sends one message, and takes the answers that come until the next is due.
fn round(from: &UdpSocket, to: &std::net::SocketAddr, shared: &(Mutex<State>, Condvar)) {
    let (state, changed) = shared;
    let number = {
        let mut state = state.lock().unwrap();
        state.sent += 1;
        state.sent
    };
    // While there is no way there, it is lost.
    let _ = from.send_to(&number.to_be_bytes(), to);
    let due = Instant::now() + PACE;
    let mut message = [0; 8];
    while Instant::now() < due {
        let Ok(8) = from.recv(&mut message) else { continue };
        let mut state = state.lock().unwrap();
        let now = Instant::now();
        let gap = state.last.replace(now).map_or(Duration::ZERO, |last| now - last);
        state.longest_gap = state.longest_gap.max(gap);
        state.answered.insert(u64::from_be_bytes(message));
        changed.notify_all();
    }
}
