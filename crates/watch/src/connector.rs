//! Connects to whichever API server answers, and lets go of one that is not to be used any more.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{CaptureConnection, Connected, Connection};
use tokio::time::{Instant, sleep, timeout};
use tower::{BoxError, Service, ServiceExt as _};

use crate::api_servers::Followed;
use crate::error::with_causes;
use crate::servers::{Server, Ticket};

/// How long a connection to one server may take to come about, TLS included.
pub(crate) const CONNECT: Duration = Duration::from_secs(5);
/// How long a server is waited for before nothing was heard of it. Whoever asks may wait for less than [`CONNECT`].
pub(crate) const SILENCE: Duration = Duration::from_secs(1);
/// How long a connection may last that is not to be used any more. What is asked for meanwhile goes by another one.
pub(crate) const DRAIN: Duration = Duration::from_secs(10);

/// Makes connections, each to the first server with which one comes about.
#[derive(Clone)]
pub(crate) struct AnyServer<C> {
    pub(crate) servers: Followed,
    /// Connects to what was given, and verifies it as the configuration says.
    pub(crate) given: C,
    /// Connects to an address that the cluster lists, and verifies that it is an API server of this cluster.
    pub(crate) listed: C,
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("no connection came about within {CONNECT:?}")]
    Late,
    #[error("no API server can be connected with: {0}")]
    All(String),
}

impl<C> Service<Uri> for AnyServer<C>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + Read + Write + Send + Unpin + 'static,
    C::Error: Into<BoxError>,
    C::Future: Send,
{
    type Response = Drained<C::Response>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, given: Uri) -> Self::Future {
        let any = self.clone();
        async move {
            let mut failures: Vec<(Server, BoxError)> = Vec::new();
            let (order, begun) = any.servers.order();
            for server in order {
                let mut attempt = Attempt::new(&any.servers, server);
                match any.connect(server, &given).await {
                    Ok(stream) => {
                        attempt.succeeded = true;
                        let ticket = any.servers.connected(server, begun);
                        return Ok(Drained::new(stream, &any.servers, ticket));
                    }
                    Err(error) => {
                        any.servers.refused(server);
                        let (address, why) = (any.servers.name(server), with_causes(&*error));
                        tracing::debug!(address, why, "an API server cannot be connected with");
                        failures.push((server, error));
                    }
                }
            }
            Err(any.summary(failures))
        }
        .boxed()
    }
}

impl<C> AnyServer<C>
where
    C: Service<Uri> + Clone,
    C::Error: Into<BoxError>,
{
    async fn connect(&self, server: Server, given: &Uri) -> Result<C::Response, BoxError> {
        let (connector, uri) = match server {
            Server::Given => (&self.given, given.clone()),
            Server::At(address) => {
                let uri = Uri::builder().scheme("https").authority(address.to_string()).path_and_query("/");
                (&self.listed, uri.build()?)
            }
        };
        let stream = timeout(CONNECT, connector.clone().oneshot(uri)).await;
        stream.map_err(|_| Failure::Late)?.map_err(Into::into)
    }

    /// One error of all: that of the only server as it is.
    fn summary(&self, mut failures: Vec<(Server, BoxError)>) -> BoxError {
        if failures.len() == 1
            && let Some((_, error)) = failures.pop()
        {
            return error;
        }
        let texts = failures
            .iter()
            .map(|(server, error)| format!("{}: {}", self.servers.name(*server), with_causes(&**error)));
        Failure::All(texts.collect::<Vec<_>>().join("; ")).into()
    }
}

/// An attempt to connect. Whoever asks may give it up before its own time is over, and then nothing else is told of it.
struct Attempt<'a> {
    servers: &'a Followed,
    server: Server,
    begun: Instant,
    succeeded: bool,
}

impl<'a> Attempt<'a> {
    fn new(servers: &'a Followed, server: Server) -> Self {
        Self { servers, server, begun: Instant::now(), succeeded: false }
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if !self.succeeded && self.begun.elapsed() >= SILENCE {
            self.servers.silent(self.server);
        }
    }
}

/// Makes connections to one server, whatever is known of it, and tells nobody.
#[derive(Clone)]
pub(crate) struct OneServer<C> {
    pub(crate) any: AnyServer<C>,
    pub(crate) server: Server,
}

impl<C> Service<Uri> for OneServer<C>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Send,
    C::Error: Into<BoxError>,
    C::Future: Send,
{
    type Response = C::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<C::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, given: Uri) -> Self::Future {
        let Self { any, server } = self.clone();
        async move { any.connect(server, &given).await }.boxed()
    }
}

/// Which server a request went to: the connection says it to every answer that comes by it.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    pub(crate) ticket: Ticket,
    /// The connection's own: what is told to answers must not keep itself alive.
    place: Weak<Place>,
}

/// The place of a connection in the pool, once a request that used it has got hold of that.
#[derive(Debug, Default)]
struct Place(Mutex<Option<CaptureConnection>>);

impl Way {
    /// A request has got hold of the connection.
    pub(crate) fn captured(&self, connection: CaptureConnection, servers: &Followed) {
        let Some(place) = self.place.upgrade() else { return };
        *place.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(connection);
        if !servers.keeps(self.ticket) {
            place.leave();
        }
    }
}

impl Place {
    /// No further request gets the connection.
    fn leave(&self) {
        if let Some(connection) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
            && let Some(connected) = connection.connection_metadata().as_ref()
        {
            connected.poison();
        }
    }
}

/// A connection that ends, within [`DRAIN`], when its server is not to be used any more.
pub(crate) struct Drained<S> {
    stream: S,
    way: Way,
    end: Pin<Box<dyn Future<Output = ()> + Send>>,
    ended: bool,
}

impl<S> Drained<S> {
    fn new(stream: S, servers: &Followed, ticket: Ticket) -> Self {
        let place = Arc::new(Place::default());
        let way = Way { ticket, place: Arc::downgrade(&place) };
        let servers = servers.clone();
        let end = async move {
            servers.given_up(ticket).await;
            place.leave();
            sleep(DRAIN).await;
        };
        Self { stream, way, end: end.boxed(), ended: false }
    }
}

impl<S: Connection> Connection for Drained<S> {
    fn connected(&self) -> Connected {
        self.stream.connected().extra(self.way.clone())
    }
}

impl<S: Read + Unpin> Read for Drained<S> {
    // A connection is read from for as long as it is open: that is when it is seen that it shall end.
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if self.ended || self.end.as_mut().poll(context).is_ready() {
            self.ended = true;
            let why = "the API server is not to be used any more: others are listed, or it did not answer";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionAborted, why)));
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: Write + Unpin> Write for Drained<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, buffers)
    }
}

#[cfg(test)]
mod tests;
