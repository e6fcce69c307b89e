//! `portolan agent uninstall`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use portolan_agent::install::uninstall;
use portolan_health::{Incoming, Page, Pages, Request, StatusCode, probe, probe_of, respond};

use super::install::Directories;
use crate::controller::listen_address;

/// What an installation keeps on a node, besides what the container runtime reads.
const DATA: &str = "/var/lib/portolan";

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Also remove OVN's bridge, the settings that make the node a chassis of OVN, the guards of links, and the databases that pods of
    /// Portolan keep on this node. Neither the agent nor ovn-controller may run any more; Open vSwitch must.
    #[arg(long)]
    everything: bool,
    /// The socket of the Open vSwitch database.
    #[arg(long, value_name = "PATH", default_value = "/run/openvswitch/db.sock", requires = "everything")]
    ovsdb: PathBuf,
    /// Stay until told to end, once all is removed: in a DaemonSet.
    #[arg(long)]
    stay: bool,
    /// With --stay, serve /healthz, and /readyz, which succeeds once all is removed; a port alone means 127.0.0.1.
    #[arg(long, value_name = "[HOST:]PORT", value_parser = listen_address, requires = "stay")]
    health_address: Option<SocketAddr>,
    #[command(flatten)]
    directories: Directories,
}

pub(crate) async fn run(arguments: Arguments, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
    for path in uninstall(&arguments.directories.into())? {
        println!("{} removed", path.display());
    }
    if arguments.everything {
        for what in portolan_agent::removal::remove(&arguments.ovsdb).await? {
            println!("{what} removed");
        }
        if remove_data(Path::new(DATA))? {
            println!("{DATA} removed");
        }
    }
    if !arguments.stay {
        return Ok(());
    }
    let served = async {
        let Some(address) = arguments.health_address else { return std::future::pending().await };
        let listener = tokio::net::TcpListener::bind(address).await;
        let listener = listener.with_context(|| format!("cannot serve health checks at {address}"))?;
        portolan_health::serve(listener, AllRemoved).await;
        anyhow::Ok(())
    };
    tokio::select! {
        ended = served => ended,
        () = stop => Ok(()),
    }
}

fn remove_data(path: &Path) -> anyhow::Result<bool> {
    match std::fs::remove_dir_all(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).with_context(|| format!("remove {}", path.display())),
    }
}

/// What is served when all is done.
#[derive(Clone)]
struct AllRemoved;

impl Pages for AllRemoved {
    async fn answer(&self, request: Request<Incoming>, _: SocketAddr) -> Page {
        match probe_of(request.uri().path()) {
            (name @ ("healthz" | "livez" | "readyz"), one) => probe(name, one, "", vec![("removed", Ok(()))]),
            _ => respond(StatusCode::NOT_FOUND, "there are /healthz and /readyz\n".into()),
        }
    }
}
