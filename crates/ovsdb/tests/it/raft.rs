//! Clusters: the leader dies, and nothing is lost or doubled.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ovsdb::{Client, ErrorKind, Members, Monitor, Outcome, Status, TransactError};
use portolan_testbed::{Lab, RaftCluster, Test};
use tokio::sync::Notify;

use crate::network::Cable;
use crate::support::{SCHEMA, SEA, client, content, dump, id, lighthouse, rounds, sea, string, transaction};

const PATIENCE: Duration = Duration::from_secs(30);

fn cluster(lab: &Lab) -> RaftCluster {
    RaftCluster::builder_json("sea", SCHEMA).election_timer(Duration::from_millis(200)).start(lab).unwrap()
}

/// Inserts a row until it is known to be there, and says how often that had to be tried again.
async fn insert_for_sure(client: &Client, n: u128) -> u64 {
    let txn = transaction([lighthouse(n)]);
    let mut retries = 0;
    loop {
        client.ready().await;
        match client.transact(&txn).await {
            Ok(_) => return retries,
            // An earlier try whose outcome was unknown did it, ours or one that the cluster made by itself.
            Err(error) if error.kind() == Some(ErrorKind::DuplicateUuid) => return retries,
            Err(error) if error.outcome() == Outcome::Unknown => {}
            Err(TransactError::NotConnected(_)) => {}
            Err(error) if matches!(error.kind(), Some(ErrorKind::NotLeader | ErrorKind::ClusterError)) => {}
            Err(error) => panic!("row {n}: {error}"),
        }
        retries += 1;
    }
}

#[test]
fn ten_thousand_inserts_survive_ten_deaths_of_the_leader() {
    const WORKERS: u64 = 50;
    let (inserts, deaths) = (rounds(10_000), rounds(10));
    Test::new().deadline(Duration::from_secs(rounds(300))).run(async move |lab| {
        let cluster = Arc::new(cluster(&lab));
        let client = client(SEA, &cluster.endpoint())
            .members(Members::Leader)
            .monitor(Monitor::table("Lighthouse"))
            .connect();
        let (done, progress) = (Arc::new(AtomicU64::new(0)), Arc::new(Notify::new()));

        let mut workers = tokio::task::JoinSet::new();
        for worker in 0..WORKERS {
            let (client, done, progress) = (client.clone(), done.clone(), progress.clone());
            workers.spawn(async move {
                let mut retries = 0;
                for n in (worker..inserts).step_by(WORKERS as usize) {
                    retries += insert_for_sure(&client, u128::from(n) + 1).await;
                    done.fetch_add(1, Ordering::Relaxed);
                    progress.notify_one();
                }
                retries
            });
        }
        for death in 0..deaths {
            while done.load(Ordering::Relaxed) < inserts * (death * 2 + 1) / (deaths * 2) {
                progress.notified().await;
            }
            let cluster = cluster.clone();
            tokio::task::spawn_blocking(move || {
                let leader = &cluster.members()[cluster.leader(PATIENCE).unwrap()];
                leader.kill().unwrap();
                cluster.leader(PATIENCE).unwrap();
                leader.restart().unwrap();
            })
            .await
            .unwrap();
        }
        let retries: u64 = workers.join_all().await.into_iter().sum();
        client.ready().await;
        let cached = content(&client.read());
        assert_eq!(cached.len() as u64, inserts);
        assert_eq!(cached, dump(&client).await);
        let names: std::collections::BTreeSet<_> =
            cached.values().map(|row| row["name"].to_string()).collect();
        assert_eq!(names.len() as u64, inserts, "every insert is there once");
        println!("{inserts} inserts, {deaths} deaths of the leader, {retries} retries");
        assert!(retries > 0, "no death was noticed: the test tests nothing");
    });
}

#[test]
fn the_leader_is_followed_and_a_follower_will_do_if_asked() {
    portolan_testbed::test(async |lab| {
        let cluster = cluster(&lab);
        let leader = cluster.leader(PATIENCE).unwrap();
        let follower = &cluster.members()[(leader + 1) % 3];
        let any = client(SEA, &follower.endpoint()).monitor(Monitor::table("Lighthouse")).connect();
        any.ready().await;
        any.transact(&transaction([lighthouse(1)])).await.unwrap();
        assert_eq!(any.read().table("Lighthouse").unwrap().len(), 1);

        let picky = client(SEA, &follower.endpoint()).members(Members::Leader).connect();
        let refused = |status: &Status| match status {
            Status::Connecting { error: Some(error), .. } => {
                matches!(**error, ovsdb::ConnectionError::NotLeader)
            }
            _ => false,
        };
        picky.status().wait_for(refused).await.unwrap();

        let follows = client(SEA, &cluster.endpoint()).members(Members::Leader).connect();
        let at = |index: usize| {
            let endpoint = cluster.members()[index].endpoint();
            move |status: &Status| matches!(status, Status::Ready { endpoint: at } if at.to_string() == endpoint)
        };
        follows.status().wait_for(at(leader)).await.unwrap();
        cluster.members()[leader].kill().unwrap();
        let next = cluster.leader(PATIENCE).unwrap();
        follows.status().wait_for(at(next)).await.unwrap();
        follows.transact(&transaction([lighthouse(2)])).await.unwrap();
    });
}

const ROWS: u128 = 30_000;

/// Fills a database, is away while ten rows change, and returns how many bytes it took to be in step again.
async fn away_while_ten_rows_change(endpoints: &str) -> u64 {
    let cable = Cable::new();
    let writer = client(SEA, endpoints).connect();
    writer.ready().await;
    for start in (0..ROWS).step_by(1000) {
        writer.transact(&transaction((start..start + 1000).map(lighthouse))).await.unwrap();
    }
    let reader =
        client(SEA, endpoints).monitor(Monitor::table("Lighthouse")).connector(cable.clone()).connect();
    reader.ready().await;
    let full = reader.traffic().read;
    let mut changes = reader.changes();
    assert_eq!(changes.next().await.unwrap().changes.len() as u128, ROWS);
    // A change that the reader sees before it goes away gives it a place to continue from.
    writer.transact(&transaction([lighthouse(ROWS)])).await.unwrap();
    changes.next().await.unwrap();

    cable.cut();
    reader.status().wait_for(|status| matches!(status, Status::Connecting { .. })).await.unwrap();
    let before = reader.traffic().read;
    for n in 0..10 {
        let rename = ovsdb::Operation::Update {
            table: "Lighthouse".into(),
            condition: vec![ovsdb::Clause::uuid(id(n))],
            row: vec![("name".into(), string("Pharos"))],
        };
        writer.transact(&transaction([rename])).await.unwrap();
    }
    cable.mend();
    reader.ready().await;
    let mut changed = 0;
    while changed < 10 {
        changed += changes.next().await.unwrap().changes.len();
    }
    assert_eq!(changed, 10);
    assert!(changes.try_next().is_none());
    let cached = content(&reader.read());
    assert_eq!(cached, dump(&writer).await);
    let bytes = reader.traffic().read - before;
    println!("first sync {full} bytes, after ten changes {bytes} bytes");
    bytes
}

#[test]
fn a_cluster_tells_ten_changes_in_the_bytes_of_ten_changes() {
    portolan_testbed::test(async |lab| {
        let cluster = cluster(&lab);
        let bytes = away_while_ten_rows_change(&cluster.endpoint()).await;
        // The schema, the greeting and ten changes.
        assert!(bytes < 10_000, "{bytes} bytes");
    });
}

#[test]
fn a_standalone_server_sends_everything_and_ten_changes_are_told() {
    portolan_testbed::test(async |lab| {
        let server = sea(&lab);
        let bytes = away_while_ten_rows_change(&server.endpoint()).await;
        assert!(bytes > 1_000_000, "{bytes} bytes: has the server learnt to continue? then use it here too");
    });
}
