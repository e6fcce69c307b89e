//! Real callers: the CNI project's `cnitool`, with Portolan alone and after its `bridge` plugin.

use std::time::Duration;

use portolan_agent::install::{self, Installation, Mode, Then};
use portolan_model::FirstInterface;
use portolan_testbed::{Namespace, Node, Test, built_program};
use serde_json::{Value, json};

use crate::stage::{Agents, Runtime, Stage, blocking, made_on, plugin};

/// Puts plugins and a network configuration where a node has them.
fn configure(node: &Node, name: &str, more: &Value) {
    let mut list = json!({ "cniVersion": "1.1.0", "name": name });
    list.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let list = list.to_string();
    let programs = ["bridge", "host-local"].map(|name| (name, built_program(name).unwrap()));
    let programs = [("portolan-cni", plugin())].into_iter().chain(programs).collect::<Vec<_>>();
    let file = format!("/etc/cni/net.d/10-{name}.conflist");
    node.namespace().run(move || {
        std::fs::write(file, list).unwrap();
        for (name, program) in programs {
            let _ = std::os::unix::fs::symlink(program, format!("/opt/cni/bin/{name}"));
        }
    });
}

/// Calls `cnitool`; what it prints, and what it complains about.
fn cnitool(
    node: &Node,
    command: &str,
    network: &str,
    netns: &Namespace,
    args: &str,
) -> (bool, String, String) {
    let tool = node.command(built_program("cnitool").unwrap());
    // Its separator in CNI_ARGS is that of the specification.
    let tool = tool.args([command, network]).arg(netns.path()).env("CNI_ARGS", args);
    let tool =
        tool.env("CNI_PATH", "/opt/cni/bin").env("NETCONFPATH", "/etc/cni/net.d").env("CNI_IFNAME", "eth0");
    let output = tool.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.success(), text(output.stdout), text(output.stderr))
}

fn succeeds(node: &Node, command: &str, network: &str, netns: &Namespace, args: &str) -> String {
    let (success, said, complaint) = cnitool(node, command, network, netns, args);
    assert!(success, "cnitool {command} {network}: {said} {complaint}");
    said
}

fn ping(netns: &Namespace, by: &str, to: &str) {
    netns.command("ping").args(["-c1", "-w10", "-i0.05", "-I", by, to]).read().unwrap();
}

#[test]
fn cnitool_adds_checks_and_deletes_with_portolan_alone() {
    Test::new().deadline(Duration::from_secs(180)).run(async |lab| {
        blocking(move || {
            let first_interface = FirstInterface::Portolan;
            let stage = Stage::start(&lab, 1, Agents { first_interface, ..Agents::default() });
            let node = &stage.testbed.nodes()[0];
            configure(node, "alone", &json!({ "plugins": [{ "type": "portolan-cni" }] }));
            let pods = ["argo", "ikaros"].map(|name| (name, stage.pod(name, "node1")));
            let mut made = Vec::new();
            for (last, (name, uid)) in (7..).zip(&pods) {
                stage.assign(name, uid, "node1", last);
                let netns = node.namespace().network_beside(name).unwrap();
                let Runtime { args, .. } = Runtime::new(node, "-", name, uid, &netns);
                let result: Value =
                    serde_json::from_str(&succeeds(node, "add", "alone", &netns, &args)).unwrap();
                assert_eq!(result["interfaces"][1]["name"], "eth0", "{result}");
                succeeds(node, "check", "alone", &netns, &args);
                made.push((netns, args));
            }
            succeeds(node, "status", "alone", &made[0].0, "");
            ping(&made[0].0, "eth0", "10.0.0.8");
            made[0].0.ip("link set eth0 mtu 1280").unwrap();
            let (success, _, complaint) = cnitool(node, "check", "alone", &made[0].0, &made[0].1);
            assert!(!success && complaint.contains("the MTU is 1280, not 1400"), "{complaint}");
            for _ in 0..2 {
                succeeds(node, "del", "alone", &made[0].0, &made[0].1);
            }
            // It knows no valid attachment: it deletes what it added, and GC without a list is refused.
            let (success, _, complaint) = cnitool(node, "gc", "alone", &made[1].0, "");
            assert!(!success && complaint.contains("cni.dev/valid-attachments is missing"), "{complaint}");
            assert_eq!(made_on(node), Vec::<String>::new());
        })
        .await;
    });
}

#[test]
fn cnitool_calls_portolan_after_the_reference_bridge_plugin() {
    Test::new().deadline(Duration::from_secs(180)).run(async |lab| {
        blocking(move || {
            let stage = Stage::start(&lab, 1, Agents::default());
            let node = &stage.testbed.nodes()[0];
            let range = json!({ "type": "host-local", "ranges": [[{ "subnet": "10.244.1.0/24" }]], "routes": [{ "dst": "0.0.0.0/0" }] });
            let bridge = json!({ "type": "bridge", "bridge": "cni0", "isGateway": true, "ipam": range });
            // A primary network, and the list that is installed beside it.
            let install_beside = |mut primary: Value| {
                primary["plugins"] = json!([bridge]);
                configure(node, "cluster", &primary);
                let places = install::Places::default();
                let installation = Installation { places, plugin: plugin(), mode: Mode::Chained };
                node.namespace().run(move || {
                    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                    runtime.block_on(install::run(installation, Then::End)).unwrap();
                });
            };
            install_beside(json!({}));
            stage.nad("blue", &json!({ "cniVersion": "1.0.0", "name": "blue", "type": "portolan" }).to_string());
            stage.subnet("blue", "10.1.0.0/24", "aegean", Some("blue.default.ovn"));
            let networks = json!({ "k8s.v1.cni.cncf.io/networks": "blue" });
            let mut made = Vec::new();
            for (name, address) in [("argo", Some("10.1.0.7")), ("ikaros", Some("10.1.0.8")), ("plain", None)] {
                let uid = stage.pod_with(name, "node1", if address.is_some() { &networks } else { &Value::Null });
                if let Some(address) = address {
                    let addresses: &[&str] = &[address];
                    stage.assign_all(name, &uid, ("node1", "aegean"), &[("blue", "net1", addresses)], &[("net1", addresses)]);
                }
                let netns = node.namespace().network_beside(name).unwrap();
                let Runtime { args, .. } = Runtime::new(node, "-", name, &uid, &netns);
                let result: Value = serde_json::from_str(&succeeds(node, "add", "cluster", &netns, &args)).unwrap();
                let interfaces = result["interfaces"].as_array().unwrap().iter();
                let in_pod: Vec<_> = interfaces.filter(|one| one["sandbox"].is_string()).map(|one| &one["name"]).collect();
                let expected: &[&str] = if address.is_some() { &["eth0", "net1"] } else { &["eth0"] };
                assert_eq!(in_pod, expected, "{result}");
                // What the bridge plugin answered is kept as it was.
                assert!(result["ips"][0]["address"].as_str().unwrap().starts_with("10.244.1."), "{result}");
                assert_eq!(result["ips"][0]["gateway"], "10.244.1.1", "{result}");
                succeeds(node, "check", "cluster", &netns, &args);
                made.push((netns, args));
            }
            // The bridge plugin's own CHECK takes every address of the result for its interface's, and fails for pods with others. Where the
            // primary's list does not say that it is wanted, what is installed leaves it out.
            install_beside(json!({ "disableCheck": false }));
            for (netns, args) in &made[..2] {
                let (success, _, complaint) = cnitool(node, "check", "cluster", netns, args);
                assert!(!success && complaint.contains("Failed to match addr"), "{complaint}");
            }
            succeeds(node, "check", "cluster", &made[2].0, &made[2].1);
            succeeds(node, "status", "cluster", &made[0].0, "");
            ping(&made[0].0, "eth0", "10.244.1.1");
            ping(&made[0].0, "net1", "10.1.0.8");
            ping(&made[1].0, "net1", "10.1.0.7");
            for (netns, args) in &made {
                succeeds(node, "del", "cluster", netns, args);
            }
            assert_eq!(made_on(node), Vec::<String>::new());
        })
        .await;
    });
}
