//! Vips: addresses that are kept for no interface in particular.

use portolan_api::kubeovn::Vip;
use portolan_model::fixtures::mk_lock;

use super::*;

fn mk_vip(name: &str, spec: serde_json::Value) -> Vip {
    let mut vip = Vip::new(name, serde_json::from_value(spec).unwrap());
    vip.metadata.uid = Some(format!("vip-{name}"));
    vip.metadata.generation = Some(1);
    vip
}

impl Scene {
    fn vip(&mut self, vip: Vip) {
        self.vips.insert(vip.name_any(), vip.clone());
        self.engine.feed(&Change::Applied(vip));
    }

    /// Does everything, and answers the statuses of Vips that were written.
    fn vip_statuses(&mut self) -> Vec<StatusUpdate> {
        self.written(Kind::Vip)
    }
}

#[test]
fn a_vip_holds_an_address_has_no_port_and_gives_it_back_when_it_goes() {
    let mut scene = Scene::new();
    scene.settle();
    let vip = mk_vip("front", serde_json::json!({"subnet": "web", "v4ip": "10.0.0.9"}));
    scene.vips.insert("front".into(), vip.clone());
    scene.engine.feed(&Change::Applied(vip.clone()));
    scene.settle();
    let lock = scene.guest_locks().next().unwrap().clone();
    assert_eq!((lock.spec.address.as_str(), lock.spec.holder.kind), ("10.0.0.9", HolderKind::Vip));
    assert_eq!((lock.spec.node, lock.spec.iface_id), (None, None));
    assert!(!scene.units().iter().any(|unit| unit.starts_with("attachment/")), "{:?}", scene.units());
    // Nobody else gets it.
    scene.annotated("a", "uid-a", "web", ("web.default.ovn.kubernetes.io/ip_address", "10.0.0.9"));
    scene.settle();
    assert!(
        scene.reported.iter().any(|(reason, message)| {
            *reason == "AddressTaken" && message.contains("is taken by Vip front")
        })
    );
    scene.vips.clear();
    scene.engine.feed(&Change::deleted(&vip));
    scene.settle();
    let holders: Vec<_> = scene.guest_locks().map(|lock| lock.spec.holder.name.as_str()).collect();
    assert_eq!(holders, ["a"]);
}

#[test]
fn a_vip_that_only_a_list_lacks_keeps_its_address() {
    let mut scene = Scene::new();
    let vip = mk_vip("front", serde_json::json!({"subnet": "web"}));
    scene.vips.insert("front".into(), vip.clone());
    scene.engine.feed(&Change::Applied(vip));
    scene.settle();
    scene.engine.feed(&Change::<Vip>::listed(vec![]));
    scene.settle();
    assert_eq!(scene.guest_locks().count(), 1);
}

#[test]
fn a_vip_says_which_address_it_has_and_what_has_no_effect() {
    let mut scene = Scene::new();
    scene.settle();
    let spec = serde_json::json!({"subnet": "web", "v4ip": "10.0.0.9", "type": "switch_lb_vip"});
    scene.vip(mk_vip("front", spec));
    let [status] = scene.vip_statuses().try_into().unwrap();
    let expected = serde_json::json!({
        "ready": true, "type": "switch_lb_vip", "v4ip": "10.0.0.9", "v6ip": "", "mac": "0a:58:0a:00:00:09",
    });
    assert_eq!(serde_json::Value::Object(status.fields.into_json()), expected);
    assert!(status.conditions[0].to_string().starts_with("Supported=False: spec.type: not supported yet"));
    assert_eq!(status.conditions[1].to_string(), "Ready=True");
    assert_eq!(scene.vip_statuses(), []);
    scene.engine.compare_deferred_status();
    assert_eq!(scene.vip_statuses(), []);
}

#[test]
fn mistakes_in_a_vip_are_said_on_it() {
    let mut scene = Scene::new();
    for (name, spec, message) in [
        ("a", serde_json::json!({"subnet": "web", "v4ip": "x"}), "spec.v4ip: \"x\" is not an IP address"),
        ("b", serde_json::json!({"subnet": "none"}), "waiting for Subnet none, which does not exist"),
        (
            "c",
            serde_json::json!({"subnet": "web", "v4ip": "10.0.0.1"}),
            "spec.v4ip: 10.0.0.1 is the gateway of Subnet web; ask for another",
        ),
    ] {
        scene.engine.feed(&Change::Applied(mk_vip(name, spec)));
        scene.settle();
        assert!(scene.reported.iter().any(|(_, said)| said == message), "{message}: {:?}", scene.reported);
    }
    assert_eq!(scene.guest_locks().count(), 0);
}

#[test]
fn a_vip_without_an_address_says_why_in_its_condition_and_one_write_does_it() {
    let mut scene = Scene::new();
    scene.settle();
    let ask = |name: &str| mk_vip(name, serde_json::json!({"subnet": "web", "v4ip": "10.0.0.9"}));
    scene.vip(ask("front"));
    scene.vip_statuses();
    scene.vip(ask("back"));
    let statuses = scene.vip_statuses();
    let said = |updates: &[StatusUpdate]| {
        let ready = updates[0].conditions[0].says.clone().unwrap();
        format!("{}: {}", ready.reason, ready.message)
    };
    assert_eq!(statuses.len(), 1, "{statuses:?}");
    let taken = "AddressTaken: spec.v4ip: 10.0.0.9 in vpc/blue is taken by Vip front; waiting for it, or ask for another";
    assert_eq!(said(&statuses), taken);
    assert_eq!(statuses[0].fields.get("ready"), Some(&false.into()));
    // Another reason is another text.
    let mut back = mk_vip("back", serde_json::json!({"subnet": "none"}));
    back.status = scene.vips["back"].status.clone();
    scene.vip(back);
    let last = scene.vip_statuses();
    assert_eq!(said(&last), "Waiting: waiting for Subnet none, which does not exist");
}

/// A Vip that has its address, and says so.
fn with_a_vip(spec: serde_json::Value) -> Scene {
    let mut scene = Scene::new();
    scene.settle();
    scene.vip(mk_vip("front", spec));
    scene.vip_statuses();
    assert!(scene.vips["front"].status.as_ref().unwrap().ready);
    scene
}

impl Scene {
    /// Somebody deletes the lock of the only guest.
    fn delete_lock_by_hand(&mut self) -> IPLock {
        let name = self.guest_locks().next().unwrap().name_any();
        self.locks.remove(&name).unwrap()
    }

    fn locks_of_vips(&self) -> Vec<&str> {
        let locks = self.guest_locks().filter(|lock| lock.spec.holder.kind == HolderKind::Vip);
        locks.map(|lock| lock.spec.address.as_str()).collect()
    }
}

#[test]
fn a_vip_whose_lock_was_deleted_by_hand_takes_it_again() {
    let mut scene = with_a_vip(serde_json::json!({"subnet": "web", "v4ip": "10.0.0.9"}));
    let lock = scene.delete_lock_by_hand();
    scene.engine.feed(&Change::deleted(&lock));
    assert_eq!(scene.vip_statuses(), [], "it is there again before anything is to be said");
    assert_eq!(scene.locks_of_vips(), ["10.0.0.9"]);
    // The same while the watch was cut: only the next list shows it.
    let lock = scene.delete_lock_by_hand();
    assert_eq!(lock.spec.address, "10.0.0.9");
    scene.engine.feed(&Change::listed(scene.locks.values().cloned().collect::<Vec<_>>()));
    scene.engine.compare_deferred_status();
    assert_eq!(scene.vip_statuses(), []);
    assert_eq!(scene.locks_of_vips(), ["10.0.0.9"]);
}

#[test]
fn a_vip_whose_address_another_took_after_its_lock_was_deleted_by_hand_says_so() {
    for (spec, expected) in [
        (serde_json::json!({"subnet": "web"}), None),
        (serde_json::json!({"subnet": "web", "v4ip": "10.0.0.9"}), Some("AddressTaken")),
    ] {
        let mut scene = with_a_vip(spec);
        let lock = scene.delete_lock_by_hand();
        let address = lock.spec.address.clone();
        let rival = mk_lock("vpc/blue", "web", &address, "rival", 1000);
        scene.locks.insert(rival.name_any(), rival.clone());
        // The watch shows both at once.
        scene.engine.feed(&Change::deleted(&lock));
        scene.engine.feed(&Change::Applied(rival));
        scene.written(Kind::Vip);
        scene.engine.compare_deferred_status();
        scene.written(Kind::Vip);
        let status = scene.vips["front"].status.clone().unwrap();
        let ready = status.conditions.unwrap().into_iter().find(|one| one.type_ == "Ready").unwrap();
        assert_eq!(status.ready, expected.is_none(), "{address}");
        assert_ne!(status.v4ip, address);
        assert_eq!(ready.reason.as_deref(), Some(expected.unwrap_or("InEffect")));
        assert_eq!(scene.locks_of_vips().first().copied().unwrap_or_default(), status.v4ip);
    }
}
