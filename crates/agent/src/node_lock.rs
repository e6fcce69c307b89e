//! One agent of a node works at a time.
//!
//! While an agent is upgraded, the old one and the new one may both run. Each would take the links, guards and ports that the other is
//! about to finish for leftovers. So the later waits for the earlier to end, by a lock on a file beside the plugin's socket, which the
//! kernel releases with the process. It has followed the cluster meanwhile, and serves calls at once then.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use tokio::sync::watch;

/// The lock of a node, or the wait for it. It is released when this is dropped.
#[derive(Debug)]
pub(crate) struct NodeLock {
    path: PathBuf,
    /// The locked file; none until it is locked.
    held: Arc<watch::Sender<Option<Result<File, String>>>>,
}

impl NodeLock {
    /// Takes the lock that belongs to a socket, or begins to wait for it.
    pub(crate) fn begin(socket: &Path) -> anyhow::Result<Self> {
        let path = socket.with_extension("lock");
        let lock = || format!("lock {}", path.display());
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory).with_context(lock)?;
        }
        let options = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).clone();
        let file = options.open(&path).with_context(lock)?;
        let held = Arc::new(watch::Sender::new(None));
        match file.try_lock() {
            Ok(()) => drop(held.send_replace(Some(Ok(file)))),
            Err(TryLockError::WouldBlock) => {
                tracing::info!(lock = %path.display(), "another agent works on this node; waiting for its end");
                let waiting = Arc::downgrade(&held);
                // A thread of its own: it ends with the process, whoever has the lock.
                let wait = move || {
                    let locked = file.lock().map(|()| file).map_err(|error| error.to_string());
                    if let Some(held) = waiting.upgrade() {
                        held.send_replace(Some(locked));
                    }
                };
                std::thread::Builder::new().name("node-lock".into()).spawn(wait).with_context(lock)?;
            }
            Err(TryLockError::Error(error)) => return Err(error).with_context(lock),
        }
        Ok(Self { path, held })
    }

    /// What the agent waits for, if it waits.
    pub(crate) fn waits_for(&self) -> Option<String> {
        let waits =
            || format!("another agent works on this node: it holds {}, and has to end", self.path.display());
        self.held.borrow().is_none().then(waits)
    }

    /// Waits until no other agent works on the node.
    pub(crate) async fn held(&self) -> anyhow::Result<()> {
        let mut held = self.held.subscribe();
        let held = held.wait_for(Option::is_some).await.context("wait for the lock of the node")?;
        match &*held {
            Some(Err(error)) => anyhow::bail!("cannot lock {}: {error}", self.path.display()),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

    use super::*;

    #[tokio::test]
    async fn the_later_waits_for_the_earlier_and_one_that_gave_up_holds_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("portolan/cni.sock");
        let first = NodeLock::begin(&socket).unwrap();
        assert_eq!(first.waits_for(), None);
        first.held().await.unwrap();
        let given_up = NodeLock::begin(&socket).unwrap();
        let second = NodeLock::begin(&socket).unwrap();
        let said = second.waits_for().unwrap();
        assert!(said.contains("portolan/cni.lock"), "{said}");
        drop(given_up);
        drop(first);
        second.held().await.unwrap();
        assert_eq!(second.waits_for(), None);
        assert!(NodeLock::begin(&socket).unwrap().waits_for().is_some());
    }
}
