//! Whether a webhook is for a request.

use apimachinery::Status;
use serde_json::Value;

use super::hook::{Hook, MatchPolicy};
use super::rules::RuleRequest;
use crate::admission::{Attributes, Operation};
use crate::api::Api;
use crate::endpoint::Endpoint;

/// What webhooks are asked about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subject<'a> {
    pub(super) attributes: Attributes<'a>,
    pub(super) object: Option<&'a Value>,
}

impl Subject<'_> {
    fn is_namespace(&self) -> bool {
        let resource = &self.attributes.endpoint.resource;
        resource.group.is_empty() && resource.plural == "namespaces"
    }

    /// The namespace of the request. That of a namespace is itself.
    pub(super) fn namespace(&self) -> &str {
        if self.is_namespace() { self.attributes.name } else { &self.attributes.endpoint.namespace }
    }
}

/// The version of the resource in which the webhook wants to see the object; absent if it is not for the request.
pub(super) async fn matching(api: &Api, hook: &Hook, subject: Subject<'_>) -> Result<Option<usize>, Status> {
    let Some(version) = version_by_rules(hook, subject) else { return Ok(None) };
    let is_for = has_labels(hook, subject) && in_namespace(api, hook, subject).await?;
    Ok(is_for.then_some(version))
}

fn version_by_rules(hook: &Hook, subject: Subject<'_>) -> Option<usize> {
    let Attributes { operation, endpoint, .. } = subject.attributes;
    let resource = &endpoint.resource;
    let asked = |version: usize| RuleRequest {
        operation,
        group: &resource.group,
        version: &resource.versions[version].name,
        resource: &resource.plural,
        subresource: &endpoint.subresource,
        namespace: subject.namespace(),
    };
    if hook.rules.iter().any(|rule| rule.matches(asked(endpoint.version))) {
        return Some(endpoint.version);
    }
    if hook.match_policy == MatchPolicy::Exact {
        return None;
    }
    // A rule for another version of the resource is meant for this one too.
    let others = || (0..resource.versions.len()).filter(|version| *version != endpoint.version);
    hook.rules.iter().find_map(|rule| others().find(|version| rule.matches(asked(*version))))
}

async fn in_namespace(api: &Api, hook: &Hook, subject: Subject<'_>) -> Result<bool, Status> {
    let namespace = subject.namespace();
    if hook.namespaces.is_everything() || (namespace.is_empty() && !subject.is_namespace()) {
        return Ok(true);
    }
    let Attributes { operation, endpoint, .. } = subject.attributes;
    let written =
        matches!(operation, Operation::Create | Operation::Update) && endpoint.subresource.is_empty();
    if subject.is_namespace() && written {
        return Ok(subject.object.is_some_and(|object| hook.namespaces.matches_object(object)));
    }
    let registry = api.registry().snapshot();
    // A server without namespaces takes all of them to exist, and none to have labels.
    let Some(namespaces) = registry.resource("", "namespaces") else {
        return Ok(hook.namespaces.matches_object(&Value::Null));
    };
    let endpoint = Endpoint::object(namespaces.clone(), "", namespace);
    let object = endpoint.read(&api.read(&endpoint).await?)?;
    Ok(hook.namespaces.matches_object(&object))
}

fn has_labels(hook: &Hook, subject: Subject<'_>) -> bool {
    hook.objects.is_everything()
        || [subject.object, subject.attributes.old]
            .into_iter()
            .flatten()
            .any(|object| hook.objects.matches_object(object))
}
