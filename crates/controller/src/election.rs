//! Leader election by a Lease, for efficiency only: it spares the other controllers' vain attempts. Two leaders at once are as
//! harmless as two controllers without election.
//!
//! ```text
//!            free, or not renewed for DURATION            not renewed for DURATION, another has it, or unfit for PATIENCE
//!  Standby ─────────────────────────────────────▶ Leader ─────────────────────────────────────────────────────────────▶ Standby
//!     └────── the API server refuses Leases ──────┴──▶ Unelected: acts, and asks again now and then
//! ```
//!
//! Only a controller that is fit to act takes the Lease, and one that has it and is unfit for [`PATIENCE`] gives it back: one that
//! cannot reach the northbound database would keep others from leading who can. An unfit one follows the Lease all the same, so
//! that the time in which nobody renews it counts from its start.
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
/// How long a leader may be unfit before it gives its Lease back. A restart of the northbound database takes less.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// How long a controller that stops may take to give its Lease back.
const RELEASE: Duration = Duration::from_secs(1);
/// How long it waits for the end of an attempt that is under way: one that is cut off may still succeed, after the Lease was
/// given back.
const LAST_ATTEMPT: Duration = Duration::from_millis(500);

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

    /// Whether the Lease says so.
    pub(crate) fn is_elected(self) -> bool {
        self == Role::Leader
    }
}

/// What became of the leader before this one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Predecessor {
    /// There was none, or it gave the Lease back, or it was this one.
    #[default]
    Gone,
    /// It did not renew the Lease: it was killed, or hangs and may still have what it had.
    Silent,
}

/// A role, and how it was come by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Standing {
    role: Role,
    predecessor: Predecessor,
}

/// This controller's part in the election. Dropping it ends it, without giving the Lease back.
#[derive(Debug)]
pub(crate) struct Election {
    standing: watch::Receiver<Standing>,
    /// Whether this controller could act if it led.
    fit: watch::Sender<bool>,
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
    /// Follows the Lease, and stands for election once it is fit ([`Election::set_fit`]); without a configuration this controller
    /// always acts.
    pub(crate) fn start(client: Client, config: Option<LeaderElection>) -> Self {
        let (fit, is_fit) = watch::channel(false);
        let standing = |role| watch::channel(Standing { role, predecessor: Predecessor::Gone });
        let Some(config) = config else {
            return Election { standing: standing(Role::Unelected).1, fit, running: None };
        };
        let (standings, standing) = standing(Role::Standby);
        let (stop, stopped) = oneshot::channel();
        let candidate = Candidate {
            leases: Leases::new(Api::namespaced(client, &config.namespace), config.clone()),
            config,
            standings,
            fit: is_fit,
            unfit_since: Some(Instant::now()),
            observed: None,
            renewed: None,
            refusal: None,
        };
        let task = tokio::spawn(candidate.run(stopped));
        Election { standing, fit, running: Some(Running { stop, task }) }
    }

    /// The current role.
    pub(crate) fn role(&self) -> Role {
        self.standing.borrow().role
    }

    /// What became of the leader before this one.
    pub(crate) fn predecessor(&self) -> Predecessor {
        self.standing.borrow().predecessor
    }

    /// Says whether this controller could act if it led.
    pub(crate) fn set_fit(&self, fit: bool) {
        self.fit.send_if_modified(|current| std::mem::replace(current, fit) != fit);
    }

    /// Waits until the role has changed. Cancel-safe.
    ///
    /// # Errors
    /// When the election has ended, which it never should.
    pub(crate) async fn changed(&mut self) -> anyhow::Result<()> {
        if self.running.is_none() {
            return std::future::pending().await;
        }
        self.standing.changed().await.map_err(|_| anyhow::anyhow!("the task \"leader election\" ended"))
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
    /// It has the Lease, after this one.
    Leads(Predecessor),
    /// It could have the Lease, and is not fit to act.
    Unfit,
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
    standings: watch::Sender<Standing>,
    /// Whether this controller could act.
    fit: watch::Receiver<bool>,
    /// Since when it could not; none if it could.
    unfit_since: Option<Instant>,
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
            self.notice_fitness();
            if self.is_unfit_for_long() {
                self.turn_into(
                    Role::Standby,
                    "has not been able to act for a while, and gives the Lease back",
                );
                self.give_back().await;
            }
            let mut stopping = false;
            let attempt = {
                let mut attempt = std::pin::pin!(self.attempt());
                tokio::select! {
                    attempt = &mut attempt => attempt,
                    _ = &mut stop => {
                        stopping = true;
                        let last = tokio::time::timeout(LAST_ATTEMPT, attempt).await;
                        last.unwrap_or_else(|_| Attempt::Failed("it was cut off".to_owned()))
                    }
                }
            };
            let next = self.judge(attempt);
            if stopping {
                break;
            }
            tokio::select! {
                _ = &mut stop => break,
                () = self.until(next, &mut news) => {}
            }
        }
        if self.role() == Role::Leader || self.leases.is_in_doubt() {
            self.give_back().await;
        }
    }

    async fn give_back(&mut self) {
        let released = tokio::time::timeout(DURATION, self.leases.release()).await;
        match released.unwrap_or_else(|_| Err("no answer".to_owned())) {
            Ok(()) => tracing::info!("gave the Lease back"),
            Err(error) => tracing::warn!(error, "cannot give the Lease back: it ends by itself"),
        }
    }

    /// Takes in whether this controller could act.
    fn notice_fitness(&mut self) {
        match *self.fit.borrow_and_update() {
            true => self.unfit_since = None,
            false => drop(self.unfit_since.get_or_insert_with(Instant::now)),
        }
    }

    /// Until when an unfit leader leads; none if it is fit or no leader.
    fn patience_ends(&self) -> Option<Instant> {
        self.unfit_since.filter(|_| self.role() == Role::Leader).map(|since| since + PATIENCE)
    }

    fn is_unfit_for_long(&self) -> bool {
        self.patience_ends().is_some_and(|ends| ends <= Instant::now())
    }

    fn role(&self) -> Role {
        self.standings.borrow().role
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
        if matches!(attempt, Attempt::Leads(_)) {
            self.renewed = Some(start);
        }
        attempt
    }

    /// Reads the Lease, and takes it if it is free, one's own, or was not renewed for as long as it lasts.
    async fn look(&mut self) -> Attempt {
        // A leader that has become unfit keeps the Lease for a while.
        let may_take = self.unfit_since.is_none() || self.role() == Role::Leader;
        let record = match self.leases.get().await {
            Ok(Some(record)) => record,
            Ok(None) if !may_take => return Attempt::Unfit,
            Ok(None) => return self.leases.create().await,
            Err(attempt) => return attempt,
        };
        let (record, since) = self.observe(record);
        let ends = since + DURATION;
        let predecessor = match &record.holder {
            None => Predecessor::Gone,
            Some(holder) if *holder == self.config.identity => Predecessor::Gone,
            Some(_) if ends <= Instant::now() => Predecessor::Silent,
            Some(_) => return Attempt::Waits(ends),
        };
        if !may_take {
            return Attempt::Unfit;
        }
        match self.leases.take(record.holder.as_deref()).await {
            Attempt::Leads(_) => Attempt::Leads(predecessor),
            attempt => attempt,
        }
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
        if !matches!(attempt, Attempt::Leads(_) | Attempt::Refused(_))
            && self.lease_ends().is_some_and(|ends| ends <= now)
        {
            self.turn_into(Role::Standby, "did not renew the Lease in time: it stands by");
        }
        match attempt {
            Attempt::Leads(predecessor) => {
                self.turn_into_leader(predecessor);
                let next = self.renewed.map_or(now, |renewed| renewed + RENEWAL);
                self.patience_ends().map_or(next, |ends| ends.min(next))
            }
            // Looks again when it is fit, or when something happens to the Lease.
            Attempt::Unfit => {
                self.turn_into(Role::Standby, "cannot act yet: it stands by");
                now + AFTER_REFUSAL
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
        self.stand(Standing { role, predecessor: Predecessor::Gone }, why);
    }

    fn turn_into_leader(&self, predecessor: Predecessor) {
        let why = match predecessor {
            Predecessor::Gone => "has the Lease: it leads",
            Predecessor::Silent => "has the Lease, which the leader before it did not renew: it leads",
        };
        self.stand(Standing { role: Role::Leader, predecessor }, why);
    }

    /// Takes a role. How it was come by is said once.
    fn stand(&self, standing: Standing, why: &str) {
        self.standings.send_if_modified(|current| {
            let changed = current.role != standing.role;
            if changed {
                tracing::info!(identity = self.config.identity, role = ?standing.role, "this controller {why}");
                *current = standing;
            }
            changed
        });
    }

    /// Waits until it is time to try again: then, or when something happened to the Lease that another did.
    async fn until(&mut self, mut next: Instant, news: &mut watch::Receiver<News>) {
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(next) => return,
                // Whoever could speak for this controller is gone, and so is it.
                Ok(()) = self.fit.changed() => return,
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
