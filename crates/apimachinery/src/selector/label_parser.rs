//! The grammar of the `labelSelector` query parameter.
//!
//! ```text
//! selector    = [ requirement { "," requirement } ]
//! requirement = [ "!" ] key [ ( "in" | "notin" ) "(" values ")" | ( "=" | "==" | "!=" | ">" | "<" ) value ]
//! ```
//!
//! `in` and `notin` are words only where an operator can stand. Values may be empty.

use std::collections::BTreeSet;

use apischema::FieldError;

use super::label::{LabelOperator, LabelRequirement};
use crate::format;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Token {
    Error,
    End,
    ClosedParenthesis,
    OpenParenthesis,
    Comma,
    Not,
    Identifier,
    In,
    NotIn,
    Equals,
    DoubleEquals,
    NotEquals,
    GreaterThan,
    LessThan,
}

impl Token {
    fn of(literal: &[u8]) -> Option<Self> {
        Some(match literal {
            b")" => Token::ClosedParenthesis,
            b"(" => Token::OpenParenthesis,
            b"," => Token::Comma,
            b"!" => Token::Not,
            b"in" => Token::In,
            b"notin" => Token::NotIn,
            b"=" => Token::Equals,
            b"==" => Token::DoubleEquals,
            b"!=" => Token::NotEquals,
            b">" => Token::GreaterThan,
            b"<" => Token::LessThan,
            _ => return None,
        })
    }

    /// Where values stand, the words that are operators elsewhere are values.
    fn as_value(self) -> Self {
        if matches!(self, Token::In | Token::NotIn) { Token::Identifier } else { self }
    }
}

struct Lexer<'a> {
    rest: &'a [u8],
}

impl Lexer<'_> {
    fn next(&mut self) -> (Token, String) {
        while let [b' ' | b'\t' | b'\r' | b'\n', rest @ ..] = self.rest {
            self.rest = rest;
        }
        match self.rest {
            // A zero byte ends the text, as it does for Kubernetes.
            [] | [0, ..] => (Token::End, String::new()),
            [first, ..] if is_symbol(*first) => self.symbol(),
            _ => self.word(),
        }
    }

    fn word(&mut self) -> (Token, String) {
        let ends = |byte: &u8| *byte == 0 || is_symbol(*byte) || is_space(*byte);
        let length = self.rest.iter().position(ends).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(length);
        self.rest = rest.strip_prefix(&[0]).unwrap_or(rest);
        (Token::of(word).unwrap_or(Token::Identifier), String::from_utf8_lossy(word).into_owned())
    }

    /// The longest operator that stands here.
    fn symbol(&mut self) -> (Token, String) {
        let run = self.rest.iter().position(|byte| !is_symbol(*byte)).unwrap_or(self.rest.len());
        let mut found = None;
        let mut taken = 0;
        for length in 1..=run {
            match Token::of(&self.rest[..length]) {
                Some(token) => found = Some((token, length)),
                None if found.is_some() => break,
                None => {}
            }
            taken = length;
        }
        let (literal, rest) = self.rest.split_at(taken);
        self.rest = rest;
        let literal = String::from_utf8_lossy(literal);
        match found {
            Some((token, length)) => (token, literal[..length].to_owned()),
            None => (Token::Error, format!("error expected: keyword found '{literal}'")),
        }
    }
}

fn is_symbol(byte: u8) -> bool {
    matches!(byte, b'=' | b'!' | b'(' | b')' | b',' | b'>' | b'<')
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// Reads requirements. What it returns as an error is the whole message.
pub(super) struct Parser<'a> {
    lexer: Lexer<'a>,
    ahead: (Token, String),
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let mut lexer = Lexer { rest: text.as_bytes() };
        let ahead = lexer.next();
        Parser { lexer, ahead }
    }

    pub(super) fn parse(mut self) -> Result<Vec<LabelRequirement>, String> {
        let mut requirements = Vec::new();
        loop {
            match self.peek() {
                Token::Identifier | Token::Not => {
                    let requirement = self.requirement();
                    requirements
                        .push(requirement.map_err(|why| format!("unable to parse requirement: {why}"))?);
                    match self.take_value() {
                        (Token::End, _) => return Ok(requirements),
                        (Token::Comma, _) if matches!(self.peek(), Token::Identifier | Token::Not) => {}
                        (Token::Comma, _) => {
                            return Err(format!("found '{}', expected: identifier after ','", self.ahead.1));
                        }
                        (_, literal) => {
                            return Err(format!("found '{literal}', expected: ',' or 'end of string'"));
                        }
                    }
                }
                Token::End => return Ok(requirements),
                _ => {
                    return Err(format!(
                        "found '{}', expected: !, identifier, or 'end of string'",
                        self.ahead.1
                    ));
                }
            }
        }
    }

    fn requirement(&mut self) -> Result<LabelRequirement, String> {
        let (mut token, mut key) = self.take_value();
        let negated = token == Token::Not;
        if negated {
            (token, key) = self.take_value();
        }
        if token != Token::Identifier {
            return Err(format!("found '{key}', expected: identifier"));
        }
        let wrong = format::qualified_name(&key);
        if !wrong.is_empty() {
            return Err(FieldError::invalid("<nil>", key, wrong.join("; ")).to_string());
        }
        let ends = matches!(self.peek(), Token::End | Token::Comma);
        let (operator, values) = if negated {
            (LabelOperator::DoesNotExist, BTreeSet::new())
        } else if ends {
            (LabelOperator::Exists, BTreeSet::new())
        } else {
            let operator = self.operator()?;
            let values = match operator {
                LabelOperator::In | LabelOperator::NotIn => self.set()?,
                _ => self.single()?,
            };
            (operator, values)
        };
        LabelRequirement::new(&key, operator, values.into_iter().collect()).map_err(|error| error.to_string())
    }

    fn operator(&mut self) -> Result<LabelOperator, String> {
        let (token, literal) = self.take();
        Ok(match token {
            Token::In => LabelOperator::In,
            Token::NotIn => LabelOperator::NotIn,
            Token::Equals => LabelOperator::Equals,
            Token::DoubleEquals => LabelOperator::DoubleEquals,
            Token::NotEquals => LabelOperator::NotEquals,
            Token::GreaterThan => LabelOperator::GreaterThan,
            Token::LessThan => LabelOperator::LessThan,
            _ => return Err(format!("found '{literal}', expected: in, notin, =, ==, !=, gt, lt")),
        })
    }

    /// `(a,b)`
    fn set(&mut self) -> Result<BTreeSet<String>, String> {
        let (token, literal) = self.take_value();
        if token != Token::OpenParenthesis {
            return Err(format!("found '{literal}' expected: '('"));
        }
        match self.peek() {
            Token::Identifier | Token::Comma => {
                let values = self.values()?;
                // Only a closing parenthesis ends them.
                self.take_value();
                Ok(values)
            }
            Token::ClosedParenthesis => {
                self.take_value();
                Ok(BTreeSet::from([String::new()]))
            }
            _ => Err(format!("found '{}', expected: ',', ')' or identifier", self.ahead.1)),
        }
    }

    /// `a,b`, up to a closing parenthesis.
    fn values(&mut self) -> Result<BTreeSet<String>, String> {
        let mut values = BTreeSet::new();
        loop {
            match self.take_value() {
                (Token::Identifier, literal) => {
                    values.insert(literal);
                    match self.peek() {
                        Token::Comma => {}
                        Token::ClosedParenthesis => return Ok(values),
                        _ => return Err(format!("found '{}', expected: ',' or ')'", self.ahead.1)),
                    }
                }
                (Token::Comma, _) => {
                    if values.is_empty() {
                        values.insert(String::new());
                    }
                    match self.peek() {
                        Token::ClosedParenthesis => {
                            values.insert(String::new());
                            return Ok(values);
                        }
                        Token::Comma => {
                            self.take_value();
                            values.insert(String::new());
                        }
                        _ => {}
                    }
                }
                (_, literal) => return Err(format!("found '{literal}', expected: ',', or identifier")),
            }
        }
    }

    fn single(&mut self) -> Result<BTreeSet<String>, String> {
        if matches!(self.peek(), Token::End | Token::Comma) {
            return Ok(BTreeSet::from([String::new()]));
        }
        match self.take_value() {
            (Token::Identifier, literal) => Ok(BTreeSet::from([literal])),
            (_, literal) => Err(format!("found '{literal}', expected: identifier")),
        }
    }

    fn peek(&self) -> Token {
        self.ahead.0.as_value()
    }

    fn take(&mut self) -> (Token, String) {
        // The end is never passed.
        let next = if self.ahead.0 == Token::End { (Token::End, String::new()) } else { self.lexer.next() };
        std::mem::replace(&mut self.ahead, next)
    }

    fn take_value(&mut self) -> (Token, String) {
        let (token, literal) = self.take();
        (token.as_value(), literal)
    }
}
