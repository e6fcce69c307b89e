//! `portolan doctor` on an API server. There are no nodes that could be examined; `crates/portolan/tests/kubernetes` has some.

use portolan_testbed::test;
use serde_json::{Value, json};

use crate::installation::Stage;

/// An authority that ended in 2020.
const EXPIRED: &str = include_str!("expired.pem");

/// What is found of the cluster, as `check: level` with all that is said.
struct Found(Vec<Value>);

impl Found {
    fn by(stage: &Stage<'_>, arguments: &[&str]) -> (i32, Self) {
        let output = stage.portolan(&[&["doctor", "-o", "json"][..], arguments].concat()).output().unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr);
        let found =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {complaint}"));
        (output.status.code().unwrap(), Self(found))
    }

    #[track_caller]
    fn is(&self, check: &str, level: &str, words: &str) {
        let said: Vec<_> = self.0.iter().filter(|one| one["check"] == check).collect();
        let is = |one: &&Value| one["level"] == level && one.to_string().contains(words);
        assert!(
            said.iter().copied().any(|one| is(&one)),
            "{check}: {level} with {words:?} is not among {said:#?}"
        );
    }

    /// All that is wrong says why that matters and what to do.
    #[track_caller]
    fn helps(&self) {
        for one in self.0.iter().filter(|one| ["warning", "error"].contains(&one["level"].as_str().unwrap()))
        {
            assert!(one["why"].is_string() && one["remedy"].is_string(), "{one:#}");
        }
    }
}

#[test]
fn a_cluster_without_portolan_is_told_whether_it_can_have_it() {
    test(async |lab| {
        let stage = Stage::new(&lab);
        let (code, found) = Found::by(&stage, &["--no-nodes"]);
        assert_eq!(code, 0, "{:#?}", found.0);
        found.is("version", "ok", "v1.34");
        found.is("clock", "ok", "agree");
        found.is("installation", "ok", "not installed");
        found.is("kube-ovn", "ok", "does not run");
        found.is("networks", "ok", "do not overlap");

        stage
            .api
            .kubectl()
            .unwrap()
            .args(["apply", "-f-"])
            .stdin(crate::installation::command::KUBE_OVN)
            .read()
            .unwrap();
        let (code, found) = Found::by(&stage, &["--no-nodes"]);
        assert_eq!(code, 10);
        found.is("kube-ovn", "error", "Deployment kube-system/kube-ovn-controller");
        found.helps();
        let text = stage.portolan(&["doctor", "--no-nodes"]).output().unwrap();
        let text = String::from_utf8(text.stdout).unwrap();
        assert!(text.contains("ERROR    kube-ovn") && text.contains("do: uninstall Kube-OVN"), "{text}");

        let nowhere = stage.portolan(&["doctor"]).env("KUBECONFIG", "/nowhere").output().unwrap();
        assert_eq!(nowhere.status.code(), Some(4));
    });
}

#[test]
fn what_is_wrong_with_an_installation_is_found() {
    test(async |lab| {
        let stage = Stage::new(&lab);
        stage.read(&["install", "--mode=secondary", "--no-wait"]);
        stage.kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"]);
        let (code, found) = Found::by(&stage, &["--no-nodes"]);
        assert_eq!(code, 10);
        found.is("installation", "ok", "beside another network");
        found.is("definitions", "ok", "of this version");
        found.is("workloads", "error", "DaemonSet portolan-system/portolan-agent");
        found.is("ovn-members", "error", "no member");
        found.is("leader", "error", "no controller leads");
        found.is("webhook", "error", "accepted an object that the webhook refuses");
        found.is("apiservice", "error", "v1alpha1.trace.portolan.dev");
        found.is("certificates", "ok", "none yet");
        found.helps();

        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "portolan-webhook-ca", "namespace": "portolan-system"},
            "stringData": {"tls.crt": EXPIRED, "tls.key": "nobody reads this"},
        });
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": "node1", "annotations": {"portolan.dev/problem": "no InternalIP"}},
            "spec": {"podCIDRs": ["10.244.1.0/24"]},
        });
        let overlapping = json!({
            "apiVersion": "kubeovn.io/v1", "kind": "Subnet", "metadata": {"name": "wide"},
            "spec": {"cidrBlock": "10.244.0.0/16", "protocol": "IPv4"},
        });
        let trouble = json!({
            "apiVersion": "portolan.dev/v1alpha1", "kind": "Subnet", "metadata": {"name": "web"},
            "spec": {"vpc": "blue", "cidrBlock": "172.20.0.0/16"},
        });
        let objects =
            json!({"apiVersion": "v1", "kind": "List", "items": [secret, node, overlapping, trouble]});
        stage.api.kubectl().unwrap().args(["apply", "-f-"]).stdin(objects.to_string()).read().unwrap();
        let condition = json!({"status": {"conditions": [{
            "type": "Ready", "status": "False", "reason": "VpcNotFound", "message": "VPC blue does not exist",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]}});
        stage.kubectl(&[
            "patch",
            "subnets.portolan.dev",
            "web",
            "--subresource=status",
            "--type=merge",
            &format!("--patch={condition}"),
        ]);
        let drop_a_column = json!([{"op": "remove", "path": "/spec/versions/0/additionalPrinterColumns/0"}]);
        let patch = format!("--patch={drop_a_column}");
        stage.kubectl(&["patch", "crd", "vpcs.portolan.dev", "--type=json", &patch]);
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "portolan-controller", "namespace": "portolan-system"},
            "spec": {"holderIdentity": "somebody", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"},
        });
        stage.api.kubectl().unwrap().args(["apply", "-f-"]).stdin(lease.to_string()).read().unwrap();
        stage.kubectl(&["delete", "validatingwebhookconfiguration", "portolan-webhook"]);

        let (code, found) = Found::by(&stage, &["--no-nodes"]);
        assert_eq!(code, 10);
        found.is("certificates", "error", "CN=expired-authority ended");
        found.is("problem", "error", "no InternalIP");
        found.is("agent", "error", "no agent on this node");
        found.is("networks", "warning", "10.244.0.0/16 overlaps 10.244.1.0/24 of the pods of Node node1");
        found.is("cluster-network", "warning", "10.244.1.0/24");
        found.is("objects", "warning", "portolan describe subnet web");
        found.is("definitions", "warning", "vpcs.portolan.dev");
        found.is("leader", "error", "somebody was the last to lead");
        found.is("webhook", "warning", "no ValidatingWebhookConfiguration");
        found.helps();
        let all = Value::from(found.0).to_string();
        assert!(!all.contains("nobody reads this"), "{all}");
    });
}

const EXAMINATION: &str = "daemonset/portolan-examination";

#[test]
fn nothing_stays_on_the_cluster_however_the_command_ends() {
    test(async |lab| {
        let stage = Stage::new(&lab);
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node1"}});
        stage.api.kubectl().unwrap().args(["apply", "-f-"]).stdin(node.to_string()).read().unwrap();
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}],
            "addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]}});
        let patch = format!("--patch={ready}");
        stage.kubectl(&["patch", "node", "node1", "--subresource=status", "--type=merge", &patch]);
        let left = || stage.kubectl(&["get", "daemonsets", "-A", "-o", "name"]);

        // Nobody makes pods here.
        let (code, found) = Found::by(&stage, &["--timeout=1"]);
        assert_eq!((code, left().as_str()), (0, ""), "{:#?}", found.0);
        found.is("examination", "warning", "it has not answered in time");

        let kubectl = stage.api.kubectl().unwrap().args([
            "wait",
            "--for=create",
            EXAMINATION,
            "-n=kube-system",
            "--timeout=60s",
        ]);
        let mut doctor = stage
            .portolan(&["doctor", "--timeout=600"])
            .spawn_with(
                std::process::Stdio::null(),
                std::process::Stdio::null(),
                std::process::Stdio::piped(),
            )
            .unwrap();
        kubectl.read().unwrap();
        lab.command("kill").args(["-TERM", &doctor.id().to_string()]).read().unwrap();
        assert_eq!(doctor.wait().unwrap().code(), Some(8));
        assert_eq!(left(), "");

        let kubectl = stage.api.kubectl().unwrap().args([
            "wait",
            "--for=create",
            EXAMINATION,
            "-n=kube-system",
            "--timeout=60s",
        ]);
        let mut doctor = stage
            .portolan(&["doctor", "--timeout=600"])
            .spawn_with(std::process::Stdio::null(), std::process::Stdio::null(), std::process::Stdio::null())
            .unwrap();
        kubectl.read().unwrap();
        doctor.kill().unwrap();
        doctor.wait().unwrap();
        assert!(left().contains("portolan-examination"), "nobody could remove it");
        Found::by(&stage, &["--timeout=1"]);
        assert_eq!(left(), "", "the next one does");
    });
}
