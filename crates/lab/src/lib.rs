//! Open vSwitch and OVN, and whole clusters of them, raised in seconds in namespaces of their own. When the process that raised them
//! ends, also when it is killed, nothing of them is left.
//!
//! ```text
//!   Lab ── scratch directory (watched by a warden process) and a home namespace
//!    │
//!    ├─ OvsdbServer, RaftCluster, OvnCentral, the API server           run in the home namespace
//!    │
//!    └─ Underlay: a namespace that is nothing but a bridge
//!          ├── home  172.31.0.1
//!          ├── Node  172.31.0.11   a Machine (network + mount namespace) with ovsdb-server, ovs-vswitchd, ovn-controller
//!          └── Node  172.31.0.12 …
//! ```
//!
//! A namespace is held by a thread ([`Namespace`]) and has no name in the file system. Whatever runs in it is a child of that
//! thread and dies with it; so nothing is cleaned up by a list of what was made, and nothing is left in the machine's own
//! namespaces. Since every lab has a home namespace, fixed ports on 127.0.0.1 do not clash.
//!
//! All calls block until what they do is done. They wait for the component's own notice of being ready and give up after a
//! deadline, with the end of its log in the error. Handles are `Send` and `Sync`: async code in which something must go on
//! meanwhile calls them on `tokio::task::spawn_blocking`.
//!
//! ```no_run
//! use portolan_lab::{Lab, Node, OvnCentral, Result, Underlay};
//!
//! # fn raise() -> Result<()> {
//! let lab = Lab::new()?;
//! let underlay = Underlay::start(&lab)?;
//! let central = OvnCentral::builder().start(&lab)?;
//! let node = Node::builder("node1").ovn(&central).start(&underlay)?;
//! central.nbctl(&["ls-add", "sea"])?;
//! # Ok(())
//! # }
//! ```
//!
//! With the feature `cluster` there is also a whole cluster of these (`cluster`), with Portolan's controller, agents and CNI plugin,
//! and a runtime that runs pods on its nodes (`runtime`).
//!
//! This crate is part of the product: `portolan lab` is made of it. What only tests need (assertions, kube-apiserver, faults) is in
//! `portolan-testbed`. It starts Portolan's binaries and links nothing of them but the kinds; it needs root. Start reading at [`Lab`].

#[cfg(feature = "cluster")]
pub mod cluster;
mod command;
mod control_group;
mod error;
mod installed;
mod json_rpc;
mod lab;
mod machine;
mod namespace;
mod node;
mod ovn_central;
mod ovsdb_server;
pub mod pki;
mod process;
mod raft;
mod readiness;
mod remains;
#[cfg(feature = "cluster")]
mod runtime;
mod scratch;
mod underlay;

pub use command::Command;
pub use control_group::ControlGroup;
pub use error::{Error, Result, Trying};
pub use installed::{
    OPEN_VSWITCH_SCHEMA, OVN_NB_SCHEMA, OVN_SB_SCHEMA, built_program, cache, program_or_built,
};
pub use lab::Lab;
pub use machine::{Machine, MachineBuilder};
pub use namespace::Namespace;
pub use node::{Datapath, Node, NodeBuilder};
pub use ovn_central::{Database, OvnCentral, OvnCentralBuilder};
pub use ovsdb_server::{OvsdbServer, OvsdbServerBuilder};
pub use process::{Daemon, Process};
pub use raft::{RaftCluster, RaftClusterBuilder};
pub use readiness::Ready;
pub use remains::Remains;
pub use underlay::Underlay;
