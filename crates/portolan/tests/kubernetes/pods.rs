//! Pods of agnhost, and what is asked of them.

use portolan_testbed::Result;
use portolan_testbed::kubernetes::Kubernetes;

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
    cluster.apply(&format!(
        r#"{{"apiVersion": "v1", "kind": "Pod", "metadata": {{"name": "{name}"}}, "spec": {{
          "nodeName": "{node}", "terminationGracePeriodSeconds": 0,
          "containers": [{{"name": "client", "image": "agnhost:1", "args": ["netexec", "--http-port=80"]}}]}}}}"#
    ))?;
    ready(cluster, &format!("pod/{name}"))
}

/// Waits until a pod is ready.
pub(crate) fn ready(cluster: &Kubernetes, pod: &str) -> Result<()> {
    cluster.kubectl(&["wait", "--for=condition=Ready", pod, "--timeout=120s"]).map(drop)
}

/// Waits until a Deployment is as it should be.
pub(crate) fn rolled_out(cluster: &Kubernetes, name: &str) -> Result<()> {
    cluster.kubectl(&["rollout", "status", &format!("deployment/{name}"), "--timeout=180s"]).map(drop)
}

/// Runs a command in a pod.
pub(crate) fn exec(cluster: &Kubernetes, pod: &str, command: &[&str]) -> Result<String> {
    cluster.kubectl_command()?.args(["exec", pod, "--"]).args(command).read()
}
