//! What works beside the requests: the reader of the store's events, informers, controllers. None of them may end.

use std::collections::HashMap;
use std::future::Future;

use tokio::task::{Id, JoinSet};

/// Tasks that run as long as the server. They are aborted when this is dropped.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    running: JoinSet<()>,
    names: HashMap<Id, String>,
}

/// A task that the server cannot do without has ended.
#[derive(Debug, thiserror::Error)]
#[error("the server cannot go on: its task {task:?} {how}")]
pub struct TaskEnded {
    /// The task's name.
    pub task: String,
    how: String,
}

impl Tasks {
    pub(super) fn spawn(&mut self, name: &str, task: impl Future<Output = ()> + Send + 'static) {
        let handle = self.running.spawn(task);
        self.names.insert(handle.id(), name.to_owned());
    }

    /// Waits until one has ended. With no tasks, for ever.
    pub(super) async fn ended(&mut self) -> TaskEnded {
        let (id, how) = match self.running.join_next_with_id().await {
            None => std::future::pending().await,
            Some(Ok((id, ()))) => (id, "has ended".to_owned()),
            Some(Err(error)) => (error.id(), format!("failed: {error}")),
        };
        TaskEnded { task: self.names.remove(&id).unwrap_or_default(), how }
    }

    /// Aborts all, and waits until they have ended.
    pub(super) async fn shutdown(&mut self) {
        self.running.shutdown().await;
    }
}
