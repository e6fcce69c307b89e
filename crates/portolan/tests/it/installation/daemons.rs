//! What the containers of the installation run: OVN's central daemons, Open vSwitch and ovn-controller, each under `portolan`.

use std::path::Path;

use portolan_testbed::{Daemon, Node, Process, Ready, Result, TestLab, Underlay, test};

use crate::installation::PORTOLAN;

/// A daemon under `portolan`, which says when it is ready.
fn start(lab: &TestLab, name: &str, arguments: &[&str], directory: &Path) -> Result<Process> {
    daemon(name, arguments, directory).start(lab.home())
}

fn daemon(name: &str, arguments: &[&str], directory: &Path) -> Daemon {
    let run = format!("--run-dir={}", directory.display());
    // Its log is short, then.
    let quiet = Daemon::new(name, PORTOLAN).env("RUST_BACKTRACE", "0");
    quiet.args(arguments).arg(run).ready(Ready::Notify)
}

fn database(lab: &TestLab, kind: &str, directory: &Path, more: &[&str]) -> Process {
    let data = format!("--data-dir={}", directory.join("data").display());
    start(lab, kind, &[&["ovn-central", kind, &data], more].concat(), directory).unwrap()
}

fn nbctl(lab: &TestLab, directory: &Path, arguments: &[&str]) -> String {
    let socket = format!("--db=unix:{}", directory.join("ovnnb_db.sock").display());
    lab.command("ovn-nbctl").args([&socket, "--timeout=30"]).args(arguments).read().unwrap()
}

fn sbctl(lab: &TestLab, socket: &str, arguments: &[&str]) -> String {
    lab.command("ovn-sbctl").args([&format!("--db={socket}"), "--timeout=30"]).args(arguments).read().unwrap()
}

/// What a page answers.
fn page(lab: &TestLab, port: u16, path: &str) -> String {
    let url = format!("http://127.0.0.1:{port}{path}");
    lab.command("curl").args(["-sS", &url]).read().unwrap()
}

#[test]
fn ovn_central_keeps_its_databases_and_northd_translates_between_them() {
    test(async |lab| {
        let directory = lab.directory("central").unwrap();
        let port = lab.port();
        let northbound = database(
            &lab,
            "northbound",
            &directory,
            &["--listen=127.0.0.1", &format!("--health-address={port}")],
        );
        let southbound = database(&lab, "southbound", &directory, &["--listen=127.0.0.1"]);
        let northd = start(&lab, "northd", &["ovn-central", "northd"], &directory).unwrap();
        assert_eq!(page(&lab, port, "/readyz"), "ok");
        nbctl(&lab, &directory, &["--wait=sb", "ls-add", "harbour"]);
        let names = sbctl(
            &lab,
            "tcp:127.0.0.1:6642",
            &["--bare", "--columns=external_ids", "list", "Datapath_Binding"],
        );
        assert!(names.contains("name=harbour"), "{names}");
        for daemon in [&northd, &southbound, &northbound] {
            daemon.stop().unwrap();
        }
        for daemon in [&northbound, &southbound, &northd] {
            daemon.restart().unwrap();
        }
        assert!(nbctl(&lab, &directory, &["ls-list"]).contains("harbour"));
        // Killed, so that nobody hands the signal on.
        northbound.kill().unwrap();
        northbound.restart().unwrap();
        assert!(nbctl(&lab, &directory, &["ls-list"]).contains("harbour"));
    });
}

#[test]
fn a_container_ends_with_its_daemon_and_says_so() {
    test(async |lab| {
        let directory = lab.directory("central").unwrap();
        let northbound = database(&lab, "northbound", &directory, &[]);
        let pid = std::fs::read_to_string(directory.join("ovnnb_db.pid")).unwrap();
        lab.command("kill").args(["-KILL", pid.trim()]).read().unwrap();
        while northbound.is_alive() {
            std::thread::yield_now();
        }
        let log = northbound.log_tail();
        assert!(log.contains("ovsdb-server ended") && log.contains("signal: 9"), "{log}");
    });
}

#[test]
fn a_daemon_that_cannot_be_prepared_says_what_is_wrong() {
    test(async |lab| {
        let directory = lab.directory("central").unwrap();
        std::fs::create_dir_all(directory.join("data")).unwrap();
        std::fs::write(directory.join("data/ovnnb_db.db"), "somebody's").unwrap();
        let data = format!("--data-dir={}", directory.join("data").display());
        let error = start(&lab, "northbound", &["ovn-central", "northbound", &data], &directory).unwrap_err();
        assert!(error.to_string().contains("ovnnb_db.db"), "{error}");
        let schema = ["ovn-central", "southbound", &data, "--schema-dir=/nowhere"];
        let error = start(&lab, "southbound", &schema, &directory).unwrap_err();
        assert!(error.to_string().contains("/nowhere"), "{error}");
    });
}

#[test]
fn open_vswitch_has_its_first_row_and_keeps_its_bridges() {
    test(async |lab| {
        let directory = lab.directory("switch").unwrap();
        let data = format!("--data-dir={}", directory.join("data").display());
        let database = start(&lab, "database", &["ovs", "database", &data], &directory).unwrap();
        let vswitchd = start(&lab, "vswitchd", &["ovs", "vswitchd"], &directory).unwrap();
        let socket = format!("--db=unix:{}", directory.join("db.sock").display());
        let vsctl = |arguments: &[&str]| {
            lab.command("ovs-vsctl").args([&socket, "--timeout=30"]).args(arguments).read().unwrap()
        };
        let version = vsctl(&["get", "Open_vSwitch", ".", "ovs_version"]);
        assert!(version.trim().trim_matches('"').split('.').count() >= 3, "{version}");
        // Waits until ovs-vswitchd has done it.
        vsctl(&["add-br", "br-test", "--", "set", "Bridge", "br-test", "datapath_type=netdev"]);
        for daemon in [&vswitchd, &database] {
            daemon.stop().unwrap();
        }
        for daemon in [&database, &vswitchd] {
            daemon.restart().unwrap();
        }
        assert_eq!(vsctl(&["list-br"]).trim(), "br-test");
        // Tools of the host find it by its process id.
        let control = lab.command("ovs-appctl").env("OVS_RUNDIR", &directory);
        let shown = control.args(["-t", "ovs-vswitchd", "dpif/show"]).read().unwrap();
        assert!(shown.contains("br-test"), "{shown}");
    });
}

#[test]
fn ovn_controller_leaves_flows_and_chassis_when_it_is_stopped() {
    test(async |lab| {
        let directory = lab.directory("central").unwrap();
        let _northbound = database(&lab, "northbound", &directory, &[]);
        let _southbound = database(&lab, "southbound", &directory, &["--listen=172.31.0.1"]);
        let _northd = start(&lab, "northd", &["ovn-central", "northd"], &directory).unwrap();
        let underlay = Underlay::start(&lab).unwrap();
        let node = Node::builder("node1").start(&underlay).unwrap();
        let address = node.address().to_string();
        node.vsctl(&[
            "set",
            "Open_vSwitch",
            ".",
            "external-ids:system-id=node1",
            "external-ids:hostname=node1",
            "external-ids:ovn-remote=tcp:172.31.0.1:6642",
            "external-ids:ovn-encap-type=geneve",
            &format!("external-ids:ovn-encap-ip={address}"),
            "external-ids:ovn-bridge-datapath-type=netdev",
        ])
        .unwrap();
        // Its bridge is the agent's to make: it alone knows which datapath there is.
        node.vsctl(&["del-br", "br-int"]).unwrap();
        let run = Path::new("/run/ovn");
        let controller = daemon("ovn-controller", &["ovn-controller"], run).spawn(node.namespace()).unwrap();
        while !controller.log_tail().contains("waiting for bridge br-int") {
            assert!(controller.is_alive(), "{}", controller.log_tail());
            std::thread::yield_now();
        }
        assert!(!node.vsctl(&["list-br"]).unwrap().contains("br-int"));
        let secure = ["--", "set", "Bridge", "br-int", "datapath_type=netdev", "fail-mode=secure"];
        node.vsctl(&[&["add-br", "br-int"][..], &secure].concat()).unwrap();
        controller.wait_until_ready().unwrap();
        nbctl(&lab, &directory, &["ls-add", "harbour", "--", "lsp-add", "harbour", "boat"]);
        node.vsctl(&[
            "add-port",
            "br-int",
            "boat0",
            "--",
            "set",
            "Interface",
            "boat0",
            "type=internal",
            "external-ids:iface-id=boat",
        ])
        .unwrap();
        nbctl(&lab, &directory, &["--wait=hv", "sync"]);
        let flows = || {
            let dumped =
                node.command("ovs-ofctl").args(["dump-flows", "br-int", "--no-stats"]).read().unwrap();
            dumped.lines().filter(|line| line.contains("metadata=")).count()
        };
        let before = flows();
        assert!(before > 50, "{before}");
        controller.stop().unwrap();
        assert_eq!(flows(), before, "{}", controller.log_tail());
        let southbound = format!("unix:{}", directory.join("ovnsb_db.sock").display());
        let chassis = sbctl(&lab, &southbound, &["--bare", "--columns=name", "list", "Chassis"]);
        assert_eq!(chassis.trim(), "node1");
        controller.restart().unwrap();
        nbctl(&lab, &directory, &["--wait=hv", "sync"]);
        assert_eq!(flows(), before);
    });
}
