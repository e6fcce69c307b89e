//! What was found on a node, as it is written and read.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// What was found, or why it could not be found out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome<T> {
    /// This was found.
    Found(T),
    /// It could not be found out.
    Unknown(String),
}

impl<T> Outcome<T> {
    /// The outcome of an attempt, with all that its error says.
    pub fn of<E: Into<anyhow::Error>>(result: Result<T, E>) -> Self {
        match result {
            Ok(found) => Outcome::Found(found),
            Err(error) => Outcome::Unknown(format!("{:#}", error.into())),
        }
    }

    /// What was found.
    pub fn found(&self) -> Option<&T> {
        match self {
            Outcome::Found(found) => Some(found),
            Outcome::Unknown(_) => None,
        }
    }

    /// Why nothing was.
    pub fn unknown(&self) -> Option<&str> {
        match self {
            Outcome::Found(_) => None,
            Outcome::Unknown(reason) => Some(reason),
        }
    }
}

/// What a node has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeFacts {
    /// The node's name.
    pub node: String,
    /// The version of Portolan that examined it.
    pub version: String,
    /// Its clock.
    pub clock: Clock,
    /// Its kernel.
    pub kernel: Kernel,
    /// Settings below `/proc/sys`, by their names; those that the kernel does not have are missing.
    pub settings: BTreeMap<String, String>,
    /// Chains of nftables that drop what is forwarded.
    pub forward_drops: Outcome<Vec<String>>,
    /// Who listens at the ports of an installation.
    pub listeners: Outcome<Vec<Listener>>,
    /// Open vSwitch; none where it does not run.
    pub switch: Outcome<Option<Switch>>,
    /// What the container runtime reads.
    pub configurations: Outcome<Configurations>,
    /// The link with the address of tunnels; none if no link has it.
    pub tunnel: Outcome<Option<TunnelLink>>,
    /// What is free where databases are.
    pub space: Outcome<Space>,
}

/// A clock, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Clock {
    /// Its time.
    pub seconds: i64,
}

/// A kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Kernel {
    /// Its release.
    pub release: String,
    /// Whether it has Open vSwitch's datapath.
    pub openvswitch: Outcome<bool>,
    /// Whether it has geneve.
    pub geneve: Module,
}

/// Whether a module is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Module {
    /// It is loaded, or part of the kernel.
    Loaded,
    /// It can be loaded.
    Available,
    /// It is not there.
    Missing,
}

/// Who listens at a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Listener {
    /// The port.
    pub port: u16,
    /// `tcp` or `udp`.
    pub protocol: Protocol,
    /// The address it listens at.
    pub address: IpAddr,
    /// The process; none if it is the kernel, or cannot be seen.
    pub process: Option<Process>,
}

/// A transport protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Protocol::Tcp => "TCP",
            Protocol::Udp => "UDP",
        })
    }
}

/// A process of the node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Its name, of 15 characters at most.
    pub name: String,
}

/// Open vSwitch of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Switch {
    /// Its version, as ovs-vswitchd says.
    pub version: Option<String>,
    /// Whether ovs-vswitchd has taken up the last change.
    pub in_step: bool,
    /// Its bridges with their datapaths.
    pub bridges: BTreeMap<String, String>,
    /// Settings of OVN: those of `external_ids` that OVN reads.
    pub settings: BTreeMap<String, String>,
}

/// What the container runtime reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Configurations {
    /// The names of configurations, in the order of the runtime: it takes the first.
    pub files: Vec<String>,
    /// Those of Portolan.
    pub ours: Vec<String>,
    /// What the first one calls, or why it cannot be read.
    pub first: Option<Outcome<First>>,
    /// Why Portolan's cannot be as it should, in the words of `portolan agent install`.
    pub problem: Option<String>,
    /// Portolan's is not what it should be.
    pub outdated: bool,
    /// The plugin.
    pub plugin: Plugin,
}

/// The configuration that the runtime takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct First {
    /// The network's name.
    pub name: String,
    /// The plugins that it calls, by type.
    pub plugins: Vec<String>,
}

/// The CNI plugin of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Plugin {
    /// There is none.
    Missing,
    /// It is that of this version.
    Current,
    /// It is that of another version.
    Other,
    /// It is another program.
    Foreign,
    /// It is there, and there was none to compare with.
    Present,
}

/// The link that tunnels use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TunnelLink {
    /// The address.
    pub address: IpAddr,
    /// The link's name.
    pub link: String,
    /// Its MTU.
    pub mtu: u32,
}

/// What is free on a file system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Space {
    /// A directory on it.
    pub path: String,
    /// How many bytes.
    pub free_bytes: u64,
    /// How many files; none if there is no limit.
    pub free_files: Option<u64>,
}

/// What was found on the way to another node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Path {
    /// The other node.
    pub to: String,
    /// Its address.
    pub address: IpAddr,
    /// The size of the packets that should pass.
    pub wanted: u32,
    /// The largest that passes; none if not even a small one is answered.
    pub largest: Outcome<Option<u32>>,
    /// Whether packets to the port of tunnels arrive and are answered.
    pub tunnel_port: Outcome<bool>,
}
