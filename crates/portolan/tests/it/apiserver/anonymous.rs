//! Requests without credentials, each with a path or method that was never used before: the server's memory stays flat.

use std::time::Duration;

use http::{Method, Request};
use portolan_testbed::Test;
use tokio::task::JoinSet;

use crate::apiserver::server::Server;

const REQUESTS: usize = 20_000;
/// After these, memory has what a server at work needs.
const WARM: usize = 4_000;
const CLIENTS: usize = 8;
/// What memory may grow by: a quarter of a kibibyte per request.
const FLAT: u64 = 4 << 20;

#[test]
fn memory_stays_flat_whatever_paths_anonymous_clients_try() {
    Test::new().deadline(Duration::from_secs(300)).run(async |lab| {
        let server = Server::start(&lab);
        send(&server, 0..WARM).await;
        let warm = server.memory();
        send(&server, WARM..REQUESTS).await;
        let grown = server.memory().saturating_sub(warm);
        println!("{} KiB after {WARM} requests, {} KiB more after {REQUESTS}", warm >> 10, grown >> 10);
        assert!(grown < FLAT, "memory grew by {grown} bytes from {warm}");
    });
}

async fn send(server: &Server, numbers: std::ops::Range<usize>) {
    let mut clients = JoinSet::new();
    for first in 0..CLIENTS {
        let (client, numbers) = (server.anonymous().await, numbers.clone());
        clients.spawn(async move {
            for number in numbers.skip(first).step_by(CLIENTS) {
                let (method, path) = never_seen(number);
                let request = Request::builder().method(method.clone()).uri(&path).body(Vec::new()).unwrap();
                let response = client.send(request.map(kube::client::Body::from)).await.unwrap();
                let code = response.status().as_u16();
                // Health is for everybody; all else is refused, whether it exists or not.
                assert!(matches!(code, 200 | 400 | 401 | 403 | 404), "{method} {path}: {code}");
            }
        });
    }
    clients.join_all().await;
}

fn never_seen(number: usize) -> (Method, String) {
    let long = "x".repeat(number % 200);
    let path = match number % 10 {
        0 => format!("/page-{number}"),
        1 => format!("/apis/group-{number}.io/v1/things"),
        2 => format!("/api/v1/things-{number}/a"),
        3 => format!("/api/v1/namespaces/ns-{number}/pods/p-{number}/sub-{number}"),
        4 => format!("/apis/apps/v{number}/deployments"),
        5 => format!("/livez/check-{number}"),
        6 => format!("/openapi/v3/apis/g{number}/v1"),
        7 => format!("/api/v1/watch/namespaces/n{number}/secrets?fieldSelector=metadata.name%3Dn{number}"),
        8 => format!("/healthz?verbose&exclude=e{number}"),
        _ => format!("/api/v1/configmaps?labelSelector=a{number}%3D{long}&watch=true"),
    };
    let method = match number % 7 {
        0 => Method::from_bytes(format!("METHOD{number}").as_bytes()).unwrap(),
        1 => Method::POST,
        2 => Method::DELETE,
        _ => Method::GET,
    };
    // Methods that clients invent are not for health, which only answers reads.
    let method =
        if path.starts_with("/livez") || path.starts_with("/healthz") { Method::GET } else { method };
    (method, path)
}
