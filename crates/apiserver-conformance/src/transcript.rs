//! What a server answered to the steps of a case.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

/// The answers of a server, one record for each step.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(transparent)]
pub(crate) struct Transcript {
    pub(crate) records: Vec<Record>,
}

/// The answer to one step.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Record {
    /// The request as the case has it, variables not filled in.
    pub(crate) request: String,
    pub(crate) status: u16,
    /// The headers that clients act on.
    pub(crate) headers: BTreeMap<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) body: Option<Value>,
    /// The answers to the steps that were done during a watch.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) during: Vec<Record>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) events: Option<Vec<Value>>,
    /// Who ended a watch, if not the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ended_by: Option<&'static str>,
}
