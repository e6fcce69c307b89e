//! A node's runtime, in place of kubelet and a container runtime: it runs the pods that are bound to its node.
//!
//! ```text
//!  watch of the node's pods ──▶ one worker per pod ──▶ life: what comes next ──▶ sandbox: netns + CNI plugins
//!                                     │                                     └──▶ containers: commands, restarts
//!                                     └──▶ status: what the API server is told
//! ```
//!
//! It is as much of a kubelet as networks need, and no more:
//!
//! - A container is its `command` and `args`, run as root on the machine's own root file system, in the pod's network namespace
//!   and with the mounts of its node. There are **no images**: the image's name is ignored, and a container without a command
//!   merely holds the sandbox.
//! - There is no isolation but that of the network: no limits, no security contexts, no process or user namespaces.
//! - There are no volumes, and of `valueFrom` only `fieldRef`. What a container needs and cannot have keeps it waiting, with the
//!   reason in its status.
//! - A container is ready when it runs. There are no probes, no hooks, no ephemeral containers, no static pods.
//! - There is no server behind it: `kubectl logs`, `exec` and `port-forward` have nobody to talk to. `portolan lab` does these.
//! - A node is ready from the moment it is made, and sends no heartbeats.
//!
//! The plugins are called as every runtime calls them: the node's first list in `/etc/cni/net.d`, plugins in `/opt/cni/bin`, ADD
//! once per sandbox, DEL until it succeeds. Nothing here polls; timers are pauses after failures, and grace periods.

mod binder;
mod child;
mod cni;
mod container;
mod environment;
mod life;
mod node_object;
mod sandbox;
mod status;
mod worker;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1 as core;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::events::{Recorder, Reporter};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt as _};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

pub(crate) use binder::bind;
pub(crate) use node_object::{apply as make_node_object, remove as remove_nodes};

use crate::error::Result;
use crate::namespace::Namespace;
use crate::runtime::sandbox::PodId;
use crate::runtime::worker::{Record, Seen};

/// The runtime of a node, running or not.
#[derive(Debug)]
pub struct NodeRuntime {
    shared: Arc<Shared>,
    tasks: Handle,
    running: Mutex<Option<AbortHandle>>,
}

/// What a runtime has to know.
pub(crate) struct Config {
    /// The node's name.
    pub(crate) name: String,
    /// Its address.
    pub(crate) address: Ipv4Addr,
    /// Its namespaces.
    pub(crate) namespace: Namespace,
    /// Where containers' logs go.
    pub(crate) logs: PathBuf,
    pub(crate) client: Client,
}

/// What workers share.
pub(crate) struct Shared {
    config: Config,
    recorder: Recorder,
    records: Mutex<HashMap<String, Arc<Record>>>,
    sandboxes: AtomicU32,
}

/// Where a pod can be entered, and where its containers' logs are.
#[derive(Clone, Debug)]
pub struct PodPlace {
    /// Its network namespace, with the mounts of its node. None before it has its network, and after it has ended.
    pub netns: Option<Namespace>,
    /// Its containers in order, init containers last.
    pub containers: Vec<ContainerPlace>,
}

/// What can be known of a container from outside.
#[derive(Clone, Debug)]
pub struct ContainerPlace {
    /// Its name.
    pub name: String,
    /// The file that holds what it wrote to its standard output and error, over all its runs.
    pub log: PathBuf,
    /// The environment of its last run.
    pub environment: Vec<(String, String)>,
}

impl NodeRuntime {
    /// Runs what is bound to the node.
    pub(crate) fn start(config: Config, tasks: Handle) -> Self {
        let reporter = Reporter { controller: "portolan-lab".into(), instance: Some(config.name.clone()) };
        let shared = Arc::new(Shared {
            recorder: Recorder::new(config.client.clone(), reporter),
            config,
            records: Mutex::default(),
            sandboxes: AtomicU32::new(0),
        });
        let runtime = Self { shared, tasks, running: Mutex::default() };
        runtime.resume();
        runtime
    }

    /// Puts the node's network configuration and the plugin in place.
    pub(crate) fn install_plugin(node: &Namespace, plugin: &Path) -> Result<()> {
        cni::install(node, plugin)
    }

    /// Asks the plugins of the node whether they could serve a pod; the reason why not.
    pub(crate) async fn plugin_status(node: &Namespace) -> Result<(), String> {
        cni::status(node).await.map_err(|failure| failure.to_string())
    }

    /// Its node's name.
    pub fn node(&self) -> &str {
        &self.shared.config.name
    }

    /// Whether it runs.
    pub fn is_alive(&self) -> bool {
        self.running().is_some()
    }

    /// Ends it as a crash would: whatever it was about to do is not done. Pods stay as they are, and run on.
    pub fn kill(&self) {
        if let Some(task) = self.running().take() {
            task.abort();
        }
    }

    /// Starts it again after [`NodeRuntime::kill`]. It goes on with the pods that are there.
    pub fn resume(&self) {
        let mut running = self.running();
        if running.is_none() {
            *running = Some(self.tasks.spawn(run(Arc::clone(&self.shared))).abort_handle());
        }
    }

    /// Where a pod of the node is; none if it is not of this node.
    pub fn pod(&self, namespace: &str, name: &str) -> Option<PodPlace> {
        let records = self.shared.records();
        let places = records
            .values()
            .filter(|record| record.pod.namespace == namespace && record.pod.name == name)
            .map(|record| {
                let view = record.view();
                let place = |(name, environment): (String, _)| {
                    let log = self.shared.log_of(&record.pod, &name);
                    ContainerPlace { name, log, environment }
                };
                PodPlace { netns: view.netns, containers: view.containers.into_iter().map(place).collect() }
            });
        // Of two pods of one name the one that runs is meant: the other is on its way out, or has not begun.
        places.max_by_key(|place| place.netns.is_some())
    }

    /// The pods that have a network, as `namespace/name`, with its namespace.
    pub fn networks(&self) -> Vec<(String, Namespace)> {
        let records = self.shared.records();
        records.values().filter_map(|record| Some((record.pod.to_string(), record.view().netns?))).collect()
    }

    /// The names of the pods that have a network, as `namespace/name`.
    pub fn pod_names(&self) -> Vec<String> {
        let mut names: Vec<_> = self.networks().into_iter().map(|(name, _)| name).collect();
        names.sort();
        names
    }

    /// How many pods it has.
    pub fn pods(&self) -> usize {
        self.shared.records().len()
    }

    fn running(&self) -> MutexGuard<'_, Option<AbortHandle>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for NodeRuntime {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Follows the pods of a node. Workers end with the future.
async fn run(shared: Arc<Shared>) {
    let config = watcher::Config::default().fields(&format!("spec.nodeName={}", shared.config.name));
    let mut events = pin!(watcher(Api::<core::Pod>::all(shared.client()), config).default_backoff());
    let mut followed = Followed { workers: JoinSet::new(), pods: HashMap::new() };
    let mut listed = Vec::new();
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            Some(_) = followed.workers.join_next() => continue,
        };
        match event {
            Some(Ok(Event::Init)) => listed.clear(),
            Some(Ok(Event::InitApply(pod))) => listed.push(pod),
            Some(Ok(Event::InitDone)) => followed.reset(&shared, std::mem::take(&mut listed)),
            Some(Ok(Event::Apply(pod))) => followed.show(&shared, &id_of(&pod), Some(Arc::new(pod))),
            Some(Ok(Event::Delete(pod))) => followed.show(&shared, &id_of(&pod), None),
            Some(Err(error)) => {
                tracing::warn!(
                    node = shared.config.name,
                    error = &error as &dyn std::error::Error,
                    "the watch broke"
                );
            }
            None => return,
        }
    }
}

/// The pods of a node with those who work on them.
struct Followed {
    workers: JoinSet<()>,
    pods: HashMap<String, watch::Sender<Seen>>,
}

impl Followed {
    /// Takes the list for all there is: pods that are known and not in it are gone.
    fn reset(&mut self, shared: &Arc<Shared>, listed: Vec<core::Pod>) {
        let known: Vec<_> = shared.records().values().map(|record| record.pod.clone()).collect();
        let is_listed = |id: &PodId| listed.iter().any(|pod| pod.metadata.uid.as_ref() == Some(&id.uid));
        for gone in known.iter().filter(|id| !is_listed(id)) {
            self.show(shared, gone, None);
        }
        for pod in listed {
            self.show(shared, &id_of(&pod), Some(Arc::new(pod)));
        }
    }

    /// Shows a pod to its worker.
    fn show(&mut self, shared: &Arc<Shared>, id: &PodId, seen: Seen) {
        self.pods.retain(|_, pod| pod.receiver_count() > 0);
        if let Some(pod) = self.pods.get(&id.uid) {
            pod.send_replace(seen);
            return;
        }
        // Of a pod that is gone and of which there is nothing, there is nothing to do.
        if seen.is_none() && !shared.records().contains_key(&id.uid) {
            return;
        }
        let record = Arc::clone(
            shared.records().entry(id.uid.clone()).or_insert_with(|| Arc::new(Record::new(id.clone()))),
        );
        let (pod, receiver) = watch::channel(seen);
        self.pods.insert(id.uid.clone(), pod);
        self.workers.spawn(worker::work(Arc::clone(shared), record, receiver));
    }
}

fn id_of(pod: &core::Pod) -> PodId {
    PodId {
        namespace: pod.namespace().unwrap_or_default(),
        name: pod.name_any(),
        uid: pod.uid().unwrap_or_default(),
    }
}

impl std::fmt::Display for PodId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl Shared {
    fn client(&self) -> Client {
        self.config.client.clone()
    }

    fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    fn node(&self) -> &Namespace {
        &self.config.namespace
    }

    fn address(&self) -> IpAddr {
        self.config.address.into()
    }

    /// A name for the next sandbox of a pod, which no sandbox has had before.
    fn sandbox_id(&self, pod: &PodId) -> String {
        let attempt = self.sandboxes.fetch_add(1, Ordering::Relaxed);
        format!("{}-{attempt}", pod.uid.replace('-', ""))
    }

    fn log_of(&self, pod: &PodId, container: &str) -> PathBuf {
        self.config.logs.join(format!("{}_{}_{}_{container}.log", pod.namespace, pod.name, pod.uid))
    }

    fn records(&self) -> MutexGuard<'_, HashMap<String, Arc<Record>>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget(&self, uid: &str) {
        self.records().remove(uid);
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("node", &self.config.name).finish_non_exhaustive()
    }
}
