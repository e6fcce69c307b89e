//! `portolan agent examine`, which `portolan doctor` runs on nodes.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use portolan_agent::examine::{Examination, Page, Peer, run as examine};

use super::install::{Directories, ModeName};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The name of this node.
    #[arg(long, value_name = "NAME")]
    node: String,
    /// All nodes, each with the address at which its tunnels end, NAME=ADDRESS. Each tries the way to the next ones.
    #[arg(long, value_name = "NODES", value_delimiter = ',', value_parser = peer)]
    nodes: Vec<Peer>,
    /// To how many of the next ones.
    #[arg(long, value_name = "NUMBER", default_value_t = 2)]
    neighbours: usize,
    /// The size of the largest packet that tunnels send; 1500 unless given.
    #[arg(long, value_name = "BYTES")]
    packet: Option<u32>,
    /// A port whose listener is of interest; may be repeated.
    #[arg(long = "port", value_name = "PORT")]
    ports: Vec<u16>,
    /// Tells this examination from others; the same on all nodes.
    #[arg(long, value_name = "NUMBER")]
    nonce: u64,
    /// How long other nodes may take to begin, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 15)]
    patience: u32,
    /// How the plugin is called, where it is installed.
    #[arg(long, value_enum)]
    mode: Option<ModeName>,
    /// The plugin of this version.
    #[arg(long, value_name = "FILE")]
    plugin: Option<PathBuf>,
    /// The socket of the Open vSwitch database.
    #[arg(long, value_name = "PATH", default_value = "/run/openvswitch/db.sock")]
    ovsdb: PathBuf,
    /// A directory on the file system of databases.
    #[arg(long, value_name = "DIRECTORY", default_value = "/var/lib")]
    data: PathBuf,
    /// Something to collect, NAME=http://ADDRESS:PORT/PATH or NAME=/PATH; may be repeated.
    #[arg(long = "page", value_name = "PAGE")]
    pages: Vec<Page>,
    #[command(flatten)]
    directories: Directories,
}

/// `NAME=ADDRESS`
fn peer(text: &str) -> Result<Peer, String> {
    let wrong = || format!("{text:?}: write NAME=ADDRESS");
    let (node, address) = text.split_once('=').ok_or_else(wrong)?;
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    Ok(Peer { node: node.to_owned(), address })
}

pub(crate) async fn run(arguments: Arguments, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
    let own = arguments.nodes.iter().find(|peer| peer.node == arguments.node).map(|peer| peer.address);
    let examination = Examination {
        peers: neighbours(&arguments.nodes, &arguments.node, arguments.neighbours),
        node: arguments.node,
        address: own,
        packet: arguments.packet,
        ports: arguments.ports,
        nonce: arguments.nonce,
        patience: Duration::from_secs(arguments.patience.into()),
        places: arguments.directories.into(),
        plugin: arguments.plugin,
        mode: arguments.mode.map(Into::into),
        ovsdb: arguments.ovsdb,
        data: arguments.data,
        pages: arguments.pages,
    };
    tokio::select! {
        ended = examine(examination) => match ended? {},
        () = stop => Ok(()),
    }
}

/// The nodes that come after one in a ring of all: so each is tried as often as it tries, whatever their number.
fn neighbours(nodes: &[Peer], own: &str, number: usize) -> Vec<Peer> {
    let Some(at) = nodes.iter().position(|peer| peer.node == own) else { return Vec::new() };
    let others = nodes.iter().cycle().skip(at + 1).take(nodes.len() - 1);
    others.take(number).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_tries_the_next_ones_and_never_itself() {
        let nodes: Vec<Peer> =
            (1..=4).map(|n| peer(&format!("node{n}=192.0.2.{n}")).expect("it is one")).collect();
        let names = |own: &str, number: usize| -> Vec<String> {
            neighbours(&nodes, own, number).into_iter().map(|peer| peer.node).collect()
        };
        assert_eq!(names("node1", 2), ["node2", "node3"]);
        assert_eq!(names("node4", 2), ["node1", "node2"]);
        assert_eq!(names("node3", 9), ["node4", "node1", "node2"]);
        assert!(names("other", 2).is_empty());
        assert!(neighbours(&nodes[..1], "node1", 2).is_empty());
        assert!(peer("node1").is_err() && peer("node1=x").is_err());
    }
}
