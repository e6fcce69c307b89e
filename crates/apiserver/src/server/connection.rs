//! Connections: accepting them, TLS, and their end.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::{Shared, handler};
use crate::authn::{UserInfo, user_of_certificate};

// How long requests may take to finish after the server was told to end.
const GRACE: Duration = Duration::from_secs(10);
// A client that does not finish its handshake is not waited for.
const HANDSHAKE: Duration = Duration::from_secs(10);
// When there are no more file descriptors, trying again at once only burns the processor.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(50);

pub(super) async fn serve(
    shared: Arc<Shared>,
    tls: Option<Arc<rustls::ServerConfig>>,
    listener: TcpListener,
    shutdown: impl Future<Output = ()>,
) {
    let acceptor = tls.map(TlsAcceptor::from);
    let (ending, ended) = watch::channel(false);
    let mut connections = JoinSet::new();
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let (shared, acceptor, ended) = (shared.clone(), acceptor.clone(), ended.clone());
                    connections.spawn(async move {
                        if let Err(error) = connection(shared, acceptor, stream, ended).await {
                            tracing::debug!(%error, "connection ended");
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
    let Some(acceptor) = acceptor else { return http(shared, stream, None, ended).await };
    let stream = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await??;
    let user = stream.get_ref().1.peer_certificates().and_then(|chain| user_of_certificate(chain.first()?));
    http(shared, stream, user, ended).await
}

async fn http<S>(
    shared: Arc<Shared>,
    stream: S,
    certificate: Option<UserInfo>,
    mut ended: watch::Receiver<bool>,
) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let certificate = Arc::new(certificate);
    let headers = shared.limits.limits().headers;
    let service = service_fn(move |request| {
        let (shared, certificate) = (shared.clone(), certificate.clone());
        async move { Ok::<_, Infallible>(handler::handle(shared, (*certificate).as_ref(), request).await) }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(headers);
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(1000);
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).into_owned();

    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        result = &mut connection => return result.map_err(io::Error::other),
        // The sender lives until all connections are done; if it does not, the server is gone too.
        _ = ended.wait_for(|ended| *ended) => {}
    }
    connection.as_mut().graceful_shutdown();
    connection.await.map_err(io::Error::other)
}
