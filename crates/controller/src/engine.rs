//! What should happen, given what is known. No IO, no clock: one loop feeds it and makes happen what it answers.
//!
//! ```text
//!  watched objects ─▶ apply, delete, reset ─▶ World ─┬─▶ requesters ─▶ decide ─▶ Action
//!  answers to actions ───────────────────────────────┤
//!  changes of the northbound database ───────────────┴─▶ units ──────▶ plan ───▶ Batch: a transaction
//! ```
//!
//! Invariant: nothing is decided or planned before every kind was listed once. A subnet planned without its VPC would lose the
//! router port that it has.

mod bindings;
mod blocked;
mod conditions;
mod counts;
mod feed;
mod finalizers;
mod inspect;
mod ip_pools;
mod kinds;
mod locks;
mod missing;
mod network_attachments;
mod node_addresses;
mod node_agents;
mod node_mtus;
mod node_prefixes;
mod nodes;
mod northbound;
mod readiness;
mod reports;
mod results;
mod services;
mod southbound;
mod standby;
mod status_fields;
mod subnets;
mod tenants;
mod vips;

use std::collections::{BTreeMap, BTreeSet};

use portolan_api::portolan::IPLock;
use portolan_ipam::{Ipam, Move, Waiters};
use portolan_model::holder::Read;
use portolan_model::{Dirty, Requester, Settings, Unit, World};
use portolan_plan::{DatabaseTarget, Reconciler};
pub use portolan_watch::Change;

use self::bindings::Bindings;
use self::blocked::Blocked;
use self::conditions::Conditions;
pub use self::conditions::{DesiredCondition, HasConditions, Said, Statement, StatusUpdate};
pub use self::counts::{Counts, Queues};
use self::feed::Pages;
use self::finalizers::Finalizers;
pub use self::finalizers::{FinalizerChange, FinalizerUpdate, Protected, Usage};
pub(crate) use self::kinds::for_each_kind;
pub use self::kinds::{HasKind, Kind, Observed};
pub use self::locks::{Confirmation, Creation, Question};
use self::locks::{Creations, Releasing};
use self::missing::Reading;
use self::node_mtus::NodeMtus;
use self::node_prefixes::Clashes;
pub use self::nodes::{NodeOfChassis, NodesByChassis};
use self::northbound::Evidence;
pub use self::readiness::NorthboundRole;
use self::readiness::Readiness;
use self::reports::Reports;
pub use self::reports::{Severity, Subject};
pub use self::results::PodResults;
use self::results::Results;
pub use self::southbound::SouthboundStatus;
use self::standby::Duty;
pub use self::status_fields::StatusFields;
use self::subnets::SubnetGate;
pub use self::subnets::{Candidates, Lists, SubnetKey, Verdict};
use self::tenants::Tenants;

/// Something to be done outside, whose answer is to be told to the engine.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Create this lock: answer with [`Engine::created`].
    CreateLock(Box<IPLock>),
    /// Let a lock follow its current pod. The watch answers, or [`Engine::not_moved`].
    MoveLock {
        /// Which lock, and where to.
        moved: Move,
        /// Whose pod it follows.
        requester: Requester,
    },
    /// Read what [`Release::reads`](portolan_ipam::Release::reads) names, live: answer with [`Engine::confirmed`].
    Confirm(Question),
    /// Delete a lock whose port is gone, if it still has this UID and version. The watch answers.
    DeleteLock {
        /// The lock's name.
        lock: String,
        /// The lock's UID.
        uid: String,
        /// The version that was decided upon: one that changed since may be in use again.
        resource_version: u64,
    },
    /// Confirm by a live read that nothing asks for a unit any more which has rows and which the World lacks: answer
    /// with [`Engine::unit_absence`].
    ConfirmAbsence {
        /// The unit.
        unit: Unit,
        /// The UIDs of its owners, as its rows say; usually one.
        owners: BTreeSet<String>,
        /// The UIDs of the pods that its ports are for: what outlives its pods is in use for as long as one of them runs.
        pods: BTreeSet<String>,
    },
    /// Read an object live that a list lacks: answer with [`Engine::missing_read`].
    ReadMissing(Read),
    /// List the subnets and VPCs of both groups, and ask [`Engine::judge`] about these; or answer with
    /// [`Engine::not_judged`]. There is never more than one under way.
    ValidateSubnets(Candidates),
    /// Write what differs of an object's status. The watch answers.
    SetConditions(StatusUpdate),
    /// Add or remove the finalizer of an object. The watch answers.
    SetFinalizer(FinalizerUpdate),
    /// List what may use an object that is being deleted: answer with [`Engine::usage`].
    ConfirmUnused(Protected),
    /// Write annotations of a pod that tell what it got. The watch answers.
    ShowResults(PodResults),
    /// Tell a node's agent the MTU of pods on subnets that name none. The watch answers.
    TellMtu {
        /// The node.
        node: String,
        /// The MTU.
        mtu: u16,
    },
    /// Say on a Node that the prefixes of its pods were found free of clashes. The watch answers.
    ServePrefixes {
        /// The node.
        node: String,
        /// The UID of the Node that was judged.
        uid: String,
        /// The prefixes, as the annotation has them.
        cidrs: String,
    },
    /// Write an Event.
    Report {
        /// What it is about.
        subject: Subject,
        /// Its UID.
        uid: String,
        /// Whether something is wrong.
        severity: Severity,
        /// The reason, as one word.
        reason: &'static str,
        /// What is wrong and how to fix it.
        message: String,
    },
}

/// Something that failed outside, to be tried again after a while.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Retry {
    /// Decide for someone again.
    Requester(Requester),
    /// Plan a unit again.
    Unit(Unit),
    /// Delete a lock again.
    Lock(String),
    /// Judge subnets again.
    Subnets,
    /// Read an object again that a list lacks.
    Missing(Read),
    /// List again what uses an object that is being deleted.
    Usage(Kind, String),
}

/// Everything the controller knows, and what follows from it.
#[derive(Debug)]
pub struct Engine {
    world: World,
    ipam: Ipam,
    waiters: Waiters,
    plan_settings: portolan_plan::Settings,
    /// Kinds that were not listed yet.
    unlisted: BTreeSet<Kind>,
    pages: Pages,
    /// Who is to be decided again.
    requesters: BTreeSet<Requester>,
    /// Whose turn it is because something became free, by their places in line: decided before all others.
    woken: BTreeSet<(u64, Requester)>,
    /// Which units of the northbound database are dirty, waiting or stale.
    northbound: Reconciler<DatabaseTarget<Unit>>,
    /// Units of which several atoms are being written, each with how many of them are not committed.
    torn: BTreeMap<Unit, usize>,
    /// Units that do not come about, and who was told.
    blocked: Blocked,
    /// Whether a node may have changed.
    nodes_changed: bool,
    /// Objects that a list lacks, and how far reading them live has come.
    reading: BTreeMap<Read, Reading>,
    creating: Creations,
    /// Locks that are being moved, by name.
    moving: BTreeMap<String, Move>,
    releasing: BTreeMap<String, Releasing>,
    /// How often was asked whether a lock may go.
    questions: u64,
    /// The names of those in `releasing` whose ports are being removed.
    removing: BTreeSet<String>,
    conditions: Conditions,
    /// Objects whose conditions are to be compared with what they should be.
    to_compare: BTreeSet<(Kind, String)>,
    readiness: Readiness,
    results: Results,
    node_mtus: NodeMtus,
    reports: Reports,
    tenants: Tenants,
    clashes: Clashes,
    bindings: Bindings,
    /// Objects that cannot be read, with their UIDs.
    unreadable: BTreeMap<Subject, String>,
    subnets: SubnetGate,
    finalizers: Finalizers,
    actions: Vec<Action>,
    retries: BTreeSet<Retry>,
    duty: Duty,
    /// How often it became this engine's turn.
    terms: u64,
    counts: Counts,
}

impl Engine {
    /// An engine that knows nothing yet.
    pub fn new(settings: Settings, plan_settings: portolan_plan::Settings) -> Self {
        let services = plan_settings.service_proxy();
        Engine {
            world: World::new(settings),
            ipam: Ipam::new(),
            waiters: Waiters::default(),
            plan_settings,
            unlisted: Kind::ALL.iter().copied().filter(|kind| kind.is_followed(services)).collect(),
            pages: Pages::default(),
            requesters: BTreeSet::new(),
            woken: BTreeSet::new(),
            northbound: Reconciler::new(DatabaseTarget::new(&portolan_plan::northbound::DATABASE)),
            torn: BTreeMap::new(),
            blocked: Blocked::default(),
            nodes_changed: true,
            reading: BTreeMap::new(),
            creating: Creations::default(),
            moving: BTreeMap::new(),
            releasing: BTreeMap::new(),
            questions: 0,
            removing: BTreeSet::new(),
            conditions: Conditions::default(),
            to_compare: BTreeSet::new(),
            readiness: Readiness::default(),
            results: Results::default(),
            node_mtus: NodeMtus::default(),
            reports: Reports::default(),
            tenants: Tenants::default(),
            clashes: Clashes::default(),
            bindings: Bindings::default(),
            unreadable: BTreeMap::new(),
            subnets: SubnetGate::default(),
            finalizers: Finalizers::default(),
            actions: Vec::new(),
            retries: BTreeSet::new(),
            duty: Duty::default(),
            terms: 0,
            counts: Counts::default(),
        }
    }

    /// All that users asked for, as far as was seen.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// True once every kind was listed.
    pub fn is_synced(&self) -> bool {
        self.unlisted.is_empty()
    }

    /// What is to be done outside now.
    pub fn actions(&mut self) -> Vec<Action> {
        if !self.is_synced() {
            return Vec::new();
        }
        if self.stands_by() {
            return self.rest();
        }
        self.decide();
        self.compare_conditions();
        self.compare_results();
        self.compare_node_mtus();
        self.judge_subnets();
        self.check_finalizers();
        std::mem::take(&mut self.actions)
    }

    /// What failed since this was asked last, to be given to [`Engine::retry`] after a while.
    pub fn take_retries(&mut self) -> BTreeSet<Retry> {
        self.retries.extend(self.northbound.take_retries().into_iter().map(Retry::Unit));
        std::mem::take(&mut self.retries)
    }

    /// The time has come to try again.
    pub fn retry(&mut self, retry: Retry) {
        match retry {
            Retry::Requester(requester) => {
                self.requesters.insert(requester);
            }
            Retry::Unit(unit) => self.retry_unit(unit),
            Retry::Lock(name) => self.delete_again(&name),
            Retry::Subnets => self.judge_again(),
            Retry::Missing(read) => self.read_after_pause(read),
            Retry::Usage(kind, name) => self.ask_about_usage_again((kind, name)),
        }
    }

    /// Takes in what a change of the World made dirty.
    fn note(&mut self, dirty: Dirty, evidence: &Evidence) {
        self.note_units(dirty.units, evidence);
        // Before everything was listed nothing is decided, and who is open then is found at once.
        let requesters = if self.is_synced() { dirty.requesters } else { BTreeSet::new() };
        for requester in requesters {
            // Whoever waits is decided in the order of coming, also if what it waits for changes for many at once.
            match self.waiters.place(&requester) {
                Some(place) => self.woken.insert((place, requester)),
                None => self.requesters.insert(requester),
            };
        }
        for change in &dirty.locks {
            self.lock_changed(change);
            self.usage_changed(change.after.as_ref());
        }
    }
}

#[cfg(test)]
mod tests;
