//! How much pods may send and receive, as planners see it.

use std::collections::BTreeSet;

use portolan_api::Rate;
use portolan_api::portolan::{HolderKind, LockUser};
use portolan_model::fixtures::*;
use portolan_model::view::View;
use portolan_model::{AttachmentId, Dirty, FirstInterface, Pod, PodController, Settings, Unit, World};

const INGRESS: &str = "net.default.ovn.kubernetes.io/ingress_rate";
const EGRESS: &str = "net.default.ovn.kubernetes.io/egress_rate";

/// A subnet that has the provider, and pods `a` and `b` on it.
fn world() -> World {
    let mut world = World::default();
    let mut subnet = mk_subnet("web", "10.0.0.0/24", "");
    subnet.spec.provider = Some("net.default.ovn".to_owned());
    let _ = world.apply(&subnet);
    for (pod, address) in [("a", "10.0.0.5"), ("b", "10.0.0.6")] {
        let _ = world.apply(&mk_pod("default", pod, &[(INGRESS, "10")]));
        let _ = world.apply(&mk_lock("subnet/web", "web", address, pod, 1));
    }
    world
}

/// Kilobits per second, received and sent; none is 0.
fn rates(world: &World, id: &AttachmentId) -> [i64; 2] {
    let Some(View::Attachment(view)) = world.view(&Unit::Attachment(id.clone())) else { panic!("{id}") };
    [view.rates.ingress, view.rates.egress].map(|rate| rate.map_or(0, Rate::kilobits))
}

fn units(dirty: &Dirty) -> BTreeSet<String> {
    dirty.units.iter().map(ToString::to_string).collect()
}

#[test]
fn a_changed_rate_is_planned_again_for_its_interface_and_no_other() {
    let mut world = world();
    let a = mk_id("default", "a", "eth0");
    assert_eq!(rates(&world, &a), [10_000, 0]);
    let only = BTreeSet::from([Unit::Attachment(a.clone()).to_string()]);
    for (annotations, expected) in [
        (&[(INGRESS, "20"), (EGRESS, "30")][..], [20_000, 30_000]),
        // What is no rate limits nothing.
        (&[(INGRESS, "20"), (EGRESS, "abc")], [20_000, 0]),
        (&[("net.default.ovn.eth0.kubernetes.io/egress_rate", "7")], [0, 7_000]),
        (&[], [0, 0]),
    ] {
        let dirty = world.apply(&mk_pod("default", "a", annotations));
        assert_eq!(units(&dirty), only);
        assert_eq!(rates(&world, &a), expected);
        assert!(dirty.requesters.is_empty(), "nothing is to be decided: {dirty:?}");
    }
    // What changes no rate changes nothing.
    for annotations in [&[(EGRESS, "0")][..], &[("other.default.ovn.kubernetes.io/ingress_rate", "5")]] {
        assert!(world.apply(&mk_pod("default", "a", annotations)).units.is_empty());
    }
}

#[test]
fn rates_are_those_of_the_pod_that_uses_the_interface_now() {
    let mut world = world();
    let mut lock = mk_lock("subnet/web", "web", "10.0.0.7", "machine", 1);
    lock.spec.holder.kind = HolderKind::VirtualMachine;
    lock.spec.user =
        Some(LockUser { pod: "launcher-1".to_owned(), uid: "pod-default-launcher-1".to_owned() });
    let _ = world.apply(&lock);
    let id = AttachmentId::new(&lock.spec.holder, "eth0").unwrap();
    assert_eq!(rates(&world, &id), [0, 0]);
    let launcher = |name: &str, rate: &str| Pod {
        controller: PodController::VirtualMachine("machine".into()),
        ..mk_pod("default", name, &[(EGRESS, rate)])
    };
    for name in ["launcher-1", "launcher-2"] {
        let dirty = world.apply(&launcher(name, if name == "launcher-1" { "5" } else { "9" }));
        // The second is where the machine goes, and does not use it yet.
        assert_eq!(dirty.units.len(), usize::from(name == "launcher-1"), "{dirty:?}");
        assert_eq!(rates(&world, &id), [0, 5_000]);
    }
    lock.spec.user =
        Some(LockUser { pod: "launcher-2".to_owned(), uid: "pod-default-launcher-2".to_owned() });
    lock.metadata.generation = Some(2);
    assert_eq!(world.apply(&lock).units.len(), 1);
    assert_eq!(rates(&world, &id), [0, 9_000]);
    assert_eq!(world.delete(&launcher("launcher-2", "9")).units.len(), 1);
    assert_eq!(rates(&world, &id), [0, 0]);
}

#[test]
fn the_first_interface_goes_by_the_name_of_no_network() {
    let mut world = World::new(Settings { first_interface: FirstInterface::Portolan });
    let _ = world.apply(&mk_subnet("web", "10.0.0.0/24", ""));
    let _ = world.apply(&mk_lock("subnet/web", "web", "10.0.0.5", "a", 1));
    let dirty = world.apply(&mk_pod("default", "a", &[("ovn.kubernetes.io/egress_rate", "4")]));
    assert_eq!(dirty.units.len(), 1);
    assert_eq!(rates(&world, &mk_id("default", "a", "eth0")), [0, 4_000]);
}
