//! `portolan trace`: whether and by which path traffic goes from a pod to another end, or where and why it stops.
//!
//! On a cluster the controller answers, through the API server (`trace.portolan.dev`): a user needs neither access to OVN nor its
//! tools. In a lab, which does not serve that API, or with `--ovn-nb` and `--ovn-sb`, this process answers by itself.

mod direct;
mod show;

use std::time::Duration;

use clap::{Args, ValueEnum};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIGroupList;
use kube::api::PostParams;
use ovsdb::Endpoint;
use portolan_trace::PodName;
use portolan_trace::api::{self, PodReference, Receiver, Sender, Trace, TraceSpec, TraceStatus, Verdict};
use portolan_trace::packet::Payload;

pub(crate) use direct::missing_pod;

use crate::cluster::{Cluster, Which};
use crate::exit::{EXIT_CODES, Exit, Failure};
use crate::output::{plain, print, width};
use crate::waiting::Waiting;

#[derive(Debug, Args)]
#[command(after_help = format!("Examples:
  portolan trace vm1 vm2                     a ping, and its reply
  portolan trace vm1 shop/web --port 443     TCP to a port of a pod in another namespace
  portolan trace vm1 10.0.0.1                to an address
  portolan trace vm1 vm2 --network vswitch1  by their interfaces on this network
  portolan trace vm1 vm2 -o json             for programs

{EXIT_CODES}"))]
pub(crate) struct Arguments {
    /// The pod that sends: POD or NAMESPACE/POD.
    #[arg(value_name = "FROM")]
    from: String,
    /// The end that should receive it: POD, NAMESPACE/POD or an address.
    #[arg(value_name = "TO")]
    to: String,
    /// The receiver's port; TCP unless --protocol says otherwise.
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// What is sent: icmp (a ping), tcp or udp.
    #[arg(long, value_name = "PROTOCOL", hide_possible_values = true)]
    protocol: Option<Protocol>,
    /// The network attachment definition whose interfaces are used, NAME or NAMESPACE/NAME; for pods with several.
    #[arg(long, value_name = "NAD")]
    network: Option<String>,
    /// The namespace of pods that are named without one.
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Output format: text, json or yaml.
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        default_value = "text",
        hide_possible_values = true,
        hide_default_value = true
    )]
    output: Format,
    #[command(flatten)]
    direct: Direct,
    #[command(flatten)]
    which: Which,
}

/// Direct access to OVN, for labs and for whoever runs OVN.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Direct access to OVN (needs ovn-trace here)")]
pub(crate) struct Direct {
    /// OVN's northbound database: `unix:PATH`, `tcp:HOST:PORT` or `ssl:HOST:PORT`, separated by commas.
    #[arg(long, value_name = "ENDPOINTS", value_delimiter = ',', requires = "ovn_sb")]
    ovn_nb: Vec<Endpoint>,
    /// OVN's southbound database.
    #[arg(long, value_name = "ENDPOINTS", value_delimiter = ',', requires = "ovn_nb")]
    ovn_sb: Vec<Endpoint>,
    /// The MTU that the controller was given, if it was, with which OVN's rows are compared.
    #[arg(long, value_name = "BYTES")]
    mtu: Option<u16>,
    #[command(flatten)]
    tls: crate::ovn_tls::ClientTls,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Protocol {
    Icmp,
    Tcp,
    Udp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
    Yaml,
}

/// Traces and prints the answer.
pub(crate) async fn run(arguments: Arguments) -> anyhow::Result<Exit> {
    let (protocol, port) = arguments.payload()?;
    let cluster = arguments.which.find().await?;
    let namespace = arguments.namespace.as_deref().unwrap_or(&cluster.namespace);
    let from = pod(&arguments.from, namespace)?;
    let to = match arguments.to.parse() {
        Ok(address) => Receiver { address: Some(address), ..Receiver::default() },
        Err(_) => {
            let PodName { namespace, name } = pod(&arguments.to, namespace)?;
            Receiver { pod: Some(PodReference { namespace, name }), ..Receiver::default() }
        }
    };
    // A network without a namespace is of the namespace that the command works in, not of the sender's.
    let qualified = |network: &String| {
        if network.contains('/') { network.clone() } else { format!("{namespace}/{network}") }
    };
    let network = arguments.network.as_ref().map(qualified);
    let spec = TraceSpec { from: Sender { pod: from.name }, to, protocol, port, network };
    Payload::of(&spec).map_err(|error| Failure::usage(error.to_string()))?;
    let trace = Trace::new(from.namespace, spec);
    let status = answer(&arguments, &cluster, &trace).await?;
    let verdict = status.verdict;
    print(&match arguments.output {
        Format::Text => show::text(&status, width()),
        Format::Json => {
            format!("{}\n", serde_json::to_string_pretty(&Trace { status: Some(status), ..trace })?)
        }
        Format::Yaml => serde_saphyr::to_string(&Trace { status: Some(status), ..trace })?,
    })?;
    Ok(match verdict {
        Verdict::Reachable => Exit::Success,
        Verdict::NotReachable => Exit::NotReachable,
        Verdict::Disagreement => Exit::Disagreement,
        Verdict::Unknown => Exit::Unknown,
    })
}

impl Arguments {
    fn payload(&self) -> anyhow::Result<(api::Protocol, Option<u16>)> {
        let protocol = match (self.protocol, self.port) {
            (Some(Protocol::Icmp), Some(_)) => {
                return Err(Failure::usage(
                    "a ping has no port; leave out --port, or choose --protocol tcp or udp",
                ));
            }
            (Some(Protocol::Tcp | Protocol::Udp), None) => {
                return Err(Failure::usage("--protocol tcp and udp need a port: add --port"));
            }
            (None | Some(Protocol::Icmp), None) => api::Protocol::Icmp,
            (None | Some(Protocol::Tcp), Some(_)) => api::Protocol::Tcp,
            (Some(Protocol::Udp), Some(_)) => api::Protocol::Udp,
        };
        Ok((protocol, self.port))
    }
}

fn pod(text: &str, namespace: &str) -> anyhow::Result<PodName> {
    PodName::parse(text, namespace)
        .map_err(|_| Failure::usage(format!("{text:?} is no pod; write POD or NAMESPACE/POD")))
}

async fn answer(arguments: &Arguments, cluster: &Cluster, trace: &Trace) -> anyhow::Result<TraceStatus> {
    if !arguments.direct.ovn_sb.is_empty() {
        return direct::answer(arguments.direct.databases(), arguments.direct.mtu, cluster, trace).await;
    }
    if is_served(cluster).await? {
        return ask_controller(cluster, trace).await;
    }
    match &cluster.lab {
        Some(lab) => direct::answer(direct::databases_of(lab)?, arguments.direct.mtu, cluster, trace).await,
        None => Err(Failure::with(
            Exit::Failed,
            format!(
                "the API server at {} does not serve {}: run the controller with --trace-address and apply deploy/trace.yaml, or \
                 give --ovn-nb and --ovn-sb",
                cluster.url,
                api::GROUP
            ),
        )),
    }
}

/// Whether the cluster serves the trace API.
async fn is_served(cluster: &Cluster) -> anyhow::Result<bool> {
    let _waiting = Waiting::start(format!("asking the API server at {}", cluster.url));
    let groups: APIGroupList = cluster
        .client
        .list_api_groups()
        .await
        .map_err(|error| cluster.explain("the list of API groups", &error))?;
    Ok(groups.groups.iter().any(|group| group.name == api::GROUP))
}

async fn ask_controller(cluster: &Cluster, trace: &Trace) -> anyhow::Result<TraceStatus> {
    let _waiting = Waiting::start("waiting for the controller's answer");
    // The server says by itself that it was not done in time.
    let client = cluster.patient_client(api::DEADLINE + Duration::from_secs(5))?;
    if !portolan_api::names::is_dns_label(&trace.metadata.namespace) {
        let message =
            format!("namespace {:?} does not exist: no namespace can be called so", trace.metadata.namespace);
        return Err(Failure::not_found(message));
    }
    let path =
        format!("/apis/{}/namespaces/{}/{}", api::API_VERSION, trace.metadata.namespace, api::RESOURCE);
    let request = kube::core::Request::new(path);
    let body = serde_json::to_vec(trace)?;
    let request = request.create(&PostParams::default(), body)?;
    let answered: Trace = client.request(request).await.map_err(|error| explain(cluster, &error))?;
    answered.status.ok_or_else(|| Failure::with(Exit::Failed, "the controller's answer has no status"))
}

/// What went wrong with a trace: with the API server, or with the trace server behind it.
fn explain(cluster: &Cluster, error: &kube::Error) -> anyhow::Error {
    let url = &cluster.url;
    let kube::Error::Api(status) = error else { return cluster.explain("a trace", error) };
    let message = plain(status.message.trim());
    match (status.code, status.reason.as_str()) {
        // The API server gives no reason when it rejects credentials itself.
        (401, _) if message != "Unauthorized" => Failure::with(
            Exit::Forbidden,
            format!("the trace server behind the API server at {url} refused the trace (401): {message}"),
        ),
        // The trace server says itself what it waits for. Without it, the API server answers with a text that is no Status.
        (503, reason) if reason != "ServiceUnavailable" => Failure::with(
            Exit::Unreachable,
            format!(
                "the API server at {url} cannot serve a trace (503): {message}; is the controller running with --trace-address? \
                 `kubectl get apiservice {}.{}` says why",
                api::VERSION,
                api::GROUP
            ),
        ),
        _ => cluster.explain("a trace", error),
    }
}
