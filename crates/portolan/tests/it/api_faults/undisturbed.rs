//! What must not happen to pods that run: their traffic, their locks and their rows are watched throughout.

use std::collections::BTreeMap;

use kube::api::{Api, ListParams};
use kube::{Resource as _, ResourceExt as _};
use portolan_api::portolan::IPLock;
use portolan_testbed::{Heartbeat, Pod, Recording, Testbed};

/// Pods that run, watched.
pub(crate) struct Undisturbed {
    heartbeats: Vec<Heartbeat>,
    locks: BTreeMap<String, String>,
    rows: Recording,
}

impl Undisturbed {
    /// Watches from now on pods of which the first talks to the others.
    pub(crate) fn watch(testbed: &Testbed, pods: &[Pod]) -> Self {
        let heartbeats = pods[1..].iter().map(|peer| Heartbeat::between(&pods[0], peer)).collect();
        Self { heartbeats, locks: locks(testbed), rows: testbed.northbound().record() }
    }

    /// Nothing has happened to them.
    pub(crate) fn assert(self, testbed: &Testbed, after: &str) {
        self.heartbeats.iter().for_each(Heartbeat::goes_on);
        self.heartbeats.into_iter().for_each(Heartbeat::end);
        let mut now = locks(testbed);
        now.retain(|name, _| self.locks.contains_key(name));
        assert_eq!(now, self.locks, "locks of pods that ran before {after}");
        assert_eq!(self.rows.disturbed(), Vec::<String>::new(), "rows of what was there before {after}");
    }
}

/// All locks, each with its UID and version: one that was made again differs, and so does one that was written.
fn locks(testbed: &Testbed) -> BTreeMap<String, String> {
    let api = Api::<IPLock>::all(testbed.client());
    let list = testbed.wait(async move { api.list(&ListParams::default()).await }).unwrap();
    let version = |lock: &IPLock| {
        let meta = lock.meta();
        format!(
            "{} {}",
            meta.uid.clone().unwrap_or_default(),
            meta.resource_version.clone().unwrap_or_default()
        )
    };
    list.items.iter().map(|lock| (lock.name_any(), version(lock))).collect()
}
