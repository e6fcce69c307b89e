//! Pools: who chooses from them, who is woken, and what they say about themselves.

use portolan_model::fixtures::mk_ip_pool;

use super::*;

const IP_POOL: &str = "web.default.ovn.kubernetes.io/ip_pool";

impl Scene {
    fn pool(&mut self, name: &str, ips: &[&str]) {
        self.apply_pool(mk_ip_pool(name, "web", ips, &[]));
    }

    /// A user writes a pool; its status stays.
    fn apply_pool(&mut self, mut pool: kubeovn::IPPool) {
        pool.status = self.pools.get(&pool.name_any()).and_then(|known| known.status.clone());
        self.pools.insert(pool.name_any(), pool.clone());
        self.engine.feed(&Change::Applied(pool));
    }

    fn of_pool(&mut self, pod: &str, pool: &str) {
        self.annotated(pod, &format!("uid-{pod}"), "web", (IP_POOL, pool));
    }

    fn addresses(&self) -> BTreeMap<String, String> {
        let of = |lock: &IPLock| (lock.spec.holder.name.clone(), lock.spec.address.clone());
        self.guest_locks().map(of).collect()
    }

    /// The statuses that are written now, with everything else done.
    fn statuses(&mut self) -> Vec<StatusUpdate> {
        self.written(Kind::IPPool)
    }

    /// The statuses that are written after a while.
    fn later(&mut self) -> Vec<StatusUpdate> {
        self.engine.compare_deferred_status();
        self.statuses()
    }

    /// Why `Ready` of a pool says what it says.
    fn reason(&self, pool: &str) -> String {
        let conditions = self.pools[pool].status.clone().unwrap_or_default().conditions.unwrap_or_default();
        let ready = conditions.into_iter().find(|condition| condition.type_ == "Ready");
        ready.and_then(|ready| ready.reason).unwrap_or_default()
    }
}

#[test]
fn a_pod_waits_for_its_pool_and_is_served_once_it_is_there() {
    let mut scene = Scene::new();
    scene.of_pool("a", "gold");
    scene.settle();
    assert_eq!(scene.reported.last().unwrap().1, "waiting for IPPool gold, which does not exist");
    scene.pool("gold", &["nonsense"]);
    scene.settle();
    let messages: Vec<_> = scene.reported.iter().map(|(_, message)| message.as_str()).collect();
    assert!(
        messages.contains(&"waiting for IPPool gold to be corrected; see its condition Ready"),
        "{messages:?}"
    );
    scene.pool("gold", &["10.0.0.7"]);
    scene.settle();
    assert_eq!(scene.addresses(), [("a".into(), "10.0.0.7".into())].into());
    assert!(scene.reasons().contains(&"Resolved"));
}

#[test]
fn who_waits_for_a_full_pool_is_served_when_an_address_of_it_is_free() {
    let mut scene = Scene::new();
    scene.pool("gold", &["10.0.0.7"]);
    for pod in ["a", "b", "c"] {
        scene.of_pool(pod, "gold");
        scene.settle();
    }
    assert_eq!(scene.addresses(), [("a".into(), "10.0.0.7".into())].into());
    scene.delete_pod("a");
    scene.settle();
    assert_eq!(scene.addresses(), [("b".into(), "10.0.0.7".into())].into());
}

#[test]
fn who_waits_for_a_pool_with_the_gateways_address_is_served_when_the_gateway_moves() {
    let mut scene = Scene::new();
    scene.pool("gold", &["10.0.0.1"]);
    scene.rest();
    scene.of_pool("a", "gold");
    scene.rest();
    assert_eq!(scene.addresses(), BTreeMap::new());
    let subnet = &mut scene.subnets[0];
    assert_eq!(subnet.metadata.name.as_deref(), Some("web"));
    subnet.spec.gateway = Some("10.0.0.254".into());
    let subnet = subnet.clone();
    scene.engine.feed(&Change::Applied(subnet));
    scene.rest();
    assert_eq!(scene.addresses(), [("a".into(), "10.0.0.1".into())].into());
}

#[test]
fn a_pool_that_grows_serves_those_who_wait() {
    let mut scene = Scene::new();
    scene.pool("gold", &["10.0.0.7"]);
    for pod in ["a", "b"] {
        scene.of_pool(pod, "gold");
        scene.settle();
    }
    scene.pool("gold", &["10.0.0.7..10.0.0.8"]);
    scene.settle();
    assert_eq!(scene.addresses().len(), 2);
    assert_eq!(scene.creations, 2);
}

#[test]
fn what_a_pool_grows_by_goes_to_who_came_first() {
    let mut scene = Scene::new();
    scene.pool("gold", &["10.0.0.7"]);
    for pod in ["first", "z", "b"] {
        scene.of_pool(pod, "gold");
        scene.settle();
    }
    scene.pool("gold", &["10.0.0.7..10.0.0.8"]);
    scene.settle();
    assert_eq!(scene.addresses().keys().collect::<Vec<_>>(), ["first", "z"]);
}

#[test]
fn a_pool_of_another_subnet_is_a_mistake_of_the_pod() {
    let mut scene = Scene::new();
    scene.apply_pool(mk_ip_pool("gold", "db", &["10.0.1.7"], &[]));
    scene.of_pool("a", "gold");
    scene.settle();
    assert!(
        scene.reported.iter().any(|(_, message)| message
            .contains(r#""gold" is an IPPool of Subnet db, and the interface is on web"#)),
        "{:?}",
        scene.reported
    );
}

#[test]
fn a_pool_says_how_much_of_it_is_taken_and_only_when_that_changes() {
    let mut scene = Scene::new();
    scene.settle();
    scene.pool("gold", &["10.0.0.7..10.0.0.9"]);
    let [status] = scene.statuses().try_into().unwrap();
    assert_eq!(status.fields.get("v4AvailableIPs"), Some(&3.into()));
    assert_eq!(status.fields.get("v4AvailableIPRange"), Some(&"10.0.0.7-10.0.0.9".into()));
    assert_eq!(status.conditions[0].to_string(), "Ready=True");
    scene.of_pool("a", "gold");
    assert_eq!(scene.statuses(), [], "nobody waits for it");
    let [last] = scene.later().try_into().unwrap();
    let taken = scene.addresses()["a"].clone();
    assert_eq!(last.conditions, []);
    assert_eq!(last.fields.get("v4AvailableIPs"), Some(&2.into()));
    assert_eq!(last.fields.get("v4UsingIPs"), Some(&1.into()));
    assert_eq!(last.fields.get("v4UsingIPRange"), Some(&taken.into()));
    // It is written, and the watch shows it: nothing is left to say.
    assert_eq!(scene.later(), []);
    scene.engine.feed(&Change::listed(scene.pools.values().cloned().collect::<Vec<_>>()));
    assert_eq!(scene.later(), []);
    assert!(!scene.engine.has_deferred_status());
    // An address of the subnet that is not the pool's is none of its business.
    scene.pod("other", "web");
    assert_eq!(scene.later(), []);
}

#[test]
fn many_pods_of_a_pool_cost_one_write_of_its_status() {
    let mut scene = Scene::new();
    scene.settle();
    scene.pool("gold", &["10.0.0.100..10.0.0.149"]);
    scene.statuses();
    scene.later();
    for number in 0..40 {
        scene.of_pool(&format!("pod-{number}"), "gold");
        assert_eq!(scene.statuses(), [], "after {number} pods");
    }
    let [status] = scene.later().try_into().unwrap();
    assert_eq!(status.fields.get("v4UsingIPs"), Some(&40.into()));
    assert_eq!(scene.later(), []);
}

#[test]
fn a_pool_that_never_had_a_status_gets_all_of_it_zeros_too() {
    let mut scene = Scene::new();
    scene.settle();
    scene.pool("gold", &["x"]);
    let [status] = scene.statuses().try_into().unwrap();
    let expected = serde_json::json!({
        "v4AvailableIPs": 0, "v4AvailableIPRange": "", "v4UsingIPs": 0, "v4UsingIPRange": "",
        "v6AvailableIPs": 0, "v6AvailableIPRange": "", "v6UsingIPs": 0, "v6UsingIPRange": "",
    });
    assert_eq!(serde_json::Value::Object(status.fields.into_json()), expected);
    assert_eq!(scene.later(), []);
}

#[test]
fn a_pool_says_when_no_other_overlaps_it_any_more_whatever_became_of_the_other() {
    type Go = fn(&mut Scene);
    let goes: [(&str, Go); 4] = [
        ("shrunk", |scene| scene.pool("iron", &["10.0.0.4"])),
        ("moved", |scene| scene.apply_pool(mk_ip_pool("iron", "db", &["10.0.1.7"], &[]))),
        ("deleted", |scene| {
            let iron = scene.pools.remove("iron").unwrap();
            scene.engine.feed(&Change::deleted(&iron));
        }),
        ("deleted unseen", |scene| {
            scene.pools.remove("iron");
            scene.engine.feed(&Change::listed(scene.pools.values().cloned().collect::<Vec<_>>()));
        }),
    ];
    for (what, go) in goes {
        let mut scene = Scene::new();
        scene.settle();
        scene.pool("gold", &["10.0.0.7"]);
        scene.pool("iron", &["10.0.0.4..10.0.0.7"]);
        scene.statuses();
        assert_eq!(scene.reason("gold"), "Overlaps");
        go(&mut scene);
        scene.statuses();
        assert_eq!(scene.reason("gold"), "InEffect", "{what}");
    }
}

#[test]
fn mistakes_in_a_pool_are_said_on_it() {
    let mut scene = Scene::new();
    scene.settle();
    let said = |scene: &mut Scene| scene.statuses().pop().unwrap().conditions[0].to_string();
    scene.pool("gold", &["10.0.9.7"]);
    assert_eq!(
        said(&mut scene),
        "Ready=False: spec.ips: 10.0.9.7 is not in Subnet web, which has 10.0.0.0/24"
    );
    scene.apply_pool(mk_ip_pool("gold", "none", &["10.0.0.7"], &[]));
    assert_eq!(said(&mut scene), r#"Ready=False: spec.subnet: there is no Subnet "none""#);
    scene.pool("gold", &["x"]);
    assert!(said(&mut scene).starts_with("Ready=False: spec.ips[0]: \"x\" is neither"));
    scene.pool("gold", &["10.0.0.7"]);
    scene.statuses();
    scene.pool("iron", &["10.0.0.4..10.0.0.7"]);
    let statuses = scene.statuses();
    let overlaps =
        |status: &StatusUpdate| status.conditions[0].to_string().starts_with("Ready=True: spec.ips: ");
    assert!(statuses.iter().all(overlaps), "both are used: {statuses:?}");
    let both: BTreeSet<_> = statuses.into_iter().map(|status| status.name).collect();
    assert_eq!(both, ["gold".to_owned(), "iron".to_owned()].into(), "each says that it overlaps the other");
    assert!(scene.reasons().contains(&"Overlaps"));
    let mut pool = mk_ip_pool("iron", "web", &["10.0.0.4"], &[]);
    pool.spec.enable_address_set = Some(true);
    scene.apply_pool(pool);
    assert!(scene.statuses().iter().any(|status| {
        status.conditions.iter().any(|condition| {
            condition.to_string()
                == "Supported=False: spec.enableAddressSet: not supported yet; it has no effect"
        })
    }));
}
