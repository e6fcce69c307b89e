//! The life of a pod on its node, as what there is and what comes next: no IO, no clock.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::jiff::Timestamp;

use super::container::{Container, RestartPolicy, Role, State};
use super::sandbox::Sandbox;

/// Pauses after something failed: doubled each time.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// How long a pod that says nothing about it may take to end.
const GRACE: i64 = 30;

/// What there is of a pod.
#[derive(Debug, Default)]
pub(super) struct Life {
    pub(super) sandbox: Option<Sandbox>,
    /// Init containers first, each kind in the order of the specification.
    pub(super) containers: Vec<Container>,
    /// When the pod was first seen here.
    pub(super) began: Option<Timestamp>,
    /// How it ended, once it has.
    pub(super) finished: Option<Finished>,
    /// When its containers were asked to end.
    pub(super) stopping: Option<Instant>,
    /// Whether the API server was told that nothing of it is left.
    pub(super) let_go: bool,
    pub(super) retry: Retry,
}

/// How a pod ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finished {
    Succeeded,
    Failed,
}

/// When to try again what failed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Retry {
    failures: u32,
    at: Option<Instant>,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    MakeSandbox,
    /// Start the container of this index.
    Start(usize),
    /// Ask the containers to end.
    Stop,
    /// End them.
    Kill,
    /// Undo the sandbox.
    TearDown,
    /// Tell the API server that nothing is left.
    LetGo,
    /// Nothing is left, and nobody asks.
    End,
    /// Wait for a change of the pod, the end of a container, or this moment.
    Wait(Option<Instant>),
}

impl Life {
    /// The life of a pod that is seen for the first time.
    pub(super) fn of(pod: &core::Pod) -> Self {
        let spec = pod.spec.as_ref();
        let is_sidecar = |container: &core::Container| container.restart_policy.as_deref() == Some("Always");
        let init = spec.into_iter().flat_map(|spec| spec.init_containers.iter().flatten()).map(|container| {
            Container::new(container, if is_sidecar(container) { Role::Sidecar } else { Role::Init })
        });
        let main = spec.into_iter().flat_map(|spec| &spec.containers);
        let containers = init.chain(main.map(|container| Container::new(container, Role::Main)));
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        Self {
            containers: containers.collect(),
            finished: match phase {
                Some("Succeeded") => Some(Finished::Succeeded),
                Some("Failed") => Some(Finished::Failed),
                _ => None,
            },
            ..Self::default()
        }
    }

    /// What comes next for the pod as it is now; none if it is gone from the API server.
    pub(super) fn next(&self, pod: Option<&core::Pod>, now: Instant) -> Step {
        let Some(pod) = pod else {
            return match () {
                () if self.is_running() => Step::Kill,
                () if self.sandbox.is_some() => self.retry.or_wait(Step::TearDown, now),
                () => Step::End,
            };
        };
        if pod.metadata.deletion_timestamp.is_some() {
            return match self.stopping {
                _ if !self.is_running() && self.sandbox.is_some() => self.retry.or_wait(Step::TearDown, now),
                _ if !self.is_running() && !self.let_go => self.retry.or_wait(Step::LetGo, now),
                _ if !self.is_running() => Step::Wait(None),
                None => Step::Stop,
                Some(since) if now >= since + grace(pod) => Step::Kill,
                Some(since) => Step::Wait(Some(since + grace(pod))),
            };
        }
        if self.finished.is_some() {
            return match () {
                () if self.is_running() => Step::Kill,
                () if self.sandbox.is_some() => self.retry.or_wait(Step::TearDown, now),
                () => Step::Wait(None),
            };
        }
        match &self.sandbox {
            None => self.retry.or_wait(Step::MakeSandbox, now),
            // Its making broke off.
            Some(sandbox) if !sandbox.is_ready() => self.retry.or_wait(Step::TearDown, now),
            Some(_) => self.next_container(now),
        }
    }

    /// Which container starts next, or when.
    fn next_container(&self, now: Instant) -> Step {
        let mut wake: Option<Instant> = None;
        for (index, container) in self.containers.iter().enumerate() {
            let due = match &container.state {
                State::Waiting(None) => Some(now),
                State::Waiting(Some(_)) | State::Running(_) => None,
                State::Ended(ended) => ended.again,
            };
            match due {
                Some(due) if due <= now => return Step::Start(index),
                Some(due) => wake = Some(wake.map_or(due, |wake| wake.min(due))),
                None => {}
            }
            let lets_others_begin = match container.role() {
                Role::Init => container.has_succeeded(),
                Role::Sidecar => container.is_running(),
                Role::Main => true,
            };
            if !lets_others_begin {
                break;
            }
        }
        Step::Wait(wake)
    }

    pub(super) fn is_running(&self) -> bool {
        self.containers.iter().any(Container::is_running)
    }

    /// Notes whether the pod as a whole has come to its end.
    pub(super) fn note_finish(&mut self) {
        if self.finished.is_some() {
            return;
        }
        let init_failed = |one: &Container| one.role() == Role::Init && one.is_over() && !one.has_succeeded();
        let mut main = self.containers.iter().filter(|one| one.role() == Role::Main);
        if self.containers.iter().any(init_failed) {
            self.finished = Some(Finished::Failed);
        } else if main.clone().all(Container::is_over) {
            let well = main.all(Container::has_succeeded);
            self.finished = Some(if well { Finished::Succeeded } else { Finished::Failed });
        }
    }

    /// Whether all init containers have done their part.
    pub(super) fn is_initialized(&self) -> bool {
        self.containers.iter().all(|container| match container.role() {
            Role::Init => container.has_succeeded(),
            Role::Sidecar => !matches!(container.state, State::Waiting(_)),
            Role::Main => true,
        })
    }
}

impl Retry {
    /// Notes a failure: what failed is tried again after a pause.
    pub(super) fn failed(&mut self, now: Instant) {
        let pause = FIRST_PAUSE.saturating_mul(2u32.saturating_pow(self.failures)).min(LONGEST_PAUSE);
        *self = Self { failures: self.failures + 1, at: Some(now + pause) };
    }

    /// Notes a success.
    pub(super) fn succeeded(&mut self) {
        *self = Self::default();
    }

    /// When it is to be tried again, if there is a wait.
    pub(super) fn at(self) -> Option<Instant> {
        self.at
    }

    /// The step if its time has come, else the wait for it.
    fn or_wait(self, step: Step, now: Instant) -> Step {
        match self.at {
            Some(at) if at > now => Step::Wait(Some(at)),
            _ => step,
        }
    }
}

/// The restart policy of a pod.
pub(super) fn restart_policy(pod: &core::Pod) -> RestartPolicy {
    pod.spec.as_ref().map_or(RestartPolicy::Always, RestartPolicy::of)
}

/// How long a pod that is being deleted may take to end.
fn grace(pod: &core::Pod) -> Duration {
    let seconds = pod.metadata.deletion_grace_period_seconds.unwrap_or(GRACE);
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(spec: &Value) -> core::Pod {
        serde_json::from_value(json!({"metadata": {"name": "argo", "uid": "7"}, "spec": spec})).unwrap()
    }

    /// A life with a sandbox, of which these tests need no more than that it is there.
    fn life(spec: &Value) -> (core::Pod, Life) {
        let pod = pod(spec);
        let life = Life::of(&pod);
        (pod, life)
    }

    fn end(life: &mut Life, index: usize, policy: RestartPolicy) {
        life.containers[index].not_started(policy);
        life.note_finish();
    }

    #[test]
    fn a_pod_begins_with_its_sandbox_and_waits_after_a_failure() {
        let (pod, mut life) = life(&json!({"containers": [{"name": "main"}]}));
        let now = Instant::now();
        assert_eq!(life.next(Some(&pod), now), Step::MakeSandbox);
        life.retry.failed(now);
        let at = now + FIRST_PAUSE;
        assert_eq!(life.next(Some(&pod), now), Step::Wait(Some(at)));
        assert_eq!(life.next(Some(&pod), at), Step::MakeSandbox);
        life.retry.failed(at);
        assert_eq!(life.next(Some(&pod), at), Step::Wait(Some(at + 2 * FIRST_PAUSE)));
    }

    #[test]
    fn init_containers_come_one_after_another_and_sidecars_go_on_beside() {
        let (_, mut life) =
            life(&json!({"initContainers": [{"name": "one"}, {"name": "beside", "restartPolicy": "Always"}],
            "containers": [{"name": "main"}, {"name": "other"}]}));
        let now = Instant::now();
        assert_eq!(life.next_container(now), Step::Start(0));
        end(&mut life, 0, RestartPolicy::Always);
        assert!(matches!(life.next_container(now), Step::Wait(Some(_))), "it failed and is tried again");
        assert_eq!(life.finished, None);
    }

    #[test]
    fn a_pod_whose_init_container_fails_for_good_has_failed() {
        let (pod, mut life) = life(&json!({"restartPolicy": "Never", "initContainers": [{"name": "one"}],
            "containers": [{"name": "main"}]}));
        end(&mut life, 0, RestartPolicy::Never);
        assert_eq!(life.finished, Some(Finished::Failed));
        assert_eq!(life.next(Some(&pod), Instant::now()), Step::Wait(None));
    }

    #[test]
    fn a_pod_that_is_deleted_before_anything_was_made_is_let_go() {
        let (mut pod, mut life) = life(&json!({"containers": [{"name": "main"}]}));
        let now = Instant::now();
        pod.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(Timestamp::now()));
        assert_eq!(life.next(Some(&pod), now), Step::LetGo);
        life.let_go = true;
        assert_eq!(life.next(Some(&pod), now), Step::Wait(None), "a finalizer may hold it");
        assert_eq!(life.next(None, now), Step::End);
    }

    #[test]
    fn a_pod_that_had_ended_before_it_was_seen_does_not_begin_again() {
        let mut pod = pod(&json!({"containers": [{"name": "main"}]}));
        pod.status = Some(core::PodStatus { phase: Some("Succeeded".into()), ..core::PodStatus::default() });
        assert_eq!(Life::of(&pod).next(Some(&pod), Instant::now()), Step::Wait(None));
    }
}
