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
mod tasks;
mod tls;
mod unwritten;
mod watch_stream;

use std::future::Future;
use std::sync::Arc;

use tokio::net::TcpListener;

pub use answer::{Body, Response};
pub use builder::{BuildError, ServerBuilder};
pub use descriptors::max_connections;
pub use limits::Limits;
pub use tasks::TaskEnded;
pub use tls::{ServerCertificate, TlsError, replaceable_server_config, server_config};

use crate::api::Api;
use crate::audit::AuditQueue;
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
    tasks: tasks::Tasks,
}

/// What every request needs.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) api: Api,
    pub(crate) authenticators: Vec<Box<dyn Authenticator>>,
    pub(crate) authorizer: Arc<dyn Authorizer>,
    pub(crate) limits: limits::InFlight,
    pub(crate) initial_pages: initial_events::InitialPages,
    pub(crate) audit: Option<AuditQueue>,
    pub(crate) health: Health,
    pub(crate) metrics: Metrics,
    pub(crate) version: VersionInfo,
}

impl Server {
    /// What is done with objects, for use in the same process.
    pub fn api(&self) -> &Api {
        &self.shared.api
    }

    /// The checks behind `/livez` and `/readyz`.
    pub fn health(&self) -> &Health {
        &self.shared.health
    }

    /// Serves until `shutdown` is done; then ends all watches, lets other requests finish, and returns.
    /// The store is closed when this returns, unless somebody else holds on to the [`Api`].
    ///
    /// # Errors
    /// When a task of the server ends before that, which also shuts the server down: the process should end, and be started anew.
    pub async fn serve(
        self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), TaskEnded> {
        let Server { shared, tls, mut tasks } = self;
        let (mut ended, audit) = (Ok(()), shared.audit.clone());
        let stop = async {
            tokio::select! {
                () = shutdown => {}
                task = tasks.ended() => {
                    tracing::error!("{task}");
                    ended = Err(task);
                }
            }
        };
        connection::serve(shared, tls, listener, stop).await;
        tasks.shutdown().await;
        if let Some(audit) = audit {
            audit.flush().await;
        }
        ended
    }
}
