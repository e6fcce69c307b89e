#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

use std::collections::{BTreeMap, BTreeSet};

use portolan_api::portolan::{DecidedInterface, Holder, HolderKind, NetworkAttachment, Tap};
use portolan_model::attachment::NETWORK_ATTACHMENT_INTERFACE;
use portolan_model::fixtures::{mk_lock, mk_network_attachment, mk_subnet, mk_vpc};
use portolan_model::{Settings, World};

use crate::host::*;
use crate::reconciler::Target as _;
use crate::reconciler::{Absence, Reconciler, Urgency};

const UID: &str = "attachment-default-uplink";

/// A node of which one `NetworkAttachment` asks for a port, and what Open vSwitch and the kernel make of it.
struct Case {
    world: World,
    holders: BTreeMap<LinkName, HolderTag>,
    was_listed: bool,
    mtu: Option<u16>,
    observed: Observed,
    reconciler: Reconciler<Node>,
    planned: usize,
    /// Whether the link has a guard, whatever is known of it.
    is_guarded: bool,
    next_cfg: i64,
}

fn object(tap: Option<Tap>) -> NetworkAttachment {
    let mut object = mk_network_attachment("default", "uplink", "sea");
    object.spec.tap = tap;
    object
}

/// A lock of a `NetworkAttachment`.
fn lock(name: &str, uid: &str, address: &str, version: u64) -> portolan_api::portolan::IPLock {
    let mut lock = mk_lock("vpc/aegean", "sea", address, name, version);
    lock.spec.holder = Holder {
        kind: HolderKind::NetworkAttachment,
        namespace: Some("default".into()),
        name: name.into(),
        uid: uid.into(),
        interface: Some(NETWORK_ATTACHMENT_INTERFACE.into()),
    };
    let families = lock.spec.interfaces[0].families.clone();
    lock.spec.interfaces =
        vec![DecidedInterface { interface: NETWORK_ATTACHMENT_INTERFACE.into(), families }];
    lock
}

fn tag() -> HolderTag {
    HolderTag::of_attachment("default", "uplink", UID)
}

fn case(tap: Option<Tap>) -> Case {
    let mut world = World::new(Settings::default());
    let _ = world.apply(&mk_vpc("aegean"));
    let _ = world.apply(&mk_subnet("sea", "10.0.0.0/24", "aegean"));
    let _ = world.apply(&object(tap));
    let _ = world.apply(&lock("uplink", UID, "10.0.0.7", 1));
    assert_eq!(world.attachments().count(), 1, "the lock is in effect");
    let mut observed = Observed::default();
    observed.set_datapath(Some(Datapath::Netdev));
    let mut reconciler = Reconciler::new(Node);
    reconciler.changed(tag().link(), Urgency::Immediate);
    let holders = BTreeMap::from([(tag().link(), tag())]);
    let (was_listed, mtu) = (true, Some(1400));
    Case { world, holders, was_listed, mtu, observed, reconciler, planned: 0, is_guarded: false, next_cfg: 0 }
}

impl Case {
    fn round(&mut self) -> (Vec<Change>, Vec<LinkName>) {
        let (pods, ended) = (BTreeMap::new(), BTreeSet::new());
        let Case { world, holders, was_listed, mtu, observed, reconciler, planned, .. } = self;
        let holders = was_listed.then_some(&*holders);
        let facts = Facts { observed, world, pods: &pods, ended: &ended, holders, mtu: *mtu };
        let plan_of = |unit: &LinkName| {
            *planned += 1;
            plan(unit, &facts)
        };
        let round = reconciler.reconcile(plan_of, observed);
        (round.changes, round.confirm.into_iter().map(|confirm| confirm.unit).collect())
    }

    fn touch(&mut self) {
        self.reconciler.changed(tag().link(), Urgency::Immediate);
    }

    /// What a link is like of which nobody has taken care. The kernel says nothing of a guard that went with one before it.
    fn link_made(&mut self, unit: &LinkName) {
        self.is_guarded = false;
        self.observed.set_unnoted(unit, Switched::No);
        self.reconciler.changed(unit.clone(), Urgency::Immediate);
    }

    fn link_gone(&mut self, unit: &LinkName) {
        drop(self.observed.set_link(unit, None));
        self.is_guarded = false;
        self.observed.set_guard(unit, Guard::Absent);
        self.reconciler.changed(unit.clone(), Urgency::Immediate);
    }

    /// Applies one change as a node does, and observes what follows from it.
    fn apply(&mut self, change: &Change) {
        let unit = change.unit().clone();
        match change {
            Change::Plug(_, port) | Change::Correct(_, port) => {
                let DesiredPort { tag, pod, iface_id, internal } = port.clone();
                let is_new = self.observed.port(&unit).is_none();
                self.observed.set_port(&unit, Some(ObservedPort { tag, pod, iface_id, internal }));
                if is_new && internal.is_some() {
                    self.link_made(&unit);
                }
                if self.observed.datapath() == Some(Datapath::System) && self.observed.is_unnoted(&unit) {
                    let switched = if internal.is_some() { Switched::Internal } else { Switched::Port };
                    self.observed.set_unnoted(&unit, switched);
                }
            }
            Change::Unplug(_) => {
                let port = self.observed.port(&unit).cloned();
                assert!(
                    port.as_ref().is_some_and(|port| port.internal.is_some())
                        || self.observed.switched(&unit).is_none(),
                    "a tap goes before its port"
                );
                self.observed.set_port(&unit, None);
                if port.is_some_and(|port| port.internal.is_some()) {
                    self.link_gone(&unit);
                }
            }
            Change::RaiseNextCfg(_) => self.raise_next_cfg(),
            Change::MakeTap(..) => self.link_made(&unit),
            Change::RemoveLink(_) => self.link_gone(&unit),
            Change::Release(..) => panic!("it has no function: {change:?}"),
            Change::Guard(_, admits) => self.set_guard(&unit, Guard::Present(*admits)),
            Change::RemoveGuard(_) => self.set_guard(&unit, Guard::Absent),
            Change::Prepare(_, Preparation { tag, guard }) => {
                if let Some(admits) = guard {
                    self.set_guard(&unit, Guard::Present(*admits));
                }
                assert!(self.guarded(), "a link is guarded before it is set up");
                let switched = self.observed.switched(&unit).unwrap();
                let (tag, pod_end) = (Tag::Holder(tag.clone()), PodEnd::InSandbox);
                let link = ObservedLink { index: 7, tag, up: true, is_strict: true, pod_end, switched };
                drop(self.observed.set_link(&unit, Some(&link)));
            }
            Change::SetDown(_) => {
                let link = ObservedLink { up: false, ..self.observed.link(&unit).unwrap().clone() };
                drop(self.observed.set_link(&unit, Some(&link)));
            }
            Change::SetUp(_) => {
                assert!(self.guarded(), "a link is guarded before it is set up");
                let link = ObservedLink { up: true, ..self.observed.link(&unit).unwrap().clone() };
                drop(self.observed.set_link(&unit, Some(&link)));
            }
        }
        self.reconciler.changed(unit, Urgency::Immediate);
    }

    /// ovs-vswitchd follows at once.
    fn raise_next_cfg(&mut self) {
        self.next_cfg += 1;
        let is_seen =
            self.observed.set_configuration(Configuration { next: self.next_cfg, current: self.next_cfg });
        assert!(is_seen, "it is raised for a removal");
    }

    fn set_guard(&mut self, unit: &LinkName, guard: Guard) {
        self.is_guarded = guard != Guard::Absent;
        self.observed.set_guard(unit, guard);
    }

    /// Whether no frame can reach the node's stack but what may.
    fn guarded(&self) -> bool {
        self.is_guarded || self.observed.switched(&tag().link()) == Some(Switched::Port)
    }

    /// Rounds until there is nothing to do.
    fn settle(&mut self) -> Vec<Change> {
        let mut all = Vec::new();
        loop {
            let (changes, _) = self.round();
            if changes.is_empty() {
                return all;
            }
            changes.iter().for_each(|change| self.apply(change));
            all.extend(changes);
            assert!(all.len() < 20, "it does not end: {all:?}");
        }
    }
}

fn kinds(changes: &[Change]) -> Vec<&'static str> {
    let kind = |change: &Change| match change {
        Change::Plug(..) => "plug",
        Change::Correct(..) => "correct",
        Change::Unplug(_) => "unplug",
        Change::RaiseNextCfg(_) => "raise next_cfg",
        Change::MakeTap(..) => "make tap",
        Change::RemoveLink(_) => "remove link",
        Change::Release(..) => "release",
        Change::Guard(_, Admits::Nothing) => "guard",
        Change::Guard(_, Admits::OwnAddresses) => "guard for own addresses",
        Change::Prepare(_, Preparation { guard: None, .. }) => "prepare",
        Change::Prepare(_, Preparation { guard: Some(Admits::Nothing), .. }) => "guard, prepare",
        Change::Prepare(_, Preparation { guard: Some(Admits::OwnAddresses), .. }) => "guard for own, prepare",
        Change::SetUp(_) => "set up",
        Change::SetDown(_) => "set down",
        Change::RemoveGuard(_) => "remove guard",
    };
    changes.iter().map(kind).collect()
}

#[test]
fn a_port_of_the_node_is_plugged_and_its_link_guarded_before_it_is_set_up() {
    let mut case = case(None);
    let changes = case.settle();
    assert_eq!(kinds(&changes), ["plug", "guard for own, prepare"]);
    let Change::Plug(_, port) = &changes[0] else { panic!("{changes:?}") };
    assert_eq!(
        port.internal,
        Some(Internal { mac: Some("0a:58:0a:00:00:07".parse().unwrap()), mtu: Some(1400) })
    );
    assert!(port.iface_id.as_deref().is_some_and(|id| id.starts_with("port:default/uplink/attachment/")));
    case.touch();
    assert_eq!(case.settle(), [], "planning again changes nothing");
}

#[test]
fn a_tap_is_made_guarded_and_plugged_last() {
    let tap = Tap { user: Some(107), group: None };
    let mut netdev = case(Some(tap));
    let changes = netdev.settle();
    assert_eq!(kinds(&changes), ["make tap", "guard, prepare", "plug"]);
    let Change::MakeTap(_, made) = &changes[0] else { panic!("{changes:?}") };
    assert_eq!((made.access.user, made.mtu), (Some(107), 1400));
    let Change::Plug(_, port) = &changes[2] else { panic!("{changes:?}") };
    assert_eq!(port.internal, None, "it is there");
}

#[test]
fn in_the_kernels_datapath_a_tap_is_up_only_as_long_as_it_is_a_port_and_goes_before_its_port() {
    let mut case = case(Some(Tap::default()));
    let unit = tag().link();
    case.observed.set_datapath(Some(Datapath::System));
    assert_eq!(kinds(&case.settle()), ["make tap", "plug", "prepare"]);
    // Somebody removes the port: what the guest sends would reach the node.
    let link = ObservedLink { switched: Switched::No, ..case.observed.link(&unit).unwrap().clone() };
    drop(case.observed.set_link(&unit, Some(&link)));
    case.observed.set_port(&unit, None);
    case.touch();
    let (changes, _) = case.round();
    assert_eq!(kinds(&changes), ["set down", "raise next_cfg"]);
    changes.iter().for_each(|change| case.apply(change));
    assert_eq!(kinds(&case.settle()), ["plug"]);
    let link = ObservedLink { switched: Switched::Port, ..case.observed.link(&unit).unwrap().clone() };
    drop(case.observed.set_link(&unit, Some(&link)));
    case.touch();
    assert_eq!(kinds(&case.settle()), ["set up"]);
    case.holders.clear();
    case.reconciler.removed(unit.clone());
    assert_eq!(kinds(&case.settle()), ["remove link", "unplug"]);

    // An agent that has not seen the bridge yet does not know what would see what comes in by a link.
    let mut case = self::case(Some(Tap::default()));
    case.observed.set_datapath(Some(Datapath::System));
    case.settle();
    let switched = Switched::No;
    let link = ObservedLink { up: false, switched, ..case.observed.link(&unit).unwrap().clone() };
    drop(case.observed.set_link(&unit, Some(&link)));
    case.observed.set_datapath(None);
    case.touch();
    assert_eq!(case.settle(), []);

    // One that the agent was killed after it was made, and whose object is gone by now.
    let mut case = self::case(Some(Tap::default()));
    case.observed.set_datapath(Some(Datapath::System));
    case.holders.clear();
    case.observed.set_unnoted(&tag().link(), Switched::No);
    case.reconciler.removed(tag().link());
    assert_eq!(kinds(&case.settle()), ["remove link"]);
}

#[test]
fn a_link_that_only_the_kernels_datapath_can_remove_is_left_to_it() {
    let mut case = case(None);
    let unit = tag().link();
    case.observed.set_datapath(Some(Datapath::System));
    assert_eq!(kinds(&case.settle()), ["plug", "guard for own, prepare"]);
    // Its port was lost while ovs-vswitchd did not run, and so was the object.
    case.observed.set_port(&unit, None);
    case.holders.clear();
    case.reconciler.removed(unit.clone());
    assert_eq!(case.settle(), []);
    case.link_gone(&unit);
    assert_eq!(case.settle(), []);
    assert!(!case.observed.has(&unit));
}

#[test]
fn whatever_is_killed_in_between_is_finished_by_the_next_one() {
    for tap in [None, Some(Tap::default())] {
        let all = case(tap).settle();
        for killed_after in 0..all.len() {
            let mut case = case(tap);
            let mut applied = Vec::new();
            while applied.len() < killed_after {
                let (changes, _) = case.round();
                // Each of a round by itself, as they would be written.
                for change in changes.into_iter().take(killed_after - applied.len()) {
                    case.apply(&change);
                    applied.push(change);
                }
            }
            // The next one knows what it observes and nothing else, and has not listed anything yet.
            case.reconciler = Reconciler::new(Node);
            case.was_listed = false;
            case.touch();
            assert_eq!(case.round(), (Vec::new(), Vec::new()), "nobody is asked after {applied:?}");
            case.was_listed = true;
            case.touch();
            assert_eq!(kinds(&[applied, case.settle()].concat()), kinds(&all));
        }
    }
}

#[test]
fn nothing_is_made_while_there_are_no_addresses_no_bridge_or_no_mtu() {
    let lock = lock("uplink", UID, "10.0.0.7", 1);
    for tap in [None, Some(Tap::default())] {
        let mut case = case(tap);
        let _ = case.world.delete(&lock);
        assert_eq!(case.settle(), []);
        let _ = case.world.apply(&lock);
        case.mtu = None;
        case.touch();
        assert_eq!(case.settle(), []);
        case.mtu = Some(1342);
        case.observed.set_datapath(None);
        case.touch();
        assert_eq!(case.settle(), [], "nor is a tap made that might need a guard");
        case.observed.set_datapath(Some(Datapath::Netdev));
        case.reconciler.observed([], [Key::Bridge]);
        assert!(kinds(&case.settle()).contains(&"plug"));
        assert!(case.guarded());
    }
}

#[test]
fn an_interface_keeps_the_mtu_that_it_was_made_with_and_follows_its_mac_address() {
    let mut case = case(None);
    case.settle();
    case.mtu = Some(1300);
    case.touch();
    assert_eq!(case.settle(), []);
    // Another address, as after two deciders disagreed.
    let _ = case.world.delete(&lock("uplink", UID, "10.0.0.7", 1));
    case.touch();
    assert_eq!(case.settle(), [], "what there is stays meanwhile");
    let _ = case.world.apply(&lock("uplink", UID, "10.0.0.9", 2));
    case.touch();
    let changes = case.settle();
    let [Change::Correct(_, port)] = &changes[..] else { panic!("{changes:?}") };
    assert_eq!(
        port.internal,
        Some(Internal { mac: Some("0a:58:0a:00:00:09".parse().unwrap()), mtu: Some(1400) })
    );
}

#[test]
fn what_somebody_changed_is_made_again() {
    let mut case = case(None);
    let all = case.settle();
    let unit = tag().link();
    let link = case.observed.link(&unit).unwrap().clone();
    for (loose, expected) in [
        (ObservedLink { up: false, ..link.clone() }, "set up"),
        (ObservedLink { is_strict: false, ..link.clone() }, "guard for own, prepare"),
    ] {
        drop(case.observed.set_link(&unit, Some(&loose)));
        case.touch();
        assert_eq!(kinds(&case.settle()), [expected]);
    }
    // It is gone, or its rules are.
    for guard in [Guard::Absent, Guard::Present(Admits::Nothing)] {
        case.set_guard(&unit, guard);
        case.touch();
        assert_eq!(kinds(&case.settle()), ["guard for own addresses"]);
    }
    // Open vSwitch made the link anew, as after a restart of the node, and the guard of the one before seems to be there.
    case.link_made(&unit);
    assert!(case.observed.is_guarded(&unit));
    assert_eq!(kinds(&case.settle()), ["guard for own, prepare"]);
    // Its database was lost.
    case.observed.set_port(&unit, None);
    case.touch();
    let changes = case.settle();
    assert_eq!(kinds(&changes)[..2], ["raise next_cfg", "plug"]);
    // Somebody moved the link to another namespace: it goes on there, and nothing of it is here.
    case.link_gone(&unit);
    assert_eq!(case.settle(), []);
    assert_eq!(all.len(), 2);
}

#[test]
fn a_port_goes_when_its_object_was_deleted_and_never_because_a_list_lacks_it() {
    for tap in [None, Some(Tap::default())] {
        let mut case = case(tap);
        case.settle();
        let unit = tag().link();
        // A list lacks it.
        case.holders.clear();
        case.touch();
        let (changes, confirm) = case.round();
        assert_eq!((changes, confirm), (Vec::new(), vec![unit.clone()]));
        let owners = case.reconciler.target().owners(&unit, &case.observed);
        assert_eq!(owners, [UID.into()].into());
        case.reconciler.answered(unit.clone(), owners.clone(), Absence::Refuted);
        assert_eq!(case.settle(), []);
        case.reconciler.retry(unit.clone());
        let _ = case.round();
        case.reconciler.answered(unit.clone(), owners, Absence::Confirmed);
        let changes = case.settle();
        let first = if tap.is_some() { "remove link" } else { "unplug" };
        assert_eq!(kinds(&changes)[0], first);
        assert!(!case.observed.has(&unit), "{changes:?}");
    }
    // An event says so.
    let mut case = case(None);
    case.settle();
    case.holders.clear();
    case.reconciler.removed(tag().link());
    assert_eq!(kinds(&case.settle()), ["unplug"], "Open vSwitch removes its link, and with it its guard");
}

#[test]
fn a_link_that_open_vswitch_did_not_remove_with_its_port_goes_and_a_guard_after_it() {
    let mut case = case(None);
    case.settle();
    let unit = tag().link();
    // Its database was lost while ovs-vswitchd did not run, and so was the object.
    case.observed.set_port(&unit, None);
    case.holders.clear();
    case.reconciler.removed(unit.clone());
    assert_eq!(kinds(&case.settle()), ["remove link", "remove guard"]);
    case.set_guard(&unit, Guard::Present(Admits::Nothing));
    case.touch();
    assert_eq!(kinds(&case.settle()), ["remove guard"]);
    assert!(!case.observed.has(&unit));
}

#[test]
fn a_note_that_has_no_room_for_the_name_is_as_good_as_one_that_has() {
    let mut case = case(None);
    case.settle();
    let noted = Tag::Holder(HolderTag { name: None, ..tag() });
    let link = ObservedLink { tag: noted, ..case.observed.link(&tag().link()).unwrap().clone() };
    drop(case.observed.set_link(&tag().link(), Some(&link)));
    case.touch();
    assert_eq!(case.settle(), []);
}

#[test]
fn what_cannot_be_understood_keeps_what_it_has() {
    let mut case = case(None);
    case.settle();
    let mut invalid = object(None);
    invalid.spec.address = Some("10.0.0.300".into());
    let _ = case.world.apply(&invalid);
    case.touch();
    assert_eq!(case.settle(), []);
    // One of the same name with another UID has another link; the first one's goes by its own deletion.
    let mut again = object(None);
    again.metadata.uid = Some("again".into());
    let _ = case.world.apply(&again);
    case.touch();
    assert_eq!(case.settle(), []);
    assert_ne!(LinkName::of_attachment("again"), tag().link());
}

#[test]
fn a_change_of_one_of_many_plans_that_one_alone() {
    let mut case = case(None);
    for number in 0..200 {
        let (name, uid) = (format!("port-{number}"), format!("uid-{number}"));
        let mut object = mk_network_attachment("default", &name, "sea");
        object.metadata.uid = Some(uid.clone());
        let _ = case.world.apply(&object);
        let _ = case.world.apply(&lock(&name, &uid, &format!("10.0.0.{}", 20 + number), 10 + number));
        let tag = HolderTag::of_attachment("default", &name, &uid);
        case.reconciler.changed(tag.link(), Urgency::Immediate);
        case.holders.insert(tag.link(), tag);
    }
    let (changes, _) = case.round();
    assert_eq!(changes.len(), 201);
    // All links are reported, and so on.
    for change in &changes {
        case.observed.set_guard(change.unit(), Guard::Present(Admits::OwnAddresses));
        case.apply(change);
    }
    let mut rounds = 0;
    while !case.round().0.is_empty() {
        rounds += 1;
        let tags: Vec<_> = case.holders.values().cloned().collect();
        for tag in tags {
            let link = tag.link();
            let (tag, pod_end, switched) = (Tag::Holder(tag), PodEnd::InSandbox, Switched::No);
            let is = ObservedLink { index: 7, tag, up: true, is_strict: true, pod_end, switched };
            drop(case.observed.set_link(&link, Some(&is)));
        }
        assert!(rounds < 5);
    }
    case.planned = 0;
    case.touch();
    assert_eq!(case.settle(), []);
    assert_eq!(case.planned, 1);
}
