//! `ovn-central`: OVN's databases and ovn-northd.

use serde_json::{Value, json};

use crate::installation::Installation;
use crate::object::Object;
use crate::{ovn_addresses, ovn_tls, pod, ports};

pub(crate) const NAME: &str = "ovn-central";
/// Where the databases are on the host.
pub(crate) const DATA: &str = "/var/lib/portolan/ovn";

pub(crate) fn objects(installation: &Installation) -> Vec<Object> {
    let stateful_set = json!({
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": pod::metadata(installation, NAME),
        "spec": {
            "serviceName": NAME,
            "replicas": installation.members.number(),
            "selector": pod::selector(NAME),
            "podManagementPolicy": "Parallel",
            "template": {
                "metadata": pod::template_metadata(NAME, "northbound"),
                "spec": {
                    "serviceAccountName": NAME,
                    "hostNetwork": true,
                    "dnsPolicy": "Default",
                    "priorityClassName": "system-cluster-critical",
                    "tolerations": pod::tolerate_what_a_network_must(),
                    "affinity": {
                        "nodeAffinity": where_the_data_is(),
                        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                            {"topologyKey": "kubernetes.io/hostname", "labelSelector": pod::selector(NAME)},
                        ]},
                    },
                    "containers": [
                        database(installation, Database::Northbound),
                        database(installation, Database::Southbound),
                        northd(installation),
                    ],
                    "volumes": [
                        pod::host_path("data", DATA),
                        pod::in_memory("run"),
                        pod::in_memory("tmp"),
                    ],
                },
            },
        },
    });
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": pod::metadata(installation, NAME)});
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": pod::metadata(installation, NAME),
        "spec": {
            "clusterIP": "None",
            "selector": {"app": NAME},
            "publishNotReadyAddresses": true,
            "ports": [
                {"name": "northbound", "port": ports::NORTHBOUND, "protocol": "TCP", "targetPort": ports::NORTHBOUND},
                {"name": "southbound", "port": ports::SOUTHBOUND, "protocol": "TCP", "targetPort": ports::SOUTHBOUND},
            ],
        },
    });
    vec![
        Object::new(stateful_set),
        Object::new(account),
        Object::new(service),
        ovn_addresses::writer(installation, NAME),
    ]
}

/// Nodes with this label are taken first, so that who has the databases stays the same; then those of the control plane.
fn where_the_data_is() -> Value {
    let has = |key: &str| json!({"matchExpressions": [{"key": key, "operator": "Exists"}]});
    json!({"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 100, "preference": has("portolan.dev/ovn-central")},
        {"weight": 50, "preference": has("node-role.kubernetes.io/control-plane")},
    ]})
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Database {
    Northbound,
    Southbound,
}

fn database(installation: &Installation, database: Database) -> Value {
    let (name, port, health) = match database {
        Database::Northbound => ("northbound", ports::NORTHBOUND, ports::health::NORTHBOUND),
        Database::Southbound => ("southbound", ports::SOUTHBOUND, ports::health::SOUTHBOUND),
    };
    let mut arguments = vec![
        "ovn-central".to_owned(),
        name.into(),
        "--listen=$(HOST_ADDRESS)".into(),
        ovn_tls::flag(installation),
        pod::health_address(health),
    ];
    let mut environment = vec![pod::field("HOST_ADDRESS", "status.podIP")];
    environment.extend(pod::api_server(installation));
    // The southbound database says for both where they are: they are in one pod.
    if database == Database::Southbound {
        arguments.push(format!("--publish={}/{}", installation.namespace, ovn_addresses::ADDRESSES));
        arguments.push("--member=$(POD_NAME)".into());
        environment.push(pod::field("POD_NAME", "metadata.name"));
    }
    let mut container = container(installation, name, &arguments, health);
    container["env"] = json!(environment);
    let mut taken = vec![(name, port)];
    if database == Database::Southbound {
        taken.push(("controllers", ports::SOUTHBOUND_FOR_CONTROLLERS));
    }
    let taken = taken.into_iter();
    let taken = taken.map(
        |(name, port)| json!({"name": name, "containerPort": port, "hostPort": port, "protocol": "TCP"}),
    );
    container["ports"] = taken.collect();
    container["volumeMounts"] = json!([
        pod::mount("data", "/var/lib/ovn"),
        pod::mount("run", "/run/ovn"),
        // ovsdb-server makes a file there.
        pod::mount("tmp", "/tmp"),
    ]);
    container["resources"] = pod::requests("50m", "64Mi");
    container
}

fn northd(installation: &Installation) -> Value {
    let health = ports::health::NORTHD;
    let arguments = ["ovn-central".to_owned(), "northd".into(), pod::health_address(health)];
    let mut container = container(installation, "northd", &arguments, health);
    container["volumeMounts"] = json!([pod::mount("run", "/run/ovn")]);
    container["resources"] = pod::requests("50m", "64Mi");
    container
}

fn container(installation: &Installation, name: &str, arguments: &[String], health: u16) -> Value {
    let mut container = json!({
        "name": name,
        "image": installation.image,
        "command": ["/usr/bin/portolan"],
        "args": arguments,
        // The files belong to the root of the host; it needs no capability for its own.
        "securityContext": pod::no_privileges(0),
    });
    pod::probes(&mut container, health);
    container
}
