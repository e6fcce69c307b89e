//! What a server says about itself: the `_Server` database.

use std::sync::{Arc, LazyLock};

use ovsdb_core::decode::Updates;
use ovsdb_core::{Cache, ConvertError, DatabaseSchema, Layout, Row, SmolStr, Uuid};
use serde_json::{Value, json};

use crate::error::ConnectionError;

/// The name of the database, and of our monitor of it.
pub(crate) const SERVER: &str = "_Server";

const TABLE: &str = "Database";
const COLUMNS: [&str; 6] = ["cid", "connected", "index", "leader", "model", "name"];

/// The part of `_Server`'s schema that we read; the rest may differ between releases.
static SCHEMA: LazyLock<DatabaseSchema> = LazyLock::new(|| {
    DatabaseSchema::parse(
        br#"{"name":"_Server","version":"1.0.0","tables":{"Database":{"columns":{
            "name":{"type":"string"},"model":{"type":"string"},
            "connected":{"type":"boolean"},"leader":{"type":"boolean"},
            "cid":{"type":{"key":"uuid","min":0,"max":1}},
            "index":{"type":{"key":"integer","min":0,"max":1}}}}}}"#,
    )
    .expect("invariant: a constant schema parses")
});

/// A copy of `_Server`.
pub(crate) struct ServerDatabases {
    cache: Cache,
}

/// The furthest point of a cluster's log that was seen, on whichever member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    cluster: Option<Uuid>,
    index: i64,
}

/// Whether any member of a cluster will do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Members {
    /// Any member that is connected to its cluster; it forwards transactions to the leader.
    #[default]
    Any,
    /// The leader only, as it is by its own account. Follows the leadership when it moves.
    Leader,
}

impl ServerDatabases {
    pub(crate) fn new() -> Self {
        let (layout, _) = Layout::new(TABLE, &SCHEMA.tables[TABLE], COLUMNS);
        ServerDatabases { cache: Cache::new([(layout, vec![])]) }
    }

    /// The parameters of the `monitor_cond` request.
    pub(crate) fn monitor_params() -> Value {
        json!([SERVER, SERVER, {TABLE: [{"columns": COLUMNS}]}])
    }

    /// The layouts by which updates are decoded.
    pub(crate) fn layouts(&self) -> Vec<Arc<Layout>> {
        self.cache.layouts()
    }

    pub(crate) fn replace(&mut self, updates: Updates) {
        self.cache.replace(updates);
    }

    pub(crate) fn apply(&mut self, updates: Updates) -> Result<(), ConnectionError> {
        self.cache.apply(updates)?;
        Ok(())
    }

    /// Whether this server's copy of `database` will do. Remembers how far the cluster has come.
    pub(crate) fn check(
        &self,
        database: &SmolStr,
        members: Members,
        progress: &mut Progress,
    ) -> Result<(), ConnectionError> {
        let rows = self.cache.table(TABLE).into_iter().flat_map(ovsdb_core::Table::iter);
        let read = |row: &Row| -> Result<_, ConvertError> {
            Ok((
                row.get::<String>("name")?,
                row.get::<String>("model")?,
                row.get("connected")?,
                row.get("leader")?,
            ))
        };
        for row in rows {
            let Ok((name, model, connected, leader)) = read(row) else { continue };
            if name != *database {
                continue;
            }
            return match (model.as_str(), connected, leader) {
                ("clustered" | "relay", false, _) => Err(ConnectionError::NotInCluster),
                ("clustered", true, false) if members == Members::Leader => Err(ConnectionError::NotLeader),
                ("clustered", true, _) => progress.advance(
                    row.get("cid").unwrap_or_default(),
                    row.get::<Option<i64>>("index").ok().flatten().unwrap_or_default(),
                ),
                _ => Ok(()),
            };
        }
        Err(ConnectionError::NoDatabase(database.clone()))
    }
}

impl Progress {
    /// A member that is behind of what was seen would take the cache back in time.
    fn advance(&mut self, cluster: Option<Uuid>, index: i64) -> Result<(), ConnectionError> {
        if cluster != self.cluster {
            *self = Progress { cluster, index };
        }
        if index < self.index {
            return Err(ConnectionError::Stale { index, seen: self.index });
        }
        self.index = index;
        Ok(())
    }
}
