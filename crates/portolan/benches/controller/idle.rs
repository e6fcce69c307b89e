//! What a controller does when nothing happens.

use std::time::Duration;

use portolan_testbed::Process;
use serde_json::Value;

use crate::process;
use crate::stage::Stage;

pub(crate) struct Idle {
    /// Requests that write, besides those for the Lease.
    pub(crate) writes: usize,
    /// The share of a core.
    pub(crate) cpu: f64,
}

pub(crate) fn measure(stage: &Stage<'_>, controller: &Process, time: Duration) -> Idle {
    // Statuses are written off the critical path: what was wanted before has been written by then.
    std::thread::sleep(Duration::from_secs(5));
    let (before, cpu) = (writes(stage), process::cpu(controller.pid().unwrap()));
    assert!(before > 0, "the audit log shows what a controller writes");
    std::thread::sleep(time);
    let cpu = process::cpu(controller.pid().unwrap()) - cpu;
    Idle { writes: writes(stage) - before, cpu: cpu.as_secs_f64() / time.as_secs_f64() }
}

fn writes(stage: &Stage<'_>) -> usize {
    let log = std::fs::read_to_string(stage.audit_log()).unwrap();
    let requests = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let is_write = |request: &Value| {
        let verb = request["verb"].as_str().unwrap_or_default();
        let resource = request["objectRef"]["resource"].as_str().unwrap_or_default();
        ["create", "update", "patch", "delete"].contains(&verb) && resource != "leases"
    };
    let of_controller = |request: &Value| {
        request["userAgent"].as_str().is_some_and(|agent| agent.starts_with("portolan-controller/"))
            && request["stage"] == "ResponseComplete"
    };
    requests.filter(|request| is_write(request) && of_controller(request)).count()
}
