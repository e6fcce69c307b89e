//! Where OVN's databases are, by a ConfigMap in which every member of `ovn-central` writes its address: one key for each member, its
//! address as the value. Controllers and agents follow it, so that members may move.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use ovsdb::{Endpoint, Endpoints};
use portolan_daemons::{OvnDatabase, Transport};
use portolan_watch::{Followers, Observed};
use tokio::sync::watch;

/// A ConfigMap, as `NAMESPACE/NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('/') {
            Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
                Ok(Self { namespace: namespace.into(), name: name.into() })
            }
            _ => Err("write NAMESPACE/NAME".into()),
        }
    }
}

/// The addresses of members.
type Addresses = BTreeSet<IpAddr>;

/// Follows the addresses. Dropping it ends that.
pub(crate) struct OvnAddresses {
    place: Place,
    followers: Followers,
    observed: watch::Receiver<Observed<ConfigMap>>,
}

impl OvnAddresses {
    pub(crate) fn follow(client: &kube::Client, place: Place) -> Self {
        let mut followers = Followers::of_built_in_kinds(client.clone());
        let api = Api::namespaced(client.clone(), &place.namespace);
        let observed = followers.follow_one(api, &place.name);
        Self { place, followers, observed }
    }

    /// Waits until there are addresses.
    pub(crate) async fn first(&mut self) -> anyhow::Result<Addresses> {
        tracing::info!(
            config_map = %self.place,
            "waiting for the addresses of OVN's databases, which ovn-central writes there"
        );
        self.next(|addresses| !addresses.is_empty()).await
    }

    /// Waits until there is an address besides those that are known. That one is gone is no reason to do anything: it may come back, and
    /// clients go on to the next.
    pub(crate) async fn other_than(&mut self, known: &Addresses) -> anyhow::Result<Addresses> {
        self.next(|addresses| !addresses.is_subset(known)).await
    }

    async fn next(&mut self, wanted: impl Fn(&Addresses) -> bool) -> anyhow::Result<Addresses> {
        loop {
            let addresses = match &*self.observed.borrow_and_update() {
                Observed::Present(map) => addresses(map.data.as_ref()),
                Observed::NotRead | Observed::Absent => Addresses::new(),
            };
            if wanted(&addresses) {
                return Ok(addresses);
            }
            tokio::select! {
                changed = self.observed.changed() => changed?,
                error = self.followers.ended() => return Err(error.into()),
            }
        }
    }
}

/// What can be read of the values; others are somebody's mistake, which must not take away the rest.
fn addresses(data: Option<&BTreeMap<String, String>>) -> Addresses {
    let read = |(member, value): (&String, &String)| {
        let address = value.trim().parse().ok();
        if address.is_none() {
            tracing::warn!(
                member,
                value,
                "the address of a member of ovn-central cannot be read and is left out"
            );
        }
        address
    };
    data.into_iter().flatten().filter_map(read).collect()
}

/// Where controllers reach the southbound database by TLS: what a client may do follows from the port that it connects to.
pub(crate) const CONTROLLERS_PORT: u16 = 6643;

/// Where a database is, as `ovn-remote` has it.
pub(crate) fn endpoints(database: OvnDatabase, transport: Transport, addresses: &Addresses) -> String {
    at_port(database.port(), transport, addresses)
}

fn at_port(port: u16, transport: Transport, addresses: &Addresses) -> String {
    let endpoint = |address: &IpAddr| transport.endpoint(*address, port);
    addresses.iter().map(endpoint).collect::<Vec<_>>().join(",")
}

/// Where a controller reaches a database.
pub(crate) fn client_endpoints(
    database: OvnDatabase,
    transport: Transport,
    addresses: &Addresses,
) -> anyhow::Result<Vec<Endpoint>> {
    let port = match (database, transport) {
        (OvnDatabase::Southbound, Transport::Tls) => CONTROLLERS_PORT,
        _ => database.port(),
    };
    let endpoints = at_port(port, transport, addresses);
    endpoints.split(',').map(|one| one.parse().map_err(anyhow::Error::from)).collect()
}

/// Tells the clients of a controller where the databases are.
pub(crate) struct Told {
    transport: Transport,
    northbound: watch::Sender<Vec<Endpoint>>,
    southbound: watch::Sender<Vec<Endpoint>>,
}

impl Told {
    /// Nothing yet, to clients of the northbound and the southbound database.
    pub(crate) fn new(transport: Transport) -> (Self, (Endpoints, Endpoints)) {
        let (northbound, of_northbound) = watch::channel(Vec::new());
        let (southbound, of_southbound) = watch::channel(Vec::new());
        (Self { transport, northbound, southbound }, (of_northbound.into(), of_southbound.into()))
    }

    /// All addresses, with every one that comes to be known, for ever.
    pub(crate) async fn follow(self, mut addresses: OvnAddresses) -> anyhow::Result<Infallible> {
        let mut known = addresses.first().await?;
        loop {
            tracing::info!(addresses = ?known, "OVN's databases are there");
            self.northbound.send_replace(client_endpoints(OvnDatabase::Northbound, self.transport, &known)?);
            self.southbound.send_replace(client_endpoints(OvnDatabase::Southbound, self.transport, &known)?);
            known = addresses.other_than(&known).await?;
        }
    }
}

/// Tells a receiver where nodes find the southbound database, with every address that comes to be known, for ever.
pub(crate) async fn tell(
    mut addresses: OvnAddresses,
    transport: Transport,
    told: watch::Sender<Option<String>>,
) -> anyhow::Result<Infallible> {
    let mut known = addresses.first().await?;
    loop {
        tracing::info!(addresses = ?known, "OVN's databases are there");
        told.send_replace(Some(endpoints(OvnDatabase::Southbound, transport, &known)));
        known = addresses.other_than(&known).await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_both_families_become_endpoints_and_what_is_none_is_left_out() {
        let data = [("a", "192.0.2.1"), ("b", " fd00::1 "), ("c", "db.example.org"), ("d", "")];
        let data = data.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let addresses = addresses(Some(&data));
        let expected = "tcp:192.0.2.1:6642,tcp:[fd00::1]:6642";
        assert_eq!(endpoints(OvnDatabase::Southbound, Transport::Tcp, &addresses), expected);
        let clients = |database, transport| {
            let clients = client_endpoints(database, transport, &addresses).unwrap();
            clients.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
        };
        assert_eq!(clients(OvnDatabase::Southbound, Transport::Tcp), expected);
        assert_eq!(clients(OvnDatabase::Northbound, Transport::Tls), "ssl:192.0.2.1:6641,ssl:[fd00::1]:6641");
        // Nodes and controllers have ports of their own: the rights follow from them.
        let nodes = "ssl:192.0.2.1:6642,ssl:[fd00::1]:6642";
        assert_eq!(endpoints(OvnDatabase::Southbound, Transport::Tls, &addresses), nodes);
        assert_eq!(clients(OvnDatabase::Southbound, Transport::Tls), nodes.replace(":6642", ":6643"));
    }

    #[test]
    fn a_place_has_a_namespace_and_a_name() {
        assert!("a/b".parse::<Place>().is_ok());
        for text in ["", "a", "/b", "a/", "a/b/c"] {
            assert!(text.parse::<Place>().is_err(), "{text:?}");
        }
    }
}
