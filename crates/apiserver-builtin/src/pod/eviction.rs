//! `eviction`: a pod is deleted, if its disruption budget allows.

use apimachinery::Status;
use apimachinery::group::GroupResource;
use apimachinery::status::StatusCause;
use futures::future::{BoxFuture, FutureExt};
use serde_json::{Value, json};

use super::super::labels::read_selector;
use super::super::stored;
use super::super::value::{is_set, items, number, object_mut, size, text, time};
use super::binding::{done, set_condition};
use apiserver::api::Api;
use apiserver::endpoint::Endpoint;
use apiserver::options::DeleteOptions;
use apiserver::registry::{SubresourceHandler, SubresourceRequest};
use apiserver::request::Query;
use apiserver::verbs::Answer;

/// Evicts a pod.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Eviction;

/// How many evictions a budget remembers that nobody has confirmed.
const MOST_DISRUPTED: usize = 2000;

impl SubresourceHandler for Eviction {
    fn handle<'a>(
        &'a self,
        api: &'a Api,
        request: SubresourceRequest<'a>,
    ) -> BoxFuture<'a, Result<Answer, Status>> {
        evict(api, request).boxed()
    }
}

async fn evict(api: &Api, request: SubresourceRequest<'_>) -> Result<Answer, Status> {
    let eviction = request.body.unwrap_or_default();
    if text(&eviction["metadata"]["name"]) != request.endpoint.name {
        return Err(Status::bad_request("name in URL does not match name in Eviction object"));
    }
    let body = eviction.get("deleteOptions").filter(|options| is_set(options)).cloned();
    let mut options = DeleteOptions::parse(&Query::default(), body)?;
    options.dry_run |= request.options.dry_run;

    let endpoint = Endpoint { subresource: String::new(), ..request.endpoint.clone() };
    let pod = endpoint.read(&api.read(&endpoint).await?)?;
    if needs_budget(&pod) {
        take_from_budget(api, &pod, &endpoint, options.dry_run, &time(request.context.now)).await?;
    }
    if !options.dry_run {
        let condition = json!({
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
            "lastProbeTime": null,
            "lastTransitionTime": time(request.context.now),
        });
        let wanted = options.preconditions.resource_version.clone();
        let (_, revision) = stored::change(api, &endpoint, false, |pod| {
            if wanted.as_deref().is_some_and(|wanted| wanted != text(&pod["metadata"]["resourceVersion"])) {
                return Err(endpoint.resource.modified(&endpoint.name));
            }
            set_condition(pod, condition.clone());
            Ok(())
        })
        .await?;
        if wanted.is_some() {
            options.preconditions.resource_version = Some(revision.0.to_string());
        }
    }
    api.delete(&endpoint, request.context, &options).await?;
    Ok(done())
}

/// Whether a pod still does something that its end would disrupt.
fn needs_budget(pod: &Value) -> bool {
    let over = matches!(text(&pod["status"]["phase"]), "Succeeded" | "Failed" | "Pending");
    !over && !is_set(&pod["metadata"]["deletionTimestamp"])
}

async fn take_from_budget(
    api: &Api,
    pod: &Value,
    endpoint: &Endpoint,
    dry_run: bool,
    now: &Value,
) -> Result<(), Status> {
    let registry = api.registry().snapshot();
    let Some(resource) = registry.resource("policy", "poddisruptionbudgets") else { return Ok(()) };
    let mut budgets = stored::all(api, resource).await?;
    budgets.retain(|budget| {
        text(&budget["metadata"]["namespace"]) == endpoint.namespace
            && read_selector(&budget["spec"]["selector"]).is_some_and(|selector| selector.matches_object(pod))
    });
    let budget = match budgets.as_slice() {
        [] => return Ok(()),
        [budget] => budget,
        _ => {
            let why = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
            return Err(Status::unexpected(why));
        }
    };
    if is_unhealthy_and_may_go(pod, budget) {
        return Ok(());
    }
    let name = text(&budget["metadata"]["name"]);
    let budget = Endpoint::object(resource.clone(), &endpoint.namespace, name);
    stored::change(api, &budget, dry_run, |budget| take(budget, &endpoint.name, now)).await?;
    Ok(())
}

/// Whether a pod is not ready, and its end would make nothing worse.
fn is_unhealthy_and_may_go(pod: &Value, budget: &Value) -> bool {
    let is_ready =
        |condition: &Value| text(&condition["type"]) == "Ready" && text(&condition["status"]) == "True";
    if items(&pod["status"]["conditions"]).iter().any(is_ready) {
        return false;
    }
    let (healthy, desired) = (&budget["status"]["currentHealthy"], &budget["status"]["desiredHealthy"]);
    text(&budget["spec"]["unhealthyPodEvictionPolicy"]) == "AlwaysAllow"
        || (number(desired) > 0 && number(healthy) >= number(desired))
}

/// Takes one disruption from a budget.
fn take(budget: &mut Value, pod: &str, now: &Value) -> Result<(), Status> {
    let name = text(&budget["metadata"]["name"]).to_owned();
    let refuse = |message: String, retry_after: u32| {
        let why = "Cannot evict pod as it would violate the pod's disruption budget.";
        let mut status = Status::too_many_requests(why, retry_after);
        if let Some(details) = &mut status.details {
            details.causes.push(StatusCause {
                reason: "DisruptionBudget".into(),
                message,
                field: String::new(),
            });
        }
        status
    };
    let forbid =
        |why: &str| Err(Status::forbidden(&GroupResource::new("policy", "poddisruptionbudget"), &name, why));
    let status = &budget["status"];
    if number(&status["observedGeneration"]) < number(&budget["metadata"]["generation"]) {
        return Err(refuse(
            format!("The disruption budget {name} is still being processed by the server."),
            10,
        ));
    }
    let allowed = number(&status["disruptionsAllowed"]);
    if allowed < 0 {
        return forbid("pdb disruptions allowed is negative");
    }
    if size(&status["disruptedPods"]) > MOST_DISRUPTED {
        return forbid("DisruptedPods map too big - too many evictions not confirmed by PDB controller");
    }
    if allowed == 0 {
        let (desired, healthy) = (number(&status["desiredHealthy"]), number(&status["currentHealthy"]));
        let message =
            format!("The disruption budget {name} needs {desired} healthy pods and has {healthy} currently");
        return Err(refuse(message, 0));
    }
    let status = object_mut(budget, "status");
    status.insert("disruptionsAllowed".into(), (allowed - 1).into());
    let disrupted = status.entry("disruptedPods").or_insert_with(|| json!({}));
    if let Some(disrupted) = disrupted.as_object_mut() {
        disrupted.insert(pod.into(), now.clone());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_used_up() {
        let mut budget = json!({
            "metadata": {"name": "b", "generation": 1},
            "status": {"observedGeneration": 1, "disruptionsAllowed": 1, "desiredHealthy": 2, "currentHealthy": 3},
        });
        take(&mut budget, "p", &json!("now")).unwrap();
        assert_eq!(budget["status"]["disruptionsAllowed"], 0);
        assert_eq!(budget["status"]["disruptedPods"], json!({"p": "now"}));
        let refused = take(&mut budget, "q", &json!("now")).unwrap_err();
        assert_eq!(refused.message, "Cannot evict pod as it would violate the pod's disruption budget.");
        assert_eq!(
            refused.details.unwrap().causes[0].message,
            "The disruption budget b needs 2 healthy pods and has 3 currently"
        );
        budget["metadata"]["generation"] = json!(2);
        assert_eq!(take(&mut budget, "q", &json!("now")).unwrap_err().code, 429);
        budget["status"] = json!({"observedGeneration": 2, "disruptionsAllowed": -1});
        assert_eq!(take(&mut budget, "q", &json!("now")).unwrap_err().code, 403);
    }

    #[test]
    fn pods_that_do_nothing_need_no_budget() {
        let pod = |phase: &str| json!({"status": {"phase": phase}});
        assert!(needs_budget(&pod("Running")));
        assert!(!needs_budget(&pod("Pending")));
        assert!(!needs_budget(
            &json!({"metadata": {"deletionTimestamp": "t"}, "status": {"phase": "Running"}})
        ));
        let budget = json!({"status": {"currentHealthy": 2, "desiredHealthy": 2}});
        assert!(is_unhealthy_and_may_go(&pod("Running"), &budget));
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        assert!(!is_unhealthy_and_may_go(&ready, &budget));
    }
}
