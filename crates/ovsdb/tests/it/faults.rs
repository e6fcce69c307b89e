//! What happens when the other side misbehaves, is silent, or is old.

use std::time::Duration;

use ovsdb::{Condition, Monitor, Outcome, Status, TransactError, Uuid};
use serde_json::json;
use tokio::time::Instant;

use crate::network::{Cable, Older, Trickle};
use crate::stage::{Server, next_error, staged};
use crate::support::{SEA, client, content, dump, id, insert, lighthouse, replay, sea, string, transaction};

#[tokio::test]
async fn malformed_messages_end_the_connection_with_a_precise_error_and_the_next_one_works() {
    let update = |update: &str| {
        format!(r#"{{"method":"update3","id":null,"params":["data","{}",{update}]}}"#, Uuid::nil())
    };
    let zero = Uuid::nil();
    let cases = [
        ("hello".to_owned(), "malformed message: found byte 0x68 at byte 0 of a message, expected an object"),
        (
            r#"{"id":1]"#.to_owned(),
            "malformed message: found byte 0x5d at byte 7 of a message, expected a comma or }",
        ),
        (
            format!(r#"{{"method":"{}"#, "x".repeat(5000)),
            "malformed message: a message is longer than 4096 bytes",
        ),
        (r#"{"result":1}"#.to_owned(), r#"unexpected message: a message has no member "id""#),
        (
            r#"{"id":999,"result":1}"#.to_owned(),
            r#"unexpected message: member "id" of a message is 999, expected the id of a request under way"#,
        ),
        (
            r#"{"method":7,"params":[]}"#.to_owned(),
            r#"unexpected message: member "method" of a message is 7, expected a string"#,
        ),
        (r#"{"method":"update3","params":[]}"#.to_owned(), "cannot decode an update: invalid length 0"),
        (
            update("[]"),
            "cannot decode an update: invalid type: sequence, expected an object of table updates",
        ),
        (update(r#"{"Whale":{}}"#), "cannot decode an update: an update of table Whale, not monitored"),
        (
            update(r#"{"Lighthouse":{"x":{}}}"#),
            r#"cannot decode an update: row "x" of table Lighthouse has no UUID"#,
        ),
        (
            update(&format!(r#"{{"Lighthouse":{{"{zero}":{{"insert":{{"height":"tall"}}}}}}}}"#)),
            r#"cannot decode an update: column height of table Lighthouse: invalid type: string "tall", expected a real"#,
        ),
        (
            update(&format!(r#"{{"Lighthouse":{{"{zero}":{{"modify":{{"lit":true}}}}}}}}"#)),
            "the server changed row 00000000-0000-0000-0000-000000000000 of table Lighthouse, which it never sent",
        ),
        (
            "{\"method\":\"update3\",\"params\":[\"data\",\"\u{0}\",{}]}".to_owned(),
            "cannot decode an update: control character",
        ),
        (
            r#"{"method":"monitor_canceled","id":null,"params":["data"]}"#.to_owned(),
            "the server cancelled the monitor",
        ),
    ];
    for (bytes, expected) in cases {
        let (client, mut connections) = staged();
        let mut server = Server::new(connections.recv().await.unwrap());
        server.greet().await;
        client.ready().await;
        server.send(&bytes).await;
        let error = next_error(&client).await;
        assert!(error.contains(expected), "{bytes}\n{error}");
        assert_eq!(server.next().await, None, "the connection is closed");
        let mut next = Server::new(connections.recv().await.unwrap());
        next.greet().await;
        client.ready().await;
    }
}

#[tokio::test]
async fn the_servers_requests_are_answered() {
    let (client, mut connections) = staged();
    let mut server = Server::new(connections.recv().await.unwrap());
    server.greet().await;
    client.ready().await;
    server
        .send(r#"{"method":"echo","id":["a"],"params":[1,{"b":2}]}{"method":"sing","id":5,"params":[]}"#)
        .await;
    assert_eq!(server.next().await.unwrap(), json!({"id": ["a"], "result": [1, {"b": 2}], "error": null}));
    assert_eq!(server.next().await.unwrap(), json!({"id": 5, "result": null, "error": "unknown method"}));
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_is_asked_and_then_left() {
    let (client, mut connections) = staged();
    let mut server = Server::new(connections.recv().await.unwrap());
    server.greet().await;
    client.ready().await;
    let start = Instant::now();
    for round in 1..=3 {
        let probe = server.next().await.unwrap();
        assert_eq!((&probe["method"], &probe["id"]), (&json!("echo"), &json!(0)));
        assert_eq!(start.elapsed(), Duration::from_secs(5 * round), "asked after five seconds of silence");
        server.answer(&probe["id"], json!([])).await;
    }
    server.next().await.unwrap();
    assert_eq!(next_error(&client).await, "the server was silent for 10s");
    assert_eq!(start.elapsed(), Duration::from_secs(25));
}

#[tokio::test(start_paused = true)]
async fn attempts_are_spaced_out_with_jitter_up_to_the_maximum() {
    let (client, mut connections) = staged();
    let (mut last, mut pauses) = (Instant::now(), Vec::new());
    for _ in 0..14 {
        drop(connections.recv().await.unwrap());
        pauses.push(last.elapsed());
        last = Instant::now();
    }
    assert!(pauses[1] < Duration::from_millis(100), "{pauses:?}");
    assert!(
        pauses[12..].iter().all(|p| (Duration::from_millis(500)..=Duration::from_millis(1500)).contains(p)),
        "{pauses:?}"
    );
    assert_ne!(pauses[12], pauses[13], "no two clients keep step");
    drop(client);
}

#[tokio::test]
async fn the_outcome_of_a_transaction_is_never_guessed() {
    let (client, mut connections) = staged();
    let mut server = Server::new(connections.recv().await.unwrap());
    server.greet().await;
    client.ready().await;
    let sent = tokio::spawn({
        let client = client.clone();
        async move { client.transact(&transaction([lighthouse(1)])).await }
    });
    assert_eq!(server.next().await.unwrap()["method"], "transact");
    drop(server);
    let error = sent.await.unwrap().unwrap_err();
    assert!(matches!(error, TransactError::OutcomeUnknown(_)));
    assert_eq!(error.outcome(), Outcome::Unknown);

    let mut server = Server::new(connections.recv().await.unwrap());
    server.greet().await;
    client.ready().await;
    let sent = tokio::spawn({
        let client = client.clone();
        async move { client.transact(&transaction([lighthouse(1)])).await }
    });
    let id = server.next().await.unwrap()["id"].clone();
    server.answer(&id, json!([{"who": "knows"}])).await;
    let error = sent.await.unwrap().unwrap_err();
    assert_eq!(error.outcome(), Outcome::Unknown, "{error}");
}

#[test]
fn a_network_that_delivers_byte_by_byte_is_only_slow() {
    portolan_testbed::test(async |lab| {
        let server = sea(&lab);
        let client = client(SEA, &server.endpoint())
            .monitor(Monitor::table("Lighthouse"))
            .connector(Trickle)
            .connect();
        client.ready().await;
        client.transact(&transaction((0..50).map(lighthouse))).await.unwrap();
        assert_eq!(client.read().table("Lighthouse").unwrap().len(), 50);
    });
}

#[test]
fn old_servers_are_monitored_in_the_ways_they_know() {
    for unknown in
        [&["monitor_cond_since"][..], &["monitor_cond_since", "monitor_cond", "monitor_cond_change"]]
    {
        portolan_testbed::test(async move |lab| {
            let server = sea(&lab);
            let writer = client(SEA, &server.endpoint()).connect();
            writer.ready().await;
            writer.transact(&transaction((0..10).map(lighthouse))).await.unwrap();
            let tables = ["Fleet", "Ship", "Port", "Lighthouse"];
            let reader = tables
                .into_iter()
                .fold(client(SEA, &server.endpoint()), |builder, table| {
                    builder.monitor(Monitor::table(table))
                })
                .connector(Older(unknown))
                .connect();
            reader.ready().await;
            let mut changes = reader.changes();
            let mut batches = vec![changes.next().await.unwrap()];
            let ship = id(100);
            let papers = ovsdb::Datum::Map([("flag".into(), "red".into())].into_iter().collect());
            let fleet = ovsdb::Datum::Set([ship.into()].into_iter().collect());
            for step in [
                transaction([
                    insert("Ship", ship, [("papers", papers)]),
                    insert("Fleet", id(200), [("ships", fleet)]),
                ]),
                transaction([ovsdb::Operation::Mutate {
                    table: "Ship".into(),
                    condition: vec![],
                    mutations: vec![
                        ovsdb::Mutation::elements("cargo", ovsdb::Mutator::Insert, ["wine".into()]),
                        ovsdb::Mutation::elements("papers", ovsdb::Mutator::Delete, ["flag".into()]),
                    ],
                }]),
                transaction([ovsdb::Operation::Update {
                    table: "Lighthouse".into(),
                    condition: vec![ovsdb::Clause::uuid(id(3))],
                    row: vec![("name".into(), string("Pharos"))],
                }]),
                transaction([ovsdb::Operation::Delete { table: "Fleet".into(), condition: vec![] }]),
            ] {
                writer.transact(&step).await.unwrap();
                batches.push(changes.next().await.unwrap());
            }
            let cached = content(&reader.read());
            assert_eq!(cached, dump(&writer).await);
            assert_eq!(replay(batches.iter().map(|batch| &**batch)), cached);
            reader.set_condition("Lighthouse", Condition::All).await.unwrap();
        });
    }
}

#[test]
fn a_cut_network_loses_nothing() {
    portolan_testbed::test(async |lab| {
        let server = sea(&lab);
        let cable = Cable::new();
        let writer = client(SEA, &server.endpoint()).connect();
        let reader = client(SEA, &server.endpoint())
            .monitor(Monitor::table("Lighthouse"))
            .connector(cable.clone())
            .connect();
        writer.ready().await;
        let mut changes = reader.changes();
        let mut batches = Vec::new();
        for round in 0..20 {
            writer.transact(&transaction([lighthouse(round)])).await.unwrap();
            reader.ready().await;
            cable.cut();
            reader.status().wait_for(|status| matches!(status, Status::Connecting { .. })).await.unwrap();
            writer.transact(&transaction([lighthouse(100 + round)])).await.unwrap();
            cable.mend();
            while reader.read().table("Lighthouse").is_none_or(|table| table.len() < 2 * (round as usize + 1))
            {
                batches.push(changes.next().await.unwrap());
            }
        }
        while let Some(batch) = changes.try_next() {
            batches.push(batch);
        }
        assert_eq!(replay(batches.iter().map(|batch| &**batch)), dump(&writer).await);
    });
}
