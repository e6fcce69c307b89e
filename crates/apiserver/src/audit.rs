//! The audit log: a line for every request of somebody who is known, in the form that Kubernetes' tools read.
//!
//! Lines are events of `audit.k8s.io/v1` at level `Metadata`: who did what to which object, and how it ended. A watch is
//! written when it begins; everything else when it has been answered.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use http::{StatusCode, Uri};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::authn::UserInfo;
use crate::request::{ResourcePath, Target, Verb};

/// A file that requests are written to.
#[derive(Debug)]
pub struct AuditLog {
    file: Mutex<File>,
}

/// A request that is not answered yet.
#[derive(Debug)]
pub(crate) struct Audited {
    event: Value,
}

impl AuditLog {
    /// Adds to this file; makes it if it is not there.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn open(path: &Path) -> io::Result<AuditLog> {
        Ok(AuditLog { file: Mutex::new(OpenOptions::new().create(true).append(true).open(path)?) })
    }

    /// Writes how a request ended. A line is written at once, so that whoever has the answer finds it in the log.
    pub(crate) fn write(&self, audited: Audited, code: StatusCode) {
        let Audited { mut event } = audited;
        event["responseStatus"] = json!({"metadata": {}, "code": code.as_u16()});
        event["stageTimestamp"] = timestamp();
        let line = format!("{event}\n");
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = file.write_all(line.as_bytes()) {
            tracing::error!(%error, "the audit log cannot be written");
        }
    }
}

impl Audited {
    /// A request that arrives now.
    pub(crate) fn begin(
        user: &UserInfo,
        verb: &str,
        target: &Target,
        uri: &Uri,
        user_agent: &str,
    ) -> Audited {
        let stage = if verb == Verb::Watch.as_str() { "ResponseStarted" } else { "ResponseComplete" };
        let mut event = json!({
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": "Metadata",
            "auditID": uuid::Uuid::new_v4().to_string(),
            "stage": stage,
            "requestURI": uri.path_and_query().map_or(uri.path(), |address| address.as_str()),
            "verb": verb,
            "user": {"username": user.name, "groups": user.groups},
            "userAgent": user_agent,
            "requestReceivedTimestamp": timestamp(),
        });
        if !user.uid.is_empty() {
            event["user"]["uid"] = json!(user.uid);
        }
        if let Target::Resource(path) = target {
            event["objectRef"] = object_reference(path);
        }
        Audited { event }
    }
}

fn object_reference(path: &ResourcePath) -> Value {
    let fields = [
        ("resource", &path.resource),
        ("namespace", &path.namespace),
        ("name", &path.name),
        ("apiGroup", &path.group),
        ("apiVersion", &path.version),
        ("subresource", &path.subresource),
    ];
    let given = fields.into_iter().filter(|(_, value)| !value.is_empty());
    Value::Object(given.map(|(name, value)| (name.to_owned(), json!(value))).collect::<Map<_, _>>())
}

fn timestamp() -> Value {
    json!(format!("{:.6}", Timestamp::now()))
}
