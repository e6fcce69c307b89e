//! Why a switch refused a request.

use std::fmt;

use crate::message::MessageError;

/// A switch's error message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorMessage {
    /// What is wrong.
    pub code: ErrorCode,
    /// Mostly the beginning of the request; a text when the handshake failed.
    pub data: Vec<u8>,
}

/// What is wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorCode {
    /// One of OpenFlow's errors.
    Standard {
        /// The kind of error.
        kind: u16,
        /// Which error of that kind.
        code: u16,
    },
    /// One that somebody else defined.
    Experimenter {
        /// Who.
        experimenter: u32,
        /// Which.
        code: u16,
    },
}

/// The kind that says that an experimenter and its code follow.
const EXPERIMENTER: u16 = 0xffff;

impl ErrorCode {
    /// No version that both know.
    pub const INCOMPATIBLE: ErrorCode = ErrorCode::Standard { kind: 0, code: 0 };
    /// The switch does not know such a message.
    pub const BAD_TYPE: ErrorCode = ErrorCode::Standard { kind: 1, code: 1 };
    /// The switch does not know this experimenter.
    pub const BAD_EXPERIMENTER: ErrorCode = ErrorCode::Standard { kind: 1, code: 3 };
    /// The switch knows the experimenter and not this message: Open vSwitch before 3.1 answers so to [`CtFlush`](crate::CtFlush).
    pub const BAD_EXPERIMENTER_TYPE: ErrorCode = ErrorCode::Standard { kind: 1, code: 4 };
    /// The message has a length that its kind cannot have.
    pub const BAD_LENGTH: ErrorCode = ErrorCode::Standard { kind: 1, code: 6 };

    /// Its name in the specification, for the errors that our requests can meet.
    pub fn name(self) -> Option<&'static str> {
        Some(match self {
            ErrorCode::Standard { kind: 0, code } => match code {
                0 => "HELLO_FAILED: INCOMPATIBLE",
                1 => "HELLO_FAILED: EPERM",
                _ => return None,
            },
            ErrorCode::Standard { kind: 1, code } => match code {
                0 => "BAD_REQUEST: BAD_VERSION",
                1 => "BAD_REQUEST: BAD_TYPE",
                3 => "BAD_REQUEST: BAD_EXPERIMENTER",
                4 => "BAD_REQUEST: BAD_EXPERIMENTER_TYPE",
                5 => "BAD_REQUEST: EPERM",
                6 => "BAD_REQUEST: BAD_LEN",
                _ => return None,
            },
            // Open vSwitch says it this way up to OpenFlow 1.3, and the next way since.
            ErrorCode::Standard { kind: 13, code } => match code {
                2 => "TABLE_FEATURES_FAILED: BAD_TYPE",
                3 => "TABLE_FEATURES_FAILED: BAD_LEN",
                4 => "TABLE_FEATURES_FAILED: BAD_ARGUMENT",
                _ => return None,
            },
            ErrorCode::Standard { kind: 14, code } => match code {
                0 => "BAD_PROPERTY: BAD_TYPE",
                1 => "BAD_PROPERTY: BAD_LEN",
                2 => "BAD_PROPERTY: BAD_VALUE",
                _ => return None,
            },
            ErrorCode::Experimenter { experimenter: crate::message::NICIRA, code: 4 } => {
                "NICIRA: MUST_BE_ZERO"
            }
            _ => return None,
        })
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = self.name() {
            write!(f, "{name} ")?;
        }
        match self {
            ErrorCode::Standard { kind, code } => write!(f, "(type {kind}, code {code})"),
            ErrorCode::Experimenter { experimenter, code } => {
                write!(f, "(experimenter {experimenter:#010x}, type {code})")
            }
        }
    }
}

impl ErrorMessage {
    /// Reads the body of an error message.
    pub(crate) fn read(body: &[u8]) -> Result<Self, MessageError> {
        let short = MessageError::Length { what: "an error", length: body.len() };
        let (&[a, b, c, d], rest) = body.split_first_chunk().ok_or(short)?;
        let (kind, code) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        if kind != EXPERIMENTER {
            return Ok(ErrorMessage { code: ErrorCode::Standard { kind, code }, data: rest.to_vec() });
        }
        let (experimenter, rest) = rest.split_first_chunk().ok_or(short)?;
        let experimenter = u32::from_be_bytes(*experimenter);
        Ok(ErrorMessage { code: ErrorCode::Experimenter { experimenter, code }, data: rest.to_vec() })
    }

    /// Appends the body of the message.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match self.code {
            ErrorCode::Standard { kind, code } => {
                out.extend(kind.to_be_bytes());
                out.extend(code.to_be_bytes());
            }
            ErrorCode::Experimenter { experimenter, code } => {
                out.extend(EXPERIMENTER.to_be_bytes());
                out.extend(code.to_be_bytes());
                out.extend(experimenter.to_be_bytes());
            }
        }
        out.extend(&self.data);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_that_we_know_is_shown_by_name_and_any_other_by_number() {
        assert_eq!(
            ErrorCode::BAD_EXPERIMENTER_TYPE.to_string(),
            "BAD_REQUEST: BAD_EXPERIMENTER_TYPE (type 1, code 4)"
        );
        assert_eq!(ErrorCode::Standard { kind: 77, code: 3 }.to_string(), "(type 77, code 3)");
        let must_be_zero = ErrorMessage::read(&[0xff, 0xff, 0, 4, 0, 0, 0x23, 0x20, 1, 2]).unwrap();
        assert_eq!(must_be_zero.code.to_string(), "NICIRA: MUST_BE_ZERO (experimenter 0x00002320, type 4)");
        assert_eq!(must_be_zero.data, [1, 2]);
    }

    #[test]
    fn an_error_that_is_cut_short_is_refused() {
        assert!(ErrorMessage::read(&[0, 1, 0]).is_err());
        assert!(ErrorMessage::read(&[0xff, 0xff, 0, 4, 0, 0, 0x23]).is_err());
    }
}
