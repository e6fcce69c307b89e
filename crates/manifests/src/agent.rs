//! `portolan-agent`: the agent of each node, and what puts the CNI plugin in place.

use serde_json::{Value, json};

use crate::installation::{Installation, Mode};
use crate::object::Object;
use crate::ovn_addresses::{self, addresses_flag};
use crate::{api_servers, pod, ports};

const NAME: &str = "portolan-agent";
/// The plugin in the image.
pub(crate) const PLUGIN: &str = "/usr/lib/portolan/portolan-cni";

pub(crate) fn objects(installation: &Installation) -> Vec<Object> {
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
                    "containers": [agent(installation), installer(installation)],
                    "volumes": [
                        pod::host_path("run-portolan", "/run/portolan"),
                        pod::host_path("run-openvswitch", "/run/openvswitch"),
                        pod::host_path("cni-configurations", &installation.directories.configurations),
                        pod::host_path("cni-programs", &installation.directories.programs),
                        api_servers::volume(),
                    ],
                },
            },
        },
    });
    vec![Object::new(daemon_set), ovn_addresses::reader(installation, NAME)]
}

fn agent(installation: &Installation) -> Value {
    let mut arguments = vec![
        "agent".to_owned(),
        "--node=$(NODE_NAME)".into(),
        addresses_flag(installation),
        "--ovn-tls".into(),
        api_servers::flag(),
        pod::health_address(ports::health::AGENT),
    ];
    arguments
        .extend(installation.cluster_networks.iter().map(|network| format!("--cluster-network={network}")));
    arguments
        .extend(installation.service_networks.iter().map(|network| format!("--service-network={network}")));
    if installation.mode == Mode::Primary {
        arguments.push("--primary".into());
    }
    let mut environment = vec![pod::field("NODE_NAME", "spec.nodeName")];
    environment.extend(pod::api_server(installation));
    let mut container = json!({
        "name": NAME,
        "image": installation.image,
        "command": ["/usr/bin/portolan"],
        "args": arguments,
        "env": environment,
        // It enters the network namespaces of pods and changes sysctls of links: NET_ADMIN and SYS_ADMIN alone leave /proc/sys read-only.
        "securityContext": {"privileged": true},
        "resources": pod::requests("50m", "48Mi"),
        "volumeMounts": [
            pod::mount("run-portolan", "/run/portolan"),
            pod::mount("run-openvswitch", "/run/openvswitch"),
            api_servers::mount(),
        ],
    });
    pod::probes(&mut container, ports::health::AGENT);
    container
}

/// Puts the plugin in place once the agent can serve pods, and keeps its configuration. What it put there stays when it ends.
fn installer(installation: &Installation) -> Value {
    let mode = match installation.mode {
        Mode::Secondary => "chained",
        Mode::Primary => "alone",
    };
    json!({
        "name": "install",
        "image": installation.image,
        "command": ["/usr/bin/portolan"],
        "args": ["agent", "install", "--follow", format!("--mode={mode}"), format!("--plugin={PLUGIN}")],
        // The files belong to the root of the host.
        "securityContext": {
            "runAsUser": 0,
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"], "add": ["DAC_OVERRIDE"]},
        },
        "resources": pod::requests("5m", "16Mi"),
        "volumeMounts": [
            pod::mount("run-portolan", "/run/portolan"),
            pod::mount("cni-configurations", "/etc/cni/net.d"),
            pod::mount("cni-programs", "/opt/cni/bin"),
        ],
    })
}
