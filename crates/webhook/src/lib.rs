//! A validating webhook: tells users what is wrong with an object before it is stored, in the words that its conditions would have.
//!
//! ```text
//!  kube-apiserver ─ AdmissionReview ─▶ serving ─▶ handler ─▶ review ─▶ judge ─┬─ the object alone
//!                                                                             ├─ beside the World of the controller
//!                                                                             └─ beside live lists, before anything is said
//! ```
//!
//! **Nothing depends on it.** The controller checks every object again. So whatever cannot be known, or not in time, is allowed: a
//! refusal for the sake of others is only ever made from live lists, never from what a watch has shown.
//!
//! **Repairs are never blocked.** Deletions are not asked about; an update that leaves `spec` as it was passes; so does one of an object
//! that is being deleted; and what was wrong before the update is a warning.
//!
//! This crate knows neither OVN nor the controller: [`Worlds`] lends it a World. Start reading at [`Server`] and `judge`.

mod handler;
mod judge;
mod metrics;
mod neighbours;
mod review;

use std::net::SocketAddr;
use std::sync::Arc;

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::Api;
use portolan_model::World;
use portolan_serving::{AuthoritySecret, Listener, keep_authority, keep_ca_bundle};
use portolan_watch::Followers;
use prometheus_client::registry::Registry;

use crate::metrics::Metrics;
pub use portolan_serving::ServiceReference;

/// The Secret with the authority that signs the servers' certificates, in the namespace of the Service.
const SECRET: &str = "portolan-webhook-ca";
/// The ValidatingWebhookConfiguration by which the API server knows the Service.
const CONFIGURATION: &str = "portolan-webhook";

/// Lends a World.
pub trait Worlds: Send + Sync + 'static {
    /// What `read` makes of the World, once there is one; none if there will be none.
    fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&World) -> T + Send + 'static,
    ) -> impl Future<Output = Option<T>> + Send;
}

/// What a webhook server needs to know.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where to listen.
    pub listen: SocketAddr,
    /// The Service by which the API server reaches this server. Its namespace also has the Secret with the authority that signs
    /// the server's certificate.
    pub service: ServiceReference,
}

/// Why a webhook server does not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address cannot be listened at.
    #[error("cannot serve webhooks at {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// A follower ended, which it never should.
    #[error(transparent)]
    Watch(#[from] portolan_watch::Error),
}

/// A webhook server that listens.
#[derive(Debug)]
pub struct Server {
    listener: Listener,
    address: SocketAddr,
    service: ServiceReference,
    metrics: Metrics,
}

impl Server {
    /// Begins to listen.
    ///
    /// # Errors
    /// When the address cannot be listened at.
    pub async fn bind(config: Config) -> Result<Self, Error> {
        let Config { listen, service } = config;
        let failed = |source| Error::Listen { address: listen, source };
        let listener = Listener::bind(listen).await.map_err(failed)?;
        let address = listener.address().map_err(failed)?;
        Ok(Self { listener, address, service, metrics: Metrics::new() })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it counts.
    pub fn metrics(&self) -> Arc<Registry> {
        self.metrics.registry()
    }

    /// Serves until it is dropped. What fails is tried again: webhooks are no reason to stop the controller.
    ///
    /// # Errors
    /// When a part of it has ended, which is a bug.
    pub async fn run<W: Worlds>(self, client: kube::Client, worlds: W) -> Result<(), Error> {
        let mut followers = Followers::of_built_in_kinds(client.clone());
        let secret = AuthoritySecret { namespace: self.service.namespace.clone(), name: SECRET.to_owned() };
        let (authority, authority_kept) = keep_authority(&client, &mut followers, secret.clone());
        let configuration = (Api::<ValidatingWebhookConfiguration>::all(client.clone()), CONFIGURATION);
        let ca_bundle_kept =
            keep_ca_bundle(&client, &mut followers, configuration, secret, authority.clone());
        let handler = Arc::new(handler::Handler::new(client, worlds, self.metrics));
        tracing::info!(address = %self.address, "serving the validating webhook");
        // The first to end ends the others.
        tokio::select! {
            never = self.listener.serve(&self.service, authority, handler) => match never {},
            never = authority_kept => match never {},
            never = ca_bundle_kept => match never {},
            ended = followers.ended() => Err(ended.into()),
        }
    }
}
