//! `portolan lab status` and `portolan lab list`: what there is, as tables.

use std::io::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use comfy_table::Table;
use comfy_table::presets::NOTHING;

use super::place::{Labs, Place};
use super::protocol::{self, Report, Request};

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

/// Writes to standard output. Whoever reads it may have seen enough before the end.
pub(super) fn print(text: &str) -> anyhow::Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

fn table<const N: usize>(columns: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(columns);
    table
}

/// Without the space that a table has around and after its cells.
fn trimmed(table: &Table) -> String {
    let lines = table.lines().map(|line| line.strip_prefix(' ').unwrap_or(&line).trim_end().to_owned());
    lines.collect::<Vec<_>>().join("\n")
}

/// How long ago something was, as Kubernetes writes it.
fn age(since: Option<u64>) -> String {
    let Some(since) = since else { return "-".into() };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    let seconds = now.saturating_sub(since);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86400),
    }
}
