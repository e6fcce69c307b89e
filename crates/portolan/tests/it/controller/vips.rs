//! Vips: addresses that are kept for no interface in particular.

use kube::Client;
use kube::api::{Api, DeleteParams};
use kube::runtime::wait::await_condition;
use portolan_api::kubeovn::Vip;
use portolan_api::portolan::{HolderKind, IPLock};
use portolan_testbed::{ApiKind, Northbound, TestLab};
use serde_json::json;

use crate::controller::Stage;
use crate::controller::ip_pools::create_pod;

const FRONT: &str = r#"
apiVersion: kubeovn.io/v1
kind: Vip
metadata: {name: front}
spec: {subnet: web, v4ip: 10.0.0.9}
"#;

/// Made once the other has its address: what is chosen for it could be just that.
const ANY: &str = r#"
apiVersion: kubeovn.io/v1
kind: Vip
metadata: {name: any}
spec: {subnet: web, v4ip: "", v6ip: "", macAddress: ""}
"#;

fn is_ready(vip: Option<&Vip>) -> bool {
    vip.and_then(|vip| vip.status.as_ref()).is_some_and(|status| status.ready && !status.v4ip.is_empty())
}

async fn has_its_address(client: Client) {
    let vips = Api::<Vip>::all(client);
    let front = await_condition(vips, "front", is_ready).await.unwrap().unwrap().status.unwrap();
    assert_eq!((front.v4ip.as_str(), front.mac.as_str()), ("10.0.0.9", "0a:58:0a:00:00:09"));
}

async fn goes_to_a_pod_with_the_end_of_its_vip(client: Client) {
    let vips = Api::<Vip>::all(client.clone());
    let locks = Api::<IPLock>::all(client.clone());
    await_condition(vips.clone(), "any", is_ready).await.unwrap();
    create_pod(
        &client,
        "wants-it",
        json!({"k8s.v1.cni.cncf.io/networks": "web", "web.default.ovn.kubernetes.io/ip_address": "10.0.0.9"}),
    )
    .await;
    vips.delete("front", &DeleteParams::default()).await.unwrap();
    let has_it = |lock: Option<&IPLock>| lock.is_some_and(|lock| lock.spec.holder.kind == HolderKind::Pod);
    await_condition(locks, "10-0-0-9.vpc-blue", has_it).await.unwrap();
}

fn vips(lab: &TestLab, api: ApiKind) {
    let stage = Stage::with_objects(lab, api);
    stage.testbed.apply(FRONT).unwrap();
    let _controller = stage.start("only", &[]);
    stage.testbed.wait(has_its_address(stage.testbed.client()));
    stage.testbed.apply(ANY).unwrap();
    stage.testbed.wait(goes_to_a_pod_with_the_end_of_its_vip(stage.testbed.client()));
    let pod = "attachment/pod/default/wants-it/";
    stage.northbound.wait_until(move |cache| {
        let units = Northbound::units_in(cache);
        assert!(
            !units.iter().any(|unit| unit.starts_with("attachment/vip/")),
            "a Vip has no port: {units:?}"
        );
        units.iter().any(|unit| unit.starts_with(pod))
    });
    let table = stage.kubectl(&["get", "vip", "any", "--no-headers"]);
    assert!(table.contains("web") && table.contains("true"), "{table}");
}

#[test]
fn a_vip_holds_its_address_on_portolans_own_apiserver() {
    portolan_testbed::test(async |lab| vips(&lab, ApiKind::Portolan));
}

#[test]
fn a_vip_holds_its_address_on_kube_apiserver() {
    portolan_testbed::test(async |lab| vips(&lab, ApiKind::Kubernetes));
}
