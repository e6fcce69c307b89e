//! What the cluster decides: whether Portolan may be installed, where its API server is, what it is able to do.

use std::num::NonZeroU16;

use ipnet::IpNet;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{Namespace, Node};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use portolan_manifests::{AgentAdmission, ApiServer, Installation, Mode};

use super::cluster_networks::{self, Found, Origin};
use super::options::Options;
use crate::cluster::Cluster;
use crate::exit::{Exit, Failure};
use crate::output::print;

/// The first minor version of Kubernetes 1 whose tokens of pods name the node.
const TOKENS_NAME_NODES: u32 = 32;

/// Kube-OVN and Portolan would both act on the same objects of `kubeovn.io` and on the same bridge of each node.
pub(super) async fn refuse_beside_kube_ovn(cluster: &Cluster) -> anyhow::Result<()> {
    let found = running_kube_ovn(cluster).await?;
    if found.is_empty() {
        return Ok(());
    }
    Err(Failure::with(
        Exit::Failed,
        format!(
            "Kube-OVN runs on this cluster ({}): both would answer for the same VPCs and Subnets of kubeovn.io and write to bridge br-int of \
             every node; uninstall Kube-OVN first. Its VPCs and Subnets may stay, and Portolan takes them over",
            found.join(", ")
        ),
    ))
}

/// What runs of Kube-OVN.
pub(crate) async fn running_kube_ovn(cluster: &Cluster) -> anyhow::Result<Vec<String>> {
    let named = |name: &str| ListParams::default().fields(&format!("metadata.name={name}"));
    let what = "the list of Deployments and DaemonSets";
    let deployments: Api<Deployment> = Api::all(cluster.client.clone());
    let controllers = deployments.list(&named("kube-ovn-controller")).await;
    let controllers = controllers.map_err(|error| cluster.explain(what, &error))?;
    let runs = |one: &Deployment| one.spec.as_ref().and_then(|spec| spec.replicas) != Some(0);
    let mut found: Vec<String> =
        controllers.items.iter().filter(|one| runs(one)).map(|one| place("Deployment", one)).collect();
    for name in ["kube-ovn-cni", "ovs-ovn"] {
        let daemon_sets: Api<DaemonSet> = Api::all(cluster.client.clone());
        let list = daemon_sets.list(&named(name)).await.map_err(|error| cluster.explain(what, &error))?;
        let wanted =
            |one: &DaemonSet| one.status.as_ref().is_none_or(|status| status.desired_number_scheduled > 0);
        found.extend(list.items.iter().filter(|one| wanted(one)).map(|one| place("DaemonSet", one)));
    }
    Ok(found)
}

fn place<K: kube::Resource>(kind: &str, object: &K) -> String {
    let metadata = object.meta();
    let of = |text: &Option<String>| text.clone().unwrap_or_default();
    format!("{kind} {}/{}", of(&metadata.namespace), of(&metadata.name))
}

/// The installation that the user asked for, with what was chosen before and what the cluster decides; and the options to be kept.
pub(super) async fn complete(cluster: &Cluster, given: &Options) -> anyhow::Result<(Installation, Options)> {
    let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
    let found = namespaces.get_opt(&given.namespace).await;
    let found = found.map_err(|error| cluster.explain("the namespace", &error))?;
    let annotation = found.as_ref().and_then(|one| one.annotations().get(Options::annotation()));
    let before = Options::noted(annotation.map(String::as_str))?;
    let options = given.or(&before);
    let mut installation = options.installation(&Options::default())?;
    if !options.names_controllers() {
        let nodes: Api<Node> = Api::all(cluster.client.clone());
        let nodes = nodes.list_metadata(&ListParams::default().limit(2)).await;
        let nodes = nodes.map_err(|error| cluster.explain("the list of Nodes", &error))?;
        installation.controllers = if nodes.items.len() < 2 { 1 } else { 2 };
    }
    if installation.mode == Mode::Primary {
        if installation.api_server.is_none() {
            installation.api_server = Some(endpoint(cluster).await?);
        }
        networks(cluster, &mut installation).await?;
    }
    installation.agent_admission = admission(cluster).await?;
    Ok((installation, options))
}

/// Adds the networks of pods and Services that nobody gave, and says which they are: without them nodes have no routes to pods of other nodes, and
/// pods of tenants no Services.
async fn networks(cluster: &Cluster, installation: &mut Installation) -> anyhow::Result<()> {
    if installation.cluster_networks.is_empty() {
        let found = cluster_networks::of_pods(cluster).await?;
        match &found {
            None => eprintln!(
                "warning: neither the cluster nor its Nodes say which networks pods have: nodes reach pods of the Subnets of VPC ovn-cluster, and no others; \
                 if kube-controller-manager allocates prefixes to Nodes, give its --cluster-cidr by --cluster-network"
            ),
            Some(found) if found.by == Origin::Nodes => eprintln!(
                "warning: which networks pods have is known from the Nodes that there are: install again when Nodes join, or give \
                 kube-controller-manager's --cluster-cidr by --cluster-network"
            ),
            Some(_) => {}
        }
        installation.cluster_networks = said("pods", "--cluster-network", found)?;
    }
    if installation.service_networks.is_empty() {
        let found = cluster_networks::of_services(cluster).await?;
        if found.is_none() {
            eprintln!(
                "warning: the cluster does not say which networks Services have: pods of tenants do not reach any; give kube-apiserver's \
                 --service-cluster-ip-range by --service-network"
            );
        }
        installation.service_networks = said("Services", "--service-network", found)?;
    }
    Ok(())
}

/// The networks that were found, after they were printed.
fn said(of: &str, flag: &str, found: Option<Found>) -> anyhow::Result<Vec<IpNet>> {
    let Some(Found { networks, by }) = found else { return Ok(Vec::new()) };
    let names: Vec<String> = networks.iter().map(ToString::to_string).collect();
    print(&format!("networks of {of}: {}, by {by}; {flag} says otherwise\n", names.join(", ")))?;
    Ok(networks)
}

/// Where the Service `kubernetes` leads: pods that make the network cannot go by the Service.
async fn endpoint(cluster: &Cluster) -> anyhow::Result<ApiServer> {
    let slices: Api<EndpointSlice> = Api::namespaced(cluster.client.clone(), "default");
    let of_api = ListParams::default().labels("kubernetes.io/service-name=kubernetes");
    let slices = slices.list(&of_api).await;
    let slices = slices
        .map_err(|error| cluster.explain("the EndpointSlices of Service default/kubernetes", &error))?;
    let endpoints = slices.items.iter().flat_map(|slice| {
        let port = slice.ports.iter().flatten().find_map(|port| port.port);
        let port = port.and_then(|port| u16::try_from(port).ok()).and_then(NonZeroU16::new);
        let hosts = slice.endpoints.iter().flat_map(|endpoint| endpoint.addresses.clone());
        hosts.filter_map(move |host| Some(ApiServer { host, port: port? }))
    });
    // Always the same one, so that doing it again changes nothing.
    endpoints.min_by(|a, b| a.host.cmp(&b.host)).ok_or_else(|| {
        Failure::with(
            Exit::Failed,
            "Service default/kubernetes has no endpoints, so the API server's own address is not known; give --api-server HOST:PORT",
        )
    })
}

/// Whether agents can be held to their own nodes.
async fn admission(cluster: &Cluster) -> anyhow::Result<AgentAdmission> {
    let version = cluster.client.apiserver_version().await;
    let version = version.map_err(|error| cluster.explain("its version", &error))?;
    let minor: u32 = version
        .minor
        .chars()
        .take_while(char::is_ascii_digit)
        .collect::<String>()
        .parse()
        .unwrap_or_default();
    if version.major != "1" || minor >= TOKENS_NAME_NODES {
        return Ok(AgentAdmission::OwnNode);
    }
    eprintln!(
        "warning: Kubernetes {} issues tokens that do not name the node of a pod: agents are not held to their own nodes (docs/agent.md)",
        version.git_version
    );
    Ok(AgentAdmission::Off)
}
