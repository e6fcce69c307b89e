//! The words of OVN's match expressions.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::MatchError;

/// A word, and the column where it begins, counted in characters from 1.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) column: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    End,
    /// A field, predicate or function.
    Name(String),
    Text(String),
    Number(Number),
    /// `$name`.
    AddressSet(String),
    /// `@name`.
    PortGroup(String),
    /// An operator or a bracket.
    Sign(&'static str),
}

/// A number in any of its forms, perhaps with a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Number {
    pub(super) value: u128,
    pub(super) form: Form,
    pub(super) mask: Option<u128>,
}

impl Number {
    /// How wide it is: an address by its kind, another number by its value.
    pub(super) fn bits(&self) -> u32 {
        match self.form {
            Form::Decimal | Form::Hexadecimal => 128 - self.mask.unwrap_or(self.value).leading_zeros(),
            Form::Ethernet => 48,
            Form::IPv4 => 32,
            Form::IPv6 => 128,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Decimal,
    Hexadecimal,
    Ethernet,
    IPv4,
    IPv6,
}

/// Longer ones first, so that `<=` is not read as `<`.
const SIGNS: &[&str] =
    &["&&", "||", "==", "!=", "<=", ">=", "..", "!", "<", ">", "(", ")", "[", "]", "{", "}", ","];

pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn column(&self) -> usize {
        self.text[..self.at].chars().count() + 1
    }

    pub(super) fn next(&mut self) -> Result<Token, MatchError> {
        self.skip_blanks()?;
        let column = self.column();
        let kind = self.word(column)?;
        Ok(Token { kind, column })
    }

    fn skip_blanks(&mut self) -> Result<(), MatchError> {
        loop {
            let rest = self.rest();
            let blanks = rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n', '\x0b', '\x0c']).len();
            self.at += blanks;
            let rest = self.rest();
            if rest.starts_with("//") {
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if rest.starts_with("/*") {
                let end = rest.find("*/").ok_or_else(|| {
                    MatchError::new(self.column(), "has a comment without an end; close it with */")
                })?;
                self.at += end + 2;
            } else {
                return Ok(());
            }
        }
    }

    fn word(&mut self, column: usize) -> Result<Kind, MatchError> {
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return Ok(Kind::End) };
        if first == '"' {
            return self.text_constant(column);
        }
        if looks_like_number(rest) {
            return self.number(column).map(Kind::Number);
        }
        if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            self.at += sign.len();
            return Ok(Kind::Sign(sign));
        }
        if matches!(first, '$' | '@') {
            let name = name_at(&rest[1..]);
            if name.is_empty() {
                let what = if first == '$' { "address set" } else { "port group" };
                return Err(MatchError::new(column, format!("has `{first}` without the name of the {what}")));
            }
            self.at += 1 + name.len();
            let name = name.to_owned();
            return Ok(if first == '$' { Kind::AddressSet(name) } else { Kind::PortGroup(name) });
        }
        let name = name_at(rest);
        if !name.is_empty() {
            self.at += name.len();
            return Ok(Kind::Name(name.to_owned()));
        }
        let message = match first {
            '&' => "has `&`; write `&&`".to_owned(),
            '|' => "has `|`; write `||`".to_owned(),
            '=' => "has `=`; write `==`".to_owned(),
            '\'' => "has `'`; write texts in double quotes".to_owned(),
            other => format!("has `{other}`, which begins nothing that OVN knows"),
        };
        Err(MatchError::new(column, message))
    }

    /// A text as JSON writes it.
    fn text_constant(&mut self, column: usize) -> Result<Kind, MatchError> {
        let mut text = String::new();
        let mut chars = self.rest().char_indices().skip(1);
        while let Some((i, c)) = chars.next() {
            match c {
                '"' => {
                    self.at += i + 1;
                    return Ok(Kind::Text(text));
                }
                '\\' => match chars.next().map(|(_, c)| c) {
                    Some(c @ ('"' | '\\' | '/')) => text.push(c),
                    Some('n') => text.push('\n'),
                    Some('t') => text.push('\t'),
                    Some('r') => text.push('\r'),
                    Some('b') => text.push('\u{8}'),
                    Some('f') => text.push('\u{c}'),
                    _ => {
                        let message = "has a text with a backslash that means nothing; write \\\\ for one";
                        return Err(MatchError::new(column, message));
                    }
                },
                c if c.is_control() => {
                    return Err(MatchError::new(column, "has a text with a control character in it"));
                }
                c => text.push(c),
            }
        }
        Err(MatchError::new(column, "has a text without an end; close it with a quote"))
    }

    fn number(&mut self, column: usize) -> Result<Number, MatchError> {
        let (value, form) = self.integer(column)?;
        if !self.rest().starts_with('/') || self.rest().starts_with("//") || self.rest().starts_with("/*") {
            return Ok(Number { value, form, mask: None });
        }
        self.at += 1;
        let mask_column = self.column();
        if !looks_like_number(self.rest()) {
            return Err(MatchError::new(mask_column, "has no mask after `/`"));
        }
        let (mask, mask_form) = self.integer(mask_column)?;
        let prefix = |bits: u32| {
            let length = u32::try_from(mask)
                .ok()
                .filter(|length| *length <= bits)
                .ok_or_else(|| MatchError::new(mask_column, format!("has a prefix length beyond {bits}")))?;
            Ok(ones(bits) & !ones(bits - length))
        };
        let mask = match (form, mask_form) {
            (a, b) if a == b => mask,
            // A bare zero is hexadecimal too.
            (Form::Decimal, Form::Hexadecimal) if value == 0 => mask,
            (Form::IPv4, Form::Decimal) => prefix(32)?,
            (Form::IPv6, Form::Decimal) => prefix(128)?,
            _ => {
                return Err(MatchError::new(
                    mask_column,
                    "has a mask of another form than the value before it",
                ));
            }
        };
        Ok(Number { value, form, mask: Some(mask) })
    }

    fn integer(&mut self, column: usize) -> Result<(u128, Form), MatchError> {
        let rest = self.rest();
        let end = rest.find(|c: char| !(c.is_ascii_hexdigit() || matches!(c, ':' | '.' | 'x' | 'X')));
        let mut text = &rest[..end.unwrap_or(rest.len())];
        // `..` is a sign, as in vlan.tci[0..11].
        if let Some(end) = text.find("..") {
            text = &text[..end];
        }
        self.at += text.len();
        let wrong = |what: &str| MatchError::new(column, format!("has `{text}`, which {what}"));
        if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            let value = u128::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'));
            return value
                .map(|value| (value, Form::Hexadecimal))
                .ok_or_else(|| wrong("is not a hexadecimal number of up to 128 bits"));
        }
        if text.contains(':') {
            if let Some(value) = ethernet(text) {
                return Ok((value, Form::Ethernet));
            }
            let address: Result<Ipv6Addr, _> = text.parse();
            return address
                .map(|a| (a.to_bits(), Form::IPv6))
                .map_err(|_| wrong("is neither an IPv6 nor an Ethernet address"));
        }
        if text.contains('.') {
            let address: Result<Ipv4Addr, _> = text.parse();
            return address
                .map(|a| (a.to_bits().into(), Form::IPv4))
                .map_err(|_| wrong("is not an IPv4 address"));
        }
        if text.len() > 1 && text.starts_with('0') {
            return Err(wrong("has a leading zero; write 0x for hexadecimal"));
        }
        let value: Result<u64, _> = text.parse();
        value.map(|value| (value.into(), Form::Decimal)).map_err(|_| wrong("is not a number below 2^64"))
    }
}

pub(super) fn ones(bits: u32) -> u128 {
    if bits >= 128 { u128::MAX } else { (1 << bits) - 1 }
}

fn ethernet(text: &str) -> Option<u128> {
    let groups: Vec<_> = text.split(':').collect();
    let two = |group: &&str| group.len() == 2 && group.bytes().all(|b| b.is_ascii_hexdigit());
    if groups.len() != 6 || !groups.iter().all(two) {
        return None;
    }
    u128::from_str_radix(&groups.concat(), 16).ok()
}

/// True for a digit, a colon, and hexadecimal digits with a colon after them.
fn looks_like_number(text: &str) -> bool {
    let hex = text.trim_start_matches(|c: char| c.is_ascii_hexdigit());
    text.starts_with(|c: char| c.is_ascii_digit() || c == ':')
        || (hex.len() < text.len() && hex.starts_with(':'))
}

fn name_at(text: &str) -> &str {
    let first = |c: char| c.is_ascii_alphabetic() || c == '_' || c == '.';
    if !text.starts_with(first) || text.starts_with("..") {
        return "";
    }
    let end = text.find(|c: char| !(first(c) || c.is_ascii_digit()));
    &text[..end.unwrap_or(text.len())]
}
