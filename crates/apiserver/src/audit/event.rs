//! What a line of the audit log says. Every text that a client chooses is cut, so that a line has a bounded length.

use std::net::IpAddr;

use http::header::{AUTHORIZATION, USER_AGENT};
use http::{HeaderMap, Request, StatusCode};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::authn::UserInfo;
use crate::request::{ResourcePath, Target, Verb};

/// The longest text of one field, in bytes: a name, a verb, a user agent.
const TEXT_BYTES: usize = 1 << 10;
/// The longest path with its query.
const URI_BYTES: usize = 4 << 10;
/// The groups of a user, all together; and what else is known of them.
const LIST_BYTES: usize = 4 << 10;
/// The end of a text that was cut, as kube-apiserver writes it.
const TRUNCATED: &str = "...TRUNCATED";

/// A request, and what is known of its outcome.
#[derive(Debug)]
pub(crate) struct AuditEvent {
    event: Value,
}

impl AuditEvent {
    /// A request that arrives now, from a client that is not authenticated yet. What it asks for is not parsed yet.
    pub(crate) fn begin<B>(request: &Request<B>, source: Option<IpAddr>) -> AuditEvent {
        let uri = request.uri();
        let agent = request.headers().get(USER_AGENT).and_then(|agent| agent.to_str().ok());
        let mut event = json!({
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": "Metadata",
            "auditID": uuid::Uuid::new_v4().to_string(),
            "stage": "ResponseComplete",
            "requestURI": cut(uri.path_and_query().map_or(uri.path(), |address| address.as_str()), URI_BYTES),
            "verb": cut(&request.method().as_str().to_ascii_lowercase(), TEXT_BYTES),
            "user": {},
            "userAgent": cut(agent.unwrap_or_default(), TEXT_BYTES),
            "requestReceivedTimestamp": timestamp(),
        });
        if let Some(source) = source {
            event["sourceIPs"] = json!([source]);
        }
        AuditEvent { event }
    }

    /// Says that other requests have no line.
    pub(crate) fn lost(events: u64) -> AuditEvent {
        let message =
            format!("{events} requests before this line are not in the log: it could not be written");
        let event = json!({
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": "Metadata",
            "auditID": uuid::Uuid::new_v4().to_string(),
            "stage": "ResponseComplete",
            "requestURI": "",
            "verb": "",
            "user": {},
            "responseStatus": {"metadata": {}, "status": "Failure", "message": message},
            "annotations": {"audit.portolan.dev/lost-events": events.to_string()},
            "requestReceivedTimestamp": timestamp(),
        });
        AuditEvent { event }
    }

    /// Notes what the request asks for.
    pub(crate) fn asks(&mut self, verb: &str, target: &Target) {
        if verb == Verb::Watch.as_str() {
            self.event["stage"] = json!("ResponseStarted");
        }
        self.event["verb"] = json!(cut(verb, TEXT_BYTES));
        if let Target::Resource(path) = target {
            self.event["objectRef"] = object_reference(path);
        }
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

    /// Notes the answer.
    pub(crate) fn answered(&mut self, code: StatusCode) {
        if self.event.get("responseStatus").is_none() {
            self.event["responseStatus"] = json!({"metadata": {}});
        }
        self.event["responseStatus"]["code"] = json!(code.as_u16());
    }

    /// Notes that the handler panicked, which the client was told with this code.
    pub(crate) fn panicked(&mut self, code: StatusCode) {
        self.event["stage"] = json!("Panic");
        let message = "the server panicked while it handled the request; its own log says where";
        self.event["responseStatus"] =
            json!({"metadata": {}, "status": "Failure", "reason": "InternalError", "message": message});
        self.answered(code);
    }

    /// Notes that no answer was sent. There is no code.
    pub(crate) fn unanswered(&mut self, why: &str) {
        self.event["stage"] = json!("ResponseComplete");
        let message = format!("not answered: {why}; a change that was asked for may have been made");
        self.event["responseStatus"] = json!({"metadata": {}, "status": "Failure", "message": message});
    }

    /// The line, with its end.
    pub(crate) fn into_line(mut self) -> Vec<u8> {
        self.event["stageTimestamp"] = timestamp();
        format!("{}\n", self.event).into_bytes()
    }
}

fn user_info(user: &UserInfo) -> Value {
    let mut info = json!({"username": cut(&user.name, TEXT_BYTES), "groups": groups(&user.groups)});
    if !user.uid.is_empty() {
        info["uid"] = json!(cut(&user.uid, TEXT_BYTES));
    }
    if !user.extra.is_empty() {
        info["extra"] = extra(user);
    }
    info
}

/// As many as there is room for.
fn groups(all: &[String]) -> Vec<String> {
    let mut room = Room(LIST_BYTES);
    let mut groups: Vec<String> = all.iter().map_while(|group| room.take(group)).collect();
    if groups.len() < all.len() {
        groups.push(TRUNCATED.to_owned());
    }
    groups
}

fn extra(user: &UserInfo) -> Value {
    let mut room = Room(LIST_BYTES);
    let mut extra = Map::new();
    for (key, values) in &user.extra {
        let Some(key) = room.take(key) else {
            extra.insert(TRUNCATED.to_owned(), json!([]));
            break;
        };
        let mut kept: Vec<String> = values.iter().map_while(|value| room.take(value)).collect();
        if kept.len() < values.len() {
            kept.push(TRUNCATED.to_owned());
        }
        extra.insert(key, json!(kept));
    }
    Value::Object(extra)
}

/// What may still be written of a list.
struct Room(usize);

impl Room {
    /// A text, cut; absent if there is no room for it. One that is empty takes some too.
    fn take(&mut self, text: &str) -> Option<String> {
        let text = cut(text, TEXT_BYTES);
        self.0 = self.0.checked_sub(text.len() + 4)?;
        Some(text)
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
    let cut = |(name, value): (&str, &String)| (name.to_owned(), json!(cut(value, TEXT_BYTES)));
    Value::Object(given.map(cut).collect::<Map<_, _>>())
}

/// A text of at most so many bytes.
fn cut(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(bytes - TRUNCATED.len());
    format!("{}{TRUNCATED}", &text[..end])
}

fn timestamp() -> Value {
    json!(format!("{:.6}", Timestamp::now()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_client_can_make_a_line_long() {
        let long = "ä".repeat(5000);
        let request = Request::builder()
            .method("A".repeat(5000).as_str())
            .uri(format!("/{}", "a".repeat(60_000)))
            .header("user-agent", "b".repeat(100_000))
            .body(())
            .unwrap();
        let mut event = AuditEvent::begin(&request, None);
        let path = ResourcePath {
            group: long.clone(),
            version: long.clone(),
            namespace: long.clone(),
            resource: long.clone(),
            name: long.clone(),
            subresource: long.clone(),
            rest: Vec::new(),
            watch: false,
        };
        event.asks("get", &Target::Resource(path));
        let mut user = UserInfo::new(long.as_str(), std::iter::repeat_n(long.clone(), 100));
        user.uid.clone_from(&long);
        for number in 0..100 {
            user.extra.insert(format!("{number}{long}"), vec![long.clone(); 10]);
        }
        event.user(&user);
        event.impersonated(&user);
        event.answered(StatusCode::OK);
        let line = event.into_line();
        assert!(line.len() < 40 << 10, "{} bytes", line.len());
        let line: Value = serde_json::from_slice(&line).unwrap();
        for field in
            [&line["userAgent"], &line["requestURI"], &line["user"]["username"], &line["objectRef"]["name"]]
        {
            assert!(field.as_str().unwrap().ends_with(TRUNCATED), "{field}");
        }
        assert_eq!(line["user"]["groups"].as_array().unwrap().last().unwrap(), TRUNCATED);
        assert_eq!(line["impersonatedUser"], line["user"]);
    }

    #[test]
    fn what_is_short_is_written_whole() {
        let request = Request::builder().uri("/api?x=1").header("user-agent", "kubectl").body(()).unwrap();
        let mut event = AuditEvent::begin(&request, Some([127, 0, 0, 1].into()));
        let mut user = UserInfo::new("ann", (0..50).map(|number| format!("group-{number}")));
        user.extra.insert("scopes".into(), vec![String::new(), "all".into()]);
        event.user(&user);
        let line: Value = serde_json::from_slice(&event.into_line()).unwrap();
        assert_eq!((&line["requestURI"], &line["userAgent"]), (&json!("/api?x=1"), &json!("kubectl")));
        assert_eq!(line["user"]["groups"], json!(user.groups));
        assert_eq!(line["user"]["extra"], json!({"scopes": ["", "all"]}));
    }
}
