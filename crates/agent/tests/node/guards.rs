//! The guards of links: what keeps pods from the node's own stack.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use portolan_host::{Admits, GuardChange, GuardMonitor, LinkChange, LinkMonitor};
use portolan_testbed::{Node, Test};
use tokio::io::unix::AsyncFd;

use crate::stage::{Agents, Runtime, Stage, blocking, made_on};

/// Waits until these links have guards that let this through again, from when the monitor was opened.
pub(crate) fn wait_for_guards(monitor: GuardMonitor, links: &[String], admits: Admits) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        #[expect(deprecated, reason = "its successor is unsafe")]
        let monitor = AsyncFd::new(monitor).unwrap();
        let mut missing: BTreeSet<_> = links.iter().cloned().collect();
        while !missing.is_empty() {
            let mut ready = monitor.readable().await.unwrap();
            let Ok(changes) = ready.try_io(|monitor| monitor.get_ref().read()) else { continue };
            for change in changes.unwrap() {
                if let GuardChange::Present(link, is) = change
                    && is == admits
                {
                    missing.remove(&link);
                }
            }
        }
    });
}

/// Waits until a link that was set down is up again, from when the monitor was opened.
fn wait_for_link_up(monitor: LinkMonitor, link: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        #[expect(deprecated, reason = "its successor is unsafe")]
        let monitor = AsyncFd::new(monitor).unwrap();
        let mut was_down = false;
        loop {
            let mut ready = monitor.readable().await.unwrap();
            let Ok(changes) = ready.try_io(|monitor| monitor.get_ref().read()) else { continue };
            for change in changes.unwrap() {
                match change {
                    LinkChange::Present(one) if one.name == link && one.up && was_down => return,
                    LinkChange::Present(one) if one.name == link => was_down |= !one.up,
                    _ => {}
                }
            }
        }
    });
}

/// Puts a program in nft's place on a node that fails.
fn nft_fails(node: &Node) {
    let fake = node.run_directory().join("nft-that-fails");
    std::fs::write(&fake, "#!/bin/sh\nexit 1\n").unwrap();
    std::fs::set_permissions(&fake, std::fs::Permissions::from_mode(0o755)).unwrap();
    let commands = "cp $(command -v nft) /run/nft && mount --bind /run/nft-that-fails $(command -v nft)";
    node.command("sh").args(["-c", commands]).read().unwrap();
}

/// Runs the real one.
fn nft(node: &Node, arguments: &str) -> String {
    node.command("sh").args(["-c", &format!("/run/nft {arguments}")]).read().unwrap()
}

#[test]
fn pods_are_guarded_without_any_program_and_guards_that_somebody_removes_come_back() {
    Test::new().deadline(Duration::from_secs(300)).run(async |lab| {
        blocking(move || {
            let stage =
                Stage::start(&lab, 1, Agents { deadline: Duration::from_secs(60), ..Agents::default() });
            let node = &stage.testbed.nodes()[0];
            nft_fails(node);
            let mut sandboxes = Vec::new();
            for (last, name) in ["argo", "ikaros"].into_iter().enumerate() {
                let uid = stage.pod(name, "node1");
                stage.assign(name, &uid, "node1", u8::try_from(last).unwrap() + 7);
                let netns = node.namespace().network_beside(name).unwrap();
                let runtime = Runtime::new(node, &format!("cafe0{last}"), name, &uid, &netns);
                runtime.succeeds("ADD");
                sandboxes.push((runtime, netns));
            }
            let links = [sandboxes[0].0.link(), sandboxes[1].0.link()];
            let [(argo, _), (ikaros, _)] = &sandboxes[..] else { unreachable!() };

            // As a firewall does when it is restarted.
            let monitor = node.namespace().run(GuardMonitor::open).unwrap();
            nft(node, "flush ruleset");
            wait_for_guards(monitor, &links, Admits::Nothing);
            // A guard that lets everything through is none.
            let monitor = node.namespace().run(GuardMonitor::open).unwrap();
            nft(node, &format!("'add chain netdev portolan {} {{ policy accept; }}'", links[1]));
            wait_for_guards(monitor, &links[1..], Admits::Nothing);
            // Nor is one that somebody has opened.
            let monitor = node.namespace().run(GuardMonitor::open).unwrap();
            nft(node, &format!("add rule netdev portolan {} accept", links[0]));
            wait_for_guards(monitor, &links[..1], Admits::Nothing);
            let ruleset = nft(node, "list ruleset");
            let [drops, accepts] = ["policy drop", "accept"].map(|text| ruleset.matches(text).count());
            assert_eq!([drops, accepts], [2, 0], "{ruleset}");

            // A link that somebody sets down comes up again.
            let monitor = node.namespace().run(LinkMonitor::open).unwrap();
            node.namespace().ip(&format!("link set {} down", links[1])).unwrap();
            wait_for_link_up(monitor, &links[1]);

            ikaros.succeeds("DEL");
            argo.succeeds("CHECK");
            argo.succeeds("DEL");
            node.command("sh").args(["-c", "umount $(command -v nft)"]).read().unwrap();
            assert_eq!(made_on(node), Vec::<String>::new());
        })
        .await;
    });
}
