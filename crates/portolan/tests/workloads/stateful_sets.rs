//! What is done to StatefulSets.

use portolan_testbed::Heartbeat;
use serde_json::json;

use crate::workload::Workload;

/// The set is deleted: its pods keep their network until they have ended, and a new set of the name gets its own.
pub(crate) fn pods_are_connected_until_they_have_ended(workload: &Workload<'_>) {
    let networks = json!([{"name": workload.name}]);
    // They do not end when they are asked to.
    let stubborn = json!({"template": {"spec": {"terminationGracePeriodSeconds": 300,
        "containers": [{"name": "main", "image": "none", "command": ["sh", "-c", "trap '' TERM; while :; do sleep 1000; done"]}]}}});
    workload.apply("StatefulSet", 2, &networks, &stubborn);
    workload.rolled_out("statefulset");
    let peer = workload.peer("peer");
    let heartbeats = workload.heartbeats(&peer);
    assert_eq!(heartbeats.len(), 2);
    workload.kubectl(&["delete", "statefulset", workload.name]);
    for ordinal in 0..2 {
        let pod = format!("pod/{}-{ordinal}", workload.name);
        workload.kubectl(&["wait", "--for=jsonpath={.metadata.deletionTimestamp}", &pod, "--timeout=60s"]);
    }
    workload.fence("fence");
    heartbeats.iter().for_each(Heartbeat::goes_on);
    heartbeats.into_iter().for_each(Heartbeat::end);

    let own = format!("app={}", workload.name);
    workload.kubectl(&["delete", "pods", "--selector", &own, "--force", "--grace-period=0", "--timeout=60s"]);
    workload.apply("StatefulSet", 2, &networks, &json!({}));
    workload.rolled_out("statefulset");
    workload.heartbeats(&peer).into_iter().for_each(Heartbeat::end);
}

/// The set shrinks and grows: ordinals that stay keep their address, and every new pod is ready.
pub(crate) fn ordinals_come_and_go(workload: &Workload<'_>) {
    let networks = json!([{"name": workload.name}]);
    workload.apply("StatefulSet", 3, &networks, &json!({}));
    workload.rolled_out("statefulset");
    let first = format!("{}-0", workload.name);
    let address = workload.addresses()[&first].clone();
    assert_eq!(address.len(), 1);
    for replicas in [1, 3, 2] {
        workload.kubectl(&["scale", "statefulset", workload.name, &format!("--replicas={replicas}")]);
        for ordinal in replicas..3 {
            let pod = format!("pod/{}-{ordinal}", workload.name);
            workload.kubectl(&["wait", "--for=delete", &pod, "--timeout=60s"]);
        }
        workload.rolled_out("statefulset");
        let addresses = workload.addresses();
        assert_eq!((addresses.len(), &addresses[&first]), (replicas, &address));
    }
    // A pod that is deleted comes back under its name, with its address.
    workload.kubectl(&["delete", "pod", &first, "--timeout=60s"]);
    workload.kubectl(&["wait", "--for=condition=Ready", &format!("pod/{first}"), "--timeout=90s"]);
    assert_eq!(workload.addresses()[&first], address);
}
