//! One member of OVN's databases becomes three, and two of the three are lost for good, while pods talk to each other: ovn-controllers on nodes
//! follow, and new pods get their networks.

use std::time::Duration;

use portolan_testbed::Result;
use portolan_testbed::kubernetes::Kubernetes;

use crate::installation::Installed;
use crate::pods;
use crate::primary::address;
use crate::primary_installed::on_installed_primary_of;
use crate::traffic::{Traffic, Window};

const NAMESPACE: &str = "-n=portolan-system";

#[test]
fn nodes_follow_ovns_databases_from_one_member_to_three_and_across_a_recovery() {
    on_installed_primary_of(3, Duration::from_secs(900), |installed, _| {
        let cluster = installed.cluster;
        pods::client(cluster, "one", "node1")?;
        pods::client(cluster, "two", "node2")?;
        let mut traffic = Traffic::between(cluster, "one", "two")?;

        let three = ["upgrade", "--ovn-members=3", "--timeout=240"];
        let grown = traffic.during(|| installed.portolan(&three).read().map(drop))?;
        shown("from one member to three", &grown);
        for node in ["node1", "node2", "node3"] {
            serves(cluster, "grown", node)?;
        }

        // The one that is left has its files, and cannot go on alone.
        let lost = ["ovn-central-1", "ovn-central-2"];
        lost.iter().try_for_each(|member| lose(installed, member))?;
        for member in ["ovn-central-0", lost[0], lost[1]] {
            let not_ready =
                ["wait", "--for=condition=Ready=False", "pod", member, NAMESPACE, "--timeout=120s"];
            cluster.kubectl(&not_ready)?;
        }
        let recovered = traffic.during(|| {
            installed.portolan(&["ovn-central", "recover", "--member=ovn-central-0"]).read()?;
            for part in ["statefulset/ovn-central", "daemonset/ovn-controller"] {
                cluster.kubectl(&["rollout", "status", NAMESPACE, part, "--timeout=240s"])?;
            }
            Ok(())
        })?;
        shown("recovery of one of three members", &recovered);
        for node in ["node1", "node2", "node3"] {
            serves(cluster, "recovered", node)?;
        }
        Ok(())
    });
}

fn shown(what: &str, window: &Window) {
    println!("{what}: {window}");
    assert!(window.stream_lasts, "{what}: {window}");
}

/// A new pod gets its network on a node, and one that was there before reaches it: its node has the flows for that.
fn serves(cluster: &Kubernetes, round: &str, node: &str) -> Result<()> {
    let name = format!("{round}-{node}");
    pods::client(cluster, &name, node)?;
    let url = format!("http://{}/hostname", address(cluster, &name)?);
    for from in ["one", "two"] {
        let curl = ["curl", "-sSm5", "--retry", "5", "--retry-all-errors", &url];
        assert_eq!(pods::exec(cluster, from, &curl)?, name, "from {from}");
    }
    Ok(())
}

/// Both databases of a member are gone with their files.
fn lose(installed: &Installed<'_>, member: &str) -> Result<()> {
    let parts = ["northbound", "southbound"];
    let found = parts.map(|part| pods::process(installed.cluster, "portolan-system", member, part));
    let [(node, northbound), (_, southbound)] = [found[0].as_ref().unwrap(), found[1].as_ref().unwrap()];
    let removed = installed.shell(
        node,
        &format!(
            "find /var/lib/portolan/ovn/{member} -type f -print -delete; kill -KILL {northbound} {southbound}"
        ),
    )?;
    for file in ["ovnnb_db", "ovnsb_db"] {
        assert!(removed.contains(file), "{removed}");
    }
    Ok(())
}
