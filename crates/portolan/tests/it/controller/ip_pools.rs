//! Pools of addresses: who chooses from them, who waits, and what they say about themselves.

use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, DeleteParams};
use kube::runtime::wait::await_condition;
use portolan_api::kubeovn::IPPool;
use portolan_api::portolan::IPLock;
use portolan_testbed::{ApiKind, TestLab};
use serde_json::json;

use crate::controller::Stage;

const OBJECTS: &str = r#"
apiVersion: kubeovn.io/v1
kind: Subnet
metadata: {name: pooled}
spec: {vpc: blue, cidrBlock: 10.0.8.0/24, gateway: 10.0.8.1, provider: pooled.default.ovn, protocol: IPv4}
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: pooled, namespace: default}
spec: {config: '{"cniVersion": "0.3.1", "type": "kube-ovn", "provider": "pooled.default.ovn"}'}
---
apiVersion: kubeovn.io/v1
kind: IPPool
metadata: {name: gold}
spec: {subnet: pooled, ips: [10.0.8.7]}
"#;

pub(crate) async fn create_pod(client: &Client, name: &str, annotations: serde_json::Value) {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": annotations},
        "spec": {"nodeName": "node-1", "automountServiceAccountToken": false,
            "containers": [{"name": "main", "image": "none"}]}});
    let pod: Pod = serde_json::from_value(pod).unwrap();
    Api::namespaced(client.clone(), "default").create(&Default::default(), &pod).await.unwrap();
}

/// Waits until a pool says that so many of its addresses are taken, and so many are not.
async fn until_used(client: &Client, using: u128, available: u128) {
    let is_used = move |pool: Option<&IPPool>| {
        let status = pool.and_then(|pool| pool.status.as_ref());
        status.is_some_and(|s| (s.v4_using_ips.0, s.v4_available_ips.0) == (using, available))
    };
    await_condition(Api::<IPPool>::all(client.clone()), "gold", is_used).await.unwrap();
}

async fn pods_choose_from_a_pool(client: Client) {
    let pods = Api::<Pod>::namespaced(client.clone(), "default");
    let locks = Api::<IPLock>::all(client.clone());
    let of_pool = json!({"k8s.v1.cni.cncf.io/networks": "pooled",
        "pooled.default.ovn.kubernetes.io/ip_pool": "gold"});
    let holder = |name: &'static str| {
        move |lock: Option<&IPLock>| lock.is_some_and(|lock| lock.spec.holder.name == name)
    };
    until_used(&client, 0, 1).await;
    create_pod(&client, "first", of_pool.clone()).await;
    await_condition(locks.clone(), "10-0-8-7.vpc-blue", holder("first")).await.unwrap();
    until_used(&client, 1, 0).await;
    create_pod(&client, "second", of_pool).await;
    pods.delete("first", &DeleteParams::default().grace_period(0)).await.unwrap();
    await_condition(locks.clone(), "10-0-8-7.vpc-blue", holder("second")).await.unwrap();
    // A pool that grows has something for those who wait, and for the pods of its namespaces.
    let pools = Api::<IPPool>::all(client.clone());
    let larger = json!({"spec": {"ips": ["10.0.8.7..10.0.8.8"], "namespaces": ["default"]}});
    pools.patch("gold", &Default::default(), &kube::api::Patch::Merge(larger)).await.unwrap();
    create_pod(&client, "third", json!({"k8s.v1.cni.cncf.io/networks": "pooled"})).await;
    await_condition(locks, "10-0-8-8.vpc-blue", holder("third")).await.unwrap();
    until_used(&client, 2, 0).await;
}

fn ip_pools(lab: &TestLab, api: ApiKind) {
    let stage = Stage::with_objects(lab, api);
    stage.testbed.apply(OBJECTS).unwrap();
    let _controller = stage.start("only", &[]);
    let client = stage.testbed.client();
    stage.testbed.wait(pods_choose_from_a_pool(client));
    let table = stage.kubectl(&["get", "ippool", "gold", "--no-headers"]);
    let columns: Vec<_> = table.split_whitespace().take(5).collect();
    assert_eq!(columns[..2], ["gold", "pooled"], "{table}");
    assert!(table.contains("10.0.8.7..10.0.8.8"), "{table}");
}

#[test]
fn pods_choose_from_pools_on_portolans_own_apiserver() {
    portolan_testbed::test(async |lab| ip_pools(&lab, ApiKind::Portolan));
}

#[test]
fn pods_choose_from_pools_on_kube_apiserver() {
    portolan_testbed::test(async |lab| ip_pools(&lab, ApiKind::Kubernetes));
}
