//! One object, followed by its name.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::{Api, ResourceExt as _};
use portolan_watch::fake::{Answer, FakeApi};
use portolan_watch::{Followers, Observed};

use crate::{a_while, pod};

fn short(observed: &Observed<Pod>) -> String {
    match observed {
        Observed::NotRead => "not read".into(),
        Observed::Absent => "absent".into(),
        Observed::Present(pod) => pod.name_any(),
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_is_followed_by_its_name_in_its_namespace() {
    let api = FakeApi::default();
    let list = "GET /api/v1/namespaces/default/pods";
    api.always(list, Answer::Code(503));
    api.put(&pod("other"));
    let mut followers = Followers::of_built_in_kinds(api.client());
    let mut one = followers.follow_one::<Pod>(Api::namespaced(api.client(), "default"), "a");
    a_while().await;
    assert_eq!(short(&one.borrow_and_update()), "not read", "an error is not absence");
    api.lift();
    one.changed().await.unwrap();
    assert_eq!(short(&one.borrow_and_update()), "absent");
    api.put(&pod("a"));
    one.changed().await.unwrap();
    assert_eq!(short(&one.borrow_and_update()), "a");
    api.remove::<Pod>("default", "a");
    one.changed().await.unwrap();
    assert_eq!(short(&one.borrow_and_update()), "absent");
    assert_eq!(api.requests("/customresourcedefinitions").len(), 0, "definitions need not be readable");
}

#[tokio::test(start_paused = true)]
async fn without_definitions_no_kind_is_taken_for_absent() {
    // This API server has no APIServices.
    let api = FakeApi::default();
    let mut followers = Followers::of_built_in_kinds(api.client());
    let mut one = followers.follow_one::<APIService>(Api::all(api.client()), "v1.example.io");
    a_while().await;
    assert_eq!(*one.borrow_and_update(), Observed::NotRead);
    let mut service = APIService::default();
    service.metadata.name = Some("v1.example.io".into());
    api.put(&service);
    one.changed().await.unwrap();
    assert!(matches!(*one.borrow_and_update(), Observed::Present(_)), "and it is noticed when it comes");
}
