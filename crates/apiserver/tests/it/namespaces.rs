//! Namespaces: a deletion empties one, whatever is in it.

use http::Method;
use serde_json::{Value, json};

use crate::crd_server::{ExtensionServer, condition, definition, foo, reason};
use crate::faulty_store::Operation;
use crate::support::{Client, Events, config_map, revision};

const NAMESPACE: &str = "/api/v1/namespaces/doomed";
const MAPS: &str = "/api/v1/namespaces/doomed/configmaps";
const FOOS: &str = "/apis/ex.io/v1/namespaces/doomed/foos";

async fn let_go(client: &Client, path: &str) {
    let patch = json!({"metadata": {"finalizers": null}}).to_string();
    let headers = [("content-type", "application/merge-patch+json")];
    client.request(Method::PATCH, path, &headers, patch.into()).await.ok();
}

async fn doomed(server: &ExtensionServer) -> Events {
    server.define(&definition(json!({"spec": {"type": "object"}}))).await;
    let made =
        server.client.create("/api/v1/namespaces", &json!({"metadata": {"name": "doomed"}})).await.created();
    let from = revision(&made);
    let path =
        format!("/api/v1/namespaces?watch=1&fieldSelector=metadata.name=doomed&resourceVersion={from}");
    server.client.watch(&path).await
}

/// Waits until the namespace is so; absent is gone.
async fn becomes(events: &mut Events, is: impl Fn(Option<&Value>) -> bool) -> Value {
    loop {
        let event = events.next().await.expect("the namespace changes");
        let object = (event["type"] != "DELETED").then_some(&event["object"]);
        if is(object) {
            return event["object"].clone();
        }
        assert!(object.is_some(), "the namespace is gone");
    }
}

#[tokio::test]
async fn everything_in_a_namespace_is_deleted_with_it() {
    let server = ExtensionServer::start().await;
    let client = &server.client;
    let mut events = doomed(&server).await;
    client.create(MAPS, &config_map("map")).await.created();
    client.create(FOOS, &foo("foo", json!({}))).await.created();
    let answer = client.delete(NAMESPACE).await.ok();
    assert_eq!(answer["status"]["phase"], "Terminating");
    becomes(&mut events, |namespace| namespace.is_none()).await;
    for path in [NAMESPACE, &format!("{MAPS}/map"), &format!("{FOOS}/foo")] {
        assert_eq!(client.get(path).await.code, 404, "{path}");
    }
    // Its name is free again, and nothing of the old one is in the new one.
    client.create("/api/v1/namespaces", &json!({"metadata": {"name": "doomed"}})).await.created();
    assert_eq!(client.get(FOOS).await.ok()["items"], json!([]));
}

#[tokio::test]
async fn a_namespace_waits_for_finalizers_and_says_so() {
    let server = ExtensionServer::start().await;
    let client = &server.client;
    let mut events = doomed(&server).await;
    let (mut map, mut custom) = (config_map("map"), foo("foo", json!({})));
    map["metadata"]["finalizers"] = json!(["example.com/map"]);
    custom["metadata"]["finalizers"] = json!(["example.com/foo"]);
    client.create(MAPS, &map).await.created();
    client.create(FOOS, &custom).await.created();
    client.create(MAPS, &config_map("free")).await.created();
    client.delete(NAMESPACE).await.ok();

    let waiting = becomes(&mut events, |namespace| {
        namespace.is_some_and(|namespace| condition(namespace, "NamespaceFinalizersRemaining") == "True")
    })
    .await;
    assert_eq!(reason(&waiting, "NamespaceFinalizersRemaining"), "SomeFinalizersRemain");
    assert_eq!(reason(&waiting, "NamespaceContentRemaining"), "SomeResourcesRemain");
    let conditions = waiting["status"]["conditions"].to_string();
    for said in [
        "configmaps. has 1 resource instances",
        "foos.ex.io has 1 resource instances",
        "example.com/foo in 1 resource instances, example.com/map in 1 resource instances",
    ] {
        assert!(conditions.contains(said), "{said}: {conditions}");
    }
    assert_eq!(client.get(&format!("{MAPS}/free")).await.code, 404);
    let (code, reason, message) = client.create(MAPS, &config_map("late")).await.refused();
    assert_eq!((code, reason.as_str()), (403, "Forbidden"));
    assert!(message.contains("because it is being terminated"), "{message}");

    let_go(client, &format!("{MAPS}/map")).await;
    becomes(&mut events, |namespace| {
        let said = |namespace: &Value| namespace["status"]["conditions"].to_string();
        namespace.is_some_and(|namespace| !said(namespace).contains("example.com/map"))
    })
    .await;
    let_go(client, &format!("{FOOS}/foo")).await;
    becomes(&mut events, |namespace| namespace.is_none()).await;
}

#[tokio::test]
async fn a_terminating_namespace_is_deleted_after_a_restart() {
    let server = ExtensionServer::start().await;
    let mut events = doomed(&server).await;
    let mut map = config_map("map");
    map["metadata"]["finalizers"] = json!(["example.com/map"]);
    server.client.create(MAPS, &map).await.created();
    server.client.delete(NAMESPACE).await.ok();
    let waiting = becomes(&mut events, |namespace| {
        namespace.is_some_and(|namespace| condition(namespace, "NamespaceContentRemaining") == "True")
    })
    .await;
    drop(events);
    let server = server.restart().await;
    let_go(&server.client, &format!("{MAPS}/map")).await;
    let from = revision(&waiting);
    let path =
        format!("/api/v1/namespaces?watch=1&fieldSelector=metadata.name=doomed&resourceVersion={from}");
    becomes(&mut server.client.watch(&path).await, |namespace| namespace.is_none()).await;
}

#[tokio::test]
async fn a_namespace_is_kept_while_it_has_objects_of_a_kind_that_is_not_served() {
    let server = ExtensionServer::start().await;
    let mut events = doomed(&server).await;
    let mut custom = foo("foo", json!({}));
    custom["metadata"]["finalizers"] = json!(["example.com/foo"]);
    server.client.create(FOOS, &custom).await.created();
    server.client.delete(NAMESPACE).await.ok();
    let waiting = becomes(&mut events, |namespace| {
        namespace.is_some_and(|namespace| condition(namespace, "NamespaceFinalizersRemaining") == "True")
    })
    .await;
    drop(events);

    // The next server does not know of foos yet.
    let server = server.restart_without_definitions().await;
    let from = revision(&waiting);
    let path =
        format!("/api/v1/namespaces?watch=1&fieldSelector=metadata.name=doomed&resourceVersion={from}");
    let mut events = server.client.watch(&path).await;
    let kept = becomes(&mut events, |namespace| {
        namespace.is_some_and(|namespace| condition(namespace, "NamespaceDeletionDiscoveryFailure") == "True")
    })
    .await;
    let conditions = kept["status"]["conditions"].to_string();
    assert!(conditions.contains("not served: foos.ex.io"), "{conditions}");

    // Once it does, it goes on by itself.
    server.load_definitions().await;
    becomes(&mut events, |namespace| {
        namespace.is_some_and(|namespace| {
            condition(namespace, "NamespaceDeletionDiscoveryFailure") == "False"
                && condition(namespace, "NamespaceFinalizersRemaining") == "True"
        })
    })
    .await;
    let_go(&server.client, &format!("{FOOS}/foo")).await;
    becomes(&mut events, |namespace| namespace.is_none()).await;
}

#[tokio::test]
async fn a_namespace_is_kept_when_what_remains_in_it_cannot_be_listed() {
    let server = ExtensionServer::start().await;
    let client = &server.client;
    let mut events = doomed(&server).await;
    let mut map = config_map("map");
    map["metadata"]["finalizers"] = json!(["example.com/map"]);
    client.create(MAPS, &map).await.created();
    // Every second list of the namespace's maps fails: the one after the deletion of what the first one has.
    let mut lists = 0;
    server.faults.fail(move |operation| {
        let is_list = *operation == Operation::List("/registry/core/configmaps/doomed/".into());
        lists += i32::from(is_list);
        is_list && lists % 2 == 0
    });
    client.delete(NAMESPACE).await.ok();
    let kept = becomes(&mut events, |namespace| {
        namespace.is_some_and(|namespace| condition(namespace, "NamespaceDeletionContentFailure") == "True")
    })
    .await;
    assert_eq!(reason(&kept, "NamespaceDeletionContentFailure"), "ContentDeletionFailed");

    server.faults.fail(|_| false);
    becomes(&mut events, |namespace| {
        namespace.is_some_and(|namespace| condition(namespace, "NamespaceFinalizersRemaining") == "True")
    })
    .await;
    let_go(client, &format!("{MAPS}/map")).await;
    becomes(&mut events, |namespace| namespace.is_none()).await;
}
