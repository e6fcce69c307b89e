//! Questions about who someone is and what they may do. They look like resources that can only be created; what is created is
//! the answer, and nothing is stored.
//!
//! Beside them is what keeps people from giving others more than they have ([`RoleEscalation`]), and acting as somebody else
//! ([`impersonate`]).

mod access;
mod escalation;
mod identity;
mod impersonation;
mod rules;

use std::fmt;
use std::sync::Arc;

use apimachinery::Status;
use apimachinery::meta;
use apimachinery::normal_form::NormalForm;
use futures::future::{BoxFuture, FutureExt as _};
use serde_json::{Map, Value, json};

pub use escalation::RoleEscalation;
pub use impersonation::impersonate;

use crate::api::Api;
use crate::authn::{Authenticator, UserInfo};
use crate::authz::Authorizer;
use crate::authz::rbac::Rbac;
use crate::registry::{Resource, Scope, Strategy, SubresourceHandler, SubresourceRequest};
use crate::request::Verb;
use crate::verbs::{Answer, Content};

const AUTHORIZATION: &str = "authorization.k8s.io";
const AUTHENTICATION: &str = "authentication.k8s.io";

/// Those who know the answers.
#[derive(Clone, Debug)]
pub struct Reviewers {
    /// Knows what a user may do.
    pub authorizer: Arc<dyn Authorizer>,
    /// Knows by which rules, if there are such.
    pub rbac: Option<Rbac>,
    /// Knows whose a token is.
    pub authenticator: Arc<dyn Authenticator>,
}

/// Which question a resource is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    LocalSubjectAccess,
    SelfSubjectAccess,
    SelfSubjectRules,
    SubjectAccess,
    SelfSubject,
    Token,
}

/// The resources by which the questions are asked.
pub fn resources(reviewers: &Reviewers) -> Vec<Resource> {
    let questions = [
        (Question::LocalSubjectAccess, AUTHORIZATION, "LocalSubjectAccessReview", Scope::Namespaced),
        (Question::SelfSubjectAccess, AUTHORIZATION, "SelfSubjectAccessReview", Scope::Cluster),
        (Question::SelfSubjectRules, AUTHORIZATION, "SelfSubjectRulesReview", Scope::Cluster),
        (Question::SubjectAccess, AUTHORIZATION, "SubjectAccessReview", Scope::Cluster),
        (Question::SelfSubject, AUTHENTICATION, "SelfSubjectReview", Scope::Cluster),
        (Question::Token, AUTHENTICATION, "TokenReview", Scope::Cluster),
    ];
    let resource = |(question, group, kind, scope): (Question, &str, &str, Scope)| {
        let plural = format!("{}s", kind.to_ascii_lowercase());
        let mut resource = Resource::new(group, "v1", &plural, kind, scope);
        resource.verbs = vec![Verb::Create];
        let schema = apischema::core::schema(group, "v1", kind);
        let empty = schema.as_ref().map(|schema| NormalForm::of(schema).empty().clone());
        resource.strategy = Arc::new(ReviewStrategy { empty });
        resource.handler = Some(Arc::new(Review { question, reviewers: reviewers.clone() }));
        resource.version(|version| match schema {
            Some(schema) => version.schema(schema),
            None => version,
        })
    };
    questions.into_iter().map(resource).collect()
}

/// How questions behave: who asks owns what he asks.
#[derive(Debug)]
struct ReviewStrategy {
    empty: Option<Value>,
}

impl Strategy for ReviewStrategy {
    fn empty(&self) -> Option<&Value> {
        self.empty.as_ref()
    }
}

/// Answers one of the questions.
struct Review {
    question: Question,
    reviewers: Reviewers,
}

impl fmt::Debug for Review {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Review").field(&self.question).finish()
    }
}

impl SubresourceHandler for Review {
    fn handle<'a>(
        &'a self,
        _api: &'a Api,
        request: SubresourceRequest<'a>,
    ) -> BoxFuture<'a, Result<Answer, Status>> {
        async move {
            let answer = self.answer(request).await?;
            Ok(Answer::created(Content::Other(answer)))
        }
        .boxed()
    }
}

impl Review {
    async fn answer(&self, request: SubresourceRequest<'_>) -> Result<Value, Status> {
        let SubresourceRequest { endpoint, context, body, options, .. } = request;
        let mut review = body.unwrap_or_else(|| Value::Object(Map::new()));
        let (kind, api_version) = (&endpoint.resource.kind, endpoint.api_version());
        check_type(&mut review, kind, &api_version)?;
        if let Some(schema) = &endpoint.version().schema {
            apischema::prune(&mut review, schema);
        }
        meta::adopt_namespace(&mut review, &endpoint.namespace)?;
        endpoint.own_fields(context, None, &mut review, &options);
        let (user, Reviewers { authorizer, rbac, authenticator }) = (&context.user, &self.reviewers);
        match self.question {
            Question::LocalSubjectAccess | Question::SubjectAccess => {
                access::check(
                    &review,
                    access::Subject::Given,
                    self.question == Question::LocalSubjectAccess,
                )?;
                let subject = access::subject(&review);
                review["status"] = access::decide(&review, &subject, &**authorizer).await;
            }
            Question::SelfSubjectAccess => {
                access::check(&review, access::Subject::Asker, false)?;
                review["status"] = access::decide(&review, user, &**authorizer).await;
            }
            Question::SelfSubjectRules => {
                let namespace = review["spec"]["namespace"].as_str().unwrap_or_default();
                if namespace.is_empty() {
                    return Err(Status::bad_request("no namespace on request"));
                }
                let status = rules::status(user, namespace, rbac.as_ref());
                review = json!({"kind": kind, "apiVersion": api_version, "metadata": {}, "spec": {}, "status": status});
            }
            Question::SelfSubject => {
                let now = context.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
                let status = json!({"userInfo": user_info(user)});
                let metadata = json!({"creationTimestamp": now});
                review =
                    json!({"kind": kind, "apiVersion": api_version, "metadata": metadata, "status": status});
            }
            Question::Token => review["status"] = identity::of_token(&review, &**authenticator)?,
        }
        Ok(review)
    }
}

fn check_type(review: &mut Value, kind: &str, api_version: &str) -> Result<(), Status> {
    let Some(fields) = review.as_object_mut() else {
        return Err(Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind})"
        )));
    };
    let given = |name: &str| fields.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    if given("kind").is_some_and(|given| given != kind)
        || given("apiVersion").is_some_and(|given| given != api_version)
    {
        return Err(Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): it is {} of {}",
            given("kind").unwrap_or_default(),
            given("apiVersion").unwrap_or_default()
        )));
    }
    fields.insert("kind".into(), kind.into());
    fields.insert("apiVersion".into(), api_version.into());
    for name in ["metadata", "spec"] {
        let field = fields.entry(name).or_insert(Value::Null);
        if !field.is_object() {
            *field = Value::Object(Map::new());
        }
    }
    Ok(())
}

/// A user as objects show it.
pub(crate) fn user_info(user: &UserInfo) -> Value {
    let mut info = Map::new();
    if !user.name.is_empty() {
        info.insert("username".into(), user.name.as_str().into());
    }
    if !user.uid.is_empty() {
        info.insert("uid".into(), user.uid.as_str().into());
    }
    if !user.groups.is_empty() {
        info.insert("groups".into(), user.groups.clone().into());
    }
    if !user.extra.is_empty() {
        info.insert("extra".into(), json!(user.extra));
    }
    Value::Object(info)
}
