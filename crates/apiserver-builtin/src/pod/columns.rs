//! What `kubectl get pods` shows.

use jiff::Timestamp;
use serde_json::Value;

use super::super::table::{age, columns as columns_of, is_deleting, name, or, since};
use super::super::value::{is_set, is_true, items, number, text};
use apiserver::registry::Columns;

pub(super) fn columns() -> Columns {
    let headings =
        ["Name", "Ready", "Status", "Restarts", "Age", "IP*", "Node*", "Nominated Node*", "Readiness Gates*"];
    columns_of(&headings, |pod, now| {
        let summary = Summary::of(pod);
        vec![
            name(pod),
            format!("{}/{}", summary.ready, summary.total).into(),
            summary.reason.clone().into(),
            summary.restarts_text(now).into(),
            age(pod, now),
            or(&pod["status"]["podIPs"][0]["ip"], "<none>").into(),
            or(&pod["spec"]["nodeName"], "<none>").into(),
            or(&pod["status"]["nominatedNodeName"], "<none>").into(),
            gates(pod).into(),
        ]
    })
}

/// How the containers of a pod are, in a few words.
#[derive(Debug, Default)]
struct Summary {
    ready: usize,
    total: usize,
    reason: String,
    restarts: i64,
    /// When a container last ended, to be started again. Times in this form are in the order of their texts.
    last_restart: String,
}

impl Summary {
    fn of(pod: &Value) -> Summary {
        let (spec, status) = (&pod["spec"], &pod["status"]);
        let mut summary = Summary { total: items(&spec["containers"]).len(), ..Summary::default() };
        summary.total +=
            items(&spec["initContainers"]).iter().filter(|container| is_sidecar(container)).count();
        summary.reason = or(&status["reason"], text(&status["phase"])).to_owned();
        let gated = items(&status["conditions"]).iter().any(|condition| {
            text(&condition["type"]) == "PodScheduled" && text(&condition["reason"]) == "SchedulingGated"
        });
        if gated {
            summary.reason = "SchedulingGated".into();
        }

        let mut of_sidecars = Summary::default();
        let initializing = summary.add_init_containers(pod, &mut of_sidecars);
        if !initializing || has_condition(status, "Initialized") {
            summary.restarts = of_sidecars.restarts;
            summary.last_restart = of_sidecars.last_restart;
            summary.add_containers(status);
        }

        let ended = matches!(text(&status["phase"]), "Succeeded" | "Failed");
        if is_deleting(pod) && text(&status["reason"]) == "NodeLost" {
            summary.reason = "Unknown".into();
        } else if is_deleting(pod) && !ended {
            summary.reason = "Terminating".into();
        }
        summary
    }

    /// Goes through the containers that run before. Whether one of them has not ended well is returned.
    fn add_init_containers(&mut self, pod: &Value, of_sidecars: &mut Summary) -> bool {
        let specs = items(&pod["spec"]["initContainers"]);
        for (index, container) in items(&pod["status"]["initContainerStatuses"]).iter().enumerate() {
            let sidecar = specs.iter().any(|spec| spec["name"] == container["name"] && is_sidecar(spec));
            self.add_restarts(container);
            if sidecar {
                of_sidecars.add_restarts(container);
            }
            let (ended, waiting) = (&container["state"]["terminated"], &container["state"]["waiting"]);
            if is_set(ended) && number(&ended["exitCode"]) == 0 {
                continue;
            }
            if sidecar && is_true(&container["started"]) {
                self.ready += usize::from(is_true(&container["ready"]));
                continue;
            }
            self.reason = if is_set(ended) {
                format!("Init:{}", end_of(ended))
            } else if !matches!(text(&waiting["reason"]), "" | "PodInitializing") {
                format!("Init:{}", text(&waiting["reason"]))
            } else {
                format!("Init:{index}/{}", specs.len())
            };
            return true;
        }
        false
    }

    fn add_containers(&mut self, status: &Value) {
        let mut running = false;
        for container in items(&status["containerStatuses"]).iter().rev() {
            self.add_restarts(container);
            let (ended, waiting) = (&container["state"]["terminated"], &container["state"]["waiting"]);
            if !text(&waiting["reason"]).is_empty() {
                self.reason = text(&waiting["reason"]).into();
            } else if is_set(ended) {
                self.reason = end_of(ended);
            } else if is_true(&container["ready"]) && is_set(&container["state"]["running"]) {
                running = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" && running {
            self.reason = if has_condition(status, "Ready") { "Running" } else { "NotReady" }.into();
        }
    }

    fn add_restarts(&mut self, container: &Value) {
        self.restarts += number(&container["restartCount"]);
        let ended = text(&container["lastState"]["terminated"]["finishedAt"]);
        if self.last_restart.as_str() < ended {
            self.last_restart = ended.into();
        }
    }

    fn restarts_text(&self, now: Timestamp) -> String {
        if self.restarts == 0 || self.last_restart.is_empty() {
            return self.restarts.to_string();
        }
        format!("{} ({} ago)", self.restarts, since(&self.last_restart.as_str().into(), now))
    }
}

fn is_sidecar(container: &Value) -> bool {
    text(&container["restartPolicy"]) == "Always"
}

fn end_of(ended: &Value) -> String {
    match (text(&ended["reason"]), number(&ended["signal"])) {
        ("", 0) => format!("ExitCode:{}", number(&ended["exitCode"])),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn has_condition(status: &Value, kind: &str) -> bool {
    let mut conditions = items(&status["conditions"]).iter();
    conditions.any(|condition| text(&condition["type"]) == kind && text(&condition["status"]) == "True")
}

fn gates(pod: &Value) -> String {
    let gates = items(&pod["spec"]["readinessGates"]);
    if gates.is_empty() {
        return "<none>".into();
    }
    let open =
        gates.iter().filter(|gate| has_condition(&pod["status"], text(&gate["conditionType"]))).count();
    format!("{open}/{}", gates.len())
}
