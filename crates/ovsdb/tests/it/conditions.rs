//! Which rows are kept, and how that changes.

use std::collections::BTreeSet;
use std::time::Duration;

use ovsdb::{Clause, Client, Condition, ConditionError, Endpoint, Function, Monitor, Operation, Uuid};
use portolan_testbed::{RaftCluster, Test};
use serde_json::json;

use crate::network::Cable;
use crate::stage::{Server, stage};
use crate::support::{
    Content, SCHEMA, SEA, client, content, dump, id, insert, lighthouse, replay, rounds, sea, string,
    transaction,
};

#[test]
fn conditions_choose_rows_and_can_change() {
    portolan_testbed::test(async |lab| {
        let server = sea(&lab);
        let name_is = |name: &str| Clause::new("name", Function::Equal, string(name));
        let reader = client(SEA, &server.endpoint())
            .monitor(Monitor::table("Port").condition(Condition::AnyOf(vec![name_is("Piraeus")])))
            .monitor(Monitor::table("Lighthouse").columns(["name"]).condition(Condition::Nothing))
            .connect();
        let unknown = reader.set_condition("Nowhere", Condition::All).await.unwrap_err();
        assert_eq!(unknown.to_string(), "table Nowhere is not monitored");
        reader.ready().await;
        let port = |n: u128, name| insert("Port", id(n), [("name", string(name))]);
        reader.transact(&transaction([port(1, "Piraeus"), port(2, "Ostia"), lighthouse(1)])).await.unwrap();
        let count = |table: &str| reader.read().table(table).unwrap().len();
        assert_eq!((count("Port"), count("Lighthouse")), (1, 0));

        let mut changes = reader.changes();
        changes.next().await.unwrap();
        let either = Condition::AnyOf(vec![name_is("Ostia"), name_is("Genoa")]);
        reader.set_condition("Port", either).await.unwrap();
        assert_eq!(count("Port"), 1);
        assert_eq!(changes.next().await.unwrap().changes.len(), 2);
        reader.set_condition("Lighthouse", Condition::All).await.unwrap();
        assert_eq!(count("Lighthouse"), 1);
        let layout = reader.read().table("Lighthouse").unwrap().layout().clone();
        assert_eq!(layout.columns().iter().map(|(name, _)| name).collect::<Vec<_>>(), ["name"]);

        // The new conditions hold on the next connection too.
        server.kill().unwrap();
        server.restart().unwrap();
        let changed = Condition::AnyOf(vec![name_is("Genoa")]);
        reader.set_condition("Port", changed).await.unwrap();
        reader.ready().await;
        assert_eq!((count("Port"), count("Lighthouse")), (0, 1));
        reader.transact(&transaction([port(3, "Genoa")])).await.unwrap();
        assert_eq!(count("Port"), 1);
    });
}

#[test]
fn a_condition_that_the_server_cannot_test_is_refused_and_the_one_before_stays() {
    portolan_testbed::test(async |lab| {
        let server = sea(&lab);
        let client = client(SEA, &server.endpoint())
            .monitor(Monitor::table("Lighthouse"))
            .monitor(Monitor::of::<ovn_schema::nb::LogicalSwitch>())
            .connect();
        client.ready().await;
        let red = Condition::AnyOf(vec![Clause::new("colour", Function::Equal, string("red"))]);
        let error = client.set_condition("Lighthouse", red).await.unwrap_err();
        assert_eq!(error.to_string(), "table Lighthouse has no column colour on this server");
        let wrong_type = Condition::AnyOf(vec![Clause::new("height", Function::Equal, string("tall"))]);
        let error = client.set_condition("Lighthouse", wrong_type).await.unwrap_err();
        assert!(matches!(error, ConditionError::Refused(_)), "{error}");
        // A table that the server lacks has no rows, under any condition.
        client.set_condition("Logical_Switch", Condition::Nothing).await.unwrap();
        client.transact(&transaction([lighthouse(1)])).await.unwrap();
        assert_eq!(client.read().table("Lighthouse").unwrap().len(), 1, "the session went on as before");
    });
}

#[tokio::test]
async fn nobody_is_told_that_a_condition_holds_before_the_server_has_confirmed_it() {
    let (stage, mut connections) = stage();
    let endpoint: Endpoint = "unix:nowhere".parse().unwrap();
    let tables = [Monitor::table("Lighthouse"), Monitor::table("Port")];
    let client = tables.into_iter().fold(Client::builder(SEA, [endpoint]), ovsdb::Builder::monitor);
    let client = client.connector(stage).connect();
    let mut server = Server::new(connections.recv().await.unwrap());
    let monitor = server.greet_up_to("monitor_cond_since").await;
    let (lighthouse, port) = (client.clone(), client.clone());
    let mut one = Box::pin(lighthouse.set_condition("Lighthouse", Condition::Nothing));
    let mut two = Box::pin(port.set_condition("Port", Condition::Nothing));
    // Both are asked for while the tables are on their way.
    assert!(futures_are_pending(&mut one, &mut two).await);
    server.answer(&monitor["id"], json!([false, Uuid::nil(), {}])).await;
    let change = server.next().await.unwrap();
    assert_eq!(change["method"], "monitor_cond_change");
    assert_eq!(change["params"][2].as_object().unwrap().len(), 2);
    assert!(futures_are_pending(&mut one, &mut two).await);
    server.answer(&change["id"], json!({})).await;
    assert_eq!((one.await, two.await), (Ok(()), Ok(())));
}

async fn futures_are_pending<T>(
    one: &mut (impl Future<Output = T> + Unpin),
    two: &mut (impl Future<Output = T> + Unpin),
) -> bool {
    tokio::select! {
        biased;
        _ = one => false,
        _ = two => false,
        // By then the session has had every chance to run.
        () = async { for _ in 0..50 { tokio::task::yield_now().await } } => true,
    }
}

#[test]
fn cuts_and_changes_of_conditions_at_any_time_lose_nothing() {
    Test::new().deadline(Duration::from_secs(rounds(120))).run(async |lab| {
        let cluster = RaftCluster::builder_json("sea", SCHEMA).start(&lab).unwrap();
        cluster.leader(Duration::from_secs(30)).unwrap();
        let cable = Cable::new();
        let names = ["a", "b", "c", "d"];
        let any_of = |names: &BTreeSet<&str>| {
            let clause = |name: &&str| Clause::new("name", Function::Equal, string(name));
            Condition::AnyOf(names.iter().map(clause).collect())
        };
        let writer = client(SEA, &cluster.endpoint()).connect();
        let reader = client(SEA, &cluster.endpoint())
            .monitor(Monitor::table("Lighthouse").condition(Condition::Nothing))
            .connector(cable.clone())
            .connect();
        writer.ready().await;
        let mut changes = reader.changes();
        let mut batches = Vec::new();
        for round in 0..u128::from(rounds(60)) {
            if fastrand::u8(..3) == 0 {
                cable.cut();
            }
            for n in 0..fastrand::u128(0..4) {
                let name = || ("name".into(), string(names[fastrand::usize(..names.len())]));
                let condition = vec![Clause::uuid(id(fastrand::u128(1..=round * 4 + 1)))];
                let table = || "Lighthouse".into();
                let change = match fastrand::u8(..4) {
                    0 => Operation::Delete { table: table(), condition },
                    1 => Operation::Update { table: table(), condition, row: vec![name()] },
                    _ => insert("Lighthouse", id(round * 4 + n + 1), [("name", name().1)]),
                };
                writer.transact(&transaction([change])).await.unwrap();
            }
            let want: BTreeSet<&str> = names.into_iter().filter(|_| fastrand::bool()).collect();
            let earlier: BTreeSet<&str> = names.into_iter().filter(|_| fastrand::bool()).collect();
            let asked = async {
                let (first, second) = (any_of(&earlier), any_of(&want));
                tokio::join!(
                    reader.set_condition("Lighthouse", first),
                    reader.set_condition("Lighthouse", second)
                )
            };
            let mended = async {
                for _ in 0..fastrand::u8(..20) {
                    tokio::task::yield_now().await;
                }
                cable.mend();
            };
            let ((first, second), ()) = tokio::join!(asked, mended);
            assert_eq!((first, second), (Ok(()), Ok(())));

            let mut there = dump(&writer).await;
            there.retain(|_, row| want.iter().any(|name| row["name"] == string(name)));
            // The writer may be ahead on another member.
            let seen: Content = reader
                .wait_for(|cache| {
                    Some(content(cache)).filter(|cached| cached.len() == there.len() && *cached == there)
                })
                .await;
            while let Some(batch) = changes.try_next() {
                batches.push(batch);
            }
            assert_eq!(replay(batches.iter().map(|batch| &**batch)), seen);
        }
    });
}
