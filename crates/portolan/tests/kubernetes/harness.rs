//! The clusters themselves, without Portolan: what all other tests here rely on.

use std::time::Duration;

use portolan_testbed::kubernetes::{Image, Kubernetes};
use portolan_testbed::{Result, Test, TestLab};

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

        let outside = cluster.outside_address().to_string();
        pods::exec(&cluster, "client", &["ping", "-c1", "-w10", &outside])?;
        let logs = cluster.kubectl(&["logs", "deployment/web"])?;
        assert!(logs.contains("/healthz"), "{logs}");
        Ok(())
    });
}
