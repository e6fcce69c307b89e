//! A lab: the directory and the home namespace that components are raised in.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use crate::command::Command;
use crate::error::Result;
use crate::namespace::Namespace;
use crate::process::tail;
use crate::remains::Remains;
use crate::scratch::Scratch;

/// Below the ports that the kernel gives out by itself.
const FIRST_PORT: u16 = 20_000;

/// A scratch directory and a home namespace. Components are started with a reference to it.
///
/// Cloning gives another handle to the same lab. It ends, and everything in it, when the last handle and the last component
/// are dropped, or when this process ends in any way.
///
/// Sockets to its components must be opened with [`Namespace::run`] on [`Lab::home`].
#[derive(Clone)]
pub struct Lab {
    home: Namespace,
    scratch: Arc<Scratch>,
    next_port: Arc<AtomicU16>,
}

impl Lab {
    /// A lab with nothing in it. Needs root.
    pub fn new() -> Result<Self> {
        let scratch = Arc::new(Scratch::new()?);
        let home = Namespace::network(&scratch, "home")?;
        Ok(Self { home, scratch, next_port: Arc::new(AtomicU16::new(FIRST_PORT)) })
    }

    /// Every log: of components, and of pods' containers.
    pub fn logs(&self) -> Vec<PathBuf> {
        let directories = ["log", "pods"].map(|name| std::fs::read_dir(self.path().join(name)));
        let mut logs: Vec<_> =
            directories.into_iter().flatten().flatten().flatten().map(|entry| entry.path()).collect();
        logs.sort();
        logs
    }

    /// The namespace in which components run that are not on a node, and in which the body of a test runs.
    pub fn home(&self) -> &Namespace {
        &self.home
    }

    /// A command to run in the home namespace.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        self.home.command(program)
    }

    /// A new network namespace.
    pub fn namespace(&self, name: &str) -> Result<Namespace> {
        Namespace::network(&self.scratch, name)
    }

    /// The scratch directory.
    pub fn path(&self) -> &Path {
        self.scratch.path()
    }

    /// Makes a directory below the scratch directory.
    pub fn directory(&self, name: impl AsRef<Path>) -> Result<PathBuf> {
        self.scratch.directory(name)
    }

    /// A port number that this lab has not given out before.
    pub fn port(&self) -> u16 {
        self.next_port.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn scratch(&self) -> &Arc<Scratch> {
        &self.scratch
    }

    /// The end of every component's log, for a person to read.
    pub fn log_tails(&self) -> String {
        self.logs().iter().map(|log| format!("---- {}\n{}\n", log.display(), tail(log))).collect()
    }

    /// Whether the scratch directory stays on disk after the lab, because the environment asks for it by `PORTOLAN_LAB_KEEP`.
    pub fn is_kept() -> bool {
        Scratch::is_kept()
    }

    /// What another process needs to know to clear the lab away, should this one be killed.
    pub fn remains(&self) -> Remains {
        self.scratch.remains()
    }

    /// Ends every process of the lab and removes its directory, also if handles are still around.
    pub fn close(&self) {
        self.scratch.close();
    }
}

impl std::fmt::Debug for Lab {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lab").field("path", &self.path()).finish_non_exhaustive()
    }
}
