//! What pods have on a node and in OVN, as far as it must not be made anew while they run.

use std::collections::BTreeMap;
use std::time::Duration;

use portolan_host::{GuardMonitor, LinkMonitor};
use portolan_testbed::Testbed;
use serde_json::Value;
use tokio::io::unix::AsyncFd;

/// By what it is, and its name: what would change if it were made anew.
pub(crate) type Snapshot = BTreeMap<(&'static str, String), String>;

/// What the rows of ports are marked with. A row that is made anew has the same UUID, but nobody marks it.
const MARK: &str = "marked-by-the-test";

/// Marks the ports of the first node.
pub(crate) fn mark(testbed: &Testbed) {
    let node = &testbed.nodes()[0];
    let ports = node.vsctl(&["list-ports", "br-int"]).unwrap();
    let mark = format!("external_ids:{MARK}=yes");
    for port in ports.lines().filter(|port| port.starts_with("pt")) {
        node.vsctl(&["set", "Port", port, &mark, "--", "set", "Interface", port, &mark]).unwrap();
    }
}

/// Of the first node.
pub(crate) fn take(testbed: &Testbed) -> Snapshot {
    let node = &testbed.nodes()[0];
    let mut all = Snapshot::new();
    let links: Value =
        serde_json::from_str(&node.command("ip").args(["-json", "link"]).read().unwrap()).unwrap();
    for link in links.as_array().unwrap() {
        let name = link["ifname"].as_str().unwrap();
        if is_ours(name) {
            all.insert(("link", name.to_owned()), link["ifindex"].to_string());
        }
    }
    let rows = |text: &str| -> Vec<Vec<Value>> {
        let table: Value = serde_json::from_str(text).unwrap();
        table["data"].as_array().unwrap().iter().map(|row| row.as_array().unwrap().clone()).collect()
    };
    for table in ["Port", "Interface"] {
        let text = node.vsctl(&["--format=json", "--columns=name,external_ids", "list", table]).unwrap();
        for row in rows(&text).iter().filter(|row| is_ours(row[0].as_str().unwrap())) {
            let marked = row[1].to_string().contains(MARK);
            all.insert((table, row[0].as_str().unwrap().to_owned()), format!("marked: {marked}"));
        }
    }
    let central = testbed.central();
    let bindings =
        ["--format=json", "--columns=logical_port,_uuid,chassis,tunnel_key", "list", "Port_Binding"];
    for row in rows(&central.sbctl(&bindings).unwrap()) {
        let what = format!("{} {} {}", row[1], row[2], row[3]);
        all.insert(("Port_Binding", row[0].as_str().unwrap().to_owned()), what);
    }
    let ports = ["--format=json", "--columns=name,_uuid,addresses", "list", "Logical_Switch_Port"];
    for row in rows(&central.nbctl(&ports).unwrap()) {
        all.insert(
            ("Logical_Switch_Port", row[0].as_str().unwrap().to_owned()),
            format!("{} {}", row[1], row[2]),
        );
    }
    let guards = node.command("nft").args(["--json", "--handle", "list", "ruleset"]).read().unwrap();
    let guards: Value = serde_json::from_str(&guards).unwrap();
    for chain in guards["nftables"].as_array().unwrap().iter().filter_map(|one| one.get("chain")) {
        all.insert(("chain", chain["name"].as_str().unwrap().to_owned()), chain["handle"].to_string());
    }
    all
}

/// The names of what is on the first node itself.
pub(crate) fn of_node(testbed: &Testbed) -> Vec<(&'static str, String)> {
    let is_of_node = |what: &&str| ["link", "Port", "Interface", "chain"].contains(what);
    take(testbed).into_keys().filter(|(what, _)| is_of_node(what)).collect()
}

/// Whether agents give links such a name.
fn is_ours(name: &str) -> bool {
    name.starts_with("pt") || name.starts_with("pn")
}

/// Waits until the first node has what it had before.
pub(crate) async fn wait_for(testbed: &Testbed, before: &[(&'static str, String)], at: &str) {
    let namespace = testbed.nodes()[0].namespace();
    let (links, guards) = namespace.run(|| (LinkMonitor::open().unwrap(), GuardMonitor::open().unwrap()));
    #[expect(deprecated, reason = "its successor is unsafe")]
    let (links, guards) = (AsyncFd::new(links).unwrap(), AsyncFd::new(guards).unwrap());
    loop {
        let now = of_node(testbed);
        if now == before {
            return;
        }
        let changed = async {
            tokio::select! {
                ready = links.readable() => drop(ready.unwrap().try_io(|links| links.get_ref().read())),
                ready = guards.readable() => drop(ready.unwrap().try_io(|guards| guards.get_ref().read())),
            }
        };
        let changed = tokio::time::timeout(Duration::from_secs(60), changed).await;
        changed.unwrap_or_else(|_| panic!("after {at}: {now:?}"));
    }
}

/// What is not in a later one as it was.
pub(crate) fn changed(before: &Snapshot, after: &Snapshot) -> Vec<String> {
    let differs = before.iter().filter(|(key, value)| after.get(*key) != Some(*value));
    differs
        .map(|((what, name), was)| {
            format!("{what} {name}: was {was}, is {:?}", after.get(&(*what, name.clone())))
        })
        .collect()
}
