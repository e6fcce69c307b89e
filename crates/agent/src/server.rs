//! The socket that the CNI plugin talks to.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use portolan_cni::protocol::{self, Inbox, PROTOCOL};
use portolan_cni::{Answer, CniError, Code, Request, Verb};
use portolan_plan::host::Sandbox;
use tokio::io::{AsyncWriteExt, Interest};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::Instant;

use crate::accept::accept_all;
use crate::add::Add;
use crate::call::{NetworkConfig, PodArgs, Selection};
use crate::calls::{self, Calls, Turn};
use crate::cluster::Cluster;
use crate::engine::Engine;
use crate::foreign::Foreign;
use crate::functions::Functions;
use crate::metrics::Metrics;
use crate::node_lock::NodeLock;
use crate::pending::Pending;
use crate::pods::PodKey;
use crate::steps::{Moment, Reporter, Step, Steps};
use crate::vswitch::Vswitch;
use crate::{Config, chassis, check, del, device, forwarding, node_network, services};

/// How long a request may take to come in: the plugin sends it at once.
const REQUEST_DEADLINE: Duration = Duration::from_secs(10);

/// How long a failed ADD waits for being undone before it answers. The engine goes on with what is left.
const UNDO_DEADLINE: Duration = Duration::from_secs(5);

/// All that calls need.
pub(crate) struct Agent {
    pub(crate) config: Config,
    pub(crate) client: kube::Client,
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) engine: Arc<Engine>,
    pub(crate) network_status: Arc<Pending<PodKey>>,
    pub(crate) vswitch: Vswitch,
    pub(crate) calls: Calls,
    pub(crate) foreign: Foreign,
    pub(crate) chassis: chassis::States,
    pub(crate) node_network: node_network::States,
    pub(crate) translation: node_network::Translation,
    pub(crate) services: services::States,
    pub(crate) forwarding: forwarding::Stopped,
    pub(crate) metrics: Metrics,
    pub(crate) node_lock: NodeLock,
    pub(crate) functions: Arc<Functions>,
}

impl Agent {
    /// What keeps the node from being as it should, if something does.
    pub(crate) fn problem(&self) -> Option<String> {
        let of_chassis = self.chassis.borrow().problem.clone();
        let of_network = || self.node_network.borrow().problem();
        let of_services = || self.services.borrow().problem();
        of_chassis.or_else(of_network).or_else(of_services).or_else(|| self.forwarding.borrow().clone())
    }
}

/// Listens for the plugin.
pub(crate) fn listen(config: &Config) -> anyhow::Result<UnixListener> {
    let path = &config.cni_socket;
    let listener = bind(path).with_context(|| format!("listen at {}", path.display()))?;
    tracing::info!(socket = %path.display(), node = config.node, "listening for the CNI plugin");
    Ok(listener)
}

/// Answers the plugin.
pub(crate) async fn serve(agent: &Arc<Agent>, listener: UnixListener) -> std::convert::Infallible {
    let accept = async || {
        let permit = agent.calls.connection().await;
        listener.accept().await.map(|(stream, _)| (stream, permit))
    };
    let serve = |(stream, permit)| {
        let agent = Arc::clone(agent);
        tokio::spawn(async move {
            let _permit = permit;
            if let Err(error) = answer(&agent, stream).await {
                tracing::debug!(error = &error as &dyn std::error::Error, "a call ended without an answer");
            }
        });
    };
    accept_all(accept, serve).await
}

/// Only root may connect: whoever can call the agent can have any pod's interfaces. A socket that is there already is replaced in one
/// step, so that there is one at every moment.
fn bind(path: &std::path::Path) -> io::Result<UnixListener> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    // Under another name until its permissions are set.
    let hidden = path.with_extension("new");
    let _ = std::fs::remove_file(&hidden);
    let listener = UnixListener::bind(&hidden)?;
    std::fs::set_permissions(&hidden, std::fs::Permissions::from_mode(0o600))?;
    std::fs::rename(&hidden, path)?;
    Ok(listener)
}

async fn answer(agent: &Arc<Agent>, mut stream: UnixStream) -> io::Result<()> {
    let received = tokio::time::timeout(REQUEST_DEADLINE, receive(&stream)).await;
    let (request, netns) = received.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    let verb = request.verb;
    let sandbox = request.container_id.clone();
    let (began, in_progress) = (Instant::now(), agent.metrics.call_begins(verb));
    let outcome = match only_root(&stream) {
        Ok(()) => call(agent, request, netns, &stream).await,
        Err(refusal) => Err(refusal),
    };
    agent.metrics.call_ended(verb, began.elapsed(), outcome.as_ref().err());
    drop(in_progress);
    let answer = outcome.unwrap_or_else(|error| {
        match verb {
            Verb::Status => tracing::debug!(error = %error, "not ready"),
            _ => tracing::warn!(?verb, sandbox, error = %error, "a call failed"),
        }
        Answer::Error(error)
    });
    let answer = protocol::encode(&answer)?;
    let written = tokio::time::timeout(REQUEST_DEADLINE, stream.write_all(&answer)).await;
    written.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}

/// The socket's permissions keep others out; this holds also for who was passed a connection or opened the socket before.
fn only_root(stream: &UnixStream) -> Result<(), CniError> {
    let refused = |details| CniError::new(Code::InvalidEnvironment, "only root may call the agent", details);
    match stream.peer_cred() {
        Ok(peer) if peer.uid() == 0 => Ok(()),
        Ok(peer) => Err(refused(format!("the caller's user id is {}", peer.uid()))),
        Err(error) => Err(refused(format!("the caller's user id is not known: {error}"))),
    }
}

async fn receive(stream: &UnixStream) -> io::Result<(Request, Option<OwnedFd>)> {
    let mut inbox = Inbox::default();
    loop {
        stream.readable().await?;
        match stream.try_io(Interest::READABLE, || inbox.read(stream)) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error),
        }
        if let Some(request) = inbox.take()? {
            return Ok((request, inbox.descriptor()));
        }
    }
}

/// Waits until the plugin closes the connection. It sends nothing more after its request.
async fn hang_up(stream: &UnixStream) {
    let mut buffer = [0; 64];
    loop {
        match stream.readable().await.and_then(|()| stream.try_read(&mut buffer)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
}

async fn call(
    agent: &Arc<Agent>,
    request: Request,
    netns: Option<OwnedFd>,
    stream: &UnixStream,
) -> Result<Answer, CniError> {
    if request.protocol != PROTOCOL {
        let details = format!("the plugin has protocol {} and the agent {PROTOCOL}", request.protocol);
        return Err(CniError::new(
            Code::TryAgainLater,
            "portolan-cni and the agent are of different versions",
            details,
        ));
    }
    let no_netns =
        || CniError::new(Code::InvalidEnvironment, "the call came without a network namespace", "");
    let config = NetworkConfig::parse(&request.config, &request.ifname)?;
    let sandbox = Sandbox { container: request.container_id.clone(), call: request.ifname.clone() };
    let bounds = Bounds::new(stream, agent.config.deadline);
    match request.verb {
        Verb::Add => {
            let pod = PodArgs::parse(&request.args)?;
            let device = device::named(&request.config, &config.selection)?;
            let netns = Arc::new(netns.ok_or_else(no_netns)?);
            let _counted = agent.calls.add().ok_or_else(too_many)?;
            let turn = bounds.turn(agent, &sandbox).await?;
            let threads = turn.threads();
            let late =
                || format!("a thread of an earlier call is still at work on links of {}", sandbox.container);
            drop(bounds.within(threads.ended(), late).await?);
            let steps =
                Steps::new(Reporter::new(&agent.config.steps, &sandbox.container), agent.metrics.clone());
            let netns_path = request.netns;
            // For what is undone, of this call or one before it.
            let _namespace = agent.functions.namespace_of(&sandbox, Some(Arc::clone(&netns)));
            let add = Add { agent, pod, netns, netns_path, device, steps, threads, sandbox, config };
            add_or_undo(add, &bounds).await
        }
        // It has nothing of Portolan's, whatever is down.
        Verb::Del if config.selection == Selection::Further && config.asks_for_nothing => Ok(Answer::Done),
        Verb::Del => {
            let _turn = bounds.turn(agent, &sandbox).await?;
            let _namespace = agent.functions.namespace_of(&sandbox, netns.map(Arc::new));
            // Once it has begun it goes on, whoever waits for it.
            del::del(agent, &sandbox, bounds.left()).await.map(|()| Answer::Done)
        }
        Verb::Check => {
            let _turn = bounds.turn(agent, &sandbox).await?;
            let check = check::check(agent, &sandbox, &config, &request.args, netns.ok_or_else(no_netns)?);
            bounds.within(check, || agent.vswitch.behind().unwrap_or_default()).await?.map(|()| Answer::Done)
        }
        Verb::Gc => {
            let gc = del::gc(agent, &config, &request.config, agent.config.deadline);
            bounds.within(gc, || agent.vswitch.behind().unwrap_or_default()).await?.map(|()| Answer::Done)
        }
        Verb::Status => del::status(agent, &config).await.map(|()| Answer::Done),
    }
}

fn too_many() -> CniError {
    let details = format!("{} ADDs are in progress on this node", calls::ADDS);
    CniError::new(Code::TryAgainLater, "the node's Portolan agent has too much to do", details)
}

/// What ends a call that is not done: its deadline, which counts from when the call came in, and the runtime's hanging up.
struct Bounds<'a> {
    stream: &'a UnixStream,
    deadline: Duration,
    until: Instant,
}

impl<'a> Bounds<'a> {
    fn new(stream: &'a UnixStream, deadline: Duration) -> Self {
        Self { stream, deadline, until: Instant::now() + deadline }
    }

    /// The time that is left.
    fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// Waits for something. `late` says what is missing when the time is over.
    async fn within<T>(
        &self,
        body: impl Future<Output = T>,
        late: impl FnOnce() -> String,
    ) -> Result<T, CniError> {
        tokio::select! {
            done = body => Ok(done),
            () = hang_up(self.stream) => {
                Err(CniError::new(Code::TryAgainLater, "the runtime cancelled the call", ""))
            }
            () = tokio::time::sleep_until(self.until) => {
                Err(CniError::new(Code::TryAgainLater, format!("not done after {:?}", self.deadline), late()))
            }
        }
    }

    /// Waits for the calls for the same container that came before. A call that is given up meanwhile does nothing.
    async fn turn(&self, agent: &Agent, sandbox: &Sandbox) -> Result<Turn, CniError> {
        let late = || format!("another call for container {} is in progress", sandbox.container);
        self.within(agent.calls.turn(&sandbox.container), late).await
    }
}

/// Runs an ADD. If it fails, lasts too long, or the runtime gives it up, what it made is removed.
async fn add_or_undo(add: Add<'_>, bounds: &Bounds<'_>) -> Result<Answer, CniError> {
    let outcome = bounds.within(add.run(), || add.missing()).await.and_then(|outcome| outcome);
    match outcome {
        Ok(result) => Ok(Answer::Result(result.to_json(add.config.version, add.config.previous.as_ref()))),
        Err(error) => {
            undo(&add).await;
            Err(error)
        }
    }
}

/// Removes what a failed ADD made. What is not removed in time is removed later: the answer does not wait for it.
async fn undo(add: &Add<'_>) {
    let reporter = add.steps.reporter.clone();
    reporter.at(Step::Undo, Moment::Began);
    let began = Instant::now();
    // The threads that make links cannot be cancelled; what they make is removed, so they come first.
    let mut ended = Box::pin(add.threads.ended());
    if let Ok(_none_at_work) = tokio::time::timeout(UNDO_DEADLINE, &mut ended).await {
        let left = UNDO_DEADLINE.saturating_sub(began.elapsed());
        if let Err(left) = del::del(add.agent, &add.sandbox, left).await {
            tracing::warn!(sandbox = add.sandbox.container, error = %left, "a failed ADD is not undone yet");
        }
        reporter.at(Step::Undo, Moment::Ended);
        return;
    }
    tracing::warn!(
        sandbox = add.sandbox.container,
        "a thread of a failed ADD is still at work; what it makes is removed once it ends"
    );
    let (agent, sandbox) = (Arc::clone(add.agent), add.sandbox.clone());
    tokio::spawn(async move {
        let deadline = agent.config.deadline;
        let now = del::del(&agent, &sandbox, deadline);
        // `ended` has its place in the queue: no later ADD of the container begins before this is done.
        let later = async {
            let _none_at_work = ended.await;
            del::del(&agent, &sandbox, deadline).await
        };
        let (now, later) = tokio::join!(now, later);
        match now.and(later) {
            Ok(()) => tracing::info!(sandbox = sandbox.container, "a failed ADD is undone"),
            Err(left) => {
                tracing::warn!(sandbox = sandbox.container, error = %left, "a failed ADD is not undone");
            }
        }
        reporter.at(Step::Undo, Moment::Ended);
    });
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[tokio::test]
    async fn a_socket_is_replaced_without_a_moment_in_which_there_is_none() {
        let directory = std::env::temp_dir().join(format!("portolan-bind-{}", std::process::id()));
        let path = directory.join("cni.sock");
        let first = bind(&path).unwrap();
        let (done, seen) = (Arc::new(AtomicBool::new(false)), path.clone());
        let ended = Arc::clone(&done);
        let watcher = std::thread::spawn(move || {
            let mut always = true;
            while !ended.load(Ordering::Relaxed) {
                always &= std::fs::symlink_metadata(&seen).is_ok();
            }
            always
        });
        let others: Vec<_> = (0..300).map(|_| bind(&path).unwrap()).collect();
        done.store(true, Ordering::Relaxed);
        assert!(watcher.join().unwrap(), "there was no socket for a moment");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        drop((first, others));
        std::fs::remove_dir_all(directory).unwrap();
    }
}
