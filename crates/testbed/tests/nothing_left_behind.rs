//! However a test ends, nothing of its lab remains: no process, no namespace, no mount, no file.

#![allow(clippy::unwrap_used, reason = "clippy.toml allows it in tests; these are their helpers")]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use portolan_testbed::{Daemon, Etcd, Lab, Node, OvnCentral, Test, TestLab, Underlay, VethGuest};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

const VICTIM: &str = "PORTOLAN_LAB_TEST_VICTIM";

#[test]
fn after_sigkill() {
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "victim_of_after_sigkill", "--ignored", "--nocapture"])
        .env(VICTIM, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(victim.stdout.take().unwrap()).lines().map(Result::unwrap);
    let lab =
        lines.filter_map(|line| line.strip_prefix("lab ").map(PathBuf::from)).next().expect("it has a lab");

    let traces = Traces::of(&lab, Some(victim.id()));
    for name in ["ovsdb-server", "ovs-vswitchd", "ovn-controller", "ovn-northd", "etcd", "sleep", "sh"] {
        assert!(traces.names.contains(name), "{name} runs: {:?}", traces.names);
    }
    // Networks of home, fabric, node and pod; the mounts of the node.
    assert!(traces.namespaces.len() >= 5, "{:?}", traces.namespaces);

    victim.kill().unwrap();
    victim.wait().unwrap();
    traces.assert_gone();
}

#[test]
#[ignore = "run, and killed, by after_sigkill"]
fn victim_of_after_sigkill() {
    if std::env::var_os(VICTIM).is_none() {
        return;
    }
    portolan_testbed::test(async |lab| {
        let _components = raise_some(&lab);
        println!("\nlab {}", lab.path().display());
        std::future::pending::<()>().await;
    });
}

#[test]
fn after_a_panic() {
    let (send, traces) = mpsc::channel();
    let panic = catch_unwind(AssertUnwindSafe(|| {
        portolan_testbed::test(async move |lab| -> () {
            let _components = raise_some(&lab);
            send.send(Traces::of(lab.path(), None)).unwrap();
            panic!("the test's own words");
        });
    }));
    assert_eq!(*panic.unwrap_err().downcast::<&str>().unwrap(), "the test's own words");
    let traces = traces.recv().unwrap();
    assert!(traces.names.contains("etcd"));
    traces.assert_gone();
}

#[test]
fn after_a_deadline() {
    let (send, traces) = mpsc::channel();
    let panic = catch_unwind(AssertUnwindSafe(|| {
        Test::new().deadline(Duration::from_secs(2)).run(async move |lab: TestLab| {
            let namespace = lab.namespace("further").unwrap();
            let _daemon = Daemon::new("sleep", "sleep").arg("1000").start(&namespace).unwrap();
            send.send(Traces::of(lab.path(), None)).unwrap();
            std::future::pending::<()>().await;
        });
    }));
    assert_eq!(*panic.unwrap_err().downcast::<String>().unwrap(), "the test was not done after 2s");
    traces.recv().unwrap().assert_gone();
}

#[test]
fn after_a_deadline_of_a_body_that_blocks() {
    let (send, traces) = mpsc::channel();
    let panic = catch_unwind(AssertUnwindSafe(|| {
        Test::new().deadline(Duration::from_secs(1)).run(async move |lab: TestLab| {
            let daemon = Daemon::new("sleep", "sleep").arg("1000").start(lab.home()).unwrap();
            send.send(Traces::of(lab.path(), None)).unwrap();
            while daemon.is_alive() {
                std::thread::park_timeout(Duration::from_millis(10));
            }
            std::thread::park();
        });
    }));
    let panic = panic.unwrap_err().downcast::<String>().unwrap();
    assert_eq!(*panic, "the test was not done after 1s and blocks its thread");
    let traces = traces.recv().unwrap();
    traces.assert_processes_gone();
    assert!(!traces.lab.exists());
}

/// Some of everything, and a process that is nobody's child.
fn raise_some(lab: &Lab) -> impl Sized + use<> {
    let underlay = Underlay::start(lab).unwrap();
    let central = OvnCentral::builder().start(lab).unwrap();
    let node = Node::builder("node1").ovn(&central).start(&underlay).unwrap();
    let pod = VethGuest::new(&node, "pod1").unwrap();
    let in_pod = Daemon::new("in-pod", "sleep").arg("1000").start(pod.namespace()).unwrap();
    let etcd = Etcd::builder().start(lab).unwrap();
    node.command("sh")
        .args(["-c", "setsid sh -c 'while sleep 1000; do :; done' >/dev/null 2>&1 &"])
        .read()
        .unwrap();
    (in_pod, pod, node, central, underlay, etcd)
}

/// What can be seen of a lab from outside.
struct Traces {
    lab: PathBuf,
    names: BTreeSet<String>,
    processes: Vec<(PathBuf, OwnedFd)>,
    namespaces: BTreeSet<PathBuf>,
    residents: BTreeSet<Resident>,
}

/// A thread in a namespace. The kernel gives the number of a namespace that is gone to the next one, so a namespace remains
/// if someone remains in it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Resident {
    thread: PathBuf,
    started: String,
    namespace: PathBuf,
}

impl Traces {
    fn of(lab: &Path, owner: Option<u32>) -> Self {
        let mark = format!("PORTOLAN_LAB={}", lab.display());
        let is_marked = |process: &PathBuf| {
            let environment = fs::read(process.join("environ")).unwrap_or_default();
            environment.split(|&byte| byte == 0).any(|entry| entry == mark.as_bytes())
        };
        let is_warden = |process: &PathBuf| {
            let command = fs::read(process.join("cmdline")).unwrap_or_default();
            owner.is_some()
                && command.split(|&byte| byte == 0).any(|word| word == b"warden")
                && stat(process, 1).and_then(|parent| parent.parse().ok()) == owner
        };
        let processes: Vec<_> =
            all_processes().filter(|process| is_marked(process) || is_warden(process)).collect();
        // Those of this process's first thread, which is not in any lab.
        let machine = ["net", "mnt"].map(|kind| fs::read_link(format!("/proc/self/ns/{kind}")).unwrap());
        let owner = owner.map(|pid| PathBuf::from(format!("/proc/{pid}")));
        let namespaces: BTreeSet<_> = processes
            .iter()
            .chain(&owner)
            .flat_map(|process| residents(process))
            .map(|resident| resident.namespace)
            .filter(|namespace| !machine.contains(namespace))
            .collect();
        Self {
            lab: lab.into(),
            names: processes.iter().map(|process| name_of(process)).collect(),
            residents: all_residents().filter(|one| namespaces.contains(&one.namespace)).collect(),
            namespaces,
            processes: processes.into_iter().map(|process| (process.clone(), watch(&process))).collect(),
        }
    }

    fn assert_gone(&self) {
        self.assert_processes_gone();
        assert!(!self.lab.exists(), "{} is gone", self.lab.display());
        // A thread that was joined is still on its way out of its namespaces, and of that there is no event.
        let deadline = Instant::now() + Duration::from_secs(10);
        while let Some(left) = all_residents().find(|one| self.residents.contains(one)) {
            assert!(Instant::now() < deadline, "{left:?} is left");
            std::thread::yield_now();
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(!mounts.contains(self.lab.to_str().unwrap()), "{mounts}");
    }

    /// The warden is among them and ends last, when it has removed the directory.
    fn assert_processes_gone(&self) {
        let deadline = Instant::now() + Duration::from_secs(10);
        for (process, pidfd) in &self.processes {
            let left = Timespec::try_from(deadline.saturating_duration_since(Instant::now())).unwrap();
            let ended = poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&left)).unwrap() == 1;
            assert!(
                ended,
                "{} has ended: {}",
                name_of(process),
                fs::read_to_string(process.join("status")).unwrap()
            );
        }
    }
}

fn all_processes() -> impl Iterator<Item = PathBuf> {
    let is_process =
        |path: &PathBuf| path.file_name().unwrap().as_encoded_bytes().iter().all(u8::is_ascii_digit);
    fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path()).filter(is_process)
}

fn watch(process: &Path) -> OwnedFd {
    let pid = process.file_name().unwrap().to_str().unwrap().parse().unwrap();
    pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()).unwrap()
}

fn name_of(process: &Path) -> String {
    fs::read_to_string(process.join("comm")).unwrap_or_default().trim().to_owned()
}

fn all_residents() -> impl Iterator<Item = Resident> {
    all_processes().flat_map(|process| residents(&process))
}

/// The threads of a process, once for each of their network and mount namespaces.
fn residents(process: &Path) -> Vec<Resident> {
    let threads = fs::read_dir(process.join("task")).into_iter().flatten().flatten();
    let resident = |thread: &PathBuf, kind| {
        let namespace = fs::read_link(thread.join(kind)).ok()?;
        Some(Resident { thread: thread.clone(), started: stat(thread, 19)?, namespace })
    };
    threads
        .map(|thread| thread.path())
        .flat_map(|thread| ["ns/net", "ns/mnt"].map(|kind| resident(&thread, kind)))
        .flatten()
        .collect()
}

/// A field of `stat` in proc(5), counted from the one that follows the name.
fn stat(process: &Path, field: usize) -> Option<String> {
    let stat = fs::read_to_string(process.join("stat")).ok()?;
    stat.rsplit(") ").next()?.split(' ').nth(field).map(Into::into)
}
