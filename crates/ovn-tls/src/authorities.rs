//! The two authorities, as controllers keep them: in Secrets, with their certificates in ConfigMaps.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use portolan_authority::{Authority, AuthoritySecret, BUNDLE, keep_authority, keep_ca_bundle};
use portolan_watch::{Followers, Observed};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::Role;

/// The authorities of a namespace. Dropping it ends their keeping.
pub struct Authorities {
    client: Client,
    namespace: String,
    followers: Followers,
    known: BTreeMap<Role, Known>,
    tasks: JoinSet<Infallible>,
}

/// An authority, and where others find its certificates.
#[derive(Clone)]
pub(crate) struct Known {
    authority: watch::Receiver<Option<Arc<Authority>>>,
    published: watch::Receiver<Observed<ConfigMap>>,
}

impl Authorities {
    /// Follows both, makes them where they are missing, replaces them in time, and publishes their certificates.
    pub fn keep(client: &Client, namespace: &str) -> Self {
        let mut followers = Followers::of_built_in_kinds(client.clone());
        let mut tasks = JoinSet::new();
        let mut known = BTreeMap::new();
        for role in Role::ALL {
            let secret =
                AuthoritySecret { namespace: namespace.to_owned(), name: role.authority().to_owned() };
            let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
            let (authority, kept) = keep_authority(client, &mut followers, secret.clone());
            tasks.spawn(kept);
            let place = (maps.clone(), role.authority());
            tasks.spawn(keep_ca_bundle(client, &mut followers, place, secret, authority.clone()));
            let published = followers.follow_one(maps, role.authority());
            known.insert(role, Known { authority, published });
        }
        Self { client: client.clone(), namespace: namespace.to_owned(), followers, known, tasks }
    }

    /// Waits for the end of a part, which is a bug.
    pub async fn ended(&mut self) -> portolan_watch::Error {
        tokio::select! {
            error = self.followers.ended() => error,
            Some(ended) = self.tasks.join_next() => {
                let why = ended.err().map(|error| error.to_string()).unwrap_or_default();
                portolan_watch::Error::Ended { kind: "Secret".into(), why }
            }
        }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    pub(crate) fn followers(&mut self) -> &mut Followers {
        &mut self.followers
    }

    pub(crate) fn of(&self, role: Role) -> Known {
        self.known[&role].clone()
    }
}

impl Known {
    /// The authority, once others can know it.
    pub(crate) fn usable(&self) -> Option<Arc<Authority>> {
        let authority = self.authority.borrow().clone()?;
        bundle(&self.published.borrow())
            .is_some_and(|known| known.contains(&authority.certificate()))
            .then_some(authority)
    }

    /// Waits for a change. Cancel-safe.
    pub(crate) async fn changed(&mut self) {
        // Both senders live as long as the authorities are kept.
        tokio::select! {
            Ok(()) = self.authority.changed() => {}
            Ok(()) = self.published.changed() => {}
            else => std::future::pending().await,
        }
    }
}

/// The certificates in a ConfigMap.
pub(crate) fn bundle(observed: &Observed<ConfigMap>) -> Option<String> {
    let Observed::Present(map) = observed else { return None };
    map.data.as_ref().and_then(|data| data.get(BUNDLE)).filter(|text| !text.is_empty()).cloned()
}
