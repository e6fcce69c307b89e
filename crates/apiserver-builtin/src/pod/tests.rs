use serde_json::{Value, json};

use super::super::testing::{action, cells, prepared, update};
use super::resource;

fn pod(spec: &Value, status: &Value) -> Value {
    json!({"metadata": {"name": "p", "creationTimestamp": "2024-01-01T00:00:00Z"}, "spec": spec, "status": status})
}

#[test]
fn pods_are_given_time_to_end_once_they_run() {
    let strategy = resource().strategy;
    let bound =
        pod(&json!({"nodeName": "n", "terminationGracePeriodSeconds": 30}), &json!({"phase": "Running"}));
    assert_eq!(strategy.grace_period(&bound, None), Some(30));
    assert_eq!(strategy.grace_period(&bound, Some(5)), Some(5));
    assert_eq!(strategy.grace_period(&bound, Some(0)), Some(0));
    assert_eq!(strategy.grace_period(&bound, Some(-1)), Some(1));
    let waiting = pod(&json!({"terminationGracePeriodSeconds": 30}), &json!({"phase": "Pending"}));
    assert_eq!(strategy.grace_period(&waiting, None), Some(0));
    let finished =
        pod(&json!({"nodeName": "n", "terminationGracePeriodSeconds": 30}), &json!({"phase": "Failed"}));
    assert_eq!(strategy.grace_period(&finished, Some(10)), Some(0));
    assert!(strategy.answers_with_deleted());
}

#[test]
fn new_pods_wait_and_have_a_quality_of_service() {
    let quality = |resources: Value| {
        let pod = json!({"spec": {"containers": [{"name": "c", "resources": resources}]}, "status": {"phase": "Running"}});
        prepared(&resource(), pod)["status"].clone()
    };
    assert_eq!(quality(json!({})), json!({"phase": "Pending", "qosClass": "BestEffort"}));
    let some = json!({"requests": {"cpu": "1"}});
    assert_eq!(quality(some)["qosClass"], "Burstable");
    let all = json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}});
    assert_eq!(quality(all)["qosClass"], "Guaranteed");
    let gated = prepared(&resource(), json!({"spec": {"schedulingGates": [{"name": "g"}]}}));
    assert_eq!(gated["status"]["conditions"][0]["reason"], "SchedulingGated");
}

#[test]
fn what_has_two_names_has_both() {
    let pod = prepared(&resource(), json!({"spec": {"serviceAccount": "a"}}));
    assert_eq!(pod["spec"], json!({"serviceAccount": "a", "serviceAccountName": "a"}));
    let mut written = json!({"status": {"podIP": "10.0.0.1"}});
    resource().strategy.set_defaults(&mut written);
    assert_eq!(written["status"]["podIPs"], json!([{"ip": "10.0.0.1"}]));
}

#[test]
fn a_status_that_is_written_changes_nothing_else() {
    let old = json!({"metadata": {"name": "p", "ownerReferences": [1]}, "spec": {"a": 1}, "status": {"qosClass": "Burstable"}});
    let mut new = json!({"metadata": {"name": "p"}, "spec": {"a": 2}, "status": {"phase": "Running"}});
    resource().strategy.prepare_for_status_update(&mut new, &old, action("status"));
    assert_eq!(new["spec"], old["spec"]);
    assert_eq!(new["metadata"]["ownerReferences"], json!([1]));
    assert_eq!(new["status"], json!({"phase": "Running", "qosClass": "Burstable"}));
}

#[test]
fn a_pod_stays_what_it_is() {
    let mut old = pod(&json!({"containers": [{"name": "c", "image": "i"}]}), &json!({}));
    old["apiVersion"] = json!("v1");
    old["kind"] = json!("Pod");
    resource().strategy.set_defaults(&mut old);
    let mut new = old.clone();
    new["spec"]["containers"][0]["image"] = json!("j");
    assert_eq!(update(&resource(), &new, &old), [""; 0]);
    new["spec"]["terminationGracePeriodSeconds"] = json!(5);
    let errors = update(&resource(), &new, &old);
    assert!(
        errors[0].starts_with(
            "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,\
             `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing \
             tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n"
        ),
        "{errors:?}"
    );
    assert!(
        errors[0]
            .contains("\n- \"terminationGracePeriodSeconds\": 30\n+ \"terminationGracePeriodSeconds\": 5\n")
    );
}

#[test]
fn columns_say_how_a_pod_is() {
    let shown = |spec: Value, status: Value| {
        let cells = cells(&resource(), &pod(&spec, &status), "2024-01-01T00:05:00Z");
        cells[1..5].iter().map(|cell| cell.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let spec = json!({"containers": [{"name": "a"}, {"name": "b"}]});
    assert_eq!(shown(spec.clone(), json!({"phase": "Pending"})), ["0/2", "Pending", "0", "5m"]);
    let running = json!({
        "phase": "Running",
        "containerStatuses": [
            {
                "name": "a",
                "ready": true,
                "restartCount": 2,
                "state": {"running": {}},
                "lastState": {"terminated": {"finishedAt": "2024-01-01T00:04:00Z"}},
            },
            {"name": "b", "restartCount": 1, "state": {"waiting": {"reason": "CrashLoopBackOff"}}},
        ],
    });
    assert_eq!(shown(spec.clone(), running), ["1/2", "CrashLoopBackOff", "3 (60s ago)", "5m"]);
    let starting = json!({
        "phase": "Pending",
        "initContainerStatuses": [{"name": "i", "restartCount": 0, "state": {"terminated": {"exitCode": 1, "reason": ""}}}],
    });
    let with_init = json!({"containers": [{"name": "a"}], "initContainers": [{"name": "i"}]});
    assert_eq!(shown(with_init, starting), ["0/1", "Init:ExitCode:1", "0", "5m"]);
}
