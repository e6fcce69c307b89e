//! The lab of a test: one that collects what helps when the test fails.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use portolan_lab::{Lab, Result};

/// The lab that a test's body runs in. It is a [`Lab`] with a memory for what to collect on failure.
#[derive(Clone)]
pub struct TestLab {
    lab: Lab,
    collectors: Arc<Mutex<Vec<Collector>>>,
}

/// Writes what helps to find out why a test failed to a directory.
type Collector = Box<dyn Fn(&Path) + Send>;

impl TestLab {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self { lab: Lab::new()?, collectors: Arc::default() })
    }

    /// Has `collect` called with a directory to write to when the test that runs in this lab fails, while everything still runs.
    /// Whatever it holds is held until the end of the test.
    pub fn on_failure(&self, collect: impl Fn(&Path) + Send + 'static) {
        self.collectors.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(collect));
    }

    /// Collects what was asked for by [`TestLab::on_failure`] and every log; returns where it is. None if nothing was asked for.
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
        for log in self.lab.logs() {
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

    /// Ends every process of the lab and removes its directory, also if handles are still around.
    pub(crate) fn close(&self) {
        // What collectors hold keeps namespaces alive.
        drop(self.take_collectors());
        self.lab.close();
    }

    fn take_collectors(&self) -> Vec<Collector> {
        std::mem::take(&mut *self.collectors.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Deref for TestLab {
    type Target = Lab;

    fn deref(&self) -> &Lab {
        &self.lab
    }
}

impl std::fmt::Debug for TestLab {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("TestLab").field(&self.lab).finish()
    }
}

/// Where a failed test's things go: below `PORTOLAN_LAB_ARTEFACTS` or, without it, the directory for temporary files.
fn artefacts_directory(test: &str) -> PathBuf {
    let parent = std::env::var_os("PORTOLAN_LAB_ARTEFACTS")
        .map_or_else(|| std::env::temp_dir().join("portolan-artefacts"), PathBuf::from);
    parent.join(format!("{}-{}", test.replace("::", "."), std::process::id()))
}
