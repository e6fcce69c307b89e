//! Finds OpenFlow messages in a byte stream.

use crate::message::HEADER_LENGTH;

/// The bytes are not an OpenFlow message that we accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The message says that it is shorter than its own header.
    #[error("a message says that it has {length} bytes, fewer than its header")]
    TooShort {
        /// What it says.
        length: u16,
    },
    /// The message is longer than the connection allows.
    #[error("a message says that it has {length} bytes, and at most {limit} are accepted")]
    TooLong {
        /// What it says.
        length: u16,
        /// The limit.
        limit: u16,
    },
}

/// Cuts a stream into messages, however it was cut into reads. It keeps the bytes of messages that are not complete.
#[derive(Debug)]
pub struct Frames {
    limit: u16,
    buffer: Vec<u8>,
    /// Where the first message in `buffer` begins that was not returned yet.
    start: usize,
}

impl Frames {
    /// Refuses messages of more than `limit` bytes. No message can have more than 65,535.
    pub fn new(limit: u16) -> Self {
        Frames { limit, buffer: Vec::new(), start: 0 }
    }

    /// Takes what was read.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.start);
        self.start = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// The next complete message. A length that makes no sense is refused as soon as it is there: nobody waits for the rest.
    pub fn next_frame(&mut self) -> Result<Option<Vec<u8>>, FrameError> {
        let unread = self.buffer.get(self.start..).unwrap_or_default();
        let Some(&[high, low]) = unread.get(2..4) else { return Ok(None) };
        let length = u16::from_be_bytes([high, low]);
        if usize::from(length) < HEADER_LENGTH {
            return Err(FrameError::TooShort { length });
        }
        if length > self.limit {
            return Err(FrameError::TooLong { length, limit: self.limit });
        }
        let Some(frame) = unread.get(..length.into()) else { return Ok(None) };
        let frame = frame.to_vec();
        self.start += frame.len();
        Ok(Some(frame))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frames(limit: u16, reads: &[&[u8]]) -> (Vec<Vec<u8>>, Option<FrameError>) {
        let mut frames = Frames::new(limit);
        let mut found = Vec::new();
        for read in reads {
            frames.push(read);
            loop {
                match frames.next_frame() {
                    Ok(Some(frame)) => found.push(frame),
                    Ok(None) => break,
                    Err(error) => return (found, Some(error)),
                }
            }
        }
        (found, None)
    }

    #[test]
    fn a_message_is_returned_once_it_is_complete() {
        let stream = [6, 2, 0, 10, 0, 0, 0, 1, 7, 7, 6, 3, 0, 8, 0, 0, 0, 2, 6];
        let (found, error) = frames(100, &[&stream[..9], &stream[9..]]);
        assert_eq!(found, [&stream[..10], &stream[10..18]]);
        assert_eq!(error, None);
    }

    #[test]
    fn lengths_that_make_no_sense_are_refused_before_the_rest_is_there() {
        for length in 0..8 {
            assert_eq!(
                frames(100, &[&[6, 2, 0, length]]).1,
                Some(FrameError::TooShort { length: length.into() })
            );
        }
        assert_eq!(frames(100, &[&[6, 2, 0, 101]]).1, Some(FrameError::TooLong { length: 101, limit: 100 }));
        assert_eq!(frames(100, &[&[6, 2, 0, 100]]).1, None);
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_reads_are_cut_into_the_same_messages(
            stream in proptest::collection::vec(prop_oneof![3 => 0..16u8, 1 => any::<u8>()], 0..200),
            cut in any::<prop::sample::Index>(),
            limit: u16,
        ) {
            let cut = cut.index(stream.len() + 1);
            let whole = frames(limit, &[&stream]);
            prop_assert_eq!(&whole, &frames(limit, &[&stream[..cut], &stream[cut..]]));
            let bytes: Vec<&[u8]> = stream.chunks(1).collect();
            prop_assert_eq!(&whole, &frames(limit, &bytes));
            prop_assert!(stream.starts_with(&whole.0.concat()));
        }
    }
}
