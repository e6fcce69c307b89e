//! `ovs`: Open vSwitch on each node, where the hosts do not run it themselves.

use serde_json::{Value, json};

use crate::installation::{Installation, OpenVswitch};
use crate::object::Object;
use crate::{pod, ports};

const NAME: &str = "ovs";
/// Where the database is on the host.
pub(crate) const DATA: &str = "/var/lib/portolan/openvswitch";

pub(crate) fn objects(installation: &Installation) -> Vec<Object> {
    let OpenVswitch::Ours { image } = &installation.open_vswitch else { return Vec::new() };
    let database = container(
        image,
        "database",
        ports::health::OVS_DATABASE,
        &json!({"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}}),
        &[
            pod::mount("data", "/var/lib/openvswitch"),
            pod::mount("run-openvswitch", "/run/openvswitch"),
            // ovsdb-server makes a file there.
            pod::mount("tmp", "/tmp"),
        ],
    );
    let vswitchd = container(
        image,
        "vswitchd",
        ports::health::VSWITCHD,
        &json!({"privileged": true}),
        &[pod::mount("run-openvswitch", "/run/openvswitch")],
    );
    vec![Object::new(json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": pod::metadata(installation, NAME),
        "spec": {
            "selector": pod::selector(NAME),
            // To end it interrupts the node's traffic: that is an administrator's decision, node by node.
            "updateStrategy": {"type": "OnDelete"},
            "template": {
                "metadata": pod::template_metadata(NAME, "vswitchd"),
                "spec": {
                    "automountServiceAccountToken": false,
                    "hostNetwork": true,
                    // So that process ids in its files mean the same to the tools of the host.
                    "hostPID": true,
                    "dnsPolicy": "Default",
                    "priorityClassName": "system-node-critical",
                    "nodeSelector": {"kubernetes.io/os": "linux"},
                    "tolerations": pod::tolerate_everything(),
                    "containers": [database, vswitchd],
                    "volumes": [
                        pod::host_path("data", DATA),
                        pod::host_path("run-openvswitch", "/run/openvswitch"),
                        pod::in_memory("tmp"),
                    ],
                },
            },
        },
    }))]
}

fn container(image: &str, part: &str, health: u16, security: &Value, mounts: &[Value]) -> Value {
    let mut container = json!({
        "name": part,
        "image": image,
        "command": ["/usr/bin/portolan"],
        "args": ["ovs", part, pod::health_address(health)],
        "securityContext": security,
        "resources": pod::requests("50m", "64Mi"),
        "volumeMounts": mounts,
    });
    pod::probes(&mut container, health);
    container
}
