//! Makes actions happen at the API server, and answers the engine.

pub(crate) mod events;
pub(crate) mod finalizers;
pub(crate) mod node_annotations;
pub(crate) mod results;
pub(crate) mod status;
#[cfg(test)]
mod tests;
mod validated;
pub(crate) mod writer;

use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::Status;
use kube::{Api, Client, ResourceExt};
use portolan_api::portolan::IPLock;
use portolan_ipam::Move;
use portolan_model::{FirstInterface, Requester};
use portolan_plan::{Absence, ServiceProxy};
use portolan_watch::{Plain, is_not_found};
use serde_json::json;
use tokio::sync::mpsc::Sender;

use self::events::{EventKey, EventWriter};
use self::finalizers::FinalizerWriter;
use self::node_annotations::{NodeAnnotations, NodeWriter};
use self::results::ResultsWriter;
use self::status::StatusWriter;
use self::writer::{Urgent, Writer};
use crate::control::Message;
use crate::engine::{Action, Confirmation, Creation, Engine, Protected};
use crate::live;
use crate::metrics::{LockWrite, Metrics};

/// How often someone else may write an object in between before it counts as a failure.
const CONFLICTS: u32 = 10;

/// Makes actions happen.
#[derive(Clone)]
pub(crate) struct Actor {
    client: Client,
    engine: Sender<Message>,
    pub(crate) status: Writer<StatusWriter>,
    pub(crate) events: Writer<EventWriter>,
    pub(crate) finalizers: Writer<FinalizerWriter>,
    pub(crate) results: Writer<ResultsWriter>,
    pub(crate) nodes: Writer<NodeWriter>,
    /// Whether Nodes have prefixes that subnets are compared with, and whether what they had is given up.
    first_interface: FirstInterface,
    services: ServiceProxy,
    /// What those give way to.
    pub(crate) urgent: Urgent,
    pub(crate) metrics: Metrics,
}

impl Actor {
    pub(crate) fn new(
        client: Client,
        engine: Sender<Message>,
        metrics: Metrics,
        first_interface: FirstInterface,
        services: ServiceProxy,
    ) -> Self {
        let urgent = Urgent::default();
        let finalizers = FinalizerWriter::new(client.clone(), engine.clone(), metrics.clone());
        Actor {
            status: Writer::new(StatusWriter(client.clone()), &urgent),
            events: Writer::new(EventWriter::new(client.clone()), &urgent),
            finalizers: Writer::new(finalizers, &urgent),
            results: Writer::new(ResultsWriter(client.clone()), &urgent),
            nodes: Writer::new(NodeWriter::new(client.clone(), engine.clone()), &urgent),
            first_interface,
            services,
            client,
            engine,
            urgent,
            metrics,
        }
    }

    /// Nothing that is not urgent is written from now on; what was wanted is dropped.
    pub(crate) fn pause(&self) {
        self.status.pause();
        self.events.pause();
        self.finalizers.pause();
        self.results.pause();
        self.nodes.pause();
    }

    /// What is wanted from now on is written.
    pub(crate) fn resume(&self) {
        self.status.resume();
        self.events.resume();
        self.finalizers.resume();
        self.results.resume();
        self.nodes.resume();
    }

    /// Makes an action happen. What fails is answered, and tried again when the engine says so.
    pub(crate) async fn perform(self, action: Action) {
        match action {
            Action::CreateLock(lock) => self.create_lock(&lock).await,
            Action::MoveLock { moved, requester } => self.move_lock(moved, requester).await,
            Action::Confirm(question) => {
                let reads = question.release.reads();
                let confirmation = live::read(&self.client, &reads, self.first_interface).await.unwrap_or_else(|error| {
                    tracing::warn!(lock = question.release.lock, error = %Plain(&error), "cannot confirm that the lock may go");
                    Confirmation::Failed
                });
                self.answer(move |engine| engine.confirmed(&question, &confirmation)).await;
            }
            Action::DeleteLock { lock, uid, resource_version } => {
                self.delete_lock(lock, uid, resource_version).await;
            }
            Action::ConfirmAbsence { unit, owners, pods } => {
                let absence = live::unit_absence(&self.client, &unit, &owners, &pods, self.first_interface, self.services).await.unwrap_or_else(|error| {
                    tracing::warn!(%unit, error = %Plain(&error), "cannot read the owner of rows that the cache does not know");
                    Absence::Unknown
                });
                self.answer(move |engine| engine.unit_absence(unit, &owners, absence)).await;
            }
            Action::ReadMissing(read) => {
                let reads = std::slice::from_ref(&read);
                let confirmation = live::read(&self.client, reads, self.first_interface).await.unwrap_or_else(|error| {
                    tracing::warn!(object = ?read, error = %Plain(&error), "cannot read an object that a list lacks");
                    Confirmation::Failed
                });
                self.answer(move |engine| engine.missing_read(&read, &confirmation)).await;
            }
            Action::ValidateSubnets(candidates) => self.validate_subnets(candidates).await,
            Action::ConfirmUnused(object) => self.confirm_unused(object).await,
            queued => drop(self.queue(queued)),
        }
    }

    /// Leaves an action to the queue that it has of its own; returns one that has none.
    pub(crate) fn queue(&self, action: Action) -> Option<Action> {
        match action {
            Action::ShowResults(results) => {
                self.results.want((results.namespace.clone(), results.name.clone()), results);
            }
            Action::TellMtu { node, mtu } => self.nodes.want(node, NodeAnnotations::mtu(mtu)),
            Action::ServePrefixes { node, uid, cidrs } => {
                self.nodes.want(node, NodeAnnotations::pod_cidrs(uid, cidrs));
            }
            Action::SetConditions(update) => self.status.want((update.kind, update.name.clone()), update),
            Action::SetFinalizer(update) => {
                let Protected { kind, name, .. } = &update.object;
                self.finalizers.want((*kind, name.clone()), update.clone());
            }
            Action::Report { subject, uid, severity, reason, message } => {
                self.events.want(EventKey { subject, uid, reason, message }, severity);
            }
            other => return Some(other),
        }
        None
    }

    async fn answer(&self, message: impl FnOnce(&mut Engine) + Send + 'static) {
        // A loop that has ended needs no answers.
        drop(self.engine.send(Message::new(message)).await);
    }

    async fn create_lock(&self, lock: &IPLock) {
        let name = lock.name_any();
        let locks = Api::<IPLock>::all(self.client.clone());
        let since = self.metrics.stopwatch().since(lock);
        let created = locks.create(&PostParams::default(), lock).await;
        let creation = match created {
            Ok(_) => {
                let holder = &lock.spec.holder;
                tracing::info!(
                    lock = name,
                    holder = holder.name,
                    interface = holder.interface,
                    "took an address"
                );
                self.metrics.lock_created(LockWrite::Done);
                if let Some(since) = since {
                    self.metrics.time_to_lock(since.elapsed());
                }
                Creation::Exists
            }
            // Ours or another's: the watch shows which, and then it is decided again if need be.
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                self.metrics.lock_created(LockWrite::Conflict);
                Creation::Exists
            }
            Err(error) => {
                self.metrics.lock_created(LockWrite::Failed);
                tracing::warn!(lock = name, error = %Plain(&error), "cannot create the lock");
                Creation::Failed
            }
        };
        self.answer(move |engine| engine.created(&name, &creation)).await;
    }

    async fn move_lock(&self, moved: Move, requester: Requester) {
        let version = known_version(moved.resource_version);
        let patch = json!({
            "metadata": {"uid": moved.uid, "resourceVersion": version},
            "spec": {
                "user": moved.user, "node": moved.node, "hostIP": moved.host_ip, "interfaces": moved.interfaces,
            },
        });
        let locks = Api::<IPLock>::all(self.client.clone());
        let patch = Patch::Merge(patch);
        let written = locks.patch(&moved.lock, &PatchParams::default(), &patch).await;
        self.metrics.lock_moved(match &written {
            Ok(_) => LockWrite::Done,
            Err(kube::Error::Api(status)) if status.is_conflict() => LockWrite::Conflict,
            Err(_) => LockWrite::Failed,
        });
        if let Err(error) = written {
            tracing::warn!(lock = moved.lock, error = %Plain(&error), "cannot move the lock");
            self.answer(move |engine| engine.not_moved(&moved.lock, requester)).await;
        }
    }

    async fn delete_lock(&self, lock: String, uid: String, resource_version: u64) {
        let resource_version = known_version(resource_version);
        let preconditions = Preconditions { uid: Some(uid), resource_version };
        let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        let locks = Api::<IPLock>::all(self.client.clone());
        match locks.delete(&lock, &parameters).await {
            Ok(_) => {
                tracing::info!(lock, "gave an address back");
                self.metrics.lock_deleted(LockWrite::Done);
            }
            // It was deleted, or another one has its name: the watch shows which.
            Err(kube::Error::Api(status)) if status.is_conflict() => {
                self.metrics.lock_deleted(LockWrite::Conflict);
            }
            Err(error) if is_not_found::<IPLock>(&error, &lock) => {
                self.metrics.lock_deleted(LockWrite::Conflict);
            }
            Err(error) => {
                self.metrics.lock_deleted(LockWrite::Failed);
                tracing::warn!(lock, error = %Plain(&error), "cannot delete the lock");
                self.answer(move |engine| engine.not_deleted(&lock)).await;
            }
        }
    }
}

/// Whether the API server will have it only once somebody acts: a right is missing, or a webhook, a policy or a rule of the definition refuses
/// the object.
fn is_refusal(status: &Status) -> bool {
    [400, 403, 422].contains(&status.code)
}

/// A version that the API server can compare with; none if it was no number.
fn known_version(version: u64) -> Option<String> {
    (version != u64::MAX).then(|| version.to_string())
}
