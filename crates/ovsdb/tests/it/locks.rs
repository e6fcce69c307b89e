//! Locks between clients.

use ovsdb::{ErrorKind, LockState, Monitor, Transaction};
use serde_json::json;

use crate::stage::{Server, staged};
use crate::support::{SEA, client, sea};

fn guarded() -> Transaction {
    let mut txn = Transaction::new();
    txn.assert_lock("writer");
    txn
}

#[test]
fn a_lock_passes_to_the_next_in_line() {
    portolan_testbed::test(async |lab| {
        let server = sea(&lab);
        let start = || client(SEA, &server.endpoint()).monitor(Monitor::table("Port")).connect();
        let (first, second) = (start(), start());
        // Asked for before there is a connection.
        let mut held = first.lock("writer");
        assert!(held.held().await);
        second.ready().await;
        let mut waiting = second.lock("writer");
        first.transact(&guarded()).await.unwrap();
        assert_eq!(second.transact(&guarded()).await.unwrap_err().kind(), Some(ErrorKind::NotOwner));
        assert_eq!(waiting.state(), LockState::Waiting);

        drop(held);
        assert!(waiting.held().await);
        second.transact(&guarded()).await.unwrap();
        assert_eq!(first.transact(&guarded()).await.unwrap_err().kind(), Some(ErrorKind::NotOwner));
        drop(second);
        let mut again = first.lock("writer");
        assert!(again.held().await);
    });
}

#[test]
fn a_stolen_lock_is_known_to_be_lost() {
    portolan_testbed::test(async |lab| {
        let server = sea(&lab);
        let start = || client(SEA, &server.endpoint()).connect();
        let (victim, thief) = (start(), start());
        let mut lost = victim.lock("writer");
        assert!(lost.held().await);
        let mut stolen = thief.steal("writer");
        assert!(stolen.held().await);
        while lost.state() != LockState::Stolen {
            lost.changed().await.unwrap();
        }
        assert_eq!(victim.transact(&guarded()).await.unwrap_err().kind(), Some(ErrorKind::NotOwner));
        thief.transact(&guarded()).await.unwrap();
        // The victim is next in line.
        drop(stolen);
        assert!(lost.held().await);
    });
}

#[test]
fn a_lock_is_asked_for_again_after_a_crash_of_the_server() {
    portolan_testbed::test(async |lab| {
        let server = sea(&lab);
        let client = client(SEA, &server.endpoint()).connect();
        let mut lock = client.lock("writer");
        assert!(lock.held().await);
        server.kill().unwrap();
        assert_eq!(lock.changed().await, Some(LockState::Waiting));
        server.restart().unwrap();
        assert!(lock.held().await);
        client.transact(&guarded()).await.unwrap();
    });
}

#[test]
fn a_name_that_no_server_takes_is_refused_and_harms_nothing() {
    portolan_testbed::test(async |lab| {
        let server = sea(&lab);
        let client = client(SEA, &server.endpoint()).connect();
        client.ready().await;
        let mut lock = client.lock("not/a/name");
        assert!(!lock.held().await);
        client.transact(&Transaction::new()).await.unwrap();
    });
}

#[test]
fn asking_again_takes_the_place_of_asking_before() {
    portolan_testbed::test(async |lab| {
        let server = sea(&lab);
        let client = client(SEA, &server.endpoint()).connect();
        client.ready().await;
        let mut first = client.lock("writer");
        assert!(first.held().await);
        let mut second = client.lock("writer");
        assert!(second.held().await);
        drop(first);
        client.transact(&guarded()).await.unwrap();
        assert_eq!(second.state(), LockState::Held);
    });
}

#[tokio::test]
async fn a_late_answer_to_an_old_request_makes_nobody_an_owner() {
    let (client, mut connections) = staged();
    let mut server = Server::new(connections.recv().await.unwrap());
    server.greet().await;
    client.ready().await;
    drop(client.lock("writer"));
    let first = server.next().await.unwrap();
    let second = client.lock("writer");
    let unlock = server.next().await.unwrap();
    let again = server.next().await.unwrap();
    server.answer(&first["id"], json!({"locked": true})).await;
    server.answer(&unlock["id"], json!({})).await;
    server.answer(&again["id"], json!({"locked": false})).await;
    // An answered transaction shows that the answers before it have been taken.
    let done = async {
        let id = server.next().await.unwrap()["id"].clone();
        server.answer(&id, json!([])).await;
    };
    let nothing = Transaction::new();
    let (result, ()) = tokio::join!(client.transact(&nothing), done);
    result.unwrap();
    assert_eq!(second.state(), LockState::Waiting);
}
