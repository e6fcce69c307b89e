//! What a test that failed leaves behind, to find out why.

use std::path::Path;

use portolan_lab::cluster::Cluster;
use portolan_lab::{Command, Database, Lab, Namespace, Result};

use crate::test_lab::TestLab;

/// What is shown of a namespace's links.
const LINKS: &[&[&str]] =
    &[&["-d", "address"], &["route", "show", "table", "all"], &["neighbour"], &["-s", "link"]];

/// Collects when the test fails. Holds the cluster until then: what is dropped by the test's panic could not be asked any more.
pub(crate) fn collect_on_failure(lab: &TestLab, cluster: &Cluster) {
    let cluster = cluster.clone();
    lab.on_failure(move |directory| collect(&cluster, directory));
}

/// Objects, databases, flows and links. What cannot be had says why.
fn collect(cluster: &Cluster, directory: &Path) {
    for (name, kinds) in [
        ("objects.yaml", "nodes,pods,vpcs.kubeovn.io,subnets.kubeovn.io,net-attach-def,iplocks.portolan.dev"),
        ("events.txt", "events"),
    ] {
        let format = if name == "events.txt" { "wide" } else { "yaml" };
        let get = ["get", kinds, "--all-namespaces", "--output", format, "--request-timeout=10s"];
        let said =
            cluster.kubectl().map_err(|error| error.to_string()).and_then(|kubectl| read(kubectl.args(get)));
        save(directory, name, said);
    }
    for (name, database) in
        [("OVN_Northbound", cluster.central().nb()), ("OVN_Southbound", cluster.central().sb())]
    {
        save(directory, &format!("{name}.txt"), dump(cluster.lab(), database, name));
    }
    for node in cluster.nodes() {
        let name = node.name();
        let show = node.command("ovs-vsctl").args(["--timeout=10", "show"]);
        save(directory, &format!("{name}.ovs.txt"), read(show));
        let list = node.command("ovs-vsctl").args(["--timeout=10", "list", "Interface"]);
        save(directory, &format!("{name}.interfaces.txt"), read(list));
        let flows = node.command("ovs-ofctl").args(["--timeout=10", "-OOpenFlow15", "dump-flows", "br-int"]);
        save(directory, &format!("{name}.flows.txt"), read(flows));
        save(directory, &format!("{name}.links.txt"), Ok(links(node.namespace())));
    }
    for runtime in cluster.runtimes() {
        for (pod, netns) in runtime.networks() {
            let name = format!("{}.{}.links.txt", runtime.node(), pod.replace('/', "_"));
            save(directory, &name, Ok(links(&netns)));
        }
    }
}

fn dump(lab: &Lab, database: &Database, name: &str) -> Result<String, String> {
    let alive = database.servers().iter().find(|server| server.is_alive()).ok_or("no server runs")?;
    read(lab.command("ovsdb-client").args([
        "--timeout=10",
        "--no-leader-only",
        "dump",
        &alive.endpoint(),
        name,
    ]))
}

fn links(namespace: &Namespace) -> String {
    let shown = LINKS.iter().map(|arguments| {
        let said = read(namespace.command("ip").args(*arguments)).unwrap_or_else(|error| error);
        format!("$ ip {}\n{said}\n", arguments.join(" "))
    });
    shown.collect()
}

fn read(command: Command) -> Result<String, String> {
    command.read().map_err(|error| error.to_string())
}

fn save(directory: &Path, name: &str, text: Result<String, String>) {
    let text = text.unwrap_or_else(|error| format!("cannot be had: {error}\n"));
    if let Err(error) = std::fs::write(directory.join(name), text) {
        eprintln!("cannot write {name}: {error}");
    }
}
