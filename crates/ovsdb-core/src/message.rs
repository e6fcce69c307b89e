//! JSON-RPC 1.0 messages (RFC 7047 section 4), read without copying and written into a buffer.

use std::borrow::Cow;

use serde::Serialize;

use crate::frame::Frame;
use crate::operation::Operation;

/// A message from the peer. Values are raw JSON, checked when they are decoded.
#[derive(Debug, PartialEq)]
pub enum Message<'a> {
    /// The peer asks, and waits for an answer under `id`.
    Request {
        /// What to repeat in the answer.
        id: &'a str,
        /// The method.
        method: Cow<'a, str>,
        /// The parameters.
        params: &'a str,
    },
    /// The peer tells.
    Notification {
        /// The method.
        method: Cow<'a, str>,
        /// The parameters.
        params: &'a [u8],
    },
    /// The peer answers our request `id`.
    Reply {
        /// The request's id.
        id: u64,
        /// The result, or the error.
        outcome: Result<&'a [u8], &'a [u8]>,
    },
}

/// The message is JSON, but not JSON-RPC as OVSDB uses it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// A member is missing.
    #[error("a message has no member {0:?}")]
    Missing(&'static str),
    /// A member is of the wrong type.
    #[error("member {member:?} of a message is {value}, expected {expected}")]
    WrongType {
        /// The member.
        member: &'static str,
        /// The beginning of its value.
        value: String,
        /// What it should be.
        expected: &'static str,
    },
}

impl<'a> Message<'a> {
    /// Interprets a frame of `buffer`.
    pub fn parse(frame: &Frame, buffer: &'a [u8]) -> Result<Self, MessageError> {
        let member = |name| frame.member(buffer, name).filter(|value| *value != b"null");
        let wrong = |member, value: &[u8], expected| MessageError::WrongType {
            member,
            value: String::from_utf8_lossy(&value[..value.len().min(80)]).into_owned(),
            expected,
        };
        let id = member("id");
        let Some(method) = member("method") else {
            let id = id.ok_or(MessageError::Missing("id"))?;
            let id = serde_json::from_slice(id).map_err(|_| wrong("id", id, "an id of ours"))?;
            let outcome = match member("error") {
                Some(error) => Err(error),
                None => Ok(frame.member(buffer, "result").ok_or(MessageError::Missing("result"))?),
            };
            return Ok(Message::Reply { id, outcome });
        };
        let name: Cow<'_, str> = match std::str::from_utf8(method) {
            Ok(raw) if raw.starts_with('"') && !raw.contains('\\') => Cow::Borrowed(raw.trim_matches('"')),
            _ => serde_json::from_slice::<String>(method)
                .map_err(|_| wrong("method", method, "a string"))?
                .into(),
        };
        let params = frame.member(buffer, "params").ok_or(MessageError::Missing("params"))?;
        let Some(id) = id else { return Ok(Message::Notification { method: name, params }) };
        // Both are repeated in the answer, so they have to be JSON of their own right.
        fn json(raw: &[u8]) -> Option<&str> {
            serde_json::from_slice::<&serde_json::value::RawValue>(raw)
                .ok()
                .map(serde_json::value::RawValue::get)
        }
        Ok(Message::Request {
            id: json(id).ok_or_else(|| wrong("id", id, "a value"))?,
            method: name,
            params: json(params).ok_or_else(|| wrong("params", params, "a value"))?,
        })
    }
}

/// Appends a request to `out`.
pub fn write_request(out: &mut Vec<u8>, id: u64, method: &str, params: &impl Serialize) {
    out.extend_from_slice(format!(r#"{{"id":{id},"method":"{method}","params":"#).as_bytes());
    write_json(out, params);
    out.push(b'}');
}

/// Appends a request whose parameters are JSON already to `out`.
pub fn write_raw_request(out: &mut Vec<u8>, id: u64, method: &str, params: &[u8]) {
    out.extend_from_slice(format!(r#"{{"id":{id},"method":"{method}","params":"#).as_bytes());
    out.extend_from_slice(params);
    out.push(b'}');
}

/// The parameters of a `transact` request.
pub fn transact_params(database: &str, operations: &[Operation]) -> Vec<u8> {
    let mut params = vec![b'['];
    write_json(&mut params, database);
    for operation in operations {
        params.push(b',');
        write_json(&mut params, operation);
    }
    params.push(b']');
    params
}

fn write_json(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    serde_json::to_writer(out, value)
        .expect("invariant: objects have string keys, and a Vec takes every write");
}

/// Appends the answer to an `echo` request to `out`.
pub fn write_echo_reply(out: &mut Vec<u8>, id: &str, params: &str) {
    out.extend_from_slice(format!(r#"{{"id":{id},"result":{params},"error":null}}"#).as_bytes());
}

/// Appends an error answer to a request that we do not serve.
pub fn write_unknown_method(out: &mut Vec<u8>, id: &str) {
    out.extend_from_slice(format!(r#"{{"id":{id},"result":null,"error":"unknown method"}}"#).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Scanner;

    fn parse(json: &str) -> Result<String, String> {
        let frame = Scanner::new(1024).scan(json.as_bytes()).unwrap().unwrap();
        Message::parse(&frame, json.as_bytes()).map(|m| format!("{m:?}")).map_err(|e| e.to_string())
    }

    #[test]
    fn the_three_kinds_are_told_apart() {
        let echo = parse(r#"{"method":"echo","id":["a",1],"params":[ 1 ]}"#).unwrap();
        assert_eq!(echo, r#"Request { id: "[\"a\",1]", method: "echo", params: "[ 1 ]" }"#);
        assert!(parse(r#"{"method":"update","id":null,"params":[]}"#).unwrap().starts_with("Notification"));
        assert!(parse(r#"{"id":3,"result":null,"error":null}"#).unwrap().contains("Ok("));
        assert!(parse(r#"{"id":3,"result":null,"error":"no"}"#).unwrap().contains("Err("));
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert_eq!(parse("{}").unwrap_err(), r#"a message has no member "id""#);
        assert_eq!(parse(r#"{"id":1}"#).unwrap_err(), r#"a message has no member "result""#);
        assert_eq!(
            parse(r#"{"id":"x","result":1}"#).unwrap_err(),
            r#"member "id" of a message is "x", expected an id of ours"#
        );
        assert_eq!(
            parse(r#"{"method":5,"params":[]}"#).unwrap_err(),
            r#"member "method" of a message is 5, expected a string"#
        );
        assert_eq!(parse(r#"{"method":"x"}"#).unwrap_err(), r#"a message has no member "params""#);
        assert_eq!(
            parse(r#"{"method":"echo","id":nul,"params":[]}"#).unwrap_err(),
            r#"member "id" of a message is nul, expected a value"#
        );
    }
}
