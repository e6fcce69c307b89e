//! Nodes are examined by a DaemonSet that lasts as long as they take: its pods report in their logs, which the API server hands on.
//!
//! Before an installation it is in `kube-system`, where privileged pods may run. It is removed however the command ends; what a command left that
//! was killed is removed by the next. There is one at a time.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::Context as _;
use flate2::read::MultiGzDecoder;
use futures::{AsyncBufReadExt as _, StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, LogParams, Preconditions};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, ResourceExt as _};
use portolan_agent::examine::report::Line;
use portolan_manifests::{EXAMINATION, Examination, Extent, Installation, Mode, State, examination};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::facts::{Examined, Facts, Node};
use crate::cluster::Cluster;
use crate::exit::{Exit, Failure};
use crate::install::apply::{Applier, Trial};
use crate::install::rollout::{wait_for_end, why_not_ready};
use crate::output::plain;
use crate::waiting::Waiting;

/// Where privileged pods may run in any cluster.
const BEFORE_INSTALLATION: &str = "kube-system";
/// How long nodes wait for each other, in seconds: their pods do not start at the same moment.
const PATIENCE: u32 = 15;
/// How much of what a node sends is taken.
const MOST_LINES: usize = 4096;
/// What a file of a node may have, once it is not compressed any more.
const MOST_OF_A_FILE: u64 = 64 << 20;
/// What a container waits for that will not come by itself within seconds.
const HOPELESS: [&str; 6] = [
    "CreateContainerConfigError",
    "CreateContainerError",
    "ErrImageNeverPull",
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
];

/// Examines all nodes. What could not be had of a node is said there; an error is only that somebody stopped it.
pub(super) async fn examine(
    cluster: &Cluster,
    facts: &Facts,
    image: Option<&str>,
    extent: Extent,
    patience: Duration,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<BTreeMap<String, Examined>> {
    let _waiting = Waiting::start("examining the nodes");
    let mut nodes: BTreeMap<String, Examined> = BTreeMap::new();
    for node in facts.all_nodes().filter(|node| node.is_linux) {
        let problem =
            (!node.is_alive()).then(|| "its kubelet does not answer, so it was not waited for".to_owned());
        nodes.insert(node.name.clone(), Examined { problem, ..Examined::default() });
    }
    let run = Run {
        cluster,
        namespace: namespace(facts),
        deadline: Instant::now() + patience,
        made: OnceLock::new(),
    };
    // Whatever happens from here on, the DaemonSet does not stay.
    let outcome = tokio::select! {
        outcome = run.all(facts, image, extent, &mut nodes) => Some(outcome),
        () = stop => None,
    };
    let removed = run.remove_own().await;
    match outcome {
        None => {
            removed?;
            Err(Failure::with(Exit::Failed, "stopped; what ran on nodes was removed"))
        }
        Some(outcome) => {
            if let Err(error) = outcome.and(removed) {
                let why = format!("{error:#}");
                for one in nodes.values_mut().filter(|one| one.facts.is_none()) {
                    one.problem.get_or_insert_with(|| why.clone());
                }
            }
            Ok(nodes)
        }
    }
}

fn namespace(facts: &Facts) -> &str {
    if facts.installed().is_some() { &facts.namespace } else { BEFORE_INSTALLATION }
}

struct Run<'a> {
    cluster: &'a Cluster,
    namespace: &'a str,
    deadline: Instant,
    /// The UID of the DaemonSet, once there is one.
    made: OnceLock<String>,
}

impl Run<'_> {
    async fn all(
        &self,
        facts: &Facts,
        image: Option<&str>,
        extent: Extent,
        nodes: &mut BTreeMap<String, Examined>,
    ) -> anyhow::Result<()> {
        // What an earlier command left.
        for namespace in [BEFORE_INSTALLATION, &facts.namespace] {
            if self.remove(namespace).await? {
                wait_for_end(self.cluster, namespace, EXAMINATION, &[], Duration::from_secs(30)).await?;
            }
        }
        let object = examination(&self.installation(facts, image), &self.what(facts, extent))
            .map_err(|error| Failure::usage(error.to_string()))?;
        Applier::new(self.cluster, Trial::Real).apply(&object).await?;
        let uid =
            self.uid(self.namespace).await?.context("the DaemonSet was removed by somebody else at once")?;
        let uid = self.made.get_or_init(|| uid);
        self.follow(uid, nodes).await
    }

    fn installation(&self, facts: &Facts, image: Option<&str>) -> Installation {
        let mode = match facts.installed() {
            Some(installed) if installed.is_primary => Mode::Primary,
            _ => Mode::Secondary,
        };
        let mut installation = Installation::new(mode);
        self.namespace.clone_into(&mut installation.namespace);
        if let Some(installed) = facts.installed() {
            installation.image.clone_from(&installed.image);
            if let Some([configurations, programs]) = &installed.directories {
                installation.directories.configurations.clone_from(configurations);
                installation.directories.programs.clone_from(programs);
            }
        }
        if let Some(image) = image {
            image.clone_into(&mut installation.image);
        }
        installation
    }

    fn what(&self, facts: &Facts, extent: Extent) -> Examination {
        let nodes = facts.all_nodes().filter(|node| node.is_linux);
        let addresses = nodes.clone().filter_map(|node| Some((node.name.clone(), node.tunnel_address()?)));
        let outer = |mtu: u32| nodes.clone().map(|node: &Node| node.outer_size(mtu)).max();
        Examination {
            nodes: addresses.collect(),
            packet: facts.pod_mtu().and_then(outer),
            // Different for each run, which is enough: nobody is kept out by it.
            nonce: std::process::id()
                ^ u32::try_from(facts.now & 0xffff_ffff).unwrap_or_default().rotate_left(8),
            patience: PATIENCE,
            state: if facts.installed().is_some() { State::Installed } else { State::Absent },
            extent,
        }
    }

    /// Reads what the pods report, until all have or the time is up.
    async fn follow(&self, uid: &str, nodes: &mut BTreeMap<String, Examined>) -> anyhow::Result<()> {
        let pods: Api<Pod> = Api::namespaced(self.cluster.client.clone(), self.namespace);
        let client = self.cluster.patient_client(Duration::from_secs(60))?;
        let logs: Api<Pod> = Api::namespaced(client, self.namespace);
        let of_examination = watcher::Config::default().labels(&format!("app={EXAMINATION}"));
        let mut seen = std::pin::pin!(watcher(pods, of_examination).default_backoff().applied_objects());
        let mut reading: BTreeMap<String, String> = BTreeMap::new();
        let mut waiting: BTreeMap<String, String> = BTreeMap::new();
        let mut readers = JoinSet::new();
        let mut left: Vec<String> =
            nodes.iter().filter(|(_, one)| one.problem.is_none()).map(|(name, _)| name.clone()).collect();
        while !left.is_empty() {
            let next = async {
                tokio::select! {
                    Some(read) = readers.join_next() => Next::Read(read.context("read a log")),
                    pod = seen.next() => Next::Pod(pod.map(|pod| pod.map(Box::new))),
                }
            };
            match timeout_at(self.deadline, next).await {
                Err(_) => break,
                Ok(Next::Read(read)) => {
                    let (node, examined) = read?;
                    left.retain(|name| *name != node);
                    nodes.insert(node, *examined);
                }
                // Those of an earlier one may not have ended yet.
                Ok(Next::Pod(Some(Ok(pod)))) if !is_of(&pod, uid) => {}
                Ok(Next::Pod(Some(Ok(pod)))) => {
                    let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()) else {
                        continue;
                    };
                    if let Some(why) = why_not_ready(&pod) {
                        waiting.insert(node.clone(), why);
                    }
                    if is_running(&pod) && !reading.contains_key(&node) {
                        reading.insert(node.clone(), pod.name_any());
                        let (logs, name, deadline) = (logs.clone(), pod.name_any(), self.deadline);
                        readers.spawn(async move { (node, Box::new(read(&logs, &name, deadline).await)) });
                    } else if let Some(why) = is_hopeless(&pod)
                        && left.contains(&node)
                    {
                        left.retain(|name| *name != node);
                        nodes.entry(node).or_default().problem = Some(why);
                    }
                }
                // It begins anew by itself.
                Ok(Next::Pod(Some(Err(_)))) => {}
                Ok(Next::Pod(None)) => break,
            }
        }
        let nobody = if left.is_empty() { None } else { self.why_no_pod(uid).await };
        for name in left {
            let one = nodes.entry(name.clone()).or_default();
            let pod = waiting.get(&name).map(|why| format!("its pod has not begun: {why}"));
            let why =
                pod.or_else(|| nobody.clone()).unwrap_or_else(|| "it has not answered in time".to_owned());
            one.problem = Some(why);
        }
        Ok(())
    }

    /// What the DaemonSet's Events say, if it could not make pods.
    async fn why_no_pod(&self, uid: &str) -> Option<String> {
        let events = self.cluster.events(uid).await.ok()?;
        let failed =
            events.into_iter().rev().find(|event| event.reason.as_deref() == Some("FailedCreate"))?;
        Some(plain(&failed.message?))
    }

    async fn uid(&self, namespace: &str) -> anyhow::Result<Option<String>> {
        let found = self.daemon_sets(namespace).get_metadata_opt(EXAMINATION).await;
        let found = found.map_err(|error| self.cluster.explain(&title(namespace), &error))?;
        Ok(found.and_then(|found| found.uid()))
    }

    fn daemon_sets(&self, namespace: &str) -> Api<DaemonSet> {
        Api::namespaced(self.cluster.client.clone(), namespace)
    }

    /// Removes the DaemonSet that this command made: somebody else's may have taken its place.
    async fn remove_own(&self) -> anyhow::Result<bool> {
        match self.made.get() {
            Some(uid) => self.delete(self.namespace, uid.clone()).await,
            None => self.remove(self.namespace).await,
        }
    }

    /// Removes the DaemonSet with its pods; false if there was none.
    async fn remove(&self, namespace: &str) -> anyhow::Result<bool> {
        match self.uid(namespace).await? {
            Some(uid) => self.delete(namespace, uid).await,
            None => Ok(false),
        }
    }

    async fn delete(&self, namespace: &str, uid: String) -> anyhow::Result<bool> {
        let preconditions = Preconditions { uid: Some(uid), resource_version: None };
        let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::background() };
        match self.daemon_sets(namespace).delete(EXAMINATION, &parameters).await {
            Ok(_) => Ok(true),
            // It is gone, or another one.
            Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => Ok(false),
            Err(error) => Err(self.cluster.explain(&title(namespace), &error)),
        }
    }
}

fn title(namespace: &str) -> String {
    format!("DaemonSet {namespace}/{EXAMINATION}")
}

fn is_of(pod: &Pod, uid: &str) -> bool {
    pod.owner_references().iter().any(|owner| owner.uid == uid)
}

enum Next {
    Read(anyhow::Result<(String, Box<Examined>)>),
    Pod(Option<Result<Box<Pod>, watcher::Error>>),
}

fn is_running(pod: &Pod) -> bool {
    let states = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    let mut states = states.filter_map(|one| one.state.as_ref());
    states.any(|state| state.running.is_some())
}

/// Why a pod will not begin soon.
fn is_hopeless(pod: &Pod) -> Option<String> {
    let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    let mut waiting = statuses.filter_map(|one| one.state.as_ref()?.waiting.as_ref());
    waiting.find_map(|waiting| {
        let reason = waiting.reason.clone().filter(|reason| HOPELESS.contains(&reason.as_str()))?;
        let message =
            waiting.message.as_deref().map(|message| format!(": {}", plain(message))).unwrap_or_default();
        Some(format!("its pod cannot begin: {reason}{message}"))
    })
}

/// Reads the log of a pod to the end of its report.
async fn read(logs: &Api<Pod>, name: &str, deadline: Instant) -> Examined {
    let mut examined = Examined::default();
    let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    match timeout_at(deadline, read_lines(logs, name, &mut examined, &mut files)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => examined.problem = Some(format!("{error:#}")),
        Err(_) => examined.problem = Some("it had not said everything when the time was up".to_owned()),
    }
    for (name, compressed) in files {
        let mut content = Vec::new();
        match MultiGzDecoder::new(&*compressed).take(MOST_OF_A_FILE).read_to_end(&mut content) {
            Ok(_) => drop(examined.files.insert(name, content)),
            Err(error) => drop(examined.missing.insert(name, format!("it did not arrive whole: {error}"))),
        }
    }
    examined
}

async fn read_lines(
    logs: &Api<Pod>,
    name: &str,
    examined: &mut Examined,
    files: &mut BTreeMap<String, Vec<u8>>,
) -> anyhow::Result<()> {
    let parameters = LogParams { follow: true, ..LogParams::default() };
    let stream = logs.log_stream(name, &parameters).await.context("its log cannot be read")?;
    let mut lines = stream.lines().take(MOST_LINES);
    let mut last = String::new();
    while let Some(line) = lines.try_next().await.context("its log cannot be read")? {
        match Line::parse(&line) {
            Some(Line::Facts(facts)) => examined.facts = Some(*facts),
            Some(Line::Paths(paths)) => examined.paths = Some(paths),
            Some(Line::Part { name, data }) => {
                files.entry(name).or_default().extend(Line::decode(&data).unwrap_or_default());
            }
            Some(Line::Missing { name, reason }) => drop(examined.missing.insert(name, reason)),
            Some(Line::End {}) => return Ok(()),
            None => last = plain(&line),
        }
    }
    let said = if last.is_empty() { String::new() } else { format!("; the last that it said was: {last}") };
    anyhow::bail!("it ended before it had said everything{said}")
}
