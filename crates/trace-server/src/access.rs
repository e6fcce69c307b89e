//! What a user may do: the API server decides, by SubjectAccessReviews.

use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};
use portolan_trace::api::{GROUP, RESOURCE};
use portolan_trace::{Destination, PodName, Question};

use crate::identity::User;

/// Why a user may not ask.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Denied {
    /// The user may not do something that the answer needs.
    #[error("{0}")]
    Forbidden(String),
    /// The API server does not say.
    #[error("the API server cannot review the user's access: {}", portolan_watch::Plain(.0))]
    Review(#[from] kube::Error),
}

/// Checks that a user may trace, and may read the pods that the question names.
pub(crate) async fn authorize(client: &Client, user: &User, question: &Question) -> Result<(), Denied> {
    let trace = attributes("create", GROUP, RESOURCE, &question.from.namespace, None);
    let get = |pod: &PodName| attributes("get", "", "pods", &pod.namespace, Some(&pod.name));
    let to = match &question.to {
        Destination::Pod(pod) => Some(get(pod)),
        Destination::Address(_) => None,
    };
    let needed = [Some(trace), Some(get(&question.from)), to];
    futures::future::try_join_all(needed.into_iter().flatten().map(|what| review(client, user, what)))
        .await?;
    Ok(())
}

fn attributes(
    verb: &str,
    group: &str,
    resource: &str,
    namespace: &str,
    name: Option<&str>,
) -> ResourceAttributes {
    ResourceAttributes {
        verb: Some(verb.into()),
        group: Some(group.into()),
        version: Some("*".into()),
        resource: Some(resource.into()),
        namespace: Some(namespace.into()),
        name: name.map(str::to_owned),
        ..ResourceAttributes::default()
    }
}

async fn review(client: &Client, user: &User, what: ResourceAttributes) -> Result<(), Denied> {
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(user.name.clone()),
            groups: Some(user.groups.clone()),
            extra: Some(user.extra.clone()),
            resource_attributes: Some(what.clone()),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let reviewed =
        Api::<SubjectAccessReview>::all(client.clone()).create(&PostParams::default(), &review).await?;
    if reviewed.status.is_some_and(|status| status.allowed) {
        return Ok(());
    }
    let of = |text: &Option<String>| text.clone().unwrap_or_default();
    Err(Denied::Forbidden(format!(
        "User {:?} cannot {} resource {:?} in API group {:?} in the namespace {:?}",
        user.name,
        of(&what.verb),
        of(&what.resource),
        of(&what.group),
        of(&what.namespace)
    )))
}
