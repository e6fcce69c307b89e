//! What an onlooker sees of locks and of OVN, change by change, and what must never be seen.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, ListParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, Resource, ResourceExt as _};
use ovn_schema::nb::LogicalSwitchPort;
use ovsdb::Cache;
use portolan_api::nad::NetworkAttachmentDefinition;
use portolan_api::portolan::{HolderKind, IPLock};
use portolan_api::{kubeovn, portolan};
use portolan_model::World;
use portolan_plan::comparison::Picture;
use portolan_plan::northbound::{DATABASE, plan};
use portolan_plan::{Plan, Settings};
use portolan_testbed::{Northbound, Testbed};
use serde::de::DeserializeOwned;
use tokio::sync::watch;

/// How long what must come is waited for.
const PATIENCE: Duration = Duration::from_secs(90);

/// The UIDs of pods that are being deleted, or were: their locks may go.
#[derive(Clone, Default)]
pub(crate) struct Departures(Arc<Mutex<BTreeSet<String>>>);

impl Departures {
    pub(crate) fn add(&self, uid: &str) {
        self.all().insert(uid.to_owned());
    }

    fn all(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Clone)]
pub(crate) struct Observer {
    testbed: Testbed,
    northbound: Northbound,
    seen: Arc<Seen>,
    /// How many changes were seen.
    count: watch::Sender<u64>,
}

#[derive(Default)]
struct Seen {
    departures: Departures,
    locks: Mutex<BTreeMap<String, IPLock>>,
    released: Mutex<usize>,
    violations: Mutex<Vec<String>>,
}

impl Observer {
    pub(crate) fn start(testbed: &Testbed) -> Self {
        let observer = Observer {
            testbed: testbed.clone(),
            northbound: testbed.northbound(),
            seen: Arc::default(),
            count: watch::Sender::new(0),
        };
        let (locks, ports) = (observer.clone(), observer.clone());
        testbed.wait(async move {
            tokio::spawn(locks.follow_locks());
            tokio::spawn(ports.follow_ports());
        });
        observer
    }

    pub(crate) fn departures(&self) -> Departures {
        self.seen.departures.clone()
    }

    /// How many changes were seen so far.
    pub(crate) fn count(&self) -> u64 {
        *self.count.borrow()
    }

    pub(crate) fn released(&self) -> usize {
        *self.seen.released.lock().unwrap()
    }

    pub(crate) fn violations(&self) -> Vec<String> {
        self.seen.violations.lock().unwrap().clone()
    }

    /// Waits until so many changes were seen, or until there are no more to come.
    pub(crate) fn wait_for(&self, count: u64, living: &BTreeMap<String, String>) {
        self.wait_until(
            move |observer, living| observer.count() >= count || observer.missing(living).is_empty(),
            living,
        );
    }

    /// Waits until every pod has its lock and its port, and nobody else has one.
    pub(crate) fn settled(&self, living: &BTreeMap<String, String>) {
        self.wait_until(|observer, living| observer.missing(living).is_empty(), living);
    }

    fn wait_until(
        &self,
        is_so: impl Fn(&Observer, &BTreeMap<String, String>) -> bool + Send + Sync + 'static,
        living: &BTreeMap<String, String>,
    ) {
        let (observer, pods) = (self.clone(), living.clone());
        let came = self.testbed.wait(async move {
            let mut count = observer.count.subscribe();
            let wait = async {
                while !is_so(&observer, &pods) {
                    count.changed().await.unwrap();
                }
            };
            tokio::time::timeout(PATIENCE, wait).await.is_ok()
        });
        assert!(came, "it does not come to rest: {:#?}", self.missing(living));
    }

    /// What is not yet as it should be with these pods.
    fn missing(&self, living: &BTreeMap<String, String>) -> Vec<String> {
        let mut missing = Vec::new();
        let mut locks: BTreeMap<String, usize> = BTreeMap::new();
        for lock in self.seen.locks.lock().unwrap().values() {
            if lock.spec.holder.kind == HolderKind::Pod {
                *locks.entry(lock.spec.holder.uid.clone()).or_default() += 1;
            }
        }
        let units = self.northbound.units();
        let of_pods = units.iter().filter_map(|unit| unit.strip_prefix("attachment/pod/default/"));
        let mut ports: BTreeSet<&str> = of_pods.filter_map(|unit| unit.split('/').next()).collect();
        for (name, uid) in living {
            match locks.remove(uid) {
                Some(1) => {}
                other => missing.push(format!("{name} has {} locks", other.unwrap_or(0))),
            }
            if !ports.remove(name.as_str()) {
                missing.push(format!("{name} has no port"));
            }
        }
        missing.extend(locks.keys().map(|uid| format!("a lock of {uid}, which is gone")));
        missing.extend(ports.iter().map(|name| format!("a port of {name}, which is gone")));
        missing
    }

    fn violation(&self, what: String) {
        self.seen.violations.lock().unwrap().push(what);
    }

    async fn follow_locks(self) {
        let api = Api::<IPLock>::all(self.testbed.client());
        let events = watcher(api, watcher::Config::default()).default_backoff();
        let mut events = std::pin::pin!(events);
        let mut listed = BTreeMap::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(watcher::Event::Init) => listed.clear(),
                Ok(watcher::Event::InitApply(lock)) => drop(listed.insert(lock.name_any(), lock)),
                Ok(watcher::Event::InitDone) => {
                    let known: Vec<_> = self.seen.locks.lock().unwrap().values().cloned().collect();
                    let is_gone = |lock: &IPLock| {
                        listed.get(&lock.name_any()).is_none_or(|new| new.uid() != lock.uid())
                    };
                    known.iter().filter(|lock| is_gone(lock)).for_each(|lock| self.released_lock(lock));
                    self.seen.locks.lock().unwrap().append(&mut listed);
                }
                Ok(watcher::Event::Apply(lock)) => {
                    self.seen.locks.lock().unwrap().insert(lock.name_any(), lock);
                }
                Ok(watcher::Event::Delete(lock)) => self.released_lock(&lock),
                // The API server is away; the watcher tries again.
                Err(_) => continue,
            }
            self.count.send_modify(|count| *count += 1);
        }
    }

    fn released_lock(&self, lock: &IPLock) {
        let mut locks = self.seen.locks.lock().unwrap();
        locks.remove(&lock.name_any());
        let holder = &lock.spec.holder;
        if holder.kind != HolderKind::Pod {
            return;
        }
        *self.seen.released.lock().unwrap() += 1;
        // Of two locks of one interface the older one counts; the other may go.
        let is_older = |other: &IPLock| version(other) < version(lock);
        let is_double = locks.values().any(|other| other.spec.holder == *holder && is_older(other));
        if !is_double && !self.seen.departures.all().contains(&holder.uid) {
            self.violation(format!("{} of {}, which lives, was deleted", lock.name_any(), holder.name));
        }
    }

    async fn follow_ports(self) {
        let mut changes = self.northbound.client().changes();
        while changes.next().await.is_some() {
            for (address, ports) in doubled(&self.northbound.client().read()) {
                self.violation(format!("{address} is that of {ports:?} at once"));
            }
            self.count.send_modify(|count| *count += 1);
        }
    }

    /// The northbound database comes to be what is planned of the objects that there are, and nothing else. A controller that lags may write
    /// what it does not know to be over, and takes that back.
    pub(crate) fn assert_fresh_plan(&self) {
        let mut count = self.count.subscribe();
        loop {
            count.mark_unchanged();
            let differences = self.differences();
            if differences.is_empty() {
                return;
            }
            let mut changed = count.clone();
            let came = self
                .testbed
                .wait(async move { tokio::time::timeout(PATIENCE, changed.changed()).await.is_ok() });
            assert!(came, "OVN is not as planned:\n{}", differences.join(""));
        }
    }

    /// How the northbound database differs from what is planned.
    fn differences(&self) -> Vec<String> {
        let client = self.testbed.client();
        let world = self.testbed.wait(async move { world(&client).await });
        let mut planned = Picture::default();
        for unit in world.units() {
            match plan(&unit, &world, &Settings::default()) {
                Plan::Desired(rows) => planned.add(&rows),
                other => panic!("{unit}: {other:?}"),
            }
        }
        let cache = self.northbound.client().read();
        let units = Northbound::units_in(&cache).iter().map(Into::into).collect();
        let differences = Picture::of_database(&DATABASE, &cache, &units).compare(&planned);
        differences.iter().map(ToString::to_string).collect()
    }
}

fn version(lock: &IPLock) -> u64 {
    lock.resource_version().unwrap_or_default().parse().unwrap_or(u64::MAX)
}

/// Addresses that several ports have. Those of the subnets here all differ.
fn doubled(cache: &Cache) -> BTreeMap<String, BTreeSet<String>> {
    let mut holders: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (_, port) in cache.rows::<LogicalSwitchPort>() {
        let port = port.unwrap();
        for address in port.addresses.iter().filter_map(|addresses| addresses.split_once(' ')) {
            holders.entry(address.1.to_owned()).or_default().insert(port.name.clone());
        }
    }
    holders.retain(|_, ports| ports.len() > 1);
    holders
}

async fn world(client: &Client) -> World {
    async fn add<K>(client: &Client, world: &mut World)
    where
        K: Resource<DynamicType = ()> + portolan_model::Source + Clone + DeserializeOwned + std::fmt::Debug,
    {
        let listed = Api::<K>::all(client.clone()).list(&ListParams::default()).await.unwrap();
        drop(world.reset(&listed.items));
    }
    let mut world = World::default();
    add::<portolan::Vpc>(client, &mut world).await;
    add::<kubeovn::Vpc>(client, &mut world).await;
    add::<portolan::Subnet>(client, &mut world).await;
    add::<kubeovn::Subnet>(client, &mut world).await;
    add::<NetworkAttachmentDefinition>(client, &mut world).await;
    add::<Node>(client, &mut world).await;
    add::<Pod>(client, &mut world).await;
    add::<IPLock>(client, &mut world).await;
    world
}
