//! Finds JSON-RPC messages in a byte stream.
//!
//! [`Scanner`] looks at every byte once, however the stream is cut into reads, and notes where the members of the
//! outermost object are. Their values are parsed later, once, by whoever knows their types: a dump of a large database
//! is a single message, and nothing here copies it or walks it twice.

use std::ops::Range;

/// The deepest nesting that a message may have. OVSDB itself needs about ten.
const MAX_DEPTH: u32 = 64;

/// The bytes are not a JSON-RPC message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The message is longer than the connection allows.
    #[error("a message is longer than {limit} bytes")]
    TooLong {
        /// The limit.
        limit: usize,
    },
    /// The message is nested deeper than any OVSDB message.
    #[error("a message is nested deeper than {MAX_DEPTH} levels, at byte {offset}")]
    TooDeep {
        /// Where in the message.
        offset: usize,
    },
    /// Something else than JSON allows.
    #[error("found byte {found:#04x} at byte {offset} of a message, expected {expected}")]
    Unexpected {
        /// The offending byte.
        found: u8,
        /// Where in the message.
        offset: usize,
        /// What JSON allows there.
        expected: &'static str,
    },
}

/// A whole message at the start of the buffer that was scanned.
#[derive(Debug, PartialEq, Eq)]
pub struct Frame {
    /// How many bytes of the buffer the message takes.
    pub len: usize,
    members: Vec<(Range<usize>, Range<usize>)>,
}

impl Frame {
    /// The raw JSON of the outermost object's member `name`; the last one if there are several.
    pub fn member<'a>(&self, buffer: &'a [u8], name: &str) -> Option<&'a [u8]> {
        let is_it = |key: &Range<usize>| buffer.get(key.clone()) == Some(name.as_bytes());
        let (_, value) = self.members.iter().rev().find(|(key, _)| is_it(key))?;
        buffer.get(value.clone())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Start,
    FirstKeyOrEnd,
    Key,
    InKey,
    Colon,
    Value,
    InString,
    InScalar,
    Nested,
    NestedString,
    CommaOrEnd,
}

/// Scans a stream for messages, resuming where the last read ended.
#[derive(Debug)]
pub struct Scanner {
    limit: usize,
    position: usize,
    state: State,
    /// A backslash was the last byte seen inside a string.
    escaped: bool,
    depth: u32,
    /// One bit per open bracket, the innermost lowest: 1 for an object, 0 for an array.
    brackets: u64,
    key_start: usize,
    value_start: usize,
    key: Range<usize>,
    members: Vec<(Range<usize>, Range<usize>)>,
}

impl Scanner {
    /// A scanner that refuses messages of more than `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Scanner {
            limit,
            position: 0,
            state: State::Start,
            escaped: false,
            depth: 0,
            brackets: 0,
            key_start: 0,
            value_start: 0,
            key: 0..0,
            members: Vec::new(),
        }
    }

    /// Looks at the bytes of `buffer` that the last call did not see. `buffer` has to begin where the message begins;
    /// after a frame was returned, that is `frame.len` bytes further on.
    pub fn scan(&mut self, buffer: &[u8]) -> Result<Option<Frame>, FrameError> {
        while let Some(&byte) = buffer.get(self.position) {
            match self.state {
                State::Nested => self.nested(buffer)?,
                State::NestedString => self.string(buffer, State::Nested),
                State::InString => {
                    self.string(buffer, State::CommaOrEnd);
                    if self.state == State::CommaOrEnd {
                        self.value_ends_at(self.position);
                    }
                }
                State::InKey => {
                    self.string(buffer, State::Colon);
                    if self.state == State::Colon {
                        self.key = self.key_start..self.position - 1;
                    }
                }
                State::InScalar if byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.') => {
                    self.position += 1;
                }
                State::InScalar => {
                    self.value_ends_at(self.position);
                    self.state = State::CommaOrEnd;
                }
                _ if matches!(byte, b' ' | b'\t' | b'\n' | b'\r') => self.position += 1,
                State::Start if byte == b'{' => self.step(State::FirstKeyOrEnd),
                State::FirstKeyOrEnd | State::Key if byte == b'"' => {
                    self.step(State::InKey);
                    self.key_start = self.position;
                }
                State::Colon if byte == b':' => self.step(State::Value),
                State::Value => {
                    self.value_start = self.position;
                    match byte {
                        b'{' | b'[' => self.state = State::Nested,
                        b'"' => self.step(State::InString),
                        b'-' | b'0'..=b'9' | b't' | b'f' | b'n' => self.step(State::InScalar),
                        _ => return Err(self.unexpected(byte, "a value")),
                    }
                }
                State::CommaOrEnd if byte == b',' => self.step(State::Key),
                State::FirstKeyOrEnd | State::CommaOrEnd if byte == b'}' => {
                    if self.position >= self.limit {
                        return Err(FrameError::TooLong { limit: self.limit });
                    }
                    let frame = Frame { len: self.position + 1, members: std::mem::take(&mut self.members) };
                    *self = Scanner::new(self.limit);
                    return Ok(Some(frame));
                }
                State::Start => return Err(self.unexpected(byte, "an object")),
                State::FirstKeyOrEnd => return Err(self.unexpected(byte, "a member's name or }")),
                State::Key => return Err(self.unexpected(byte, "a member's name")),
                State::Colon => return Err(self.unexpected(byte, "a colon")),
                State::CommaOrEnd => return Err(self.unexpected(byte, "a comma or }")),
            }
            if self.position > self.limit {
                return Err(FrameError::TooLong { limit: self.limit });
            }
        }
        if buffer.len() > self.limit {
            return Err(FrameError::TooLong { limit: self.limit });
        }
        Ok(None)
    }

    /// Everything inside an array or object that is a member's value: brackets have to match, strings are skipped, and
    /// the rest is left to the parser.
    fn nested(&mut self, buffer: &[u8]) -> Result<(), FrameError> {
        while let Some(&byte) = buffer.get(self.position) {
            match byte {
                b'"' => {
                    self.position += 1;
                    self.string(buffer, State::Nested);
                    if self.state != State::Nested {
                        return Ok(());
                    }
                    continue;
                }
                b'{' | b'[' => {
                    if self.depth == MAX_DEPTH {
                        return Err(FrameError::TooDeep { offset: self.position });
                    }
                    self.depth += 1;
                    self.brackets = self.brackets << 1 | u64::from(byte == b'{');
                }
                b'}' | b']' => {
                    if (self.brackets & 1 == 1) != (byte == b'}') {
                        return Err(self.unexpected(byte, "the other closing bracket"));
                    }
                    self.depth -= 1;
                    self.brackets >>= 1;
                    if self.depth == 0 {
                        self.step(State::CommaOrEnd);
                        self.value_ends_at(self.position);
                        return Ok(());
                    }
                }
                _ => {}
            }
            self.position += 1;
        }
        Ok(())
    }

    /// The rest of a string; `then` is the state behind it. Stays in a string state at the end of the buffer.
    fn string(&mut self, buffer: &[u8], then: State) {
        if then == State::Nested {
            self.state = State::NestedString;
        }
        if self.escaped {
            self.escaped = false;
            self.position += 1;
        }
        loop {
            let rest = buffer.get(self.position..).unwrap_or_default();
            match memchr::memchr2(b'"', b'\\', rest) {
                None => self.position = buffer.len(),
                Some(at) if rest[at] == b'"' => {
                    self.position += at + 1;
                    self.state = then;
                }
                Some(at) if at + 1 < rest.len() => {
                    self.position += at + 2;
                    continue;
                }
                Some(_) => {
                    self.position = buffer.len();
                    self.escaped = true;
                }
            }
            return;
        }
    }

    fn step(&mut self, state: State) {
        self.position += 1;
        self.state = state;
    }

    fn value_ends_at(&mut self, end: usize) {
        self.members.push((self.key.clone(), self.value_start..end));
    }

    fn unexpected(&self, found: u8, expected: &'static str) -> FrameError {
        FrameError::Unexpected { found, offset: self.position, expected }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMIT: usize = 1 << 20;

    fn whole(json: &[u8]) -> Result<Option<Frame>, FrameError> {
        Scanner::new(LIMIT).scan(json)
    }

    #[test]
    fn members_are_found_wherever_they_stand() {
        let json = br#" {"id" : 7,"result":[{"a\"}":["]"]}], "error":null ,"method":"x\\"}{"id":8}"#;
        let frame = whole(json).unwrap().unwrap();
        assert_eq!(frame.member(json, "id"), Some(&b"7"[..]));
        assert_eq!(frame.member(json, "result"), Some(&br#"[{"a\"}":["]"]}]"#[..]));
        assert_eq!(frame.member(json, "error"), Some(&b"null"[..]));
        assert_eq!(frame.member(json, "method"), Some(&br#""x\\""#[..]));
        assert_eq!(frame.member(json, "params"), None);
        assert_eq!(whole(&json[frame.len..]).unwrap().unwrap().len, 8);
    }

    #[test]
    fn errors_say_what_and_where() {
        let message = |json: &[u8]| whole(json).unwrap_err().to_string();
        assert_eq!(message(b"[1]"), "found byte 0x5b at byte 0 of a message, expected an object");
        assert_eq!(message(b"{\"a\" 1}"), "found byte 0x31 at byte 5 of a message, expected a colon");
        assert_eq!(
            message(b"{\"a\":[}"),
            "found byte 0x7d at byte 6 of a message, expected the other closing bracket"
        );
        assert_eq!(message(b"{\"a\":?"), "found byte 0x3f at byte 5 of a message, expected a value");
        assert_eq!(
            message(b"{\"a\":1,}"),
            "found byte 0x7d at byte 7 of a message, expected a member's name"
        );
        let deep = [b"{\"a\":".to_vec(), vec![b'['; 100]].concat();
        assert_eq!(message(&deep), "a message is nested deeper than 64 levels, at byte 69");
    }

    #[test]
    fn a_message_may_not_exceed_the_limit() {
        let mut scanner = Scanner::new(16);
        assert_eq!(scanner.scan(b"{\"a\":\"0123456789"), Ok(None));
        assert_eq!(scanner.scan(b"{\"a\":\"0123456789a"), Err(FrameError::TooLong { limit: 16 }));
        assert_eq!(Scanner::new(16).scan(&[b' '; 20]), Err(FrameError::TooLong { limit: 16 }));
        assert_eq!(Scanner::new(1).scan(b"{}"), Err(FrameError::TooLong { limit: 1 }));
        assert!(Scanner::new(2).scan(b"{}").unwrap().is_some());
    }

    fn json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            "[ -~\\\\\"\u{e9}]{0,12}".prop_map(Into::into),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
                prop::collection::hash_map("[a-z\"\\\\]{0,4}", inner, 0..6)
                    .prop_map(|m| serde_json::Value::Object(m.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_way_of_cutting_a_stream_gives_the_same_messages(
            messages in prop::collection::vec(prop::collection::hash_map("[a-z\"\\\\]{1,4}", json(), 0..4), 1..4),
            pretty in any::<bool>(),
            cuts in prop::collection::vec(1_usize..9, 1..20),
        ) {
            let mut stream = Vec::new();
            for message in &messages {
                let text = if pretty { serde_json::to_vec_pretty(message) } else { serde_json::to_vec(message) };
                stream.extend(text.unwrap());
            }
            let mut found = Vec::new();
            let (mut scanner, mut start, mut end) = (Scanner::new(LIMIT), 0, 0);
            let mut cuts = cuts.iter().cycle();
            while end < stream.len() {
                end = (end + cuts.next().unwrap()).min(stream.len());
                while let Some(frame) = scanner.scan(&stream[start..end]).unwrap() {
                    let buffer = &stream[start..start + frame.len];
                    let message: std::collections::HashMap<String, serde_json::Value> =
                        serde_json::from_slice(buffer).unwrap();
                    for (key, value) in &message {
                        let raw_key = serde_json::to_string(key).unwrap();
                        let raw = frame.member(buffer, &raw_key[1..raw_key.len() - 1]).unwrap();
                        prop_assert_eq!(&serde_json::from_slice::<serde_json::Value>(raw).unwrap(), value);
                    }
                    found.push(message);
                    start += frame.len;
                }
            }
            prop_assert_eq!(found, messages);
        }

        #[test]
        fn arbitrary_bytes_never_panic(chunks in prop::collection::vec(any::<Vec<u8>>(), 0..4)) {
            let (mut scanner, mut buffer) = (Scanner::new(64), Vec::new());
            for chunk in chunks {
                buffer.extend(chunk);
                match scanner.scan(&buffer) {
                    Ok(Some(frame)) => drop(buffer.drain(..frame.len)),
                    Ok(None) => {}
                    Err(_) => return Ok(()),
                }
            }
        }
    }
}
