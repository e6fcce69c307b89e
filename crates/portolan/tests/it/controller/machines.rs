//! KubeVirt's virtual machines: an address stays with its machine over pods and restarts of the controller, and goes with it. KubeVirt
//! itself is not here: its kinds are those of `kubevirt.yaml`, and the test does what KubeVirt would.

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::watcher::{Config, watcher};
use kube::runtime::{WatchStreamExt as _, reflector::Lookup as _};
use portolan_api::portolan::{HolderKind, IPLock};
use portolan_testbed::{ApiKind, Northbound, TestLab};
use serde_json::{Value, json};

use crate::controller::Stage;

pub(crate) const KUBEVIRT: &str = include_str!("kubevirt.yaml");

impl Stage<'_> {
    fn apply_json(&self, object: &Value) {
        self.testbed.apply(&object.to_string()).unwrap();
    }

    fn machine(&self) {
        self.apply_json(&json!({
            "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
            "metadata": {"name": "vm", "namespace": "default"},
            "spec": {"runStrategy": "Always", "template": {"spec": {"domain": {"devices": {}}}}},
        }));
    }

    fn owner(&self, kind: &str) -> Value {
        let resource = format!("{}.kubevirt.io", kind.to_lowercase());
        let uid = self.kubectl(&["get", &resource, "vm", "-o=jsonpath={.metadata.uid}"]);
        json!([{"apiVersion": "kubevirt.io/v1", "kind": kind, "name": "vm", "uid": uid, "controller": true}])
    }

    fn instance(&self) {
        self.apply_json(&json!({
            "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
            "metadata": {"name": "vm", "namespace": "default", "ownerReferences": self.owner("VirtualMachine")},
            "spec": {"domain": {"devices": {}}},
        }));
    }

    /// A pod that runs the machine. It does not end before its finalizer is taken away.
    fn launcher(&self, name: &str) {
        self.apply_json(&json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": name, "namespace": "default",
                "annotations": {"k8s.v1.cni.cncf.io/networks": "web"},
                "finalizers": ["example.com/runs"],
                "ownerReferences": self.owner("VirtualMachineInstance"),
            },
            "spec": {"nodeName": "node-1", "containers": [{"name": "compute", "image": "none"}]},
        }));
    }

    fn delete_launcher(&self, name: &str) {
        let pod = format!("pod/{name}");
        self.kubectl(&["delete", &pod, "--force", "--grace-period=0", "--wait=false", "--ignore-not-found"]);
    }

    /// The launcher ends, and its object goes with it.
    fn end_launcher(&self, name: &str) {
        let pod = format!("pod/{name}");
        self.delete_launcher(name);
        self.kubectl(&["patch", &pod, "--type=merge", "-p", r#"{"metadata":{"finalizers":null}}"#]);
        self.kubectl(&["wait", "--for=delete", &pod, "--timeout=60s"]);
    }

    /// Waits until the machine has an address that this pod uses, with a port; answers the lock.
    fn lock_used_by(&self, launcher: &str) -> IPLock {
        let (api, launcher) = (Api::<IPLock>::all(self.testbed.client()), launcher.to_owned());
        let lock = self.testbed.wait(async move {
            let mut locks = watcher(api, Config::default()).applied_objects().boxed();
            loop {
                let Some(Ok(lock)) = locks.next().await else { continue };
                if lock.spec.user.as_ref().is_some_and(|user| user.pod == launcher) {
                    return lock;
                }
            }
        });
        assert_eq!(
            (lock.spec.holder.kind, lock.spec.holder.name.as_str()),
            (HolderKind::VirtualMachine, "vm")
        );
        let (address, user) = (lock.spec.address.clone(), lock.spec.user.clone().unwrap());
        self.northbound.wait_until(move |cache| {
            let ports = cache.table("Logical_Switch_Port").unwrap();
            ports.iter().any(|port| {
                let text = |column: &str| format!("{:?}", port.datum(column));
                text("addresses").contains(&address) && text("options").contains(&user.uid)
            })
        });
        lock
    }

    /// The lock as it is now.
    fn lock_again(&self, lock: &IPLock) -> IPLock {
        let (api, name) = (Api::<IPLock>::all(self.testbed.client()), lock.name().unwrap().into_owned());
        self.testbed.wait(async move { api.get(&name).await }).unwrap()
    }

    /// Waits for an Event about an object of this name, in the default namespace or none, whose message has this.
    pub(crate) fn is_told(&self, name: &str, text: &'static str) {
        let fields = format!("involvedObject.name={name}");
        let api = Api::<Event>::namespaced(self.testbed.client(), "default");
        self.testbed.wait(async move {
            let mut events = watcher(api, Config::default().fields(&fields)).applied_objects().boxed();
            while let Some(event) = events.next().await {
                if event.ok().and_then(|event| event.message).is_some_and(|said| said.contains(text)) {
                    return;
                }
            }
        });
    }
}

fn an_address_stays_with_its_machine(lab: &TestLab, api: ApiKind) {
    let stage = Stage::with_objects(lab, api);
    let controller = stage.start("only", &[]);
    // KubeVirt is installed while the controller runs.
    stage.serve_pod("before");
    stage.testbed.apply(KUBEVIRT).unwrap();
    stage.kubectl(&["wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"]);
    stage.machine();
    stage.instance();
    stage.launcher("launcher-a");
    let lock = stage.lock_used_by("launcher-a");

    // A second pod of a machine that runs waits, and is told why; the first is not touched.
    stage.launcher("launcher-b");
    stage.is_told("launcher-b", "pod launcher-a");
    assert_eq!(stage.lock_again(&lock), lock);
    let ports = stage.northbound.units();
    let ports: Vec<_> = ports.iter().filter(|unit| unit.starts_with("attachment/vm/")).collect();
    assert_eq!(ports.len(), 1, "{ports:?}");

    // The first ends, while no controller runs: the second takes over, with the address.
    controller.process.kill().unwrap();
    stage.end_launcher("launcher-a");
    let controller = stage.start("next", &[]);
    let taken_over = stage.lock_used_by("launcher-b");
    assert_eq!((taken_over.name(), taken_over.uid()), (lock.name(), lock.uid()));

    // Stopped: there is neither pod nor instance. Another controller starts meanwhile, and gives nothing back.
    stage.kubectl(&["delete", "virtualmachineinstances.kubevirt.io", "vm", "--wait=false"]);
    stage.end_launcher("launcher-b");
    stage.kubectl(&["wait", "--for=delete", "virtualmachineinstances.kubevirt.io/vm", "--timeout=60s"]);
    controller.process.kill().unwrap();
    let _controller = stage.start("last", &[]);
    stage.serve_pod("while-stopped");
    assert_eq!(stage.lock_again(&lock).uid(), lock.uid());

    // Started again, on the same address.
    stage.instance();
    stage.launcher("launcher-c");
    let started = stage.lock_used_by("launcher-c");
    assert_eq!((started.name(), started.uid()), (lock.name(), lock.uid()));

    // Deleted while its pod still runs: the address stays for as long as that does, and goes then.
    stage.kubectl(&["delete", "virtualmachines.kubevirt.io", "vm", "--timeout=60s"]);
    stage.kubectl(&[
        "delete",
        "virtualmachineinstances.kubevirt.io",
        "vm",
        "--timeout=60s",
        "--ignore-not-found",
    ]);
    stage.serve_pod("while-terminating");
    assert_eq!(stage.lock_again(&lock).uid(), lock.uid(), "its pod still runs");
    let uid = lock.metadata.uid.clone().unwrap();
    stage.end_launcher("launcher-c");
    let (locks, name) = (Api::<IPLock>::all(stage.testbed.client()), lock.name().unwrap().into_owned());
    let gone = async move { await_condition(locks, &name, conditions::is_deleted(&uid)).await.map(drop) };
    stage.testbed.wait(gone).unwrap();
    stage.northbound.wait_until(|cache| {
        !Northbound::units_in(cache).iter().any(|unit| unit.starts_with("attachment/vm/"))
    });
}

#[test]
fn an_address_stays_with_its_virtual_machine_on_portolans_own_apiserver() {
    portolan_testbed::test(async |lab| an_address_stays_with_its_machine(&lab, ApiKind::Portolan));
}

#[test]
fn an_address_stays_with_its_virtual_machine_on_kube_apiserver() {
    portolan_testbed::test(async |lab| an_address_stays_with_its_machine(&lab, ApiKind::Kubernetes));
}
