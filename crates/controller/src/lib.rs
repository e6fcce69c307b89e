//! The controller: watches what users ask for, takes addresses by creating locks, and writes OVN's northbound database.
//!
//! ```text
//!  follow ───▶ Engine (no IO) ──┬─▶ act: locks, live reads, conditions, Events ──▶ API server
//!  changes of NB, SB ─▶ ▲        └─▶ northbound: transactions ──▶ OVN NB
//!                      └── answers ──┘
//! ```
//!
//! Start reading at [`Engine`]: all that is decided is decided there. `control` is the one loop that feeds it and makes
//! happen what it answers. This crate knows nothing of nodes' insides; agents read the locks it makes.
//!
//! **Two controllers at once** are harmless. Both propose the same locks, and creating one twice has one winner. Only the one
//! that holds the OVSDB lock `portolan` writes, and every transaction asserts that it does. Leader election ([`LeaderElection`])
//! spares the second controller's vain attempts, and nothing depends on it.

mod act;
mod bindings;
mod chassis;
/// Whether the northbound database has all that is asked for.
pub mod completeness;
mod control;
mod debug;
mod election;
pub mod engine;
mod follow;
mod health;
mod live;
mod metrics;
mod northbound;
mod readers;
mod southbound;
mod tasks;
mod timer;

use std::future::Future;

use anyhow::Context as _;
use portolan_watch::ApiServers;

pub use debug::{Log, LogFilter};
pub use election::LeaderElection;
pub use engine::Engine;
pub use readers::{Reader, Reads, readers};

/// What a controller needs to know.
#[derive(Clone, Debug)]
pub struct Config {
    /// How to reach the API server.
    pub kube: ApiServers,
    /// Where OVN's northbound database is; all members of a cluster.
    pub nb: ovsdb::Endpoints,
    /// Where OVN's southbound database is; all members of a cluster. Without an endpoint nothing is ever `Ready`, and the chassis of
    /// nodes that are gone stay.
    pub sb: ovsdb::Endpoints,
    /// Certificates for `ssl:` endpoints of both databases.
    pub nb_tls: Option<ovsdb::TlsFiles>,
    /// What is the same for a whole cluster.
    pub settings: portolan_model::Settings,
    /// What an operator decides about rows.
    pub plan: portolan_plan::Settings,
    /// Networks of the cluster's own, which Subnets of tenants for namespaces must not overlap.
    pub cluster_networks: Vec<ipnet::IpNet>,
    /// Where to serve `/healthz`, `/readyz` and `/metrics`, if anywhere; and `/debug` to connections from this host.
    pub health: Option<std::net::SocketAddr>,
    /// Where to serve all of these to whoever connects, if anywhere.
    pub debug: Option<std::net::SocketAddr>,
    /// The filter of the log, for `/debug/log`.
    pub log: Option<Log>,
    /// Metrics of other parts of the process, which `/metrics` shows too.
    pub metrics: Vec<std::sync::Arc<prometheus_client::registry::Registry>>,
    /// By which Lease controllers agree on who acts; none: this one always does.
    pub election: Option<LeaderElection>,
}

impl Config {
    /// A controller of this cluster and this database, with the defaults.
    pub fn new(kube: impl Into<ApiServers>, nb: impl Into<ovsdb::Endpoints>) -> Self {
        let (settings, plan) = (portolan_model::Settings::default(), portolan_plan::Settings::default());
        Config {
            kube: kube.into(),
            nb: nb.into(),
            sb: Vec::new().into(),
            nb_tls: None,
            settings,
            plan,
            cluster_networks: Vec::new(),
            health: None,
            debug: None,
            log: None,
            metrics: Vec::new(),
            election: None,
        }
    }
}

/// Runs until `shutdown` comes. Stopping at any instant, this way or by force, is harmless.
///
/// # Errors
/// When no client can be made of the configuration, or a part of the controller ended, which would leave the others waiting for
/// ever. What fails outside is tried again.
pub async fn run(config: Config, shutdown: impl Future<Output = ()>) -> anyhow::Result<()> {
    run_with_readers(config, Reads::none(), shutdown).await
}

/// Like [`run`], and lends the World to readers.
///
/// # Errors
/// As [`run`].
pub async fn run_with_readers(
    config: Config,
    reads: Reads,
    shutdown: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let client = config.kube.client().context("cannot make a client of the API server")?;
    control::run(client, config, reads, shutdown).await
}

/// Like [`run`], with a client that was made already.
///
/// # Errors
/// As [`run`].
pub async fn run_with_client(
    client: kube::Client,
    config: Config,
    shutdown: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    control::run(client, config, Reads::none(), shutdown).await
}
