//! Accepting connections, whatever happens to one of them.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use portolan_watch::Pause;

/// Pauses after a failure: the process may be out of descriptors until other calls end.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Accepts connections for ever and passes each on. A failure is logged and followed by a pause that grows as long as it lasts.
pub(crate) async fn accept_all<S>(
    mut accept: impl AsyncFnMut() -> io::Result<S>,
    mut serve: impl FnMut(S),
) -> Infallible {
    let mut pauses = Pause::new(FIRST_PAUSE, LONGEST_PAUSE);
    loop {
        match accept().await {
            Ok(stream) => {
                pauses.reset();
                serve(stream);
            }
            Err(error) => {
                let pause = pauses.lengthen();
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    ?pause,
                    "cannot accept a call; trying again"
                );
                tokio::time::sleep(pause).await;
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]
mod tests {
    use std::collections::VecDeque;

    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn running_out_of_descriptors_does_not_end_the_agent() {
        const EMFILE: i32 = 24;
        let full = || Err(io::Error::from_raw_os_error(EMFILE));
        let mut outcomes: VecDeque<io::Result<u32>> = (0..20).map(|_| full()).collect();
        outcomes.extend([Ok(1), full(), Ok(2)]);
        let (served, mut seen) = mpsc::unbounded_channel();
        let accepting = accept_all(
            async || match outcomes.pop_front() {
                Some(outcome) => outcome,
                None => std::future::pending().await,
            },
            |call| served.send(call).unwrap(),
        );
        tokio::select! {
            never = accepting => match never {},
            calls = async { (seen.recv().await, seen.recv().await) } => assert_eq!(calls, (Some(1), Some(2))),
        }
    }
}
