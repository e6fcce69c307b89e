//! Whether a connection has requests under way.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The requests of one connection.
#[derive(Debug)]
pub(super) struct Activity {
    state: Mutex<State>,
}

#[derive(Clone, Copy, Debug)]
struct State {
    under_way: usize,
    any: bool,
    /// When the last request ended, or the connection began.
    idle_since: Instant,
}

/// A request that is under way until this is dropped.
#[derive(Debug)]
pub(super) struct Active(Arc<Activity>);

impl Drop for Active {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.under_way -= 1;
        state.idle_since = Instant::now();
    }
}

/// What a connection waited for in vain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    FirstRequest,
    NextRequest,
}

impl Activity {
    /// Of a connection that begins now.
    pub(super) fn new() -> Activity {
        let state = State { under_way: 0, any: false, idle_since: Instant::now() };
        Activity { state: Mutex::new(state) }
    }

    /// A request begins.
    pub(super) fn begin(self: &Arc<Self>) -> Active {
        let mut state = self.lock();
        state.under_way += 1;
        state.any = true;
        Active(self.clone())
    }

    /// Waits until no request was under way for `first`, if there was none before, or else for `next`. The wait may take longer by
    /// as much again, so that a busy connection does not set a timer for every request.
    pub(super) async fn ceases(&self, first: Duration, next: Duration) -> Missing {
        loop {
            let state = *self.lock();
            let (missing, limit) =
                if state.any { (Missing::NextRequest, next) } else { (Missing::FirstRequest, first) };
            let check_at =
                if state.under_way > 0 { Instant::now() + limit } else { state.idle_since + limit };
            if check_at <= Instant::now() {
                return missing;
            }
            tokio::time::sleep_until(check_at).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Duration = Duration::from_secs(30);
    const NEXT: Duration = Duration::from_secs(180);

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_a_request_ceases_after_the_first_limit() {
        let begin = Instant::now();
        let activity = Activity::new();
        assert_eq!(activity.ceases(FIRST, NEXT).await, Missing::FirstRequest);
        assert_eq!(begin.elapsed(), FIRST);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_keeps_its_connection_however_long_it_takes() {
        let activity = Arc::new(Activity::new());
        let watch = activity.begin();
        let begin = Instant::now();
        let ends = async {
            tokio::time::sleep(10 * NEXT).await;
            drop(watch);
            std::future::pending::<()>().await;
        };
        tokio::select! {
            missing = activity.ceases(FIRST, NEXT) => assert_eq!(missing, Missing::NextRequest),
            () = ends => {}
        }
        assert!(begin.elapsed() >= 11 * NEXT && begin.elapsed() <= 12 * NEXT, "{:?}", begin.elapsed());
    }
}
