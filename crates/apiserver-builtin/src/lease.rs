//! Leases.

use serde_json::Value;

use super::behaviour::Behaviour;
use super::errors::Errors;
use super::kind::{KindExt as _, kind_of};
use super::table::{age, columns, name};
use super::value::text;
use apischema::Path;
use apiserver::registry::{Resource, Scope};

pub(super) fn resource() -> Resource {
    kind_of("coordination.k8s.io", "leases", "Lease", Scope::Namespaced)
        .behaving(Behaviour {
            // Elections by the server are off unless a cluster turns them on.
            settle: |lease| {
                if let Some(spec) = lease.get_mut("spec").and_then(Value::as_object_mut) {
                    spec.remove("strategy");
                    spec.remove("preferredHolder");
                }
            },
            validate: check,
            creates_on_update: true,
            // Whoever takes a lease must have seen who has it.
            updates_unconditionally: false,
            ..Behaviour::PLAIN
        })
        .shown(columns(&["Name", "Holder", "Age"], |lease, now| {
            vec![name(lease), text(&lease["spec"]["holderIdentity"]).into(), age(lease, now)]
        }))
}

fn check(lease: &Value, errors: &mut Errors) {
    let (spec, path) = (&lease["spec"], Path::root("spec"));
    if let Some(seconds) = spec["leaseDurationSeconds"].as_i64().filter(|seconds| *seconds <= 0) {
        errors.invalid(path.field("leaseDurationSeconds"), seconds, "must be greater than 0");
    }
    errors.nonnegative(path.field("leaseTransitions"), spec["leaseTransitions"].as_i64());
}

#[cfg(test)]
mod tests {
    use super::super::testing::create;
    use super::*;
    use serde_json::json;

    #[test]
    fn a_lease_lasts() {
        assert!(
            create(&resource(), &json!({"spec": {"leaseDurationSeconds": 1, "leaseTransitions": 0}}))
                .is_empty()
        );
        assert_eq!(
            create(&resource(), &json!({"spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1}})),
            [
                "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
                "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0"
            ]
        );
    }
}
