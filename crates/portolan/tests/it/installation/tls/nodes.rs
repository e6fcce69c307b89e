//! When nodes may connect to the southbound database, and that they go on being able to.

use std::time::Duration;

use portolan_testbed::{Node, Result, Test, TestLab};

use super::member::Member;
use super::stage::Stage;

const REMOTE: &str = "db:OVN_Southbound,SB_Global,connections";

/// Whether the southbound database listens for nodes.
fn listens(member: &Member<'_>) -> Result<bool> {
    let list = ["-t", "/run/ovn/ovnsb_db.ctl", "ovsdb-server/list-remotes"];
    Ok(member.machine.command("ovs-appctl").args(list).read()?.contains(REMOTE))
}

fn sbctl(member: &Member<'_>, arguments: &[&str]) -> Result<String> {
    let socket = "--db=unix:/run/ovn/ovnsb_db.sock";
    member.machine.command("ovn-sbctl").args([socket, "--timeout=30"]).args(arguments).read()
}

fn nbctl(member: &Member<'_>, arguments: &[&str]) -> Result<String> {
    member.nbctl("unix:/run/ovn/ovnnb_db.sock", arguments).read()
}

/// The flows of ports, by OVN's numbers of their switches.
fn flows(node: &Node) -> Result<usize> {
    let dumped = node.command("ovs-ofctl").args(["dump-flows", "br-int", "--no-stats"]).read()?;
    Ok(dumped.lines().filter(|line| line.contains("metadata=")).count())
}

#[test]
fn a_node_keeps_its_flows_while_ovns_databases_are_empty_or_old() {
    Test::new().deadline(Duration::from_secs(300)).run(async |lab: TestLab| -> Result<()> {
        let stage = Stage::new(&lab)?;
        let _signer = stage.signer()?;
        let controller = stage.controller(&[])?;
        let mut member = Member::new(&stage, 0, "host0")?;
        member.begin(1)?;
        member.wait_until_ready()?;
        let node = stage.node("node1")?;
        node.vsctl(&[
            "set",
            "Open_vSwitch",
            ".",
            &format!("external-ids:ovn-remote=ssl:{}:6642", member.machine.address()),
        ])?;
        let _ovn_controller = stage.ovn_controller(&node)?;
        nbctl(&member, &["ls-add", "harbour", "--", "lsp-add", "harbour", "boat"])?;
        let interface = ["type=internal", "external-ids:iface-id=boat"];
        let add = ["add-port", "br-int", "boat0", "--", "set", "Interface", "boat0"];
        node.vsctl(&[&add[..], &interface].concat())?;
        nbctl(&member, &["wait-until", "Logical_Switch_Port", "boat", "up=true"])?;
        nbctl(&member, &["--wait=hv", "sync"])?;
        assert!(listens(&member)?);
        let before = flows(&node)?;
        assert!(before > 50, "{before}");

        // The listener is kept: without the row nobody gets in, and without the role everybody may do everything.
        for damage in [&["del-connection"][..], &["set-connection", "pssl:6642:0.0.0.0"]] {
            sbctl(&member, damage)?;
            let row = ["--bare", "--columns=target,role", "list", "Connection"];
            while sbctl(&member, &row)?.split_whitespace().collect::<Vec<_>>()
                != ["pssl:6642:0.0.0.0", "ovn-controller"]
            {
                assert!(member.processes[1].is_alive(), "{}", member.processes[1].log_tail());
            }
        }
        nbctl(&member, &["--wait=hv", "sync"])?;

        // Another pod, where the files are from long ago, or lost; and nobody who could fill the databases.
        for lost in [false, true] {
            controller.kill()?;
            member.kill()?;
            if lost {
                member.lose_disk();
            }
            member.begin(1)?;
            member.wait_until_ready()?;
            nbctl(&member, &["--wait=sb", "sync"])?;
            assert!(!listens(&member)?, "lost: {lost}");
            let log = member.processes[1].log_tail();
            assert!(
                log.contains("does not listen for nodes: nodes wait until a controller has filled"),
                "{log}"
            );
            assert_eq!(flows(&node)?, before, "lost: {lost}");
            if lost {
                // What was made by hand is gone with the files.
                nbctl(&member, &["ls-add", "harbour", "--", "lsp-add", "harbour", "boat"])?;
            }
            // It was killed: begun anew.
            controller.restart()?;
            while !listens(&member)? {
                assert!(controller.is_alive(), "{}", controller.log_tail());
            }
            nbctl(&member, &["wait-until", "Logical_Switch_Port", "boat", "up=true"])?;
            nbctl(&member, &["--wait=hv", "sync"])?;
        }

        // The same pod, whose database is what it was: nobody is needed.
        controller.kill()?;
        member.begin_containers(1)?;
        nbctl_when_ready(&member)
    });
}

fn nbctl_when_ready(member: &Member<'_>) -> Result<()> {
    member.wait_until_ready()?;
    nbctl(member, &["--wait=hv", "sync"]).map(drop)
}
