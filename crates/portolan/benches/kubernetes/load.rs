//! What a number of pods at once costs a cluster.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::adds::Adds;
use crate::audit::{self, Writes};
use crate::components::{self, Component};
use crate::pods;
use crate::side::Side;
use crate::steps::Call;

/// What was seen.
pub(crate) struct Load {
    pub(crate) times: pods::Times,
    /// Of each pod, the calls of CNI plugins as containerd saw them, in seconds.
    pub(crate) adds: Vec<f64>,
    /// The steps of the agents' part in them.
    pub(crate) steps: Vec<Call>,
    pub(crate) created: Writes,
    pub(crate) deleted: Writes,
    /// Seconds of a core, by component, while pods came up and shortly after.
    pub(crate) cpu: BTreeMap<Component, f64>,
    /// In how many seconds.
    pub(crate) took: f64,
    /// The resident memory of the largest process of each component while the pods ran, in bytes.
    pub(crate) memory: BTreeMap<Component, u64>,
}

impl Load {
    /// Makes pods and removes them again.
    pub(crate) fn of(side: &Side, count: usize) -> Self {
        let (before, begun) = (components::now(side.lab.path()), Instant::now());
        let (adds, log) = (Adds::begin(side), audit::end(side));
        let known = side.calls().len();
        let times = side.with_client(move |client| pods::create(client, count));
        side.settle();
        let (after, took) = (components::now(side.lab.path()), begun.elapsed().as_secs_f64());
        let (adds, created) = (adds.taken(), audit::writes(side, log));
        let steps = side.calls().split_off(known);
        let log = audit::end(side);
        side.with_client(pods::delete);
        side.settle();
        assert_eq!(adds.len(), count, "containerd tells of every call");
        Self {
            times,
            adds,
            steps,
            created,
            deleted: audit::writes(side, log),
            cpu: components::cpu_between(&before, &after),
            took,
            memory: components::memory(&after),
        }
    }
}
