//! Requests about objects: reading what the client wants, doing it, and writing the answer.

use std::sync::Arc;
use std::time::Duration;

use apimachinery::{FieldOperator, FieldSelector, LabelSelector, Reason, SelectorError, Status};
use bytes::Bytes;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Request};
use hyper::body::Incoming;
use tokio::time::Instant;

use super::Shared;
use super::answer::{self, Body, Response};
use super::handler::too_many_requests;
use super::route::Routed;
use super::watch_stream::{self, WatchTimes};
use crate::content::{
    Accepted, Purpose, Renderer, read_body, read_custom, read_delete_options, read_object, read_patch_type,
};
use crate::context::Context;
use crate::endpoint::Endpoint;
use crate::options::{DeleteOptions, ListOptions, OptionsKind, WriteOptions};
use crate::registry::{ScalePaths, SubresourceHandler, SubresourceKind, SubresourceRequest};
use crate::request::{Query, Verb};
use crate::selection::{FieldRequirement, Selection};
use crate::verbs::{Answer, Content, Patch, PatchType, ScaleWrite, Submitted};

/// A request about objects, as far as it is understood.
struct ResourceRequest<'a> {
    shared: &'a Arc<Shared>,
    context: &'a Context,
    verb: Verb,
    endpoint: Endpoint,
    query: &'a Query,
    headers: HeaderMap,
    accepted: Accepted,
}

pub(super) async fn handle(
    shared: &Arc<Shared>,
    context: &Context,
    verb: Verb,
    routed: Routed,
    query: &Query,
    request: Request<Incoming>,
) -> Result<Response, Status> {
    let Routed { endpoint, watched_name } = routed;
    if let Some(warning) = &endpoint.version().deprecation_warning {
        context.warn(warning.clone());
    }
    let (parts, body) = request.into_parts();
    let purpose = match verb {
        Verb::List | Verb::DeleteCollection => Purpose::Many,
        Verb::Watch => Purpose::Stream,
        _ => Purpose::One,
    };
    let accept = parts.headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let accepted = Accepted::negotiate(accept, query, &context.user_agent, purpose)?;
    let request =
        ResourceRequest { shared, context, verb, endpoint, query, headers: parts.headers, accepted };
    if verb == Verb::Watch {
        return request.watch(watched_name).await;
    }
    let body = if verb.is_mutating() { read_body(body).await? } else { Bytes::new() };
    let answer = request.answer(body).await?;
    request.render(&answer)
}

impl ResourceRequest<'_> {
    async fn answer(&self, body: Bytes) -> Result<Answer, Status> {
        let subresource = self.endpoint.version().find_subresource(&self.endpoint.subresource);
        if let Some(handler) = self.endpoint.resource.handler.as_ref().filter(|_| subresource.is_none()) {
            return self.handle(&**handler, &self.endpoint.resource.kind, &body).await;
        }
        match subresource.map(|subresource| &subresource.kind) {
            Some(SubresourceKind::Scale(paths)) => self.scale(paths, body).await,
            Some(SubresourceKind::Custom { kind, handler, .. }) => self.handle(&**handler, kind, &body).await,
            Some(SubresourceKind::Status) | None => self.object(body).await,
        }
    }

    async fn handle(
        &self,
        handler: &dyn SubresourceHandler,
        kind: &str,
        body: &Bytes,
    ) -> Result<Answer, Status> {
        let body = match body.is_empty() {
            true => None,
            false => Some(read_object(&self.headers, body, kind, None)?.object),
        };
        let options = self.write_options(OptionsKind::Create)?;
        let (verb, endpoint, context) = (self.verb, &self.endpoint, self.context);
        handler.handle(&self.shared.api, SubresourceRequest { verb, endpoint, context, body, options }).await
    }

    async fn object(&self, body: Bytes) -> Result<Answer, Status> {
        let (api, endpoint, context) = (&self.shared.api, &self.endpoint, self.context);
        match self.verb {
            Verb::Get => api.get(endpoint, self.query.get("resourceVersion").unwrap_or_default()).await,
            Verb::List => {
                let options = ListOptions::parse(self.query, false)?;
                let listed = api.list(endpoint, &self.selection(&options, None)?, &options).await?;
                Ok(Answer::ok(Content::List(listed)))
            }
            Verb::Create => {
                let options = self.write_options(OptionsKind::Create)?;
                api.create(endpoint, context, self.read(&body)?, &options).await
            }
            Verb::Update => {
                let options = self.write_options(OptionsKind::Update)?;
                api.update(endpoint, context, self.read(&body)?, &options).await
            }
            Verb::Patch => {
                let (patch, options) = self.patch(body)?;
                api.patch(endpoint, context, &patch, &options).await
            }
            Verb::Delete => api.delete(endpoint, context, &self.delete_options(&body)?).await,
            Verb::DeleteCollection => {
                let list_options = ListOptions::parse(self.query, false)?;
                let selection = self.selection(&list_options, None)?;
                let options = self.delete_options(&body)?;
                api.delete_collection(endpoint, context, &selection, &list_options, &options).await
            }
            Verb::Watch => Err(Status::method_not_allowed()),
        }
    }

    async fn scale(&self, paths: &ScalePaths, body: Bytes) -> Result<Answer, Status> {
        let (api, endpoint, context) = (&self.shared.api, &self.endpoint, self.context);
        match self.verb {
            Verb::Get => api.get_scale(endpoint, paths).await,
            Verb::Update => {
                let options = self.write_options(OptionsKind::Update)?;
                let write = ScaleWrite::Replace(read_object(&self.headers, &body, "Scale", None)?.object);
                api.write_scale(endpoint, context, paths, &write, &options).await
            }
            Verb::Patch => {
                let (patch, options) = self.patch(body)?;
                api.write_scale(endpoint, context, paths, &ScaleWrite::Patch(patch), &options).await
            }
            _ => Err(Status::method_not_allowed()),
        }
    }

    async fn watch(self, name: Option<String>) -> Result<Response, Status> {
        let options = ListOptions::parse(self.query, true)?;
        let selection = self.selection(&options, name)?;
        let renderer = Renderer::new(self.endpoint.clone(), self.accepted);
        let place = self.shared.limits.enter_watch().ok_or_else(too_many_requests)?;
        let body = match self.shared.api.watch(&self.endpoint, selection, &options).await {
            Ok(watching) => {
                let timeout = options.timeout_seconds.map_or_else(default_timeout, Duration::from_secs);
                let deadline = Instant::now() + timeout.min(LONGEST_WATCH);
                let times = WatchTimes { deadline, bookmarks: options.allow_bookmarks };
                let counted = (self.shared.metrics.watch(&self.endpoint.resource), place);
                watch_stream::stream(self.shared.clone(), watching, renderer, times, counted)
            }
            // That a revision cannot be watched from is the first event, as in Kubernetes.
            Err(status) if status.reason == Reason::Expired => watch_stream::refused(&renderer, &status),
            Err(status) => return Err(status),
        };
        let mut response = http::Response::new(Body::Stream(body));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        Ok(response)
    }

    fn render(&self, answer: &Answer) -> Result<Response, Status> {
        let renderer = Renderer::new(self.endpoint.clone(), self.accepted);
        let body = renderer.content(&answer.content, self.context.now)?;
        Ok(answer::whole(answer.code, renderer.media_type(), body))
    }

    fn read(&self, body: &[u8]) -> Result<Submitted, Status> {
        let resource = &self.endpoint.resource;
        if resource.is_custom() {
            let submitted = read_custom(&self.headers, body, &resource.kind)?;
            self.endpoint.check_custom_version(&submitted.object)?;
            return Ok(submitted);
        }
        // The types of core kinds are read field by field; what a custom resource does not have is pruned later.
        let schema = self.endpoint.version().schema.as_deref().filter(|schema| schema.type_name.is_some());
        read_object(&self.headers, body, &resource.kind, schema)
    }

    fn write_options(&self, kind: OptionsKind) -> Result<WriteOptions, Status> {
        WriteOptions::parse(self.query, kind)
    }

    fn delete_options(&self, body: &[u8]) -> Result<DeleteOptions, Status> {
        DeleteOptions::parse(self.query, read_delete_options(&self.headers, body)?)
    }

    fn patch(&self, body: Bytes) -> Result<(Patch, WriteOptions), Status> {
        let supported = self.endpoint.resource.patch_types();
        let kind = read_patch_type(&self.headers, supported)?;
        let options_kind = if kind == PatchType::Apply { OptionsKind::Apply } else { OptionsKind::Patch };
        Ok((Patch { kind, body }, self.write_options(options_kind)?))
    }

    /// What is selected by the query, and by a name in the path of a watch.
    fn selection(&self, options: &ListOptions, name: Option<String>) -> Result<Selection, Status> {
        let bad_request = |error: SelectorError| Status::bad_request(error.to_string());
        let labels = LabelSelector::parse(&options.label_selector).map_err(bad_request)?;
        let fields = FieldSelector::parse(&options.field_selector).map_err(bad_request)?;
        let resource = &self.endpoint.resource;
        resource.check_fields(&fields).map_err(bad_request)?;

        let mut selection = Selection::in_namespace(&self.endpoint.namespace).with_labels(labels);
        if let Some(name) = name {
            if fields
                .requirements()
                .iter()
                .any(|requirement| requirement.path != "metadata.name" || requirement.value != name)
            {
                return Err(Status::bad_request("fieldSelector metadata.name doesn't match requested name"));
            }
            selection = selection.with_name(&name);
        }
        Ok(selection.with_fields(fields.requirements().iter().filter_map(|requirement| {
            Some(FieldRequirement {
                field: resource.selectable_field(&requirement.path)?,
                equal: requirement.operator == FieldOperator::Equals,
                value: requirement.value.clone(),
            })
        })))
    }
}

// However long a client wants to watch. A longer time cannot be added to every clock.
const LONGEST_WATCH: Duration = Duration::from_secs(365 * 24 * 3600);

/// Watches without a timeout end at different times, so that not all clients come back at once.
fn default_timeout() -> Duration {
    Duration::from_secs(1800).mul_f64(1.0 + fastrand::f64())
}
