//! What tests need beyond the lab. This crate is only ever a development dependency: nothing of it is linked into the product.
//!
//! ```text
//!   test(), Test       run a test's body in a TestLab of its own; print logs and collect artefacts when it fails
//!   Etcd, KubeApiServer    real Kubernetes parts
//!   Testbed            a portolan_lab Cluster with pods (Pod), traffic (ping, tcp, udp, throughput) and what a failure leaves behind
//!   kubernetes::Kubernetes a whole cluster of real Kubernetes: containerd and kubelet on every node
//!   NetworkCard        virtual functions and their representors, made up
//!   Faults             an API server that refuses requests, forgets history, cuts watches, serves kinds late
//! ```
//!
//! ```no_run
//! use portolan_testbed::{Node, OvnCentral, Result, Underlay};
//!
//! # fn guest_is_plugged() {
//! portolan_testbed::test(async |lab| -> Result<()> {
//!     let underlay = Underlay::start(&lab)?;
//!     let central = OvnCentral::builder().start(&lab)?;
//!     let node = Node::builder("node1").ovn(&central).start(&underlay)?;
//!     central.nbctl(&["ls-add", "sea", "--", "lsp-add", "sea", "argo"])?;
//!     let guest = portolan_testbed::VethGuest::new(&node, "guest1")?;
//!     guest.plug(&node, "argo")
//! });
//! # }
//! ```
//!
//! Everything of `portolan_lab` is also here, so that a test needs one dependency. Start reading at [`test()`] and, for whole
//! clusters, at `Testbed`.

#[cfg(feature = "cluster")]
mod artefacts;
#[cfg(feature = "cluster")]
mod capture;
mod etcd;
#[cfg(feature = "cluster")]
mod faults;
#[cfg(feature = "cluster")]
mod heartbeat;
mod https;
mod kube_apiserver;
#[cfg(feature = "kubernetes")]
pub mod kubernetes;
#[cfg(feature = "cluster")]
mod network_card;
#[cfg(feature = "cluster")]
mod northbound;
#[cfg(feature = "cluster")]
mod objects;
#[cfg(feature = "cluster")]
mod pod;
#[cfg(feature = "cluster")]
mod sandbox;
mod test_lab;
mod test_run;
#[cfg(feature = "cluster")]
mod testbed;
#[cfg(feature = "cluster")]
mod throughput;
#[cfg(feature = "cluster")]
mod traffic;
mod veth_guest;

pub use etcd::{Etcd, EtcdBuilder};
#[cfg(feature = "cluster")]
pub use faults::{Faults, Injected};
#[cfg(feature = "cluster")]
pub use heartbeat::Heartbeat;
pub use kube_apiserver::{KubeApiServer, KubeApiServerBuilder};
#[cfg(feature = "cluster")]
pub use network_card::NetworkCard;
#[cfg(feature = "cluster")]
pub use northbound::{Northbound, Recording};
#[cfg(feature = "cluster")]
pub use objects::ONE_SWITCH;
#[cfg(feature = "cluster")]
pub use pod::{Pod, PodBuilder};
pub use portolan_lab::*;
#[cfg(feature = "cluster")]
pub use sandbox::Sandbox;
pub use test_lab::TestLab;
pub use test_run::{Outcome, Test, test};
#[cfg(feature = "cluster")]
pub use testbed::{ApiKind, Testbed, TestbedBuilder};
#[cfg(feature = "cluster")]
pub use throughput::Throughput;
#[cfg(feature = "cluster")]
pub use traffic::{Destination, Ping, Tcp, Udp};
pub use veth_guest::VethGuest;
