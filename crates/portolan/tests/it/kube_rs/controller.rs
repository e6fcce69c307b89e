//! A controller, and the events that it records.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Event as CoreEvent, Secret};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::runtime::wait::await_condition;
use kube::runtime::watcher;
use kube::{Resource as _, ResourceExt as _};
use serde_json::json;
use tokio::sync::oneshot;

use crate::kube_rs::Space;
use crate::kube_rs::watchers::config_map;

/// Makes for each ConfigMap a Secret with its text.
async fn reconcile(map: Arc<ConfigMap>, space: Arc<Space>) -> Result<Action, kube::Error> {
    let text = map.data.as_ref().and_then(|data| data.get("text").cloned()).unwrap_or_default();
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": map.name_any(), "ownerReferences": [map.controller_owner_ref(&())]},
        "stringData": {"text": text},
    });
    let parameters = PatchParams::apply("controller").force();
    space.api::<Secret>().patch(&map.name_any(), &parameters, &Patch::Apply(secret)).await?;
    Ok(Action::await_change())
}

pub(crate) async fn what_is_owned_is_kept_as_it_should_be(space: Space) {
    let space = Arc::new(space);
    let (maps, secrets) = (space.api::<ConfigMap>(), space.api::<Secret>());
    let (stop, stopped) = oneshot::channel::<()>();
    let running = Controller::new(maps.clone(), watcher::Config::default())
        .owns(secrets.clone(), watcher::Config::default().streaming_lists())
        .graceful_shutdown_on(async move { drop(stopped.await) })
        .run(reconcile, |_, error, _| panic!("{error}"), Arc::clone(&space))
        .for_each(|reconciled| async move {
            // Its object may be gone before it is looked at.
            if let Err(error) = reconciled {
                assert!(matches!(error, kube::runtime::controller::Error::ObjectNotFound(_)), "{error}");
            }
        });
    let running = tokio::spawn(running);

    let text_is = |text: &'static str| {
        move |secret: Option<&Secret>| {
            let data = secret.and_then(|secret| secret.data.as_ref());
            data.and_then(|data| data.get("text")).is_some_and(|value| value.0 == text.as_bytes())
        }
    };
    let mut map = config_map("m");
    map.data = Some([("text".to_owned(), "one".to_owned())].into());
    let map = maps.create(&PostParams::default(), &map).await.unwrap();
    let secret = await_condition(secrets.clone(), "m", text_is("one")).await.unwrap().unwrap();
    assert_eq!(secret.owner_references()[0].uid, map.uid().unwrap());

    // The owner changes, the owned one is changed, the owned one is deleted.
    let two = Patch::Merge(json!({"data": {"text": "two"}}));
    maps.patch("m", &PatchParams::default(), &two).await.unwrap();
    await_condition(secrets.clone(), "m", text_is("two")).await.unwrap();
    let wrong = Patch::Merge(json!({"data": {"text": "d3Jvbmc="}}));
    secrets.patch("m", &PatchParams::default(), &wrong).await.unwrap();
    await_condition(secrets.clone(), "m", text_is("two")).await.unwrap();
    let uid = secrets.get("m").await.unwrap().uid();
    secrets.delete("m", &DeleteParams::default()).await.unwrap();
    let is_another = |secret: Option<&Secret>| secret.is_some_and(|secret| secret.uid() != uid);
    await_condition(secrets.clone(), "m", is_another).await.unwrap();

    drop(stop);
    tokio::time::timeout(Duration::from_secs(60), running)
        .await
        .expect("it ends when it is told to")
        .unwrap();
}

pub(crate) async fn events_are_recorded(space: Space) {
    let map = space.api::<ConfigMap>().create(&PostParams::default(), &config_map("m")).await.unwrap();
    let reporter = Reporter { controller: "example.com/test".into(), instance: Some("one".into()) };
    let recorder = Recorder::new(space.client.clone(), reporter);
    let event = Event {
        type_: EventType::Warning,
        reason: "Leaking".into(),
        note: Some("there is water in the hold".into()),
        action: "Pump".into(),
        secondary: None,
    };
    for _ in 0..3 {
        recorder.publish(&event, &map.object_ref(&())).await.unwrap();
    }
    let events = space.api::<CoreEvent>().list(&Default::default()).await.unwrap();
    let [event] = events.items.as_slice() else { panic!("one event in a series: {events:?}") };
    assert_eq!(event.reason.as_deref(), Some("Leaking"));
    assert_eq!(event.involved_object.uid, map.uid());
    assert_eq!(event.series.as_ref().and_then(|series| series.count), Some(3));
}
