//! What the agent makes again, and what it removes, without a call of the plugin.

use std::time::Duration;

use portolan_host::{Admits, LinkMonitor, guard};
use portolan_plan::host::LinkName;
use portolan_testbed::{Node, Test};
use serde_json::json;
use tokio::io::unix::AsyncFd;

use crate::attachments::wait_for_links;
use crate::plugged::primary;
use crate::stage::{Agents, Runtime, Stage, Stopped, blocking, made_on, wait_for_ports};

/// Waits until a node does not have a link.
fn wait_for_no_link(node: &Node, link: &str) {
    let monitor = node.namespace().run(LinkMonitor::open).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        #[expect(deprecated, reason = "its successor is unsafe")]
        let monitor = AsyncFd::new(monitor).unwrap();
        while node.namespace().ip(&format!("link show {link}")).is_ok() {
            let mut ready = monitor.readable().await.unwrap();
            let _ = ready.try_io(|monitor| monitor.get_ref().read());
        }
    });
}

#[test]
fn what_belongs_to_living_sandboxes_is_made_again_and_what_belongs_to_deleted_pods_is_removed() {
    Test::new().deadline(Duration::from_secs(300)).run(async |lab| {
        blocking(move || {
            let mut stage =
                Stage::start(&lab, 1, Agents { deadline: Duration::from_secs(60), ..Agents::default() });
            let node = &stage.testbed.nodes()[0];
            let names = ["argo", "ikaros", "kimon"];
            let uids = names.map(|name| stage.pod(name, "node1"));
            let mut sandboxes = Vec::new();
            for (last, (name, uid)) in names.iter().zip(&uids).enumerate() {
                stage.assign(name, uid, "node1", u8::try_from(last).unwrap() + 7);
                let netns = node.namespace().network_beside(name).unwrap();
                let runtime = Runtime::new(node, &format!("cafe0{last}"), name, uid, &netns);
                runtime.succeeds("ADD");
                sandboxes.push((runtime, Some(netns)));
            }
            assert_eq!(sandboxes.iter().filter(|(runtime, _)| runtime.call("CHECK").0 == 0).count(), 3);

            // Somebody removes a port. Its sandbox lives, so it comes back.
            let port = sandboxes[0].0.link();
            node.vsctl(&["del-port", "br-int", &port]).unwrap();
            wait_for_ports(node, 3);
            sandboxes[0].0.succeeds("CHECK");

            // A namespace goes, and its pod is deleted, and nobody calls DEL: the plugin is no longer in the configuration.
            drop(sandboxes[1].1.take());
            wait_for_ports(node, 3);
            stage.kubectl(&["delete", "pod", "ikaros", "--force", "--grace-period=0"], "");
            wait_for_ports(node, 2);

            // An agent that was killed between a link and its note leaves a link of which nobody knows whose it is, here with a guard.
            // That of another program stays.
            stage.stop_agents();
            let node = &stage.testbed.nodes()[0];
            let [left, other] =
                ["net1", "net2"].map(|interface| LinkName::new("cafe09", interface).to_string());
            node.namespace()
                .ip(&format!(
                    "link add {left} type veth peer name left0\nlink add pt0 type veth peer name left1\n\
                     tuntap add dev {other} mode tap"
                ))
                .unwrap();
            let guarded = left.clone();
            node.namespace().run(move || guard::guard(&guarded, Admits::Nothing)).unwrap();
            assert!(made_on(node).contains(&left));

            // The same while the agent is not there.
            drop(sandboxes[2].1.take());
            stage.kubectl(&["delete", "pod", "kimon", "--force", "--grace-period=0"], "");
            stage.start_agents();
            let node = &stage.testbed.nodes()[0];
            wait_for_ports(node, 1);
            sandboxes[0].0.succeeds("CHECK");
            wait_for_no_link(node, &left);
            // What is no link of ours is still there.
            node.namespace().ip(&format!("link del pt0\nlink del {other}")).unwrap();

            // GC that does not say what is to stay removes nothing.
            for list in [json!({}), json!({ "cni.dev/valid-attachments": "none" })] {
                let (code, said) = sandboxes[0].0.call_with("GC", &list);
                assert_eq!(code, 1);
                assert!(said["details"].as_str().unwrap().contains("cni.dev/valid-attachments"), "{said}");
            }
            sandboxes[0].0.succeeds("CHECK");
            sandboxes[0].0.succeeds("DEL");
            assert_eq!(made_on(node), Vec::<String>::new());
        })
        .await;
    });
}

#[test]
fn a_port_that_waits_for_ovs_vswitchd_to_see_its_removal_keeps_no_other_waiting() {
    Test::new().deadline(Duration::from_secs(300)).run(async |lab| {
        blocking(move || {
            let stage = Stage::start(&lab, 1, Agents::default());
            let node = &stage.testbed.nodes()[0];
            let [argo, ikaros] =
                [("argo", "cafe01", 7), ("ikaros", "cafe02", 8)].map(|(name, container, last)| {
                    let uid = stage.pod(name, "node1");
                    stage.assign(name, &uid, "node1", last);
                    let netns = node.namespace().network_beside(name).unwrap();
                    (Runtime::new(node, container, name, &uid, &netns), netns)
                });
            argo.0.succeeds("ADD");
            let port = argo.0.link();
            // What the agent knows is enough then: the API server cannot be reached while ovs-vswitchd is stopped.
            let before = Runtime { container: "cafe00".into(), ..ikaros.0.clone() };
            before.succeeds("ADD");
            before.succeeds("DEL");

            let stopped = Stopped::vswitchd(node);
            let raised =
                format!("next_cfg>{}", node.vsctl(&["get", "Open_vSwitch", ".", "next_cfg"]).unwrap());
            node.vsctl(&["--no-wait", "del-port", "br-int", &port]).unwrap();
            node.vsctl(&["wait-until", "Open_vSwitch", ".", &raised]).unwrap();
            std::thread::scope(|scope| {
                let other = scope.spawn(|| ikaros.0.succeeds("ADD"));
                node.vsctl(&["wait-until", "Interface", &ikaros.0.link()]).unwrap();
                let ports = node.vsctl(&["list-ports", "br-int"]).unwrap();
                assert!(!ports.contains(&port), "{ports}");
                drop(stopped);
                other.join().unwrap();
            });
            wait_for_ports(node, 2);
            for (runtime, _) in [&argo, &ikaros] {
                runtime.succeeds("CHECK");
            }
            argo.1.command("ping").args(["-c1", "-w10", "-i0.05", "10.0.0.8"]).read().unwrap();
            for (runtime, _) in [&argo, &ikaros] {
                runtime.succeeds("DEL");
            }
            assert_eq!(made_on(node), Vec::<String>::new());
        })
        .await;
    });
}

#[test]
fn the_nodes_own_port_has_a_link_again_however_late_ovs_vswitchd_sees_that_it_was_removed() {
    Test::new().deadline(Duration::from_secs(300)).run(async |lab| {
        blocking(move || {
            let stage = Stage::start(&lab, 1, primary(60));
            let node = &stage.testbed.nodes()[0];
            let shown = |node: &Node| node.command("ip").args(["-o", "link", "show", "portolan0"]).read();
            let is_up = |node: &Node| shown(node).is_ok_and(|link| link.contains(",UP"));
            wait_for_links(node, is_up);
            // The link is removed, and its port, to have both made anew.
            let stopped = Stopped::vswitchd(node);
            let raised =
                format!("next_cfg>{}", node.vsctl(&["get", "Open_vSwitch", ".", "next_cfg"]).unwrap());
            node.namespace().ip("link del portolan0").unwrap();
            node.vsctl(&["--no-wait", "del-port", "br-int", "portolan0"]).unwrap();
            node.vsctl(&["wait-until", "Open_vSwitch", ".", &raised]).unwrap();
            let ports = node.vsctl(&["list-ports", "br-int"]).unwrap();
            assert!(!ports.contains("portolan0"), "{ports}");
            drop(stopped);
            wait_for_links(node, is_up);
        })
        .await;
    });
}
