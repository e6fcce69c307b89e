#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use portolan_api::condition::{READY, VALIDATED};
use portolan_api::finalizer::IN_USE;
use portolan_api::kubeovn;
use portolan_watch::Followers;
use portolan_watch::fake::{Answer, FakeApi};
use tokio::sync::{Notify, Semaphore};

use super::Actor;
use super::finalizers::FinalizerWriter;
use super::node_annotations::{NodeAnnotations, NodeWriter};
use super::status::StatusWriter;
use super::writer::{Urgent, Write, Writer};
use crate::control::Message;
use crate::engine::{
    Action, Candidates, DesiredCondition, Engine, FinalizerChange, FinalizerUpdate, Kind, Protected, Retry,
    Statement, StatusFields, StatusUpdate,
};
use crate::metrics::Metrics;

/// Writes numbers, when it is let.
struct Slow {
    permits: Arc<Semaphore>,
    written: Arc<Mutex<Vec<(u32, u32)>>>,
    done: Arc<Notify>,
}

impl Write for Slow {
    type Key = u32;
    type Value = u32;
    const ATTEMPTS: Option<u32> = None;

    fn merge(_: u32, newer: u32) -> u32 {
        newer
    }

    async fn write(&self, key: u32, value: u32) -> Result<(), String> {
        self.permits.acquire().await.unwrap().forget();
        self.written.lock().unwrap().push((key, value));
        self.done.notify_one();
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn of_many_values_for_one_object_only_the_newest_is_written_and_a_few_objects_at_a_time() {
    let (permits, written, done) = (Arc::new(Semaphore::new(0)), Arc::default(), Arc::new(Notify::new()));
    let slow = Slow { permits: Arc::clone(&permits), written: Arc::clone(&written), done: Arc::clone(&done) };
    let writer = Writer::new(slow, &Urgent::default());
    let followers = Followers::new(FakeApi::default().client());
    let task = tokio::spawn(writer.clone().run(followers.recoveries()));
    writer.want(1, 1);
    tokio::time::sleep(Duration::from_millis(1)).await;
    // The first is under way; these wait for it, and for each other.
    for value in 2..100 {
        writer.want(1, value);
    }
    permits.add_permits(2);
    while written.lock().unwrap().len() < 2 {
        done.notified().await;
    }
    assert_eq!(*written.lock().unwrap(), [(1, 1), (1, 99)]);
    // Of a thousand objects eight are written at a time.
    for key in 0..1000 {
        writer.want(key, 0);
    }
    permits.add_permits(8);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(written.lock().unwrap().len(), 10);
    task.abort();
}

/// How many are under way, at each beginning.
struct Counting {
    under_way: AtomicUsize,
    most: Arc<Mutex<Vec<usize>>>,
}

impl Write for Counting {
    type Key = u32;
    type Value = ();
    const ATTEMPTS: Option<u32> = None;

    fn merge((): (), (): ()) {}

    async fn write(&self, _: u32, (): ()) -> Result<(), String> {
        let now = self.under_way.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.lock().unwrap().push(now);
        tokio::time::sleep(Duration::from_millis(10)).await;
        self.under_way.fetch_sub(1, Ordering::Relaxed);
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn writes_that_are_not_urgent_give_way_and_go_on() {
    let (urgent, most) = (Urgent::default(), Arc::<Mutex<Vec<usize>>>::default());
    let writer = Writer::new(Counting { under_way: AtomicUsize::new(0), most: Arc::clone(&most) }, &urgent);
    let followers = Followers::new(FakeApi::default().client());
    let task = tokio::spawn(writer.clone().run(followers.recoveries()));
    for (under_way, expected) in [(64, 1), (0, 8), (64, 1)] {
        urgent.set(under_way);
        for key in 0..100 {
            writer.want(key, ());
        }
        tokio::time::sleep(Duration::from_millis(130)).await;
        let soon = most.lock().unwrap().len();
        assert_eq!(soon, if under_way == 0 { 100 } else { 7 }, "with {under_way} actions under way");
        // Until the last of them is written.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let begun = std::mem::take(&mut *most.lock().unwrap());
        assert_eq!(begun.len(), 100, "with {under_way} actions under way");
        assert_eq!(begun.into_iter().max(), Some(expected), "with {under_way} actions under way");
    }
    task.abort();
}

/// Fails each time that it is let.
struct Failing {
    permits: Arc<Semaphore>,
    attempts: Arc<Mutex<Vec<u32>>>,
}

impl Write for Failing {
    type Key = u32;
    type Value = u32;
    const ATTEMPTS: Option<u32> = None;

    fn merge(_: u32, newer: u32) -> u32 {
        newer
    }

    async fn write(&self, _: u32, value: u32) -> Result<(), String> {
        self.permits.acquire().await.unwrap().forget();
        self.attempts.lock().unwrap().push(value);
        Err("no".into())
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_wanted_before_a_pause_is_not_written_after_it() {
    let (permits, attempts) = (Arc::new(Semaphore::new(0)), Arc::default());
    let writer = Writer::new(
        Failing { permits: Arc::clone(&permits), attempts: Arc::clone(&attempts) },
        &Urgent::default(),
    );
    let followers = Followers::new(FakeApi::default().client());
    let task = tokio::spawn(writer.clone().run(followers.recoveries()));
    // One is under way, the other waits, when this controller steps down.
    writer.want(1, 1);
    tokio::time::sleep(Duration::from_millis(1)).await;
    writer.want(1, 2);
    writer.pause();
    writer.want(2, 3);
    permits.add_permits(100);
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(*attempts.lock().unwrap(), [1], "what was under way came to its end");
    assert_eq!(writer.waiting(), 0);
    writer.resume();
    writer.want(1, 4);
    tokio::time::sleep(Duration::from_secs(120)).await;
    let attempts = attempts.lock().unwrap().clone();
    assert!(attempts.len() > 2 && attempts[1..].iter().all(|value| *value == 4), "{attempts:?}");
    task.abort();
}

#[tokio::test]
async fn a_condition_is_written_only_to_the_generation_it_was_decided_for() {
    let api = FakeApi::default();
    api.define::<kubeovn::Subnet>();
    let mut subnet = kubeovn::Subnet::new("web", kubeovn::SubnetSpec::default());
    subnet.metadata.uid = Some("uid".into());
    subnet.metadata.generation = Some(2);
    api.put(&subnet);
    let writer = StatusWriter(api.client());
    let update = |uid: &str, generation| StatusUpdate {
        kind: Kind::KubeOvnSubnet,
        name: "web".into(),
        uid: uid.into(),
        conditions: vec![DesiredCondition {
            type_: VALIDATED,
            generation: Some(generation),
            says: Some(Statement { status: true.into(), reason: "Valid", message: String::new() }),
        }],
        fields: StatusFields::default(),
    };
    let key = (Kind::KubeOvnSubnet, "web".to_owned());
    for (uid, generation, writes) in [("uid", 1, 0), ("other", 2, 0), ("uid", 2, 1), ("uid", 2, 1)] {
        writer.write(key.clone(), update(uid, generation)).await.unwrap();
        assert_eq!(api.requests("PATCH").len(), writes, "{uid} {generation}");
    }
    // Both groups keep what others wrote, and a condition that is no longer wanted is removed.
    let mut removed = update("uid", 2);
    removed.conditions[0].says = None;
    writer.write(key, removed).await.unwrap();
    let stored = api.stored::<kubeovn::Subnet>("", "web").unwrap();
    assert_eq!(stored["status"]["conditions"], serde_json::json!([]));
}

#[tokio::test]
async fn a_status_that_is_not_there_yet_gets_all_its_fields_zeros_too_and_once() {
    let api = FakeApi::default();
    api.define::<kubeovn::IPPool>();
    api.define::<kubeovn::Vip>();
    let mut pool = kubeovn::IPPool::new("gold", kubeovn::IpPoolSpec::default());
    pool.metadata.uid = Some("uid".into());
    api.put(&pool);
    let mut vip = kubeovn::Vip::new("front", kubeovn::VipSpec::default());
    vip.metadata.uid = Some("uid".into());
    api.put(&vip);
    let writer = StatusWriter(api.client());
    let update = |kind, name: &str, fields| StatusUpdate {
        kind,
        name: name.into(),
        uid: "uid".into(),
        conditions: Vec::new(),
        fields,
    };
    let updates = [
        update(Kind::IPPool, "gold", StatusFields::from(&kubeovn::IpPoolStatus::default())),
        update(Kind::Vip, "front", StatusFields::from(&kubeovn::VipStatus::default())),
    ];
    for _ in 0..2 {
        for update in &updates {
            writer.write((update.kind, update.name.clone()), update.clone()).await.unwrap();
        }
    }
    assert_eq!(api.requests("PATCH").len(), 2, "what is there is not written again");
    let pool = api.stored::<kubeovn::IPPool>("", "gold").unwrap();
    assert_eq!(
        (&pool["status"]["v4UsingIPs"], &pool["status"]["v6AvailableIPRange"]),
        (&0.into(), &"".into()),
        "{pool}"
    );
    let vip = api.stored::<kubeovn::Vip>("", "front").unwrap();
    assert_eq!((&vip["status"]["ready"], &vip["status"]["v4ip"]), (&false.into(), &"".into()), "{vip}");
}

#[test]
fn conditions_of_different_types_are_written_together() {
    let condition = |type_, holds| DesiredCondition {
        type_,
        generation: Some(1),
        says: Some(Statement { status: bool::into(holds), reason: "Because", message: String::new() }),
    };
    let update = |conditions| StatusUpdate {
        kind: Kind::Subnet,
        name: "web".into(),
        uid: "uid".into(),
        conditions,
        fields: StatusFields::default(),
    };
    let older = update(vec![condition(READY, false), condition(VALIDATED, false)]);
    let merged = StatusWriter::merge(older, update(vec![condition(VALIDATED, true)]));
    assert_eq!(merged.conditions, [condition(VALIDATED, true), condition(READY, false)]);
}

#[tokio::test]
async fn an_object_that_was_deleted_gets_no_condition_and_causes_no_error() {
    let api = FakeApi::default();
    api.define::<kubeovn::Subnet>();
    let writer = StatusWriter(api.client());
    let update = StatusUpdate {
        kind: Kind::KubeOvnSubnet,
        name: "gone".into(),
        uid: "uid".into(),
        conditions: Vec::new(),
        fields: StatusFields::default(),
    };
    writer.write((Kind::KubeOvnSubnet, "gone".into()), update).await.unwrap();
    assert_eq!(api.requests("PATCH"), [""; 0]);
    assert!(api.stored::<Pod>("", "gone").is_none());
}

#[tokio::test(start_paused = true)]
async fn an_action_that_the_api_server_never_answers_fails_and_is_tried_again() {
    let api = FakeApi::default();
    api.always("/subnets", Answer::Silence);
    let (sender, mut messages) = tokio::sync::mpsc::channel(1);
    let actor = Actor::new(
        api.client(),
        sender,
        Metrics::new(),
        portolan_model::FirstInterface::Other,
        portolan_plan::ServiceProxy::Other,
    );
    let begun = tokio::time::Instant::now();
    tokio::spawn(actor.perform(Action::ValidateSubnets(Candidates::default())));
    let mut engine = Engine::new(portolan_model::Settings::default(), portolan_plan::Settings::default());
    messages.recv().await.unwrap().tell(&mut engine);
    assert_eq!(begun.elapsed(), portolan_watch::ANSWER, "in virtual time");
    assert_eq!(engine.take_retries(), [Retry::Subnets].into());
}

#[tokio::test]
async fn an_object_that_cannot_be_read_gets_no_condition_and_causes_no_error() {
    let api = FakeApi::default();
    api.define::<kubeovn::Subnet>();
    let object = serde_json::json!({"metadata": {"name": "web", "uid": "uid"}, "spec": {"cidrBlock": 7}});
    api.put_raw::<kubeovn::Subnet>(&object);
    let writer = StatusWriter(api.client());
    let (kind, name) = (Kind::KubeOvnSubnet, "web".to_owned());
    let update = StatusUpdate {
        kind,
        name: name.clone(),
        uid: "uid".into(),
        conditions: Vec::new(),
        fields: StatusFields::default(),
    };
    writer.write((kind, name), update).await.unwrap();
    assert_eq!(api.requests("PATCH"), [""; 0]);
}

/// A writer of finalizers, and what it tells the engine.
fn finalizers(api: &FakeApi, metrics: &Metrics) -> (FinalizerWriter, tokio::sync::mpsc::Receiver<Message>) {
    let (sender, messages) = tokio::sync::mpsc::channel(8);
    (FinalizerWriter::new(api.client(), sender, metrics.clone()), messages)
}

fn finalizer(change: FinalizerChange) -> FinalizerUpdate {
    let object = Protected { kind: Kind::KubeOvnSubnet, name: "web".into(), uid: "uid".into() };
    FinalizerUpdate { object, change }
}

#[tokio::test]
async fn a_finalizer_is_written_beside_those_of_others_and_to_the_object_that_was_meant() {
    let api = FakeApi::default();
    api.define::<kubeovn::Subnet>();
    // What cannot be decoded can be let go all the same.
    let mut object = serde_json::json!({
        "metadata": {"name": "web", "uid": "uid", "finalizers": ["example.com/backup"]}, "spec": {"cidrBlock": 7},
    });
    api.put_raw::<kubeovn::Subnet>(&object);
    let (writer, _messages) = finalizers(&api, &Metrics::new());
    let key = (Kind::KubeOvnSubnet, "web".to_owned());
    let stored =
        |api: &FakeApi| api.stored::<kubeovn::Subnet>("", "web").unwrap()["metadata"]["finalizers"].clone();
    let (ours, both) =
        (serde_json::json!(["example.com/backup"]), serde_json::json!(["example.com/backup", IN_USE]));
    for _ in 0..2 {
        writer.write(key.clone(), finalizer(FinalizerChange::Add)).await.unwrap();
        assert_eq!(stored(&api), both);
    }
    assert_eq!(api.requests("PATCH").len(), 1);
    // It is removed only from what is being deleted, and added only to what is not.
    writer.write(key.clone(), finalizer(FinalizerChange::Remove)).await.unwrap();
    assert_eq!(stored(&api), both);
    object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    api.put_raw::<kubeovn::Subnet>(&object);
    writer.write(key.clone(), finalizer(FinalizerChange::Add)).await.unwrap();
    assert_eq!(stored(&api), ours);
    object["metadata"]["finalizers"] = both.clone();
    api.put_raw::<kubeovn::Subnet>(&object);
    let mut other = finalizer(FinalizerChange::Remove);
    other.object.uid = "another".into();
    writer.write(key.clone(), other).await.unwrap();
    assert_eq!(stored(&api), both);
    writer.write(key, finalizer(FinalizerChange::Remove)).await.unwrap();
    assert_eq!(stored(&api), ours);
}

#[tokio::test]
async fn an_answer_that_names_no_object_does_not_end_the_write_of_a_finalizer() {
    let api = FakeApi::default();
    api.define::<kubeovn::Subnet>();
    let (writer, _messages) = finalizers(&api, &Metrics::new());
    let key = (Kind::KubeOvnSubnet, "web".to_owned());
    writer.write(key.clone(), finalizer(FinalizerChange::Add)).await.unwrap();
    api.always("/subnets", Answer::NamelessNotFound);
    writer.write(key, finalizer(FinalizerChange::Add)).await.unwrap_err();
}

/// Lets an engine take in everything that comes until it says something.
async fn next_report(
    messages: &mut tokio::sync::mpsc::Receiver<Message>,
    engine: &mut Engine,
) -> (&'static str, String) {
    loop {
        messages.recv().await.unwrap().tell(engine);
        let said = engine.actions().into_iter().find_map(|action| match action {
            Action::Report { reason, message, .. } => Some((reason, message)),
            _ => None,
        });
        if let Some(said) = said {
            return said;
        }
    }
}

/// An engine that leads, and knows a Subnet without the finalizer.
fn engine_with_a_new_subnet() -> Engine {
    let mut engine = Engine::new(portolan_model::Settings::default(), portolan_plan::Settings::default());
    let mut subnet = kubeovn::Subnet::new("web", kubeovn::SubnetSpec::default());
    subnet.metadata.uid = Some("uid".into());
    macro_rules! list {
        ($($kind:ident: $object:ty),* $(,)?) => {
            $(engine.feed(&crate::engine::Change::<$object>::listed(Vec::<$object>::new()));)*
        };
    }
    crate::engine::for_each_kind!(list);
    engine.feed(&crate::engine::Change::Applied(subnet));
    let _ = engine.actions();
    engine
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_that_is_refused_for_good_is_told_and_counted_and_tried_on() {
    for code in [403, 422] {
        let api = FakeApi::default();
        api.define::<kubeovn::Subnet>();
        api.put_raw::<kubeovn::Subnet>(
            &serde_json::json!({"metadata": {"name": "web", "uid": "uid"}, "spec": {}}),
        );
        api.always("PATCH", Answer::Code(code));
        let metrics = Metrics::new();
        let (writer, mut messages) = finalizers(&api, &metrics);
        let writer = Writer::new(writer, &Urgent::default());
        let followers = Followers::new(api.client());
        let task = tokio::spawn(writer.clone().run(followers.recoveries()));
        let mut engine = engine_with_a_new_subnet();
        writer.want((Kind::KubeOvnSubnet, "web".into()), finalizer(FinalizerChange::Add));
        let told = tokio::time::timeout(Duration::from_secs(60), next_report(&mut messages, &mut engine));
        let (reason, message) = told.await.expect("somebody is told, in virtual time");
        assert_eq!(reason, "FinalizerRefused", "{code}: {message}");
        // It is tried again, and nobody is told twice.
        for _ in 0..3 {
            messages.recv().await.unwrap().tell(&mut engine);
        }
        assert_eq!(engine.actions(), []);
        let counted = metrics.encode();
        assert!(counted.contains("\nportolan_controller_finalizers_refused_total 4\n"), "{code}: {counted}");
        // Somebody gives the right: the object is read, and patched.
        api.lift();
        let before = api.requests("PATCH").len();
        api.requested("PATCH", before + 1).await;
        let stored = api.stored::<kubeovn::Subnet>("", "web").unwrap();
        assert_eq!(stored["metadata"]["finalizers"], serde_json::json!([IN_USE]), "{code}");
        task.abort();
    }
}

#[tokio::test]
async fn a_node_that_cannot_be_told_is_reported_if_somebody_has_to_act() {
    for (code, is_reported) in [(403, true), (422, true), (503, false), (429, false)] {
        let api = FakeApi::default();
        api.put(
            &serde_json::from_value::<Node>(serde_json::json!({"metadata": {"name": "n1", "uid": "u1"}}))
                .unwrap(),
        );
        api.always("PATCH", Answer::Code(code));
        let (sender, mut messages) = tokio::sync::mpsc::channel(8);
        let writer = NodeWriter::new(api.client(), sender);
        let wanted = NodeAnnotations::pod_cidrs("u1".into(), "10.1.0.0/24 of u1".into());
        writer.write("n1".to_owned(), wanted.clone()).await.unwrap_err();
        assert_eq!(messages.try_recv().is_ok(), is_reported, "{code}");
        // The fake keeps metadata out of writes to a status: the Node does not say it then.
        api.lift();
        let error = writer.write("n1".to_owned(), wanted).await.unwrap_err();
        assert!(error.contains("takes them away") && messages.try_recv().is_ok(), "{error}");
    }
}

#[tokio::test]
async fn a_finalizer_that_cannot_be_written_for_a_while_is_nobodys_fault() {
    let api = FakeApi::default();
    api.define::<kubeovn::Subnet>();
    api.always("/subnets", Answer::Code(503));
    let metrics = Metrics::new();
    let (writer, mut messages) = finalizers(&api, &metrics);
    let key = (Kind::KubeOvnSubnet, "web".to_owned());
    writer.write(key, finalizer(FinalizerChange::Add)).await.unwrap_err();
    assert!(messages.try_recv().is_err());
    assert!(metrics.encode().contains("\nportolan_controller_finalizers_refused_total 0\n"));
}
