//! What blocks, off the loops.

use std::time::Duration;

/// Runs something that blocks.
pub(crate) async fn blocking<T: Send + 'static, E: Into<anyhow::Error> + Send + 'static>(
    body: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> anyhow::Result<T> {
    tokio::task::spawn_blocking(body).await?.map_err(Into::into)
}

/// Runs something that blocks as often as it takes: a process that is out of descriptors for a moment must not end.
pub(crate) async fn until_done<T: Send + 'static>(
    what: &str,
    pause: Duration,
    body: impl Fn() -> portolan_host::Result<T> + Clone + Send + 'static,
) -> T {
    loop {
        match blocking(body.clone()).await {
            Ok(done) => return done,
            Err(error) => tracing::warn!(%error, "cannot {what}; trying again"),
        }
        tokio::time::sleep(pause).await;
    }
}
