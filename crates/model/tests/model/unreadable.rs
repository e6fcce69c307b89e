//! Objects that exist and cannot be read: nothing that was made of them changes, and nobody else is disturbed.

use kube_core::ResourceExt;
use portolan_api::Domain;
use portolan_api::portolan::{self, Holder, HolderKind, IPLock, IPLockSpec, LockAddress};
use portolan_model::attachment::GATEWAY_INTERFACE;
use portolan_model::fixtures::*;
use portolan_model::holder::Read;
use portolan_model::validate::validate;
use portolan_model::world::GatewayProblem;
use portolan_model::{Dirty, Node, Requester, Source, UnitState, Unreadable, World};
use serde_json::{Value, json};

use super::world::{attachment, subnet, world};

/// Takes in an object whose field, a path from the top, has a value of another type.
fn break_field<O: Source + ResourceExt>(
    world: &mut World,
    object: &O,
    content: &mut Value,
    path: &str,
) -> Dirty {
    let pointer = format!("/{}", path.replace('.', "/"));
    *content.pointer_mut(&pointer).unwrap() = json!([7]);
    let unreadable =
        Unreadable { metadata: object.meta(), content, field: path, problem: "invalid type: sequence" };
    world.apply_unreadable::<O>(&unreadable)
}

#[test]
fn a_lock_that_cannot_be_understood_takes_the_address_that_its_name_says() {
    let mut world = world();
    let mut lock = mk_lock("vpc/blue", "web", "10.0.0.9", "b", 2);
    lock.spec.address = "nonsense".to_owned();
    let dirty = world.apply(&lock);
    let name = "10-0-0-9.vpc-blue";
    let claim = world.unreadable_lock(name).unwrap().claim.clone().unwrap();
    assert_eq!((claim.address.to_string(), claim.domain.to_string()), ("10.0.0.9".into(), "vpc/blue".into()));
    assert!(world.claims().any(|known| known == claim));
    assert_eq!(dirty.locks.len(), 1, "whoever gives addresses out is told");
    assert!(dirty.locks[0].exists && dirty.locks[0].after.as_ref() == Some(&claim));
    // With a name that is too long to be in the lock's, the spec has to say the domain.
    let long = format!("vpc/{}", "v".repeat(240));
    let mut lock = mk_lock(&long, "web", "10.0.0.9", "b", 3);
    lock.spec.address = "nonsense".to_owned();
    let _ = world.apply(&lock);
    let claim = |world: &World| world.unreadable_lock(&lock.name_any()).unwrap().claim.clone();
    assert_eq!(claim(&world).unwrap().domain.to_string(), long);
    let mut vague = lock.clone();
    vague.spec.domain = "nonsense".to_owned();
    let _ = world.apply(&vague);
    assert_eq!(
        claim(&world),
        None,
        "the name alone still takes it: whoever would take the address meets the lock"
    );
    let _ = world.delete(&vague);
    assert!(world.unreadable_lock(&lock.name_any()).is_none());
}

#[test]
fn an_edit_of_the_provider_does_not_move_a_subnet_out_of_the_domain_of_its_locks() {
    let mut world = World::default();
    let mut vswitch = mk_kubeovn_subnet("vswitch1", "172.20.0.0/16");
    vswitch.spec.provider = Some("vswitch1.default.ovn".to_owned());
    let _ = world.apply(&vswitch);
    let domain: Domain = "subnet/vswitch1".parse().unwrap();
    assert_eq!(world.subnet("vswitch1").unwrap().domain, domain);
    let holder = Holder {
        kind: HolderKind::Subnet,
        name: "vswitch1".to_owned(),
        uid: vswitch.uid().unwrap(),
        interface: Some(GATEWAY_INTERFACE.to_owned()),
        ..Holder::default()
    };
    let spec = IPLockSpec { subnet: "vswitch1".to_owned(), holder, ..IPLockSpec::default() };
    let gateway = IPLock::of(&domain, LockAddress::Ip([172, 20, 0, 1].into()), spec);
    let _ = world.apply(&mk_stored(gateway, 1));
    let _ = world.apply(&mk_lock("subnet/vswitch1", "vswitch1", "172.20.0.7", "a", 2));
    assert_eq!([subnet("vswitch1"), attachment("a")].map(|unit| world.state(&unit)), [UnitState::Live; 2]);

    let mut edited = vswitch.clone();
    edited.spec.provider = None;
    let dirty = world.apply(&edited);
    let to = world.known_subnet("vswitch1").unwrap().clone();
    assert_eq!(to.domain.to_string(), "vpc/ovn-cluster", "the provider decides the domain");
    let problem = world.gateway_problem(&to).unwrap();
    assert_eq!(problem, GatewayProblem::OtherDomain { from: domain, to: to.domain });
    for unit in [subnet("vswitch1"), attachment("a")] {
        assert_eq!(world.state(&unit), UnitState::Held, "{unit}");
        assert!(dirty.units.contains(&unit), "{unit}");
    }
    let errors: Vec<_> = validate(&edited, &world).errors.iter().map(ToString::to_string).collect();
    let said = errors.iter().find(|error| error.contains("undo the change and make a new Subnet"));
    assert!(said.is_some_and(|said| said.contains("spec.provider")), "{errors:?}");
    let _ = world.apply(&vswitch);
    assert_eq!([subnet("vswitch1"), attachment("a")].map(|unit| world.state(&unit)), [UnitState::Live; 2]);
}

#[test]
fn what_a_subnet_that_cannot_be_decoded_has_is_held_and_taken_up_again() {
    let mut world = world();
    let good = mk_subnet("web", "10.0.0.0/24", "blue");
    let mut content = json!({"spec": {"cidrBlock": "10.0.0.0/24", "vpc": "blue"}});
    let dirty = break_field(&mut world, &good, &mut content, "spec.cidrBlock");
    for unit in [subnet("web"), attachment("a")] {
        assert!(dirty.units.contains(&unit), "{unit}");
        assert_eq!(world.state(&unit), UnitState::Held, "{unit}");
        assert!(world.owner(&unit).is_some(), "so that nothing of it is taken for stale");
    }
    let _ = world.apply(&good);
    assert_eq!(world.state(&attachment("a")), UnitState::Live);
    // A World that never saw it otherwise, and is told by a list.
    let mut world = World::default();
    let _ = world.apply(&mk_vpc("blue"));
    let unreadable =
        Unreadable { metadata: &good.metadata, content: &content, field: "spec.cidrBlock", problem: "wrong" };
    let _ = world.relist::<portolan::Subnet>(&[mk_subnet("db", "10.0.1.0/24", "blue")], [unreadable]);
    assert_eq!(
        [subnet("web"), subnet("db")].map(|unit| world.state(&unit)),
        [UnitState::Held, UnitState::Live]
    );
    assert_eq!(world.missing().count(), 0, "it is there");
    let _ = world.delete_named::<portolan::Subnet>(&good.metadata);
    assert_eq!(world.state(&subnet("web")), UnitState::Absent);
}

#[test]
fn what_a_lock_that_cannot_be_decoded_gave_is_held_for_its_holder() {
    for path in ["spec.node", "spec.domain", "spec.holder"] {
        let mut world = world();
        let lock = mk_lock("vpc/blue", "web", "10.0.0.7", "a", 1);
        let mut content = serde_json::to_value(&lock).unwrap();
        let dirty = break_field(&mut world, &lock, &mut content, path);
        assert!(dirty.units.contains(&attachment("a")), "{path}");
        assert_eq!(world.state(&attachment("a")), UnitState::Held, "{path}");
        let holder = mk_holder("default", "a", "eth0");
        assert_eq!(world.unreadable_lock_of(&holder).unwrap().name, "10-0-0-7.vpc-blue", "{path}");
        let claims: Vec<_> = world.claims().map(|claim| claim.address.to_string()).collect();
        assert_eq!(claims, ["10.0.0.7"], "{path}");
        let dirty = world.apply(&lock);
        assert!(dirty.units.contains(&attachment("a")), "{path}");
        assert_eq!(world.state(&attachment("a")), UnitState::Live, "{path}");
        assert!(world.unreadable_lock_of(&holder).is_none(), "{path}");
        break_field(&mut world, &lock, &mut content, path).units.clear();
        let _ = world.delete(&lock);
        assert_eq!((world.state(&attachment("a")), world.claims().count()), (UnitState::Absent, 0), "{path}");
        let mut never = World::default();
        let _ = never.apply(&mk_vpc("blue"));
        let _ = never.apply(&mk_subnet("web", "10.0.0.0/24", "blue"));
        assert_eq!(world, never, "{path}: nothing is left of it");
    }
}

#[test]
fn a_definition_that_cannot_be_decoded_is_a_mistake_and_not_missing() {
    let mut world = World::default();
    let mut web = mk_subnet("web", "10.0.0.0/24", "");
    web.spec.provider = Some("net.default.ovn".to_owned());
    let _ = world.apply(&web);
    let nad = mk_nad("default", "net");
    let _ = world.apply(&nad);
    let _ = world.apply(&mk_pod("default", "b", &[("k8s.v1.cni.cncf.io/networks", "net")]));
    let mut content = serde_json::to_value(&nad).unwrap();
    let dirty = break_field(&mut world, &nad, &mut content, "spec.config");
    assert!(dirty.requesters.contains(&Requester::pod("default", "b")));
    let request = world.request(&Requester::pod("default", "b")).unwrap();
    let said = request.problems[0].to_string();
    assert!(said.contains("default/net") && said.contains("spec.config: cannot be read"), "{said}");
    assert!(request.waits.is_empty(), "{:?}", request.waits);
    let _ = world.apply(&nad);
    assert!(world.request(&Requester::pod("default", "b")).unwrap().is_ready());
}

#[test]
fn what_a_list_lacks_stays_as_it_was_until_a_live_read_answers() {
    let mut world = world();
    let node = Node { chassis: "chassis-1".to_owned(), ..mk_node("node-1") };
    let (pod, nad) = (mk_pod("default", "a", &[]), mk_nad("default", "net"));
    let _ = (world.apply(&node), world.apply(&pod), world.apply(&nad));
    let before = world.clone();
    assert!(world.relist::<Node>(&[], []).is_empty());
    assert!(world.relist::<portolan_model::Pod>(&[], []).is_empty());
    assert!(world.relist::<portolan_model::Nad>(&[], []).is_empty());
    let missing: Vec<Read> = world.missing().cloned().collect();
    assert_eq!(missing.len(), 3, "{missing:?}");
    assert_eq!((world.chassis("node-1"), world.pod("default", "a")), ("chassis-1", Some(&pod)));
    // They are there after all, as they were or otherwise.
    let mut found = World::default();
    let _ = (found.apply(&node), found.apply(&pod), found.apply(&nad));
    for read in &missing {
        assert!(world.settle_missing(read, &found).is_empty(), "{read:?}");
    }
    assert_eq!(world, before);
    // One that is seen again needs no answer, and a late one changes nothing.
    let _ = world.relist::<Node>(&[], []);
    let _ = world.apply(&node);
    assert_eq!(world.missing().count(), 0);
    assert!(world.settle_missing(&missing[0], &World::default()).is_empty());
    // They are gone.
    let _ = world.relist::<Node>(&[], []);
    let _ = world.relist::<portolan_model::Pod>(&[], []);
    let _ = world.relist::<portolan_model::Nad>(&[], []);
    let units: Vec<_> =
        missing.iter().flat_map(|read| world.settle_missing(read, &World::default()).units).collect();
    assert_eq!(units, [attachment("a")], "its chassis is another");
    assert_eq!(
        (world.node("node-1"), world.pod("default", "a"), world.nad("default", "net")),
        (None, None, None)
    );
}
