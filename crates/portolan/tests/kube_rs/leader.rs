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

use crate::Space;

const NAME: &str = "leader";
/// How long a lease lasts, and how often it is renewed.
const DURATION: Duration = Duration::from_secs(1);
const RENEWAL: Duration = Duration::from_millis(200);

struct Candidate {
    name: &'static str,
    api: Api<Lease>,
    /// The last version seen, and when: other clocks are not trusted.
    seen: Option<(Option<String>, Instant)>,
}

impl Candidate {
    /// Tries to become or stay the leader.
    async fn leads(&mut self) -> bool {
        let lease = match self.api.get_opt(NAME).await.unwrap() {
            Some(lease) => lease,
            None => return self.written(self.api.create(&PostParams::default(), &self.claim(None)).await),
        };
        let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref());
        if holder != Some(self.name) {
            let version = lease.metadata.resource_version.clone();
            let since = match &self.seen {
                Some((seen, since)) if *seen == version => *since,
                _ => self.seen.insert((version, Instant::now())).1,
            };
            if holder.is_some() && since.elapsed() < DURATION {
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
        spec.lease_duration_seconds = Some(DURATION.as_secs() as i32);
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

    /// Runs until it is told to stop; tells when it begins to lead.
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
    }
}

pub(crate) async fn another_leads_when_the_leader_stops(space: Space) {
    let space = Arc::new(space);
    let api = space.api::<Lease>();
    let (led, mut leaders) = mpsc::unbounded_channel();
    let start = |name: &'static str| {
        let (stop, stopped) = watch::channel(false);
        let candidate = Candidate { name, api: api.clone(), seen: None };
        (stop, tokio::spawn(candidate.run(stopped, led.clone())))
    };
    let mut running = vec![("ann", start("ann")), ("bob", start("bob"))];
    for (transitions, next) in [(0, Some("cid")), (1, Some("dan")), (2, None)] {
        let leader = leaders.recv().await.unwrap();
        let lease = api.get(NAME).await.unwrap().spec.unwrap();
        assert_eq!(lease.holder_identity.as_deref(), Some(leader));
        assert_eq!(lease.lease_transitions, Some(transitions));
        // It renews: nobody else leads meanwhile.
        let renewed = |now: Option<&Lease>| {
            now.and_then(|now| now.spec.as_ref()).is_some_and(|now| now.renew_time > lease.renew_time)
        };
        await_condition(api.clone(), NAME, renewed).await.unwrap();
        assert!(leaders.is_empty(), "there is one leader at a time");

        let at = running.iter().position(|(name, _)| *name == leader).unwrap();
        let (_, (stop, task)) = running.remove(at);
        stop.send(true).unwrap();
        task.await.unwrap();
        running.extend(next.map(|name| (name, start(name))));
    }
    for (_, (stop, task)) in running {
        stop.send(true).unwrap();
        task.await.unwrap();
    }
}
