//! What the tests share: a small schema, and ways to compare a cache with its server.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use ovsdb::{
    Atom, Batch, Builder, Cache, Client, Datum, Endpoint, Operation, OperationResult, SmolStr, Transaction,
    Uuid,
};
use portolan_testbed::{Lab, OvsdbServer};

/// Ships with a unique name, in a fleet that keeps them alive; a port that refers to ships weakly.
pub(crate) const SCHEMA: &str = r#"{"name": "Sea", "version": "1.0.0", "tables": {
    "Fleet": {"isRoot": true, "columns": {
        "name": {"type": "string"},
        "ships": {"type": {"key": {"type": "uuid", "refTable": "Ship"}, "min": 0, "max": "unlimited"}}}},
    "Ship": {"indexes": [["name"]], "columns": {
        "name": {"type": "string"},
        "tons": {"type": "integer"},
        "flag": {"type": {"key": {"type": "string", "enum": ["set", ["red", "white"]]}, "min": 0, "max": 1}},
        "cargo": {"type": {"key": "string", "min": 0, "max": "unlimited"}},
        "papers": {"type": {"key": "string", "value": "string", "min": 0, "max": "unlimited"}}}},
    "Port": {"isRoot": true, "columns": {
        "name": {"type": "string"},
        "visits": {"type": {"key": {"type": "uuid", "refTable": "Ship", "refType": "weak"}, "min": 0, "max": "unlimited"}}}},
    "Lighthouse": {"isRoot": true, "columns": {
        "name": {"type": "string"}, "height": {"type": "real"}, "lit": {"type": "boolean"}}}}}"#;

pub(crate) const SEA: &str = "Sea";

pub(crate) fn sea(lab: &Lab) -> OvsdbServer {
    OvsdbServer::builder("sea").schema_json(SCHEMA).start(lab).unwrap()
}

/// The file in which a server keeps its only database.
pub(crate) fn database_file(server: &OvsdbServer) -> PathBuf {
    server.socket().with_file_name("0.db")
}

/// How often to repeat what usually is repeated `usual` times: longer in the soak runs of `make test-full`.
pub(crate) fn rounds(usual: u64) -> u64 {
    usual
        * std::env::var("PORTOLAN_SOAK")
            .map_or(1, |factor| factor.parse().expect("PORTOLAN_SOAK is a number"))
}

/// A client with backoff fit for tests.
pub(crate) fn client(database: &str, endpoints: &str) -> Builder {
    Client::builder(database, Endpoint::parse_list(endpoints).unwrap())
        .backoff(Duration::from_millis(5), Duration::from_millis(100))
}

pub(crate) fn string(text: &str) -> Datum {
    Datum::Atom(Atom::from(text))
}

pub(crate) fn insert(
    table: &str,
    uuid: Uuid,
    row: impl IntoIterator<Item = (&'static str, Datum)>,
) -> Operation {
    let row = row.into_iter().map(|(column, value)| (SmolStr::new(column), value)).collect();
    Operation::Insert { table: table.into(), uuid: Some(uuid), uuid_name: None, row }
}

pub(crate) fn transaction(operations: impl IntoIterator<Item = Operation>) -> Transaction {
    let mut transaction = Transaction::new();
    for operation in operations {
        transaction.push(operation);
    }
    transaction
}

/// The UUID of the row that a test calls `n`. Servers hash UUIDs by their first four bytes, so these have to differ.
pub(crate) const fn id(n: u128) -> Uuid {
    Uuid::from_u128(n << 96 | n)
}

pub(crate) fn lighthouse(n: u128) -> Operation {
    insert("Lighthouse", id(n), [("name", string(&format!("lighthouse {n}")))])
}

/// A database's content in a form that compares and prints well.
pub(crate) type Content = BTreeMap<(SmolStr, Uuid), BTreeMap<SmolStr, Datum>>;

pub(crate) fn content(cache: &Cache) -> Content {
    replay([&cache.snapshot()])
}

/// What batches of changes amount to, from nothing. Each change has to fit what came before it.
pub(crate) fn replay<'a>(batches: impl IntoIterator<Item = &'a Batch>) -> Content {
    let mut content = Content::new();
    for change in batches.into_iter().flat_map(|batch| &batch.changes) {
        let key = (change.table().clone(), change.uuid());
        let columns =
            |row: &ovsdb::Row| row.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        let before = match &change.new {
            Some(row) => content.insert(key, columns(row)),
            None => content.remove(&key),
        };
        assert_eq!(before, change.old.as_deref().map(columns), "a change that does not fit: {change:?}");
    }
    content
}

/// What the server has, read by `select` and not by the monitor.
pub(crate) async fn dump(client: &Client) -> Content {
    let schema = client.schema().unwrap();
    let tables: Vec<_> = schema.tables.keys().cloned().collect();
    let select =
        |table: &SmolStr| Operation::Select { table: table.clone(), condition: vec![], columns: None };
    let reply = client.transact(&transaction(tables.iter().map(select))).await.unwrap();
    let mut content = Content::new();
    for (table, result) in tables.iter().zip(reply.results) {
        let OperationResult::Rows(rows) = result else { panic!("a select answers rows") };
        for row in rows {
            let columns = row.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
            content.insert((table.clone(), row.uuid()), columns);
        }
    }
    content
}
