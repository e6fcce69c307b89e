//! A lab: the directory and the home namespace that components are raised in.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

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
/// A test gets one from [`test()`](crate::test()). Whoever makes one by [`Lab::new`] must open sockets to its components
/// with [`Namespace::run`] on [`Lab::home`].
#[derive(Clone)]
pub struct Lab {
    home: Namespace,
    scratch: Arc<Scratch>,
    next_port: Arc<AtomicU16>,
    failure: Option<Arc<Mutex<Vec<Collector>>>>,
}

/// Writes what helps to find out why a test failed to a directory.
type Collector = Box<dyn Fn(&Path) + Send>;

impl Lab {
    /// A lab with nothing in it. Needs root.
    pub fn new() -> Result<Self> {
        let scratch = Arc::new(Scratch::new()?);
        let home = Namespace::network(&scratch, "home")?;
        Ok(Self { home, scratch, next_port: Arc::new(AtomicU16::new(FIRST_PORT)), failure: None })
    }

    /// A lab for a test: one that collects what helps when the test fails.
    pub(crate) fn for_test() -> Result<Self> {
        Ok(Self { failure: Some(Arc::default()), ..Self::new()? })
    }

    /// Has `collect` called with a directory to write to when the test that runs in this lab fails, while everything still runs.
    /// Whatever it holds is held until the end of the test. Does nothing in a lab that no test runs in.
    pub fn on_failure(&self, collect: impl Fn(&Path) + Send + 'static) {
        if let Some(failure) = &self.failure {
            failure.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(collect));
        }
    }

    /// Collects what was asked for by [`Lab::on_failure`] and every log; returns where it is. None if nothing was asked for.
    pub(crate) fn collect_failure(&self, test: &str) -> Option<PathBuf> {
        let collectors = self.take_collectors();
        if collectors.is_empty() {
            return None;
        }
        let directory = artefacts_directory(test);
        if let Err(error) = std::fs::create_dir_all(&directory) {
            eprintln!("cannot make {}: {error}", directory.display());
            return None;
        }
        for log in self.logs() {
            let name = log.file_name().unwrap_or_default();
            if let Err(error) = std::fs::copy(&log, directory.join(name)) {
                eprintln!("cannot copy {}: {error}", log.display());
            }
        }
        for collect in &collectors {
            collect(&directory);
        }
        Some(directory)
    }

    fn take_collectors(&self) -> Vec<Collector> {
        let failure = self.failure.as_ref().map(|failure| failure.lock());
        let failure = failure.map(|failure| failure.unwrap_or_else(PoisonError::into_inner));
        failure.map(|mut failure| std::mem::take(&mut *failure)).unwrap_or_default()
    }

    /// Every log: of components, and of pods' containers.
    fn logs(&self) -> Vec<PathBuf> {
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

    /// What another process needs to know to clear the lab away, should this one be killed.
    pub fn remains(&self) -> Remains {
        self.scratch.remains()
    }

    /// Ends every process of the lab and removes its directory, also if handles are still around.
    pub fn close(&self) {
        // What they hold keeps namespaces alive.
        drop(self.take_collectors());
        self.scratch.close();
    }
}

impl std::fmt::Debug for Lab {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lab").field("path", &self.path()).finish_non_exhaustive()
    }
}

/// Where a failed test's things go: below `PORTOLAN_LAB_ARTEFACTS` or, without it, the directory for temporary files.
fn artefacts_directory(test: &str) -> PathBuf {
    let parent = std::env::var_os("PORTOLAN_LAB_ARTEFACTS")
        .map_or_else(|| std::env::temp_dir().join("portolan-artefacts"), PathBuf::from);
    parent.join(format!("{}-{}", test.replace("::", "."), std::process::id()))
}
