//! What is decided, and the words in which it is refused.

use std::collections::BTreeSet;
use std::net::IpAddr;

use kube_core::ResourceExt;
use portolan_api::Family;
use portolan_api::portolan::IPLock;
use portolan_ipam::{Decision, Ipam, ReleaseReason, WaitKey};
use portolan_model::fixtures::*;
use portolan_model::holder::{Read, Released};
use portolan_model::pod::{Place, SetOfPod, StatefulSet};
use portolan_model::view::View;
use portolan_model::{FirstInterface, Pod, PodController, Requester, Settings, Source, World};

/// A World with its addresses.
struct Scene {
    world: World,
    ipam: Ipam,
    version: u64,
}

const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";

impl Scene {
    /// One network `net` in namespace `default`, on a subnet `web` with this prefix.
    fn new(cidr: &str) -> Self {
        Self::with(cidr, |_| {})
    }

    fn with(cidr: &str, change: impl FnOnce(&mut portolan_api::portolan::Subnet)) -> Self {
        let mut subnet = mk_subnet("web", cidr, "");
        subnet.spec.provider = Some("net.default.ovn".to_owned());
        change(&mut subnet);
        let mut scene = Self { world: World::default(), ipam: Ipam::new(), version: 0 };
        scene.apply(&subnet);
        scene.apply(&mk_nad("default", "net"));
        scene
    }

    fn apply<O: Source>(&mut self, object: &O) {
        let dirty = self.world.apply(object);
        for change in &dirty.locks {
            self.ipam.apply(change);
        }
    }

    fn delete<O: Source>(&mut self, object: &O) {
        let dirty = self.world.delete(object);
        for change in &dirty.locks {
            self.ipam.apply(change);
        }
    }

    fn decide(&self, pod: &str) -> Decision {
        self.ipam.decide(&self.world, &Requester::pod("default", pod))
    }

    /// A pod that asks by this annotation, and what is decided for it.
    fn pod(&mut self, name: &str, networks: &str) -> Decision {
        self.apply(&mk_pod("default", name, &[(NETWORKS, networks)]));
        self.decide(name)
    }

    fn store(&mut self, lock: &IPLock) {
        self.version += 1;
        let lock = mk_stored(lock.clone(), self.version);
        self.apply(&lock);
    }

    /// A pod that asks by this annotation and gets it: the names of its locks.
    fn served(&mut self, name: &str, networks: &str) -> Vec<String> {
        let decision = self.pod(name, networks);
        assert_eq!(refusals(&decision), [""; 0]);
        for lock in &decision.create {
            self.store(lock);
        }
        assert!(self.decide(name).is_empty(), "deciding again must find nothing to do");
        names(&decision)
    }

    fn free(&mut self, name: &str) {
        self.delete(&IPLock::new(name, portolan_api::portolan::IPLockSpec::default()));
    }
}

fn names(decision: &Decision) -> Vec<String> {
    decision.create.iter().map(ResourceExt::name_any).collect()
}

fn refusals(decision: &Decision) -> Vec<String> {
    decision.refusals.iter().map(ToString::to_string).collect()
}

fn asks(ips: &str) -> String {
    format!(r#"[{{"name": "net", "ips": [{ips}]}}]"#)
}

#[test]
fn a_pod_gets_a_lock_with_everything_in_it() {
    let mut scene = Scene::new("10.0.0.0/24");
    scene.apply(&mk_node("node-1"));
    let decision = scene.pod("a", "net");
    let [lock] = decision.create.as_slice() else { panic!("{decision:?}") };
    let spec = &lock.spec;
    assert_eq!((spec.domain.as_str(), spec.subnet.as_str()), ("subnet/web", "web"));
    assert_eq!(spec.node.as_deref(), Some("node-1"));
    assert_eq!(spec.host_ip.as_deref(), Some("192.168.0.1"));
    assert_eq!(spec.iface_id.as_deref(), Some("port:default/a/net1/pod-defa"));
    assert_eq!(spec.interfaces[0].interface, "net1");
    let ip: IpAddr = spec.address.parse().unwrap();
    assert_eq!(spec.mac.as_deref(), Some(portolan_api::Mac::derive(ip, None).to_string().as_str()));
    scene.served("a", "net");
    let attachment = scene.world.attachments().next().unwrap();
    assert_eq!((&*attachment.addresses, attachment.subnet().as_str()), ([ip].as_slice(), "web"));
}

#[test]
fn dual_stack_and_several_addresses_of_one_family() {
    let mut scene = Scene::new("10.0.0.0/24,fd00::/64");
    assert_eq!(scene.served("a", "net,net").len(), 4);
    let locks = scene.served("b", &asks(r#""10.0.0.9", "10.0.0.8/24", "fd00::8""#));
    assert_eq!(
        locks,
        ["10-0-0-9.subnet-web", "10-0-0-8.subnet-web", "fd00-0000-0000-0000-0000-0000-0000-0008.subnet-web"]
    );
    let attachment = scene.world.attachments().find(|attachment| attachment.id.name() == "b").unwrap();
    assert_eq!(attachment.mac.to_string(), "0a:58:0a:00:00:09");
    assert_eq!(attachment.addresses[0].to_string(), "10.0.0.9");
}

#[test]
fn an_address_that_is_asked_for_is_the_one_or_none() {
    let mut scene =
        Scene::with("10.0.0.0/24", |subnet| subnet.spec.exclude_ips = vec!["10.0.0.5..10.0.0.9".to_owned()]);
    assert_eq!(
        scene.served("a", &asks(r#""10.0.0.7""#)),
        ["10-0-0-7.subnet-web"],
        "an excluded one may be asked for"
    );
    let mut refused = |ips: &str| refusals(&scene.pod("b", &asks(ips)));
    assert_eq!(
        refused(r#""10.0.0.7""#),
        ["10.0.0.7 in subnet/web is taken by Pod default/a; waiting for it, or ask for another"]
    );
    assert_eq!(refused(r#""10.0.0.1""#), ["10.0.0.1 is the gateway of Subnet web; ask for another"]);
    assert_eq!(
        refused(r#""10.0.1.7""#),
        ["10.0.1.7 is not in Subnet web, which has 10.0.0.0/24; ask for another"]
    );
    assert_eq!(
        refused(r#""fd00::7""#),
        ["fd00::7 is not in Subnet web, which has 10.0.0.0/24; ask for another"]
    );
    for ip in ["10.0.0.0", "10.0.0.255"] {
        let message = format!("{ip} is the network or broadcast address of Subnet web; ask for another");
        assert_eq!(refused(&format!("{ip:?}")), [message]);
    }
    let both = r#"[{"name": "net", "ips": ["10.0.0.20"]}, {"name": "net", "ips": ["10.0.0.20"]}]"#;
    assert_eq!(
        refusals(&scene.pod("b", both)),
        ["10.0.0.20 is asked for by two interfaces; remove it from one"]
    );
}

#[test]
fn a_mac_that_is_asked_for_is_locked_too() {
    let mut scene = Scene::new("10.0.0.0/24");
    let locks = scene.served("a", r#"[{"name": "net", "mac": "02:00:00:00:00:01", "ips": ["10.0.0.7"]}]"#);
    assert_eq!(locks, ["10-0-0-7.subnet-web", "02-00-00-00-00-01.subnet-web"]);
    assert_eq!(scene.world.attachments().next().unwrap().mac.to_string(), "02:00:00:00:00:01");
    assert_eq!(
        refusals(&scene.pod("b", r#"[{"name": "net", "mac": "02:00:00:00:00:01"}]"#)),
        ["02:00:00:00:00:01 in subnet/web is taken by Pod default/a; waiting for it, or ask for another"]
    );
    assert_eq!(
        refusals(&scene.pod("b", r#"[{"name": "net", "mac": "0a:58:0a:00:00:07"}]"#)),
        [
            "0a:58:0a:00:00:07 is the MAC address that belongs to another IP address than this interface's; ask for another, or for none"
        ]
    );
    let own = scene.served("c", r#"[{"name": "net", "mac": "0a:58:0a:00:00:08", "ips": ["10.0.0.8"]}]"#);
    assert_eq!(own, ["10-0-0-8.subnet-web"], "its own needs no lock");
}

#[test]
fn a_full_subnet_says_so_and_serves_again_what_becomes_free() {
    let mut scene =
        Scene::with("10.0.0.0/29", |subnet| subnet.spec.exclude_ips = vec!["10.0.0.4".to_owned()]);
    let mut locks: Vec<_> = ["a", "b", "c", "d"].iter().flat_map(|pod| scene.served(pod, "net")).collect();
    locks.sort();
    assert_eq!(
        locks,
        ["10-0-0-2", "10-0-0-3", "10-0-0-5", "10-0-0-6"].map(|lock| format!("{lock}.subnet-web"))
    );
    let decision = scene.pod("e", "net");
    assert_eq!(refusals(&decision), ["Subnet web has no IPv4 address left; waiting for one to become free"]);
    let key = WaitKey::Subnet { name: "web".to_owned(), family: portolan_api::Family::IPv4 };
    assert_eq!(decision.waits_for(), [key].into());
    let usage = scene.ipam.usage(scene.world.subnet("web").unwrap());
    assert_eq!((usage.v4_using.0, usage.v4_available.0, usage.v6_available.0), (4, 0, 0));
    let ranges = scene.ipam.ranges(scene.world.subnet("web").unwrap(), portolan_api::Family::IPv4);
    assert_eq!(
        (ranges.using.as_str(), ranges.available.as_str()),
        ("10.0.0.2-10.0.0.3,10.0.0.5-10.0.0.6", "")
    );
    scene.free("10-0-0-5.subnet-web");
    scene.free("10-0-0-3.subnet-web");
    let ranges = scene.ipam.ranges(scene.world.subnet("web").unwrap(), portolan_api::Family::IPv4);
    assert_eq!(
        (ranges.using.as_str(), ranges.available.as_str()),
        ("10.0.0.2,10.0.0.6", "10.0.0.3,10.0.0.5")
    );
    assert_eq!(names(&scene.decide("e")), ["10-0-0-5.subnet-web"], "of what became free, what did so first");
}

#[test]
fn what_became_free_lately_is_left_alone_while_there_is_anything_else() {
    let mut scene = Scene::new("10.0.0.0/24");
    let [lock] = scene.served("a", "net").try_into().unwrap();
    let address = scene.world.lock(&lock).unwrap().ip().unwrap();
    scene.free(&lock);
    let again = scene.decide("a");
    assert_ne!(names(&again), [lock], "{address} was in use a moment ago");
    // A process that did not see it go proposes it again.
    assert_ne!(
        names(&Ipam::of(&scene.world).decide(&scene.world, &Requester::pod("default", "a"))),
        names(&again)
    );
}

#[test]
fn ipv6_of_any_size_and_ipv4_up_to_a_slash_8() {
    for cidr in ["fd00::/8", "fd00::/32", "fd00::/64", "fd00::/126", "10.0.0.0/8", "10.0.0.0/30"] {
        let mut scene = Scene::new(cidr);
        let [lock] = scene.served("a", "net").try_into().unwrap();
        let ip = scene.world.lock(&lock).unwrap().ip().unwrap();
        let subnet = scene.world.subnet("web").unwrap();
        assert!(
            subnet.config.cidr.contains(ip) && !subnet.config.gateway.addresses().any(|gw| gw == ip),
            "{ip}"
        );
    }
}

#[test]
fn a_subnet_that_is_not_validated_gives_nothing() {
    let mut scene = Scene::with("10.0.0.0/24", |subnet| subnet.status = None);
    let decision = scene.pod("a", "net");
    assert_eq!(
        refusals(&decision),
        ["waiting for Subnet web, which is not used; see its conditions Validated and Ready"]
    );
    assert_eq!(names(&decision), [""; 0]);
}

#[test]
fn addresses_to_choose_from() {
    let mut scene = Scene::new("10.0.0.0/24");
    let pool = |pod: &str, pool: &str| {
        mk_pod("default", pod, &[(NETWORKS, "net"), ("net.default.ovn.kubernetes.io/ip_pool", pool)])
    };
    scene.served("a", &asks(r#""10.0.0.7""#));
    scene.apply(&pool("b", "10.0.0.7,10.0.0.8"));
    let decision = scene.decide("b");
    assert_eq!(names(&decision), ["10-0-0-8.subnet-web"]);
    scene.store(&decision.create[0]);
    assert!(scene.decide("b").is_empty());
    scene.apply(&pool("c", "10.0.0.7,10.0.0.8"));
    assert_eq!(
        refusals(&scene.decide("c")),
        ["none of the addresses that net1 may have in Subnet web is free; waiting for one"]
    );
}

#[test]
fn locks_of_who_is_gone_are_given_back_after_a_live_read() {
    let mut scene = Scene::new("10.0.0.0/24");
    let [lock] = scene.served("a", "net").try_into().unwrap();
    let pod = mk_pod("default", "a", &[(NETWORKS, "net")]);

    scene.apply(&Pod { finished: true, ..pod.clone() });
    let decision = scene.decide("a");
    assert_eq!(decision.releases[0].reason, ReleaseReason::Released(Released::HolderFinished));
    assert_eq!(scene.world.attachments().count(), 0, "its port goes at once");

    scene.apply(&Pod { uid: "second-life".into(), ..pod.clone() });
    let decision = scene.decide("a");
    assert_eq!((decision.create.len(), decision.releases.len()), (1, 1));
    assert_eq!(decision.releases[0].lock, lock);

    let _ = scene.world.delete(&pod);
    let decision = scene.decide("a");
    let [release] = decision.releases.as_slice() else { panic!("{decision:?}") };
    assert_eq!(release.reason, ReleaseReason::Released(Released::HolderAbsent));
    assert_eq!(release.reads(), [Read::Pod { namespace: "default".into(), name: "a".into() }]);
    assert!(release.is_confirmed(&World::default(), &scene.world));
    let mut there = World::default();
    let _ = there.apply(&pod);
    assert!(!release.is_confirmed(&there, &scene.world));
    assert_eq!(scene.world.attachments().count(), 1, "absence from a cache proves nothing");
    let dirty = scene.world.release(&release.attachment);
    assert_eq!(dirty.units.len(), 1);
    assert_eq!(scene.world.attachments().count(), 0);
}

#[test]
fn of_two_locks_for_one_interface_the_younger_is_given_back() {
    let mut scene = Scene::new("10.0.0.0/24");
    let decision = scene.pod("a", "net");
    let mut other = decision.create[0].clone();
    let domain = "subnet/web".parse().unwrap();
    other = IPLock::of(&domain, "10.0.0.77".parse().unwrap(), other.spec);
    scene.store(&decision.create[0]);
    scene.store(&other);
    let decision = scene.decide("a");
    let [release] = decision.releases.as_slice() else { panic!("{decision:?}") };
    assert_eq!(release.lock, "10-0-0-77.subnet-web");
    assert!(matches!(&release.reason, ReleaseReason::Duplicate { winners } if winners.len() == 1));
    assert_eq!(scene.world.attachments().next().unwrap().addresses.len(), 1);
}

#[test]
fn an_ordinal_keeps_its_address_until_it_leaves_the_range() {
    let mut scene = Scene::new("10.0.0.0/24");
    let set = StatefulSet {
        namespace: "default".into(),
        name: "db".into(),
        uid: "set".into(),
        start: 0,
        replicas: 2,
    };
    let ordinal = Pod {
        controller: PodController::StatefulSet(Box::new(SetOfPod { name: "db".into(), uid: "set".into() })),
        ..mk_pod("default", "db-1", &[(NETWORKS, "net")])
    };
    scene.apply(&set);
    scene.apply(&ordinal);
    let decision = scene.decide("db-1");
    scene.store(&decision.create[0]);
    assert!(scene.decide("db-1").is_empty());

    let _ = scene.world.delete(&ordinal);
    assert!(scene.decide("db-1").is_empty(), "it will be back");
    scene.apply(&Pod { uid: "again".into(), place: Place::on("node-2"), ..ordinal });
    let decision = scene.decide("db-1");
    let [moved] = decision.moves.as_slice() else { panic!("{decision:?}") };
    assert_eq!((moved.user.uid.as_str(), moved.node.as_str()), ("again", "node-2"));
    assert_eq!(decision.create, []);

    let _ = scene.world.delete(&mk_pod("default", "db-1", &[]));
    let dirty = scene.world.apply(&StatefulSet { replicas: 1, ..set });
    assert!(dirty.requesters.contains(&Requester::pod("default", "db-1")));
    let decision = scene.decide("db-1");
    assert_eq!(decision.releases[0].reason, ReleaseReason::Released(Released::OrdinalAbsent));
}

#[test]
fn nobody_gets_the_address_of_a_lock_that_cannot_be_read() {
    let mut scene = Scene::new("10.0.0.0/30");
    let mut lock = mk_lock("subnet/web", "web", "10.0.0.2", "other", 1);
    lock.spec.address = "nonsense".to_owned();
    scene.apply(&lock);
    // It is the only address that the subnet has for guests.
    let decision = scene.pod("any", "net");
    assert!(decision.create.is_empty(), "{decision:?}");
    assert_eq!(decision.refusals[0].reason(), "SubnetFull");
    scene.apply(&mk_pod(
        "default",
        "exact",
        &[(NETWORKS, "net"), ("net.default.ovn.kubernetes.io/ip_address", "10.0.0.2")],
    ));
    let decision = scene.decide("exact");
    assert!(decision.create.is_empty(), "{decision:?}");
    let said = decision.refusals[0].to_string();
    assert!(said.contains("taken by IPLock 10-0-0-2.subnet-web, which cannot be read"), "{said}");
    scene.delete(&lock);
    assert_eq!(scene.decide("any").create.len(), 1);
}

#[test]
fn a_holder_whose_lock_cannot_be_read_gets_no_second_address_and_keeps_the_others() {
    let mut scene = Scene::new("10.0.0.0/24");
    let lock = mk_stored(scene.pod("a", "net").create.remove(0), 1);
    scene.apply(&lock);
    assert!(scene.decide("a").is_empty());
    let mut broken = lock.clone();
    broken.spec.address = "nonsense".to_owned();
    scene.apply(&broken);
    let decision = scene.decide("a");
    assert!(decision.create.is_empty() && decision.releases.is_empty(), "{decision:?}");
    let said = decision.refusals[0].to_string();
    assert!(said.contains(&lock.name_any()) && said.contains("spec.address"), "{said}");
    scene.apply(&lock);
    assert!(scene.decide("a").is_empty());
}

#[test]
fn who_names_a_pool_chooses_from_it_and_nobody_else_does() {
    let mut scene = Scene::new("10.0.0.0/28");
    scene.apply(&mk_ip_pool("gold", "web", &["10.0.0.4..10.0.0.5"], &[]));
    let gold = |pod: &str| {
        mk_pod("default", pod, &[(NETWORKS, "net"), ("net.default.ovn.kubernetes.io/ip_pool", "gold")])
    };
    let mut of_pool = BTreeSet::new();
    for pod in ["a", "b"] {
        scene.apply(&gold(pod));
        let decision = scene.decide(pod);
        of_pool.extend(names(&decision));
        scene.store(&decision.create[0]);
    }
    assert_eq!(of_pool, ["10-0-0-4.subnet-web", "10-0-0-5.subnet-web"].map(str::to_owned).into());
    scene.apply(&gold("c"));
    let decision = scene.decide("c");
    assert_eq!(
        refusals(&decision),
        ["IPPool gold of Subnet web has no IPv4 address left; waiting for one to become free"]
    );
    assert_eq!(
        decision.waits_for(),
        [WaitKey::Pool { name: "gold".into(), family: Family::IPv4 }].into(),
        "it waits for the pool, not for the subnet"
    );
    // Fourteen addresses: the gateway, two in the pool, and eleven others.
    for i in 0..11 {
        scene.served(&format!("other-{i}"), "net");
    }
    scene.apply(&mk_pod("default", "late", &[(NETWORKS, "net")]));
    assert_eq!(
        refusals(&scene.decide("late")),
        ["Subnet web has no IPv4 address left; waiting for one to become free"]
    );
    scene.free("10-0-0-5.subnet-web");
    assert_eq!(scene.decide("late").create.len(), 0, "what a pool keeps is not for others");
    scene.apply(&mk_ip_pool("gold", "web", &["10.0.0.4"], &[]));
    assert_eq!(names(&scene.decide("late")), ["10-0-0-5.subnet-web"], "unless it keeps it no more");
}

#[test]
fn the_pods_of_a_pools_namespace_choose_from_it_without_naming_it() {
    let mut scene = Scene::new("10.0.0.0/28");
    scene.apply(&mk_ip_pool("gold", "web", &["10.0.0.4"], &["default"]));
    scene.apply(&mk_ip_pool("silver", "web", &["10.0.0.6"], &["default"]));
    scene.apply(&mk_ip_pool("elsewhere", "db", &["10.9.0.6"], &["default"]));
    let mut got: Vec<_> = ["a", "b"].map(|pod| scene.served(pod, "net").remove(0)).into();
    got.sort_unstable();
    assert_eq!(got, ["10-0-0-4.subnet-web", "10-0-0-6.subnet-web"]);
    let decision = scene.pod("c", "net");
    assert_eq!(
        refusals(&decision),
        ["IPPool gold, silver of Subnet web has no IPv4 address left; waiting for one to become free"]
    );
    assert_eq!(
        names(&scene.pod("c", &asks(r#""10.0.0.9""#))),
        ["10-0-0-9.subnet-web"],
        "it may ask for others"
    );
}

#[test]
fn a_pool_that_changes_leaves_those_who_have_addresses_in_peace() {
    let mut scene = Scene::new("10.0.0.0/28");
    scene.apply(&mk_ip_pool("gold", "web", &["10.0.0.4"], &["default"]));
    assert_eq!(scene.served("a", "net"), ["10-0-0-4.subnet-web"]);
    scene.apply(&mk_ip_pool("gold", "web", &["10.0.0.7"], &["default"]));
    assert!(scene.decide("a").is_empty());
    scene.apply(&mk_ip_pool("gold", "web", &["nonsense"], &["default"]));
    assert!(scene.decide("a").is_empty());
    let _ = scene.world.delete(&mk_ip_pool("gold", "web", &[], &[]));
    assert!(scene.decide("a").is_empty());
}

#[test]
fn excluded_addresses_and_the_gateway_are_not_given_from_a_pool() {
    let mut scene =
        Scene::with("10.0.0.0/28", |subnet| subnet.spec.exclude_ips = vec!["10.0.0.2".to_owned()]);
    scene.apply(&mk_ip_pool("gold", "web", &["10.0.0.0..10.0.0.3"], &["default"]));
    assert_eq!(scene.served("a", "net"), ["10-0-0-3.subnet-web"]);
    assert_eq!(scene.pod("b", "net").refusals.len(), 1);
}

/// A cluster whose primary network is ours, with nodes that have these prefixes.
fn primary(nodes: &[(&str, &str)]) -> Scene {
    let world = World::new(Settings { first_interface: FirstInterface::Portolan });
    let mut scene = Scene { world, ipam: Ipam::new(), version: 0 };
    for (name, cidrs) in nodes {
        let node = if cidrs.is_empty() { mk_node(name) } else { mk_node_with(name, cidrs) };
        scene.apply(&node);
    }
    scene
}

fn addresses(decision: &Decision) -> Vec<String> {
    assert_eq!(refusals(decision), [""; 0]);
    decision.create.iter().map(|lock| lock.spec.address.clone()).collect()
}

#[test]
fn a_node_has_fixed_addresses_of_its_prefixes_and_no_pod_gets_them() {
    let mut scene = primary(&[("node-1", "10.16.1.0/29,fd00:16:1::/64")]);
    let mut got = BTreeSet::new();
    // Pods that come first leave the node its own. A /29 has three addresses for pods.
    for name in ["a", "b", "c"] {
        scene.apply(&mk_pod("default", name, &[]));
        let decision = scene.decide(name);
        got.extend(addresses(&decision).into_iter().filter(|address| address.contains('.')));
        decision.create.iter().for_each(|lock| scene.store(lock));
    }
    assert_eq!(got.into_iter().collect::<Vec<_>>(), ["10.16.1.4", "10.16.1.5", "10.16.1.6"]);
    scene.apply(&mk_pod("default", "d", &[]));
    assert_eq!(refusals(&scene.decide("d")).len(), 1, "there is none left");
    let asked = mk_pod("default", "e", &[("ovn.kubernetes.io/ip_address", "10.16.1.3")]);
    scene.apply(&asked);
    let refused = refusals(&scene.decide("e"));
    assert!(
        refused[0].starts_with("10.16.1.3 is the node's own address in Subnet node:node-1"),
        "{refused:?}"
    );

    let node = Requester::node("node-1");
    let decision = scene.ipam.decide(&scene.world, &node);
    assert_eq!(addresses(&decision), ["10.16.1.2", "10.16.1.3", "fd00:16:1::2", "fd00:16:1::3"]);
    let mac = decision.create[0].spec.mac.clone();
    assert_eq!(mac.as_deref(), Some("0a:58:0a:10:01:02"), "of the first address");
    decision.create.iter().for_each(|lock| scene.store(lock));
    assert!(scene.ipam.decide(&scene.world, &node).is_empty());
    let unit = "attachment/node/node-1/node/node-node-1".parse().unwrap();
    let Some(View::Attachment(view)) = scene.world.view(&unit) else { panic!("the port is not in effect") };
    let own: Vec<_> = view.addresses().iter().map(ToString::to_string).collect();
    assert_eq!(own, ["10.16.1.2", "10.16.1.3", "fd00:16:1::2", "fd00:16:1::3"]);
}

#[test]
fn a_node_that_is_made_again_gives_back_what_the_former_one_had() {
    let mut scene = primary(&[("node-1", "10.16.1.0/24")]);
    let node = Requester::node("node-1");
    let decision = scene.ipam.decide(&scene.world, &node);
    decision.create.iter().for_each(|lock| scene.store(lock));
    let again = mk_node_again(mk_node_with("node-1", "10.16.7.0/24"), "second");
    scene.apply(&again);
    let decision = scene.ipam.decide(&scene.world, &node);
    assert_eq!(addresses(&decision), ["10.16.7.2", "10.16.7.3"]);
    let released: Vec<_> = decision.releases.iter().map(|release| release.reason.to_string()).collect();
    assert_eq!(released, ["its holder does not exist any more"; 2]);
    // With the prefix of the former one it waits for that one's addresses.
    scene.apply(&mk_node_again(mk_node_with("node-1", "10.16.1.0/24"), "third"));
    let decision = scene.ipam.decide(&scene.world, &node);
    assert_eq!(decision.releases.len(), 2);
    assert_eq!(decision.waits_for().len(), 2, "{:?}", decision.refusals);
}

#[test]
fn without_prefixes_a_node_has_two_addresses_of_the_subnet_that_serves_all() {
    let mut scene = primary(&[("node-1", "")]);
    let mut all = mk_subnet("all", "10.60.0.0/16,fd00:60::/64", "ovn-cluster");
    all.spec.default = true;
    scene.apply(&all);
    let node = Requester::node("node-1");
    let decision = scene.ipam.decide(&scene.world, &node);
    let chosen = addresses(&decision);
    assert_eq!(chosen.iter().filter(|address| address.contains('.')).count(), 2, "{chosen:?}");
    assert_eq!(chosen.iter().collect::<BTreeSet<_>>().len(), 4, "{chosen:?}");
    // One of the locks is there already: the rest is completed.
    scene.store(&decision.create[0]);
    let rest = scene.ipam.decide(&scene.world, &node);
    assert_eq!(rest.create.len(), 3, "{rest:?}");
    rest.create.iter().for_each(|lock| scene.store(lock));
    assert!(scene.ipam.decide(&scene.world, &node).is_empty());
    assert_eq!(scene.world.attachments().count(), 1);
}

#[test]
fn an_ordinal_keeps_only_what_can_follow_it_to_another_node() {
    let mut scene = primary(&[("node-1", "10.16.1.0/24"), ("node-2", "10.16.2.0/24")]);
    let mut web = mk_subnet("web", "10.0.0.0/24", "");
    web.spec.provider = Some("net.default.ovn".to_owned());
    scene.apply(&web);
    scene.apply(&mk_nad("default", "net"));
    scene.apply(&StatefulSet {
        namespace: "default".into(),
        name: "db".into(),
        uid: "set-db".into(),
        start: 0,
        replicas: 1,
    });
    let pod = |uid: &str, node: &str| Pod {
        uid: uid.into(),
        place: Place::on(node),
        controller: PodController::StatefulSet(Box::new(SetOfPod {
            name: "db".into(),
            uid: "set-db".into(),
        })),
        ..mk_pod("default", "db-0", &[(NETWORKS, "net")])
    };
    let first = pod("first", "node-1");
    scene.apply(&first);
    let decision = scene.decide("db-0");
    assert!(addresses(&decision)[0].starts_with("10.16.1."));
    let users: Vec<_> = decision.create.iter().map(|lock| lock.spec.user.is_some()).collect();
    assert_eq!(users, [false, true]);
    let kept = decision.create[1].spec.address.clone();
    decision.create.iter().for_each(|lock| scene.store(lock));
    assert!(scene.decide("db-0").is_empty(), "{:?}", scene.decide("db-0"));

    scene.delete(&first);
    scene.apply(&pod("second", "node-2"));
    let decision = scene.decide("db-0");
    assert_eq!(refusals(&decision), [""; 0]);
    let created = addresses(&decision);
    assert!(created.len() == 1 && created[0].starts_with("10.16.2."), "{created:?}");
    assert_eq!(decision.moves.len(), 1, "the further interface follows");
    assert!(decision.moves[0].lock.starts_with(&kept.replace('.', "-")), "{:?}", decision.moves);
    let released: Vec<_> = decision.releases.iter().map(|release| release.lock.clone()).collect();
    assert!(released.len() == 1 && released[0].starts_with("10-16-1-"), "{released:?}");
}
