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

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::Api;
use portolan_model::{Settings, World};
use portolan_serving::Served;
pub use portolan_serving::{Config, Error, ServiceReference};
use prometheus_client::registry::Registry;

use crate::metrics::Metrics;

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

/// A webhook server that listens.
#[derive(Debug)]
pub struct Server {
    served: Served,
    metrics: Metrics,
}

impl Server {
    /// Begins to listen.
    ///
    /// # Errors
    /// When the address cannot be listened at.
    pub async fn bind(config: Config) -> Result<Self, Error> {
        Ok(Self { served: Served::bind(config).await?, metrics: Metrics::new() })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.served.address()
    }

    /// What it counts.
    pub fn metrics(&self) -> Arc<Registry> {
        self.metrics.registry()
    }

    /// Serves until it is dropped, for a cluster with these settings. What fails is tried again: webhooks are no reason to stop the controller.
    ///
    /// # Errors
    /// When a part of it has ended, which is a bug.
    pub async fn run<W: Worlds>(
        self,
        client: kube::Client,
        settings: Settings,
        worlds: W,
    ) -> Result<Infallible, Error> {
        let Self { served, metrics } = self;
        tracing::info!(address = %served.address(), "serving the validating webhook");
        let configuration = (Api::<ValidatingWebhookConfiguration>::all(client.clone()), CONFIGURATION);
        let handler = handler::Handler::new(client.clone(), settings, worlds, metrics);
        served.run(client, SECRET, configuration, |_| handler).await
    }
}
