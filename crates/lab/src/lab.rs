//! A lab: the directory and the home namespace that components are raised in.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use crate::command::Command;
use crate::error::Result;
use crate::namespace::Namespace;
use crate::process::tail;
use crate::scratch::Scratch;

/// Below the ports that the kernel gives out by itself.
const FIRST_PORT: u16 = 20_000;

/// A scratch directory and a home namespace. Components are started with a reference to it.
///
/// Cloning gives another handle to the same lab. It ends, and everything in it, when the last handle and the last component
/// are dropped, or when this process ends in any way.
///
/// A test gets one from [`test()`](crate::test()). Whoever makes one by [`Lab::new`] must open sockets to its components
/// with [`Namespace::run`] on [`Lab::home`].
#[derive(Clone, Debug)]
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
        let directory = std::fs::read_dir(self.path().join("log")).into_iter().flatten();
        let mut logs: Vec<_> = directory.flatten().map(|entry| entry.path()).collect();
        logs.sort();
        logs.iter().map(|log| format!("---- {}\n{}\n", log.display(), tail(log))).collect()
    }

    /// Ends every process of the lab and removes its directory, also if handles are still around.
    pub(crate) fn close(&self) {
        self.scratch.close();
    }
}
