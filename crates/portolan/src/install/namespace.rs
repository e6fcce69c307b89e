//! The namespace of an installation: there is one installation in a cluster, and its namespace is for it alone, as it goes with it.

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::{Api, ResourceExt as _};

use super::apply::PART_OF;
use crate::cluster::Cluster;
use crate::exit::{Exit, Failure};

/// Refuses a namespace that somebody else made: it would be changed, and deleted with Portolan.
pub(super) async fn refuse_others(cluster: &Cluster, namespace: &str) -> anyhow::Result<()> {
    let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
    let found = namespaces.get_metadata_opt(namespace).await;
    let found = found.map_err(|error| cluster.explain("the namespace", &error))?;
    if found.is_none_or(|found| found.labels().get(PART_OF).is_some_and(|part_of| part_of == "portolan")) {
        return Ok(());
    }
    Err(Failure::with(
        Exit::Failed,
        format!(
            "namespace {namespace} is not Portolan's, which needs one for itself: it holds privileged pods, and `portolan uninstall` deletes it; give \
             another with --namespace, or, if nothing else is in it, `kubectl label namespace {namespace} {PART_OF}=portolan`"
        ),
    ))
}

/// Refuses to go on where there is no installation.
pub(super) async fn refuse_absent(cluster: &Cluster, namespace: &str) -> anyhow::Result<()> {
    let agents: Api<DaemonSet> = Api::namespaced(cluster.client.clone(), namespace);
    let found = agents.get_metadata_opt("portolan-agent").await;
    let found = found.map_err(|error| cluster.explain("DaemonSet portolan-agent", &error))?;
    match found {
        Some(_) => Ok(()),
        None => Err(Failure::with(
            Exit::NotFound,
            format!(
                "Portolan is not installed in namespace {namespace}: there is no DaemonSet portolan-agent; use `portolan install`"
            ),
        )),
    }
}

/// Refuses another namespace than that of the installation that is there.
pub(crate) async fn refuse_another(cluster: &Cluster, namespace: &str) -> anyhow::Result<()> {
    let bindings: Api<ClusterRoleBinding> = Api::all(cluster.client.clone());
    let found = bindings.get_opt("portolan-agent").await;
    let found = found.map_err(|error| cluster.explain("ClusterRoleBinding portolan-agent", &error))?;
    let subjects = found.and_then(|binding| binding.subjects).unwrap_or_default();
    match subjects.into_iter().filter_map(|subject| subject.namespace).find(|other| other != namespace) {
        None => Ok(()),
        Some(other) => Err(Failure::with(
            Exit::Failed,
            format!(
                "Portolan is installed in namespace {other}, not in {namespace}; give --namespace {other}"
            ),
        )),
    }
}
