//! The Linux host: namespaces, links, addresses, routes, and the guards of links.
//!
//! ```text
//!  netns        runs code in another network namespace, on a thread of its own
//!  rtnetlink    links, addresses, routes              ─┐
//!  link_monitor changes of links                      ─┤ sockets: each belongs to the namespace it was opened in,
//!  ethtool      checksum offload                      ─┤ and can be used from anywhere
//!  genl         whether the kernel has a family       ─┤
//!  announce     gratuitous ARP, unsolicited neighbours ┘
//!  tap          links whose other end is a process
//!  directory_monitor  changes of files in a directory
//!  guard        keeps a pod's frames from the host's own stack, where the kernel sees what Open vSwitch reads
//!  guard_monitor changes of guards
//!  forward_policy  firewalls of others that drop what the node forwards
//!  masquerade   translation of what leaves the cluster from this node
//!  sysctl       settings of the kernel
//!  change_monitor that something about links, addresses, routes or nftables changed
//!  path_probe   what passes on the way to another host: the largest packet, and packets to a port
//!  memory       how much of it the process keeps
//!  pci          virtual functions of network cards and their representors, by sysfs
//! ```
//!
//! Everything here is synchronous and takes milliseconds; an async caller uses a blocking thread. Namespaces are named by open
//! descriptors, never by paths or ids that may come to mean another one. This crate knows nothing of Kubernetes, OVN or Portolan's
//! model, and is the only one that may contain `unsafe`. Start reading at [`rtnetlink`].

pub mod announce;
pub mod change_monitor;
pub mod directory_monitor;
mod error;
pub mod ethtool;
pub mod forward_policy;
pub mod genl;
pub mod guard;
pub mod guard_monitor;
pub mod link_monitor;
pub mod masquerade;
pub mod memory;
mod netlink;
pub mod netns;
mod nf_tables;
mod nft;
pub mod path_probe;
pub mod pci;
pub mod rtnetlink;
pub mod sysctl;
pub mod tap;

pub use change_monitor::ChangeMonitor;
pub use directory_monitor::{DirectoryChange, DirectoryMonitor};
pub use error::{Error, Result};
pub use ethtool::Ethtool;
pub use forward_policy::{DroppingChain, ForwardMonitor};
pub use guard::Admits;
pub use guard_monitor::{GuardChange, GuardMonitor};
pub use link_monitor::{LinkChange, LinkMonitor};
pub use masquerade::Masquerade;
pub use pci::{PciAddress, Sysfs, VirtualFunction};
pub use rtnetlink::{Link, LinkAddress, LinkKind, Route, Rtnetlink, Veth};
pub use tap::Tap;

/// A MAC address.
pub type MacAddress = [u8; 6];
