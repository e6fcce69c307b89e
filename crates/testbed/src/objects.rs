//! Objects that several tests and benchmarks begin with.

/// The subnet `sea`, an isolated switch for many pods, and the network attachment definition `sea` in namespace `default`.
pub const ONE_SWITCH: &str = r#"
apiVersion: kubeovn.io/v1
kind: Subnet
metadata: {name: sea}
spec: {protocol: IPv4, provider: sea.default.ovn, cidrBlock: 10.0.0.0/16, gateway: 10.0.0.1}
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: sea, namespace: default}
spec: {config: '{"cniVersion": "0.3.1", "type": "kube-ovn", "provider": "sea.default.ovn"}'}
"#;
