//! A whole API server in one process on one directory: the built-in kinds, custom resources, RBAC, garbage collection,
//! certificates.
//!
//! ```text
//! data directory:  store.redb   what is stored
//!                  ca.crt …     see [`apiserver::pki`]
//! ```

use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use apistore::{Redb, StoreError};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use tokio::net::TcpListener;

use apiserver::admission::NamespaceLifecycle;
use apiserver::admission::webhook::{self, StoredServices, Webhooks};
use apiserver::audit::{AuditLog, Rotation};
use apiserver::authn::{StaticTokens, UserInfo};
use apiserver::authz::Rbac;
use apiserver::controllers::Controllers;
use apiserver::crd::Definitions;
use apiserver::pki::{Pki, PkiError, Renewal};
use apiserver::reviews::{self, Reviewers, RoleEscalation};
use apiserver::server::{
    BuildError, Limits, Server, ServerCertificate, TaskEnded, TlsError, max_connections,
    replaceable_server_config,
};
use apiserver::storage::Storage;

use crate::{CertificateSigners, DefaultTolerations, PodPriority, ServiceAddresses, ServiceRanges};

/// How an embedded server shall be.
#[derive(Clone, Debug)]
pub struct Embedded {
    /// Where everything is kept; made if it is not there.
    pub data_dir: PathBuf,
    /// Where to listen. Port zero takes any that is free.
    pub listen: SocketAddr,
    /// Names and addresses that clients may know the server by, besides those of this machine's loopback.
    pub names: Vec<String>,
    /// Users known by a bearer token.
    pub tokens: Vec<(String, UserInfo)>,
    /// Where every request is written down, if anywhere.
    pub audit_log: Option<PathBuf>,
    /// When that file is moved away.
    pub audit_rotation: Rotation,
    /// What services get their addresses and ports from.
    pub service_ranges: ServiceRanges,
    /// How the store is kept.
    pub store: apistore::Options,
    /// How much is accepted at once. Connections are also limited by how many files the process may have open.
    pub limits: Limits,
}

/// Why a server does not run.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedError {
    /// The data directory cannot be made.
    #[error("cannot make the data directory {}", path.display())]
    Directory {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The store cannot be opened.
    #[error("cannot open {}: {source}", path.display())]
    Store {
        /// Which.
        path: PathBuf,
        /// Why; another process may have it open.
        source: StoreError,
    },
    /// The address cannot be listened at.
    #[error("cannot listen at {address}")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// The audit log cannot be opened.
    #[error("cannot open the audit log {}", path.display())]
    Audit {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Certificates.
    #[error(transparent)]
    Pki(#[from] PkiError),
    /// TLS.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A certificate that was just made cannot be read.
    #[error("cannot read a certificate: {0}")]
    Pem(#[from] rustls::pki_types::pem::Error),
    /// The server could not be put together.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// What every cluster has could not be made.
    #[error("cannot make what every cluster has: {0}")]
    Bootstrap(String),
}

/// A server that is ready to serve.
#[derive(Debug)]
pub struct Running {
    server: Server,
    listener: TcpListener,
    /// Where it listens.
    pub address: SocketAddr,
    /// The administrator's kubeconfig.
    pub kubeconfig: PathBuf,
}

impl Embedded {
    /// A server on this directory, on the loopback, with the defaults.
    pub fn new(data_dir: impl Into<PathBuf>) -> Embedded {
        Embedded {
            data_dir: data_dir.into(),
            listen: SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 6443),
            names: Vec::new(),
            tokens: Vec::new(),
            audit_log: None,
            audit_rotation: Rotation::default(),
            service_ranges: ServiceRanges::default(),
            store: apistore::Options::default(),
            limits: Limits::default(),
        }
    }

    /// Opens the store, makes what every cluster has, and listens. Requests are answered once [`Running::serve`] is called.
    ///
    /// # Errors
    /// When something that it needs cannot be had; the error says what.
    pub async fn start(self) -> Result<Running, EmbeddedError> {
        apiserver::data_dir::prepare(&self.data_dir)
            .map_err(|source| EmbeddedError::Directory { path: self.data_dir.clone(), source })?;
        let listener = TcpListener::bind(self.listen)
            .await
            .map_err(|source| EmbeddedError::Listen { address: self.listen, source })?;
        let address =
            listener.local_addr().map_err(|source| EmbeddedError::Listen { address: self.listen, source })?;
        let storage = self.open().await?;
        let pki = Pki::open(&self.data_dir)?;
        let names = self.names(address);
        let identity = pki.server(&names)?;
        let serving = Arc::new(ServerCertificate::new(&identity)?);
        let authorities =
            CertificateDer::pem_slice_iter(pki.authority().as_bytes()).collect::<Result<_, _>>()?;
        let tls = replaceable_server_config(serving.clone(), authorities)?;
        let kubeconfig = pki.admin_kubeconfig(reachable(address))?;
        let renewal = Renewal::new(pki, names, reachable(address), &identity, serving);
        let open = |path: &PathBuf| {
            AuditLog::open(path, self.audit_rotation)
                .map_err(|source| EmbeddedError::Audit { path: path.clone(), source })
        };
        let audit = self.audit_log.as_ref().map(open).transpose()?;
        let (rbac, rbac_informer) = Rbac::start(&storage).await.map_err(BuildError::Store)?;
        let (webhooks, webhooks_informer) =
            Webhooks::start(&storage, StoredServices).await.map_err(BuildError::Store)?;
        let controllers = Controllers::default();
        let tokens = StaticTokens::new(self.tokens.clone());
        let reviewers = Reviewers {
            authorizer: Arc::new(rbac.clone()),
            rbac: Some(rbac.clone()),
            authenticator: Arc::new(tokens.clone()),
        };
        let server = Server::on(storage)
            .resources(crate::resources())
            .resources(webhook::resources())
            .resources(reviews::resources(&reviewers))
            .admission(NamespaceLifecycle)
            .definitions(&Definitions::default())
            .admission(CertificateSigners::new(Arc::new(rbac.clone())))
            .admission(PodPriority)
            .admission(DefaultTolerations)
            .admission(webhooks)
            // After all that may change a role.
            .admission(RoleEscalation::new(rbac.clone(), Arc::new(rbac.clone())))
            .admission(ServiceAddresses::new(self.service_ranges.clone()))
            .authenticator(tokens)
            .authorizer(rbac)
            .audit(audit)
            .limits(Limits { connections: self.limits.connections.min(max_connections()), ..self.limits })
            .tls(tls)
            .task("certificate renewal", |_| renewal.run())
            .informer("rbac", rbac_informer)
            .informer("webhookconfigurations", webhooks_informer)
            .in_sync("controllers", controllers.progress())
            .task("controllers", |api| controllers.run(api))
            .build()
            .await?;
        crate::bootstrap(server.api()).await.map_err(|status| EmbeddedError::Bootstrap(status.message))?;
        Ok(Running { server, listener, address, kubeconfig })
    }

    async fn open(&self) -> Result<Storage, EmbeddedError> {
        let (path, options) = (self.data_dir.join("store.redb"), self.store);
        let opened = {
            let path = path.clone();
            tokio::task::spawn_blocking(move || Redb::open(path, options)).await
        };
        let opened = opened.unwrap_or(Err(StoreError::Closed));
        opened.map(Storage::new).map_err(|source| EmbeddedError::Store { path, source })
    }

    /// What clients may know the server by.
    fn names(&self, address: SocketAddr) -> Vec<String> {
        let always =
            ["localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];
        let mut names: Vec<String> = always.into_iter().map(String::from).collect();
        let own = (!address.ip().is_unspecified()).then(|| address.ip().to_string());
        names.extend(own.into_iter().chain(self.names.iter().cloned()));
        names.sort();
        names.dedup();
        names
    }
}

/// An address by which a server that listens everywhere is reached from this machine.
fn reachable(address: SocketAddr) -> SocketAddr {
    if !address.ip().is_unspecified() {
        return address;
    }
    let loopback = match address.ip() {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(_) => IpAddr::V6(std::net::Ipv6Addr::LOCALHOST),
    };
    SocketAddr::new(loopback, address.port())
}

impl Running {
    /// What is done with objects, for use in the same process.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Serves until `shutdown` is done.
    ///
    /// # Errors
    /// When a task of the server has ended: see [`Server::serve`].
    pub async fn serve(self, shutdown: impl Future<Output = ()>) -> Result<(), TaskEnded> {
        self.server.serve(self.listener, shutdown).await
    }
}
