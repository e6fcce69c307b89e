//! An object that cannot be decoded hides no other, and is never taken for absent.

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use serde_json::{Value, json};

use crate::{Scene, Vpc, a_while, pod, vpc};
use portolan_watch::fake::{Answer, FakeApi};
use portolan_watch::{get, list};

/// A pod with a number where a name belongs.
fn unreadable(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}")},
        "spec": {"containers": [], "nodeName": 7},
    })
}

#[tokio::test(start_paused = true)]
async fn a_list_has_the_readable_objects_and_names_the_field_of_the_others() {
    let api = FakeApi::default();
    api.put(&pod("a"));
    api.put_raw::<Pod>(&unreadable("b"));
    api.put(&pod("c"));
    let mut scene = Scene::<Pod>::new(&api);
    assert_eq!(scene.next().await, "listed a c b(spec.nodeName)");
    scene.followers.status().in_step().await;
    assert_eq!(api.requests("GET /api/v1/pods").len(), 1, "nothing is listed again for it");
}

#[tokio::test(start_paused = true)]
async fn a_watch_goes_on_over_an_object_that_becomes_unreadable_and_readable_again() {
    let api = FakeApi::default();
    api.put(&pod("a"));
    api.put(&pod("b"));
    let mut scene = Scene::<Pod>::new(&api);
    assert_eq!(scene.next().await, "listed a b");
    scene.followers.status().in_step().await;
    api.put_raw::<Pod>(&unreadable("b"));
    assert_eq!(scene.next().await, "unreadable b(spec.nodeName)");
    api.put(&pod("a"));
    assert_eq!(scene.next().await, "applied a");
    // What was seen is not reported again by a watch that resumes.
    api.put_raw::<Pod>(&unreadable("b"));
    assert_eq!(scene.next().await, "unreadable b(spec.nodeName)");
    api.cut_watches();
    api.put(&pod("b"));
    assert_eq!(scene.next().await, "applied b");
    api.put_raw::<Pod>(&unreadable("b"));
    assert_eq!(scene.next().await, "unreadable b(spec.nodeName)");
    api.remove::<Pod>("default", "b");
    assert_eq!(scene.next().await, "deleted b");
    assert_eq!(api.requests("GET /api/v1/pods").len(), 1, "no list was needed");
}

#[tokio::test(start_paused = true)]
async fn a_live_read_of_an_unreadable_object_is_an_error_and_a_list_has_the_others() {
    let api = FakeApi::default();
    api.put(&pod("a"));
    api.put_raw::<Pod>(&unreadable("b"));
    let client = api.client();
    let pods = Api::<Pod>::namespaced(client.clone(), "default");
    assert!(get(&client, &pods, "b").await.is_err(), "which is not absence");
    let listed = list::<Pod>(&client).await.unwrap();
    assert_eq!((listed.objects.len(), listed.unreadable.len()), (1, 1));
    let said = listed.unreadable[0].to_string();
    assert_eq!(said, "spec.nodeName: invalid type: integer `7`, expected a string");
}

#[tokio::test(start_paused = true)]
async fn a_kind_whose_definition_cannot_be_decoded_is_not_absent() {
    let api = FakeApi::default();
    api.define::<Vpc>();
    api.put(&vpc("blue"));
    let mut scene = Scene::<Vpc>::new(&api);
    assert_eq!(scene.next().await, "listed blue");
    scene.followers.status().in_step().await;
    let name = "vpcs.example.io";
    api.put_raw::<k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition>(&json!({"metadata": {"name": name, "labels": 7}}));
    api.always("/apis/example.io/v1/vpcs", Answer::NamelessNotFound);
    api.compact();
    api.cut_watches();
    a_while().await;
    assert_eq!(scene.so_far(), [""; 0]);
    let read = format!("GET /apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
    assert_eq!(api.requests(&read), [""; 0], "that it is defined is not in doubt");
    api.lift();
    assert_eq!(scene.next().await, "listed blue");
}
