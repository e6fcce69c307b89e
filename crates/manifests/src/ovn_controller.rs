//! `ovn-controller`: OVN on each node.

use serde_json::json;

use crate::installation::Installation;
use crate::object::Object;
use crate::{api_servers, ovn_tls, pod, ports};

pub(crate) const NAME: &str = "ovn-controller";

pub(crate) fn objects(installation: &Installation) -> Vec<Object> {
    let health = ports::health::OVN_CONTROLLER;
    let mut container = json!({
        "name": NAME,
        "image": installation.image,
        "command": ["/usr/bin/portolan"],
        "args": ["ovn-controller", ovn_tls::flag(installation), api_servers::flag(), pod::health_address(health)],
        "env": pod::api_server(installation),
        // All that it does, it does by the sockets of Open vSwitch.
        "securityContext": pod::no_privileges(0),
        "resources": pod::requests("50m", "64Mi"),
        "volumeMounts": [
            pod::mount("run-openvswitch", "/run/openvswitch"),
            pod::mount("run", "/run/ovn"),
            api_servers::mount(),
        ],
    });
    pod::probes(&mut container, health);
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": pod::metadata(installation, NAME)});
    let daemon_set = json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": pod::metadata(installation, NAME),
        "spec": {
            "selector": pod::selector(NAME),
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}},
            "template": {
                "metadata": pod::template_metadata(NAME, NAME),
                "spec": {
                    "serviceAccountName": NAME,
                    "hostNetwork": true,
                    "dnsPolicy": "Default",
                    "priorityClassName": "system-node-critical",
                    "nodeSelector": {"kubernetes.io/os": "linux"},
                    "tolerations": pod::tolerate_everything(),
                    "containers": [container],
                    "volumes": [
                        pod::host_path("run-openvswitch", "/run/openvswitch"),
                        pod::in_memory("run"),
                        api_servers::volume(),
                    ],
                },
            },
        },
    });
    vec![Object::new(daemon_set), Object::new(account), api_servers::reader(installation, NAME)]
}
