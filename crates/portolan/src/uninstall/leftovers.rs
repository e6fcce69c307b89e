//! What an installation leaves on objects of a cluster.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use portolan_api::portolan::{HolderKind, IPLock};
use portolan_manifests::{Directories, Object};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::exit::{Exit, Failure};
use crate::install::apply::{api, why_others_may_need};
use crate::output::print;

/// How many users are named.
const SHOWN: usize = 5;

/// A node that is named wrongly would be waited for.
pub(super) async fn refuse_unknown_nodes(cluster: &Cluster, names: &[String]) -> anyhow::Result<()> {
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    for name in names {
        let found = nodes.get_metadata_opt(name).await;
        if found.map_err(|error| cluster.explain(&format!("Node {name}"), &error))?.is_none() {
            return Err(Failure::not_found(format!("--skip-node: there is no Node {name}")));
        }
    }
    Ok(())
}

/// Pods that run would lose their networks, and their ports would stay.
pub(super) async fn refuse_while_in_use(cluster: &Cluster) -> anyhow::Result<()> {
    let locks: Api<IPLock> = Api::all(cluster.client.clone());
    let list = match locks.list(&ListParams::default()).await {
        Ok(list) => list.items,
        // The kind is not there: nobody has an address.
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
        Err(error) => return Err(cluster.explain("the list of IPLocks", &error)),
    };
    // Who holds an address without an interface has nothing to lose.
    let has_interface = |lock: &&IPLock| {
        let spec = &lock.spec;
        matches!(spec.holder.kind, HolderKind::Pod | HolderKind::NetworkAttachment) || spec.user.is_some()
    };
    let users: BTreeSet<String> =
        list.iter().filter(has_interface).map(|lock| lock.spec.holder.to_string()).collect();
    if users.is_empty() {
        return Ok(());
    }
    let mut shown = users.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    if users.len() > SHOWN {
        shown += &format!(" and {} more", users.len() - SHOWN);
    }
    Err(Failure::with(
        Exit::Failed,
        format!(
            "{} workloads have interfaces of Portolan: {shown}; delete their pods, and NetworkAttachments, first, so that nothing of them stays on nodes, or give --force",
            users.len()
        ),
    ))
}

/// Takes the finalizer off VPCs and Subnets: without a controller they could never be deleted.
pub(super) async fn remove_finalizers(cluster: &Cluster) -> anyhow::Result<()> {
    for (group, version) in [("portolan.dev", "v1alpha1"), ("kubeovn.io", "v1")] {
        for (kind, plural) in [("Vpc", "vpcs"), ("Subnet", "subnets")] {
            let resource =
                ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
            let api: Api<DynamicObject> = Api::all_with(cluster.client.clone(), &resource);
            let what = format!("{plural}.{group}");
            let list = match api.list_metadata(&ListParams::default()).await {
                Ok(list) => list.items,
                Err(kube::Error::Api(status)) if status.code == 404 => continue,
                Err(error) => return Err(cluster.explain(&what, &error)),
            };
            for object in list {
                let has = object.finalizers().iter().any(|one| one == portolan_api::finalizer::IN_USE);
                if !has {
                    continue;
                }
                let finalizers: Vec<_> = object
                    .finalizers()
                    .iter()
                    .filter(|one| *one != portolan_api::finalizer::IN_USE)
                    .collect();
                // Refused if somebody changes the object at the same time.
                let patch = json!({"metadata": {"resourceVersion": object.resource_version(), "finalizers": finalizers}});
                let name = object.name_any();
                match api.patch_metadata(&name, &PatchParams::default(), &Patch::Merge(&patch)).await {
                    Ok(_) => print(&format!("finalizer of {kind} {name} of {group} removed\n"))?,
                    Err(kube::Error::Api(status)) if status.code == 404 => {}
                    Err(error) => return Err(cluster.explain(&format!("{kind} {name}"), &error)),
                }
            }
        }
    }
    Ok(())
}

/// Takes Portolan's annotations off all Nodes.
pub(super) async fn remove_annotations_of_nodes(cluster: &Cluster) -> anyhow::Result<()> {
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    let list = nodes.list_metadata(&ListParams::default()).await;
    let list = list.map_err(|error| cluster.explain("the list of Nodes", &error))?;
    for node in list.items {
        let ours = node.annotations().keys().filter(|key| key.starts_with("portolan.dev/"));
        let none: serde_json::Map<String, Value> = ours.map(|key| (key.clone(), Value::Null)).collect();
        if none.is_empty() {
            continue;
        }
        let name = node.name_any();
        let patch = Patch::Merge(json!({"metadata": {"annotations": none}}));
        match nodes.patch_metadata(&name, &PatchParams::default(), &patch).await {
            Ok(_) => print(&format!("annotations of Node {name} removed\n"))?,
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(cluster.explain(&format!("Node {name}"), &error)),
        }
    }
    Ok(())
}

/// What pods of an installation say about it.
pub(super) struct Installed {
    pub(super) image: Option<String>,
    pub(super) directories: Option<Directories>,
}

/// By the agents or, where a removal was interrupted, by what was to clean nodes.
pub(super) async fn installed(cluster: &Cluster, namespace: &str) -> anyhow::Result<Option<Installed>> {
    let daemon_sets: Api<DaemonSet> = Api::namespaced(cluster.client.clone(), namespace);
    for name in ["portolan-agent", "portolan-cleanup"] {
        let found = daemon_sets.get_opt(name).await;
        let found = found.map_err(|error| cluster.explain(&format!("DaemonSet {name}"), &error))?;
        let Some(pod) = found.and_then(|one| one.spec).and_then(|spec| spec.template.spec) else { continue };
        let volume = |name: &str| {
            let volume = pod.volumes.iter().flatten().find(|volume| volume.name == name)?;
            volume.host_path.as_ref().map(|host| host.path.clone())
        };
        let directories = volume("cni-configurations").zip(volume("cni-programs"));
        return Ok(Some(Installed {
            image: pod.containers.first().and_then(|container| container.image.clone()),
            directories: directories
                .map(|(configurations, programs)| Directories { configurations, programs }),
        }));
    }
    Ok(None)
}

pub(super) async fn has_namespace(cluster: &Cluster, namespace: &str) -> anyhow::Result<bool> {
    let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
    let found = namespaces.get_metadata_opt(namespace).await;
    let found = found.map_err(|error| cluster.explain("the namespace", &error))?;
    Ok(found.is_some_and(|one| one.metadata.deletion_timestamp.is_none()))
}

/// Why a definition stays although Portolan's are removed, if that is so.
pub(super) async fn why_it_stays(cluster: &Cluster, object: &Object) -> anyhow::Result<Option<String>> {
    let found = api(cluster, object).get_opt(object.name()).await;
    let found = found.map_err(|error| cluster.explain(&object.description(), &error))?;
    Ok(found.and_then(|found| why_others_may_need(object, &found)))
}
