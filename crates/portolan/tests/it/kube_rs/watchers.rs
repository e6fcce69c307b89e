//! Watchers: what was there before, then every change.

use std::pin::pin;

use futures::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt as _, reflector, watcher as watch};
use kube::{Api, ResourceExt as _};
use serde_json::json;

use crate::kube_rs::Space;

pub(crate) fn config_map(name: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.into());
    map
}

async fn create(api: &Api<ConfigMap>, names: &[&str]) {
    for name in names {
        api.create(&PostParams::default(), &config_map(name)).await.unwrap();
    }
}

async fn label(api: &Api<ConfigMap>, name: &str, value: &str) {
    let patch = json!({"metadata": {"labels": {"l": value}}});
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

/// What was there when a watcher began.
async fn listed<K: kube::Resource>(
    events: &mut (impl Stream<Item = watcher::Result<Event<K>>> + Unpin),
) -> Vec<String> {
    let mut names = Vec::new();
    assert!(matches!(events.next().await.unwrap().unwrap(), Event::Init));
    loop {
        match events.next().await.unwrap().unwrap() {
            Event::InitApply(object) => names.push(object.name_any()),
            Event::InitDone => break,
            other => panic!("{:?}", std::mem::discriminant(&other)),
        }
    }
    names.sort();
    names
}

async fn next<K: kube::Resource>(
    events: &mut (impl Stream<Item = watcher::Result<Event<K>>> + Unpin),
) -> (&'static str, String) {
    match events.next().await.unwrap().unwrap() {
        Event::Apply(object) => ("apply", object.name_any()),
        Event::Delete(object) => ("delete", object.name_any()),
        Event::Init | Event::InitApply(_) | Event::InitDone => panic!("the watch began anew"),
    }
}

pub(crate) async fn the_two_ways_to_list_agree(space: Space) {
    let api = space.api::<ConfigMap>();
    create(&api, &["a", "b", "c", "d", "e"]).await;
    let configs = [
        watcher::Config::default().page_size(2),
        watcher::Config::default().any_semantic(),
        watcher::Config::default().streaming_lists(),
    ];
    for config in configs {
        let mut events = pin!(watch(api.clone(), config.clone()));
        assert_eq!(listed(&mut events).await, ["a", "b", "c", "d", "e"]);
        create(&api, &["new"]).await;
        assert_eq!(next(&mut events).await, ("apply", "new".into()));
        label(&api, "a", "x").await;
        assert_eq!(next(&mut events).await, ("apply", "a".into()));
        api.delete("new", &DeleteParams::default()).await.unwrap();
        assert_eq!(next(&mut events).await, ("delete", "new".into()));

        // What leaves a selector is gone for those who watch it.
        let mut selected = pin!(watch(api.clone(), config.labels("l=x")));
        assert_eq!(listed(&mut selected).await, ["a"]);
        label(&api, "b", "x").await;
        assert_eq!(next(&mut selected).await, ("apply", "b".into()));
        label(&api, "b", "y").await;
        assert_eq!(next(&mut selected).await, ("delete", "b".into()));
        label(&api, "a", "y").await;
        assert_eq!(next(&mut selected).await, ("delete", "a".into()));
    }
}

pub(crate) async fn metadata_alone_can_be_watched(space: Space) {
    let api = space.api::<ConfigMap>();
    let mut map = config_map("a");
    map.data = Some([("key".to_owned(), "value".to_owned())].into());
    map.metadata.annotations = Some([("n".to_owned(), "1".to_owned())].into());
    api.create(&PostParams::default(), &map).await.unwrap();
    let metadata = space.api::<PartialObjectMeta<ConfigMap>>();
    for config in [watcher::Config::default(), watcher::Config::default().streaming_lists()] {
        let mut events = pin!(watch(metadata.clone(), config).applied_objects());
        let object = events.next().await.unwrap().unwrap();
        assert_eq!((object.name_any().as_str(), object.annotations()["n"].as_str()), ("a", "1"));
        let of = object.resource_version().unwrap();
        label(&api, "a", &format!("after-{of}")).await;
        assert_eq!(events.next().await.unwrap().unwrap().labels()["l"], format!("after-{of}"));
    }
    let listed = api.list_metadata(&Default::default()).await.unwrap();
    assert_eq!(listed.items.len(), 1);
    assert_eq!(api.get_metadata("a").await.unwrap().annotations()["n"], "1");
}

pub(crate) async fn a_store_reflects_what_there_is(space: Space) {
    let api = space.api::<ConfigMap>();
    create(&api, &["a", "b"]).await;
    let (reader, writer) = reflector::store::<ConfigMap>();
    let events = watch(api.clone(), watcher::Config::default()).default_backoff();
    let mut events = pin!(events.reflect(writer));
    let names = || {
        let mut names: Vec<String> = reader.state().iter().map(|object| object.name_any()).collect();
        names.sort();
        names
    };
    while !matches!(events.next().await.unwrap().unwrap(), Event::InitDone) {}
    reader.wait_until_ready().await.unwrap();
    assert_eq!(names(), ["a", "b"]);
    create(&api, &["c"]).await;
    events.next().await.unwrap().unwrap();
    assert_eq!(names(), ["a", "b", "c"]);
    label(&api, "b", "x").await;
    events.next().await.unwrap().unwrap();
    let b = reader.get(&reflector::ObjectRef::new("b").within(space.name)).unwrap();
    assert_eq!(b.labels()["l"], "x");
    api.delete("a", &DeleteParams::default()).await.unwrap();
    events.next().await.unwrap().unwrap();
    assert_eq!(names(), ["b", "c"]);
}
