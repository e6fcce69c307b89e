//! `portolan ovn-controller` and `portolan ovs`: a daemon of OVN or Open vSwitch as the process of a container.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use portolan_daemons::{Daemon, supervise, switch_database, vswitchd};

use crate::api_servers::ApiServerArguments;
use crate::controller::listen_address;
use crate::daemon_certificates::{self, Beside, Certificates};

/// `portolan ovn-controller`.
#[derive(Debug, Args)]
pub(crate) struct OvnController {
    /// The directory of Open vSwitch's sockets.
    #[arg(long, value_name = "DIRECTORY", default_value = "/run/openvswitch")]
    switch_run_dir: PathBuf,
    /// The directory of its own.
    #[arg(long, value_name = "DIRECTORY", default_value = "/run/ovn")]
    run_dir: PathBuf,
    #[command(flatten)]
    certificates: Certificates,
    #[command(flatten)]
    api: ApiServerArguments,
    #[command(flatten)]
    health: Health,
}

/// `portolan ovs`.
#[derive(Debug, Args)]
pub(crate) struct Ovs {
    #[command(subcommand)]
    part: OvsPart,
}

#[derive(Debug, Subcommand)]
enum OvsPart {
    /// Serve the node's Open vSwitch database.
    Database(SwitchDatabase),
    /// Run ovs-vswitchd.
    Vswitchd(Vswitchd),
}

#[derive(Debug, Args)]
struct SwitchDatabase {
    /// The directory of the database.
    #[arg(long, value_name = "DIRECTORY", default_value = "/var/lib/openvswitch")]
    data_dir: PathBuf,
    /// The directory of sockets.
    #[arg(long, value_name = "DIRECTORY", default_value = "/run/openvswitch")]
    run_dir: PathBuf,
    /// The schema.
    #[arg(long, value_name = "FILE", default_value = "/usr/share/openvswitch/vswitch.ovsschema")]
    schema: PathBuf,
    #[command(flatten)]
    health: Health,
}

#[derive(Debug, Args)]
struct Vswitchd {
    /// The directory of sockets.
    #[arg(long, value_name = "DIRECTORY", default_value = "/run/openvswitch")]
    run_dir: PathBuf,
    #[command(flatten)]
    health: Health,
}

#[derive(Debug, Args)]
pub(crate) struct Health {
    /// Serve /healthz and /readyz over plain HTTP at this address; a port alone means 127.0.0.1. Not served unless given.
    #[arg(long = "health-address", value_name = "[HOST:]PORT", value_parser = listen_address)]
    address: Option<SocketAddr>,
}

pub(crate) async fn run_ovn_controller(
    arguments: OvnController,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let OvnController { switch_run_dir, run_dir, certificates, api, health } = arguments;
    let (daemon, beside) =
        daemon_certificates::controller(certificates, &api, switch_run_dir, &run_dir).await?;
    run_daemon(daemon, health, stop, beside).await
}

pub(crate) async fn run_ovs(arguments: Ovs, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
    let (daemon, health) = match arguments.part {
        OvsPart::Database(SwitchDatabase { data_dir, run_dir, schema, health }) => {
            (switch_database(&run_dir, &data_dir, &schema), health)
        }
        OvsPart::Vswitchd(Vswitchd { run_dir, health }) => (vswitchd(&run_dir), health),
    };
    run_daemon(daemon, health, stop, Box::pin(std::future::pending())).await
}

/// Runs a daemon, and does something else beside it.
pub(crate) async fn run_daemon(
    daemon: Daemon,
    health: Health,
    stop: impl Future<Output = ()>,
    beside: Beside,
) -> anyhow::Result<()> {
    tokio::select! {
        ended = supervise(daemon, health.address, crate::notify::ready, stop) => Ok(ended?),
        failed = beside => match failed? {},
    }
}
