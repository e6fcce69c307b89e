//! How much gets from one pod to another: counted where it arrives, by the receiver's own kernel.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::pod::Pod;
use crate::testbed::Testbed;
use crate::traffic::{finish, full_datagram, spawn};

/// How long what should come to pass is given.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long is measured to see whether a change of the rules has taken effect, and how long then.
const WINDOW: Duration = Duration::from_millis(500);
const MEAN: Duration = Duration::from_secs(2);
/// How often that is tried: a busy machine may stand still for a moment.
const ATTEMPTS: usize = 2;
/// How much is read from a connection at a time.
const CHUNK: usize = 16 << 10;

impl Testbed {
    /// Datagrams from a pod to another, more than should get through.
    pub fn throughput<'a>(&self, from: &'a Pod, to: &'a Pod) -> Throughput<'a> {
        Throughput { from, to, address: to.address(), stream: Stream::Datagrams }
    }
}

/// A stream of datagrams or of a connection, measured where it arrives.
#[derive(Clone, Debug)]
#[must_use = "nothing is sent until it is said how much should arrive"]
pub struct Throughput<'a> {
    from: &'a Pod,
    to: &'a Pod,
    address: IpAddr,
    stream: Stream,
}

#[derive(Clone, Copy, Debug)]
enum Stream {
    /// As many as are told.
    Datagrams,
    /// As much as gets through.
    Connection,
}

/// What arrived so far, and whether that is as it should be.
trait Expectation: Send {
    /// Takes a measurement; an answer ends it.
    fn measured(&mut self, now: Instant, received: u64) -> Option<Result<(), String>>;
}

impl Throughput<'_> {
    /// By a TCP connection that sends as fast as it can.
    pub fn of_tcp(self) -> Self {
        Self { stream: Stream::Connection, ..self }
    }

    /// To the other's IPv6 address.
    ///
    /// # Panics
    /// When it has none.
    pub fn over_ipv6(self) -> Self {
        let address = self.to.addresses().iter().find(|address| address.is_ipv6());
        let address = *address.unwrap_or_else(|| panic!("{} has no IPv6 address", self.to.name()));
        Self { address, ..self }
    }

    /// Of three times as much, or all that a connection can send, this many megabits per second arrive, give or take a tenth: on the average
    /// of a fixed time, after what a change of the rules takes.
    ///
    /// # Panics
    /// When more or less arrives.
    #[track_caller]
    pub fn settles_at(&self, megabits: u32) {
        self.expect(megabits, megabits * 3, Settles { expected: f64::from(megabits), ..Settles::default() });
    }

    /// Of twice as much, more than this many megabits per second arrive.
    ///
    /// # Panics
    /// When they do not.
    #[track_caller]
    pub fn exceeds(&self, megabits: u32) {
        self.expect(megabits, megabits * 2, Exceeds { least: f64::from(megabits), window: None });
    }

    #[track_caller]
    fn expect(&self, megabits: u32, offered: u32, expectation: impl Expectation + 'static) {
        if let Err(why) = self.run(offered, expectation) {
            panic!("{megabits} Mbit/s from {} to {}: {why}", self.from.name(), self.to.name());
        }
    }

    fn run(&self, offered: u32, expectation: impl Expectation + 'static) -> Result<(), String> {
        let over = Arc::new(AtomicBool::new(false));
        let address = self.address;
        let (measured, sender) = match self.stream {
            Stream::Datagrams => {
                let length = full_datagram(self.from, address)?;
                let bound = self.to.netns().run(move || UdpSocket::bind((address, 0)));
                let receiver = bound.map_err(|error| error.to_string())?;
                let to = receiver.local_addr().map_err(|error| error.to_string())?;
                let until = Arc::clone(&over);
                let sender = spawn(self.from, move || send_datagrams(to, length, offered, &until))?;
                receiver.set_read_timeout(Some(PATIENCE)).map_err(|error| error.to_string())?;
                let mut buffer = vec![0; length + 1];
                (spawn(self.to, move || measure(|| receiver.recv(&mut buffer), expectation)), sender)
            }
            Stream::Connection => {
                let bound = self.to.netns().run(move || TcpListener::bind((address, 0)));
                let listener = bound.map_err(|error| error.to_string())?;
                let to = listener.local_addr().map_err(|error| error.to_string())?;
                let until = Arc::clone(&over);
                let sender = spawn(self.from, move || send_stream(to, &until))?;
                let received = spawn(self.to, move || {
                    let (mut stream, _) = listener.accept()?;
                    stream.set_read_timeout(Some(PATIENCE))?;
                    let mut buffer = vec![0; CHUNK];
                    measure(|| stream.read(&mut buffer), expectation)
                });
                (received, sender)
            }
        };
        let measured = measured.and_then(finish);
        over.store(true, Ordering::Relaxed);
        finish(sender)?;
        measured?
    }
}

/// Receives until the expectation has its answer.
fn measure(
    mut receive: impl FnMut() -> std::io::Result<usize>,
    mut expectation: impl Expectation,
) -> std::io::Result<Result<(), String>> {
    let mut looked = None::<Instant>;
    loop {
        if receive()? == 0 {
            return Ok(Err("the connection ended".into()));
        }
        let now = Instant::now();
        // The kernel's counters are a file to be read: not for each datagram.
        if looked.is_some_and(|looked| now - looked < WINDOW / 10) {
            continue;
        }
        looked = Some(now);
        if let Some(answer) = expectation.measured(now, received_bytes()?) {
            return Ok(answer);
        }
    }
}

fn send_datagrams(to: SocketAddr, length: usize, offered: u32, over: &AtomicBool) -> std::io::Result<()> {
    let socket = UdpSocket::bind((if to.is_ipv4() { "0.0.0.0" } else { "::" }, 0))?;
    let datagram = vec![0; length];
    let started = Instant::now();
    let mut sent = 0_u64;
    while !over.load(Ordering::Relaxed) {
        // An answer of the receiver's node to an earlier one is no reason to stop.
        let _ = socket.send_to(&datagram, to);
        sent += length as u64;
        let due = started + Duration::from_micros(sent * 8 / u64::from(offered));
        thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    Ok(())
}

fn send_stream(to: SocketAddr, over: &AtomicBool) -> std::io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&to, PATIENCE)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let chunk = vec![0; CHUNK];
    while !over.load(Ordering::Relaxed) {
        match stream.write(&chunk) {
            // The receiver has seen enough.
            Err(error) if [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe].contains(&error.kind()) => {
                break;
            }
            sent => sent?,
        };
    }
    Ok(())
}

/// Something is measured since then.
type Since = (Instant, u64);

fn rate(since: Since, now: Instant, received: u64) -> f64 {
    (received - since.1) as f64 * 8.0 / (now - since.0).as_secs_f64() / 1e6
}

/// A rate, once it has settled.
#[derive(Default)]
struct Settles {
    expected: f64,
    began: Option<Instant>,
    window: Option<Since>,
    /// A window had the rate, so the average is taken since then.
    settled: Option<Since>,
    /// What was measured, to be told.
    windows: Vec<f64>,
    means: Vec<f64>,
}

impl Settles {
    fn fits(&self, rate: f64) -> bool {
        (rate / self.expected - 1.0).abs() <= 0.1
    }
}

impl Expectation for Settles {
    fn measured(&mut self, now: Instant, received: u64) -> Option<Result<(), String>> {
        let began = *self.began.get_or_insert(now);
        if let Some(since) = self.settled {
            if now - since.0 < MEAN {
                return None;
            }
            let mean = rate(since, now, received);
            if self.fits(mean) {
                return Some(Ok(()));
            }
            self.means.push(mean);
            (self.settled, self.window) = (None, None);
        }
        let since = *self.window.get_or_insert((now, received));
        if now - since.0 >= WINDOW {
            let rate = rate(since, now, received);
            self.windows.push(rate);
            self.window = Some((now, received));
            self.settled = self.fits(rate).then_some((now, received));
        }
        (self.means.len() >= ATTEMPTS || now - began > PATIENCE).then(|| {
            let text = |rates: &[f64]| {
                let rates = rates.iter().map(|rate| format!("{rate:.1}"));
                rates.collect::<Vec<_>>().join(", ")
            };
            let (windows, means) = (text(&self.windows), text(&self.means));
            Err(format!("what arrived were {windows} Mbit/s, on the average of {MEAN:?}: {means}"))
        })
    }
}

/// More than a rate.
struct Exceeds {
    least: f64,
    window: Option<(Since, Instant)>,
}

impl Expectation for Exceeds {
    fn measured(&mut self, now: Instant, received: u64) -> Option<Result<(), String>> {
        let (since, began) = *self.window.get_or_insert(((now, received), now));
        if now - since.0 < WINDOW {
            return None;
        }
        self.window = Some(((now, received), began));
        match rate(since, now, received) {
            rate if rate > self.least => Some(Ok(())),
            rate => (now - began > PATIENCE).then(|| Err(format!("what arrived last were {rate:.1} Mbit/s"))),
        }
    }
}

/// What the interfaces of this thread's network have received. The kernel counts what a busy reader loses too.
fn received_bytes() -> std::io::Result<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/net/dev")?;
    let received = text.lines().filter_map(|line| {
        let (name, counters) = line.split_once(':')?;
        let received = counters.split_whitespace().next()?.parse::<u64>().ok();
        received.filter(|_| name.trim() != "lo")
    });
    Ok(received.sum())
}
