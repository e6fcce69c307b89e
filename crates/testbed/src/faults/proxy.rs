//! The proxy itself: one port per user, so that the server behind it knows who asks.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http::{Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use portolan_lab::cluster::LabApiServer;
use portolan_lab::pki::{Authority, Identity};
use portolan_lab::{Lab, Result, Trying};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ServerConfig};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::{Ending, Fault, Faults, status};
use crate::https;

type Body = UnsyncBoxBody<Bytes, io::Error>;

/// A running proxy. It ends when dropped, with the connections through it.
#[derive(Debug)]
pub(super) struct Proxy {
    ports: BTreeMap<String, u16>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What a user's connections need.
#[derive(Clone)]
struct Way {
    user: String,
    faults: Faults,
    /// The server behind the proxy, and the user's identity towards it.
    server: SocketAddr,
    connector: TlsConnector,
    acceptor: TlsAcceptor,
}

impl Proxy {
    pub(super) fn start(
        lab: &Lab,
        address: Ipv4Addr,
        server: &dyn LabApiServer,
        users: Vec<String>,
        faults: &Faults,
    ) -> Result<Self> {
        let authority = server.authority();
        let own = authority.server("fault-proxy", &[&address.to_string(), "127.0.0.1"])?;
        let acceptor = TlsAcceptor::from(serving(&own).trying(|| "make a TLS server".into())?);
        let (mut ports, mut ways) = (BTreeMap::new(), Vec::new());
        for user in users {
            let port = lab.port();
            let listener = lab
                .home()
                .run(move || TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)))
                .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
                .trying(|| format!("listen at port {port}"))?;
            let connector = TlsConnector::from(client_of(authority, &user)?);
            let server = SocketAddr::from((Ipv4Addr::LOCALHOST, server.port()));
            ports.insert(user.clone(), port);
            ways.push((
                listener,
                Way { user, faults: faults.clone(), server, connector, acceptor: acceptor.clone() },
            ));
        }
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = lab.home().spawn_thread("fault-proxy", move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime can be made").block_on(async {
                for (listener, way) in ways {
                    tokio::spawn(accept_all(listener, way));
                }
                let _ = stopped.await;
            });
        })?;
        Ok(Self { ports, stop: Some(stop), thread: Some(thread) })
    }

    /// The port at which a user reaches the server through the proxy, if it is one who should.
    pub(super) fn port_for(&self, user: &str) -> Option<u16> {
        self.ports.get(user).copied()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn client_of(authority: &Authority, user: &str) -> Result<Arc<ClientConfig>> {
    let identity = authority.client(user, Some("system:masters"))?;
    https::client(authority, &identity).trying(|| "make a TLS client".into())
}

fn serving(identity: &Identity) -> io::Result<Arc<ServerConfig>> {
    let certificate =
        CertificateDer::from_pem_slice(identity.certificate.as_bytes()).map_err(io::Error::other)?;
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).map_err(io::Error::other)?;
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .map_err(io::Error::other)?;
    Ok(Arc::new(config))
}

async fn accept_all(listener: TcpListener, way: Way) {
    let listener = tokio::net::TcpListener::from_std(listener).expect("the listener does not block");
    loop {
        let Ok((client, _)) = listener.accept().await else { continue };
        let way = way.clone();
        tokio::spawn(async move {
            let Ok(client) = way.acceptor.accept(client).await else { return };
            let serve = service_fn(|request| way.answer(request));
            let serving =
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(client), serve);
            // It ends when the client goes, when the server behind does, and when a watch is cut.
            let _ = serving.await;
        });
    }
}

impl Way {
    /// An error ends the client's connection without an answer.
    async fn answer(&self, request: Request<Incoming>) -> io::Result<Response<Body>> {
        let path = request.uri().path().to_owned();
        let is_watch = request
            .uri()
            .query()
            .is_some_and(|query| query.contains("watch=true") || query.contains("watch=1"));
        match self.faults.meet(&path) {
            Some(Fault::Status(code)) => answer(code, &status(code)),
            Some(Fault::LateGroups(code)) if path != "/apis" => answer(code, &status(code)),
            Some(Fault::LateGroups(_)) => self.without_hidden_groups(request).await,
            None => {
                // Subscribed before the request goes out: an order that comes meanwhile is meant for this watch too.
                let ended = self.faults.shared.ended.subscribe();
                let (head, body) = self.forward(request).await?.into_parts();
                let body = match (is_watch, self.faults.delay_of(&self.user)) {
                    (true, None) => until_ended(body, ended),
                    (true, Some(delay)) => delayed(until_ended(body, ended), delay),
                    (false, _) => body.map_err(io::Error::other).boxed_unsync(),
                };
                Ok(Response::from_parts(head, body))
            }
        }
    }

    async fn forward(&self, mut request: Request<Incoming>) -> io::Result<Response<Incoming>> {
        let stream = TcpStream::connect(self.server).await?;
        let name = ServerName::from(self.server.ip());
        let stream = self.connector.connect(name, stream).await?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        tokio::spawn(connection);
        *request.version_mut() = http::Version::HTTP_11;
        sender.send_request(request).await.map_err(io::Error::other)
    }

    /// What `/apis` answers, without the groups that are not served.
    async fn without_hidden_groups(&self, mut request: Request<Incoming>) -> io::Result<Response<Body>> {
        let hidden = self.faults.hidden_groups();
        // Plain JSON, not the aggregated form and nothing compressed.
        request
            .headers_mut()
            .insert(http::header::ACCEPT, http::HeaderValue::from_static("application/json"));
        request.headers_mut().remove(http::header::ACCEPT_ENCODING);
        let (head, body) = self.forward(request).await?.into_parts();
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        let mut groups: Value = serde_json::from_slice(&body).map_err(io::Error::other)?;
        if let Some(groups) = groups["groups"].as_array_mut() {
            groups.retain(|group| !hidden.iter().any(|name| group["name"] == *name));
        }
        answer(head.status.as_u16(), &groups)
    }
}

fn answer(code: u16, body: &Value) -> io::Result<Response<Body>> {
    let body = Full::new(Bytes::from(body.to_string())).map_err(|never| match never {}).boxed_unsync();
    let status = StatusCode::from_u16(code).map_err(io::Error::other)?;
    Response::builder()
        .status(status)
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(body)
        .map_err(io::Error::other)
}

/// A watch's body, until it is ordered to end.
fn until_ended(body: Incoming, ended: watch::Receiver<(u64, Ending)>) -> Body {
    let frames = stream::unfold(Some((body, ended)), |state| async move {
        let (mut body, mut ended) = state?;
        tokio::select! {
            frame = body.frame() => Some((frame?.map_err(io::Error::other), Some((body, ended)))),
            changed = ended.changed() => {
                changed.ok()?;
                match ended.borrow().1 {
                    Ending::Cut => Some((Err(io::Error::other("the watch is cut")), None)),
                    Ending::Expired => {
                        let event = format!("{}\n", json!({"type": "ERROR", "object": status(410)}));
                        Some((Ok(Frame::data(Bytes::from(event))), None))
                    }
                }
            }
        }
    });
    StreamBody::new(frames).boxed_unsync()
}

/// A body of which every part comes that much later.
fn delayed(mut body: Body, by: Duration) -> Body {
    let (sender, receiver) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(frame) = body.frame().await {
            if sender.send((Instant::now() + by, frame)).is_err() {
                return;
            }
        }
    });
    let frames = stream::unfold(receiver, |mut receiver| async move {
        let (due, frame) = receiver.recv().await?;
        tokio::time::sleep_until(due).await;
        Some((frame, receiver))
    });
    StreamBody::new(frames).boxed_unsync()
}
