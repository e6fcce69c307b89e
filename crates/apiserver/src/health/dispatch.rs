//! Whether watchers get what happens.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use apistore::Revision;
use tokio::time::Instant;

/// How long the dispatch of events may stand still while there is something to dispatch.
const PATIENCE: Duration = Duration::from_secs(15);

/// Watches whether the dispatch of events to watchers goes on.
#[derive(Debug, Default)]
pub(crate) struct Dispatch {
    /// Where the dispatch was when it was first seen to be behind, and when that was.
    behind: Mutex<Option<(Revision, Instant)>>,
}

impl Dispatch {
    /// Everything up to `position` is dispatched, and the store is at `stored`.
    pub(crate) fn check(&self, position: Revision, stored: Revision) -> Result<(), String> {
        let (mut behind, now) = (self.behind.lock().unwrap_or_else(PoisonError::into_inner), Instant::now());
        if position >= stored {
            *behind = None;
            return Ok(());
        }
        let since = match *behind {
            Some((at, since)) if at == position => since,
            _ => {
                *behind = Some((position, now));
                now
            }
        };
        if now.duration_since(since) < PATIENCE {
            return Ok(());
        }
        Err(format!(
            "events are dispatched up to revision {} of {}, and nothing was for {} s",
            position.0,
            stored.0,
            now.duration_since(since).as_secs()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_a_dispatch_that_stands_still_fails() {
        let dispatch = Dispatch::default();
        let check = |position, stored| dispatch.check(Revision(position), Revision(stored)).is_ok();
        assert!(check(5, 5));
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert!(check(5, 6), "what was just stored is not late");
        tokio::time::advance(Duration::from_secs(14)).await;
        assert!(check(6, 900), "it is behind, but it moves");
        tokio::time::advance(Duration::from_secs(14)).await;
        assert!(check(6, 900));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(!check(6, 901));
        assert!(check(901, 901), "it has caught up");
    }
}
