//! Garbage collection: what has owners goes when they go, in the way that was asked for.

use http::Method;
use serde_json::{Value, json};

use crate::crd_server::{ExtensionServer, FOOS, definition, foo};
use crate::support::{CONFIG_MAPS, Client, Events, config_map, revision};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const CLUSTER_ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";

/// A reference to an owner.
fn reference(owner: &Value) -> Value {
    json!({"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"]})
}

fn blocking(owner: &Value) -> Value {
    let mut reference = reference(owner);
    reference["blockOwnerDeletion"] = true.into();
    reference
}

/// A Secret with owners.
fn owned(name: &str, owners: &[Value]) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "ownerReferences": owners}})
}

fn held(mut object: Value) -> Value {
    object["metadata"]["finalizers"] = json!(["example.com/hold"]);
    object
}

async fn delete(client: &Client, path: &str, policy: &str) -> Value {
    let reply =
        client.request(Method::DELETE, &format!("{path}?propagationPolicy={policy}"), &[], Vec::new()).await;
    reply.ok()
}

async fn let_go(client: &Client, path: &str) {
    let patch = json!({"metadata": {"finalizers": null}}).to_string();
    let headers = [("content-type", "application/merge-patch+json")];
    client.request(Method::PATCH, path, &headers, patch.into()).await.ok();
}

/// Everything that happens to objects of a path from now on.
async fn from_now(client: &Client, path: &str) -> Events {
    let now = revision(&client.get(path).await.ok());
    client.watch(&format!("{path}?watch=1&resourceVersion={now}")).await
}

/// Waits until an object of this name is deleted; answers the revision of that.
async fn deleted(events: &mut Events, name: &str) -> u64 {
    loop {
        let (kind, of, revision) = events.expect().await;
        if kind == "DELETED" && of == name {
            return revision;
        }
    }
}

fn owners_of(object: &Value) -> Vec<&str> {
    let references = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    references.filter_map(|one| one["name"].as_str()).collect()
}

#[tokio::test]
async fn dependents_are_deleted_after_their_last_owner_and_so_are_their_dependents() {
    let server = ExtensionServer::start().await;
    let client = &server.client;
    server.define(&definition(json!({"spec": {"type": "object"}}))).await;
    let owner = client.create(FOOS, &foo("owner", json!({}))).await.created();
    let other = client.create(CONFIG_MAPS, &config_map("other")).await.created();
    let child = client.create(SECRETS, &owned("child", &[reference(&owner)])).await.created();
    client.create(SECRETS, &owned("grandchild", &[reference(&child)])).await.created();
    client.create(SECRETS, &owned("shared", &[reference(&owner), reference(&other)])).await.created();

    let mut events = from_now(client, SECRETS).await;
    delete(client, &format!("{FOOS}/owner"), "Background").await;
    assert_eq!(client.get(&format!("{FOOS}/owner")).await.code, 404, "it goes at once");
    let mut seen = Vec::new();
    while seen.len() < 3 {
        let event = events.next().await.unwrap();
        let (kind, name) =
            (event["type"].as_str().unwrap(), event["object"]["metadata"]["name"].as_str().unwrap());
        if name == "shared" {
            assert_eq!((kind, owners_of(&event["object"])), ("MODIFIED", vec!["other"]), "one owner is left");
        }
        seen.push(format!("{kind} {name}"));
    }
    seen.sort();
    assert_eq!(seen, ["DELETED child", "DELETED grandchild", "MODIFIED shared"]);
    delete(client, &format!("{CONFIG_MAPS}/other"), "Background").await;
    deleted(&mut events, "shared").await;
}

#[tokio::test]
async fn foreground_deletion_waits_for_dependents_that_block_the_owner() {
    let server = ExtensionServer::start().await;
    let client = &server.client;
    let owner = client.create(CONFIG_MAPS, &config_map("owner")).await.created();
    client.create(SECRETS, &held(owned("blocker", &[blocking(&owner)]))).await.created();
    client.create(SECRETS, &held(owned("bystander", &[reference(&owner)]))).await.created();
    let (mut owners, mut dependents) = (from_now(client, CONFIG_MAPS).await, from_now(client, SECRETS).await);

    let answer = delete(client, &format!("{CONFIG_MAPS}/owner"), "Foreground").await;
    assert_eq!(answer["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    assert!(answer["metadata"]["deletionTimestamp"].is_string());
    // Both dependents are being deleted, and kept by their finalizers.
    for _ in 0..2 {
        let event = dependents.next().await.unwrap();
        assert_eq!(event["type"], "MODIFIED");
        assert!(event["object"]["metadata"]["deletionTimestamp"].is_string(), "{event}");
    }
    assert_eq!(client.get(&format!("{CONFIG_MAPS}/owner")).await.code, 200);
    let_go(client, &format!("{SECRETS}/blocker")).await;
    let blocker = deleted(&mut dependents, "blocker").await;
    let owner = deleted(&mut owners, "owner").await;
    assert!(blocker < owner, "the owner goes last: {blocker}, {owner}");
    // Who does not block is not waited for.
    assert_eq!(client.get(&format!("{SECRETS}/bystander")).await.code, 200);
    let_go(client, &format!("{SECRETS}/bystander")).await;
    deleted(&mut dependents, "bystander").await;
}

#[tokio::test]
async fn foreground_deletion_deletes_a_chain_of_owners_from_its_end() {
    let server = ExtensionServer::start().await;
    let client = &server.client;
    let owner = client.create(CONFIG_MAPS, &config_map("owner")).await.created();
    let child = client.create(SECRETS, &owned("child", &[blocking(&owner)])).await.created();
    client.create(SECRETS, &owned("grandchild", &[blocking(&child)])).await.created();
    let (mut owners, mut dependents) = (from_now(client, CONFIG_MAPS).await, from_now(client, SECRETS).await);
    delete(client, &format!("{CONFIG_MAPS}/owner"), "Foreground").await;
    let grandchild = deleted(&mut dependents, "grandchild").await;
    let child = deleted(&mut dependents, "child").await;
    let owner = deleted(&mut owners, "owner").await;
    assert!(grandchild < child && child < owner, "{grandchild}, {child}, {owner}");
}

#[tokio::test]
async fn orphans_remain_without_their_owner_reference() {
    let server = ExtensionServer::start().await;
    let client = &server.client;
    let owner = client.create(CONFIG_MAPS, &config_map("owner")).await.created();
    let other = client.create(CONFIG_MAPS, &config_map("other")).await.created();
    client.create(SECRETS, &owned("a", &[blocking(&owner)])).await.created();
    client.create(SECRETS, &owned("b", &[reference(&other), reference(&owner)])).await.created();
    let (mut owners, mut dependents) = (from_now(client, CONFIG_MAPS).await, from_now(client, SECRETS).await);
    let answer = delete(client, &format!("{CONFIG_MAPS}/owner"), "Orphan").await;
    assert_eq!(answer["metadata"]["finalizers"], json!(["orphan"]));
    let gone = deleted(&mut owners, "owner").await;
    for _ in 0..2 {
        let (kind, _, revision) = dependents.expect().await;
        assert_eq!(kind, "MODIFIED");
        assert!(revision < gone, "the owner goes when all have forgotten it");
    }
    assert!(owners_of(&client.get(&format!("{SECRETS}/a")).await.ok()).is_empty());
    assert_eq!(owners_of(&client.get(&format!("{SECRETS}/b")).await.ok()), ["other"]);
}

#[tokio::test]
async fn an_owner_without_a_namespace_may_own_in_all() {
    let server = ExtensionServer::start().await;
    let client = &server.client;
    client.create("/api/v1/namespaces", &json!({"metadata": {"name": "far"}})).await.created();
    let role = json!({"metadata": {"name": "owner"}, "rules": []});
    let mut owner = client.create(CLUSTER_ROLES, &role).await.created();
    owner["apiVersion"] = "rbac.authorization.k8s.io/v1".into();
    owner["kind"] = "ClusterRole".into();
    for namespace in ["default", "far"] {
        let path = format!("/api/v1/namespaces/{namespace}/secrets");
        client.create(&path, &owned(&format!("in-{namespace}"), &[reference(&owner)])).await.created();
    }
    client
        .create(CLUSTER_ROLES, &{
            let mut role = json!({"metadata": {"name": "owned"}, "rules": []});
            role["metadata"]["ownerReferences"] = json!([reference(&owner)]);
            role
        })
        .await
        .created();
    let mut secrets = from_now(client, "/api/v1/secrets").await;
    let mut roles = from_now(client, CLUSTER_ROLES).await;
    delete(client, &format!("{CLUSTER_ROLES}/owner"), "Background").await;
    let mut names = [secrets.expect().await.1, secrets.expect().await.1];
    names.sort();
    assert_eq!(names, ["in-default", "in-far"]);
    deleted(&mut roles, "owned").await;
}

#[tokio::test]
async fn an_owner_in_another_namespace_does_not_count() {
    let server = ExtensionServer::start().await;
    let client = &server.client;
    client.create("/api/v1/namespaces", &json!({"metadata": {"name": "far"}})).await.created();
    let owner = client.create(CONFIG_MAPS, &config_map("owner")).await.created();
    let (secrets, events) = ("/api/v1/namespaces/far/secrets", "/api/v1/namespaces/far/events");
    let (mut dependents, mut told) = (from_now(client, secrets).await, from_now(client, events).await);
    let dependent = client.create(secrets, &owned("astray", &[reference(&owner)])).await.created();
    deleted(&mut dependents, "astray").await;
    assert_eq!(client.get(&format!("{CONFIG_MAPS}/owner")).await.code, 200);
    let event = &told.next().await.unwrap()["object"];
    assert_eq!((&event["reason"], &event["type"]), (&json!("OwnerRefInvalidNamespace"), &json!("Warning")));
    assert_eq!(event["involvedObject"]["uid"], dependent["metadata"]["uid"]);
    let uid = owner["metadata"]["uid"].as_str().unwrap();
    assert_eq!(
        event["message"],
        format!(
            "ownerRef [v1/ConfigMap, namespace: far, name: owner, uid: {uid}] does not exist in namespace \"far\""
        )
    );
}

#[tokio::test]
async fn cluster_scoped_objects_are_never_collected_for_a_namespaced_owner() {
    let server = ExtensionServer::start().await;
    let client = &server.client;
    let owner = client.create(CONFIG_MAPS, &config_map("owner")).await.created();
    let mut told = from_now(client, "/api/v1/namespaces/default/events").await;
    let mut role = json!({"metadata": {"name": "astray"}, "rules": []});
    role["metadata"]["ownerReferences"] = json!([reference(&owner)]);
    client.create(CLUSTER_ROLES, &role).await.created();
    let event = &told.next().await.unwrap()["object"];
    assert_eq!(event["reason"], "OwnerRefInvalidNamespace");
    assert_eq!(event["involvedObject"]["kind"], "ClusterRole");

    // When another's owner goes with this one's, the other goes and this one stays.
    client.create(SECRETS, &owned("child", &[reference(&owner)])).await.created();
    let mut events = from_now(client, SECRETS).await;
    delete(client, &format!("{CONFIG_MAPS}/owner"), "Background").await;
    deleted(&mut events, "child").await;
    assert_eq!(client.get(&format!("{CLUSTER_ROLES}/astray")).await.code, 200);
}

#[tokio::test]
async fn a_namesake_of_an_owner_is_not_the_owner() {
    let server = ExtensionServer::start().await;
    let client = &server.client;
    let first = client.create(CONFIG_MAPS, &config_map("owner")).await.created();
    delete(client, &format!("{CONFIG_MAPS}/owner"), "Background").await;
    client.create(CONFIG_MAPS, &config_map("owner")).await.created();
    let mut events = from_now(client, SECRETS).await;
    client.create(SECRETS, &owned("child", &[reference(&first)])).await.created();
    deleted(&mut events, "child").await;
}

#[tokio::test]
async fn garbage_is_collected_after_a_restart() {
    let server = ExtensionServer::start().await;
    let client = &server.client;
    let owner = client.create(CONFIG_MAPS, &config_map("owner")).await.created();
    for number in 0..50 {
        client.create(SECRETS, &owned(&format!("child-{number}"), &[reference(&owner)])).await.created();
    }
    let before = revision(&client.get(SECRETS).await.ok());
    delete(client, &format!("{CONFIG_MAPS}/owner"), "Background").await;
    let server = server.restart().await;
    let mut events = server.client.watch(&format!("{SECRETS}?watch=1&resourceVersion={before}")).await;
    for _ in 0..50 {
        assert_eq!(events.expect().await.0, "DELETED");
    }
}

#[tokio::test]
async fn a_dependent_is_collected_once_the_kind_of_its_owner_is_served() {
    let server = ExtensionServer::start().await;
    let client = &server.client;
    let absent = |api_version: &str, kind: &str| json!({"apiVersion": api_version, "kind": kind, "name": "none", "uid": "5c3c5a5e-0000-4000-8000-000000000000"});
    let mut events = from_now(client, SECRETS).await;
    client.create(SECRETS, &owned("a-waits", &[absent("ex.io/v1", "Foo")])).await.created();
    // Looked at after the other: when this one is gone, the other was found to be undecided.
    client.create(SECRETS, &owned("b-goes", &[absent("v1", "ConfigMap")])).await.created();
    deleted(&mut events, "b-goes").await;
    assert_eq!(client.get(&format!("{SECRETS}/a-waits")).await.code, 200);

    server.define(&definition(json!({}))).await;
    deleted(&mut events, "a-waits").await;
}

#[tokio::test]
async fn an_orphan_whose_kind_is_not_served_is_not_taken_for_garbage_later() {
    let server = ExtensionServer::start().await;
    server.define(&definition(json!({}))).await;
    let owner = server.client.create(CONFIG_MAPS, &config_map("owner")).await.created();
    let mut dependent = foo("dependent", json!({}));
    dependent["metadata"]["ownerReferences"] = json!([reference(&owner)]);
    server.client.create(FOOS, &dependent).await.created();

    let server = server.restart_without_definitions().await;
    let client = &server.client;
    let mut owners = from_now(client, CONFIG_MAPS).await;
    delete(client, &format!("{CONFIG_MAPS}/owner"), "Orphan").await;
    // Something that is collected after it shows that the owner waits.
    let absent = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "none", "uid": "5c3c5a5e-0000-4000-8000-000000000000"});
    let mut secrets = from_now(client, SECRETS).await;
    client.create(SECRETS, &owned("goes", &[absent])).await.created();
    deleted(&mut secrets, "goes").await;
    assert_eq!(client.get(&format!("{CONFIG_MAPS}/owner")).await.code, 200);

    server.load_definitions().await;
    deleted(&mut owners, "owner").await;
    let orphan = client.get(&format!("{FOOS}/dependent")).await.ok();
    assert_eq!(owners_of(&orphan), Vec::<&str>::new());
}
