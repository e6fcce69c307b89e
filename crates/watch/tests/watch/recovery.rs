//! How soon and how often failed requests are repeated. Time is virtual.

use std::time::Duration;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use tokio::time::Instant;

use crate::{Scene, a_while};
use portolan_watch::fake::{Answer, FakeApi};
use portolan_watch::{Followers, Selection};

fn many(api: &FakeApi) -> Followers {
    let mut followers = Followers::new(api.client());
    followers.follow::<Pod, _>(Selection::all(), |_| std::future::ready(()));
    followers.follow::<Node, _>(Selection::all(), |_| std::future::ready(()));
    followers.follow::<StatefulSet, _>(Selection::all(), |_| std::future::ready(()));
    followers
}

#[tokio::test(start_paused = true)]
async fn a_short_outage_is_over_within_half_a_second() {
    let api = FakeApi::default();
    let followers = many(&api);
    let status = followers.status();
    status.in_step().await;
    api.always("", Answer::Refused);
    let mut changes = status.changes();
    api.cut_watches();
    changes.changed().await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    api.lift();
    let back = Instant::now();
    status.in_step().await;
    assert!(back.elapsed() < Duration::from_millis(500), "{:?}", back.elapsed());
}

#[tokio::test(start_paused = true)]
async fn after_a_long_outage_all_kinds_are_back_as_soon_as_one_got_through() {
    let api = FakeApi::default();
    let followers = many(&api);
    let status = followers.status();
    status.in_step().await;
    api.always("", Answer::Refused);
    api.cut_watches();
    tokio::time::sleep(Duration::from_secs(1200)).await;
    let mut recoveries = followers.recoveries();
    api.lift();
    let back = Instant::now();
    recoveries.next().await;
    assert!(back.elapsed() <= Duration::from_secs(3), "the first was back after {:?}", back.elapsed());
    let first = Instant::now();
    status.in_step().await;
    assert!(first.elapsed() < Duration::from_millis(200), "the last {:?} later", first.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_api_server_in_trouble_is_not_flooded() {
    for (line, answer) in [
        ("/api/v1/pods", Answer::Refused),
        ("/api/v1/pods", Answer::Code(500)),
        ("WATCH /api/v1/pods", Answer::Code(500)),
        ("WATCH /api/v1/pods", Answer::ClosedWatch),
        ("WATCH /api/v1/pods", Answer::ExpiredEvent),
        ("WATCH", Answer::ExpiredEvent),
    ] {
        let api = FakeApi::default();
        api.always(line, answer.clone());
        let _followers = many(&api);
        a_while().await;
        let before = api.requests("/api/v1/pods").len();
        a_while().await;
        let requests = api.requests("/api/v1/pods").len() - before;
        assert!((10..=150).contains(&requests), "{line} {answer:?}: {requests} requests in a minute");
    }
}

#[tokio::test(start_paused = true)]
async fn the_wish_of_an_api_server_to_be_left_alone_is_respected() {
    let api = FakeApi::default();
    api.always("/api/v1/pods", Answer::TooManyRequests(2));
    let scene = Scene::<Pod>::new(&api);
    api.requested("/api/v1/pods", 1).await;
    let first = Instant::now();
    api.requested("/api/v1/pods", 2).await;
    assert!(first.elapsed() >= Duration::from_secs(2), "{:?}", first.elapsed());
    drop(scene);
}
