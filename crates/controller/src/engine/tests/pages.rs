//! Lists that come page by page.

use portolan_watch::Page;

use super::*;

impl Scene {
    fn page<K: Observed>(&mut self, first: bool, objects: Vec<K>) {
        self.engine.feed_page(Page { listed: objects.into(), first });
    }

    fn pods_named(&self, names: &[&str]) -> Vec<Pod> {
        names.iter().map(|name| self.pods[*name].clone()).collect()
    }

    /// The pods that are read because a list lacked them.
    fn missing_pods(&mut self) -> Vec<String> {
        let reads = self.engine.world().missing().filter_map(|read| match read {
            Read::Pod { name, .. } => Some(name.clone()),
            _ => None,
        });
        reads.collect()
    }
}

fn with_three_pods() -> Scene {
    let mut scene = Scene::new();
    ["a", "b", "c"].into_iter().for_each(|name| scene.pod(name, "web"));
    scene.settle();
    scene
}

#[test]
fn a_list_lacks_only_what_is_in_none_of_its_pages() {
    let mut scene = with_three_pods();
    scene.page(true, scene.pods_named(&["a"]));
    assert_eq!(scene.missing_pods(), [""; 0], "there is more to come");
    scene.page(false, scene.pods_named(&["b"]));
    scene.list::<Pod>(vec![]);
    assert_eq!(scene.missing_pods(), ["c"]);
    // The next list begins with nothing.
    scene.page(true, scene.pods_named(&["c"]));
    scene.list::<Pod>(vec![]);
    assert_eq!(scene.missing_pods(), ["a", "b"]);
}

#[test]
fn pages_of_a_list_that_broke_off_do_not_count() {
    let mut scene = with_three_pods();
    scene.page(true, scene.pods_named(&["a", "b"]));
    scene.page(true, scene.pods_named(&["a"]));
    scene.list::<Pod>(vec![]);
    assert_eq!(scene.missing_pods(), ["b", "c"]);
}

#[test]
fn what_was_reported_is_not_reported_again_after_a_list_in_pages() {
    let mut scene = Scene::new();
    scene.pod("a", "web");
    let mut pod = scene.pods["a"].clone();
    let unused = ("other.default.ovn.kubernetes.io/ip_address".to_owned(), "10.9.9.9".to_owned());
    pod.metadata.annotations.as_mut().unwrap().extend([unused]);
    scene.pods.insert("a".into(), pod.clone());
    scene.engine.feed(&Change::Applied(pod));
    scene.settle();
    scene.engine.feed(&Change::Applied(scene.pods["a"].clone()));
    scene.settle();
    let reported = scene.reported.clone();
    assert!(!reported.is_empty());
    scene.page(true, scene.pods_named(&["a"]));
    scene.list::<Pod>(vec![]);
    scene.engine.feed(&Change::Applied(scene.pods["a"].clone()));
    scene.settle();
    assert_eq!(scene.reported, reported);
}

#[test]
fn annotations_without_effect_are_told_of_at_a_start_too() {
    let mut before = Scene::new();
    before.pod("a", "web");
    let unused = ("other.default.ovn.kubernetes.io/ip_address".to_owned(), "10.9.9.9".to_owned());
    before.pods.get_mut("a").unwrap().metadata.annotations.as_mut().unwrap().extend([unused]);
    before.engine.feed(&Change::Applied(before.pods["a"].clone()));
    before.settle();
    assert!(before.reasons().contains(&"NoEffect"), "{:?}", before.reasons());
    // The next controller hears of the pod before it hears of networks.
    let mut scene = Scene::unlisted(before.nb.clone());
    scene.page(true, before.pods_named(&["a"]));
    scene.list::<Pod>(vec![]);
    (scene.pods, scene.locks) = (BTreeMap::new(), before.locks.clone());
    scene.list_but_pods(&before);
    scene.pods.clone_from(&before.pods);
    scene.settle();
    assert!(scene.reasons().contains(&"NoEffect"), "{:?}", scene.reasons());
}

#[test]
fn nothing_is_missing_after_a_first_list_and_what_it_lacks_of_one_that_broke_off_is_read() {
    let mut scene = with_three_pods();
    let pods = ["a", "b", "c"].map(|name| scene.pods[name].clone());
    scene.engine = Engine::new(Settings::default(), portolan_plan::Settings::default());
    scene.page(true, pods[..2].to_vec());
    scene.page(true, pods[1..].to_vec());
    scene.list::<Pod>(vec![]);
    assert_eq!(scene.missing_pods(), ["a"]);
    scene.engine = Engine::new(Settings::default(), portolan_plan::Settings::default());
    scene.page(true, pods[..2].to_vec());
    scene.page(false, pods[2..].to_vec());
    scene.list::<Pod>(vec![]);
    assert_eq!(scene.missing_pods(), [""; 0]);
}
