//! A proxy between Portolan's controller and agents on one side and the API server on the other, which can be made to misbehave as API
//! servers do: refuse requests, forget history, cut watches, serve kinds late.
//!
//! Faults are switched on and off by the test. Whoever uses the cluster's own client, such as the test and the nodes' runtimes, goes past
//! the proxy and sees a server that is well.

mod proxy;

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use portolan_lab::cluster::{ApiServerOptions, LabApiServer, StartApiServer};
use portolan_lab::pki::Authority;
use portolan_lab::{Lab, Process, Result};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::testbed::ApiKind;
use proxy::Proxy;

/// Who reaches the API server through the proxy: the controller, another one that a test may start, and the agents of as many nodes.
const CONTROLLERS: [&str; 2] = ["portolan-controller", "portolan-controller-2"];
const NODES: usize = 4;

/// How long requests that must come are waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// The switchboard of faults. Cloning gives another handle to the same one.
#[derive(Clone, Debug)]
pub struct Faults {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    rules: Mutex<BTreeMap<u64, Rule>>,
    /// By how much the watches of a user lag.
    delays: Mutex<BTreeMap<String, Duration>>,
    next: Mutex<u64>,
    /// Counts orders to end watches; the last of them.
    ended: watch::Sender<(u64, Ending)>,
    /// Notified when a request has met a fault.
    met: Condvar,
}

#[derive(Debug)]
struct Rule {
    fault: Fault,
    /// The beginnings of paths, with how many requests have met the fault there.
    paths: BTreeMap<String, u64>,
}

/// What requests meet.
#[derive(Clone, Debug)]
enum Fault {
    /// A Status with this code.
    Status(u16),
    /// What a server answers whose custom resources are not served yet: this status below their groups, which `/apis` does not list.
    LateGroups(u16),
}

/// How open watches end.
#[derive(Clone, Copy, Debug, Default)]
enum Ending {
    /// The connection breaks.
    #[default]
    Cut,
    /// An ERROR event says that history is gone.
    Expired,
}

/// A fault that lasts until this is dropped.
#[derive(Debug)]
#[must_use = "the fault ends when this is dropped"]
pub struct Injected {
    faults: Faults,
    number: u64,
}

impl Faults {
    pub(crate) fn new() -> Self {
        let shared = Shared {
            rules: Mutex::default(),
            delays: Mutex::default(),
            next: Mutex::default(),
            ended: watch::Sender::default(),
            met: Condvar::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Requests whose path begins with one of these are answered with this status from now on.
    pub fn answer(&self, status: u16, paths: &[&str]) -> Injected {
        self.inject(Fault::Status(status), paths.iter().map(ToString::to_string))
    }

    /// Groups of custom resources are not served from now on, as by a server that has just started: built-in kinds are, theirs answer
    /// with this status, and `/apis` does not list them.
    pub fn serve_late(&self, status: u16, groups: &[&str]) -> Injected {
        self.inject(Fault::LateGroups(status), groups.iter().map(|group| format!("/apis/{group}")))
    }

    /// Breaks the connections of all watches.
    pub fn cut_watches(&self) {
        self.shared.ended.send_modify(|(count, ending)| (*count, *ending) = (*count + 1, Ending::Cut));
    }

    /// Ends all watches with an ERROR event that says that their resourceVersion is too old.
    pub fn expire_watches(&self) {
        self.shared.ended.send_modify(|(count, ending)| (*count, *ending) = (*count + 1, Ending::Expired));
    }

    /// Whatever the watches of a user report that begin from now on comes that much later, in its order. Lists and writes do not.
    pub fn delay_watches(&self, user: &str, by: Duration) {
        self.delays().insert(user.to_owned(), by);
    }

    /// By how much the watches of a user lag.
    fn delay_of(&self, user: &str) -> Option<Duration> {
        self.delays().get(user).copied()
    }

    fn delays(&self) -> MutexGuard<'_, BTreeMap<String, Duration>> {
        self.shared.delays.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn inject(&self, fault: Fault, paths: impl Iterator<Item = String>) -> Injected {
        let mut next = self.shared.next.lock().unwrap_or_else(PoisonError::into_inner);
        *next += 1;
        self.rules().insert(*next, Rule { fault, paths: paths.map(|path| (path, 0)).collect() });
        Injected { faults: self.clone(), number: *next }
    }

    fn rules(&self) -> MutexGuard<'_, BTreeMap<u64, Rule>> {
        self.shared.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a request for this path meets.
    fn meet(&self, path: &str) -> Option<Fault> {
        let fault = self.rules().values_mut().find_map(|rule| {
            let met = rule.paths.iter_mut().find(|(start, _)| is_below(path, start));
            let is_list_of_groups = matches!(rule.fault, Fault::LateGroups(_)) && path == "/apis";
            let is_met = met.is_some() || is_list_of_groups;
            if let Some((_, times)) = met {
                *times += 1;
            }
            is_met.then(|| rule.fault.clone())
        })?;
        self.shared.met.notify_all();
        Some(fault)
    }

    /// The groups that are not served now.
    fn hidden_groups(&self) -> Vec<String> {
        let rules = self.rules();
        let late = rules.values().filter(|rule| matches!(rule.fault, Fault::LateGroups(_)));
        let paths = late.flat_map(|rule| rule.paths.keys());
        paths.filter_map(|path| path.strip_prefix("/apis/")).map(str::to_owned).collect()
    }
}

impl Injected {
    /// Blocks until so many requests have met the fault at each of its paths.
    ///
    /// # Panics
    /// When they do not come.
    pub fn wait_until_met(&self, times: u64) {
        let counts = |rules: &BTreeMap<u64, Rule>| rules.get(&self.number).map(|rule| rule.paths.clone());
        let waits = |rules: &mut BTreeMap<u64, Rule>| {
            counts(rules).is_some_and(|counts| counts.values().any(|count| *count < times))
        };
        let met = &self.faults.shared.met;
        let waited = met.wait_timeout_while(self.faults.rules(), PATIENCE, waits);
        let (rules, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        assert!(!waited.timed_out(), "requests that should meet the fault do not come: {:?}", counts(&rules));
    }
}

impl Drop for Injected {
    fn drop(&mut self) {
        self.faults.rules().remove(&self.number);
    }
}

fn is_below(path: &str, start: &str) -> bool {
    path.strip_prefix(start).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// A Status as API servers answer it.
fn status(code: u16) -> Value {
    let reason = match code {
        404 => "NotFound",
        410 => "Expired",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        _ => "InternalError",
    };
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code, "reason": reason,
        "message": format!("injected: {reason}")})
}

/// An API server behind the proxy.
#[derive(Debug)]
pub(crate) struct Faulty {
    pub(crate) kind: ApiKind,
    pub(crate) faults: Faults,
}

impl StartApiServer for Faulty {
    fn start(&self, lab: &Lab, options: &ApiServerOptions) -> Result<Box<dyn LabApiServer>> {
        let server = self.kind.start(lab, options)?;
        let users = (1..=NODES).map(|number| format!("node{number}")).chain(CONTROLLERS.map(str::to_owned));
        let proxy = Proxy::start(lab, options.address, &*server, users.collect(), &self.faults)?;
        Ok(Box::new(Proxied { proxy, server }))
    }
}

#[derive(Debug)]
struct Proxied {
    proxy: Proxy,
    server: Box<dyn LabApiServer>,
}

impl LabApiServer for Proxied {
    fn authority(&self) -> &Authority {
        self.server.authority()
    }

    fn port(&self) -> u16 {
        self.server.port()
    }

    fn port_for(&self, user: &str) -> u16 {
        self.proxy.port_for(user).unwrap_or_else(|| self.server.port())
    }

    fn audit_log(&self) -> Option<&std::path::Path> {
        self.server.audit_log()
    }

    fn processes(&self) -> Vec<&Process> {
        self.server.processes()
    }
}
