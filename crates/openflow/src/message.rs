//! OpenFlow's messages: those that every connection needs. All others are there as bytes.

use std::fmt;

use crate::error_message::ErrorMessage;
use crate::hello::{Versions, read_hello, write_hello};

/// How many bytes every message begins with: version, type, length and transaction id.
pub const HEADER_LENGTH: usize = 8;

/// The experimenter whose extensions Open vSwitch has.
pub const NICIRA: u32 = 0x0000_2320;

/// A transaction id: an answer has that of its request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Xid(pub u32);

impl fmt::Display for Xid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// A message that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// A message is too short or too long for what it is.
    #[error("{what} cannot have a body of {length} bytes")]
    Length {
        /// What it is.
        what: &'static str,
        /// How long its body is.
        length: usize,
    },
    /// A property does not end where the message does, or its value has a wrong length.
    #[error("a property has a wrong length")]
    Property,
    /// A message that flushes connections has something that nobody knows, or that contradicts itself.
    #[error("a message that flushes connections {reason}")]
    CtFlush {
        /// What is wrong.
        reason: &'static str,
    },
}

/// A message that is to be sent is longer than a message can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message of {length} bytes is too long: the header cannot say more than 65535")]
pub struct TooLong {
    /// How long it would be.
    pub length: usize,
}

/// A message without its length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// The version that its header has.
    pub version: u8,
    /// Its transaction id.
    pub xid: Xid,
    /// What it says.
    pub body: Body<'a>,
}

/// What a message says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// The first message of either side: which versions it speaks.
    Hello(Versions),
    /// A request was refused.
    Error(ErrorMessage),
    /// Asks for the same bytes back.
    EchoRequest(&'a [u8]),
    /// The bytes of an echo request.
    EchoReply(&'a [u8]),
    /// An extension.
    Experimenter {
        /// Whose.
        experimenter: u32,
        /// Which of its messages.
        subtype: u32,
        /// What follows.
        body: &'a [u8],
    },
    /// Asks for an answer once everything before it is done.
    BarrierRequest,
    /// Everything before the request is done.
    BarrierReply,
    /// Any other message.
    Other {
        /// Its type.
        kind: u8,
        /// What follows the header.
        body: &'a [u8],
    },
}

const HELLO: u8 = 0;
const ERROR: u8 = 1;
const ECHO_REQUEST: u8 = 2;
const ECHO_REPLY: u8 = 3;
const EXPERIMENTER: u8 = 4;
const BARRIER_REQUEST: u8 = 20;
const BARRIER_REPLY: u8 = 21;

impl<'a> Message<'a> {
    /// Reads a whole message, as [`Frames`](crate::frame::Frames) finds them.
    pub fn read(frame: &'a [u8]) -> Result<Self, MessageError> {
        let short = MessageError::Length { what: "a message", length: frame.len() };
        let (&[version, kind, _, _, a, b, c, d], body) =
            frame.split_first_chunk::<HEADER_LENGTH>().ok_or(short)?;
        let xid = Xid(u32::from_be_bytes([a, b, c, d]));
        let empty = |what, message| match body {
            [] => Ok(message),
            _ => Err(MessageError::Length { what, length: body.len() }),
        };
        let body = match kind {
            HELLO => Body::Hello(read_hello(version, body)?),
            ERROR => Body::Error(ErrorMessage::read(body)?),
            ECHO_REQUEST => Body::EchoRequest(body),
            ECHO_REPLY => Body::EchoReply(body),
            EXPERIMENTER => read_experimenter(body)?,
            BARRIER_REQUEST => empty("a barrier request", Body::BarrierRequest)?,
            BARRIER_REPLY => empty("a barrier reply", Body::BarrierReply)?,
            kind => Body::Other { kind, body },
        };
        Ok(Message { version, xid, body })
    }

    /// Appends the message. When it is too long, nothing is appended.
    pub fn write(&self, out: &mut Vec<u8>) -> Result<(), TooLong> {
        let start = out.len();
        let Xid(xid) = self.xid;
        out.extend([self.version, self.body.kind(), 0, 0]);
        out.extend(xid.to_be_bytes());
        self.body.write(out);
        let length = out.len() - start;
        let Ok(bytes) = u16::try_from(length).map(u16::to_be_bytes) else {
            out.truncate(start);
            return Err(TooLong { length });
        };
        out[start + 2..start + 4].copy_from_slice(&bytes);
        Ok(())
    }
}

fn read_experimenter(body: &[u8]) -> Result<Body<'_>, MessageError> {
    let short = MessageError::Length { what: "an experimenter's message", length: body.len() };
    let (experimenter, rest) = body.split_first_chunk().ok_or(short)?;
    let (subtype, rest) = rest.split_first_chunk().ok_or(short)?;
    Ok(Body::Experimenter {
        experimenter: u32::from_be_bytes(*experimenter),
        subtype: u32::from_be_bytes(*subtype),
        body: rest,
    })
}

impl Body<'_> {
    /// The message's type.
    pub fn kind(&self) -> u8 {
        match self {
            Body::Hello(_) => HELLO,
            Body::Error(_) => ERROR,
            Body::EchoRequest(_) => ECHO_REQUEST,
            Body::EchoReply(_) => ECHO_REPLY,
            Body::Experimenter { .. } => EXPERIMENTER,
            Body::BarrierRequest => BARRIER_REQUEST,
            Body::BarrierReply => BARRIER_REPLY,
            Body::Other { kind, .. } => *kind,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Body::Hello(versions) => write_hello(out, *versions),
            Body::Error(error) => error.write(out),
            Body::EchoRequest(body) | Body::EchoReply(body) | Body::Other { body, .. } => out.extend(*body),
            Body::Experimenter { experimenter, subtype, body } => {
                out.extend(experimenter.to_be_bytes());
                out.extend(subtype.to_be_bytes());
                out.extend(*body);
            }
            Body::BarrierRequest | Body::BarrierReply => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::error_message::ErrorCode;

    fn written(message: &Message<'_>) -> Vec<u8> {
        let mut out = vec![1, 2, 3];
        message.write(&mut out).unwrap();
        assert_eq!(out[..3], [1, 2, 3]);
        out.split_off(3)
    }

    #[test]
    fn our_hello_is_the_one_of_the_specification() {
        let hello = Message { version: 6, xid: Xid(1), body: Body::Hello(Versions::OURS) };
        assert_eq!(written(&hello), [6, 0, 0, 16, 0, 0, 0, 1, 0, 1, 0, 8, 0, 0, 0, 0x70]);
    }

    #[test]
    fn a_message_that_the_header_cannot_describe_is_not_written() {
        let body = vec![0; 65528];
        let mut out = vec![9];
        let message = |body| Message { version: 6, xid: Xid(1), body: Body::EchoRequest(body) };
        assert_eq!(message(&body).write(&mut out), Err(TooLong { length: 65536 }));
        assert_eq!(out, [9]);
        message(&body[1..]).write(&mut out).unwrap();
        assert_eq!(out.len(), 65536);
    }

    fn error_code() -> impl Strategy<Value = ErrorCode> {
        prop_oneof![
            (0..0xffff_u16, any::<u16>()).prop_map(|(kind, code)| ErrorCode::Standard { kind, code }),
            (any::<u32>(), any::<u16>())
                .prop_map(|(experimenter, code)| ErrorCode::Experimenter { experimenter, code }),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(
            xid: u32, number: u32, subtype: u32, kind in 22..=u8::MAX, code in error_code(), bytes: Vec<u8>,
        ) {
            let bytes = bytes.as_slice();
            for body in [
                Body::Hello(Versions::OURS),
                Body::Error(ErrorMessage { code, data: bytes.to_vec() }),
                Body::EchoRequest(bytes),
                Body::EchoReply(bytes),
                Body::Experimenter { experimenter: number, subtype, body: bytes },
                Body::BarrierRequest,
                Body::BarrierReply,
                Body::Other { kind, body: bytes },
            ] {
                let message = Message { version: 6, xid: Xid(xid), body };
                let written = written(&message);
                prop_assert_eq!(Message::read(&written), Ok(message));
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(mut frame: Vec<u8>, kind in 0..24_u8) {
            let _ = Message::read(&frame);
            if let Some(byte) = frame.get_mut(1) {
                *byte = kind;
            }
            let _ = Message::read(&frame);
        }
    }
}
