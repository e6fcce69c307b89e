//! How much gets from one pod to another: counted where it arrives, by the receiver's own kernel.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::pod::Pod;
use crate::testbed::Testbed;
use crate::traffic::{finish, full_datagram, spawn};

/// How long what should come to pass is given.
const PATIENCE: Duration = Duration::from_secs(20);
/// How many measurements a second, at the expected rate.
const WINDOWS_PER_SECOND: u64 = 2;

impl Testbed {
    /// Datagrams from a pod to another, more than should get through.
    pub fn throughput<'a>(&self, from: &'a Pod, to: &'a Pod) -> Throughput<'a> {
        Throughput { from, to }
    }
}

/// A stream of datagrams, measured where it arrives.
#[derive(Clone, Debug)]
#[must_use = "nothing is sent until it is said how much should arrive"]
pub struct Throughput<'a> {
    from: &'a Pod,
    to: &'a Pod,
}

impl Throughput<'_> {
    /// Of three times as much, this many megabits per second arrive, give or take a tenth: in two successive windows, after what a
    /// change of the rules takes.
    ///
    /// # Panics
    /// When more or less arrives.
    #[track_caller]
    pub fn settles_at(&self, megabits: u32) {
        let expected = f64::from(megabits);
        let fits = move |rate: &f64| (rate / expected - 1.0).abs() <= 0.1;
        self.expect(megabits, megabits * 3, move |rates| {
            rates.len() > 1 && rates[rates.len() - 2..].iter().all(fits)
        });
    }

    /// Of twice as much, more than this many megabits per second arrive.
    ///
    /// # Panics
    /// When they do not.
    #[track_caller]
    pub fn exceeds(&self, megabits: u32) {
        let least = f64::from(megabits);
        self.expect(megabits, megabits * 2, move |rates| rates.last().is_some_and(|rate| *rate > least));
    }

    #[track_caller]
    fn expect(&self, megabits: u32, offered: u32, is_so: impl Fn(&[f64]) -> bool + Send + 'static) {
        if let Err(why) = self.run(megabits, offered, is_so) {
            panic!("{megabits} Mbit/s from {} to {}: {why}", self.from.name(), self.to.name());
        }
    }

    fn run(
        &self,
        megabits: u32,
        offered: u32,
        is_so: impl Fn(&[f64]) -> bool + Send + 'static,
    ) -> Result<(), String> {
        let length = full_datagram(self.from, self.to.address())?;
        let address = self.to.address();
        let bound = self.to.netns().run(move || UdpSocket::bind((address, 0)));
        let receiver = bound.map_err(|error| error.to_string())?;
        let to = receiver.local_addr().map_err(|error| error.to_string())?;
        let over = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&over);
        let sender = spawn(self.from, move || {
            let socket = UdpSocket::bind((if to.is_ipv4() { "0.0.0.0" } else { "::" }, 0))?;
            let datagram = vec![0; length];
            let started = Instant::now();
            let mut sent = 0_u64;
            while !until.load(Ordering::Relaxed) {
                // An answer of the receiver's node to an earlier one is no reason to stop.
                let _ = socket.send_to(&datagram, to);
                sent += length as u64;
                let due = started + Duration::from_micros(sent * 8 / u64::from(offered));
                thread::sleep(due.saturating_duration_since(Instant::now()));
            }
            Ok(())
        })?;
        let window = u64::from(megabits) * 1_000_000 / 8 / WINDOWS_PER_SECOND;
        let measured = spawn(self.to, move || {
            receiver.set_read_timeout(Some(PATIENCE))?;
            let (deadline, mut buffer) = (Instant::now() + PATIENCE, vec![0; length + 1]);
            let (mut before, mut rates) = (None::<(Instant, u64)>, Vec::new());
            while Instant::now() < deadline {
                receiver.recv(&mut buffer)?;
                let (now, received) = (Instant::now(), received_bytes()?);
                let Some((then, at)) = before else {
                    before = Some((now, received));
                    continue;
                };
                if received - at >= window {
                    rates.push((received - at) as f64 * 8.0 / (now - then).as_secs_f64() / 1e6);
                    before = Some((now, received));
                    if is_so(&rates) {
                        return Ok(Ok(()));
                    }
                }
            }
            Ok(Err(rates))
        });
        let measured = measured.and_then(finish);
        over.store(true, Ordering::Relaxed);
        finish(sender)?;
        measured?.map_err(|rates| {
            let rates: Vec<_> = rates.iter().map(|rate| format!("{rate:.1}")).collect();
            format!("what arrived were {} Mbit/s", rates.join(", "))
        })
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
