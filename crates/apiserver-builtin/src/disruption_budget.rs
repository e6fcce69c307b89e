//! PodDisruptionBudgets. Nothing here evicts pods, or counts them.

use serde_json::{Value, json};

use super::behaviour::Behaviour;
use super::errors::Errors;
use super::kind::{KindExt as _, kind_of};
use super::labels::check_selector;
use super::table::{age, columns, name};
use super::value::{is_set, number, text};
use super::workload::{check_at_most_all, check_int_or_percent};
use apischema::Path;
use apiserver::registry::{Generation, Resource, Scope};

pub(super) fn resource() -> Resource {
    kind_of("policy", "poddisruptionbudgets", "PodDisruptionBudget", Scope::Namespaced)
        .short_names(&["pdb"])
        .behaving(Behaviour {
            generation: Generation::Spec,
            prepare_create: |budget, _| {
                budget["status"] =
                    json!({"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0});
            },
            validate: check,
            validate_status: |budget, _, errors| {
                let path = Path::root("status");
                for count in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
                    errors.nonnegative(path.field(count), budget["status"][count].as_i64());
                }
            },
            updates_unconditionally: false,
            ..Behaviour::WITH_STATUS
        })
        .shown(columns(&["Name", "Min Available", "Max Unavailable", "Allowed Disruptions#", "Age"], |budget, now| {
            let bound = |field: &str| -> Value {
                match &budget["spec"][field] {
                    Value::Null => "N/A".into(),
                    Value::String(text) => text.as_str().into(),
                    other => number(other).to_string().into(),
                }
            };
            vec![
                name(budget),
                bound("minAvailable"),
                bound("maxUnavailable"),
                number(&budget["status"]["disruptionsAllowed"]).into(),
                age(budget, now),
            ]
        }))
        .with_status()
}

fn check(budget: &Value, errors: &mut Errors) {
    let (spec, path) = (&budget["spec"], Path::root("spec"));
    let bounds = ["minAvailable", "maxUnavailable"];
    if bounds.iter().all(|bound| is_set(&spec[*bound])) {
        errors.invalid(path, spec.clone(), "minAvailable and maxUnavailable cannot be both set");
    }
    for bound in bounds.into_iter().filter(|bound| is_set(&spec[*bound])) {
        check_int_or_percent(errors, path.field(bound), &spec[bound]);
        check_at_most_all(errors, path.field(bound), &spec[bound]);
    }
    check_selector(errors, path.field("selector"), &spec["selector"]);
    let policy = &spec["unhealthyPodEvictionPolicy"];
    let policies = ["AlwaysAllow", "IfHealthyBudget"];
    if is_set(policy) && !policies.contains(&text(policy)) {
        errors.not_supported(path.field("unhealthyPodEvictionPolicy"), text(policy), &policies);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{cells, create};
    use super::*;

    #[test]
    fn a_budget_has_one_bound() {
        assert!(create(&resource(), &json!({"spec": {"minAvailable": "50%"}})).is_empty());
        assert_eq!(
            create(&resource(), &json!({"spec": {"minAvailable": "150%"}})),
            ["spec.minAvailable: Invalid value: \"150%\": must not be greater than 100%"]
        );
        assert_eq!(
            create(&resource(), &json!({"spec": {"minAvailable": 1, "maxUnavailable": -1}})),
            [
                "spec: Invalid value: {\"maxUnavailable\":-1,\"minAvailable\":1}: minAvailable and maxUnavailable cannot be \
                 both set",
                "spec.maxUnavailable: Invalid value: -1: must be greater than or equal to 0"
            ]
        );
        let budget = json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 2}});
        assert_eq!(
            cells(&resource(), &budget, "2024-01-01T00:00:00Z"),
            [json!("b"), json!("2"), json!("N/A"), json!(0), json!("<unknown>")]
        );
    }
}
