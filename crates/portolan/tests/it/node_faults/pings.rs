//! Numbered messages from every pod to another and back, all the time, whatever becomes of them.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use portolan_testbed::Pod;
use tokio::net::UdpSocket;
use tokio::time::MissedTickBehavior;

/// One message of each pod, of ten pods. More pods send less often: all of them together always the same.
const PACE: Duration = Duration::from_millis(10);
const AT_THAT_PACE: usize = 10;

/// How long answers that must come are waited for.
const PATIENCE: Duration = Duration::from_secs(60);

const QUESTION: u8 = b'?';
const ANSWER: u8 = b'!';

/// Every pod asks the next one, in a ring. One thread does it for all of them.
pub(crate) struct Pings {
    state: Arc<(Mutex<State>, Condvar)>,
    pace: Duration,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    /// The number of the last message. All pods send it.
    sent: u64,
    pods: Vec<Answers>,
}

/// What came back to one pod.
struct Answers {
    who: String,
    answered: BTreeSet<u64>,
    last: Option<Instant>,
    longest_gap: Duration,
}

impl Pings {
    /// Begins, and waits for the first answers.
    pub(crate) fn among(pods: &[Pod]) -> Self {
        let sockets = pods.iter().map(|pod| {
            let address = pod.address();
            let socket = pod.netns().run(move || std::net::UdpSocket::bind((address, 0))).unwrap();
            socket.set_nonblocking(true).unwrap();
            socket
        });
        let sockets: Vec<_> = sockets.collect();
        let next = pods.iter().cycle().skip(1);
        let answers = pods.iter().zip(next).map(|(pod, next)| Answers {
            who: format!("{} and {}", pod.name(), next.name()),
            answered: BTreeSet::new(),
            last: None,
            longest_gap: Duration::ZERO,
        });
        let state = State { sent: 0, pods: answers.collect() };
        let state = Arc::new((Mutex::new(state), Condvar::new()));
        let pace = PACE * u32::try_from(pods.len().div_ceil(AT_THAT_PACE)).unwrap();
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let shared = Arc::clone(&state);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let sockets = sockets.into_iter().map(|socket| UdpSocket::from_std(socket).unwrap());
                let sockets: Arc<[UdpSocket]> = sockets.collect();
                for number in 0..sockets.len() {
                    tokio::spawn(listen(Arc::clone(&sockets), number, Arc::clone(&shared)));
                }
                tokio::select! {
                    () = ask(&sockets, pace, &shared) => {}
                    _ = stopped => {}
                }
            });
        });
        let pings = Self { state, pace, stop: Some(stop), thread: Some(thread) };
        pings.answered();
        pings
    }

    /// How many messages of each pod a time is worth.
    pub(crate) fn worth(&self, time: Duration) -> u64 {
        u64::try_from(time.as_nanos() / self.pace.as_nanos()).unwrap()
    }

    /// Waits for answers to messages that every pod sends after now, and returns how long the longest time without any was for one of
    /// them since the last look.
    #[track_caller]
    pub(crate) fn answered(&self) -> Duration {
        let begin = self.next();
        let mut state = self.wait(|pod| pod.answered.range(begin..).count() >= 3);
        let gaps = state.pods.iter_mut().map(|pod| std::mem::take(&mut pod.longest_gap));
        gaps.max().unwrap_or_default()
    }

    /// The number of the next message.
    pub(crate) fn next(&self) -> u64 {
        self.lock().sent + 1
    }

    /// Waits until all pods have sent messages and later ones were answered; returns how many of them were not.
    #[track_caller]
    pub(crate) fn lost(&self, numbers: &Range<u64>) -> u64 {
        let state = self.wait(|pod| pod.answered.range(numbers.end..).count() >= 3);
        let lost = state.pods.iter().map(|pod| {
            let answered = pod.answered.range(numbers.clone()).count();
            numbers.end - numbers.start - u64::try_from(answered).unwrap()
        });
        lost.sum()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something is true of every pod.
    #[track_caller]
    fn wait(&self, until: impl Fn(&Answers) -> bool) -> std::sync::MutexGuard<'_, State> {
        let waits = |state: &mut State| !state.pods.iter().all(&until);
        let waited = self.state.1.wait_timeout_while(self.lock(), PATIENCE, waits);
        let (state, late) = waited.unwrap_or_else(PoisonError::into_inner);
        let silent: Vec<_> = state.pods.iter().filter(|pod| !until(pod)).map(|pod| &pod.who).collect();
        assert!(!late.timed_out(), "nothing comes through any more between {silent:?}");
        state
    }
}

impl Drop for Pings {
    fn drop(&mut self) {
        drop(self.stop.take());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Lets every pod ask the next one, for ever.
async fn ask(sockets: &[UdpSocket], pace: Duration, shared: &(Mutex<State>, Condvar)) {
    let addresses: Vec<SocketAddr> = sockets.iter().map(|socket| socket.local_addr().unwrap()).collect();
    let mut due = tokio::time::interval(pace);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        due.tick().await;
        let number = {
            let mut state = shared.0.lock().unwrap_or_else(PoisonError::into_inner);
            state.sent += 1;
            state.sent
        };
        for (socket, to) in sockets.iter().zip(addresses.iter().cycle().skip(1)) {
            // While there is no way there, it is lost.
            let _ = socket.try_send_to(&message(QUESTION, number), *to);
        }
    }
}

fn message(kind: u8, number: u64) -> [u8; 9] {
    let mut message = [kind; 9];
    message[1..].copy_from_slice(&number.to_be_bytes());
    message
}

/// Answers questions to a pod, and counts the answers that it gets.
async fn listen(sockets: Arc<[UdpSocket]>, pod: usize, shared: Arc<(Mutex<State>, Condvar)>) {
    let (socket, mut message) = (&sockets[pod], [0; 9]);
    loop {
        // Such as that the other one could not be reached.
        let Ok((9, from)) = socket.recv_from(&mut message).await else { continue };
        let (kind, number) = (message[0], u64::from_be_bytes(message[1..].try_into().unwrap()));
        if kind == QUESTION {
            let _ = socket.try_send_to(&self::message(ANSWER, number), from);
            continue;
        }
        let mut state = shared.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (now, answers) = (Instant::now(), &mut state.pods[pod]);
        let gap = answers.last.replace(now).map_or(Duration::ZERO, |last| now - last);
        answers.longest_gap = answers.longest_gap.max(gap);
        answers.answered.insert(number);
        shared.1.notify_all();
    }
}
