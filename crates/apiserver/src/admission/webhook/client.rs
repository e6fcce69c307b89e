//! Calling webhooks over TLS. Connections are kept for a while and used again.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, USER_AGENT};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

use super::failure;

/// How long a connection is kept that nobody uses.
const IDLE: Duration = Duration::from_secs(90);
/// How many connections to one place are kept that nobody uses.
const MOST_IDLE: usize = 8;
/// How much a webhook may answer.
const MOST_ANSWERED: usize = 8 << 20;
/// Where systems keep the authorities that all programs trust.
const SYSTEM_BUNDLES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// Whose certificates are trusted.
#[derive(Clone)]
pub(super) struct Trust {
    config: Arc<ClientConfig>,
    // Connections made under equal trust are shared.
    digest: [u8; 32],
}

impl Trust {
    /// Trusts what these authorities sign.
    pub(super) fn of_pem(pem: &[u8]) -> Result<Trust, String> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem).filter_map(Result::ok) {
            // As with OpenSSL and Go, one that cannot be used does not make the others useless.
            let _ = roots.add(certificate);
        }
        if roots.is_empty() {
            return Err("unable to load root certificates: unable to parse bytes as PEM block".into());
        }
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let mut config =
            config.map_err(|error| error.to_string())?.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Trust { config: Arc::new(config), digest: Sha256::digest(pem).into() })
    }

    /// Trusts what the system trusts.
    pub(super) fn system() -> Result<Trust, String> {
        let bundle = SYSTEM_BUNDLES.iter().find_map(|path| std::fs::read(path).ok());
        Trust::of_pem(&bundle.ok_or("this system trusts no authorities, and the webhook has no caBundle")?)
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Trust").finish_non_exhaustive()
    }
}

/// Where to connect to, and how.
#[derive(Clone, Debug)]
pub(super) struct Destination<'a> {
    /// A name or an address, and a port.
    pub(super) address: (String, u16),
    /// The name that the certificate must be for.
    pub(super) server_name: String,
    pub(super) trust: &'a Trust,
}

/// A request to be made.
#[derive(Clone, Debug)]
pub(super) struct Post {
    pub(super) authority: String,
    pub(super) path_and_query: String,
    pub(super) body: Bytes,
}

/// What came back.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) code: StatusCode,
    pub(super) content_type: String,
    pub(super) body: Bytes,
}

type PlaceKey = ((String, u16), String, [u8; 32]);
type Sender = SendRequest<Full<Bytes>>;
/// Connections that nobody uses, by place, each with since when.
type Idle = HashMap<PlaceKey, Vec<(Instant, Sender)>>;

/// Makes requests, over connections that are kept.
#[derive(Clone, Debug, Default)]
pub(super) struct Client {
    idle: Arc<Mutex<Idle>>,
}

impl Client {
    /// Makes a request. The error is what Go's client would say.
    pub(super) async fn post(&self, destination: &Destination<'_>, post: &Post) -> Result<Answer, String> {
        let key = (destination.address.clone(), destination.server_name.clone(), destination.trust.digest);
        let mut request = request(post)?;
        while let Some(mut sender) = self.take(&key) {
            match sender.try_send_request(request).await {
                Ok(response) => return self.finish(key, sender, response).await,
                Err(mut error) => match error.take_message() {
                    // The other side had closed the connection: nothing was sent.
                    Some(unsent) => request = unsent,
                    None => return Err(failure::of_hyper(&error.into_error())),
                },
            }
        }
        let mut sender = connect(destination).await?;
        let response = sender.send_request(request).await.map_err(|error| failure::of_hyper(&error))?;
        self.finish(key, sender, response).await
    }

    async fn finish(
        &self,
        key: PlaceKey,
        sender: Sender,
        response: Response<Incoming>,
    ) -> Result<Answer, String> {
        let code = response.status();
        let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let content_type = content_type.unwrap_or_default().to_owned();
        let body = Limited::new(response.into_body(), MOST_ANSWERED).collect().await;
        let body = body.map_err(|error| error.to_string())?.to_bytes();
        self.keep(key, sender);
        Ok(Answer { code, content_type, body })
    }

    fn take(&self, key: &PlaceKey) -> Option<Sender> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let senders = idle.get_mut(key)?;
        senders.retain(|(since, sender)| since.elapsed() < IDLE && !sender.is_closed());
        senders.pop().map(|(_, sender)| sender)
    }

    fn keep(&self, key: PlaceKey, sender: Sender) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|_, senders| {
            senders.retain(|(since, sender)| since.elapsed() < IDLE && !sender.is_closed());
            !senders.is_empty()
        });
        let senders = idle.entry(key).or_default();
        if senders.len() < MOST_IDLE && !sender.is_closed() {
            senders.push((Instant::now(), sender));
        }
    }
}

fn request(post: &Post) -> Result<Request<Full<Bytes>>, String> {
    Request::builder()
        .method(Method::POST)
        .uri(&post.path_and_query)
        .header(HOST, &post.authority)
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "application/json, */*")
        .header(USER_AGENT, "kube-apiserver-admission")
        .body(Full::new(post.body.clone()))
        .map_err(|error| error.to_string())
}

async fn connect(destination: &Destination<'_>) -> Result<Sender, String> {
    let (host, port) = &destination.address;
    let stream = TcpStream::connect((host.as_str(), *port));
    let stream = stream.await.map_err(|error| failure::of_connect(host, *port, &error))?;
    // Questions are small and wait for their answers.
    let _ = stream.set_nodelay(true);
    let name = ServerName::try_from(destination.server_name.clone()).map_err(|error| error.to_string())?;
    let stream = TlsConnector::from(destination.trust.config.clone()).connect(name, stream).await;
    let stream = stream.map_err(|error| failure::of_tls(&error, &destination.server_name))?;
    let handshake = http1::handshake(TokioIo::new(stream)).await;
    let (sender, connection) = handshake.map_err(|error| failure::of_hyper(&error))?;
    tokio::spawn(async move {
        // How it ended, whoever used it last was told.
        let _ = connection.await;
    });
    Ok(sender)
}
