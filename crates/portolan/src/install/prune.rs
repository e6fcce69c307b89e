//! Removes what an earlier version, or other options, made and the installation does not have any more.

use std::collections::BTreeSet;

use kube::ResourceExt as _;
use kube::api::{DeleteParams, ListParams, Preconditions};
use portolan_manifests::{EXAMINATION, KINDS, Object, ObjectKind};

use super::apply::{PART_OF, Trial, api_of, was_applied};
use crate::cluster::Cluster;
use crate::output::print;

/// When it is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Before what is new has come up: it may need the ports of what is to go, and nothing shall be called that is gone.
    Before,
    /// Once what is new runs: what ran before may use the rest until then.
    After,
}

impl Stage {
    /// When objects of a kind are removed. Never the namespace, with all that is in it, nor definitions, with all objects of their kinds.
    fn of(kind: &ObjectKind) -> Option<Self> {
        match kind.kind {
            "Namespace" | "CustomResourceDefinition" => None,
            "DaemonSet" | "Deployment" | "StatefulSet" | "ValidatingWebhookConfiguration" | "APIService" => {
                Some(Stage::Before)
            }
            _ => Some(Stage::After),
        }
    }
}

/// Removes what has the label of an installation and was applied by `portolan install`, and is not among these objects.
pub(super) async fn prune(
    cluster: &Cluster,
    namespace: &str,
    objects: &[Object],
    stage: Stage,
    trial: Trial,
) -> anyhow::Result<()> {
    for kind in KINDS.iter().filter(|kind| Stage::of(kind) == Some(stage)) {
        let names = objects.iter().filter(|object| object.kind() == kind).map(Object::name);
        let kept: BTreeSet<&str> = names.chain([EXAMINATION]).collect();
        let (what, api) = (kind.plural, api_of(cluster, kind, Some(namespace)));
        let ours = ListParams::default().labels(&format!("{PART_OF}=portolan"));
        let list = match api.list_metadata(&ours).await {
            Ok(list) => list.items,
            // An older version of Kubernetes does not have every kind.
            Err(kube::Error::Api(status)) if status.code == 404 => continue,
            Err(error) => return Err(cluster.explain(&format!("the list of {what}"), &error)),
        };
        for one in list.iter().filter(|one| was_applied(one.managed_fields())) {
            let name = one.name_any();
            if kept.contains(name.as_str()) || one.metadata.deletion_timestamp.is_some() {
                continue;
            }
            let preconditions = Preconditions { uid: one.uid(), resource_version: None };
            let mut parameters =
                DeleteParams { preconditions: Some(preconditions), ..DeleteParams::background() };
            parameters.dry_run = trial == Trial::DryRun;
            let place = one.namespace().map(|namespace| format!("{namespace}/")).unwrap_or_default();
            let described = format!("{} {place}{name}", kind.kind);
            match api.delete(&name, &parameters).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.code == 404 => continue,
                Err(error) => return Err(cluster.explain(&described, &error)),
            }
            let verb = if trial == Trial::DryRun { "would be removed" } else { "removed" };
            print(&format!("{described} {verb}: it is not part of the installation any more\n"))?;
        }
    }
    Ok(())
}
