//! However a test ends, nothing of its cluster remains: no process, no control group, no namespace, no mount, no file.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use portolan_testbed::kubernetes::{Image, Kubernetes};
use portolan_testbed::{Result, Test, TestLab};

use crate::pods;

const VICTIM: &str = "PORTOLAN_KUBERNETES_TEST_VICTIM";

#[test]
fn nothing_is_left_of_a_cluster_after_sigkill() {
    if std::env::var_os(VICTIM).is_some() {
        return raise_and_wait();
    }
    let before = Machine::look();
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "nothing_left::nothing_is_left_of_a_cluster_after_sigkill", "--nocapture"])
        .env(VICTIM, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(victim.stdout.take().unwrap()).lines().map(std::result::Result::unwrap);
    let lab = lines.filter_map(|line| line.strip_prefix("lab ").map(PathBuf::from)).next();
    let lab = lab.expect("the cluster comes up");

    let there = Traces::of(&lab);
    let names: BTreeSet<_> = there.processes.iter().map(|(_, name)| name.as_str()).collect();
    for name in ["containerd", "containerd-shim", "kubelet", "kube-proxy", "pause", "agnhost", "etcd"] {
        assert!(names.contains(name), "{name} runs: {names:?}");
    }
    assert!(there.groups.len() > 20, "{:?}", there.groups);
    // Home, outside and fabric; network and mounts of two nodes; networks and mounts of pods.
    assert!(there.namespaces.len() > 10, "{:?}", there.namespaces);

    victim.kill().unwrap();
    victim.wait().unwrap();
    there.wait_until_gone();
    let after = Machine::look();
    assert_eq!(after, before, "the machine is as it was");
}

fn raise_and_wait() {
    Test::new().deadline(Duration::from_secs(300)).run(async |lab: TestLab| -> Result<()> {
        let cluster = Kubernetes::builder().nodes(2).start(&lab)?;
        cluster.load(&Image::agnhost()?)?;
        pods::client(&cluster, "first", "node1")?;
        pods::client(&cluster, "second", "node2")?;
        // Frozen as while its limits are changed: what is frozen does not die.
        let group = Path::new("/sys/fs/cgroup/freezer").join(lab.path().file_name().unwrap());
        if group.exists() {
            fs::write(group.join("node1/kubepods/freezer.state"), "FROZEN").unwrap();
        }
        // As a kubelet does, with a value that nothing else gives.
        let change = ["-c", "echo 11 >/proc/sys/kernel/panic && cat /proc/sys/kernel/panic"];
        assert_eq!(cluster.node("node1")?.command("sh")?.args(change).read()?, "11");
        println!("\nlab {}", lab.path().display());
        std::future::pending().await
    });
}

/// What can be seen of a lab from outside.
struct Traces {
    lab: PathBuf,
    processes: BTreeSet<(PathBuf, String)>,
    groups: BTreeSet<PathBuf>,
    namespaces: BTreeSet<PathBuf>,
}

impl Traces {
    fn of(lab: &Path) -> Self {
        let mark = format!("PORTOLAN_LAB={}", lab.display());
        let group = format!(":/{}/", lab.file_name().unwrap().display());
        let is_of_lab = |process: &PathBuf| {
            let environment = fs::read(process.join("environ")).unwrap_or_default();
            environment.split(|&byte| byte == 0).any(|entry| entry == mark.as_bytes())
                || fs::read_to_string(process.join("cgroup")).unwrap_or_default().contains(&group)
        };
        let processes: Vec<_> = processes().filter(is_of_lab).collect();
        let machine = ["net", "mnt"].map(|kind| fs::read_link(format!("/proc/self/ns/{kind}")).unwrap());
        let namespaces = processes.iter().flat_map(|process| namespaces(process));
        Self {
            lab: lab.into(),
            namespaces: namespaces.filter(|namespace| !machine.contains(namespace)).collect(),
            processes: processes.iter().map(|process| (process.clone(), name(process))).collect(),
            groups: groups_of(lab),
        }
    }

    /// The warden does its work beside us, and ends with the directory.
    fn wait_until_gone(&self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        let wait = |what: &dyn Fn() -> Option<String>| {
            while let Some(left) = what() {
                assert!(Instant::now() < deadline, "{left} is left");
                std::thread::park_timeout(Duration::from_millis(20));
            }
        };
        wait(&|| self.lab.exists().then(|| self.lab.display().to_string()));
        wait(&|| groups_of(&self.lab).first().map(|group| group.display().to_string()));
        let now = Traces::of(&self.lab);
        assert_eq!(now.processes, BTreeSet::new());
        // A process that is gone may still be on its way out of its namespaces, and of that there is no event.
        wait(&|| {
            let held =
                processes().find(|process| namespaces(process).any(|one| self.namespaces.contains(&one)));
            held.map(|process| format!("{} {}", process.display(), name(&process)))
        });
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(!mounts.contains(self.lab.to_str().unwrap()), "{mounts}");
    }
}

/// What a cluster must not change, of the machine's own.
#[derive(Debug, PartialEq, Eq)]
struct Machine {
    links: BTreeSet<String>,
    mounts: usize,
    directories: Vec<(&'static str, bool)>,
    /// Settings of the kernel that kubelets change.
    settings: Vec<(&'static str, Option<String>)>,
}

impl Machine {
    fn look() -> Self {
        let links = fs::read_dir("/sys/class/net").unwrap();
        let directories =
            ["/etc/cni", "/opt/cni", "/run/containerd", "/var/lib/kubelet", "/usr/libexec/kubernetes"];
        Self {
            links: links.map(|link| link.unwrap().file_name().into_string().unwrap()).collect(),
            mounts: fs::read_to_string("/proc/self/mountinfo").unwrap().lines().count(),
            directories: directories.map(|path| (path, Path::new(path).exists())).into(),
            settings: SETTINGS.map(|path| (path, fs::read_to_string(path).ok())).into(),
        }
    }
}

const SETTINGS: [&str; 6] = [
    "/proc/sys/kernel/keys/root_maxbytes",
    "/proc/sys/kernel/keys/root_maxkeys",
    "/proc/sys/kernel/panic",
    "/proc/sys/kernel/panic_on_oops",
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/vm/panic_on_oom",
];

/// Those of the machine that run.
pub(crate) fn processes() -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    let processes =
        entries.filter(|path| path.file_name().unwrap().as_encoded_bytes().iter().all(u8::is_ascii_digit));
    // One that has ended and was not waited for is in no namespace, and does nothing.
    processes.filter(|process| {
        let stat = fs::read_to_string(process.join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, fields)| !fields.starts_with(['Z', 'X']))
    })
}

fn namespaces(process: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    ["ns/net", "ns/mnt"].map(|kind| fs::read_link(process.join(kind)).ok()).into_iter().flatten()
}

fn name(process: &Path) -> String {
    fs::read_to_string(process.join("comm")).unwrap_or_default().trim().to_owned()
}

/// All control groups of a lab, in all hierarchies.
fn groups_of(lab: &Path) -> BTreeSet<PathBuf> {
    let name = lab.file_name().unwrap();
    let roots = fs::read_dir("/sys/fs/cgroup").unwrap().map(|entry| entry.unwrap().path().join(name));
    let mut left: Vec<_> =
        roots.chain([Path::new("/sys/fs/cgroup").join(name)]).filter(|root| root.is_dir()).collect();
    let mut groups = BTreeSet::new();
    while let Some(group) = left.pop() {
        let below = fs::read_dir(&group).into_iter().flatten().flatten();
        left.extend(
            below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()),
        );
        groups.insert(group);
    }
    groups
}
