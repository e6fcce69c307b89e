//! `portolan controller`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use ovsdb::Endpoint;
use portolan_controller::{Config, Reader};
use portolan_model::World;
use portolan_trace::{Databases, NotAvailable, Tracer, Worlds};
use portolan_trace_server::ServiceReference;

use crate::cluster;
use crate::ovn_tls::OvnTls;

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
    #[command(flatten)]
    tls: OvnTls,
    #[command(flatten)]
    trace: Trace,
}

/// The API `trace.portolan.dev`, which answers `portolan trace`.
#[derive(Debug, Args)]
#[command(next_help_heading = "Tracing (trace.portolan.dev)")]
struct Trace {
    /// Serve trace.portolan.dev at this address, for kube-apiserver; not served unless given.
    #[arg(long, value_name = "ADDRESS")]
    trace_address: Option<SocketAddr>,
    /// The Service by which kube-apiserver reaches that address, NAMESPACE/NAME.
    #[arg(long, value_name = "SERVICE", default_value = "portolan-system/portolan-trace", value_parser = service)]
    trace_service: ServiceReference,
    /// OVN's southbound database, which traces read.
    #[arg(
        long,
        value_name = "ENDPOINTS",
        value_delimiter = ',',
        default_value = "unix:/run/ovn/ovnsb_db.sock"
    )]
    ovn_sb: Vec<Endpoint>,
}

fn service(text: &str) -> Result<ServiceReference, String> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok(ServiceReference { namespace: namespace.into(), name: name.into() })
        }
        _ => Err("write NAMESPACE/NAME".into()),
    }
}

pub(crate) async fn run(arguments: Arguments, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
    let kube = cluster::config(arguments.kubeconfig.as_deref()).await?;
    let mut config = Config::new(kube.clone(), arguments.ovn_nb.clone());
    config.nb_tls = arguments.tls.files();
    let Some(listen) = arguments.trace.trace_address else {
        return portolan_controller::run(config, stop).await;
    };
    let databases = Databases {
        northbound: arguments.ovn_nb,
        southbound: arguments.trace.ovn_sb,
        tls: arguments.tls.files(),
    };
    let tracer = Tracer::connect(&databases, config.plan);
    let (reader, reads) = portolan_controller::readers();
    let served = portolan_trace_server::run(
        portolan_trace_server::Config { listen, service: arguments.trace.trace_service },
        kube::Client::try_from(kube)?,
        tracer,
        OfController(reader),
    );
    // If one ends, the process ends: it is started again whole.
    tokio::select! {
        ended = portolan_controller::run_with_readers(config, reads, stop) => ended,
        served = served => {
            served?;
            anyhow::bail!("the trace server has ended")
        }
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
