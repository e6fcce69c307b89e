//! Lists that are taken in page by page.

use k8s_openapi::api::core::v1::Pod;
use tokio::sync::mpsc;

use crate::{Vpc, pod, short};
use portolan_watch::fake::FakeApi;
use portolan_watch::{Change, Followers, Object, Page, Selection};

/// As many as two pages and a half have.
const MANY: usize = 1_250;

struct Scene {
    followers: Followers,
    reports: mpsc::UnboundedReceiver<String>,
}

impl Scene {
    /// A follower whose reports are told in short: `first 500`, `page 500`, `listed`, `applied a`.
    fn new<K: Object>(api: &FakeApi) -> Self {
        Self::with::<K>(api, || {})
    }

    /// Does something after each page.
    fn with<K: Object>(api: &FakeApi, mut after_page: impl FnMut() + Send + 'static) -> Self {
        let mut followers = Followers::new(api.client());
        let (sender, reports) = mpsc::unbounded_channel();
        let pages = sender.clone();
        let take_page = move |Page { listed, first }: Page<K>| {
            let what = if first { "first" } else { "page" };
            drop(pages.send(format!("{what} {}", listed.objects.len())));
            after_page();
            std::future::ready(())
        };
        followers.follow_in_pages(Selection::all(), take_page, move |change: Change<K>| {
            drop(sender.send(short(change)));
            std::future::ready(())
        });
        Scene { followers, reports }
    }

    async fn next(&mut self) -> String {
        self.reports.recv().await.unwrap()
    }

    async fn expect(&mut self, reports: &[&str]) {
        for report in reports {
            assert_eq!(self.next().await, *report);
        }
    }
}

fn many(api: &FakeApi) {
    (0..MANY).for_each(|number| api.put(&pod(&format!("pod-{number:04}"))));
}

#[tokio::test(start_paused = true)]
async fn a_list_comes_page_by_page_and_then_the_word_that_it_was_all() {
    let api = FakeApi::default();
    many(&api);
    let mut scene = Scene::new::<Pod>(&api);
    scene.expect(&["first 500", "page 500", "page 250", "listed"]).await;
    scene.followers.status().in_step().await;
    api.put(&pod("a"));
    scene.expect(&["applied a"]).await;
    // An empty list is a list.
    let api = FakeApi::default();
    let mut scene = Scene::new::<Pod>(&api);
    scene.expect(&["first 0", "listed"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_list_that_breaks_off_begins_anew_with_its_first_page() {
    let api = FakeApi::default();
    many(&api);
    let mut breaks = 1;
    let expiring = api.clone();
    let mut scene = Scene::with::<Pod>(&api, move || {
        if breaks > 0 {
            breaks -= 1;
            expiring.compact();
        }
    });
    scene.expect(&["first 500", "first 500", "page 500", "page 250", "listed"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_does_not_exist_has_one_page_without_objects() {
    let mut scene = Scene::new::<Vpc>(&FakeApi::default());
    scene.expect(&["first 0", "listed"]).await;
}
