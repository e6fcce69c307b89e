//! What the server tells about itself: OpenAPI.

use http::Method;
use serde_json::{Value, json};

use crate::crd_server::{ExtensionServer, definition};
use crate::support::TestServer;

#[tokio::test]
async fn kinds_are_explained_by_the_documents_that_the_index_names() {
    let server = ExtensionServer::start().await;
    let of_foos = json!({"spec": {"type": "object", "description": "What it is."}});
    server.define(&definition(of_foos)).await;
    let index = server.client.get("/openapi/v3").await.ok();
    let document = async |path: &str| {
        let address = index["paths"][path]["serverRelativeURL"].as_str().unwrap();
        let reply = server.client.get(address).await;
        assert_eq!(reply.headers["cache-control"], "public, immutable");
        reply.ok()["components"]["schemas"].clone()
    };
    let pod = &document("api/v1").await["io.k8s.api.core.v1.Pod"];
    assert!(pod["description"].as_str().unwrap().starts_with("Pod is a collection of containers"), "{pod}");
    assert!(pod["properties"]["spec"]["description"].is_string());
    let container = &document("apis/apps/v1").await["io.k8s.api.core.v1.Container"];
    assert_eq!(
        container["properties"]["imagePullPolicy"]["enum"],
        json!(["Always", "IfNotPresent", "Never"]),
        "the values that a field may have"
    );
    let foo = &document("apis/ex.io/v1").await["io.ex.v1.Foo"];
    assert_eq!(foo["properties"]["spec"]["description"], "What it is.");
    assert!(foo["properties"]["metadata"]["description"].is_string());

    // An address changes with its document, and only with that.
    let mut wider = definition(json!({"spec": {"type": "object"}, "more": {"type": "string"}}));
    wider["metadata"]["name"] = "foos.ex.io".into();
    server.redefine(&wider).await;
    let after = server.client.get("/openapi/v3").await.ok();
    assert_ne!(index["paths"]["apis/ex.io/v1"], after["paths"]["apis/ex.io/v1"]);
    assert_eq!(index["paths"]["api/v1"], after["paths"]["api/v1"]);
}

#[tokio::test]
async fn every_built_in_kind_is_described() {
    let server = TestServer::start().await;
    let document = server.client.get("/openapi/v2").await.ok();
    let definitions = &document["definitions"];
    for resource in apiserver_builtin::resources() {
        let known = apischema::core::kinds()
            .iter()
            .find(|known| known.group == resource.group && known.kind == resource.kind)
            .unwrap();
        let kind = &definitions[&known.type_name]["properties"]["kind"];
        assert!(kind["description"].is_string(), "{}: {kind}", known.type_name);
    }
}

#[tokio::test]
async fn the_older_openapi_is_one_document_in_two_forms() {
    let server = TestServer::start().await;
    let document = server.client.get("/openapi/v2").await.ok();
    assert_eq!(document["swagger"], "2.0");
    let pod = &document["definitions"]["io.k8s.api.core.v1.Pod"];
    assert_eq!(pod["properties"]["spec"]["$ref"], "#/definitions/io.k8s.api.core.v1.PodSpec");
    assert_eq!(
        pod["x-kubernetes-group-version-kind"],
        json!([{"group": "", "version": "v1", "kind": "Pod"}])
    );
    let patch = &document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"];
    let names: Vec<&Value> = patch["parameters"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert!(names.contains(&&json!("dryRun")) && names.contains(&&json!("body")), "{names:?}");

    let accept = [("accept", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf")];
    let reply = server.client.request(Method::GET, "/openapi/v2", &accept, Vec::new()).await;
    let media_type = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
    assert_eq!(reply.headers["content-type"], media_type);
    assert!(reply.text.starts_with(b"\x0a\x032.0"), "the first field is the version of OpenAPI");
}

#[tokio::test]
async fn a_client_that_has_a_document_already_does_not_get_it_again() {
    let server = ExtensionServer::start().await;
    for path in ["/openapi/v2", "/openapi/v3", "/openapi/v3/api/v1"] {
        let first = server.client.get(path).await;
        let etag = first.headers["etag"].to_str().unwrap().to_owned();
        let again = async |tag: &str| {
            let headers = [("if-none-match", tag)];
            server.client.request(Method::GET, path, &headers, Vec::new()).await
        };
        for known in [etag.clone(), format!("\"other\", W/{etag}"), "*".to_owned()] {
            let reply = again(&known).await;
            assert_eq!((reply.code.as_u16(), reply.text.len()), (304, 0), "{path} with {known}");
            assert_eq!(reply.headers["etag"], etag);
        }
        assert_eq!(again("\"other\"").await.text, first.text);
        let gzip = [("accept-encoding", "gzip")];
        let compressed = server.client.request(Method::GET, path, &gzip, Vec::new()).await;
        assert_eq!(
            compressed.headers.contains_key("content-encoding"),
            first.text.len() > 128 << 10,
            "{path}"
        );
    }
    let before = server.client.get("/openapi/v2").await.headers["etag"].clone();
    server.define(&definition(json!({"spec": {"type": "object"}}))).await;
    let known = [("if-none-match", before.to_str().unwrap())];
    let after = server.client.request(Method::GET, "/openapi/v2", &known, Vec::new());
    let document = after.await.ok();
    assert!(document["definitions"]["io.ex.v1.Foo"].is_object(), "the document follows the registry");
}
