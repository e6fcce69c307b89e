//! The socket that the CNI plugin talks to.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use anyhow::Context;
use portolan_cni::protocol::{self, Inbox, PROTOCOL};
use portolan_cni::{Answer, CniError, Code, Request, Verb};
use portolan_plan::host::Sandbox;
use tokio::io::{AsyncWriteExt, Interest};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedMutexGuard, RwLock};

use crate::accept::accept_all;
use crate::add::Add;
use crate::call::{NetworkConfig, PodArgs};
use crate::cluster::Cluster;
use crate::engine::Engine;
use crate::network_status::Pending;
use crate::steps::Steps;
use crate::vswitch::Vswitch;
use crate::{Config, chassis, del};

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
    pub(crate) network_status: Arc<Pending>,
    pub(crate) vswitch: Vswitch,
    pub(crate) calls: Calls,
    pub(crate) chassis: chassis::States,
}

/// The calls in progress: those for one container take turns.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    turns: Mutex<HashMap<String, Weak<tokio::sync::Mutex<()>>>>,
}

impl Calls {
    /// Waits for the calls for a container that came before.
    pub(crate) async fn turn(&self, sandbox: &str) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
            turns.retain(|_, turn| turn.strong_count() > 0);
            let turn = turns.get(sandbox).and_then(Weak::upgrade).unwrap_or_default();
            turns.insert(sandbox.to_owned(), Arc::downgrade(&turn));
            turn
        };
        turn.lock_owned().await
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
    let accept = async || listener.accept().await.map(|(stream, _)| stream);
    let serve = |stream| {
        let agent = Arc::clone(agent);
        tokio::spawn(async move {
            if let Err(error) = answer(&agent, stream).await {
                tracing::debug!(error = &error as &dyn std::error::Error, "a call ended without an answer");
            }
        });
    };
    accept_all(accept, serve).await
}

/// Only root may connect: whoever can call the agent can have any pod's interfaces.
fn bind(path: &std::path::Path) -> io::Result<UnixListener> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
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
    let answer = call(agent, request, netns, &stream).await.unwrap_or_else(|error| {
        match verb {
            Verb::Status => tracing::debug!(error = %error, "not ready"),
            _ => tracing::warn!(?verb, sandbox, error = %error, "a call failed"),
        }
        Answer::Error(error)
    });
    stream.write_all(&protocol::encode(&answer)?).await
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
    let deadline = agent.config.deadline;
    match request.verb {
        Verb::Add => {
            let _turn = agent.calls.turn(&sandbox.container).await;
            let add = Add {
                agent,
                pod: PodArgs::parse(&request.args)?,
                netns: Arc::new(netns.ok_or_else(no_netns)?),
                netns_path: request.netns,
                steps: Steps::new(),
                working: Arc::new(RwLock::new(())),
                sandbox,
                config,
            };
            add_or_undo(add, stream, deadline).await
        }
        Verb::Del => {
            let _turn = agent.calls.turn(&sandbox.container).await;
            del::del(agent, &sandbox, deadline).await.map(|()| Answer::Done)
        }
        Verb::Check => {
            let _turn = agent.calls.turn(&sandbox.container).await;
            let check = del::check(agent, &sandbox, &config, netns.ok_or_else(no_netns)?);
            let late =
                |_| Err(CniError::new(Code::TryAgainLater, format!("not checked after {deadline:?}"), ""));
            tokio::time::timeout(deadline, check).await.unwrap_or_else(late).map(|()| Answer::Done)
        }
        Verb::Gc => del::gc(agent, &config, &request.config, deadline).await.map(|()| Answer::Done),
        Verb::Status => del::status(agent, &config).map(|()| Answer::Done),
    }
}

/// Runs an ADD. If it fails, lasts too long, or the runtime gives it up, what it made is removed.
async fn add_or_undo(add: Add<'_>, stream: &UnixStream, deadline: Duration) -> Result<Answer, CniError> {
    let outcome = tokio::select! {
        outcome = add.run() => outcome,
        () = hang_up(stream) => Err(CniError::new(Code::TryAgainLater, "the runtime cancelled the call", "")),
        () = tokio::time::sleep(deadline) => {
            Err(CniError::new(Code::TryAgainLater, format!("not done after {deadline:?}"), add.missing()))
        }
    };
    match outcome {
        Ok(result) => Ok(Answer::Result(result.to_json(add.config.version, add.config.previous.as_ref()))),
        Err(error) => {
            // The threads that make links cannot be cancelled; what they make is removed, so they come first.
            let _done = add.working.write().await;
            if let Err(left) = del::del(add.agent, &add.sandbox, UNDO_DEADLINE).await {
                tracing::warn!(sandbox = add.sandbox.container, error = %left, "a failed ADD is not undone yet");
            }
            Err(error)
        }
    }
}
