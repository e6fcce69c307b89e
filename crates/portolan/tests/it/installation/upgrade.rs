//! `portolan upgrade`, and what an installation finds out about its cluster, on an API server. There are no nodes, so nothing runs.

use portolan_testbed::test;

use crate::installation::Stage;

#[test]
fn an_upgrade_keeps_options_and_removes_what_the_installation_does_not_have_any_more() {
    test(async |lab| {
        let stage = Stage::new(&lab);
        let said = stage.refused(&["upgrade", "--no-wait"]);
        assert!(said.contains("Portolan is not installed in namespace portolan-system"), "{said}");
        stage.read(&["install", "--mode=secondary", "--no-wait", "--image=r/p:1"]);
        let said = stage.refused(&["upgrade", "--no-wait", "--namespace=other"]);
        assert!(said.contains("Portolan is installed in namespace portolan-system, not in other"), "{said}");

        // What an earlier version may have had, what others made that looks alike, and what is never removed.
        for (manager, name) in [("portolan-install", "former"), ("kubectl", "others")] {
            apply(&stage, manager, &FORMER.replace("NAME", name));
        }
        let dry = stage.read(&["upgrade", "--open-vswitch=hosts", "--dry-run"]);
        let end = "it is not part of the installation any more";
        let gone = [
            "DaemonSet portolan-system/ovs",
            "ClusterRole portolan-former",
            "ConfigMap portolan-system/former",
        ];
        for object in gone {
            assert!(dry.contains(&format!("{object} would be removed: {end}")), "{dry}");
        }
        let names = r#"jsonpath={range .items[*]}{.kind} {.metadata.namespace}/{.metadata.name}{"\n"}{end}"#;
        let objects = ["get", "daemonsets,configmaps,clusterroles,crds", "-l", LABEL, "-A", "-o", names];
        let before = stage.kubectl(&objects);
        assert!(before.contains("DaemonSet portolan-system/ovs\n"), "nothing was removed: {before}");

        let said = stage.read(&["upgrade", "--open-vswitch=hosts", "--no-wait"]);
        for object in gone {
            assert!(said.contains(&format!("{object} removed: {end}")), "{said}");
        }
        assert_eq!(said.matches(end).count(), gone.len(), "{said}");
        let after = stage.kubectl(&objects);
        let missing: Vec<_> =
            before.lines().filter(|line| !after.lines().any(|other| other == *line)).collect();
        let names = [
            "DaemonSet portolan-system/ovs",
            "ConfigMap portolan-system/former",
            "ClusterRole /portolan-former",
        ];
        assert_eq!(missing, names, "{after}");
        let image = "jsonpath={.spec.template.spec.containers[0].image}";
        let agent = ["get", "daemonset", "portolan-agent", "-n=portolan-system", "-o", image];
        assert_eq!(stage.kubectl(&agent), "r/p:1", "options stay as they were");
        assert_eq!(stage.read(&["upgrade", "--no-wait"]), "");
        let said = stage.read(&["install", "--no-wait", "--ovs-image=r/o:2", "--open-vswitch=pods"]);
        assert!(said.contains("DaemonSet portolan-system/ovs created"), "the way back: {said}");
    });
}

#[test]
fn a_primary_network_is_told_of_the_networks_of_pods_and_services() {
    test(async |lab| {
        let stage = Stage::new(&lab);
        let install = ["install", "--mode=primary", "--api-server=192.0.2.1:6443", "--no-wait"];
        let installed = |more: &[&str]| {
            let output = stage.portolan(&[&install[..], more].concat()).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let arguments = "jsonpath={.spec.template.spec.containers[0].args}";
            let agent = ["get", "daemonset", "portolan-agent", "-n=portolan-system", "-o", arguments];
            let said = [output.stdout, output.stderr].map(|said| String::from_utf8(said).unwrap()).concat();
            (said, stage.kubectl(&agent))
        };
        // As kube-apiserver was told, it makes a ServiceCIDR.
        stage.kubectl(&["wait", "--for=create", "servicecidr/kubernetes", "--timeout=30s"]);
        let (said, arguments) = installed(&[]);
        assert!(
            said.contains("warning: neither the cluster nor its Nodes say which networks pods have"),
            "{said}"
        );
        assert!(said.contains("networks of Services: 10.96.0.0/16, by ServiceCIDRs"), "{said}");
        assert!(arguments.contains("--service-network=10.96.0.0/16"), "{arguments}");
        assert!(!arguments.contains("--cluster-network"), "{arguments}");

        apply(&stage, "test", NODES);
        let (said, arguments) = installed(&[]);
        assert!(
            said.contains("networks of pods: 10.16.0.0/24, 10.16.2.0/24, fd00:16::/64, by the prefixes"),
            "{said}"
        );
        assert!(said.contains("install again when Nodes join"), "{said}");
        assert!(arguments.contains("--cluster-network=10.16.2.0/24"), "{arguments}");

        apply(&stage, "test", KUBEADM);
        let (said, arguments) = installed(&[]);
        assert!(
            said.contains("networks of pods: 10.16.0.0/16, by ConfigMap kube-system/kubeadm-config"),
            "{said}"
        );
        assert!(arguments.contains("--cluster-network=10.16.0.0/16"), "{arguments}");
        assert!(!arguments.contains("10.16.2.0/24"), "{arguments}");

        apply(&stage, "test", CONTROLLER_MANAGER);
        let (said, arguments) = installed(&[]);
        let by =
            "networks of pods: 10.16.0.0/15, fd00:16::/56, by flag --cluster-cidr of kube-controller-manager";
        assert!(said.contains(by), "{said}");
        assert!(arguments.contains("--cluster-network=fd00:16::/56"), "{arguments}");

        let (said, arguments) =
            installed(&["--cluster-network=10.0.0.0/9", "--service-network=10.200.0.0/16"]);
        assert!(!said.contains("networks of"), "what was given counts: {said}");
        assert!(arguments.contains("--cluster-network=10.0.0.0/9"), "{arguments}");
        assert!(!arguments.contains("10.16.0.0") && !arguments.contains("10.96.0.0"), "{arguments}");
        let (_, again) = installed(&[]);
        assert_eq!(again, arguments, "and is kept");

        // Pods of Subnets that existed before may have left the cluster with other addresses.
        stage.kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"]);
        apply(&stage, "test", SUBNETS);
        let unset = "warning: Subnet.kubeovn.io mail: spec.natOutgoing: not set: pods leave the cluster with their own addresses";
        for command in [&["upgrade", "--no-wait"][..], &["upgrade", "--dry-run"]] {
            let output = stage.portolan(command).output().unwrap();
            let complaint = String::from_utf8(output.stderr).unwrap();
            assert!(output.status.success() && complaint.contains(unset), "{complaint}");
            assert!(!complaint.contains("shop"), "{complaint}");
        }
    });
}

fn apply(stage: &Stage<'_>, manager: &str, manifest: &str) {
    let manager = format!("--field-manager={manager}");
    let apply = ["apply", "--server-side", &manager, "-f-"];
    stage.api.kubectl().unwrap().args(apply).stdin(manifest).read().unwrap();
}

const LABEL: &str = "app.kubernetes.io/part-of=portolan";

const FORMER: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: NAME, namespace: portolan-system, labels: {app.kubernetes.io/part-of: portolan}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: portolan-NAME, labels: {app.kubernetes.io/part-of: portolan}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: NAMEs.example.org, labels: {app.kubernetes.io/part-of: portolan}}
spec:
  group: example.org
  names: {kind: NAME, plural: NAMEs}
  scope: Cluster
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: NAME, namespace: default, labels: {app.kubernetes.io/part-of: portolan}}
"#;

const SUBNETS: &str = r#"
apiVersion: kubeovn.io/v1
kind: Subnet
metadata: {name: mail}
spec: {cidrBlock: 10.52.0.0/16}
---
apiVersion: kubeovn.io/v1
kind: Subnet
metadata: {name: shop}
spec: {cidrBlock: 10.53.0.0/16, natOutgoing: true}
"#;

const NODES: &str = r#"
apiVersion: v1
kind: Node
metadata: {name: a}
spec: {podCIDR: 10.16.0.0/24, podCIDRs: [10.16.0.0/24, "fd00:16::/64"]}
---
apiVersion: v1
kind: Node
metadata: {name: b}
spec: {podCIDR: 10.16.2.0/24, podCIDRs: [10.16.2.0/24]}
"#;

const KUBEADM: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: kubeadm-config, namespace: kube-system}
data:
  ClusterConfiguration: |
    kind: ClusterConfiguration
    networking: {dnsDomain: cluster.local, podSubnet: 10.16.0.0/16, serviceSubnet: 10.96.0.0/12}
"#;

const CONTROLLER_MANAGER: &str = r#"
apiVersion: v1
kind: ServiceAccount
metadata: {name: default, namespace: kube-system}
---
apiVersion: v1
kind: Pod
metadata: {name: kube-controller-manager-a, namespace: kube-system, labels: {component: kube-controller-manager}}
spec:
  containers:
  - {name: main, image: none, command: [kube-controller-manager, "--cluster-cidr=10.16.0.0/15,fd00:16::/56"]}
"#;
