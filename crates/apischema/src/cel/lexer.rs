//! Text to tokens.

/// What a token is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Identifier(String),
    Int(String),
    Uint(String),
    Double(String),
    String(String),
    Bytes(Vec<u8>),
    /// An operator or a delimiter.
    Symbol(&'static str),
    End,
}

/// A token, and where it starts and ends.
#[derive(Clone, Debug)]
pub(super) struct Spanned {
    pub(super) token: Token,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// Longer ones first.
const SYMBOLS: &[&str] = &[
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "!", "?", ":", "+", "-", "*", "/", "%", ".", ",", "(", ")",
    "[", "]", "{", "}",
];

/// The tokens of an expression, of which the last one is its end; and what in it is none, each with its place.
pub(super) fn tokens(source: &str) -> (Vec<Spanned>, Vec<(usize, String)>) {
    let mut lexer = Lexer { source, at: 0, errors: Vec::new() };
    let mut tokens = Vec::new();
    loop {
        let token = lexer.next();
        let end = token.token == Token::End;
        tokens.push(token);
        if end {
            return (tokens, lexer.errors);
        }
    }
}

struct Lexer<'a> {
    source: &'a str,
    at: usize,
    errors: Vec<(usize, String)>,
}

impl Lexer<'_> {
    fn rest(&self) -> &str {
        &self.source[self.at..]
    }

    fn next(&mut self) -> Spanned {
        loop {
            self.skip_blank();
            let start = self.at;
            if let Some(token) = self.token() {
                return Spanned { token, start, end: self.at };
            }
        }
    }

    fn skip_blank(&mut self) {
        loop {
            let blank =
                self.rest().len() - self.rest().trim_start_matches([' ', '\t', '\n', '\r', '\x0c']).len();
            self.at += blank;
            if !self.rest().starts_with("//") {
                return;
            }
            self.at += self.rest().find('\n').unwrap_or(self.rest().len());
        }
    }

    /// The next token, or nothing if what is next was none and is skipped.
    fn token(&mut self) -> Option<Token> {
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return Some(Token::End) };
        if let Some((prefix, raw, bytes)) = string_prefix(rest) {
            return self.string(prefix, raw, bytes);
        }
        if first.is_ascii_alphabetic() || first == '_' {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            let name = rest[..end].to_owned();
            self.at += end;
            return Some(Token::Identifier(name));
        }
        let second = rest[first.len_utf8()..].chars().next();
        if first.is_ascii_digit() || first == '.' && second.is_some_and(|digit| digit.is_ascii_digit()) {
            return Some(self.number());
        }
        if let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            self.at += symbol.len();
            return Some(Token::Symbol(symbol));
        }
        self.skip(first.len_utf8());
        None
    }

    /// Leaves out what is no token.
    fn skip(&mut self, length: usize) {
        let text: String = self.rest()[..length].chars().take(40).collect();
        self.errors.push((self.at, format!("Syntax error: token recognition error at: '{text}'")));
        self.at += length;
    }

    fn number(&mut self) -> Token {
        let rest = self.rest();
        let hex = rest
            .strip_prefix("0x")
            .map(|digits| 2 + digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len()));
        if let Some(end) = hex.filter(|end| *end > 2) {
            return self.integer(end);
        }
        let digits = |from: usize| {
            let tail = &rest[from..];
            from + tail.find(|c: char| !c.is_ascii_digit()).unwrap_or(tail.len())
        };
        let whole = digits(0);
        let mut end = whole;
        let mut float = false;
        if rest[end..].starts_with('.') && digits(end + 1) > end + 1 {
            end = digits(end + 1);
            float = true;
        }
        if let Some(exponent) = rest[end..].strip_prefix(['e', 'E']) {
            let sign = usize::from(exponent.starts_with(['+', '-']));
            let after = end + 1 + sign;
            if digits(after) > after {
                end = digits(after);
                float = true;
            }
        }
        if float {
            let text = rest[..end].to_owned();
            self.at += end;
            return Token::Double(text);
        }
        self.integer(end)
    }

    fn integer(&mut self, end: usize) -> Token {
        let text = self.rest()[..end].to_owned();
        self.at += end;
        if self.rest().starts_with(['u', 'U']) {
            self.at += 1;
            return Token::Uint(text);
        }
        Token::Int(text)
    }

    fn string(&mut self, prefix: usize, raw: bool, bytes: bool) -> Option<Token> {
        let start = self.at;
        let body = &self.source[start + prefix..];
        let triple = body.starts_with("\"\"\"") || body.starts_with("'''");
        let quote = &body[..if triple { 3 } else { 1 }];
        let inner = &body[quote.len()..];
        let Some(end) = string_end(inner, quote, raw) else {
            let line = body.find(['\n', '\r']).filter(|_| !triple).unwrap_or(body.len());
            self.skip(prefix + line);
            return None;
        };
        let text = &inner[..end];
        self.at = start + prefix + quote.len() * 2 + end;
        let mut unescaped = Vec::new();
        if raw {
            unescaped.extend_from_slice(text.as_bytes());
        } else if let Err(message) = unescape(text, bytes, &mut unescaped) {
            self.errors.push((start, message));
        }
        if bytes {
            return Some(Token::Bytes(unescaped));
        }
        Some(Token::String(String::from_utf8(unescaped).unwrap_or_default()))
    }
}

/// Where a string ends; nothing if it does not.
fn string_end(inner: &str, quote: &str, raw: bool) -> Option<usize> {
    let mut characters = inner.char_indices();
    while let Some((index, character)) = characters.next() {
        if inner[index..].starts_with(quote) {
            return Some(index);
        }
        if character == '\\' && !raw {
            characters.next();
        }
        if quote.len() == 1 && matches!(character, '\n' | '\r') {
            return None;
        }
    }
    None
}

/// How many letters stand before the quotation mark of a string, and what they say: whether it is raw, and whether it is
/// bytes.
fn string_prefix(rest: &str) -> Option<(usize, bool, bool)> {
    let letters = rest.bytes().take(3).position(|byte| matches!(byte, b'"' | b'\''))?;
    let prefix = rest[..letters].to_ascii_lowercase();
    let known = matches!(&*prefix, "" | "r" | "b" | "rb" | "br");
    known.then(|| (letters, prefix.contains('r'), prefix.contains('b')))
}

fn unescape(text: &str, bytes: bool, out: &mut Vec<u8>) -> Result<(), String> {
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        rest = &rest[character.len_utf8()..];
        if character != '\\' {
            out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        let escape = rest.chars().next().ok_or("unable to unescape string, found '\\' as last character")?;
        rest = &rest[escape.len_utf8()..];
        let plain = match escape {
            'a' => 7,
            'b' => 8,
            'f' => 12,
            'n' => b'\n',
            'r' => b'\r',
            't' => b'\t',
            'v' => 11,
            '\\' | '\'' | '"' | '`' | '?' => escape as u8,
            'x' | 'X' => {
                push_code(&mut rest, 2, 16, bytes, out)?;
                continue;
            }
            'u' if !bytes => {
                push_code(&mut rest, 4, 16, false, out)?;
                continue;
            }
            'U' if !bytes => {
                push_code(&mut rest, 8, 16, false, out)?;
                continue;
            }
            '0'..='3' => {
                rest = &text[text.len() - rest.len() - 1..];
                push_code(&mut rest, 3, 8, bytes, out)?;
                continue;
            }
            _ => return Err("unable to unescape string".to_owned()),
        };
        out.push(plain);
    }
    Ok(())
}

fn push_code(
    rest: &mut &str,
    digits: usize,
    radix: u32,
    bytes: bool,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let code = rest
        .get(..digits)
        .filter(|code| code.chars().all(|digit| digit.is_digit(radix)))
        .and_then(|code| u32::from_str_radix(code, radix).ok())
        .ok_or("unable to unescape string")?;
    *rest = &rest[digits..];
    if bytes {
        out.push(code as u8);
        return Ok(());
    }
    let character = char::from_u32(code).ok_or("invalid unicode code point")?;
    out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lex(source: &str) -> Vec<Token> {
        let (tokens, errors) = tokens(source);
        assert_eq!(errors, []);
        let mut tokens: Vec<_> = tokens.into_iter().map(|spanned| spanned.token).collect();
        assert_eq!(tokens.pop(), Some(Token::End));
        tokens
    }

    #[test]
    fn literals_are_read() {
        let text = |text: &str| Token::String(text.to_owned());
        assert_eq!(
            lex(r#"'a\n\x41\u00e9\101' "b" r'\d' """c"d""" '''e'''"#),
            [text("a\nAéA"), text("b"), text("\\d"), text("c\"d"), text("e")]
        );
        assert_eq!(lex(r"b'\xff\101a'"), [Token::Bytes(vec![255, 65, b'a'])]);
        assert_eq!(
            lex("1 0x1F 2u 1.5 .5 1e3 1.e"),
            [
                Token::Int("1".into()),
                Token::Int("0x1F".into()),
                Token::Uint("2".into()),
                Token::Double("1.5".into()),
                Token::Double(".5".into()),
                Token::Double("1e3".into()),
                Token::Int("1".into()),
                Token::Symbol("."),
                Token::Identifier("e".into()),
            ]
        );
        assert_eq!(
            lex("a // comment\n<= b"),
            [Token::Identifier("a".into()), Token::Symbol("<="), Token::Identifier("b".into())]
        );
    }

    #[test]
    fn what_is_no_token_is_refused() {
        for source in ["'a", "'a\nb'", "#", "'\\q'", "'\\ud800'", "'\\"] {
            assert!(!tokens(source).1.is_empty(), "{source}");
        }
    }
}
