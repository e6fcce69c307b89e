//! Transactions, their results and their errors.

use std::collections::{BTreeMap, BTreeSet};

use ovn_schema::nb::{AddressSet, LogicalSwitch, LogicalSwitchPort};
use ovsdb::{
    Clause, Client, Datum, ErrorKind, Function, Monitor, Mutation, Mutator, Operation, OperationResult,
    Outcome, Rows, TransactError, Transaction, Uuid,
};
use portolan_testbed::{OVN_NB_SCHEMA, OvsdbServer};

use crate::support::{SEA, client, id, insert, lighthouse, sea, string, transaction};

const ONE: Uuid = id(1);
const TWO: Uuid = id(2);

fn typed_pair() -> Transaction {
    let mut txn = Transaction::new();
    txn.insert(ONE, &LogicalSwitch { name: "s1".into(), ports: BTreeSet::from([TWO]), ..Default::default() });
    txn.insert(TWO, &LogicalSwitchPort { name: "p1".into(), ..Default::default() });
    txn
}

#[test]
fn typed_rows_are_written_and_read_back() {
    portolan_testbed::test(async |lab| {
        let server = OvsdbServer::builder("nb").schema_file(OVN_NB_SCHEMA).start(&lab).unwrap();
        let client = client("OVN_Northbound", &server.endpoint())
            .monitor(Monitor::of::<LogicalSwitch>())
            .monitor(Monitor::of::<LogicalSwitchPort>())
            .connect();
        client.ready().await;

        let reply = client.transact(&typed_pair()).await.unwrap();
        assert_eq!(reply.results, [OperationResult::Inserted(ONE), OperationResult::Inserted(TWO)]);
        // The cache has the transaction's changes when its answer is here.
        assert_eq!(client.read().get::<LogicalSwitchPort>(TWO).unwrap().unwrap().name, "p1");
        assert!(client.read().revision() >= reply.revision);
        client.reached(reply.revision).await;

        let mut txn = Transaction::new();
        txn.require::<LogicalSwitch>(ONE);
        let ids = BTreeMap::from([("owner".to_owned(), "me".to_owned())]);
        txn.update(Rows::uuid(ONE), [LogicalSwitch::EXTERNAL_IDS.set(&ids)]).expect(1);
        txn.mutate(Rows::uuid(ONE), [LogicalSwitch::PORTS.delete([TWO])]).expect(1);
        client.transact(&txn).await.unwrap();
        let cache = client.read();
        let switch: LogicalSwitch = cache.get(ONE).unwrap().unwrap();
        assert_eq!((switch.ports.len(), &switch.external_ids), (0, &ids));
        // A port that no switch refers to is gone.
        assert_eq!(cache.get::<LogicalSwitchPort>(TWO).unwrap(), None);
    });
}

#[test]
fn errors_name_the_operation_that_caused_them() {
    portolan_testbed::test(async |lab| {
        let server = sea(&lab);
        let client = client(SEA, &server.endpoint()).connect();
        client.ready().await;
        let fails = async |txn: &Transaction| client.transact(txn).await.unwrap_err();

        client.transact(&transaction([lighthouse(1)])).await.unwrap();
        let twice = fails(&transaction([lighthouse(2), lighthouse(1)])).await;
        assert_eq!(twice.kind(), Some(ErrorKind::DuplicateUuid));
        assert_eq!(twice.outcome(), Outcome::NotApplied);
        let text = twice.to_string();
        assert!(text.starts_with("operation 1 (insert in Lighthouse): duplicate uuid: "), "{text}");

        // An index is checked at commit, when no single operation is at fault.
        let fleet = |ships: &[Uuid]| {
            let ships = Datum::Set(ships.iter().map(Into::into).collect());
            insert("Fleet", id(9), [("ships", ships)])
        };
        let ship = |uuid| insert("Ship", uuid, [("name", string("Argo"))]);
        let same_name = fails(&transaction([ship(ONE), ship(TWO), fleet(&[ONE, TWO])])).await;
        assert!(matches!(same_name, TransactError::Commit(_)), "{same_name}");
        assert_eq!(same_name.kind(), Some(ErrorKind::ConstraintViolation));

        let dangling = fails(&transaction([fleet(&[ONE])])).await;
        assert_eq!(dangling.kind(), Some(ErrorKind::ReferentialIntegrityViolation), "{dangling}");

        let green = Datum::Set([ovsdb::Atom::from("green")].into_iter().collect());
        let flag = fails(&transaction([insert("Ship", ONE, [("flag", green)])])).await;
        assert_eq!(flag.kind(), Some(ErrorKind::ConstraintViolation), "{flag}");

        let mut absent = Transaction::new();
        absent.comment("nothing happens without the row");
        absent.require::<AddressSet>(ONE);
        let no_table = fails(&absent).await;
        assert_eq!(
            no_table.to_string(),
            "operation 1 (wait): database Sea has no table Address_Set; nothing was sent"
        );
        let no_column = fails(&transaction([insert("Lighthouse", TWO, [("colour", string("red"))])])).await;
        assert_eq!(
            no_column.to_string(),
            "operation 0 (insert): table Lighthouse has no column colour on this server; nothing was sent"
        );
        let unlocked = fails(&transaction([Operation::Assert { lock: "writer".into() }])).await;
        assert_eq!(unlocked.kind(), Some(ErrorKind::NotOwner), "{unlocked}");
        let aborted = fails(&transaction([lighthouse(3), Operation::Abort])).await;
        assert_eq!(aborted.kind(), Some(ErrorKind::Aborted), "{aborted}");
        let types = fails(&transaction([insert("Lighthouse", TWO, [("name", Datum::Atom(5.into()))])])).await;
        assert_eq!(types.kind(), Some(ErrorKind::SyntaxError), "{types}");
    });
}

#[test]
fn a_stated_count_is_checked_and_a_required_row_keeps_everything_back() {
    portolan_testbed::test(async |lab| {
        let server = sea(&lab);
        let client = client(SEA, &server.endpoint()).monitor(Monitor::table("Lighthouse")).connect();
        client.ready().await;
        let delete =
            |uuid| Operation::Delete { table: "Lighthouse".into(), condition: vec![Clause::uuid(uuid)] };

        let mut txn = transaction([lighthouse(2)]);
        txn.push_counted(delete(ONE)).expect(1);
        let error = client.transact(&txn).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "operation 1 (delete in Lighthouse) touched 0 rows, expected 1; the transaction was applied"
        );
        assert_eq!(error.outcome(), Outcome::Applied);
        assert!(client.read().table("Lighthouse").unwrap().get(TWO).is_some());

        let wait = Operation::Wait {
            table: "Lighthouse".into(),
            condition: vec![Clause::uuid(ONE)],
            columns: vec!["_uuid".into()],
            until: ovsdb::Until::Equal,
            rows: vec![vec![("_uuid".into(), Datum::Atom(ONE.into()))]],
            timeout_ms: Some(0),
        };
        let error = client.transact(&transaction([lighthouse(3), wait])).await.unwrap_err();
        assert_eq!(error.kind(), Some(ErrorKind::TimedOut), "{error}");
        assert_eq!(client.read().table("Lighthouse").unwrap().len(), 1);
    });
}

#[test]
fn every_operation_works() {
    portolan_testbed::test(async |lab| {
        let server = sea(&lab);
        let client = client(SEA, &server.endpoint()).connect();
        client.ready().await;
        let named = Operation::Insert {
            table: "Ship".into(),
            uuid: None,
            uuid_name: Some("ship".into()),
            row: vec![("name".into(), string("Argo")), ("tons".into(), Datum::Atom(30.into()))],
        };
        let ships = Datum::Set([ovsdb::Atom::NamedUuid("ship".into())].into_iter().collect());
        let txn = transaction([
            named,
            insert("Fleet", ONE, [("name", string("fleet")), ("ships", ships)]),
            Operation::Comment("a fleet with its ship".into()),
            Operation::Commit { durable: true },
        ]);
        let reply = client.transact(&txn).await.unwrap();
        let OperationResult::Inserted(ship) = reply.results[0] else { panic!("{reply:?}") };
        assert_eq!(reply.results[2..], [OperationResult::Done, OperationResult::Done]);

        let heavy = || vec![Clause::new("tons", Function::Greater, Datum::Atom(29.into()))];
        let papers = Datum::Map([("captain".into(), "Jason".into())].into_iter().collect());
        let txn = transaction([
            Operation::Mutate {
                table: "Ship".into(),
                condition: heavy(),
                mutations: vec![
                    Mutation::new("tons", Mutator::Multiply, Datum::Atom(2.into())),
                    Mutation::elements("cargo", Mutator::Insert, ["fleece".into(), "oars".into()]),
                    Mutation::new("papers", Mutator::Insert, papers),
                ],
            },
            Operation::Update {
                table: "Ship".into(),
                condition: vec![Clause::uuid(ship)],
                row: vec![("flag".into(), Datum::Set(["red".into()].into_iter().collect()))],
            },
            Operation::Select {
                table: "Ship".into(),
                condition: heavy(),
                columns: Some(vec!["tons".into(), "cargo".into()]),
            },
            Operation::Select { table: "Ship".into(), condition: vec![], columns: None },
            Operation::Delete { table: "Fleet".into(), condition: vec![Clause::uuid(ONE)] },
        ]);
        let reply = client.transact(&txn).await.unwrap();
        assert_eq!(reply.results[..2], [OperationResult::Count(1), OperationResult::Count(1)]);
        let OperationResult::Rows(some) = &reply.results[2] else { panic!("{reply:?}") };
        assert_eq!(
            some[0].iter().map(|(c, v)| format!("{c}={v}")).collect::<Vec<_>>(),
            [r#"cargo=["fleece", "oars"]"#, "tons=60"]
        );
        let OperationResult::Rows(all) = &reply.results[3] else { panic!("{reply:?}") };
        assert_eq!(
            (all[0].uuid(), all[0].get::<Option<String>>("flag").unwrap().as_deref()),
            (ship, Some("red"))
        );
        assert_eq!(reply.results[4], OperationResult::Count(1));
    });
}

#[test]
fn a_thousand_transactions_under_way_at_once_are_answered_each() {
    portolan_testbed::test(async |lab| {
        let server = sea(&lab);
        let client: Client = client(SEA, &server.endpoint()).monitor(Monitor::table("Lighthouse")).connect();
        client.ready().await;
        let mut all = tokio::task::JoinSet::new();
        for n in 0..1000 {
            let client = client.clone();
            all.spawn(async move { client.transact(&transaction([lighthouse(n)])).await });
        }
        for result in all.join_all().await {
            assert!(matches!(result.unwrap().results[..], [OperationResult::Inserted(_)]));
        }
        assert_eq!(client.read().table("Lighthouse").unwrap().len(), 1000);
    });
}
