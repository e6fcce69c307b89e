//! VPCs and Subnets that are in use stay when they are deleted, say what uses them, and go with the last that does.

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::runtime::wait::{await_condition, conditions};
use portolan_api::kubeovn::{Subnet, Vpc};
use portolan_testbed::{ApiKind, Northbound, TestLab};

use crate::controller::Stage;

impl Stage<'_> {
    /// Deletes an object without waiting until it is gone.
    fn delete(&self, object: &str) {
        self.kubectl(&["delete", "--wait=false", object]);
    }

    /// Waits until the condition `Terminating` of a Subnet says this.
    fn wait_for_message(&self, subnet: &str, message: &'static str) {
        let api = Api::<Subnet>::all(self.testbed.client());
        let subnet = subnet.to_owned();
        let says = move |subnet: Option<&Subnet>| {
            let conditions = subnet.and_then(|subnet| subnet.status.as_ref()?.conditions.as_ref());
            let mut conditions = conditions.into_iter().flatten();
            conditions.any(|condition| {
                condition.type_ == "Terminating"
                    && condition.message.as_deref().is_some_and(|text| text.contains(message))
            })
        };
        self.testbed.wait(async move { await_condition(api, &subnet, says).await.map(drop) }).unwrap();
    }

    /// Waits until a Subnet is gone.
    fn wait_for_end_of_subnet(&self, name: &str) {
        let uid = self.kubectl(&[
            "get",
            "subnets.kubeovn.io",
            name,
            "--ignore-not-found",
            "-o=jsonpath={.metadata.uid}",
        ]);
        let (api, name) = (Api::<Subnet>::all(self.testbed.client()), name.to_owned());
        let gone = async move { await_condition(api, &name, conditions::is_deleted(&uid)).await.map(drop) };
        self.testbed.wait(gone).unwrap();
    }

    fn delete_pod(&self, name: &str) {
        self.kubectl(&["delete", "pod", name, "--force", "--grace-period=0", "--wait=false"]);
    }

    fn wait_for_waiting_pod(&self, name: &str) {
        let events = format!("involvedObject.name={name}");
        let api = Api::<k8s_openapi::api::core::v1::Event>::namespaced(self.testbed.client(), "default");
        let waits = async move {
            use futures::StreamExt as _;
            use kube::runtime::WatchStreamExt as _;
            use kube::runtime::watcher::{Config, watcher};
            let mut events = watcher(api, Config::default().fields(&events)).applied_objects().boxed();
            while let Some(event) = events.next().await {
                let note = event.ok().and_then(|event| event.message).unwrap_or_default();
                if note.contains("which is being deleted and gives no new addresses") {
                    return;
                }
            }
        };
        self.testbed.wait(waits);
    }
}

fn what_is_in_use_stays(lab: &TestLab, api: ApiKind) {
    let stage = Stage::with_objects(lab, api);
    let controller = stage.start("only", &[]);
    stage.serve_pod("a");
    stage.serve_pod("b");
    for object in ["vpc.kubeovn.io/blue", "subnet.kubeovn.io/web", "subnet.kubeovn.io/db"] {
        stage.delete(object);
    }
    // Nobody uses this one.
    stage.wait_for_end_of_subnet("db");
    stage.wait_for_message("web", "2 addresses are in use: 10.0.0.");
    let shown = stage.kubectl(&["describe", "subnets.kubeovn.io", "web"]);
    assert!(shown.contains("by Pod default/a") && shown.contains("by Pod default/b"), "{shown}");
    assert!(shown.contains("InUse"), "{shown}");
    let shown = stage.kubectl(&["get", "vpcs.kubeovn.io", "blue", "-o=jsonpath={.status.conditions}"]);
    assert!(shown.contains("in it: ") && shown.contains("web of kubeovn.io"), "{shown}");
    assert!(stage.northbound.units().contains("subnet/web"));
    // It is in effect all the while: kubectl waits for what is said about the generation that the deletion made.
    stage.kubectl(&["wait", "--for=condition=Ready", "--timeout=60s", "subnets.kubeovn.io/web"]);
    // Nobody new may use it, and is told why.
    stage.testbed.pod("late").on("node-1").nad("web").create().unwrap();
    stage.wait_for_waiting_pod("late");
    stage.delete_pod("a");
    stage.wait_for_message("web", "1 address is in use: 10.0.0.");
    // The controller is replaced while they are being deleted.
    controller.process.kill().unwrap();
    stage.delete_pod("b");
    let _controller = stage.start("next", &[]);
    stage.wait_for_end_of_subnet("web");
    let vpc = Api::<Vpc>::all(stage.testbed.client());
    let uid = stage.kubectl(&[
        "get",
        "vpcs.kubeovn.io",
        "blue",
        "--ignore-not-found",
        "-o=jsonpath={.metadata.uid}",
    ]);
    let gone = async move { await_condition(vpc, "blue", conditions::is_deleted(&uid)).await.map(drop) };
    stage.testbed.wait(gone).unwrap();
    stage.northbound.wait_until(|cache| Northbound::units_in(cache).is_empty());
    stage.kubectl(&["wait", "--for=delete", "iplocks.portolan.dev", "--all", "--timeout=30s"]);
    // Made again, they serve whoever waited.
    stage.testbed.apply(crate::controller::OBJECTS).unwrap();
    stage.northbound.wait_until(|cache| {
        Northbound::units_in(cache).iter().any(|unit| unit.starts_with("attachment/pod/default/late/"))
    });
}

#[test]
fn what_is_in_use_stays_until_nothing_uses_it_on_portolans_own_apiserver() {
    portolan_testbed::test(async |lab| what_is_in_use_stays(&lab, ApiKind::Portolan));
}

#[test]
fn what_is_in_use_stays_until_nothing_uses_it_on_kube_apiserver() {
    portolan_testbed::test(async |lab| what_is_in_use_stays(&lab, ApiKind::Kubernetes));
}

fn removed_by_force(lab: &TestLab, api: ApiKind) {
    let stage = Stage::with_objects(lab, api);
    let _controller = stage.start("only", &[]);
    stage.serve_pod("a");
    // Without a deletion, the finalizer comes back.
    let finalizers = r#"{"metadata":{"finalizers":null}}"#;
    stage.kubectl(&["patch", "subnet.kubeovn.io/web", "--type=merge", "-p", finalizers]);
    let protected = |subnet: Option<&Subnet>| {
        subnet.is_some_and(|subnet| {
            subnet.metadata.finalizers.iter().flatten().any(|one| one == "portolan.dev/in-use")
        })
    };
    let subnets = Api::<Subnet>::all(stage.testbed.client());
    stage.testbed.wait(async move { await_condition(subnets, "web", protected).await.map(drop) }).unwrap();
    stage.delete("subnet.kubeovn.io/web");
    stage.wait_for_message("web", "by Pod default/a");
    stage.kubectl(&["patch", "subnet.kubeovn.io/web", "--type=merge", "-p", finalizers]);
    stage.wait_for_end_of_subnet("web");
    stage.northbound.wait_until(|cache| !Northbound::units_in(cache).contains("subnet/web"));
    let locks = stage.kubectl(&["get", "iplocks", "-o=jsonpath={.items[*].spec.holder.name}"]);
    assert!(locks.split(' ').any(|holder| holder == "a"), "its pod has the address still: {locks}");
    // The rest is deleted at once, in the order of the file, and waited for.
    stage.delete_pod("a");
    let rest = crate::controller::OBJECTS;
    let delete = stage.testbed.kubectl().unwrap();
    delete.args(["delete", "--ignore-not-found", "--timeout=60s", "-f-"]).stdin(rest).read().unwrap();
    stage.northbound.wait_until(|cache| Northbound::units_in(cache).is_empty());
    stage.kubectl(&["wait", "--for=delete", "iplocks.portolan.dev", "--all", "--timeout=30s"]);
    let pods = Api::<Pod>::namespaced(stage.testbed.client(), "default");
    let pods = stage.testbed.wait(async move { pods.list(&kube::api::ListParams::default()).await }).unwrap();
    assert!(pods.items.is_empty());
}

#[test]
fn what_is_removed_by_force_is_cleaned_up_on_portolans_own_apiserver() {
    portolan_testbed::test(async |lab| removed_by_force(&lab, ApiKind::Portolan));
}

#[test]
fn what_is_removed_by_force_is_cleaned_up_on_kube_apiserver() {
    portolan_testbed::test(async |lab| removed_by_force(&lab, ApiKind::Kubernetes));
}
