//! What is left of a lab whose process is gone, and clearing it away from another process.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::control_group::ControlGroup;
use crate::error::{Error, Result, Trying};
use crate::readiness::readable;
use crate::scratch::MARK;

/// What there may be of a lab after the process that raised it is gone. Its namespaces, and with them links and mounts, are
/// the kernel's business; this is about processes and files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remains {
    /// The scratch directory.
    pub directory: PathBuf,
    /// The process that clears the lab away by itself when the one that raised it dies, if there was one.
    pub warden: Option<u32>,
}

impl Remains {
    /// Waits until the warden has done its work and, should it have been killed too, does it.
    pub fn clear(&self, patience: Duration) -> Result<()> {
        let deadline = Instant::now() + patience;
        if let Some(warden) = self.warden.and_then(watch)
            && self.warden.is_some_and(is_warden)
        {
            wait_for_end(&warden, deadline)?;
        }
        self.end_processes(deadline)?;
        ControlGroup::of_lab(&self.directory).end()?;
        match fs::remove_dir_all(&self.directory) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).trying(|| format!("remove {}", self.directory.display()))
            }
            _ => Ok(()),
        }
    }

    /// Ends every process that carries the lab's mark. One that is found may be about to start another: so until none is.
    fn end_processes(&self, deadline: Instant) -> Result<()> {
        let mark = [MARK.as_bytes(), b"=", self.directory.as_os_str().as_encoded_bytes()].concat();
        let is_marked = |pid: u32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|&byte| byte == 0).any(|variable| variable == mark)
        };
        end_processes(is_marked, deadline)
    }
}

/// Kills every process that is one of those meant, until there is none.
pub(crate) fn end_processes(is_meant: impl Fn(u32) -> bool, deadline: Instant) -> Result<()> {
    loop {
        let mut found = false;
        for pid in all_processes().filter(|pid| is_meant(*pid)) {
            // A process that has this pid only now is not one of ours: looked at again through the descriptor's life.
            let Some(process) = watch(pid).filter(|_| is_meant(pid)) else { continue };
            found = true;
            let _ = pidfd_send_signal(&process, Signal::KILL);
            wait_for_end(&process, deadline)?;
        }
        if !found {
            return Ok(());
        }
    }
}

fn wait_for_end(process: &OwnedFd, deadline: Instant) -> Result<()> {
    let left = deadline.saturating_duration_since(Instant::now());
    match readable([process.as_fd()], left).trying(|| "wait for a process".into())? {
        [true] => Ok(()),
        [false] => {
            Err(Error::Refused { peer: "a process of the lab".into(), answer: "not even to SIGKILL".into() })
        }
    }
}

fn all_processes() -> impl Iterator<Item = u32> {
    let own = std::process::id();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(move |pid| *pid != own)
}

fn watch(pid: u32) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

fn is_warden(pid: u32) -> bool {
    let command = fs::read(Path::new("/proc").join(pid.to_string()).join("cmdline")).unwrap_or_default();
    command.split(|&byte| byte == 0).any(|word| word == b"warden")
}
