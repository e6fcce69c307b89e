//! Where the next page of a list starts, as a token for the client.

use apistore::Revision;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

const VERSION: &str = "meta.k8s.io/v1";

/// The revision that a list shows, and the last key that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Continuation {
    /// Absent if the list goes on with what is there now, inconsistently.
    pub revision: Option<Revision>,
    /// The page holds the keys after this one.
    pub after: Bytes,
}

/// What is wrong with a token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContinuationError {
    /// It was not made by a server.
    #[error("continue key is not valid: {0}")]
    Malformed(String),
    /// It is of another version.
    #[error("continue key is not valid: server does not recognize this encoded version {0}")]
    Version(String),
    /// It names no revision.
    #[error("continue key is not valid: incorrect encoded start resourceVersion (version meta.k8s.io/v1)")]
    Revision,
    /// It names no key.
    #[error("continue key is not valid: encoded start key empty (version meta.k8s.io/v1)")]
    EmptyKey,
}

#[derive(Serialize, Deserialize)]
struct Token {
    #[serde(default)]
    v: String,
    #[serde(default)]
    rv: i64,
    #[serde(default)]
    start: String,
}

impl Continuation {
    /// The token for a list of keys under `prefix`.
    pub fn encode(&self, prefix: &Bytes) -> String {
        let key =
            String::from_utf8_lossy(self.after.strip_prefix(&prefix[..]).unwrap_or(&self.after)).into_owned();
        let rv = self.revision.map_or(-1, |revision| i64::try_from(revision.0).unwrap_or(i64::MAX));
        // The least key after the last one sent is that key with a zero byte added.
        let token = Token { v: VERSION.into(), rv, start: format!("{key}\0") };
        URL_SAFE_NO_PAD
            .encode(serde_json::to_vec(&token).expect("strings and a number are always serialised"))
    }

    /// Reads a token for a list of keys under `prefix`.
    pub fn decode(token: &str, prefix: &Bytes) -> Result<Continuation, ContinuationError> {
        let malformed = |error: &dyn std::fmt::Display| ContinuationError::Malformed(error.to_string());
        let data = URL_SAFE_NO_PAD.decode(token).map_err(|error| malformed(&error))?;
        let token: Token = serde_json::from_slice(&data).map_err(|error| malformed(&error))?;
        if token.v != VERSION {
            return Err(ContinuationError::Version(token.v));
        }
        let revision = match token.rv {
            0 => return Err(ContinuationError::Revision),
            rv => u64::try_from(rv).ok().map(Revision),
        };
        if token.start.is_empty() {
            return Err(ContinuationError::EmptyKey);
        }
        // The key is only ever appended to the prefix, so that a token cannot reach other resources.
        let Some(key) = token.start.strip_suffix('\0') else {
            return Err(ContinuationError::Malformed(token.start));
        };
        Ok(Continuation { revision, after: [&prefix[..], key.as_bytes()].concat().into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_brings_back_where_it_was() {
        let prefix = Bytes::from_static(b"/registry/core/pods/");
        for revision in [Some(Revision(7)), None] {
            let continuation =
                Continuation { revision, after: Bytes::from_static(b"/registry/core/pods/a/b") };
            assert_eq!(Continuation::decode(&continuation.encode(&prefix), &prefix), Ok(continuation));
        }
    }

    #[test]
    fn a_forged_token_stays_under_its_prefix() {
        let secrets = Bytes::from_static(b"/registry/core/secrets/");
        let pods = Bytes::from_static(b"/registry/core/pods/");
        let forged = Continuation { revision: None, after: Bytes::from_static(b"/registry/core/secrets/a") };
        let read = Continuation::decode(&forged.encode(&secrets), &pods).unwrap();
        assert!(read.after.starts_with(&pods));
    }

    #[test]
    fn nonsense_is_refused() {
        let prefix = Bytes::new();
        let encode = |json: &str| URL_SAFE_NO_PAD.encode(json);
        assert!(matches!(Continuation::decode("!", &prefix), Err(ContinuationError::Malformed(_))));
        assert!(matches!(Continuation::decode(&encode("7"), &prefix), Err(ContinuationError::Malformed(_))));
        assert_eq!(
            Continuation::decode(&encode(r#"{"v":"v9"}"#), &prefix),
            Err(ContinuationError::Version("v9".into()))
        );
        assert_eq!(
            Continuation::decode(&encode(r#"{"v":"meta.k8s.io/v1","start":"a"}"#), &prefix),
            Err(ContinuationError::Revision)
        );
        assert_eq!(
            Continuation::decode(&encode(r#"{"v":"meta.k8s.io/v1","rv":1}"#), &prefix),
            Err(ContinuationError::EmptyKey)
        );
    }
}
