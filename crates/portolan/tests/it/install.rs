//! `portolan agent install` and `portolan agent uninstall`: the real binaries on real directories, read meanwhile as a container runtime reads
//! them. The agent is played, but for the last test, where a pod is made by what was installed.

mod killed;
mod node;
mod stage;

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use crate::install::stage::{Agent, Stage, primary};

#[test]
fn nothing_is_installed_before_the_agent_is_ready() {
    let stage = Stage::new();
    stage.write("10-cluster.conflist", &primary(0));
    let agent = Agent::listen(&stage.socket(), 3);
    let mut install = stage.install(&["--follow"]);
    for _ in 0..3 {
        agent.asked();
        assert_eq!(stage.files(), ["10-cluster.conflist"], "the agent is not ready");
        assert_eq!(stage.programs(), Vec::<String>::new(), "the agent is not ready");
        agent.go_on();
    }
    stage.wait_for("00-portolan.conflist");
    assert_eq!(stage.programs(), ["kube-ovn", "ovn4nfvk8s-cni", "portolan", "portolan-cni"]);
    stage.end(&mut install);
    assert_eq!(stage.files(), ["00-portolan.conflist", "10-cluster.conflist"], "an end removes nothing");
}

#[test]
fn what_a_runtime_reads_is_whole_and_chained_while_the_primary_changes() {
    let stage = Stage::new();
    stage.write("10-cluster.conflist", &primary(0));
    let agent = Agent::listen(&stage.socket(), 0);
    let mut install = stage.install(&["--follow"]);
    stage.wait_for("00-portolan.conflist");
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut reads = 0;
            while !ended.load(Ordering::Relaxed) {
                let list = stage.first();
                assert_eq!(stage::types(&list), ["bridge", "portolan-cni"], "{list}");
                reads += 1;
            }
            reads
        });
        for round in 1..=100 {
            stage.write("10-cluster.conflist", &primary(round));
            // Every tenth is waited for; the others come while the one before is worked on.
            if round % 10 == 0 {
                stage.wait_until(|| stage.first()["plugins"][0]["round"] == round);
            }
        }
        ended.store(true, Ordering::Relaxed);
        assert!(reader.join().unwrap() > 100);
    });
    drop(agent);
    stage.end(&mut install);
}

#[test]
fn ours_goes_with_the_primary_and_comes_with_the_next() {
    let stage = Stage::new();
    let _agent = Agent::listen(&stage.socket(), 0);
    let mut install = stage.install(&["--follow"]);
    stage.write("10-cluster.conf", &json!({"cniVersion": "1.0.0", "name": "a", "type": "bridge"}));
    stage.wait_for("00-portolan.conflist");
    std::fs::remove_file(stage.configurations().join("10-cluster.conf")).unwrap();
    stage.wait_until(|| stage.files().is_empty());
    stage.write("00-other.conflist", &primary(7));
    stage.wait_for("0-portolan.conflist");
    assert_eq!(stage.first()["plugins"][0]["round"], 7);
    // Another program takes it away, as some primaries do.
    std::fs::remove_file(stage.configurations().join("0-portolan.conflist")).unwrap();
    stage.wait_for("0-portolan.conflist");
    stage.end(&mut install);
}

#[test]
fn a_directory_that_is_replaced_is_followed_again() {
    let stage = Stage::new();
    let _agent = Agent::listen(&stage.socket(), 0);
    stage.write("10-cluster.conflist", &primary(0));
    let mut install = stage.install(&["--follow"]);
    stage.wait_for("00-portolan.conflist");
    std::fs::rename(stage.configurations(), stage.configurations().with_extension("old")).unwrap();
    stage.wait_until(|| stage.configurations().is_dir());
    stage.write("10-cluster.conflist", &primary(1));
    stage.wait_for("00-portolan.conflist");
    stage.end(&mut install);
}

#[test]
fn without_follow_it_ends_and_says_what_is_in_the_way() {
    let stage = Stage::new();
    let _agent = Agent::listen(&stage.socket(), 0);
    let output = stage.install(&[]).wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("to be chained after"), "{said}");
    let output = stage.install(&["--mode", "alone"]).wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(stage::types(&stage.first()), ["portolan-cni"]);
    let written = stage.modified();
    assert!(stage.install(&["--mode", "alone"]).wait().unwrap().success());
    assert_eq!(stage.modified(), written, "a second installation changes nothing");
}

#[test]
fn uninstall_removes_what_was_installed_and_nothing_else() {
    let stage = Stage::new();
    stage.write("10-cluster.conflist", &primary(0));
    std::fs::create_dir_all(stage.bin()).unwrap();
    std::fs::write(stage.bin().join("kube-ovn"), "another program").unwrap();
    // It knows the plugin's mark, and is not the plugin.
    std::fs::copy(env!("CARGO_BIN_EXE_portolan"), stage.bin().join("portolan")).unwrap();
    let agent = Agent::listen(&stage.socket(), 0);
    let output = stage.install(&[]).wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("kube-ovn is not Portolan's"), "{said}");
    drop(agent);
    let said = stage.uninstall();
    assert_eq!(stage.files(), ["10-cluster.conflist"]);
    assert_eq!(stage.programs(), ["kube-ovn", "portolan"]);
    assert_eq!(std::fs::read_to_string(stage.bin().join("kube-ovn")).unwrap(), "another program");
    assert!(!stage.socket().exists(), "nobody listened at it any more");
    assert!(said.lines().next().unwrap().ends_with("00-portolan.conflist removed"), "{said}");
    std::fs::write(stage.socket(), "somebody's").unwrap();
    assert_eq!(stage.uninstall(), "", "there is nothing left to remove");
    assert!(stage.socket().exists(), "it is no socket");
}
