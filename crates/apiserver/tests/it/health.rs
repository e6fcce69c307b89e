//! Whether the server notices that it cannot do its work, and says so.

use apiserver::Server;
use apiserver::authn::UserInfo;
use apiserver::authz::{AlwaysAllow, Attributes, Authorizer as _, Decision, Rbac, ResourceAttributes};
use apiserver::server::{BuildError, TaskEnded};
use apiserver::storage::Storage;
use apistore::Revision;
use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::crd_server::{DEFINITIONS, ExtensionServer, condition, definition};
use crate::faulty_store::{Faults, FaultyStore, Operation};
use crate::support::{CONFIG_MAPS, Client, config_map, revision};

async fn storage(directory: &TempDir, faults: Faults) -> Storage {
    let file = directory.path().join("store.redb");
    let open = move || apistore::Redb::open(file, apistore::Options::default()).unwrap();
    let store = tokio::task::spawn_blocking(open).await.unwrap();
    Storage::new(FaultyStore { store, faults })
}

#[tokio::test]
async fn liveness_fails_while_the_store_refuses_writes() {
    let server = ExtensionServer::start().await;
    let client = &server.client;
    for probe in ["/livez", "/readyz", "/healthz"] {
        assert_eq!(client.get(probe).await.code, 200, "{probe}");
    }
    server.faults.fail(|operation| matches!(operation, Operation::Commit(_)));
    assert_eq!(client.create(CONFIG_MAPS, &config_map("a")).await.code, 500);
    for probe in ["/livez", "/readyz", "/healthz"] {
        let reply = client.get(probe).await;
        assert_eq!(reply.code, 500, "{probe}");
        assert!(String::from_utf8_lossy(&reply.text).contains("[-]store failed"), "{reply:?}");
    }
    server.faults.fail(|_| false);
    client.create(CONFIG_MAPS, &config_map("a")).await.created();
    assert_eq!(client.get("/livez").await.code, 200);
}

#[tokio::test]
async fn readiness_fails_while_definitions_are_not_followed() {
    let server = ExtensionServer::start().await;
    let client = &server.client;
    server.definitions().progress().wait_until_in_sync(true).await;
    let crds = "/registry/apiextensions.k8s.io/customresourcedefinitions/";
    server.faults.fail(move |operation| *operation == Operation::List(crds.into()));
    server.faults.break_watches();
    server.definitions().progress().wait_until_in_sync(false).await;
    let check = "/readyz/informer-sync/customresourcedefinitions";
    assert_eq!(client.get(check).await.code, 500);
    assert_eq!(client.get("/readyz").await.code, 500);
    assert_eq!(client.get("/livez").await.code, 200, "it may recover by itself");

    // What is written meanwhile is not lost.
    client.create(DEFINITIONS, &definition(json!({}))).await.created();
    server.faults.fail(|_| false);
    server.definitions().progress().wait_until_in_sync(true).await;
    assert_eq!(client.get(check).await.code, 200);
    server.wait_for_definition("foos.ex.io", |found| condition(found, "Established") == "True").await;
}

#[tokio::test]
async fn a_revoked_binding_counts_though_the_store_failed_in_between() {
    let (directory, faults) = (TempDir::new().unwrap(), Faults::default());
    let storage = storage(&directory, faults.clone()).await;
    let (rbac, informer) = Rbac::start(&storage).await.unwrap();
    let server = Server::on(storage)
        .resources(apiserver_builtin::resources())
        .authorizer(AlwaysAllow)
        .informer("rbac", informer)
        .build()
        .await
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::new(listener.local_addr().unwrap());
    let served = tokio::spawn(server.serve(listener, std::future::pending()));

    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    client.create(roles, &json!({"metadata": {"name": "readers"}, "rules": rules})).await.created();
    let bound = client
        .create(
            bindings,
            &json!({"metadata": {"name": "readers"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "readers"},
                "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "jane"}]}),
        )
        .await
        .created();
    rbac.wait_for(Revision(revision(&bound))).await;
    let jane = UserInfo::new("jane", []);
    let pods = ResourceAttributes {
        group: "",
        version: "v1",
        resource: "pods",
        subresource: "",
        namespace: "a",
        name: "b",
    };
    let asked = Attributes { user: &jane, verb: "get", resource: Some(pods), path: "" };
    assert_eq!(rbac.authorize(asked).await, Decision::Allow);

    // More than one list in a row fails.
    let (failures, mut failed) = watch::channel(0);
    faults.fail(move |operation| {
        let fails = matches!(operation, Operation::List(prefix) if prefix.starts_with(b"/registry/rbac."));
        failures.send_modify(|count| *count += i32::from(fails));
        fails
    });
    faults.break_watches();
    failed.wait_for(|count| *count >= 2).await.unwrap();
    rbac.progress().wait_until_in_sync(false).await;
    client.delete(&format!("{bindings}/readers")).await.ok();
    faults.fail(|_| false);
    rbac.progress().wait_until_in_sync(true).await;
    assert!(matches!(rbac.authorize(asked).await, Decision::Deny(_)), "the binding was deleted");
    served.abort();
}

/// A server whose only task is this one, until it ends.
async fn serve_with(task: impl FnOnce() + Send + 'static) -> Result<(), TaskEnded> {
    let directory = TempDir::new().unwrap();
    let server = Server::on(storage(&directory, Faults::default()).await)
        .authorizer(AlwaysAllow)
        .task("the test's", |_| async { task() })
        .build()
        .await
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    server.serve(listener, std::future::pending()).await
}

#[tokio::test]
async fn the_server_ends_when_one_of_its_tasks_does() {
    let ended = serve_with(|| ()).await.unwrap_err();
    assert_eq!(ended.to_string(), "the server cannot go on: its task \"the test's\" has ended");
    let failed = serve_with(|| panic!("as it is meant to")).await.unwrap_err();
    assert_eq!(failed.task, "the test's");
    assert!(failed.to_string().contains("panicked"), "{failed}");
}

#[tokio::test]
async fn custom_resources_are_served_before_any_task_starts() {
    let server = ExtensionServer::start().await;
    server.define(&definition(json!({}))).await;
    let directory = server.stop().await;
    let (seen, was_seen) = std::sync::mpsc::channel();
    let definitions = apiserver::crd::Definitions::default();
    let server = Server::on(storage(&directory, Faults::default()).await)
        .authorizer(AlwaysAllow)
        // Before the definitions on purpose: the order of calls must not matter.
        .task("sees", move |api| {
            // When the task is made, not when it runs: the runtime may do that much later.
            seen.send(api.registry().snapshot().kind("ex.io", "Foo").is_some()).unwrap();
            std::future::pending()
        })
        .definitions(&definitions)
        .build()
        .await
        .unwrap();
    assert!(was_seen.recv().unwrap());
    drop(server);
}

#[tokio::test]
async fn a_server_without_an_authorizer_is_not_built() {
    let directory = TempDir::new().unwrap();
    let built = Server::on(storage(&directory, Faults::default()).await).build().await;
    assert!(matches!(built, Err(BuildError::NoAuthorizer)), "{built:?}");
}
