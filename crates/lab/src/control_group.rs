//! Control groups: how everything that a machine runs is found again, also what runs in containers.
//!
//! Daemons of the lab carry a mark in their environment; what a container runtime starts does not. But no process leaves its
//! control group by itself. All groups of a lab lie in one that is named as its scratch directory, in every hierarchy that the
//! machine has; the warden ends what is in them and removes them, however the lab ends.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::{Result, Trying};
use crate::lab::Lab;
use crate::remains::end_processes;

/// Where the hierarchies are.
const HIERARCHIES: &str = "/sys/fs/cgroup";

/// The hierarchy of version 1 in which a machine's own processes are. It controls nothing that would change how they run.
const OF_DAEMONS: &str = "freezer";

/// The group below a machine's in which its own processes are: with version 2, only groups without groups below may have any.
const DAEMONS: &str = "daemons";

/// How long a group is given to become empty after its processes have ended.
const PATIENCE: Duration = Duration::from_secs(20);

/// There is no event for a group that can be removed.
const PAUSE: Duration = Duration::from_millis(5);

/// The control groups of a machine: one of the same path in each hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlGroup {
    path: PathBuf,
}

impl ControlGroup {
    /// The groups of this name in a lab. They are made by [`ControlGroup::make`].
    pub(crate) fn of(lab: &Lab, name: &str) -> Self {
        let mut path = Self::of_lab(lab.path()).path;
        path.push(name);
        Self { path }
    }

    /// The groups that hold all others of the lab with this scratch directory.
    pub(crate) fn of_lab(scratch: &Path) -> Self {
        Self { path: Path::new("/").join(scratch.file_name().unwrap_or_default()) }
    }

    /// Its path in each hierarchy, with a slash in front.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the groups, where they are not there yet.
    pub(crate) fn make(&self) -> Result<()> {
        for hierarchy in hierarchies() {
            let directory = hierarchy.join(self.relative());
            fs::create_dir_all(&directory).trying(|| format!("make {}", directory.display()))?;
            inherit_cpus(&hierarchy, self.relative())?;
        }
        let daemons = self.daemons();
        fs::create_dir_all(&daemons).trying(|| format!("make {}", daemons.display()))
    }

    /// The file by which a process becomes one of the machine's own.
    pub(crate) fn entrance(&self) -> PathBuf {
        self.daemons().join("cgroup.procs")
    }

    /// Kills every process in the groups and below, and removes the groups.
    pub(crate) fn end(&self) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        let groups: Vec<_> = hierarchies().map(|hierarchy| hierarchy.join(self.relative())).collect();
        if groups.iter().all(|group| !group.exists()) {
            return Ok(());
        }
        // Nothing in a frozen group dies.
        groups.iter().for_each(|group| thaw(group));
        end_processes(|pid| self.holds(pid), deadline)?;
        groups.iter().try_for_each(|group| remove(group, deadline))
    }

    fn holds(&self, pid: u32) -> bool {
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        let path = |line: &str| line.splitn(3, ':').nth(2).map(PathBuf::from);
        groups.lines().filter_map(path).any(|group| group.starts_with(&self.path)) && !has_ended(pid)
    }

    fn relative(&self) -> &Path {
        self.path.strip_prefix("/").unwrap_or(&self.path)
    }

    fn daemons(&self) -> PathBuf {
        let hierarchy = hierarchies().find(|hierarchy| hierarchy.ends_with(OF_DAEMONS));
        let hierarchy = hierarchy.or_else(|| hierarchies().next());
        hierarchy.unwrap_or_else(|| HIERARCHIES.into()).join(self.relative()).join(DAEMONS)
    }
}

/// The directories in which the hierarchies are mounted: several with version 1, and one with version 2.
fn hierarchies() -> impl Iterator<Item = PathBuf> {
    let all = Path::new(HIERARCHIES);
    let unified = Some(all.to_owned()).filter(|root| root.join("cgroup.controllers").exists());
    let several = if unified.is_some() { None } else { fs::read_dir(all).ok() };
    let several = several.into_iter().flatten().flatten().map(|entry| entry.path());
    unified.into_iter().chain(several.filter(|hierarchy| hierarchy.join("cgroup.procs").exists()))
}

/// With version 1, a new group may run on no processor at all, and takes no process before that is set.
fn inherit_cpus(hierarchy: &Path, group: &Path) -> Result<()> {
    for file in ["cpuset.cpus", "cpuset.mems"] {
        let Ok(all) = fs::read_to_string(hierarchy.join(file)) else { continue };
        let levels: Vec<_> = group.ancestors().filter(|level| !level.as_os_str().is_empty()).collect();
        for level in levels.into_iter().rev() {
            let file = hierarchy.join(level).join(file);
            fs::write(&file, all.trim()).trying(|| format!("write {}", file.display()))?;
        }
    }
    Ok(())
}

fn thaw(group: &Path) {
    for below in groups_below(group) {
        thaw(&below);
    }
    // Only in one of the hierarchies is there such a file.
    let state = group.join("freezer.state");
    if state.exists() {
        let _ = fs::write(state, "THAWED");
    }
}

fn remove(group: &Path, deadline: Instant) -> Result<()> {
    for below in groups_below(group) {
        remove(&below, deadline)?;
    }
    loop {
        match fs::remove_dir(group) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error)
                if error.raw_os_error() == Some(rustix::io::Errno::BUSY.raw_os_error())
                    && Instant::now() < deadline =>
            {
                std::thread::sleep(PAUSE);
            }
            removed => return removed.trying(|| format!("remove {}", group.display())),
        }
    }
}

fn groups_below(group: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(group).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

/// Whether it only waits for its parent to take notice. Signals change nothing about that.
fn has_ended(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, fields)| fields.starts_with(['Z', 'X']))
}
