//! Bodies of requests, up to a limit.

use bytes::{Buf as _, Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::Body;

/// How much of a body is read and thrown away once it is too large. A connection that is closed with bytes unread is reset, and its
/// peer may never read the answer.
const DISCARDED: usize = 1 << 20;

/// Why a body could not be read.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// It has more bytes than are accepted.
    #[error("the request is larger than {limit} bytes")]
    TooLarge {
        /// How many are accepted.
        limit: usize,
    },
    /// The connection failed meanwhile.
    #[error("the request cannot be read: {0}")]
    Unreadable(String),
}

/// Reads a body of at most so many bytes.
///
/// # Errors
/// When it has more, or does not come to its end.
pub async fn read_body<B>(mut body: B, limit: usize) -> Result<Bytes, BodyError>
where
    B: Body + Unpin,
    B::Error: std::fmt::Display,
{
    let mut read = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| BodyError::Unreadable(error.to_string()))?;
        let Ok(data) = frame.into_data() else { continue };
        if read.len() + data.remaining() > limit {
            discard(body, DISCARDED.saturating_sub(data.remaining())).await;
            return Err(BodyError::TooLarge { limit });
        }
        read.extend_from_slice(data.chunk());
    }
    Ok(read.freeze())
}

async fn discard<B: Body + Unpin>(mut body: B, mut left: usize) {
    while left > 0
        && let Some(Ok(frame)) = body.frame().await
    {
        left = left.saturating_sub(frame.data_ref().map_or(0, bytes::Buf::remaining));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]
mod tests {
    use std::cell::Cell;
    use std::convert::Infallible;

    use http_body_util::StreamBody;
    use hyper::body::Frame;

    use super::*;

    /// So many parts of 1,000 bytes, and how many were read.
    async fn read(parts: usize, limit: usize) -> (Result<usize, BodyError>, usize) {
        let count = Cell::new(0);
        let parts = (0..parts).map(|_| {
            count.set(count.get() + 1);
            Ok::<_, Infallible>(Frame::data(Bytes::from_static(&[b'x'; 1000])))
        });
        let body = StreamBody::new(futures::stream::iter(parts));
        let result = read_body(body, limit).await.map(|bytes| bytes.len());
        (result, count.get())
    }

    #[tokio::test]
    async fn a_body_within_the_limit_is_read_whole() {
        assert_eq!(read(3, 3000).await.0.unwrap(), 3000);
        assert_eq!(read(0, 0).await.0.unwrap(), 0);
    }

    #[tokio::test]
    async fn a_body_that_is_too_large_is_taken_to_its_end_so_that_its_sender_reads_the_answer() {
        let (result, count) = read(100, 3000).await;
        assert_eq!(result.unwrap_err().to_string(), "the request is larger than 3000 bytes");
        assert_eq!(count, 100);
    }

    #[tokio::test]
    async fn a_body_without_end_is_not() {
        let (result, count) = read(1_000_000, 3000).await;
        assert!(result.is_err());
        assert!(count < 1100, "{count} parts");
    }
}
