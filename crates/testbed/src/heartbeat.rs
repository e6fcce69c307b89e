//! A connection that is made once and must never end.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::pod::Pod;

/// How long a connection may take, and how long messages that must come are waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often a message goes there and back, and how long one may take: a part that is started again may cost some packets, which
/// TCP repeats.
const PACE: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_secs(5);

/// A TCP connection on which messages go there and back all the time.
#[derive(Debug)]
pub struct Heartbeat {
    who: String,
    state: Arc<State>,
    stop: mpsc::Sender<()>,
    threads: [JoinHandle<io::Result<()>>; 2],
}

#[derive(Debug)]
struct State {
    /// How many messages came back, and how long the slowest took; or why no more do.
    beats: Mutex<Result<(u64, Duration), String>>,
    beaten: Condvar,
}

impl Heartbeat {
    /// Connects two pods, and waits for the first messages.
    ///
    /// # Panics
    /// When they cannot be connected.
    pub fn between(a: &Pod, b: &Pod) -> Self {
        let address = b.address();
        let listener =
            b.netns().run(move || TcpListener::bind((address, 0))).expect("a pod listens at its own address");
        let to = listener.local_addr().expect("a listener has an address");
        let echo = b.netns().spawn_thread("echo", move || {
            let (mut stream, _) = listener.accept()?;
            let mut message = [0; 8];
            while stream.read_exact(&mut message).is_ok() {
                stream.write_all(&message)?;
            }
            Ok(())
        });
        let (stop, stopped) = mpsc::channel();
        let state = Arc::new(State { beats: Mutex::new(Ok((0, Duration::ZERO))), beaten: Condvar::new() });
        let beating = Arc::clone(&state);
        let beat = a.netns().spawn_thread("heartbeat", move || {
            let ended =
                TcpStream::connect_timeout(&to, PATIENCE).and_then(|stream| beat(stream, &stopped, &beating));
            if let Err(error) = &ended {
                *beating.beats.lock().unwrap_or_else(PoisonError::into_inner) = Err(error.to_string());
                beating.beaten.notify_all();
            }
            ended
        });
        let heartbeat = Self {
            who: format!("{} and {}", a.name(), b.name()),
            state,
            stop,
            threads: [echo, beat].map(|thread| thread.expect("a thread can be started")),
        };
        heartbeat.goes_on();
        heartbeat
    }

    /// Waits for messages that begin after now.
    ///
    /// # Panics
    /// When the connection broke, or nothing comes through any more.
    #[track_caller]
    pub fn goes_on(&self) {
        let beats = self.state.beats.lock().unwrap_or_else(PoisonError::into_inner);
        let enough = beats.as_ref().map_or(0, |(beats, _)| beats + 3);
        let waits =
            |beats: &mut Result<(u64, Duration), String>| matches!(beats, Ok((beats, _)) if *beats < enough);
        let (beats, late) = self
            .state
            .beaten
            .wait_timeout_while(beats, PATIENCE, waits)
            .unwrap_or_else(PoisonError::into_inner);
        match &*beats {
            Ok(_) if !late.timed_out() => {}
            Ok(_) => panic!("nothing comes through between {} any more", self.who),
            Err(error) => panic!("the connection between {} broke: {error}", self.who),
        }
    }

    /// Ends it. It must have lived until now.
    ///
    /// # Panics
    /// When the connection broke.
    #[track_caller]
    pub fn end(self) {
        if let Ok((beats, slowest)) = &*self.state.beats.lock().unwrap_or_else(PoisonError::into_inner) {
            println!("{}: {beats} messages, the slowest after {slowest:?}", self.who);
        }
        drop(self.stop);
        for thread in self.threads {
            let ended = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            ended.unwrap_or_else(|error| panic!("the connection between {} broke: {error}", self.who));
        }
    }
}

fn beat(mut stream: TcpStream, stopped: &mpsc::Receiver<()>, state: &State) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(LONGEST))?;
    let mut number: u64 = 0;
    while let Err(mpsc::RecvTimeoutError::Timeout) = stopped.recv_timeout(PACE) {
        number += 1;
        let sent = Instant::now();
        stream.write_all(&number.to_be_bytes())?;
        let mut message = [0; 8];
        stream.read_exact(&mut message)?;
        if message != number.to_be_bytes() {
            return Err(io::Error::other("another message came back than was sent"));
        }
        if let Ok((beats, slowest)) = &mut *state.beats.lock().unwrap_or_else(PoisonError::into_inner) {
            *beats = number;
            *slowest = (*slowest).max(sent.elapsed());
        }
        state.beaten.notify_all();
    }
    Ok(())
}
