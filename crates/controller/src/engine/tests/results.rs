//! What pods are told about what they got.

use portolan_api::nfn_network::{NFN_INTERFACES, NFN_NETWORK};
use portolan_model::fixtures::mk_kubeovn_subnet;

use super::*;

const VM: &str = "vm.default.ovn.kubernetes.io";

/// With a Subnet of `kubeovn.io` for the network `vm`.
fn scene() -> Scene {
    let mut scene = Scene::new();
    let mut subnet = mk_kubeovn_subnet("vm", "10.0.7.0/24");
    subnet.spec.provider = Some("vm.default.ovn".to_owned());
    subnet.spec.vpc = Some("blue".to_owned());
    scene.engine.feed(&Change::Applied(subnet));
    scene.engine.feed(&Change::Applied(mk_nad("default", "vm")));
    scene.settle();
    scene
}

impl Scene {
    /// Writes what is to be shown to the pods, as the API server does.
    fn show(&mut self) {
        for shown in std::mem::take(&mut self.shown) {
            let pod = self.pods.get_mut(&shown.name).unwrap();
            pod.metadata.annotations.get_or_insert_default().extend(shown.annotations);
            let pod = pod.clone();
            self.engine.feed(&Change::Applied(pod));
        }
    }

    fn annotation(&self, pod: &str, key: &str) -> Option<&str> {
        self.pods[pod].metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }
}

#[test]
fn a_pod_on_a_network_of_kube_ovn_is_told_what_it_got_once() {
    let mut scene = scene();
    scene.pod("a", "vm");
    scene.settle();
    assert_eq!(scene.shown.len(), 1, "one write: {:?}", scene.shown);
    assert_eq!(scene.shown[0].uid, "uid-a");
    // The write is under way, and other things happen to the pod.
    let mut pod = scene.pods["a"].clone();
    pod.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
    scene.engine.feed(&Change::Applied(pod));
    scene.settle();
    assert_eq!(scene.shown.len(), 1, "what is under way is not asked for again");
    scene.show();
    scene.settle();
    assert_eq!(scene.shown, []);
    let lock = scene.guest_locks().next().unwrap().spec.clone();
    assert_eq!(scene.annotation("a", &format!("{VM}/ip_address")), Some(lock.address.as_str()));
    assert_eq!(scene.annotation("a", &format!("{VM}/mac_address")), lock.mac.as_deref());
    for (what, value) in [
        ("allocated", "true"),
        ("cidr", "10.0.7.0/24"),
        ("gateway", "10.0.7.1"),
        ("logical_switch", "vm"),
        ("logical_router", "blue"),
    ] {
        assert_eq!(scene.annotation("a", &format!("{VM}/{what}")), Some(value));
    }
}

#[test]
fn results_that_come_back_change_nothing() {
    let mut scene = scene();
    scene.pod("a", "vm");
    scene.settle();
    let requester = Requester::pod("default", "a");
    let (request, pod) =
        (scene.engine.world.request(&requester), scene.engine.world.pod("default", "a").cloned());
    let decisions = scene.engine.take_counts().decisions;
    assert!(decisions > 0);
    scene.show();
    assert_eq!(scene.engine.world.request(&requester), request);
    assert_eq!(scene.engine.world.pod("default", "a").cloned(), pod);
    scene.settle();
    assert_eq!(scene.engine.take_counts().decisions, 0, "nothing is decided again");

    // Restored from a dump beside the first, it asks for any address, not for the first one's.
    let mut restored = scene.pods["a"].clone();
    (restored.metadata.name, restored.metadata.uid) = (Some("b".into()), Some("uid-b".into()));
    scene.start(restored);
    scene.settle();
    assert_eq!(scene.guest_locks().count(), 2);
    let own = scene.guest_locks().find(|lock| lock.spec.holder.name == "b").unwrap().spec.address.clone();
    scene.show();
    assert_eq!(scene.annotation("b", &format!("{VM}/ip_address")), Some(own.as_str()));
    // And a controller that starts anew has nothing to say.
    scene.engine.feed(&Change::listed(scene.pods.values().cloned().collect::<Vec<_>>()));
    scene.settle();
    assert_eq!(scene.shown, []);
}

#[test]
fn what_a_pod_asks_for_stays_a_wish() {
    let mut scene = scene();
    let key = format!("{VM}/ip_address");
    scene.annotated("a", "uid-a", "vm", (&key, "10.0.7.9"));
    scene.settle();
    assert!(!scene.shown[0].annotations.contains_key(&key));
    scene.show();
    let request = scene.engine.world.request(&Requester::pod("default", "a")).unwrap();
    assert_eq!(request.interfaces[0].addresses, ["10.0.7.9".parse::<std::net::IpAddr>().unwrap()]);
}

#[test]
fn others_are_told_nothing() {
    let mut scene = scene();
    scene.pod("native", "web");
    scene.start(Pod {
        metadata: {
            let mut metadata = named("plain", "uid-plain");
            metadata.namespace = Some("default".into());
            metadata
        },
        ..scene.pods["native"].clone()
    });
    scene.settle();
    assert_eq!(scene.shown, []);
}

#[test]
fn a_pod_on_its_way_out_is_told_nothing() {
    let mut scene = scene();
    scene.pod("a", "vm");
    let mut pod = scene.pods["a"].clone();
    pod.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(k8s_openapi::jiff::Timestamp::UNIX_EPOCH));
    scene.start(pod);
    scene.settle();
    assert_eq!((scene.guest_locks().count(), scene.shown.len()), (1, 0));
}

#[test]
fn who_stands_by_tells_nobody_and_whoever_leads_next_does() {
    let mut scene = scene();
    scene.pod("a", "vm");
    let locks = scene.proposals();
    scene.engine.stand_by();
    locks.into_iter().for_each(|lock| scene.store(lock));
    scene.settle();
    assert_eq!(scene.shown, []);
    scene.engine.lead();
    scene.engine.compare_all(&scene.cache);
    scene.settle();
    assert_eq!(scene.shown.len(), 1);
}

#[test]
fn what_was_not_written_before_stepping_down_is_written_in_the_next_term() {
    let mut scene = scene();
    scene.pod("a", "vm");
    scene.proposals().into_iter().for_each(|lock| scene.store(lock));
    let actions = scene.engine.actions();
    assert!(actions.iter().any(|action| matches!(action, Action::ShowResults(_))), "{actions:?}");
    scene.engine.stand_by();
    actions.into_iter().for_each(|action| scene.engine.dropped(action));
    scene.engine.lead();
    scene.engine.compare_all(&scene.cache);
    scene.settle();
    assert_eq!(scene.shown.len(), 1);
}

#[test]
fn a_pod_that_asked_in_the_words_of_ovn4nfv_is_told_in_its_words() {
    let mut scene = scene();
    let mut subnet = subnets().remove(0);
    subnet.spec.namespaces = vec!["default".to_owned()];
    scene.engine.feed(&Change::Applied(subnet));
    let text = r#"{"type": "ovn4nfv", "interface": [{"name": "web", "interface": "net1"}]}"#;
    let mut pod = {
        scene.pod("a", "vm");
        scene.pods["a"].clone()
    };
    pod.metadata.annotations = Some([(NFN_NETWORK.to_owned(), text.to_owned())].into());
    scene.start(pod);
    scene.settle();
    scene.show();
    let lock = scene.guest_locks().next().unwrap().spec.clone();
    let expected = format!(
        r#"[{{"ip_address":["{}/24"],"mac_address":"{}","gateway_ip":["10.0.0.1"],"defaultGateway":"false","interface":"net1"}}]"#,
        lock.address,
        lock.mac.unwrap()
    );
    assert_eq!(scene.annotation("a", NFN_INTERFACES), Some(expected.as_str()));
    assert_eq!(scene.annotation("a", &format!("{VM}/allocated")), None);
    scene.settle();
    assert_eq!(scene.shown, []);
}

#[test]
fn pods_are_told_as_fast_as_there_is_room() {
    let mut scene = scene();
    scene.engine.set_room_for_results(0);
    ["a", "b", "c"].into_iter().for_each(|name| scene.pod(name, "vm"));
    scene.settle();
    assert_eq!(scene.shown, []);
    assert!(scene.engine.has_results_to_compare());
    scene.engine.set_room_for_results(2);
    scene.settle();
    assert_eq!(scene.shown.iter().map(|shown| shown.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    scene.show();
    scene.engine.set_room_for_results(2);
    scene.settle();
    assert_eq!(scene.shown.iter().map(|shown| shown.name.as_str()).collect::<Vec<_>>(), ["c"]);
    assert!(!scene.engine.has_results_to_compare());
}
