use serde_json::{Value, json};

use super::pod_priority::{keep, prioritise};
use super::tolerations::tolerate;

#[test]
fn pods_tolerate_unready_nodes_for_a_while_by_default() {
    let default = |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
    let (not_ready, unreachable) =
        (default("node.kubernetes.io/not-ready"), default("node.kubernetes.io/unreachable"));
    let mut pod = json!({"spec": {}});
    tolerate(&mut pod);
    assert_eq!(pod["spec"]["tolerations"], json!([not_ready, unreachable]));
    tolerate(&mut pod);
    assert_eq!(pod["spec"]["tolerations"], json!([not_ready, unreachable]));

    let own = json!({"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"});
    let mut pod = json!({"spec": {"tolerations": [own]}});
    tolerate(&mut pod);
    assert_eq!(pod["spec"]["tolerations"], json!([own, unreachable]));

    let everything = json!({"operator": "Exists"});
    let mut pod = json!({"spec": {"tolerations": [everything]}});
    tolerate(&mut pod);
    assert_eq!(pod["spec"]["tolerations"], json!([everything]));
}

#[test]
fn pods_have_the_priority_of_their_class() {
    let class = json!({"metadata": {"name": "high"}, "value": 10, "preemptionPolicy": "Never"});
    let prioritised = |mut pod: Value, class: Option<Value>| {
        prioritise(&mut pod, class.as_ref()).map(|()| pod["spec"].clone())
    };
    assert_eq!(
        prioritised(json!({"spec": {}}), None),
        Ok(json!({"priority": 0, "preemptionPolicy": "PreemptLowerPriority"}))
    );
    assert_eq!(
        prioritised(json!({"spec": {}}), Some(class.clone())),
        Ok(json!({"priorityClassName": "high", "priority": 10, "preemptionPolicy": "Never"}))
    );
    assert_eq!(
        prioritised(json!({"spec": {"priorityClassName": "none"}}), None),
        Err("no PriorityClass with name none was found".into())
    );
    assert_eq!(
        prioritised(json!({"spec": {"priorityClassName": "high", "priority": 7}}), Some(class.clone())),
        Err("the integer value of priority (7) must not be provided in pod spec; priority admission controller computed \
             10 from the given PriorityClass name"
            .into())
    );
    assert_eq!(
        prioritised(
            json!({"spec": {"priorityClassName": "high", "preemptionPolicy": "PreemptLowerPriority"}}),
            Some(class)
        ),
        Err("the string value of PreemptionPolicy (PreemptLowerPriority) must not be provided in pod spec; priority \
             admission controller computed Never from the given PriorityClass name"
            .into())
    );
}

#[test]
fn pods_keep_their_priority() {
    let old = json!({"spec": {"priority": 3, "preemptionPolicy": "Never"}});
    let mut pod = json!({"spec": {"preemptionPolicy": "PreemptLowerPriority"}});
    keep(&mut pod, &old);
    assert_eq!(pod, json!({"spec": {"priority": 3, "preemptionPolicy": "PreemptLowerPriority"}}));
}
