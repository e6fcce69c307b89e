//! Ten thousand requests that make no sense: each is refused with 4xx, and the server's memory stays flat.

use std::time::Duration;

use http::{Method, Request};
use portolan_testbed::Test;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::apiserver::server::{Server, request};

const REQUESTS: u64 = 10_000;
/// After these, memory has what a server at work needs.
const WARM: u64 = 2_000;
const CLIENTS: u64 = 8;
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const THERE: &str = "/api/v1/namespaces/default/configmaps/there";
/// What memory may grow by: less than the bodies of those requests.
const FLAT: u64 = 4 << 20;

#[test]
fn ten_thousand_malformed_requests_are_refused_and_memory_stays_flat() {
    Test::new().deadline(Duration::from_secs(300)).run(async |lab| {
        let server = Server::start(&lab);
        let client = server.client().await;
        let object = json!({"metadata": {"name": "there"}, "data": {"k": "v"}});
        client.request_text(request(Method::POST, CONFIG_MAPS, Some(&object))).await.unwrap();
        let before: Value = client.request(request(Method::GET, CONFIG_MAPS, None)).await.unwrap();

        ask(&server, 0..WARM).await;
        let warm = server.memory();
        ask(&server, WARM..REQUESTS).await;
        let grown = server.memory().saturating_sub(warm);
        println!("{} KiB after {WARM} requests, {} KiB more after {REQUESTS}", warm >> 10, grown >> 10);
        assert!(grown < FLAT, "memory grew by {grown} bytes from {warm}");

        let after: Value = client.request(request(Method::GET, CONFIG_MAPS, None)).await.unwrap();
        assert_eq!(after, before, "nothing was changed");
        assert!(server.process.is_alive());
    });
}

async fn ask(server: &Server, seeds: std::ops::Range<u64>) {
    let mut clients = JoinSet::new();
    for first in 0..CLIENTS {
        let (client, seeds, address) = (server.client().await, seeds.clone(), server.address);
        clients.spawn(async move {
            for seed in seeds.skip(first as usize).step_by(CLIENTS as usize) {
                let mut random = fastrand::Rng::with_seed(seed);
                if seed % 50 == 0 {
                    no_tls(address, &mut random).await;
                    continue;
                }
                let request = malformed(&mut random);
                let what = describe(&request);
                let response = client.send(request.map(kube::client::Body::from)).await;
                let code = response.unwrap_or_else(|error| panic!("seed {seed}: {what}: {error}")).status();
                assert!(code.is_client_error(), "seed {seed}: {what}: {code}");
            }
        });
    }
    clients.join_all().await;
}

/// Bytes that begin no TLS session. The server hangs up.
async fn no_tls(address: std::net::SocketAddr, random: &mut fastrand::Rng) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let mut bytes = vec![0; random.usize(1..4096)];
    random.fill(&mut bytes);
    // A record of a handshake whose length says that all is there.
    bytes[0] = b'G';
    let _ = stream.write_all(&bytes).await;
    let _ = stream.shutdown().await;
    let _ = stream.read_to_end(&mut Vec::new()).await;
}

fn describe(request: &Request<Vec<u8>>) -> String {
    let body: String = String::from_utf8_lossy(request.body()).chars().take(200).collect();
    format!("{} {} {:?} {body:?}", request.method(), request.uri(), request.headers().get("content-type"))
}

fn malformed(random: &mut fastrand::Rng) -> Request<Vec<u8>> {
    match random.u8(..5) {
        0 => no_such_path(random),
        1 => bad_query(random),
        2 => bad_object(random),
        3 => bad_patch(random),
        _ => bad_content_type(random),
    }
}

fn pick<'a, T: ?Sized>(random: &mut fastrand::Rng, from: &[&'a T]) -> &'a T {
    from[random.usize(..from.len())]
}

fn no_such_path(random: &mut fastrand::Rng) -> Request<Vec<u8>> {
    let long = "x".repeat(random.usize(1..8000));
    let paths = [
        "/api/v2/namespaces",
        "/api/v1/nothing",
        "/apis/example.com/v1/things",
        "/api/v1/namespaces/default/configmaps/%00",
        "/api/v1/namespaces/default/configmaps/a%2fb",
        "/api/v1/namespaces/default/configmaps/%F0%9F%98%80",
        "/api/v1/namespaces/default/configmaps/there/nothing",
        "/api/v1/namespaces/default/configmaps/there/status",
        "/api/v1/namespaces/default/configmaps/there/scale",
        "/api/v1/namespaces/default/configmaps/..%2f..%2fsecrets",
        "/apis/apps/v1/namespaces/default/deployments/none/scale",
        "/api/v1/namespaces/%20/configmaps/x",
        "/api/v1/namespaces/default/pods/none/log",
        "/nothing",
        &format!("/api/v1/namespaces/default/configmaps/{long}"),
        &format!("/apis/{long}/v1/things"),
    ];
    let path = pick(random, &paths);
    request(pick(random, &[&Method::GET, &Method::DELETE]).clone(), path, None)
}

fn bad_query(random: &mut fastrand::Rng) -> Request<Vec<u8>> {
    let long = "a,".repeat(random.usize(1..2000));
    let queries = [
        "limit=x",
        "limit=99999999999999999999",
        "continue=%FF",
        "continue=e30",
        "continue=AAAA",
        "resourceVersion=x",
        "resourceVersion=-1",
        "resourceVersionMatch=Exact",
        "resourceVersionMatch=x&resourceVersion=1",
        "watch=true&resourceVersion=x",
        "watch=true&timeoutSeconds=x",
        "watch=true&sendInitialEvents=true",
        "sendInitialEvents=true",
        "labelSelector=%28%28",
        "labelSelector=a%20in%20%28",
        "labelSelector=-a-",
        "fieldSelector=spec.nothing%3Dx",
        "fieldSelector=a",
        &format!("labelSelector={long}%28"),
    ];
    let query = pick(random, &queries);
    request(Method::GET, &format!("{CONFIG_MAPS}?{query}"), None)
}

/// A body that is no object of the kind.
fn bad_object(random: &mut fastrand::Rng) -> Request<Vec<u8>> {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "there", "labels": {"a": "b"}},
        "data": {"k": "v"}});
    let whole = serde_json::to_vec(&object).unwrap();
    let body = match random.u8(..5) {
        // Cut short.
        0 => whole[..random.usize(1..whole.len())].to_vec(),
        // Of another type than it should be.
        1 => {
            let mut object = object;
            let paths = [
                "/metadata",
                "/metadata/labels",
                "/metadata/labels/a",
                "/data",
                "/data/k",
                "/metadata/name",
                "/kind",
            ];
            let wrong = [json!(7), json!([1]), json!(true), json!([{}]), json!(1e300)];
            *object.pointer_mut(pick(random, &paths)).unwrap() = wrong[random.usize(..wrong.len())].clone();
            serde_json::to_vec(&object).unwrap()
        }
        // Of an absurd size, or nested absurdly.
        2 => match random.u8(..10) {
            0 => {
                let mut body = whole;
                body.resize(3 << 20 | 1, b' ');
                body
            }
            _ => {
                let depth = random.usize(200..20_000);
                [&b"["[..], &b"{\"a\":"[..]][random.usize(..2)].repeat(depth)
            }
        },
        // Hostile.
        3 => {
            let names = ["../x", "A", "a b", "\u{0}", "😀", "-", &"n".repeat(random.usize(254..4000))];
            let mut object = object;
            object["metadata"]["name"] = pick(random, &names).into();
            serde_json::to_vec(&object).unwrap()
        }
        // Nothing of the kind.
        _ => {
            let others = [
                "[]",
                "1",
                "\"\"",
                "{\"kind\":7}",
                "{\"kind\":\"Pod\"}",
                "\u{0}",
                "{}",
                "a: &a [*a]",
                "---",
                "nonsense",
            ];
            pick(random, &others).as_bytes().to_vec()
        }
    };
    let method = pick(random, &[&Method::POST, &Method::PUT]).clone();
    let path =
        if method == Method::POST { CONFIG_MAPS } else { "/api/v1/namespaces/default/configmaps/other" };
    let kind = pick(random, &["application/json", "application/json", "application/vnd.kubernetes.protobuf"]);
    Request::builder().method(method).uri(path).header("Content-Type", kind).body(body).unwrap()
}

fn bad_patch(random: &mut fastrand::Rng) -> Request<Vec<u8>> {
    let patches = [
        ("application/json-patch+json", "{}"),
        ("application/json-patch+json", "[{\"op\":\"remove\",\"path\":\"/data/none\"}]"),
        ("application/json-patch+json", "[{\"op\":\"jump\",\"path\":\"/data\"}]"),
        ("application/json-patch+json", "[{\"op\":\"test\",\"path\":\"/data/k\",\"value\":\"w\"}]"),
        ("application/json-patch+json", "[{\"op\":\"replace\",\"path\":\"/metadata/name\",\"value\":\"x\"}]"),
        ("application/json-patch+json", "[{\"op\":\"add\",\"path\":\"/data/k\",\"value\":7}]"),
        ("application/merge-patch+json", "{\"data\":"),
        ("application/merge-patch+json", "{\"data\":[1]}"),
        ("application/merge-patch+json", "{\"metadata\":{\"labels\":{\"a\":\"%%%\"}}}"),
        ("application/strategic-merge-patch+json", "{\"data\":7}"),
        ("application/strategic-merge-patch+json", "{\"metadata\":{\"$patch\":\"jump\"}}"),
        ("application/strategic-merge-patch+json", "nonsense"),
        ("application/apply-patch+yaml", "a: ["),
        ("application/apply-patch+yaml", "{\"apiVersion\":\"v1\",\"kind\":\"Pod\"}"),
        (
            "application/apply-patch+yaml",
            "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"there\"},\"data\":[]}",
        ),
        ("application/x", "{}"),
    ];
    let (kind, body) = patches[random.usize(..patches.len())];
    // Applying takes a manager: without one it is refused whatever it is.
    let query = pick(random, &["", "?fieldManager=%07", "?dryRun=x", "?force=true"]);
    Request::builder()
        .method(Method::PATCH)
        .uri(format!("{THERE}{query}"))
        .header("Content-Type", kind)
        .body(body.into())
        .unwrap()
}

fn bad_content_type(random: &mut fastrand::Rng) -> Request<Vec<u8>> {
    let mut bytes = vec![0; random.usize(1..2000)];
    random.fill(&mut bytes);
    let kinds = ["text/html", "application/xml", "multipart/form-data", ";;;", "application/json-patch+json"];
    Request::builder()
        .method(Method::POST)
        .uri(CONFIG_MAPS)
        .header("Content-Type", pick(random, &kinds))
        .body(bytes)
        .unwrap()
}
