//! A controller: the engine, watches that lag, requests under way, and a copy of the northbound database.

use std::collections::{BTreeSet, VecDeque};

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use ovsdb::Cache;
use portolan_api::nad::NetworkAttachmentDefinition;
use portolan_api::portolan::{IPLock, NetworkAttachment, Subnet, Vpc};
use portolan_api::{kubeovn, kubevirt};
use portolan_controller::engine::{
    Action, Change, Confirmation, Creation, DesiredCondition, Engine, FinalizerUpdate, HasConditions, Kind,
    Lists, Observed, Retry, StatusUpdate, Usage,
};
use portolan_model::holder::{self, Read, Users};
use portolan_model::node::POD_CIDRS_ANNOTATION;
use portolan_model::node_subnet::node_of_subnet;
use portolan_model::{Requester, Unit, UnitState, World, doors};
use portolan_plan::memdb::MemDb;
use portolan_plan::northbound::DATABASE;
use portolan_plan::{Absence, Batch};
use portolan_watch::Page;

use super::server::{Served, Server};
use super::{Broken, Faults};

/// How far a controller has followed each kind.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cursors {
    vpcs: Option<usize>,
    subnets: Option<usize>,
    kubeovn_subnets: Option<usize>,
    nads: Option<usize>,
    pods: Option<usize>,
    sets: Option<usize>,
    nodes: Option<usize>,
    locks: Option<usize>,
}

impl Cursors {
    /// What was observed, as if it had been listed.
    fn lists(&self, server: &Server) -> Lists {
        Lists {
            subnets: server.list_at(self.subnets.unwrap_or_default()),
            kubeovn_subnets: server.list_at(self.kubeovn_subnets.unwrap_or_default()),
            vpcs: server.list_at(self.vpcs.unwrap_or_default()),
            nodes: server.list_at(self.nodes.unwrap_or_default()),
            ..Lists::default()
        }
    }
}

/// The kinds that are followed, for choosing one.
pub(crate) const KINDS: usize = 8;

/// A request that was sent and not answered.
pub(crate) struct Request {
    action: Action,
    /// What is still to be read, for those that read.
    reads: VecDeque<Read>,
    found: World,
    answer: Option<Answer>,
    /// Sent once more by someone on the way: it is executed, and its answer reaches nobody.
    echo: bool,
}

enum Answer {
    Created(Creation),
    Moved(bool),
    Deleted(bool),
    Confirmed(Confirmation),
    Absence(Absence),
    Lists(Option<Box<Lists>>),
    Usage(Usage),
    Nothing,
}

pub(crate) struct Controller {
    pub(crate) engine: Engine,
    cursors: Cursors,
    pub(crate) requests: Vec<Request>,
    pub(crate) retries: BTreeSet<Retry>,
    cache: Cache,
    compared: bool,
    /// Whether it has the Lease. Several may think so.
    leads: bool,
    broken: Option<Broken>,
    /// Transactions that were planned together, and those of them that were sent.
    writing: Option<Writing>,
}

/// What is still to be sent, and what became of the rest.
type Writing = (VecDeque<Batch>, Vec<(Batch, Written)>);

#[derive(Clone, Copy, PartialEq)]
enum Written {
    Committed,
    Outdated,
    Unsent,
    Refused,
}

impl Controller {
    /// A process that has just started.
    pub(crate) fn start(nb: &MemDb, faults: &mut Faults) -> Self {
        let mut engine = Engine::new(faults.settings, portolan_plan::Settings::default());
        if faults.happens(2) {
            engine.compare_like_much();
        }
        // These kinds have no objects here.
        engine.feed(&Change::<kubeovn::Vpc>::listed(vec![]));
        engine.feed(&Change::<kubeovn::IPPool>::listed(vec![]));
        engine.feed(&Change::<kubeovn::Vip>::listed(vec![]));
        engine.feed(&Change::<NetworkAttachment>::listed(vec![]));
        engine.feed(&Change::<kubevirt::VirtualMachine>::listed(vec![]));
        engine.feed(&Change::<kubevirt::VirtualMachineInstance>::listed(vec![]));
        Controller {
            engine,
            cursors: Cursors::default(),
            requests: Vec::new(),
            retries: BTreeSet::new(),
            cache: nb.cache(DATABASE.indexes()),
            compared: false,
            leads: true,
            broken: faults.broken,
            writing: None,
        }
    }

    /// Delivers the next event of a kind, or a list if there was none yet. False if there is nothing new.
    pub(crate) fn follow(&mut self, server: &Server, kind: usize) -> bool {
        let Controller { engine, cursors, broken, .. } = self;
        let is_new = match kind {
            0 => follow::<Vpc>(engine, server, &mut cursors.vpcs),
            1 => follow::<Subnet>(engine, server, &mut cursors.subnets),
            2 => follow::<NetworkAttachmentDefinition>(engine, server, &mut cursors.nads),
            3 => follow::<Pod>(engine, server, &mut cursors.pods),
            4 => follow::<StatefulSet>(engine, server, &mut cursors.sets),
            5 => follow::<Node>(engine, server, &mut cursors.nodes),
            6 => follow::<kubeovn::Subnet>(engine, server, &mut cursors.kubeovn_subnets),
            _ => {
                match next_lock(server, cursors.locks).filter(|_| *broken == Some(Broken::ForgetsUnreadable))
                {
                    Some(lock) if doors::portolan::lock(lock).is_err() => {
                        engine.feed(&Change::deleted(lock));
                        cursors.locks = cursors.locks.map(|at| at + 1);
                        true
                    }
                    _ => follow::<IPLock>(engine, server, &mut cursors.locks),
                }
            }
        };
        if *broken == Some(Broken::WakesNobody) {
            engine.forget_turns();
        }
        is_new
    }

    /// A watch was cut: the kind is listed again, at some moment between what was seen and now. A server that is starting may not
    /// show all that there is.
    pub(crate) fn relist(&mut self, server: &Server, kind: usize, faults: &mut Faults) {
        let Controller { engine, cursors, .. } = self;
        match kind {
            0 => relist::<Vpc>(engine, server, &mut cursors.vpcs, faults),
            1 => relist::<Subnet>(engine, server, &mut cursors.subnets, faults),
            2 => relist::<NetworkAttachmentDefinition>(engine, server, &mut cursors.nads, faults),
            3 => relist::<Pod>(engine, server, &mut cursors.pods, faults),
            4 => relist::<StatefulSet>(engine, server, &mut cursors.sets, faults),
            5 => relist::<Node>(engine, server, &mut cursors.nodes, faults),
            6 => relist::<kubeovn::Subnet>(engine, server, &mut cursors.kubeovn_subnets, faults),
            _ => relist::<IPLock>(engine, server, &mut cursors.locks, faults),
        }
    }

    /// Takes what the engine wants done, and sends it.
    pub(crate) fn act(&mut self) {
        for action in self.engine.actions() {
            trace!("controller: wants {}", format!("{action:?}").chars().take(600).collect::<String>());
            if let Action::SetConditions(update) = action {
                self.set_conditions(update);
                continue;
            }
            if let Action::SetFinalizer(update) = action {
                self.set_finalizer(update);
                continue;
            }
            let reads = match &action {
                Action::Report { .. } | Action::ShowResults(_) | Action::TellMtu { .. } => continue,
                Action::Confirm(question) => question.release.reads(),
                Action::ReadMissing(read) => vec![read.clone()],
                Action::ConfirmAbsence { unit: Unit::Attachment(id), .. } => {
                    holder::reads(id, &Users::default())
                }
                _ => Vec::new(),
            };
            self.requests.push(Request {
                action,
                reads: reads.into(),
                found: World::default(),
                answer: None,
                echo: false,
            });
        }
        self.retries.extend(self.engine.take_retries());
    }

    /// A step of a request: it is executed, or reads one object, or its answer arrives.
    pub(crate) fn progress(&mut self, at: usize, server: &mut Server, faults: &mut Faults) {
        let request = &mut self.requests[at];
        if request.answer.is_none() {
            if let Some(read) = request.reads.pop_front() {
                if faults.broken != Some(Broken::ConfirmsWithoutReading) {
                    read_one(server, &read, &mut request.found);
                }
                if !request.reads.is_empty() {
                    return;
                }
            }
            // It never reached the server; or it did, and the answer was lost; or it was sent again by a proxy.
            if faults.happens(20) {
                request.answer = Some(failed(&request.action));
                return;
            }
            let answer = match request.action {
                Action::ValidateSubnets(_) if faults.broken == Some(Broken::JudgesByCache) => {
                    Answer::Lists(Some(Box::new(self.cursors.lists(server))))
                }
                _ => execute(request, server, faults),
            };
            let echo = faults.happens(10) && !request.echo;
            request.answer = Some(if faults.happens(20) { failed(&request.action) } else { answer });
            if echo {
                let (action, found) = (request.action.clone(), request.found.clone());
                self.requests.push(Request { action, reads: VecDeque::new(), found, answer: None, echo });
            }
            return;
        }
        let request = self.requests.swap_remove(at);
        if request.echo {
            return;
        }
        trace!(
            "controller: answer to {}",
            format!("{:?}", request.action).chars().take(60).collect::<String>()
        );
        self.deliver(request);
    }

    fn deliver(&mut self, request: Request) {
        let engine = &mut self.engine;
        match (request.action, request.answer) {
            (Action::CreateLock(lock), Some(Answer::Created(creation))) => {
                engine.created(&lock.name_any(), &creation);
            }
            (Action::MoveLock { moved, requester }, Some(Answer::Moved(false))) => {
                engine.not_moved(&moved.lock, requester);
            }
            (Action::DeleteLock { lock, .. }, Some(Answer::Deleted(false))) => engine.not_deleted(&lock),
            (Action::Confirm(question), Some(Answer::Confirmed(found))) => {
                engine.confirmed(&question, &found);
            }
            (Action::ReadMissing(read), Some(Answer::Confirmed(found))) => engine.missing_read(&read, &found),
            (Action::ConfirmAbsence { unit, owners, .. }, Some(Answer::Absence(absence))) => {
                engine.unit_absence(unit, &owners, absence);
            }
            (Action::ValidateSubnets(candidates), Some(Answer::Lists(lists))) => match lists {
                Some(lists) => engine.judge_and_write(&candidates, &lists),
                None => engine.not_judged(),
            },
            // The status writer tries again by itself, unless something newer is to be written.
            (Action::SetConditions(update), Some(Answer::Moved(false))) => {
                let newer = self.requests.iter().any(|request| is_status_of(request, &update));
                if !newer && self.leads {
                    self.set_conditions(update);
                }
            }
            (action @ Action::ServePrefixes { .. }, Some(Answer::Moved(false))) if self.leads => {
                self.requests.push(Request {
                    action,
                    reads: VecDeque::new(),
                    found: World::default(),
                    answer: None,
                    echo: false,
                });
            }
            (Action::SetFinalizer(update), Some(Answer::Moved(false))) => {
                let newer = self.requests.iter().any(|request| is_finalizer_of(request, &update));
                if !newer {
                    self.set_finalizer(update);
                }
            }
            (Action::ConfirmUnused(object), Some(Answer::Usage(usage))) => engine.usage(&object, &usage),
            _ => {}
        }
        self.act();
    }

    /// The finalizer writer has one request per object at a time, and the newest replaces the older.
    fn set_finalizer(&mut self, update: FinalizerUpdate) {
        self.requests.retain(|request| !is_finalizer_of(request, &update));
        self.requests.push(Request {
            action: Action::SetFinalizer(update),
            reads: VecDeque::new(),
            found: World::default(),
            answer: None,
            echo: false,
        });
    }

    /// The status writer has one request per object at a time, and adds to one that was not sent.
    fn set_conditions(&mut self, mut update: StatusUpdate) {
        let older = self.requests.iter().position(|request| is_status_of(request, &update));
        if let Some(older) = older
            && let Action::SetConditions(older) = self.requests.swap_remove(older).action
            && older.uid == update.uid
        {
            let is_new =
                |condition: &DesiredCondition| update.conditions.iter().any(|c| c.type_ == condition.type_);
            let kept: Vec<_> = older.conditions.into_iter().filter(|condition| !is_new(condition)).collect();
            update.conditions.extend(kept);
        }
        let action = Action::SetConditions(update);
        self.requests.push(Request {
            action,
            reads: VecDeque::new(),
            found: World::default(),
            answer: None,
            echo: false,
        });
    }

    /// What failed is tried again, after a while.
    pub(crate) fn retry(&mut self, retry: Retry) {
        self.retries.remove(&retry);
        self.engine.retry(retry);
        self.act();
    }

    /// The copy of the database is brought up to date. False if it was.
    pub(crate) fn refresh(&mut self, nb: &MemDb) -> bool {
        let changes = nb.refresh(&mut self.cache);
        self.engine.rows_changed(&changes, &self.cache);
        !changes.is_empty()
    }

    /// The Lease is another's, or this controller's again.
    pub(crate) fn change_role(&mut self) {
        match self.leads {
            true => self.stand_by(),
            false => self.lead(),
        }
    }

    /// Half of the requests that are under way are on the wire, and executed later; the others are dropped.
    fn stand_by(&mut self) {
        self.leads = false;
        self.engine.stand_by();
        let mut on_the_wire = false;
        let mut is_dropped = |request: &mut Request| {
            on_the_wire = !on_the_wire;
            request.answer.is_none() && !request.echo && !request.action.is_for_standby() && on_the_wire
        };
        let dropped: Vec<Request> = self.requests.extract_if(.., &mut is_dropped).collect();
        for request in dropped {
            self.engine.dropped(request.action);
        }
        self.act();
    }

    pub(crate) fn lead(&mut self) {
        if !self.leads {
            self.leads = true;
            self.engine.lead();
            self.engine.compare_all(&self.cache);
            self.act();
        }
    }

    /// This controller became the writer. The database tells it so after everything that was committed before.
    pub(crate) fn locked(&mut self, nb: &MemDb) {
        self.refresh(nb);
        self.engine.compare_all(&self.cache);
    }

    /// Plans, if it is the writer, or sends the next transaction. False if there is nothing to write.
    pub(crate) fn write(&mut self, nb: &mut MemDb, is_writer: bool, faults: &mut Faults) -> bool {
        if self.engine.is_synced() && !self.compared {
            self.compared = true;
            self.engine.compare_all(&self.cache);
        }
        let is_writer = is_writer && self.leads;
        match &mut self.writing {
            None if !is_writer => false,
            None => {
                let batches = self.engine.plan(&self.cache, faults.below(6) + 1);
                self.act();
                if batches.is_empty() {
                    return false;
                }
                self.writing = Some((batches.into(), Vec::new()));
                true
            }
            Some((queue, sent)) => {
                match queue.pop_front() {
                    Some(batch) => {
                        let written = send(&batch, nb, is_writer, faults);
                        match (written, batch.split()) {
                            (Written::Refused, Ok([first, second])) => {
                                queue.push_front(second);
                                queue.push_front(first);
                            }
                            (written, Err(batch)) => sent.push((batch, written)),
                            (written, Ok([first, second])) => {
                                sent.push((first, written));
                                sent.push((second, written));
                            }
                        }
                        if written == Written::Outdated {
                            sent.extend(queue.drain(..).map(|batch| (batch, Written::Unsent)));
                        }
                    }
                    None => self.finish_writing(nb, faults),
                }
                true
            }
        }
    }

    /// The answers come after the changes that they answer.
    fn finish_writing(&mut self, nb: &MemDb, faults: &Faults) {
        let Some((_, sent)) = self.writing.take() else { return };
        self.refresh(nb);
        for (batch, written) in sent {
            match written {
                _ if faults.broken == Some(Broken::DoesNotWaitForCommits) => self.engine.committed(&batch),
                Written::Committed => self.engine.committed(&batch),
                Written::Outdated => self.engine.outdated(&batch),
                Written::Unsent => self.engine.unsent(&batch),
                Written::Refused => self.engine.refused(&batch, "constraint violation"),
            }
        }
        self.engine.settled(&self.cache);
        self.act();
    }

    /// What is under way, for a message.
    pub(crate) fn describe(&self) -> String {
        let requests: Vec<_> = self.requests.iter().map(|request| &request.action).collect();
        format!("requests {requests:?}, retries {:?}, writing {}", self.retries, self.writing.is_some())
    }

    /// Whether a pod waits for something that the engine cannot give.
    pub(crate) fn has_refused(&self, requester: &Requester) -> bool {
        let ipam = portolan_ipam::Ipam::of(self.engine.world());
        !ipam.decide(self.engine.world(), requester).refusals.is_empty()
    }
}

fn send(batch: &Batch, nb: &mut MemDb, is_writer: bool, faults: &mut Faults) -> Written {
    if !is_writer || faults.happens(30) {
        return Written::Outdated;
    }
    trace!("database: {:?}", batch.units().collect::<Vec<_>>());
    match nb.transact(&batch.transaction()) {
        Ok(_) if faults.happens(30) => Written::Outdated,
        Ok(_) => Written::Committed,
        Err(refusal) if matches!(refusal.error, "duplicate uuid" | "timed out" | "not owner") => {
            Written::Outdated
        }
        Err(_) => Written::Refused,
    }
}

/// The lock that the next event is about, unless that is its deletion.
fn next_lock(server: &Server, cursor: Option<usize>) -> Option<&IPLock> {
    match server.locks.history.get(cursor?)? {
        Change::Applied(lock) => Some(lock),
        _ => None,
    }
}

fn follow<K: Served + Observed>(engine: &mut Engine, server: &Server, cursor: &mut Option<usize>) -> bool {
    let history = &K::shelf(server).history;
    match cursor {
        None => {
            engine.feed(&Change::listed(server.list_at::<K>(history.len())));
            *cursor = Some(history.len());
            true
        }
        Some(at) if *at < history.len() => {
            trace!("controller: sees {} {}", K::kind(&()), describe(&history[*at]));
            engine.feed(&history[*at]);
            *at += 1;
            true
        }
        Some(_) => false,
    }
}

fn relist<K: Served + Observed>(
    engine: &mut Engine,
    server: &Server,
    cursor: &mut Option<usize>,
    faults: &mut Faults,
) {
    let length = K::shelf(server).history.len();
    let seen = cursor.unwrap_or(length.saturating_sub(5));
    let at = seen + faults.below(length - seen + 1);
    let mut objects = server.list_at::<K>(at);
    if faults.happens(4) {
        let lacking = objects.split_off(faults.below(objects.len() + 1));
        trace!("controller: a list of {} lacks {}", K::kind(&()), lacking.len());
        if faults.broken == Some(Broken::TrustsLists) {
            lacking.into_iter().for_each(|object| engine.feed(&Change::deleted(&object)));
        }
        feed_list(engine, objects, faults);
        // The next list shows everything again: what was never seen and is never shown, nobody can miss.
        *cursor = None;
        return;
    }
    trace!("controller: lists {} {}", K::kind(&()), objects.len());
    feed_list(engine, objects, faults);
    *cursor = Some(at);
}

/// Feeds a list: as a whole, or page by page where that is how it comes, perhaps after pages of a list that broke off.
fn feed_list<K: Served + Observed>(engine: &mut Engine, mut objects: Vec<K>, faults: &mut Faults) {
    if K::TURN.is_some() {
        if faults.happens(4) {
            let some = objects[..faults.below(objects.len() + 1)].to_vec();
            engine.feed_page(Page { listed: some.into(), first: true });
        }
        let mut first = true;
        while first || !objects.is_empty() {
            let page: Vec<K> = objects.drain(..objects.len().min(1 + faults.below(3))).collect();
            engine.feed_page(Page { listed: page.into(), first });
            first = false;
        }
    }
    engine.feed(&Change::listed(objects));
}

fn failed(action: &Action) -> Answer {
    match action {
        Action::CreateLock(_) => Answer::Created(Creation::Failed),
        Action::MoveLock { .. }
        | Action::SetConditions(_)
        | Action::SetFinalizer(_)
        | Action::ServePrefixes { .. } => Answer::Moved(false),
        Action::ConfirmUnused(_) => Answer::Usage(Usage::Failed),
        Action::DeleteLock { .. } => Answer::Deleted(false),
        Action::Confirm(_) | Action::ReadMissing(_) => Answer::Confirmed(Confirmation::Failed),
        Action::ConfirmAbsence { .. } => Answer::Absence(Absence::Unknown),
        Action::ValidateSubnets(_) => Answer::Lists(None),
        Action::Report { .. } | Action::ShowResults(_) | Action::TellMtu { .. } => Answer::Nothing,
    }
}

/// What the server does, and answers.
fn execute(request: &Request, server: &mut Server, faults: &Faults) -> Answer {
    match &request.action {
        Action::CreateLock(lock) => {
            let name = lock.name_any();
            if faults.broken == Some(Broken::TakesWhatExists) && server.get::<IPLock>(&name).is_some() {
                server.change::<IPLock>(&name, |stored| stored.spec = lock.spec.clone());
            }
            server.create((**lock).clone());
            Answer::Created(Creation::Exists)
        }
        Action::MoveLock { moved, .. } => {
            let fits = server
                .get::<IPLock>(&moved.lock)
                .is_some_and(|lock| is_version(lock, &moved.uid, moved.resource_version));
            if fits {
                server.change::<IPLock>(&moved.lock, |lock| {
                    lock.metadata.generation = lock.metadata.generation.map(|generation| generation + 1);
                    if faults.broken != Some(Broken::KeepsFormerUser) {
                        lock.spec.user = Some(moved.user.clone());
                    }
                    lock.spec.node = Some(moved.node.clone());
                    lock.spec.host_ip = moved.host_ip.map(|ip| ip.to_string());
                    lock.spec.interfaces.clone_from(&moved.interfaces);
                });
            }
            Answer::Moved(fits)
        }
        Action::DeleteLock { lock, uid, resource_version } => {
            let fits = server.get::<IPLock>(lock).is_some_and(|stored| {
                faults.broken == Some(Broken::DeletesWithoutPreconditions)
                    || is_version(stored, uid, *resource_version)
            });
            if fits {
                server.delete::<IPLock>(lock);
            }
            Answer::Deleted(true)
        }
        Action::Confirm(_) | Action::ReadMissing(_) => {
            Answer::Confirmed(Confirmation::Found(Box::new(request.found.clone())))
        }
        Action::ConfirmAbsence { unit, owners, .. } => {
            Answer::Absence(absence(unit, owners, &request.found, server))
        }
        Action::ValidateSubnets(_) => {
            let (subnets, vpcs) = (server.subnets.objects.values(), server.vpcs.objects.values());
            let lists = Lists {
                subnets: subnets.cloned().collect(),
                kubeovn_subnets: server.kubeovn_subnets.objects.values().cloned().collect(),
                vpcs: vpcs.cloned().collect(),
                nodes: server.nodes.objects.values().cloned().collect(),
                ..Lists::default()
            };
            Answer::Lists(Some(Box::new(lists)))
        }
        Action::SetConditions(update) => {
            set_conditions::<Subnet, _>(
                server,
                &update.name,
                &update.uid,
                |subnet, conditions| {
                    subnet.status.get_or_insert_default().conditions = conditions;
                },
                &update.conditions,
            );
            set_conditions::<kubeovn::Subnet, _>(
                server,
                &update.name,
                &update.uid,
                |subnet, conditions| {
                    subnet.status.get_or_insert_default().conditions = Some(conditions);
                },
                &update.conditions,
            );
            set_conditions::<Vpc, _>(
                server,
                &update.name,
                &update.uid,
                |vpc, conditions| {
                    vpc.status.get_or_insert_default().conditions = conditions;
                },
                &update.conditions,
            );
            Answer::Moved(true)
        }
        Action::SetFinalizer(update) => {
            match update.object.kind {
                Kind::Vpc => server.set_finalizer::<Vpc>(update),
                Kind::KubeOvnSubnet => server.set_finalizer::<kubeovn::Subnet>(update),
                _ => server.set_finalizer::<Subnet>(update),
            }
            Answer::Moved(true)
        }
        Action::ServePrefixes { node, uid, cidrs } => {
            let is_meant = server.get::<Node>(node).is_some_and(|node| node.uid().as_ref() == Some(uid));
            if is_meant {
                server.change::<Node>(node, |node| {
                    let annotations = node.annotations_mut();
                    annotations.insert(POD_CIDRS_ANNOTATION.to_owned(), cidrs.clone());
                });
            }
            Answer::Moved(true)
        }
        Action::ConfirmUnused(object) => Answer::Usage(match object.kind {
            Kind::Vpc => {
                let subnets = server.subnets.objects.values().cloned().collect::<Vec<_>>();
                let kubeovn = server.kubeovn_subnets.objects.values().cloned().collect::<Vec<_>>();
                Usage::Subnets(subnets.into(), kubeovn.into())
            }
            _ => {
                let is_in = |lock: &&IPLock| lock.spec.subnet == object.name;
                let locks = server.locks.objects.values().filter(is_in);
                Usage::Locks(locks.cloned().collect::<Vec<_>>().into())
            }
        }),
        Action::Report { .. } | Action::ShowResults(_) | Action::TellMtu { .. } => Answer::Nothing,
    }
}

fn set_conditions<K: Served + HasConditions, C: serde::de::DeserializeOwned>(
    server: &mut Server,
    name: &str,
    uid: &str,
    set: impl FnOnce(&mut K, Vec<C>),
    desired: &[DesiredCondition],
) {
    let stored = server.get::<K>(name).filter(|stored| stored.meta().uid.as_deref() == Some(uid));
    let updated = stored.and_then(|stored| stored.updated(desired, &Time(Timestamp::UNIX_EPOCH)));
    if let Some(conditions) = updated.and_then(|conditions| serde_json::from_value(conditions).ok()) {
        server.change::<K>(name, |object| set(object, conditions));
    }
}

fn is_version(lock: &IPLock, uid: &str, version: u64) -> bool {
    lock.metadata.uid.as_deref() == Some(uid)
        && lock.metadata.resource_version.as_deref() == Some(&version.to_string())
}

fn read_one(server: &Server, read: &Read, found: &mut World) {
    match read {
        Read::Pod { name, .. } => server.get::<Pod>(name).map(|pod| drop(found.apply(pod))),
        Read::StatefulSet { name, .. } => server.get::<StatefulSet>(name).map(|set| drop(found.apply(set))),
        Read::Vpc { name, .. } => server.get::<Vpc>(name).map(|vpc| drop(found.apply(vpc))),
        Read::Subnet { name } | Read::SubnetOf { name, .. } => {
            if let Some(subnet) = server.get::<kubeovn::Subnet>(name) {
                drop(found.apply(subnet));
            }
            server.get::<Subnet>(name).map(|subnet| drop(found.apply(subnet)))
        }
        Read::Lock { name } => server.get::<IPLock>(name).map(|lock| drop(found.apply(lock))),
        Read::Node { name } => server.get::<Node>(name).map(|node| drop(found.apply(node))),
        Read::Nad { name, .. } => {
            server.get::<NetworkAttachmentDefinition>(name).map(|nad| drop(found.apply(nad)))
        }
        Read::VirtualMachine { .. }
        | Read::IpPool { .. }
        | Read::Vip { .. }
        | Read::Service { .. }
        | Read::EndpointSlice { .. }
        | Read::VirtualMachineInstance { .. }
        | Read::NetworkAttachment { .. } => None,
    };
}

/// What a live read says about the owners of a unit that has rows.
fn absence(unit: &Unit, owners: &BTreeSet<String>, found: &World, server: &Server) -> Absence {
    let owns = |uid: Option<String>| uid.is_some_and(|uid| owners.contains(&uid));
    let is_there = match unit {
        Unit::Vpc(name) => owns(server.get::<Vpc>(name).and_then(ResourceExt::uid)),
        Unit::Service { .. } => false,
        Unit::Node(name) | Unit::Chassis(name) => owns(server.get::<Node>(name).and_then(ResourceExt::uid)),
        Unit::Subnet(name) => owns(match node_of_subnet(name) {
            Some(node) => server.get::<Node>(node).and_then(ResourceExt::uid),
            None => {
                let kubeovn = || server.get::<kubeovn::Subnet>(name).and_then(ResourceExt::uid);
                server.get::<Subnet>(name).and_then(ResourceExt::uid).or_else(kubeovn)
            }
        }),
        Unit::Attachment(id) => holder::released(found, id, &Users::default()).is_none(),
        Unit::Peering(pair) => {
            let mut world = World::default();
            for name in [pair.first(), pair.second()] {
                if let Some(vpc) = server.get::<Vpc>(name) {
                    drop(world.apply(vpc));
                }
            }
            world.state(unit) != UnitState::Absent
        }
    };
    if is_there { Absence::Refuted } else { Absence::Confirmed }
}

/// Whether a request is one for the conditions of the same object.
fn is_status_of(request: &Request, update: &StatusUpdate) -> bool {
    matches!(&request.action, Action::SetConditions(other) if (other.kind, &other.name) == (update.kind, &update.name))
}

/// Whether a request is one for the finalizer of the same object.
fn is_finalizer_of(request: &Request, update: &FinalizerUpdate) -> bool {
    let key = |update: &FinalizerUpdate| (update.object.kind, update.object.name.clone());
    matches!(&request.action, Action::SetFinalizer(other) if !request.echo && key(other) == key(update))
}

fn describe<K: Served>(change: &Change<K>) -> String {
    match change {
        Change::Applied(object) => format!("{} version {:?}", object.name_any(), object.resource_version()),
        Change::Deleted(object) => format!("{} deleted", object.name_any()),
        Change::Unreadable(_) | Change::Listed(_) => "something else".to_owned(),
    }
}
