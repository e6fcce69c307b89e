//! One connection to a switch, as a state machine: bytes and wishes go in, bytes and events come out.

use std::collections::VecDeque;

use crate::ct_flush::CtFlush;
use crate::error_message::{ErrorCode, ErrorMessage};
use crate::frame::{FrameError, Frames};
use crate::hello::{Version, Versions};
use crate::message::{Body, Message, MessageError, TooLong, Xid};

/// A peer that asks so much and reads none of the answers wants to fill our memory.
const MAX_UNSENT_ANSWERS: usize = 1 << 20;

/// A connection from its first byte to its last.
///
/// Whoever drives it writes [`output`](Connection::output) and says how much was [`sent`](Connection::sent), hands what it
/// reads to [`receive`](Connection::receive), and takes [`next_event`](Connection::next_event) until there is none. To find
/// out whether a silent switch is alive, it calls [`probe`](Connection::probe) at regular intervals of its own clock.
///
/// ```
/// use openflow::{Connection, Event, Version};
///
/// let mut connection = Connection::new();
/// assert_eq!(connection.output()[..2], [6, 0], "a hello of version 1.5");
/// connection.sent(connection.output().len());
///
/// connection.receive(&[6, 0, 0, 8, 0, 0, 0, 9])?;
/// assert_eq!(connection.next_event(), Some(Event::Open(Version::V1_5)));
/// let barrier = connection.barrier()?;
/// assert_eq!(connection.output(), [6, 20, 0, 8, 0, 0, 0, 2]);
///
/// connection.receive(&[6, 21, 0, 8, 0, 0, 0, 2])?;
/// assert_eq!(connection.next_event(), Some(Event::Done(barrier)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Connection {
    frames: Frames,
    state: State,
    output: Vec<u8>,
    /// How many bytes of answers were put into `output` since it was last empty.
    unsent_answers: usize,
    events: VecDeque<Event>,
    last_xid: Xid,
    /// The requests that were neither refused nor covered by a barrier, in the order in which they were made.
    outstanding: VecDeque<Request>,
    heard: Heard,
}

/// What was heard of the switch since the last probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heard {
    Something,
    Nothing,
    /// And it was asked for an echo.
    NothingSinceAsked,
}

#[derive(Clone, Debug)]
enum State {
    Greeting,
    Open(Version),
    Ended(ConnectionError),
}

#[derive(Debug)]
enum Request {
    Barrier(Xid),
    Other(Xid),
}

impl Request {
    fn xid(&self) -> Xid {
        let (Request::Barrier(xid) | Request::Other(xid)) = self;
        *xid
    }
}

/// Something that whoever uses the connection should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Both sides have agreed on a version: requests can be made.
    Open(Version),
    /// A request was refused.
    Refused {
        /// The request's.
        xid: Xid,
        /// Why.
        error: ErrorMessage,
    },
    /// The barrier was answered: everything requested before it is done, or was refused before this event.
    Done(Xid),
    /// An error that belongs to no request that is known here.
    Error {
        /// What it says it belongs to.
        xid: Xid,
        /// What it says.
        error: ErrorMessage,
    },
    /// Any other message, which this connection has nothing to do with.
    Message {
        /// Its type.
        kind: u8,
        /// Its transaction id.
        xid: Xid,
        /// All of it, with its header.
        bytes: Vec<u8>,
    },
}

/// Why a connection ended. Bytes of the output may still be sent; they tell the switch why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectionError {
    /// The stream is none of OpenFlow.
    #[error("the switch sent a malformed message")]
    Frame(#[from] FrameError),
    /// A message cannot be read.
    #[error("the switch sent a malformed message")]
    Message(#[from] MessageError),
    /// There is no version that both speak.
    #[error("the switch speaks OpenFlow {theirs}, and we speak {ours}", ours = Versions::OURS)]
    Incompatible {
        /// What the switch speaks.
        theirs: Versions,
    },
    /// The switch refused the handshake.
    #[error("the switch refused the connection: {}", .0.code)]
    Rejected(ErrorMessage),
    /// The first message was no hello.
    #[error("the switch began with a message of type {kind} in place of a hello")]
    NoHello {
        /// The message's type.
        kind: u8,
    },
    /// A message has another version than was agreed on.
    #[error("the switch sent a message of version {found:#04x} after it had agreed on OpenFlow {agreed}")]
    Version {
        /// What was agreed on.
        agreed: Version,
        /// What the message has.
        found: u8,
    },
    /// The switch did not answer a probe.
    #[error("the switch is silent")]
    Silent,
    /// The switch asks and does not read the answers.
    #[error("the switch sends echo requests and does not read the answers")]
    Flooded,
}

/// Why a request cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Nothing can be requested before [`Event::Open`].
    #[error("the switch has not said hello yet")]
    NotOpen,
    /// The connection has ended.
    #[error("the connection has ended")]
    Ended(#[source] ConnectionError),
    /// The request is too long for one message.
    #[error(transparent)]
    TooLong(#[from] TooLong),
}

impl Default for Connection {
    fn default() -> Self {
        Connection::new()
    }
}

impl Connection {
    /// A new connection, whose output begins with a hello.
    pub fn new() -> Self {
        Connection::with_max_message(u16::MAX)
    }

    /// A new connection that refuses messages of more than `max_message` bytes.
    pub fn with_max_message(max_message: u16) -> Self {
        let mut connection = Connection {
            frames: Frames::new(max_message),
            state: State::Greeting,
            output: Vec::new(),
            unsent_answers: 0,
            events: VecDeque::new(),
            last_xid: Xid(0),
            outstanding: VecDeque::new(),
            heard: Heard::Something,
        };
        let xid = connection.next_xid();
        connection.put(Version::V1_5.number(), xid, Body::Hello(Versions::OURS));
        connection
    }

    /// Takes what was read. After an error the connection has ended; events from before it are still there.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<(), ConnectionError> {
        if let State::Ended(error) = &self.state {
            return Err(error.clone());
        }
        self.frames.push(bytes);
        self.receive_frames().map_err(|error| self.end(error))
    }

    /// The next thing that happened, oldest first.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// What is to be written.
    pub fn output(&self) -> &[u8] {
        &self.output
    }

    /// The first `count` bytes of the output were written.
    pub fn sent(&mut self, count: usize) {
        self.output.drain(..count.min(self.output.len()));
        if self.output.is_empty() {
            self.unsent_answers = 0;
        }
    }

    /// The agreed version, while the connection is open.
    pub fn version(&self) -> Option<Version> {
        match self.state {
            State::Open(version) => Some(version),
            State::Greeting | State::Ended(_) => None,
        }
    }

    /// Requests that the switch forgets connections. It answers only if it refuses; a [`barrier`](Connection::barrier) behind
    /// it is answered when they are forgotten.
    pub fn flush(&mut self, flush: &CtFlush) -> Result<Xid, RequestError> {
        self.request(CtFlush::body(&flush.write()))
    }

    /// Requests an answer, [`Event::Done`], once everything requested before is done.
    pub fn barrier(&mut self) -> Result<Xid, RequestError> {
        self.request(Body::BarrierRequest)
    }

    /// Makes any request. It is outstanding until it is refused or a barrier behind it is answered.
    pub fn request(&mut self, body: Body<'_>) -> Result<Xid, RequestError> {
        let version = match &self.state {
            State::Greeting => return Err(RequestError::NotOpen),
            State::Open(version) => *version,
            State::Ended(error) => return Err(RequestError::Ended(error.clone())),
        };
        let is_barrier = matches!(body, Body::BarrierRequest);
        let xid = self.next_xid();
        Message { version: version.number(), xid, body }.write(&mut self.output)?;
        self.outstanding.push_back(if is_barrier { Request::Barrier(xid) } else { Request::Other(xid) });
        Ok(xid)
    }

    /// Says that an interval of the caller's clock is over. If nothing was heard in it, an echo is requested; if nothing is
    /// heard in the next either, the switch counts as gone. How long it may take to say hello is limited in the same way.
    pub fn probe(&mut self) -> Result<(), ConnectionError> {
        let version = match &self.state {
            State::Ended(error) => return Err(error.clone()),
            State::Open(version) => Some(*version),
            State::Greeting => None,
        };
        self.heard = match self.heard {
            Heard::Something => Heard::Nothing,
            Heard::Nothing => {
                if let Some(version) = version {
                    let xid = self.next_xid();
                    self.put(version.number(), xid, Body::EchoRequest(&[]));
                }
                Heard::NothingSinceAsked
            }
            Heard::NothingSinceAsked => return Err(self.end(ConnectionError::Silent)),
        };
        Ok(())
    }

    fn receive_frames(&mut self) -> Result<(), ConnectionError> {
        while let Some(frame) = self.frames.next_frame()? {
            // Bytes alone do not count: a switch that sends one now and then never says anything.
            self.heard = Heard::Something;
            let message = Message::read(&frame)?;
            match self.state {
                State::Greeting => self.greet(message)?,
                State::Open(version) => self.handle(version, message, &frame)?,
                State::Ended(_) => break,
            }
        }
        Ok(())
    }

    fn greet(&mut self, message: Message<'_>) -> Result<(), ConnectionError> {
        let theirs = match message.body {
            Body::Hello(versions) => versions,
            Body::Error(error) => return Err(ConnectionError::Rejected(error)),
            other => return Err(ConnectionError::NoHello { kind: other.kind() }),
        };
        let Some(version) = Versions::OURS.best_common(theirs) else {
            let data = format!("this side speaks OpenFlow {}", Versions::OURS).into_bytes();
            let error = ErrorMessage { code: ErrorCode::INCOMPATIBLE, data };
            let version = message.version.min(Version::V1_5.number());
            self.put(version, message.xid, Body::Error(error));
            return Err(ConnectionError::Incompatible { theirs });
        };
        self.state = State::Open(version);
        self.events.push_back(Event::Open(version));
        Ok(())
    }

    fn handle(&mut self, agreed: Version, message: Message<'_>, frame: &[u8]) -> Result<(), ConnectionError> {
        let Message { version, xid, body } = message;
        // A second hello means nothing, and an error may be about the version.
        if version != agreed.number() && !matches!(body, Body::Hello(_) | Body::Error(_)) {
            return Err(ConnectionError::Version { agreed, found: version });
        }
        match body {
            Body::Hello(_) | Body::EchoReply(_) => {}
            Body::EchoRequest(bytes) => {
                self.unsent_answers += frame.len();
                if self.unsent_answers > MAX_UNSENT_ANSWERS {
                    return Err(ConnectionError::Flooded);
                }
                self.put(version, xid, Body::EchoReply(bytes));
            }
            Body::Error(error) => {
                let request = self.outstanding.iter().position(|request| request.xid() == xid);
                self.events.push_back(match request.and_then(|at| self.outstanding.remove(at)) {
                    Some(_) => Event::Refused { xid, error },
                    None => Event::Error { xid, error },
                });
            }
            Body::BarrierReply if self.finish(xid) => self.events.push_back(Event::Done(xid)),
            other => {
                let kind = other.kind();
                self.events.push_back(Event::Message { kind, xid, bytes: frame.to_vec() });
            }
        }
        Ok(())
    }

    /// Nothing up to and with this barrier is outstanding any more; false if there is no such barrier.
    fn finish(&mut self, barrier: Xid) -> bool {
        let is_it = |request: &Request| matches!(request, Request::Barrier(xid) if *xid == barrier);
        let Some(at) = self.outstanding.iter().position(is_it) else { return false };
        self.outstanding.drain(..=at);
        true
    }

    fn end(&mut self, error: ConnectionError) -> ConnectionError {
        self.state = State::Ended(error.clone());
        error
    }

    /// Puts a message that cannot be too long, or is as long as one that was read, into the output.
    fn put(&mut self, version: u8, xid: Xid, body: Body<'_>) {
        let written = Message { version, xid, body }.write(&mut self.output);
        debug_assert_eq!(written, Ok(()));
    }

    /// 0 is for messages that nobody asked for.
    fn next_xid(&mut self) -> Xid {
        self.last_xid = Xid(self.last_xid.0.checked_add(1).unwrap_or(1));
        self.last_xid
    }
}

#[cfg(test)]
mod tests;
