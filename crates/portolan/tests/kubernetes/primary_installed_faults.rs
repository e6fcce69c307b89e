//! An installation as the primary network whose processes are killed, and whose databases are lost.

use std::time::Duration;

use portolan_testbed::Result;
use portolan_testbed::kubernetes::Kubernetes;

use crate::pods;
use crate::primary::locks_are_given_back;
use crate::primary_faults::{SERVERS, everything_is_there_once};
use crate::primary_installed::on_installed_primary;
use crate::traffic::Traffic;

#[test]
fn whatever_is_killed_or_lost_of_an_installation_comes_back() {
    on_installed_primary(Duration::from_secs(900), |installed, _| {
        let cluster = installed.cluster;
        cluster.apply(SERVERS)?;
        pods::rolled_out(cluster, "servers")?;
        pods::client(cluster, "one", "node1")?;
        pods::client(cluster, "two", "node2")?;
        // OVN's databases, under traffic: they come up empty, and are made again from the API.
        let mut traffic = Traffic::between(cluster, "one", "two")?;
        let lost = traffic.during(|| {
            let databases = ["northbound", "southbound"];
            let found =
                databases.map(|part| pods::process(cluster, "portolan-system", "ovn-central-0", part));
            let [(node, northbound), (_, southbound)] =
                [found[0].as_ref().unwrap(), found[1].as_ref().unwrap()];
            let lose = format!(
                "find /var/lib/portolan/ovn -type f -print -delete; kill -KILL {northbound} {southbound}"
            );
            let removed = installed.shell(node, &lose)?;
            for file in ["ovnnb_db", "ovnsb_db"] {
                assert!(removed.contains(file), "{removed}");
            }
            for part in databases {
                let again = format!(
                    "--for=jsonpath={{.status.containerStatuses[?(@.name==\"{part}\")].restartCount}}=1"
                );
                cluster.kubectl(&[
                    "wait",
                    &again,
                    "pod/ovn-central-0",
                    "-n=portolan-system",
                    "--timeout=120s",
                ])?;
            }
            pods::client(cluster, "three", "node2")
        })?;
        println!("both databases lost: {lost}");
        assert!(lost.stream_lasts, "{lost}");

        for (pod, container) in containers(cluster)? {
            let (node, process) = pods::process(cluster, "portolan-system", &pod, &container)?;
            let on_its_way = pods::begin_to_roll(cluster, "servers", &format!("{pod}-{container}"))?;
            println!("{container} of {pod} while pod {on_its_way} is on its way up");
            node.command("kill")?.args(["-KILL", &process]).read()?;
            pods::rolled_out(cluster, "servers")?;
        }
        cluster.kubectl(&["delete", "pod/two", "pod/three"])?;
        everything_is_there_once(cluster)?;
        cluster.kubectl(&["delete", "deployment/servers", "pod/one", "--cascade=foreground"])?;
        locks_are_given_back(cluster)
    });
}

/// Every container of an installation whose end interrupts no traffic by construction.
fn containers(cluster: &Kubernetes) -> Result<Vec<(String, String)>> {
    let shown =
        r#"jsonpath={range .items[*]}{.metadata.name}{range .spec.containers[*]} {.name}{end}{"\n"}{end}"#;
    let pods = cluster.kubectl(&["get", "pods", "-n=portolan-system", "-o", shown])?;
    let pods = pods.lines().map(str::to_owned).collect::<Vec<_>>();
    let of = |line: &String| {
        let mut words = line.split_whitespace().map(str::to_owned);
        let pod = words.next().unwrap_or_default();
        words.map(move |container| (pod.clone(), container)).collect::<Vec<_>>()
    };
    let all: Vec<_> = pods.iter().flat_map(of).filter(|(pod, _)| !pod.starts_with("ovs-")).collect();
    assert!(all.len() >= 3 + 2 + 2 * 2 + 2, "{all:?}");
    Ok(all)
}
