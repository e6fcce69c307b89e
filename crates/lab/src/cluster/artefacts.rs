//! What a test that failed leaves behind, to find out why.

use std::path::Path;
use std::sync::Arc;

use super::Inner;
use crate::command::Command;
use crate::error::Result;
use crate::lab::Lab;
use crate::namespace::Namespace;
use crate::ovn_central::Database;

/// What is shown of a namespace's links.
const LINKS: &[&[&str]] =
    &[&["-d", "address"], &["route", "show", "table", "all"], &["neighbour"], &["-s", "link"]];

/// Collects when the test fails. Holds the cluster until then: what is dropped by the test's panic could not be asked any more.
pub(super) fn collect_on_failure(lab: &Lab, cluster: &Arc<Inner>) {
    let cluster = Arc::clone(cluster);
    lab.on_failure(move |directory| collect(&cluster, directory));
}

/// Objects, databases, flows and links. What cannot be had says why.
fn collect(cluster: &Inner, directory: &Path) {
    let kubectl = crate::installed::program_or_built("kubectl");
    for (name, kinds) in [
        ("objects.yaml", "nodes,pods,vpcs.kubeovn.io,subnets.kubeovn.io,net-attach-def,iplocks.portolan.dev"),
        ("events.txt", "events"),
    ] {
        let format = if name == "events.txt" { "wide" } else { "yaml" };
        let command = kubectl.as_ref().map(|kubectl| {
            let get = ["get", kinds, "--all-namespaces", "--output", format, "--request-timeout=10s"];
            cluster.lab.command(kubectl).env("KUBECONFIG", &cluster.kubeconfig).args(get)
        });
        save(directory, name, command.map_err(ToString::to_string).and_then(read));
    }
    for (name, database) in
        [("OVN_Northbound", cluster.central.nb()), ("OVN_Southbound", cluster.central.sb())]
    {
        save(directory, &format!("{name}.txt"), dump(&cluster.lab, database, name));
    }
    for (node, runtime) in cluster.nodes.iter().zip(&cluster.runtimes) {
        let name = node.name();
        let show = node.command("ovs-vsctl").args(["--timeout=10", "show"]);
        save(directory, &format!("{name}.ovs.txt"), read(show));
        let list = node.command("ovs-vsctl").args(["--timeout=10", "list", "Interface"]);
        save(directory, &format!("{name}.interfaces.txt"), read(list));
        let flows = node.command("ovs-ofctl").args(["--timeout=10", "-OOpenFlow15", "dump-flows", "br-int"]);
        save(directory, &format!("{name}.flows.txt"), read(flows));
        save(directory, &format!("{name}.links.txt"), Ok(links(node.namespace())));
        for (pod, netns) in runtime.networks() {
            save(directory, &format!("{name}.{}.links.txt", pod.replace('/', "_")), Ok(links(&netns)));
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
