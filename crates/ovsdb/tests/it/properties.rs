//! Random schemas, values and histories, on a real server.

use std::collections::BTreeMap;
use std::time::Duration;

use ovsdb::{
    Atom, Clause, Datum, Map, Monitor, Mutation, Mutator, Operation, Set, SmolStr, Transaction, Uuid,
};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use crate::support::{Content, SEA, client, content, dump, id, replay, rounds, sea, transaction};
use portolan_testbed::{OvsdbServer, Test};

fn sample<T>(runner: &mut TestRunner, strategy: &impl Strategy<Value = T>) -> T {
    strategy.new_tree(runner).unwrap().current()
}

/// Text that JSON escapes, and whose order as bytes matters.
fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-c]{0,2}", "[ -~]{0,40}", "[\u{1}-\u{1f}\\\\\"/\u{e9}\u{4e2d}\u{1f980}]{0,6}"]
}

fn atom(of: &'static str) -> BoxedStrategy<Atom> {
    match of {
        "integer" => prop_oneof![-3..3_i64, any::<i64>()].prop_map(Atom::Integer).boxed(),
        // Servers print fifteen digits.
        "real" => (-1_000_000..1_000_000_i32).prop_map(|n| Atom::Real(f64::from(n) / 64.0)).boxed(),
        "boolean" => any::<bool>().prop_map(Atom::Boolean).boxed(),
        "uuid" => any::<u128>().prop_map(|n| Atom::Uuid(Uuid::from_u128(n))).boxed(),
        _ => text().prop_map(Atom::from).boxed(),
    }
}

/// A column's type in a schema, with values for it.
fn column() -> impl Strategy<Value = (Value, BoxedStrategy<Datum>)> {
    let types = || select(&["integer", "real", "boolean", "string", "uuid"][..]);
    (types(), types(), 0..6).prop_map(|(key, value, form)| match form {
        0 => (json!({"type": key}), atom(key).prop_map(Datum::Atom).boxed()),
        1 => (
            json!({"type": {"key": key, "min": 0, "max": 1}}),
            vec(atom(key), 0..2).prop_map(|atoms| Datum::Set(atoms.into_iter().collect())).boxed(),
        ),
        2 => (
            json!({"type": {"key": key, "min": 1, "max": "unlimited"}}),
            vec(atom(key), 1..5).prop_map(|atoms| Datum::Set(atoms.into_iter().collect())).boxed(),
        ),
        3 => (
            json!({"type": {"key": key, "value": value, "min": 0, "max": 1}}),
            vec((atom(key), atom(value)), 0..2)
                .prop_map(|p| Datum::Map(p.into_iter().collect::<Map>()))
                .boxed(),
        ),
        4 => (
            json!({"type": {"key": key, "value": value, "min": 0, "max": "unlimited"}}),
            vec((atom(key), atom(value)), 0..5)
                .prop_map(|p| Datum::Map(p.into_iter().collect::<Map>()))
                .boxed(),
        ),
        _ => (
            json!({"type": {"key": key, "min": 0, "max": "unlimited"}}),
            vec(atom(key), 0..5).prop_map(|atoms| Datum::Set(atoms.into_iter().collect::<Set>())).boxed(),
        ),
    })
}

#[test]
fn values_of_random_schemas_come_back_as_they_were() {
    Test::new().deadline(Duration::from_secs(rounds(120))).run(async |lab| {
        let mut runner = TestRunner::new(Config::default());
        for round in 0..rounds(8) {
            let columns = sample(&mut runner, &btree_map("[a-z]{1,8}", column(), 1..8));
            let types: BTreeMap<_, _> = columns.iter().map(|(name, (schema, _))| (name, schema)).collect();
            let tables = json!({"T": {"isRoot": true, "columns": types}});
            let schema = json!({"name": "Random", "version": "1.0.0", "tables": tables}).to_string();
            let server = OvsdbServer::builder(format!("s{round}")).schema_json(&schema).start(&lab).unwrap();
            let client = client("Random", &server.endpoint()).monitor(Monitor::table("T")).connect();
            client.ready().await;

            let mut expected = Content::new();
            for n in 0..20 {
                let row: BTreeMap<SmolStr, Datum> = columns
                    .iter()
                    .map(|(name, (_, values))| (SmolStr::new(name), sample(&mut runner, values)))
                    .collect();
                let uuid = id(n);
                let insert = Operation::Insert {
                    table: "T".into(),
                    uuid: Some(uuid),
                    uuid_name: None,
                    row: row.clone().into_iter().collect(),
                };
                client
                    .transact(&transaction([insert]))
                    .await
                    .unwrap_or_else(|e| panic!("{e}\n{schema}\n{row:?}"));
                expected.insert(("T".into(), uuid), row);
            }
            assert_eq!(content(&client.read()), expected, "{schema}");
            assert_eq!(dump(&client).await, expected, "{schema}");
        }
    });
}

/// An operation on a small set of rows, so that they meet often. Some of them fail, and their transactions with them.
fn operation() -> impl Strategy<Value = Operation> {
    let uuid = || (1..8_u128).prop_map(id);
    let name = || select(&["a", "b", "c"][..]).prop_map(|name| Datum::Atom(Atom::from(name)));
    let uuids = || vec(uuid(), 0..4).prop_map(|u| Datum::Set(u.into_iter().map(Atom::from).collect()));
    let strings = || vec("[a-d]", 0..4).prop_map(|s| Datum::Set(s.into_iter().map(Atom::from).collect()));
    let papers = || {
        vec(("[a-d]", "[x-z]"), 0..4).prop_map(|pairs| {
            Datum::Map(pairs.into_iter().map(|(k, v)| (k.into(), v.into())).collect::<Map>())
        })
    };
    let condition = || prop_oneof![4 => uuid().prop_map(|u| vec![Clause::uuid(u)]), 1 => Just(vec![])];
    let insert = |table: &'static str, row: BoxedStrategy<Vec<(SmolStr, Datum)>>| {
        (uuid(), row).prop_map(move |(uuid, row)| Operation::Insert {
            table: table.into(),
            uuid: Some(uuid),
            uuid_name: None,
            row,
        })
    };
    let ship = (name(), strings(), papers())
        .prop_map(|(n, c, p)| vec![("name".into(), n), ("cargo".into(), c), ("papers".into(), p)]);
    let mutator = || prop_oneof![Just(Mutator::Insert), Just(Mutator::Delete)];
    prop_oneof![
        3 => insert("Ship", ship.boxed()),
        2 => insert("Fleet", uuids().prop_map(|u| vec![("ships".into(), u)]).boxed()),
        1 => insert("Port", uuids().prop_map(|u| vec![("visits".into(), u)]).boxed()),
        2 => (condition(), uuids(), mutator()).prop_map(|(condition, uuids, mutator)| Operation::Mutate {
            table: "Fleet".into(), condition, mutations: vec![Mutation::new("ships", mutator, uuids)],
        }),
        2 => (condition(), strings(), papers(), mutator()).prop_map(|(condition, strings, papers, mutator)| {
            Operation::Mutate {
                table: "Ship".into(),
                condition,
                mutations: vec![
                    Mutation::new("cargo", mutator, strings),
                    Mutation::new("papers", mutator, papers),
                    Mutation::new("tons", Mutator::Add, Datum::Atom(1.into())),
                ],
            }
        }),
        2 => (condition(), name(), papers()).prop_map(|(condition, name, papers)| Operation::Update {
            table: "Ship".into(), condition, row: vec![("name".into(), name), ("papers".into(), papers)],
        }),
        1 => (condition(), select(&["Fleet", "Port"][..]))
            .prop_map(|(condition, table)| Operation::Delete { table: table.into(), condition }),
    ]
}

#[test]
fn after_any_history_the_cache_is_the_database_and_the_changes_add_up_to_it() {
    Test::new().deadline(Duration::from_secs(rounds(120))).run(async |lab| {
        let mut runner = TestRunner::new(Config::default());
        for round in 0..rounds(12) {
            let server = if round == 0 {
                sea(&lab)
            } else {
                OvsdbServer::builder(format!("sea{round}"))
                    .schema_json(crate::support::SCHEMA)
                    .start(&lab)
                    .unwrap()
            };
            let tables = ["Fleet", "Ship", "Port", "Lighthouse"];
            let monitored = tables
                .iter()
                .fold(client(SEA, &server.endpoint()), |b, table| b.monitor(Monitor::table(*table)));
            let client = monitored.connect();
            client.ready().await;
            let mut changes = client.changes();
            let (mut batches, mut applied) = (Vec::new(), 0);
            let history: Vec<Transaction> =
                sample(&mut runner, &vec(vec(operation(), 1..5).prop_map(transaction), 40..60));
            for txn in &history {
                let before = client.read().revision();
                match client.transact(txn).await {
                    Ok(reply) => {
                        applied += 1;
                        assert!(client.read().revision() >= reply.revision);
                    }
                    Err(error) => {
                        assert!(error.kind().is_some(), "{error}");
                        assert_eq!(client.read().revision(), before, "a failed transaction changes nothing");
                    }
                }
                while let Some(batch) = changes.try_next() {
                    batches.push(batch);
                }
            }
            let cached = content(&client.read());
            assert_eq!(cached, dump(&client).await, "{history:?}");
            assert_eq!(replay(batches.iter().map(|batch| &**batch)), cached, "{history:?}");
            assert!(applied > 5, "only {applied} of {} transactions were applied", history.len());
        }
    });
}
