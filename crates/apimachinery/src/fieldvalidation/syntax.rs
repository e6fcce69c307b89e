//! What is wrong with JSON, in the words of Go's decoder, which clients of Kubernetes know.

use apischema::go_text;

/// Go gives up where things nest this deep.
const MAX_DEPTH: usize = 10_000;

/// The message for a text that could not be read as JSON.
pub fn syntax_error(text: &[u8]) -> String {
    match (Scanner { text, at: 0 }).scan() {
        Err(message) => message,
        // Correct, so it can only be too deep for the reader.
        Ok(()) => "exceeded max depth".to_owned(),
    }
}

struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
}

/// What a bracket that is open holds.
#[derive(Clone, Copy, PartialEq)]
enum Container {
    Array,
    Object,
}

impl Scanner<'_> {
    /// Reads one value and what may follow it. Iterative: the text may nest as deep as it likes.
    fn scan(&mut self) -> Result<(), String> {
        let mut open: Vec<Container> = Vec::new();
        'value: loop {
            match self.next()? {
                b'{' => {
                    open.push(Container::Object);
                    if open.len() > MAX_DEPTH {
                        return Err("exceeded max depth".to_owned());
                    }
                    if self.peek() == Some(b'}') {
                        self.at += 1;
                        open.pop();
                    } else {
                        self.key()?;
                        continue 'value;
                    }
                }
                b'[' => {
                    open.push(Container::Array);
                    if open.len() > MAX_DEPTH {
                        return Err("exceeded max depth".to_owned());
                    }
                    if self.peek() == Some(b']') {
                        self.at += 1;
                        open.pop();
                    } else {
                        continue 'value;
                    }
                }
                b'"' => self.string()?,
                b't' => self.literal("true")?,
                b'f' => self.literal("false")?,
                b'n' => self.literal("null")?,
                b'-' => {
                    let first = self.byte("in numeric literal", |byte| byte.is_ascii_digit())?;
                    self.number(first)?;
                }
                digit @ b'0'..=b'9' => self.number(digit)?,
                other => return Err(self.invalid(other, "looking for beginning of value")),
            }
            // A value has ended; so may what holds it.
            loop {
                match open.last() {
                    None => {
                        return match self.peek() {
                            None => Ok(()),
                            Some(other) => Err(self.invalid(other, "after top-level value")),
                        };
                    }
                    Some(Container::Array) => match self.next()? {
                        b',' => continue 'value,
                        b']' => open.pop(),
                        other => return Err(self.invalid(other, "after array element")),
                    },
                    Some(Container::Object) => match self.next()? {
                        b',' => {
                            self.key()?;
                            continue 'value;
                        }
                        b'}' => open.pop(),
                        other => return Err(self.invalid(other, "after object key:value pair")),
                    },
                };
            }
        }
    }

    fn key(&mut self) -> Result<(), String> {
        const CONTEXT: &str = "looking for beginning of object key string";
        match self.next()? {
            b'"' => self.string()?,
            other => return Err(self.invalid(other, CONTEXT)),
        }
        match self.next()? {
            b':' => Ok(()),
            other => Err(self.invalid(other, "after object key")),
        }
    }

    fn string(&mut self) -> Result<(), String> {
        loop {
            match self.any()? {
                b'"' => return Ok(()),
                b'\\' => match self.any()? {
                    b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => {}
                    b'u' => {
                        for _ in 0..4 {
                            self.byte("in \\u hexadecimal character escape", |byte| {
                                byte.is_ascii_hexdigit()
                            })?;
                        }
                    }
                    other => return Err(self.invalid(other, "in string escape code")),
                },
                control @ ..0x20 => return Err(self.invalid(control, "in string literal")),
                _ => {}
            }
        }
    }

    fn literal(&mut self, word: &str) -> Result<(), String> {
        for expected in word.bytes().skip(1) {
            let found = self.any()?;
            if found != expected {
                let context = format!("in literal {word} (expecting '{}')", char::from(expected));
                return Err(self.invalid(found, &context));
            }
        }
        Ok(())
    }

    /// The rest of a number. What cannot go on with it is what follows it.
    fn number(&mut self, first: u8) -> Result<(), String> {
        if first != b'0' {
            self.digits();
        }
        if self.text.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.byte("after decimal point in numeric literal", |byte| byte.is_ascii_digit())?;
            self.digits();
        }
        if let Some(b'e' | b'E') = self.text.get(self.at) {
            self.at += 1;
            if let Some(b'+' | b'-') = self.text.get(self.at) {
                self.at += 1;
            }
            self.byte("in exponent of numeric literal", |byte| byte.is_ascii_digit())?;
            self.digits();
        }
        Ok(())
    }

    fn digits(&mut self) {
        while self.text.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
    }

    /// The next byte that is not space; stays before it.
    fn peek(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.text.get(self.at) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    /// The next byte that is not space.
    fn next(&mut self) -> Result<u8, String> {
        let byte = self.peek().ok_or("unexpected end of JSON input")?;
        self.at += 1;
        Ok(byte)
    }

    /// The next byte. Go looks at one space more than there is before it says that the text ends.
    fn any(&mut self) -> Result<u8, String> {
        let at = self.at;
        self.at += 1;
        match self.text.get(at) {
            Some(byte) => Ok(*byte),
            None if at == self.text.len() => Ok(b' '),
            None => Err("unexpected end of JSON input".to_owned()),
        }
    }

    fn byte(&mut self, context: &str, wanted: impl Fn(u8) -> bool) -> Result<u8, String> {
        let byte = self.any()?;
        if wanted(byte) { Ok(byte) } else { Err(self.invalid(byte, context)) }
    }

    fn invalid(&self, byte: u8, context: &str) -> String {
        let shown = match byte {
            b'\'' => "\\'".to_owned(),
            b'"' => "\"".to_owned(),
            other => {
                let quoted = go_text::quote(&char::from(other).to_string());
                quoted[1..quoted.len() - 1].to_owned()
            }
        };
        format!("invalid character '{shown}' {context}")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn mistakes_are_named_as_go_names_them() {
        let cases = [
            ("", "unexpected end of JSON input"),
            ("  ", "unexpected end of JSON input"),
            ("{", "unexpected end of JSON input"),
            ("{\"a\"", "unexpected end of JSON input"),
            ("[1,", "unexpected end of JSON input"),
            ("\"a", "unexpected end of JSON input"),
            ("tru", "invalid character ' ' in literal true (expecting 'e')"),
            ("1.", "invalid character ' ' after decimal point in numeric literal"),
            ("-", "invalid character ' ' in numeric literal"),
            ("\"\\", "invalid character ' ' in string escape code"),
            ("x", "invalid character 'x' looking for beginning of value"),
            ("[,", "invalid character ',' looking for beginning of value"),
            ("[1,]", "invalid character ']' looking for beginning of value"),
            ("{a", "invalid character 'a' looking for beginning of object key string"),
            ("{\"a\":1,}", "invalid character '}' looking for beginning of object key string"),
            ("{\"a\" 1", "invalid character '1' after object key"),
            ("{\"a\":1 \"b\"", "invalid character '\"' after object key:value pair"),
            ("[1 2]", "invalid character '2' after array element"),
            ("1 2", "invalid character '2' after top-level value"),
            ("01", "invalid character '1' after top-level value"),
            ("{}{}", "invalid character '{' after top-level value"),
            ("\"\n\"", "invalid character '\\n' in string literal"),
            ("\"\\x\"", "invalid character 'x' in string escape code"),
            ("\"\\u12g4\"", "invalid character 'g' in \\u hexadecimal character escape"),
            ("-x", "invalid character 'x' in numeric literal"),
            ("1.x", "invalid character 'x' after decimal point in numeric literal"),
            ("1ex", "invalid character 'x' in exponent of numeric literal"),
            ("txue", "invalid character 'x' in literal true (expecting 'r')"),
            ("nul1", "invalid character '1' in literal null (expecting 'l')"),
            ("'", "invalid character '\\'' looking for beginning of value"),
            ("\u{1}", "invalid character '\\x01' looking for beginning of value"),
            ("é", "invalid character 'Ã' looking for beginning of value"),
        ];
        for (text, message) in cases {
            assert_eq!(syntax_error(text.as_bytes()), message, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn what_others_can_read_has_no_mistake(text in "[\\[\\]{}:,\"a-c0-9.e\\\\ +-]{0,30}") {
            if serde_json::from_str::<serde_json::Value>(&text).is_ok() {
                prop_assert_eq!((Scanner { text: text.as_bytes(), at: 0 }).scan(), Ok(()));
            }
        }
    }
}
