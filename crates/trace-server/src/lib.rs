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

use std::convert::Infallible;
use std::net::SocketAddr;

use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Api;
use portolan_serving::Served;
pub use portolan_serving::{Config, Error, ServiceReference};
use portolan_trace::{Tracer, Worlds};
use portolan_watch::Followers;

/// The Secret with the authority that signs the servers' certificates, in the namespace of the Service.
const SECRET: &str = "portolan-trace-ca";
/// The APIService by which kube-apiserver knows the Service.
const API_SERVICE: &str = "v1alpha1.trace.portolan.dev";

/// A trace server that listens.
#[derive(Debug)]
pub struct Server(Served);

impl Server {
    /// Begins to listen.
    ///
    /// # Errors
    /// When the address cannot be listened at.
    pub async fn bind(config: Config) -> Result<Self, Error> {
        Served::bind(config).await.map(Self)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.0.address()
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
    ) -> Result<Infallible, Error> {
        tracing::info!(address = %self.address(), "serving trace.portolan.dev");
        let api_service = (Api::<APIService>::all(client.clone()), API_SERVICE);
        let config_maps = Api::namespaced(client.clone(), front_proxy::NAMESPACE);
        let for_handler = client.clone();
        let handler = |followers: &mut Followers| {
            let authentication = followers.follow_one(config_maps, front_proxy::NAME);
            handler::Handler::new(for_handler, authentication, tracer, worlds)
        };
        self.0.run(client, SECRET, api_service, handler).await
    }
}
