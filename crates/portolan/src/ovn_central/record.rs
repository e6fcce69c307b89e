//! What the ConfigMap of the addresses says besides: which cluster each database is, and which of its servers each member has.
//!
//! Ids of clusters and servers are made with their files and never used again, so that a file says whether it is what it was, and the
//! ConfigMap whether it still counts. All of this is in annotations; the data are addresses alone.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use portolan_daemons::{ClusterServer, OvnDatabase};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// How many servers a member says that it had. Each but the last is removed from the cluster within seconds.
const FORMER: usize = 8;

/// What is said of one database.
#[derive(Clone, Copy)]
pub(super) struct Record<'a> {
    map: &'a ConfigMap,
    database: OvnDatabase,
}

/// The server that a member has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Published {
    pub(super) cluster: String,
    pub(super) server: String,
    /// The servers of this cluster that it had before: their files are gone, or outdated, and the cluster is to forget them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) replaces: Vec<String>,
}

impl Published {
    /// A member's first server in a cluster.
    pub(super) fn first(server: &ClusterServer) -> Self {
        let ClusterServer { cluster, server } = server.clone();
        Self { cluster, server, replaces: Vec::new() }
    }

    /// Another server in the place of this one.
    pub(super) fn replaced_by(&self, server: &ClusterServer) -> Self {
        let mut next = Self::first(server);
        if self.cluster == next.cluster && self.server != next.server {
            next.replaces =
                std::iter::once(&self.server).chain(&self.replaces).take(FORMER).cloned().collect();
        }
        next
    }

    pub(super) fn is(&self, other: &ClusterServer) -> bool {
        (&self.cluster, &self.server) == (&other.cluster, &other.server)
    }
}

impl<'a> Record<'a> {
    pub(super) fn of(map: &'a ConfigMap, database: OvnDatabase) -> Self {
        Self { map, database }
    }

    /// The one cluster that the database is.
    pub(super) fn cluster(self) -> Option<&'a str> {
        self.annotation(&cluster_key(self.database))
    }

    /// The member that is to make a new cluster of its file, because the old one is lost.
    pub(super) fn recovery(self) -> Option<&'a str> {
        self.annotation(&recovery_key(self.database))
    }

    /// The server of a member; none if nothing that can be read is said.
    pub(super) fn server(self, member: &str) -> Option<Published> {
        serde_json::from_str(self.annotation(&server_key(self.database, member))?).ok()
    }

    /// The members that have had a server in a cluster.
    pub(super) fn members_of(self, cluster: &str) -> Vec<String> {
        self.servers().filter(|(_, one)| one.cluster == cluster).map(|(member, _)| member).collect()
    }

    /// The servers of a cluster that members have replaced.
    pub(super) fn replaced(self, cluster: &str) -> Vec<String> {
        let of_cluster = self.servers().filter(|(_, one)| one.cluster == cluster);
        of_cluster.flat_map(|(_, one)| one.replaces).collect()
    }

    fn servers(self) -> impl Iterator<Item = (String, Published)> {
        let prefix = server_key(self.database, "");
        self.map.annotations().iter().filter_map(move |(key, value)| {
            let member = key.strip_prefix(&prefix)?;
            Some((member.to_owned(), serde_json::from_str(value).ok()?))
        })
    }

    fn annotation(self, key: &str) -> Option<&'a str> {
        self.map.annotations().get(key).map(String::as_str).filter(|value| !value.is_empty())
    }
}

/// Annotations to be set, or removed.
pub(super) type Annotations = BTreeMap<String, Option<String>>;

/// A change of the ConfigMap, over what was read.
pub(super) fn patch(
    map: &ConfigMap,
    annotations: &Annotations,
    data: &BTreeMap<String, Option<String>>,
) -> Value {
    let mut patch = json!({"metadata": {"resourceVersion": map.resource_version()}});
    if !annotations.is_empty() {
        patch["metadata"]["annotations"] = json!(annotations);
    }
    if !data.is_empty() {
        patch["data"] = json!(data);
    }
    patch
}

/// All that is said of a database, to be removed.
pub(super) fn nothing_of(map: &ConfigMap, database: OvnDatabase) -> Annotations {
    let prefix = server_key(database, "");
    let own = [cluster_key(database), recovery_key(database)];
    let keys =
        map.annotations().keys().filter(|key: &&String| key.starts_with(&prefix) || own.contains(*key));
    keys.map(|key| (key.clone(), None)).collect()
}

pub(super) fn cluster_key(database: OvnDatabase) -> String {
    format!("portolan.dev/{}-cluster", word(database))
}

pub(super) fn recovery_key(database: OvnDatabase) -> String {
    format!("portolan.dev/{}-recovery", word(database))
}

pub(super) fn server_key(database: OvnDatabase, member: &str) -> String {
    format!("{}.portolan.dev/{member}", word(database))
}

/// How a database is called in keys.
fn word(database: OvnDatabase) -> &'static str {
    match database {
        OvnDatabase::Northbound => "northbound",
        OvnDatabase::Southbound => "southbound",
    }
}
