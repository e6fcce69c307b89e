//! Deadlines that may not be there.

use tokio::time::Instant;

/// Waits for an instant, or for ever. Cancel-safe.
pub(crate) async fn until(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}
