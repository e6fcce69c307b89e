//! Classes that pods name: of their priority, and of what runs them.

use serde_json::{Value, json};

use super::behaviour::Behaviour;
use super::errors::Errors;
use super::format::dns1123_label;
use super::kind::{KindExt as _, kind_of};
use super::labels::check_labels;
use super::pod::resources::check_requirements;
use super::pod::scheduling::check_tolerations;
use super::table::{age, columns, name};
use super::value::{is_set, is_true, number, text};
use super::workload::check_unchanged;
use apischema::Path;
use apiserver::registry::{Generation, Resource, Scope};

/// The highest priority that is not reserved.
const HIGHEST: i64 = 1_000_000_000;

/// The classes of the system: each is what it is.
pub(super) const SYSTEM_CLASSES: [(&str, i64); 2] =
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

pub(super) fn priority() -> Resource {
    kind_of("scheduling.k8s.io", "priorityclasses", "PriorityClass", Scope::Cluster)
        .short_names(&["pc"])
        .behaving(Behaviour {
            // It is the first, and stays so: there is no spec that could change.
            generation: Generation::Spec,
            validate_create: check_priority,
            validate_update: |new, old, errors| {
                if number(&new["value"]) != number(&old["value"]) {
                    errors.forbidden(Path::root("value"), "may not be changed in an update.");
                }
                let path = Path::root("preemptionPolicy");
                check_unchanged(errors, path, &new["preemptionPolicy"], &old["preemptionPolicy"]);
            },
            ..Behaviour::PLAIN
        })
        .shown(columns(&["Name", "Value#", "Global-Default?", "Age", "PreemptionPolicy"], |class, now| {
            vec![
                name(class),
                number(&class["value"]).into(),
                is_true(&class["globalDefault"]).into(),
                age(class, now),
                text(&class["preemptionPolicy"]).into(),
            ]
        }))
}

fn check_priority(class: &Value, errors: &mut Errors) {
    let (name, value) = (text(&class["metadata"]["name"]), number(&class["value"]));
    if name.starts_with("system-") {
        let known = SYSTEM_CLASSES.iter().find(|(known, _)| *known == name);
        let why = match known {
            None => Some(format!("{name} is not a known system priority class")),
            Some((_, right)) if *right != value => {
                Some(format!("value of {name} PriorityClass must be {right}"))
            }
            Some(_) if is_true(&class["globalDefault"]) => {
                Some(format!("globalDefault of {name} PriorityClass must be false"))
            }
            Some(_) => None,
        };
        if let Some(why) = why {
            let detail = format!(
                "priority class names with 'system-' prefix are reserved for system use only. error: {why}"
            );
            errors.forbidden(Path::root("metadata").field("name"), detail);
        }
    } else if value > HIGHEST {
        let detail = format!("maximum allowed value of a user defined priority is {HIGHEST}");
        errors.forbidden(Path::root("value"), detail);
    }
    if is_set(&class["preemptionPolicy"]) {
        let policies = ["PreemptLowerPriority", "Never"];
        errors.one_of(Path::root("preemptionPolicy"), text(&class["preemptionPolicy"]), &policies);
    }
}

pub(super) fn runtime() -> Resource {
    kind_of("node.k8s.io", "runtimeclasses", "RuntimeClass", Scope::Cluster)
        .behaving(Behaviour {
            validate_create: |class, errors| {
                let handler = text(&class["handler"]);
                errors.messages(Path::root("handler"), handler, dns1123_label(handler));
                if is_set(&class["overhead"]) {
                    let limits = json!({"limits": class["overhead"]["podFixed"]});
                    check_requirements(errors, Path::root("overhead"), &limits, &[]);
                }
                let (scheduling, path) = (&class["scheduling"], Path::root("scheduling"));
                check_labels(errors, path.field("nodeSelector"), &scheduling["nodeSelector"]);
                let tolerations = path.field("tolerations");
                check_tolerations(errors, tolerations.field("tolerations"), &scheduling["tolerations"]);
            },
            validate_update: |new, old, errors| {
                check_unchanged(errors, Path::root("handler"), &new["handler"], &old["handler"]);
            },
            creates_on_update: true,
            updates_unconditionally: false,
            ..Behaviour::PLAIN
        })
        .shown(columns(&["Name", "Handler", "Age"], |class, now| {
            vec![name(class), text(&class["handler"]).into(), age(class, now)]
        }))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{create, update};
    use super::*;

    #[test]
    fn high_priorities_are_those_of_the_system() {
        let class = |name: &str, value: i64| json!({"metadata": {"name": name}, "value": value});
        assert!(create(&priority(), &class("a", HIGHEST)).is_empty());
        assert!(create(&priority(), &class("system-node-critical", 2_000_001_000)).is_empty());
        assert_eq!(
            create(&priority(), &class("a", HIGHEST + 1)),
            ["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"]
        );
        assert_eq!(
            create(&priority(), &class("system-x", 1)),
            [
                "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. \
              error: system-x is not a known system priority class"
            ]
        );
        assert_eq!(
            update(&priority(), &class("a", 2), &class("a", 1)),
            ["value: Forbidden: may not be changed in an update."]
        );
    }

    #[test]
    fn what_runs_pods_stays() {
        assert_eq!(
            update(&runtime(), &json!({"handler": "a"}), &json!({"handler": "b"})),
            ["handler: Invalid value: \"a\": field is immutable"]
        );
    }
}
