//! Real components for tests and for people: Open vSwitch, OVN, etcd and kube-apiserver, raised in seconds in namespaces of
//! their own and gone without a trace afterwards, also when the process that raised them is killed.
//!
//! ```text
//!   Lab ── scratch directory (watched by a warden process) and a home namespace
//!    │
//!    ├─ OvsdbServer, RaftCluster, OvnCentral, Etcd, KubeApiServer      run in the home namespace
//!    │
//!    └─ Underlay: a namespace that is nothing but a bridge
//!          ├── home  172.31.0.1
//!          ├── Node  172.31.0.11   network + mount namespace: ovsdb-server, ovs-vswitchd, ovn-controller
//!          │     └── Pod            network namespace, a veth pair into the node
//!          └── Node  172.31.0.12 …
//! ```
//!
//! A namespace is held by a thread ([`Namespace`]) and has no name in the file system. Whatever runs in it is a child of that
//! thread and dies with it; so nothing is ever cleaned up by a list of what was made, and nothing is left in the machine's
//! own namespaces. Since every test has a home namespace, fixed ports on 127.0.0.1 do not clash.
//!
//! All calls block until what they do is done. They wait for the component's own notice of being ready and give up after a
//! deadline, with the end of its log in the error. Handles are `Send` and `Sync`: an async test in which something must go on
//! meanwhile calls them on `tokio::task::spawn_blocking`.
//!
//! ```no_run
//! use portolan_lab::{Node, OvnCentral, Result, Underlay};
//!
//! # fn pod_is_plugged() {
//! portolan_lab::test(async |lab| -> Result<()> {
//!     let underlay = Underlay::start(&lab)?;
//!     let central = OvnCentral::builder().start(&lab)?;
//!     let node = Node::builder("node1").ovn(&central).start(&underlay)?;
//!     central.nbctl(&["ls-add", "sea", "--", "lsp-add", "sea", "argo"])?;
//!     let pod = node.pod("pod1")?;
//!     node.plug(&pod, "argo")
//! });
//! # }
//! ```
//!
//! With the feature `cluster` there is also a whole cluster of these (`cluster`), with Portolan's controller, agents and CNI plugin,
//! and a runtime that runs pods on its nodes (`runtime`).
//!
//! Start reading at [`test()`] and [`Lab`]. This crate starts Portolan's binaries and links nothing of them but the kinds; it needs
//! root.

#[cfg(feature = "cluster")]
pub mod cluster;
mod command;
mod error;
mod etcd;
mod https;
mod installed;
mod json_rpc;
mod kube_apiserver;
mod lab;
mod namespace;
mod node;
mod ovn_central;
mod ovsdb_server;
pub mod pki;
mod pod;
mod process;
mod raft;
mod readiness;
mod remains;
#[cfg(feature = "cluster")]
mod runtime;
mod scratch;
mod test_run;
mod underlay;

pub use command::Command;
pub use error::{Error, Result};
pub use etcd::{Etcd, EtcdBuilder};
pub use installed::{OPEN_VSWITCH_SCHEMA, OVN_NB_SCHEMA, OVN_SB_SCHEMA};
pub use kube_apiserver::{KubeApiServer, KubeApiServerBuilder};
pub use lab::Lab;
pub use namespace::Namespace;
pub use node::{Node, NodeBuilder};
pub use ovn_central::{Database, OvnCentral, OvnCentralBuilder};
pub use ovsdb_server::{OvsdbServer, OvsdbServerBuilder};
pub use pod::Pod;
pub use process::{Daemon, Process};
pub use raft::{RaftCluster, RaftClusterBuilder};
pub use readiness::Ready;
pub use remains::Remains;
pub use test_run::{Outcome, Test, test};
pub use underlay::Underlay;
