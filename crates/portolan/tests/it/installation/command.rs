//! `portolan install` and `portolan uninstall` on an API server. There are no nodes, so nothing runs.

use portolan_testbed::test;
use serde_json::Value;

use crate::installation::Stage;

pub(crate) const KUBE_OVN: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: kube-ovn-controller, namespace: kube-system}
spec:
  selector: {matchLabels: {app: kube-ovn-controller}}
  template:
    metadata: {labels: {app: kube-ovn-controller}}
    spec: {containers: [{name: main, image: none}]}
"#;

#[test]
fn installing_again_changes_nothing_and_keeps_the_options() {
    test(async |lab| {
        let stage = Stage::new(&lab);
        let install = ["install", "--mode=secondary", "--no-wait", "--image=r/p:1", "--open-vswitch=hosts"];
        let dry = stage.read(
            &[&install[..], &["--dry-run"]]
                .concat()
                .into_iter()
                .filter(|one| *one != "--no-wait")
                .collect::<Vec<_>>(),
        );
        assert!(dry.contains("DaemonSet portolan-system/portolan-agent would be created"), "{dry}");
        let namespaces = stage.kubectl(&["get", "namespaces", "-o", "name"]);
        assert!(!namespaces.contains("portolan-system"), "nothing was stored: {namespaces}");

        let said = stage.read(&install);
        assert!(said.contains("DaemonSet portolan-system/portolan-agent created"), "{said}");
        assert_eq!(stage.read(&["install", "--no-wait"]), "", "a second time, without options");

        let said = stage.read(&["install", "--no-wait", "--image=r/p:2"]);
        let changed: Vec<_> = said.lines().collect();
        assert!(said.contains("DaemonSet portolan-system/portolan-agent changed"), "{said}");
        assert!(changed.iter().all(|line| line.ends_with("changed")), "{said}");
        let daemon_sets = stage.kubectl(&["get", "daemonsets", "-n", "portolan-system", "-o", "json"]);
        let daemon_sets: Value = serde_json::from_str(&daemon_sets).unwrap();
        let items = daemon_sets["items"].as_array().unwrap();
        assert_eq!(items.len(), 2, "the hosts run Open vSwitch, as was said first");
        let managers = stage.kubectl(&[
            "get",
            "daemonset",
            "portolan-agent",
            "-n",
            "portolan-system",
            "--show-managed-fields",
            "-o",
            "json",
        ]);
        assert!(managers.contains("portolan-install"), "{managers}");
    });
}

#[test]
fn it_is_refused_beside_kube_ovn_and_without_a_mode() {
    test(async |lab| {
        let stage = Stage::new(&lab);
        let said = stage.refused(&["install", "--no-wait"]);
        assert!(said.contains("--mode is missing"), "{said}");
        stage.api.kubectl().unwrap().args(["apply", "-f-"]).stdin(KUBE_OVN).read().unwrap();
        let said = stage.refused(&["install", "--mode=secondary", "--no-wait"]);
        assert!(
            said.contains("Deployment kube-system/kube-ovn-controller") && said.contains("br-int"),
            "{said}"
        );
        // One that was scaled down does nothing.
        stage.kubectl(&["scale", "deployment", "kube-ovn-controller", "-n", "kube-system", "--replicas=0"]);
        stage.read(&["install", "--mode=secondary", "--no-wait"]);
    });
}

#[test]
fn namespaces_of_others_and_second_installations_are_refused() {
    test(async |lab| {
        let stage = Stage::new(&lab);
        stage.kubectl(&["create", "namespace", "infra"]);
        let here = ["install", "--mode=secondary", "--no-wait"];
        let said = stage.refused(&[&here[..], &["--namespace=infra"]].concat());
        assert!(said.contains("namespace infra is not Portolan's"), "{said}");
        let labels = stage.kubectl(&["get", "namespace", "infra", "-o", "jsonpath={.metadata.labels}"]);
        assert!(!labels.contains("portolan") && !labels.contains("privileged"), "{labels}");
        stage.read(&here);
        for command in [[&here[..], &["--namespace=other"]].concat(), vec!["uninstall", "--namespace=other"]]
        {
            let said = stage.refused(&command);
            assert!(
                said.contains("Portolan is installed in namespace portolan-system, not in other"),
                "{said}"
            );
        }
        stage.kubectl(&["get", "clusterrole", "portolan-agent"]);
    });
}

#[test]
fn what_does_not_come_up_is_named_with_the_reason() {
    test(async |lab| {
        let stage = Stage::new(&lab);
        let said = stage.refused(&["install", "--mode=secondary", "--timeout=1"]);
        assert!(said.contains("portolan-system/") && said.contains("does not run after 1 s"), "{said}");
    });
}

#[test]
fn definitions_of_others_are_neither_changed_nor_removed() {
    test(async |lab| {
        let stage = Stage::new(&lab);
        let nad = "deploy/crds/network-attachment-definitions.k8s.cni.cncf.io.yaml";
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
        stage.kubectl(&["create", "-f", &format!("{root}{nad}")]);
        let said = stage.read(&["install", "--mode=secondary", "--no-wait"]);
        let line =
            "CustomResourceDefinition network-attachment-definitions.k8s.cni.cncf.io is somebody else's";
        assert!(said.contains(line), "{said}");
        stage.kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"]);
        let before = "
apiVersion: kubeovn.io/v1
kind: Vpc
metadata: {name: blue, finalizers: [portolan.dev/in-use, example.org/other]}
spec: {}
";
        stage.api.kubectl().unwrap().args(["apply", "-f-"]).stdin(before).read().unwrap();

        let refused =
            stage.portolan(&["uninstall", "--delete-crds"]).stdin("").read().unwrap_err().to_string();
        assert!(refused.contains("--yes"), "{refused}");
        let said = stage.refused(&["uninstall", "--timeout=1"]);
        assert!(said.contains("DaemonSet portolan-system/portolan-cleanup does not run"), "{said}");
        // What was interrupted is completed.
        let _controllers = stage.controllers();
        let said = [said, stage.read(&["uninstall"])].concat();
        assert!(said.contains("Deployment portolan-system/portolan-controller removed"), "{said}");
        assert!(said.contains("finalizer of Vpc blue of kubeovn.io removed"), "{said}");
        assert!(!said.contains("CustomResourceDefinition"), "{said}");
        let vpc = stage.kubectl(&["get", "vpcs.kubeovn.io", "blue", "-o", "jsonpath={.metadata.finalizers}"]);
        assert_eq!(vpc, r#"["example.org/other"]"#);
        let left = stage.kubectl(&[
            "get",
            "clusterroles,clusterrolebindings,daemonsets,deployments",
            "-A",
            "-l",
            "app.kubernetes.io/part-of=portolan",
            "-o",
            "name",
        ]);
        assert_eq!(left, "");

        // Whoever has kubectl alone puts the label on what was there before, and on what `portolan install` created.
        stage.read(&["install", "--mode=secondary", "--no-wait"]);
        for definition in [nad, "deploy/crds/ippools.kubeovn.io.yaml"] {
            let labelled = std::fs::read_to_string(format!("{root}{definition}")).unwrap();
            let labelled = labelled.replacen(
                "metadata:",
                "metadata:\n  labels: {app.kubernetes.io/part-of: portolan}",
                1,
            );
            let apply = ["apply", "--server-side", "--force-conflicts", "-f-"];
            stage.api.kubectl().unwrap().args(apply).stdin(labelled).read().unwrap();
        }
        let said = stage.read(&["uninstall", "--delete-crds", "--yes"]);
        assert!(said.contains("CustomResourceDefinition subnets.portolan.dev removed"), "{said}");
        assert!(said.contains("CustomResourceDefinition subnets.kubeovn.io removed"), "{said}");
        for (name, why) in [
            (
                "network-attachment-definitions.k8s.cni.cncf.io",
                "nothing shows that `portolan install` created it",
            ),
            ("ippools.kubeovn.io", "kubectl wrote it too"),
        ] {
            let stays = format!("{name} stays: {why}; `kubectl delete crd {name}`");
            assert!(said.contains(&stays), "{said}");
            stage.kubectl(&["get", "crd", name]);
        }
        assert_eq!(stage.read(&["uninstall"]), "", "there is nothing left to remove");
    });
}
