//! How the plugin asks the agent: one request and one answer, each a length and a JSON text.
//!
//! The container's network namespace travels beside the request's first byte as an open descriptor: what the plugin opened is
//! what the agent works on, whatever becomes of the path meanwhile.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::CniError;

/// The version of this protocol. Plugin and agent are installed together; for the moment in between, one refuses the other.
pub const PROTOCOL: u32 = 1;

/// The longest message either side accepts.
pub const LONGEST: usize = 1 << 20;

/// What a runtime wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[allow(missing_docs, reason = "the CNI specification defines them")]
pub enum Verb {
    Add,
    Del,
    Check,
    Gc,
    Status,
}

/// One call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// [`PROTOCOL`].
    pub protocol: u32,
    /// What to do.
    pub verb: Verb,
    /// `CNI_CONTAINERID`; empty for GC and STATUS.
    pub container_id: String,
    /// `CNI_IFNAME`; empty for GC and STATUS.
    pub ifname: String,
    /// `CNI_NETNS`, for the answer to repeat: the namespace itself is the descriptor.
    pub netns: Option<String>,
    /// `CNI_ARGS`.
    pub args: String,
    /// The network configuration.
    pub config: Value,
}

/// The answer to a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Answer {
    /// It was done, and this is its result.
    Result(Value),
    /// It was done, and there is nothing to say.
    Done,
    /// It failed.
    Error(CniError),
}

/// A message with its length in front, ready to be sent.
pub fn encode(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; 4];
    serde_json::to_writer(&mut bytes, message)?;
    let length = bytes.len() - 4;
    if length > LONGEST {
        return Err(too_long(length));
    }
    let length = u32::try_from(length).map_err(|_| too_long(length))?;
    bytes[..4].copy_from_slice(&length.to_be_bytes());
    Ok(bytes)
}

/// Sends a message over a blocking stream, with a descriptor beside its first byte.
pub fn send(
    stream: &mut UnixStream,
    message: &impl Serialize,
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let bytes = encode(message)?;
    let mut sent = 0;
    if let Some(descriptor) = descriptor {
        let descriptors = [descriptor];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
        sent = sendmsg(&stream, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL)?;
    }
    stream.write_all(&bytes[sent..])
}

/// Reads a message from a blocking stream; none if the other side closed it without sending one.
pub fn receive<T: DeserializeOwned>(stream: &mut UnixStream) -> io::Result<Option<T>> {
    let mut inbox = Inbox::default();
    let mut buffer = [0; 4096];
    loop {
        if let Some(message) = inbox.take()? {
            return Ok(Some(message));
        }
        match stream.read(&mut buffer) {
            Ok(0) if inbox.bytes.is_empty() => return Ok(None),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => inbox.bytes.extend_from_slice(&buffer[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// What has come of a message so far, for whoever reads from a stream that does not block.
#[derive(Debug, Default)]
pub struct Inbox {
    bytes: Vec<u8>,
    descriptor: Option<OwnedFd>,
}

impl Inbox {
    /// Reads once. Returns how much came; zero says that the other side has closed the stream.
    pub fn read(&mut self, stream: impl AsFd) -> io::Result<usize> {
        let mut buffer = [0; 4096];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let parts = &mut [IoSliceMut::new(&mut buffer)];
        let received = recvmsg(stream, parts, &mut control, RecvFlags::CMSG_CLOEXEC)?;
        // Without this the call would seem to have come without a namespace.
        if received.flags.contains(ReturnFlags::CTRUNC) {
            return Err(io::Error::other(
                "the descriptor that came with a call is lost: too many open files",
            ));
        }
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                // More than one is not expected; those are closed.
                for descriptor in descriptors {
                    self.descriptor.get_or_insert(descriptor);
                }
            }
        }
        self.bytes.extend_from_slice(&buffer[..received.bytes]);
        Ok(received.bytes)
    }

    /// The message, if all of it has come.
    pub fn take<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let Some((length, rest)) = self.bytes.split_first_chunk::<4>() else { return Ok(None) };
        let length = usize::try_from(u32::from_be_bytes(*length)).map_err(io::Error::other)?;
        if length > LONGEST {
            return Err(too_long(length));
        }
        let Some(text) = rest.get(..length) else { return Ok(None) };
        Ok(Some(serde_json::from_slice(text)?))
    }

    /// The descriptor that came beside it.
    pub fn descriptor(self) -> Option<OwnedFd> {
        self.descriptor
    }
}

fn too_long(length: usize) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("a message of {length} bytes; {LONGEST} are allowed"))
}
