//! What one peer can make the server do.

use std::net::Ipv4Addr;
use std::time::Duration;

use portolan_watch::fake::Answer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::client::TlsStream;

use crate::Scene;

const REVIEWS: &str = "POST /apis/authentication.k8s.io/v1/tokenreviews";

#[tokio::test]
async fn a_peer_that_holds_every_connection_keeps_nobody_out() {
    let scene = Scene::usual().await;
    let client = scene.client().await;
    let front = scene.front_proxies.certify("front-proxy-client");
    // More than there may be, each with a request whose body does not come.
    let mut held = Vec::new();
    for _ in 0..150 {
        let Ok(mut stream) = client.connect(Some(&front)).await else { continue };
        let request = "POST /apis/trace.portolan.dev/v1alpha1/namespaces/default/traces HTTP/1.1\r\nHost: x\r\n\
                       X-Remote-User: ann\r\nContent-Length: 100\r\n\r\n";
        if stream.write_all(request.as_bytes()).await.is_ok() {
            held.push(stream);
        }
    }
    assert!(held.len() >= 100, "{}", held.len());
    let other = client.from(Ipv4Addr::new(127, 0, 0, 2));
    let asked = other.ask(Some(&front), &["X-Remote-User: bob"]);
    // Much less than the time after which the server would end the others by itself.
    let answer = tokio::time::timeout(Duration::from_secs(30), asked).await.expect("no answer").unwrap();
    assert_eq!(answer.code, 200, "{}", answer.body);
}

/// A connection from each of many addresses, on which nothing is sent.
async fn silent_peers(scene: &Scene, network: u8) -> Vec<TcpStream> {
    let mut streams = Vec::new();
    for host in 1..=140 {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((Ipv4Addr::new(127, 0, network, host), 0).into()).unwrap();
        streams.push(socket.connect(scene.address).await.unwrap());
    }
    streams
}

async fn answers(stream: &mut TlsStream<TcpStream>) {
    let request = "GET /apis/trace.portolan.dev/v1alpha1 HTTP/1.1\r\nHost: x\r\nX-Remote-User: ann\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"}") {
        assert!(stream.read_buf(&mut answer).await.unwrap() > 0, "{}", String::from_utf8_lossy(&answer));
    }
    assert!(answer.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&answer));
}

#[tokio::test]
async fn many_peers_that_hold_every_connection_do_not_keep_the_front_proxy_out() {
    let scene = Scene::usual().await;
    let client = scene.client().await;
    let front = scene.front_proxies.certify("front-proxy-client");
    let mut silent = silent_peers(&scene, 1).await;
    let mut stream = client.connect(Some(&front)).await.unwrap();
    answers(&mut stream).await;
    // Whoever shows a certificate keeps its connection, whoever comes.
    let others = silent_peers(&scene, 2).await;
    let mut last = silent.pop().unwrap();
    assert_eq!(last.read(&mut [0]).await.unwrap_or(0), 0, "it made room");
    answers(&mut stream).await;
    drop(others);
}

#[tokio::test]
async fn tokens_are_reviewed_once_and_not_without_end() {
    let scene = Scene::usual().await;
    let client = scene.client().await;
    let status = serde_json::json!({"authenticated": false});
    scene.api.always(
        REVIEWS,
        Answer::Object(201, serde_json::json!({"metadata": {}, "spec": {}, "status": status})),
    );
    for _ in 0..3 {
        let answer = client.ask(None, &["Authorization: Bearer nonsense"]).await.unwrap();
        assert_eq!((answer.code, answer.closes), (401, true), "{}", answer.body);
    }
    assert_eq!(scene.api.requests(REVIEWS).len(), 1);
    scene.api.lift();
    scene.api.always(REVIEWS, Answer::Code(500));
    let answer = client.ask(None, &["Authorization: Bearer other"]).await.unwrap();
    assert_eq!(answer.code, 503, "that the API server fails is no answer about the token: {}", answer.body);
}
