//! Followers and live reads against an API server that a test scripts.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

mod absence;
mod connecting;
mod deadline;
mod failures;
mod one;
mod pages;
mod reads;
mod recovery;
mod unreadable;

use std::borrow::Cow;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::core::{ClusterResourceScope, ObjectMeta};
use kube::{Resource, ResourceExt};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use portolan_watch::fake::FakeApi;
use portolan_watch::{Change, Followers, Listed, Object, Selection};

/// A kind that exists only once it is defined.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct Vpc {
    metadata: ObjectMeta,
}

impl Resource for Vpc {
    type DynamicType = ();
    type Scope = ClusterResourceScope;
    fn kind((): &()) -> Cow<'_, str> {
        "Vpc".into()
    }
    fn group((): &()) -> Cow<'_, str> {
        "example.io".into()
    }
    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }
    fn plural((): &()) -> Cow<'_, str> {
        "vpcs".into()
    }
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

fn vpc(name: &str) -> Vpc {
    Vpc { metadata: ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() } }
}

fn pod(name: &str) -> Pod {
    let metadata =
        ObjectMeta { name: Some(name.into()), namespace: Some("default".into()), ..ObjectMeta::default() };
    Pod { metadata, ..Pod::default() }
}

/// Followers of an API server, and what one of them reports.
struct Scene<K> {
    followers: Followers,
    changes: mpsc::UnboundedReceiver<Change<K>>,
}

impl<K: Object> Scene<K> {
    fn new(api: &FakeApi) -> Self {
        Self::select(api, Selection::all())
    }

    fn select(api: &FakeApi, selection: Selection) -> Self {
        let mut followers = Followers::new(api.client());
        let (sender, changes) = mpsc::unbounded_channel();
        followers.follow::<K, _>(selection, move |change| {
            drop(sender.send(change));
            std::future::ready(())
        });
        Scene { followers, changes }
    }

    /// The next change, in short: `listed a b`, `applied a`, `deleted a`; what cannot be decoded with the field that is wrong, as in
    /// `listed a b(spec)`.
    async fn next(&mut self) -> String {
        short(self.changes.recv().await.unwrap())
    }

    /// The changes so far.
    fn so_far(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.changes.try_recv().ok()).map(short).collect()
    }
}

fn short<K: Object>(change: Change<K>) -> String {
    match change {
        Change::Applied(object) => format!("applied {}", object.name_any()),
        Change::Deleted(object) => format!("deleted {}", object.name_any()),
        Change::Unreadable(unreadable) => {
            format!("unreadable {}({})", unreadable.object.name_any(), unreadable.field)
        }
        Change::Listed(Listed { objects, unreadable }) => {
            let readable = objects.iter().map(ResourceExt::name_any);
            let unreadable = unreadable.iter().map(|one| format!("{}({})", one.object.name_any(), one.field));
            readable.chain(unreadable).fold("listed".into(), |text, object| format!("{text} {object}"))
        }
    }
}

/// Lets (virtual) time go by, so that what would happen has happened.
async fn a_while() {
    tokio::time::sleep(Duration::from_secs(60)).await;
}

#[tokio::test(start_paused = true)]
async fn a_list_is_reported_first_and_then_every_change() {
    let api = FakeApi::default();
    api.put(&pod("a"));
    let mut scene = Scene::<Pod>::new(&api);
    assert_eq!(scene.next().await, "listed a");
    scene.followers.status().in_step().await;
    api.put(&pod("b"));
    api.remove::<Pod>("default", "a");
    assert_eq!(scene.next().await, "applied b");
    assert_eq!(scene.next().await, "deleted a");
}

#[tokio::test(start_paused = true)]
async fn a_selection_is_all_that_is_reported() {
    let api = FakeApi::default();
    let on = |node: &str, name: &str| {
        let mut pod = pod(name);
        pod.spec.get_or_insert_default().node_name = Some(node.into());
        pod
    };
    api.put(&on("one", "a"));
    api.put(&on("two", "b"));
    let mut scene = Scene::<Pod>::select(&api, Selection::fields("spec.nodeName=one"));
    assert_eq!(scene.next().await, "listed a");
    scene.followers.status().in_step().await;
    api.put(&on("two", "c"));
    api.put(&on("one", "d"));
    assert_eq!(scene.next().await, "applied d");
}

#[tokio::test(start_paused = true)]
async fn a_consumer_that_panics_ends_the_followers_with_the_kind_in_the_error() {
    let api = FakeApi::default();
    let mut followers = Followers::new(api.client());
    followers.follow::<Pod, _>(Selection::all(), |_| async { panic!("a bug") });
    let error = followers.ended().await.to_string();
    assert!(error.contains("the follower of pods ended") && error.contains("a bug"), "{error}");
}
