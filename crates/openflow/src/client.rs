//! The one thing here that does IO: tells a switch to forget connections, over its Unix socket, and blocks until it is done.
//!
//! Open vSwitch listens at `<bridge>.mgmt` in its run directory for as many clients as come.

use std::fmt;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use crate::connection::{Connection, ConnectionError, Event, RequestError};
use crate::ct_flush::CtFlush;
use crate::error_message::ErrorMessage;
use crate::message::Xid;

/// How many requests are made between two barriers. A switch stops reading while its errors are not read, so neither side may
/// write more than sockets take.
const BATCH: usize = 64;

/// Why a switch could not be asked. What it had forgotten by then stays forgotten; asking again does no harm.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nothing listens there.
    #[error("cannot connect")]
    Connect(#[source] io::Error),
    /// The switch did not do it in time.
    #[error("not done within {0:?}")]
    Timeout(Duration),
    /// The connection broke.
    #[error("the connection broke")]
    Io(#[from] io::Error),
    /// The switch closed the connection.
    #[error("the switch closed the connection")]
    Closed,
    /// The switch does not keep to the protocol.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    /// A request could not be made.
    #[error(transparent)]
    Request(#[from] RequestError),
}

/// A flush that the switch refused. The others are done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Which of the flushes.
    pub flush: CtFlush,
    /// Why.
    pub error: ErrorMessage,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the switch refused to forget connections ({}): {}", self.flush, self.error.code)
    }
}

/// Makes the switch that listens at `socket` forget connections. Returns once it has, within `patience`, with what it refused.
pub fn flush(socket: &Path, flushes: &[CtFlush], patience: Duration) -> Result<Vec<Refusal>, ClientError> {
    let deadline = Deadline { at: Instant::now() + patience, patience };
    let mut client = Client { stream: dial(socket, deadline)?, connection: Connection::new(), deadline };
    while !matches!(client.next_event()?, Event::Open(_)) {}
    let mut refusals = Vec::new();
    for batch in flushes.chunks(BATCH) {
        refusals.extend(client.flush(batch)?);
    }
    Ok(refusals)
}

#[derive(Clone, Copy)]
struct Deadline {
    at: Instant,
    patience: Duration,
}

impl Deadline {
    /// What is left; never nothing, which sockets take for no limit.
    fn left(self) -> Result<Duration, ClientError> {
        let left = self.at.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(ClientError::Timeout(self.patience)) } else { Ok(left) }
    }

    /// A socket that was given what is left as its limit says this when it is over.
    fn or(self, error: io::Error, other: fn(io::Error) -> ClientError) -> ClientError {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => ClientError::Timeout(self.patience),
            _ => other(error),
        }
    }
}

/// A listener that does not accept makes `connect` wait, so it gets its limit before.
fn dial(path: &Path, deadline: Deadline) -> Result<UnixStream, ClientError> {
    let refused = |error: rustix::io::Errno| deadline.or(error.into(), ClientError::Connect);
    let address = SocketAddrUnix::new(path).map_err(refused)?;
    let socket =
        socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).map_err(refused)?;
    set_socket_timeout(&socket, Timeout::Send, Some(deadline.left()?)).map_err(refused)?;
    connect(&socket, &address).map_err(refused)?;
    Ok(socket.into())
}

struct Client {
    stream: UnixStream,
    connection: Connection,
    deadline: Deadline,
}

impl Client {
    fn flush(&mut self, flushes: &[CtFlush]) -> Result<Vec<Refusal>, ClientError> {
        let mut requests: Vec<(Xid, CtFlush)> = Vec::new();
        for flush in flushes {
            requests.push((self.connection.flush(flush)?, *flush));
        }
        let barrier = self.connection.barrier()?;
        let mut refusals = Vec::new();
        loop {
            match self.next_event()? {
                Event::Done(xid) if xid == barrier => return Ok(refusals),
                Event::Refused { xid, error } => {
                    let refused = requests.iter().find(|(request, _)| *request == xid);
                    refusals.extend(refused.map(|(_, flush)| Refusal { flush: *flush, error }));
                }
                _ => {}
            }
        }
    }

    /// Writes and reads until something happens.
    fn next_event(&mut self) -> Result<Event, ClientError> {
        loop {
            if let Some(event) = self.connection.next_event() {
                return Ok(event);
            }
            self.write()?;
            let mut bytes = [0; 4096];
            self.stream.set_read_timeout(Some(self.deadline.left()?))?;
            let received = match self.stream.read(&mut bytes) {
                Ok(0) => return Err(ClientError::Closed),
                Ok(count) => self.connection.receive(bytes.get(..count).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(self.deadline.or(error, ClientError::Io)),
            };
            if let Err(error) = received {
                // It may hold the reason, for the switch. Whether that gets there changes nothing here.
                let _ = self.write();
                return Err(error.into());
            }
        }
    }

    fn write(&mut self) -> Result<(), ClientError> {
        while !self.connection.output().is_empty() {
            self.stream.set_write_timeout(Some(self.deadline.left()?))?;
            match self.stream.write(self.connection.output()) {
                Ok(count) => self.connection.sent(count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.deadline.or(error, ClientError::Io)),
            }
        }
        Ok(())
    }
}
