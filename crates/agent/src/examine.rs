//! Examines a node, for `portolan doctor` and `portolan support-bundle`: what it has, what is configured, and what passes on the way to others.
//!
//! ```text
//!  kernel, listeners, switch  what the kernel, /proc and Open vSwitch say
//!  (install::examine)         network configurations and the plugin
//!  paths                      the largest packet to other nodes, and whether tunnels' packets arrive
//!  pages                      what is collected for a bug report: debug pages, metrics, files of databases
//!  report                     lines on standard output, which the API server hands on as the pod's log
//! ```
//!
//! It changes nothing. What cannot be found out is said with the reason, and hides nothing else. Start reading at [`run`]; [`facts`] is what it
//! finds.

pub mod facts;
mod kernel;
mod listeners;
mod pages;
mod paths;
pub mod report;
mod switch;

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use portolan_host::{Rtnetlink, forward_policy};
use portolan_plan::host::NODE_LINK;

use self::facts::{Clock, NodeFacts, Outcome, Space, TunnelLink};
use self::pages::collect;
pub use self::pages::{Page, Source};
pub use self::paths::Peer;
use self::report::{Line, Report};
use crate::blocking::blocking;
use crate::install::{self, Mode, Places};

/// What to examine.
#[derive(Clone, Debug)]
pub struct Examination {
    /// The name of the node.
    pub node: String,
    /// The address at which its tunnels end, or would end.
    pub address: Option<IpAddr>,
    /// The nodes to which the way is tried.
    pub peers: Vec<Peer>,
    /// The size of the largest packet that tunnels send, with all headers; that of the link unless given.
    pub packet: Option<u32>,
    /// The ports whose listeners are of interest.
    pub ports: Vec<u16>,
    /// Tells packets of this examination from those of others.
    pub nonce: u64,
    /// How long other nodes may take to begin.
    pub patience: Duration,
    /// Where the runtime's files are.
    pub places: Places,
    /// The plugin of this version, to be compared with what is installed.
    pub plugin: Option<PathBuf>,
    /// How the plugin is called, where it is installed.
    pub mode: Option<Mode>,
    /// The database of Open vSwitch.
    pub ovsdb: PathBuf,
    /// A directory on the file system of databases.
    pub data: PathBuf,
    /// What is collected besides.
    pub pages: Vec<Page>,
}

/// Examines, and reports on standard output. Answers other nodes until it is dropped: whoever started it ends it.
pub async fn run(examination: Examination) -> anyhow::Result<std::convert::Infallible> {
    let report = Report::default();
    // Others may be ahead.
    let keeper = paths::answer(&examination);
    let facts = facts(&examination).await?;
    let (mut of_paths, pages) = (examination.clone(), examination.pages.clone());
    // Before an installation, as much should pass as the link takes.
    let link = facts.tunnel.found().and_then(Option::as_ref).map(|link| link.mtu);
    of_paths.packet = examination.packet.or(link);
    report.send(&Line::Facts(Box::new(facts)))?;
    let paths = blocking(move || anyhow::Ok(paths::probe(&of_paths))).await?;
    report.send(&Line::Paths(paths))?;
    for page in pages {
        collect(page, &report).await?;
    }
    report.send(&Line::End {})?;
    drop(keeper);
    std::future::pending().await
}

/// What the node has.
async fn facts(examination: &Examination) -> anyhow::Result<NodeFacts> {
    let (places, plugin, mode) = (examination.places.clone(), examination.plugin.clone(), examination.mode);
    let (ports, data, address) = (examination.ports.clone(), examination.data.clone(), examination.address);
    let switch = switch::facts(&examination.ovsdb).await;
    let node = examination.node.clone();
    let found = move || NodeFacts {
        node,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        clock: clock(),
        kernel: kernel::facts(),
        settings: kernel::settings(),
        forward_drops: Outcome::of(forwarding_that_drops()),
        listeners: Outcome::of(listeners::facts(&ports)),
        switch,
        configurations: Outcome::of(install::examine(&places, plugin.as_deref(), mode)),
        tunnel: Outcome::of(tunnel(address)),
        space: Outcome::of(space(&data)),
    };
    blocking(move || anyhow::Ok(found())).await
}

/// Chains of others that may drop what pods send out of the cluster.
fn forwarding_that_drops() -> portolan_host::Result<Vec<String>> {
    Ok(forward_policy::dropping_chains(NODE_LINK)?.iter().map(ToString::to_string).collect())
}

fn clock() -> Clock {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Clock { seconds: i64::try_from(now.as_secs()).unwrap_or(i64::MAX) }
}

/// The link that has the address.
fn tunnel(address: Option<IpAddr>) -> anyhow::Result<Option<TunnelLink>> {
    let Some(address) = address else { return Ok(None) };
    let mut host = Rtnetlink::open()?;
    let has = host.all_addresses()?.into_iter().find(|one| one.address.addr() == address);
    let Some(has) = has else { return Ok(None) };
    let link = host.links()?.into_iter().find(|link| link.index == has.link);
    Ok(link.map(|link| TunnelLink { address, link: link.name, mtu: link.mtu }))
}

fn space(path: &std::path::Path) -> anyhow::Result<Space> {
    let found = rustix::fs::statvfs(path)?;
    Ok(Space {
        path: path.display().to_string(),
        free_bytes: found.f_bavail.saturating_mul(found.f_frsize),
        free_files: (found.f_files > 0).then_some(found.f_favail),
    })
}
