//! What is there in one place only: a peering that one VPC asks for, a VPC that is only named. Whoever made it is told, by a condition and
//! an Event, until the rest is there.

use portolan_testbed::{ApiKind, Northbound, TestLab};
use serde_json::json;

use crate::controller::Stage;

impl Stage<'_> {
    fn vpc(&self, name: &str, remote: Option<(&str, &str)>) {
        let peerings: Vec<_> = remote
            .map(|(remote, local)| json!({"remoteVpc": remote, "localConnectIP": local}))
            .into_iter()
            .collect();
        let object = json!({
            "apiVersion": "kubeovn.io/v1", "kind": "Vpc", "metadata": {"name": name}, "spec": {"vpcPeerings": peerings},
        });
        self.testbed.apply(&object.to_string()).unwrap();
    }

    /// Waits until a condition of an object is this, with this reason.
    fn condition_says(&self, object: &str, condition: &str, status: &str, reason: &str) {
        for (field, value) in [("reason", reason), ("status", status)] {
            let path = format!(r#"jsonpath={{.status.conditions[?(@.type=="{condition}")].{field}}}"#);
            self.kubectl(&["wait", &format!("--for={path}={value}"), "--timeout=60s", object]);
        }
    }
}

fn half_of_something(lab: &TestLab, api: ApiKind) {
    let stage = Stage::new(lab, api);
    stage.kubectl(&["create", "namespace", crate::controller::NAMESPACE]);
    let _controller = stage.start("only", &[]);
    let left = "vpcs.kubeovn.io/left";
    stage.vpc("left", Some(("right", "169.254.0.1/30")));
    stage.condition_says(left, "Peered", "False", "RemoteVpcNotFound");
    stage.is_told("left", "once VPC right is created");
    stage.vpc("right", None);
    stage.condition_says(left, "Peered", "False", "OneSidedPeering");
    stage.is_told("left", "does not name left in its vpcPeerings");
    assert!(!stage.northbound.units().iter().any(|unit| unit.starts_with("peering/")));
    stage.vpc("right", Some(("left", "169.254.0.2/30")));
    stage.condition_says(left, "Peered", "True", "Peered");
    stage.northbound.wait_until(|cache| Northbound::units_in(cache).contains("peering/left/right"));
    // One of them takes its half back.
    stage.vpc("right", None);
    stage.condition_says(left, "Peered", "False", "OneSidedPeering");
    stage.northbound.wait_until(|cache| !Northbound::units_in(cache).contains("peering/left/right"));

    let subnet = json!({
        "apiVersion": "portolan.dev/v1alpha1", "kind": "Subnet", "metadata": {"name": "early"},
        "spec": {"vpc": "late", "cidrBlock": "10.7.0.0/24"},
    });
    stage.testbed.apply(&subnet.to_string()).unwrap();
    let early = "subnets.portolan.dev/early";
    stage.condition_says(early, "Ready", "False", "VpcNotFound");
    stage.is_told("early", "there is no VPC \"late\"");
    stage.vpc("late", None);
    stage.condition_says(early, "Ready", "True", "InEffect");
}

#[test]
fn whoever_asks_for_half_of_something_is_told_on_portolans_own_apiserver() {
    portolan_testbed::test(async |lab| half_of_something(&lab, ApiKind::Portolan));
}

#[test]
fn whoever_asks_for_half_of_something_is_told_on_kube_apiserver() {
    portolan_testbed::test(async |lab| half_of_something(&lab, ApiKind::Kubernetes));
}
