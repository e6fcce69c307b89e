//! The audit log: one line per request, in the format that Kubernetes' tools read.
//!
//! Lines are events of `audit.k8s.io/v1` at level `Metadata`: who did what to which object, and the outcome. `user` is whoever
//! authenticated; if they act as somebody else, `impersonatedUser` says as whom. Requests whose credentials are refused are
//! logged without a user. A watch is logged when it begins, everything else when it has been answered.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use http::header::AUTHORIZATION;
use http::{HeaderMap, StatusCode, Uri};
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
    /// Appends to this file. A file that does not exist is made, readable for its owner only.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn open(path: &Path) -> io::Result<AuditLog> {
        Ok(AuditLog {
            file: Mutex::new(OpenOptions::new().create(true).append(true).mode(0o600).open(path)?),
        })
    }

    /// Writes the outcome of a request. A line is written at once, so that whoever has the answer finds it in the log.
    pub(crate) fn write(&self, audited: Audited, code: StatusCode) {
        let Audited { mut event } = audited;
        if event.get("responseStatus").is_none() {
            event["responseStatus"] = json!({"metadata": {}});
        }
        event["responseStatus"]["code"] = json!(code.as_u16());
        event["stageTimestamp"] = timestamp();
        let line = format!("{event}\n");
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = file.write_all(line.as_bytes()) {
            tracing::error!(%error, "the audit log cannot be written");
        }
    }
}

impl Audited {
    /// A request that arrives now, from a client that is not authenticated yet.
    pub(crate) fn begin(
        verb: &str,
        target: &Target,
        uri: &Uri,
        user_agent: &str,
        source: Option<IpAddr>,
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
            "user": {},
            "userAgent": user_agent,
            "requestReceivedTimestamp": timestamp(),
        });
        if let Some(source) = source {
            event["sourceIPs"] = json!([source]);
        }
        if let Target::Resource(path) = target {
            event["objectRef"] = object_reference(path);
        }
        Audited { event }
    }

    /// Notes who authenticated.
    pub(crate) fn user(&mut self, user: &UserInfo) {
        self.event["user"] = user_info(user);
    }

    /// Notes as whom the user acts.
    pub(crate) fn impersonated(&mut self, user: &UserInfo) {
        self.event["impersonatedUser"] = user_info(user);
    }

    /// Notes that the client's credentials were refused.
    pub(crate) fn unauthenticated(&mut self, headers: &HeaderMap) {
        let scheme = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()?.split(' ').next());
        let attempted = match scheme.unwrap_or_default().to_ascii_lowercase().as_str() {
            "bearer" => "bearer",
            "basic" => "basic",
            _ => "unknown method",
        };
        let message = format!("Authentication failed, attempted: {attempted}");
        self.event["stage"] = json!("ResponseStarted");
        self.event["responseStatus"] = json!({"metadata": {}, "status": "Failure", "message": message});
    }
}

fn user_info(user: &UserInfo) -> Value {
    let mut info = json!({"username": user.name, "groups": user.groups});
    if !user.uid.is_empty() {
        info["uid"] = json!(user.uid);
    }
    if !user.extra.is_empty() {
        info["extra"] = json!(user.extra);
    }
    info
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
