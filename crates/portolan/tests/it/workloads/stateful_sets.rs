//! What is done to StatefulSets.

use portolan_testbed::Heartbeat;
use serde_json::json;

use crate::workloads::workload::Workload;

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

/// The set is deleted without its pods, and made again: they run on all the while, with the same locks.
pub(crate) fn orphaned_pods_keep_their_network_and_are_adopted(workload: &Workload<'_>) {
    let networks = json!([{"name": workload.name}]);
    workload.apply("StatefulSet", 2, &networks, &json!({}));
    workload.rolled_out("statefulset");
    let peer = workload.peer("peer");
    let (heartbeats, locks, pods) = (workload.heartbeats(&peer), workload.locks(), workload.addresses());
    assert_eq!(heartbeats.len(), 2);
    workload.kubectl(&["delete", "statefulset", workload.name, "--cascade=orphan"]);
    workload.fence("fence1");
    heartbeats.iter().for_each(Heartbeat::goes_on);
    assert_eq!((workload.locks(), workload.addresses()), (locks.clone(), pods.clone()), "orphaned");

    workload.apply("StatefulSet", 2, &networks, &json!({}));
    workload.rolled_out("statefulset");
    workload.fence("fence2");
    heartbeats.iter().for_each(Heartbeat::goes_on);
    assert_eq!((workload.locks(), workload.addresses()), (locks, pods), "adopted");
    heartbeats.into_iter().for_each(Heartbeat::end);
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

/// The template gets another network, and loses the first: every pod has what the template says.
pub(crate) fn the_networks_of_the_template_change(workload: &Workload<'_>) {
    let (own, more) = (json!({"name": workload.name}), json!({"name": workload.more()}));
    let (prefix, more_prefix) = (workload.prefix(), workload.more_prefix());
    for (networks, prefixes) in [
        (json!([own]), vec![&prefix]),
        (json!([own, more]), vec![&prefix, &more_prefix]),
        (json!([more]), vec![&more_prefix]),
        (json!([own]), vec![&prefix]),
    ] {
        workload.apply("StatefulSet", 2, &networks, &json!({}));
        workload.rolled_out("statefulset");
        for (pod, addresses) in workload.addresses() {
            let pod = workload.testbed.running_pod("default", &pod).unwrap();
            let shown = pod.command("ip").args(["-4", "-o", "address"]).read().unwrap();
            let links = shown.lines().filter(|line| !line.contains(" lo ")).count();
            assert_eq!(links, prefixes.len(), "{networks}: {addresses:?}\n{shown}");
            for prefix in &prefixes {
                assert!(shown.contains(&format!("inet {prefix}.")), "{networks}: {shown}");
            }
        }
    }
}
