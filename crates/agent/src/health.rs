//! Health checks, metrics and the state of the node, over plain HTTP.
//!
//! `/healthz` asks whether this process works: the reconcile loop turns. `/readyz` asks whether pods can be plugged: Open vSwitch, its
//! bridge, the chassis, the watches and the plugin's socket. An agent that is not ready need not be restarted.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use portolan_health::{
    ANSWER, Check, Incoming, Method, Page, Pages, Request, StatusCode, probe, probe_of, respond,
};
use portolan_plan::host::Observed;
use serde_json::json;
use tokio::net::TcpListener;

use crate::node_lock::NodeLock;
use crate::server::Agent;
use crate::wanted::mtu_unknown;

/// For how long the agent that worked on this node before may have the address after it has let go of the node: a process that ends
/// closes its files one by one.
const CLOSING: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(50);

/// Serves for ever; without an address, nothing.
pub(crate) async fn serve(agent: &Arc<Agent>) -> anyhow::Result<std::convert::Infallible> {
    if let Some(address) = agent.config.health {
        let listener = listen(&agent.node_lock, address).await;
        let listener = listener.with_context(|| format!("cannot serve health checks at {address}"))?;
        tracing::info!(address = %listener.local_addr()?, "serving /healthz, /readyz, /metrics and /debug/node");
        portolan_health::serve(listener, Served(Arc::clone(agent))).await;
    }
    std::future::pending().await
}

/// Listens at an address, which another agent of this node may have until it has ended.
async fn listen(node_lock: &NodeLock, address: SocketAddr) -> anyhow::Result<TcpListener> {
    let mut given_up_at = None;
    loop {
        match TcpListener::bind(address).await {
            Ok(listener) => return Ok(listener),
            Err(error) if error.kind() != io::ErrorKind::AddrInUse => return Err(error.into()),
            Err(error) if node_lock.waits_for().is_some() => {
                tracing::info!(%error, %address, "health checks begin when the other agent has ended");
                node_lock.held().await?;
            }
            Err(error) => {
                let given_up_at = *given_up_at.get_or_insert_with(|| Instant::now() + CLOSING);
                if Instant::now() >= given_up_at {
                    return Err(error.into());
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

#[derive(Clone)]
struct Served(Arc<Agent>);

impl Pages for Served {
    async fn answer(&self, request: Request<Incoming>, peer: SocketAddr) -> Page {
        let agent = &*self.0;
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return respond(StatusCode::METHOD_NOT_ALLOWED, "this can only be read\n".into());
        }
        let query = request.uri().query().unwrap_or_default();
        match probe_of(request.uri().path()) {
            (name @ ("healthz" | "livez"), one) => probe(name, one, query, vec![is_turning(agent).await]),
            (name @ "readyz", one) => probe(name, one, query, ready(agent).await),
            ("metrics", None) => portolan_health::metrics(metrics(agent)),
            ("debug", Some("node")) if peer.ip().to_canonical().is_loopback() => {
                let mut text = serde_json::to_string_pretty(&state(agent)).unwrap_or_default();
                text.push('\n');
                respond(StatusCode::OK, text)
            }
            ("debug", Some("node")) => {
                respond(StatusCode::FORBIDDEN, "only connections from this host may see this\n".into())
            }
            _ => {
                let message = "there are /healthz, /readyz, /metrics and /debug/node\n";
                respond(StatusCode::NOT_FOUND, message.into())
            }
        }
    }
}

async fn is_turning(agent: &Agent) -> Check {
    // An agent that waits for another has no loop yet, and is alive.
    if agent.node_lock.waits_for().is_some() {
        return ("loop", Ok(()));
    }
    let turned = tokio::time::timeout(ANSWER, agent.engine.next_round()).await;
    ("loop", turned.map_err(|_| format!("it has made no round within {ANSWER:?}")))
}

/// Whether pods can be plugged, for `/readyz` and for the plugin's STATUS.
pub(crate) async fn ready(agent: &Agent) -> Vec<Check> {
    if let Some(other) = agent.node_lock.waits_for() {
        return vec![("other-agent", Err(other))];
    }
    let behind: Vec<String> = agent.cluster.status().behind().iter().map(ToString::to_string).collect();
    let bridge = agent.engine.observed(Observed::datapath);
    let missing = || format!("Open vSwitch does not have bridge {}", agent.config.bridge);
    let socket = &agent.config.cni_socket;
    let is_socket = std::fs::metadata(socket).is_ok_and(|file| file.file_type().is_socket());
    let gone = || format!("{} is gone: no call can come in; restart the agent", socket.display());
    let chassis = match &agent.chassis.borrow().report {
        None => Err("the node was not compared with what it should be yet".to_owned()),
        Some(report) if report.encapsulation.is_none() => Err(report.problem.clone().unwrap_or_default()),
        Some(_) => Ok(()),
    };
    let told = agent.cluster.read(|known| agent.config.mtu_of_subnets(known));
    let untold = || mtu_unknown(&agent.config.node);
    vec![
        ("other-agent", Ok(())),
        is_turning(agent).await,
        ("vswitch", agent.vswitch.behind().map_or(Ok(()), Err)),
        ("bridge", bridge.map(drop).ok_or_else(missing)),
        ("chassis", chassis),
        ("primary-network", agent.node_network.borrow().check()),
        ("services", agent.services.borrow().check()),
        ("mtu", told.map(drop).ok_or_else(untold)),
        ("followers", if behind.is_empty() { Ok(()) } else { Err(behind.join("; ")) }),
        ("cni-socket", if is_socket { Ok(()) } else { Err(gone()) }),
    ]
}

fn metrics(agent: &Agent) -> String {
    let (units, failing) = agent.engine.counts();
    let gauge = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    agent.metrics.encode(|gauges| {
        gauges.units.set(gauge(units));
        gauges.units_failing.set(gauge(failing));
        gauges.followers_behind.set(gauge(agent.cluster.status().behind().len()));
        gauges.vswitch_connected.set(agent.vswitch.behind().is_none().into());
        gauges.node_problem.set(agent.problem().is_some().into());
        if let Some(known) = agent.config.kube.known() {
            gauges.api_servers.set(gauge(known.addresses.len()));
            gauges.api_servers_followed.set(known.behind.is_none().into());
            gauges.api_server_changes.inner().store(known.changes, Ordering::Relaxed);
        }
    })
}

/// What the agent knows of its node.
fn state(agent: &Agent) -> serde_json::Value {
    let chassis = agent.chassis.borrow().clone();
    let report = chassis.report.map(|report| {
        json!({
            "chassis": report.chassis,
            "datapath": report.datapath,
            "openVSwitch": report.version,
            "encapsulation": report.encapsulation.map(|one| json!({
                "address": one.address, "link": one.link, "linkMtu": one.link_mtu, "tunnelMtu": one.tunnel_mtu(),
            })),
        })
    });
    let behind: Vec<String> = agent.cluster.status().behind().iter().map(ToString::to_string).collect();
    json!({
        "node": agent.config.node,
        "chassis": report,
        "problem": agent.problem(),
        "openVSwitchBehind": agent.vswitch.behind(),
        "followersBehind": behind,
        "apiServers": agent.config.kube.known(),
        "units": agent.engine.dump(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    #[tokio::test]
    async fn an_agent_whose_predecessor_still_closes_its_sockets_waits_for_the_address() {
        let directory = tempfile::tempdir().unwrap();
        let lock = NodeLock::begin(&directory.path().join("cni.sock")).unwrap();
        let predecessor = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = predecessor.local_addr().unwrap();
        let mut listening = pin!(listen(&lock, address));
        let polled = listening.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending(), "{polled:?}");
        drop(predecessor);
        assert_eq!(listening.await.unwrap().local_addr().unwrap(), address);
    }

    #[tokio::test]
    async fn an_address_that_is_no_one_s_is_an_error_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let lock = NodeLock::begin(&directory.path().join("cni.sock")).unwrap();
        let error = listen(&lock, "192.0.2.1:9411".parse().unwrap()).await.unwrap_err();
        assert!(error.to_string().contains("Cannot assign requested address"), "{error}");
    }
}
