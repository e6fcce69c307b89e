//! Where labs are: a directory for each, locked by the process that keeps the lab up for as long as it lives.

use std::fs::File;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail};
use portolan_lab::Remains;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

/// How long the remains of a dead lab may take to go.
const PATIENCE: Duration = Duration::from_secs(30);

/// A Unix socket's path must fit in 108 bytes.
const LONGEST_NAME: usize = 40;

/// All labs of the machine.
#[derive(Clone, Debug)]
pub(super) struct Labs {
    directory: PathBuf,
}

/// The directory of one lab, which need not exist.
#[derive(Clone, Debug)]
pub(super) struct Place {
    name: String,
    path: PathBuf,
}

/// Held by whoever keeps the lab up. The kernel takes it back, whatever becomes of the holder.
#[derive(Debug)]
pub(super) struct Lock {
    directory: File,
}

/// What is noted of a lab for those who come later.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct State {
    /// The process that keeps it up, and when it started: another may have its number one day.
    pub(super) pid: u32,
    pub(super) started: String,
    /// Its scratch directory.
    pub(super) scratch: PathBuf,
    /// The process that clears up after it.
    pub(super) warden: Option<u32>,
    /// When it was raised, in seconds since 1970.
    pub(super) since: u64,
    /// How many nodes it has.
    pub(super) nodes: usize,
}

impl State {
    /// What this process, which keeps the lab up, has to note.
    pub(super) fn of_this_process(remains: Remains, nodes: usize) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            pid: std::process::id(),
            started: start_of(std::process::id()).unwrap_or_default(),
            scratch: remains.directory,
            warden: remains.warden,
            since: now.as_secs(),
            nodes,
        }
    }
}

/// When a process that lives started, in the kernel's own measure.
fn start_of(pid: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The fields after the name, which may contain anything; proc(5) counts from one.
    let fields: Vec<_> = stat.rsplit(") ").next()?.split(' ').collect();
    let (state, started) = (*fields.first()?, *fields.get(19)?);
    (state != "Z").then(|| started.to_owned())
}

impl Labs {
    pub(super) fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The place of a lab of this name.
    pub(super) fn place(&self, name: &str) -> anyhow::Result<Place> {
        let fits = !name.is_empty()
            && name.len() <= LONGEST_NAME
            && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
            && name.starts_with(|c: char| c.is_ascii_alphanumeric());
        if !fits {
            bail!(
                "{name:?} is no name for a lab: it may have lower-case letters, digits and hyphens, at most {LONGEST_NAME}"
            );
        }
        Ok(Place { name: name.into(), path: self.directory.join(name) })
    }

    /// All labs, dead ones too, by name.
    pub(super) fn all(&self) -> Vec<Place> {
        let entries = std::fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut places: Vec<_> = names.filter_map(|name| self.place(&name).ok()).collect();
        places.sort_by(|a, b| a.name.cmp(&b.name));
        places
    }

    /// The lab of this name or, without one, the only one there is.
    pub(super) fn find(&self, name: Option<&str>) -> anyhow::Result<Place> {
        let all = self.all();
        let names = || all.iter().map(|place| place.name.as_str()).collect::<Vec<_>>().join(", ");
        match (name, all.as_slice()) {
            (_, []) => bail!("there is no lab; `portolan lab up` raises one"),
            (None, [only]) => Ok(only.clone()),
            (None, _) => bail!("there are several labs, say which with --name: {}", names()),
            (Some(name), all) => match all.iter().find(|place| place.name == name) {
                Some(place) => Ok(place.clone()),
                None => bail!("there is no lab called {name:?}; there are: {}", names()),
            },
        }
    }
}

impl Place {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.path.join("kubeconfig")
    }

    pub(super) fn control_socket(&self) -> PathBuf {
        self.path.join("control.sock")
    }

    /// What the process that keeps the lab up has to say.
    pub(super) fn log(&self) -> PathBuf {
        self.path.join("supervisor.log")
    }

    fn state_file(&self) -> PathBuf {
        self.path.join("state.json")
    }

    pub(super) fn state(&self) -> Option<State> {
        serde_json::from_slice(&std::fs::read(self.state_file()).ok()?).ok()
    }

    pub(super) fn note(&self, state: &State) -> anyhow::Result<()> {
        // Whole or not at all: a reader may come at any time.
        let (new, file) = (self.path.join("state.new"), self.state_file());
        std::fs::write(&new, serde_json::to_vec(state)?)?;
        std::fs::rename(&new, &file).with_context(|| format!("cannot write {}", file.display()))
    }

    /// Takes the place, and makes the directory if there is none. None if someone has it.
    pub(super) fn take(&self) -> anyhow::Result<Option<Lock>> {
        let failed = || format!("cannot use {}", self.path.display());
        loop {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.path).with_context(failed)?;
            let directory = match File::open(&self.path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                opened => opened.with_context(failed)?,
            };
            match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
                Err(error) => return Err(error).with_context(failed),
            }
            let lock = Lock { directory };
            // Whoever had it may have removed the directory just before letting go.
            if self.is_of(&lock) {
                return Ok(Some(lock));
            }
        }
    }

    /// Whether someone keeps the lab up. Asks without the lock: who tries for it meanwhile must not find it taken.
    pub(super) fn is_alive(&self) -> bool {
        self.state().is_some_and(|state| start_of(state.pid).as_ref() == Some(&state.started))
    }

    fn is_of(&self, lock: &Lock) -> bool {
        let id = |file: &std::fs::Metadata| (file.dev(), file.ino());
        match (lock.directory.metadata(), std::fs::metadata(&self.path)) {
            (Ok(held), Ok(there)) => id(&held) == id(&there),
            _ => false,
        }
    }

    /// Clears away what a dead lab left: its processes, its scratch directory, its files here. The directory stays.
    pub(super) fn clear(&self, _lock: &Lock) -> anyhow::Result<()> {
        if let Some(state) = self.state() {
            let remains = Remains { directory: state.scratch, warden: state.warden };
            remains.clear(PATIENCE).with_context(|| format!("cannot clear away lab {:?}", self.name))?;
        }
        for entry in std::fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let path = entry.path();
            std::fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
        Ok(())
    }

    /// Removes the directory and, if it was the last, the one above. To be called before the lock goes.
    pub(super) fn remove(&self, lock: &Lock) -> anyhow::Result<()> {
        self.clear(lock)?;
        std::fs::remove_dir(&self.path).with_context(|| format!("cannot remove {}", self.path.display()))?;
        if let Some(parent) = self.path.parent() {
            // Not if another lab is there.
            let _ = std::fs::remove_dir(parent);
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_held_once_and_freed_by_its_holder() {
        let directory = tempfile::tempdir().unwrap();
        let labs = Labs::new(directory.path().join("labs"));
        let place = labs.place("blue").unwrap();
        let lock = place.take().unwrap().unwrap();
        assert!(place.take().unwrap().is_none());
        assert_eq!(labs.all().len(), 1);
        place.remove(&lock).unwrap();
        drop(lock);
        assert!(!labs.directory().exists());
        assert!(place.take().unwrap().is_some());
    }

    #[test]
    fn a_lab_is_alive_while_its_process_is() {
        let directory = tempfile::tempdir().unwrap();
        let place = Labs::new(directory.path().into()).place("blue").unwrap();
        let _lock = place.take().unwrap();
        assert!(!place.is_alive());
        let remains = Remains { directory: "/nonexistent".into(), warden: None };
        let state = State::of_this_process(remains, 1);
        place.note(&state).unwrap();
        assert!(place.is_alive());
        place.note(&State { started: "1".into(), ..state }).unwrap();
        assert!(!place.is_alive(), "another process has its number");
    }

    #[test]
    fn a_lab_is_found_by_name_or_by_being_alone() {
        let directory = tempfile::tempdir().unwrap();
        let labs = Labs::new(directory.path().into());
        let said = |name| labs.find(name).unwrap_err().to_string();
        assert!(said(None).contains("lab up"));
        let _blue = labs.place("blue").unwrap().take().unwrap();
        assert_eq!(labs.find(None).unwrap().name(), "blue");
        let _green = labs.place("green").unwrap().take().unwrap();
        assert_eq!(said(None), "there are several labs, say which with --name: blue, green");
        assert_eq!(said(Some("red")), "there is no lab called \"red\"; there are: blue, green");
        assert_eq!(labs.find(Some("green")).unwrap().name(), "green");
    }

    #[test]
    fn a_name_leads_nowhere_else() {
        let labs = Labs::new("/run/portolan-lab".into());
        for wrong in ["", "..", "a/b", "A", "-a", "a b", &"a".repeat(41)] {
            assert!(labs.place(wrong).is_err(), "{wrong:?}");
        }
        assert!(labs.place("lab-1").is_ok());
    }
}
