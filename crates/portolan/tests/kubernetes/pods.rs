//! Pods of agnhost, and what is asked of them.

use std::io::{BufRead as _, BufReader};
use std::net::IpAddr;
use std::process::Stdio;

use portolan_testbed::Result;
use portolan_testbed::kubernetes::{Kubernetes, KubernetesNode};

/// A Deployment of web servers that answer with the names of their pods, one on each of two nodes, and its Service.
pub(crate) const WEB: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 0
      topologySpreadConstraints:
      - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}}
      containers:
      - name: web
        image: agnhost:1
        args: [netexec, --http-port=80]
        readinessProbe: {httpGet: {path: /healthz, port: 80}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
"#;

/// A pod on a node from which everything else is tried. It answers with its name.
pub(crate) fn client(cluster: &Kubernetes, name: &str, node: &str) -> Result<()> {
    create_client(cluster, name, node)?;
    ready(cluster, &format!("pod/{name}"))
}

/// The same, without waiting for it.
pub(crate) fn create_client(cluster: &Kubernetes, name: &str, node: &str) -> Result<()> {
    cluster.apply(&format!(
        r#"{{"apiVersion": "v1", "kind": "Pod", "metadata": {{"name": "{name}"}}, "spec": {{
          "nodeName": "{node}", "terminationGracePeriodSeconds": 0,
          "containers": [{{"name": "client", "image": "agnhost:1", "args": ["netexec", "--http-port=80"]}}]}}}}"#
    ))?;
    Ok(())
}

/// Waits until a pod is ready.
pub(crate) fn ready(cluster: &Kubernetes, pod: &str) -> Result<()> {
    cluster.kubectl(&["wait", "--for=condition=Ready", pod, "--timeout=120s"]).map(drop)
}

/// Waits until a Deployment is as it should be.
pub(crate) fn rolled_out(cluster: &Kubernetes, name: &str) -> Result<()> {
    cluster.kubectl(&["rollout", "status", &format!("deployment/{name}"), "--timeout=180s"]).map(drop)
}

/// Has the pods of a Deployment replaced, and returns when one of the new ones is on a node and not ready: its sandbox is being made.
pub(crate) fn begin_to_roll(cluster: &Kubernetes, name: &str, round: &str) -> Result<String> {
    let round: String =
        round.chars().map(|one| if one.is_ascii_alphanumeric() { one } else { '-' }).collect();
    let patch =
        format!(r#"{{"spec": {{"template": {{"metadata": {{"labels": {{"round": "{round}"}}}}}}}}}}"#);
    cluster.kubectl(&["patch", &format!("deployment/{name}"), "-p", &patch])?;
    let shown =
        r#"jsonpath={.metadata.name} {.spec.nodeName} {.status.conditions[?(@.type=="Ready")].status}{"\n"}"#;
    let watch = ["get", "pods", "--watch", "-l", &format!("round={round}"), "-o", shown];
    let watch = cluster.kubectl_command()?.args(watch);
    let mut watch = watch.spawn_with(Stdio::null(), Stdio::piped(), Stdio::inherit())?;
    let lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let under_way = lines.map(|line| line.unwrap()).find_map(|line| {
        let mut words = line.split(' ');
        let (pod, node, ready) = (words.next()?, words.next()?, words.next()?);
        (!node.is_empty() && ready != "True").then(|| pod.to_owned())
    });
    watch.kill().unwrap();
    watch.wait().unwrap();
    Ok(under_way.expect("a new pod is made"))
}

/// The node of a container, and its first process there.
pub(crate) fn process<'a>(
    cluster: &'a Kubernetes,
    namespace: &str,
    pod: &str,
    container: &str,
) -> Result<(&'a KubernetesNode, String)> {
    let shown = |path: &str| {
        let output = format!("-o=jsonpath={{{path}}}");
        cluster.kubectl(&["get", "pod", pod, &format!("-n={namespace}"), &output])
    };
    let node = cluster.node(&shown(".spec.nodeName")?)?;
    let id = shown(&format!(".status.containerStatuses[?(@.name==\"{container}\")].containerID"))?;
    let id = id.trim_start_matches("containerd://");
    let tasks = node.command("ctr")?.args(["--namespace=k8s.io", "tasks", "list"]).read()?;
    let task = tasks.lines().find(|line| !id.is_empty() && line.starts_with(id));
    let process = task.and_then(|line| line.split_whitespace().nth(1));
    Ok((node, process.unwrap_or_else(|| panic!("{pod}: {container} does not run: {tasks}")).to_owned()))
}

/// An address as it stands in a URL.
pub(crate) fn in_url(address: IpAddr) -> String {
    match address {
        IpAddr::V4(v4) => v4.to_string(),
        IpAddr::V6(v6) => format!("[{v6}]"),
    }
}

/// Runs a command in a pod.
pub(crate) fn exec(cluster: &Kubernetes, pod: &str, command: &[&str]) -> Result<String> {
    cluster.kubectl_command()?.args(["exec", pod, "--"]).args(command).read()
}

/// The API server, which is on no node, reaches pods of all nodes, itself and for a Service, with TLS and without.
pub(crate) fn are_proxied(cluster: &Kubernetes) -> Result<()> {
    let node = |number: usize| cluster.nodes()[number].name();
    for (name, node) in [("proxied1", node(0)), ("proxied2", node(1))] {
        cluster.apply(&PROXIED.replace("NAME", name).replace("NODE", node))?;
    }
    for name in ["proxied1", "proxied2"] {
        ready(cluster, &format!("pod/{name}"))?;
        let has_endpoint = "--for=jsonpath={.subsets[0].addresses[0].ip}";
        cluster.kubectl(&["wait", has_endpoint, &format!("endpoints/{name}"), "--timeout=60s"])?;
        for (what, said) in [
            (format!("pods/{name}:80"), "foo"),
            (format!("pods/https:{name}:443"), "tls foo"),
            (format!("services/{name}:plain"), "foo"),
            (format!("services/https:{name}:tls"), "tls foo"),
        ] {
            let answer =
                cluster.kubectl(&["get", "--raw", &format!("/api/v1/namespaces/default/{what}/proxy/")])?;
            assert_eq!(answer, said, "{what}");
        }
    }
    Ok(())
}

const PROXIED: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: NAME, labels: {app: NAME}}
spec:
  nodeName: NODE
  terminationGracePeriodSeconds: 0
  containers:
  - name: porter
    image: agnhost:1
    args: [porter]
    env: [{name: SERVE_PORT_80, value: foo}, {name: SERVE_TLS_PORT_443, value: tls foo}]
    readinessProbe: {httpGet: {port: 80}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: NAME}
spec:
  selector: {app: NAME}
  ports: [{name: plain, port: 81, targetPort: 80}, {name: tls, port: 444, targetPort: 443}]
"#;
