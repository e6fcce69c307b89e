//! A server behind a Service, whole: its authority in a Secret, the `caBundle` by which the API server trusts it, and its listener.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use kube::{Api, Client};
use portolan_authority::{AuthoritySecret, HasCaBundle, keep_authority, keep_ca_bundle};
use portolan_watch::Followers;

use crate::ServiceReference;
use crate::listener::{Listener, Service};

/// Where a server listens, and how it is reached.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where to listen.
    pub listen: SocketAddr,
    /// The Service by which the API server reaches this server. Its namespace also has the Secret with the authority that signs
    /// the server's certificate.
    pub service: ServiceReference,
}

/// Why a server does not run.
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

/// A server that listens.
#[derive(Debug)]
pub struct Served {
    listener: Listener,
    address: SocketAddr,
    service: ServiceReference,
}

impl Served {
    /// Begins to listen.
    ///
    /// # Errors
    /// When the address cannot be listened at.
    pub async fn bind(Config { listen, service }: Config) -> Result<Self, Error> {
        let failed = |source| Error::Listen { address: listen, source };
        let listener = Listener::bind(listen).await.map_err(failed)?;
        let address = listener.address().map_err(failed)?;
        Ok(Self { listener, address, service })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves for as long as it is polled, with an authority in the Secret of this name and the `caBundle` of this object. `service` may
    /// follow more objects. What fails is tried again.
    ///
    /// # Errors
    /// When a part of it has ended, which is a bug.
    pub async fn run<K: HasCaBundle, S: Service>(
        self,
        client: Client,
        secret: &str,
        known_by: (Api<K>, &str),
        service: impl FnOnce(&mut Followers) -> S,
    ) -> Result<Infallible, Error> {
        let mut followers = Followers::of_built_in_kinds(client.clone());
        let secret = AuthoritySecret { namespace: self.service.namespace.clone(), name: secret.to_owned() };
        let (authority, authority_kept) = keep_authority(&client, &mut followers, secret.clone());
        let ca_bundle_kept = keep_ca_bundle(&client, &mut followers, known_by, secret, authority.clone());
        let service = Arc::new(service(&mut followers));
        // The first to end ends the others.
        tokio::select! {
            never = self.listener.serve(&self.service, authority, service) => match never {},
            never = authority_kept => match never {},
            never = ca_bundle_kept => match never {},
            ended = followers.ended() => Err(ended.into()),
        }
    }
}
