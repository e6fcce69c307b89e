//! What an agent says about itself: health checks, metrics, and the state of its node.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use portolan_testbed::{Node, Test};
use serde_json::Value;

use crate::stage::{Agents, HEALTH, Runtime, Stage, blocking};

/// A page of the agent's: its status and its text.
fn get(node: &Node, path: &str) -> (u16, String) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: agent\r\n\r\n");
    let answer = node.namespace().run(move || {
        let mut stream = TcpStream::connect(HEALTH).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    });
    let (head, text) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), text.to_owned())
}

#[test]
fn an_agent_counts_its_calls_and_says_what_it_lacks() {
    Test::new().deadline(Duration::from_secs(300)).run(async |lab| {
        blocking(move || {
            let stage = Stage::start(&lab, 1, Agents::default());
            let node = &stage.testbed.nodes()[0];
            let uid = stage.pod("argo", "node1");
            stage.assign("argo", &uid, "node1", 7);
            let netns = node.namespace().network_beside("argo").unwrap();
            let argo = Runtime::new(node, "cafe01", "argo", &uid, &netns);
            argo.succeeds("ADD");
            argo.succeeds("CHECK");
            let other = node.namespace().network_beside("nobody").unwrap();
            let nobody = Runtime::new(node, "cafe02", "nobody", "0-0", &other);
            assert_eq!(nobody.call("ADD").0, 1);

            assert_eq!(get(node, "/healthz"), (200, "ok".into()));
            let (status, text) = get(node, "/readyz?verbose");
            assert_eq!(status, 200, "{text}");
            for check in ["loop", "vswitch", "bridge", "chassis", "followers", "cni-socket"] {
                assert!(text.contains(&format!("[+] {check} ok\n")), "{text}");
            }
            let (_, metrics) = get(node, "/metrics");
            for line in [
                "portolan_agent_cni_seconds_count{verb=\"ADD\"} 2",
                "portolan_agent_cni_seconds_count{verb=\"CHECK\"} 1",
                "portolan_agent_cni_failures_total{verb=\"ADD\",reason=\"UnknownContainer\"} 1",
                "portolan_agent_cni_in_progress{verb=\"ADD\"} 0",
                "portolan_agent_cni_step_seconds_count{step=\"installed\"} 1",
                "portolan_agent_changes_total{change=\"plug\",outcome=\"done\"} 1",
                "portolan_agent_units 1",
                "portolan_agent_units_failing 0",
                "portolan_agent_vswitch_connected 1",
                "portolan_agent_node_problem 0",
            ] {
                assert!(metrics.lines().any(|one| one == line), "{line} is not in:\n{metrics}");
            }
            let state: Value = serde_json::from_str(&get(node, "/debug/node").1).unwrap();
            let unit = &state["units"][argo.link()];
            assert_eq!(
                (&unit["sandbox"], &unit["pod"]),
                (&"cafe01".into(), &"default/argo".into()),
                "{state}"
            );
            assert_eq!((&unit["port"], &unit["guard"]), (&true.into(), &true.into()), "{state}");
            assert_eq!(state["chassis"]["encapsulation"]["link"], "br-und", "{state}");

            // Its answer names what it lacks, and it is alive all the same.
            node.ovsdb_server().kill().unwrap();
            let missing = "[-] vswitch failed: the agent cannot reach the database of Open vSwitch";
            let mut answers = std::iter::repeat_with(|| get(node, "/readyz"));
            let (status, text) = answers.find(|(_, text)| text.contains(missing)).unwrap();
            assert_eq!(status, 503, "{text}");
            assert_eq!(get(node, "/healthz").0, 200);
            node.ovsdb_server().restart().unwrap();
            argo.succeeds("DEL");
            assert_eq!(get(node, "/readyz"), (200, "ok".into()));
        })
        .await;
    });
}
