use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::super::value::{items, text};
use super::{ServiceAddresses, ServiceRanges};
use crate::resources;
use apiserver::Server;
use apiserver::api::Api;
use apiserver::context::Context;
use apiserver::endpoint::Endpoint;
use apiserver::options::{DeleteOptions, WriteOptions};
use apiserver::storage::Storage;
use apiserver::verbs::{Answer, Content};

/// A server of services only, on a store that may outlive it.
async fn server(directory: &TempDir, ranges: ServiceRanges) -> Server {
    let file = directory.path().join("store.redb");
    let store = apistore::Redb::open(file, apistore::Options::default()).unwrap();
    let services = resources().into_iter().filter(|resource| resource.plural == "services");
    Server::on(Storage::new(store))
        .authorizer(apiserver::authz::AlwaysAllow)
        .resources(services)
        .admission(ServiceAddresses::new(ranges))
        .build()
        .await
        .unwrap()
}

fn services(api: &Api) -> Endpoint {
    Endpoint::collection(api.registry().snapshot().resource("", "services").unwrap().clone(), "default")
}

async fn create(api: &Api, service: Value) -> Result<Value, String> {
    let (endpoint, context) = (services(api), Context::internal("test"));
    read(&endpoint, api.create(&endpoint, &context, service, &WriteOptions::default()).await)
}

async fn replace(api: &Api, service: Value) -> Result<Value, String> {
    let endpoint = Endpoint { name: text(&service["metadata"]["name"]).into(), ..services(api) };
    let context = Context::internal("test");
    read(&endpoint, api.update(&endpoint, &context, service, &WriteOptions::default()).await)
}

async fn delete(api: &Api, name: &str) {
    let endpoint = Endpoint { name: name.into(), ..services(api) };
    api.delete(&endpoint, &Context::internal("test"), &DeleteOptions::default()).await.unwrap();
}

fn read(endpoint: &Endpoint, answer: Result<Answer, apimachinery::Status>) -> Result<Value, String> {
    match answer.map_err(|status| status.message)?.content {
        Content::Stored(stored) => Ok(endpoint.read(&stored).unwrap()),
        other => panic!("{other:?}"),
    }
}

fn service(name: &str, spec: &Value) -> Value {
    let mut service =
        json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}});
    for (field, value) in spec.as_object().unwrap() {
        service["spec"][field] = value.clone();
    }
    service
}

/// Services, and what kube-apiserver makes of their spec or says about them, recorded line by line.
const RECORDED: &str = include_str!("tests/recorded.jsonl");

#[tokio::test]
async fn services_become_what_they_become_in_kubernetes() {
    let directory = TempDir::new().unwrap();
    let server = server(&directory, ServiceRanges::default()).await;
    let api = server.api();
    for line in RECORDED.lines() {
        let recorded: Value = serde_json::from_str(line).unwrap();
        match create(api, recorded["object"].clone()).await {
            Ok(stored) => {
                assert_eq!(masked(&stored["spec"], &recorded["spec"]), recorded["spec"], "{line}");
                delete(api, text(&stored["metadata"]["name"])).await;
            }
            Err(message) => assert_eq!(message, recorded["message"], "{line}"),
        }
    }
}

/// A value in which what is only known to be an address or a port is replaced by these words.
fn masked(value: &Value, pattern: &Value) -> Value {
    match (value, pattern) {
        (Value::String(text), Value::String(word)) if word == "ADDRESS" && text.starts_with("10.96.") => {
            word.as_str().into()
        }
        (Value::Number(port), Value::String(word)) if word == "PORT" => {
            assert!((30000..=32767).contains(&port.as_i64().unwrap()), "{port}");
            word.as_str().into()
        }
        (Value::Object(fields), _) => {
            fields.iter().map(|(name, value)| (name.clone(), masked(value, &pattern[name]))).collect()
        }
        (Value::Array(items), _) => {
            items.iter().enumerate().map(|(index, value)| masked(value, &pattern[index])).collect()
        }
        _ => value.clone(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_address_is_allocated_twice() {
    let directory = TempDir::new().unwrap();
    // Sixteen addresses, of which two are the network's own.
    let server = server(&directory, ServiceRanges::new(&["10.96.0.0/28"]).unwrap()).await;
    let api = Arc::new(server.api().clone());
    let mut all = tokio::task::JoinSet::new();
    for number in 0..14 {
        let api = api.clone();
        all.spawn(async move { create(&api, service(&format!("s{number}"), &json!({}))).await.unwrap() });
    }
    let given: HashSet<String> =
        all.join_all().await.iter().map(|service| text(&service["spec"]["clusterIP"]).to_owned()).collect();
    assert_eq!(given.len(), 14);
    let one_more = create(&api, service("more", &json!({}))).await;
    assert_eq!(
        one_more.unwrap_err(),
        "Internal error occurred: failed to allocate a serviceIP: range is full"
    );
    delete(&api, "s3").await;
    let freed = create(&api, service("more", &json!({}))).await.unwrap();
    assert!(given.contains(text(&freed["spec"]["clusterIP"])));
}

#[tokio::test]
async fn stored_addresses_count_as_allocated_after_a_start() {
    let directory = TempDir::new().unwrap();
    let before = server(&directory, ServiceRanges::default()).await;
    let kept =
        json!({"type": "NodePort", "clusterIP": "10.96.0.7", "ports": [{"port": 80, "nodePort": 30007}]});
    create(before.api(), service("kept", &kept)).await.unwrap();
    drop(before);

    // The store is closed by a thread of its own. While it is open, its file is locked.
    let file = directory.path().join("store.redb");
    let lock = std::fs::File::open(&file).unwrap();
    tokio::task::spawn_blocking(move || lock.lock()).await.unwrap().unwrap();
    let reopened = apistore::Redb::open(file, apistore::Options::default()).unwrap();
    let all = resources().into_iter().filter(|resource| resource.plural == "services");
    let after = Server::on(Storage::new(reopened))
        .authorizer(apiserver::authz::AlwaysAllow)
        .resources(all)
        .admission(ServiceAddresses::new(ServiceRanges::default()))
        .build()
        .await
        .unwrap();
    let other = json!({"clusterIP": "10.96.0.7"});
    assert_eq!(
        create(after.api(), service("other", &other)).await.unwrap_err(),
        "Service \"other\" is invalid: spec.clusterIPs: Invalid value: [\"10.96.0.7\"]: failed to allocate IP 10.96.0.7: \
         provided IP is already allocated"
    );
    let other = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30007}]});
    assert_eq!(
        create(after.api(), service("other", &other)).await.unwrap_err(),
        "Service \"other\" is invalid: spec.ports[0].nodePort: Invalid value: 30007: provided port is already allocated"
    );
    delete(after.api(), "kept").await;
    create(after.api(), service("other", &kept)).await.unwrap();
}

#[tokio::test]
async fn a_changed_service_releases_and_is_allocated_addresses() {
    let directory = TempDir::new().unwrap();
    let ranges = ServiceRanges::default().node_ports(30000..=30001);
    let server = server(&directory, ranges).await;
    let api = server.api();
    let mut changing = create(api, service("a", &json!({"type": "NodePort"}))).await.unwrap();
    let (address, port) =
        (changing["spec"]["clusterIP"].clone(), changing["spec"]["ports"][0]["nodePort"].clone());
    let mut two = service("b", &json!({"type": "NodePort"}));
    two["spec"]["ports"] = json!([{"port": 1, "name": "x"}, {"port": 2, "name": "y"}]);
    assert_eq!(
        create(api, two.clone()).await.unwrap_err(),
        "Internal error occurred: failed to allocate a nodePort: range is full"
    );

    changing["spec"]["type"] = "ClusterIP".into();
    changing = replace(api, changing).await.unwrap();
    assert_eq!(changing["spec"]["clusterIP"], address);
    assert_eq!(changing["spec"]["ports"][0].get("nodePort"), None);
    let two = create(api, two).await.unwrap();
    let ports: HashSet<_> =
        items(&two["spec"]["ports"]).iter().map(|port| port["nodePort"].clone()).collect();
    assert!(ports.len() == 2 && ports.contains(&port), "{two}");

    changing["spec"]["type"] = "ExternalName".into();
    changing["spec"]["externalName"] = "a.b".into();
    changing = replace(api, changing).await.unwrap();
    assert_eq!(changing["spec"].get("clusterIP"), None);
    let wanted = service("c", &json!({"clusterIP": address}));
    create(api, wanted).await.unwrap();
}

#[tokio::test]
async fn services_are_allocated_an_address_of_each_configured_family() {
    let directory = TempDir::new().unwrap();
    let ranges = ServiceRanges::new(&["10.96.0.0/16", "fd00:96::/112"]).unwrap();
    let server = server(&directory, ranges).await;
    let dual = json!({"ipFamilyPolicy": "PreferDualStack"});
    let stored = create(server.api(), service("a", &dual)).await.unwrap();
    assert_eq!(stored["spec"]["ipFamilies"], json!(["IPv4", "IPv6"]));
    let addresses = items(&stored["spec"]["clusterIPs"]);
    assert!(
        text(&addresses[0]).starts_with("10.96.") && text(&addresses[1]).starts_with("fd00:96::"),
        "{stored}"
    );
    let second = json!({"ipFamilies": ["IPv6"]});
    let stored = create(server.api(), service("b", &second)).await.unwrap();
    assert!(text(&stored["spec"]["clusterIP"]).starts_with("fd00:96::"), "{stored}");
}
