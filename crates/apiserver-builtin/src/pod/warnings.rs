//! What whoever writes the spec of a pod should know, though it is allowed.

use std::collections::HashMap;

use serde_json::Value;

use super::super::value::{entries, is_set, items, number, text};
use apischema::Path;
use apischema::Quantity;

/// What whoever writes a template of pods should know. `path` is where its spec is.
pub(in super::super) fn spec_warnings(path: Path<'_>, spec: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    for (index, constraint) in items(&spec["topologySpreadConstraints"]).iter().enumerate() {
        let constraints = path.field("topologySpreadConstraints");
        note_missing_selector(&mut warnings, constraints.index(index), constraint);
    }
    note_old_volumes(&mut warnings, path.field("volumes"), spec);
    note_repeated(&mut warnings, path.field("hostAliases"), &spec["hostAliases"], "ip");
    let secrets = path.field("imagePullSecrets");
    note_repeated(&mut warnings, secrets, &spec["imagePullSecrets"], "name");
    for (index, secret) in items(&spec["imagePullSecrets"]).iter().enumerate() {
        if text(&secret["name"]).is_empty() {
            warnings.push(format!("{}: invalid empty name \"\"", secrets.index(index).field("name")));
        }
    }
    note_fractions(&mut warnings, path.field("overhead"), &spec["overhead"]);
    for_each_container(path, spec, &mut |at, container| {
        let resources = at.field("resources");
        for of in ["limits", "requests"] {
            note_fractions(&mut warnings, resources.field(of), &container["resources"][of]);
        }
        note_hidden_variables(&mut warnings, at.field("env"), &container["env"]);
    });
    note_ports(&mut warnings, path, spec);
    for kind in ["podAffinity", "podAntiAffinity"] {
        let (affinity, at) = (path.field("affinity"), &spec["affinity"][kind]);
        note_affinity(&mut warnings, affinity.field(kind), at);
    }
    warnings
}

fn for_each_container(path: Path<'_>, spec: &Value, then: &mut dyn FnMut(Path<'_>, &Value)) {
    for kind in ["initContainers", "containers"] {
        let containers = path.field(kind);
        for (index, container) in items(&spec[kind]).iter().enumerate() {
            then(containers.index(index), container);
        }
    }
}

fn note_missing_selector(warnings: &mut Vec<String>, path: Path<'_>, term: &Value) {
    if !is_set(&term["labelSelector"]) {
        let path = path.field("labelSelector");
        warnings.push(format!("{path}: a null labelSelector results in matching no pod"));
    }
}

fn note_affinity(warnings: &mut Vec<String>, path: Path<'_>, affinity: &Value) {
    let name = "requiredDuringSchedulingIgnoredDuringExecution";
    let required = path.field(name);
    for (index, term) in items(&affinity[name]).iter().enumerate() {
        note_missing_selector(warnings, required.index(index), term);
    }
    let name = "preferredDuringSchedulingIgnoredDuringExecution";
    let preferred = path.field(name);
    for (index, weighted) in items(&affinity[name]).iter().enumerate() {
        let at = preferred.index(index);
        note_missing_selector(warnings, at.field("podAffinityTerm"), &weighted["podAffinityTerm"]);
    }
}

/// Sources of volumes that no longer work, or will not for long.
const OLD_VOLUMES: [(&str, &str); 9] = [
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

fn note_old_volumes(warnings: &mut Vec<String>, path: Path<'_>, spec: &Value) {
    for (index, volume) in items(&spec["volumes"]).iter().enumerate() {
        let at = path.index(index);
        for (source, since) in OLD_VOLUMES {
            if is_set(&volume[source]) {
                let shown = if source == "storageos" { "storageOS" } else { source };
                warnings.push(format!("{}: {since}", at.field(shown)));
            }
        }
    }
}

fn note_repeated(warnings: &mut Vec<String>, path: Path<'_>, list: &Value, field: &str) {
    let mut seen = Vec::new();
    for (index, item) in items(list).iter().enumerate() {
        let value = text(&item[field]);
        if seen.contains(&value) {
            warnings.push(format!("{}: duplicate {field} {value:?}", path.index(index).field(field)));
        }
        seen.push(value);
    }
}

fn note_fractions(warnings: &mut Vec<String>, path: Path<'_>, quantities: &Value) {
    for name in ["memory", "ephemeral-storage"] {
        let Some((_, value)) = entries(quantities).find(|(key, _)| *key == name) else { continue };
        if Quantity::from_value(value).is_some_and(|quantity| !quantity.is_whole()) {
            let path = path.key(name);
            warnings.push(format!(
                "{path}: fractional byte value {:?} is invalid, must be an integer",
                text(value)
            ));
        }
    }
}

/// A variable may be built upon one of the same name, but not replace it.
fn note_hidden_variables(warnings: &mut Vec<String>, path: Path<'_>, environment: &Value) {
    let mut seen = Vec::new();
    for (index, variable) in items(environment).iter().enumerate() {
        let (name, value) = (text(&variable["name"]), text(&variable["value"]));
        let reference = format!("$({name})");
        let builds = !is_set(&variable["valueFrom"]) && value != reference && value.contains(&reference);
        if seen.contains(&name) && !builds {
            let path = path.index(index);
            warnings.push(format!(
                "{path}: hides previous definition of {name:?}, which may be dropped when using apply"
            ));
        }
        seen.push(name);
    }
}

fn note_ports(warnings: &mut Vec<String>, path: Path<'_>, spec: &Value) {
    let mut seen: Vec<(Value, String)> = Vec::new();
    for_each_container(path, spec, &mut |at, container| {
        let ports = at.field("ports");
        for (index, port) in items(&container["ports"]).iter().enumerate() {
            let at = ports.index(index).to_string();
            for (other, other_at) in &seen {
                let same = |field: &str| port[field] == other[field];
                if !same("containerPort") || !same("protocol") {
                    continue;
                }
                let host = |port: &Value| (text(&port["hostIP"]).to_owned(), number(&port["hostPort"]));
                let ((ip, number), (other_ip, other_number)) = (host(port), host(other));
                let how = if (&ip, number) == (&other_ip, other_number) {
                    "duplicate"
                } else if number == 0 || other_number == 0 {
                    "overlapping"
                } else if number == other_number && ip.is_empty() != other_ip.is_empty() {
                    "dangerously ambiguous"
                } else {
                    continue;
                };
                warnings.push(format!("{at}: {how} port definition with {other_at}"));
            }
            seen.push((port.clone(), at));
        }
    });
    let mut names: HashMap<&str, &str> = HashMap::new();
    for (port, at) in seen.iter().filter(|(port, _)| is_set(&port["name"])) {
        let name = text(&port["name"]);
        match names.get(name) {
            Some(other) => warnings.push(format!(
                "{at}: duplicate port name {name:?} with {other}, services and probes that select ports by name will use \
                 {other}"
            )),
            None => {
                names.insert(name, at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn odd_but_valid_specs_cause_warnings() {
        let spec = json!({
            "containers": [
                {
                    "resources": {"limits": {"memory": "100m"}},
                    "env": [{"name": "A", "value": "1"}, {"name": "A", "value": "$(A)2"}, {"name": "A", "value": "3"}],
                    "ports": [{"containerPort": 80, "name": "http"}, {"containerPort": 80, "hostPort": 80}],
                },
                {"ports": [{"containerPort": 81, "name": "http"}]},
            ],
            "imagePullSecrets": [{"name": "a"}, {"name": "a"}],
            "volumes": [{"name": "v", "gitRepo": {}}],
            "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "k"}]}},
        });
        assert_eq!(
            spec_warnings(Path::root("spec"), &spec),
            [
                "spec.volumes[0].gitRepo: deprecated in v1.11, and disabled by default in v1.33+",
                "spec.imagePullSecrets[1].name: duplicate name \"a\"",
                "spec.containers[0].resources.limits[memory]: fractional byte value \"100m\" is invalid, must be an integer",
                "spec.containers[0].env[2]: hides previous definition of \"A\", which may be dropped when using apply",
                "spec.containers[0].ports[1]: overlapping port definition with spec.containers[0].ports[0]",
                "spec.containers[1].ports[0]: duplicate port name \"http\" with spec.containers[0].ports[0], services and \
                 probes that select ports by name will use spec.containers[0].ports[0]",
                "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector: a null \
                 labelSelector results in matching no pod",
            ]
        );
    }
}
