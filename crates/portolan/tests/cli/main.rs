//! `portolan get`, `describe` and `trace` on real clusters, as a person uses them; and what they say when something is wrong.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

mod errors;
mod random;
mod tracing;

use std::process::Output;
use std::time::Duration;

use portolan_testbed::{Pod, Testbed};
use portolan_testbed::{Test, TestLab};
use serde_json::Value;

const OBJECTS: &str = include_str!("objects.yaml");
const PORTOLAN: &str = env!("CARGO_BIN_EXE_portolan");

/// A cluster, and the binary that looks at it from where it can be reached.
pub(crate) struct Harbour {
    lab: TestLab,
    pub(crate) cluster: Testbed,
}

/// Runs a test in a cluster of two nodes that has the objects.
fn in_a_harbour(body: impl FnOnce(&Harbour) + Send + 'static) {
    in_a_harbour_for(Duration::from_secs(180), body);
}

fn in_a_harbour_for(deadline: Duration, body: impl FnOnce(&Harbour) + Send + 'static) {
    Test::new().deadline(deadline).run(async move |lab: TestLab| {
        let cluster = Testbed::builder().nodes(2).start(&lab).unwrap();
        cluster.apply(OBJECTS).unwrap();
        body(&Harbour { lab, cluster });
    });
}

impl Harbour {
    /// A pod whose default route goes by its one interface.
    fn pod(&self, name: &str, node: &str, nad: &str, router: &str) -> Pod {
        let pod = self.cluster.pod(name).on(node).nad(nad).with("default-route", vec![router]);
        pod.start().unwrap()
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let command =
            self.lab.command(PORTOLAN).args(arguments).arg("--kubeconfig").arg(self.cluster.kubeconfig());
        command.env("OVN_SB_DB", self.cluster.central().sb().endpoint()).output().unwrap()
    }

    /// Runs `portolan …`, which must succeed; returns what it prints.
    #[track_caller]
    fn says(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "portolan {}: {complaint}", arguments.join(" "));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs `portolan …`, which must fail; returns what it complains about.
    #[track_caller]
    fn refuses(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(!output.status.success(), "portolan {} succeeds", arguments.join(" "));
        String::from_utf8(output.stderr).unwrap().trim().to_owned()
    }
}

#[test]
fn tables_and_descriptions_show_what_the_cluster_has() {
    in_a_harbour(|harbour| {
        let a = harbour.pod("a", "node1", "web", "10.0.0.1");
        harbour.cluster.pod("waits").on("node1").nad("missing").create().unwrap();

        let subnets = harbour.says(&["get", "subnets"]);
        let line = |text: &str, begins: &str| {
            let found = text.lines().find(|line| line.starts_with(begins));
            found
                .unwrap_or_else(|| panic!("no {begins} in {text}"))
                .split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            line(&subnets, "web"),
            ["web", "yes", "blue", "10.0.0.0/24", "10.0.0.1", "web.default.ovn", "1", "251"]
        );
        let vpcs = harbour.says(&["get", "vpcs"]);
        assert_eq!(line(&vpcs, "blue")[..6], ["blue", "yes", "2", "1", "2", "green"]);
        let attachments = harbour.says(&["get", "attachments"]);
        let address = a.address().to_string();
        let row = line(&attachments, "a ");
        assert_eq!(
            (&row[2], &row[3], &row[5], &row[6]),
            (&"web".into(), &address, &"node1".into(), &"yes".into())
        );
        assert!(line(&attachments, "waits").ends_with(&["no".into(), "(Waiting)".into()]), "{attachments}");
        let locks: Value =
            serde_json::from_str(&harbour.says(&["get", "locks", &address, "-o", "json"])).unwrap();
        assert_eq!((&locks[0]["owner"], &locks[0]["subnet"]), (&"Pod default/a".into(), &"web".into()));
        assert!(harbour.says(&["get", "subnets", "web", "-o", "yaml"]).contains("provider: web.default.ovn"));

        assert!(harbour.says(&["describe", "subnet", "web"]).contains("default/a"));
        assert!(harbour.says(&["describe", "vpc", "blue"]).contains("green: connected"));
        assert!(harbour.says(&["describe", "attachment", "a/net1"]).contains(&address));
        assert!(harbour.says(&["describe", "lock", &address]).contains("Pod default/a"));
        let pod = harbour.says(&["describe", "pod", "waits"]);
        assert!(pod.contains("waiting for network attachment definition default/missing"), "{pod}");
    });
}
