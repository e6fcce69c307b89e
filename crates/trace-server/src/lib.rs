//! Serves `trace.portolan.dev` behind kube-apiserver, as an aggregated API: whoever may create `traces` asks how traffic goes, and
//! needs no access to OVN.
//!
//! ```text
//!  user ─▶ kube-apiserver ─(front-proxy certificate, X-Remote-User)─▶ serving ─▶ identity ─▶ access ─▶ Tracer ─▶ OVN
//!                                                                                  │          │
//!                                                                  front_proxy, reviews   SubjectAccessReview
//! ```
//!
//! **Nobody is anonymous.** A request is taken from a user that kube-apiserver names over a connection with its front-proxy
//! certificate, or from one whose bearer token a TokenReview confirms. Headers alone prove nothing.
//!
//! **Everything is bounded**: connections, by a fair share for each peer; the size of a request, the time it takes to arrive and to
//! be answered; tokens that are reviewed; and how many traces run at once. Start reading at [`Server`].

mod access;
mod front_proxy;
mod handler;
mod identity;
mod response;
mod reviews;

use std::net::SocketAddr;
use std::sync::Arc;

use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Api;
use portolan_serving::{AuthoritySecret, Listener, keep_authority, keep_ca_bundle};
use portolan_trace::{Tracer, Worlds};
use portolan_watch::Followers;

pub use portolan_serving::ServiceReference;

/// The Secret with the authority that signs the servers' certificates, in the namespace of the Service.
const SECRET: &str = "portolan-trace-ca";
/// The APIService by which kube-apiserver knows the Service.
const API_SERVICE: &str = "v1alpha1.trace.portolan.dev";

/// What a trace server needs to know.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where to listen.
    pub listen: SocketAddr,
    /// The Service by which kube-apiserver reaches this server. Its namespace also has the Secret with the authority that signs
    /// the server's certificate.
    pub service: ServiceReference,
}

/// Why a trace server does not run.
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
    /// A follower ended, which it never should.
    #[error(transparent)]
    Watch(#[from] portolan_watch::Error),
}

/// A trace server that listens.
#[derive(Debug)]
pub struct Server {
    listener: Listener,
    address: SocketAddr,
    service: ServiceReference,
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
        Ok(Self { listener, address, service })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until it is dropped. What fails is tried again: traces are no reason to stop the controller.
    ///
    /// # Errors
    /// When a part of it has ended, which is a bug.
    pub async fn run<W: Worlds + Send + 'static>(
        self,
        client: kube::Client,
        tracer: Tracer,
        worlds: W,
    ) -> Result<(), Error> {
        let mut followers = Followers::of_built_in_kinds(client.clone());
        let secret = AuthoritySecret { namespace: self.service.namespace.clone(), name: SECRET.to_owned() };
        let (authority, authority_kept) = keep_authority(&client, &mut followers, secret.clone());
        let api_service = (Api::<APIService>::all(client.clone()), API_SERVICE);
        let ca_bundle_kept = keep_ca_bundle(&client, &mut followers, api_service, secret, authority.clone());
        let config_maps = Api::namespaced(client.clone(), front_proxy::NAMESPACE);
        let authentication = followers.follow_one(config_maps, front_proxy::NAME);
        let handler = Arc::new(handler::Handler::new(client, authentication, tracer, worlds));
        tracing::info!(address = %self.address, "serving trace.portolan.dev");
        // The first to end ends the others.
        tokio::select! {
            never = self.listener.serve(&self.service, authority, handler) => match never {},
            never = authority_kept => match never {},
            never = ca_bundle_kept => match never {},
            ended = followers.ended() => Err(ended.into()),
        }
    }
}
