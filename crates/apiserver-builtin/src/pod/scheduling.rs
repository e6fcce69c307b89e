//! Where pods may run.

use serde_json::Value;

use super::super::errors::Errors;
use super::super::format::{dns1123_label, dns1123_subdomain, label_value, qualified_name};
use super::super::labels::check_selector;
use super::super::value::{entries, is_set, items, number, size, text, texts};
use apischema::Path;

/// The effects of taints.
pub(in super::super) const TAINT_EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Checks the taints that a pod bears.
pub(in super::super) fn check_tolerations(errors: &mut Errors, path: Path<'_>, tolerations: &Value) {
    for (index, toleration) in items(tolerations).iter().enumerate() {
        let path = path.index(index);
        let field = |name: &str| text(&toleration[name]);
        let (key, operator, value, effect) =
            (field("key"), field("operator"), field("value"), field("effect"));
        if !key.is_empty() {
            errors.messages(path.field("key"), key, qualified_name(key));
        } else if operator != "Exists" {
            let detail =
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.invalid(path.field("operator"), operator, detail);
        }
        if is_set(&toleration["tolerationSeconds"]) && effect != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.invalid(path.field("effect"), effect, detail);
        }
        match operator {
            "Equal" | "" => {
                let wrong = label_value(value);
                if !wrong.is_empty() {
                    errors.invalid(path.field("operator"), value, wrong.join(";"));
                }
            }
            "Exists" => {
                if !value.is_empty() {
                    let detail = "value must be empty when `operator` is 'Exists'";
                    errors.invalid(path.field("operator"), value, detail);
                }
            }
            other => errors.not_supported(path.field("operator"), other, &["Equal", "Exists"]),
        }
        if !effect.is_empty() && !TAINT_EFFECTS.contains(&effect) {
            errors.not_supported(path.field("effect"), effect, &TAINT_EFFECTS);
        }
    }
}

/// Checks which nodes and which other pods a pod wants to be near to, or far from.
pub(super) fn check_affinity(errors: &mut Errors, path: Path<'_>, affinity: &Value) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
    let (node, node_path) = (&affinity["nodeAffinity"], path.field("nodeAffinity"));
    if is_set(&node[REQUIRED]) {
        check_node_selector(errors, node_path.field(REQUIRED), &node[REQUIRED]);
    }
    for (index, term) in items(&node[PREFERRED]).iter().enumerate() {
        let (list, weight) = (node_path.field(PREFERRED), number(&term["weight"]));
        let at = list.index(index);
        check_weight(errors, at.field("weight"), weight);
        check_node_term(errors, at.field("preference"), &term["preference"], LabelValues::Any);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let (pods, path) = (&affinity[kind], path.field(kind));
        for (index, term) in items(&pods[REQUIRED]).iter().enumerate() {
            check_pod_term(errors, path.field(REQUIRED).index(index), term);
        }
        for (index, weighted) in items(&pods[PREFERRED]).iter().enumerate() {
            let list = path.field(PREFERRED);
            let at = list.index(index);
            check_weight(errors, at.field("weight"), number(&weighted["weight"]));
            check_pod_term(errors, at.field("podAffinityTerm"), &weighted["podAffinityTerm"]);
        }
    }
}

fn check_weight(errors: &mut Errors, path: Path<'_>, weight: i64) {
    if !(1..=100).contains(&weight) {
        errors.invalid(path, weight, "must be in the range 1-100");
    }
}

/// Which values of labels a selector of nodes may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LabelValues {
    Valid,
    Any,
}

/// Checks a selector of nodes.
pub(in super::super) fn check_node_selector(errors: &mut Errors, path: Path<'_>, selector: &Value) {
    let (terms, path) = (items(&selector["nodeSelectorTerms"]), path.field("nodeSelectorTerms"));
    if terms.is_empty() {
        errors.required(path, "must have at least one node selector term");
    }
    for (index, term) in terms.iter().enumerate() {
        check_node_term(errors, path.index(index), term, LabelValues::Valid);
    }
}

fn check_node_term(errors: &mut Errors, path: Path<'_>, term: &Value, label_values: LabelValues) {
    for (index, requirement) in items(&term["matchExpressions"]).iter().enumerate() {
        let list = path.field("matchExpressions");
        check_node_expression(errors, list.index(index), requirement, label_values);
    }
    for (index, requirement) in items(&term["matchFields"]).iter().enumerate() {
        let list = path.field("matchFields");
        check_node_field(errors, list.index(index), requirement);
    }
}

fn check_node_expression(
    errors: &mut Errors,
    path: Path<'_>,
    requirement: &Value,
    label_values: LabelValues,
) {
    let (count, values) = (size(&requirement["values"]), path.field("values"));
    match text(&requirement["operator"]) {
        "In" | "NotIn" => {
            if count == 0 {
                errors.required(values, "must be specified when `operator` is 'In' or 'NotIn'");
            }
        }
        "Exists" | "DoesNotExist" => {
            if count > 0 {
                errors
                    .forbidden(values, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
            }
        }
        "Gt" | "Lt" => {
            if count != 1 {
                errors.required(values, "must be specified single value when `operator` is 'Lt' or 'Gt'");
            }
        }
        other => errors.invalid(path.field("operator"), other, "not a valid selector operator"),
    }
    let key = text(&requirement["key"]);
    errors.messages(path.field("key"), key, qualified_name(key));
    if label_values == LabelValues::Valid {
        for (index, value) in texts(&requirement["values"]).enumerate() {
            errors.messages(values.index(index), value, label_value(value));
        }
    }
}

fn check_node_field(errors: &mut Errors, path: Path<'_>, requirement: &Value) {
    let values = path.field("values");
    match text(&requirement["operator"]) {
        "In" | "NotIn" => {
            if size(&requirement["values"]) != 1 {
                let detail =
                    "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
                errors.required(values, detail);
            }
        }
        other => errors.invalid(path.field("operator"), other, "not a valid selector operator"),
    }
    let key = text(&requirement["key"]);
    if key != "metadata.name" {
        return errors.invalid(path.field("key"), key, "not a valid field selector key");
    }
    for (index, value) in texts(&requirement["values"]).enumerate() {
        errors.messages(values.index(index), value, dns1123_subdomain(value));
    }
}

fn check_pod_term(errors: &mut Errors, path: Path<'_>, term: &Value) {
    check_selector(errors, path.field("labelSelector"), &term["labelSelector"]);
    check_selector(errors, path.field("namespaceSelector"), &term["namespaceSelector"]);
    for name in texts(&term["namespaces"]) {
        errors.messages(path.field("namespace"), name, dns1123_label(name));
    }
    check_label_keys(errors, path, term);
    let topology = text(&term["topologyKey"]);
    if topology.is_empty() {
        errors.required(path.field("topologyKey"), "can not be empty");
    }
    errors.messages(path.field("topologyKey"), topology, qualified_name(topology));
}

/// Checks the keys of labels that are taken from the pod itself.
fn check_label_keys(errors: &mut Errors, path: Path<'_>, term: &Value) {
    let selector = &term["labelSelector"];
    for field in ["matchLabelKeys", "mismatchLabelKeys"] {
        if size(&term[field]) > 0 && !is_set(selector) {
            errors.forbidden(path.field(field), "must not be specified when labelSelector is not set");
            continue;
        }
        for (index, key) in texts(&term[field]).enumerate() {
            errors.messages(path.field(field).index(index), key, qualified_name(key));
        }
    }
    // The server has added an expression for each key; one more than that is the client's.
    let mut seen: Vec<&str> = entries(&selector["matchLabels"]).map(|(key, _)| key).collect();
    for expression in items(&selector["matchExpressions"]) {
        let key = text(&expression["key"]);
        let position = texts(&term["matchLabelKeys"]).position(|known| known == key);
        if let Some(index) = position.filter(|_| seen.contains(&key)) {
            errors.invalid(path.index(index), key, "exists in both matchLabelKeys and labelSelector");
        }
        seen.push(key);
    }
    for (index, key) in texts(&term["matchLabelKeys"]).enumerate() {
        if texts(&term["mismatchLabelKeys"]).any(|other| other == key) {
            let path = path.field("matchLabelKeys");
            errors.invalid(path.index(index), key, "exists in both matchLabelKeys and mismatchLabelKeys");
        }
    }
}

/// Checks how evenly pods are spread.
pub(super) fn check_spread(errors: &mut Errors, path: Path<'_>, constraints: &Value) {
    const ACTIONS: [&str; 2] = ["DoNotSchedule", "ScheduleAnyway"];
    const POLICIES: [&str; 2] = ["Honor", "Ignore"];
    let constraints = items(constraints);
    for (index, constraint) in constraints.iter().enumerate() {
        let path = path.index(index);
        let (key, action) = (text(&constraint["topologyKey"]), text(&constraint["whenUnsatisfiable"]));
        let skew = number(&constraint["maxSkew"]);
        if skew <= 0 {
            errors.invalid(path.field("maxSkew"), skew, "must be greater than zero");
        }
        if key.is_empty() {
            errors.required(path.field("topologyKey"), "can not be empty");
        }
        if !ACTIONS.contains(&action) {
            errors.not_supported(path.field("whenUnsatisfiable"), action, &ACTIONS);
        }
        let again = constraints[index + 1..]
            .iter()
            .any(|other| text(&other["topologyKey"]) == key && text(&other["whenUnsatisfiable"]) == action);
        if again {
            errors.duplicate(path.field("{topologyKey, whenUnsatisfiable}"), format!("{{{key}, {action}}}"));
        }
        if let Some(domains) = constraint["minDomains"].as_i64() {
            if domains <= 0 {
                errors.invalid(path.field("minDomains"), domains, "must be greater than zero");
            }
            if action != "DoNotSchedule" {
                let detail =
                    format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
                errors.invalid(path.field("minDomains"), domains, detail);
            }
        }
        for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            if is_set(&constraint[policy]) && !POLICIES.contains(&text(&constraint[policy])) {
                errors.not_supported(path.field(policy), text(&constraint[policy]), &POLICIES);
            }
        }
        check_label_keys(errors, path, constraint);
        check_selector(errors, path.field("labelSelector"), &constraint["labelSelector"]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn wrong(check: fn(&mut Errors, Path<'_>, &Value), value: &Value) -> Vec<String> {
        let mut errors = Errors::default();
        check(&mut errors, Path::root("t"), value);
        errors.into_vec().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn tolerations_need_a_key_or_exists() {
        assert!(
            wrong(check_tolerations, &json!([{"operator": "Exists"}, {"key": "a", "value": "b"}])).is_empty()
        );
        assert_eq!(
            wrong(
                check_tolerations,
                &json!([
                    {"operator": "Equal"},
                    {"key": "a", "operator": "Exists", "value": "x", "effect": "Never"},
                    {"key": "a", "operator": "In", "tolerationSeconds": 1},
                ])
            ),
            [
                "t[0].operator: Invalid value: \"Equal\": operator must be Exists when `key` is empty, which means \
                 \"match all values and all keys\"",
                "t[1].operator: Invalid value: \"x\": value must be empty when `operator` is 'Exists'",
                "t[1].effect: Unsupported value: \"Never\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \
                 \"NoExecute\"",
                "t[2].effect: Invalid value: \"\": effect must be 'NoExecute' when `tolerationSeconds` is set",
                "t[2].operator: Unsupported value: \"In\": supported values: \"Equal\", \"Exists\"",
            ]
        );
    }

    #[test]
    fn affinities_say_to_what() {
        let affinity = json!({
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}},
            "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 0, "podAffinityTerm": {"topologyKey": "zone"}},
            ]},
        });
        assert_eq!(
            wrong(check_affinity, &affinity),
            [
                "t.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: Required value: must \
                 have at least one node selector term",
                "t.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 0: must be \
                 in the range 1-100",
            ]
        );
    }

    #[test]
    fn spreading_is_asked_for_once() {
        let constraint = json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"});
        assert!(wrong(check_spread, &json!([constraint])).is_empty());
        assert_eq!(
            wrong(check_spread, &json!([constraint, constraint])),
            ["t[0].{topologyKey, whenUnsatisfiable}: Duplicate value: \"{zone, DoNotSchedule}\""]
        );
    }
}
