//! The steps of a call: which one it is at, how long each took, and a hook for whoever wants to know at once.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use portolan_plan::host::Change;

use crate::metrics::{Metrics, change_name};

/// A step of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// ADD waits for OVN's bridge.
    Bridge,
    /// ADD makes a pair of links.
    Link,
    /// ADD waits for the pod's addresses.
    Locks,
    /// ADD sets addresses and routes in the pod.
    Configure,
    /// ADD waits for the port in Open vSwitch.
    Plug,
    /// ADD waits for OVN to install the port.
    Installed,
    /// ADD announces the pod's addresses.
    Announce,
    /// A failed ADD is undone.
    Undo,
    /// What a call made is removed: by DEL, by GC, or to undo an ADD.
    Remove,
    /// The pair of links is made: a part of [`Step::Link`], as the next two.
    Pair,
    /// The node's end of the pair is guarded.
    Guard,
    /// The sandbox is noted on it, and it is set up.
    Note,
    /// A virtual function is noted on its representor, which gets its name: a part of [`Step::Link`], as the next one.
    NoteFunction,
    /// The link of a virtual function goes into the pod.
    MoveFunction,
    /// The link of a virtual function is brought back: a part of [`Step::Remove`], as the next one.
    ReturnFunction,
    /// The representor of a virtual function gets its own name again.
    ReleaseFunction,
}

impl Step {
    /// Those of every call, in the order in which they usually begin.
    pub const ALL: [Step; 9] = [
        Step::Bridge,
        Step::Link,
        Step::Locks,
        Step::Configure,
        Step::Plug,
        Step::Installed,
        Step::Announce,
        Step::Undo,
        Step::Remove,
    ];

    /// Those that [`Step::Link`] consists of.
    pub const OF_LINKS: [Step; 3] = [Step::Pair, Step::Guard, Step::Note];

    /// Those of virtual functions besides.
    pub const OF_FUNCTIONS: [Step; 4] =
        [Step::NoteFunction, Step::MoveFunction, Step::ReturnFunction, Step::ReleaseFunction];

    /// Its name, as logs and metrics have it.
    pub fn name(self) -> &'static str {
        match self {
            Step::Bridge => "bridge",
            Step::Link => "link",
            Step::Locks => "locks",
            Step::Configure => "configure",
            Step::Plug => "plug",
            Step::Installed => "installed",
            Step::Announce => "announce",
            Step::Undo => "undo",
            Step::Remove => "remove",
            Step::Pair => "pair",
            Step::Guard => "guard",
            Step::Note => "note",
            Step::NoteFunction => "note-function",
            Step::MoveFunction => "move-function",
            Step::ReturnFunction => "return-function",
            Step::ReleaseFunction => "release-function",
        }
    }

    /// True if a thread does it, by calls of the kernel.
    fn works(self) -> bool {
        matches!(self, Step::Link | Step::Configure | Step::Announce)
    }

    /// The one of this name.
    pub fn parse(name: &str) -> Option<Self> {
        let all = Self::ALL.into_iter().chain(Self::OF_LINKS).chain(Self::OF_FUNCTIONS);
        all.into_iter().find(|step| step.name() == name)
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// When a step is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Moment {
    /// Before it does anything.
    Began,
    /// After it. A step that is given up does not end, nor does work on links that fails.
    Ended,
}

/// A call is at a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtStep<'a> {
    /// The container of the call.
    pub container: &'a str,
    /// The step.
    pub step: Step,
    /// Whether it begins or has ended.
    pub moment: Moment,
}

/// Called at every step of every call. For [`Step::Link`] with its parts, [`Step::Configure`], [`Step::Announce`] and those of functions that
/// is on the thread which does the work, so it may block like the kernel does; otherwise it must not.
#[derive(Clone)]
pub struct StepHook(Arc<dyn Fn(AtStep<'_>) + Send + Sync>);

impl StepHook {
    /// A hook that calls this.
    pub fn new(hook: impl Fn(AtStep<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(hook))
    }
}

/// A change of a port or a link of the node is at hand, or done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtChange<'a> {
    /// The port or link.
    pub link: &'a str,
    /// Which change, as metrics name it.
    pub change: &'a str,
    /// Before or after it. One that fails does not end.
    pub moment: Moment,
}

/// Called before and after every change of the node that is not a step of a call.
#[derive(Clone)]
pub struct ChangeHook(Arc<dyn Fn(AtChange<'_>) + Send + Sync>);

impl ChangeHook {
    /// A hook that calls this.
    pub fn new(hook: impl Fn(AtChange<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(hook))
    }

    pub(crate) fn at(&self, change: &Change, moment: Moment) {
        (self.0)(AtChange { link: change.unit().as_str(), change: change_name(change), moment });
    }
}

impl Default for ChangeHook {
    /// Does nothing.
    fn default() -> Self {
        Self::new(|_| {})
    }
}

impl fmt::Debug for ChangeHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChangeHook")
    }
}

impl Default for StepHook {
    /// Does nothing.
    fn default() -> Self {
        Self::new(|_| {})
    }
}

impl fmt::Debug for StepHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StepHook")
    }
}

/// Reports the steps of the calls for one container.
#[derive(Clone, Debug)]
pub(crate) struct Reporter {
    hook: StepHook,
    container: Arc<str>,
}

impl Reporter {
    pub(crate) fn new(hook: &StepHook, container: &str) -> Self {
        Self { hook: hook.clone(), container: container.into() }
    }

    /// A call is at a step.
    pub(crate) fn at(&self, step: Step, moment: Moment) {
        (self.hook.0)(AtStep { container: &self.container, step, moment });
    }

    /// Runs a step that blocks.
    pub(crate) fn during_work<T, E>(&self, step: Step, body: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        self.at(step, Moment::Began);
        let outcome = body();
        if outcome.is_ok() {
            self.at(step, Moment::Ended);
        }
        outcome
    }

    /// Runs a step that waits.
    pub(crate) async fn during<T>(&self, step: Step, body: impl Future<Output = T>) -> T {
        self.at(step, Moment::Began);
        let outcome = body.await;
        self.at(step, Moment::Ended);
        outcome
    }
}

/// The steps of one ADD. Interfaces go through them side by side; of each step the longest counts.
#[derive(Debug)]
pub(crate) struct Steps {
    pub(crate) reporter: Reporter,
    began: Instant,
    taken: Mutex<BTreeMap<Step, Duration>>,
    waiting_for: Mutex<Vec<(Step, String)>>,
    metrics: Metrics,
}

impl Steps {
    pub(crate) fn new(reporter: Reporter, metrics: Metrics) -> Self {
        let (taken, waiting_for) = (Mutex::default(), Mutex::default());
        Self { reporter, began: Instant::now(), taken, waiting_for, metrics }
    }

    /// Runs a step that waits. Until it ends, the call waits for `waiting_for`.
    pub(crate) async fn wait<T>(&self, step: Step, waiting_for: String, body: impl Future<Output = T>) -> T {
        self.time(step, waiting_for, self.reporter.during(step, body)).await
    }

    /// Takes the time of a step that reports itself. Until it ends, the call waits for `waiting_for`.
    pub(crate) async fn time<T>(&self, step: Step, waiting_for: String, body: impl Future<Output = T>) -> T {
        let began = Instant::now();
        let waiting = (step, waiting_for);
        self.waiting_for.lock().unwrap_or_else(PoisonError::into_inner).push(waiting.clone());
        let outcome = body.await;
        self.waiting_for.lock().unwrap_or_else(PoisonError::into_inner).retain(|one| *one != waiting);
        let took = began.elapsed();
        self.metrics.step(step, took);
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let longest = taken.entry(step).or_default();
        *longest = (*longest).max(took);
        outcome
    }

    /// What the call waits for now.
    pub(crate) fn waiting_for(&self) -> Vec<String> {
        let waiting_for = self.waiting_for.lock().unwrap_or_else(PoisonError::into_inner);
        waiting_for.iter().map(|(_, what)| what.clone()).collect()
    }

    /// What threads of the call work on now.
    pub(crate) fn at_work(&self) -> Vec<String> {
        let waiting_for = self.waiting_for.lock().unwrap_or_else(PoisonError::into_inner);
        let at_work = waiting_for.iter().filter(|(step, _)| step.works());
        at_work.map(|(step, what)| format!("the kernel has not finished step {step} ({what})")).collect()
    }

    /// Logs how long each step took, as the event `cni.add`.
    pub(crate) fn report(&self, sandbox: &str, pod: &str) {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let ms = |duration: Duration| duration.as_secs_f64() * 1000.0;
        let step = |step: Step| taken.get(&step).copied().map(ms);
        tracing::debug!(
            name: "cni.add",
            sandbox,
            pod,
            bridge_ms = step(Step::Bridge),
            locks_ms = step(Step::Locks),
            link_ms = step(Step::Link),
            configure_ms = step(Step::Configure),
            plug_ms = step(Step::Plug),
            installed_ms = step(Step::Installed),
            announce_ms = step(Step::Announce),
            total_ms = ms(self.began.elapsed()),
            "cni.add"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_found_by_its_name() {
        for step in Step::ALL.into_iter().chain(Step::OF_LINKS).chain(Step::OF_FUNCTIONS) {
            assert_eq!(Step::parse(step.name()), Some(step));
        }
        assert_eq!(Step::parse("pod"), None);
    }
}
