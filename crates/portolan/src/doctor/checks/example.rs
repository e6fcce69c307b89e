//! A cluster that is as it should be, for tests to break.

use std::collections::BTreeMap;

use portolan_agent::examine::facts::{
    Clock, Configurations, First, Kernel, Module, NodeFacts, Outcome, Path, Plugin, Space, Switch, TunnelLink,
};

use super::super::facts::{
    AgentState, ApiService, Certificate, Definition, DefinitionState, Examined, Facts, Installed, Known,
    Lease, Member, Node, Subnet, Version, Webhook, Workload,
};
use super::super::finding::{Finding, Level};

const NOW: i64 = 1_800_000_000;
const DAY: i64 = 86_400;

pub(crate) fn facts() -> Facts {
    let workload = |kind: &str, name: &str| Workload {
        title: format!("{kind} portolan-system/{name}"),
        name: name.into(),
        wanted: 2,
        ready: 2,
        updated: 2,
        on_delete: name == "ovs",
        not_ready: BTreeMap::new(),
    };
    let installed = Installed {
        is_primary: false,
        image: "portolan:0.1.0".into(),
        cluster_networks: vec![network("10.244.0.0/16"), network("10.96.0.0/12")],
        directories: None,
        workloads: vec![
            workload("Deployment", "portolan-controller"),
            workload("DaemonSet", "portolan-agent"),
            workload("DaemonSet", "ovs"),
        ],
    };
    Facts {
        namespace: "portolan-system".into(),
        now: NOW,
        ahead: Outcome::Found(0),
        version: Outcome::Found(Version { text: "v1.34.4".into(), minor: 34 }),
        kube_ovn: Outcome::Found(Vec::new()),
        definitions: Outcome::Found(vec![Definition {
            name: "vpcs.portolan.dev".into(),
            state: DefinitionState::Current,
        }]),
        installation: Outcome::Found(Some(installed)),
        members: Outcome::Found(vec![Member { name: "ovn-central-0".into(), address: "192.0.2.1".into() }]),
        certificates: Outcome::Found(vec![Certificate {
            place: "Secret portolan-system/portolan-webhook-ca, tls.crt".into(),
            subject: "CN=portolan-webhook".into(),
            begins: NOW - DAY,
            ends: NOW + 3650 * DAY,
        }]),
        webhook: Outcome::Found(Webhook::Answers),
        api_services: Outcome::Found(vec![ApiService {
            name: "v1alpha1.trace.portolan.dev".into(),
            is_ours: true,
            problem: None,
        }]),
        stuck_namespaces: Outcome::Found(Vec::new()),
        lease: Outcome::Found(Some(Lease {
            holder: Some("portolan-controller-a".into()),
            renewed: Some(NOW - 2),
            duration: 15,
        })),
        nodes: Outcome::Found(vec![node("node1", 1), node("node2", 2)]),
        service_networks: Outcome::Found(vec![network("10.96.0.0/12")]),
        subnets: Outcome::Found(vec![Subnet {
            title: "Subnet.kubeovn.io web".into(),
            networks: vec![network("172.20.0.0/16")],
            is_nat_outgoing_unset: false,
        }]),
        troubled: Outcome::Found(Vec::new()),
    }
}

/// A cluster that could have Portolan.
pub(crate) fn not_installed() -> Facts {
    let mut facts = facts();
    facts.installation = Outcome::Found(None);
    facts.definitions = Outcome::Found(vec![Definition {
        name: "vpcs.portolan.dev".into(),
        state: DefinitionState::Missing,
    }]);
    facts.subnets = Outcome::Found(Vec::new());
    if let Outcome::Found(nodes) = &mut facts.nodes {
        for node in nodes {
            node.annotations.clear();
            node.agent = None;
        }
    }
    facts
}

fn network(text: &str) -> ipnet::IpNet {
    text.parse().expect("it is a network")
}

pub(crate) fn node(name: &str, number: u8) -> Node {
    let annotations = [
        ("portolan.dev/mtu", "1442"),
        ("portolan.dev/tunnel-mtu", "1442"),
        ("portolan.dev/datapath", "system"),
        ("portolan.dev/ovs-version", "3.1.0"),
    ];
    Node {
        name: name.into(),
        is_linux: true,
        is_ready: true,
        not_ready: None,
        addresses: vec![[192, 0, 2, number].into()],
        pod_networks: vec![network(&format!("10.244.{number}.0/24"))],
        annotations: annotations.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        agent: Some(AgentState::Ready),
        renewed: Some(NOW - 3),
    }
}

pub(crate) fn known() -> Known {
    let nodes = ["node1", "node2"].map(|name| (name.to_owned(), examined(name)));
    Known { cluster: facts(), nodes: Some(nodes.into()) }
}

pub(crate) fn examined(name: &str) -> Examined {
    let (own, to, other) = if name == "node1" { (1, "node2", 2) } else { (2, "node1", 1) };
    let configurations = Configurations {
        files: vec!["00-portolan.conflist".into(), "10-bridge.conflist".into()],
        ours: vec!["00-portolan.conflist".into()],
        first: Some(Outcome::Found(First {
            name: "cluster".into(),
            plugins: vec!["bridge".into(), "portolan-cni".into()],
        })),
        problem: None,
        outdated: false,
        plugin: Plugin::Current,
    };
    let facts = NodeFacts {
        node: name.into(),
        version: "0.1.0".into(),
        clock: Clock { seconds: NOW },
        kernel: Kernel { release: "6.1.0".into(), openvswitch: Outcome::Found(true), geneve: Module::Loaded },
        settings: [("net.ipv4.ip_forward".to_owned(), "1".to_owned())].into(),
        forward_drops: Outcome::Found(Vec::new()),
        listeners: Outcome::Found(Vec::new()),
        switch: Outcome::Found(Some(Switch {
            version: Some("3.1.0".into()),
            in_step: true,
            bridges: [("br-int".to_owned(), "system".to_owned())].into(),
            settings: [("ovn-remote".to_owned(), "tcp:192.0.2.1:6642".to_owned())].into(),
        })),
        configurations: Outcome::Found(configurations),
        tunnel: Outcome::Found(Some(TunnelLink {
            address: [192, 0, 2, own].into(),
            link: "eth0".into(),
            mtu: 1500,
        })),
        space: Outcome::Found(Space {
            path: "/var/lib".into(),
            free_bytes: 9 << 30,
            free_files: Some(1_000_000),
        }),
    };
    let path = Path {
        to: to.into(),
        address: [192, 0, 2, other].into(),
        wanted: 1500,
        largest: Outcome::Found(Some(1500)),
        tunnel_port: Outcome::Found(true),
    };
    Examined { facts: Some(facts), paths: Some(vec![path]), ..Examined::default() }
}

pub(crate) fn levels(findings: &[Finding]) -> Vec<Level> {
    findings.iter().map(|finding| finding.level).collect()
}

#[track_caller]
pub(crate) fn only(mut findings: Vec<Finding>) -> Finding {
    assert_eq!(findings.len(), 1, "{findings:#?}");
    findings.remove(0)
}

#[test]
fn nothing_is_wrong_with_it() {
    let findings = super::findings(&known());
    let bad: Vec<_> = findings.iter().filter(|finding| finding.level != Level::Ok).collect();
    assert!(bad.is_empty(), "{bad:#?}");
    assert!(findings.len() > 20, "{findings:#?}");
}
