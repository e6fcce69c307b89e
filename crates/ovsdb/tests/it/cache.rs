//! The cache and its changes, over restarts of the server.

use ovsdb::{Atom, Clause, Index, Monitor, Operation, Status};

use crate::support::{
    SCHEMA, SEA, client, content, database_file, dump, id, lighthouse, replay, sea, string, transaction,
};

fn set_name(n: u128, name: &str) -> Operation {
    Operation::Update {
        table: "Lighthouse".into(),
        condition: vec![Clause::uuid(id(n))],
        row: vec![("name".into(), string(name))],
    }
}

fn delete(n: u128) -> Operation {
    Operation::Delete { table: "Lighthouse".into(), condition: vec![Clause::uuid(id(n))] }
}

#[test]
fn one_transaction_is_one_batch_of_changes() {
    portolan_testbed::test(async |lab| {
        let server = sea(&lab);
        let writer = client(SEA, &server.endpoint()).connect();
        let reader = client(SEA, &server.endpoint()).monitor(Monitor::table("Lighthouse")).connect();
        writer.ready().await;
        reader.ready().await;
        let mut changes = reader.changes();

        writer.transact(&transaction([lighthouse(1), lighthouse(2), lighthouse(3)])).await.unwrap();
        assert_eq!(changes.next().await.unwrap().changes.len(), 3);
        writer.transact(&transaction([set_name(1, "Pharos"), delete(2)])).await.unwrap();
        let batch = changes.next().await.unwrap();
        assert_eq!(batch.changes.len(), 2);
        assert!(changes.try_next().is_none());

        // A second consumer starts with everything there is.
        let late = reader.changes().next().await.unwrap();
        assert_eq!(replay([&*late]), content(&reader.read()));
        assert_eq!(late.revision, batch.revision);
        drop((writer, reader));
        assert_eq!(changes.next().await, None);
    });
}

#[test]
fn after_a_crash_of_the_server_only_what_changed_meanwhile_is_told() {
    portolan_testbed::test(async |lab| {
        let server = sea(&lab);
        let reader = client(SEA, &server.endpoint())
            .monitor(Monitor::table("Lighthouse").index(Index::column("name")))
            .connect();
        reader.ready().await;
        let mut changes = reader.changes();
        reader.transact(&transaction((0..100).map(lighthouse))).await.unwrap();
        assert_eq!(changes.next().await.unwrap().changes.len(), 100);

        let mut status = reader.status();
        server.kill().unwrap();
        let down = |status: &Status| matches!(status, Status::Connecting { error: Some(_), .. });
        status.wait_for(down).await.unwrap();
        let refused = reader.transact(&transaction([lighthouse(500)])).await.unwrap_err();
        assert_eq!(refused.to_string(), "not connected to database Sea; nothing was sent");
        // The cache stays readable meanwhile.
        assert_eq!(reader.read().table("Lighthouse").unwrap().len(), 100);

        // Another program changes the file while the client is away: the offline tool stands for it.
        let change =
            serde_json::json!(["Sea", delete(7), set_name(8, "Pharos"), lighthouse(200)]).to_string();
        let db = database_file(&server);
        lab.command("ovsdb-tool").arg("transact").arg(&db).arg(change).read().unwrap();
        server.restart().unwrap();
        reader.ready().await;

        let batch = changes.next().await.unwrap();
        let mut seen: Vec<_> =
            batch.changes.iter().map(|c| (c.uuid().as_u128() as u32, c.new.is_some())).collect();
        seen.sort_unstable();
        assert_eq!(seen, [(7, false), (8, true), (200, true)]);
        assert!(changes.try_next().is_none());
        let found = reader.read().table("Lighthouse").unwrap().find("name", &Atom::from("Pharos")).count();
        assert_eq!(found, 1);
        let content = content(&reader.read());
        assert_eq!(content, dump(&reader).await);
    });
}

#[test]
fn a_changed_schema_is_taken_over() {
    portolan_testbed::test(async |lab| {
        let server = sea(&lab);
        let reader = client(SEA, &server.endpoint()).monitor(Monitor::table("Lighthouse")).connect();
        reader.ready().await;
        reader.transact(&transaction([lighthouse(1)])).await.unwrap();
        let mut changes = reader.changes();
        changes.next().await.unwrap();

        let newer = SCHEMA.replace(
            r#""lit": {"type": "boolean"}"#,
            r#""lit": {"type": "boolean"}, "colour": {"type": "string"}"#,
        );
        assert_ne!(newer, SCHEMA);
        let params = serde_json::json!([SEA, serde_json::from_str::<serde_json::Value>(&newer).unwrap()]);
        server.call("convert", &params).unwrap();
        let batch = changes.next().await.unwrap();
        let row = batch.changes[0].new.as_ref().unwrap();
        assert_eq!(row.get::<String>("colour").unwrap(), "");
        reader.ready().await;
        let paint = Operation::Update {
            table: "Lighthouse".into(),
            condition: vec![],
            row: vec![("colour".into(), string("red"))],
        };
        reader.transact(&transaction([paint])).await.unwrap();
        assert_eq!(content(&reader.read()).into_values().next().unwrap()["colour"], string("red"));
    });
}

#[test]
fn what_the_server_lacks_is_named() {
    portolan_testbed::test(async |lab| {
        let server = sea(&lab);
        let error = async |database: &str, monitor: Monitor| {
            let client = client(database, &server.endpoint()).monitor(monitor).connect();
            let mut status = client.status();
            let failed = |status: &Status| matches!(status, Status::Connecting { error: Some(_), .. });
            match &*status.wait_for(failed).await.unwrap() {
                Status::Connecting { error: Some(error), .. } => error.to_string(),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(error("Lake", Monitor::table("Ship")).await, "the server has no database Lake");
        assert_eq!(error(SEA, Monitor::table("Whale")).await, "database Sea has no table Whale");
        let sails = Monitor::table("Ship").columns(["name", "sails"]);
        assert_eq!(error(SEA, sails).await, "table Ship of database Sea has no column sails");
        let by_sail = Monitor::table("Ship").index(Index::map_key("sails", "jib"));
        assert_eq!(error(SEA, by_sail).await, "table Ship of database Sea has no column sails");

        // Typed code may know more than the server: such a table is empty, and such a column has its default.
        let typed =
            client(SEA, &server.endpoint()).monitor(Monitor::of::<ovn_schema::nb::LogicalSwitch>()).connect();
        typed.ready().await;
        assert_eq!(typed.read().rows::<ovn_schema::nb::LogicalSwitch>().count(), 0);
    });
}

#[test]
fn a_slow_consumer_gets_the_sum_of_what_it_missed() {
    portolan_testbed::test(async |lab| {
        let server = sea(&lab);
        let client = client(SEA, &server.endpoint()).monitor(Monitor::table("Lighthouse")).connect();
        client.ready().await;
        client.transact(&transaction((0..100).map(lighthouse))).await.unwrap();
        let mut slow = client.changes();
        let rename =
            |round: u32| transaction((0..100).map(move |n| set_name(n, &format!("{n} in round {round}"))));
        for round in 0..200 {
            client.transact(&rename(round)).await.unwrap();
        }
        client.transact(&transaction((50..100).map(delete))).await.unwrap();
        let mut batches = Vec::new();
        while let Some(batch) = slow.try_next() {
            batches.push(batch);
        }
        let held: usize = batches.iter().map(|batch| batch.changes.len()).sum();
        assert!(held < 5_000, "20,150 changes happened, and {held} were kept");
        assert_eq!(replay(batches.iter().map(|batch| &**batch)), content(&client.read()));
    });
}

#[test]
fn a_server_that_is_replaced_by_an_empty_one_empties_the_cache() {
    portolan_testbed::test(async |lab| {
        let server = sea(&lab);
        let reader = client(SEA, &server.endpoint()).monitor(Monitor::table("Lighthouse")).connect();
        reader.ready().await;
        reader.transact(&transaction([lighthouse(1), lighthouse(2)])).await.unwrap();
        let mut changes = reader.changes();
        changes.next().await.unwrap();
        server.kill().unwrap();
        let db = database_file(&server);
        std::fs::remove_file(&db).unwrap();
        let schema = lab.path().join("schema");
        std::fs::write(&schema, SCHEMA).unwrap();
        lab.command("ovsdb-tool").arg("create").arg(&db).arg(&schema).read().unwrap();
        server.restart().unwrap();
        let batch = changes.next().await.unwrap();
        assert!(batch.changes.len() == 2 && batch.changes.iter().all(|change| change.new.is_none()));
    });
}
