//! Answers over HTTP.

use std::convert::Infallible;
use std::io::Write as _;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};

use apimachinery::Status;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::stream::{BoxStream, StreamExt as _};
use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER, VARY, WARNING,
};
use http::{HeaderMap, HeaderValue, StatusCode};
use hyper::body::{Body as HttpBody, Frame, SizeHint};

use crate::content::{Accepted, Format, write_status};

/// An answer.
pub type Response = http::Response<Body>;

/// The body of a response.
pub enum Body {
    /// What is left of a body that is known from the start.
    Whole(Option<Bytes>),
    /// A body that is made while it is sent.
    Stream(BoxStream<'static, Bytes>),
}

/// How much of a body is handed to the HTTP layer at once, so that a client that reads slowly is told from one that does not read.
const PART_BYTES: usize = 64 << 10;

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut TaskContext<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Body::Whole(rest) => {
                let part = rest.as_mut().map(|bytes| bytes.split_to(bytes.len().min(PART_BYTES)));
                if rest.as_ref().is_some_and(Bytes::is_empty) {
                    *rest = None;
                }
                Poll::Ready(part.map(|part| Ok(Frame::data(part))))
            }
            Body::Stream(stream) => {
                stream.poll_next_unpin(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Body::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Body::Stream(_) => SizeHint::default(),
        }
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Body::Whole(bytes) => formatter.debug_tuple("Whole").field(bytes).finish(),
            Body::Stream(_) => formatter.debug_tuple("Stream").finish_non_exhaustive(),
        }
    }
}

/// An answer with a whole body.
pub(crate) fn whole(code: StatusCode, media_type: &'static str, body: impl Into<Bytes>) -> Response {
    let mut response = http::Response::new(Body::Whole(Some(body.into())));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// An answer without a body.
pub(crate) fn empty(code: StatusCode) -> Response {
    let mut response = http::Response::new(Body::Whole(None));
    *response.status_mut() = code;
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// An answer of plain text.
pub(crate) fn text(code: StatusCode, body: impl Into<Bytes>) -> Response {
    let mut response = whole(code, "text/plain; charset=utf-8", body);
    response.headers_mut().insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    response
}

/// An answer that says how it went.
pub(crate) fn status(accepted: Accepted, status: &Status) -> Response {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::OK);
    let media_type = match accepted.format {
        Format::Json => "application/json",
        Format::Yaml => "application/yaml",
    };
    let mut response = whole(code, media_type, write_status(accepted, status));
    let retry = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
    if retry > 0 {
        response.headers_mut().insert(RETRY_AFTER, retry.into());
    }
    response
}

/// Tells the client what it should know besides.
pub(crate) fn add_warnings(response: &mut Response, warnings: &[String]) {
    for warning in warnings {
        let text: String = warning
            .chars()
            .map(|character| if character.is_control() { ' ' } else { character })
            .flat_map(|character| {
                let escaped = matches!(character, '"' | '\\').then_some('\\');
                escaped.into_iter().chain([character])
            })
            .collect();
        if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{text}\"").as_bytes()) {
            response.headers_mut().append(WARNING, value);
        }
    }
}

const GZIP_ABOVE: usize = 128 << 10;

/// Whether a client takes compressed answers.
pub(crate) fn takes_gzip(headers: &HeaderMap) -> bool {
    headers
        .get_all(ACCEPT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|encoding| encoding.trim() == "gzip")
}

/// Compresses a large answer. The level is the least, which costs far less and saves almost as much.
pub(crate) fn gzip(response: &mut Response) {
    let Body::Whole(Some(body)) = response.body() else { return };
    if response.headers().contains_key(CONTENT_ENCODING) {
        return;
    }
    let Some(compressed) = compress(body) else { return };
    *response.body_mut() = Body::Whole(Some(compressed));
    mark_gzip(response);
}

/// The compressed bytes, if they are enough for that.
pub(crate) fn compress(bytes: &Bytes) -> Option<Bytes> {
    if bytes.len() <= GZIP_ABOVE {
        return None;
    }
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 8), Compression::new(1));
    let compressed = encoder.write_all(bytes).and_then(|()| encoder.finish()).ok()?;
    Some(compressed.into())
}

/// Says that a response is compressed.
pub(crate) fn mark_gzip(response: &mut Response) {
    let headers = response.headers_mut();
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
}
