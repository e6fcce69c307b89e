//! What removes from the nodes what an installation has left there.

use serde_json::json;

use crate::installation::{Installation, Invalid};
use crate::object::Object;
use crate::{pod, ports};

const NAME: &str = "portolan-cleanup";

/// A DaemonSet whose pods are ready once they have removed everything from their nodes. Needs Open vSwitch to run still, and neither the
/// agents nor ovn-controller. It leaves out nodes that are gone: it would wait for them for ever.
pub fn cleanup(installation: &Installation, skipped: &[String]) -> Result<Object, Invalid> {
    installation.check()?;
    let mut container = json!({
        "name": NAME,
        "image": installation.image,
        "command": ["/usr/bin/portolan"],
        "args": ["agent", "uninstall", "--everything", "--stay", pod::health_address(ports::health::CLEANUP)],
        // It removes links and nftables chains of the host.
        "securityContext": {"privileged": true},
        "volumeMounts": [
            pod::mount("run-portolan", "/run/portolan"),
            pod::mount("run-openvswitch", "/run/openvswitch"),
            pod::mount("cni-configurations", "/etc/cni/net.d"),
            pod::mount("cni-programs", "/opt/cni/bin"),
            // Its parent: a directory that is mounted cannot be removed.
            pod::mount("var-lib", "/var/lib"),
        ],
    });
    pod::probes(&mut container, ports::health::CLEANUP);
    let mut daemon_set = json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": pod::metadata(installation, NAME),
        "spec": {
            "selector": pod::selector(NAME),
            "template": {
                "metadata": pod::template_metadata(NAME, NAME),
                "spec": {
                    "automountServiceAccountToken": false,
                    "hostNetwork": true,
                    "dnsPolicy": "Default",
                    "terminationGracePeriodSeconds": 5,
                    "nodeSelector": {"kubernetes.io/os": "linux"},
                    "tolerations": pod::tolerate_everything(),
                    "containers": [container],
                    "volumes": [
                        pod::host_path("run-portolan", "/run/portolan"),
                        pod::host_path("run-openvswitch", "/run/openvswitch"),
                        pod::host_path("cni-configurations", &installation.directories.configurations),
                        pod::host_path("cni-programs", &installation.directories.programs),
                        pod::host_path("var-lib", "/var/lib"),
                    ],
                },
            },
        },
    });
    if !skipped.is_empty() {
        let others: Vec<_> = skipped
            .iter()
            .map(|node| json!({"key": "metadata.name", "operator": "NotIn", "values": [node]}))
            .collect();
        daemon_set["spec"]["template"]["spec"]["affinity"] = json!({"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": others}]},
        }});
    }
    Ok(Object::new(daemon_set))
}
