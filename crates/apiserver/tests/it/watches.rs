//! Watches: every change once and in order, to those whom it concerns.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use apiserver::registry::{Resource, Scope};
use apiserver::selection::SelectableField;
use apiserver::watch::HubLimits;
use http::Method;
use serde_json::{Value, json};

use crate::support::{CONFIG_MAPS, Client, TestServer, config_map, resources, revision};

/// A resource that can be selected by `spec.node`.
fn things() -> Resource {
    Resource::new("example.com", "v1", "things", "Thing", Scope::Namespaced)
        .selectable([SelectableField::at("spec.node")])
}

const THINGS: &str = "/apis/example.com/v1/namespaces/default/things";

fn thing(name: &str, node: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"node": node}})
}

async fn with_things() -> TestServer {
    let mut all = resources();
    all.push(things());
    TestServer::start_with(all, HubLimits::default()).await
}

#[tokio::test]
async fn a_watch_gets_changes_as_they_happen() {
    let server = TestServer::start().await;
    let client = &server.client;
    let since = revision(&client.get(CONFIG_MAPS).await.ok());
    let mut events = client.watch(&format!("{CONFIG_MAPS}?watch=true&resourceVersion={since}")).await;

    let mut object = client.create(CONFIG_MAPS, &config_map("a")).await.created();
    assert_eq!(events.next().await.unwrap(), json!({"type": "ADDED", "object": object}));
    object["data"]["k"] = "w".into();
    let object = client.update(&format!("{CONFIG_MAPS}/a"), &object).await.ok();
    assert_eq!(events.next().await.unwrap(), json!({"type": "MODIFIED", "object": object}));
    client.delete(&format!("{CONFIG_MAPS}/a")).await.ok();
    let deleted = events.next().await.unwrap();
    assert_eq!((&deleted["type"], &deleted["object"]["data"]), (&json!("DELETED"), &object["data"]));
    assert!(revision(&deleted["object"]) > revision(&object), "a deletion has a revision of its own");
}

#[tokio::test]
async fn a_watch_without_a_revision_begins_with_the_stored_objects() {
    let server = TestServer::start().await;
    let client = &server.client;
    client.create(CONFIG_MAPS, &config_map("a")).await.created();
    for start in ["", "&resourceVersion=0"] {
        let mut events = client.watch(&format!("{CONFIG_MAPS}?watch=true{start}")).await;
        let (kind, name, _) = events.expect().await;
        assert_eq!((kind.as_str(), name.as_str()), ("ADDED", "a"));
    }
    let name = format!("b{}", 1);
    let mut events = client.watch(&format!("{CONFIG_MAPS}?watch=true")).await;
    client.create(CONFIG_MAPS, &config_map(&name)).await.created();
    events.expect().await;
    assert_eq!(events.expect().await.1, name);
}

#[tokio::test]
async fn a_bookmark_marks_the_end_of_the_initial_events() {
    let server = TestServer::start().await;
    let client = &server.client;
    let made = client.create(CONFIG_MAPS, &config_map("a")).await.created();
    let query =
        "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut events = client.watch(&format!("{CONFIG_MAPS}?{query}")).await;
    assert_eq!(events.expect().await.1, "a");
    let bookmark = events.next().await.unwrap();
    assert_eq!(bookmark["type"], "BOOKMARK");
    assert_eq!(bookmark["object"]["kind"], "ConfigMap");
    assert_eq!(bookmark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    assert!(revision(&bookmark["object"]) >= revision(&made));
    client.create(CONFIG_MAPS, &config_map("b")).await.created();
    assert_eq!(events.expect().await.1, "b");
}

#[tokio::test]
async fn a_watch_ends_after_its_timeout_with_a_bookmark() {
    let server = TestServer::start().await;
    let client = &server.client;
    let made = client.create(CONFIG_MAPS, &config_map("a")).await.created();
    let since = revision(&made);
    let query = format!("watch=true&resourceVersion={since}&timeoutSeconds=3&allowWatchBookmarks=true");
    let mut events = client.watch(&format!("{CONFIG_MAPS}?{query}")).await;
    client.create("/api/v1/namespaces/default/secrets", &json!({"metadata": {"name": "s"}})).await.created();
    let (kind, _, at) = events.expect().await;
    assert_eq!(kind, "BOOKMARK");
    assert!(at > since, "a bookmark passes what the watcher does not see");
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn a_selector_makes_changes_of_labels_come_and_go() {
    let server = TestServer::start().await;
    let client = &server.client;
    let since = revision(&client.get(CONFIG_MAPS).await.ok());
    let query = format!("watch=true&resourceVersion={since}&labelSelector=tier%3Dfront");
    let mut events = client.watch(&format!("{CONFIG_MAPS}?{query}")).await;
    let path = format!("{CONFIG_MAPS}/a");
    let mut object = client.create(CONFIG_MAPS, &config_map("a")).await.created();
    for (tier, expected) in [("front", "ADDED"), ("back", "DELETED"), ("front", "ADDED")] {
        object["metadata"]["labels"] = json!({"tier": tier});
        object = client.update(&path, &object).await.ok();
        let event = events.next().await.unwrap();
        assert_eq!(event["type"], expected);
        assert_eq!(
            event["object"]["metadata"]["labels"]["tier"], "front",
            "what is gone is shown as it matched"
        );
        assert_eq!(revision(&event["object"]), revision(&object));
    }
}

#[tokio::test]
async fn a_watcher_of_one_node_costs_nothing_for_others() {
    let server = with_things().await;
    let client = &server.client;
    let since = revision(&client.get(THINGS).await.ok());
    let watch = async |node: usize| {
        let query = format!("watch=true&resourceVersion={since}&fieldSelector=spec.node%3Dn{node}");
        client.watch(&format!("{THINGS}?{query}")).await
    };
    let mut watches = Vec::new();
    for node in 0..50 {
        watches.push(watch(node).await);
    }
    let stats = server.api.hub().stats();
    let before = stats.considered.load(Ordering::Relaxed);
    for index in 0..20 {
        client.create(THINGS, &thing(&format!("a{index}"), "n7")).await.created();
    }
    for index in 0..20 {
        assert_eq!(watches[7].expect().await.1, format!("a{index}"));
    }
    let considered = stats.considered.load(Ordering::Relaxed) - before;
    assert_eq!(considered, 20, "each of 20 events was offered to one of 50 watchers");

    // A move from one node to another concerns both, and nobody else.
    let before = stats.considered.load(Ordering::Relaxed);
    let mut moved = client.get(&format!("{THINGS}/a0")).await.ok();
    moved["spec"]["node"] = "n8".into();
    client.update(&format!("{THINGS}/a0"), &moved).await.ok();
    assert_eq!(watches[7].expect().await.0, "DELETED");
    assert_eq!(watches[8].expect().await.0, "ADDED");
    assert_eq!(stats.considered.load(Ordering::Relaxed) - before, 2);
}

#[tokio::test]
async fn a_slow_watcher_is_dropped_and_can_resume() {
    let limits = HubLimits { events: 8, bytes: 1 << 20 };
    let server = TestServer::start_with(resources(), limits).await;
    let client = &server.client;
    let since = revision(&client.get(CONFIG_MAPS).await.ok());
    let mut slow = client.watch(&format!("{CONFIG_MAPS}?watch=true&resourceVersion={since}")).await;

    // Larger than what the sockets between client and server hold.
    let stats = server.api.hub().stats();
    let mut made = 0;
    while stats.dropped.load(Ordering::Relaxed) == 0 {
        let mut object = config_map(&format!("a{made:04}"));
        object["data"]["k"] = "x".repeat(256 << 10).into();
        client.create(CONFIG_MAPS, &object).await.created();
        made += 1;
        assert!(made < 400, "a watcher that reads nothing is not kept for ever");
    }

    let mut seen = 0;
    let mut last = since;
    while let Some(event) = slow.next().await {
        assert_eq!(event["object"]["metadata"]["name"], format!("a{seen:04}"));
        last = revision(&event["object"]);
        seen += 1;
    }
    assert!(seen < made);
    let mut resumed = client.watch(&format!("{CONFIG_MAPS}?watch=true&resourceVersion={last}")).await;
    while seen < made {
        assert_eq!(resumed.expect().await.1, format!("a{seen:04}"), "nothing is lost by resuming");
        seen += 1;
    }
}

#[tokio::test]
async fn a_watch_from_a_compacted_revision_gets_an_error_event() {
    let server = TestServer::start().await;
    let client = &server.client;
    let since = revision(&client.get(CONFIG_MAPS).await.ok());
    for index in 0..3 {
        client.create(CONFIG_MAPS, &config_map(&format!("a{index}"))).await.created();
    }
    let server = server.restart().await;
    let client = &server.client;
    server.api.storage().compact(server.api.storage().revision()).await.unwrap();
    let mut events = client.watch(&format!("{CONFIG_MAPS}?watch=true&resourceVersion={since}")).await;
    let event = events.next().await.unwrap();
    assert_eq!(event["type"], "ERROR");
    assert_eq!((&event["object"]["code"], &event["object"]["reason"]), (&json!(410), &json!("Expired")));
    assert_eq!(events.next().await, None);

    let reply =
        client.get(&format!("{CONFIG_MAPS}?resourceVersion={since}&resourceVersionMatch=Exact")).await;
    assert_eq!(reply.refused().0, 410);
}

#[tokio::test]
async fn a_revision_to_come_is_waited_for() {
    let server = TestServer::start().await;
    let client = server.client.clone();
    let next = revision(&client.get(CONFIG_MAPS).await.ok()) + 1;
    let path = format!("{CONFIG_MAPS}?resourceVersion={next}&resourceVersionMatch=NotOlderThan");
    let object = config_map("a");
    let (listed, _) = tokio::join!(client.get(&path), client.create(CONFIG_MAPS, &object));
    assert!(revision(&listed.ok()) >= next);
    let far = format!("{CONFIG_MAPS}?resourceVersion={}&resourceVersionMatch=NotOlderThan", next + 1000);
    let (code, reason, _) = client.get(&far).await.refused();
    assert_eq!((code, reason.as_str()), (504, "Timeout"));
}

#[tokio::test]
async fn tables_are_watched_with_headers_once() {
    let server = TestServer::start().await;
    let client = &server.client;
    client.create(CONFIG_MAPS, &config_map("a")).await.created();
    client.create(CONFIG_MAPS, &config_map("b")).await.created();
    let accept = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json")];
    let response = client.send(Method::GET, &format!("{CONFIG_MAPS}?watch=true"), &accept, Vec::new()).await;
    let mut events = crate::support::Events::of(response);
    let (first, second) = (events.next().await.unwrap(), events.next().await.unwrap());
    assert_eq!(first["object"]["kind"], "Table");
    assert!(first["object"]["columnDefinitions"].is_array());
    assert!(second["object"]["columnDefinitions"].is_null());
    assert_eq!(second["object"]["rows"][0]["cells"][0], "b");
}

/// Follows a watch over restarts, as an informer does, and keeps what it has seen.
struct Follower {
    seen: Vec<(String, String, u64)>,
    last: u64,
}

impl Follower {
    async fn follow(&mut self, client: &Client, until: impl Fn(&Follower) -> bool) {
        let path = format!("{CONFIG_MAPS}?watch=true&resourceVersion={}", self.last);
        let mut events = client.watch(&path).await;
        while !until(self) {
            let Some(event) = events.next().await else { return };
            let object = &event["object"];
            self.last = revision(object);
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            self.seen.push((text(&event["type"]), text(&object["metadata"]["name"]), self.last));
        }
    }
}

const CLIENTS: usize = 8;
const KEYS: usize = 50;
const ROUNDS: usize = 3;
const WRITES: usize = 40;

/// What a writer was told: the revision of each change that it made.
type Written = Vec<(u64, &'static str, String)>;

async fn write_at_random(client: Client, seed: u64) -> Written {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut written = Vec::new();
    while written.len() < WRITES {
        let name = format!("k{:02}", random.usize(..KEYS));
        let path = format!("{CONFIG_MAPS}/{name}");
        match random.u8(..4) {
            0 => {
                let reply = client.create(CONFIG_MAPS, &config_map(&name)).await;
                match reply.code.as_u16() {
                    201 => written.push((revision(&reply.json()), "ADDED", name)),
                    code => assert_eq!(code, 409),
                }
            }
            1 => {
                // The revision of a deletion is not told; it is known from the watch.
                let reply = client.delete(&path).await;
                assert!(matches!(reply.code.as_u16(), 200 | 404), "{reply:?}");
            }
            _ => {
                let reply = client.get(&path).await;
                if reply.code == 404 {
                    continue;
                }
                let mut object = reply.ok();
                object["data"]["k"] = random.u32(..).to_string().into();
                let reply = client.update(&path, &object).await;
                match reply.code.as_u16() {
                    200 => written.push((revision(&reply.json()), "MODIFIED", name)),
                    code => assert!(matches!(code, 404 | 409), "{reply:?}"),
                }
            }
        }
    }
    written
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watcher_sees_every_change_once_and_in_order_across_restarts() {
    let mut server = TestServer::start().await;
    let listed = server.client.get(CONFIG_MAPS).await.ok();
    let mut follower = Follower { seen: Vec::new(), last: revision(&listed) };
    let start = follower.last;
    let mut written: BTreeMap<u64, (&'static str, String)> = BTreeMap::new();

    for round in 0..ROUNDS {
        let client = server.client.clone();
        let watching = tokio::spawn(async move {
            let mut follower = follower;
            follower.follow(&client, |_| false).await;
            follower
        });
        let writers: Vec<_> = (0..CLIENTS)
            .map(|index| {
                tokio::spawn(write_at_random(server.client.clone(), (round * CLIENTS + index) as u64))
            })
            .collect();
        for writer in writers {
            for (revision, kind, name) in writer.await.unwrap() {
                assert_eq!(written.insert(revision, (kind, name)), None, "a revision is one change");
            }
        }
        // The restart ends the watch, maybe before all was read: the rest comes with the next.
        server = server.restart().await;
        follower = watching.await.unwrap();
    }
    let end = server.api.storage().revision().0;
    follower.follow(&server.client, |follower| follower.last == end).await;

    let mut expected = start;
    let mut objects: BTreeMap<String, u64> = BTreeMap::new();
    for (kind, name, at) in &follower.seen {
        assert!(*at > expected, "every revision once and in order");
        expected = *at;
        match (kind.as_str(), objects.contains_key(name)) {
            ("ADDED", false) | ("MODIFIED", true) => drop(objects.insert(name.clone(), *at)),
            ("DELETED", true) => drop(objects.remove(name)),
            other => panic!("{name} at {at}: {other:?}"),
        }
        match written.remove(at) {
            Some((acknowledged, of)) => assert_eq!((acknowledged, &of), (kind.as_str(), name)),
            None => assert_eq!(kind, "DELETED"),
        }
    }
    assert_eq!(expected, end);
    assert!(written.is_empty(), "every acknowledged write was seen: {written:?}");
    let listed = server.client.get(CONFIG_MAPS).await.ok();
    let there: BTreeMap<String, u64> = listed["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| (item["metadata"]["name"].as_str().unwrap().to_owned(), revision(item)))
        .collect();
    assert_eq!(there, objects, "what was seen is what is there");
}
