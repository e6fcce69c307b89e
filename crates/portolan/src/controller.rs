//! `portolan controller`.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::Context as _;
use clap::Args;
use futures::future::OptionFuture;
use ipnet::IpNet;
use ovsdb::{Endpoint, Endpoints};
use portolan_controller::{Config, LeaderElection, Log, Reader};
use portolan_model::World;
use portolan_model::node::LEAST_IPV4_MTU;
use portolan_trace::{Databases, NotAvailable, Tracer, Worlds};
use portolan_trace_server::ServiceReference;
use portolan_watch::ApiServers;
use tokio::sync::watch;

use crate::api_servers::ApiServerArguments;
use crate::ovn_addresses::{OvnAddresses, Place, Told};
use crate::ovn_tls::{Certification, OvnTls};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The MTU of pods on subnets that set none. Without it: what fits into the tunnels between all nodes; it falls by itself when a
    /// node has less, and rises only by this flag. Agents are told by an annotation of their Nodes.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(i64::from(LEAST_IPV4_MTU)..))]
    mtu: Option<u16>,
    /// Make pods' first interfaces too: Portolan is the cluster's primary network. Controller and agents must agree. Without it another
    /// plugin makes them, and Portolan makes further ones.
    #[arg(long)]
    primary: bool,
    /// Remove from OVN what an earlier controller made with --primary: the router, and the switches and ports of nodes. Pods that still have
    /// interfaces by it keep their addresses, and are cut off: delete them first.
    #[arg(long, conflicts_with = "primary")]
    remove_primary: bool,
    /// A prefix of the Services that Portolan itself serves on the primary network; may be repeated. What goes to an address of it that no
    /// Service has is dropped, so it must not be given where kube-proxy serves them.
    #[arg(long, value_name = "CIDR", requires = "primary")]
    service_cidr: Vec<IpNet>,
    /// A network of the cluster's own, of pods, Services or nodes; may be repeated. With --primary: Subnets of tenants' VPCs that name
    /// namespaces must not overlap it, nor what is known of nodes and of the primary network without this.
    #[arg(long, value_name = "CIDR")]
    cluster_network: Vec<IpNet>,
    /// Serve /healthz, /readyz and /metrics over plain HTTP at this address, and /debug, to be read, to connections from this host; a
    /// port alone means 127.0.0.1. Not served unless given.
    #[arg(long, value_name = "[HOST:]PORT", value_parser = listen_address)]
    health_address: Option<SocketAddr>,
    /// Serve all of these, with /debug, to whoever connects to this address, and let them change the log's filter. There is no
    /// authentication.
    #[arg(long, value_name = "[HOST:]PORT", value_parser = listen_address)]
    debug_address: Option<SocketAddr>,
    #[command(flatten)]
    api: ApiServerArguments,
    #[command(flatten)]
    ovn: OvnDatabases,
    #[command(flatten)]
    election: Election,
    #[command(flatten)]
    trace: Trace,
    #[command(flatten)]
    webhook: Webhook,
}

/// Where OVN's databases are.
#[derive(Debug, Args)]
#[command(next_help_heading = "OVN databases")]
struct OvnDatabases {
    /// OVN's northbound database: `unix:PATH`, `tcp:HOST:PORT` or `ssl:HOST:PORT`; all members of a cluster, separated by
    /// commas.
    #[arg(
        long,
        value_name = "ENDPOINTS",
        value_delimiter = ',',
        default_value = "unix:/run/ovn/ovnnb_db.sock"
    )]
    ovn_nb: Vec<Endpoint>,
    /// OVN's southbound database: the condition `Ready` is read from it, the chassis of nodes that are gone are removed from it, and
    /// traces read it.
    #[arg(
        long,
        value_name = "ENDPOINTS",
        value_delimiter = ',',
        default_value = "unix:/run/ovn/ovnsb_db.sock"
    )]
    ovn_sb: Vec<Endpoint>,
    /// The ConfigMap, NAMESPACE/NAME, in which the members of ovn-central write their addresses; instead of --ovn-nb and --ovn-sb.
    /// It is followed.
    #[arg(long, value_name = "CONFIGMAP", conflicts_with_all = ["ovn_nb", "ovn_sb"])]
    ovn_addresses: Option<Place>,
    #[command(flatten)]
    tls: OvnTls,
}

/// How controllers agree on which of them acts.
#[derive(Debug, Args)]
#[command(next_help_heading = "Leader election")]
struct Election {
    /// Act only with the Lease `portolan-controller`, which one controller has at a time. For efficiency: several that act are
    /// harmless.
    #[arg(
        long,
        value_name = "BOOL",
        default_value_t = true,
        action = clap::ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    leader_election: bool,
    /// The namespace of that Lease.
    #[arg(long, value_name = "NAMESPACE", default_value = "portolan-system")]
    lease_namespace: String,
}

impl Election {
    fn config(self) -> Option<LeaderElection> {
        let Election { leader_election, lease_namespace: namespace } = self;
        leader_election.then(|| LeaderElection { namespace, identity: identity() })
    }
}

/// What the Lease calls this process: the pod or host, and something that no other process has.
fn identity() -> String {
    use std::hash::{BuildHasher as _, RandomState};
    let host = std::env::var("POD_NAME").ok().or_else(|| {
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
        Some(name.trim().to_owned())
    });
    let own = RandomState::new().hash_one(std::process::id());
    format!("{}_{own:016x}", host.filter(|host| !host.is_empty()).unwrap_or_else(|| "portolan".into()))
}

/// `HOST:PORT`, or a port of this machine's own.
pub(crate) fn listen_address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse() {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    text.parse().map_err(|_| {
        "neither a port nor an IP address with a port; write 9444, 0.0.0.0:9444 or [::]:9444".to_owned()
    })
}

/// The API `trace.portolan.dev`, which answers `portolan trace`.
#[derive(Debug, Args)]
#[command(next_help_heading = "Tracing (trace.portolan.dev)")]
struct Trace {
    /// Serve trace.portolan.dev at this address, for kube-apiserver: 0.0.0.0:9443, unless both are on one host; a port alone means
    /// 127.0.0.1. Not served unless given.
    #[arg(long, value_name = "[HOST:]PORT", value_parser = listen_address)]
    trace_address: Option<SocketAddr>,
    /// The Service by which kube-apiserver reaches that address, NAMESPACE/NAME.
    #[arg(long, value_name = "SERVICE", default_value = "portolan-system/portolan-trace", value_parser = service)]
    trace_service: ServiceReference,
}

/// The validating webhook, which refuses objects that could not be in effect.
#[derive(Debug, Args)]
#[command(next_help_heading = "Validating webhook")]
struct Webhook {
    /// Serve the validating webhook at this address, for the API server: 0.0.0.0:9444, unless both are on one host; a port alone means
    /// 127.0.0.1. Not served unless given.
    #[arg(long, value_name = "[HOST:]PORT", value_parser = listen_address)]
    webhook_address: Option<SocketAddr>,
    /// The Service by which the API server reaches that address, NAMESPACE/NAME.
    #[arg(long, value_name = "SERVICE", default_value = "portolan-system/portolan-webhook", value_parser = service)]
    webhook_service: ServiceReference,
}

fn service(text: &str) -> Result<ServiceReference, String> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok(ServiceReference { namespace: namespace.into(), name: name.into() })
        }
        _ => Err("write NAMESPACE/NAME".into()),
    }
}

pub(crate) async fn run(
    arguments: Arguments,
    log: Log,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let api = arguments.api.reach("portolan-controller").await?;
    let (servers, client) = (api.servers.clone(), api.client()?);
    // OVN's databases wait for their certificates, and everything else here for OVN's databases.
    let certification = arguments.ovn.tls.certification(&client);
    let certified = certification.as_ref().map(Certification::written);
    let certification = certification.map(Certification::keep);
    tokio::select! {
        ended = control(arguments, servers, client, certified, log, stop) => ended,
        Some(ended) = OptionFuture::from(certification) => match ended.context("nobody signs certificates any more")? {},
        ended = api.follow() => match ended? {},
    }
}

/// Runs everything but the signing of certificates.
async fn control(
    arguments: Arguments,
    servers: ApiServers,
    client: kube::Client,
    certified: Option<watch::Receiver<bool>>,
    log: Log,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let OvnDatabases { ovn_nb, ovn_sb, ovn_addresses, tls } = arguments.ovn;
    let (mut northbound, mut southbound) = (Endpoints::from(ovn_nb), Endpoints::from(ovn_sb));
    // Everything begins at once, health checks too, and says that it waits for OVN's databases until these are known.
    let told = ovn_addresses.map(|place| {
        let (told, endpoints) = Told::new(tls.transport());
        (northbound, southbound) = endpoints;
        let addresses = OvnAddresses::follow(&client, place);
        async move {
            if let Some(mut certified) = certified {
                tracing::info!("waiting for a certificate of its own, to connect to OVN's databases");
                certified.wait_for(|there| *there).await?;
            }
            told.follow(addresses).await
        }
    });
    let mut config = Config::new(servers, northbound.clone());
    config.sb = southbound.clone();
    config.nb_tls = tls.files();
    config.plan.mtu = arguments.mtu;
    config.plan.service_cidrs = arguments.service_cidr.iter().map(IpNet::trunc).collect();
    config.cluster_networks = arguments.cluster_network.iter().map(IpNet::trunc).collect();
    config.settings.first_interface = crate::first_interface(arguments.primary, arguments.remove_primary);
    config.health = arguments.health_address;
    config.debug = arguments.debug_address;
    config.log = Some(log);
    config.election = arguments.election.config();
    let (reader, reads) = portolan_controller::readers();
    // Whether an address can be listened at is known before anything begins.
    let traces = match arguments.trace.trace_address {
        Some(listen) => {
            let databases = Databases { northbound, southbound, tls: tls.files() };
            let tracer = Tracer::connect(&databases, config.plan.clone());
            let server = portolan_trace_server::Config { listen, service: arguments.trace.trace_service };
            let server = portolan_trace_server::Server::bind(server).await.context("--trace-address")?;
            Some(server.run(client.clone(), tracer, OfController(reader.clone())))
        }
        None => None,
    };
    let webhook = match arguments.webhook.webhook_address {
        Some(listen) => {
            let server = portolan_webhook::Config { listen, service: arguments.webhook.webhook_service };
            let server = portolan_webhook::Server::bind(server).await.context("--webhook-address")?;
            config.metrics.push(server.metrics());
            Some(server.run(client, config.settings, OfController(reader)))
        }
        None => None,
    };
    // If one ends, the process ends: it is started again whole.
    tokio::select! {
        ended = portolan_controller::run_with_readers(config, reads, stop) => ended,
        Some(ended) = OptionFuture::from(told) => match ended.context("nobody follows the addresses of OVN's databases any more")? {},
        Some(ended) = OptionFuture::from(traces) => match ended.context("the trace server has ended")? {},
        Some(ended) = OptionFuture::from(webhook) => match ended.context("the webhook server has ended")? {},
    }
}

/// The World of the controller in this process.
struct OfController(Reader);

impl Worlds for OfController {
    async fn read<T: Send + 'static>(
        &self,
        reader: impl FnOnce(&World) -> T + Send + 'static,
    ) -> Result<T, NotAvailable> {
        self.0.read(reader).await.ok_or(NotAvailable)
    }
}

impl portolan_webhook::Worlds for OfController {
    async fn read<T: Send + 'static>(&self, read: impl FnOnce(&World) -> T + Send + 'static) -> Option<T> {
        self.0.read(read).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_served_on_loopback() {
        assert_eq!(listen_address("9100").unwrap().to_string(), "127.0.0.1:9100");
        assert_eq!(listen_address("0.0.0.0:9100").unwrap().to_string(), "0.0.0.0:9100");
        let error = listen_address("here").unwrap_err();
        assert!(error.contains("0.0.0.0:9444"), "{error}");
    }

    #[derive(Debug, clap::Parser)]
    struct Cli {
        #[command(flatten)]
        arguments: Arguments,
    }

    #[test]
    fn every_address_to_listen_at_may_be_a_port_alone() {
        use clap::Parser as _;
        let line = [
            "controller",
            "--health-address=1",
            "--debug-address=2",
            "--trace-address=3",
            "--webhook-address=4",
        ];
        let Arguments { health_address, debug_address, trace, webhook, .. } =
            Cli::try_parse_from(line).unwrap().arguments;
        let addresses = [health_address, debug_address, trace.trace_address, webhook.webhook_address];
        let addresses = addresses.map(|address| address.unwrap().to_string());
        assert_eq!(addresses, ["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", "127.0.0.1:4"]);
    }

    #[test]
    fn services_are_served_on_the_primary_network_only() {
        use clap::Parser as _;
        let error = Cli::try_parse_from(["controller", "--service-cidr=10.96.0.0/16"]).unwrap_err();
        assert!(error.to_string().contains("--primary"), "{error}");
        let both = ["controller", "--primary", "--service-cidr=10.96.0.0/16", "--service-cidr=fd96::/112"];
        assert_eq!(Cli::try_parse_from(both).unwrap().arguments.service_cidr.len(), 2);
        let error = Cli::try_parse_from(["controller", "--primary", "--service-cidr=here"]).unwrap_err();
        assert!(error.to_string().contains("'here'"), "{error}");
    }

    #[test]
    fn the_help_has_flags_of_ovn_under_one_heading() {
        use clap::CommandFactory as _;
        let command = Cli::command();
        for flag in ["ovn_nb", "ovn_sb", "ovn_ca", "ovn_certificate", "ovn_private_key", "ovn_tls"] {
            let found = command.get_arguments().find(|argument| argument.get_id() == flag).unwrap();
            assert_eq!(found.get_help_heading(), Some("OVN databases"), "{flag}");
        }
    }

    #[test]
    fn no_two_processes_have_the_same_name_in_the_lease() {
        let names: std::collections::BTreeSet<String> = (0..100).map(|_| identity()).collect();
        assert_eq!(names.len(), 100);
    }
}
