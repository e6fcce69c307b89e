//! Answers what `portolan lab …` asks about a lab that is up.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node as NodeObject;
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use portolan_lab::Namespace;
use portolan_lab::cluster::{Cluster, Component, ContainerPlace, Health, NodeRuntime, PodPlace};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;

use super::place::Place;
use super::protocol::{Answer, ComponentReport, Entry, NodeReport, Report, Request, Target};

/// How long the API server may take to say which nodes are ready.
const PATIENCE: Duration = Duration::from_secs(3);

/// Listens where only root may ask.
pub(super) fn listen(place: &Place) -> anyhow::Result<UnixListener> {
    let socket = place.control_socket();
    let listener = UnixListener::bind(&socket)?;
    std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Answers until the lab is to end.
pub(super) async fn serve(
    listener: UnixListener,
    cluster: Arc<Cluster>,
    place: &Place,
) -> anyhow::Result<()> {
    let (down, mut is_down) = mpsc::channel(1);
    let log = place.log();
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted?.0,
            _ = is_down.recv() => return Ok(()),
        };
        let (cluster, down, log) = (Arc::clone(&cluster), down.clone(), log.clone());
        tokio::spawn(async move {
            if let Err(error) = answer(stream, cluster, down, log).await {
                tracing::debug!(%error, "a question broke off");
            }
        });
    }
}

async fn answer(
    stream: UnixStream,
    cluster: Arc<Cluster>,
    down: mpsc::Sender<()>,
    log: PathBuf,
) -> anyhow::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    let request: Result<Request, _> = serde_json::from_str(&line);
    let ends = matches!(request, Ok(Request::Down));
    let answer = match request {
        Err(error) => Answer::Refused(format!("the lab is of another version than this command: {error}")),
        Ok(request) => {
            let answer = tokio::task::spawn_blocking(move || carry_out(&cluster, &request, log)).await?;
            answer.map_or_else(Answer::Refused, Answer::Done)
        }
    };
    stream.write_all(format!("{}\n", json!(answer)).as_bytes()).await?;
    if ends {
        let _ = down.send(()).await;
    }
    Ok(())
}

fn carry_out(cluster: &Cluster, request: &Request, log: PathBuf) -> Result<Value, String> {
    match request {
        Request::Status => Ok(json!(report(cluster))),
        Request::Enter { target } => entry(cluster, target).map(|entry| json!(entry)),
        Request::Log { name, namespace, container } => {
            log_of(cluster, name, namespace, container.as_deref(), log).map(|path| json!(path))
        }
        Request::Kill { component, restart } => {
            let component = find(cluster, component)?;
            component.kill().map_err(|error| error.to_string())?;
            if *restart {
                component.start().map_err(|error| error.to_string())?;
            }
            Ok(json!(component.name()))
        }
        Request::Start { component } => {
            let component = find(cluster, component)?;
            component.start().map_err(|error| error.to_string())?;
            Ok(json!(component.name()))
        }
        Request::Down => Ok(Value::Null),
    }
}

fn find<'a>(cluster: &'a Cluster, name: &str) -> Result<Component<'a>, String> {
    cluster.component(name).map_err(|names| {
        let several = names.iter().any(|one| one.ends_with(&format!("/{name}")));
        let what = if several { "several components are called" } else { "no component is called" };
        format!("{what} {name:?}; say one of: {}", names.join(", "))
    })
}

fn report(cluster: &Cluster) -> Report {
    let components = cluster.components();
    let components = std::thread::scope(|scope| {
        // All at once: a component that does not answer must not keep the others waiting.
        let asked: Vec<_> = components.iter().map(|one| scope.spawn(|| report_component(one))).collect();
        asked.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    let ready = ready_nodes(cluster);
    let nodes = cluster.nodes().iter().zip(cluster.runtimes()).map(|(node, runtime)| NodeReport {
        name: node.name().into(),
        address: node.address().to_string(),
        ready: ready.as_ref().map(|ready| ready.get(node.name()) == Some(&true)),
        pods: runtime.pods(),
    });
    Report { nodes: nodes.collect(), components }
}

fn report_component(component: &Component<'_>) -> ComponentReport {
    let (healthy, health) = match component.health() {
        Health::Good(words) => (true, words),
        Health::Bad(words) => (false, words),
    };
    ComponentReport { name: component.name().into(), pid: component.pid(), healthy, health }
}

fn ready_nodes(cluster: &Cluster) -> Option<BTreeMap<String, bool>> {
    let api = Api::<NodeObject>::all(cluster.client());
    let listed = cluster.wait(async move {
        tokio::time::timeout(PATIENCE, api.list(&ListParams::default())).await.ok()?.ok()
    })?;
    let is_ready = |node: &NodeObject| {
        let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
        conditions.into_iter().flatten().any(|one| one.type_ == "Ready" && one.status == "True")
    };
    Some(listed.items.iter().map(|node| (node.name_any(), is_ready(node))).collect())
}

fn entry(cluster: &Cluster, target: &Target) -> Result<Entry, String> {
    match target {
        Target::Central => {
            let central = cluster.central();
            let kubeconfig = cluster.kubeconfig().display().to_string();
            Ok(enter(
                central.northd().namespace(),
                [
                    ("OVN_NB_DB", central.nb().endpoint()),
                    ("OVN_SB_DB", central.sb().endpoint()),
                    ("KUBECONFIG", kubeconfig),
                ],
            ))
        }
        Target::Node(name) => match cluster.node(name) {
            Some(node) => Ok(enter(node.namespace(), [])),
            None => {
                let names: Vec<_> = cluster.nodes().iter().map(portolan_lab::Node::name).collect();
                Err(format!("there is no node {name:?}; there are: {}", names.join(", ")))
            }
        },
        Target::Pod { namespace, name, container } => {
            let place = place_of(cluster, namespace, name)?;
            let netns = place.netns.as_ref().ok_or_else(|| {
                format!("pod {namespace}/{name} does not run; `kubectl describe pod` says why")
            })?;
            let container = container_of(&place, name, container.as_deref())?;
            let mut entry = enter(netns, []);
            entry.environment.extend(container.environment.iter().cloned());
            Ok(entry)
        }
    }
}

fn enter<const N: usize>(namespace: &Namespace, more: [(&str, String); N]) -> Entry {
    let (mark, lab) = namespace.mark();
    let mut environment = BTreeMap::from([(mark.to_owned(), lab.display().to_string())]);
    environment.extend(more.map(|(name, value)| (name.to_owned(), value)));
    Entry { net: namespace.path(), mnt: namespace.mounts_path(), environment }
}

fn place_of(cluster: &Cluster, namespace: &str, name: &str) -> Result<PodPlace, String> {
    cluster.pod_place(namespace, name).ok_or_else(|| {
        let running: Vec<_> = cluster.runtimes().iter().flat_map(NodeRuntime::pod_names).collect();
        let running = if running.is_empty() {
            "none runs".into()
        } else {
            format!("these run: {}", running.join(", "))
        };
        format!("there is no pod {namespace}/{name} on a node; {running}")
    })
}

/// The container of this name or, without one, the first.
fn container_of<'a>(
    place: &'a PodPlace,
    pod: &str,
    container: Option<&str>,
) -> Result<&'a ContainerPlace, String> {
    let names = || place.containers.iter().map(|one| one.name.as_str()).collect::<Vec<_>>().join(", ");
    let found = match container {
        None => place.containers.first(),
        Some(name) => place.containers.iter().find(|one| one.name == name),
    };
    let wanted = container.unwrap_or_default();
    found.ok_or_else(|| format!("pod {pod:?} has no container {wanted:?}; it has: {}", names()))
}

/// The log of a component or of a pod.
fn log_of(
    cluster: &Cluster,
    name: &str,
    namespace: &str,
    container: Option<&str>,
    own: PathBuf,
) -> Result<PathBuf, String> {
    if container.is_none()
        && let Ok(component) = cluster.component(name)
    {
        // What has no log of its own is part of this process.
        return Ok(component.log().map_or(own, PathBuf::from));
    }
    let (namespace, pod) = name.split_once('/').unwrap_or((namespace, name));
    match place_of(cluster, namespace, pod) {
        Ok(place) => container_of(&place, pod, container).map(|container| container.log.clone()),
        Err(no_pod) => {
            let components: Vec<_> = cluster.components().iter().map(|one| one.name().to_owned()).collect();
            Err(format!("{no_pod}; and components are: {}", components.join(", ")))
        }
    }
}
