//! Elections on an API server in memory. Time is virtual.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

use k8s_openapi::api::coordination::v1::Lease;
use portolan_watch::fake::{Answer, FakeApi};
use serde_json::{Value, json};

use super::*;

const NAMESPACE: &str = "portolan-system";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/portolan-system/leases";

fn start(api: &FakeApi, identity: &str) -> Election {
    let election = unfit(api, identity);
    election.set_fit(true);
    election
}

/// One that cannot act yet.
fn unfit(api: &FakeApi, identity: &str) -> Election {
    let config = LeaderElection { namespace: NAMESPACE.into(), identity: identity.into() };
    Election::start(api.client(), Some(config))
}

/// Waits until it has this role; returns how long that took.
async fn is(election: &mut Election, role: Role) -> Duration {
    let start = Instant::now();
    while election.role() != role {
        election.changed().await.unwrap();
    }
    start.elapsed()
}

/// Fails if it becomes anything else.
async fn stays(election: &mut Election, role: Role, time: Duration) {
    assert_eq!(election.role(), role);
    let changed = tokio::time::timeout(time, election.changed()).await;
    assert!(changed.is_err(), "it became {:?}", election.role());
}

fn holder(api: &FakeApi) -> Value {
    api.stored::<Lease>(NAMESPACE, lease::NAME).unwrap()["spec"]["holderIdentity"].clone()
}

fn held_by_a_dead_one(api: &FakeApi) {
    let lease = json!({
        "metadata": {"name": lease::NAME, "namespace": NAMESPACE},
        // Another machine's clock may be years ahead.
        "spec": {"holderIdentity": "dead", "renewTime": "2099-01-01T00:00:00.000000Z", "leaseDurationSeconds": 3},
    });
    api.put(&serde_json::from_value::<Lease>(lease).unwrap());
}

#[tokio::test(start_paused = true)]
async fn the_first_leads_and_renews_and_the_second_stands_by() {
    let api = FakeApi::default();
    let mut first = start(&api, "first");
    assert!(is(&mut first, Role::Leader).await < RENEWAL);
    let mut second = start(&api, "second");
    stays(&mut second, Role::Standby, Duration::from_secs(60)).await;
    stays(&mut first, Role::Leader, Duration::from_secs(60)).await;
    assert_eq!(holder(&api), "first");
    // An idle leader writes the Lease, and reads nothing; the other reads when it starts and when its watch is open.
    let renewals = api.requests("PATCH").len();
    assert!((140..=160).contains(&renewals), "{renewals} in two minutes");
    assert!(api.requests(&format!("GET {LEASES}/")).len() <= 3, "{:?}", api.requests("GET"));
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_killed_is_replaced_when_its_lease_ends() {
    let api = FakeApi::default();
    let mut first = start(&api, "first");
    is(&mut first, Role::Leader).await;
    let mut second = start(&api, "second");
    stays(&mut second, Role::Standby, Duration::from_secs(7)).await;
    drop(first);
    let took = is(&mut second, Role::Leader).await;
    assert!(DURATION - RENEWAL <= took && took <= DURATION + AFTER_FAILURE, "{took:?}");
    let lease = api.stored::<Lease>(NAMESPACE, lease::NAME).unwrap();
    assert_eq!(
        (&lease["spec"]["holderIdentity"], &lease["spec"]["leaseTransitions"]),
        (&json!("second"), &json!(1))
    );
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_stops_is_replaced_at_once() {
    let api = FakeApi::default();
    let mut first = start(&api, "first");
    is(&mut first, Role::Leader).await;
    let mut second = start(&api, "second");
    stays(&mut second, Role::Standby, Duration::from_secs(7)).await;
    first.release().await;
    let took = is(&mut second, Role::Leader).await;
    assert!(took < Duration::from_millis(50), "{took:?}");
    // One that does not lead has nothing to give back.
    let third = start(&api, "third");
    third.release().await;
    assert_eq!(holder(&api), "second");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_deleted_by_hand_is_made_again() {
    let api = FakeApi::default();
    let mut first = start(&api, "first");
    is(&mut first, Role::Leader).await;
    for _ in 0..3 {
        api.remove::<Lease>(NAMESPACE, lease::NAME);
        stays(&mut first, Role::Leader, Duration::from_secs(3)).await;
        assert_eq!(holder(&api), "first");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_somebody_else_takes_is_lost() {
    let api = FakeApi::default();
    let mut first = start(&api, "first");
    is(&mut first, Role::Leader).await;
    held_by_a_dead_one(&api);
    let took = is(&mut first, Role::Standby).await;
    assert!(took < RENEWAL, "{took:?}");
    is(&mut first, Role::Leader).await;
}

#[tokio::test(start_paused = true)]
async fn the_lease_of_a_dead_controller_ends_by_our_own_clock() {
    let api = FakeApi::default();
    held_by_a_dead_one(&api);
    let mut first = start(&api, "first");
    let took = is(&mut first, Role::Leader).await;
    assert!(DURATION <= took && took < DURATION + AFTER_FAILURE, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_write_the_lease_steps_down_when_it_ends_and_comes_back() {
    for failure in [
        Answer::Refused,
        Answer::Silence,
        Answer::Code(500),
        Answer::TooManyRequests(1),
        Answer::NamelessNotFound,
    ] {
        let api = FakeApi::default();
        let mut first = start(&api, "first");
        is(&mut first, Role::Leader).await;
        stays(&mut first, Role::Leader, Duration::from_secs(7)).await;
        api.always("/leases", failure.clone());
        api.cut_watches();
        let took = is(&mut first, Role::Standby).await;
        assert!(DURATION - RENEWAL <= took && took <= DURATION, "{failure:?}: {took:?}");
        stays(&mut first, Role::Standby, Duration::from_secs(60)).await;
        api.lift();
        let took = is(&mut first, Role::Leader).await;
        assert!(took <= DURATION + AFTER_FAILURE, "{failure:?}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_may_not_use_leases_acts_all_the_same_and_asks_again() {
    let api = FakeApi::default();
    api.always("/leases", Answer::Code(403));
    let (mut first, mut second) = (start(&api, "first"), start(&api, "second"));
    assert!(is(&mut first, Role::Unelected).await < RENEWAL);
    is(&mut second, Role::Unelected).await;
    stays(&mut first, Role::Unelected, Duration::from_secs(60)).await;
    let asked = api.requests("GET").len();
    assert!(asked < 20, "{asked} requests within a minute");
    api.lift();
    is(&mut first, Role::Leader).await;
    is(&mut second, Role::Standby).await;
}

#[tokio::test(start_paused = true)]
async fn a_standby_whose_watch_is_broken_leaves_a_leader_alone_that_renews() {
    let api = FakeApi::default();
    let mut first = start(&api, "first");
    is(&mut first, Role::Leader).await;
    api.always("WATCH", Answer::Silence);
    let mut second = start(&api, "second");
    stays(&mut second, Role::Standby, Duration::from_secs(60)).await;
    assert_eq!(first.role(), Role::Leader);
    drop(first);
    assert!(is(&mut second, Role::Leader).await <= DURATION * 2);
}

#[tokio::test(start_paused = true)]
async fn only_a_controller_that_can_act_takes_the_lease() {
    let api = FakeApi::default();
    let mut first = unfit(&api, "first");
    stays(&mut first, Role::Standby, Duration::from_secs(60)).await;
    assert!(api.stored::<Lease>(NAMESPACE, lease::NAME).is_none());
    first.set_fit(true);
    assert!(is(&mut first, Role::Leader).await < Duration::from_millis(50));
    assert_eq!(first.predecessor(), Predecessor::Gone);
}

#[tokio::test(start_paused = true)]
async fn the_time_in_which_nobody_renews_the_lease_counts_from_the_start() {
    let api = FakeApi::default();
    held_by_a_dead_one(&api);
    let mut first = unfit(&api, "first");
    stays(&mut first, Role::Standby, DURATION + AFTER_FAILURE).await;
    assert_eq!(holder(&api), "dead");
    first.set_fit(true);
    assert!(is(&mut first, Role::Leader).await < Duration::from_millis(50));
    assert_eq!(first.predecessor(), Predecessor::Silent, "it may still have what it had");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_act_for_long_gives_the_lease_to_one_that_can() {
    let api = FakeApi::default();
    let mut first = start(&api, "first");
    is(&mut first, Role::Leader).await;
    let mut second = start(&api, "second");
    // A short while is no reason.
    first.set_fit(false);
    stays(&mut first, Role::Leader, PATIENCE - RENEWAL).await;
    first.set_fit(true);
    stays(&mut first, Role::Leader, PATIENCE * 2).await;
    first.set_fit(false);
    let took = is(&mut second, Role::Leader).await;
    assert!(PATIENCE <= took && took < PATIENCE + RENEWAL, "{took:?}");
    assert_eq!(second.predecessor(), Predecessor::Gone);
    first.changed().await.unwrap();
    // It does not come back before it can act, and then it waits for its turn.
    stays(&mut first, Role::Standby, Duration::from_secs(60)).await;
    first.set_fit(true);
    stays(&mut first, Role::Standby, Duration::from_secs(60)).await;
    drop(second);
    is(&mut first, Role::Leader).await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_being_taken_when_the_controller_stops_is_given_back() {
    let api = FakeApi::default();
    let first = start(&api, "first");
    // It is stored, and the answer is late.
    api.script("POST", 1, Answer::Late(Duration::from_millis(300)));
    api.requested("POST", 1).await;
    first.release().await;
    assert_eq!(holder(&api), Value::Null);
}
