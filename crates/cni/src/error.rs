//! Errors as the CNI specification has them.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Why a call failed. Runtimes show `msg`; `details` is for whoever looks closer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{msg}{}", if details.is_empty() { String::new() } else { format!(": {details}") })]
pub struct CniError {
    /// What kind of failure.
    pub code: u32,
    /// What went wrong, in a few words.
    pub msg: String,
    /// More about it.
    #[serde(default)]
    pub details: String,
}

/// The kinds of failure, by their numbers in the specification; those from 100 on are the plugin's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The version of the configuration is not spoken here.
    IncompatibleVersion = 1,
    /// The configuration asks for something that is not done here.
    UnsupportedField = 2,
    /// There is no such container or pod.
    UnknownContainer = 3,
    /// An environment variable is missing or makes no sense.
    InvalidEnvironment = 4,
    /// Reading or writing failed.
    Io = 5,
    /// What was read cannot be decoded.
    Decoding = 6,
    /// The network configuration makes no sense.
    InvalidConfig = 7,
    /// It may succeed later.
    TryAgainLater = 11,
    /// STATUS: ADD would fail now.
    NotAvailable = 50,
    /// STATUS: ADD would fail now, and running containers may be cut off.
    LimitedConnectivity = 51,
    /// The node's network could not be set up.
    Setup = 100,
    /// CHECK: what ADD made is not there as it was made.
    CheckFailed = 101,
}

impl CniError {
    /// An error of this kind.
    pub fn new(code: Code, msg: impl Into<String>, details: impl Into<String>) -> Self {
        Self { code: code as u32, msg: msg.into(), details: details.into() }
    }

    /// The object that the plugin prints, in the version of the call.
    pub fn to_json(&self, version: &str) -> Value {
        json!({ "cniVersion": version, "code": self.code, "msg": self.msg, "details": self.details })
    }
}
