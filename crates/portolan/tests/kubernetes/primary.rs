//! Portolan as the primary network: what users do with pods, on pods in containers. kube-proxy serves Services.
//!
//! Its processes run on the nodes themselves, beside an Open vSwitch of the nodes' own.

use std::collections::BTreeSet;
use std::net::{IpAddr, TcpListener};
use std::time::Duration;

use portolan_testbed::kubernetes::{Image, Kubernetes, KubernetesBuilder, KubernetesNode, Network, Portolan};
use portolan_testbed::{Result, Test, TestLab};

use crate::pods::{self, WEB};

/// Runs a test on a cluster of two nodes that are ready.
pub(crate) fn on_primary(
    deadline: Duration,
    body: impl FnOnce(&Kubernetes, &mut Portolan) -> Result<()> + Send + 'static,
) {
    on_primary_of(Kubernetes::builder().nodes(2).network(Network::None).open_vswitch(), deadline, body);
}

/// The same on a cluster that is built otherwise.
pub(crate) fn on_primary_of(
    cluster: KubernetesBuilder,
    deadline: Duration,
    body: impl FnOnce(&Kubernetes, &mut Portolan) -> Result<()> + Send + 'static,
) {
    Test::new().deadline(deadline).run(async move |lab: TestLab| -> Result<()> {
        let cluster = cluster.start(&lab)?;
        cluster.show_on_failure(&lab);
        cluster.load(&Image::agnhost()?)?;
        let mut portolan = Portolan::start(&cluster)?;
        cluster.kubectl(&["wait", "--for=condition=Ready", "nodes", "--all", "--timeout=120s"])?;
        body(&cluster, &mut portolan)?;
        let on = cluster.nodes().iter().zip(portolan.agents()).filter(|(node, _)| node.running().is_ok());
        for process in on.map(|(_, agent)| agent).chain([portolan.controller()]) {
            assert!(process.is_alive(), "{}", process.log_tail());
        }
        Ok(())
    });
}

/// Pods of both nodes, the nodes, Services and the outside reach each other.
pub(crate) fn everybody_reaches_everybody(cluster: &Kubernetes) -> Result<()> {
    cluster.start_dns()?;
    cluster.apply(WEB)?;
    cluster.apply(ON_HOSTS)?;
    cluster.apply(PROBES)?;
    pods::client(cluster, "one", "node1")?;
    pods::client(cluster, "two", "node2")?;
    pods::rolled_out(cluster, "web")?;
    for pod in ["pod/host1", "pod/host2", "pod/port", "pod/http", "pod/tcp", "pod/exec"] {
        pods::ready(cluster, pod)?;
    }
    let [node1, node2] = [cluster.node("node1")?, cluster.node("node2")?];

    // Pods and nodes, each with each.
    let [one, two] = ["one", "two"].map(|pod| address(cluster, pod));
    let [one, two] = [one?, two?];
    for (pod, name) in [(&one, "one"), (&two, "two")] {
        for from in ["one", "two", "host1", "host2"] {
            assert_eq!(get(cluster, from, &format!("{pod}/hostname"))?, name, "{from} to {name}");
        }
        for node in [node1, node2] {
            let said = node.command("curl")?.args(["-sSm5", &format!("http://{pod}/hostname")]).read()?;
            assert_eq!(said, name, "{} to {name}", node.name());
        }
    }
    // They see each other's own addresses.
    for (from, own, to) in [("one", &one, node2), ("one", &one, node1), ("two", &two, node1)] {
        let seen = get(cluster, from, &format!("{}:8088/clientip", to.address()))?;
        assert!(seen.starts_with(&format!("{own}:")), "{from} at {}: {seen}", to.name());
    }

    // Services, by name and from the host network. kube-proxy chooses among the pods of both nodes.
    let service = cluster.kubectl(&["get", "service/web", "-o=jsonpath={.spec.clusterIP}"])?;
    for _ in 0..4 {
        for from in ["one", "two"] {
            assert!(get(cluster, from, "web/hostname")?.starts_with("web-"), "{from}");
        }
        assert!(get(cluster, "host2", &format!("{service}/hostname"))?.starts_with("web-"));
    }

    pods::are_proxied(cluster)?;

    // What leaves the cluster comes from the pod's node; what comes from there to a port of the node reaches the pod behind it.
    for (pod, node) in [("one", node1), ("two", node2)] {
        assert_eq!(seen_outside(cluster, pod)?, IpAddr::from(node.address()), "{pod}");
    }
    let at_port = format!("{}:8089/hostname", node1.address());
    let from_outside = cluster.outside().command("curl").args(["-sSm5", &format!("http://{at_port}")]);
    assert_eq!(from_outside.read()?, "port");
    for from in ["one", "two", "host1", "host2"] {
        assert_eq!(get(cluster, from, &at_port)?, "port", "{from}");
    }
    assert_eq!(get(cluster, "host1", "127.0.0.1:8089/hostname")?, "port");
    let restarts = "jsonpath={.items[*].status.containerStatuses[*].restartCount}";
    let restarts = cluster.kubectl(&["get", "pods", "-o", restarts])?;
    assert!(restarts.split(' ').all(|count| count == "0"), "probes pass: {restarts}");
    Ok(())
}

#[test]
fn workloads_come_and_go_and_leave_no_address_behind() {
    on_primary(Duration::from_secs(600), |cluster, _| {
        cluster.apply(SUBNET)?;
        cluster.kubectl(&[
            "wait",
            "--for=condition=Ready",
            "subnets.portolan.dev/sticky",
            "--timeout=60s",
        ])?;
        let before = ports(cluster)?;
        static_pod(cluster.node("node2")?)?;
        cluster.apply(ROLLED)?;
        cluster.apply(STICKY)?;
        cluster.apply(&jobs())?;

        // A StatefulSet keeps its addresses on a Subnet that spans nodes.
        cluster.kubectl(&["rollout", "status", "-n=sticky", "statefulset/db", "--timeout=180s"])?;
        let addresses = || {
            let answer = ["get", "pods", "-n=sticky", "-o=jsonpath={.items[*].status.podIP}"];
            cluster.kubectl(&answer)
        };
        let sticky = addresses()?;
        assert!(sticky.split(' ').all(|address| address.starts_with("10.50.0.")), "{sticky}");

        pods::rolled_out(cluster, "rolled")?;
        for round in 1..=3 {
            let patch = format!(
                r#"{{"spec": {{"template": {{"metadata": {{"annotations": {{"round": "{round}"}}}}}}}}}}"#
            );
            cluster.kubectl(&["patch", "deployment/rolled", "-p", &patch])?;
            pods::rolled_out(cluster, "rolled")?;
        }
        cluster.kubectl(&["delete", "pods", "-n=sticky", "--all"])?;
        cluster.kubectl(&["rollout", "status", "-n=sticky", "statefulset/db", "--timeout=180s"])?;
        assert_eq!(addresses()?, sticky);
        cluster.kubectl(&["wait", "--for=condition=Complete", "job", "--all", "--timeout=300s"])?;

        let failed =
            cluster.kubectl(&["get", "pods", "-A", "--field-selector=status.phase=Failed", "-o=name"])?;
        assert_eq!(failed, "");
        let without = ["get", "events", "-A", "--field-selector=reason=FailedCreatePodSandBox", "-o=name"];
        assert_eq!(cluster.kubectl(&without)?, "", "every sandbox had its network at the first attempt");
        pods::ready(cluster, "pod/static-node2")?;
        let node1 = cluster.node("node1")?;
        let address = address(cluster, "static-node2")?;
        assert_eq!(
            node1.command("curl")?.args(["-sSm5", &format!("http://{address}/hostname")]).read()?,
            "static-node2"
        );

        node_command(cluster.node("node2")?, "rm /etc/kubernetes/manifests/static.json")?;
        cluster.kubectl(&["delete", "deployments,jobs", "--all", "--cascade=foreground"])?;
        cluster.kubectl(&["delete", "namespace", "sticky"])?;
        cluster.kubectl(&["wait", "--for=delete", "pod/static-node2", "--timeout=60s"])?;
        locks_are_given_back(cluster)?;
        assert_eq!(ports(cluster)?, before);
        Ok(())
    });
}

/// Waits until no pod holds an address any more.
pub(crate) fn locks_are_given_back(cluster: &Kubernetes) -> Result<()> {
    let names = "jsonpath={range .items[?(@.spec.holder.kind!='Node')]}{.spec.holder.kind} {.metadata.name}{\"\\n\"}{end}";
    let locks = cluster.kubectl(&["get", "iplocks.portolan.dev", "-o", names])?;
    for (kind, name) in locks.lines().filter_map(|line| line.split_once(' ')) {
        if kind != "Subnet" {
            cluster.kubectl(&[
                "wait",
                "--for=delete",
                &format!("iplocks.portolan.dev/{name}"),
                "--timeout=60s",
            ])?;
        }
    }
    Ok(())
}

/// The ports of guests in OVN.
pub(crate) fn ports(cluster: &Kubernetes) -> Result<BTreeSet<String>> {
    let find = ["--bare", "--columns=name", "find", "Logical_Switch_Port", "type=\"\""];
    let ports = cluster.ovn().unwrap().nbctl(&find)?;
    Ok(ports.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect())
}

/// What a web server answers to a pod.
pub(crate) fn get(cluster: &Kubernetes, from: &str, what: &str) -> Result<String> {
    pods::exec(cluster, from, &["curl", "-sSm5", &format!("http://{what}")])
}

pub(crate) fn address(cluster: &Kubernetes, pod: &str) -> Result<String> {
    cluster.kubectl(&["get", "pod", pod, "-o=jsonpath={.status.podIP}"])
}

/// The address that a pod has for a server outside the cluster.
fn seen_outside(cluster: &Kubernetes, pod: &str) -> Result<IpAddr> {
    let outside = IpAddr::from(cluster.outside_address());
    let listener = cluster.outside().run(move || TcpListener::bind((outside, 0))).unwrap();
    let at = listener.local_addr().unwrap().to_string();
    let server = std::thread::spawn(move || listener.accept().unwrap().1.ip());
    pods::exec(cluster, pod, &["/agnhost", "connect", &at, "--timeout=5s"])?;
    Ok(server.join().unwrap())
}

fn static_pod(node: &KubernetesNode) -> Result<()> {
    node_command(node, &format!("cat >/etc/kubernetes/manifests/static.json <<'END'\n{STATIC}\nEND"))
}

fn node_command(node: &KubernetesNode, script: &str) -> Result<()> {
    node.command("bash")?.args(["-euc", script]).read().map(drop)
}

/// As many pods as come and go: 300 with `PORTOLAN_CHURN=full`.
fn jobs() -> String {
    let full = std::env::var("PORTOLAN_CHURN").is_ok_and(|value| value == "full");
    let pods = if full { 300 } else { 40 };
    JOBS.replace("PODS", &pods.to_string())
}

const PROBES: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: http}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: http
    image: agnhost:1
    args: [netexec, --http-port=80]
    readinessProbe: {httpGet: {path: /healthz, port: 80}, periodSeconds: 1}
    livenessProbe: {httpGet: {path: /healthz, port: 80}, periodSeconds: 1, failureThreshold: 1, initialDelaySeconds: 3}
---
apiVersion: v1
kind: Pod
metadata: {name: tcp}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: tcp
    image: agnhost:1
    args: [netexec, --http-port=80]
    readinessProbe: {tcpSocket: {port: 80}, periodSeconds: 1}
    livenessProbe: {tcpSocket: {port: 80}, periodSeconds: 1, failureThreshold: 1, initialDelaySeconds: 3}
---
apiVersion: v1
kind: Pod
metadata: {name: exec}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: exec
    image: agnhost:1
    args: [netexec, --http-port=80]
    readinessProbe: {exec: {command: [curl, -sSm1, "http://127.0.0.1/healthz"]}, periodSeconds: 1}
"#;

/// Pods on the network of their nodes, and one behind a port of its node.
pub(crate) const ON_HOSTS: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: host1}
spec:
  nodeName: node1
  hostNetwork: true
  terminationGracePeriodSeconds: 0
  containers: [{name: host, image: "agnhost:1", args: [netexec, --http-port=8088, --udp-port=-1]}]
---
apiVersion: v1
kind: Pod
metadata: {name: host2}
spec:
  nodeName: node2
  hostNetwork: true
  terminationGracePeriodSeconds: 0
  containers: [{name: host, image: "agnhost:1", args: [netexec, --http-port=8088, --udp-port=-1]}]
---
apiVersion: v1
kind: Pod
metadata: {name: port}
spec:
  nodeName: node1
  terminationGracePeriodSeconds: 0
  containers:
  - name: port
    image: agnhost:1
    args: [netexec, --http-port=80]
    ports: [{containerPort: 80, hostPort: 8089}]
"#;

/// A Subnet of the primary network for one namespace, which spans nodes.
const SUBNET: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: sticky}
---
apiVersion: portolan.dev/v1alpha1
kind: Subnet
metadata: {name: sticky}
spec: {vpc: ovn-cluster, cidrBlock: 10.50.0.0/24, namespaces: [sticky]}
"#;

const STICKY: &str = r#"
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: sticky}
spec:
  replicas: 3
  serviceName: db
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: db, image: "agnhost:1"}]
"#;

const ROLLED: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: rolled}
spec:
  replicas: 30
  selector: {matchLabels: {app: rolled}}
  template:
    metadata: {labels: {app: rolled}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: web, image: "agnhost:1"}]
"#;

const JOBS: &str = r#"
apiVersion: batch/v1
kind: Job
metadata: {name: churn}
spec:
  completions: PODS
  parallelism: 15
  template:
    spec:
      restartPolicy: Never
      containers: [{name: work, image: "agnhost:1", command: [sh, -c, "true"]}]
"#;

const STATIC: &str = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "static"}, "spec": {
  "terminationGracePeriodSeconds": 0,
  "containers": [{"name": "web", "image": "agnhost:1", "args": ["netexec", "--http-port=80"]}]}}"#;
