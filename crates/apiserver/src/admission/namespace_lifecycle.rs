//! Nothing is made in a namespace that does not exist or is ending, and some namespaces do not end.

use apimachinery::{Status, StatusCause};
use futures::future::{BoxFuture, FutureExt};
use serde_json::Value;

use super::{Admission, Attributes, Operation};
use crate::api::Api;
use crate::endpoint::Endpoint;

/// Keeps objects out of namespaces that do not exist or are ending.
#[derive(Clone, Copy, Debug, Default)]
pub struct NamespaceLifecycle;

const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

impl Admission for NamespaceLifecycle {
    fn name(&self) -> &'static str {
        "NamespaceLifecycle"
    }

    fn handles(&self, operation: Operation) -> bool {
        operation != Operation::Connect
    }

    fn admit<'a>(
        &'a self,
        api: &'a Api,
        attributes: Attributes<'a>,
        _object: &'a mut Value,
    ) -> BoxFuture<'a, Result<(), Status>> {
        check(api, attributes).boxed()
    }

    fn validate<'a>(
        &'a self,
        _api: &'a Api,
        attributes: Attributes<'a>,
        _object: Option<&'a Value>,
    ) -> BoxFuture<'a, Result<(), Status>> {
        let immortal = attributes.operation == Operation::Delete
            && is_namespace(attributes.endpoint)
            && IMMORTAL.contains(&attributes.name);
        let answer = if immortal {
            Err(attributes.endpoint.resource.forbidden(attributes.name, "this namespace may not be deleted"))
        } else {
            Ok(())
        };
        std::future::ready(answer).boxed()
    }
}

fn is_namespace(endpoint: &Endpoint) -> bool {
    endpoint.resource.group.is_empty() && endpoint.resource.plural == "namespaces"
}

async fn check(api: &Api, attributes: Attributes<'_>) -> Result<(), Status> {
    let endpoint = attributes.endpoint;
    if endpoint.namespace.is_empty() || is_namespace(endpoint) || attributes.operation == Operation::Delete {
        return Ok(());
    }
    // To say whether a namespace exists to whoever asks what they may do in it would be telling too much.
    if endpoint.resource.group == "authorization.k8s.io" {
        return Ok(());
    }
    let registry = api.registry().snapshot();
    // A server without namespaces takes all of them to exist.
    let Some(namespaces) = registry.resource("", "namespaces") else { return Ok(()) };
    let namespace = api.read(&Endpoint::object(namespaces.clone(), "", &endpoint.namespace)).await?;
    if attributes.operation != Operation::Create {
        return Ok(());
    }
    let namespace = namespace.to_value().map_err(Status::internal_error)?;
    let phase = namespace.pointer("/status/phase").and_then(Value::as_str);
    if phase != Some("Terminating") {
        return Ok(());
    }
    let name = &endpoint.namespace;
    let why = format!("unable to create new content in namespace {name} because it is being terminated");
    let mut status = endpoint.resource.forbidden(attributes.name, &why);
    if let Some(details) = &mut status.details {
        details.causes.push(StatusCause {
            reason: "NamespaceTerminating".into(),
            message: format!("namespace {name} is being terminated"),
            field: "metadata.namespace".into(),
        });
    }
    Err(status)
}
