//! `portolan support-bundle` on an API server, with secrets planted wherever there is room for them.

use std::collections::BTreeMap;
use std::io::Read as _;

use flate2::read::GzDecoder;
use portolan_testbed::test;

use crate::installation::Stage;

const PLANTED: &str = r#"
apiVersion: v1
kind: Secret
metadata: {name: planted, namespace: portolan-system, annotations: {note: hunter2-annotation}}
stringData: {password: hunter2-secret}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: planted, namespace: portolan-system}
data: {config.yaml: "hunter2-configmap"}
---
apiVersion: v1
kind: Pod
metadata:
  name: planted
  namespace: default
  annotations:
    k8s.v1.cni.cncf.io/networks: '[{"name": "web", "cni-args": {"token": "hunter2-network"}}]'
    example.org/anything: hunter2-pod-annotation
spec:
  containers:
  - name: main
    image: none
    command: [sh, -c, "login hunter2-command"]
    args: ["--password=hunter2-argument"]
    env: [{name: DATABASE, value: hunter2-env}]
    livenessProbe: {exec: {command: [check, hunter2-probe]}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: beside, namespace: portolan-system}
spec:
  selector: {matchLabels: {app: beside}}
  template:
    metadata: {labels: {app: beside}, annotations: {key: hunter2-template}}
    spec: {containers: [{name: main, image: none, args: [hunter2-daemonset]}]}
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: planted, namespace: default}
spec: {config: '{"cniVersion": "1.0.0", "type": "calico", "etcd_key": "hunter2-nad"}'}
---
apiVersion: portolan.dev/v1alpha1
kind: Vpc
metadata: {name: planted, annotations: {example.org/password: hunter2-vpc}}
spec: {}
---
apiVersion: v1
kind: Event
metadata: {name: planted, namespace: portolan-system}
involvedObject: {kind: Pod, namespace: portolan-system, name: planted}
message: "cannot log in at https://admin:hunter2-event@example.org"
---
apiVersion: v1
kind: Node
metadata: {name: planted, annotations: {cloud.example.org/credential: hunter2-node}}
"#;

const NOBODY_THERE: &str = r#"
apiVersion: v1
kind: Config
clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: a, context: {cluster: a, user: a}}]
users: [{name: a, user: {}}]
current-context: a
"#;

/// The files of a bundle, without the directory that all are in.
fn unpacked(path: &std::path::Path) -> BTreeMap<String, String> {
    let mut archive = tar::Archive::new(GzDecoder::new(std::fs::File::open(path).unwrap()));
    let read = |entry: std::io::Result<tar::Entry<'_, GzDecoder<std::fs::File>>>| {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().display().to_string();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        (name.split_once('/').unwrap().1.to_owned(), text)
    };
    archive.entries().unwrap().map(read).collect()
}

#[test]
fn a_bundle_has_what_helps_and_no_secret() {
    test(async |lab| {
        let stage = Stage::new(&lab);
        stage.read(&["install", "--mode=secondary", "--no-wait"]);
        stage.kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"]);
        // Pods need it, and there is no controller that makes it.
        stage.kubectl(&["create", "serviceaccount", "default"]);
        // As people do, so that the whole object is in an annotation too.
        stage.api.kubectl().unwrap().args(["apply", "-f-"]).stdin(PLANTED).read().unwrap();
        let path = lab.directory("bundle").unwrap().join("bundle.tar.gz");
        let said = stage.read(&["support-bundle", "--no-nodes", "-o", path.to_str().unwrap()]);
        assert!(said.contains("Look through it before you send it"), "{said}");
        let files = unpacked(&path);
        for (name, text) in &files {
            assert!(!text.contains("hunter2"), "{name}:\n{text}");
        }
        let file =
            |name: &str| files.get(name).unwrap_or_else(|| panic!("{name} is not among {:?}", files.keys()));
        assert!(file("README.txt").contains("doctor.txt"));
        assert!(file("versions.txt").contains("Kubernetes: v1.34"));
        assert!(file("doctor.txt").contains("ERROR    workloads"));
        assert!(
            file("objects/daemonsets.apps.yaml").contains("--node=$(NODE_NAME)"),
            "Portolan's arguments stay"
        );
        assert!(file("objects/vpcs.portolan.dev.yaml").contains("name: planted"));
        assert!(file("objects/secrets.yaml").contains("name: planted"));
        assert!(file("objects/events.yaml").contains("cannot log in"));
        assert!(file("objects/pods.yaml").contains("k8s.v1.cni.cncf.io/networks"));
        assert!(file("not-collected.txt").contains("nodes: --no-nodes was given"));
        let again = stage.refused(&["support-bundle", "--no-nodes", "-o", path.to_str().unwrap()]);
        assert!(again.contains("is there already"), "{again}");
    });
}

#[test]
fn a_bundle_that_cannot_be_made_leaves_no_file() {
    test(async |lab| {
        let stage = Stage::new(&lab);
        let directory = lab.directory("bundle").unwrap();
        let (path, kubeconfig) = (directory.join("bundle.tar.gz"), directory.join("kubeconfig"));
        std::fs::write(&kubeconfig, NOBODY_THERE).unwrap();
        let command = stage.portolan(&["support-bundle", "-o", path.to_str().unwrap()]);
        let ended = command.env("KUBECONFIG", &kubeconfig).output().unwrap();
        assert_eq!(ended.status.code(), Some(4));
        assert!(!path.exists());
    });
}
