//! What users of OVN4NFV rely on, on pods in containers beside the bridge plugin: several interfaces by annotation, with static and dynamic
//! addresses, routes and default routes, by the manifest in `examples/ovn4nfv`.

use portolan_testbed::Result;
use portolan_testbed::kubernetes::Kubernetes;
use serde_json::{Value, json};

use crate::secondary::{Guest, all_at_once, with_image};

const FORMS: &str = include_str!("../../../../examples/ovn4nfv/forms.yaml");

/// All forms of the annotation, with containers that wait.
pub(crate) fn manifest() -> String {
    with_image(FORMS)
}

/// The list, once all pods of the manifest run.
pub(crate) fn check(cluster: &Kubernetes) -> Result<()> {
    all_at_once(cluster, &[interfaces, routes, told, networks_made_later])
}

/// Static and dynamic addresses of both families; traffic by each interface.
fn interfaces(cluster: &Kubernetes) -> Result<()> {
    let fixed = pod(cluster, "fixed");
    assert_eq!(addresses(&fixed, "net0")?, ["10.41.0.5/24", "fd41::5/64"]);
    assert_eq!(addresses(&fixed, "net1")?, ["10.42.0.5/24"]);
    let link = fixed.run(&["ip", "-o", "link", "show", "net0"])?;
    assert!(link.contains("02:00:00:00:41:05"), "{link}");
    for (name, interface, families) in [
        ("unnamed", "net1", 2),
        ("unnamed", "net2", 1),
        ("gateway", "net1", 2),
        ("gateway", "net2", 1),
        ("router", "net1", 2),
        ("routes", "net1", 2),
        ("routes", "net2", 1),
        ("multus", "net9", 1),
    ] {
        let from = pod(cluster, name);
        assert_eq!(addresses(&from, interface)?.len(), families, "{name} {interface}");
        // Two are on blue, which has both families; one is on red.
        let peers: &[&str] = if families == 2 { &["10.41.0.5", "fd41::5"] } else { &["10.42.0.5"] };
        for peer in peers {
            from.run(&["ping", "-c1", "-w20", "-i0.2", "-I", interface, peer])?;
        }
    }
    Ok(())
}

/// The default route goes by the interface that asks for it. The first keeps what leads to pods, and all others their default route by it.
fn routes(cluster: &Kubernetes) -> Result<()> {
    let way = |router: &str, interface: &str| format!("via {router} dev {interface}");
    for (name, destination, expected) in [
        ("gateway", "default", way("10.41.0.1", "net1")),
        ("router", "default", way("10.41.0.254", "net1")),
        ("routes", "10.99.0.0/16", way("10.41.0.253", "net1")),
        ("routes", "10.98.0.0/16", way("10.42.0.253", "net2")),
        ("routes", "10.97.0.0/16", way("10.42.0.252", "net2")),
    ] {
        let shown = pod(cluster, name).run(&["ip", "-4", "route", "show", destination])?;
        // The first is the one that counts: the default route of the primary network stays, behind all others.
        let first = shown.lines().next().unwrap_or_default();
        assert!(first.contains(&expected), "{name} to {destination}: {shown}");
    }
    let shown = pod(cluster, "gateway").run(&["ip", "-6", "route", "show", "default"])?;
    assert!(shown.contains(&way("fd41::1", "net1")), "{shown}");
    let primary = cluster.kubectl(&["get", "pod", "fixed", "-o=jsonpath={.status.podIP}"])?;
    for name in ["unnamed", "fixed", "routes", "multus"] {
        let shown = pod(cluster, name).run(&["ip", "-4", "route", "show", "default"])?;
        assert!(shown.contains("dev eth0") && shown.lines().count() == 1, "{name}: {shown}");
    }
    for name in ["gateway", "routes"] {
        for cluster_address in [&primary, "10.96.0.1"] {
            let shown = pod(cluster, name).run(&["ip", "-4", "route", "get", cluster_address])?;
            assert!(shown.contains("dev eth0"), "{name}: {shown}");
        }
        pod(cluster, name).reaches(&primary)?;
    }
    Ok(())
}

/// What a pod got is told in OVN4NFV's own words.
fn told(cluster: &Kubernetes) -> Result<()> {
    let annotation = r"jsonpath={.metadata.annotations.k8s\.plugin\.opnfv\.org/ovnInterfaces}";
    cluster.kubectl(&["wait", "pod/fixed", "--timeout=60s", &format!("--for={annotation}")])?;
    let told = cluster.kubectl(&["get", "pod", "fixed", "-o", annotation])?;
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(
        told[0],
        json!({ "ip_address": ["10.41.0.5/24", "fd41::5/64"], "mac_address": "02:00:00:00:41:05",
            "gateway_ip": ["10.41.0.1", "fd41::1"], "defaultGateway": "false", "interface": "net0" })
    );
    assert_eq!(told[1]["interface"], "net1");
    Ok(())
}

/// A network may be made after the pod that asks for it, which is told what it waits for.
fn networks_made_later(cluster: &Kubernetes) -> Result<()> {
    cluster.apply(EARLY)?;
    cluster.kubectl(&["wait", "--for=jsonpath={.spec.nodeName}", "pod/early", "--timeout=60s"])?;
    let events = ["events", "--for=pod/early", "--types=Warning,Normal", "-o=jsonpath={.items[*].message}"];
    // There is no event that says that an Event came; the deadline is the test's.
    while !cluster.kubectl(&events)?.contains("Subnet late") {
        std::thread::park_timeout(std::time::Duration::from_millis(200));
    }
    cluster.apply(LATE)?;
    cluster.kubectl(&["wait", "--for=condition=Ready", "pod/early", "--timeout=120s"])?;
    assert_eq!(addresses(&pod(cluster, "early"), "net1")?.len(), 1);
    pod(cluster, "early").reaches("10.44.0.1")
}

/// All global addresses of an interface, with their prefix lengths.
fn addresses(pod: &Guest<'_>, interface: &str) -> Result<Vec<String>> {
    let shown = pod.run(&["ip", "-o", "address", "show", "dev", interface, "scope", "global"])?;
    let of_line = |line: &str| line.split_whitespace().nth(3).map(str::to_owned);
    Ok(shown.lines().filter_map(of_line).collect())
}

fn pod<'a>(cluster: &'a Kubernetes, name: &'a str) -> Guest<'a> {
    Guest { cluster, namespace: "default", name }
}

const EARLY: &str = r#"
apiVersion: v1
kind: Pod
metadata:
  name: early
  annotations:
    k8s.plugin.opnfv.org/nfn-network: '{"type": "ovn4nfv", "interface": [{"name": "late"}]}'
spec: {nodeName: node1, containers: [{name: guest, image: "agnhost:1"}]}
"#;

const LATE: &str = r#"
apiVersion: portolan.dev/v1alpha1
kind: Subnet
metadata: {name: late}
spec: {vpc: forms, cidrBlock: 10.44.0.0/24, gateway: 10.44.0.1, namespaces: [default]}
"#;
