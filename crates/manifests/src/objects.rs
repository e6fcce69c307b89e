//! Everything that an installation is made of.

use std::collections::BTreeMap;

use serde_json::json;

use crate::installation::{Installation, Invalid};
use crate::object::Object;
use crate::{agent, controller, ovn_addresses, ovn_central, ovn_controller, ovn_tls, ovs, shipped};

/// The label that everything in an installation has.
pub(crate) const PART_OF: &str = "app.kubernetes.io/part-of";

/// All objects of an installation, each once, in the order in which they are to be applied.
pub fn objects(installation: &Installation) -> Result<Vec<Object>, Invalid> {
    installation.check()?;
    let made = [
        controller::objects(installation),
        agent::objects(installation),
        ovn_addresses::objects(installation),
        ovn_central::objects(installation),
        ovn_controller::objects(installation),
        ovn_tls::objects(installation, controller::NAME, &[ovn_central::NAME, ovn_controller::NAME]),
        ovs::objects(installation),
    ];
    let mut all: Vec<Object> = Vec::new();
    for object in shipped::objects(installation).into_iter().chain(made.into_iter().flatten()) {
        if all.iter().any(|other| other.identity() == object.identity()) {
            continue;
        }
        all.push(object);
    }
    for object in &mut all {
        label(object);
    }
    // Stable: within a kind they stay as they were.
    all.sort_by_key(|object| object.kind().rank());
    Ok(all)
}

/// What runs: the objects whose pods must become ready.
pub fn workloads(objects: &[Object]) -> Vec<&Object> {
    let runs = |object: &&Object| matches!(object.kind().kind, "DaemonSet" | "Deployment" | "StatefulSet");
    objects.iter().filter(runs).collect()
}

fn label(object: &mut Object) {
    let is_namespace = object.kind().kind == "Namespace";
    let metadata = &mut object.value_mut()["metadata"];
    let mut labels: BTreeMap<String, serde_json::Value> = match metadata["labels"].take() {
        serde_json::Value::Object(labels) => labels.into_iter().collect(),
        _ => BTreeMap::new(),
    };
    labels.insert(PART_OF.into(), json!("portolan"));
    if is_namespace {
        // Agents and Open vSwitch configure their hosts.
        labels.insert("pod-security.kubernetes.io/enforce".into(), json!("privileged"));
    }
    metadata["labels"] = json!(labels);
}

#[cfg(test)]
mod tests;
