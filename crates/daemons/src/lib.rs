//! Runs one daemon of OVN or Open vSwitch in the foreground, as a container of a pod does: prepares what it needs, says whether it is
//! ready, hands signals on, and ends when it ends.
//!
//! ```text
//!  northbound, southbound, switch_database ──▶ database: the file, by the schema that is installed     (ovsdb-tool)
//!  northd, vswitchd, ovn_controller                │
//!           └────────────▶ Daemon ──▶ supervise: start, checks for /readyz, stop                       (json_rpc)
//! ```
//!
//! These daemons are started here and spoken to by their own protocols. `ovsdb-tool` runs before a server starts, since nothing else can
//! make or convert a file that no server has open; it takes no part in what happens afterwards. This crate knows neither Kubernetes nor
//! Portolan: an orchestrator restarts what ends. Start reading at [`supervise()`].

mod chassis_listener;
mod checks;
mod cluster;
mod completeness;
mod daemon;
mod database;
mod error;
mod json_rpc;
mod ovn_central;
mod ovn_controller;
mod served;
mod supervise;
mod switch;
mod transport;

pub use completeness::{COMPLETE, LIFE};
pub use daemon::Daemon;
pub use database::{ClusterServer, DatabaseFile, Stored};
pub use error::Error;
pub use ovn_central::{
    OvnDatabase, begin_life_of_cluster, cut_off_from_cluster, northd, ovn_cluster_member, ovn_database,
    remove_from_cluster,
};
pub use ovn_controller::{chassis_name, ovn_controller};
pub use supervise::supervise;
pub use switch::{switch_database, vswitchd};
pub use transport::{Listen, TlsFiles, Transport};
