//! What examines the nodes, for `portolan doctor` and `portolan support-bundle`: a DaemonSet that lasts as long as these look.

use std::net::IpAddr;

use serde_json::json;

use crate::installation::{Installation, Invalid, Mode};
use crate::object::Object;
use crate::ports::{self, health};
use crate::{agent, ovn_central, ovs, pod};

/// The name of the DaemonSet, and of what its pods run.
pub const EXAMINATION: &str = "portolan-examination";

/// Where the host's files are in a pod. All of them: a directory that is mounted by itself would be made where it is missing.
const HOST: &str = "/host";

/// An examination of all nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Examination {
    /// The nodes, each with the address at which its tunnels end.
    pub nodes: Vec<(String, IpAddr)>,
    /// The size of the largest packet that tunnels send, with all headers; unless given, it is not known yet.
    pub packet: Option<u32>,
    /// Tells it from others.
    pub nonce: u32,
    /// How long nodes wait for each other, in seconds.
    pub patience: u32,
    /// Whether there is an installation.
    pub state: State,
    /// Whether more is collected than what is checked.
    pub extent: Extent,
}

/// Whether Portolan is installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not yet.
    Absent,
    /// It is.
    Installed,
}

/// How much is collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// What is checked.
    Checks,
    /// Also what helps those who read a bug report: debug pages, metrics, databases.
    Everything,
}

/// The DaemonSet. Its pods report in their logs, and change nothing on their nodes.
pub fn examination(installation: &Installation, examination: &Examination) -> Result<Object, Invalid> {
    installation.check()?;
    let host = |path: &str| format!("{HOST}{path}");
    let nodes = examination.nodes.iter().map(|(node, address)| format!("{node}={address}"));
    let mut arguments = vec![
        "agent".to_owned(),
        "examine".into(),
        "--node=$(NODE_NAME)".into(),
        format!("--nodes={}", nodes.collect::<Vec<_>>().join(",")),
        format!("--nonce={}", examination.nonce),
        format!("--patience={}", examination.patience),
        format!("--conf-dir={}", host(&installation.directories.configurations)),
        format!("--bin-dir={}", host(&installation.directories.programs)),
        format!("--ovsdb={}", host("/run/openvswitch/db.sock")),
        format!("--data={}", host("/var/lib")),
        format!("--plugin={}", agent::PLUGIN),
    ];
    arguments.extend(examination.packet.map(|packet| format!("--packet={packet}")));
    if examination.state == State::Installed {
        arguments.push(match installation.mode {
            Mode::Primary => "--mode=alone".into(),
            Mode::Secondary => "--mode=chained".into(),
        });
    }
    arguments.extend(ports::PARTS.iter().map(|part| format!("--port={}", part.port)));
    if examination.extent == Extent::Everything {
        arguments.extend(pages().into_iter().map(|(name, source)| format!("--page={name}={source}")));
    }
    Ok(Object::new(json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": pod::metadata(installation, EXAMINATION),
        "spec": {
            "selector": pod::selector(EXAMINATION),
            "template": {
                "metadata": pod::template_metadata(EXAMINATION, EXAMINATION),
                "spec": {
                    "automountServiceAccountToken": false,
                    "hostNetwork": true,
                    // To say which process has a port.
                    "hostPID": true,
                    "dnsPolicy": "Default",
                    "terminationGracePeriodSeconds": 1,
                    "nodeSelector": {"kubernetes.io/os": "linux"},
                    "tolerations": pod::tolerate_everything(),
                    "containers": [{
                        "name": EXAMINATION,
                        "image": installation.image,
                        "command": ["/usr/bin/portolan"],
                        "args": arguments,
                        "env": [pod::field("NODE_NAME", "spec.nodeName")],
                        // It lists chains of nftables, sees the processes of the host, and sends echo requests.
                        "securityContext": {"privileged": true, "readOnlyRootFilesystem": true},
                        "volumeMounts": [
                            // What is unmounted on the host is unmounted here too.
                            {"name": "host", "mountPath": HOST, "readOnly": true, "mountPropagation": "HostToContainer"},
                        ],
                    }],
                    "volumes": [{"name": "host", "hostPath": {"path": "/"}}],
                },
            },
        },
    })))
}

/// What is collected of a node, by name. What a node does not have is left out.
fn pages() -> Vec<(String, String)> {
    let mut pages = Vec::new();
    let mut served = |part: &str, port: u16, paths: &[(&str, &str)]| {
        for (name, path) in paths {
            pages.push((format!("{part}/{name}"), format!("http://127.0.0.1:{port}{path}")));
        }
    };
    let health_check = ("readyz.txt", "/readyz?verbose");
    let metrics = ("metrics.txt", "/metrics");
    let world = [("world.json", "/debug/world"), ("waiting.txt", "/debug/waiting")];
    served("controller", health::CONTROLLER, &[&[health_check, metrics][..], &world].concat());
    served("agent", health::AGENT, &[health_check, metrics, ("node.json", "/debug/node")]);
    for (part, port) in [
        ("northbound", health::NORTHBOUND),
        ("southbound", health::SOUTHBOUND),
        ("northd", health::NORTHD),
        ("ovn-controller", health::OVN_CONTROLLER),
        ("ovs-database", health::OVS_DATABASE),
        ("ovs-vswitchd", health::VSWITCHD),
    ] {
        served(part, port, &[health_check]);
    }
    for (name, file) in [
        ("northbound.db", format!("{}/ovnnb_db.db", ovn_central::DATA)),
        ("southbound.db", format!("{}/ovnsb_db.db", ovn_central::DATA)),
        ("open-vswitch.db", format!("{}/conf.db", ovs::DATA)),
    ] {
        pages.push((format!("databases/{name}"), format!("{HOST}{file}")));
    }
    pages
}

#[cfg(test)]
mod tests {
    use super::*;

    fn examined(state: State, extent: Extent) -> Object {
        let nodes = vec![
            ("node1".to_owned(), IpAddr::from([192, 0, 2, 1])),
            ("node2".to_owned(), IpAddr::from([192, 0, 2, 2])),
        ];
        let one = Examination { nodes, packet: Some(1500), nonce: 7, patience: 15, state, extent };
        examination(&Installation::new(Mode::Primary), &one).expect("the installation is valid")
    }

    fn arguments(object: &Object) -> Vec<&str> {
        let arguments = &object.value()["spec"]["template"]["spec"]["containers"][0]["args"];
        arguments.as_array().into_iter().flatten().filter_map(|one| one.as_str()).collect()
    }

    #[test]
    fn nothing_is_written_to_hosts_and_no_right_is_given() {
        let object = examined(State::Absent, Extent::Checks);
        let pod = &object.value()["spec"]["template"]["spec"];
        assert_eq!(pod["automountServiceAccountToken"], false);
        for mount in pod["containers"][0]["volumeMounts"].as_array().expect("it has mounts") {
            assert_eq!(mount["readOnly"], true);
        }
        let kinds: Vec<_> =
            pod["volumes"].as_array().into_iter().flatten().map(|one| &one["hostPath"]["type"]).collect();
        assert!(kinds.iter().all(|kind| kind.is_null()), "no directory is made: {kinds:?}");
    }

    #[test]
    fn it_knows_whether_there_is_an_installation_and_how_much_to_collect() {
        let (before, after) =
            (examined(State::Absent, Extent::Checks), examined(State::Installed, Extent::Everything));
        assert!(arguments(&before).contains(&"--nodes=node1=192.0.2.1,node2=192.0.2.2"));
        assert!(!arguments(&before).iter().any(|one| one.starts_with("--mode") || one.starts_with("--page")));
        assert!(arguments(&after).contains(&"--mode=alone"));
        assert!(arguments(&after).contains(&"--page=agent/node.json=http://127.0.0.1:10691/debug/node"));
        assert!(
            arguments(&after)
                .contains(&"--page=databases/northbound.db=/host/var/lib/portolan/ovn/ovnnb_db.db")
        );
        assert!(arguments(&before).contains(&"--port=6642"));
    }
}
