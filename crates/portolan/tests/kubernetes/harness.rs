//! The clusters themselves, without Portolan: what all other tests here rely on.

use std::time::Duration;

use portolan_testbed::kubernetes::{Image, Kubernetes, ServiceProxy};
use portolan_testbed::{Result, Test, TestLab};

use crate::nothing_left::processes;
use crate::pods::{self, WEB};

#[test]
fn pods_of_two_nodes_reach_each_other_services_names_and_the_outside() {
    Test::new().deadline(Duration::from_secs(300)).run(async |lab: TestLab| -> Result<()> {
        let cluster = Kubernetes::builder().nodes(2).start(&lab)?;
        cluster.show_on_failure(&lab);
        cluster.load(&Image::agnhost()?)?;
        cluster.start_dns()?;
        cluster.apply(WEB)?;
        pods::client(&cluster, "client", "node1")?;
        pods::rolled_out(&cluster, "web")?;

        let addresses =
            cluster.kubectl(&["get", "pods", "-l=app=web", "-o=jsonpath={.items[*].status.podIP}"])?;
        for address in addresses.split(' ') {
            let answer =
                pods::exec(&cluster, "client", &["curl", "-sSm5", &format!("http://{address}/hostname")])?;
            assert!(answer.starts_with("web-"), "{address}: {answer}");
        }
        assert_eq!(addresses.split(' ').count(), 2);
        let by_name = ["curl", "-sSm5", "http://web/hostname"];
        assert!(pods::exec(&cluster, "client", &by_name)?.starts_with("web-"));

        pods::are_proxied(&cluster)?;
        let outside = cluster.outside_address().to_string();
        pods::exec(&cluster, "client", &["ping", "-c1", "-w10", &outside])?;
        let logs = cluster.kubectl(&["logs", "deployment/web"])?;
        assert!(logs.contains("/healthz"), "{logs}");
        Ok(())
    });
}

#[test]
fn a_node_comes_back_with_its_pods_after_every_way_of_dying() {
    Test::new().deadline(Duration::from_secs(300)).run(async |lab: TestLab| -> Result<()> {
        let cluster = Kubernetes::builder().nodes(2).service_proxy(ServiceProxy::Iptables).start(&lab)?;
        cluster.show_on_failure(&lab);
        cluster.load(&Image::agnhost()?)?;
        cluster.apply(WEB)?;
        pods::client(&cluster, "other", "node1")?;
        pods::client(&cluster, "victim", "node2")?;
        pods::rolled_out(&cluster, "web")?;
        let restarts = |pod: &str| {
            cluster.kubectl(&["get", "pod", pod, "-o=jsonpath={.status.containerStatuses[0].restartCount}"])
        };
        let service = cluster.kubectl(&["get", "service/web", "-o=jsonpath={.spec.clusterIP}"])?;
        let served = |pod: &str| {
            pods::exec(
                &cluster,
                pod,
                &["curl", "-sSm5", "--retry", "5", &format!("http://{service}/hostname")],
            )
        };
        assert!(served("victim")?.starts_with("web-"));

        // Containers go on without what started them.
        let node = cluster.node("node2")?;
        for process in [node.running()?.containerd(), node.running()?.kubelet()] {
            process.kill()?;
            process.restart()?;
        }
        let address = cluster.kubectl(&["get", "pod/victim", "-o=jsonpath={.status.podIP}"])?;
        let hostname = ["curl", "-sSm5", &format!("http://{address}/hostname")];
        assert_eq!(pods::exec(&cluster, "other", &hostname)?, "victim");
        assert_eq!(restarts("victim")?, "0");

        node.switch_off()?;
        assert!(node.running().is_err());
        let group = format!("/{}/node2", lab.path().file_name().unwrap().display());
        let groups =
            processes().map(|process| std::fs::read_to_string(process.join("cgroup")).unwrap_or_default());
        assert_eq!(groups.filter(|groups| groups.contains(&group)).count(), 0, "nothing of it runs");
        assert!(served("other").is_ok(), "the other node does not mind");
        node.switch_on()?;

        let restarted = "--for=jsonpath={.status.containerStatuses[0].restartCount}=1";
        cluster.kubectl(&["wait", restarted, "pod/victim", "--timeout=120s"])?;
        pods::ready(&cluster, "pod/victim")?;
        pods::rolled_out(&cluster, "web")?;
        assert!(served("victim")?.starts_with("web-"));
        assert_eq!(restarts("other")?, "0");
        Ok(())
    });
}
