//! Who makes one pod's life happen: takes its next step, waits, tells the API server.

use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::future::{join, select_all};
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::runtime::events::{Event, EventType};
use kube::{Api, Resource as _, ResourceExt as _};
use rustix::process::Signal;
use serde_json::json;
use tokio::sync::watch;

use super::container::{Container, RestartPolicy, Role};
use super::life::{Life, Retry, Step, restart_policy};
use super::sandbox::{PodId, Sandbox};
use super::{Shared, status};
use crate::namespace::Namespace;

/// How long the API server may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// An Event's note may not be longer.
const LONGEST_NOTE: usize = 1000;

/// What the runtime holds of a pod. It outlives the worker: a runtime that starts again goes on with it.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) pod: PodId,
    /// Of who works on it; one at a time.
    work: tokio::sync::Mutex<Work>,
    /// What others may see of it.
    view: Mutex<View>,
}

#[derive(Debug, Default)]
struct Work {
    life: Option<Life>,
    told: Option<core::PodStatus>,
    tell_again: Retry,
}

/// What can be seen of a pod while it is worked on.
#[derive(Clone, Debug, Default)]
pub(super) struct View {
    pub(super) netns: Option<Namespace>,
    /// Names and environments, those of init containers last.
    pub(super) containers: Vec<(String, Vec<(String, String)>)>,
}

impl Record {
    pub(super) fn new(pod: PodId) -> Self {
        Self { pod, work: tokio::sync::Mutex::default(), view: Mutex::default() }
    }

    pub(super) fn view(&self) -> View {
        self.view.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The pod as the API server has it; none once it is gone from there.
pub(super) type Seen = Option<Arc<core::Pod>>;

/// Works on a pod until nothing is left of it. May be dropped at any time, and begun again on the same record.
pub(super) async fn work(shared: Arc<Shared>, record: Arc<Record>, mut seen: watch::Receiver<Seen>) {
    let mut work = record.work.lock().await;
    loop {
        let pod = seen.borrow_and_update().clone();
        let worker = Worker { shared: &shared, record: &record, pod: pod.as_deref() };
        let life = work.life.get_or_insert_with(|| pod.as_deref().map(Life::of).unwrap_or_default());
        life.began.get_or_insert_with(Timestamp::now);
        record.show(life);
        let step = life.next(pod.as_deref(), Instant::now());
        tracing::trace!(pod = %record.pod, ?step, "next");
        match step {
            Step::End => break,
            Step::Wait(until) => {
                let Work { life: Some(life), told, tell_again } = &mut *work else { continue };
                let again = worker.tell(worker.news(life, told.as_ref()), told, tell_again).await;
                let until = [until, again].into_iter().flatten().min();
                wait(life, pod.as_deref(), &mut seen, until).await;
            }
            Step::MakeSandbox => {
                let Work { life: Some(life), told, tell_again } = &mut *work else { continue };
                let news = worker.news(life, told.as_ref());
                // A pod that is deleted meanwhile needs no sandbox: what was begun is undone by the next step.
                tokio::select! {
                    _ = join(worker.make_sandbox(life), worker.tell(news, told, tell_again)) => {}
                    () = doomed(&mut seen) => {}
                }
            }
            Step::Start(index) => worker.start(life, index).await,
            Step::Stop => {
                life.stopping = Some(Instant::now());
                life.containers.iter_mut().for_each(|one| one.signal(Signal::TERM));
            }
            Step::Kill => worker.kill(life).await,
            Step::TearDown => worker.tear_down(life).await,
            Step::LetGo => {
                let Work { life: Some(life), told, tell_again } = &mut *work else { continue };
                worker.tell(worker.news(life, told.as_ref()), told, tell_again).await;
                worker.let_go(life).await;
            }
        }
    }
    shared.forget(&record.pod.uid);
}

impl Record {
    fn show(&self, life: &Life) {
        let sandbox = life.sandbox.as_ref().filter(|sandbox| sandbox.is_ready());
        let (main, init): (Vec<_>, Vec<_>) = life.containers.iter().partition(|one| one.role() == Role::Main);
        *self.view.lock().unwrap_or_else(PoisonError::into_inner) = View {
            netns: sandbox.map(|sandbox| sandbox.namespace().clone()),
            containers: main
                .into_iter()
                .chain(init)
                .map(|one| (one.name().to_owned(), one.environment().to_vec()))
                .collect(),
        };
    }
}

struct Worker<'a> {
    shared: &'a Shared,
    record: &'a Record,
    pod: Option<&'a core::Pod>,
}

impl Worker<'_> {
    async fn make_sandbox(&self, life: &mut Life) {
        let (node, pod) = (self.shared.node(), &self.record.pod);
        let id = self.shared.sandbox_id(pod);
        let uses_node = self.pod.and_then(|pod| pod.spec.as_ref()?.host_network).unwrap_or_default();
        let made = if uses_node {
            Ok(Sandbox::with_network_of_node(node, self.shared.address(), id))
        } else {
            let annotations = self.pod.and_then(|pod| pod.metadata.annotations.clone()).unwrap_or_default();
            Sandbox::with_own_network(node, id, pod, annotations).await
        };
        let attached = match made {
            Err(error) => Err(error.to_string()),
            Ok(sandbox) => {
                let sandbox = life.sandbox.insert(sandbox);
                sandbox.attach(node, pod).await.map_err(|error| error.to_string())
            }
        };
        match attached {
            Ok(()) => life.retry.succeeded(),
            Err(error) => {
                let note = format!("Failed to create pod sandbox: {error}");
                self.warn("FailedCreatePodSandBox", note).await;
                // As the specification of CNI has it: whatever an ADD that failed has made is removed before the next.
                self.tear_down(life).await;
                life.retry.failed(Instant::now());
            }
        }
    }

    async fn tear_down(&self, life: &mut Life) {
        let Some(sandbox) = &mut life.sandbox else { return };
        tracing::debug!(pod = %self.record.pod, sandbox = sandbox.id(), "removing the sandbox");
        match sandbox.detach(self.shared.node(), &self.record.pod).await {
            Ok(()) => {
                life.sandbox = None;
                life.retry.succeeded();
            }
            Err(error) => {
                self.warn("FailedKillPod", format!("error killing pod: {error}")).await;
                life.retry.failed(Instant::now());
            }
        }
    }

    async fn start(&self, life: &mut Life, index: usize) {
        let Some((pod, sandbox)) = self.pod.zip(life.sandbox.as_ref()) else { return };
        let Some((spec, container)) = spec_of(pod, index).zip(life.containers.get_mut(index)) else { return };
        let log = self.shared.log_of(&self.record.pod, container.name());
        if let Err(error) = container.start(pod, spec, sandbox, &log).await {
            let note = format!("Error: cannot start container {}: {error}", container.name());
            container.not_started(restart_policy(pod));
            life.note_finish();
            self.warn("Failed", note).await;
        }
    }

    /// Ends the containers and waits for their ends.
    async fn kill(&self, life: &mut Life) {
        for container in &mut life.containers {
            container.signal(Signal::KILL);
            if container.is_running() {
                let status = container.ended().await;
                container.note_end(&status, RestartPolicy::Never);
            }
        }
    }

    /// Tells the API server that nothing is left. It removes the object, unless a finalizer holds it.
    async fn let_go(&self, life: &mut Life) {
        let pod = &self.record.pod;
        let only_this = Preconditions { uid: Some(pod.uid.clone()), resource_version: None };
        let parameters =
            DeleteParams { preconditions: Some(only_this), ..DeleteParams::default() }.grace_period(0);
        let api = self.api();
        let deleted = tokio::time::timeout(PATIENCE, api.delete(&pod.name, &parameters)).await;
        match deleted {
            Ok(Ok(_)) => life.let_go = true,
            // It is gone, or another one has its name.
            Ok(Err(kube::Error::Api(answer))) if answer.is_not_found() || answer.is_conflict() => {
                life.let_go = true;
            }
            Ok(Err(error)) => {
                tracing::debug!(pod = %pod, %error, "cannot be deleted yet");
                life.retry.failed(Instant::now());
            }
            Err(_) => life.retry.failed(Instant::now()),
        }
    }

    /// How the pod is, unless the API server knows.
    fn news(&self, life: &Life, told: Option<&core::PodStatus>) -> Option<core::PodStatus> {
        let pod = self.pod.filter(|_| !life.let_go)?;
        Some(status::of(pod, life, self.shared.address(), told)).filter(|status| told != Some(status))
    }

    /// Tells the API server how the pod is. Returns when to try again, if it could not be told.
    async fn tell(
        &self,
        news: Option<core::PodStatus>,
        told: &mut Option<core::PodStatus>,
        again: &mut Retry,
    ) -> Option<Instant> {
        let (pod, status) = self.pod.zip(news)?;
        if let Some(at) = again.at().filter(|at| *at > Instant::now()) {
            return Some(at);
        }
        // The uid makes the API server refuse if another pod has the name by now.
        let patch = json!({"metadata": {"uid": pod.metadata.uid}, "status": status});
        let (api, name, parameters) = (self.api(), pod.name_any(), PatchParams::default());
        let patch = Patch::Merge(&patch);
        match tokio::time::timeout(PATIENCE, api.patch_status(&name, &parameters, &patch)).await {
            Ok(Err(kube::Error::Api(answer))) if answer.is_not_found() || answer.is_conflict() => {}
            Ok(Ok(_)) => {}
            failed => {
                tracing::debug!(pod = %self.record.pod, ?failed, "its status cannot be told yet");
                again.failed(Instant::now());
                return again.at();
            }
        }
        *told = Some(status);
        again.succeeded();
        None
    }

    async fn warn(&self, reason: &str, mut note: String) {
        tracing::warn!(pod = %self.record.pod, reason, note);
        note.truncate(note.floor_char_boundary(LONGEST_NOTE));
        let Some(pod) = self.pod else { return };
        let event = Event {
            type_: EventType::Warning,
            reason: reason.into(),
            note: Some(note),
            action: "Run".into(),
            secondary: None,
        };
        let reference = pod.object_ref(&());
        let publish = self.shared.recorder().publish(&event, &reference);
        if let Ok(Err(error)) = tokio::time::timeout(PATIENCE, publish).await {
            tracing::debug!(pod = %self.record.pod, %error, "cannot write the Event");
        }
    }

    fn api(&self) -> Api<core::Pod> {
        Api::namespaced(self.shared.client(), &self.record.pod.namespace)
    }
}

/// The specification of a container, by its index among all.
fn spec_of(pod: &core::Pod, index: usize) -> Option<&core::Container> {
    let spec = pod.spec.as_ref()?;
    spec.init_containers.iter().flatten().chain(&spec.containers).nth(index)
}

/// Waits until something has happened: the pod changed, a container ended and its end was noted, or the moment has come.
async fn wait(
    life: &mut Life,
    pod: Option<&core::Pod>,
    seen: &mut watch::Receiver<Seen>,
    until: Option<Instant>,
) {
    let moment = async {
        match until {
            Some(until) => tokio::time::sleep_until(until.into()).await,
            None => pending().await,
        }
    };
    let running = life.containers.iter_mut().filter(|one| one.is_running());
    let ends: Vec<_> = running.map(|one| Box::pin(end_of(one))).collect();
    let end = async {
        match ends.is_empty() {
            true => pending().await,
            false => select_all(ends).await.0,
        }
    };
    let ended = tokio::select! {
        // The sender is gone when the runtime ends, and this with it.
        changed = seen.changed() => if changed.is_ok() { None } else { pending().await },
        ended = end => Some(ended),
        () = moment => None,
    };
    if let Some((name, status)) = ended
        && let Some(container) = life.containers.iter_mut().find(|one| one.name() == name)
    {
        tracing::debug!(container = name, ?status, "ended");
        container.note_end(&status, pod.map_or(RestartPolicy::Never, restart_policy));
        life.note_finish();
    }
}

async fn end_of(container: &mut Container) -> (String, std::io::Result<std::process::ExitStatus>) {
    let status = container.ended().await;
    (container.name().to_owned(), status)
}

/// Waits until the pod is gone or about to go.
async fn doomed(seen: &mut watch::Receiver<Seen>) {
    let is_doomed = |seen: &Seen| seen.as_ref().is_none_or(|pod| pod.metadata.deletion_timestamp.is_some());
    if seen.wait_for(is_doomed).await.is_err() {
        pending::<()>().await;
    }
}
