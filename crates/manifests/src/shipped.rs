//! The manifests of `deploy/`, as they are.

use serde_json::Value;

use crate::installation::{AgentAdmission, Installation};
use crate::object::Object;

/// The namespace that these files name.
const NAMESPACE: &str = "portolan-system";

const CONTROLLER_RBAC: &str = include_str!("../../../deploy/controller-rbac.yaml");
const AGENT_RBAC: &str = include_str!("../../../deploy/agent-rbac.yaml");
const AGENT_ADMISSION: &str = include_str!("../../../deploy/agent-admission.yaml");
const WEBHOOK: &str = include_str!("../../../deploy/webhook.yaml");
const TRACE: &str = include_str!("../../../deploy/trace.yaml");

/// The objects of these files, with the namespace of the installation. Some are in several files.
pub(crate) fn objects(installation: &Installation) -> Vec<Object> {
    let mut files = vec![CONTROLLER_RBAC, AGENT_RBAC, WEBHOOK, TRACE];
    if installation.agent_admission == AgentAdmission::OwnNode {
        files.push(AGENT_ADMISSION);
    }
    let mut values: Vec<Value> = files.into_iter().flat_map(documents).collect();
    for value in &mut values {
        rename(value, &installation.namespace);
    }
    let definitions = portolan_api::crd_yaml().into_iter().flat_map(|(_, text)| documents(&text));
    values.into_iter().chain(definitions).map(Object::new).collect()
}

fn documents(text: &str) -> Vec<Value> {
    let documents: Result<Vec<Value>, _> = serde_saphyr::from_multiple(text);
    documents.unwrap_or_else(|error| panic!("invariant: what is compiled in is YAML: {error}"))
}

/// Puts another namespace wherever the files name theirs, in expressions and messages too. The key of the parts of Kubernetes keeps its own:
/// no other name contains this one.
fn rename(value: &mut Value, namespace: &str) {
    match value {
        Value::String(text) if text.contains(NAMESPACE) => *text = text.replace(NAMESPACE, namespace),
        Value::Array(items) => items.iter_mut().for_each(|item| rename(item, namespace)),
        Value::Object(fields) => fields.values_mut().for_each(|field| rename(field, namespace)),
        _ => {}
    }
}
