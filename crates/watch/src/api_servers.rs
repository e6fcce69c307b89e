//! The API servers of a cluster: how they are reached, and that they are followed.
//!
//! A process begins with the address that it was given. By the first that answers it follows the EndpointSlice `default/kubernetes`, where
//! every API server lists itself; from then on a new connection goes to any of them that answers.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use http::uri::Scheme;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use kube::{Api, Client, ResourceExt as _};
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;

use crate::client::{Reached, build};
use crate::judge::Against;
use crate::servers::{Server, Servers, Ticket};
use crate::{Change, Error, Followers, Selection, Status};

/// Where API servers list themselves. Others may label slices of theirs as the Service's.
const NAMESPACE: &str = "default";
const SLICE: &str = "metadata.name=kubernetes";
/// The same, to be read.
pub(crate) const LIST: &str =
    "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?fieldSelector=metadata.name%3Dkubernetes";
/// More than any cluster has API servers.
const MOST: usize = 32;

/// Why API servers are not followed.
pub const NAMES_NONE: &str = "this URL does not name an API server itself (plain HTTP, a path, or a proxy)";

/// The API servers of a cluster. Clones share what is known of them.
#[derive(Clone, Debug)]
pub struct ApiServers {
    config: kube::Config,
    followed: Option<Followed>,
}

/// What is known of the API servers that are followed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Known {
    /// Where the last connection went, as `host:port`.
    pub current: Option<String>,
    /// The addresses that the cluster listed last, be it before this process began.
    pub addresses: Vec<SocketAddr>,
    /// How often a connection went to another one than the one before.
    pub changes: u64,
    /// Why these may not be what the cluster lists now, and since when. None while they are followed: a list was read by this process, and a
    /// watch is open.
    pub behind: Option<String>,
}

impl From<kube::Config> for ApiServers {
    /// The one that a configuration names, and no other.
    fn from(config: kube::Config) -> Self {
        Self { config, followed: None }
    }
}

impl ApiServers {
    /// All of the cluster: the one that a configuration names, or those that were known when the process ended that was here before, until
    /// [`ApiServers::follow`] says which there are.
    pub fn followed(config: kube::Config, last_known: &[SocketAddr]) -> Self {
        let uri = &config.cluster_url;
        if config.accept_invalid_certs {
            tracing::warn!(
                url = %uri,
                "certificates are not verified (insecure-skip-tls-verify): API servers are not followed, and this address alone is used"
            );
            return config.into();
        }
        if !Self::names_one(&config) {
            tracing::warn!(url = %uri, "{NAMES_NONE}: it alone is used");
            return config.into();
        }
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let port = uri.port_u16().unwrap_or(443);
        let given = host.parse().ok().map(|address| SocketAddr::new(address, port));
        let name = given.map_or_else(|| format!("{host}:{port}"), |given| given.to_string());
        let servers = watch::Sender::new(Servers::new(given, &in_any_order(bounded(last_known.to_vec()))));
        let asking = Arc::new(Semaphore::new(1));
        let followed =
            Followed { servers: Arc::new(servers), given: name.into(), status: Arc::default(), asking };
        Self { config, followed: Some(followed) }
    }

    /// Whether a configuration names an API server itself. What leads to a cluster otherwise is not what the cluster says of itself.
    pub fn names_one(config: &kube::Config) -> bool {
        let uri = &config.cluster_url;
        uri.scheme() == Some(&Scheme::HTTPS) && matches!(uri.path(), "" | "/") && config.proxy_url.is_none()
    }

    /// A client, as [`client`](crate::client) says.
    ///
    /// # Errors
    /// When the configuration is of no use.
    pub fn client(&self) -> Result<kube::Client, Error> {
        self.client_that_judges(Against::Doubts)
    }

    fn client_that_judges(&self, against: Against) -> Result<kube::Client, Error> {
        let reached = match &self.followed {
            None => Reached::Given,
            Some(followed) => Reached::Any(followed.clone(), against),
        };
        build(self.config.clone(), reached)
    }

    /// Follows which there are, for as long as it is polled; ends only with an error. `told` is called with every list that names
    /// any, be it the same. Without being followed nothing is done.
    pub async fn follow(&self, told: impl FnMut(&[SocketAddr]) + Send + 'static) -> Error {
        let Some(followed) = self.followed.clone() else { return std::future::pending().await };
        // What this client asks for is answered by the API server alone, from its store: a failure is its own.
        match self.client_that_judges(Against::Failures) {
            Ok(client) => followed.follow(client, told).await,
            Err(error) => error,
        }
    }

    #[cfg(test)]
    pub(crate) fn shared(&self) -> Option<Followed> {
        self.followed.clone()
    }

    /// What is known, if they are followed.
    pub fn known(&self) -> Option<Known> {
        let followed = self.followed.as_ref()?;
        let servers = followed.servers.borrow();
        Some(Known {
            current: servers.current().map(|server| followed.name(server)),
            addresses: servers.listed().iter().copied().collect(),
            changes: servers.changes(),
            behind: followed.behind(),
        })
    }
}

/// What all clients of a cluster know of its API servers.
#[derive(Clone, Debug)]
pub(crate) struct Followed {
    servers: Arc<watch::Sender<Servers>>,
    /// What was given, as host and port.
    given: Arc<str>,
    /// Whether that is followed, once it was begun.
    status: Arc<OnceLock<Status>>,
    /// Who may ask a server that is in doubt.
    asking: Arc<Semaphore>,
}

impl Followed {
    async fn follow(self, client: Client, mut told: impl FnMut(&[SocketAddr]) + Send + 'static) -> Error {
        let mut followers = Followers::of_built_in_kinds(client.clone());
        let (mut slices, status) = (Slices::default(), Arc::clone(&self.status));
        let api = Api::<EndpointSlice>::namespaced(client, NAMESPACE);
        followers.follow_api(api, Selection::fields(SLICE), move |change| {
            slices.take(change);
            if let Some(listed) = self.list(slices.addresses()) {
                told(&listed);
            }
            std::future::ready(())
        });
        status.get_or_init(|| followers.status());
        followers.ended().await
    }

    fn behind(&self) -> Option<String> {
        match self.status.get() {
            None => Some("following was not begun yet".to_owned()),
            Some(status) => status.behind().first().map(ToString::to_string),
        }
    }

    pub(crate) fn name(&self, server: Server) -> String {
        match server {
            Server::Given => self.given.to_string(),
            Server::At(address) => address.to_string(),
        }
    }

    /// All of them in the order in which a connection is to be tried, and what time it is for one that begins now.
    pub(crate) fn order(&self) -> (Vec<Server>, u64) {
        let servers = self.servers.borrow();
        (servers.order().to_vec(), servers.time())
    }

    pub(crate) fn connected(&self, server: Server, begun: u64) -> Ticket {
        let mut made = None;
        self.servers.send_if_modified(|servers| {
            let connected = servers.connected(server, begun);
            let left = servers.leave_silent(Instant::now());
            let leaves = !left.is_empty();
            made = Some((connected, servers.changes(), left));
            leaves
        });
        let ((ticket, changed), changes, left) = made.expect("invariant: the closure was called");
        for address in left.into_iter().map(|server| self.name(server)) {
            tracing::warn!(
                address,
                "API server is given up, as no connection with it came about; trying the others"
            );
        }
        let name = self.name(server);
        if changed {
            tracing::info!(address = name, changes, "connected with another API server");
        } else {
            tracing::debug!(address = name, "connected with an API server");
        }
        ticket
    }

    pub(crate) fn refused(&self, server: Server) {
        self.servers.send_if_modified(|servers| {
            servers.refused(server);
            false
        });
    }

    pub(crate) fn silent(&self, server: Server) {
        self.servers.send_if_modified(|servers| {
            servers.silent(server);
            false
        });
    }

    /// To ask a server that is in doubt is one's turn if nobody else does, and if it matters what it answers.
    pub(crate) fn turn_to_ask(&self, ticket: Ticket) -> Option<OwnedSemaphorePermit> {
        let matters = self.servers.borrow().may_leave(ticket, Instant::now());
        matters.then(|| Arc::clone(&self.asking).try_acquire_owned().ok()).flatten()
    }

    pub(crate) fn useless(&self, ticket: Ticket, cause: &str) {
        if self.servers.send_if_modified(|servers| servers.useless(ticket, Instant::now())) {
            let address = self.name(ticket.server());
            tracing::warn!(address, cause, "API server is given up; trying the others");
        }
    }

    pub(crate) fn keeps(&self, ticket: Ticket) -> bool {
        self.servers.borrow().keeps(ticket)
    }

    /// Waits until a connection is not to be used any more.
    pub(crate) async fn given_up(&self, ticket: Ticket) {
        let mut servers = self.servers.subscribe();
        // This handle is one of the senders: it does not end.
        let _ = servers.wait_for(|servers| !servers.keeps(ticket)).await;
    }

    /// What the cluster lists, if that is anything.
    pub(crate) fn list(&self, addresses: Vec<SocketAddr>) -> Option<Vec<SocketAddr>> {
        let listed = bounded(addresses);
        let addresses = in_any_order(listed.clone());
        if self.servers.send_if_modified(|servers| servers.list(&addresses)) {
            tracing::info!(addresses = ?listed, "the cluster lists these API servers");
        }
        (!listed.is_empty()).then_some(listed)
    }
}

/// As many as are used.
fn bounded(mut addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    addresses.sort_unstable();
    addresses.dedup();
    let known = addresses.len();
    if known > MOST {
        tracing::warn!(known, "too many addresses of API servers: the first {MOST} are used");
        addresses.truncate(MOST);
    }
    addresses
}

/// Not every process shall go to the same one next.
fn in_any_order(mut addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    fastrand::shuffle(&mut addresses);
    addresses
}

/// What the EndpointSlices say, by their names.
#[derive(Debug, Default)]
struct Slices(BTreeMap<String, Vec<SocketAddr>>);

impl Slices {
    fn take(&mut self, change: Change<EndpointSlice>) {
        match change {
            Change::Applied(slice) => {
                self.0.insert(slice.name_any(), addresses(&slice));
            }
            // It says what it said before, as far as is known.
            Change::Unreadable(_) => {}
            Change::Deleted(slice) => {
                self.0.remove(&slice.name_any());
            }
            Change::Listed(listed) => {
                let mut before = std::mem::take(&mut self.0);
                let unreadable = listed.unreadable.iter().map(|one| one.object.name_any());
                self.0.extend(unreadable.filter_map(|name| before.remove_entry(&name)));
                self.0.extend(listed.objects.iter().map(|slice| (slice.name_any(), addresses(slice))));
            }
        }
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        let mut addresses: Vec<_> = self.0.values().flatten().copied().collect();
        addresses.sort_unstable();
        addresses.dedup();
        addresses
    }
}

/// The addresses of a slice at which somebody is ready.
fn addresses(slice: &EndpointSlice) -> Vec<SocketAddr> {
    let ports = || slice.ports.iter().flatten();
    let https = ports().find(|port| port.name.as_deref() == Some("https")).or_else(|| ports().next());
    let Some(port) = https.and_then(|port| u16::try_from(port.port?).ok()).filter(|port| *port != 0) else {
        return Vec::new();
    };
    let is_ready = |endpoint: &&Endpoint| {
        endpoint.conditions.as_ref().is_none_or(|conditions| conditions.ready != Some(false))
    };
    let hosts = slice.endpoints.iter().filter(is_ready).flat_map(|endpoint| &endpoint.addresses);
    hosts.filter_map(|host| Some(SocketAddr::new(host.parse().ok()?, port))).collect()
}

#[cfg(test)]
mod tests;
