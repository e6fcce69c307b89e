//! `portolan-controller`.

use serde_json::json;

use crate::installation::{Installation, Mode};
use crate::object::Object;
use crate::ovn_addresses::{self, addresses_flag};
use crate::{api_servers, ovn_tls, pod, ports};

pub(crate) const NAME: &str = "portolan-controller";
/// The user that images without a passwd file call `nonroot`.
const USER: u32 = 65532;

pub(crate) fn objects(installation: &Installation) -> Vec<Object> {
    let namespace = &installation.namespace;
    let mut arguments = vec![
        "controller".to_owned(),
        addresses_flag(installation),
        ovn_tls::controllers_flag(installation),
        api_servers::flag(),
        format!("--lease-namespace={namespace}"),
        pod::health_address(ports::health::CONTROLLER),
        format!("--trace-address=[::]:{}", ports::TRACE),
        format!("--trace-service={namespace}/portolan-trace"),
        format!("--webhook-address=[::]:{}", ports::WEBHOOK),
        format!("--webhook-service={namespace}/portolan-webhook"),
    ];
    // What tenants must not have addresses of.
    let networks = installation.cluster_networks.iter().chain(&installation.service_networks);
    arguments.extend(networks.map(|network| format!("--cluster-network={network}")));
    if installation.mode == Mode::Primary {
        arguments.push("--primary".into());
    }
    let mut environment = vec![pod::field("POD_NAME", "metadata.name")];
    environment.extend(pod::api_server(installation));
    let mut container = json!({
        "name": NAME,
        "image": installation.image,
        "command": ["/usr/bin/portolan"],
        "args": arguments,
        "env": environment,
        // Two that take the same ports are never put on one node.
        "ports": [
            {"name": "trace", "containerPort": ports::TRACE, "hostPort": ports::TRACE, "protocol": "TCP"},
            {"name": "webhook", "containerPort": ports::WEBHOOK, "hostPort": ports::WEBHOOK, "protocol": "TCP"},
        ],
        "securityContext": pod::no_privileges(USER),
        "resources": pod::requests("50m", "64Mi"),
        "volumeMounts": [
            // For its certificate.
            pod::mount("run", "/run/portolan"),
            api_servers::read_only_mount(),
        ],
    });
    pod::probes(&mut container, ports::health::CONTROLLER);
    let deployment = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": pod::metadata(installation, NAME),
        "spec": {
            "replicas": installation.controllers,
            "selector": pod::selector(NAME),
            // The ports of a node are free only when the old one has ended.
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
            "template": {
                "metadata": pod::template_metadata(NAME, NAME),
                "spec": {
                    "serviceAccountName": NAME,
                    "hostNetwork": true,
                    // Cluster DNS needs the network that this brings.
                    "dnsPolicy": "Default",
                    "priorityClassName": "system-cluster-critical",
                    "tolerations": pod::tolerate_all_but_unreachable_nodes(),
                    "affinity": {
                        "nodeAffinity": pod::prefer_control_plane(),
                        "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{
                            "weight": 100,
                            "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname", "labelSelector": pod::selector(NAME)},
                        }]},
                    },
                    "containers": [container],
                    "volumes": [pod::in_memory("run"), api_servers::volume()],
                },
            },
        },
    });
    let budget = json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": pod::metadata(installation, NAME),
        "spec": {"maxUnavailable": 1, "selector": pod::selector(NAME)},
    });
    vec![Object::new(deployment), Object::new(budget), ovn_addresses::reader(installation, NAME)]
}
