//! Leader election by a Lease, for efficiency only: it spares the other controllers' vain attempts. Two leaders at once are as
//! harmless as two controllers without election.
//!
//! ```text
//!            free, or not renewed for DURATION                  not renewed for DURATION, or another has it
//!  Standby ─────────────────────────────────────▶ Leader ───────────────────────────────────────────────────▶ Standby
//!     └────── the API server refuses Leases ──────┴──▶ Unelected: acts, and asks again now and then
//! ```
//!
//! Clocks of two machines are never compared: what counts is how long, by the own monotonic clock, a Lease has been observed
//! without a change. The text of `renewTime` is compared for change and nothing else.

mod lease;

use std::time::Duration;

use kube::{Api, Client};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use self::lease::{Leases, News};

/// How long a Lease lasts that is not renewed. A leader that was killed is replaced that long after its last renewal.
pub(crate) const DURATION: Duration = Duration::from_millis(2500);
/// How often a leader renews it.
pub(crate) const RENEWAL: Duration = Duration::from_millis(800);
/// The pause after a failure.
const AFTER_FAILURE: Duration = Duration::from_millis(400);
/// The pause after the API server refused. Somebody has to grant a right or create a namespace first.
const AFTER_REFUSAL: Duration = Duration::from_secs(10);
/// How long a controller that stops may take to give its Lease back.
const RELEASE: Duration = Duration::from_secs(1);

/// Who takes part in the election, and by which Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderElection {
    /// The namespace of the Lease `portolan-controller`.
    pub namespace: String,
    /// What the Lease calls this process. It must be its own: one that is started again is another.
    pub identity: String,
}

/// What this controller is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Another leads, or it is not known yet who does.
    Standby,
    /// It has the Lease.
    Leader,
    /// Without election, or where the API server refuses Leases.
    Unelected,
}

impl Role {
    /// Whether it takes addresses and writes OVN's databases.
    pub(crate) fn acts(self) -> bool {
        match self {
            Role::Standby => false,
            Role::Leader | Role::Unelected => true,
        }
    }
}

/// This controller's part in the election. Dropping it ends it, without giving the Lease back.
#[derive(Debug)]
pub(crate) struct Election {
    role: watch::Receiver<Role>,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Drop for Election {
    fn drop(&mut self) {
        if let Some(running) = &self.running {
            running.task.abort();
        }
    }
}

impl Election {
    /// Stands for election; without a configuration this controller always acts.
    pub(crate) fn start(client: Client, config: Option<LeaderElection>) -> Self {
        let Some(config) = config else {
            return Election { role: watch::channel(Role::Unelected).1, running: None };
        };
        let (roles, role) = watch::channel(Role::Standby);
        let (stop, stopped) = oneshot::channel();
        let candidate = Candidate {
            leases: Leases::new(Api::namespaced(client, &config.namespace), config.clone()),
            config,
            roles,
            observed: None,
            renewed: None,
            refusal: None,
        };
        let task = tokio::spawn(candidate.run(stopped));
        Election { role, running: Some(Running { stop, task }) }
    }

    /// The current role.
    pub(crate) fn role(&self) -> Role {
        *self.role.borrow()
    }

    /// Waits until the role has changed. Cancel-safe.
    ///
    /// # Errors
    /// When the election has ended, which it never should.
    pub(crate) async fn changed(&mut self) -> anyhow::Result<()> {
        if self.running.is_none() {
            return std::future::pending().await;
        }
        self.role.changed().await.map_err(|_| anyhow::anyhow!("the task \"leader election\" ended"))
    }

    /// Gives the Lease back, so that the next leader need not wait for its end.
    pub(crate) async fn release(mut self) {
        let Some(Running { stop, mut task }) = self.running.take() else { return };
        if stop.send(()).is_err() || tokio::time::timeout(RELEASE, &mut task).await.is_err() {
            tracing::warn!("the Lease was not given back in time: it ends by itself");
            task.abort();
        }
    }
}

/// What an observed Lease says, as far as it counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// Who has it; none: it is free.
    holder: Option<String>,
    /// The text that every renewal changes.
    renewed: String,
}

/// What came of an attempt to become or stay the leader.
enum Attempt {
    /// It has the Lease.
    Leads,
    /// Another has the Lease, which is to be looked at again then.
    Waits(Instant),
    /// Somebody else wrote at the same time.
    Raced,
    /// The API server does not let this user have the Lease.
    Refused(String),
    /// It could not be found out.
    Failed(String),
}

struct Candidate {
    config: LeaderElection,
    leases: Leases,
    roles: watch::Sender<Role>,
    /// What the Lease said last, and since when it has been saying so.
    observed: Option<(Record, Instant)>,
    /// When the last renewal that succeeded was begun.
    renewed: Option<Instant>,
    /// Why the API server refused last; it is logged once.
    refusal: Option<String>,
}

impl Candidate {
    async fn run(mut self, mut stop: oneshot::Receiver<()>) {
        let (mut news, _watching) = self.leases.follow();
        loop {
            let attempt = tokio::select! {
                // An attempt that was cut off may have succeeded.
                _ = &mut stop => break,
                attempt = self.attempt() => attempt,
            };
            let next = self.judge(attempt);
            tokio::select! {
                _ = &mut stop => break,
                () = self.until(next, &mut news) => {}
            }
        }
        if self.role() == Role::Leader {
            match self.leases.release().await {
                Ok(()) => tracing::info!("gave the Lease back"),
                Err(error) => tracing::warn!(error, "cannot give the Lease back: it ends by itself"),
            }
        }
    }

    fn role(&self) -> Role {
        *self.roles.borrow()
    }

    /// Until when this controller leads unless it renews the Lease; none if it does not lead.
    fn lease_ends(&self) -> Option<Instant> {
        self.renewed.filter(|_| self.role() == Role::Leader).map(|renewed| renewed + DURATION)
    }

    /// Tries to become or stay the leader, for no longer than the Lease lasts.
    async fn attempt(&mut self) -> Attempt {
        let start = Instant::now();
        let end = self.lease_ends().unwrap_or(start + DURATION);
        let attempt = async {
            if self.role() == Role::Leader {
                match self.leases.renew().await {
                    Attempt::Raced => {}
                    attempt => return attempt,
                }
            }
            self.look().await
        };
        let attempt = match tokio::time::timeout_at(end, attempt).await {
            Ok(attempt) => attempt,
            Err(_) => Attempt::Failed(format!("no answer within {:?}", start.elapsed())),
        };
        if matches!(attempt, Attempt::Leads) {
            self.renewed = Some(start);
        }
        attempt
    }

    /// Reads the Lease, and takes it if it is free, one's own, or was not renewed for as long as it lasts.
    async fn look(&mut self) -> Attempt {
        let record = match self.leases.get().await {
            Ok(Some(record)) => record,
            Ok(None) => return self.leases.create().await,
            Err(attempt) => return attempt,
        };
        let (record, since) = self.observe(record);
        let ends = since + DURATION;
        match &record.holder {
            None => {}
            Some(holder) if *holder == self.config.identity => {}
            Some(_) if ends <= Instant::now() => {}
            Some(_) => return Attempt::Waits(ends),
        }
        self.leases.take(record.holder.as_deref()).await
    }

    /// Notes what the Lease says; returns since when it has been saying so.
    fn observe(&mut self, record: Record) -> (Record, Instant) {
        match &self.observed {
            Some((known, since)) if *known == record => (record, *since),
            _ => self.observed.insert((record, Instant::now())).clone(),
        }
    }

    /// Draws the conclusion; returns when to try next.
    fn judge(&mut self, attempt: Attempt) -> Instant {
        let now = Instant::now();
        if !matches!(attempt, Attempt::Refused(_) | Attempt::Failed(_)) {
            self.refusal = None;
        }
        if !matches!(attempt, Attempt::Leads | Attempt::Refused(_))
            && self.lease_ends().is_some_and(|ends| ends <= now)
        {
            self.turn_into(Role::Standby, "did not renew the Lease in time: it stands by");
        }
        match attempt {
            Attempt::Leads => {
                self.turn_into(Role::Leader, "has the Lease: it leads");
                self.renewed.map_or(now, |renewed| renewed + RENEWAL)
            }
            Attempt::Waits(until) => {
                self.turn_into(Role::Standby, "another controller has the Lease: it stands by");
                until
            }
            // The next look tells who was faster.
            Attempt::Raced => now + Duration::from_millis(10),
            Attempt::Refused(why) => {
                if self.refusal.as_ref() != Some(&why) {
                    let lease = format!("{}/{}", self.config.namespace, lease::NAME);
                    tracing::warn!(
                        lease,
                        error = why,
                        "the API server refuses the Lease by which controllers elect a leader: this one acts without election. Create \
                         the namespace and allow get, watch, create and patch of leases.coordination.k8s.io in it, name another with \
                         --lease-namespace, or switch it off with --leader-election=false"
                    );
                    self.refusal = Some(why);
                }
                self.turn_into(Role::Unelected, "acts without election");
                now + AFTER_REFUSAL
            }
            Attempt::Failed(why) => {
                tracing::debug!(error = why, "cannot use the Lease");
                let again = now + AFTER_FAILURE;
                self.lease_ends().map_or(again, |ends| ends.min(again))
            }
        }
    }

    fn turn_into(&self, role: Role, why: &str) {
        self.roles.send_if_modified(|current| {
            let changed = *current != role;
            if changed {
                tracing::info!(identity = self.config.identity, ?role, "this controller {why}");
            }
            *current = role;
            changed
        });
    }

    /// Waits until it is time to try again: then, or when something happened to the Lease that another did.
    async fn until(&mut self, mut next: Instant, news: &mut watch::Receiver<News>) {
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(next) => return,
                changed = news.changed() => {
                    if changed.is_err() {
                        tokio::time::sleep_until(next).await;
                        return;
                    }
                }
            }
            let seen = news.borrow_and_update().clone();
            match seen {
                News::Unknown if self.role() != Role::Standby => {}
                News::Unknown | News::Gone => return,
                News::Seen(record) => {
                    let (record, since) = self.observe(record);
                    match (&record.holder, self.role()) {
                        (Some(holder), Role::Leader) if *holder == self.config.identity => {}
                        // It is being renewed.
                        (Some(holder), Role::Standby) if *holder != self.config.identity => {
                            next = next.max(since + DURATION);
                        }
                        _ => return,
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
