//! Webhooks are asked, obeyed, and missed when they are not there.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::pki_types::PrivatePkcs8KeyDer;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::crd_server::{ExtensionServer, FOOS, definition, foo};
use crate::support::{CONFIG_MAPS, config_map};

/// What a webhook answers to a request; what is absent is never answered.
type Answers = dyn Fn(&str, &Value) -> Option<Value> + Send + Sync;

/// A webhook over TLS, which keeps what it was asked.
struct WebhookServer {
    address: SocketAddr,
    authority: String,
    asked: Arc<Mutex<Vec<(String, Value)>>>,
    connections: Arc<Mutex<usize>>,
}

impl WebhookServer {
    /// Answers by path and request.
    async fn start(answers: impl Fn(&str, &Value) -> Option<Value> + Send + Sync + 'static) -> WebhookServer {
        let key = rcgen::generate_simple_self_signed(vec!["127.0.0.1".into()]).unwrap();
        let authority = STANDARD.encode(key.cert.pem());
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let private = PrivatePkcs8KeyDer::from(key.signing_key.serialize_der()).into();
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![key.cert.der().clone()], private)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<(String, Value)>>> = Arc::default();
        let connections = Arc::new(Mutex::new(0));
        let (keep, count, answers): (_, _, Arc<Answers>) =
            (asked.clone(), connections.clone(), Arc::new(answers));
        tokio::spawn(async move {
            let acceptor = TlsAcceptor::from(Arc::new(config));
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (acceptor, keep, count, answers) =
                    (acceptor.clone(), keep.clone(), count.clone(), answers.clone());
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    *count.lock().unwrap() += 1;
                    let service = service_fn(|request| answer(request, &keep, &*answers));
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        WebhookServer { address, authority, asked, connections }
    }

    /// A webhook of a configuration, which is asked about ConfigMaps at this path.
    fn webhook(&self, path: &str) -> Value {
        json!({
            "name": format!("{path}.example.com"), "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": format!("https://{}/{path}", self.address), "caBundle": self.authority},
            "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
        })
    }

    fn asked(&self) -> Vec<(String, Value)> {
        self.asked.lock().unwrap().clone()
    }

    fn paths(&self) -> Vec<String> {
        self.asked().into_iter().map(|(path, _)| path).collect()
    }
}

async fn answer(
    request: Request<Incoming>,
    keep: &Mutex<Vec<(String, Value)>>,
    answers: &Answers,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().trim_start_matches('/').to_owned();
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let review: Value = serde_json::from_slice(&body).unwrap();
    let asked = review["request"].clone();
    keep.lock().unwrap().push((path.clone(), asked.clone()));
    let Some(mut response) = answers(&path, &asked) else { return std::future::pending().await };
    if let Some(code) = response["code"].as_u64() {
        let code = StatusCode::from_u16(u16::try_from(code).unwrap()).unwrap();
        let body = Full::from(response["text"].as_str().unwrap().to_owned());
        return Ok(Response::builder().status(code).header("content-type", "text/plain").body(body).unwrap());
    }
    response["uid"] = asked["uid"].clone();
    let review =
        json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response});
    Ok(Response::new(Full::from(review.to_string())))
}

fn allow() -> Option<Value> {
    Some(json!({"allowed": true}))
}

/// An answer that changes the object.
#[allow(clippy::needless_pass_by_value, reason = "what json! makes is passed on as it is")]
fn patch(operations: Value) -> Option<Value> {
    Some(json!({"allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(operations.to_string())}))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_gets_all_attributes_of_a_request() {
    let server = ExtensionServer::start().await;
    let hook = WebhookServer::start(|_, _| allow()).await;
    server.configure("Validating", json!([hook.webhook("v")])).await;
    let path = format!("{CONFIG_MAPS}?fieldManager=me");
    let mut made = server.client.create(&path, &config_map("a")).await.created();
    made["data"]["k"] = "w".into();
    server.client.update(&format!("{CONFIG_MAPS}/a"), &made).await.ok();
    server.client.delete(&format!("{CONFIG_MAPS}/a")).await.ok();
    let asked = hook.asked();
    let [(_, create), (_, update), (_, delete)] = asked.as_slice() else { panic!("{asked:?}") };
    let kind = json!({"group": "", "version": "v1", "kind": "ConfigMap"});
    let resource = json!({"group": "", "version": "v1", "resource": "configmaps"});
    assert_eq!((&create["kind"], &create["requestKind"]), (&kind, &kind));
    assert_eq!((&create["resource"], &create["requestResource"]), (&resource, &resource));
    assert_eq!(
        (&create["operation"], &create["name"], &create["namespace"]),
        (&json!("CREATE"), &json!("a"), &json!("default"))
    );
    assert_eq!(
        (&create["object"]["data"]["k"], &create["oldObject"], &create["dryRun"]),
        (&json!("v"), &Value::Null, &json!(false))
    );
    assert_eq!(
        create["options"],
        json!({"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "me"})
    );
    assert_eq!(create["userInfo"]["username"], "system:anonymous");
    assert!(create["object"]["metadata"]["uid"].is_string(), "the object is as it will be stored");
    assert_eq!(
        (&update["object"]["data"]["k"], &update["oldObject"]["data"]["k"]),
        (&json!("w"), &json!("v"))
    );
    assert_eq!(
        (&delete["operation"], &delete["object"], &delete["oldObject"]["data"]["k"]),
        (&json!("DELETE"), &Value::Null, &json!("w"))
    );
    assert_eq!(*hook.connections.lock().unwrap(), 1, "connections are used again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denial_of_a_webhook_refuses_the_write() {
    let server = ExtensionServer::start().await;
    let hook = WebhookServer::start(|_, request| match request["name"].as_str() {
        Some("plain") => Some(json!({"allowed": false})),
        Some("full") => Some(json!({"allowed": false, "warnings": ["careful"],
            "status": {"code": 418, "reason": "Teapot", "message": "no pots"}})),
        _ => allow(),
    })
    .await;
    server.configure("Validating", json!([hook.webhook("v")])).await;
    server.client.create(CONFIG_MAPS, &config_map("fine")).await.created();
    let plain = server.client.create(CONFIG_MAPS, &config_map("plain")).await.refused();
    let denied = "admission webhook \"v.example.com\" denied the request";
    assert_eq!(plain, (400, String::new(), format!("{denied} without explanation")));
    let full = server.client.create(CONFIG_MAPS, &config_map("full")).await;
    assert_eq!(full.headers.get("warning").unwrap(), "299 - \"careful\"");
    assert_eq!(full.refused(), (418, "Teapot".into(), format!("{denied}: no pots")));
    assert_eq!(server.client.get(&format!("{CONFIG_MAPS}/full")).await.code, StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn mutating_webhooks_see_the_changes_of_those_before_and_are_reinvoked_for_later_ones() {
    let server = ExtensionServer::start().await;
    let hook = WebhookServer::start(|path, request| {
        let labels = request["object"]["metadata"]["labels"].as_object().cloned().unwrap_or_default();
        match path {
            "one" if labels.contains_key("two") => {
                patch(json!([{"op": "add", "path": "/metadata/labels/again", "value": "1"}]))
            }
            "one" => patch(json!([{"op": "add", "path": "/metadata/labels", "value": {"one": "1"}}])),
            "two" if labels.contains_key("one") => {
                patch(json!([{"op": "add", "path": "/metadata/labels/two", "value": "2"}]))
            }
            _ => allow(),
        }
    })
    .await;
    let (mut one, two) = (hook.webhook("one"), hook.webhook("two"));
    one["reinvocationPolicy"] = "IfNeeded".into();
    server.configure("Mutating", json!([one, two])).await;
    let made = server.client.create(CONFIG_MAPS, &config_map("a")).await.created();
    assert_eq!(made["metadata"]["labels"], json!({"one": "1", "two": "2", "again": "1"}));
    assert_eq!(hook.paths(), ["one", "two", "one"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_that_cannot_be_called_fails_the_request_as_its_failure_policy_says() {
    let server = ExtensionServer::start().await;
    let hook = WebhookServer::start(|path, _| match path {
        "slow" => None,
        "broken" => Some(json!({"code": 500, "text": "oh no\n"})),
        "patching" => patch(json!([])),
        _ => allow(),
    })
    .await;
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let other = WebhookServer::start(|_, _| allow()).await;
    let slow = {
        let mut webhook = hook.webhook("slow");
        webhook["timeoutSeconds"] = 1.into();
        webhook
    };
    let nobody = {
        let mut webhook = hook.webhook("nobody");
        webhook["clientConfig"]["url"] = format!("https://{free}/x").into();
        webhook
    };
    let stranger = {
        let mut webhook = hook.webhook("stranger");
        webhook["clientConfig"]["caBundle"] = other.authority.clone().into();
        webhook
    };
    let service = {
        let mut webhook = hook.webhook("service");
        webhook["clientConfig"] = json!({"service": {"namespace": "default", "name": "none", "path": "/x"}, "caBundle": hook.authority});
        webhook
    };
    let address = hook.address;
    let failures = HashMap::from([
        ("slow", format!("failed to call webhook: Post \"https://{address}/slow?timeout=1s\": context deadline exceeded")),
        ("broken", "failed to call webhook: an error on the server (\"oh no\") has prevented the request from succeeding".into()),
        ("patching", "received invalid webhook response: validating webhook may not return response.patch".into()),
        ("nobody", format!("failed to call webhook: Post \"https://{free}/x?timeout=10s\": dial tcp {free}: connect: connection refused")),
        ("stranger", format!("failed to call webhook: Post \"https://{address}/stranger?timeout=10s\": tls: failed to verify certificate: x509: certificate signed by unknown authority")),
        ("service", "failed to call webhook: Post \"https://none.default.svc:443/x?timeout=10s\": service \"none\" not found".into()),
    ]);
    let webhooks = [slow, hook.webhook("broken"), hook.webhook("patching"), nobody, stranger, service];
    // Each is asked about an object with its own label.
    let chosen = |mut webhook: Value, policy: &str| {
        let label = format!("{}-{policy}", webhook["name"].as_str().unwrap().split('.').next().unwrap());
        webhook["objectSelector"] = json!({"matchLabels": {"for": label}});
        webhook["failurePolicy"] = policy.into();
        webhook["name"] = format!("{}.example.com", label.to_lowercase()).into();
        webhook
    };
    let all: Vec<Value> = webhooks
        .iter()
        .flat_map(|webhook| ["Fail", "Ignore"].map(|policy| chosen(webhook.clone(), policy)))
        .collect();
    server.configure("Validating", all.into()).await;
    for (name, why) in failures {
        let labelled = |policy: &str| {
            let mut object = config_map(&format!("{name}-{}", policy.to_lowercase()));
            object["metadata"]["labels"] = json!({"for": format!("{name}-{policy}")});
            object
        };
        let refused = server.client.create(CONFIG_MAPS, &labelled("Fail")).await.refused();
        let message =
            format!("Internal error occurred: failed calling webhook \"{name}-fail.example.com\": {why}");
        assert_eq!(refused, (500, "InternalError".into(), message));
        server.client.create(CONFIG_MAPS, &labelled("Ignore")).await.created();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn validating_webhooks_are_called_in_parallel() {
    let server = ExtensionServer::start().await;
    let meeting = Arc::new(std::sync::Barrier::new(2));
    let hook = WebhookServer::start(move |_, _| {
        // Both must be asked before either answers.
        tokio::task::block_in_place(|| meeting.wait());
        allow()
    })
    .await;
    server.configure("Validating", json!([hook.webhook("one"), hook.webhook("two")])).await;
    server.client.create(CONFIG_MAPS, &config_map("a")).await.created();
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_are_called_only_for_what_their_rules_match() {
    let server = ExtensionServer::start().await;
    let hook = WebhookServer::start(|_, _| allow()).await;
    let with = |path: &str, field: &str, value: Value| {
        let mut webhook = hook.webhook(path);
        webhook[field] = value;
        webhook
    };
    let rule = |resources: &str, scope: &str| {
        json!([{"operations": ["CREATE"], "apiGroups": ["*"], "apiVersions": ["*"],
        "resources": [resources], "scope": scope}])
    };
    server
        .configure(
            "Validating",
            json!([
                with("marked", "namespaceSelector", json!({"matchLabels": {"mark": "yes"}})),
                with("labelled", "objectSelector", json!({"matchLabels": {"l": "1"}})),
                with("cluster", "rules", rule("*", "Cluster")),
                with("secrets", "rules", rule("secrets", "*")),
            ]),
        )
        .await;
    server
        .client
        .create("/api/v1/namespaces", &json!({"metadata": {"name": "marked", "labels": {"mark": "yes"}}}))
        .await
        .created();
    server.client.create("/api/v1/namespaces/marked/configmaps", &config_map("a")).await.created();
    let mut labelled = config_map("b");
    labelled["metadata"]["labels"] = json!({"l": "1"});
    server.client.create(CONFIG_MAPS, &labelled).await.created();
    let mut unlabelled = server.client.get(&format!("{CONFIG_MAPS}/b")).await.ok();
    unlabelled["metadata"]["labels"] = json!({});
    server.client.update(&format!("{CONFIG_MAPS}/b"), &unlabelled).await.ok();
    server.client.delete(&format!("{CONFIG_MAPS}/b")).await.ok();
    assert_eq!(
        hook.paths(),
        ["cluster", "marked", "labelled", "labelled"],
        "losing a label is told to who selects by it"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_sees_that_a_request_is_a_dry_run() {
    let server = ExtensionServer::start().await;
    let hook = WebhookServer::start(|_, _| allow()).await;
    server.configure("Mutating", json!([hook.webhook("m")])).await;
    server.client.create(&format!("{CONFIG_MAPS}?dryRun=All"), &config_map("a")).await.created();
    assert_eq!(hook.asked()[0].1["dryRun"], true);
    assert_eq!(server.client.get(&format!("{CONFIG_MAPS}/a")).await.code, StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn custom_resources_are_shown_to_a_webhook_in_the_version_that_it_knows() {
    let server = ExtensionServer::start().await;
    let spec = json!({"type": "object", "properties": {"n": {"type": "integer"}, "d": {"type": "string", "default": "x"}}});
    let mut versions = definition(json!({"spec": spec}));
    let mut beta = versions["spec"]["versions"][0].clone();
    beta["name"] = "v1beta1".into();
    beta["storage"] = false.into();
    versions["spec"]["versions"].as_array_mut().unwrap().push(beta);
    server.define(&versions).await;
    let hook = WebhookServer::start(|_, _| patch(json!([{"op": "add", "path": "/spec/n", "value": 7}, {"op": "add", "path": "/spec/typo", "value": 1}]))).await;
    let mut webhook = hook.webhook("m");
    webhook["rules"] = json!([{"operations": ["CREATE"], "apiGroups": ["ex.io"], "apiVersions": ["v1beta1"], "resources": ["foos"]}]);
    server.configure("Mutating", json!([webhook])).await;
    let made = server.client.create(FOOS, &foo("a", json!({}))).await.created();
    assert_eq!((&made["apiVersion"], &made["spec"]), (&json!("ex.io/v1"), &json!({"d": "x", "n": 7})));
    let (_, asked) = &hook.asked()[0];
    assert_eq!(
        (&asked["kind"]["version"], &asked["requestKind"]["version"]),
        (&json!("v1beta1"), &json!("v1"))
    );
    assert_eq!(
        (&asked["resource"]["version"], &asked["object"]["apiVersion"]),
        (&json!("v1beta1"), &json!("ex.io/v1beta1"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_configuration_can_always_be_changed() {
    let server = ExtensionServer::start().await;
    let hook = WebhookServer::start(|_, _| Some(json!({"allowed": false}))).await;
    let mut webhook = hook.webhook("all");
    webhook["rules"] =
        json!([{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}]);
    server.configure("Validating", json!([webhook])).await;
    assert_eq!(server.client.create(CONFIG_MAPS, &config_map("a")).await.code, StatusCode::BAD_REQUEST);
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    assert_eq!(server.client.request(Method::DELETE, path, &[], Vec::new()).await.code, StatusCode::OK);
    let wrong = json!({"metadata": {"name": "x"}, "webhooks": [{"name": "a.example.com", "matchConditions": [{"name": "a", "expression": "true"}]}]});
    let (code, _, told) = server.client.create(path, &wrong).await.refused();
    assert_eq!(code, 422);
    assert!(
        told.contains(
            "webhooks[0].matchConditions: Forbidden: match conditions are not available in this server"
        ),
        "{told}"
    );
}
