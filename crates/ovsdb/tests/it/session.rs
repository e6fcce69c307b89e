//! The life of a session: what it takes, what it refuses, and how it ends.

use std::time::Duration;

use ovsdb::{Atom, Client, Endpoint, Index, Monitor, Outcome, Status, TransactError};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::network::Refused;
use crate::stage::{Server, next_error, stage, staged};
use crate::support::{SEA, client, id, insert, lighthouse, sea, string, transaction};

#[tokio::test(start_paused = true)]
async fn a_server_that_dies_as_soon_as_it_is_ready_is_not_hammered() {
    let (client, mut connections) = staged();
    let start = Instant::now();
    for _ in 0..50 {
        let mut server = Server::new(connections.recv().await.unwrap());
        server.greet().await;
        client.ready().await;
    }
    assert!(start.elapsed() > Duration::from_secs(30), "50 connections in {:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_comes_back_late_is_found_within_two_seconds() {
    let (attempt, mut attempts) = mpsc::unbounded_channel();
    let endpoints = [Endpoint::Unix("/nowhere".into())];
    let _client = Client::builder(SEA, endpoints).connector(Refused(attempt)).connect();
    let mut times = Vec::new();
    while times.len() < 100 {
        times.extend(attempts.recv().await);
    }
    let longest = times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
    assert!(longest < Duration::from_secs(2), "an attempt {longest:?} after the one before it");
}

#[tokio::test(start_paused = true)]
async fn servers_that_are_told_of_later_are_tried_instead_of_those_before() {
    let (attempt, mut attempts) = mpsc::unbounded_channel();
    let (told, endpoints) = tokio::sync::watch::channel(Vec::new());
    let client = Client::builder(SEA, endpoints).connector(Named(attempt)).connect();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(attempts.try_recv().is_err(), "there is none yet");
    for place in ["/here", "/there"] {
        let endpoint = Endpoint::Unix(place.into());
        told.send_replace(vec![endpoint.clone()]);
        // One attempt may have been under way.
        let mut seen = [attempts.recv().await.unwrap(), attempts.recv().await.unwrap()];
        seen[0] = attempts.recv().await.unwrap();
        assert_eq!(seen, [endpoint.clone(), endpoint.clone()]);
        assert!(
            matches!(&*client.status().borrow(), Status::Connecting { endpoint: Some(tried), .. } if *tried == endpoint)
        );
    }
    // Nobody tells any more: they stay.
    drop(told);
    while attempts.try_recv().is_ok() {}
    assert_eq!(attempts.recv().await.unwrap(), Endpoint::Unix("/there".into()));
}

/// Refuses every connection, and tells to whom it was.
struct Named(mpsc::UnboundedSender<Endpoint>);

impl ovsdb::transport::Connector for Named {
    fn connect(&self, endpoint: &Endpoint) -> ovsdb::transport::Connecting {
        let _ = self.0.send(endpoint.clone());
        Box::pin(async { Err(ovsdb::ConnectionError::Connect(std::io::ErrorKind::ConnectionRefused.into())) })
    }
}

#[tokio::test]
async fn what_was_asked_for_while_out_of_step_is_never_sent() {
    for _ in 0..40 {
        let (client, mut connections) = staged();
        let mut server = Server::new(connections.recv().await.unwrap());
        server.greet().await;
        client.ready().await;
        drop(server);
        next_error(&client).await;
        let mut server = Server::new(connections.recv().await.unwrap());
        // The answer is on its way, and the client does not know yet.
        server.greet().await;
        let txn = transaction([lighthouse(1)]);
        tokio::select! {
            biased;
            refused = client.transact(&txn) => assert!(matches!(refused, Err(TransactError::NotConnected(_)))),
            sent = server.next() => panic!("{sent:?}"),
        }
    }
}

#[tokio::test]
async fn a_transaction_that_the_server_lost_track_of_may_have_been_applied() {
    let (client, mut connections) = staged();
    let mut server = Server::new(connections.recv().await.unwrap());
    server.greet().await;
    client.ready().await;
    let answer = async {
        let id = server.next().await.unwrap()["id"].clone();
        server.send(json!({"id": id, "result": null, "error": "canceled"}).to_string()).await;
    };
    let txn = transaction([lighthouse(1)]);
    let (result, ()) = tokio::join!(client.transact(&txn), answer);
    assert_eq!(result.unwrap_err().outcome(), Outcome::Unknown);
}

#[test]
fn a_session_that_a_bug_ended_says_so() {
    portolan_testbed::test(async |lab| {
        let server = sea(&lab);
        let initial = Index::function("initial", |row| {
            let name: String = row.get("name").unwrap();
            // The bug: a name may be shorter.
            vec![Atom::from(&name[..12])]
        });
        let buggy =
            client(SEA, &server.endpoint()).monitor(Monitor::table("Lighthouse").index(initial)).connect();
        let writer = client(SEA, &server.endpoint()).connect();
        buggy.ready().await;
        writer.ready().await;
        let mut changes = buggy.changes();
        writer
            .transact(&transaction([insert("Lighthouse", id(1), [("name", string("short"))])]))
            .await
            .unwrap();
        assert_eq!(changes.next().await, None);
        assert!(matches!(*buggy.status().borrow(), Status::Closed));
        assert!(!buggy.ready().await);
        assert!(matches!(
            buggy.transact(&transaction([lighthouse(2)])).await,
            Err(TransactError::NotConnected(_))
        ));
    });
}

#[tokio::test]
async fn a_probe_interval_without_end_is_never_over() {
    let (stage, mut connections) = stage();
    let endpoint: Endpoint = "unix:nowhere".parse().unwrap();
    let client =
        Client::builder(SEA, [endpoint]).probe_interval(Some(Duration::MAX)).connector(stage).connect();
    let mut server = Server::new(connections.recv().await.unwrap());
    server.greet().await;
    assert!(client.ready().await);
}

#[tokio::test]
#[should_panic(expected = "table Ship is monitored twice")]
async fn a_table_monitored_twice_is_a_mistake() {
    let ship = || Monitor::table("Ship");
    client(SEA, "unix:nowhere").monitor(ship()).monitor(ship()).connect();
}

#[tokio::test]
async fn a_server_that_asks_and_never_listens_is_left() {
    let (client, mut connections) = staged();
    let mut server = Server::new(connections.recv().await.unwrap());
    server.greet().await;
    client.ready().await;
    let echo = r#"{"method":"echo","id":1,"params":[]}"#.repeat(100);
    let flood = async {
        loop {
            server.send(&echo).await;
        }
    };
    tokio::select! {
        error = next_error(&client) => assert_eq!(error, "the server sends requests and does not read the answers"),
        () = flood => {}
    }
}

#[test]
fn a_caller_can_wait_for_what_it_wants_to_see() {
    portolan_testbed::test(async |lab| {
        let server = sea(&lab);
        let reader = client(SEA, &server.endpoint()).monitor(Monitor::table("Lighthouse")).connect();
        let writer = client(SEA, &server.endpoint()).connect();
        writer.ready().await;
        // Tables are there, and empty, before there is a connection.
        assert!(reader.read().table("Lighthouse").unwrap().is_empty());
        let see = reader.wait_for(|cache| cache.table("Lighthouse")?.get(id(7)).cloned());
        let write = async {
            for n in 0..10 {
                writer.transact(&transaction([lighthouse(n)])).await.unwrap();
            }
        };
        let (row, ()) = tokio::join!(see, write);
        assert_eq!(row.get::<String>("name").unwrap(), "lighthouse 7");
    });
}
