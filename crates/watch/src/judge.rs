//! Finds out by its answers that an API server is of no use although it accepts connections.
//!
//! Others may have a part in an answer, or in that there is none: a webhook, or the server of an aggregated API. What counts is an answer in
//! which nobody has: that to a read of what API servers list themselves in. Whoever misses another answer has that read done, once for all.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Extensions, Request, Response, StatusCode};
use hyper_util::client::legacy::connect::{CaptureConnection, capture_connection};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};
use tower::{BoxError, Layer, Service};

use crate::api_servers::Followed;
use crate::connector::{SILENCE, Way};
use crate::deadline::NoAnswer;
use crate::servers::{Server, Ticket};

/// How long it takes from one question to a server that is in doubt to the next.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// What it means that an API server does not answer, or says that it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Against {
    /// It is in doubt, and asked.
    Doubts,
    /// It is of no use, as nobody but the API server itself has a part in the answer.
    Failures,
}

/// Asks a server what is its own business alone. Returns what is wrong with it, if anything.
pub(crate) type Ask = Arc<dyn Fn(Server) -> BoxFuture<'static, Option<String>> + Send + Sync>;

/// Judges API servers by what becomes of requests.
#[derive(Clone)]
pub(crate) struct JudgeLayer {
    pub(crate) servers: Followed,
    pub(crate) against: Against,
    pub(crate) ask: Ask,
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
            let mut pending = Pending { how, connection: Some(connection), since: Instant::now() };
            let answer = answer.await;
            pending.end(answer.as_ref());
            answer
        }
        .boxed()
    }
}

/// A request that was not answered yet.
struct Pending {
    how: JudgeLayer,
    connection: Option<CaptureConnection>,
    since: Instant,
}

impl Pending {
    fn end<B>(&mut self, answer: Result<&Response<B>, &BoxError>) {
        let Some(connection) = self.connection.take() else { return };
        let Some(way) = way(&connection) else { return };
        let cause = match answer {
            Ok(response) if is_failure(response.status()) => {
                Some(format!("it answered {}", response.status()))
            }
            Err(error) if error.is::<NoAnswer>() => Some(error.to_string()),
            _ => None,
        };
        if let Some(cause) = cause {
            match self.how.against {
                Against::Doubts => self.how.doubt(way.ticket),
                Against::Failures => self.how.servers.useless(way.ticket, &cause),
            }
        }
        way.captured(connection, &self.how.servers);
    }
}

impl Drop for Pending {
    /// Whoever asked waits no longer.
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take()
            && self.since.elapsed() >= SILENCE
            && let Some(way) = way(&connection)
        {
            self.how.doubt(way.ticket);
        }
    }
}

impl JudgeLayer {
    /// Has a server asked, unless one is asked now or that would change nothing.
    fn doubt(&self, ticket: Ticket) {
        let Ok(runtime) = Handle::try_current() else { return };
        let Some(turn) = self.servers.turn_to_ask(ticket) else { return };
        let (servers, asked) = (self.servers.clone(), (self.ask)(ticket.server()));
        runtime.spawn(async move {
            if let Some(cause) = asked.await {
                servers.useless(ticket, &cause);
            }
            sleep(ASK_AGAIN).await;
            drop(turn);
        });
    }
}

fn way(connection: &CaptureConnection) -> Option<Way> {
    let mut extensions = Extensions::new();
    connection.connection_metadata().as_ref()?.get_extras(&mut extensions);
    extensions.remove()
}

/// 501 and 505 would be about the request.
pub(crate) fn is_failure(status: StatusCode) -> bool {
    matches!(status.as_u16(), 500 | 502 | 503 | 504)
}
