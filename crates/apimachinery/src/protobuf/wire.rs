//! How protobuf is written: a message is a sequence of values, each after its field's number and how long it is.

use thiserror::Error;

/// Why bytes are not a message. The words are those of the decoders that Kubernetes generates.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum WireError {
    /// The bytes end before a value does.
    #[error("unexpected EOF")]
    Truncated,
    /// A number has more than 64 bits.
    #[error("proto: integer overflow")]
    Overflow,
    /// A length has more than 63 bits.
    #[error("proto: negative length found during unmarshaling")]
    Length,
    /// A field's number is none.
    #[error("proto: {message}: illegal tag {number} (wire type {tag})")]
    Tag {
        /// The message that the field would be in.
        message: &'static str,
        /// The field's number.
        number: i32,
        /// What the number was read from.
        tag: u64,
    },
    /// Nobody knows how long a value is.
    #[error("proto: illegal wireType {0}")]
    WireType(u64),
    /// A group ends that never began.
    #[error("proto: {0}: wiretype end group for non-group")]
    EndGroup(&'static str),
    /// A value is not of its field's type.
    #[error("proto: wrong wireType = {wire_type} for field {field}")]
    WrongType {
        /// What the value is.
        wire_type: u64,
        /// The field's name.
        field: &'static str,
    },
    /// Messages are in messages, deeper than any object is.
    #[error("exceeded max depth")]
    Depth,
    /// There are more messages than any object has.
    #[error("exceeded max number of messages")]
    TooMany,
    /// A number is none that JSON has.
    #[error("unsupported value: {0}")]
    Number(f64),
    /// A time is none that can be written.
    #[error("time {0} is out of range")]
    Time(i64),
    /// A number or text that is neither.
    #[error("impossible IntOrString.Type")]
    IntOrString,
    /// What should be JSON is none.
    #[error("{0}")]
    Json(String),
}

/// The value of a field, not knowing its type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum WireValue<'b> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'b [u8]),
    Fixed32,
}

impl<'b> WireValue<'b> {
    fn wire_type(self) -> u64 {
        match self {
            WireValue::Varint(_) => 0,
            WireValue::Fixed64(_) => 1,
            WireValue::Bytes(_) => 2,
            WireValue::Fixed32 => 5,
        }
    }

    fn wrong(self, field: &'static str) -> WireError {
        WireError::WrongType { wire_type: self.wire_type(), field }
    }

    /// A number or a flag.
    pub(super) fn varint(self, field: &'static str) -> Result<u64, WireError> {
        if let WireValue::Varint(number) = self { Ok(number) } else { Err(self.wrong(field)) }
    }

    /// A number with a fraction.
    pub(super) fn double(self, field: &'static str) -> Result<f64, WireError> {
        if let WireValue::Fixed64(bits) = self { Ok(f64::from_bits(bits)) } else { Err(self.wrong(field)) }
    }

    /// Text, bytes or a message.
    pub(super) fn bytes(self, field: &'static str) -> Result<&'b [u8], WireError> {
        if let WireValue::Bytes(bytes) = self { Ok(bytes) } else { Err(self.wrong(field)) }
    }
}

/// The values of a message, one after another.
pub(super) struct Fields<'b> {
    message: &'static str,
    left: &'b [u8],
}

impl<'b> Fields<'b> {
    /// `message` is its name, for errors.
    pub(super) fn of(message: &'static str, bytes: &'b [u8]) -> Self {
        Fields { message, left: bytes }
    }

    /// The next value and the number of its field; none at the end.
    pub(super) fn next(&mut self) -> Result<Option<(u32, WireValue<'b>)>, WireError> {
        while !self.left.is_empty() {
            let tag = varint(&mut self.left)?;
            // As the decoders of Kubernetes do, which drop what is above 32 bits.
            let number = (tag >> 3) as i32;
            if tag & 7 == 4 {
                return Err(WireError::EndGroup(self.message));
            }
            let Some(number) = u32::try_from(number).ok().filter(|number| *number > 0) else {
                return Err(WireError::Tag { message: self.message, number, tag });
            };
            if tag & 7 == 3 {
                self.skip_group()?;
                continue;
            }
            return Ok(Some((number, value(&mut self.left, tag & 7)?)));
        }
        Ok(None)
    }

    /// Skips what is up to the end of a group that has begun. No message of Kubernetes has one.
    fn skip_group(&mut self) -> Result<(), WireError> {
        let mut open = 1;
        while open > 0 {
            match varint(&mut self.left)? & 7 {
                3 => open += 1,
                4 => open -= 1,
                wire_type => {
                    value(&mut self.left, wire_type)?;
                }
            }
        }
        Ok(())
    }
}

/// The numbers of a field that has many in one value.
pub(super) fn packed(mut bytes: &[u8]) -> impl Iterator<Item = Result<u64, WireError>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let number = varint(&mut bytes);
        if number.is_err() {
            bytes = &[];
        }
        Some(number)
    })
}

fn value<'b>(left: &mut &'b [u8], wire_type: u64) -> Result<WireValue<'b>, WireError> {
    match wire_type {
        0 => Ok(WireValue::Varint(varint(left)?)),
        1 => {
            let (bits, rest) = left.split_first_chunk().ok_or(WireError::Truncated)?;
            *left = rest;
            Ok(WireValue::Fixed64(u64::from_le_bytes(*bits)))
        }
        2 => {
            let length = i64::try_from(varint(left)?).map_err(|_| WireError::Length)?;
            let length = usize::try_from(length).map_err(|_| WireError::Truncated)?;
            let (bytes, rest) = left.split_at_checked(length).ok_or(WireError::Truncated)?;
            *left = rest;
            Ok(WireValue::Bytes(bytes))
        }
        5 => {
            let (_, rest) = left.split_first_chunk::<4>().ok_or(WireError::Truncated)?;
            *left = rest;
            Ok(WireValue::Fixed32)
        }
        other => Err(WireError::WireType(other)),
    }
}

fn varint(left: &mut &[u8]) -> Result<u64, WireError> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = left.split_first().ok_or(WireError::Truncated)?;
        *left = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            return Ok(number);
        }
    }
    Err(WireError::Overflow)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> Result<Vec<(u32, WireValue<'_>)>, WireError> {
        let mut fields = Fields::of("Chart", bytes);
        let mut found = Vec::new();
        while let Some(field) = fields.next()? {
            found.push(field);
        }
        Ok(found)
    }

    #[test]
    fn values_are_read_whatever_their_type() {
        let bytes = [
            [0x08, 0x96, 0x01].as_slice(),
            &[0x11, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f],
            &[0x1a, 2, b'o', b'k'],
            &[0x25, 1, 2, 3, 4],
            // A group with a group in it.
            &[0x2b, 0x08, 0x01, 0x33, 0x34, 0x2c],
            &[0x30, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
        ]
        .concat();
        let expected = [
            (1, WireValue::Varint(150)),
            (2, WireValue::Fixed64(1f64.to_bits())),
            (3, WireValue::Bytes(b"ok")),
            (4, WireValue::Fixed32),
            (6, WireValue::Varint(u64::MAX)),
        ];
        assert_eq!(all(&bytes).unwrap(), expected);
        assert_eq!(packed(&[1, 0x96, 0x01]).collect::<Result<Vec<_>, _>>().unwrap(), [1, 150]);
    }

    #[test]
    fn what_is_wrong_is_said_as_kubernetes_says_it() {
        let cases: [(&[u8], &str); 9] = [
            (&[0x08], "unexpected EOF"),
            (&[0x0a, 5, b'x'], "unexpected EOF"),
            (&[0x09, 1, 2], "unexpected EOF"),
            (&[0x0b, 0x08], "unexpected EOF"),
            (&[0x80; 11], "proto: integer overflow"),
            (
                &[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
                "proto: negative length found during unmarshaling",
            ),
            (&[0x00, 0x00], "proto: Chart: illegal tag 0 (wire type 0)"),
            (&[0x0f], "proto: illegal wireType 7"),
            (&[0x0c], "proto: Chart: wiretype end group for non-group"),
        ];
        for (bytes, expected) in cases {
            assert_eq!(all(bytes).unwrap_err().to_string(), expected, "{bytes:?}");
        }
        assert_eq!(packed(&[0x80]).collect::<Vec<_>>(), [Err(WireError::Truncated)]);
        assert!(WireValue::Varint(1).bytes("Name").is_err());
    }
}
