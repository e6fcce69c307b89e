//! What is in effect, and when.

use portolan_api::portolan::DecidedInterface;
use portolan_api::{Family, Mac};
use portolan_model::fixtures::*;
use portolan_model::node::Tunnels;
use portolan_model::{Node, Unit, UnitState, View, VpcPair, World};

pub(super) fn subnet(name: &str) -> Unit {
    Unit::Subnet(name.to_owned())
}

fn vpc(name: &str) -> Unit {
    Unit::Vpc(name.to_owned())
}

pub(super) fn attachment(pod: &str) -> Unit {
    Unit::Attachment(mk_id("default", pod, "eth0"))
}

/// VPC `blue`, Subnet `web` in it, and pod `a` on it.
pub(super) fn world() -> World {
    let mut world = World::default();
    let _ = world.apply(&mk_vpc("blue"));
    let _ = world.apply(&mk_subnet("web", "10.0.0.0/24", "blue"));
    let _ = world.apply(&mk_lock("vpc/blue", "web", "10.0.0.7", "a", 1));
    world
}

#[test]
fn the_text_of_a_unit_reads_back() {
    let units = [
        "vpc/blue",
        "subnet/web.v2",
        "peering/blue/green",
        "attachment/pod/default/web-0/eth0/8f1c-22",
        "attachment/node/node-1/node/8f1c",
        "attachment/vm/default/vm/net1/8f1c",
    ];
    for text in units {
        assert_eq!(text.parse::<Unit>().unwrap().to_string(), text);
    }
    for text in [
        "",
        "vpc",
        "vpc/",
        "vpc/A",
        "vpc/a/b",
        "router/a",
        "peering/b/a",
        "peering/a/a",
        "attachment/pod/default/web",
        "attachment/node/default/n/node/u",
        "attachment/pod/n/eth0/u",
        "attachment/what/n/p/eth0/u",
        "attachment/pod/n/p/a b/u",
    ] {
        assert!(text.parse::<Unit>().is_err(), "{text}");
    }
}

#[test]
fn a_subnet_is_in_effect_once_it_is_validated() {
    let mut world = World::default();
    let good = mk_subnet("web", "10.0.0.0/24", "");
    let mut raw = good.clone();
    raw.status = None;
    let _ = world.apply(&raw);
    assert_eq!((world.state(&subnet("web")), world.view(&subnet("web"))), (UnitState::Held, None));
    assert!(world.apply(&good).units.contains(&subnet("web")));
    assert_eq!(world.state(&subnet("web")), UnitState::Live);
    // An edit takes effect before it is validated again: what can clash cannot be edited.
    let mut edited = good.clone();
    edited.metadata.generation = Some(2);
    edited.spec.enable_dhcp = true;
    let _ = world.apply(&edited);
    let now = world.subnet("web").unwrap();
    assert!(now.config.dhcp.is_some() && !now.is_validated());
}

#[test]
fn a_mistake_in_an_edit_holds_what_works() {
    let mut world = world();
    let _ = world.apply(&mk_subnet("other", "10.0.1.0/24", ""));
    let mut broken = mk_subnet("web", "10.0.0.0/24", "blue");
    broken.spec.gateway = Some("192.168.0.1".to_owned());
    let dirty = world.apply(&broken);
    for unit in [subnet("web"), attachment("a")] {
        assert!(dirty.units.contains(&unit));
        assert_eq!(world.state(&unit), UnitState::Held);
        assert!(world.owner(&unit).is_some(), "so that nothing of it is taken for stale");
    }
    assert_eq!(world.state(&subnet("other")), UnitState::Live, "one bad object never stops the others");
    let mut broken = mk_vpc("blue");
    broken.spec.namespaces = vec!["No Namespace".to_owned()];
    let _ = world.apply(&mk_subnet("web", "10.0.0.0/24", "blue"));
    let _ = world.apply(&broken);
    assert_eq!(
        [vpc("blue"), subnet("web"), attachment("a")].map(|unit| world.state(&unit)),
        [UnitState::Held; 3]
    );
    let _ = world.delete(&broken);
    assert_eq!(
        [vpc("blue"), subnet("web")].map(|unit| world.state(&unit)),
        [UnitState::Absent, UnitState::Live]
    );
    assert_eq!(world.subnet_view("web").unwrap().vpc, None);
}

#[test]
fn the_older_of_two_vpcs_has_the_name() {
    let mut world = World::default();
    let _ = world.apply(&mk_vpc("blue"));
    let mut old = mk_kubeovn_vpc("blue");
    let epoch = k8s_openapi::jiff::Timestamp::UNIX_EPOCH;
    old.metadata.creation_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(epoch));
    assert!(world.apply(&old).units.contains(&vpc("blue")));
    assert_eq!(world.owner(&vpc("blue")).as_deref(), Some("kubeovn-vpc-blue"));
    assert!(world.delete(&mk_vpc("blue")).is_empty(), "who has not got the name is not missed");
}

#[test]
fn a_kube_ovn_subnet_without_a_vpc() {
    let mut world = World::default();
    let mut isolated = mk_kubeovn_subnet("vswitch1", "172.20.0.0/16");
    isolated.spec.provider = Some("vswitch1.default.ovn".to_owned());
    let _ = world.apply(&isolated);
    let _ = world.apply(&mk_kubeovn_subnet("ovn-default", "10.16.0.0/16"));
    assert_eq!(world.subnet("vswitch1").unwrap().domain.to_string(), "subnet/vswitch1");
    assert_eq!(world.subnet("ovn-default").unwrap().domain.to_string(), "vpc/ovn-cluster");
}

#[test]
fn an_attachment_is_in_effect_once_all_its_locks_are_there() {
    let mut world = World::default();
    let _ = world.apply(&mk_subnet("web", "10.0.0.0/24,fd00::/64", ""));
    let mut locks =
        [mk_lock("subnet/web", "web", "fd00::7", "a", 1), mk_lock("subnet/web", "web", "10.0.0.7", "a", 2)];
    for lock in &mut locks {
        lock.spec.interfaces[0].families = vec![Family::IPv4, Family::IPv6];
        lock.spec.mac = Some("0a:58:0a:00:00:07".to_owned());
    }
    let _ = world.apply(&locks[0]);
    assert_eq!(world.state(&attachment("a")), UnitState::Absent);
    assert!(world.apply(&locks[1]).units.contains(&attachment("a")));
    let Some(View::Attachment(view)) = world.view(&attachment("a")) else { panic!() };
    let texts: Vec<_> = view.addresses().iter().map(ToString::to_string).collect();
    assert_eq!(texts, ["10.0.0.7", "fd00::7"]);
    assert_eq!(view.attachment.mac.to_string(), "0a:58:0a:00:00:07");
    assert_eq!(view.attachment.iface_id(), "port:default/a/eth0/pod-defa");
    assert_eq!((view.chassis, view.attachment.pod_uid().as_deref()), (Some("node-1"), Some("pod-default-a")));
    assert!(world.delete(&locks[0]).units.contains(&attachment("a")));
    assert_eq!(world.state(&attachment("a")), UnitState::Absent);
}

#[test]
fn of_two_locks_the_one_created_first_wins() {
    let mut world = world();
    let dirty = world.apply(&mk_lock("vpc/blue", "web", "10.0.0.9", "a", 2));
    assert!(dirty.units.is_empty(), "nothing changes for whoever saw the first");
    assert_eq!(
        world.attachment(&mk_id("default", "a", "eth0")).unwrap().addresses[0].to_string(),
        "10.0.0.7"
    );
    let held = world.held_locks(&mk_id("default", "a", "eth0"));
    assert_eq!(held.surplus[0].name, "10-0-0-9.vpc-blue");
}

#[test]
fn a_mac_follows_from_the_address_that_was_got_unless_it_was_asked_for() {
    let mut world = World::default();
    let _ = world.apply(&mk_subnet("web", "10.0.0.0/24", ""));
    let mut lock = mk_lock("subnet/web", "web", "10.0.0.7", "a", 1);
    // Made when another address was hoped for, which a rival got.
    lock.spec.mac = Some("0a:58:0a:00:00:99".to_owned());
    let _ = world.apply(&lock);
    let mac =
        |world: &World| world.attachment(&mk_id("default", "a", "eth0")).map(|attachment| attachment.mac);
    assert_eq!(mac(&world), Some(Mac::derive("10.0.0.7".parse().unwrap(), None)));
    lock.spec.mac = Some("02:00:00:00:00:01".to_owned());
    let _ = world.apply(&lock);
    assert_eq!(mac(&world), None, "a MAC that was asked for has a lock of its own");
    let mut mac_lock = mk_lock("subnet/web", "web", "02:00:00:00:00:01", "a", 2);
    mac_lock.spec.interfaces =
        vec![DecidedInterface { interface: "eth0".to_owned(), families: vec![Family::IPv4] }];
    let _ = world.apply(&mac_lock);
    assert_eq!(mac(&world).unwrap().to_string(), "02:00:00:00:00:01");
}

#[test]
fn a_subnet_made_again_elsewhere_does_not_take_its_old_guests_along() {
    let mut world = world();
    let _ = world.delete(&mk_subnet("web", "10.0.0.0/24", "blue"));
    assert_eq!(world.state(&attachment("a")), UnitState::Absent);
    let mut again = mk_subnet("web", "10.0.0.0/24", "green");
    again.metadata.uid = Some("again".to_owned());
    let _ = world.apply(&again);
    assert_eq!(world.state(&attachment("a")), UnitState::Absent);
}

#[test]
fn only_what_a_change_concerns_is_dirty() {
    let mut world = world();
    let _ = world.apply(&mk_lock("vpc/blue", "web", "10.0.0.8", "b", 2));
    let mut web = mk_subnet("web", "10.0.0.0/24", "blue");
    web.spec.exclude_ips = vec!["10.0.0.100".to_owned()];
    web.spec.private = true;
    let units: Vec<_> = world.apply(&web).units.into_iter().collect();
    assert_eq!(units, [subnet("web")], "guests do not look at that");
    web.spec.enable_dhcp = true;
    assert_eq!(world.apply(&web).units.len(), 3);
    let mut blue = mk_vpc("blue");
    blue.metadata.generation = Some(2);
    assert_eq!(world.apply(&blue).units.into_iter().collect::<Vec<_>>(), [vpc("blue")]);
    blue.metadata.uid = Some("again".to_owned());
    assert_eq!(world.apply(&blue).units.into_iter().collect::<Vec<_>>(), [vpc("blue"), subnet("web")]);
    assert!(world.apply(&mk_node("node-1")).units.is_empty(), "the chassis is called like the node");
    let renamed = Node { chassis: "c".to_owned(), ..mk_node("node-1") };
    assert_eq!(world.apply(&renamed).units.len(), 2);
}

#[test]
fn the_smallest_tunnel_of_all_nodes_decides_for_subnets_that_name_no_mtu() {
    let mut world = World::default();
    let _ = world.apply(&mk_subnet("web", "10.0.0.0/24", ""));
    let mut own = mk_subnet("own", "10.0.1.0/24", "");
    own.spec.mtu = Some(1300);
    let _ = world.apply(&own);
    let node = |name: &str, tunnels| Node { tunnels, ..mk_node(name) };
    let mut told = |name: &str, tunnels| {
        let units: Vec<_> = world.apply(&node(name, tunnels)).units.into_iter().collect();
        (world.tunnel_mtu(), units == [subnet("web")], units.len())
    };
    let (changed, same) = ((true, 1), (false, 0));
    let is = |mtu, (only, count)| (mtu, only, count);
    assert_eq!(told("node-1", Tunnels::Nowhere), is(None, same));
    assert_eq!(told("node-1", Tunnels::Mtu(1442)), is(Some(1442), changed));
    assert_eq!(told("node-2", Tunnels::Mtu(8942)), is(Some(1442), same));
    assert_eq!(told("node-2", Tunnels::Mtu(1342)), is(Some(1342), changed));
    // A mistake in the network of one node is not everyone's.
    assert_eq!(told("node-2", Tunnels::Mtu(542)), is(Some(1442), changed));
    assert_eq!(told("node-3", Tunnels::Mtu(1280)), is(Some(1280), changed));
    assert_eq!(world.delete(&mk_node("node-3")).units.len(), 1);
    assert_eq!(world.tunnel_mtu(), Some(1442));
    // What pods have that run counts.
    let mut told = Node { told_mtu: Some(1300), ..node("node-2", Tunnels::Nowhere) };
    assert_eq!(world.apply(&told).units.len(), 1);
    assert_eq!(world.tunnel_mtu(), Some(1300));
    told.told_mtu = Some(0);
    let _ = world.apply(&told);
    assert_eq!(world.tunnel_mtu(), Some(1442));
    // If all have less than IPv6 needs, that is what there is; and it stays when a node comes that has more.
    let small = Node { told_mtu: Some(1222), ..node("node-1", Tunnels::Mtu(1222)) };
    let _ = world.apply(&small);
    assert_eq!(world.tunnel_mtu(), Some(1222));
    let _ = world.apply(&node("node-4", Tunnels::Mtu(1442)));
    assert_eq!(world.tunnel_mtu(), Some(1222));
    // Nor does it rise when the setting that made it so small is taken away.
    let _ = world.apply(&Node { tunnels: Tunnels::Mtu(1442), ..small });
    assert_eq!(world.tunnel_mtu(), Some(1222));
}

#[test]
fn what_somebody_writes_on_one_node_changes_the_mtu_of_no_other() {
    let mut world = World::default();
    let told = |name: &str, told_mtu| Node { told_mtu: Some(told_mtu), ..mk_node(name) };
    for name in ["node-1", "node-2", "node-3"] {
        let _ = world.apply(&Node { tunnels: Tunnels::Mtu(1442), ..told(name, 1442) });
    }
    for wrong in [576, 1280, 9000] {
        let _ = world.apply(&Node { tunnels: Tunnels::Mtu(1442), ..told("node-2", wrong) });
        assert_eq!(world.tunnel_mtu(), Some(1442), "{wrong}");
    }
    // Most of them were told less, and one has not noticed yet.
    let _ = world.apply(&told("node-1", 1342));
    let _ = world.apply(&told("node-2", 1342));
    assert_eq!(world.tunnel_mtu(), Some(1342));
}

#[test]
fn a_peering_stands_once_both_sides_want_it() {
    let mut world = World::default();
    let pair = Unit::Peering(VpcPair::new("green", "blue").unwrap());
    let (mut blue, mut green) = (mk_vpc("blue"), mk_vpc("green"));
    blue.spec.vpc_peerings = vec![mk_peering("green", "169.254.0.1/30")];
    let _ = world.apply(&blue);
    let _ = world.apply(&green);
    assert_eq!(world.state(&pair), UnitState::Absent);
    green.spec.vpc_peerings = vec![mk_peering("blue", "169.254.0.2/30")];
    assert!(world.apply(&green).units.contains(&pair));
    let Some(View::Peering(view)) = world.view(&pair) else { panic!() };
    assert_eq!(
        view.peering.ends.each_ref().map(|end| end.local_connect.to_string()),
        ["169.254.0.1/30", "169.254.0.2/30"]
    );
    assert_eq!(world.owner(&pair).as_deref(), Some("vpc-blue"));
    green.spec.namespaces = vec!["A Mistake".to_owned()];
    assert!(world.apply(&green).units.contains(&pair));
    assert_eq!(world.state(&pair), UnitState::Held);
    blue.spec.vpc_peerings.clear();
    assert!(world.apply(&blue).units.contains(&pair));
    assert_eq!(world.state(&pair), UnitState::Absent);
}

#[test]
fn parents_come_before_what_refers_to_them() {
    let world = world();
    let units: Vec<_> = world.units().map(|unit| unit.to_string()).collect();
    assert_eq!(units, ["vpc/blue", "subnet/web", "attachment/pod/default/a/eth0/pod-default-a"]);
}
