//! `portolan ovn-central recover`: one member goes on alone, after so many others were lost for good that none can.

use anyhow::Context as _;
use clap::Args;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use portolan_daemons::OvnDatabase;
use portolan_manifests::ADDRESSES;
use serde_json::json;

use super::decision::Member;
use super::record::{Annotations, recovery_key, word};
use crate::cluster::Which;
use crate::exit::{Exit, Failure};
use crate::output::print;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The member whose files are taken: the one that had the last changes, if that is known. It makes new clusters of them, and the
    /// others join these with empty files.
    #[arg(long, value_name = "NAME")]
    member: String,
    /// One database alone.
    #[arg(long, value_name = "DATABASE", value_parser = ["northbound", "southbound"])]
    database: Option<String>,
    /// Even if a member says that it is ready, so that the clusters still work.
    #[arg(long)]
    force: bool,
    /// The namespace of the installation.
    #[arg(long, value_name = "NAMESPACE", default_value = "portolan-system")]
    namespace: String,
    #[command(flatten)]
    which: Which,
}

pub(super) async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let Arguments { member, database, force, namespace, which } = arguments;
    if Member::named(&member).is_none() {
        return Err(Failure::usage(format!(
            "--member: {member:?} is no member: they are called ovn-central-0 and so on"
        )));
    }
    let cluster = which.find().await?;
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), &namespace);
    let listed = pods.list(&ListParams::default().labels("app=ovn-central")).await;
    let listed = listed.map_err(|error| cluster.explain("the list of pods", &error))?;
    if let Some(ready) = listed.items.iter().find(|pod| is_ready(pod))
        && !force
    {
        let message = format!(
            "{} is ready: its databases work, and a new cluster of one member's files would lose what that one does not have. Use --force if you \
             are sure",
            ready.name_any()
        );
        return Err(Failure::with(Exit::Failed, message));
    }
    let databases = [OvnDatabase::Northbound, OvnDatabase::Southbound];
    let chosen =
        databases.into_iter().filter(|one| database.as_deref().is_none_or(|name| name == word(*one)));
    let annotations: Annotations = chosen.map(|one| (recovery_key(one), Some(member.clone()))).collect();
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), &namespace);
    let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
    let patched = maps.patch(ADDRESSES, &PatchParams::default(), &patch).await;
    patched.map_err(|error| cluster.explain(&format!("ConfigMap {namespace}/{ADDRESSES}"), &error))?;
    print(&format!("{member} makes new clusters of its files as soon as it runs, and the others join them\n"))
        .context("standard output")
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|one| one.type_ == "Ready" && one.status == "True")
}
