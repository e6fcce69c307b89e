//! Vips: addresses that are kept for no interface in particular.

use portolan_api::kubeovn::Vip;

use super::*;

fn mk_vip(name: &str, spec: serde_json::Value) -> Vip {
    let mut vip = Vip::new(name, serde_json::from_value(spec).unwrap());
    vip.metadata.uid = Some(format!("vip-{name}"));
    vip.metadata.generation = Some(1);
    vip
}

impl Scene {
    /// Does everything, and answers the statuses of Vips that were to be written.
    fn vip_statuses(&mut self) -> Vec<VipUpdate> {
        let mut statuses = Vec::new();
        for _ in 0..20 {
            for action in self.engine.actions() {
                match action {
                    Action::SetVipStatus(status) => statuses.push(*status),
                    other => self.perform(other),
                }
            }
        }
        statuses
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
    let mut vip = mk_vip("front", spec);
    scene.engine.feed(&Change::Applied(vip.clone()));
    let last = scene.vip_statuses().pop().unwrap();
    assert_eq!((last.status.ready, last.status.v4ip.as_str()), (true, "10.0.0.9"));
    assert_eq!(last.status.mac, "0a:58:0a:00:00:09");
    assert_eq!(last.conditions[0].to_string(), "Ready=True");
    assert!(last.conditions[1].to_string().starts_with("Supported=False: spec.type: not supported yet"));
    let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(k8s_openapi::jiff::Timestamp::UNIX_EPOCH);
    let conditions = serde_json::from_value(vip.updated(&last.conditions, &now).unwrap()).unwrap();
    vip.status = Some(kubeovn::VipStatus { conditions, ..last.status });
    scene.engine.feed(&Change::Applied(vip));
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
    let front = mk_vip("front", serde_json::json!({"subnet": "web", "v4ip": "10.0.0.9"}));
    scene.vips.insert("front".into(), front.clone());
    scene.engine.feed(&Change::Applied(front.clone()));
    scene.vip_statuses();
    scene
        .engine
        .feed(&Change::Applied(mk_vip("back", serde_json::json!({"subnet": "web", "v4ip": "10.0.0.9"}))));
    let statuses = scene.vip_statuses();
    let said = |updates: &[VipUpdate]| {
        let ready = updates[0].conditions[0].says.clone().unwrap();
        format!("{}: {}", ready.reason, ready.message)
    };
    assert_eq!(statuses.len(), 1, "{statuses:?}");
    let taken = "AddressTaken: spec.v4ip: 10.0.0.9 in vpc/blue is taken by Vip front; waiting for it, or ask for another";
    assert_eq!(said(&statuses), taken);
    // Another reason is another text.
    scene.engine.feed(&Change::Applied(mk_vip("back", serde_json::json!({"subnet": "none"}))));
    let last = scene.vip_statuses();
    assert_eq!(said(&last), "Waiting: waiting for Subnet none, which does not exist");
}
