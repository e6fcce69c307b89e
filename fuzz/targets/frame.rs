//! Any bytes, in any reads: the scanner and the message parser never panic, and find the same messages however the stream
//! was cut.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use ovsdb_core::frame::{FrameError, Scanner};
use ovsdb_core::message::{Message, write_echo_reply};

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    limit: u16,
    /// The sizes of the reads; the last read gets the rest.
    cuts: Vec<u8>,
    stream: &'a [u8],
}

fuzz_target!(|input: Input<'_>| {
    let limit = usize::from(input.limit);
    let whole = messages(limit, &[], input.stream);
    let cut = messages(limit, &input.cuts, input.stream);
    // How much of a message that is too long was seen before it was refused depends on the reads.
    if !matches!(
        (&whole.1, &cut.1),
        (Some(FrameError::TooLong { .. }), _) | (_, Some(FrameError::TooLong { .. }))
    ) {
        assert_eq!(whole, cut);
    }
});

/// The messages up to the first error, in words, and that error.
fn messages(limit: usize, cuts: &[u8], stream: &[u8]) -> (Vec<String>, Option<FrameError>) {
    let mut scanner = Scanner::new(limit);
    let (mut start, mut end) = (0, 0);
    let mut found = Vec::new();
    let mut cuts = cuts.iter();
    loop {
        match scanner.scan(&stream[start..end]) {
            Ok(Some(frame)) => {
                assert!(frame.len <= end - start && frame.len <= limit, "a frame of {} bytes", frame.len);
                let message = Message::parse(&frame, &stream[start..start + frame.len]);
                if let Ok(Message::Request { id, params, .. }) = message {
                    echo(id, params);
                }
                found.push(format!("{message:?}"));
                start += frame.len;
            }
            Ok(None) if end == stream.len() => return (found, None),
            Ok(None) => {
                end = cuts.next().map_or(stream.len(), |cut| (end + usize::from(*cut)).min(stream.len()));
            }
            Err(error) => return (found, Some(error)),
        }
    }
}

/// What a peer sent us and we repeat in an answer leaves that answer a message.
fn echo(id: &str, params: &str) {
    let mut reply = Vec::new();
    write_echo_reply(&mut reply, id, params);
    let frame = Scanner::new(reply.len()).scan(&reply).expect("a well-formed reply").expect("a whole reply");
    assert_eq!(frame.len, reply.len());
    assert_eq!(frame.member(&reply, "result"), Some(params.as_bytes()));
}
