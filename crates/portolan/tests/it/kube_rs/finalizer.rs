//! The finalizer helper.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, PostParams};
use kube::runtime::controller::Action;
use kube::runtime::finalizer::{Event as Finalizer, finalizer};
use kube::runtime::watcher as watch;
use kube::runtime::watcher::{self, Event};

use crate::kube_rs::Space;
use crate::kube_rs::watchers::config_map;

const FINALIZER: &str = "example.com/clean-up";

pub(crate) async fn nothing_goes_before_it_is_cleaned_up(space: Space) {
    let api = space.api::<ConfigMap>();
    let mut events = pin!(watch(api.clone(), watcher::Config::default()));
    api.create(&PostParams::default(), &config_map("m")).await.unwrap();
    let mut done: Vec<&str> = Vec::new();
    loop {
        let object = match events.next().await.unwrap().unwrap() {
            Event::Apply(object) | Event::InitApply(object) => object,
            Event::Delete(_) => break,
            Event::Init | Event::InitDone => continue,
        };
        let is_deleting = object.metadata.deletion_timestamp.is_some();
        let has_finalizer = object.finalizers().contains(&FINALIZER.to_owned());
        assert!(has_finalizer || done.is_empty(), "it may not go on without");
        let reconciled = finalizer(&api, FINALIZER, Arc::new(object), async |event| {
            done.push(match event {
                Finalizer::Apply(_) => "applied",
                Finalizer::Cleanup(_) => "cleaned up",
            });
            Ok::<_, Infallible>(Action::await_change())
        })
        .await;
        reconciled.unwrap();
        if done == ["applied"] && !is_deleting {
            let deleted = api.delete("m", &DeleteParams::default()).await.unwrap();
            assert!(deleted.left().is_some(), "it is still there, with a finalizer");
        }
    }
    assert_eq!(done, ["applied", "cleaned up"]);
    assert!(api.get_opt("m").await.unwrap().is_none());
}
