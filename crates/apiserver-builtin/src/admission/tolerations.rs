//! Pods bear with a node that is away for a while.

use apimachinery::Status;
use futures::future::{BoxFuture, FutureExt};
use serde_json::{Value, json};

use super::super::value::{field_mut, items, text};
use super::is_of;
use apiserver::admission::{Admission, Attributes, Operation};
use apiserver::api::Api;

/// How long a pod stays on a node that is not ready or cannot be reached, if it says nothing.
const SECONDS: i64 = 300;

/// Makes pods tolerate for some minutes that their node is not ready or cannot be reached.
#[derive(Clone, Copy, Debug, Default)]
pub struct DefaultTolerations;

impl Admission for DefaultTolerations {
    fn name(&self) -> &'static str {
        "DefaultTolerationSeconds"
    }

    fn handles(&self, operation: Operation) -> bool {
        matches!(operation, Operation::Create | Operation::Update)
    }

    fn admit<'a>(
        &'a self,
        _api: &'a Api,
        attributes: Attributes<'a>,
        pod: &'a mut Value,
    ) -> BoxFuture<'a, Result<(), Status>> {
        if is_of(&attributes, "", "pods") {
            tolerate(pod);
        }
        std::future::ready(Ok(())).boxed()
    }
}

pub(super) fn tolerate(pod: &mut Value) {
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerates = |toleration: &Value| {
            let (of, effect) = (text(&toleration["key"]), text(&toleration["effect"]));
            (of == key || of.is_empty()) && matches!(effect, "NoExecute" | "")
        };
        if items(&pod["spec"]["tolerations"]).iter().any(tolerates) {
            continue;
        }
        let toleration =
            json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": SECONDS});
        let tolerations = field_mut(field_mut(pod, "spec"), "tolerations");
        match tolerations.as_array_mut() {
            Some(tolerations) => tolerations.push(toleration),
            None => *tolerations = json!([toleration]),
        }
    }
}
