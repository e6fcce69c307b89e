//! Nodes.

use std::collections::HashSet;

use apischema::FieldErrorKind;
use serde_json::{Value, json};

use super::address;
use super::behaviour::{Behaviour, StatusWriter};
use super::errors::Errors;
use super::format::{label_value, qualified_name};
use super::kind::{KindExt as _, core};
use super::pod::resources::check_amount;
use super::pod::scheduling::TAINT_EFFECTS;
use super::table::{age, columns, name, or};
use super::value::{entries, fields_mut, is_true, items, object_mut, set, text, texts};
use apischema::Path;
use apiserver::registry::{Resource, Scope};
use apiserver::selection::SelectableField;

pub(super) fn resource() -> Resource {
    core("nodes", "Node", Scope::Cluster)
        .short_names(&["no"])
        .selectable([SelectableField::named("spec.unschedulable", &["spec.unschedulable"], "false")])
        .behaving(Behaviour {
            // A node's agent makes the node with its status.
            status: StatusWriter::SubresourceOrCreator,
            settle: |node| {
                settle_networks(node);
                // Of a time when the server configured kubelets.
                object_mut(node, "spec").remove("configSource");
            },
            prepare_create: |node, _| {
                fields_mut(node).entry("status").or_insert_with(|| json!({}));
            },
            validate: check,
            validate_update: check_update,
            validate_status: check_update,
            ..Behaviour::WITH_STATUS
        })
        .shown(columns(
            &[
                "Name",
                "Status",
                "Roles",
                "Age",
                "Version",
                "Internal-IP*",
                "External-IP*",
                "OS-Image*",
                "Kernel-Version*",
                "Container-Runtime*",
            ],
            |node, now| {
                let info = &node["status"]["nodeInfo"];
                vec![
                    name(node),
                    condition(node).into(),
                    roles(node).into(),
                    age(node, now),
                    text(&info["kubeletVersion"]).into(),
                    address_of(node, "InternalIP").into(),
                    address_of(node, "ExternalIP").into(),
                    or(&info["osImage"], "<unknown>").into(),
                    or(&info["kernelVersion"], "<unknown>").into(),
                    or(&info["containerRuntimeVersion"], "<unknown>").into(),
                ]
            },
        ))
        .with_status()
}

/// The first of a node's networks and all of them are told apart by name only.
fn settle_networks(node: &mut Value) {
    let spec = object_mut(node, "spec");
    let first = spec.get("podCIDR").map_or("", text).to_owned();
    let of_all = spec.get("podCIDRs").and_then(|all| texts(all).next()).unwrap_or_default().to_owned();
    if !first.is_empty() && first != of_all {
        set(spec, "podCIDRs", Some(json!([first])));
    } else if first.is_empty() && !of_all.is_empty() {
        set(spec, "podCIDR", Some(of_all.into()));
    }
}

fn condition(node: &Value) -> String {
    let ready =
        items(&node["status"]["conditions"]).iter().rfind(|condition| text(&condition["type"]) == "Ready");
    let status = match ready.map(|condition| text(&condition["status"])) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    if is_true(&node["spec"]["unschedulable"]) {
        format!("{status},SchedulingDisabled")
    } else {
        status.into()
    }
}

fn roles(node: &Value) -> String {
    let role = |(key, value): (&str, &Value)| match key.strip_prefix("node-role.kubernetes.io/") {
        Some(role) => Some(role.to_owned()),
        None => (key == "kubernetes.io/role").then(|| text(value).to_owned()),
    };
    let mut roles: Vec<_> =
        entries(&node["metadata"]["labels"]).filter_map(role).filter(|role| !role.is_empty()).collect();
    roles.sort_unstable();
    roles.dedup();
    if roles.is_empty() { "<none>".into() } else { roles.join(",") }
}

fn address_of<'a>(node: &'a Value, kind: &str) -> &'a str {
    let mut addresses = items(&node["status"]["addresses"]).iter();
    addresses
        .find(|address| text(&address["type"]) == kind)
        .map_or("<none>", |address| text(&address["address"]))
}

fn check(node: &Value, errors: &mut Errors) {
    check_taints(errors, node);
    check_amounts(errors, node);
    let (networks, spec) = (&node["spec"]["podCIDRs"], Path::root("spec"));
    let path = spec.field("podCIDRs");
    for (index, network) in texts(networks).enumerate() {
        address::check_network(errors, path.index(index), network, &[]);
    }
    let count = items(networks).len();
    let dual = address::is_dual_stack(texts(networks).filter_map(|network| network.split('/').next()));
    if count > 1 && (count > 2 || !dual) {
        errors.invalid(path, networks.clone(), "may specify no more than one CIDR for each IP family");
    }
}

fn check_taints(errors: &mut Errors, node: &Value) {
    // Clients know taints by a path that they are not at.
    let metadata = Path::root("metadata");
    let path = metadata.field("taints");
    let mut seen = HashSet::new();
    for (index, taint) in items(&node["spec"]["taints"]).iter().enumerate() {
        let (path, effect) = (path.index(index), text(&taint["effect"]));
        let (key, value) = (text(&taint["key"]), text(&taint["value"]));
        errors.messages(path.field("key"), key, qualified_name(key));
        let wrong = label_value(value);
        if !wrong.is_empty() {
            errors.invalid(path.field("value"), value, wrong.join(";"));
        }
        errors.one_of(path.field("effect"), effect, &TAINT_EFFECTS);
        if !seen.insert((key, effect)) {
            let detail = "taints must be unique by key and effect pair";
            errors.explained(FieldErrorKind::Duplicate, path, taint.clone(), detail);
        }
    }
}

fn check_amounts(errors: &mut Errors, node: &Value) {
    let path = Path::root("status");
    for list in ["capacity", "allocatable"] {
        for (resource, amount) in entries(&node["status"][list]) {
            check_amount(errors, path.field(list).field(resource), resource, amount);
        }
    }
}

fn check_update(node: &Value, old: &Value, errors: &mut Errors) {
    check_amounts(errors, node);
    let (spec, status) = (Path::root("spec"), Path::root("status"));
    let mut seen = HashSet::new();
    for (index, address) in items(&node["status"]["addresses"]).iter().enumerate() {
        if !seen.insert((text(&address["type"]), text(&address["address"]))) {
            errors.duplicate(status.field("addresses").index(index), address.clone());
        }
    }
    if text(&node["spec"]["externalID"]) != text(&old["spec"]["externalID"]) {
        errors.forbidden(spec.field("externalID"), "may not be updated");
    }
    let networks = |node: &Value| texts(&node["spec"]["podCIDRs"]).map(str::to_owned).collect::<Vec<_>>();
    if !networks(old).is_empty() && networks(old) != networks(node) {
        let detail = "node updates may not change podCIDR except from \"\" to valid";
        errors.forbidden(spec.field("podCIDRs"), detail);
    }
    let provider = text(&old["spec"]["providerID"]);
    if !provider.is_empty() && provider != text(&node["spec"]["providerID"]) {
        let detail = "node updates may not change providerID except from \"\" to valid";
        errors.forbidden(spec.field("providerID"), detail);
    }
    check_taints(errors, node);
}

#[cfg(test)]
mod tests {
    use super::super::testing::{cells, create, prepared, update};
    use super::*;

    #[test]
    fn taints_are_unique_by_key_and_effect() {
        let node = json!({"spec": {"taints": [
            {"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoExecute"}, {"key": "a", "effect": "NoSchedule"},
            {"key": "b", "effect": "Never"},
        ]}});
        assert_eq!(
            create(&resource(), &node),
            [
                "metadata.taints[2]: Duplicate value: {\"effect\":\"NoSchedule\",\"key\":\"a\"}: taints must be unique by \
                 key and effect pair",
                "metadata.taints[3].effect: Unsupported value: \"Never\": supported values: \"NoSchedule\", \
                 \"PreferNoSchedule\", \"NoExecute\""
            ]
        );
    }

    #[test]
    fn the_networks_of_a_node_are_set_once() {
        let old = prepared(&resource(), json!({"spec": {"podCIDR": "10.0.0.0/24"}}));
        assert_eq!(old["spec"]["podCIDRs"], json!(["10.0.0.0/24"]));
        let new = json!({"spec": {"podCIDRs": ["10.0.1.0/24"], "providerID": "x"}});
        assert_eq!(
            update(&resource(), &new, &old),
            ["spec.podCIDRs: Forbidden: node updates may not change podCIDR except from \"\" to valid"]
        );
        assert!(update(&resource(), &new, &json!({"spec": {}})).is_empty());
        assert_eq!(
            create(&resource(), &json!({"spec": {"podCIDRs": ["10.0.0.0/24", "10.0.1.0/24"]}})),
            [
                "spec.podCIDRs: Invalid value: [\"10.0.0.0/24\",\"10.0.1.0/24\"]: may specify no more than one CIDR for each \
              IP family"
            ]
        );
    }

    #[test]
    fn the_table_shows_what_a_node_is() {
        let node = json!({
            "metadata": {
                "name": "n1", "creationTimestamp": "2024-01-01T00:00:00Z",
                "labels": {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "edge"},
            },
            "spec": {"unschedulable": true},
            "status": {
                "conditions": [{"type": "Ready", "status": "False"}],
                "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
                "nodeInfo": {"kubeletVersion": "v1.34.4"},
            },
        });
        assert_eq!(
            cells(&resource(), &node, "2024-01-02T00:00:00Z"),
            [
                "n1",
                "NotReady,SchedulingDisabled",
                "edge,worker",
                "24h",
                "v1.34.4",
                "10.0.0.1",
                "<none>",
                "<unknown>",
                "<unknown>",
                "<unknown>"
            ]
        );
    }
}
