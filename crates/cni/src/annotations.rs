//! Which annotations of a pod ask Portolan for something, as far as their keys tell.
//!
//! A container runtime passes a pod's annotations to a plugin that declares the capability [`CAPABILITY`]. From them the plugin, and the
//! agent before its watch has the pod, know that a pod asks for nothing. The controller's reading of the annotations is the one that
//! counts; this one must never miss a key that the controller acts on.

use serde_json::{Map, Value};

/// The capability by which runtimes pass a pod's annotations, in `runtimeConfig` under the same key.
pub const CAPABILITY: &str = "io.kubernetes.cri.pod-annotations";

/// The annotations by which a pod asks for interfaces. Those of Kube-OVN (`<provider>.kubernetes.io/ip_address` and others) only say
/// how an interface that one of these asks for is to be.
pub const KEYS: &[&str] = &[
    "k8s.v1.cni.cncf.io/networks",
    "v1.multus-cni.io/default-network",
    "k8s.plugin.opnfv.org/nfn-network",
    "ovnNetworkRoutes",
];

/// The pod's annotations in a network configuration, if the runtime passed them.
pub fn of_config(config: &Value) -> Option<&Map<String, Value>> {
    config.get("runtimeConfig")?.get(CAPABILITY)?.as_object()
}

/// True if the runtime passed the pod's annotations and none of them asks for a network. An annotation without a value asks for none.
pub fn ask_for_nothing(config: &Value) -> bool {
    of_config(config).is_some_and(|annotations| {
        let is_empty = |value: &Value| value.as_str().is_some_and(|text| text.trim().is_empty());
        annotations.iter().all(|(key, value)| !KEYS.contains(&key.as_str()) || is_empty(value))
    })
}

/// True if a network configuration declares [`CAPABILITY`].
pub fn declared(config: &Value) -> bool {
    config.get("capabilities").and_then(|all| all.get(CAPABILITY)) == Some(&Value::Bool(true))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn with(annotations: &Value) -> Value {
        json!({ "runtimeConfig": { CAPABILITY: annotations } })
    }

    #[test]
    fn a_pod_without_requests_for_networks_asks_for_nothing() {
        for annotations in [
            json!({}),
            json!({ "kubernetes.io/config.seen": "now", "example.org/ip_address": "10.0.0.1" }),
            json!({ "k8s.v1.cni.cncf.io/networks": " " }),
            json!({ "k8s.v1.cni.cncf.io/network-status": "[]" }),
            json!({ "ovn.kubernetes.io/ip_address": "10.0.0.7" }),
        ] {
            assert!(ask_for_nothing(&with(&annotations)), "{annotations}");
        }
    }

    #[test]
    fn any_request_and_any_doubt_counts_as_asking() {
        for annotations in [
            json!({ "k8s.v1.cni.cncf.io/networks": "vswitch1" }),
            json!({ "k8s.v1.cni.cncf.io/networks": 7 }),
            json!({ "v1.multus-cni.io/default-network": "x" }),
            json!({ "k8s.plugin.opnfv.org/nfn-network": "{}" }),
            json!("text"),
        ] {
            assert!(!ask_for_nothing(&with(&annotations)), "{annotations}");
        }
        assert!(!ask_for_nothing(&json!({})), "annotations that were not passed may ask for anything");
    }

    #[test]
    fn the_capability_is_declared_by_true_alone() {
        assert!(declared(&json!({ "capabilities": { CAPABILITY: true } })));
        assert!(!declared(&json!({ "capabilities": { CAPABILITY: false } })));
        assert!(!declared(&json!({})));
    }
}
