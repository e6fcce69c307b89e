use std::pin::pin;
use std::sync::mpsc::{Receiver, Sender, channel};

use futures::{FutureExt as _, poll};
use serde_json::{Value, json};

use super::*;

/// Nothing in a test takes this long unless it is stuck.
const STUCK: Duration = Duration::from_secs(30);

/// What stands for the file: it writes when it is told to.
struct Disk {
    began: Receiver<()>,
    outcome: Sender<io::Result<()>>,
    written: Receiver<Vec<Value>>,
}

impl Disk {
    fn with_places(places: usize) -> (AuditQueue, Disk) {
        let (begin, began) = channel();
        let (outcome, told) = channel();
        let (write, written) = channel();
        let queue = AuditQueue::start_with(places, move |lines| {
            begin.send(()).unwrap();
            told.recv().unwrap()?;
            let lines = std::str::from_utf8(lines).unwrap().lines();
            write.send(lines.map(|line| serde_json::from_str(line).unwrap()).collect()).unwrap();
            Ok(())
        });
        (queue.unwrap().0, Disk { began, outcome, written })
    }

    fn writes(&self) -> Vec<Value> {
        self.outcome.send(Ok(())).unwrap();
        self.written.recv_timeout(STUCK).expect("something is written")
    }
}

async fn begin(queue: &AuditQueue, path: &str) -> Recording {
    queue.begin(&Request::builder().uri(path).body(()).unwrap(), None).await
}

fn uris(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["requestURI"].as_str().unwrap()).collect()
}

fn lost(line: &Value) -> &Value {
    &line["annotations"]["audit.portolan.dev/lost-events"]
}

#[tokio::test]
async fn a_request_is_answered_once_its_line_is_written() {
    let (queue, disk) = Disk::with_places(4);
    let mut answered = pin!(begin(&queue, "/a").await.answered(StatusCode::CREATED));
    assert!(poll!(&mut answered).is_pending());
    let lines = disk.writes();
    answered.await;
    assert_eq!(uris(&lines), ["/a"]);
    assert_eq!(lines[0]["responseStatus"]["code"], 201);
    assert_eq!(queue.metrics().events.get(), 1);
}

#[tokio::test]
async fn a_request_that_is_not_answered_leaves_its_line_too() {
    let (queue, disk) = Disk::with_places(4);
    drop(begin(&queue, "/hung-up").await);
    let [line] = disk.writes().try_into().unwrap();
    let message = "not answered: the client went away; a change that was asked for may have been made";
    assert_eq!(line["responseStatus"], json!({"metadata": {}, "status": "Failure", "message": message}));

    queue.shut_down();
    drop(begin(&queue, "/cut").await);
    let [line] = disk.writes().try_into().unwrap();
    let message = line["responseStatus"]["message"].as_str().unwrap();
    assert!(message.starts_with("not answered: the server was shut down"), "{message}");
}

#[tokio::test]
async fn a_client_that_goes_away_while_its_line_is_written_leaves_one_line() {
    let (queue, disk) = Disk::with_places(4);
    let mut answered = Box::pin(begin(&queue, "/a").await.answered(StatusCode::OK));
    assert!(poll!(&mut answered).is_pending());
    drop(answered);
    assert_eq!(uris(&disk.writes()), ["/a"]);
    let flushed = queue.flush();
    flushed.await;
    assert!(disk.began.try_iter().count() == 1, "nothing else is written");
}

#[tokio::test]
async fn a_request_waits_for_a_place_in_the_queue() {
    let (queue, disk) = Disk::with_places(1);
    let first = begin(&queue, "/first").await;
    let mut second = pin!(begin(&queue, "/second"));
    assert!(poll!(&mut second).is_pending());
    let mut answered = pin!(first.answered(StatusCode::OK));
    assert!(poll!(&mut answered).is_pending());
    let second = second.await;
    assert_eq!(uris(&disk.writes()), ["/first"]);
    answered.await;
    drop(second);
    assert_eq!(uris(&disk.writes()), ["/second"]);
    assert_eq!(queue.metrics().errors.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_hangs_does_not_stop_the_server_and_what_is_lost_is_told() {
    let (queue, disk) = Disk::with_places(2);
    let mut first = pin!(begin(&queue, "/first").await.answered(StatusCode::OK));
    assert!(poll!(&mut first).is_pending());
    disk.began.recv_timeout(STUCK).unwrap();
    // For as long as it takes to believe it.
    first.await;

    for path in ["/second", "/third", "/lost"] {
        let recording = begin(&queue, path).now_or_never().expect("no request waits any more");
        recording.answered(StatusCode::OK).now_or_never().expect("no request waits any more");
    }
    drop(begin(&queue, "/lost-too").await);
    assert_eq!(queue.metrics().errors.get(), 2);

    assert_eq!(uris(&disk.writes()), ["/first"]);
    let lines = disk.writes();
    assert_eq!(uris(&lines), ["", "/second", "/third"]);
    assert_eq!(lost(&lines[0]), "2");
    // A clock that stands still jumps as soon as nothing but a thread is waited for.
    tokio::time::resume();
    queue.flush().await;
    assert_eq!((queue.metrics().events.get(), queue.metrics().errors.get()), (3, 2));

    // Now they wait again.
    let mut answered = pin!(begin(&queue, "/again").await.answered(StatusCode::OK));
    assert!(poll!(&mut answered).is_pending());
    assert_eq!(uris(&disk.writes()), ["/again"]);
    answered.await;
}

#[tokio::test]
async fn lines_that_a_full_disk_did_not_take_are_counted_and_told() {
    let (queue, disk) = Disk::with_places(4);
    for _ in 0..2 {
        disk.outcome.send(Err(io::ErrorKind::StorageFull.into())).unwrap();
        begin(&queue, "/lost").await.answered(StatusCode::OK).await;
    }
    assert_eq!(queue.metrics().errors.get(), 2);
    disk.outcome.send(Ok(())).unwrap();
    begin(&queue, "/kept").await.answered(StatusCode::OK).await;
    let lines = disk.written.recv_timeout(STUCK).unwrap();
    assert_eq!((uris(&lines), lost(&lines[0])), (vec!["", "/kept"], &json!("2")));
    assert_eq!((queue.metrics().events.get(), queue.metrics().errors.get()), (1, 2));
}

#[tokio::test]
async fn the_end_of_the_server_waits_for_the_lines_of_all_requests() {
    let (queue, disk) = Disk::with_places(4);
    let recording = begin(&queue, "/under-way").await;
    let mut flushed = pin!(queue.flush());
    assert!(poll!(&mut flushed).is_pending());
    drop(recording);
    assert!(poll!(&mut flushed).is_pending());
    assert_eq!(uris(&disk.writes()), ["/under-way"]);
    flushed.await;
}

#[tokio::test]
async fn a_thread_that_panics_is_known_to_have_ended() {
    let (queue, ended) = AuditQueue::start_with(4, |_| panic!("as a bug would")).unwrap();
    let mut ended = pin!(ended);
    assert!(poll!(&mut ended).is_pending());
    begin(&queue, "/a").await.answered(StatusCode::OK).await;
    timeout(STUCK, ended).await.expect("the end of the thread is told");
    queue.flush().await;
}
