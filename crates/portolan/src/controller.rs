//! `portolan controller`.

use std::net::{Ipv4Addr, SocketAddr};
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
    /// The MTU of pods on subnets that set none: what the tunnel between nodes leaves. Give agents the same.
    #[arg(long, value_name = "BYTES", default_value_t = crate::DEFAULT_MTU)]
    mtu: u16,
    /// Serve /healthz and /readyz over plain HTTP at this address; a port alone means 127.0.0.1. Not served unless given.
    #[arg(long, value_name = "[HOST:]PORT", value_parser = health_address)]
    health_address: Option<SocketAddr>,
}

/// `HOST:PORT`, or a port of this machine's own.
fn health_address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse() {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    text.parse().map_err(|_| format!("{text:?} is neither a port nor an address with a port"))
}

pub(crate) async fn run(arguments: Arguments, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
    let kube = cluster::config(arguments.kubeconfig.as_deref()).await?;
    let mut config = portolan_controller::Config::new(kube, arguments.ovn_nb);
    config.plan.mtu = arguments.mtu;
    config.health = arguments.health_address;
    portolan_controller::run(config, stop).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_served_on_loopback() {
        assert_eq!(health_address("9100").unwrap().to_string(), "127.0.0.1:9100");
        assert_eq!(health_address("0.0.0.0:9100").unwrap().to_string(), "0.0.0.0:9100");
        assert!(health_address("here").is_err());
    }

    #[tokio::test]
    async fn controller_and_agent_mean_the_same_mtu() {
        let kube = kube::Config::new("http://127.0.0.1".parse().unwrap());
        assert_eq!(portolan_controller::Config::new(kube.clone(), Vec::new()).plan.mtu, crate::DEFAULT_MTU);
        assert_eq!(portolan_agent::Config::new("node", kube).mtu, crate::DEFAULT_MTU);
    }
}
