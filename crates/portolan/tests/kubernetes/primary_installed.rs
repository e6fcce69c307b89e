//! Portolan installed as the primary network of a cluster whose nodes have none, by `portolan install`: everything in pods, with the rights, the
//! certificates and the election of an installation.

use std::collections::BTreeSet;
use std::time::Duration;

use portolan_testbed::kubernetes::{Image, Kubernetes, Network};
use portolan_testbed::{Result, Test, TestLab};
use serde_json::Value;

use crate::installation::Installed;
use crate::pods;
use crate::primary::{everybody_reaches_everybody, locks_are_given_back};

/// Runs a test on a cluster of two nodes whose network is an installation. What it was like before is what it says first.
pub(crate) fn on_installed_primary(
    deadline: Duration,
    body: impl FnOnce(&Installed<'_>, &[String]) -> Result<()> + Send + 'static,
) {
    on_installed_primary_of(2, deadline, body);
}

/// The same, of so many nodes.
pub(crate) fn on_installed_primary_of(
    nodes: usize,
    deadline: Duration,
    body: impl FnOnce(&Installed<'_>, &[String]) -> Result<()> + Send + 'static,
) {
    Test::new().deadline(deadline).run(async move |lab: TestLab| -> Result<()> {
        let cluster = Kubernetes::builder().nodes(nodes).network(Network::None).audit_log().start(&lab)?;
        cluster.show_on_failure(&lab);
        for image in [Image::agnhost()?, Image::portolan(&lab)?, Image::portolan_ovs(&lab)?] {
            cluster.load(&image)?;
        }
        let installed = Installed { cluster: &cluster, lab: &lab };
        let before = installed.nodes()?;
        // So that OVN's databases come up where they were.
        cluster.kubectl(&["label", "node", "node1", "portolan.dev/ovn-central="])?;
        installed.userspace_datapath()?;
        let said = installed.portolan(&["install", "--mode=primary", "--timeout=240"]).read()?;
        assert!(said.contains("networks of pods: 10.244."), "{said}");
        assert!(said.contains("networks of Services: 10.96.0.0/16, by ServiceCIDRs"), "{said}");
        cluster.kubectl(&["wait", "--for=condition=Ready", "nodes", "--all", "--timeout=60s"])?;
        cluster.route_to_pods()?;
        body(&installed, &before)
    });
}

#[test]
fn a_cluster_without_a_network_gets_one_by_installing_and_is_as_before_without() {
    on_installed_primary(Duration::from_secs(600), |installed, before| {
        let cluster = installed.cluster;
        everybody_reaches_everybody(cluster)?;
        let said = installed.portolan(&["doctor"]).read()?;
        assert!(said.contains("agents know the networks of pods"), "{said}");
        another_controller_takes_over(cluster)?;
        nobody_was_refused(cluster)?;

        let refused = installed.portolan(&["uninstall"]).read().unwrap_err().to_string();
        assert!(refused.contains("have interfaces of Portolan"), "{refused}");
        for namespace in ["-n=default", "-n=kube-system"] {
            cluster.kubectl(&["delete", "deployments", "--all", "--cascade=foreground", namespace])?;
        }
        cluster.kubectl(&["delete", "pods", "--all", "--grace-period=1"])?;
        locks_are_given_back(cluster)?;
        installed.host_datapath()?;
        installed.portolan(&["uninstall"]).read()?;
        assert_eq!(installed.nodes()?, before);
        // Nobody makes a network any more, as before.
        cluster.kubectl(&["wait", "--for=condition=Ready=False", "nodes", "--all", "--timeout=60s"])?;
        Ok(())
    });
}

/// The controller that leads is deleted; the other one serves the next pod.
fn another_controller_takes_over(cluster: &Kubernetes) -> Result<()> {
    let ready =
        ["get", "deployment", "portolan-controller", NAMESPACE, "-o=jsonpath={.status.readyReplicas}"];
    assert_eq!(cluster.kubectl(&ready)?, "2");
    let leader = leader(cluster)?;
    cluster.kubectl(&["delete", "pod", &leader, NAMESPACE])?;
    pods::client(cluster, "late", "node2")?;
    assert_ne!(self::leader(cluster)?, leader);
    Ok(())
}

fn leader(cluster: &Kubernetes) -> Result<String> {
    let holder = "-o=jsonpath={.spec.holderIdentity}";
    let identity = cluster.kubectl(&["get", "lease", "portolan-controller", NAMESPACE, holder])?;
    Ok(identity.split_once('_').map(|(pod, _)| pod.to_owned()).unwrap_or(identity))
}

const NAMESPACE: &str = "-n=portolan-system";

/// Every request of everything that was installed was allowed, by the API server's audit log and by the logs of pods.
fn nobody_was_refused(cluster: &Kubernetes) -> Result<()> {
    const ACCOUNT: &str = "system:serviceaccount:portolan-system:";
    let log = std::fs::read_to_string(cluster.api_server().audit_log().unwrap()).unwrap();
    let mut accounts = BTreeSet::new();
    let mut refused = BTreeSet::new();
    for line in log.lines() {
        // The last one may be half written.
        let Ok(event) = serde_json::from_str::<Value>(line) else { continue };
        let Some(account) = event["user"]["username"].as_str().and_then(|user| user.strip_prefix(ACCOUNT))
        else {
            continue;
        };
        accounts.insert(account.to_owned());
        if matches!(event["responseStatus"]["code"].as_u64(), Some(401 | 403)) {
            refused.insert(format!("{account}: {} {}", event["verb"], event["requestURI"]));
        }
    }
    let all = ["ovn-central", "ovn-controller", "portolan-agent", "portolan-controller"].map(str::to_owned);
    assert_eq!(accounts, BTreeSet::from(all.clone()), "all of them have asked for something");
    assert_eq!(refused, BTreeSet::new());
    for part in all {
        let logs =
            ["logs", NAMESPACE, "--all-containers", "--tail=-1", "--prefix", "-l", &format!("app={part}")];
        let logs = cluster.kubectl(&logs)?;
        assert!(!logs.is_empty(), "{part} says something");
        let refused: Vec<_> =
            logs.lines().filter(|line| line.contains("orbidden") || line.contains("nauthorized")).collect();
        assert_eq!(refused, Vec::<&str>::new(), "{part}");
    }
    Ok(())
}
