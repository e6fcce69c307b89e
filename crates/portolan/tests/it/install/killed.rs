//! Installations that are killed.

use std::process::Child;

use portolan_host::DirectoryMonitor;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::install::stage::{Agent, Stage, primary, types};

/// Killed as soon as the directories have changed so many times, which is somewhere between two operations on files: what is there is
/// whole, and the next installation ends as if nothing had been.
#[test]
fn an_installation_killed_anywhere_leaves_nothing_broken_and_the_next_one_ends_the_same() {
    let stage = Stage::new();
    let _agent = Agent::listen(&stage.socket(), 0);
    let built = std::fs::read(portolan_testbed::cluster::Programs::built().unwrap().plugin()).unwrap();
    std::fs::create_dir(stage.bin()).unwrap();
    let mut killed = 0;
    for changes in 0..10 {
        stage.write("10-cluster.conflist", &primary(changes));
        for name in stage.programs() {
            // Another version, to be replaced.
            let mut older = built.clone();
            older.extend(changes.to_be_bytes());
            std::fs::write(stage.bin().join("../older"), older).unwrap();
            std::fs::rename(stage.bin().join("../older"), stage.bin().join(name)).unwrap();
        }
        let monitors =
            [stage.bin(), stage.configurations()].map(|place| DirectoryMonitor::open(&place).unwrap());
        let mut install = stage.install(&[]);
        wait_for_changes(&install, &monitors, changes);
        install.kill().unwrap();
        killed += usize::from(!install.wait().unwrap().success());

        for name in stage.programs().iter().filter(|name| !name.starts_with('.')) {
            let found = std::fs::read(stage.bin().join(name)).unwrap();
            assert!(found.starts_with(&built), "{name} is broken after {changes} changes");
        }
        let list = stage.first();
        let chained = types(&list).contains(&"portolan-cni");
        assert!(
            !chained || stage.programs().contains(&"portolan-cni".to_owned()),
            "no plugin after {changes}"
        );

        assert!(stage.install(&[]).wait().unwrap().success());
        assert_eq!(stage.files(), ["00-portolan.conflist", "10-cluster.conflist"], "after {changes} changes");
        assert_eq!(stage.programs(), ["kube-ovn", "ovn4nfvk8s-cni", "portolan", "portolan-cni"]);
        assert_eq!(stage.first()["plugins"][0]["round"], changes);
        for name in stage.programs() {
            assert!(std::fs::read(stage.bin().join(&name)).unwrap() == built, "{name} is not the newest");
        }
    }
    assert!(killed >= 3, "only {killed} installations were killed before their end");
}

/// Waits until the directories have changed so many times since, or the installation has ended.
fn wait_for_changes(install: &Child, monitors: &[DirectoryMonitor; 2], changes: u32) {
    let process = pidfd_open(Pid::from_child(install), PidfdFlags::empty()).unwrap();
    for _ in 0..changes {
        let [programs, configurations] = monitors;
        let mut awaited = [
            PollFd::new(&process, PollFlags::IN),
            PollFd::new(programs, PollFlags::IN),
            PollFd::new(configurations, PollFlags::IN),
        ];
        poll(&mut awaited, None).unwrap();
        if !awaited[0].revents().is_empty() {
            return;
        }
        for monitor in monitors {
            let _ = monitor.read();
        }
    }
}
