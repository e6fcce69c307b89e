//! `portolan controller`.

use std::path::PathBuf;

use clap::Args;
use ovsdb::Endpoint;

use crate::cluster;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// How to reach the API server. Without it: the cluster that this runs in, or the user's own kubeconfig.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// OVN's northbound database: `unix:PATH`, `tcp:HOST:PORT` or `ssl:HOST:PORT`; all members of a cluster, separated by
    /// commas.
    #[arg(
        long,
        value_name = "ENDPOINTS",
        value_delimiter = ',',
        default_value = "unix:/run/ovn/ovnnb_db.sock"
    )]
    ovn_nb: Vec<Endpoint>,
}

pub(crate) async fn run(arguments: Arguments, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
    let kube = cluster::config(arguments.kubeconfig.as_deref()).await?;
    portolan_controller::run(portolan_controller::Config::new(kube, arguments.ovn_nb), stop).await
}
