//! Tasks that must not end: each has a name, and the first that ends ends the process.

use std::collections::BTreeMap;

use tokio::task::{Id, JoinSet};

/// Tasks by name. Dropping it ends them.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    running: JoinSet<()>,
    names: BTreeMap<Id, &'static str>,
}

impl Tasks {
    pub(crate) fn spawn(&mut self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let task = self.running.spawn(task);
        self.names.insert(task.id(), name);
    }

    /// Waits for the end of a task, and says which it was and why it ended. Cancel-safe.
    pub(crate) async fn ended(&mut self) -> anyhow::Error {
        let (id, why) = match self.running.join_next_with_id().await {
            Some(Ok((id, ()))) => (id, "it returned".to_owned()),
            Some(Err(error)) => (error.id(), error.to_string()),
            None => std::future::pending().await,
        };
        let name = self.names.get(&id).copied().unwrap_or("unknown");
        anyhow::anyhow!("the task {name:?} ended: {why}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_ends_or_panics_is_named() {
        let mut tasks = Tasks::default();
        tasks.spawn("for ever", std::future::pending());
        tasks.spawn("short", async {});
        assert_eq!(tasks.ended().await.to_string(), "the task \"short\" ended: it returned");
        tasks.spawn("broken", async { panic!("a bug") });
        let error = tasks.ended().await.to_string();
        assert!(error.contains("\"broken\"") && error.contains("a bug"), "{error}");
    }
}
