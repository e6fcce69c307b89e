//! What should be on the node and what is: the state that the reconcile loop works on. No IO and no clock.
//!
//! CNI calls, link notifications, Open vSwitch and the watches of the cluster all report here; [`Engine::reconcile`] answers what has to
//! change. See [`portolan_plan::host`] for the rules.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use portolan_plan::host::{
    Change, Datapath, Facts, Guard, Key, LinkName, Node, Note, Observed, ObservedLink, ObservedPort, Preparation,
    Sandbox, Switched, Tag, plan,
};
use portolan_plan::reconciler::{Absence, Plan, Reconciler, Urgency};
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};

use crate::cluster::Known;
use crate::guard_news::{GuardNews, Serial};
use crate::pending::Pending;

/// The engine, shared by CNI calls, watches and the reconcile loop.
pub(crate) struct Engine {
    state: Mutex<State>,
    /// Something is to be compared.
    wake: Notify,
    /// Changes with every round of the loop and everything that is observed.
    revision: watch::Sender<u64>,
    /// Ports of the node itself of which there is news: what they say about themselves may have changed.
    news: Arc<Pending<LinkName>>,
}

struct State {
    observed: Observed,
    guard_news: GuardNews,
    reconciler: Reconciler<Node>,
    /// Sandboxes that the container runtime has ended, until nothing of them is left.
    ended: BTreeSet<Sandbox>,
    /// Links that calls are making, until they are seen. A link is guarded before it has its note: its guard is no leftover meanwhile.
    making: BTreeMap<LinkName, Making>,
    /// UIDs of pods, and of holders of ports of the node itself, that an event reported as deleted, as long as something of them is left.
    deleted: BTreeSet<String>,
    /// Units whose changes are being applied: what is observed of them may be behind.
    applying: BTreeMap<LinkName, Applying>,
    /// How many of these belonged to a sandbox.
    applying_of: BTreeMap<Sandbox, usize>,
    /// Those of them that are to be compared again afterwards.
    held: BTreeSet<LinkName>,
    /// Links were listed.
    listed: bool,
    /// The revision of the copy of Open vSwitch's database up to which ports were observed.
    revision: u64,
    /// Why the last change of a unit failed.
    failures: BTreeMap<LinkName, String>,
    /// How many rounds the loop has made.
    rounds: u64,
    news: Arc<Pending<LinkName>>,
}

/// A link that a call is making.
struct Making {
    sandbox: Sandbox,
    /// Of a representor, which is noted before the call is done with it: the one of the two that has come, as both have to. What the
    /// kernel reports of it before the note may be seen after the call is done.
    half: Option<Half>,
}

/// What has come of a representor that a call is making.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Half {
    /// Its note was seen.
    Noted,
    /// The call is done with it.
    Made,
}

/// A unit whose changes are being applied.
struct Applying {
    /// The sandbox that it belonged to.
    sandbox: Option<Sandbox>,
    since: Serial,
}

/// What one round of the loop has to do.
#[derive(Debug, Default)]
pub(crate) struct Work {
    pub(crate) changes: Vec<Change>,
    /// Objects to be read live, each with the unit that depends on it.
    pub(crate) confirm: Vec<OwnerOfUnit>,
    /// How many units were planned.
    pub(crate) planned: u64,
}

/// The object that a unit belongs to, as the unit's tags have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnerOfUnit {
    pub(crate) unit: LinkName,
    pub(crate) kind: OwnerKind,
    /// Namespace and name, if they are known.
    pub(crate) name: Option<(String, String)>,
    pub(crate) uid: String,
}

/// What kind of object a unit belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnerKind {
    Pod,
    NetworkAttachment,
}

impl Engine {
    pub(crate) fn new() -> Self {
        let news = Arc::<Pending<LinkName>>::default();
        let state = State {
            observed: Observed::default(),
            guard_news: GuardNews::default(),
            reconciler: Reconciler::new(Node),
            ended: BTreeSet::new(),
            making: BTreeMap::new(),
            deleted: BTreeSet::new(),
            applying: BTreeMap::new(),
            applying_of: BTreeMap::new(),
            held: BTreeSet::new(),
            listed: false,
            revision: 0,
            failures: BTreeMap::new(),
            rounds: 0,
            news: Arc::clone(&news),
        };
        Self { state: Mutex::new(state), wake: Notify::new(), revision: watch::Sender::new(0), news }
    }

    /// Ports of the node itself of which there is news.
    pub(crate) fn news(&self) -> &Arc<Pending<LinkName>> {
        &self.news
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) {
        self.wake.notify_one();
        self.revision.send_modify(|revision| *revision += 1);
    }

    /// Waits until something may be to do.
    pub(crate) async fn woken(&self) {
        self.wake.notified().await;
    }

    // What is observed.

    /// A link was seen, or seen to be gone.
    pub(crate) fn link_changed(&self, name: &LinkName, link: Option<&ObservedLink>) {
        self.state().link_changed(name, link);
        self.changed();
    }

    /// A link without a note was seen: one that a call makes, or made before it was interrupted.
    pub(crate) fn unnoted_link(&self, name: &LinkName, switched: Switched) {
        self.state().unnoted_link(name, switched);
        self.changed();
    }

    /// These are all links there are, and those without a note.
    pub(crate) fn links_listed(
        &self,
        links: &BTreeMap<LinkName, ObservedLink>,
        unnoted: &BTreeMap<LinkName, Switched>,
    ) {
        let mut state = self.state();
        let is_gone = |name: &LinkName| !links.contains_key(name) && !unnoted.contains_key(name);
        let gone: Vec<_> = state.observed.units().into_iter().filter(is_gone).collect();
        for name in gone {
            state.link_changed(&name, None);
        }
        for (name, link) in links {
            state.link_changed(name, Some(link));
        }
        for (name, switched) in unnoted {
            state.unnoted_link(name, *switched);
        }
        state.listed = true;
        drop(state);
        self.changed();
    }

    /// Ports were observed up to this revision of the copy of Open vSwitch's database.
    pub(crate) fn ports_observed(&self, revision: u64) {
        self.state().revision = revision;
        self.changed();
    }

    /// Waits until links, and ports up to a revision of the copy of Open vSwitch's database, were observed.
    pub(crate) async fn has_observed(&self, revision: u64) {
        self.wait_for(|state| state.has_observed(revision).then_some(())).await;
    }

    async fn wait_for<T>(&self, mut find: impl FnMut(&mut State) -> Option<T>) -> T {
        let mut revision = self.revision.subscribe();
        loop {
            revision.borrow_and_update();
            if let Some(found) = find(&mut self.state()) {
                return found;
            }
            revision.changed().await.expect("invariant: the engine keeps the sender alive");
        }
    }

    /// A port was seen, or seen to be gone.
    pub(crate) fn port_changed(&self, name: &LinkName, port: Option<ObservedPort>) {
        let mut state = self.state();
        state.observed.set_port(name, port);
        state.touch(name);
        drop(state);
        self.changed();
    }

    /// OVN's bridge was seen with this datapath, or there is none.
    pub(crate) fn bridge_changed(&self, datapath: Option<Datapath>) {
        let mut state = self.state();
        if !state.observed.set_datapath(datapath) {
            return;
        }
        state.reconciler.observed([], [Key::Bridge]);
        state.compare_all();
        drop(state);
        self.changed();
    }

    /// The kernel reported that a link was given its guard, or lost it.
    pub(crate) fn guard_reported(&self, name: &LinkName, guard: Guard) {
        let mut state = self.state();
        state.guard_news.reported(name);
        state.set_guard(name, guard);
        drop(state);
        self.changed();
    }

    /// The kernel lost reports about guards: they are to be listed.
    pub(crate) fn guard_reports_lost(&self) {
        self.state().guard_news.lost();
    }

    /// The moment before a guard is made.
    pub(crate) fn before_guard(&self) -> Serial {
        self.state().guard_news.now()
    }

    /// A guard was made some time since `since`.
    pub(crate) fn guard_made(&self, name: &LinkName, since: Serial) {
        self.state().guard_changed(name, Guard::Present, since);
        self.changed();
    }

    /// Begins a listing of guards, if they are to be listed.
    pub(crate) fn begin_guard_listing(&self) -> Option<Serial> {
        self.state().guard_news.begin_listing()
    }

    /// These were all guards there are, some time since the listing began.
    pub(crate) fn guards_listed(&self, began: Serial, guards: &BTreeSet<LinkName>) {
        let mut state = self.state();
        state.guard_news.listing_ended(began);
        let mut known = state.observed.units();
        known.retain(|name| state.observed.is_guarded(name));
        for name in known.difference(guards) {
            state.guard_changed(name, Guard::Absent, began);
        }
        for name in guards {
            state.guard_changed(name, Guard::Present, began);
        }
        drop(state);
        self.changed();
    }

    /// Reads what is observed.
    pub(crate) fn observed<T>(&self, read: impl FnOnce(&Observed) -> T) -> T {
        read(&self.state().observed)
    }

    // What is desired.

    /// Pods were seen, or are missing from a list.
    pub(crate) fn pods_changed(&self, uids: impl IntoIterator<Item = String>) {
        let mut state = self.state();
        for uid in uids {
            for unit in state.observed.units_of_pod(&uid) {
                state.touch(&unit);
            }
        }
        drop(state);
        self.changed();
    }

    /// An event reported the deletion of a pod.
    pub(crate) fn pod_deleted(&self, uid: &str) {
        let mut state = self.state();
        let units = state.observed.units_of_pod(uid);
        if !units.is_empty() {
            state.deleted.insert(uid.to_owned());
        }
        for unit in units {
            state.touch(&unit);
        }
        drop(state);
        self.changed();
    }

    /// Attachments came into effect or changed: pod UIDs and interfaces.
    pub(crate) fn attachments_changed(&self, attachments: &[(String, String)]) {
        if attachments.is_empty() {
            return;
        }
        let mut state = self.state();
        for (uid, interface) in attachments {
            let units: Vec<_> = state.observed.links_of_pod(uid, interface).cloned().collect();
            for unit in units {
                state.touch(&unit);
            }
        }
        drop(state);
        self.changed();
    }

    /// Ports of the node itself were asked for, or what they depend on changed; or who asked for them is missing from a list.
    pub(crate) fn holders_changed(&self, units: impl IntoIterator<Item = LinkName>) {
        let mut state = self.state();
        let mut any = false;
        for unit in units {
            state.touch(&unit);
            any = true;
        }
        drop(state);
        if any {
            self.changed();
        }
    }

    /// These are all that were asked for, and those that are missing now.
    pub(crate) fn holders_listed(&self, units: BTreeSet<LinkName>) {
        let here = self.state().observed.units().into_iter().filter(LinkName::is_of_holder);
        self.holders_changed(units.into_iter().chain(here));
    }

    /// An event reported that nobody of this UID asks for a port of this node any more.
    pub(crate) fn holder_deleted(&self, unit: &LinkName, uid: &str) {
        let mut state = self.state();
        if state.observed.has(unit) {
            state.deleted.insert(uid.to_owned());
        }
        state.touch(unit);
        drop(state);
        self.changed();
    }

    /// Why the last change of a unit failed, if it did.
    pub(crate) fn failure(&self, unit: &LinkName) -> Option<String> {
        self.state().failures.get(unit).cloned()
    }

    /// The container runtime began a sandbox, or one of its calls.
    pub(crate) fn begin(&self, sandbox: &Sandbox) {
        self.state().ended.remove(sandbox);
    }

    /// The container runtime ended a sandbox, or one of its calls: everything that the call made goes.
    pub(crate) fn end(&self, sandbox: &Sandbox) {
        let mut state = self.state();
        state.ended.insert(sandbox.clone());
        let mut units = state.observed.units_of(sandbox);
        units.extend(state.making.extract_if(.., |_, of| of.sandbox == *sandbox).map(|(name, _)| name));
        for unit in units {
            state.touch(&unit);
        }
        drop(state);
        self.changed();
    }

    /// A call begins to make a link.
    pub(crate) fn making(&self, name: &LinkName, sandbox: &Sandbox) {
        let making = Making { sandbox: sandbox.clone(), half: None };
        self.state().making.insert(name.clone(), making);
    }

    /// A call is done with a representor: its function is where it should be.
    pub(crate) fn made(&self, name: &LinkName) {
        let mut state = self.state();
        state.half_made(name, Half::Made);
        state.touch(name);
        drop(state);
        self.changed();
    }

    /// A call could not make a link.
    pub(crate) fn not_made(&self, name: &LinkName) {
        let mut state = self.state();
        state.making.remove(name);
        state.touch(name);
        drop(state);
        self.changed();
    }

    /// Waits until nothing is left of a sandbox that was ended, in a copy of Open vSwitch's database of at least this revision.
    pub(crate) async fn is_removed(&self, sandbox: &Sandbox, revision: u64) {
        let removed = |state: &mut State| {
            let settled = !state.is_applying(sandbox) && state.has_observed(revision);
            let units = state.observed.units_of(sandbox);
            let removed = settled && units.iter().all(|unit| state.observed.is_returning(unit));
            removed.then(|| state.ended.remove(sandbox))
        };
        self.wait_for(removed).await;
    }

    /// What is noted of the functions that have not come back from a sandbox.
    pub(crate) fn returning_of(&self, sandbox: &Sandbox) -> Vec<Note> {
        let state = self.state();
        let units = state.observed.units_of(sandbox);
        let returning = units.iter().filter(|unit| state.observed.is_returning(unit));
        returning.filter_map(|unit| state.observed.note(unit).cloned()).collect()
    }

    /// What is left of a sandbox, and why.
    pub(crate) fn left_of(&self, sandbox: &Sandbox) -> String {
        let state = self.state();
        let units = state.observed.units_of(sandbox);
        let left = units.iter().map(|unit| match state.failures.get(unit) {
            Some(error) => format!("{unit}: {error}"),
            None if state.observed.port(unit).is_some() => format!("port {unit} of Open vSwitch"),
            None => format!("link {unit}"),
        });
        left.collect::<Vec<_>>().join("; ")
    }

    // Rounds of the loop.

    /// Everything is compared again.
    pub(crate) fn compare_all(&self) {
        self.state().compare_all();
        self.changed();
    }

    /// Compares what is dirty, but for units whose changes are being applied. The changes are to be applied and reported with
    /// [`Engine::applied`] and [`Engine::failed`], and then [`Engine::settled`]; [`Engine::round_ended`] ends the round.
    ///
    /// `mtu` is that of subnets that name none.
    pub(crate) fn reconcile(&self, known: &Known, mtu: Option<u16>) -> Work {
        let mut state = self.state();
        let State {
            observed,
            guard_news,
            reconciler,
            ended,
            making,
            applying,
            applying_of,
            held,
            failures,
            ..
        } = &mut *state;
        // Of one that is asked for, the first thing may be what cannot be made.
        failures.retain(|unit, _| observed.has(unit) || known.holders.get(unit).is_some());
        let (world, pods, holders) = (&known.world, known.pods.by_uid(), known.holders.listed());
        let facts = Facts { observed, world, pods, ended, holders, mtu };
        let mut planned = 0;
        let plan_of = |unit: &LinkName| {
            planned += 1;
            if applying.contains_key(unit) {
                held.insert(unit.clone());
                return Plan::Hold { owner: None };
            }
            // Whatever made it dirty: what there is of it is no leftover.
            if making.contains_key(unit) {
                return Plan::Hold { owner: None };
            }
            plan(unit, &facts)
        };
        let round = reconciler.reconcile(plan_of, observed);
        for unit in round.changes.iter().map(Change::unit) {
            if applying.contains_key(unit) {
                continue;
            }
            let sandbox = observed.note(unit).map(|note| note.sandbox.clone());
            if let Some(sandbox) = &sandbox {
                *applying_of.entry(sandbox.clone()).or_default() += 1;
            }
            applying.insert(unit.clone(), Applying { sandbox, since: guard_news.now() });
        }
        let confirm = round.confirm.into_iter().map(|confirm| {
            let (unit, uid) = (confirm.unit, confirm.owners.first().map(ToString::to_string));
            let (kind, name) = owner_of(observed, &unit);
            OwnerOfUnit { unit, kind, name, uid: uid.unwrap_or_default() }
        });
        Work { confirm: confirm.collect(), changes: round.changes, planned }
    }

    /// A change was applied.
    pub(crate) fn applied(&self, change: &Change) {
        let mut state = self.state();
        let unit = change.unit();
        if state.failures.remove(unit).is_some() {
            state.tell(unit);
        }
        state.reconciler.committed([unit.clone()]);
        let guard = match change {
            Change::Guard(..) | Change::Prepare(_, Preparation { guard: Some(_), .. }) => Guard::Present,
            Change::RemoveGuard(_) => Guard::Absent,
            // The others are reported by Open vSwitch and the kernel.
            _ => return,
        };
        let State { observed, guard_news, applying, .. } = &mut *state;
        if applying.get(unit).is_some_and(|applying| guard_news.is_newest(unit, applying.since)) {
            observed.set_guard(unit, guard);
        }
    }

    /// A change was not applied, or nobody knows.
    pub(crate) fn failed(&self, unit: &LinkName, failure: Failure, error: String) {
        let mut state = self.state();
        state.failures.insert(unit.clone(), error);
        state.tell(unit);
        match failure {
            Failure::Outdated => state.reconciler.outdated([unit.clone()]),
            Failure::Refused => state.reconciler.refused(unit.clone()),
        }
    }

    /// Every change of these units that was handed out was reported.
    pub(crate) fn settled<'a>(&self, units: impl IntoIterator<Item = &'a LinkName>) {
        let mut state = self.state();
        for unit in units {
            state.end_applying(unit);
            if state.held.remove(unit) {
                state.touch(unit);
            }
        }
        drop(state);
        self.changed();
    }

    /// Ends a round. Answers the units to be compared again after a pause.
    pub(crate) fn round_ended(&self) -> BTreeSet<LinkName> {
        let mut state = self.state();
        state.rounds += 1;
        let State { observed, guard_news, making, applying, deleted, .. } = &mut *state;
        guard_news
            .retain(|unit| observed.has(unit) || making.contains_key(unit) || applying.contains_key(unit));
        deleted.retain(|uid| {
            !observed.units_of_pod(uid).is_empty() || observed.has(&LinkName::of_attachment(uid))
        });
        let retries = state.reconciler.take_retries();
        drop(state);
        self.revision.send_modify(|revision| *revision += 1);
        retries
    }

    /// Waits until the loop has made a round.
    pub(crate) async fn next_round(&self) {
        let rounds = self.state().rounds;
        self.changed();
        self.wait_for(|state| (state.rounds > rounds).then_some(())).await;
    }

    /// How many units there are, and of how many the last change failed.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let state = self.state();
        (state.observed.units().len(), state.failures.len())
    }

    /// What is known of every unit.
    pub(crate) fn dump(&self) -> Value {
        let state = self.state();
        let units = state.observed.units().into_iter().map(|unit| {
            let observed = &state.observed;
            let note = observed.note(&unit);
            let value = json!({
                "sandbox": note.map(|note| &note.sandbox.container),
                "interface": note.map(|note| &note.interface),
                "networkAttachment": match observed.tag(&unit) {
                    Some(Tag::Holder(holder)) => Some(holder.name.as_ref().map(|(namespace, name)| {
                        format!("{namespace}/{name}")
                    })),
                    _ => None,
                },
                "podUid": note.and_then(|note| note.pod_uid.as_ref()),
                "pod": observed.port(&unit).map(|port| &port.pod),
                "ifaceId": observed.port(&unit).and_then(|port| port.iface_id.as_ref()),
                "link": observed.link(&unit).map(|link| link.index),
                "port": observed.port(&unit).is_some(),
                "guard": observed.is_guarded(&unit),
                "function": note.and_then(|note| note.function.as_ref()).map(|function| &function.address),
                "returning": observed.is_returning(&unit),
                "ended": note.is_some_and(|note| state.ended.contains(&note.sandbox)),
                "changing": state.applying.contains_key(&unit),
                "failure": state.failures.get(&unit),
            });
            (unit.to_string(), value)
        });
        Value::Object(units.collect())
    }

    /// The pause of a unit is over.
    pub(crate) fn retry(&self, unit: &LinkName) {
        let mut state = self.state();
        state.reconciler.retry(unit.clone());
        state.touch(unit);
        drop(state);
        self.changed();
    }

    /// A live read of a unit's owner was answered.
    pub(crate) fn answered(&self, unit: LinkName, uid: &str, absence: Absence) {
        self.state().reconciler.answered(unit, [uid.into()].into(), absence);
        self.changed();
    }
}

/// Why a change was not applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// What was observed was behind.
    Outdated,
    /// It was refused, or could not be sent.
    Refused,
}

impl State {
    fn has_observed(&self, revision: u64) -> bool {
        self.listed && self.revision >= revision
    }

    /// Whether something of a sandbox is being changed.
    fn is_applying(&self, sandbox: &Sandbox) -> bool {
        self.applying_of.contains_key(sandbox) || self.applying.contains_key(&sandbox.link(&sandbox.call))
    }

    fn end_applying(&mut self, unit: &LinkName) {
        let Some(Applying { sandbox: Some(sandbox), .. }) = self.applying.remove(unit) else { return };
        if let Some(count) = self.applying_of.get_mut(&sandbox) {
            *count -= 1;
            if *count == 0 {
                self.applying_of.remove(&sandbox);
            }
        }
    }

    fn set_guard(&mut self, name: &LinkName, guard: Guard) {
        self.observed.set_guard(name, guard);
        self.touch(name);
    }

    /// A link's guard was seen or made some time since `since`, unless there is newer news of it.
    fn guard_changed(&mut self, name: &LinkName, guard: Guard, since: Serial) {
        if self.guard_news.is_newest(name, since) {
            self.set_guard(name, guard);
        }
    }

    fn unnoted_link(&mut self, name: &LinkName, switched: Switched) {
        self.observed.set_unnoted(name, switched);
        self.touch(name);
    }

    fn link_changed(&mut self, name: &LinkName, link: Option<&ObservedLink>) {
        match link.map(ObservedLink::function) {
            Some(None) => drop(self.making.remove(name)),
            Some(Some(_)) => self.half_made(name, Half::Noted),
            None => {}
        }
        for unit in self.observed.set_link(name, link) {
            self.touch(&unit);
        }
    }

    fn half_made(&mut self, name: &LinkName, half: Half) {
        let Some(making) = self.making.get_mut(name) else { return };
        if *making.half.get_or_insert(half) != half {
            self.making.remove(name);
        }
    }

    /// A unit is to be compared again, with the evidence there is that it may be removed.
    fn touch(&mut self, unit: &LinkName) {
        if self.making.contains_key(unit) {
            // It is compared once it is made, or not.
            return;
        }
        self.tell(unit);
        let tag = self.observed.tag(unit);
        let ended = tag.and_then(Tag::note).is_some_and(|note| self.ended.contains(&note.sandbox));
        let deleted = tag.and_then(Tag::owner).is_some_and(|uid| self.deleted.contains(uid));
        // The namespace of a sandbox that lives keeps the link; those of the node itself have none.
        let lives = self.observed.has_sandbox(unit) && !unit.is_of_holder();
        // Its sandbox was ended before, says its note. All that is left to do may be to wait for the function.
        let is_returning = self.observed.link(unit).is_some_and(ObservedLink::is_returning);
        let returned = is_returning && (!lives || self.observed.port(unit).is_some());
        // No call goes on with it: its agent has ended, or it could not finish it. Nor was it prepared for a port of the node itself.
        // Whose one of the node itself is, its port says.
        let is_known = !unit.is_of_holder() || self.revision > 0;
        let abandoned = self.observed.is_unnoted(unit) && tag.is_none() && is_known;
        if ended || abandoned || returned || (deleted && !lives) {
            self.reconciler.removed(unit.clone());
        } else {
            self.reconciler.changed(unit.clone(), Urgency::Immediate);
        }
    }

    /// What a port of the node itself says about itself may have changed.
    fn tell(&self, unit: &LinkName) {
        if unit.is_of_holder() {
            self.news.check(unit.clone());
        }
    }

    fn compare_all(&mut self) {
        for unit in self.observed.units() {
            self.touch(&unit);
        }
    }
}

/// Whose a unit is, as its port or link says.
fn owner_of(observed: &Observed, unit: &LinkName) -> (OwnerKind, Option<(String, String)>) {
    match observed.tag(unit) {
        // A link may have no room for the name, which its port has.
        Some(Tag::Holder(holder)) => {
            let port = observed.port(unit).map(|port| &port.tag);
            let of_port = port.and_then(|tag| match tag {
                Tag::Holder(holder) => holder.name.clone(),
                Tag::Sandbox(_) => None,
            });
            (OwnerKind::NetworkAttachment, holder.name.clone().or(of_port))
        }
        _ => {
            let pod = observed.port(unit).and_then(|port| port.pod.split_once('/'));
            (OwnerKind::Pod, pod.map(|(namespace, name)| (namespace.to_owned(), name.to_owned())))
        }
    }
}

#[cfg(test)]
mod tests;
