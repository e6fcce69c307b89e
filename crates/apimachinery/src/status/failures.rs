//! Each way for a request to fail, worded as Kubernetes words it.

use std::collections::HashSet;
use std::fmt;

use apischema::FieldError;

use super::{Outcome, Reason, Status, StatusCause, StatusDetails, StatusMetadata};
use crate::group::{GroupKind, GroupResource};
use apischema::go_text::quote;

/// What an update is told when it was made from an old version of the object.
const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

impl Status {
    /// A delete that went well.
    pub fn deleted(resource: &GroupResource, name: &str, uid: &str) -> Self {
        let details = StatusDetails { uid: uid.to_owned(), ..about(resource, name) };
        Status { outcome: Outcome::Success, ..Self::of(0, Reason::Unknown, String::new(), Some(details)) }
    }

    /// 404
    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        let message = format!("{resource} {} not found", quote(name));
        Self::of(404, Reason::NotFound, message, Some(about(resource, name)))
    }

    /// 404 for a path that leads nowhere.
    pub fn no_such_resource() -> Self {
        let message = "the server could not find the requested resource".to_owned();
        Self::of(404, Reason::NotFound, message, Some(StatusDetails::default()))
    }

    /// 409: the name is taken.
    pub fn already_exists(resource: &GroupResource, name: &str) -> Self {
        let message = format!("{resource} {} already exists", quote(name));
        Self::of(409, Reason::AlreadyExists, message, Some(about(resource, name)))
    }

    /// 409: the name that the server made up is taken.
    pub fn generated_name_exists(resource: &GroupResource, name: &str) -> Self {
        let message = format!(
            "{resource} {} already exists, the server was not able to generate a unique name for the object",
            quote(name)
        );
        let details = StatusDetails { retry_after_seconds: 1, ..about(resource, name) };
        Self::of(409, Reason::AlreadyExists, message, Some(details))
    }

    /// 409: what is asked for cannot be done to the object as it is now.
    pub fn conflict(resource: &GroupResource, name: &str, why: impl fmt::Display) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} {}: {why}", quote(name));
        Self::of(409, Reason::Conflict, message, Some(about(resource, name)))
    }

    /// 409: the update was made from an old version of the object.
    pub fn modified(resource: &GroupResource, name: &str) -> Self {
        Self::conflict(resource, name, MODIFIED)
    }

    /// 409: other managers own fields of an applied configuration.
    pub fn apply_conflict(message: String, causes: Vec<StatusCause>) -> Self {
        let details = StatusDetails { causes, ..StatusDetails::default() };
        Self::of(409, Reason::Conflict, message, Some(details))
    }

    /// 422: fields are wrong.
    pub fn invalid(kind: &GroupKind, name: &str, errors: &[FieldError]) -> Self {
        let mut message = format!("{kind} {} is invalid", quote(name));
        if !errors.is_empty() {
            message.push_str(": ");
            message.push_str(&aggregate(errors));
        }
        let causes = errors.iter().map(|error| StatusCause {
            reason: error.reason().to_owned(),
            message: error.body().to_string(),
            field: error.path.clone(),
        });
        let details = StatusDetails {
            name: name.to_owned(),
            group: kind.group.clone(),
            kind: kind.kind.clone(),
            causes: causes.collect(),
            ..StatusDetails::default()
        };
        Self::of(422, Reason::Invalid, message, Some(details))
    }

    /// 422 that does not say why: what a JSON patch that cannot be applied is answered.
    pub fn unprocessable() -> Self {
        let message = "the server rejected our request due to an error in our request".to_owned();
        Self::of(422, Reason::Invalid, message, Some(StatusDetails::default()))
    }

    /// 400
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::of(400, Reason::BadRequest, message.into(), None)
    }

    /// 401
    pub fn unauthorized() -> Self {
        Self::of(401, Reason::Unauthorized, "Unauthorized".to_owned(), None)
    }

    /// 403. An empty resource or name is left out.
    pub fn forbidden(resource: &GroupResource, name: &str, why: impl fmt::Display) -> Self {
        let message = if resource.is_empty() {
            format!("forbidden: {why}")
        } else if name.is_empty() {
            format!("{resource} is forbidden: {why}")
        } else {
            format!("{resource} {} is forbidden: {why}", quote(name))
        };
        Self::of(403, Reason::Forbidden, message, Some(about(resource, name)))
    }

    /// 403: the user has no right to do this.
    pub fn access_denied(access: &Access<'_>, why: &str) -> Self {
        let mut message = access.to_string();
        // Browsers must not take it for HTML.
        for (character, entity) in [('&', "&amp;"), ('<', "&lt;"), ('>', "&gt;")] {
            if message.contains(character) {
                message = message.replace(character, entity);
            }
        }
        if !why.is_empty() {
            message.push_str(": ");
            message.push_str(why);
        }
        match access.of {
            Accessed::Resource { group, resource, name, .. } => {
                Self::forbidden(&GroupResource::new(group, resource), name, message)
            }
            Accessed::Path(_) => Self::forbidden(&GroupResource::default(), "", message),
        }
    }

    /// 405
    pub fn method_not_supported(resource: &GroupResource, action: &str) -> Self {
        let message =
            format!("{action} is not supported on resources of kind {}", quote(&resource.to_string()));
        Self::of(405, Reason::MethodNotAllowed, message, Some(about(resource, "")))
    }

    /// 405 for a path that serves no such method.
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource".to_owned();
        Self::of(405, Reason::MethodNotAllowed, message, Some(StatusDetails::default()))
    }

    /// 406
    pub fn not_acceptable(accepted: &[&str]) -> Self {
        let message = format!("only the following media types are accepted: {}", accepted.join(", "));
        Self::of(406, Reason::NotAcceptable, message, None)
    }

    /// 406: what is asked for cannot be shown so.
    pub fn not_shown_so(message: impl Into<String>) -> Self {
        Self::of(406, Reason::NotAcceptable, message.into(), None)
    }

    /// 406 for a path none of whose answers the client takes.
    pub fn unroutable_accept(available: &[&str]) -> Self {
        let message = format!("406: Not Acceptable\n\nAvailable representations: {}", available.join(", "));
        Self::of(406, Reason::NotAcceptable, message, Some(StatusDetails::default()))
    }

    /// 415 for a path that takes no such body.
    pub fn unroutable_content_type() -> Self {
        let message = "415: Unsupported Media Type".to_owned();
        Self::of(415, Reason::UnsupportedMediaType, message, Some(StatusDetails::default()))
    }

    /// 415
    pub fn unsupported_media_type(accepted: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        );
        Self::of(415, Reason::UnsupportedMediaType, message, None)
    }

    /// 410: gone for good.
    pub fn gone(message: impl Into<String>) -> Self {
        Self::of(410, Reason::Gone, message.into(), None)
    }

    /// 410: the revision asked for is no longer there; list again.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::of(410, Reason::Expired, message.into(), None)
    }

    /// 410: a list's snapshot is gone, but it can go on from this token, inconsistently.
    pub fn expired_continue(message: impl Into<String>, continue_token: impl Into<String>) -> Self {
        let metadata = StatusMetadata { continue_token: continue_token.into() };
        Status { metadata, ..Self::expired(message) }
    }

    /// 504
    pub fn timeout(message: impl fmt::Display, retry_after_seconds: u32) -> Self {
        let details = StatusDetails { retry_after_seconds, ..StatusDetails::default() };
        Self::of(504, Reason::Timeout, format!("Timeout: {message}"), Some(details))
    }

    /// 504: a revision is asked for that is not there yet.
    pub fn too_large_resource_version(asked: u64, current: u64) -> Self {
        let mut status =
            Self::timeout(format_args!("Too large resource version: {asked}, current: {current}"), 1);
        if let Some(details) = &mut status.details {
            details.causes.push(StatusCause {
                reason: "ResourceVersionTooLarge".to_owned(),
                message: "Too large resource version".to_owned(),
                field: String::new(),
            });
        }
        status
    }

    /// 500: this time it could not be done.
    pub fn server_timeout(resource: &GroupResource, operation: &str, retry_after_seconds: u32) -> Self {
        let message = format!(
            "The {operation} operation against {resource} could not be completed at this time, please try again."
        );
        let details = StatusDetails { retry_after_seconds, ..about(resource, operation) };
        Self::of(500, Reason::ServerTimeout, message, Some(details))
    }

    /// 429
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Self {
        let details = StatusDetails { retry_after_seconds, ..StatusDetails::default() };
        Self::of(429, Reason::TooManyRequests, message.into(), Some(details))
    }

    /// 413
    pub fn request_entity_too_large(message: impl fmt::Display) -> Self {
        let message = format!("Request entity too large: {message}");
        Self::of(413, Reason::RequestEntityTooLarge, message, None)
    }

    /// 500
    pub fn internal_error(why: impl fmt::Display) -> Self {
        let why = why.to_string();
        let message = format!("Internal error occurred: {why}");
        let cause = StatusCause { message: why, ..StatusCause::default() };
        let details = StatusDetails { causes: vec![cause], ..StatusDetails::default() };
        Self::of(500, Reason::InternalError, message, Some(details))
    }

    /// 400 with nothing but a message, where Kubernetes answers 500 so to a request that it did not expect: whoever is called
    /// at night for errors of the server is not called for those of clients. No reason is given either, so that `kubectl`
    /// says the same.
    pub fn unexpected(message: impl Into<String>) -> Self {
        Self::of(400, Reason::Unknown, message.into(), None)
    }

    /// 503
    pub fn service_unavailable(message: impl Into<String>) -> Self {
        Self::of(503, Reason::ServiceUnavailable, message.into(), None)
    }

    fn of(code: u16, reason: Reason, message: String, details: Option<StatusDetails>) -> Self {
        Status {
            kind: super::Kind,
            api_version: super::ApiVersion,
            metadata: StatusMetadata::default(),
            outcome: Outcome::Failure,
            message,
            reason,
            details: details.map(Box::new),
            code,
        }
    }
}

/// What a user tried to do.
#[derive(Clone, Copy, Debug)]
pub struct Access<'a> {
    /// Who.
    pub user: &'a str,
    /// `list`, or a method of HTTP in lower case.
    pub verb: &'a str,
    /// To what.
    pub of: Accessed<'a>,
}

/// What a user tried to get at.
#[derive(Clone, Copy, Debug)]
pub enum Accessed<'a> {
    /// Objects.
    Resource {
        /// Empty for the core group.
        group: &'a str,
        /// `pods`
        resource: &'a str,
        /// `status`; empty for the object itself.
        subresource: &'a str,
        /// Empty for all namespaces, and for what is in none.
        namespace: &'a str,
        /// Empty for more than one object.
        name: &'a str,
    },
    /// A path that has no objects.
    Path(&'a str),
}

impl fmt::Display for Access<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "User {} cannot {} ", quote(self.user), self.verb)?;
        match self.of {
            Accessed::Path(path) => write!(formatter, "path {}", quote(path)),
            Accessed::Resource { group, resource, subresource, namespace, .. } => {
                let whole = if subresource.is_empty() {
                    quote(resource)
                } else {
                    quote(&format!("{resource}/{subresource}"))
                };
                write!(formatter, "resource {whole} in API group {} ", quote(group))?;
                if namespace.is_empty() {
                    formatter.write_str("at the cluster scope")
                } else {
                    write!(formatter, "in the namespace {}", quote(namespace))
                }
            }
        }
    }
}

fn about(resource: &GroupResource, name: &str) -> StatusDetails {
    StatusDetails {
        name: name.to_owned(),
        group: resource.group.clone(),
        kind: resource.resource.clone(),
        ..StatusDetails::default()
    }
}

/// All messages in one: each once, in brackets if there are several.
pub(crate) fn aggregate(errors: &[FieldError]) -> String {
    let mut seen = HashSet::with_capacity(errors.len());
    let all = errors.iter().map(FieldError::to_string);
    let mut messages: Vec<String> = all.filter(|message| seen.insert(message.clone())).collect();
    if messages.len() == 1 { messages.remove(0) } else { format!("[{}]", messages.join(", ")) }
}
