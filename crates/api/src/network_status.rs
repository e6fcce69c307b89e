//! `k8s.v1.cni.cncf.io/network-status`: what a pod got, for people and other controllers to read.

use serde::{Deserialize, Serialize};

/// The annotation's key.
pub const NETWORK_STATUS: &str = "k8s.v1.cni.cncf.io/network-status";

/// One interface that a pod got.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkStatus {
    /// `namespace/name` of the network attachment definition; the name of the cluster's network for the first interface.
    pub name: String,
    /// The interface's name in the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// Its addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ips: Vec<String>,
    /// Its MAC address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    /// Its MTU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u16>,
    /// True for the pod's first interface.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub default: bool,
    /// Resolver settings. Readers expect the key, so it is always written.
    #[serde(default)]
    pub dns: Dns,
    /// Routers by which its default routes go.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gateway: Vec<String>,
}

/// Resolver settings of a network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dns {
    /// Servers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nameservers: Vec<String>,
    /// The network's domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// Search list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub search: Vec<String>,
    /// Resolver options.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
}

/// The annotation's value.
pub fn network_status(interfaces: &[NetworkStatus]) -> String {
    // Indented, as `kubectl describe` shows it raw. Such plain structs always serialize.
    serde_json::to_string_pretty(interfaces).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_as_multus_writes_it() {
        let status = NetworkStatus {
            name: "default/blue".into(),
            interface: Some("net1".into()),
            ips: vec!["10.0.0.5".into()],
            mac: Some("0a:58:0a:00:00:05".into()),
            ..NetworkStatus::default()
        };
        let text = network_status(std::slice::from_ref(&status));
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            json,
            serde_json::json!([{"name": "default/blue", "interface": "net1", "ips": ["10.0.0.5"], "mac": "0a:58:0a:00:00:05", "dns": {}}])
        );
        assert_eq!(serde_json::from_str::<Vec<NetworkStatus>>(&text).unwrap(), [status]);
    }
}
