//! Who someone is, what they may do, and that they give others no more than that.

use std::sync::Arc;

use apiserver::Server;
use apiserver::authn::{StaticTokens, UserInfo};
use apiserver::authz::{AlwaysAllow, Rbac};
use apiserver::context::Context;
use apiserver::endpoint::Endpoint;
use apiserver::options::WriteOptions;
use apiserver::registry::{Resource, Scope};
use apiserver::reviews::{self, Reviewers, RoleEscalation};
use apiserver::storage::Storage;
use http::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;

use crate::support::{Client, Reply};

const RBAC: &str = "rbac.authorization.k8s.io";

fn rbac_resources() -> Vec<Resource> {
    [
        ("roles", "Role", Scope::Namespaced),
        ("rolebindings", "RoleBinding", Scope::Namespaced),
        ("clusterroles", "ClusterRole", Scope::Cluster),
        ("clusterrolebindings", "ClusterRoleBinding", Scope::Cluster),
    ]
    .map(|(plural, kind, scope)| Resource::new(RBAC, "v1", plural, kind, scope))
    .into()
}

#[allow(clippy::needless_pass_by_value, reason = "what json! makes is passed on as it is")]
fn cluster_role(name: &str, rules: Value) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules})
}

fn cluster_binding(name: &str, role: &str, user: &str) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}]})
}

fn rule(verbs: &[&str], groups: &[&str], resources: &[&str]) -> Value {
    json!({"verbs": verbs, "apiGroups": groups, "resources": resources})
}

struct Reviewed {
    client: Client,
    _directory: TempDir,
}

impl Reviewed {
    /// A server on which jane may read pods and write roles, bob may do so beyond what he has, and admin may do everything.
    async fn start() -> Reviewed {
        let directory = TempDir::new().unwrap();
        let file = directory.path().join("store.redb");
        let open = move || apistore::Redb::open(file, apistore::Options::default()).unwrap();
        let storage = Storage::new(tokio::task::spawn_blocking(open).await.unwrap());
        write_roles(&storage).await;

        let (rbac, informer) = Rbac::start(&storage).await.unwrap();
        let user = |name: &str, group: &str| UserInfo::new(name, [group.to_owned()]);
        let tokens = StaticTokens::new([
            ("admin".into(), user("admin", "system:masters")),
            ("jane".into(), user("jane", "dev")),
            ("bob".into(), user("bob", "ops")),
        ]);
        let reviewers = Reviewers {
            authorizer: Arc::new(rbac.clone()),
            rbac: Some(rbac.clone()),
            authenticator: Arc::new(tokens.clone()),
        };
        let server = Server::on(storage)
            .resources(rbac_resources())
            .resources(reviews::resources(&reviewers))
            .admission(RoleEscalation::new(rbac.clone(), Arc::new(rbac.clone())))
            .authenticator(tokens)
            .authorizer(rbac)
            .informer("rbac", informer)
            .build()
            .await
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = Client::new(listener.local_addr().unwrap());
        tokio::spawn(server.serve(listener, std::future::pending()));
        Reviewed { client, _directory: directory }
    }

    async fn post(&self, token: &str, path: &str, object: &Value) -> Reply {
        self.post_as(token, path, object, &[]).await
    }

    async fn post_as(&self, token: &str, path: &str, object: &Value, more: &[(&str, &str)]) -> Reply {
        let bearer = format!("Bearer {token}");
        let mut headers = vec![("authorization", bearer.as_str()), ("content-type", "application/json")];
        headers.extend_from_slice(more);
        self.client.request(Method::POST, path, &headers, object.to_string().into()).await
    }

    async fn review(&self, token: &str, kind: &str, spec: Value) -> Value {
        let group = if kind.contains("Access") || kind.contains("Rules") {
            "authorization"
        } else {
            "authentication"
        };
        let object = json!({"apiVersion": format!("{group}.k8s.io/v1"), "kind": kind, "spec": spec});
        self.post(token, &format!("/apis/{group}.k8s.io/v1/{}s", kind.to_lowercase()), &object)
            .await
            .created()["status"]
            .clone()
    }
}

/// Roles are written before the server that obeys them begins.
async fn write_roles(storage: &Storage) {
    let server = Server::on(storage.clone())
        .resources(rbac_resources())
        .authorizer(AlwaysAllow)
        .build()
        .await
        .unwrap();
    let write_rbac = |verbs: &[&str]| rule(verbs, &[RBAC], &["clusterroles", "clusterrolebindings"]);
    let ask = rule(&["create"], &["authorization.k8s.io", "authentication.k8s.io"], &["*"]);
    for (name, user, rules) in [
        ("jane", "jane", json!([rule(&["get", "list"], &[""], &["pods"]), write_rbac(&["create"]), ask])),
        ("bob", "bob", json!([write_rbac(&["create", "escalate", "bind"])])),
        ("powerful", "nobody", json!([rule(&["*"], &["*"], &["*"])])),
    ] {
        for object in [cluster_role(name, rules), cluster_binding(name, name, user)] {
            let plural = format!("{}s", object["kind"].as_str().unwrap().to_lowercase());
            let resource = server.api().registry().snapshot().resource(RBAC, &plural).unwrap().clone();
            let endpoint = Endpoint::collection(resource, "");
            let context = Context::internal("test");
            server.api().create(&endpoint, &context, object, &WriteOptions::default()).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_user_can_review_their_own_access_and_identity() {
    let server = Reviewed::start().await;
    let pods =
        |verb: &str| json!({"resourceAttributes": {"verb": verb, "resource": "pods", "namespace": "x"}});
    let own = "SelfSubjectAccessReview";
    let why = "RBAC: allowed by ClusterRoleBinding \"jane\" of ClusterRole \"jane\" to User \"jane\"";
    assert_eq!(server.review("jane", own, pods("get")).await, json!({"allowed": true, "reason": why}));
    assert_eq!(server.review("jane", own, pods("delete")).await, json!({"allowed": false}));
    let mut other = pods("delete");
    other["user"] = "jane".into();
    assert_eq!(server.review("admin", "SubjectAccessReview", other.clone()).await, json!({"allowed": false}));
    other["groups"] = json!(["system:masters"]);
    assert_eq!(server.review("admin", "SubjectAccessReview", other).await, json!({"allowed": true}));

    let rules = server.review("jane", "SelfSubjectRulesReview", json!({"namespace": "x"})).await;
    assert_eq!(rules["resourceRules"][0], rule(&["get", "list"], &[""], &["pods"]));
    assert_eq!(rules["incomplete"], false);
    let who = server.review("jane", "SelfSubjectReview", json!({})).await;
    assert_eq!(who["userInfo"], json!({"username": "jane", "groups": ["dev", "system:authenticated"]}));
    let token = server.review("admin", "TokenReview", json!({"token": "bob"})).await;
    assert_eq!(token["user"], json!({"username": "bob", "groups": ["ops", "system:authenticated"]}));
    let discovered = server
        .client
        .request(
            Method::GET,
            "/apis/authentication.k8s.io/v1",
            &[("authorization", "Bearer admin")],
            Vec::new(),
        )
        .await;
    assert_eq!(
        discovered.ok()["resources"][0],
        json!({"name": "selfsubjectreviews", "singularName": "selfsubjectreview", "namespaced": false, "kind": "SelfSubjectReview", "verbs": ["create"]})
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn granting_a_role_needs_its_permissions_or_the_right_to_escalate_or_bind() {
    let server = Reviewed::start().await;
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    let fine = cluster_role("fine", json!([rule(&["get"], &[""], &["pods"])]));
    server.post("jane", roles, &fine).await.created();
    let much = cluster_role("much", json!([rule(&["get", "delete"], &[""], &["pods", "secrets"])]));
    let (code, reason, told) = server.post("jane", roles, &much).await.refused();
    assert_eq!((code, reason.as_str()), (403, "Forbidden"));
    assert_eq!(
        told,
        "clusterroles.rbac.authorization.k8s.io \"much\" is forbidden: user \"jane\" (groups=[\"dev\" \
         \"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n\
         {APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"delete\"]}\n\
         {APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\" \"delete\"]}"
    );
    server.post("bob", roles, &much).await.created();
    server.post("admin", roles, &cluster_role("more", json!([rule(&["*"], &["*"], &["*"])]))).await.created();

    let (code, _, told) =
        server.post("jane", bindings, &cluster_binding("b", "powerful", "jane")).await.refused();
    assert_eq!(code, 403);
    assert!(
        told.contains("is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"*\"]"),
        "{told}"
    );
    server.post("jane", bindings, &cluster_binding("own", "jane", "jane")).await.created();
    server.post("bob", bindings, &cluster_binding("b", "powerful", "bob")).await.created();
    let (code, _, told) =
        server.post("jane", bindings, &cluster_binding("n", "none", "jane")).await.refused();
    assert_eq!((code, told.as_str()), (404, "clusterroles.rbac.authorization.k8s.io \"none\" not found"));
}

#[tokio::test(flavor = "multi_thread")]
async fn impersonation_needs_the_right_for_user_and_groups() {
    let server = Reviewed::start().await;
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let as_jane = [("impersonate-user", "jane"), ("impersonate-group", "dev")];
    let who = server.post_as("admin", path, &review, &as_jane).await.created();
    assert_eq!(
        who["status"]["userInfo"],
        json!({"username": "jane", "groups": ["dev", "system:authenticated"]})
    );
    let (code, _, told) =
        server.post_as("jane", path, &review, &[("impersonate-user", "admin")]).await.refused();
    assert_eq!(
        (code, told.as_str()),
        (
            403,
            "users \"admin\" is forbidden: User \"jane\" cannot impersonate resource \"users\" in API group \"\" at the cluster scope"
        )
    );
}
