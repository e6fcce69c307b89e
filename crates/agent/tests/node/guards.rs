//! The guards of links: what keeps pods from the node's own stack.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use portolan_host::{GuardChange, GuardMonitor, LinkChange, LinkMonitor};
use portolan_testbed::{Node, Test};
use tokio::io::unix::AsyncFd;

use crate::stage::{Agents, Runtime, Stage, blocking, made_on};

/// Waits until these links have their guards again, from when the monitor was opened.
pub(crate) fn wait_for_guards(monitor: GuardMonitor, links: &[String]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        #[expect(deprecated, reason = "its successor is unsafe")]
        let monitor = AsyncFd::new(monitor).unwrap();
        let mut missing: BTreeSet<_> = links.iter().cloned().collect();
        while !missing.is_empty() {
            let mut ready = monitor.readable().await.unwrap();
            let Ok(changes) = ready.try_io(|monitor| monitor.get_ref().read()) else { continue };
            for change in changes.unwrap() {
                if let GuardChange::Present(link) = change {
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

/// Puts a program in nft's place on a node that hangs when it is asked about a link, and says so in `/run/stuck`.
fn nft_hangs_for(node: &Node, link: &str) {
    let script = format!(
        "#!/bin/sh\nbatch=$(cat)\ncase \"$batch\" in *{link}*) echo stuck > /run/stuck; exec sleep infinity;; esac\n\
         printf %s \"$batch\" | /run/nft \"$@\"\n"
    );
    let fake = node.run_directory().join("nft-that-hangs");
    std::fs::write(&fake, script).unwrap();
    std::fs::set_permissions(&fake, std::fs::Permissions::from_mode(0o755)).unwrap();
    let commands = "cp $(command -v nft) /run/nft && mkfifo /run/stuck && mount --bind /run/nft-that-hangs $(command -v nft)";
    node.command("sh").args(["-c", commands]).read().unwrap();
}

#[test]
fn guards_that_somebody_removes_come_back_and_one_that_hangs_holds_up_no_other_pod() {
    Test::new().deadline(Duration::from_secs(300)).run(async |lab| {
        blocking(move || {
            let stage =
                Stage::start(&lab, 1, Agents { deadline: Duration::from_secs(60), ..Agents::default() });
            let node = &stage.testbed.nodes()[0];
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
            node.command("nft").args(["flush", "ruleset"]).read().unwrap();
            wait_for_guards(monitor, &links);
            // A guard that lets everything through is none.
            let monitor = node.namespace().run(GuardMonitor::open).unwrap();
            let open = "{ policy accept; }";
            node.command("nft").args(["add", "chain", "netdev", "portolan", &links[1], open]).read().unwrap();
            wait_for_guards(monitor, &links[1..]);
            let ruleset = node.command("nft").args(["list", "ruleset"]).read().unwrap();
            assert_eq!(ruleset.matches("policy drop").count(), 2, "{ruleset}");

            // A link that somebody sets down comes up again.
            let monitor = node.namespace().run(LinkMonitor::open).unwrap();
            node.namespace().ip(&format!("link set {} down", links[1])).unwrap();
            wait_for_link_up(monitor, &links[1]);

            nft_hangs_for(node, &links[0]);
            let monitor = node.namespace().run(GuardMonitor::open).unwrap();
            let delete = format!("/run/nft delete chain netdev portolan {}", links[0]);
            node.command("sh").args(["-c", &delete]).read().unwrap();
            node.command("cat").arg("/run/stuck").read().unwrap();
            ikaros.succeeds("DEL");
            node.command("sh").args(["-c", "umount $(command -v nft)"]).read().unwrap();
            wait_for_guards(monitor, &links[..1]);
            argo.succeeds("CHECK");
            argo.succeeds("DEL");
            assert_eq!(made_on(node), Vec::<String>::new());
        })
        .await;
    });
}
