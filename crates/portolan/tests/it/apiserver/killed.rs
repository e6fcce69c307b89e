//! The server is killed a hundred times while eight clients write. Whatever it acknowledged is there, nothing is torn, and
//! a watcher that comes back where it was sees each change once and in order.

use std::collections::BTreeMap;

use futures::{AsyncBufReadExt as _, StreamExt as _};
use http::Method;
use portolan_testbed::Test;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::apiserver::server::{Server, request};

const KILLS: u64 = 100;
const WRITERS: u64 = 8;
const KEYS: usize = 50;
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A change of one object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Change {
    kind: &'static str,
    name: String,
    /// What makes the content; deletions have none.
    seed: Option<u64>,
}

#[test]
fn what_was_acknowledged_is_there_after_a_hundred_kills() {
    Test::new().deadline(std::time::Duration::from_secs(300)).run(async |lab| {
        let server = Server::start(&lab);
        let client = server.client().await;
        let mut witness = Witness::of(&client).await;
        let mut random = fastrand::Rng::with_seed(7);
        let mut acknowledged = 0;
        for kill in 0..KILLS {
            let enough = random.usize(1..60);
            let (sender, mut answers) = mpsc::unbounded_channel();
            let mut writers = JoinSet::new();
            for writer in 0..WRITERS {
                writers.spawn(write(client.clone(), kill * WRITERS + writer, sender.clone()));
            }
            drop(sender);
            let mut answered = Vec::new();
            while let Some(change) = answers.recv().await {
                answered.push(change);
                if answered.len() == enough {
                    server.process.kill().unwrap();
                }
            }
            // What was under way when the server died may have been done or not.
            let under_way: Vec<Change> = writers.join_all().await.into_iter().flatten().collect();
            assert!(answered.len() >= enough, "the writers ended by themselves");
            acknowledged += answered.len();
            server.process.restart().unwrap();
            witness.follow(&client).await;
            witness.judge(answered, under_way, kill);
        }
        println!("{acknowledged} changes were acknowledged");
    });
}

/// Writes at random until the server is gone, and returns what it did not answer.
async fn write(client: kube::Client, seed: u64, answers: mpsc::UnboundedSender<Change>) -> Option<Change> {
    let mut random = fastrand::Rng::with_seed(seed);
    loop {
        let name = format!("k{:02}", random.usize(..KEYS));
        let path = format!("{CONFIG_MAPS}/{name}");
        let seed = random.u64(..);
        let (sent, change) = match random.u8(..4) {
            0 => {
                let object = object(&name, seed);
                (
                    request(Method::POST, CONFIG_MAPS, Some(&object)),
                    Change { kind: "ADDED", name, seed: Some(seed) },
                )
            }
            1 => (request(Method::DELETE, &path, None), Change { kind: "DELETED", name, seed: None }),
            _ => {
                let there = match client.request::<Value>(request(Method::GET, &path, None)).await {
                    Ok(there) => there,
                    Err(kube::Error::Api(_)) => continue,
                    Err(_) => return None,
                };
                let mut object = object(&name, seed);
                object["metadata"]["resourceVersion"] = there["metadata"]["resourceVersion"].clone();
                (
                    request(Method::PUT, &path, Some(&object)),
                    Change { kind: "MODIFIED", name, seed: Some(seed) },
                )
            }
        };
        match client.request_text(sent).await {
            Ok(_) => answers.send(change).unwrap(),
            Err(kube::Error::Api(status)) => assert!(matches!(status.code, 404 | 409), "{status:?}"),
            Err(_) => return Some(change),
        }
    }
}

fn object(name: &str, seed: u64) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
        "data": {"seed": seed.to_string(), "text": text(seed)}})
}

/// Some kibibytes, so that a torn write would show.
fn text(seed: u64) -> String {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..random.usize(1..8192)).map(|_| random.alphanumeric()).collect()
}

/// Who watches over all the server's lives, and so knows what is there.
struct Witness {
    objects: BTreeMap<String, (u64, u64)>,
    last: u64,
    seen: Vec<Change>,
}

impl Witness {
    async fn of(client: &kube::Client) -> Self {
        let list = list(client).await;
        assert_eq!(list["items"], json!([]));
        Self { objects: BTreeMap::new(), last: revision(&list), seen: Vec::new() }
    }

    /// Watches from where it was to what is there now.
    async fn follow(&mut self, client: &kube::Client) {
        let list = list(client).await;
        let items = list["items"].as_array().unwrap();
        let mut there: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for item in items {
            there.insert(name(item), (revision(item), intact(item)));
        }
        let path = format!(
            "{CONFIG_MAPS}?watch=true&allowWatchBookmarks=true&timeoutSeconds=60&resourceVersion={}",
            self.last
        );
        let stream = client.request_stream(request(Method::GET, &path, None)).await.unwrap();
        let mut lines = Box::pin(stream).lines();
        while self.objects != there {
            let line = lines.next().await.expect("the watch goes on").unwrap();
            let event: Value = serde_json::from_str(&line).unwrap();
            self.see(&event);
        }
    }

    fn see(&mut self, event: &Value) {
        let object = &event["object"];
        let at = revision(object);
        if event["type"] == "BOOKMARK" {
            assert!(at >= self.last);
            self.last = at;
            return;
        }
        assert!(at > self.last, "once and in order: {} after {}", at, self.last);
        self.last = at;
        let (name, seed) = (name(object), intact(object));
        let change = match (event["type"].as_str().unwrap(), self.objects.contains_key(&name)) {
            ("ADDED", false) => Change { kind: "ADDED", name: name.clone(), seed: Some(seed) },
            ("MODIFIED", true) => Change { kind: "MODIFIED", name: name.clone(), seed: Some(seed) },
            ("DELETED", true) => Change { kind: "DELETED", name: name.clone(), seed: None },
            other => panic!("{name} at {at}: {other:?}"),
        };
        match change.seed {
            Some(seed) => drop(self.objects.insert(name, (at, seed))),
            None => drop(self.objects.remove(&name)),
        }
        self.seen.push(change);
    }

    /// Every acknowledged change was seen, and nothing besides but what was under way.
    fn judge(&mut self, acknowledged: Vec<Change>, mut under_way: Vec<Change>, kill: u64) {
        let mut seen = std::mem::take(&mut self.seen);
        for change in acknowledged {
            let at = seen.iter().position(|seen| *seen == change);
            seen.swap_remove(
                at.unwrap_or_else(|| panic!("kill {kill}: lost, though acknowledged: {change:?}")),
            );
        }
        for change in seen {
            let at = under_way.iter().position(|under_way| *under_way == change);
            under_way.swap_remove(at.unwrap_or_else(|| panic!("kill {kill}: nobody made {change:?}")));
        }
    }
}

async fn list(client: &kube::Client) -> Value {
    client.request(request(Method::GET, CONFIG_MAPS, None)).await.unwrap()
}

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

/// What made the object, if it is whole.
fn intact(object: &Value) -> u64 {
    let seed = object["data"]["seed"].as_str().unwrap().parse().unwrap();
    assert_eq!(object["data"]["text"], text(seed), "torn: {object}");
    seed
}
