//! What is done to Deployments whose pods ask for addresses.

use std::collections::BTreeSet;

use serde_json::json;

use crate::workloads::workload::Workload;

/// The old pod ends while the new one begins: the address is handed over.
fn one_for_one() -> serde_json::Value {
    json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}}})
}

pub(crate) fn a_static_address_is_handed_over_ten_times(workload: &Workload<'_>) {
    let address = format!("{}.50", workload.prefix());
    let networks = json!([{"name": workload.name, "ips": [address]}]);
    for roll in 0..=10 {
        let template = json!({"metadata": {"annotations": {"example.com/roll": roll.to_string()}}});
        workload.apply("Deployment", 1, &networks, &json!({"spec": one_for_one(), "template": template}));
        workload.rolled_out("deployment");
        let addresses: Vec<_> = workload.addresses().into_values().flatten().collect();
        assert!(addresses.contains(&address), "after {roll} rolls: {addresses:?}");
    }
}

pub(crate) fn replicas_on_one_node_share_a_pool(workload: &Workload<'_>) {
    let pool = [10, 11].map(|last| format!("{}.{last}", workload.prefix()));
    let networks = json!([{"name": workload.name}]);
    for roll in 0..3 {
        let annotations = json!({format!("{}.default.ovn.kubernetes.io/ip_pool", workload.name): pool.join(","),
            "example.com/roll": roll.to_string()});
        let template = json!({"metadata": {"annotations": annotations}, "spec": {"nodeName": "node1"}});
        workload.apply("Deployment", 2, &networks, &json!({"spec": one_for_one(), "template": template}));
        workload.rolled_out("deployment");
        let addresses: BTreeSet<_> = workload.addresses().into_values().flatten().collect();
        assert_eq!(addresses, pool.clone().into(), "after {roll} rolls");
    }
}
