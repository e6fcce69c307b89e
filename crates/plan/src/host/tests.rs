#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

use std::collections::{BTreeMap, BTreeSet};

use portolan_model::fixtures::{mk_lock, mk_pod, mk_subnet, mk_vpc};
use portolan_model::{Settings, World};

use super::*;
use crate::reconciler::Target as _;
use crate::reconciler::{Absence, Reconciler, Urgency};

const UID: &str = "pod-default-argo";

/// A node with everything that its plans depend on.
struct Case {
    world: World,
    pods: BTreeMap<String, (String, String)>,
    ended: BTreeSet<Sandbox>,
    observed: Observed,
    reconciler: Reconciler<Node>,
    configuration: Configuration,
}

/// A node on which pod `argo` has an address; its sandbox is not there yet.
fn case() -> Case {
    let mut world = World::new(Settings::default());
    let _ = world.apply(&mk_vpc("aegean"));
    let _ = world.apply(&mk_subnet("sea", "10.0.0.0/24", "aegean"));
    let _ = world.apply(&mk_pod("default", "argo", &[]));
    let _ = world.apply(&mk_lock("vpc/aegean", "sea", "10.0.0.7", "argo", 1));
    assert_eq!(world.attachments().count(), 1, "the lock is in effect");
    let mut observed = Observed::default();
    observed.set_datapath(Some(Datapath::Netdev));
    Case {
        world,
        pods: BTreeMap::from([(UID.into(), ("default".into(), "argo".into()))]),
        ended: BTreeSet::new(),
        observed,
        reconciler: Reconciler::new(Node),
        configuration: Configuration::default(),
    }
}

fn link(index: u32, note: Note) -> ObservedLink {
    let (tag, pod_end, switched) = (Tag::Sandbox(note), PodEnd::InSandbox, Switched::No);
    ObservedLink { index, tag, up: true, is_strict: false, pod_end, switched }
}

fn note(container: &str) -> Note {
    let sandbox = Sandbox { container: container.into(), call: "eth0".into() };
    Note {
        sandbox,
        interface: "eth0".into(),
        pod_uid: Some(UID.into()),
        network: "portolan".into(),
        function: None,
    }
}

impl Case {
    /// A sandbox's link, guarded, as ADD makes it.
    fn link(&mut self, container: &str, index: u32) -> LinkName {
        let note = note(container);
        let name = note.link();
        self.observed.set_guard(&name, Guard::Present(Admits::Nothing));
        for unit in self.observed.set_link(&name, Some(&link(index, note))) {
            self.reconciler.changed(unit, Urgency::Immediate);
        }
        name
    }

    fn link_gone(&mut self, name: &LinkName) {
        for unit in self.observed.set_link(name, None) {
            self.reconciler.changed(unit, Urgency::Immediate);
        }
    }

    fn configured(&mut self, next: i64, current: i64) {
        self.configuration = Configuration { next, current };
        if self.observed.set_configuration(self.configuration) {
            self.reconciler.observed([], [Key::Removal]);
        }
    }

    fn round(&mut self) -> (Vec<Change>, Vec<LinkName>) {
        let Case { world, pods, ended, observed, reconciler, .. } = self;
        let facts = Facts { observed, world, pods, ended, holders: None, mtu: None };
        let round = reconciler.reconcile(|unit| plan(unit, &facts), observed);
        (round.changes, round.confirm.into_iter().map(|confirm| confirm.unit).collect())
    }

    /// Applies changes as a node does, and answers them.
    fn settle(&mut self) -> Vec<Change> {
        let (changes, _) = self.round();
        for change in &changes {
            let unit = change.unit().clone();
            match change {
                Change::Plug(_, port) | Change::Correct(_, port) => {
                    let DesiredPort { tag, pod, iface_id, internal } = port.clone();
                    self.observed.set_port(&unit, Some(ObservedPort { tag, pod, iface_id, internal }));
                }
                Change::Unplug(_) => self.observed.set_port(&unit, None),
                Change::RaiseNextCfg(_) => {
                    let Configuration { next, current } = self.configuration;
                    self.configured(next + 1, current);
                }
                Change::RemoveLink(_) | Change::Release(..) => drop(self.observed.set_link(&unit, None)),
                Change::MakeTap(..) | Change::Prepare(..) => panic!("calls make the links of sandboxes"),
                Change::Guard(_, admits) => self.observed.set_guard(&unit, Guard::Present(*admits)),
                Change::RemoveGuard(_) => self.observed.set_guard(&unit, Guard::Absent),
                Change::SetUp(_) | Change::SetDown(_) => {
                    let up = matches!(change, Change::SetUp(_));
                    let link = ObservedLink { up, ..self.observed.link(&unit).unwrap().clone() };
                    drop(self.observed.set_link(&unit, Some(&link)));
                }
            }
        }
        changes
    }

    fn touch_all(&mut self) {
        for unit in self.observed.units() {
            self.reconciler.changed(unit, Urgency::Immediate);
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
        Change::Guard(..) => "guard",
        Change::Prepare(..) => "prepare",
        Change::RemoveGuard(_) => "remove guard",
        Change::SetUp(_) => "set up",
        Change::SetDown(_) => "set down",
    };
    changes.iter().map(kind).collect()
}

#[test]
fn a_link_of_a_living_sandbox_gets_its_port_once_its_address_is_known() {
    let mut case = case();
    let lock = mk_lock("vpc/aegean", "sea", "10.0.0.7", "argo", 1);
    let _ = case.world.delete(&lock);
    let name = case.link("cafe01", 5);
    assert_eq!(case.settle(), []);
    let _ = case.world.apply(&lock);
    case.reconciler.changed(name.clone(), Urgency::Immediate);
    let changes = case.settle();
    let [Change::Plug(plugged, port)] = &changes[..] else { panic!("{changes:?}") };
    assert_eq!((plugged, port.pod.as_str()), (&name, "default/argo"));
    assert!(port.iface_id.as_deref().is_some_and(|id| id.starts_with("port:default/argo/eth0/")));
    case.touch_all();
    assert_eq!(case.settle(), [], "planning again changes nothing");
}

#[test]
fn an_open_vswitch_that_lost_its_database_gets_the_ports_of_living_sandboxes_again() {
    let mut case = case();
    let name = case.link("cafe01", 5);
    let first = case.settle();
    case.configured(7, 7);
    // The new one has numbers of its own.
    case.configured(0, 0);
    case.observed.set_port(&name, None);
    case.observed.set_datapath(None);
    case.touch_all();
    assert_eq!(case.settle(), [], "there is no bridge yet");
    case.observed.set_datapath(Some(Datapath::Netdev));
    case.reconciler.observed([], [Key::Bridge]);
    assert_eq!(case.settle(), [Change::RaiseNextCfg(name)]);
    case.configured(1, 1);
    assert_eq!(case.settle(), first);
}

#[test]
fn a_port_that_was_removed_is_made_again_once_ovs_vswitchd_has_seen_that_it_was_gone() {
    let mut case = case();
    let name = case.link("cafe01", 5);
    case.configured(7, 7);
    let first = case.settle();
    // With `ovs-vsctl --no-wait`, which raises nothing.
    case.observed.set_port(&name, None);
    case.touch_all();
    assert_eq!(case.settle(), [Change::RaiseNextCfg(name.clone())]);
    case.touch_all();
    assert_eq!(case.settle(), [], "it is raised already");
    // A database that is lost meanwhile has numbers of its own.
    case.configured(0, 0);
    case.touch_all();
    assert_eq!(case.settle(), [Change::RaiseNextCfg(name.clone())]);
    case.configured(2, 0);
    assert_eq!(case.settle(), [], "somebody else has raised it too");
    case.configured(2, 1);
    assert_eq!(case.settle(), first);

    // The sandbox of a call that is repeated, of another one, and of one that ends meanwhile.
    case.ended.insert(note("cafe01").sandbox);
    case.reconciler.removed(name.clone());
    assert_eq!(kinds(&case.settle()), ["unplug", "remove link", "remove guard"]);
    case.ended.clear();
    let _ = case.link("cafe01", 6);
    let other = case.link("cafe02", 7);
    let changes = case.settle();
    assert!(changes.contains(&Change::RaiseNextCfg(name.clone())), "{changes:?}");
    let plugged: Vec<_> = changes.iter().filter(|one| matches!(one, Change::Plug(..))).collect();
    assert!(
        matches!(plugged[..], [Change::Plug(unit, _)] if *unit == other),
        "others do not wait: {changes:?}"
    );
    case.ended.insert(note("cafe01").sandbox);
    case.reconciler.removed(name.clone());
    assert_eq!(kinds(&case.settle()), ["remove link", "remove guard"]);
    case.configured(3, 3);
    assert_eq!(case.settle(), []);
    assert_eq!(case.observed.removal(&name), None);
}

#[test]
fn a_port_whose_namespace_is_gone_stays_while_its_pod_is_known() {
    let mut case = case();
    let name = case.link("cafe01", 5);
    case.settle();
    case.link_gone(&name);
    assert_eq!(case.settle(), []);
    assert!(case.observed.port(&name).is_some());
}

#[test]
fn a_port_whose_namespace_is_gone_and_whose_pod_is_missing_goes_only_after_a_live_read() {
    let mut case = case();
    let name = case.link("cafe01", 5);
    case.settle();
    case.link_gone(&name);
    case.pods.clear();
    case.reconciler.changed(name.clone(), Urgency::Immediate);
    let (changes, confirm) = case.round();
    assert_eq!((changes, confirm), (Vec::new(), vec![name.clone()]));
    let owners = case.reconciler.target().owners(&name, &case.observed);
    case.reconciler.answered(name.clone(), owners, Absence::Confirmed);
    assert_eq!(kinds(&case.settle()), ["unplug", "remove guard"]);
    assert!(!case.observed.has(&name));
}

#[test]
fn a_port_stays_while_its_link_exists_whatever_becomes_of_its_pod() {
    let mut case = case();
    let name = case.link("cafe01", 5);
    case.settle();
    case.pods.clear();
    let _ = case.world.delete(&mk_pod("default", "argo", &[]));
    case.reconciler.removed(name.clone());
    assert_eq!(case.settle(), []);
    assert!(case.observed.port(&name).is_some());
}

#[test]
fn what_an_ended_sandbox_had_goes_port_first_and_guard_last() {
    let mut case = case();
    let name = case.link("cafe01", 5);
    case.settle();
    case.ended.insert(note("cafe01").sandbox);
    case.reconciler.removed(name.clone());
    assert_eq!(kinds(&case.settle()), ["unplug", "remove link", "remove guard"]);
    assert!(!case.observed.has(&name));
}

#[test]
fn the_newest_sandbox_of_a_pod_has_the_iface_id() {
    let mut case = case();
    let old = case.link("cafe01", 5);
    case.settle();
    let new = case.link("cafe02", 9);
    let changes = case.settle();
    let iface_id = |name: &LinkName| case.observed.port(name).and_then(|port| port.iface_id.clone());
    assert_eq!((kinds(&changes).len(), iface_id(&old)), (2, None), "{changes:?}");
    assert!(iface_id(&new).is_some());
    // The newer one ends; the older one, whose namespace still lives, has it again.
    case.link_gone(&new);
    case.settle();
    assert!(case.observed.port(&old).unwrap().iface_id.is_some());
}

#[test]
fn a_guard_that_has_outlived_its_link_goes_and_a_missing_one_comes_back() {
    let mut case = case();
    let leftover = LinkName::new("cafe99", "eth0");
    case.observed.set_guard(&leftover, Guard::Present(Admits::Nothing));
    let name = case.link("cafe01", 5);
    case.observed.set_guard(&name, Guard::Absent);
    case.touch_all();
    let changes = case.settle();
    assert!(changes.contains(&Change::RemoveGuard(leftover)), "{changes:?}");
    assert!(changes.contains(&Change::Guard(name, Admits::Nothing)), "{changes:?}");
}

#[test]
fn notes_are_read_back_as_they_were_written() {
    for (uid, network) in [(Some("7"), "portolan"), (None, ""), (Some("7"), "a name with spaces")] {
        let note = Note { pod_uid: uid.map(str::to_owned), network: network.into(), ..note("cafe01") };
        assert_eq!(note.to_string().parse(), Ok(note));
    }
    let long = Note { network: "n".repeat(300), ..note(&"c".repeat(128)) };
    assert!(long.to_string().len() <= 255);
    assert_eq!(long.to_string().parse(), Ok(Note { network: String::new(), ..long }));
    let of_node = HolderTag::of_attachment("default", "uplink", "7");
    assert_eq!(of_node.to_string().parse(), Ok(Tag::Holder(of_node.clone())));
    let long = HolderTag::of_attachment("default", &"n".repeat(253), "7");
    assert!(long.to_string().len() <= 255);
    assert_eq!(long.to_string().parse(), Ok(Tag::Holder(HolderTag { name: None, ..long.clone() })));
    assert_eq!(Tag::Holder(long.clone()).link(), Tag::Holder(of_node).link(), "a function of the UID");
    for other in ["portolan-holder", "portolan-holder Pod 7", "portolan-holder NetworkAttachment  a/b"] {
        assert!(other.parse::<Tag>().is_err(), "{other:?}");
    }
    for other in ["", "portolan", "portolan a b c", "docker0", "portolan  eth0 net1 7"] {
        assert!(other.parse::<Note>().is_err(), "{other:?}");
    }
}

#[test]
fn a_link_has_a_name_of_its_own() {
    let name = LinkName::new("cafe01", "net1");
    assert_eq!(name.as_str().len(), 14);
    assert_eq!(LinkName::parse(name.as_str()), Some(name.clone()));
    assert_ne!(name, LinkName::new("cafe01", "eth0"));
    let of_node = LinkName::of_attachment("7");
    assert_eq!(LinkName::parse(of_node.as_str()), Some(of_node.clone()));
    assert_eq!((name.is_of_holder(), of_node.is_of_holder()), (false, true));
    for other in ["pn", "pt", "pt0", "eth0", "ptz123456789ab", "pt0123456789abc"] {
        assert_eq!(LinkName::parse(other), None, "{other}");
    }
}

#[test]
fn a_link_that_somebody_set_down_is_guarded_and_then_set_up() {
    let mut case = case();
    let name = case.link("cafe01", 5);
    case.settle();
    let down = ObservedLink { up: false, ..case.observed.link(&name).unwrap().clone() };
    case.observed.set_link(&name, Some(&down));
    case.observed.set_guard(&name, Guard::Absent);
    case.touch_all();
    assert_eq!(kinds(&case.settle()), ["guard", "set up"]);
    case.touch_all();
    assert_eq!(case.settle(), []);
}

#[test]
fn in_the_kernels_datapath_the_link_of_a_sandbox_is_up_only_as_long_as_it_is_a_port_and_goes_before_its_port()
{
    for function in [false, true] {
        let mut case = case();
        case.observed.set_datapath(Some(Datapath::System));
        let note = if function { noted_function("cafe01", Some("enp3s0f0v0")) } else { note("cafe01") };
        let (name, sandbox) = (note.link(), note.sandbox.clone());
        let is = move |case: &mut Case, up, switched| {
            let link = ObservedLink { up, switched, ..link(5, note.clone()) };
            drop(case.observed.set_link(&note.link(), Some(&link)));
            case.touch_all();
        };
        // As ADD leaves it.
        is(&mut case, false, Switched::No);
        assert_eq!(kinds(&case.settle()), ["plug"], "nothing guards it before it is a port");
        is(&mut case, false, Switched::Port);
        assert_eq!(kinds(&case.settle()), ["set up"]);
        // Somebody removes the port, or Open vSwitch has lost its database: what the pod sends would reach the node.
        case.observed.set_port(&name, None);
        is(&mut case, true, Switched::No);
        assert_eq!(kinds(&case.settle()), ["set down", "raise next_cfg"]);
        case.configured(1, 1);
        assert_eq!(kinds(&case.settle()), ["plug"]);
        is(&mut case, false, Switched::Port);
        assert_eq!(kinds(&case.settle()), ["set up"]);
        // Before the bridge is seen nobody knows what sees what comes in by a link.
        case.observed.set_datapath(None);
        is(&mut case, true, Switched::No);
        assert_eq!(case.settle(), []);
        case.observed.set_datapath(Some(Datapath::System));
        is(&mut case, true, Switched::Port);
        assert_eq!(case.settle(), []);

        case.ended.insert(sandbox);
        case.reconciler.removed(name.clone());
        let expected: &[_] = if function { &["unplug", "release"] } else { &["remove link"] };
        assert_eq!(kinds(&case.settle()), expected);
        case.reconciler.removed(name.clone());
        let expected: &[_] = if function { &[] } else { &["unplug"] };
        assert_eq!(kinds(&case.settle()), expected);
        assert!(!case.observed.has(&name));
    }
}

#[test]
fn a_link_without_a_note_goes_unless_it_has_a_port_or_had_a_note() {
    let mut case = case();
    let name = case.link("cafe01", 5);
    case.settle();
    // Somebody removes the note of a link that is in use; then the agent is started again.
    case.observed.set_unnoted(&name, Switched::No);
    case.reconciler.removed(name.clone());
    assert_eq!(case.settle(), []);
    case.link_gone(&name);
    case.observed.set_unnoted(&name, Switched::No);
    case.reconciler.removed(name.clone());
    assert_eq!(case.settle(), []);

    let interrupted = LinkName::new("cafe02", "net1");
    case.observed.set_unnoted(&interrupted, Switched::No);
    case.observed.set_guard(&interrupted, Guard::Present(Admits::Nothing));
    case.reconciler.removed(interrupted.clone());
    assert_eq!(kinds(&case.settle()), ["remove link", "remove guard"]);
    assert!(!case.observed.has(&interrupted));
}

#[test]
fn what_a_call_made_is_found_by_its_sandbox_and_its_pod_whatever_comes_and_goes() {
    let mut observed = Observed::default();
    let sandboxes =
        ["cafe01", "cafe02"].map(|container| Sandbox { container: container.into(), call: "eth0".into() });
    // Every order of a few changes of links and ports, by the digits of a number.
    for number in 0..4096_u32 {
        let digit = number.wrapping_mul(2_654_435_761) >> 7;
        let sandbox = sandboxes[usize::try_from(digit % 2).unwrap()].clone();
        let interface = ["eth0", "net1", "net2"][usize::try_from(digit / 2 % 3).unwrap()];
        // Of an interface that the call names, or of one besides; somebody may have changed a note.
        let call = ["eth0", "net1"][usize::try_from(digit / 6 % 2).unwrap()];
        let name = sandbox.link(interface);
        let noted = Sandbox { call: call.into(), ..sandbox };
        let note = Note {
            sandbox: noted,
            interface: interface.into(),
            // A static pod's is not known at first.
            pod_uid: [Some("1"), Some("2"), None][usize::try_from(digit / 60 % 3).unwrap()]
                .map(str::to_owned),
            network: String::new(),
            function: None,
        };
        match digit / 12 % 5 {
            0 => drop(observed.set_link(&name, Some(&link(number, note)))),
            1 => drop(observed.set_link(&name, None)),
            2 => {
                let (tag, pod) = (Tag::Sandbox(note), String::new());
                observed.set_port(&name, Some(ObservedPort { tag, pod, iface_id: None, internal: None }));
            }
            3 => observed.set_port(&name, None),
            _ => observed.set_unnoted(&name, Switched::No),
        }
        for uid in ["1", "2"] {
            let is_of = |unit: &LinkName| {
                let tags =
                    [observed.link(unit).map(|link| &link.tag), observed.port(unit).map(|port| &port.tag)];
                tags.into_iter().flatten().any(|tag| tag.owner() == Some(uid))
            };
            let expected: BTreeSet<_> = observed.units().into_iter().filter(is_of).collect();
            assert_eq!(observed.units_of_pod(uid), expected, "after change {number}");
        }
        for container in ["cafe01", "cafe02"] {
            for call in ["eth0", "net1"] {
                let sandbox = Sandbox { container: container.into(), call: call.into() };
                let is_of = |unit: &LinkName| {
                    let is_its = |tag: &Tag| tag.note().is_some_and(|note| note.sandbox == sandbox);
                    let link = observed.link(unit).is_some_and(|link| is_its(&link.tag));
                    let port = observed.port(unit).is_some_and(|port| is_its(&port.tag));
                    link || port || *unit == sandbox.link(call)
                };
                let expected: BTreeSet<_> = observed.units().into_iter().filter(is_of).collect();
                assert_eq!(observed.units_of(&sandbox), expected, "after change {number}");
            }
        }
    }
}

/// A note on the representor of a function that pod `argo` has.
fn noted_function(container: &str, link: Option<&str>) -> Note {
    let former =
        |name: &str, last| FormerLink { name: name.into(), settings: Some(([2, 0, 0, 0, 0, last], 1500)) };
    let link = link.map(|name| former(name, 0x1a));
    let (address, representor) = ("0000:03:00.2".into(), former("enp3s0f0npf0vf0", 0xa));
    Note {
        function: Some(Function { address, representor, link, mac: None, used: Use::InUse }),
        ..note(container)
    }
}

fn returning(note: Note) -> Note {
    let function = note.function.map(|function| Function { used: Use::Returning, ..function });
    Note { function, ..note }
}

impl Case {
    /// A representor, guarded, as ADD leaves it.
    fn representor(&mut self, note: &Note, pod_end: PodEnd) -> LinkName {
        let name = note.link();
        self.observed.set_guard(&name, Guard::Present(Admits::Nothing));
        let link = ObservedLink { pod_end, ..link(5, note.clone()) };
        for unit in self.observed.set_link(&name, Some(&link)) {
            self.reconciler.changed(unit, Urgency::Immediate);
        }
        name
    }
}

#[test]
fn the_representor_of_an_ended_sandbox_is_released_and_never_removed() {
    let mut case = case();
    let note = noted_function("cafe01", Some("enp3s0f0v0"));
    let name = case.representor(&note, PodEnd::InSandbox);
    assert_eq!(kinds(&case.settle()), ["plug"]);
    case.ended.insert(note.sandbox.clone());
    case.reconciler.removed(name.clone());
    let changes = case.settle();
    assert_eq!(kinds(&changes), ["unplug", "release"]);
    assert!(changes.contains(&Change::Release(name.clone(), Box::new(note.clone()))));
    case.touch_all();
    assert_eq!(kinds(&case.settle()), ["remove guard"], "once no link needs it");

    // The card was reset, which makes representors anew: the port still says what the function was called.
    let port = ObservedPort { tag: Tag::Sandbox(note), pod: String::new(), iface_id: None, internal: None };
    case.observed.set_port(&name, Some(port));
    case.reconciler.removed(name);
    assert_eq!(kinds(&case.settle()), ["unplug", "release"]);
}

#[test]
fn a_function_that_is_back_on_the_node_ends_its_port_as_a_link_that_is_gone_does() {
    let mut case = case();
    let note = noted_function("cafe01", Some("enp3s0f0v0"));
    let name = case.representor(&note, PodEnd::InSandbox);
    case.settle();
    case.representor(&note, PodEnd::OnNode);
    let down = ObservedLink { up: false, ..case.observed.link(&name).unwrap().clone() };
    case.observed.set_link(&name, Some(&down));
    case.touch_all();
    assert_eq!(case.settle(), [], "the runtime may be about to make the sandbox again");
    case.pods.clear();
    case.touch_all();
    assert_eq!(case.round(), (Vec::new(), vec![name.clone()]), "only after a live read");
    let owners = case.reconciler.target().owners(&name, &case.observed);
    case.reconciler.answered(name, owners, Absence::Confirmed);
    assert_eq!(kinds(&case.settle()), ["unplug", "release"]);
}

#[test]
fn a_function_without_a_link_is_in_use_as_long_as_its_pod_is_known() {
    let mut case = case();
    let name = case.representor(&noted_function("cafe01", None), PodEnd::InSandbox);
    assert_eq!(kinds(&case.settle()), ["plug"]);
    case.pods.clear();
    case.touch_all();
    assert_eq!(case.round(), (Vec::new(), vec![name]));
}

#[test]
fn a_function_that_comes_back_later_leaves_its_representor_alone_until_it_does() {
    let mut case = case();
    let note = returning(noted_function("cafe01", Some("enp3s0f0v0")));
    let name = case.representor(&note, PodEnd::InSandbox);
    let down = ObservedLink { up: false, ..case.observed.link(&name).unwrap().clone() };
    case.observed.set_link(&name, Some(&down));
    case.touch_all();
    assert_eq!(case.settle(), []);
    assert!(case.observed.is_returning(&name));
    assert_eq!(case.observed.links_of_pod(UID, "eth0").count(), 0, "it takes the iface-id from no other");
    case.representor(&note, PodEnd::OnNode);
    case.reconciler.removed(name);
    assert_eq!(kinds(&case.settle()), ["release"]);
}

#[test]
fn a_port_of_a_function_that_is_to_come_back_goes_though_its_pod_is_known() {
    let mut case = case();
    let note = noted_function("cafe01", Some("enp3s0f0v0"));
    let name = case.representor(&note, PodEnd::InSandbox);
    case.settle();
    // The agent was killed after it had written the note, which says that the sandbox was ended.
    case.representor(&returning(note), PodEnd::InSandbox);
    case.reconciler.removed(name.clone());
    assert_eq!(kinds(&case.settle()), ["unplug", "release"]);
    assert!(case.observed.port(&name).is_none());
}

#[test]
fn notes_of_functions_are_read_back_and_always_have_the_names_that_links_had() {
    let note = noted_function("cafe01", Some("enp3s0f0v0"));
    assert_eq!(
        note.to_string(),
        format!(
            "portolan/0000:03:00.2/enp3s0f0npf0vf0:02000000000a:1500/enp3s0f0v0:02000000001a:1500 cafe01 eth0 eth0 {UID} portolan"
        )
    );
    for note in [note.clone(), returning(note.clone()), noted_function("cafe01", None)] {
        assert_eq!(note.to_string().parse(), Ok(note));
    }
    let mut without_link = noted_function("cafe01", None);
    without_link.function.as_mut().unwrap().mac = Some([2, 0, 0, 0, 0, 0x1a]);
    assert!(
        without_link
            .to_string()
            .starts_with("portolan/0000:03:00.2/enp3s0f0npf0vf0:02000000000a:1500/:02000000001a ")
    );
    assert_eq!(without_link.to_string().parse(), Ok(without_link));
    // Everything as long as it can be.
    let function = Function {
        address: "10000:03:00.2".into(),
        representor: FormerLink { name: "r".repeat(15), settings: Some(([2, 0, 0, 0, 0, 0xa], 9_000)) },
        link: Some(FormerLink { name: "v".repeat(15), settings: Some(([2, 0, 0, 0, 0, 0x1a], 9_000)) }),
        mac: None,
        used: Use::Returning,
    };
    let sandbox = Sandbox { container: "c".repeat(128), call: "n".repeat(15) };
    let (interface, pod_uid) = ("n".repeat(15), Some("u".repeat(36)));
    let long = Note { sandbox, interface, pod_uid, network: "sea".into(), function: Some(function.clone()) };
    let text = long.to_string();
    assert!(text.len() <= 255, "{}", text.len());
    let name_of = |link: &FormerLink| FormerLink { settings: None, ..link.clone() };
    let (representor, link) = (name_of(&function.representor), function.link.as_ref().map(name_of));
    let without = Function { representor, link, ..function };
    assert_eq!(text.parse(), Ok(Note { function: Some(without), network: String::new(), ..long }));
    for other in [
        "portolan/ c eth0 net1 7",
        "portolan/0000:03:00.2 c eth0 net1 7",
        "portolan/0000:03:00.2//v c eth0 net1 7",
        "portolan/0000:03:00.2/r/v:02000000001:1 c eth0 net1 7",
        "portolan/0000:03:00.2/r/v:02000000001a c eth0 net1 7",
        "portolan/0000:03:00.2/r/v:0200000001é:1 c eth0 net1 7",
        "portolan/0000:03:00.2/r:02000000001a:x/v c eth0 net1 7",
        "portolan/0000:03:00.2/r/v/w c eth0 net1 7",
        "portolan/0000:03:00.2/r/:0200000000 c eth0 net1 7",
        "portolan/0000:03:00.2/r/: c eth0 net1 7",
        "portolan!0000:03:00.2/r c eth0 net1 7",
        "portolans c eth0 net1 7",
    ] {
        assert!(other.parse::<Note>().is_err(), "{other:?}");
    }
}
