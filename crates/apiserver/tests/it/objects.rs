//! Objects over HTTP: made, read, changed and deleted.

use http::Method;
use serde_json::{Value, json};

use crate::support::{CONFIG_MAPS, TestServer, config_map, revision};

#[tokio::test]
async fn objects_are_created_read_updated_and_deleted() {
    let server = TestServer::start().await;
    let client = &server.client;

    let made = client.create(CONFIG_MAPS, &config_map("a")).await.created();
    assert_eq!(made["data"], json!({"k": "v"}));
    assert_eq!(made["metadata"]["namespace"], "default");
    for name in ["uid", "creationTimestamp"] {
        assert!(made["metadata"][name].is_string(), "{name}: {made}");
    }
    let path = format!("{CONFIG_MAPS}/a");
    assert_eq!(client.get(&path).await.ok(), made);

    let mut changed = made.clone();
    changed["data"]["k"] = "w".into();
    let updated = client.update(&path, &changed).await.ok();
    assert_eq!(updated["data"]["k"], "w");
    assert!(revision(&updated) > revision(&made));
    assert_eq!(updated["metadata"]["uid"], made["metadata"]["uid"]);

    let (code, reason, message) = client.update(&path, &changed).await.refused();
    assert_eq!((code, reason.as_str()), (409, "Conflict"));
    assert!(
        message
            .starts_with("Operation cannot be fulfilled on configmaps \"a\": the object has been modified")
    );

    let deleted = client.delete(&path).await.ok();
    assert_eq!(deleted["status"], "Success");
    assert_eq!(deleted["details"]["uid"], made["metadata"]["uid"]);
    let (code, reason, message) = client.get(&path).await.refused();
    assert_eq!((code, reason.as_str(), message.as_str()), (404, "NotFound", "configmaps \"a\" not found"));
}

#[tokio::test]
async fn a_write_that_changes_nothing_keeps_the_revision() {
    let server = TestServer::start().await;
    let made = server.client.create(CONFIG_MAPS, &config_map("a")).await.created();
    let again = server.client.update(&format!("{CONFIG_MAPS}/a"), &made).await.ok();
    assert_eq!(again, made);
}

#[tokio::test]
async fn names_are_taken_once_and_generated_when_asked_for() {
    let server = TestServer::start().await;
    let client = &server.client;
    client.create(CONFIG_MAPS, &config_map("a")).await.created();
    let (code, reason, message) = client.create(CONFIG_MAPS, &config_map("a")).await.refused();
    assert_eq!(
        (code, reason.as_str(), message.as_str()),
        (409, "AlreadyExists", "configmaps \"a\" already exists")
    );

    let generated = json!({"metadata": {"generateName": "b-"}});
    let one = client.create(CONFIG_MAPS, &generated).await.created();
    let two = client.create(CONFIG_MAPS, &generated).await.created();
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap().to_owned();
    assert!(name(&one).starts_with("b-"));
    assert_ne!(name(&one), name(&two));
}

#[tokio::test]
async fn nothing_is_made_in_a_namespace_that_does_not_exist() {
    let server = TestServer::start().await;
    let path = "/api/v1/namespaces/nowhere/configmaps";
    let (code, _, message) = server.client.create(path, &config_map("a")).await.refused();
    assert_eq!((code, message.as_str()), (404, "namespaces \"nowhere\" not found"));
}

#[tokio::test]
async fn a_dry_run_changes_nothing() {
    let server = TestServer::start().await;
    let client = &server.client;
    let path = format!("{CONFIG_MAPS}?dryRun=All");
    client.create(&path, &config_map("a")).await.created();
    assert_eq!(client.get(&format!("{CONFIG_MAPS}/a")).await.code, 404);

    let made = client.create(CONFIG_MAPS, &config_map("a")).await.created();
    let mut changed = made.clone();
    changed["data"]["k"] = "w".into();
    let tried = client.update(&format!("{CONFIG_MAPS}/a?dryRun=All"), &changed).await.ok();
    assert_eq!(tried["data"]["k"], "w");
    client.delete(&format!("{CONFIG_MAPS}/a?dryRun=All")).await.ok();
    assert_eq!(client.get(&format!("{CONFIG_MAPS}/a")).await.ok(), made);
}

#[tokio::test]
async fn an_object_with_finalizers_remains_until_they_are_removed() {
    let server = TestServer::start().await;
    let client = &server.client;
    let mut object = config_map("a");
    object["metadata"]["finalizers"] = json!(["example.com/held"]);
    client.create(CONFIG_MAPS, &object).await.created();
    let path = format!("{CONFIG_MAPS}/a");
    let mut ending = client.delete(&path).await.ok();
    assert!(ending["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(ending["metadata"]["deletionGracePeriodSeconds"], 0);

    ending["metadata"]["finalizers"] = json!([]);
    client.update(&path, &ending).await.ok();
    assert_eq!(client.get(&path).await.code, 404);
}

#[tokio::test]
async fn pages_show_one_instant_whatever_is_written_between_them() {
    let server = TestServer::start().await;
    let client = &server.client;
    for index in 0..25 {
        client.create(CONFIG_MAPS, &config_map(&format!("a{index:02}"))).await.created();
    }
    let mut names = Vec::new();
    let mut token = String::new();
    let mut revisions = Vec::new();
    loop {
        let page = client.get(&format!("{CONFIG_MAPS}?limit=7&continue={token}")).await.ok();
        revisions.push(revision(&page));
        names.extend(page["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].clone()));
        token = page["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
        let left = page["metadata"]["remainingItemCount"].as_u64().unwrap_or(0);
        assert_eq!(left as usize, 25 - names.len());
        if token.is_empty() {
            break;
        }
        // Between the pages one object before the next page goes, one comes, and one after it changes.
        client.delete(&format!("{CONFIG_MAPS}/a{:02}", names.len() + 1)).await;
        client.create(CONFIG_MAPS, &config_map(&format!("b{}", names.len()))).await.created();
    }
    let expected: Vec<Value> = (0..25).map(|index| json!(format!("a{index:02}"))).collect();
    assert_eq!(names, expected);
    revisions.dedup();
    assert_eq!(revisions.len(), 1, "every page shows the same revision");
}

#[tokio::test]
async fn lists_are_limited_by_selectors() {
    let server = TestServer::start().await;
    let client = &server.client;
    for (name, tier) in [("a", "front"), ("b", "back"), ("c", "front")] {
        let mut object = config_map(name);
        object["metadata"]["labels"] = json!({"tier": tier});
        client.create(CONFIG_MAPS, &object).await.created();
    }
    let names = |list: &Value| -> Vec<String> {
        let items = list["items"].as_array().unwrap().iter();
        items.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    };
    let list = async |query: &str| names(&client.get(&format!("{CONFIG_MAPS}?{query}")).await.ok());
    assert_eq!(list("labelSelector=tier%3Dfront").await, ["a", "c"]);
    assert_eq!(list("labelSelector=tier%20notin%20(front)").await, ["b"]);
    assert_eq!(list("fieldSelector=metadata.name%3Db").await, ["b"]);
    assert_eq!(list("fieldSelector=metadata.name%21%3Db").await, ["a", "c"]);
    assert_eq!(list("labelSelector=tier%3Dfront&limit=1").await, ["a"]);
    let (code, _, _) = client.get(&format!("{CONFIG_MAPS}?fieldSelector=data.k%3Dv")).await.refused();
    assert_eq!(code, 400);
}

#[tokio::test]
async fn a_collection_is_deleted_as_selected() {
    let server = TestServer::start().await;
    let client = &server.client;
    for name in ["a", "b"] {
        client.create(CONFIG_MAPS, &config_map(name)).await.created();
    }
    let deleted = client.delete(&format!("{CONFIG_MAPS}?fieldSelector=metadata.name%3Da")).await.ok();
    assert_eq!(deleted["items"].as_array().unwrap().len(), 1);
    let left = client.get(CONFIG_MAPS).await.ok();
    assert_eq!(left["items"][0]["metadata"]["name"], "b");
    assert_eq!(left["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn answers_come_in_the_form_that_is_asked_for() {
    let server = TestServer::start().await;
    let client = &server.client;
    client.create(CONFIG_MAPS, &config_map("a")).await.created();
    let accept = async |path: &str, accept: &str| {
        client.request(Method::GET, path, &[("accept", accept)], Vec::new()).await
    };

    let table = accept(CONFIG_MAPS, "application/json;as=Table;v=v1;g=meta.k8s.io").await.ok();
    assert_eq!((&table["kind"], &table["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1")));
    assert_eq!(table["rows"][0]["cells"][0], "a");
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");

    let one = format!("{CONFIG_MAPS}/a");
    let partial = accept(&one, "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io").await.ok();
    assert_eq!(partial["kind"], "PartialObjectMetadata");
    assert!(partial.get("data").is_none());

    let yaml = accept(&one, "application/yaml").await;
    assert_eq!(yaml.headers["content-type"], "application/yaml");
    assert!(String::from_utf8_lossy(&yaml.text).contains("kind: ConfigMap"));

    assert_eq!(accept(&one, "application/vnd.kubernetes.protobuf").await.refused().0, 406);
    let typed = |media_type| [("content-type", media_type)];
    let post = async |media_type, body: &[u8]| {
        client.request(Method::POST, CONFIG_MAPS, &typed(media_type), body.to_vec()).await.refused().0
    };
    assert_eq!(post("text/plain", b"{}").await, 415);
    assert_eq!(post("application/vnd.kubernetes.protobuf", b"k8s").await, 400);
    let too_large = format!("{{\"data\":{{\"k\":\"{}\"}}}}", "x".repeat(4 << 20)).into_bytes();
    assert_eq!(client.request(Method::POST, CONFIG_MAPS, &[], too_large).await.refused().0, 413);
}

#[tokio::test]
async fn large_answers_are_compressed_for_those_who_ask() {
    let server = TestServer::start().await;
    let client = &server.client;
    let mut object = config_map("a");
    object["data"]["k"] = "x".repeat(200 << 10).into();
    client.create(CONFIG_MAPS, &object).await.created();
    let path = format!("{CONFIG_MAPS}/a");
    let reply = client.request(Method::GET, &path, &[("accept-encoding", "gzip")], Vec::new()).await;
    assert_eq!(reply.headers["content-encoding"], "gzip");
    assert!(reply.text.len() < 10 << 10);
    assert!(!client.get(&path).await.headers.contains_key("content-encoding"));
}

#[tokio::test]
async fn clients_discover_what_there_is() {
    let server = TestServer::start().await;
    let client = &server.client;
    assert_eq!(client.get("/api").await.ok()["versions"], json!(["v1"]));
    let resources = client.get("/api/v1").await.ok();
    let config_maps =
        resources["resources"].as_array().unwrap().iter().find(|r| r["name"] == "configmaps").unwrap();
    assert_eq!(config_maps["shortNames"], json!(["cm"]));
    assert_eq!(config_maps["storageVersionHash"], "qFsyl6wFWjQ=", "as kube-apiserver computes it");
    let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    let reply = client.request(Method::GET, "/api", &[("accept", aggregated)], Vec::new()).await;
    assert_eq!(
        reply.headers["content-type"],
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    );
    assert_eq!(reply.ok()["items"][0]["versions"][0]["version"], "v1");
    assert_eq!(client.get("/version").await.ok()["minor"], "34");
    assert_eq!(client.get("/readyz").await.text, "ok");
    assert!(String::from_utf8_lossy(&client.get("/metrics").await.text).contains("apiserver_request_total"));
    assert_eq!(client.get("/apis/nope/v1/things").await.code, 404);
}

#[tokio::test]
async fn everything_is_there_after_a_restart() {
    let server = TestServer::start().await;
    let made = server.client.create(CONFIG_MAPS, &config_map("a")).await.created();
    let server = server.restart().await;
    assert_eq!(server.client.get(&format!("{CONFIG_MAPS}/a")).await.ok(), made);
}
