//! Serves `trace.portolan.dev` behind kube-apiserver, as an aggregated API: whoever may create `traces` asks how traffic goes, and
//! needs no access to OVN.
//!
//! ```text
//!  user ─▶ kube-apiserver ─(front-proxy certificate, X-Remote-User)─▶ serve ─▶ identity ─▶ access ─▶ Tracer ─▶ OVN
//!                                                                      │          │          │
//!                                             certificate, registration   front_proxy   SubjectAccessReview
//! ```
//!
//! **Nobody is anonymous.** A request is taken from a user that kube-apiserver names over a connection with its front-proxy
//! certificate, or from one whose bearer token a TokenReview confirms. Headers alone prove nothing.
//!
//! **Everything is bounded**: connections, the size of a request, the time it takes to arrive and to be answered, and how many
//! traces run at once. Start reading at [`run`].

mod access;
mod certificate;
mod front_proxy;
mod handler;
mod identity;
mod registration;
mod response;
mod serve;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use portolan_trace::{Tracer, Worlds};
use portolan_watch::Pause;
use tokio::net::TcpListener;

pub use certificate::CertificateError;

/// What a trace server needs to know.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where to listen.
    pub listen: SocketAddr,
    /// The Service by which kube-apiserver reaches this server. Its namespace also has the Secret with the authority that signs
    /// the server's certificate.
    pub service: ServiceReference,
}

/// A Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceReference {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// Why a trace server ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address cannot be listened at.
    #[error("cannot listen at {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// There is no certificate to serve with.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
}

/// Serves until it is dropped.
///
/// # Errors
/// When it cannot listen, or has no certificate to serve with. What fails later is tried again.
pub async fn run<W: Worlds + Send + 'static>(
    config: Config,
    client: kube::Client,
    tracer: Tracer,
    worlds: W,
) -> Result<(), Error> {
    let listener = TcpListener::bind(config.listen)
        .await
        .map_err(|source| Error::Listen { address: config.listen, source })?;
    let authority = authority(&client, &config.service).await;
    let (front_proxy, follow_front_proxy) = front_proxy::follow(client.clone());
    let registered = registration::keep(client.clone(), authority.certificate().to_owned());
    let handler = Arc::new(handler::Handler::new(client, tracer, worlds));
    let served = serve::serve(listener, &config.service, authority, front_proxy, handler);
    tracing::info!(address = %config.listen, "serving trace.portolan.dev");
    // The first to end ends the others.
    tokio::select! {
        served = served => served.map_err(Into::into),
        () = follow_front_proxy => Ok(()),
        () = registered => Ok(()),
    }
}

/// The certificate authority, as soon as it can be had: traces are no reason to stop the controller.
async fn authority(client: &kube::Client, service: &ServiceReference) -> certificate::Authority {
    let mut pause = Pause::new(Duration::from_secs(1), Duration::from_secs(60));
    loop {
        match certificate::Authority::shared(client, service).await {
            Ok(authority) => return authority,
            Err(error) => {
                tracing::warn!(%error, "cannot serve traces yet: apply deploy/trace.yaml, or see the error");
                pause.wait().await;
            }
        }
    }
}
