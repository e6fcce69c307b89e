//! Portolan as the primary network while nodes and processes die, on pods in containers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use portolan_testbed::kubernetes::{Kubernetes, KubernetesNode, Portolan, Running};
use portolan_testbed::{Process, Result};

use crate::pods;
use crate::primary::{address, get, locks_are_given_back, on_primary, ports};

#[test]
fn a_node_is_drained_rebooted_and_deleted_and_leaves_nothing_in_ovn() {
    on_primary(Duration::from_secs(500), |cluster, portolan| {
        cluster.apply(SERVERS)?;
        pods::rolled_out(cluster, "servers")?;
        pods::client(cluster, "one", "node1")?;
        let node = cluster.node("node2")?;

        let drain = ["drain", "node2", "--ignore-daemonsets", "--force", "--timeout=120s"];
        cluster.kubectl(&drain)?;
        node.reboot()?;
        portolan.start_agent(cluster, "node2")?;
        cluster.kubectl(&["uncordon", "node2"])?;
        cluster.kubectl(&["wait", "--for=condition=Ready", "node/node2", "--timeout=120s"])?;
        pods::client(cluster, "two", "node2")?;
        let two = address(cluster, "two")?;
        assert_eq!(reaches(cluster, "one", &two)?, "two");
        assert_eq!(node.command("curl")?.args(["-sSm5", &format!("http://{two}/hostname")]).read()?, "two");

        // Without a word, as when the power goes: its pods are back with it.
        node.reboot()?;
        portolan.start_agent(cluster, "node2")?;
        let restarted = "--for=jsonpath={.status.containerStatuses[0].restartCount}=1";
        cluster.kubectl(&["wait", restarted, "pod/two", "--timeout=180s"])?;
        pods::ready(cluster, "pod/two")?;
        let two = address(cluster, "two")?;
        assert_eq!(reaches(cluster, "one", &two)?, "two");

        let prefix = cluster.kubectl(&["get", "node", "node2", "-o=jsonpath={.spec.podCIDR}"])?;
        let prefix = prefix.trim_end_matches("0/24").to_owned();
        let traces = [node.name().to_owned(), node.address().to_string(), prefix];
        let has_traces = |dump: &str| traces.iter().any(|trace| dump.contains(trace));
        assert!(dumps(cluster)?.iter().all(|dump| has_traces(dump)), "it is there, and can be seen");
        cluster.kubectl(&drain)?;
        node.switch_off()?;
        cluster.kubectl(&["delete", "node", "node2"])?;
        let mut left = dumps(cluster)?;
        // There is no event that says that all is gone; the deadline is the test's.
        while left.iter().any(|dump| has_traces(dump)) {
            std::thread::park_timeout(Duration::from_millis(200));
            left = dumps(cluster)?;
        }
        assert_eq!(locks_of(cluster, "node2")?, "");
        pods::rolled_out(cluster, "servers")
    });
}

#[test]
fn whatever_is_killed_while_pods_come_and_go_nothing_is_lost_doubled_or_stuck() {
    on_primary(Duration::from_secs(600), |cluster, portolan| {
        let before = ports(cluster)?;
        cluster.apply(SERVERS)?;
        pods::rolled_out(cluster, "servers")?;
        pods::client(cluster, "one", "node1")?;
        let nodes = cluster.nodes().iter().map(KubernetesNode::running).collect::<Result<Vec<_>>>()?;
        for victim in victims(cluster, portolan, &nodes) {
            let pod = pods::begin_to_roll(cluster, "servers", victim.name())?;
            println!("{} while pod {pod} is on its way up", victim.name());
            victim.kill()?;
            victim.restart()?;
            pods::rolled_out(cluster, "servers")?;
        }
        everything_is_there_once(cluster)?;
        cluster.kubectl(&["delete", "deployment/servers", "pod/one", "--cascade=foreground"])?;
        locks_are_given_back(cluster)?;
        assert_eq!(ports(cluster)?, before);
        Ok(())
    });
}

/// All pods of the Deployment have an address of their own by which they are reached, and one lock each.
pub(crate) fn everything_is_there_once(cluster: &Kubernetes) -> Result<()> {
    let answer = ["get", "pods", "-l=app=servers", "-o=jsonpath={.items[*].status.podIP}"];
    let addresses = cluster.kubectl(&answer)?;
    let distinct: BTreeSet<_> = addresses.split(' ').collect();
    assert_eq!(distinct.len(), REPLICAS, "{addresses}");
    for address in distinct {
        assert!(get(cluster, "one", &format!("{address}/hostname"))?.starts_with("servers-"), "{address}");
    }
    let held = [
        "get",
        "iplocks.portolan.dev",
        "-o=jsonpath={range .items[?(@.spec.holder.kind=='Pod')]}{.spec.holder.name} {end}",
    ];
    let pods = cluster.kubectl(&["get", "pods", "-o=jsonpath={.items[*].metadata.name}"])?;
    let set = |names: &str| names.split_whitespace().map(str::to_owned).collect::<BTreeSet<_>>();
    // What is gone is given back in a moment.
    while set(&cluster.kubectl(&held)?) != set(&pods) {
        std::thread::park_timeout(Duration::from_millis(200));
    }
    assert_eq!(cluster.kubectl(&held)?.split_whitespace().count(), set(&pods).len(), "one lock for each");
    Ok(())
}

/// Every process without which something stands still.
fn victims<'a>(
    cluster: &'a Kubernetes,
    portolan: &'a Portolan,
    nodes: &'a [Arc<Running>],
) -> Vec<&'a Process> {
    let central = cluster.ovn().unwrap();
    let mut victims: Vec<&Process> = vec![cluster.api_server(), portolan.controller(), central.northd()];
    victims.extend(cluster.api_server().etcd().members());
    victims.extend(portolan.agents());
    for database in [central.nb(), central.sb()] {
        victims.extend(database.servers().iter().map(|server| -> &Process { server }));
    }
    for open_vswitch in nodes.iter().map(|node| node.open_vswitch().unwrap()) {
        let server: &Process = open_vswitch.ovsdb_server();
        victims.extend([server, open_vswitch.vswitchd(), open_vswitch.ovn_controller().unwrap()]);
    }
    victims
}

/// Both databases of OVN, whole.
fn dumps(cluster: &Kubernetes) -> Result<[String; 2]> {
    let central = cluster.ovn().unwrap();
    let dump = |endpoint: String, database: &str| {
        cluster.lab().command("ovsdb-client").args(["dump", &endpoint, database]).read()
    };
    Ok([dump(central.nb().endpoint(), "OVN_Northbound")?, dump(central.sb().endpoint(), "OVN_Southbound")?])
}

/// A pod's name, by its web server, once the way there is open: tunnels of a node that was rebooted have to find the others anew.
fn reaches(cluster: &Kubernetes, from: &str, to: &str) -> Result<String> {
    let patiently = ["--connect-timeout", "3", "--retry", "10", "--retry-delay", "1", "--retry-all-errors"];
    let url = format!("http://{to}/hostname");
    pods::exec(cluster, from, &[&["curl", "-sS"][..], &patiently, &[&url]].concat())
}

fn locks_of(cluster: &Kubernetes, node: &str) -> Result<String> {
    let of_node = format!("--field-selector=spec.node={node}");
    cluster.kubectl(&["get", "iplocks.portolan.dev", &of_node, "-o=name"])
}

const REPLICAS: usize = 10;

pub(crate) const SERVERS: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: servers}
spec:
  replicas: 10
  selector: {matchLabels: {app: servers}}
  template:
    metadata: {labels: {app: servers}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: web, image: "agnhost:1", args: [netexec, --http-port=80]}]
"#;
