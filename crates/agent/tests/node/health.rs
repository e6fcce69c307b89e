//! What an agent says about itself: health checks, metrics, and the state of its node.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use portolan_testbed::{Node, Test};
use serde_json::Value;

use crate::stage::{Agents, HEALTH, Runtime, Stage, blocking, made_on};

/// A page of the agent's: its status and its text.
pub(crate) fn get(node: &Node, path: &str) -> (u16, String) {
    get_from(node, HEALTH, path).unwrap()
}

/// The same of an agent that may not serve it yet.
fn get_from(node: &Node, health: SocketAddr, path: &str) -> Option<(u16, String)> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: agent\r\n\r\n");
    let answer = node.namespace().run(move || {
        let mut stream = TcpStream::connect(health).ok()?;
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        Some(answer)
    })?;
    let (head, text) = answer.split_once("\r\n\r\n").unwrap();
    Some((head.split(' ').nth(1).unwrap().parse().unwrap(), text.to_owned()))
}

#[test]
fn of_two_agents_of_a_node_the_later_waits_and_says_so() {
    Test::new().deadline(Duration::from_secs(300)).run(async |lab| {
        blocking(move || {
            let mut stage = Stage::start(&lab, 1, Agents::default());
            let uids = ["argo", "ikaros"].map(|name| stage.pod(name, "node1"));
            stage.assign("argo", &uids[0], "node1", 7);
            stage.assign("ikaros", &uids[1], "node1", 8);
            // As an upgrade that starts the new one first. One serves health checks at another address, one at the same.
            let health = SocketAddr::new(HEALTH.ip(), HEALTH.port() + 1);
            let another = stage.begin_another(health);
            let node = &stage.testbed.nodes()[0];
            let mut answers = std::iter::repeat_with(|| get_from(node, health, "/readyz"));
            let (status, text) = answers.find_map(|answer| answer).unwrap();
            assert_eq!(status, 503, "{text}");
            let said =
                "[-] other-agent failed: another agent works on this node: it holds /run/portolan/cni.lock";
            assert!(text.contains(said), "{text}");
            assert_eq!(get_from(node, health, "/healthz").unwrap().0, 200, "it is alive");
            assert_eq!(get(node, "/readyz"), (200, "ok".into()));
            let netns = ["argo", "ikaros"].map(|name| node.namespace().network_beside(name).unwrap());
            let argo = Runtime::new(node, "cafe01", "argo", &uids[0], &netns[0]);
            argo.succeeds("ADD");
            argo.succeeds("CHECK");

            stage.stop_agents();
            another.wait();
            let node = &stage.testbed.nodes()[0];
            argo.succeeds("CHECK");
            let ikaros = Runtime::new(node, "cafe02", "ikaros", &uids[1], &netns[1]);
            ikaros.succeeds("ADD");
            netns[1].command("ping").args(["-c1", "-w10", "-i0.05", "10.0.0.7"]).read().unwrap();

            // With the same address for health checks: it has it once the other one has ended.
            let same = stage.begin_another(health);
            drop(another);
            same.wait();
            let mut answers = std::iter::repeat_with(|| get_from(node, health, "/readyz"));
            answers.find(|answer| *answer == Some((200, "ok".into()))).unwrap();
            for runtime in [&argo, &ikaros] {
                runtime.succeeds("DEL");
            }
            assert_eq!(made_on(node), Vec::<String>::new());
        })
        .await;
    });
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
            let offloads = || -> Option<u32> {
                let metrics = get(node, "/metrics").1;
                let line = "portolan_agent_changes_total{change=\"offload\",outcome=\"done\"} ";
                metrics.lines().find_map(|one| one.strip_prefix(line)).map(|count| count.parse().unwrap())
            };
            let before = std::iter::repeat_with(offloads).flatten().next().unwrap();
            for number in 0..20 {
                node.vsctl(&["set", "Open_vSwitch", ".", &format!("external_ids:other={number}")]).unwrap();
                // Those of pods that have their interface from another plugin.
                node.namespace().ip("link add other0 type veth peer name other1\nlink del other0").unwrap();
            }
            argo.succeeds("ADD");
            argo.succeeds("CHECK");
            // Open vSwitch and links of others have changed often; the link of tunnels hardly.
            let after = offloads().unwrap();
            assert!(after - before <= 2, "offload was turned off {} times", after - before);
            let other = node.namespace().network_beside("nobody").unwrap();
            let nobody = Runtime::new(node, "cafe02", "nobody", "0-0", &other);
            assert_eq!(nobody.call("ADD").0, 1);

            assert_eq!(get(node, "/healthz"), (200, "ok".into()));
            let (status, text) = get(node, "/readyz?verbose");
            assert_eq!(status, 200, "{text}");
            for check in ["other-agent", "loop", "vswitch", "bridge", "chassis", "followers", "cni-socket"] {
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
            let (_, metrics) = get(node, "/metrics");
            // The failed ADD was undone, and DEL.
            let line = "portolan_agent_cni_step_seconds_count{step=\"remove\"} 2";
            assert!(metrics.lines().any(|one| one == line), "{line} is not in:\n{metrics}");

            // What is not ready is so for the plugin too, and the other way round.
            let (status, said) = argo.call("STATUS");
            assert_eq!(status, 0, "{said}");
            node.ovn_controller().unwrap().kill().unwrap();
            let patch = r#"{"metadata":{"annotations":{"ovn.kubernetes.io/tunnel_interface":"nowhere"}}}"#;
            stage.kubectl(&["patch", "node", "node1", "--type=merge", "-p", patch], "");
            let missing = "names interface nowhere, which this node does not have";
            let mut answers = std::iter::repeat_with(|| get(node, "/readyz"));
            let (status, text) = answers.find(|(_, text)| text.contains(missing)).unwrap();
            assert_eq!(status, 503, "{text}");
            let (status, said) = argo.call("STATUS");
            assert_eq!((status, &said["code"]), (1, &50.into()), "{said}");
            assert!(said["details"].as_str().unwrap().contains(missing), "{said}");
        })
        .await;
    });
}
