//! No error is mistaken for absence, and every one is outlived.

use k8s_openapi::api::core::v1::Pod;

use crate::{Scene, a_while, pod};
use portolan_watch::Selection;
use portolan_watch::fake::{Answer, FakeApi};

const FAILURES: &[Answer] = &[
    Answer::Refused,
    Answer::Silence,
    Answer::Code(401),
    Answer::Code(403),
    Answer::Code(410),
    Answer::TooManyRequests(1),
    Answer::Code(500),
    Answer::Code(503),
    Answer::NamelessNotFound,
];

#[tokio::test(start_paused = true)]
async fn no_answer_makes_a_built_in_kind_look_empty() {
    for failure in FAILURES {
        let api = FakeApi::default();
        api.put(&pod("a"));
        let mut scene = Scene::<Pod>::new(&api);
        assert_eq!(scene.next().await, "listed a");
        scene.followers.status().in_step().await;
        // Both the watch and the lists fail for a while, with discovery fine.
        api.always("/api/v1/pods", failure.clone());
        api.cut_watches();
        a_while().await;
        assert_eq!(scene.so_far(), [""; 0], "{failure:?}");
        assert!(!scene.followers.status().is_in_step(), "{failure:?}");
        api.put(&pod("b"));
        api.lift();
        scene.followers.status().in_step().await;
        a_while().await;
        let seen = scene.so_far();
        assert!(seen == ["applied b"] || seen == ["listed a b"], "{failure:?}: {seen:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_reports_410_is_followed_by_a_new_list() {
    let api = FakeApi::default();
    api.put(&pod("a"));
    let mut scene = Scene::<Pod>::new(&api);
    assert_eq!(scene.next().await, "listed a");
    scene.followers.status().in_step().await;
    api.script("WATCH /api/v1/pods", 1, Answer::ExpiredEvent);
    api.cut_watches();
    assert_eq!(scene.next().await, "listed a");
    scene.followers.status().in_step().await;
    api.put(&pod("b"));
    assert_eq!(scene.next().await, "applied b");
}

#[tokio::test(start_paused = true)]
async fn deletions_that_the_history_no_longer_has_show_in_the_next_list() {
    let api = FakeApi::default();
    api.put(&pod("a"));
    api.put(&pod("b"));
    let mut scene = Scene::<Pod>::new(&api);
    assert_eq!(scene.next().await, "listed a b");
    scene.followers.status().in_step().await;
    api.cut_watches();
    api.remove::<Pod>("default", "b");
    api.compact();
    assert_eq!(scene.next().await, "listed a");
}

#[tokio::test(start_paused = true)]
async fn a_cut_watch_resumes_where_it_was_without_a_new_list() {
    let api = FakeApi::default();
    let mut scene = Scene::<Pod>::new(&api);
    assert_eq!(scene.next().await, "listed");
    scene.followers.status().in_step().await;
    api.put(&pod("a"));
    assert_eq!(scene.next().await, "applied a");
    api.cut_watches();
    api.put(&pod("b"));
    assert_eq!(scene.next().await, "applied b");
    assert_eq!(api.requests("GET /api/v1/pods").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn where_a_list_is_wanted_after_a_failure_nothing_is_missed_once_it_is_in_step() {
    let api = FakeApi::default();
    let mut scene = Scene::<Pod>::select(&api, Selection::all().listed_after_failures());
    assert_eq!(scene.next().await, "listed");
    let status = scene.followers.status();
    status.in_step().await;
    api.always("/api/v1/pods", Answer::Refused);
    api.cut_watches();
    a_while().await;
    assert!(!status.is_in_step());
    api.put(&pod("a"));
    api.lift();
    status.in_step().await;
    assert_eq!(scene.so_far(), ["listed a"]);
    // A watch that ends in time is no failure.
    a_while().await;
    api.close_watches();
    a_while().await;
    assert_eq!(scene.so_far(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_quiet_kind_is_in_step_again_as_soon_as_its_watch_is() {
    let api = FakeApi::default();
    let scene = Scene::<Pod>::new(&api);
    let status = scene.followers.status();
    status.in_step().await;
    api.always("", Answer::Refused);
    let mut changes = status.changes();
    api.cut_watches();
    changes.changed().await.unwrap();
    let behind = status.behind();
    assert!(
        !behind.is_empty() && behind[0].error.as_ref().unwrap().contains("connection refused"),
        "{behind:?}"
    );
    api.lift();
    // Nothing happens to any pod, and yet.
    status.in_step().await;
    assert_eq!(api.requests("GET /api/v1/pods").len(), 1, "the watch was resumed");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_the_api_server_closes_in_time_is_no_failure() {
    let api = FakeApi::default();
    let scene = Scene::<Pod>::new(&api);
    let status = scene.followers.status();
    status.in_step().await;
    a_while().await;
    let changes = status.changes();
    api.close_watches();
    api.requested("WATCH /api/v1/pods", 2).await;
    a_while().await;
    assert!(!changes.has_changed().unwrap());
}
