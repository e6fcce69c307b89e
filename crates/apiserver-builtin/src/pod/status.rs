//! What a pod is, as its node says.

use serde_json::Value;

use super::super::address;
use super::super::errors::Errors;
use super::super::format::{dns1123_subdomain, qualified_name};
use super::super::value::{is_set, items, number, text};
use super::update::check_annotations;
use apischema::Path;

/// Checks a status that is written by itself.
pub(super) fn check_status(errors: &mut Errors, pod: &Value, old: &Value) {
    check_annotations(errors, pod, old);
    let (status, old_status, path) = (&pod["status"], &old["status"], Path::root("status"));
    for (index, condition) in items(&status["conditions"]).iter().enumerate() {
        let list = path.field("conditions");
        let at = list.index(index);
        let generation = number(&condition["observedGeneration"]);
        if generation < 0 {
            errors.invalid(at.field("observedGeneration"), generation, "must be a non-negative integer");
        }
        let kind = text(&condition["type"]);
        errors.messages(at.field("Type"), kind, qualified_name(kind));
    }
    let nominated = text(&status["nominatedNodeName"]);
    if !nominated.is_empty() && nominated != text(&old_status["nominatedNodeName"]) {
        errors.messages(path.field("nominatedNodeName"), nominated, dns1123_subdomain(nominated));
    }
    let generation = number(&status["observedGeneration"]);
    if generation < 0 {
        errors.invalid(path.field("observedGeneration"), generation, "must be a non-negative integer");
    }
    let quality = text(&status["qosClass"]);
    if quality != text(&old_status["qosClass"]) {
        errors.invalid(path.field("qosClass"), quality, "field is immutable");
    }
    check_restarts(errors, path.field("containerStatuses"), pod, old, "containerStatuses");
    check_restarts(errors, path.field("initContainerStatuses"), pod, old, "initContainerStatuses");
    check_addresses(errors, path.field("podIPs"), &status["podIPs"], &old_status["podIPs"]);
    check_host_addresses(errors, path.field("hostIPs"), status, old_status);
}

/// What has ended for good does not run again.
fn check_restarts(errors: &mut Errors, path: Path<'_>, pod: &Value, old: &Value, list: &str) {
    let policy = text(&old["spec"]["restartPolicy"]);
    if policy == "Always" {
        return;
    }
    let restarts_anyway = |name: &str| {
        let init =
            items(&old["spec"]["initContainers"]).iter().find(|container| text(&container["name"]) == name);
        init.is_some_and(|container| text(&container["restartPolicy"]) == "Always")
    };
    for (index, before) in items(&old["status"][list]).iter().enumerate() {
        let (ended, name) = (&before["state"]["terminated"], text(&before["name"]));
        if !is_set(ended)
            || (number(&ended["exitCode"]) != 0 && policy == "OnFailure")
            || restarts_anyway(name)
        {
            continue;
        }
        let now = items(&pod["status"][list]).iter().filter(|status| text(&status["name"]) == name);
        if now.clone().any(|status| !is_set(&status["state"]["terminated"])) {
            errors.forbidden(
                path.index(index).field("state"),
                "may not be transitioned to non-terminated state",
            );
        }
    }
}

fn addresses(list: &Value) -> Vec<&str> {
    items(list).iter().map(|item| text(&item["ip"])).collect()
}

fn check_addresses(errors: &mut Errors, path: Path<'_>, new: &Value, old: &Value) {
    let (list, existing) = (addresses(new), addresses(old));
    for (index, ip) in list.iter().enumerate() {
        address::check(errors, path.index(index), ip, &existing);
    }
    if list.len() > 1 && (list.len() > 2 || !address::is_dual_stack(list.iter().copied())) {
        errors.invalid(path, new.clone(), "may specify no more than one IP for each IP family");
    }
}

fn check_host_addresses(errors: &mut Errors, path: Path<'_>, status: &Value, old: &Value) {
    let Some(first) = items(&status["hostIPs"]).first() else { return };
    if text(&first["ip"]) != text(&status["hostIP"]) {
        errors.invalid(path.index(0).field("ip"), text(&first["ip"]), "must be equal to `hostIP`");
    }
    check_addresses(errors, path, &status["hostIPs"], &old["hostIPs"]);
}
