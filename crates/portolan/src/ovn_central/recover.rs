//! `portolan ovn-central recover`: one member goes on alone, after so many others were lost for good that none can.

use anyhow::Context as _;
use clap::Args;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use portolan_daemons::OvnDatabase;
use portolan_manifests::ADDRESSES;
use serde_json::json;

use super::record::{Annotations, recovery_key};
use crate::cluster::{Cluster, Which};
use crate::exit::{Exit, Failure};
use crate::output::print;

/// Who there can be: an installation has one member or three.
const MEMBERS: [&str; 3] = ["ovn-central-0", "ovn-central-1", "ovn-central-2"];
/// The DaemonSet of the ovn-controllers.
const CONTROLLERS: &str = "ovn-controller";

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The member whose files are taken: the one that had the last changes, if that is known. It makes new clusters of them, and the
    /// others join these with empty files. If the files of all are lost, any: the clusters begin empty, and a controller fills them.
    #[arg(long, value_name = "NAME", value_parser = MEMBERS)]
    member: String,
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
    let Arguments { member, force, namespace, which } = arguments;
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
    // Always both: nodes come once the southbound database has what was called complete in the life of the northbound cluster, and the
    // southbound one alone, made anew of an old file, would still have that.
    let databases = [OvnDatabase::Northbound, OvnDatabase::Southbound];
    let annotations: Annotations =
        databases.into_iter().map(|one| (recovery_key(one), Some(member.clone()))).collect();
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), &namespace);
    let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
    let patched = maps.patch(ADDRESSES, &PatchParams::default(), &patch).await;
    patched.map_err(|error| cluster.explain(&format!("ConfigMap {namespace}/{ADDRESSES}"), &error))?;
    print(&format!(
        "{member} makes new clusters of its files as soon as it runs, and the others join them\n"
    ))
    .context("standard output")?;
    let restarted = restart_controllers(&cluster, &namespace).await?;
    print(&format!("{restarted}\n")).context("standard output")
}

/// Has every ovn-controller started anew, as `kubectl rollout restart` does: one that runs remembers how far the log of the former cluster
/// was, and takes the new one, whose log is shorter, for outdated. Flows stay meanwhile. The outcome, for the user.
async fn restart_controllers(cluster: &Cluster, namespace: &str) -> anyhow::Result<String> {
    let sets: Api<DaemonSet> = Api::namespaced(cluster.client.clone(), namespace);
    let now = Timestamp::now().to_string();
    let patch = Patch::Merge(json!({"spec": {"template": {"metadata": {
        "annotations": {"kubectl.kubernetes.io/restartedAt": now}
    }}}}));
    match sets.patch(CONTROLLERS, &PatchParams::default(), &patch).await {
        Ok(_) => Ok(format!(
            "DaemonSet {CONTROLLERS} is restarted, as its pods would refuse the new clusters; flows stay"
        )),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(format!(
            "there is no DaemonSet {CONTROLLERS}: restart each ovn-controller, as it would refuse the new clusters"
        )),
        Err(error) => Err(cluster.explain(&format!("DaemonSet {namespace}/{CONTROLLERS}"), &error)),
    }
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|one| one.type_ == "Ready" && one.status == "True")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    #[test]
    fn a_member_that_there_cannot_be_is_refused() {
        let parse = |member: &str| Line::try_parse_from(["recover", "--member", member]);
        let taken = parse("ovn-central-2").map(|line| line.arguments.member);
        assert_eq!(taken.ok().as_deref(), Some("ovn-central-2"));
        for other in ["foo-9", "ovn-central-3", "ovn-central-+1", "ovn-central"] {
            let said = parse(other).expect_err("there is none").to_string();
            assert!(
                said.contains(other) && said.contains("ovn-central-0, ovn-central-1, ovn-central-2"),
                "{said}"
            );
        }
    }
}
