//! A client as small as can be: TLS with or without a certificate, one request at a time, from an address of its choice.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// An authority that signs certificates of clients.
pub(crate) struct Authority {
    certificate: rcgen::Certificate,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "front-proxy-ca");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        Self { certificate, issuer: Issuer::new(params, key) }
    }

    pub(crate) fn pem(&self) -> String {
        self.certificate.pem()
    }

    /// A certificate with this common name.
    pub(crate) fn certify(&self, name: &str) -> Certificate {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Certificate { chain: certificate.der().clone(), key: key.serialize_der() }
    }
}

pub(crate) struct Certificate {
    chain: CertificateDer<'static>,
    key: Vec<u8>,
}

#[derive(Clone)]
pub(crate) struct Client {
    server: SocketAddr,
    roots: Arc<RootCertStore>,
    from: Ipv4Addr,
}

/// An answer, or what there was instead.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) closes: bool,
    pub(crate) body: String,
}

impl Client {
    pub(crate) fn new(server: SocketAddr, authorities: &[u8]) -> Self {
        let mut roots = RootCertStore::empty();
        for authority in CertificateDer::pem_slice_iter(authorities) {
            roots.add(authority.unwrap()).unwrap();
        }
        Self { server, roots: Arc::new(roots), from: Ipv4Addr::LOCALHOST }
    }

    /// The same, from another address.
    pub(crate) fn from(&self, from: Ipv4Addr) -> Self {
        Self { from, ..self.clone() }
    }

    pub(crate) async fn connect(
        &self,
        certificate: Option<&Certificate>,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let builder = builder.with_root_certificates(Arc::clone(&self.roots));
        let config = match certificate {
            None => builder.with_no_client_auth(),
            Some(Certificate { chain, key }) => {
                let key = PrivateKeyDer::try_from(key.clone()).unwrap();
                builder.with_client_auth_cert(vec![chain.clone()], key).unwrap()
            }
        };
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((self.from, 0).into()).unwrap();
        let stream = socket.connect(self.server).await?;
        // The name by which kube-apiserver calls it.
        let name = "portolan-trace.portolan-system.svc".try_into().unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }

    /// Asks with these headers. None if the server ends the connection instead.
    pub(crate) async fn ask(&self, certificate: Option<&Certificate>, headers: &[&str]) -> Option<Answer> {
        let mut stream = self.connect(certificate).await.ok()?;
        let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
        let request = format!("GET /apis/trace.portolan.dev/v1alpha1 HTTP/1.1\r\nHost: x\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).await.ok()?;
        let (head, mut rest) = read_head(&mut stream).await?;
        let header = |name: &str| {
            head.lines().find_map(|line| line.to_lowercase().strip_prefix(name).map(str::to_owned))
        };
        let length: usize = header("content-length: ").unwrap().parse().unwrap();
        while rest.len() < length {
            stream.read_buf(&mut rest).await.ok().filter(|read| *read > 0)?;
        }
        let closes = header("connection: ").is_some_and(|value| value == "close");
        if closes {
            // It says so and does so.
            assert_eq!(stream.read_buf(&mut rest).await.unwrap_or(0), 0);
        }
        let code = head.split(' ').nth(1).unwrap().parse().unwrap();
        Some(Answer { code, closes, body: String::from_utf8(rest).unwrap() })
    }
}

async fn read_head(stream: &mut TlsStream<TcpStream>) -> Option<(String, Vec<u8>)> {
    let mut read = Vec::new();
    loop {
        if let Some(end) = read.windows(4).position(|window| window == b"\r\n\r\n") {
            let rest = read.split_off(end + 4);
            return Some((String::from_utf8(read).unwrap(), rest));
        }
        stream.read_buf(&mut read).await.ok().filter(|read| *read > 0)?;
    }
}
