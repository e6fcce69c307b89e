//! Leader election by a Lease, as Kubernetes' own components do it: who writes its name into a lease that is free, or that was
//! not renewed for its duration, leads; the version of what was read decides between two who try.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::runtime::wait::await_condition;
use kube::{Api, Error};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::kube_rs::Space;

const NAME: &str = "leader";
/// How often a lease is renewed.
const RENEWAL: Duration = Duration::from_millis(200);
/// How long the lease of a leader lasts that must keep it: however slow the machine is, it is renewed in time.
const LONG: Duration = Duration::from_secs(600);
/// How long the lease of a leader lasts that crashes.
const SHORT: Duration = Duration::from_secs(1);

struct Candidate {
    name: &'static str,
    /// How long a lease lasts that it takes.
    duration: Duration,
    api: Api<Lease>,
    /// The last version seen, and when: other clocks are not trusted.
    seen: Option<(Option<String>, Instant)>,
}

impl Candidate {
    /// Tries to become or stay the leader.
    async fn leads(&mut self) -> bool {
        let Some(lease) = self.api.get_opt(NAME).await.unwrap() else {
            return self.written(self.api.create(&PostParams::default(), &self.claim(None)).await);
        };
        let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref());
        if holder != Some(self.name) {
            let version = lease.metadata.resource_version.clone();
            let since = match &self.seen {
                Some((seen, since)) if *seen == version => *since,
                _ => self.seen.insert((version, Instant::now())).1,
            };
            let spec = lease.spec.as_ref();
            let seconds = spec.and_then(|spec| spec.lease_duration_seconds).unwrap_or_default();
            if holder.is_some() && since.elapsed() < Duration::from_secs(seconds.unsigned_abs().into()) {
                return false;
            }
        }
        let claim = self.claim(Some(lease));
        self.written(self.api.replace(NAME, &PostParams::default(), &claim).await)
    }

    fn claim(&self, lease: Option<Lease>) -> Lease {
        let mut lease = lease.unwrap_or_default();
        lease.metadata.name = Some(NAME.into());
        let spec = lease.spec.get_or_insert_with(LeaseSpec::default);
        let transitions = spec.lease_transitions.unwrap_or(-1);
        if spec.holder_identity.as_deref() != Some(self.name) {
            spec.holder_identity = Some(self.name.into());
            spec.acquire_time = Some(MicroTime(Timestamp::now()));
            spec.lease_transitions = Some(transitions + 1);
        }
        spec.lease_duration_seconds = Some(self.duration.as_secs() as i32);
        spec.renew_time = Some(MicroTime(Timestamp::now()));
        lease
    }

    fn written(&self, answer: Result<Lease, Error>) -> bool {
        match answer {
            Ok(_) => true,
            // Another was faster.
            Err(Error::Api(status)) if status.code == 409 => false,
            Err(error) => panic!("{error}"),
        }
    }

    /// Gives the lease back, as a leader does that is stopped.
    async fn release(&self) {
        let mut lease = self.api.get(NAME).await.unwrap();
        lease.spec.get_or_insert_with(LeaseSpec::default).holder_identity = None;
        self.api.replace(NAME, &PostParams::default(), &lease).await.unwrap();
    }

    /// Runs until it is stopped, and then releases what it has; reports when it begins to lead.
    async fn run(mut self, mut stop: watch::Receiver<bool>, led: mpsc::UnboundedSender<&'static str>) {
        let mut was = false;
        while !*stop.borrow() {
            let leads = self.leads().await;
            if leads && !was {
                led.send(self.name).unwrap();
            }
            was = leads;
            let _ = tokio::time::timeout(RENEWAL, stop.changed()).await;
        }
        if was {
            self.release().await;
        }
    }
}

/// A candidate that runs.
struct Running {
    name: &'static str,
    stop: watch::Sender<bool>,
    task: tokio::task::JoinHandle<()>,
}

impl Running {
    async fn stop(self) {
        self.stop.send(true).unwrap();
        self.task.await.unwrap();
    }

    /// Ends it where it is, with its lease.
    async fn crash(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }
}

pub(crate) async fn another_leads_when_the_leader_stops_or_crashes(space: Space) {
    let space = Arc::new(space);
    let api = space.api::<Lease>();
    let (led, mut leaders) = mpsc::unbounded_channel();
    let start = |name: &'static str, duration| {
        let (stop, stopped) = watch::channel(false);
        let candidate = Candidate { name, duration, api: api.clone(), seen: None };
        Running { name, stop, task: tokio::spawn(candidate.run(stopped, led.clone())) }
    };
    let (ann, bob) = (start("ann", LONG), start("bob", LONG));
    let first = leaders.recv().await.unwrap();
    leads(&api, first, 0).await;
    assert!(leaders.is_empty(), "there is one leader at a time");
    let (first, second) = if ann.name == first { (ann, bob) } else { (bob, ann) };
    first.stop().await;
    assert_eq!(leaders.recv().await, Some(second.name));
    leads(&api, second.name, 1).await;

    let third = start("cid", SHORT);
    second.stop().await;
    assert_eq!(leaders.recv().await, Some("cid"));
    third.crash().await;
    // Nobody renews and nobody releases: the lease runs out.
    let fourth = start("dan", LONG);
    assert_eq!(leaders.recv().await, Some("dan"));
    leads(&api, "dan", 3).await;
    fourth.stop().await;
}

/// A leader is in the lease, after so many others, and renews it.
async fn leads(api: &Api<Lease>, leader: &str, transitions: i32) {
    let lease = api.get(NAME).await.unwrap().spec.unwrap();
    assert_eq!(lease.holder_identity.as_deref(), Some(leader));
    assert_eq!(lease.lease_transitions, Some(transitions));
    let renewed = |now: Option<&Lease>| {
        now.and_then(|now| now.spec.as_ref()).is_some_and(|now| now.renew_time > lease.renew_time)
    };
    await_condition(api.clone(), NAME, renewed).await.unwrap();
}
