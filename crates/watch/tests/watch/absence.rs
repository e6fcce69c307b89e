//! When a kind counts as absent.

use crate::{Scene, Vpc, a_while, vpc};
use portolan_watch::fake::{Answer, FakeApi};

const LIST: &str = "/apis/example.io/v1/vpcs";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

#[tokio::test(start_paused = true)]
async fn a_kind_without_a_definition_is_empty_until_it_gets_one() {
    let api = FakeApi::default();
    let mut scene = Scene::<Vpc>::new(&api);
    assert_eq!(scene.next().await, "listed");
    scene.followers.status().in_step().await;
    let asked = api.requests(LIST).len();
    a_while().await;
    assert_eq!(api.requests(LIST).len(), asked, "nothing is asked again and again");
    api.define::<Vpc>();
    assert_eq!(scene.next().await, "listed");
    scene.followers.status().in_step().await;
    api.put(&vpc("blue"));
    assert_eq!(scene.next().await, "applied blue");
}

#[tokio::test(start_paused = true)]
async fn a_kind_without_a_definition_is_empty_also_for_those_who_may_not_list_it() {
    let api = FakeApi::default();
    api.always(LIST, Answer::Code(403));
    let mut scene = Scene::<Vpc>::new(&api);
    assert_eq!(scene.next().await, "listed");
    scene.followers.status().in_step().await;
    // Once it exists, the right is needed.
    api.define::<Vpc>();
    api.put(&vpc("blue"));
    a_while().await;
    assert_eq!(scene.so_far(), [""; 0]);
    api.lift();
    assert_eq!(scene.next().await, "listed blue");
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_defined_but_not_served_yet_is_not_empty() {
    let api = FakeApi::default();
    api.define::<Vpc>();
    api.put(&vpc("blue"));
    api.always(LIST, Answer::NamelessNotFound);
    let mut scene = Scene::<Vpc>::new(&api);
    a_while().await;
    assert_eq!(scene.so_far(), [""; 0]);
    api.lift();
    assert_eq!(scene.next().await, "listed blue");
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_starts_without_its_definitions_empties_nothing() {
    for (definitions, vpcs) in [
        // The watch of definitions lacks it, as right after a restart.
        (Answer::EmptyList, Answer::NamelessNotFound),
        (Answer::EmptyList, Answer::Code(503)),
        (Answer::Code(503), Answer::NamelessNotFound),
        (Answer::Code(403), Answer::NamelessNotFound),
        (Answer::NamelessNotFound, Answer::NamelessNotFound),
    ] {
        let api = FakeApi::default();
        api.define::<Vpc>();
        api.put(&vpc("blue"));
        let mut scene = Scene::<Vpc>::new(&api);
        assert_eq!(scene.next().await, "listed blue");
        scene.followers.status().in_step().await;
        api.always(LIST, vpcs.clone());
        // The list of definitions, not one definition by name.
        let line = format!("GET {DEFINITIONS}");
        if definitions == Answer::EmptyList {
            api.script(&line, 1, definitions.clone());
        } else {
            api.always(&line, definitions.clone());
        }
        api.compact();
        api.cut_watches();
        a_while().await;
        assert_eq!(scene.so_far(), [""; 0], "{definitions:?} {vpcs:?}");
        api.lift();
        assert_eq!(scene.next().await, "listed blue", "{definitions:?} {vpcs:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_was_deleted_while_no_watch_was_open_leaves_an_empty_list() {
    let api = FakeApi::default();
    api.define::<Vpc>();
    api.put(&vpc("blue"));
    let mut scene = Scene::<Vpc>::new(&api);
    assert_eq!(scene.next().await, "listed blue");
    scene.followers.status().in_step().await;
    api.always("", Answer::Refused);
    api.cut_watches();
    api.undefine::<Vpc>();
    a_while().await;
    assert_eq!(scene.so_far(), [""; 0]);
    api.lift();
    assert_eq!(scene.next().await, "listed");
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_another_server_serves_is_not_empty_while_that_is_down() {
    let api = FakeApi::default();
    api.delegate::<Vpc>();
    api.always(LIST, Answer::NamelessNotFound);
    let mut scene = Scene::<Vpc>::new(&api);
    a_while().await;
    assert_eq!(scene.so_far(), [""; 0]);
    assert_eq!(scene.followers.status().behind().len(), 1);
}
