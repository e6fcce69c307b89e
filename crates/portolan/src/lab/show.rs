//! `portolan lab status` and `portolan lab list`: what there is, as tables.

use super::place::{Labs, Place};
use super::protocol::{self, Report, Request};
use crate::output::{self, print, table, trimmed};

/// How a lab is.
pub(super) fn status(place: &Place) -> anyhow::Result<()> {
    let report: Report = protocol::ask(&place.control_socket(), place.name(), &Request::Status)?;
    let state = place.state();
    let pid = state.as_ref().map(|state| state.pid).unwrap_or_default();
    let age = age(state.map(|state| state.since));
    let mut text = format!("Lab {:?}, kept up by process {pid} for {age}\n", place.name());
    text += &format!("KUBECONFIG={}\n\n", place.kubeconfig().display());

    let mut nodes = table(["NODE", "ADDRESS", "READY", "PODS"]);
    for node in &report.nodes {
        let ready = match node.ready {
            Some(true) => "yes",
            Some(false) => "no",
            None => "unknown: the API server does not answer",
        };
        nodes.add_row([&node.name, &node.address, ready, &node.pods.to_string()]);
    }
    text += &format!("{}\n\n", trimmed(&nodes));

    let mut components = table(["COMPONENT", "PID", "HEALTH"]);
    for component in &report.components {
        let pid = component.pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string());
        let mark = if component.healthy { "" } else { "! " };
        components.add_row([component.name.clone(), pid, format!("{mark}{}", component.health)]);
    }
    text += &format!("{}\n", trimmed(&components));
    print(&text)
}

/// All labs of the machine.
pub(super) fn list(labs: &Labs) -> anyhow::Result<()> {
    let all = labs.all();
    if all.is_empty() {
        return print("There is no lab; `portolan lab up` raises one.\n");
    }
    let mut table = table(["NAME", "STATE", "NODES", "AGE"]);
    for place in &all {
        let state = place.state();
        let alive = match (place.is_alive(), place.control_socket().exists()) {
            (true, true) => "up",
            (true, false) => "being raised",
            (false, _) if state.is_none() => "being raised",
            (false, _) => "dead",
        };
        let nodes = state.as_ref().map_or_else(|| "-".to_owned(), |state| state.nodes.to_string());
        table.add_row([place.name(), alive, &nodes, &age(state.map(|state| state.since))]);
    }
    print(&format!("{}\n", trimmed(&table)))
}

/// How long ago something was, in seconds since 1970.
fn age(since: Option<u64>) -> String {
    output::age(since.and_then(|since| i64::try_from(since).ok()), output::now())
}
