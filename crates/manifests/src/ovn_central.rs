//! `ovn-central`: OVN's databases and ovn-northd.

use serde_json::{Value, json};

use crate::installation::Installation;
use crate::object::Object;
use crate::{api_servers, ovn_addresses, ovn_tls, pod, ports};

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
                        api_servers::volume(),
                    ],
                },
            },
        },
    });
    // One that is away is enough: the others can go on, or there are no others.
    let budget = json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": pod::metadata(installation, NAME),
        "spec": {"maxUnavailable": 1, "selector": pod::selector(NAME)},
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
        Object::new(budget),
        Object::new(account),
        Object::new(service),
        ovn_addresses::writer(installation, NAME),
        api_servers::reader(installation, NAME),
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
    let (name, port, of_members, health) = match database {
        Database::Northbound => (
            "northbound",
            ports::NORTHBOUND,
            ("nb-members", ports::NORTHBOUND_FOR_MEMBERS),
            ports::health::NORTHBOUND,
        ),
        Database::Southbound => (
            "southbound",
            ports::SOUTHBOUND,
            ("sb-members", ports::SOUTHBOUND_FOR_MEMBERS),
            ports::health::SOUTHBOUND,
        ),
    };
    let arguments = [
        "ovn-central".to_owned(),
        name.into(),
        "--listen=$(HOST_ADDRESS)".into(),
        ovn_tls::flag(installation),
        format!("--publish={}/{}", installation.namespace, ovn_addresses::ADDRESSES),
        "--member=$(POD_NAME)".into(),
        "--pod-uid=$(POD_UID)".into(),
        members(installation),
        // A node may have been that of several members, one after the other.
        "--data-dir=/var/lib/ovn/$(POD_NAME)".into(),
        "--former-data-dir=/var/lib/ovn".into(),
        api_servers::flag(),
        pod::health_address(health),
    ];
    let mut container = container(installation, name, &arguments, health);
    let mut environment = vec![
        pod::field("HOST_ADDRESS", "status.podIP"),
        pod::field("POD_NAME", "metadata.name"),
        pod::field("POD_UID", "metadata.uid"),
    ];
    environment.extend(pod::api_server(installation));
    container["env"] = json!(environment);
    // Also where there is one member: it may become one of three.
    let mut taken = vec![(name, port), of_members];
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
        api_servers::mount(),
    ]);
    container["resources"] = pod::requests("50m", "64Mi");
    container
}

fn members(installation: &Installation) -> String {
    format!("--members={}", installation.members.number())
}

fn northd(installation: &Installation) -> Value {
    let health = ports::health::NORTHD;
    let arguments = [
        "ovn-central".to_owned(),
        "northd".into(),
        "--member=$(POD_NAME)".into(),
        members(installation),
        pod::health_address(health),
    ];
    let mut container = container(installation, "northd", &arguments, health);
    container["env"] = json!([pod::field("POD_NAME", "metadata.name")]);
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
