//! Netlink sockets: one request at a time, and its answer.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use nix::libc;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, send, setsockopt,
    socket, sockopt,
};
use nix::sys::time::TimeVal;

use crate::error::{Error, Result, Trying};

pub(crate) const REQUEST: u16 = 0x1;
pub(crate) const ACK: u16 = 0x4;
pub(crate) const DUMP: u16 = 0x300;
pub(crate) const EXCLUSIVE: u16 = 0x200;
pub(crate) const REPLACE: u16 = 0x100;
pub(crate) const CREATE: u16 = 0x400;
pub(crate) const APPEND: u16 = 0x800;

const DUMP_INTERRUPTED: u16 = 0x10;
/// How long the kernel may take for each part of an answer. Whoever waits for it tries again.
const DEADLINE: Duration = Duration::from_secs(10);
/// How often a dump is made that something interrupts each time.
const ATTEMPTS: usize = 50;

const ERROR: u16 = 2;
const DONE: u16 = 3;
/// What comes before and after the messages of a transaction.
const BATCH_BEGIN: u16 = 16;
const BATCH_END: u16 = 17;
const HEADER: usize = 16;
/// The kernel makes no part of a dump larger than this.
const BUFFER: usize = 64 * 1024;

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// A socket of one netlink family.
#[derive(Debug)]
pub(crate) struct Socket {
    descriptor: OwnedFd,
    sequence: u32,
}

/// What a socket that is subscribed to notifications received.
#[derive(Debug)]
pub(crate) enum Received {
    /// These.
    Messages(Vec<Message>),
    /// Some were lost. What is received after this is newer than the loss.
    Lost,
}

/// A message of a transaction.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) kind: u16,
    pub(crate) flags: u16,
    /// Without the header.
    pub(crate) payload: Vec<u8>,
}

/// One message of an answer.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) kind: u16,
    /// Header included.
    pub(crate) bytes: Vec<u8>,
}

impl Message {
    /// Something changed while the dump was made that this is part of.
    fn is_interrupted(&self) -> bool {
        let flags = self.bytes.get(6..8).and_then(|flags| flags.first_chunk::<2>());
        flags.is_some_and(|flags| u16::from_ne_bytes(*flags) & DUMP_INTERRUPTED != 0)
    }

    pub(crate) fn payload(&self) -> &[u8] {
        self.bytes.get(HEADER..).unwrap_or_default()
    }

    /// The number of the message that it answers.
    fn sequence(&self) -> Option<u32> {
        self.bytes.get(8..)?.first_chunk::<4>().map(|number| u32::from_ne_bytes(*number))
    }
}

impl Socket {
    /// A socket of the calling thread's network namespace.
    pub(crate) fn open(protocol: SockProtocol) -> Result<Self> {
        let descriptor = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol)
            .trying(|| "open a netlink socket".into())?;
        let socket = Self { descriptor, sequence: 0 };
        socket.set_deadline(DEADLINE)?;
        Ok(socket)
    }

    /// How long the kernel may take to accept a request, and for each part of the answer.
    fn set_deadline(&self, deadline: Duration) -> Result<()> {
        let seconds = i64::try_from(deadline.as_secs()).unwrap_or(i64::MAX);
        let deadline = TimeVal::new(seconds, deadline.subsec_micros().into());
        let set = setsockopt(&self.descriptor, sockopt::ReceiveTimeout, &deadline);
        set.and_then(|()| setsockopt(&self.descriptor, sockopt::SendTimeout, &deadline))
            .trying(|| "set the deadline of a netlink socket".into())
    }

    /// A socket that receives the notifications of `groups` and whose [`Socket::receive`] does not block.
    pub(crate) fn subscribe(protocol: SockProtocol, groups: u32) -> Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let descriptor = socket(AddressFamily::Netlink, SockType::Raw, flags, protocol)
            .trying(|| "open a netlink socket".into())?;
        bind(descriptor.as_raw_fd(), &NetlinkAddr::new(0, groups))
            .trying(|| "subscribe to netlink notifications".into())?;
        Ok(Self { descriptor, sequence: 0 })
    }

    /// The notifications of one datagram, or that some were lost.
    pub(crate) fn receive(&self) -> io::Result<Received> {
        let mut buffer = vec![0; BUFFER];
        let read = match recv(self.descriptor.as_raw_fd(), &mut buffer, MsgFlags::empty()) {
            Err(nix::Error::ENOBUFS) => {
                self.discard(&mut buffer)?;
                return Ok(Received::Lost);
            }
            read => read?,
        };
        Ok(Received::Messages(messages(&buffer[..read])))
    }

    /// Discards what is queued. A queue that has overflowed holds what is older than the loss, and the kernel says once that it lost
    /// something and goes on losing, silently, until the queue is empty: a list that is made before would be outdated for ever.
    fn discard(&self, buffer: &mut [u8]) -> io::Result<()> {
        loop {
            match recv(self.descriptor.as_raw_fd(), buffer, MsgFlags::empty()) {
                Err(nix::Error::EAGAIN) => return Ok(()),
                Ok(_) | Err(nix::Error::ENOBUFS) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Asks, and reads the answer up to the kernel's word that it is done. A dump during which something changed may lack what was there all
    /// the while: the kernel says so, and is asked again.
    pub(crate) fn ask(
        &mut self,
        kind: u16,
        flags: u16,
        payload: &[u8],
        what: impl Fn() -> String,
    ) -> Result<Vec<Message>> {
        for _ in 0..ATTEMPTS {
            let answer = self.ask_once(kind, flags, payload, &what)?;
            if !answer.iter().any(Message::is_interrupted) {
                return Ok(answer);
            }
        }
        Err(Error::Answer { what: what(), reason: "it changed all the while it was listed".into() })
    }

    /// Asks for a dump of what the fields and attributes of the request say. Kernels before 4.20 list everything all the same.
    pub(crate) fn ask_filtered(
        &mut self,
        kind: u16,
        payload: &[u8],
        what: impl Fn() -> String,
    ) -> Result<Vec<Message>> {
        self.set_strict(1);
        let answer = self.ask(kind, DUMP, payload, what);
        // Requests of other kinds are not made for this.
        self.set_strict(0);
        answer
    }

    /// Whether the kernel goes by all that a request for a dump says.
    #[allow(unsafe_code, reason = "nix has no other way to do it")]
    fn set_strict(&self, value: libc::c_int) {
        let (level, option) = (libc::SOL_NETLINK, libc::NETLINK_GET_STRICT_CHK);
        let length = size_of_val(&value).try_into().expect("the size of an int fits into a socklen_t");
        // SAFETY: the value lives for the call, and its length is its own. A kernel that does not know the option says so and changes nothing.
        unsafe {
            libc::setsockopt(self.descriptor.as_raw_fd(), level, option, (&raw const value).cast(), length)
        };
    }

    fn ask_once(
        &mut self,
        kind: u16,
        flags: u16,
        payload: &[u8],
        what: &impl Fn() -> String,
    ) -> Result<Vec<Message>> {
        let mut request = Vec::with_capacity(HEADER + payload.len());
        self.write(&mut request, kind, flags, payload).trying(what)?;
        send(self.descriptor.as_raw_fd(), &request, MsgFlags::empty()).map_err(late).trying(what)?;
        let mut answer = Vec::new();
        let mut buffer = vec![0; BUFFER];
        loop {
            let read = self.read(&mut buffer).trying(what)?;
            if self.take(&buffer[..read], &mut answer, what)? {
                return Ok(answer);
            }
        }
    }

    /// Has a part of nfnetlink do what all of these messages say, or nothing of it.
    pub(crate) fn transact(
        &mut self,
        subsystem: u8,
        requests: &[Request],
        what: impl Fn() -> String,
    ) -> Result<()> {
        let frame = [0, 0, 0, subsystem];
        let mut batch = Vec::new();
        let first = self.sequence + 1;
        self.write(&mut batch, BATCH_BEGIN, 0, &frame).trying(&what)?;
        for (at, Request { kind, flags, payload }) in requests.iter().enumerate() {
            // Of what is refused the kernel tells unasked, and in the order of the messages.
            let ack = if at + 1 == requests.len() { ACK } else { 0 };
            self.write(&mut batch, *kind, flags | ack, payload).trying(&what)?;
        }
        let last = self.sequence;
        self.write(&mut batch, BATCH_END, 0, &frame).trying(&what)?;
        send(self.descriptor.as_raw_fd(), &batch, MsgFlags::empty()).map_err(late).trying(&what)?;
        let mut buffer = vec![0; BUFFER];
        loop {
            let read = self.read(&mut buffer).trying(&what)?;
            for answer in messages(&buffer[..read]) {
                let Some(code) = answer.payload().first_chunk::<4>().filter(|_| answer.kind == ERROR) else {
                    continue;
                };
                match i32::from_ne_bytes(*code) {
                    0 if answer.sequence() == Some(last) => return Ok(()),
                    code if code != 0 && answer.sequence().is_some_and(|number| number >= first) => {
                        return Err(io::Error::from_raw_os_error(-code)).trying(&what);
                    }
                    _ => {}
                }
            }
        }
    }

    /// Adds a message to a datagram, with the next number.
    fn write(&mut self, datagram: &mut Vec<u8>, kind: u16, flags: u16, payload: &[u8]) -> io::Result<()> {
        self.sequence += 1;
        let length = u32::try_from(HEADER + payload.len()).map_err(io::Error::other)?;
        datagram.extend_from_slice(&length.to_ne_bytes());
        datagram.extend_from_slice(&kind.to_ne_bytes());
        datagram.extend_from_slice(&(flags | REQUEST).to_ne_bytes());
        datagram.extend_from_slice(&self.sequence.to_ne_bytes());
        datagram.extend_from_slice(&0u32.to_ne_bytes());
        datagram.extend_from_slice(payload);
        datagram.resize(datagram.len().next_multiple_of(4), 0);
        Ok(())
    }

    /// The next datagram, within the deadline.
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match recv(self.descriptor.as_raw_fd(), buffer, MsgFlags::empty()) {
                Err(nix::Error::EINTR) => {}
                read => return read.map_err(late),
            }
        }
    }

    /// Takes the messages of one datagram; true if the last of the answer is among them.
    fn take(&self, mut rest: &[u8], answer: &mut Vec<Message>, what: &impl Fn() -> String) -> Result<bool> {
        let malformed = || Error::Answer { what: what(), reason: "a message that is cut off".into() };
        while !rest.is_empty() {
            let header: &[u8; HEADER] = rest.first_chunk().ok_or_else(malformed)?;
            let number = |at: usize| u32::from_ne_bytes([0, 1, 2, 3].map(|i| header[at + i]));
            let length = usize::try_from(number(0)).map_err(|_| malformed())?;
            let kind = u16::from_ne_bytes([header[4], header[5]]);
            let message = rest.get(..length).filter(|_| length >= HEADER).ok_or_else(malformed)?;
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
            // What is left of an earlier request that was given up.
            if number(8) != self.sequence {
                continue;
            }
            match kind {
                ERROR => {
                    let code = message[HEADER..].first_chunk::<4>().ok_or_else(malformed)?;
                    return match i32::from_ne_bytes(*code) {
                        0 => Ok(true),
                        code => Err(io::Error::from_raw_os_error(-code)).trying(what),
                    };
                }
                DONE => return Ok(true),
                _ => answer.push(Message { kind, bytes: message.to_vec() }),
            }
        }
        Ok(false)
    }
}

/// The messages of a datagram, up to one that is cut off.
fn messages(mut rest: &[u8]) -> Vec<Message> {
    let mut messages = Vec::new();
    while let Some(header) = rest.first_chunk::<HEADER>() {
        let length = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]);
        let Some(bytes) = usize::try_from(length).ok().and_then(|length| rest.get(..length)) else { break };
        let kind = u16::from_ne_bytes([header[4], header[5]]);
        messages.push(Message { kind, bytes: bytes.to_vec() });
        rest = rest.get(bytes.len().max(HEADER).next_multiple_of(4)..).unwrap_or_default();
    }
    messages
}

/// What the kernel says once the deadline of a socket is over.
fn late(error: nix::Error) -> io::Error {
    match error {
        nix::Error::EAGAIN => io::Error::new(
            io::ErrorKind::TimedOut,
            format!("the kernel has not answered within {DEADLINE:?}"),
        ),
        error => error.into(),
    }
}

/// Attributes, for families that no crate has types for.
#[derive(Debug, Default)]
pub(crate) struct Attributes(pub(crate) Vec<u8>);

impl Attributes {
    const NESTED: u16 = 0x8000;

    /// Adds an attribute.
    pub(crate) fn push(mut self, kind: u16, value: &[u8]) -> Self {
        let length = u16::try_from(4 + value.len()).expect("attributes of this crate are short");
        self.0.extend_from_slice(&length.to_ne_bytes());
        self.0.extend_from_slice(&kind.to_ne_bytes());
        self.0.extend_from_slice(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    /// Adds an attribute that is a string with its end.
    pub(crate) fn text(self, kind: u16, text: &str) -> Self {
        self.push(kind, &[text.as_bytes(), &[0]].concat())
    }

    /// Adds an attribute made of attributes.
    pub(crate) fn nest(self, kind: u16, inner: &Attributes) -> Self {
        self.push(kind | Self::NESTED, &inner.0)
    }
}

/// Finds an attribute.
pub(crate) fn attribute(all: &[u8], wanted: u16) -> Option<&[u8]> {
    attributes(all).find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
}

/// All attributes with their kinds, up to one that is cut off.
pub(crate) fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let header = rest.first_chunk::<4>()?;
        let length = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let kind = u16::from_ne_bytes([header[2], header[3]]) & !Attributes::NESTED;
        let value = rest.get(4..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

    use super::*;

    #[test]
    fn a_request_that_the_kernel_does_not_answer_ends() {
        let mut socket = Socket::open(SockProtocol::NetlinkRoute).unwrap();
        socket.set_deadline(Duration::from_millis(20)).unwrap();
        // NLMSG_NOOP without a wish for an answer.
        let error = socket.ask(1, 0, &[], || "do nothing".into()).unwrap_err();
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert!(source.contains("has not answered"), "{source}");
        // Late answers to it are not taken for those to the next one.
        assert!(socket.ask(1, ACK, &[], || "do nothing".into()).is_ok());
    }
}
