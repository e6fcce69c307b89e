//! One connection: frames in, bytes out, probes both ways.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ovsdb_core::frame::{Frame, Scanner};
use ovsdb_core::message::{
    Message, write_echo_reply, write_raw_request, write_request, write_unknown_method,
};
use serde::Serialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::time::{Instant, sleep_until};

use crate::error::ConnectionError;
use crate::transport::Stream;

/// How much is read at a time while nothing is known of the message's size.
const READ_SIZE: usize = 64 * 1024;
/// A buffer that a large message left behind is given back beyond this.
const KEEP_SIZE: usize = 1024 * 1024;

/// A peer that asks so much and reads none of the answers wants to fill our memory.
const MAX_UNREAD_ANSWERS: u32 = 10_000;

/// What a client has moved over all its connections.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) read: AtomicU64,
    pub(crate) written: AtomicU64,
}

pub(crate) struct Connection {
    reader: ReadHalf<Box<dyn Stream>>,
    writer: WriteHalf<Box<dyn Stream>>,
    scanner: Scanner,
    input: Vec<u8>,
    /// Where the first message in `input` begins.
    start: usize,
    output: Vec<u8>,
    /// How much of `output` is written already.
    written: usize,
    /// How many bytes were written before those in `output`.
    written_before: u64,
    flushing: bool,
    /// How many of the peer's requests were answered since everything was written.
    unread_answers: u32,
    next_id: u64,
    probe: Probe,
    traffic: Arc<Traffic>,
}

/// Finds out whether the peer is alive when it says nothing.
struct Probe {
    interval: Option<Duration>,
    heard: Instant,
    /// An echo was sent since the peer was last heard.
    asked: bool,
}

impl Connection {
    pub(crate) fn new(
        stream: Box<dyn Stream>,
        max_message: usize,
        probe_interval: Option<Duration>,
        traffic: Arc<Traffic>,
    ) -> Self {
        let (reader, writer) = tokio::io::split(stream);
        Connection {
            reader,
            writer,
            scanner: Scanner::new(max_message),
            input: Vec::new(),
            start: 0,
            output: Vec::new(),
            written: 0,
            written_before: 0,
            flushing: false,
            unread_answers: 0,
            next_id: 0,
            probe: Probe { interval: probe_interval, heard: Instant::now(), asked: false },
            traffic,
        }
    }

    /// Queues a request and returns its id. It is written while [`Connection::next`] runs.
    pub(crate) fn request(&mut self, method: &str, params: &impl Serialize) -> u64 {
        self.next_id += 1;
        write_request(&mut self.output, self.next_id, method, params);
        self.next_id
    }

    /// Queues a request whose parameters are JSON already.
    pub(crate) fn raw_request(&mut self, method: &str, params: &[u8]) -> u64 {
        self.next_id += 1;
        write_raw_request(&mut self.output, self.next_id, method, params);
        self.next_id
    }

    /// How many bytes wait to be written.
    pub(crate) fn backlog(&self) -> usize {
        self.output.len() - self.written
    }

    /// How many bytes were ever queued: where the next request will begin in the stream.
    pub(crate) fn queued(&self) -> u64 {
        self.written_before + self.output.len() as u64
    }

    /// How many bytes were ever handed to the socket.
    pub(crate) fn written(&self) -> u64 {
        self.written_before + self.written as u64
    }

    pub(crate) fn set_probe_interval(&mut self, interval: Option<Duration>) {
        self.probe.interval = interval;
    }

    /// Waits for the next message that is not about the connection itself. Cancel-safe: all progress is kept in `self`.
    pub(crate) async fn next(&mut self) -> Result<Frame, ConnectionError> {
        loop {
            while let Some(frame) = self.scanner.scan(&self.input[self.start..])? {
                if !self.answer(&frame)? {
                    return Ok(frame);
                }
                self.consume(&frame);
            }
            self.transfer().await?;
        }
    }

    /// The message that `frame`, the result of the last [`Connection::next`], stands for.
    pub(crate) fn message(&self, frame: &Frame) -> Result<Message<'_>, ConnectionError> {
        Ok(Message::parse(frame, &self.input[self.start..])?)
    }

    /// Forgets a message that has been dealt with.
    pub(crate) fn consume(&mut self, frame: &Frame) {
        self.start += frame.len;
        if self.start == self.input.len() {
            self.start = 0;
            self.input.clear();
            if self.input.capacity() > KEEP_SIZE {
                self.input = Vec::new();
            }
        }
    }

    /// Answers the peer's requests, and recognizes its answers to our probes.
    fn answer(&mut self, frame: &Frame) -> Result<bool, ConnectionError> {
        match Message::parse(frame, &self.input[self.start..])? {
            Message::Request { id, method, params } => {
                self.unread_answers += 1;
                if self.unread_answers > MAX_UNREAD_ANSWERS {
                    return Err(ConnectionError::Flooded);
                }
                if method == "echo" {
                    write_echo_reply(&mut self.output, id, params);
                } else {
                    write_unknown_method(&mut self.output, id);
                }
                Ok(true)
            }
            Message::Reply { id: 0, .. } => Ok(true),
            Message::Notification { .. } | Message::Reply { .. } => Ok(false),
        }
    }

    /// Reads something or writes something, or finds the peer silent.
    async fn transfer(&mut self) -> Result<(), ConnectionError> {
        if self.input.capacity() - self.input.len() < READ_SIZE / 2 {
            self.input.drain(..self.start);
            self.start = 0;
            self.input.reserve(self.input.len().max(READ_SIZE));
        }
        let deadline = self.probe.deadline();
        let writing = self.flushing || !self.output.is_empty();
        tokio::select! {
            read = self.reader.read_buf(&mut self.input) => match read? {
                0 => return Err(ConnectionError::Closed),
                count => {
                    self.traffic.read.fetch_add(count as u64, Ordering::Relaxed);
                    self.probe.heard = Instant::now();
                    self.probe.asked = false;
                }
            },
            written = write_some(&mut self.writer, &self.output[self.written..]), if writing => {
                let count = match written {
                    Ok(count) => count,
                    Err(error) => {
                        // A stream such as TLS may have sent a part before it failed.
                        self.written = self.output.len();
                        return Err(error.into());
                    }
                };
                self.traffic.written.fetch_add(count as u64, Ordering::Relaxed);
                self.written += count;
                self.flushing = count > 0;
                if self.written == self.output.len() {
                    self.written_before += self.written as u64;
                    self.written = 0;
                    self.output.clear();
                    self.output.shrink_to(KEEP_SIZE);
                    self.unread_answers = 0;
                }
            }
            () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
                if let (Some(interval), true) = (self.probe.interval, self.probe.asked) {
                    return Err(ConnectionError::Inactive(interval * 2));
                }
                self.probe.asked = true;
                write_request(&mut self.output, 0, "echo", &[(); 0]);
            }
        }
        Ok(())
    }
}

/// Writes what the stream takes now; once everything is written, flushes it, for TLS keeps a record back.
async fn write_some(writer: &mut WriteHalf<Box<dyn Stream>>, bytes: &[u8]) -> std::io::Result<usize> {
    if bytes.is_empty() { writer.flush().await.map(|()| 0) } else { writer.write(bytes).await }
}

impl Probe {
    fn deadline(&self) -> Option<Instant> {
        // An interval beyond the end of time is one that never passes.
        self.heard.checked_add(self.interval?.checked_mul(if self.asked { 2 } else { 1 })?)
    }
}
