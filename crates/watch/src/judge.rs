//! Finds out by its answers that an API server is of no use although it accepts connections.

use std::task::{Context, Poll};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Extensions, Request, Response, StatusCode};
use hyper_util::client::legacy::connect::{CaptureConnection, capture_connection};
use tower::{BoxError, Layer, Service};

use crate::api_servers::Followed;
use crate::connector::Way;
use crate::deadline::NoAnswer;

/// What counts against an API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Against {
    /// That it does not answer.
    Silence,
    /// That, and that it says that it failed: where nobody but the API server itself has a part in the answer.
    Failures,
}

/// Judges API servers by what becomes of requests.
#[derive(Clone)]
pub(crate) struct JudgeLayer {
    pub(crate) servers: Followed,
    pub(crate) against: Against,
}

impl<S> Layer<S> for JudgeLayer {
    type Service = Judge<S>;

    fn layer(&self, inner: S) -> Judge<S> {
        Judge { inner, how: self.clone() }
    }
}

#[derive(Clone)]
pub(crate) struct Judge<S> {
    inner: S,
    how: JudgeLayer,
}

impl<S, R, B> Service<Request<R>> for Judge<S>
where
    S: Service<Request<R>, Response = Response<B>, Error = BoxError>,
    S::Future: Send + 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<B>, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<R>) -> Self::Future {
        let connection = capture_connection(&mut request);
        let (answer, how) = (self.inner.call(request), self.how.clone());
        async move {
            let answer = answer.await;
            how.judge(connection, answer.as_ref());
            answer
        }
        .boxed()
    }
}

impl JudgeLayer {
    fn judge<B>(&self, connection: CaptureConnection, answer: Result<&Response<B>, &BoxError>) {
        let Some(way) = way(&connection) else { return };
        let cause = match answer {
            Ok(response) if self.against == Against::Failures && is_failure(response.status()) => {
                Some(format!("it answered {}", response.status()))
            }
            Err(error) if error.is::<NoAnswer>() => Some(error.to_string()),
            _ => None,
        };
        if let Some(cause) = cause {
            self.servers.useless(way.ticket, &cause);
        }
        way.captured(connection, &self.servers);
    }
}

fn way(connection: &CaptureConnection) -> Option<Way> {
    let mut extensions = Extensions::new();
    connection.connection_metadata().as_ref()?.get_extras(&mut extensions);
    extensions.remove()
}

/// 501 and 505 would be about the request.
fn is_failure(status: StatusCode) -> bool {
    matches!(status.as_u16(), 500 | 502 | 503 | 504)
}
