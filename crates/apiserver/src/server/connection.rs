//! Connections: accepting them, TLS, and when they are closed.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::activity::{Active, Activity, Missing};
use super::answer::Body;
use super::unwritten::Unwritten;
use super::{Shared, handler};
use crate::authn::{UserInfo, user_of_certificate};
use crate::metrics::Closed;

// How long requests may take to finish after the server was told to end.
const GRACE: Duration = Duration::from_secs(10);
// How long a connection without requests may take to close.
const CLOSING: Duration = Duration::from_secs(5);
// When there are no more file descriptors, trying again at once only burns the processor.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(50);
// A client whose machine is gone is noticed by HTTP/2 pings after both of these.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);
// Over HTTP/1 by the kernel's probes, after the interval and this many.
const PROBE_INTERVAL: Duration = Duration::from_secs(15);
const PROBES: u32 = 4;
// As Go's server has it.
const MAX_STREAMS: u32 = 250;
// What the HTTP layer may hold of responses, per connection of HTTP/1 and per stream of HTTP/2, besides one part that is larger.
// For HTTP/1 it is also how long the head of a request may be.
const BUFFER_BYTES: usize = 128 << 10;

/// The other end of a connection.
#[derive(Debug)]
pub(super) struct Peer {
    /// The user that the client's certificate names, if it has one.
    pub(super) certificate: Option<UserInfo>,
    /// Absent if the connection is closed already.
    pub(super) address: Option<IpAddr>,
}

pub(super) async fn serve(
    shared: Arc<Shared>,
    tls: Option<Arc<rustls::ServerConfig>>,
    listener: TcpListener,
    shutdown: impl Future<Output = ()>,
) {
    let acceptor = tls.map(TlsAcceptor::from);
    let places = Arc::new(Semaphore::new(shared.limits.limits().connections.min(Semaphore::MAX_PERMITS)));
    let (ending, ended) = watch::channel(false);
    let mut connections = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    let mut refusing = false;
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, address)) => {
                    let Ok(place) = places.clone().try_acquire_owned() else {
                        shared.metrics.connection_closed(Closed::Refused);
                        // Once for all that are refused together.
                        if !refusing {
                            let limit = shared.limits.limits().connections;
                            tracing::warn!(limit, client = %address, "too many connections: new ones are closed");
                        }
                        refusing = true;
                        continue;
                    };
                    refusing = false;
                    let (shared, acceptor, ended) = (shared.clone(), acceptor.clone(), ended.clone());
                    connections.spawn(async move {
                        let _open = (place, shared.metrics.connection());
                        if let Err(error) = connection(shared, acceptor, stream, ended).await {
                            tracing::debug!(%error, client = %address, "connection ended");
                        }
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "connection not accepted");
                    tokio::time::sleep(ACCEPT_BACKOFF).await;
                }
            }
        }
    }
    drop(listener);
    shared.health.shut_down();
    shared.api.hub().close();
    ending.send_replace(true);
    let finished = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(GRACE, finished).await.is_err() {
        if let Some(audit) = &shared.audit {
            audit.shut_down();
        }
        connections.shutdown().await;
    }
}

async fn connection(
    shared: Arc<Shared>,
    acceptor: Option<TlsAcceptor>,
    stream: TcpStream,
    ended: watch::Receiver<bool>,
) -> io::Result<()> {
    // Events are small and must not wait for one another.
    stream.set_nodelay(true)?;
    probe_when_silent(&stream)?;
    let address = stream.peer_addr().ok().map(|address| address.ip());
    let Some(acceptor) = acceptor else {
        return http(shared, stream, Peer { certificate: None, address }, ended).await;
    };
    let limit = shared.limits.limits().handshake;
    let stream = match tokio::time::timeout(limit, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        failed => {
            shared.metrics.connection_closed(Closed::Handshake);
            failed??;
            return Ok(());
        }
    };
    let certificate =
        stream.get_ref().1.peer_certificates().and_then(|chain| user_of_certificate(chain.first()?));
    http(shared, stream, Peer { certificate, address }, ended).await
}

/// Lets the kernel find out whether a client still exists that sends nothing, such as one that watches over HTTP/1.
fn probe_when_silent(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, PING_INTERVAL)?;
    sockopt::set_tcp_keepintvl(stream, PROBE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(stream, PROBES)?;
    Ok(())
}

async fn http<S>(
    shared: Arc<Shared>,
    stream: S,
    peer: Peer,
    mut ended: watch::Receiver<bool>,
) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let limits = *shared.limits.limits();
    let (peer, activity, unwritten) =
        (Arc::new(peer), Arc::new(Activity::new()), Arc::new(Unwritten::default()));
    let service = service_fn({
        let (shared, peer, activity, unwritten) =
            (shared.clone(), peer.clone(), activity.clone(), unwritten.clone());
        move |request| {
            let (shared, peer, unwritten) = (shared.clone(), peer.clone(), unwritten.clone());
            let active = activity.begin();
            async move {
                let response = handler::handle(shared, &peer, request).await;
                Ok::<_, Infallible>(response.map(|body| TrackedBody { body, unwritten, _active: active }))
            }
        }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(limits.headers).max_buf_size(BUFFER_BYTES);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_send_buf_size(BUFFER_BYTES)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));

    let end = tokio::select! {
        result = &mut connection => return result.map_err(io::Error::other),
        // The sender lives until all connections are done; if it does not, the server is gone too.
        _ = ended.wait_for(|ended| *ended) => End::Shutdown,
        () = unwritten.exceeds(limits.write) => End::Unread,
        missing = activity.ceases(limits.headers, limits.idle) => End::Missing(missing),
    };
    match end {
        End::Shutdown => {
            connection.as_mut().graceful_shutdown();
            connection.await.map_err(io::Error::other)
        }
        End::Unread => {
            shared.metrics.connection_closed(Closed::Unread);
            let user = peer.certificate.as_ref().map(|user| user.name.as_str()).unwrap_or_default();
            let (client, seconds) = (peer.address, limits.write.as_secs());
            tracing::info!(?client, user, seconds, "connection closed: the client did not read a response");
            Ok(())
        }
        End::Missing(Missing::FirstRequest) => {
            shared.metrics.connection_closed(Closed::NoRequest);
            Ok(())
        }
        End::Missing(Missing::NextRequest) => {
            shared.metrics.connection_closed(Closed::Idle);
            connection.as_mut().graceful_shutdown();
            let closed = tokio::time::timeout(CLOSING, connection).await;
            closed.map_or(Ok(()), |closed| closed.map_err(io::Error::other))
        }
    }
}

/// Why the server ends a connection.
enum End {
    Shutdown,
    Unread,
    Missing(Missing),
}

/// The body of a response whose parts are tracked until they are written.
struct TrackedBody {
    body: Body,
    unwritten: Arc<Unwritten>,
    _active: Active,
}

impl HttpBody for TrackedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        polled.map(|frame| {
            frame.map(|frame| frame.map(|frame| frame.map_data(|part| self.unwritten.track(part))))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
