//! `portolan ovn-central`, `portolan ovn-controller` and `portolan ovs`: a daemon of OVN or Open vSwitch as the process of a container.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use portolan_daemons::{Daemon, OvnDatabase, northd, supervise, switch_database, vswitchd};

use crate::cluster;
use crate::controller::listen_address;
use crate::daemon_certificates::{self, Beside, Certificates};
use crate::ovn_addresses::{Place, publish};

/// `portolan ovn-central`.
#[derive(Debug, Args)]
pub(crate) struct OvnCentral {
    #[command(subcommand)]
    part: OvnCentralPart,
}

#[derive(Debug, Subcommand)]
enum OvnCentralPart {
    /// Serve the northbound database.
    Northbound(Database),
    /// Serve the southbound database.
    Southbound(Database),
    /// Run ovn-northd on both, by their sockets in the same directory.
    Northd(Northd),
}

#[derive(Debug, Args)]
struct Database {
    /// An address of this host at which to listen for controllers and nodes. Without it: on the Unix socket alone.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<IpAddr>,
    /// Write that address to this ConfigMap, NAMESPACE/NAME, once the database is served: controllers and agents with --ovn-addresses
    /// find it there.
    #[arg(long, value_name = "CONFIGMAP", requires_all = ["listen", "member"])]
    publish: Option<Place>,
    /// The key of this address in that ConfigMap.
    #[arg(long, value_name = "NAME")]
    member: Option<String>,
    #[command(flatten)]
    certificates: Certificates,
    /// How to reach the API server. Without it: the cluster that this runs in, or the user's own kubeconfig.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The directory of the database.
    #[arg(long, value_name = "DIRECTORY", default_value = "/var/lib/ovn")]
    data_dir: PathBuf,
    /// The directory of sockets.
    #[arg(long, value_name = "DIRECTORY", default_value = "/run/ovn")]
    run_dir: PathBuf,
    /// The directory of OVN's schemas.
    #[arg(long, value_name = "DIRECTORY", default_value = "/usr/share/ovn")]
    schema_dir: PathBuf,
    #[command(flatten)]
    health: Health,
}

#[derive(Debug, Args)]
struct Northd {
    /// The directory of sockets.
    #[arg(long, value_name = "DIRECTORY", default_value = "/run/ovn")]
    run_dir: PathBuf,
    #[command(flatten)]
    health: Health,
}

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
    /// How to reach the API server, for --tls. Without it: the cluster that this runs in, or the user's own kubeconfig.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
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
struct Health {
    /// Serve /healthz and /readyz over plain HTTP at this address; a port alone means 127.0.0.1. Not served unless given.
    #[arg(long = "health-address", value_name = "[HOST:]PORT", value_parser = listen_address)]
    address: Option<SocketAddr>,
}

pub(crate) async fn run_ovn_central(
    arguments: OvnCentral,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let (database, arguments) = match arguments.part {
        OvnCentralPart::Northd(Northd { run_dir, health }) => {
            return run(northd(&run_dir), health, stop, std::future::pending(), nothing()).await;
        }
        OvnCentralPart::Northbound(arguments) => (OvnDatabase::Northbound, arguments),
        OvnCentralPart::Southbound(arguments) => (OvnDatabase::Southbound, arguments),
    };
    let Database { listen, publish: place, member, certificates, kubeconfig, health, .. } = arguments;
    let directories = [&arguments.run_dir, &arguments.data_dir, &arguments.schema_dir].map(PathBuf::as_path);
    let (daemon, beside) =
        daemon_certificates::database(database, listen, certificates, kubeconfig.as_deref(), directories)
            .await?;
    let published = async move {
        if let (Some(place), Some(member), Some(address)) = (place, member, listen) {
            let config = cluster::config(kubeconfig.as_deref(), "portolan-ovn-central").await?;
            publish(portolan_watch::client(config)?, place, member, address).await;
        }
        anyhow::Ok(())
    };
    run(daemon, health, stop, published, beside).await
}

pub(crate) async fn run_ovn_controller(
    arguments: OvnController,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let OvnController { switch_run_dir, run_dir, certificates, kubeconfig, health } = arguments;
    let kubeconfig = kubeconfig.as_deref();
    let (daemon, beside) =
        daemon_certificates::controller(certificates, kubeconfig, switch_run_dir, &run_dir).await?;
    run(daemon, health, stop, std::future::pending(), beside).await
}

pub(crate) async fn run_ovs(arguments: Ovs, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
    let (daemon, health) = match arguments.part {
        OvsPart::Database(SwitchDatabase { data_dir, run_dir, schema, health }) => {
            (switch_database(&run_dir, &data_dir, &schema), health)
        }
        OvsPart::Vswitchd(Vswitchd { run_dir, health }) => (vswitchd(&run_dir), health),
    };
    run(daemon, health, stop, std::future::pending(), nothing()).await
}

fn nothing() -> Beside {
    Box::pin(std::future::pending())
}

/// Runs a daemon, does something else beside it, and something once it is ready.
async fn run(
    daemon: Daemon,
    health: Health,
    stop: impl Future<Output = ()>,
    afterwards: impl Future<Output = anyhow::Result<()>>,
    beside: Beside,
) -> anyhow::Result<()> {
    let (tell, told) = tokio::sync::oneshot::channel();
    let ready = || {
        crate::notify::ready();
        // Nobody waits if the rest has ended.
        let _ = tell.send(());
    };
    let afterwards = async {
        if told.await.is_ok() {
            afterwards.await?;
        }
        std::future::pending::<anyhow::Result<()>>().await
    };
    tokio::select! {
        ended = supervise(daemon, health.address, ready, stop) => Ok(ended?),
        failed = afterwards => failed,
        failed = beside => match failed? {},
    }
}
