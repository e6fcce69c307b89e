//! What a pod costs, counted where it is paid: at the API server, in the database's own log, and by the agent's clock.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

use crate::skeleton::stage::Stage;

/// Whom the API server knows the controller as.
const CONTROLLER: &str = "portolan-controller";

/// Counts that only grow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts {
    /// On the way of pods.
    pub(crate) api_writes: usize,
    /// What pods are told by annotations, which nobody waits for.
    pub(crate) told: usize,
    pub(crate) nb_transactions: usize,
}

impl Counts {
    /// As they stand now.
    pub(crate) fn of(stage: &Stage) -> Self {
        let (told, api_writes): (Vec<_>, Vec<_>) = api_writes(stage).into_iter().partition(is_told);
        let nb_transactions = stage.northbound.transactions().len();
        Self { api_writes: api_writes.len(), told: told.len(), nb_transactions }
    }
}

/// What the controller and the agents wrote, as the API server's audit log has it; but not what VPCs and subnets say about themselves, such as
/// how many addresses are taken: that is written beside, once a second for all pods, and no pod waits for it. Nor what agents say on their
/// Nodes, which is about the nodes.
fn api_writes(stage: &Stage) -> Vec<Value> {
    let audit = read(stage.testbed.api().audit_log().unwrap());
    let events = audit.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let ours = |user: &str| user == CONTROLLER || user.starts_with("node");
    let is_write = |verb: &str| ["create", "update", "patch", "delete"].contains(&verb);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let is_ours = |event: &Value| ours(&text(&event["user"]["username"])) && is_write(&text(&event["verb"]));
    let is_beside = |event: &Value| {
        let object = &event["objectRef"];
        let of_networks = object["resource"] == "subnets" || object["resource"] == "vpcs";
        object["resource"] == "nodes" || (object["subresource"] == "status" && of_networks)
    };
    events.filter(|event| is_ours(event) && !is_beside(event)).collect()
}

fn is_told(event: &Value) -> bool {
    event["verb"] == "patch" && event["objectRef"]["resource"] == "pods"
}

/// How long each step of each ADD took, as the agents say.
pub(crate) fn add_by_step(stage: &Stage) -> String {
    let mut lines = String::new();
    for agent in stage.testbed.agents() {
        for line in read(agent.log()).lines().map(without_colours).filter(|line| line.contains("total_ms=")) {
            let value = |name: &str| {
                let (_, rest) = line.split_once(&format!(" {name}="))?;
                Some(rest.split(' ').next().unwrap_or_default().trim_matches('"').to_owned())
            };
            let mut steps = String::new();
            for step in ["bridge", "locks", "link", "plug", "configure", "installed", "announce", "total"] {
                let took = value(&format!("{step}_ms")).and_then(|ms| ms.parse::<f64>().ok());
                let _ = took.map(|took| write!(steps, "  {step} {took:.1}"));
            }
            let _ = writeln!(lines, "  {:<10} ms:{steps}", value("pod").unwrap_or_default());
        }
    }
    lines
}

fn without_colours(line: &str) -> String {
    let mut parts = line.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once('m').map_or(part, |(_, rest)| rest))
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned()
}
