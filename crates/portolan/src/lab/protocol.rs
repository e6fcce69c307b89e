//! What is said between `portolan lab …` and the process that keeps a lab up: one line of JSON each way.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::waiting::Waiting;

/// What is asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case")]
pub(super) enum Request {
    /// How the lab is: answered by a [`Report`].
    Status,
    /// How to get into something: answered by [`Entry`].
    Enter { target: Target },
    /// Where a log is: answered by its path.
    Log { name: String, namespace: String, container: Option<String> },
    /// Kill a component, and perhaps start it again: answered by its name.
    Kill { component: String, restart: bool },
    /// Start a component: answered by its name.
    Start { component: String },
    /// End the lab: answered before it ends.
    Down,
}

/// What can be entered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Target {
    Pod {
        namespace: String,
        name: String,
        container: Option<String>,
    },
    Node(String),
    /// Where OVN's central part and the API server run.
    Central,
}

/// How to get in.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Entry {
    /// The network namespace.
    pub(super) net: PathBuf,
    /// The mount namespace.
    pub(super) mnt: PathBuf,
    /// Variables to set, that by which a process counts as one of the lab among them.
    pub(super) environment: BTreeMap<String, String>,
}

/// How a lab is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Report {
    pub(super) nodes: Vec<NodeReport>,
    pub(super) components: Vec<ComponentReport>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct NodeReport {
    pub(super) name: String,
    pub(super) address: String,
    /// As the Node object has it; absent if the API server does not answer.
    pub(super) ready: Option<bool>,
    pub(super) pods: usize,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ComponentReport {
    pub(super) name: String,
    pub(super) pid: Option<u32>,
    pub(super) healthy: bool,
    pub(super) health: String,
}

/// What comes back.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Answer<T> {
    Done(T),
    Refused(String),
}

/// Asks the process that keeps a lab up.
pub(super) fn ask<T: DeserializeOwned>(socket: &Path, lab: &str, request: &Request) -> anyhow::Result<T> {
    let _waiting = Waiting::start(format!("waiting for lab {lab:?}"));
    let dead = || anyhow!("lab {lab:?} is dead; `portolan lab down {lab}` clears it away");
    let mut stream = UnixStream::connect(socket).map_err(|_| dead())?;
    let broken = || format!("lab {lab:?} does not answer");
    writeln!(stream, "{}", serde_json::to_string(request)?).with_context(broken)?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).with_context(broken)?;
    if line.is_empty() {
        bail!("lab {lab:?} went away instead of answering");
    }
    match serde_json::from_str(&line)
        .with_context(|| format!("lab {lab:?} speaks another language: {line}"))?
    {
        Answer::Done(value) => Ok(value),
        Answer::Refused(why) => Err(anyhow!(why)),
    }
}

/// What a lab that is being raised says on its standard output, line by line.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(super) enum Event {
    /// A step began or, with a time, is done.
    Step { step: String, seconds: Option<f64>, steps: usize },
    /// The lab is up.
    Ready { nodes: Vec<(String, String)>, kubeconfig: PathBuf },
    /// It is not, and nothing is left of it.
    Failed { why: String },
}
