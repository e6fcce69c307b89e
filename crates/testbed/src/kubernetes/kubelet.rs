//! What kubelet and containerd of a node are told.

use std::path::{Path, PathBuf};

use portolan_lab::{Error, Machine, Result, Trying};
use serde_json::json;

use super::DNS_ADDRESS;
use crate::kube_apiserver::KubeApiServer;

/// The configuration of containerd 1.6 and 1.7. Without the right to make processes more important to the kernel than the tests
/// themselves are, containers must do without too.
pub(super) const CONTAINERD: &str = r#"version = 2
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs"]
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "registry.k8s.io/pause:3.10"
  restrict_oom_score_adj = true
"#;

/// Writes the configuration of a machine's kubelet to a directory. JSON is YAML too.
pub(super) fn write(directory: &Path, machine: &Machine, api_server: &KubeApiServer) -> Result<PathBuf> {
    let group = machine.control_group().ok_or_else(|| Error::Refused {
        peer: machine.name().into(),
        answer: "that it has no control group for pods".into(),
    })?;
    let clients = api_server.authority().write(directory, "clients")?;
    let configuration = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
        "authentication": {
            "x509": {"clientCAFile": clients}, "webhook": {"enabled": true}, "anonymous": {"enabled": false},
        },
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "cgroupDriver": "cgroupfs", "cgroupRoot": group.path(),
        "clusterDNS": [DNS_ADDRESS], "clusterDomain": "cluster.local", "resolvConf": "/dev/null",
        "staticPodPath": "/etc/kubernetes/manifests",
        // The default is below /usr, which is the whole machine's.
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
        // Nor is the space on disk the node's own; and an image that is removed cannot be pulled again.
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {
            "memory.available": "1Mi", "nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%",
        },
        "failSwapOn": false,
        "maxPods": 250,
        "serializeImagePulls": false,
    });
    let path = directory.join("kubelet.json");
    std::fs::write(&path, format!("{configuration:#}")).trying(|| format!("write {}", path.display()))?;
    Ok(path)
}
