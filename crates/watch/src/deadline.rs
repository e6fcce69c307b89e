//! A deadline for every request but watches: a connection that nobody answers on must not keep anyone waiting for good.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until, timeout_at};
use tower::{BoxError, Layer, Service};

/// How long the API server may take for an answer, all of it; of a watch, to open it.
pub const ANSWER: Duration = Duration::from_secs(30);

/// The API server took too long.
#[derive(Debug, thiserror::Error)]
#[error("the API server did not answer within {ANSWER:?}")]
pub(crate) struct NoAnswer;

/// Gives the requests of a client their deadline.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeadlineLayer;

impl<S> Layer<S> for DeadlineLayer {
    type Service = Deadline<S>;

    fn layer(&self, service: S) -> Deadline<S> {
        Deadline(service)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Deadline<S>(S);

impl<S, R, B> Service<Request<R>> for Deadline<S>
where
    S: Service<Request<R>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    type Response = Response<TimelyBody<B>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<R>) -> Self::Future {
        let until = Instant::now() + ANSWER;
        let is_watch = is_watch(request.uri());
        let answer = self.0.call(request);
        async move {
            let response = timeout_at(until, answer).await.map_err(|_| NoAnswer)?.map_err(Into::into)?;
            // What a watch brings has no end; its follower notices when nothing comes.
            let until = (!is_watch).then(|| Box::pin(sleep_until(until)));
            Ok(response.map(|body| TimelyBody { body: Box::pin(body), until }))
        }
        .boxed()
    }
}

fn is_watch(uri: &http::Uri) -> bool {
    let mut parameters = uri.query().unwrap_or_default().split('&');
    parameters.any(|parameter| matches!(parameter, "watch=true" | "watch=1"))
}

/// The body of an answer, which ends with an error if the rest does not come in time.
pub(crate) struct TimelyBody<B> {
    body: Pin<Box<B>>,
    until: Option<Pin<Box<Sleep>>>,
}

impl<B: Body> Body for TimelyBody<B>
where
    B::Error: Into<BoxError>,
{
    type Data = B::Data;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, BoxError>>> {
        if let Poll::Ready(frame) = self.body.as_mut().poll_frame(context) {
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        match &mut self.until {
            Some(until) => until.as_mut().poll(context).map(|()| Some(Err(NoAnswer.into()))),
            None => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
