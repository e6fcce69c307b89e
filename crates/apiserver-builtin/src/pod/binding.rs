//! `binding`: which node a pod runs on. It is said once.

use apimachinery::Status;
use apimachinery::group::GroupResource;
use apischema::FieldError;
use futures::future::{BoxFuture, FutureExt};
use serde_json::{Value, json};

use super::super::stored;
use super::super::value::{entries, field_mut, fields_mut, is_set, items_mut, object_mut, size, text, time};
use apiserver::api::Api;
use apiserver::endpoint::Endpoint;
use apiserver::registry::{SubresourceHandler, SubresourceRequest};
use apiserver::verbs::{Answer, Content};

/// Binds a pod to a node.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Binding;

impl SubresourceHandler for Binding {
    fn handle<'a>(
        &'a self,
        api: &'a Api,
        request: SubresourceRequest<'a>,
    ) -> BoxFuture<'a, Result<Answer, Status>> {
        bind(api, request).boxed()
    }
}

async fn bind(api: &Api, request: SubresourceRequest<'_>) -> Result<Answer, Status> {
    let binding = request.body.unwrap_or_default();
    let endpoint = pod_of(api, request.endpoint, &binding)?;
    check(&binding, &endpoint.name)?;
    let now = time(request.context.now);
    stored::change(api, &endpoint, request.options.dry_run, |pod| {
        check_preconditions(&binding, pod, &endpoint.namespace)?;
        assign(pod, &binding, &now)
            .map_err(|why| Status::conflict(&GroupResource::new("", "pods/binding"), &endpoint.name, why))
    })
    .await?;
    Ok(done())
}

/// The pod that is bound: that of the path, or, if bindings are made as if they were objects, the one of the same name.
fn pod_of(api: &Api, endpoint: &Endpoint, binding: &Value) -> Result<Endpoint, Status> {
    let registry = api.registry().snapshot();
    let pods = registry.resource("", "pods").ok_or_else(Status::no_such_resource)?;
    let name = if endpoint.name.is_empty() { text(&binding["metadata"]["name"]) } else { &endpoint.name };
    Ok(Endpoint::object(pods.clone(), &endpoint.namespace, name))
}

/// The answer to what is done and has no object.
pub(super) fn done() -> Answer {
    let status =
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Answer::created(Content::Other(status))
}

fn check(binding: &Value, name: &str) -> Result<(), Status> {
    if text(&binding["metadata"]["name"]) != name {
        return Err(Status::bad_request("name in URL does not match name in Binding object"));
    }
    let (kind, node) = (text(&binding["target"]["kind"]), text(&binding["target"]["name"]));
    let mut errors = Vec::new();
    if !matches!(kind, "" | "Node") {
        errors.push(FieldError::not_supported("target.kind", kind, &["Node", "<empty>"]));
    }
    if node.is_empty() {
        errors.push(FieldError::required("target.name", ""));
    }
    // Old clients know these by their text alone.
    let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
    match texts.as_slice() {
        [] => Ok(()),
        [one] => Err(Status::unexpected(one.as_str())),
        many => Err(Status::unexpected(format!("[{}]", many.join(", ")))),
    }
}

fn check_preconditions(binding: &Value, pod: &Value, namespace: &str) -> Result<(), Status> {
    let name = text(&pod["metadata"]["name"]);
    for (field, what) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
        let (wanted, actual) = (text(&binding["metadata"][field]), text(&pod["metadata"][field]));
        if !wanted.is_empty() && wanted != actual {
            let why = format!(
                "StorageError: invalid object, Code: 4, Key: /registry/pods/{namespace}/{name}, ResourceVersion: 0, \
                 AdditionalErrorMsg: Precondition failed: {what} in precondition: {wanted}, {what} in object meta: \
                 {actual}"
            );
            return Err(Status::conflict(&GroupResource::new("", "pods"), name, why));
        }
    }
    Ok(())
}

/// Puts a pod on a node, unless it is on one.
fn assign(pod: &mut Value, binding: &Value, now: &Value) -> Result<(), String> {
    let name = text(&pod["metadata"]["name"]).to_owned();
    if is_set(&pod["metadata"]["deletionTimestamp"]) {
        return Err(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    let node = text(&pod["spec"]["nodeName"]);
    if !node.is_empty() {
        return Err(format!("pod {name} is already assigned to node {node:?}"));
    }
    if size(&pod["spec"]["schedulingGates"]) > 0 {
        return Err(format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    object_mut(pod, "spec").insert("nodeName".into(), binding["target"]["name"].clone());
    for (key, value) in entries(&binding["metadata"]["annotations"]) {
        object_mut(field_mut(pod, "metadata"), "annotations").insert(key.into(), value.clone());
    }
    set_condition(
        pod,
        json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now}),
    );
    Ok(())
}

/// Sets a condition of a pod.
pub(super) fn set_condition(pod: &mut Value, condition: Value) {
    let status = field_mut(pod, "status");
    match items_mut(status, "conditions").iter_mut().find(|known| known["type"] == condition["type"]) {
        Some(known) => *known = condition,
        None => {
            let conditions = fields_mut(status).entry("conditions").or_insert_with(|| json!([]));
            if let Some(conditions) = conditions.as_array_mut() {
                conditions.push(condition);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binding(node: &str) -> Value {
        json!({"metadata": {"name": "p", "annotations": {"a": "b"}}, "target": {"kind": "Node", "name": node}})
    }

    #[test]
    fn a_pod_is_bound_once() {
        let mut pod = json!({"metadata": {"name": "p"}, "spec": {}, "status": {"phase": "Pending"}});
        assert_eq!(assign(&mut pod, &binding("n1"), &json!("now")), Ok(()));
        assert_eq!(pod["spec"]["nodeName"], "n1");
        assert_eq!(pod["metadata"]["annotations"], json!({"a": "b"}));
        assert_eq!(
            pod["status"]["conditions"],
            json!([{"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": "now"}])
        );
        assert_eq!(
            assign(&mut pod, &binding("n2"), &json!("now")),
            Err("pod p is already assigned to node \"n1\"".into())
        );
    }

    #[test]
    fn a_pod_that_is_gated_or_being_deleted_is_not_bound() {
        let mut gated = json!({"metadata": {"name": "p"}, "spec": {"schedulingGates": [{"name": "g"}]}});
        assert_eq!(
            assign(&mut gated, &binding("n"), &json!("now")),
            Err("pod p has non-empty .spec.schedulingGates".into())
        );
        let mut going = json!({"metadata": {"name": "p", "deletionTimestamp": "t"}, "spec": {}});
        assert_eq!(
            assign(&mut going, &binding("n"), &json!("now")),
            Err("pod p is being deleted, cannot be assigned to a host".into())
        );
    }

    #[test]
    fn a_binding_names_its_pod_and_a_node() {
        assert!(check(&binding("n"), "p").is_ok());
        assert_eq!(
            check(&binding("n"), "q").unwrap_err().message,
            "name in URL does not match name in Binding object"
        );
        assert_eq!(check(&binding(""), "p").unwrap_err().message, "target.name: Required value");
        let mut other = binding("n");
        other["target"]["kind"] = json!("X");
        assert_eq!(
            check(&other, "p").unwrap_err().message,
            "target.kind: Unsupported value: \"X\": supported values: \"Node\", \"<empty>\""
        );
    }
}
