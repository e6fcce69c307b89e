//! What the API server is told of a pod: a pure function of its life.

use std::net::IpAddr;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use super::container::{Container, Ended, Role, State};
use super::life::{Finished, Life};
use super::sandbox::Sandbox;

/// The status of a pod. `before` is what was told last; what did not change keeps its times.
pub(super) fn of(
    pod: &core::Pod,
    life: &Life,
    host: IpAddr,
    before: Option<&core::PodStatus>,
) -> core::PodStatus {
    let before = before.or(pod.status.as_ref());
    let specs = pod.spec.as_ref();
    let image_of = |name: &str| {
        let mut all = specs.into_iter().flat_map(|spec| {
            spec.init_containers.iter().flatten().chain(&spec.containers).map(|one| (&one.name, &one.image))
        });
        all.find(|(known, _)| *known == name).and_then(|(_, image)| image.clone()).unwrap_or_default()
    };
    let statuses = |is_init: bool| -> Vec<_> {
        let of_kind = life.containers.iter().filter(|one| (one.role() != Role::Main) == is_init);
        of_kind.map(|one| container_status(one, image_of(one.name()), life)).collect()
    };
    let addresses = life.sandbox.as_ref().map(Sandbox::addresses).unwrap_or_default();
    core::PodStatus {
        phase: Some(phase(life).into()),
        conditions: Some(conditions(life, before)),
        host_ip: Some(host.to_string()),
        host_ips: Some(vec![core::HostIP { ip: host.to_string() }]),
        pod_ip: addresses.first().map(ToString::to_string),
        pod_ips: (!addresses.is_empty())
            .then(|| addresses.iter().map(|ip| core::PodIP { ip: ip.to_string() }).collect()),
        start_time: before.and_then(|before| before.start_time.clone()).or(life.began.map(Time)),
        init_container_statuses: Some(statuses(true)).filter(|statuses| !statuses.is_empty()),
        container_statuses: Some(statuses(false)),
        qos_class: before.and_then(|before| before.qos_class.clone()).or(Some("BestEffort".into())),
        ..core::PodStatus::default()
    }
}

fn phase(life: &Life) -> &'static str {
    let has_begun = |one: &Container| one.role() == Role::Main && !matches!(one.state, State::Waiting(_));
    match life.finished {
        Some(Finished::Succeeded) => "Succeeded",
        Some(Finished::Failed) => "Failed",
        None if life.containers.iter().any(has_begun) => "Running",
        None => "Pending",
    }
}

fn conditions(life: &Life, before: Option<&core::PodStatus>) -> Vec<core::PodCondition> {
    let before = before.and_then(|before| before.conditions.as_ref());
    let before = || before.into_iter().flatten();
    let unready: Vec<_> = life
        .containers
        .iter()
        .filter(|one| one.role() != Role::Init && !one.is_running())
        .map(Container::name)
        .collect();
    let not_ready = (!unready.is_empty()).then(|| match life.finished {
        Some(Finished::Succeeded) => ("PodCompleted", None),
        _ => ("ContainersNotReady", Some(format!("containers with unready status: [{}]", unready.join(" ")))),
    });
    let uninitialized: Vec<_> = life
        .containers
        .iter()
        .filter(|one| one.role() == Role::Init && !one.has_succeeded())
        .map(Container::name)
        .collect();
    let not_initialized = (!life.is_initialized()).then(|| {
        let message = format!("containers with incomplete status: [{}]", uninitialized.join(" "));
        ("ContainersNotInitialized", Some(message))
    });
    let no_sandbox = life.sandbox.as_ref().is_none_or(|sandbox| !sandbox.is_ready()).then_some(("", None));
    let told = [
        ("PodReadyToStartContainers", no_sandbox),
        ("Initialized", not_initialized),
        ("Ready", not_ready.clone()),
        ("ContainersReady", not_ready),
        ("PodScheduled", None),
    ];
    let own = told.iter().map(|(kind, not)| {
        let status = if not.is_none() { "True" } else { "False" };
        let same = before().find(|one| one.type_ == *kind && one.status == status);
        core::PodCondition {
            type_: (*kind).to_owned(),
            status: status.to_owned(),
            reason: not.as_ref().map(|(reason, _)| (*reason).to_owned()).filter(|reason| !reason.is_empty()),
            message: not.as_ref().and_then(|(_, message)| message.clone()),
            last_transition_time: same
                .and_then(|one| one.last_transition_time.clone())
                .or(Some(Time(Timestamp::now()))),
            ..core::PodCondition::default()
        }
    });
    let others = before().filter(|one| told.iter().all(|(kind, _)| one.type_ != *kind)).cloned();
    own.chain(others).collect()
}

fn container_status(container: &Container, image: String, life: &Life) -> core::ContainerStatus {
    let terminated = |ended: &Ended| core::ContainerStateTerminated {
        exit_code: ended.code,
        signal: ended.signal,
        reason: Some(if ended.code == 0 { "Completed" } else { "Error" }.into()),
        started_at: Some(Time(ended.started)),
        finished_at: Some(Time(ended.finished)),
        ..core::ContainerStateTerminated::default()
    };
    let waiting = |reason: &str, message: Option<String>| core::ContainerState {
        waiting: Some(core::ContainerStateWaiting { reason: Some(reason.into()), message }),
        ..core::ContainerState::default()
    };
    let ended = |ended: &Ended| core::ContainerState {
        terminated: Some(terminated(ended)),
        ..core::ContainerState::default()
    };
    let mut last = container.last.as_ref().map(ended);
    let state = match &container.state {
        State::Waiting(None) if life.is_initialized() || container.role() != Role::Main => {
            waiting("ContainerCreating", None)
        }
        State::Waiting(None) => waiting("PodInitializing", None),
        State::Waiting(Some(unsupported)) => {
            waiting("CreateContainerConfigError", Some(unsupported.to_string()))
        }
        State::Running(run) => core::ContainerState {
            running: Some(core::ContainerStateRunning { started_at: Some(Time(run.started)) }),
            ..core::ContainerState::default()
        },
        State::Ended(end) if end.again.is_some() && life.stopping.is_none() => {
            last = Some(ended(end));
            waiting("CrashLoopBackOff", Some(format!("ended with {} and runs again soon", end.code)))
        }
        State::Ended(end) => ended(end),
    };
    let is_ready = match container.role() {
        Role::Init => container.has_succeeded(),
        Role::Sidecar | Role::Main => container.is_running(),
    };
    core::ContainerStatus {
        name: container.name().into(),
        image,
        image_id: String::new(),
        ready: is_ready,
        started: Some(container.is_running()),
        restart_count: i32::try_from(container.restarts).unwrap_or(i32::MAX),
        container_id: container.pid().map(|pid| format!("portolan-lab://{pid}")),
        state: Some(state),
        last_state: last,
        ..core::ContainerStatus::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::container::RestartPolicy;
    use super::*;

    #[test]
    fn a_status_says_what_is_and_keeps_the_times_of_what_stays() {
        let pod: core::Pod = serde_json::from_value(json!({"metadata": {"name": "argo"},
            "spec": {"containers": [{"name": "main", "image": "none"}]}}))
        .unwrap();
        let host = "172.31.0.11".parse().unwrap();
        let mut life = Life::of(&pod);
        let first = of(&pod, &life, host, None);
        assert_eq!(first.phase.as_deref(), Some("Pending"));
        let condition = |status: &core::PodStatus, kind: &str| {
            let all = status.conditions.clone().unwrap();
            all.into_iter().find(|one| one.type_ == kind).unwrap()
        };
        assert_eq!(condition(&first, "Initialized").status, "True");
        assert_eq!(condition(&first, "Ready").reason.as_deref(), Some("ContainersNotReady"));

        let again = of(&pod, &life, host, Some(&first));
        assert_eq!(again, first, "nothing changed, so nothing is told");

        life.containers[0].not_started(RestartPolicy::Always);
        let failed = of(&pod, &life, host, Some(&first));
        let container = &failed.container_statuses.as_ref().unwrap()[0];
        let waiting = container.state.as_ref().unwrap().waiting.as_ref().unwrap();
        assert_eq!(waiting.reason.as_deref(), Some("CrashLoopBackOff"));
        let last = container.last_state.as_ref().unwrap().terminated.as_ref().unwrap();
        assert_eq!(last.exit_code, 128);
        assert_eq!(condition(&failed, "Ready"), condition(&first, "Ready"));
    }
}
