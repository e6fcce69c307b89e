//! Netlink sockets: one request at a time, and its answer.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, send, socket,
};

use crate::error::{Error, Result, Trying};

pub(crate) const REQUEST: u16 = 0x1;
pub(crate) const ACK: u16 = 0x4;
pub(crate) const DUMP: u16 = 0x300;
pub(crate) const EXCLUSIVE: u16 = 0x200;
pub(crate) const REPLACE: u16 = 0x100;
pub(crate) const CREATE: u16 = 0x400;

const DUMP_INTERRUPTED: u16 = 0x10;
/// How often a dump is made that something interrupts each time.
const ATTEMPTS: usize = 50;

const ERROR: u16 = 2;
const DONE: u16 = 3;
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
}

impl Socket {
    /// A socket of the calling thread's network namespace.
    pub(crate) fn open(protocol: SockProtocol) -> Result<Self> {
        let descriptor = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol)
            .trying(|| "open a netlink socket".into())?;
        Ok(Self { descriptor, sequence: 0 })
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

    /// The notifications of one datagram.
    pub(crate) fn receive(&self) -> io::Result<Vec<Message>> {
        let mut buffer = vec![0; BUFFER];
        let read = recv(self.descriptor.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
        let mut messages = Vec::new();
        let mut rest = &buffer[..read];
        while let Some(header) = rest.first_chunk::<HEADER>() {
            let length = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]);
            let Some(bytes) = usize::try_from(length).ok().and_then(|length| rest.get(..length)) else {
                break;
            };
            let kind = u16::from_ne_bytes([header[4], header[5]]);
            messages.push(Message { kind, bytes: bytes.to_vec() });
            rest = rest.get(bytes.len().max(HEADER).next_multiple_of(4)..).unwrap_or_default();
        }
        Ok(messages)
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

    fn ask_once(
        &mut self,
        kind: u16,
        flags: u16,
        payload: &[u8],
        what: &impl Fn() -> String,
    ) -> Result<Vec<Message>> {
        self.sequence += 1;
        let mut request = Vec::with_capacity(HEADER + payload.len());
        let length = u32::try_from(HEADER + payload.len()).map_err(io::Error::other).trying(what)?;
        request.extend_from_slice(&length.to_ne_bytes());
        request.extend_from_slice(&kind.to_ne_bytes());
        request.extend_from_slice(&(flags | REQUEST).to_ne_bytes());
        request.extend_from_slice(&self.sequence.to_ne_bytes());
        request.extend_from_slice(&0u32.to_ne_bytes());
        request.extend_from_slice(payload);
        send(self.descriptor.as_raw_fd(), &request, MsgFlags::empty()).trying(what)?;
        let mut answer = Vec::new();
        let mut buffer = vec![0; BUFFER];
        loop {
            let read = loop {
                match recv(self.descriptor.as_raw_fd(), &mut buffer, MsgFlags::empty()) {
                    Err(nix::Error::EINTR) => {}
                    read => break read.trying(what)?,
                }
            };
            if self.take(&buffer[..read], &mut answer, what)? {
                return Ok(answer);
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
pub(crate) fn attribute(mut rest: &[u8], wanted: u16) -> Option<&[u8]> {
    while let Some(header) = rest.first_chunk::<4>() {
        let length = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let kind = u16::from_ne_bytes([header[2], header[3]]) & !Attributes::NESTED;
        let value = rest.get(4..length)?;
        if kind == wanted {
            return Some(value);
        }
        rest = rest.get(length.next_multiple_of(4)..)?;
    }
    None
}
