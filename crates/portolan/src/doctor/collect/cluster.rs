//! Of the cluster itself.

use ipnet::IpNet;
use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt as _;
use kube::api::ListParams;
use portolan_agent::examine::facts::Outcome;

use super::super::facts::{ApiService, StuckNamespace, Version};
use super::Ask;
use crate::install::cluster_facts::running_kube_ovn;

pub(super) async fn version(ask: &Ask<'_>) -> Outcome<Version> {
    let version = ask.cluster.client.apiserver_version().await;
    let version = version.map_err(|error| ask.cluster.explain("its version", &error));
    Outcome::of(version.map(|version| {
        let minor: String = version.minor.chars().take_while(char::is_ascii_digit).collect();
        Version { text: version.git_version, minor: minor.parse().unwrap_or_default() }
    }))
}

pub(super) async fn kube_ovn(ask: &Ask<'_>) -> Outcome<Vec<String>> {
    match running_kube_ovn(ask.cluster).await {
        // An API server without workloads runs none.
        Err(error) if crate::exit::Exit::of(&error) == crate::exit::Exit::NotFound => {
            Outcome::Found(Vec::new())
        }
        found => Outcome::of(found),
    }
}

pub(super) async fn api_services(ask: &Ask<'_>) -> Outcome<Vec<ApiService>> {
    let api = ask.dynamic("apiregistration.k8s.io", "v1", "APIService", "apiservices");
    let list = ask.list(&api, "the list of APIServices", &ListParams::default()).await;
    Outcome::of(list.map(|list| {
        let aggregated = list.into_iter().filter(|one| one.data["spec"]["service"].is_object());
        aggregated
            .map(|one| {
                let conditions = one.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
                let available = conditions.into_iter().find(|condition| condition["type"] == "Available");
                let problem = match available {
                    None => Some("nothing is said about it yet".to_owned()),
                    Some(condition) if condition["status"] == "True" => None,
                    Some(condition) => Some(condition["message"].as_str().unwrap_or_default().to_owned()),
                };
                let group = one.data["spec"]["group"].as_str().unwrap_or_default();
                ApiService { name: one.name_any(), is_ours: group.ends_with("portolan.dev"), problem }
            })
            .collect()
    }))
}

pub(super) async fn stuck_namespaces(ask: &Ask<'_>) -> Outcome<Vec<StuckNamespace>> {
    let list = ask.list(&ask.all::<Namespace>(), "the list of Namespaces", &ListParams::default()).await;
    Outcome::of(list.map(|list| {
        let going = list.into_iter().filter(|one| one.metadata.deletion_timestamp.is_some());
        going
            .filter_map(|one| {
                let name = one.name_any();
                let conditions = one.status?.conditions?;
                let asked = conditions.into_iter().find(|condition| {
                    condition.type_ == "NamespaceDeletionDiscoveryFailure" && condition.status == "True"
                })?;
                Some(StuckNamespace { name, message: asked.message.unwrap_or_default() })
            })
            .collect()
    }))
}

/// Those of Services, as far as the API server says them: since Kubernetes 1.33.
pub(super) async fn service_networks(ask: &Ask<'_>) -> Outcome<Vec<IpNet>> {
    let api = ask.dynamic("networking.k8s.io", "v1", "ServiceCIDR", "servicecidrs");
    let list = ask.list(&api, "the list of ServiceCIDRs", &ListParams::default()).await;
    Outcome::of(list.map(|list| {
        let texts = list.iter().flat_map(|one| one.data["spec"]["cidrs"].as_array().into_iter().flatten());
        texts.filter_map(|text| text.as_str()?.parse().ok()).collect()
    }))
}
