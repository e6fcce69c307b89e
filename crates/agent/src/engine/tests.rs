use std::collections::{BTreeMap, BTreeSet};

use portolan_model::{Settings, World};
use portolan_plan::host::{
    Admits, Change, Datapath, FormerLink, Function, Guard, HolderTag, Internal, LinkName, Note, ObservedLink,
    ObservedPort, PodEnd, Sandbox, Switched, Tag, Use,
};
use portolan_plan::reconciler::Absence;

use super::*;
use crate::cluster::Known;
use crate::guard_news::Serial;

fn link(note: Note) -> ObservedLink {
    let (tag, pod_end, switched) = (Tag::Sandbox(note), PodEnd::InSandbox, Switched::No);
    ObservedLink { index: 7, tag, up: true, is_strict: false, pod_end, switched }
}

fn known() -> Known {
    let world = World::new(Settings::default());
    Known { world, ..Known::default() }
}

/// What a round changes, if everything succeeds.
fn changes(engine: &Engine) -> Vec<Change> {
    let changes = engine.reconcile(&known(), Some(1400)).changes;
    for change in &changes {
        engine.applied(change);
    }
    engine.settled(changes.iter().map(Change::unit));
    engine.round_ended();
    changes
}

#[test]
fn the_guard_of_a_link_that_is_being_made_is_no_leftover() {
    let engine = Engine::new();
    let sandbox = Sandbox { container: "cafe01".into(), call: "eth0".into() };
    let name = sandbox.link("eth0");
    engine.bridge_changed(Some(Datapath::Netdev));
    engine.links_listed(&BTreeMap::new(), &BTreeMap::new());
    let changes = || changes(&engine);
    // A round between the guard and the note must not take the guard away: frames would reach the host's stack.
    engine.making(&name, &sandbox);
    engine.guard_reported(&name, Guard::Present(Admits::Nothing));
    assert_eq!(changes(), []);
    engine.compare_all();
    assert_eq!(changes(), []);
    let note = Note {
        sandbox: sandbox.clone(),
        interface: "eth0".into(),
        pod_uid: None,
        network: String::new(),
        function: None,
    };
    engine.link_changed(&name, Some(&link(note)));
    assert_eq!(changes(), []);
    assert!(engine.observed(|observed| observed.is_guarded(&name)));

    // A guard whose link was not made, or is gone, goes.
    engine.end(&sandbox);
    assert_eq!(changes(), [Change::RemoveLink(name.clone()), Change::RemoveGuard(name.clone())]);
    engine.link_changed(&name, None);
    engine.making(&name, &sandbox);
    engine.guard_reported(&name, Guard::Present(Admits::Nothing));
    engine.not_made(&name);
    assert_eq!(changes(), [Change::RemoveGuard(name)]);
}

#[test]
fn a_link_without_a_note_goes_unless_a_call_is_making_it() {
    let engine = Engine::new();
    let sandbox = Sandbox { container: "cafe01".into(), call: "eth0".into() };
    // An interface that the call does not name: nothing but its note would say whose it is.
    let name = sandbox.link("net1");
    engine.bridge_changed(Some(Datapath::Netdev));
    // Left by an agent that was killed between link and note.
    engine.links_listed(&BTreeMap::new(), &[(name.clone(), Switched::No)].into());
    assert_eq!(changes(&engine), [Change::RemoveLink(name.clone())]);
    engine.link_changed(&name, None);

    engine.making(&name, &sandbox);
    engine.unnoted_link(&name, Switched::No);
    engine.links_listed(&BTreeMap::new(), &[(name.clone(), Switched::No)].into());
    engine.compare_all();
    assert_eq!(changes(&engine), []);
    // It could not be made, and its maker could not remove it.
    engine.not_made(&name);
    assert_eq!(changes(&engine), [Change::RemoveLink(name.clone())]);
    engine.link_changed(&name, None);
    // Its maker hangs, and the call was given up.
    engine.making(&name, &sandbox);
    engine.unnoted_link(&name, Switched::No);
    engine.end(&sandbox);
    assert_eq!(changes(&engine), [Change::RemoveLink(name.clone())]);
    engine.link_changed(&name, None);

    // Somebody removes the note of a link that is in use.
    engine.begin(&sandbox);
    let note =
        Note { sandbox, interface: "net1".into(), pod_uid: None, network: String::new(), function: None };
    engine.link_changed(&name, Some(&link(note)));
    engine.guard_reported(&name, Guard::Present(Admits::Nothing));
    engine.unnoted_link(&name, Switched::No);
    engine.links_listed(&BTreeMap::new(), &[(name, Switched::No)].into());
    assert_eq!(changes(&engine), []);
}

#[test]
fn a_port_of_the_node_goes_by_an_event_at_once_and_otherwise_once_a_read_confirms_it() {
    let unit = LinkName::of_attachment("7");
    let tag = Tag::Holder(HolderTag::of_attachment("default", "uplink", "7"));
    let plugged = || {
        let engine = Engine::new();
        engine.bridge_changed(Some(Datapath::Netdev));
        let link = ObservedLink {
            index: 7,
            tag: tag.clone(),
            up: true,
            is_strict: true,
            pod_end: PodEnd::InSandbox,
            switched: Switched::No,
        };
        engine.links_listed(&[(unit.clone(), link)].into(), &BTreeMap::new());
        engine.guard_reported(&unit, Guard::Present(Admits::Nothing));
        let internal = Some(Internal { mac: None, mtu: None });
        let (pod, iface_id) = (String::new(), None);
        engine.port_changed(&unit, Some(ObservedPort { tag: tag.clone(), pod, iface_id, internal }));
        engine
    };
    let mut listed = known();
    listed.holders.replace([]);

    // While nothing was listed nobody knows, and nobody is asked.
    let engine = plugged();
    let work = engine.reconcile(&known(), Some(1400));
    assert_eq!((work.changes, work.confirm), (Vec::new(), Vec::new()));
    // A list that lacks it is a reason to ask; the link is there all the while.
    engine.holders_listed(BTreeSet::new());
    let work = engine.reconcile(&listed, Some(1400));
    assert_eq!(work.changes, []);
    let [asked] = work.confirm.try_into().unwrap();
    let name = Some(("default".to_owned(), "uplink".to_owned()));
    let expected =
        OwnerOfUnit { unit: unit.clone(), kind: OwnerKind::NetworkAttachment, name, uid: "7".into() };
    assert_eq!(asked, expected);
    engine.answered(unit.clone(), "7", Absence::Confirmed);
    assert_eq!(engine.reconcile(&listed, Some(1400)).changes, [Change::Unplug(unit.clone())]);

    // An event is an answer.
    let engine = plugged();
    engine.holder_deleted(&unit, "7");
    assert_eq!(engine.reconcile(&listed, Some(1400)).changes, [Change::Unplug(unit)]);
}

#[test]
fn why_the_first_thing_of_a_port_cannot_be_made_is_known_as_long_as_it_is_asked_for() {
    let (engine, unit) = (Engine::new(), LinkName::of_attachment("7"));
    let [name, namespace, uid] = ["vm", "default", "7"].map(|text| Some(text.to_owned()));
    let metadata = kube::core::ObjectMeta { name, namespace, uid, ..Default::default() };
    let mut known = known();
    known.holders.replace([(&metadata, None)]);
    engine.failed(&unit, Failure::Refused, "the name is taken".into());
    engine.round_ended();
    engine.reconcile(&known, Some(1400));
    assert_eq!(engine.failure(&unit).as_deref(), Some("the name is taken"));
    known.holders.delete(&metadata);
    engine.reconcile(&known, Some(1400));
    assert_eq!(engine.failure(&unit), None);
}

#[test]
fn a_link_without_a_note_is_no_leftover_before_its_port_could_be_seen() {
    let (engine, unit) = (Engine::new(), LinkName::of_attachment("7"));
    let mut listed = known();
    listed.holders.replace([]);
    engine.links_listed(&BTreeMap::new(), &[(unit.clone(), Switched::No)].into());
    engine.holders_listed(BTreeSet::new());
    assert_eq!(engine.reconcile(&listed, Some(1400)).changes, []);
    engine.ports_observed(1);
    engine.compare_all();
    assert_eq!(engine.reconcile(&listed, Some(1400)).changes, [Change::RemoveLink(unit)]);
}

/// A kernel with one link, and what the agent has under way.
struct Guards {
    engine: Engine,
    link: LinkName,
    /// Whether the link has its guard.
    is_guarded: bool,
    /// The queue of notifications, which has room for one.
    queue: Vec<Guard>,
    overflowed: bool,
    /// A listing: when it began, and what it has read.
    listing: Option<(Serial, Option<BTreeMap<LinkName, Admits>>)>,
    /// A guard that the agent makes: when it began, and whether the kernel has it.
    making: Option<(Serial, bool)>,
    /// How often somebody else still changes the guard, and how often the agent still makes it.
    left: (usize, usize),
}

/// Something that may happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Happens {
    SomebodyRemovesOrMakesIt,
    BeginsToMakeIt,
    MakesIt,
    ReportsItMade,
    ReadsNotifications,
    Lists,
    ReportsTheList,
}

impl Guards {
    fn new() -> Self {
        let (engine, link) = (Engine::new(), LinkName::new("cafe01", "eth0"));
        let began = engine.begin_guard_listing().expect("nothing was listed yet");
        Self {
            engine,
            link,
            is_guarded: false,
            queue: Vec::new(),
            overflowed: false,
            listing: Some((began, None)),
            making: None,
            left: (3, 1),
        }
    }

    fn set(&mut self, is_guarded: bool) {
        self.is_guarded = is_guarded;
        match self.queue[..] {
            [] if !self.overflowed => {
                self.queue.push(if is_guarded { Guard::Present(Admits::Nothing) } else { Guard::Absent });
            }
            _ => self.overflowed = true,
        }
    }

    fn possible(&self) -> Vec<Happens> {
        let possible = [
            (self.left.0 > 0, Happens::SomebodyRemovesOrMakesIt),
            (self.left.1 > 0 && self.making.is_none(), Happens::BeginsToMakeIt),
            (self.making.is_some_and(|(_, made)| !made), Happens::MakesIt),
            (self.making.is_some_and(|(_, made)| made), Happens::ReportsItMade),
            (self.overflowed || !self.queue.is_empty(), Happens::ReadsNotifications),
            (self.listing.as_ref().is_some_and(|(_, read)| read.is_none()), Happens::Lists),
            (self.listing.as_ref().is_some_and(|(_, read)| read.is_some()), Happens::ReportsTheList),
        ];
        possible.into_iter().filter_map(|(is_possible, what)| is_possible.then_some(what)).collect()
    }

    fn happens(&mut self, what: Happens) {
        match what {
            Happens::SomebodyRemovesOrMakesIt => {
                self.left.0 -= 1;
                self.set(!self.is_guarded);
            }
            Happens::BeginsToMakeIt => {
                self.left.1 -= 1;
                self.engine.making(&self.link, &Sandbox { container: "cafe01".into(), call: "eth0".into() });
                self.making = Some((self.engine.before_guard(), false));
            }
            Happens::MakesIt => {
                self.making.as_mut().expect("it is being made").1 = true;
                if !self.is_guarded {
                    self.set(true);
                }
            }
            Happens::ReportsItMade => {
                let (since, _) = self.making.take().expect("it was made");
                self.engine.guard_made(&self.link, Admits::Nothing, since);
            }
            // As the loop does: all that there is, and a listing if that is not all that happened.
            Happens::ReadsNotifications => {
                if std::mem::take(&mut self.overflowed) {
                    self.queue.clear();
                    self.engine.guard_reports_lost();
                }
                for guard in self.queue.drain(..) {
                    self.engine.guard_reported(&self.link, guard);
                }
            }
            Happens::Lists => {
                let listing = self.listing.as_mut().expect("a listing is under way");
                let guard = self.is_guarded.then(|| (self.link.clone(), Admits::Nothing));
                listing.1 = Some(guard.into_iter().collect());
            }
            Happens::ReportsTheList => {
                let (began, guards) = self.listing.take().expect("a listing is under way");
                self.engine.guards_listed(began, &guards.expect("it was read"));
            }
        }
        self.engine.round_ended();
        if let Some(began) = self.engine.begin_guard_listing() {
            self.listing = Some((began, None));
        }
    }
}

/// Whatever the order in which guards are made, removed, listed and reported, and whatever the kernel loses: in the end the engine knows
/// whether a link has its guard. All orders are tried.
#[test]
fn no_old_news_of_a_guard_wins_over_newer() {
    let (mut choices, mut orders, mut losses): (Vec<usize>, u64, u64) = (Vec::new(), 0, 0);
    loop {
        let (mut guards, mut at, mut happened) = (Guards::new(), 0, Vec::new());
        let mut widths = Vec::new();
        loop {
            let possible = guards.possible();
            if possible.is_empty() {
                break;
            }
            let choice = choices.get(at).copied().unwrap_or_default();
            widths.push((choice, possible.len()));
            losses += u64::from(possible[choice] == Happens::ReadsNotifications && guards.overflowed);
            happened.push(possible[choice]);
            guards.happens(possible[choice]);
            at += 1;
        }
        let known = guards.engine.observed(|observed| observed.is_guarded(&guards.link));
        assert_eq!(known, guards.is_guarded, "after {happened:?}");
        orders += 1;
        // The next order: the last choice that can be another one is.
        while widths.last().is_some_and(|(choice, width)| choice + 1 == *width) {
            widths.pop();
        }
        let Some((choice, _)) = widths.last_mut() else { break };
        *choice += 1;
        choices = widths.into_iter().map(|(choice, _)| choice).collect();
    }
    assert!(orders > 10_000 && losses > 10_000, "{orders} orders with {losses} losses");
}

#[test]
fn a_representor_that_a_call_is_making_is_left_alone_until_its_note_was_seen_and_the_call_is_done() {
    let former = |name: &str| FormerLink { name: name.into(), settings: None };
    let (representor, link_of_function) = (former("rep0"), Some(former("vf0")));
    let function = Function {
        address: "0000:03:00.2".into(),
        representor,
        link: link_of_function,
        mac: None,
        used: Use::InUse,
    };
    let sandbox = Sandbox { container: "cafe01".into(), call: "net1".into() };
    let note = Note {
        sandbox: sandbox.clone(),
        interface: "net1".into(),
        pod_uid: None,
        network: String::new(),
        function: Some(function),
    };
    let name = note.link();
    let making = || {
        let engine = Engine::new();
        engine.bridge_changed(Some(Datapath::Netdev));
        engine.links_listed(&BTreeMap::new(), &BTreeMap::new());
        engine.making(&name, &sandbox);
        engine
    };
    // The kernel reports the new name before the note; the agent may read that after the call is done.
    let engine = making();
    engine.made(&name);
    engine.unnoted_link(&name, Switched::No);
    assert_eq!(changes(&engine), []);
    engine.link_changed(&name, Some(&link(note.clone())));
    assert_eq!(changes(&engine), [Change::Guard(name.clone(), Admits::Nothing)]);

    let engine = making();
    engine.unnoted_link(&name, Switched::No);
    // Its function is not in the sandbox yet.
    let early = ObservedLink { pod_end: PodEnd::OnNode, ..link(note.clone()) };
    engine.link_changed(&name, Some(&early));
    assert_eq!(changes(&engine), []);
    engine.link_changed(&name, Some(&link(note)));
    assert_eq!(changes(&engine), []);
    engine.made(&name);
    assert_eq!(changes(&engine), [Change::Guard(name.clone(), Admits::Nothing)]);

    // Its sandbox ends.
    engine.end(&sandbox);
    assert!(matches!(&changes(&engine)[..], [Change::Release(unit, _)] if *unit == name));
}

#[test]
fn the_note_of_a_function_that_is_to_come_back_is_evidence_enough_to_remove_its_port() {
    let former = |name: &str| FormerLink { name: name.into(), settings: None };
    let function = Function {
        address: "0000:03:00.2".into(),
        representor: former("rep0"),
        link: Some(former("vf0")),
        mac: None,
        used: Use::Returning,
    };
    let note = Note {
        sandbox: Sandbox { container: "cafe01".into(), call: "net1".into() },
        interface: "net1".into(),
        pod_uid: Some("7".into()),
        network: String::new(),
        function: Some(function),
    };
    let (engine, name) = (Engine::new(), note.link());
    engine.bridge_changed(Some(Datapath::Netdev));
    engine.guard_reported(&name, Guard::Present(Admits::Nothing));
    let (tag, pod) = (Tag::Sandbox(note.clone()), "default/argo".to_owned());
    engine.port_changed(&name, Some(ObservedPort { tag, pod, iface_id: None, internal: None }));
    // The agent was killed between the note and the port.
    engine.links_listed(&[(name.clone(), link(note.clone()))].into(), &BTreeMap::new());
    assert_eq!(
        changes(&engine),
        [Change::Unplug(name.clone()), Change::Release(name.clone(), Box::new(note))]
    );
    engine.port_changed(&name, None);
    assert_eq!(changes(&engine), [], "until the function comes back");
}
