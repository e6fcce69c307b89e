//! What it would be worth to send a transaction before the one before it was answered.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ovn_schema::nb::{LogicalSwitch, LogicalSwitchPort};
use ovsdb::{Client, Members, Monitor, Transaction, Uuid};
use portolan_testbed::{OVN_NB_SCHEMA, OvsdbServer, RaftCluster};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::support::client;

/// So many transactions, each of which adds so many ports to a switch of its own.
fn transactions(count: u128, ports: u128, round: u128) -> Vec<Transaction> {
    let transaction = |number: u128| {
        // Rows whose UUIDs have the same beginning make the server slow.
        let id = |row: u128| Uuid::new_v5(&Uuid::nil(), format!("{round} {number} {row}").as_bytes());
        let mut transaction = Transaction::new();
        let name = format!("switch {round} {number}");
        let ids = (1..=ports).map(id).collect();
        transaction.insert(id(0), &LogicalSwitch { name, ports: ids, ..Default::default() });
        for port in 1..=ports {
            let row = LogicalSwitchPort {
                name: format!("port {round} {number} {port}"),
                addresses: [format!("0a:58:0a:00:00:01 10.0.{}.{}", port / 256, port % 256)].into(),
                ..Default::default()
            };
            transaction.insert(id(port), &row);
        }
        transaction
    };
    (0..count).map(transaction).collect()
}

async fn time(client: &Client, transactions: Vec<Transaction>, in_flight: usize) -> Duration {
    let (start, places) = (Instant::now(), Arc::new(Semaphore::new(in_flight)));
    let mut answers = JoinSet::new();
    for transaction in transactions {
        let place = Arc::clone(&places).acquire_owned().await.unwrap();
        let client = client.clone();
        answers.spawn(async move {
            client.transact(&transaction).await.unwrap();
            drop(place);
        });
    }
    drop(answers.join_all().await);
    start.elapsed()
}

async fn measure(database: &str, client: &Client) {
    client.ready().await;
    let mut round = 0;
    for (count, ports) in [(400, 1), (100, 20), (20, 500)] {
        for _ in 0..3 {
            for in_flight in [1, 4, 16] {
                round += 1;
                let took = time(client, transactions(count, ports, round), in_flight).await;
                let each = took / u32::try_from(count).unwrap();
                println!(
                    "{database}: {count} transactions of {ports} ports, {in_flight} in flight: {each:?} each"
                );
            }
        }
    }
}

#[test]
#[ignore = "a measurement, whose figures are in ARCHITECTURE.md"]
fn transactions_in_flight() {
    portolan_testbed::test(async |lab| {
        let server = OvsdbServer::builder("nb").schema_file(OVN_NB_SCHEMA).start(&lab).unwrap();
        let of = |endpoint: &str| {
            client("OVN_Northbound", endpoint)
                .members(Members::Leader)
                .monitor(Monitor::of::<LogicalSwitch>())
                .monitor(Monitor::of::<LogicalSwitchPort>())
                .connect()
        };
        measure("one server", &of(&server.endpoint())).await;
        let cluster = RaftCluster::builder("nb-raft", OVN_NB_SCHEMA).start(&lab).unwrap();
        measure("raft of three", &of(&cluster.endpoint())).await;
    });
}
