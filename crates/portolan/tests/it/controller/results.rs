//! What pods are told by annotations about what they got.

use k8s_openapi::api::core::v1::Pod;
use kube::api::Api;
use kube::runtime::wait::await_condition;
use kube::{Client, ResourceExt as _};
use portolan_testbed::{ApiKind, Northbound, TestLab};
use serde_json::json;

use crate::controller::Stage;
use crate::controller::ip_pools::create_pod;

const OBJECTS: &str = r#"
apiVersion: kubeovn.io/v1
kind: Subnet
metadata: {name: told}
spec: {vpc: blue, cidrBlock: 10.0.8.0/24, gateway: 10.0.8.1, provider: told.default.ovn, protocol: IPv4, namespaces: [default]}
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: told, namespace: default}
spec: {config: '{"cniVersion": "0.3.1", "type": "kube-ovn", "provider": "told.default.ovn"}'}
---
apiVersion: portolan.dev/v1alpha1
kind: Subnet
metadata: {name: own}
spec: {cidrBlock: 10.0.9.0/24, provider: own.default.ovn}
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: own, namespace: default}
spec: {config: '{"cniVersion": "0.3.1", "type": "portolan", "provider": "own.default.ovn"}'}
"#;

const ADDRESS: &str = "told.default.ovn.kubernetes.io/ip_address";
const NFN: &str = "k8s.plugin.opnfv.org/ovnInterfaces";

/// Waits until a pod has an annotation.
async fn told(client: &Client, name: &str, key: &'static str) -> Pod {
    let has = move |pod: Option<&Pod>| pod.is_some_and(|pod| pod.annotations().contains_key(key));
    await_condition(Api::namespaced(client.clone(), "default"), name, has).await.unwrap().unwrap()
}

async fn create_and_read(client: &Client) -> Vec<Pod> {
    create_pod(client, "native", json!({"k8s.v1.cni.cncf.io/networks": "own"})).await;
    create_pod(client, "vm", json!({"k8s.v1.cni.cncf.io/networks": "told"})).await;
    let nfn = r#"{"type": "ovn4nfv", "interface": [{"name": "told", "interface": "net7"}]}"#;
    create_pod(client, "nfn", json!({"k8s.plugin.opnfv.org/nfn-network": nfn})).await;
    vec![told(client, "vm", ADDRESS).await, told(client, "nfn", NFN).await]
}

fn results(lab: &TestLab, api: ApiKind) {
    let stage = Stage::with_objects(lab, api);
    stage.testbed.apply(OBJECTS).unwrap();
    let first = stage.start("first", &[]);
    let client = stage.testbed.client();
    let pods = stage.testbed.wait({
        let client = client.clone();
        async move { create_and_read(&client).await }
    });
    let [vm, nfn] = pods.as_slice() else { panic!("{pods:?}") };
    let of_vm = |what: &str| vm.annotations().get(&format!("told.default.ovn.kubernetes.io/{what}")).cloned();
    assert_eq!(of_vm("allocated").as_deref(), Some("true"));
    assert_eq!(of_vm("logical_switch").as_deref(), Some("told"));
    assert_eq!(of_vm("logical_router").as_deref(), Some("blue"));
    assert!(of_vm("ip_address").unwrap().starts_with("10.0.8."));
    assert!(nfn.annotations()[NFN].contains(r#""interface":"net7""#), "{:?}", nfn.annotations());
    drop(first);

    // The next controller finds them told already, and takes nothing that they say for a wish: a pod that is served after everything was
    // compared shows that nothing was written to the others.
    let _second = stage.start("second", &[]);
    let later = stage.testbed.wait(async move {
        create_pod(&client, "later", json!({"k8s.v1.cni.cncf.io/networks": "told"})).await;
        told(&client, "later", ADDRESS).await;
        Api::<Pod>::namespaced(client, "default").list(&Default::default()).await.unwrap().items
    });
    for before in [vm, nfn] {
        let after = later.iter().find(|pod| pod.name_any() == before.name_any()).unwrap();
        assert_eq!(
            after.metadata.resource_version,
            before.metadata.resource_version,
            "{}",
            before.name_any()
        );
    }
    let native = later.iter().find(|pod| pod.name_any() == "native").unwrap();
    assert_eq!(native.annotations().len(), 1, "{:?}", native.annotations());
    let events = stage.kubectl(&["get", "events", "-o", "jsonpath={.items[*].note}"]);
    assert!(!events.contains("has no effect"), "{events}");
}

#[test]
fn pods_are_told_what_they_got_on_portolans_own_apiserver() {
    portolan_testbed::test(async |lab| results(&lab, ApiKind::Portolan));
}

#[test]
fn pods_are_told_what_they_got_on_kube_apiserver() {
    portolan_testbed::test(async |lab| results(&lab, ApiKind::Kubernetes));
}

const PRIMARY: &str = r#"
apiVersion: v1
kind: Node
metadata: {name: node-1}
spec: {podCIDR: 10.244.2.0/24, podCIDRs: [10.244.2.0/24]}
---
apiVersion: v1
kind: Pod
metadata: {name: plain, namespace: default}
spec: {nodeName: node-1, automountServiceAccountToken: false, containers: [{name: main, image: none}]}
"#;

/// A pod that asks for nothing costs one write: that of its lock.
fn nothing_of_the_primary_network(lab: &TestLab, api: ApiKind) {
    let stage = Stage::with_objects(lab, api);
    stage.testbed.apply(OBJECTS).unwrap();
    stage.testbed.apply(PRIMARY).unwrap();
    let version = || stage.kubectl(&["get", "pod", "plain", "-o=jsonpath={.metadata.resourceVersion}"]);
    let before = version();
    let _controller = stage.start("only", &["--primary"]);
    stage.northbound.wait_until(|cache| {
        let units = Northbound::units_in(cache);
        units.iter().any(|unit| unit.starts_with("attachment/pod/default/plain/"))
    });
    // Whoever is told comes later, and is told.
    let client = stage.testbed.client();
    stage.testbed.wait(async move {
        create_pod(&client, "vm", json!({"k8s.v1.cni.cncf.io/networks": "told"})).await;
        told(&client, "vm", ADDRESS).await;
    });
    assert_eq!(version(), before);
    let annotations = stage.kubectl(&["get", "pod", "plain", "-o=jsonpath={.metadata.annotations}"]);
    assert!(!annotations.contains("ovn"), "{annotations}");
}

#[test]
fn a_plain_pod_of_the_primary_network_is_not_written_on_portolans_own_apiserver() {
    portolan_testbed::test(async |lab| nothing_of_the_primary_network(&lab, ApiKind::Portolan));
}

#[test]
fn a_plain_pod_of_the_primary_network_is_not_written_on_kube_apiserver() {
    portolan_testbed::test(async |lab| nothing_of_the_primary_network(&lab, ApiKind::Kubernetes));
}
