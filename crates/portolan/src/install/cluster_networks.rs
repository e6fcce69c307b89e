//! Which networks pods and Services of a cluster have, as far as the cluster says so: a primary network must know them.

use std::fmt;

use ipnet::IpNet;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use k8s_openapi::api::networking::v1::ServiceCIDR;
use kube::Api;
use kube::api::ListParams;
use serde_json::Value;

use crate::cluster::Cluster;

/// Networks, and what they were found by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) networks: Vec<IpNet>,
    pub(super) by: Origin,
}

/// What says which networks there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// A flag of a process of the control plane that runs in a pod.
    Flag { process: &'static str, flag: &'static str },
    /// kubeadm's notes about the cluster.
    Kubeadm,
    /// The prefixes that Nodes have now. Those of Nodes that join are not among them.
    Nodes,
    /// ServiceCIDRs.
    ServiceCidrs,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Flag { process, flag } => write!(f, "flag {flag} of {process}"),
            Origin::Kubeadm => f.write_str("ConfigMap kube-system/kubeadm-config"),
            Origin::Nodes => f.write_str("the prefixes of the Nodes that there are"),
            Origin::ServiceCidrs => f.write_str("ServiceCIDRs"),
        }
    }
}

/// The networks of pods. Without one for the whole cluster, those of each Node; none where nobody allocates prefixes to Nodes.
pub(super) async fn of_pods(cluster: &Cluster) -> anyhow::Result<Option<Found>> {
    if let Some(found) = by_flag(cluster, "kube-controller-manager", "--cluster-cidr").await? {
        return Ok(Some(found));
    }
    if let Some(found) = by_kubeadm(cluster, "podSubnet").await? {
        return Ok(Some(found));
    }
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    let nodes = nodes.list(&ListParams::default()).await;
    let nodes = nodes.map_err(|error| cluster.explain("the list of Nodes", &error))?;
    let specs = nodes.items.into_iter().filter_map(|node| node.spec);
    let prefixes = specs.flat_map(|spec| spec.pod_cidrs.unwrap_or_default());
    let networks: Vec<IpNet> = prefixes.filter_map(|prefix| prefix.parse().ok()).collect();
    Ok((!networks.is_empty()).then(|| Found { networks: IpNet::aggregate(&networks), by: Origin::Nodes }))
}

/// The networks of Services.
pub(super) async fn of_services(cluster: &Cluster) -> anyhow::Result<Option<Found>> {
    let objects: Api<ServiceCIDR> = Api::all(cluster.client.clone());
    let networks: Vec<IpNet> = match objects.list(&ListParams::default()).await {
        Ok(list) => {
            let specs = list.items.into_iter().filter_map(|object| object.spec);
            specs.flat_map(|spec| spec.cidrs.unwrap_or_default()).filter_map(|net| net.parse().ok()).collect()
        }
        // Before Kubernetes 1.33 there is no such kind.
        Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
        Err(error) => return Err(cluster.explain("the list of ServiceCIDRs", &error)),
    };
    if !networks.is_empty() {
        // Always in the same order, so that installing again changes nothing.
        return Ok(Some(Found { networks: IpNet::aggregate(&networks), by: Origin::ServiceCidrs }));
    }
    if let Some(found) = by_flag(cluster, "kube-apiserver", "--service-cluster-ip-range").await? {
        return Ok(Some(found));
    }
    by_kubeadm(cluster, "serviceSubnet").await
}

/// By the flags of a process of the control plane, where it runs in a pod: kubeadm and RKE2 have it so, and label it so.
async fn by_flag(
    cluster: &Cluster,
    process: &'static str,
    flag: &'static str,
) -> anyhow::Result<Option<Found>> {
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), "kube-system");
    let pods = pods.list(&ListParams::default().labels(&format!("component={process}"))).await;
    let pods = pods.map_err(|error| cluster.explain("the list of Pods in namespace kube-system", &error))?;
    let networks = pods.items.iter().find_map(|pod| networks(&value_of_flag(pod, flag)?));
    Ok(networks.map(|networks| Found { networks, by: Origin::Flag { process, flag } }))
}

/// The value of a flag of a pod's containers, written as one word or as two.
fn value_of_flag(pod: &Pod, flag: &str) -> Option<String> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers.into_iter().find_map(|container| {
        let words: Vec<&String> = container.command.iter().chain(&container.args).flatten().collect();
        let joined = words.iter().find_map(|word| word.strip_prefix(flag)?.strip_prefix('='));
        let apart = || Some(words.get(words.iter().position(|word| *word == flag)? + 1)?.as_str());
        joined.or_else(apart).map(str::to_owned)
    })
}

async fn by_kubeadm(cluster: &Cluster, field: &str) -> anyhow::Result<Option<Found>> {
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "kube-system");
    let map = maps.get_opt("kubeadm-config").await;
    let map = map.map_err(|error| cluster.explain("ConfigMap kube-system/kubeadm-config", &error))?;
    let networks = map.and_then(|map| networks(&subnet_of_kubeadm(&map, field)?));
    Ok(networks.map(|networks| Found { networks, by: Origin::Kubeadm }))
}

fn subnet_of_kubeadm(map: &ConfigMap, field: &str) -> Option<String> {
    let text = map.data.as_ref()?.get("ClusterConfiguration")?;
    let configuration: Value = serde_saphyr::from_str(text).ok()?;
    configuration["networking"][field].as_str().map(str::to_owned)
}

/// Networks that are separated by commas; none if one of them is no network.
fn networks(text: &str) -> Option<Vec<IpNet>> {
    text.split(',').map(|one| one.trim().parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(container: &Value) -> Pod {
        serde_json::from_value(json!({"spec": {"containers": [container]}})).unwrap()
    }

    #[test]
    fn flags_are_found_however_a_pod_has_them() {
        let flag = "--cluster-cidr";
        for container in [
            json!({"name": "a", "command": ["kube-controller-manager", "--cluster-cidr=10.0.0.0/16,fd00::/48"]}),
            json!({"name": "a", "command": ["kcm", "--v=2"], "args": ["--cluster-cidr", "10.0.0.0/16,fd00::/48"]}),
        ] {
            assert_eq!(value_of_flag(&pod(&container), flag).unwrap(), "10.0.0.0/16,fd00::/48");
        }
        for container in [
            json!({"name": "a", "command": ["kcm", "--cluster-cidr-of-others=10.0.0.0/16"]}),
            json!({"name": "a", "command": ["kcm", "--cluster-cidr"]}),
            json!({"name": "a"}),
        ] {
            assert_eq!(value_of_flag(&pod(&container), flag), None);
        }
    }

    #[test]
    fn what_is_no_network_counts_as_nothing() {
        let two: Vec<IpNet> = vec!["10.0.0.0/16".parse().unwrap(), "fd00::/48".parse().unwrap()];
        assert_eq!(networks("10.0.0.0/16, fd00::/48"), Some(two));
        for text in ["", "10.0.0.0/16,", "10.0.0.0", "$(CLUSTER_CIDR)"] {
            assert_eq!(networks(text), None, "{text}");
        }
    }

    #[test]
    fn kubeadm_notes_the_networks_of_its_cluster() {
        let text = "kind: ClusterConfiguration\nnetworking:\n  dnsDomain: cluster.local\n  podSubnet: 10.16.0.0/16\n";
        let map: ConfigMap = serde_json::from_value(json!({"data": {"ClusterConfiguration": text}})).unwrap();
        assert_eq!(subnet_of_kubeadm(&map, "podSubnet").as_deref(), Some("10.16.0.0/16"));
        assert_eq!(subnet_of_kubeadm(&map, "serviceSubnet"), None);
        assert_eq!(subnet_of_kubeadm(&ConfigMap::default(), "podSubnet"), None);
    }
}
