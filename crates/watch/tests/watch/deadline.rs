//! Every request but a watch ends.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use tokio::net::TcpListener;
use tokio::time::Instant;

use crate::{Scene, pod};
use portolan_watch::fake::{Answer, FakeApi};
use portolan_watch::{ANSWER, Error, list};

#[tokio::test(start_paused = true)]
async fn a_server_that_accepts_and_never_answers_is_reported_as_such() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let mut held = Vec::new();
        loop {
            held.push(listener.accept().await);
        }
    });
    let config = kube::Config::new(format!("http://{address}").parse().unwrap());
    let client = portolan_watch::client(config).unwrap();
    let error = Api::<Pod>::namespaced(client, "default").get("a").await.unwrap_err();
    assert_eq!(Error::from(error).to_string(), "the API server did not answer within 30s");
    server.abort();
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_stalls_is_given_up() {
    let api = FakeApi::default();
    api.put(&pod("a"));
    api.script("GET /api/v1/namespaces/default/pods/a", 1, Answer::Stalled);
    api.script("GET /api/v1/pods", 1, Answer::Stalled);
    let (client, begun) = (api.client(), Instant::now());
    let error = Api::<Pod>::namespaced(client.clone(), "default").get("a").await.unwrap_err();
    assert!(Error::from(error).to_string().contains("did not answer within 30s"));
    assert_eq!(begun.elapsed(), ANSWER, "in virtual time");
    assert!(list::<Pod>(&client).await.is_err());
    assert_eq!(list::<Pod>(&client).await.unwrap().objects.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_follower_outlives_lists_and_watches_that_are_never_answered() {
    let api = FakeApi::default();
    api.put(&pod("a"));
    api.script("GET /api/v1/pods", 2, Answer::Silence);
    api.script("WATCH /api/v1/pods", 2, Answer::Silence);
    let mut scene = Scene::<Pod>::new(&api);
    assert_eq!(scene.next().await, "listed a");
    scene.followers.status().in_step().await;
    assert_eq!((api.requests("GET /api/v1/pods").len(), api.requests("WATCH /api/v1/pods").len()), (3, 3));
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_open_for_longer_than_a_request_may_take() {
    let api = FakeApi::default();
    let mut scene = Scene::<Pod>::new(&api);
    assert_eq!(scene.next().await, "listed");
    scene.followers.status().in_step().await;
    tokio::time::sleep(ANSWER + Duration::from_secs(60)).await;
    api.put(&pod("a"));
    assert_eq!(scene.next().await, "applied a");
    assert_eq!(api.requests("WATCH /api/v1/pods").len(), 1);
}
