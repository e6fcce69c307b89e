//! Puts the CNI plugin and its network configuration where the node's container runtime looks for them, and takes them away.
//!
//! ```text
//!  ready     the agent answers: pods that come now are served
//!  programs  the plugin, under every name that configurations call it by; before the configuration that calls it
//!  conflist  which configuration there should be (pure)
//!  files     written whole or not at all
//! ```
//!
//! Every step compares with what is there, so that a second run, or one after a crash, ends the same. Nothing that somebody else put
//! there is changed, and nothing is removed by an end, a restart or an upgrade: only [`uninstall`] does, and the end of the
//! configuration that another plugin's was made from. Start reading at [`run`].

mod conflist;
mod examine;
mod files;
mod programs;
mod ready;

use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use portolan_cni::DEFAULT_SOCKET;
use portolan_host::{DirectoryChange, DirectoryMonitor};
use portolan_watch::Pause;
use tokio::io::unix::AsyncFd;

use crate::blocking::blocking;
use crate::monitor::watched;
pub use conflist::{Mode, Problem};
pub use examine::examine;

/// How soon after a change the next one is looked at: two programs that undo each other's changes do not take all of a processor.
const BETWEEN_CHANGES: Duration = Duration::from_millis(100);

/// Where things are on the node.
#[derive(Clone, Debug)]
pub struct Places {
    /// The directory of network configurations.
    pub configurations: PathBuf,
    /// The directory of plugins.
    pub programs: PathBuf,
    /// The agent's socket.
    pub socket: PathBuf,
}

impl Default for Places {
    fn default() -> Self {
        Self {
            configurations: "/etc/cni/net.d".into(),
            programs: "/opt/cni/bin".into(),
            socket: DEFAULT_SOCKET.into(),
        }
    }
}

/// What to install.
#[derive(Clone, Debug)]
pub struct Installation {
    /// Where.
    pub places: Places,
    /// The plugin's binary.
    pub plugin: PathBuf,
    /// How the plugin is called.
    pub mode: Mode,
}

/// What comes after the installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// Nothing.
    End,
    /// The configuration is kept as it should be, for ever: it follows the one that it was made from.
    Follow,
}

/// Waits for the agent and installs. Does not end if it is to [`Then::Follow`], unless the plugin cannot be installed.
pub async fn run(installation: Installation, then: Then) -> anyhow::Result<()> {
    let places = &installation.places;
    ready::wait(&places.socket).await;
    let wanted = installation.clone();
    blocking(move || programs::install(&wanted.places.programs, &wanted.plugin)).await?;
    match then {
        Then::End => match configure(&installation).await? {
            Some(problem) if problem.is_failure() => Err(problem.into()),
            _ => Ok(()),
        },
        Then::Follow => {
            let mut pause = Pause::new(BETWEEN_CHANGES, Duration::from_secs(10));
            let mut told = None;
            loop {
                if let Err(error) = follow(&installation, &mut pause, &mut told).await {
                    tracing::warn!(
                        error = format!("{error:#}"),
                        "the network configuration is not kept up; trying again"
                    );
                }
                pause.wait().await;
            }
        }
    }
}

/// Removes what was installed, the configuration first, and returns what that was. Files of others stay, and so do the ports of pods
/// that run.
pub fn uninstall(places: &Places) -> anyhow::Result<Vec<PathBuf>> {
    let mut removed = Vec::new();
    if let Some(directory) = files::Locked::existing(&places.configurations)? {
        for file in conflist::ours(&read(&directory)?) {
            directory.remove(&file)?;
            removed.push(directory.path().join(file));
        }
    }
    if let Some(directory) = files::Locked::existing(&places.programs)? {
        removed.extend(programs::uninstall(&directory)?);
    }
    // One that an agent listens at stays: it is the agent's. So does whatever is no socket.
    let refused = |error: std::io::Error| error.kind() == std::io::ErrorKind::ConnectionRefused;
    let socket = &places.socket;
    let is_socket = std::fs::symlink_metadata(socket).is_ok_and(|file| file.file_type().is_socket());
    if is_socket && UnixStream::connect(socket).is_err_and(refused) {
        std::fs::remove_file(socket).with_context(|| format!("remove {}", socket.display()))?;
        removed.push(socket.clone());
    }
    Ok(removed)
}

/// Keeps the configuration as it should be until the directory goes, or something fails.
async fn follow(
    installation: &Installation,
    pause: &mut Pause,
    told: &mut Option<Problem>,
) -> anyhow::Result<()> {
    let directory = &installation.places.configurations;
    std::fs::create_dir_all(directory).with_context(|| format!("make directory {}", directory.display()))?;
    // Before the first look, so that nothing is missed.
    let monitor = watched(DirectoryMonitor::open(directory)?)?;
    loop {
        let problem = configure(installation).await?;
        if problem != *told {
            report(problem.as_ref());
            *told = problem;
        }
        pause.reset();
        tokio::time::sleep(BETWEEN_CHANGES).await;
        if changed(&monitor).await? == DirectoryChange::Gone {
            return Ok(());
        }
    }
}

fn report(problem: Option<&Problem>) {
    match problem {
        None => tracing::info!("the network configuration is as it should be"),
        Some(problem) if problem.is_failure() => tracing::warn!("{problem}"),
        Some(reason) => tracing::info!("{reason}"),
    }
}

/// Waits for a change, and takes all that came with it.
async fn changed(monitor: &AsyncFd<DirectoryMonitor>) -> std::io::Result<DirectoryChange> {
    let mut all = None;
    loop {
        let mut ready = monitor.readable().await?;
        while let Ok(read) = ready.try_io(|monitor| monitor.get_ref().read()) {
            all = all.max(Some(read?));
        }
        if let Some(change) = all {
            return Ok(change);
        }
    }
}

/// Makes the directory of configurations what it should be; says what is in the way, if something is.
async fn configure(installation: &Installation) -> anyhow::Result<Option<Problem>> {
    let installation = installation.clone();
    blocking(move || -> anyhow::Result<_> {
        let places = &installation.places;
        let directory = files::Locked::made(&places.configurations)?;
        let has_portmap = places.programs.join(conflist::PORTMAP).exists();
        let node = conflist::Node { socket: socket_of(&places.socket), has_portmap };
        let plan = conflist::plan(&read(&directory)?, installation.mode, &node);
        for change in plan.changes {
            let path = directory.path().join(change.file());
            match change {
                conflist::Change::Write { file, text } => {
                    directory.write(&file, text.as_bytes(), 0o644)?;
                    tracing::info!(file = %path.display(), "network configuration written");
                }
                conflist::Change::Remove { file } => {
                    directory.remove(&file)?;
                    tracing::info!(file = %path.display(), "network configuration removed");
                }
            }
        }
        Ok(plan.problem)
    })
    .await
}

/// The socket as the configuration names it: not at all if it is the one that the plugin takes anyway.
fn socket_of(path: &Path) -> Option<String> {
    (path != Path::new(DEFAULT_SOCKET)).then(|| path.to_string_lossy().into_owned())
}

fn read(directory: &files::Locked) -> anyhow::Result<Vec<conflist::File>> {
    let mut found = Vec::new();
    for name in directory.names()?.into_iter().filter(|name| conflist::is_configuration(name)) {
        if let Some(text) = directory.read(&name)? {
            found.push(conflist::File { name, text });
        }
    }
    Ok(found)
}
