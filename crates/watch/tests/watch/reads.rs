//! Live reads.

use k8s_openapi::api::core::v1::Pod;
use kube::Api;

use crate::{Vpc, pod, vpc};
use portolan_watch::fake::{Answer, FakeApi};
use portolan_watch::{Error, get, is_kind_absent, list};

#[tokio::test]
async fn an_object_is_absent_only_if_the_answer_names_it() {
    let api = FakeApi::default();
    api.put(&pod("a"));
    let client = api.client();
    let pods = Api::<Pod>::namespaced(client.clone(), "default");
    assert!(get(&client, &pods, "a").await.unwrap().is_some());
    assert!(get(&client, &pods, "b").await.unwrap().is_none());
    for failure in
        [Answer::NamelessNotFound, Answer::Code(404), Answer::Code(403), Answer::Code(410), Answer::Refused]
    {
        api.always("/pods", failure.clone());
        assert!(get(&client, &pods, "a").await.is_err(), "{failure:?}");
        assert!(list::<Pod>(&client).await.is_err(), "{failure:?}");
        api.lift();
    }
}

#[tokio::test]
async fn objects_of_an_undefined_kind_are_absent_and_of_one_that_is_not_served_yet_are_not() {
    let api = FakeApi::default();
    let client = api.client();
    let vpcs = Api::<Vpc>::all(client.clone());
    assert!(get(&client, &vpcs, "blue").await.unwrap().is_none());
    assert_eq!(list::<Vpc>(&client).await.unwrap().objects, []);
    assert!(is_kind_absent::<Vpc>(&client).await.unwrap());

    api.define::<Vpc>();
    api.put(&vpc("blue"));
    api.always("/vpcs", Answer::NamelessNotFound);
    assert!(get(&client, &vpcs, "blue").await.is_err());
    assert!(list::<Vpc>(&client).await.is_err());
    api.always("/customresourcedefinitions", Answer::NamelessNotFound);
    assert!(get(&client, &vpcs, "blue").await.is_err(), "nothing is known about definitions");
    assert!(is_kind_absent::<Vpc>(&client).await.is_err());
}

#[tokio::test]
async fn an_error_is_shown_in_one_line_without_a_dump() {
    let api = FakeApi::default();
    api.always("/pods", Answer::Code(500));
    let pods = Api::<Pod>::namespaced(api.client(), "default");
    let error = Error::from(pods.get("a").await.unwrap_err()).to_string();
    assert_eq!(error, "the API server answered 500: scripted");
    api.lift();
    api.always("/pods", Answer::Refused);
    let error = Error::from(pods.get("a").await.unwrap_err()).to_string();
    assert!(error.contains("connection refused") && !error.contains('{'), "{error}");
}
