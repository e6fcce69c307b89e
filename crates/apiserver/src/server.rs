//! The server: connections, requests and answers.
//!
//! ```text
//! listener ─► TLS ─► hyper ─► who is it (authn) ─► may they (authz) ─► handler ─► verb ─► renderer
//! ```

mod activity;
mod answer;
mod builder;
mod connection;
mod descriptors;
mod handler;
mod initial_events;
mod limits;
mod other;
mod resource;
mod route;
mod tls;
mod unwritten;
mod watch_stream;

use std::future::Future;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::task::JoinSet;

pub use answer::{Body, Response};
pub use builder::{BuildError, ServerBuilder};
pub use descriptors::max_connections;
pub use limits::Limits;
pub use tls::{ServerCertificate, TlsError, replaceable_server_config, server_config};

use crate::api::Api;
use crate::audit::AuditLog;
use crate::authn::Authenticator;
use crate::authz::Authorizer;
use crate::health::Health;
use crate::metrics::Metrics;
use crate::version::VersionInfo;

/// A server that is ready to serve.
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    tls: Option<Arc<rustls::ServerConfig>>,
    // Aborted when dropped: the reader of the store's events, and what works beside the requests.
    tasks: JoinSet<()>,
}

/// What every request needs.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) api: Api,
    pub(crate) authenticators: Vec<Box<dyn Authenticator>>,
    pub(crate) authorizer: Arc<dyn Authorizer>,
    pub(crate) limits: limits::InFlight,
    pub(crate) initial_pages: initial_events::InitialPages,
    pub(crate) audit: Option<AuditLog>,
    pub(crate) health: Health,
    pub(crate) metrics: Metrics,
    pub(crate) version: VersionInfo,
}

impl Server {
    /// What is done with objects, for use in the same process.
    pub fn api(&self) -> &Api {
        &self.shared.api
    }

    /// What must be so for the server to be ready.
    pub fn health(&self) -> &Health {
        &self.shared.health
    }

    /// Serves until `shutdown` is done; then ends all watches, lets other requests finish, and returns.
    /// The store is closed when this returns, unless somebody else holds on to the [`Api`].
    pub async fn serve(mut self, listener: TcpListener, shutdown: impl Future<Output = ()>) {
        connection::serve(self.shared.clone(), self.tls.clone(), listener, shutdown).await;
        self.tasks.shutdown().await;
    }
}
