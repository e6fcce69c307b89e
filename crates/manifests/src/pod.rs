//! What the pods of all parts have in common.

use serde_json::{Value, json};

use crate::installation::Installation;

/// The metadata of an object of a part.
pub(crate) fn metadata(installation: &Installation, name: &str) -> Value {
    json!({"name": name, "namespace": installation.namespace, "labels": labels(name)})
}

/// The labels of a part's objects and pods. `app` is what Services select by.
pub(crate) fn labels(part: &str) -> Value {
    json!({"app": part, "app.kubernetes.io/name": part, "app.kubernetes.io/part-of": "portolan"})
}

/// The selector of a part's pods. It can never be changed.
pub(crate) fn selector(part: &str) -> Value {
    json!({"matchLabels": {"app": part}})
}

/// The metadata of a part's pods. `container` is the one whose log is shown unless another is named.
pub(crate) fn template_metadata(part: &str, container: &str) -> Value {
    json!({"labels": labels(part), "annotations": {"kubectl.kubernetes.io/default-container": container}})
}

/// Pods of this kind run wherever they are, whatever is wrong with the node: the network is what makes nodes ready.
pub(crate) fn tolerate_everything() -> Value {
    json!([{"operator": "Exists"}])
}

/// Pods of this kind run on nodes of the control plane and on such that are not ready, as the network is what makes nodes ready. Not on nodes
/// that are being drained, or kept for others: there is another place for them.
pub(crate) fn tolerate_what_a_network_must() -> Vec<Value> {
    let keys = [
        "node-role.kubernetes.io/control-plane",
        "node-role.kubernetes.io/master",
        "node.cloudprovider.kubernetes.io/uninitialized",
        "node.kubernetes.io/disk-pressure",
        "node.kubernetes.io/memory-pressure",
        "node.kubernetes.io/network-unavailable",
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/pid-pressure",
    ];
    let of = |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoSchedule"});
    let mut tolerations: Vec<Value> = keys.map(of).into();
    tolerations.push(json!({"key": "CriticalAddonsOnly", "operator": "Exists"}));
    tolerations.push(json!({"operator": "Exists", "effect": "NoExecute"}));
    tolerations
}

/// The same, but for nodes that are gone: another pod takes over.
pub(crate) fn tolerate_all_but_unreachable_nodes() -> Vec<Value> {
    let mut tolerations = tolerate_what_a_network_must();
    tolerations.push(json!({
        "key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30,
    }));
    tolerations
}

/// Where the control plane is, if its nodes are in the cluster.
pub(crate) fn prefer_control_plane() -> Value {
    let has = |key: &str| json!({"matchExpressions": [{"key": key, "operator": "Exists"}]});
    json!({"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 50, "preference": has("node-role.kubernetes.io/control-plane")},
    ]})
}

/// Takes the address of the API server from the pod instead of the Service `kubernetes`, which may need a network that is not there yet.
pub(crate) fn api_server(installation: &Installation) -> Vec<Value> {
    installation
        .api_server
        .iter()
        .flat_map(|api| {
            [
                json!({"name": "KUBERNETES_SERVICE_HOST", "value": api.host}),
                json!({"name": "KUBERNETES_SERVICE_PORT", "value": api.port.to_string()}),
            ]
        })
        .collect()
}

/// An environment variable with a field of the pod.
pub(crate) fn field(name: &str, path: &str) -> Value {
    json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}})
}

/// A directory of the host.
pub(crate) fn host_path(name: &str, path: &str) -> Value {
    json!({"name": name, "hostPath": {"path": path, "type": "DirectoryOrCreate"}})
}

/// A directory in memory that lasts as long as the pod.
pub(crate) fn in_memory(name: &str) -> Value {
    json!({"name": name, "emptyDir": {"medium": "Memory"}})
}

/// Where a volume is in a container.
pub(crate) fn mount(name: &str, path: &str) -> Value {
    json!({"name": name, "mountPath": path})
}

/// Liveness and readiness by the health server of a process. It listens on the host's loopback address, which the kubelet reaches.
pub(crate) fn probes(container: &mut Value, port: u16) {
    let get = |path: &str| json!({"host": "127.0.0.1", "path": path, "port": port, "scheme": "HTTP"});
    container["startupProbe"] =
        json!({"httpGet": get("/healthz"), "periodSeconds": 2, "timeoutSeconds": 6, "failureThreshold": 150});
    container["livenessProbe"] =
        json!({"httpGet": get("/healthz"), "periodSeconds": 10, "timeoutSeconds": 6, "failureThreshold": 6});
    container["readinessProbe"] =
        json!({"httpGet": get("/readyz"), "periodSeconds": 5, "timeoutSeconds": 6, "failureThreshold": 2});
}

/// The flag that has a process serve them.
pub(crate) fn health_address(port: u16) -> String {
    format!("--health-address=127.0.0.1:{port}")
}

/// A process that needs nothing of its host but the network.
pub(crate) fn no_privileges(user: u32) -> Value {
    json!({
        "runAsUser": user,
        "runAsGroup": user,
        "runAsNonRoot": user != 0,
        "allowPrivilegeEscalation": false,
        "readOnlyRootFilesystem": true,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    })
}

/// What a container is guaranteed. There are no limits: a network that is throttled is worse than one that takes more.
pub(crate) fn requests(cpu: &str, memory: &str) -> Value {
    json!({"requests": {"cpu": cpu, "memory": memory}})
}
