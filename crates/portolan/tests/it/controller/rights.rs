//! The rights of `deploy/controller-rbac.yaml` are all that a controller needs, and no more. On kube-apiserver, which issues tokens of service
//! accounts.

use std::path::PathBuf;
use std::time::Duration;

use portolan_testbed::{ApiKind, Northbound, Test, TestLab};
use serde_json::{Value, json};

use crate::controller::webhooks::CONFIGURATION;
use crate::controller::{NAMESPACE, OBJECTS, Stage};

const MANIFEST: &str = include_str!("../../../../../deploy/controller-rbac.yaml");
const USER: &str = "system:serviceaccount:portolan-system:portolan-controller";
/// One of every kind whose status the controller writes, a Subnet that overlaps `web`, and a set that keeps an address.
const MORE: &str = "
apiVersion: portolan.dev/v1alpha1
kind: Vpc
metadata: {name: red}
spec: {}
---
apiVersion: portolan.dev/v1alpha1
kind: Subnet
metadata: {name: cells}
spec: {vpc: red, cidrBlock: 'fd00:1::/64'}
---
apiVersion: kubeovn.io/v1
kind: IPPool
metadata: {name: gold}
spec: {subnet: web, ips: [10.0.0.64/28]}
---
apiVersion: kubeovn.io/v1
kind: Vip
metadata: {name: front}
spec: {subnet: web, v4ip: 10.0.0.9}
---
apiVersion: portolan.dev/v1alpha1
kind: NetworkAttachment
metadata: {name: uplink, namespace: default}
spec: {node: node-1, subnet: web}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: set, namespace: default}
spec:
  serviceName: set
  selector: {matchLabels: {app: set}}
  template:
    metadata: {labels: {app: set}}
    spec: {containers: [{name: main, image: none}]}
";
const CLASH: &str = "
apiVersion: kubeovn.io/v1
kind: Subnet
metadata: {name: clash}
spec: {vpc: blue, cidrBlock: 10.0.0.0/25, gateway: 10.0.0.1, provider: clash.default.ovn, protocol: IPv4}
";

impl Stage<'_> {
    /// The kubeconfig of the service account.
    fn kubeconfig_of_controller(&self) -> PathBuf {
        let token = self.kubectl(&["create", "token", "portolan-controller", "-n", NAMESPACE]);
        let admin = std::fs::read_to_string(self.testbed.kubeconfig()).unwrap();
        let mut kubeconfig: Value = serde_json::from_str(&admin).unwrap();
        kubeconfig["users"][0]["user"] = json!({"token": token.trim()});
        let path = self.lab.directory("service-account").unwrap().join("kubeconfig");
        std::fs::write(&path, kubeconfig.to_string()).unwrap();
        path
    }

    /// Waits until something is so.
    fn wait_for(&self, condition: &str, object: &str) {
        self.kubectl(&["wait", &format!("--for={condition}"), "--timeout=60s", object]);
    }

    /// Waits for an Event of which this holds.
    fn wait_for_event(&self, is_it: impl Fn(&Value) -> bool) {
        let events = || -> Value {
            let events = self.kubectl(&["get", "events.events.k8s.io", "-o", "json"]);
            serde_json::from_str(&events).unwrap()
        };
        std::iter::repeat_with(events)
            .find(|events| events["items"].as_array().unwrap().iter().any(&is_it))
            .unwrap();
    }

    /// Makes the pod of the set's ordinal 0; returns its UID.
    fn create_ordinal(&self) -> String {
        let uid = |object| self.kubectl(&["get", object, "-o", "jsonpath={.metadata.uid}"]);
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "set-0", "namespace": "default",
                "annotations": {"k8s.v1.cni.cncf.io/networks": "web", "web.default.ovn.kubernetes.io/ip_address": "10.0.0.40"},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "set", "uid": uid("statefulset/set"), "controller": true}]},
            "spec": {"nodeName": "node-1", "automountServiceAccountToken": false, "containers": [{"name": "main", "image": "none"}]}});
        self.testbed.apply(&pod.to_string()).unwrap();
        uid("pod/set-0")
    }

    /// What the controller asked for and was refused, as `verb resource`.
    fn refused_requests(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.testbed.api().audit_log().unwrap()).unwrap();
        let requests = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let of_controller = requests.filter(|request| request["user"]["username"] == USER);
        let (count, refused) = of_controller.fold((0, Vec::new()), |(count, mut refused), request| {
            let agent = request["userAgent"].as_str().unwrap_or_default();
            assert!(agent.starts_with("portolan-controller/"), "{request}");
            if request["responseStatus"]["code"] == 403 {
                refused.push(format!("{} {}", request["verb"], request["objectRef"]));
            }
            (count + 1, refused)
        });
        assert!(count > 50, "the audit log has {count} requests of the controller alone");
        refused
    }

    /// Whether the service account may do something; by a review, which does not ask whether the kind is installed.
    fn may(&self, verb: &str, group: &str, resource: &str) -> bool {
        let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {"user": USER, "resourceAttributes":
                {"verb": verb, "group": group, "resource": resource, "namespace": "default"}}});
        let kubectl = self.testbed.kubectl().unwrap().stdin(review.to_string());
        let answer = kubectl.args(["create", "-f-", "-o", "jsonpath={.status.allowed}"]).read().unwrap();
        answer == "true"
    }

    fn has_no_right_beyond(&self) {
        for (expected, verb, group, resource) in [
            // Kinds that are not installed here.
            (true, "watch", "kubevirt.io", "virtualmachines"),
            (true, "list", "kubevirt.io", "virtualmachineinstances"),
            (false, "patch", "", "pods"),
            (false, "delete", "", "pods"),
            (false, "patch", "", "nodes"),
            (false, "get", "", "secrets"),
            (false, "delete", "kubeovn.io", "subnets"),
            (false, "patch", "kubeovn.io", "ippools"),
            (false, "create", "portolan.dev", "vpcs"),
            (false, "delete", "events.k8s.io", "events"),
            (false, "patch", "coordination.k8s.io", "leases"),
        ] {
            assert_eq!(self.may(verb, group, resource), expected, "{verb} {resource} of {group:?}");
        }
    }
}

/// Everything that a controller ever asks the API server for, once.
fn rights(lab: &TestLab) {
    let stage = Stage::new(lab, ApiKind::Kubernetes);
    for manifest in [MANIFEST, OBJECTS, MORE] {
        stage.testbed.apply(manifest).unwrap();
    }
    let (kubeconfig, webhook) = (stage.kubeconfig_of_controller(), stage.install_webhook());
    let start = |name| {
        let northbound = stage.testbed.central().nb().endpoint();
        stage.start_as(
            name,
            &kubeconfig,
            &northbound,
            &[&webhook, "--log=info,portolan_controller=debug,portolan_watch=debug"],
        )
    };
    let first = start("first");

    stage.serve_pod("one");
    let allocated = r"jsonpath={.metadata.annotations.web\.default\.ovn\.kubernetes\.io/allocated}=true";
    stage.wait_for(allocated, "pod/one");
    // As its agent reports.
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "reported",
        "annotations": {"portolan.dev/chassis": "reported", "portolan.dev/tunnel-mtu": "1342"}}});
    stage.testbed.apply(&node.to_string()).unwrap();
    stage.wait_for(r"jsonpath={.metadata.annotations.portolan\.dev/mtu}=1342", "node/reported");
    for object in [
        "vpcs.kubeovn.io/blue",
        "subnets.kubeovn.io/web",
        "vpcs.portolan.dev/red",
        "subnets.portolan.dev/cells",
    ] {
        stage.wait_for("condition=Ready", object);
    }
    stage.wait_for("jsonpath={.status.v4AvailableIPs}=16", "ippools.kubeovn.io/gold");
    stage.wait_for("jsonpath={.status.ready}=true", "vips.kubeovn.io/front");
    stage.wait_for("condition=Addressed", "networkattachments/uplink");
    stage.wait_for("jsonpath={.webhooks[0].clientConfig.caBundle}", CONFIGURATION);
    let lease = stage.kubectl(&[
        "get",
        "lease",
        "-n",
        NAMESPACE,
        "portolan-controller",
        "-o",
        "jsonpath={.spec.holderIdentity}",
    ]);
    assert!(lease.starts_with("first_"), "{lease}");

    // A lock that moves to the next pod of its holder, and one that is given back.
    for _ in 0..2 {
        let uid = stage.create_ordinal();
        stage.kubectl(&["wait", "--for=create", "--timeout=60s", "iplock/10-0-0-40.vpc-blue"]);
        stage.wait_for(&format!("jsonpath={{.spec.user.uid}}={uid}"), "iplock/10-0-0-40.vpc-blue");
        stage.kubectl(&["delete", "pod", "set-0", "--grace-period=0", "--force"]);
    }
    stage.kubectl(&["delete", "vips.kubeovn.io", "front"]);
    stage.wait_for("delete", "iplock/10-0-0-9.vpc-blue");
    // Deleted objects go once nothing uses them.
    stage.kubectl(&["delete", "subnets.portolan.dev/cells", "vpcs.portolan.dev/red", "--timeout=60s"]);

    // The Events of an object without a namespace and of a pod; they are counted again by the next controller.
    stage.testbed.pod("waits").on("node-1").nad("none").create().unwrap();
    stage.kubectl(&["delete", CONFIGURATION]);
    stage.testbed.apply(CLASH).unwrap();
    let is_about = |event: &Value, kind: &str, name: &str| {
        event["regarding"]["kind"] == kind && event["regarding"]["name"] == name
    };
    stage.wait_for_event(|event| is_about(event, "Pod", "waits"));
    stage.wait_for_event(|event| is_about(event, "Subnet", "clash"));
    first.process.stop().unwrap();
    let second = start("second");
    stage.wait_for_event(|event| is_about(event, "Subnet", "clash") && event["series"]["count"] == 2);
    stage.serve_pod("two");
    stage.northbound.wait_until(|cache| Northbound::units_in(cache).contains("subnet/web"));

    assert_eq!(stage.refused_requests(), Vec::<String>::new());
    for controller in [first, second] {
        let log = std::fs::read_to_string(controller.process.log()).unwrap();
        let refused: Vec<&str> = log.lines().filter(|line| line.contains("forbidden")).collect();
        assert!(refused.is_empty(), "{refused:#?}");
    }
    stage.has_no_right_beyond();
}

/// A controller that may not patch Subnets and Vpcs: whoever owns one is told, and is served once it may.
fn a_missing_right(lab: &TestLab) {
    let stage = Stage::new(lab, ApiKind::Kubernetes);
    let patched = "resources: [vpcs, subnets]\n  verbs: [get, list, watch, patch]";
    assert!(MANIFEST.contains(patched));
    stage
        .testbed
        .apply(&MANIFEST.replace(patched, "resources: [vpcs, subnets]\n  verbs: [get, list, watch]"))
        .unwrap();
    stage.testbed.apply(OBJECTS).unwrap();
    let northbound = stage.testbed.central().nb().endpoint();
    let controller = stage.start_as("only", &stage.kubeconfig_of_controller(), &northbound, &[]);
    let is_of_web = |event: &Value, reason: &str| {
        let regarding = &event["regarding"];
        regarding["kind"] == "Subnet" && regarding["name"] == "web" && event["reason"] == reason
    };
    stage.wait_for_event(|event| {
        let note = event["note"].as_str().unwrap_or_default();
        is_of_web(event, "FinalizerRefused")
            && note.contains("forbidden")
            && note.contains("controller-rbac.yaml")
    });
    let metrics = stage.get(&controller, "/metrics");
    let counted =
        metrics.lines().find_map(|line| line.strip_prefix("portolan_controller_finalizers_refused_total "));
    assert!(counted.is_some_and(|count| count != "0"), "{metrics}");
    stage.testbed.apply(MANIFEST).unwrap();
    stage.wait_for("condition=Ready", "subnets.kubeovn.io/web");
    stage.wait_for_event(|event| is_of_web(event, "Resolved"));
}

#[test]
fn a_right_that_is_missing_for_finalizers_is_told_on_kube_apiserver() {
    Test::new().deadline(Duration::from_secs(240)).run(async |lab: TestLab| a_missing_right(&lab));
}

#[test]
fn the_rights_of_the_manifest_are_enough_on_kube_apiserver() {
    Test::new().deadline(Duration::from_secs(240)).run(async |lab: TestLab| rights(&lab));
}
