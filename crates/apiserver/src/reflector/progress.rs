//! How far a consumer of the store has come.

use std::sync::Arc;

use apistore::Revision;
use tokio::sync::watch;

/// How far the consumer of a [`Reflector`](super::Reflector) has come. Clones are one and the same.
#[derive(Clone, Debug)]
pub struct Progress {
    state: Arc<watch::Sender<State>>,
}

#[derive(Clone, Debug)]
struct State {
    /// Everything up to here was acted on.
    reached: Revision,
    /// Why the consumer may be missing changes; absent when it is in sync.
    behind: Option<Arc<str>>,
}

impl Default for Progress {
    fn default() -> Self {
        let state = State { reached: Revision(0), behind: Some("the first list is not complete".into()) };
        Progress { state: Arc::new(watch::Sender::new(state)) }
    }
}

impl Progress {
    /// Whether every change is acted on as it comes; if not, why.
    ///
    /// # Errors
    /// The reason, for people.
    pub fn in_sync(&self) -> Result<(), String> {
        self.state.borrow().behind.as_deref().map_or(Ok(()), |reason| Err(reason.to_owned()))
    }

    /// Waits until the change of this revision was acted on. It must be one that the consumer sees.
    pub async fn wait_for(&self, revision: Revision) {
        // The sender lives as long as self, so the wait cannot fail.
        let _ = self.state.subscribe().wait_for(|state| state.reached >= revision).await;
    }

    /// Waits until the consumer is in sync, or until it is not.
    pub async fn wait_until_in_sync(&self, in_sync: bool) {
        let _ = self.state.subscribe().wait_for(|state| state.behind.is_none() == in_sync).await;
    }

    pub(super) fn reached(&self, revision: Revision) {
        self.state.send_replace(State { reached: revision, behind: None });
    }

    pub(super) fn failed(&self, reason: &str) {
        self.state.send_modify(|state| state.behind = Some(reason.into()));
    }
}
