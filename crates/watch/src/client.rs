//! The client that followers and writers share.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use http::{Request, Uri};
use hyper::rt::{Read, Write};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::{Connection, HttpConnector};
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ClientBuilder, ConfigExt as _};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use tokio::time::timeout;
use tower::{BoxError, Service, ServiceBuilder};

use crate::Error;
use crate::api_servers::{Followed, LIST};
use crate::connector::{AnyServer, CONNECT, OneServer};
use crate::deadline::DeadlineLayer;
use crate::judge::{Against, Ask, JudgeLayer, is_failure};

/// What the certificate of every API server of a cluster names, besides its own addresses.
const NAME: &str = "kubernetes.default.svc";
/// A connection on which nothing came for this long is probed: a watch may bring nothing for minutes, and a path that has gone says nothing
/// at all.
const IDLE: Duration = Duration::from_secs(10);
/// How soon after one probe comes the next.
const BETWEEN_PROBES: Duration = Duration::from_secs(5);
/// How long the other side may leave probes, or what was sent, without an answer. Then the connection is dead, and what was watched by it is
/// watched anew.
const UNANSWERED: Duration = Duration::from_secs(20);

/// How long a server may take to connect and answer that is in doubt.
const IN_DOUBT: Duration = Duration::from_secs(5);

/// Which API servers a client uses.
pub(crate) enum Reached {
    /// The one that the configuration names.
    Given,
    /// Any of the cluster that answers, and what failures say of one.
    Any(Followed, Against),
}

/// A client of this API server. Every request but a watch ends within [`ANSWER`](crate::ANSWER), with an error that says so if there was
/// no answer; a watch whose connection is dead ends within half a minute. It repeats nothing by itself: a client that silently waits out a
/// 503 or 429 makes its caller's pauses add up, and hides from it that the API server is not there.
///
/// # Errors
/// When the configuration is of no use, for example because a certificate cannot be read.
pub fn client(config: kube::Config) -> Result<kube::Client, Error> {
    build(config, Reached::Given)
}

pub(crate) fn build(mut config: kube::Config, reached: Reached) -> Result<kube::Client, Error> {
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT);
    if config.proxy_url.is_some() {
        // Of the connection to a proxy nothing can be set. It says itself what it cannot do.
        return Ok(ClientBuilder::try_from(config).map_err(readable)?.with_layer(&DeadlineLayer).build());
    }
    if CryptoProvider::get_default().is_none() {
        // It may be set meanwhile, and then it is.
        let _ = aws_lc_rs::default_provider().install_default();
    }
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_keepalive(Some(IDLE));
    tcp.set_keepalive_interval(Some(BETWEEN_PROBES));
    // With this it is the time that counts, not the number of probes.
    tcp.set_tcp_user_timeout(Some(UNANSWERED));
    let given = config.rustls_https_connector_with_connector(tcp.clone()).map_err(readable)?;
    match reached {
        Reached::Given => assemble(&config, given, None),
        Reached::Any(servers, against) => {
            // Each attempt has its own time.
            config.connect_timeout = None;
            let mut by_name = config.clone();
            by_name.tls_server_name.get_or_insert_with(|| NAME.to_owned());
            let listed = by_name.rustls_https_connector_with_connector(tcp).map_err(readable)?;
            let any = AnyServer { servers: servers.clone(), given, listed };
            let judge = JudgeLayer { servers, against, ask: ask(&config, &any) };
            assemble(&config, any, Some(judge))
        }
    }
}

/// Reads live, by a connection of its own, what API servers list themselves in. Any answer will do but that the server failed.
pub(crate) fn ask<C>(config: &kube::Config, any: &AnyServer<C>) -> Ask
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + Read + Write + Send + Unpin + 'static,
    C::Error: Into<BoxError>,
    C::Future: Send + 'static,
{
    let (config, any) = (config.clone(), any.clone());
    Arc::new(move |server| {
        let (config, connector) = (config.clone(), OneServer { any: any.clone(), server });
        async move {
            // What is wrong here says nothing about the server.
            let client = assemble(&config, connector, None).ok()?;
            let request = Request::get(LIST).body(Body::empty()).ok()?;
            match timeout(IN_DOUBT, client.send(request)).await {
                Ok(Ok(response)) if is_failure(response.status()) => {
                    Some(format!("it answered {}", response.status()))
                }
                Ok(Ok(_)) => None,
                Ok(Err(error)) => Some(Error::from(error).to_string()),
                Err(_) => Some(format!("it did not answer a read of its list within {IN_DOUBT:?}")),
            }
        }
        .boxed()
    })
}

/// A client whose connections are made by a connector.
pub(crate) fn assemble<C>(
    config: &kube::Config,
    connector: C,
    judge: Option<JudgeLayer>,
) -> Result<kube::Client, Error>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + Read + Write + Send + Unpin + 'static,
    C::Error: Into<BoxError>,
    C::Future: Send + 'static,
{
    let mut connector = TimeoutConnector::new(connector);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let connections: legacy::Client<_, Body> = legacy::Builder::new(TokioExecutor::new()).build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().map_err(readable)?)
        .layer(config.extra_headers_layer().map_err(readable)?)
        .map_err(BoxError::from)
        .service(connections);
    let builder = ClientBuilder::new(service, &*config.default_namespace).with_layer(&DeadlineLayer);
    Ok(match judge {
        None => builder.build(),
        Some(judge) => builder.with_layer(&judge).build(),
    })
}

fn readable(error: kube::Error) -> Error {
    // kube reports every client certificate that rustls does not take as an invalid private key.
    let is_version_1 = format!("{error:?}").contains("UnsupportedCertVersion");
    if is_version_1 { Error::CertificateVersion } else { error.into() }
}
