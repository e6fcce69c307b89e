//! The priority of pods is that of the class they name.

use apimachinery::Status;
use futures::future::{BoxFuture, FutureExt};
use serde_json::Value;

use super::super::stored;
use super::super::value::{is_set, is_true, number, object_mut, text};
use super::is_of;
use apiserver::admission::{Admission, Attributes, Operation};
use apiserver::api::Api;
use apiserver::endpoint::Endpoint;

/// Gives pods the priority of their class, or of the class that is everybody's; of which there is only one.
#[derive(Clone, Copy, Debug, Default)]
pub struct PodPriority;

impl Admission for PodPriority {
    fn name(&self) -> &'static str {
        "Priority"
    }

    fn handles(&self, operation: Operation) -> bool {
        matches!(operation, Operation::Create | Operation::Update)
    }

    fn admit<'a>(
        &'a self,
        api: &'a Api,
        attributes: Attributes<'a>,
        pod: &'a mut Value,
    ) -> BoxFuture<'a, Result<(), Status>> {
        async move {
            if !is_of(&attributes, "", "pods") {
                return Ok(());
            }
            match attributes.old {
                Some(old) => keep(pod, old),
                None => {
                    let class = class_of(api, pod).await?;
                    let refuse = |why: String| attributes.endpoint.resource.forbidden(attributes.name, &why);
                    prioritise(pod, class.as_ref()).map_err(refuse)?;
                }
            }
            Ok(())
        }
        .boxed()
    }

    fn validate<'a>(
        &'a self,
        api: &'a Api,
        attributes: Attributes<'a>,
        object: Option<&'a Value>,
    ) -> BoxFuture<'a, Result<(), Status>> {
        async move {
            let Some(class) = object.filter(|_| is_of(&attributes, "scheduling.k8s.io", "priorityclasses"))
            else {
                return Ok(());
            };
            if !is_true(&class["globalDefault"]) {
                return Ok(());
            }
            let default = default_class(api).await?.unwrap_or_default();
            let default = text(&default["metadata"]["name"]);
            if default.is_empty() || (attributes.old.is_some() && default == attributes.name) {
                return Ok(());
            }
            let why =
                format!("PriorityClass {default} is already marked as default. Only one default can exist");
            Err(attributes.endpoint.resource.forbidden(attributes.name, &why))
        }
        .boxed()
    }
}

/// A pod that leaves its priority out keeps what it was given.
pub(super) fn keep(pod: &mut Value, old: &Value) {
    for field in ["priority", "preemptionPolicy"] {
        if !is_set(&pod["spec"][field]) && is_set(&old["spec"][field]) {
            object_mut(pod, "spec").insert(field.into(), old["spec"][field].clone());
        }
    }
}

/// The class that a pod names, or that of all pods that name none.
async fn class_of(api: &Api, pod: &Value) -> Result<Option<Value>, Status> {
    let name = text(&pod["spec"]["priorityClassName"]);
    if name.is_empty() {
        return default_class(api).await;
    }
    let registry = api.registry().snapshot();
    let Some(classes) = registry.resource("scheduling.k8s.io", "priorityclasses") else { return Ok(None) };
    stored::find(api, &Endpoint::object(classes.clone(), "", name)).await
}

async fn default_class(api: &Api) -> Result<Option<Value>, Status> {
    let registry = api.registry().snapshot();
    let Some(classes) = registry.resource("scheduling.k8s.io", "priorityclasses") else { return Ok(None) };
    let classes = stored::all(api, classes).await?;
    // Two that were made at once may both be there.
    let defaults = classes.into_iter().filter(|class| is_true(&class["globalDefault"]));
    Ok(defaults.min_by_key(|class| number(&class["value"])))
}

/// Gives a new pod the priority of a class.
pub(super) fn prioritise(pod: &mut Value, class: Option<&Value>) -> Result<(), String> {
    let named = text(&pod["spec"]["priorityClassName"]);
    if class.is_none() && !named.is_empty() {
        return Err(format!("no PriorityClass with name {named} was found"));
    }
    let (name, priority, policy) = match class {
        Some(class) => {
            (text(&class["metadata"]["name"]), number(&class["value"]), text(&class["preemptionPolicy"]))
        }
        None => ("", 0, "PreemptLowerPriority"),
    };
    let said = &pod["spec"]["priority"];
    if is_set(said) && number(said) != priority {
        return Err(format!(
            "the integer value of priority ({said}) must not be provided in pod spec; priority admission controller \
             computed {priority} from the given PriorityClass name"
        ));
    }
    let said = text(&pod["spec"]["preemptionPolicy"]);
    if !said.is_empty() && !policy.is_empty() && said != policy {
        return Err(format!(
            "the string value of PreemptionPolicy ({said}) must not be provided in pod spec; priority admission controller \
             computed {policy} from the given PriorityClass name"
        ));
    }
    let spec = object_mut(pod, "spec");
    if !name.is_empty() {
        spec.insert("priorityClassName".into(), name.into());
    }
    spec.insert("priority".into(), priority.into());
    if !policy.is_empty() {
        spec.insert("preemptionPolicy".into(), policy.into());
    }
    Ok(())
}
