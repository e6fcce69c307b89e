//! What can be seen of a lab from outside, to see that it is gone.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(20);

/// A lab's processes and files.
pub(crate) struct Traces {
    directory: PathBuf,
    scratch: PathBuf,
    supervisor: u32,
    processes: Vec<(u32, String, OwnedFd)>,
}

impl Traces {
    /// Of the lab that is kept in this directory.
    pub(crate) fn of(directory: &Path) -> Self {
        let state: Value =
            serde_json::from_slice(&std::fs::read(directory.join("state.json")).unwrap()).unwrap();
        let scratch = state["scratch"].as_str().unwrap().to_owned();
        let number = |key: &str| u32::try_from(state[key].as_u64().unwrap()).unwrap();
        let (supervisor, warden) = (number("pid"), number("warden"));
        let mark = format!("PORTOLAN_LAB={scratch}");
        let is_of_lab = |pid: &u32| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            [supervisor, warden].contains(pid)
                || environment.split(|&byte| byte == 0).any(|variable| variable == mark.as_bytes())
        };
        let name = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let watch = |pid: u32| {
            let process =
                pidfd_open(Pid::from_raw(i32::try_from(pid).unwrap())?, PidfdFlags::empty()).ok()?;
            Some((pid, name(pid).trim().to_owned(), process))
        };
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        Self {
            directory: directory.into(),
            scratch: scratch.into(),
            supervisor,
            processes: pids.filter(is_of_lab).filter_map(watch).collect(),
        }
    }

    pub(crate) fn names(&self) -> BTreeSet<&str> {
        self.processes.iter().map(|(_, name, _)| name.as_str()).collect()
    }

    /// Kills the process that keeps the lab up, and waits for its end.
    pub(crate) fn kill_supervisor(&self) {
        let (_, _, process) = self.processes.iter().find(|(pid, ..)| *pid == self.supervisor).unwrap();
        pidfd_send_signal(process, Signal::KILL).unwrap();
        assert!(has_ended(process, Instant::now() + PATIENCE));
    }

    /// Waits until every process has ended. With them go their namespaces, and with these links and mounts.
    pub(crate) fn assert_processes_gone(&self) {
        let deadline = Instant::now() + PATIENCE;
        for (pid, name, process) in &self.processes {
            assert!(has_ended(process, deadline), "{name} ({pid}) is left");
        }
        assert!(!self.scratch.exists(), "{} is left", self.scratch.display());
    }

    /// And its files.
    pub(crate) fn assert_gone(&self) {
        self.assert_processes_gone();
        assert!(!self.directory.exists(), "{} is left", self.directory.display());
        assert_eq!(self.on_the_machine(), Vec::<String>::new());
    }

    /// What the lab has in the machine's own namespaces: mounts that name its directories, and links and namespaces with the names it
    /// gives. Others may mount and make links meanwhile, other labs among them.
    pub(crate) fn on_the_machine(&self) -> Vec<String> {
        let of_lab = [&self.scratch, &self.directory].map(|path| path.to_str().unwrap());
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let mounts = mounts.lines().filter(|line| of_lab.iter().any(|path| line.contains(path)));
        let links = lines("ip", &["-o", "link"]);
        let names = links.iter().filter_map(|line| line.split(": ").nth(1)?.split('@').next());
        let links = names.filter(|name| is_link_of_a_lab(name));
        let namespaces = lines("ip", &["netns"]);
        let namespaces = namespaces.iter().map(String::as_str).filter(|name| is_node_of_a_lab(name));
        mounts.chain(links).chain(namespaces).map(str::to_owned).collect()
    }
}

fn has_ended(process: &OwnedFd, deadline: Instant) -> bool {
    let left = Timespec::try_from(deadline.saturating_duration_since(Instant::now())).unwrap();
    poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&left)).unwrap() == 1
}

/// Names that labs and agents give to links.
fn is_link_of_a_lab(name: &str) -> bool {
    let is_agents = name.starts_with("pt") && name.len() == 14;
    is_agents || ["underlay", "br-int", "br-und"].contains(&name) || is_node_of_a_lab(name)
}

fn is_node_of_a_lab(name: &str) -> bool {
    name.strip_prefix("node").is_some_and(|number| number.parse::<u8>().is_ok())
}

fn lines(program: &str, arguments: &[&str]) -> Vec<String> {
    let output = Command::new(program).args(arguments).output().unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}
