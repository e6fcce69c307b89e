//! The database in memory against a real one: the same random history has the same results, errors and content.

use ovsdb::{
    Atom, Clause, Client, Datum, Endpoint, ErrorKind, Function, Map, Monitor, Mutation, Mutator, Operation,
    OperationResult, Set, SmolStr, TransactError, Transaction, Until, Uuid,
};
use portolan_plan::memdb::{Content, Done, Refusal};
use portolan_testbed::{OVN_NB_SCHEMA, OvsdbServer};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::support::northbound;

const TABLES: [&str; 19] = [
    "Logical_Switch",
    "Logical_Switch_Port",
    "Logical_Router",
    "Logical_Router_Port",
    "Logical_Router_Policy",
    "ACL",
    "DHCP_Options",
    "Port_Group",
    "Address_Set",
    "Load_Balancer",
    "Load_Balancer_Group",
    "NAT",
    "Gateway_Chassis",
    "HA_Chassis",
    "HA_Chassis_Group",
    "Chassis_Template_Var",
    "Meter",
    "Meter_Band",
    "NB_Global",
];

/// A few rows of a table, so that operations meet. Servers hash UUIDs by their first four bytes, so these have to differ;
/// and a reference to a UUID that is also the referring row's own passes unchecked, whatever tables the two are of.
fn uuid(table: &str) -> impl Strategy<Value = Uuid> + use<> {
    let table = TABLES.iter().position(|name| *name == table).unwrap() as u128 + 1;
    (1..6_u128).prop_map(move |n| Uuid::from_u128(table << 112 | n << 96))
}

fn text() -> impl Strategy<Value = Datum> {
    select(&["a", "b", "c"][..]).prop_map(|text| Datum::Atom(Atom::from(text)))
}

/// References to rows of a table.
fn to(table: &str, most: usize) -> BoxedStrategy<Datum> {
    let uuids = vec(uuid(table), 0..=most);
    uuids.prop_map(|uuids| Datum::Set(uuids.into_iter().map(Atom::from).collect::<Set>())).boxed()
}

fn texts() -> impl Strategy<Value = Datum> {
    vec("[a-c]", 0..4).prop_map(|texts| Datum::Set(texts.into_iter().map(Atom::from).collect::<Set>()))
}

fn pairs() -> impl Strategy<Value = Datum> {
    vec(("[a-c]", "[x-z]"), 0..4)
        .prop_map(|pairs| Datum::Map(pairs.into_iter().map(|(k, v)| (k.into(), v.into())).collect::<Map>()))
}

fn integer() -> impl Strategy<Value = Datum> {
    prop_oneof![4 => 0..3_i64, 1 => Just(32_768), 1 => Just(-1)].prop_map(|n| Datum::Atom(Atom::Integer(n)))
}

fn word(words: &'static [&'static str]) -> BoxedStrategy<Datum> {
    select(words).prop_map(|word| Datum::Atom(Atom::from(word))).boxed()
}

fn optional(words: &'static [&'static str]) -> BoxedStrategy<Datum> {
    prop::option::of(select(words))
        .prop_map(|word| Datum::Set(word.into_iter().map(Atom::from).collect::<Set>()))
        .boxed()
}

/// Columns, with values that they may or may not take.
type Columns = Vec<(&'static str, BoxedStrategy<Datum>)>;

fn tables() -> Vec<(&'static str, Columns)> {
    vec![
        (
            "Logical_Switch",
            vec![
                ("name", text().boxed()),
                ("ports", to("Logical_Switch_Port", 3)),
                ("acls", to("ACL", 2)),
                ("external_ids", pairs().boxed()),
            ],
        ),
        (
            "Logical_Switch_Port",
            vec![
                ("name", text().boxed()),
                ("addresses", texts().boxed()),
                ("dhcpv4_options", to("DHCP_Options", 2)),
                ("options", pairs().boxed()),
            ],
        ),
        (
            "Logical_Router",
            vec![
                ("ports", to("Logical_Router_Port", 3)),
                ("policies", to("Logical_Router_Policy", 2)),
                ("nat", to("NAT", 2)),
                ("load_balancer_group", to("Load_Balancer_Group", 2)),
            ],
        ),
        (
            "Logical_Router_Port",
            vec![
                ("name", text().boxed()),
                ("mac", text().boxed()),
                ("networks", texts().boxed()),
                ("gateway_chassis", to("Gateway_Chassis", 2)),
                ("ha_chassis_group", to("HA_Chassis_Group", 1)),
            ],
        ),
        (
            "Logical_Router_Policy",
            vec![
                ("priority", integer().boxed()),
                ("action", word(&["allow", "drop", "reroute", "nonsense"])),
            ],
        ),
        (
            "ACL",
            vec![
                ("priority", integer().boxed()),
                ("direction", word(&["to-lport"])),
                ("action", word(&["drop", "allow"])),
            ],
        ),
        ("DHCP_Options", vec![("cidr", text().boxed()), ("options", pairs().boxed())]),
        (
            "Port_Group",
            vec![("name", text().boxed()), ("ports", to("Logical_Switch_Port", 3)), ("acls", to("ACL", 2))],
        ),
        ("Address_Set", vec![("name", text().boxed()), ("addresses", texts().boxed())]),
        (
            "Load_Balancer",
            vec![
                ("vips", pairs().boxed()),
                ("protocol", optional(&["tcp", "udp", "nonsense"])),
                ("options", pairs().boxed()),
            ],
        ),
        ("Load_Balancer_Group", vec![("name", text().boxed()), ("load_balancer", to("Load_Balancer", 3))]),
        (
            "NAT",
            vec![
                ("type", word(&["snat", "dnat_and_snat", "nonsense"])),
                ("external_ip", text().boxed()),
                ("gateway_port", to("Logical_Router_Port", 1)),
            ],
        ),
        (
            "Gateway_Chassis",
            vec![("name", text().boxed()), ("chassis_name", text().boxed()), ("priority", integer().boxed())],
        ),
        ("HA_Chassis", vec![("chassis_name", text().boxed()), ("priority", integer().boxed())]),
        ("HA_Chassis_Group", vec![("name", text().boxed()), ("ha_chassis", to("HA_Chassis", 2))]),
        ("Chassis_Template_Var", vec![("chassis", text().boxed()), ("variables", pairs().boxed())]),
        ("Meter", vec![("name", text().boxed()), ("unit", word(&["kbps"])), ("bands", to("Meter_Band", 2))]),
        ("Meter_Band", vec![("action", word(&["drop"])), ("rate", integer().boxed())]),
        ("NB_Global", vec![("nb_cfg", integer().boxed())]),
    ]
}

fn names(columns: &[(&'static str, BoxedStrategy<Datum>)]) -> Vec<&'static str> {
    columns.iter().map(|(name, _)| *name).collect()
}

fn row(columns: Columns) -> BoxedStrategy<Vec<(SmolStr, Datum)>> {
    let (names, values): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
    // Each column is mostly given, so that required ones are.
    (values, vec(prop::bool::weighted(0.85), names.len()))
        .prop_map(move |(values, given)| {
            let all = names.iter().map(|name| SmolStr::new_static(name)).zip(values).zip(given);
            all.filter(|(_, given)| *given).map(|(column, _)| column).collect()
        })
        .boxed()
}

fn condition(table: &str, columns: Columns) -> BoxedStrategy<Vec<Clause>> {
    let function = select(&[Function::Equal, Function::NotEqual, Function::Includes, Function::Excludes][..]);
    let clause = select(names(&columns)).prop_flat_map(move |name| {
        let value = columns.iter().find(|(n, _)| *n == name).unwrap().1.clone();
        (Just(name), value)
    });
    prop_oneof![
        6 => uuid(table).prop_map(|uuid| vec![Clause::uuid(uuid)]),
        1 => (clause, function).prop_map(|((name, value), function)| vec![Clause::new(name, function, value)]),
        1 => Just(vec![]),
    ]
    .boxed()
}

fn operation() -> BoxedStrategy<Operation> {
    let of_table = tables().into_iter().map(|(table, columns)| {
        let table = SmolStr::new_static(table);
        let composite: Vec<_> = columns
            .iter()
            .filter(|(name, _)| {
                let scalar = ["name", "mac", "cidr", "action", "direction", "unit", "type", "external_ip", "chassis_name", "chassis"];
                !scalar.contains(name)
            })
            .cloned()
            .collect();
        let mutation = select(names(&composite)).prop_flat_map(move |name| {
            let value = composite.iter().find(|(n, _)| *n == name).unwrap().1.clone();
            let scalar = matches!(name, "priority" | "rate" | "nb_cfg");
            let mutators: &[Mutator] =
                if scalar { &[Mutator::Add, Mutator::Subtract, Mutator::Divide] } else { &[Mutator::Insert, Mutator::Delete] };
            (Just(name), select(mutators), value).prop_map(|(name, mutator, value)| Mutation::new(name, mutator, value))
        });
        let (t1, t2, t3, t4, t5) = (table.clone(), table.clone(), table.clone(), table.clone(), table.clone());
        prop_oneof![
            8 => (uuid(&table), row(columns.clone())).prop_map(move |(uuid, row)| Operation::Insert {
                table: t1.clone(), uuid: Some(uuid), uuid_name: None, row,
            }),
            2 => (condition(&table, columns.clone()), row(columns.clone())).prop_map(move |(condition, row)| {
                Operation::Update { table: t2.clone(), condition, row }
            }),
            4 => (condition(&table, columns.clone()), vec(mutation, 1..3)).prop_map(move |(condition, mutations)| {
                Operation::Mutate { table: t3.clone(), condition, mutations }
            }),
            1 => condition(&table, columns.clone()).prop_map(move |condition| Operation::Delete { table: t4.clone(), condition }),
            1 => (uuid(&table), any::<bool>()).prop_map(move |(uuid, equal)| Operation::Wait {
                table: t5.clone(),
                condition: vec![Clause::uuid(uuid)],
                columns: vec!["_uuid".into()],
                until: if equal { Until::Equal } else { Until::NotEqual },
                rows: vec![vec![("_uuid".into(), Datum::Atom(uuid.into()))]],
                timeout_ms: Some(0),
            }),
        ]
        .boxed()
    });
    proptest::strategy::Union::new(of_table).boxed()
}

/// A transaction of random operations; often one that puts a child together with its parent, as those rarely meet.
fn transaction() -> impl Strategy<Value = Transaction> {
    let pair = (uuid("Logical_Router"), uuid("Logical_Router_Port"), text(), texts()).prop_map(
        |(parent, child, name, networks)| {
            let insert = |table: &str, uuid, row: Vec<(&str, Datum)>| Operation::Insert {
                table: table.into(),
                uuid: Some(uuid),
                uuid_name: None,
                row: row.into_iter().map(|(column, value)| (column.into(), value)).collect(),
            };
            let ports = Datum::Set([Atom::Uuid(child)].into_iter().collect());
            vec![
                insert("Logical_Router_Port", child, vec![("name", name), ("networks", networks)]),
                insert("Logical_Router", parent, vec![("ports", ports)]),
            ]
        },
    );
    prop_oneof![4 => vec(operation(), 1..5), 1 => pair].prop_map(|operations| {
        let mut transaction = Transaction::new();
        for operation in operations {
            transaction.push(operation);
        }
        transaction
    })
}

/// The part of a result that both databases have.
fn outcome(result: &Result<ovsdb::Reply, TransactError>) -> Result<Vec<Done>, (Option<usize>, ErrorKind)> {
    match result {
        Ok(reply) => Ok(reply
            .results
            .iter()
            .map(|result| match result {
                OperationResult::Inserted(uuid) => Done::Inserted(*uuid),
                OperationResult::Count(count) => Done::Count(*count),
                _ => Done::Nothing,
            })
            .collect()),
        Err(TransactError::Operation { index, error, .. }) => Err((Some(*index), error.kind)),
        Err(TransactError::Commit(error)) => Err((None, error.kind)),
        Err(other) => panic!("{other}"),
    }
}

fn content(client: &Client) -> Content {
    let cache = client.read();
    let columns = |row: &ovsdb::Row| row.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    let rows = |table: &ovsdb::Table| table.iter().map(|row| (row.uuid(), columns(row))).collect();
    cache.tables().iter().map(|table| (table.layout().table().clone(), rows(table))).collect()
}

#[test]
fn any_history_has_the_same_results_errors_and_content_as_on_a_real_server() {
    const HISTORIES: usize = 12;
    const TRANSACTIONS: usize = 400;
    portolan_testbed::Test::new().deadline(std::time::Duration::from_secs(240)).run(async |lab| {
        let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        let mut runner = TestRunner::new_with_rng(Config::default(), rng);
        let strategy = transaction();
        let (mut applied, mut refused) = (0, std::collections::BTreeMap::<String, usize>::new());
        for round in 0..HISTORIES {
            let server =
                OvsdbServer::builder(format!("nb{round}")).schema_file(OVN_NB_SCHEMA).start(&lab).unwrap();
            let endpoints = Endpoint::parse_list(&server.endpoint()).unwrap();
            let mut memory = northbound();
            let builder = Client::builder("OVN_Northbound", endpoints);
            let tables = memory.content().keys().cloned().collect::<Vec<_>>();
            let client =
                tables.into_iter().fold(builder, |b, table| b.monitor(Monitor::table(table))).connect();
            client.ready().await;
            for _ in 0..TRANSACTIONS {
                let transaction = strategy.new_tree(&mut runner).unwrap().current();
                let real = client.transact(&transaction).await;
                let ours = memory.transact(&transaction);
                let kind = |refusal: &Refusal| (refusal.operation, ErrorKind::from_name(refusal.error));
                assert_eq!(
                    ours.as_ref().map_err(kind).cloned(),
                    outcome(&real),
                    "{transaction:#?}\nreal: {real:?}\nin memory: {ours:?}"
                );
                match ours {
                    Ok(_) => applied += 1,
                    Err(refusal) => *refused.entry(refusal.error.to_owned()).or_default() += 1,
                }
                assert_eq!(*memory.content(), content(&client), "{transaction:#?}");
            }
        }
        eprintln!("{applied} transactions applied; refused: {refused:?}");
        assert!(applied > HISTORIES * TRANSACTIONS / 20, "only {applied} transactions were applied");
        for error in
            ["constraint violation", "referential integrity violation", "duplicate uuid", "timed out"]
        {
            assert!(
                refused.get(error).is_some_and(|times| *times > 10),
                "{error} came up too seldom: {refused:?}"
            );
        }
    });
}
