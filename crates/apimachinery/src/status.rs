//! `Status`: the answer to a request that went wrong, and to a delete that went well.

use std::fmt;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

mod failures;

pub(crate) use failures::aggregate;
pub use failures::{Access, Accessed};

/// The object that says how a request went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    #[serde(default)]
    kind: Kind,
    #[serde(default)]
    api_version: ApiVersion,
    /// What a list may carry even when it failed.
    #[serde(default)]
    pub metadata: StatusMetadata,
    /// How it went.
    #[serde(rename = "status")]
    pub outcome: Outcome,
    /// For people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// For programs.
    #[serde(default, skip_serializing_if = "Reason::is_unknown")]
    pub reason: Reason,
    /// What it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Box<StatusDetails>>,
    /// The status code of HTTP; 0 where the object does not say.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub code: u16,
}

/// The metadata of a [`Status`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusMetadata {
    /// From where a list whose snapshot is gone can go on, inconsistently.
    #[serde(rename = "continue", default, skip_serializing_if = "String::is_empty")]
    pub continue_token: String,
}

/// Whether a request went well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// It did.
    Success,
    /// It did not.
    #[default]
    Failure,
}

/// What a [`Status`] is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatusDetails {
    /// The object's name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Its group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Its kind, or its resource: Kubernetes writes both here.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Its UID.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Each thing that is wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<StatusCause>,
    /// How long to wait before trying again; 0 where the object does not say.
    #[serde(skip_serializing_if = "is_zero")]
    pub retry_after_seconds: u32,
}

/// One thing that is wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StatusCause {
    /// For programs: `FieldValueInvalid`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// For people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Which field, if it is about one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
}

/// Why a request failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Reason {
    /// Nobody says.
    #[default]
    Unknown,
    /// 401
    Unauthorized,
    /// 403
    Forbidden,
    /// 404
    NotFound,
    /// 409: there is one of that name.
    AlreadyExists,
    /// 409: someone was faster, or owns the field.
    Conflict,
    /// 410
    Gone,
    /// 422
    Invalid,
    /// 500: try again.
    ServerTimeout,
    /// 500: an object in the store cannot be read.
    StorageReadError,
    /// 504
    Timeout,
    /// 429
    TooManyRequests,
    /// 400
    BadRequest,
    /// 405
    MethodNotAllowed,
    /// 406
    NotAcceptable,
    /// 413
    RequestEntityTooLarge,
    /// 415
    UnsupportedMediaType,
    /// 500
    InternalError,
    /// 410: that revision is no longer there.
    Expired,
    /// 503
    ServiceUnavailable,
    /// What an admission webhook thought of.
    Other(String),
}

impl Reason {
    const KNOWN: [Reason; 19] = [
        Reason::Unauthorized,
        Reason::Forbidden,
        Reason::NotFound,
        Reason::AlreadyExists,
        Reason::Conflict,
        Reason::Gone,
        Reason::Invalid,
        Reason::ServerTimeout,
        Reason::StorageReadError,
        Reason::Timeout,
        Reason::TooManyRequests,
        Reason::BadRequest,
        Reason::MethodNotAllowed,
        Reason::NotAcceptable,
        Reason::RequestEntityTooLarge,
        Reason::UnsupportedMediaType,
        Reason::InternalError,
        Reason::Expired,
        Reason::ServiceUnavailable,
    ];

    /// The word on the wire; empty if unknown.
    pub fn as_str(&self) -> &str {
        match self {
            Reason::Unknown => "",
            Reason::Unauthorized => "Unauthorized",
            Reason::Forbidden => "Forbidden",
            Reason::NotFound => "NotFound",
            Reason::AlreadyExists => "AlreadyExists",
            Reason::Conflict => "Conflict",
            Reason::Gone => "Gone",
            Reason::Invalid => "Invalid",
            Reason::ServerTimeout => "ServerTimeout",
            Reason::StorageReadError => "StorageReadError",
            Reason::Timeout => "Timeout",
            Reason::TooManyRequests => "TooManyRequests",
            Reason::BadRequest => "BadRequest",
            Reason::MethodNotAllowed => "MethodNotAllowed",
            Reason::NotAcceptable => "NotAcceptable",
            Reason::RequestEntityTooLarge => "RequestEntityTooLarge",
            Reason::UnsupportedMediaType => "UnsupportedMediaType",
            Reason::InternalError => "InternalError",
            Reason::Expired => "Expired",
            Reason::ServiceUnavailable => "ServiceUnavailable",
            Reason::Other(word) => word,
        }
    }

    fn is_unknown(&self) -> bool {
        self.as_str().is_empty()
    }
}

impl From<&str> for Reason {
    fn from(word: &str) -> Self {
        if word.is_empty() {
            return Reason::Unknown;
        }
        let known = Self::KNOWN.into_iter().find(|reason| reason.as_str() == word);
        known.unwrap_or_else(|| Reason::Other(word.to_owned()))
    }
}

impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Reason {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|word| Reason::from(word.as_str()))
    }
}

/// The message: a Status of failure is an error.
impl fmt::Display for Status {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for Status {}

/// Always `Status`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Kind;

/// Always `v1`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ApiVersion;

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("Status")
    }
}

impl Serialize for ApiVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("v1")
    }
}

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Kind)
    }
}

impl<'de> Deserialize<'de> for ApiVersion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| ApiVersion)
    }
}

fn is_zero<N: Default + PartialEq>(number: &N) -> bool {
    *number == N::default()
}

#[cfg(test)]
mod tests;
