//! Writes: server-side apply, optimistic concurrency, subresources.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Error, ResourceExt as _};
use serde_json::json;

use crate::kube_rs::Space;
use crate::kube_rs::watchers::config_map;

/// The code and the reason of a refusal.
fn refusal<T: std::fmt::Debug>(answer: Result<T, Error>) -> (u16, String, String) {
    match answer {
        Err(Error::Api(status)) => (status.code, status.reason.clone(), status.message.clone()),
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn owners_of_fields_are_respected(space: Space) {
    let api = space.api::<ConfigMap>();
    let map = |data: serde_json::Value| {
        Patch::Apply(
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": data}),
        )
    };
    let (ann, bob) = (PatchParams::apply("ann"), PatchParams::apply("bob"));
    api.patch("m", &ann, &map(json!({"a": "1", "b": "1"}))).await.unwrap();
    api.patch("m", &bob, &map(json!({"a": "1", "c": "1"}))).await.unwrap();
    let (code, reason, message) = refusal(api.patch("m", &bob, &map(json!({"a": "2"}))).await);
    assert_eq!((code, reason.as_str()), (409, "Conflict"));
    assert_eq!(message, r#"Apply failed with 1 conflict: conflict with "ann": .data.a"#);

    // By force bob has `a` alone; what he leaves out and nobody else has, goes.
    let forced = api.patch("m", &bob.clone().force(), &map(json!({"a": "2"}))).await.unwrap();
    assert_eq!(json!(forced.data), json!({"a": "2", "b": "1"}));
    let owned = |object: &ConfigMap, manager: &str| {
        let fields = object.managed_fields().iter().find(|one| one.manager.as_deref() == Some(manager));
        json!(fields.and_then(|entry| entry.fields_v1.clone()))
    };
    assert_eq!(owned(&forced, "ann"), json!({"f:data": {"f:b": {}}}));
    assert_eq!(owned(&forced, "bob"), json!({"f:data": {"f:a": {}}}));

    let dry = PatchParams { dry_run: true, ..PatchParams::apply("ann") };
    api.patch("m", &dry, &map(json!({}))).await.unwrap();
    assert_eq!(json!(api.get("m").await.unwrap().data), json!({"a": "2", "b": "1"}));
    let gone = api.patch("m", &ann, &map(json!({}))).await.unwrap();
    assert_eq!(json!(gone.data), json!({"a": "2"}));
}

pub(crate) async fn who_saw_an_old_version_may_not_write(space: Space) {
    let api = space.api::<ConfigMap>();
    let old = api.create(&PostParams::default(), &config_map("m")).await.unwrap();
    let mut new = old.clone();
    new.data = Some([("k".to_owned(), "1".to_owned())].into());
    let new = api.replace("m", &PostParams::default(), &new).await.unwrap();
    assert_ne!(new.resource_version(), old.resource_version());
    let (code, reason, _) = refusal(api.replace("m", &PostParams::default(), &old).await);
    assert_eq!((code, reason.as_str()), (409, "Conflict"));
    let (code, reason, _) = refusal(api.create(&PostParams::default(), &config_map("m")).await);
    assert_eq!((code, reason.as_str()), (409, "AlreadyExists"));
    assert!(api.get_opt("none").await.unwrap().is_none());

    let mut entry = api.entry("m").await.unwrap().or_insert(|| unreachable!("it is there"));
    entry.get_mut().data = Some([("k".to_owned(), "2".to_owned())].into());
    entry.commit(&PostParams::default()).await.unwrap();
    assert_eq!(api.get("m").await.unwrap().data.unwrap()["k"], "2");
}

pub(crate) async fn status_and_scale_are_apart(space: Space) {
    let api = space.api::<Deployment>();
    let deployment = serde_json::from_value(json!({
        "metadata": {"name": "d"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "m", "image": "i"}]}}},
    }));
    api.create(&PostParams::default(), &deployment.unwrap()).await.unwrap();
    let status = Patch::Merge(json!({"status": {"replicas": 7}, "spec": {"replicas": 9}}));
    let patched = api.patch_status("d", &PatchParams::default(), &status).await.unwrap();
    assert_eq!(patched.spec.as_ref().unwrap().replicas, Some(1));
    assert_eq!(patched.status.unwrap().replicas, Some(7));
    let scaled = Patch::Merge(json!({"spec": {"replicas": 3}}));
    let scale = api.patch_scale("d", &PatchParams::default(), &scaled).await.unwrap();
    assert_eq!(scale.spec.unwrap().replicas, Some(3));
    let scale = api.get_scale("d").await.unwrap();
    assert_eq!(scale.status.unwrap().replicas, 7);
    let now = api.get("d").await.unwrap();
    assert_eq!((now.spec.unwrap().replicas, now.metadata.generation), (Some(3), Some(2)));
}
