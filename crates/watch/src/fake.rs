//! An API server in memory for tests: it stores what it is given, serves lists and watches, and answers as a test scripts it.
//!
//! It disagrees like a real one: it serves only kinds that are built in or defined ([`FakeApi::define`]), answers 404 without
//! a name for all others, refuses versions that it no longer has with 410, and stale writes with 409. It has no schemas, no
//! defaults and no users.

mod answer;
mod path;
mod store;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{Method, Request};
use kube::client::Body;
use kube::{Client, Resource};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::watch;
use tower::Layer as _;

pub use self::answer::Answer;
use self::answer::Reply;
use self::path::Target;
use self::store::Store;
use crate::deadline::DeadlineLayer;
use crate::existence::Kind;

/// The API server.
#[derive(Clone, Debug)]
pub struct FakeApi(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    requests: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct State {
    store: Store,
    rules: Vec<Rule>,
    log: Vec<String>,
}

/// What some requests are answered with, instead of the truth.
#[derive(Debug)]
struct Rule {
    /// A part of the request line, as in `GET /api/v1/pods?watch`.
    part: String,
    /// How often; none: until the rules are lifted.
    times: Option<usize>,
    answer: Answer,
}

impl Default for FakeApi {
    fn default() -> Self {
        FakeApi(Arc::new(Shared { state: Mutex::default(), requests: watch::Sender::new(0) }))
    }
}

impl FakeApi {
    /// A client of it, with the deadline that clients of a real one have.
    pub fn client(&self) -> Client {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let api = api.clone();
            async move { api.serve(request).await }
        });
        Client::new(DeadlineLayer.layer(service), "default")
    }

    /// Serves a kind from now on, with a CustomResourceDefinition.
    pub fn define<K: Resource<DynamicType = ()>>(&self) {
        let name = Kind::of::<K>().to_string();
        self.put_value(
            &Target::collection("apiextensions.k8s.io", "v1", "customresourcedefinitions"),
            json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": name}, "spec": {"group": K::group(&())},
            }),
        );
    }

    /// Deletes a kind's objects and then its definition, as an API server does.
    pub fn undefine<K: Resource<DynamicType = ()>>(&self) {
        let mut state = self.state();
        for (namespace, name) in state.store.keys(&target::<K>()) {
            state.store.remove(&target::<K>(), &namespace, &name);
        }
        let definitions = Target::collection("apiextensions.k8s.io", "v1", "customresourcedefinitions");
        state.store.remove(&definitions, "", &Kind::of::<K>().to_string());
    }

    /// Leaves a kind's group to another server, with an APIService.
    pub fn delegate<K: Resource<DynamicType = ()>>(&self) {
        let (group, version) = (K::group(&()), K::version(&()));
        self.put_value(
            &Target::collection("apiregistration.k8s.io", "v1", "apiservices"),
            json!({
                "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
                "metadata": {"name": format!("{version}.{group}")},
                "spec": {"group": group, "version": version, "service": {"name": "other", "namespace": "default"}},
            }),
        );
    }

    /// Stores an object, and tells who watches.
    pub fn put<K: Resource<DynamicType = ()> + Serialize>(&self, object: &K) {
        let mut value = serde_json::to_value(object).expect("invariant: API objects are JSON");
        value["apiVersion"] = K::api_version(&()).into();
        value["kind"] = K::kind(&()).into();
        self.put_value(&target::<K>(), value);
    }

    /// Deletes an object, and tells who watches. The namespace is empty for objects without.
    pub fn remove<K: Resource<DynamicType = ()>>(&self, namespace: &str, name: &str) {
        self.state().store.remove(&target::<K>(), namespace, name);
    }

    /// The object as it is stored.
    pub fn stored<K: Resource<DynamicType = ()>>(&self, namespace: &str, name: &str) -> Option<Value> {
        self.state().store.get(&target::<K>(), namespace, name).cloned()
    }

    /// Answers requests whose line contains `part` with something else, so many times.
    pub fn script(&self, part: &str, times: usize, answer: Answer) {
        self.state().rules.push(Rule { part: part.into(), times: Some(times), answer });
    }

    /// Answers requests whose line contains `part` with something else, until [`FakeApi::lift`].
    pub fn always(&self, part: &str, answer: Answer) {
        self.state().rules.push(Rule { part: part.into(), times: None, answer });
    }

    /// Answers the truth again.
    pub fn lift(&self) {
        self.state().rules.clear();
    }

    /// Cuts all watches.
    pub fn cut_watches(&self) {
        self.state().store.cut_watches(false);
    }

    /// Closes all watches in an orderly way.
    pub fn close_watches(&self) {
        self.state().store.cut_watches(true);
    }

    /// Forgets the history: who resumes from before now is answered 410.
    pub fn compact(&self) {
        self.state().store.compact();
    }

    /// The request lines so far that contain `part`.
    pub fn requests(&self, part: &str) -> Vec<String> {
        self.state().log.iter().filter(|line| line.contains(part)).cloned().collect()
    }

    /// Waits until there were so many requests whose line contains `part`.
    pub async fn requested(&self, part: &str, times: usize) {
        let mut requests = self.0.requests.subscribe();
        while self.requests(part).len() < times {
            requests.changed().await.expect("invariant: the sender lives as long as this handle");
        }
    }

    /// Stores an object as it is, whatever is in its fields, and tells who watches.
    pub fn put_raw<K: Resource<DynamicType = ()>>(&self, object: &Value) {
        let mut value = object.clone();
        value["apiVersion"] = K::api_version(&()).into();
        value["kind"] = K::kind(&()).into();
        self.put_value(&target::<K>(), value);
    }

    fn put_value(&self, target: &Target, value: Value) {
        self.state().store.put(target, value);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn serve(&self, request: Request<Body>) -> Result<http::Response<Reply>, answer::Refused> {
        let (parts, body) = request.into_parts();
        let line = path::request_line(&parts);
        let body = body.collect_bytes().await.unwrap_or_default();
        let (answer, sent) = {
            let mut state = self.state();
            state.log.push(line.clone());
            let rule = state.rules.iter_mut().find(|rule| rule.times != Some(0) && line.contains(&rule.part));
            let answer = rule.map(|rule| {
                rule.times = rule.times.map(|times| times - 1);
                rule.answer.clone()
            });
            (answer, state.log.len())
        };
        self.0.requests.send_replace(sent);
        match answer {
            Some(answer) => answer.give(|| self.truth(&parts, &body)).await,
            None => Ok(self.truth(&parts, &body)),
        }
    }

    fn truth(&self, parts: &http::request::Parts, body: &[u8]) -> http::Response<Reply> {
        let mut state = self.state();
        if parts.uri.path() == "/apis" {
            return answer::json(200, &state.store.groups());
        }
        let Some(target) = Target::parse(parts) else { return answer::nameless() };
        if !state.store.serves(&target) {
            return answer::nameless();
        }
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        match (&parts.method, &target.name) {
            (&Method::GET, None) if target.watches => state.store.watch(&target),
            (&Method::GET, None) => state.store.list(&target),
            (&Method::GET, Some(_)) => state.store.read(&target),
            (&Method::POST, None) => state.store.create(&target, body),
            (&Method::PATCH, Some(_)) => state.store.patch(&target, &body),
            (&Method::DELETE, Some(_)) => state.store.delete(&target, &body),
            _ => answer::status(405, "MethodNotAllowed", "the fake does not do this"),
        }
    }
}

fn target<K: Resource<DynamicType = ()>>() -> Target {
    let kind = Kind::of::<K>();
    Target::collection(&kind.group, &kind.version, &kind.plural)
}
