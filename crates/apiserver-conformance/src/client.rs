//! HTTP/1.1 over TLS, with one connection kept for each user and another for each watch.

use std::collections::HashMap;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::endpoint::{ClientCertificate, Endpoint, USERS};
use crate::error::{Error, Result};

/// How long a server may take for one answer, or for one event of a watch.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A client of one server; cloning it gives one with connections of its own.
pub(crate) struct Client {
    address: SocketAddr,
    tls: TlsConnector,
    tls_of_pilot: TlsConnector,
    connections: HashMap<String, SendRequest<Full<Bytes>>>,
}

/// A whole answer.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// An answer that comes line by line. Dropping it closes its connection.
pub(crate) struct Lines {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    body: Incoming,
    read: BytesMut,
}

impl Clone for Client {
    fn clone(&self) -> Self {
        Self {
            address: self.address,
            tls: self.tls.clone(),
            tls_of_pilot: self.tls_of_pilot.clone(),
            connections: HashMap::new(),
        }
    }
}

impl Client {
    pub(crate) fn new(endpoint: &Endpoint) -> Result<Self> {
        Ok(Self {
            address: endpoint.address,
            tls: connector(&endpoint.authority, None)?,
            tls_of_pilot: connector(&endpoint.authority, Some(&endpoint.pilot))?,
            connections: HashMap::new(),
        })
    }

    /// Asks as this user and waits for the whole answer.
    pub(crate) async fn ask(&mut self, user: &str, request: Request<Full<Bytes>>) -> Result<Answer> {
        let what = line(&request);
        let mut connection = match self.kept(user).await {
            Some(connection) => connection,
            None => self.connect(user, &what).await?,
        };
        let request = self.complete(user, request)?;
        let answer = in_time(&what, async {
            let response = connection.send_request(request).await.map_err(|error| broken(&what, &error))?;
            let (head, body) = response.into_parts();
            let body = body.collect().await.map_err(|error| broken(&what, &error))?.to_bytes();
            Ok(Answer { status: head.status, headers: head.headers, body })
        })
        .await?;
        self.connections.insert(user.to_owned(), connection);
        Ok(answer)
    }

    /// Asks as this user and returns as soon as the answer begins.
    pub(crate) async fn watch(&self, user: &str, request: Request<Full<Bytes>>) -> Result<Lines> {
        let what = line(&request);
        let mut connection = self.connect(user, &what).await?;
        let request = self.complete(user, request)?;
        let response: Response<Incoming> = in_time(&what, async {
            connection.send_request(request).await.map_err(|error| broken(&what, &error))
        })
        .await?;
        let (head, body) = response.into_parts();
        Ok(Lines { status: head.status, headers: head.headers, body, read: BytesMut::new() })
    }

    /// The connection of this user's last request, if the server has not closed it.
    async fn kept(&mut self, user: &str) -> Option<SendRequest<Full<Bytes>>> {
        let mut connection = self.connections.remove(user)?;
        connection.ready().await.ok()?;
        Some(connection)
    }

    async fn connect(&self, user: &str, what: &str) -> Result<SendRequest<Full<Bytes>>> {
        let tls = if user == "pilot" { &self.tls_of_pilot } else { &self.tls };
        in_time(what, async {
            let tcp = TcpStream::connect(self.address).await.map_err(|error| broken(what, &error))?;
            tcp.set_nodelay(true).map_err(|error| broken(what, &error))?;
            let stream =
                tls.connect(self.address.ip().into(), tcp).await.map_err(|error| broken(what, &error))?;
            let (sender, connection) =
                handshake(TokioIo::new(stream)).await.map_err(|error| broken(what, &error))?;
            // Its end is seen by whoever sends on it or reads from it.
            tokio::spawn(connection);
            Ok(sender)
        })
        .await
    }

    fn complete(&self, user: &str, mut request: Request<Full<Bytes>>) -> Result<Request<Full<Bytes>>> {
        let token = match user {
            "anonymous" | "pilot" => None,
            "stranger" => Some("token-of-nobody".to_owned()),
            _ => Some(
                USERS
                    .iter()
                    .find(|known| known.name == user)
                    .ok_or_else(|| Error::UnknownUser(user.to_owned()))?
                    .token(),
            ),
        };
        let value = |text: String| text.try_into().map_err(|_| Error::UnknownUser(user.to_owned()));
        if let Some(token) = token {
            request.headers_mut().insert(header::AUTHORIZATION, value(format!("Bearer {token}"))?);
        }
        request.headers_mut().insert(header::HOST, value(self.address.to_string())?);
        Ok(request)
    }
}

impl Lines {
    /// The next line; none when the server has ended the answer.
    pub(crate) async fn next(&mut self, what: &str) -> Result<Option<Bytes>> {
        in_time(what, async {
            loop {
                if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                    return Ok(Some(self.read.split_to(end + 1).freeze()));
                }
                match self.body.frame().await {
                    Some(Ok(frame)) => {
                        if let Some(data) = frame.data_ref() {
                            self.read.extend_from_slice(data);
                        }
                    }
                    Some(Err(error)) => return Err(broken(what, &error)),
                    None if self.read.is_empty() => return Ok(None),
                    None => return Ok(Some(self.read.split().freeze())),
                }
            }
        })
        .await
    }

    /// All that is left of the answer.
    pub(crate) async fn rest(mut self, what: &str) -> Result<Answer> {
        let mut body = BytesMut::new();
        while let Some(line) = self.next(what).await? {
            body.extend_from_slice(&line);
        }
        Ok(Answer { status: self.status, headers: self.headers, body: body.freeze() })
    }
}

fn line(request: &Request<Full<Bytes>>) -> String {
    format!("{} {}", request.method(), request.uri())
}

fn broken(what: &str, error: &dyn std::error::Error) -> Error {
    let problem = match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    };
    Error::Connection { request: what.to_owned(), problem }
}

async fn in_time<T>(what: &str, work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::time::timeout(PATIENCE, work).await.unwrap_or_else(|_| {
        Err(Error::Deadline {
            request: what.to_owned(),
            awaited: "an answer".to_owned(),
            last: "silence".to_owned(),
        })
    })
}

fn connector(authority: &str, certificate: Option<&ClientCertificate>) -> Result<TlsConnector> {
    let wrong = |error: &dyn std::error::Error| Error::Tls(error.to_string());
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(authority.as_bytes()).map_err(|error| wrong(&error))?;
    roots.add(authority).map_err(|error| wrong(&error))?;
    let builder =
        ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong(&error))?
            .with_root_certificates(roots);
    let config = match certificate {
        None => builder.with_no_client_auth(),
        Some(ClientCertificate { certificate, key }) => {
            let certificate =
                CertificateDer::from_pem_slice(certificate.as_bytes()).map_err(|error| wrong(&error))?;
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|error| wrong(&error))?;
            builder.with_client_auth_cert(vec![certificate], key).map_err(|error| wrong(&error))?
        }
    };
    Ok(TlsConnector::from(Arc::new(config)))
}
