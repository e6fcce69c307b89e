//! Patches, and the subresources that every kind can have.

use apiserver::registry::{Generation, GenericStrategy, Resource, ScalePaths, Scope, Subresource};
use apiserver::watch::HubLimits;
use http::Method;
use serde_json::{Value, json};

use crate::support::{CONFIG_MAPS, Reply, TestServer, config_map, resources, revision};

const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

async fn patch(server: &TestServer, path: &str, kind: &str, patch: &Value) -> Reply {
    server.client.request(Method::PATCH, path, &[("content-type", kind)], patch.to_string().into()).await
}

#[tokio::test]
async fn three_kinds_of_patches_change_parts_of_an_object() {
    let server = TestServer::start().await;
    server.client.create(CONFIG_MAPS, &config_map("a")).await.created();
    let path = format!("{CONFIG_MAPS}/a");
    let merged = patch(&server, &path, MERGE, &json!({"data": {"m": "1", "k": null}})).await.ok();
    assert_eq!(merged["data"], json!({"m": "1"}));
    let operations = json!([{"op": "test", "path": "/data/m", "value": "1"}, {"op": "add", "path": "/data/j", "value": "2"}]);
    assert_eq!(patch(&server, &path, JSON, &operations).await.ok()["data"], json!({"m": "1", "j": "2"}));
    let strategic = json!({"metadata": {"labels": {"a": "b"}}});
    let labelled = patch(&server, &path, STRATEGIC, &strategic).await.ok();
    assert_eq!(labelled["metadata"]["labels"], json!({"a": "b"}));

    let again = patch(&server, &path, STRATEGIC, &strategic).await.ok();
    assert_eq!(revision(&again), revision(&labelled), "a patch that changes nothing keeps the revision");
    let stale = json!({"metadata": {"resourceVersion": "1"}, "data": {"m": "9"}});
    assert_eq!(patch(&server, &path, MERGE, &stale).await.refused().0, 409);
    let failing = json!([{"op": "test", "path": "/data/m", "value": "wrong"}]);
    assert_eq!(patch(&server, &path, JSON, &failing).await.refused().0, 422);
    assert_eq!(patch(&server, &path, MERGE, &json!({"metadata": {"name": "b"}})).await.refused().0, 400);
    assert_eq!(patch(&server, &path, "application/json", &strategic).await.refused().0, 415);
    assert_eq!(patch(&server, &format!("{CONFIG_MAPS}/none"), MERGE, &strategic).await.refused().0, 404);
}

/// A kind with a status and a scale.
fn workers() -> Resource {
    let paths = ScalePaths {
        spec_replicas: ".spec.replicas".into(),
        status_replicas: ".status.replicas".into(),
        label_selector: Some(".status.selector".into()),
    };
    Resource::new("example.com", "v1", "workers", "Worker", Scope::Namespaced)
        .strategy(GenericStrategy { generation: Generation::Content, has_status: true })
        .version(|version| version.subresource(Subresource::status()).subresource(Subresource::scale(paths)))
}

const WORKERS: &str = "/apis/example.com/v1/namespaces/default/workers";

async fn with_workers() -> TestServer {
    let mut all = resources();
    all.push(workers());
    TestServer::start_with(all, HubLimits::default()).await
}

#[tokio::test]
async fn status_and_spec_are_written_apart() {
    let server = with_workers().await;
    let client = &server.client;
    let object = json!({"metadata": {"name": "w"}, "spec": {"replicas": 1}, "status": {"replicas": 7}});
    let made = client.create(WORKERS, &object).await.created();
    assert!(made.get("status").is_none(), "whoever makes an object has no say in its status");
    assert_eq!(made["metadata"]["generation"], 1);

    let path = format!("{WORKERS}/w/status");
    let with_status = json!({"metadata": {"name": "w"}, "spec": {"replicas": 99}, "status": {"replicas": 1}});
    let reported = client.update(&path, &with_status).await.ok();
    assert_eq!((&reported["spec"], &reported["status"]), (&json!({"replicas": 1}), &json!({"replicas": 1})));
    assert_eq!(reported["metadata"]["generation"], 1, "a status is no new generation");

    let both = json!({"spec": {"replicas": 2}, "status": {"replicas": 5}});
    let changed = patch(&server, &format!("{WORKERS}/w"), MERGE, &both).await.ok();
    assert_eq!((&changed["spec"], &changed["status"]), (&json!({"replicas": 2}), &json!({"replicas": 1})));
    assert_eq!(changed["metadata"]["generation"], 2);
    let labelled = json!({"metadata": {"labels": {"a": "b"}}});
    let labelled = patch(&server, &format!("{WORKERS}/w"), MERGE, &labelled).await.ok();
    assert_eq!(labelled["metadata"]["generation"], 2, "metadata is no new generation");
}

#[tokio::test]
async fn replicas_are_read_and_written_as_a_scale() {
    let server = with_workers().await;
    let client = &server.client;
    let object = json!({"metadata": {"name": "w"}, "spec": {"replicas": 1, "other": "kept"}});
    client.create(WORKERS, &object).await.created();
    let path = format!("{WORKERS}/w/scale");
    let mut scale = client.get(&path).await.ok();
    assert_eq!((&scale["kind"], &scale["apiVersion"]), (&json!("Scale"), &json!("autoscaling/v1")));
    assert_eq!(scale["spec"]["replicas"], 1);
    scale["spec"]["replicas"] = 4.into();
    assert_eq!(client.update(&path, &scale).await.ok()["spec"]["replicas"], 4);
    assert_eq!(client.update(&path, &scale).await.refused().0, 409, "the scale is from before the change");
    let patched = patch(&server, &path, MERGE, &json!({"spec": {"replicas": 6}})).await.ok();
    assert_eq!(patched["spec"]["replicas"], 6);
    assert_eq!(
        client.get(&format!("{WORKERS}/w")).await.ok()["spec"],
        json!({"replicas": 6, "other": "kept"})
    );
    assert_eq!(patch(&server, &path, MERGE, &json!({"spec": {"replicas": -1}})).await.refused().0, 422);
}

#[tokio::test]
async fn unknown_fields_are_dropped_warned_of_or_refused() {
    let server = TestServer::start().await;
    let client = &server.client;
    let mut object = config_map("a");
    object["bogus"] = 1.into();
    let (code, _, message) =
        client.create(&format!("{CONFIG_MAPS}?fieldValidation=Strict"), &object).await.refused();
    assert_eq!(code, 400);
    assert!(message.ends_with("strict decoding error: unknown field \"bogus\""), "{message}");
    let reply = client.create(CONFIG_MAPS, &object).await;
    assert_eq!(reply.headers["warning"], "299 - \"unknown field \\\"bogus\\\"\"");
    assert!(reply.created().get("bogus").is_none());
    object["metadata"]["name"] = "b".into();
    let reply = client.create(&format!("{CONFIG_MAPS}?fieldValidation=Ignore"), &object).await;
    assert!(!reply.headers.contains_key("warning"));
    let (code, _, message) =
        client.create(&format!("{CONFIG_MAPS}?fieldValidation=Odd"), &object).await.refused();
    assert_eq!(code, 422);
    assert!(
        message.starts_with("CreateOptions.meta.k8s.io \"\" is invalid: fieldValidation: Unsupported value")
    );
}

#[tokio::test]
async fn wrong_metadata_is_refused_field_by_field() {
    let server = TestServer::start().await;
    let mut object = config_map("Not_A_Name");
    object["metadata"]["labels"] = json!({"a b": "c"});
    let reply = server.client.create(CONFIG_MAPS, &object).await;
    assert_eq!(reply.refused().0, 422);
    let status = reply.json();
    let fields: Vec<&str> = status["details"]["causes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cause| cause["field"].as_str().unwrap())
        .collect();
    assert_eq!(fields, ["metadata.name", "metadata.labels"]);
}

const APPLY: &str = "application/apply-patch+yaml";

#[tokio::test]
async fn server_side_apply_creates_changes_and_gives_up_fields() {
    let server = TestServer::start().await;
    let apply = async |manager: &str, query: &str, configuration: Value| {
        let path = format!("{CONFIG_MAPS}/a?fieldManager={manager}{query}");
        patch(&server, &path, APPLY, &configuration).await
    };
    let of = |data: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data});

    let made = apply("one", "", of(json!({"a": "1", "b": "1"}))).await.created();
    assert_eq!(made["metadata"]["managedFields"][0]["manager"], "one");
    assert_eq!(made["metadata"]["managedFields"][0]["operation"], "Apply");
    let again = apply("one", "", of(json!({"a": "1", "b": "1"}))).await.ok();
    assert_eq!(revision(&again), revision(&made), "the same again changes nothing");

    let (code, reason, message) = apply("two", "", of(json!({"a": "2"}))).await.refused();
    assert_eq!((code, reason.as_str()), (409, "Conflict"));
    assert_eq!(message, "Apply failed with 1 conflict: conflict with \"one\": .data.a");
    let forced = apply("two", "&force=true", of(json!({"a": "2"}))).await.ok();
    assert_eq!(forced["data"], json!({"a": "2", "b": "1"}));
    let given_up = apply("one", "", of(json!({}))).await.ok();
    assert_eq!(given_up["data"], json!({"a": "2"}), "what nobody applies any more goes");
    let (code, _, message) = apply("", "", of(json!({}))).await.refused();
    assert_eq!(code, 422);
    assert!(message.contains("fieldManager: Required value: is required for apply patch"), "{message}");
}

#[tokio::test]
async fn a_write_makes_its_client_the_manager_of_the_field() {
    let server = TestServer::start().await;
    let agent = [("content-type", "application/json"), ("user-agent", "tester/1.0")];
    let body = config_map("a").to_string().into_bytes();
    let made = server.client.request(Method::POST, CONFIG_MAPS, &agent, body).await.created();
    let entry = &made["metadata"]["managedFields"][0];
    assert_eq!((&entry["manager"], &entry["operation"]), (&json!("tester"), &json!("Update")));
    assert_eq!(entry["fieldsV1"], json!({"f:data": {".": {}, "f:k": {}}}));
}
