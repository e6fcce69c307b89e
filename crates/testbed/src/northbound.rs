//! A test's own copy of the northbound database.

use std::collections::BTreeSet;

use ovsdb::{Atom, Cache, Client, Endpoint, Monitor, Row};
use portolan_lab::cluster::Cluster;
use portolan_lab::{Database, OVN_NB_SCHEMA};
use serde_json::Value;

use crate::testbed::Testbed;

/// The key of `external_ids` that says which unit a row belongs to.
const UNIT: &str = "portolan/unit";

/// Columns that change when other rows come and go, or that OVN itself writes.
const MAY_CHANGE: &[&str] = &["ports", "up"];

/// A copy of the tables of the northbound database whose rows can be Portolan's.
#[derive(Clone)]
pub struct Northbound {
    client: Client,
    cluster: Cluster,
}

impl Testbed {
    /// A copy of the northbound database, complete at first and kept up to date.
    ///
    /// # Panics
    /// When the database cannot be read.
    pub fn northbound(&self) -> Northbound {
        let endpoints =
            Endpoint::parse_list(&self.central().nb().endpoint()).expect("the lab's own endpoint");
        let client = self.wait(async move {
            let builder = Client::builder("OVN_Northbound", endpoints);
            let tables = tagged_tables().into_iter();
            let client =
                tables.fold(builder, |builder, table| builder.monitor(Monitor::table(table))).connect();
            client.ready().await.then_some(client)
        });
        let client = client.expect("the northbound database is served");
        Northbound { client, cluster: Cluster::clone(self) }
    }
}

impl Northbound {
    /// The client, for async code.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Blocks until the database is as it should be.
    pub fn wait_until(&self, is_as_wanted: impl Fn(&Cache) -> bool + Send + Sync + 'static) {
        let client = self.client.clone();
        self.cluster.wait(async move { client.wait_for(|cache| is_as_wanted(cache).then_some(())).await });
    }

    /// The units that have rows now.
    pub fn units(&self) -> BTreeSet<String> {
        Self::units_in(&self.client.read())
    }

    /// The units that have rows in a copy.
    pub fn units_in(cache: &Cache) -> BTreeSet<String> {
        rows_in(cache).filter_map(unit_of).collect()
    }

    /// Keeps the controller from writing to OVN until what is returned is dropped. It goes on with all else.
    ///
    /// # Panics
    /// When the database does not give its lock away.
    pub fn hold_writes(&self) -> ovsdb::Lock {
        let client = self.client.clone();
        let (lock, is_held) = self.cluster.wait(async move {
            let mut lock = client.steal("portolan");
            let is_held = lock.held().await;
            (lock, is_held)
        });
        assert!(is_held, "the database gives the lock");
        lock
    }

    /// The comments of the transactions of Portolan's controllers that the database has logged so far, each of which names its
    /// units. Others, such as northd's, have none of these.
    ///
    /// # Panics
    /// When the log cannot be read, or the database is a raft cluster.
    pub fn transactions(&self) -> Vec<String> {
        let Database::Standalone(server) = self.cluster.central().nb() else {
            panic!("a database of one server")
        };
        let file = server.socket().with_file_name("0.db");
        let log = std::fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let log = String::from_utf8_lossy(&log);
        let records = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let comments = records.filter_map(|record| Some(record.get("_comment")?.as_str()?.to_owned()));
        comments.filter(|comment| comment.contains("portolan-controller")).collect()
    }
}

/// What happens to the rows that there were when this was made.
#[derive(Debug)]
pub struct Recording {
    changes: ovsdb::Changes,
    rows: BTreeSet<ovsdb::Uuid>,
}

impl Northbound {
    /// Records from now on what happens to Portolan's rows that there are now.
    pub fn record(&self) -> Recording {
        let mut changes = self.client.changes();
        // What there is comes first.
        let mut rows = BTreeSet::new();
        while let Some(batch) = changes.try_next() {
            rows.extend(
                batch
                    .changes
                    .iter()
                    .filter(|change| unit_of(change.row()).is_some())
                    .map(ovsdb::change::Change::uuid),
            );
        }
        Recording { changes, rows }
    }
}

impl Recording {
    /// Which of the rows were removed or changed in the meantime, in the order of time; also those that were put back. Who hangs on a
    /// switch, and whether a port is bound, may change.
    pub fn disturbed(mut self) -> Vec<String> {
        let mut disturbed = Vec::new();
        while let Some(batch) = self.changes.try_next() {
            for change in batch.changes.iter().filter(|change| self.rows.contains(&change.uuid())) {
                let Some(old) = &change.old else { continue };
                let what = format!("{} of {}", change.table(), unit_of(old).unwrap_or_default());
                let Some(new) = &change.new else {
                    disturbed.push(format!("{what}: removed"));
                    continue;
                };
                let columns = old.iter().filter(|(column, value)| {
                    !MAY_CHANGE.contains(&column.as_str()) && new.datum(column) != Some(*value)
                });
                disturbed.extend(columns.map(|(column, _)| format!("{what}: {column} changed")));
            }
        }
        disturbed
    }
}

impl std::fmt::Debug for Northbound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Northbound").field("units", &self.units()).finish_non_exhaustive()
    }
}

/// The tables whose rows can carry a tag of Portolan's, but for those that describe the database itself.
fn tagged_tables() -> Vec<String> {
    let schema = std::fs::read_to_string(OVN_NB_SCHEMA).expect("the schema is installed with OVN");
    let schema: Value = serde_json::from_str(&schema).expect("a schema is JSON");
    let tables = schema["tables"].as_object().expect("a schema has tables").iter();
    let tagged = tables.filter(|(_, table)| !table["columns"]["external_ids"].is_null());
    let of_database = ["NB_Global", "Connection", "SSL"];
    tagged.map(|(name, _)| name.clone()).filter(|name| !of_database.contains(&name.as_str())).collect()
}

pub(crate) fn rows_in(cache: &Cache) -> impl Iterator<Item = &Row> {
    cache.tables().iter().flat_map(ovsdb::Table::iter).map(|row| &**row)
}

/// The unit that a row belongs to, if it is one of Portolan's.
pub(crate) fn unit_of(row: &Row) -> Option<String> {
    match row.datum("external_ids")?.map_get(UNIT)? {
        Atom::String(unit) => Some(unit.to_string()),
        _ => None,
    }
}
