//! Objects are applied and deleted.

use kube::Api;
use kube::ResourceExt as _;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, Preconditions,
};
use portolan_manifests::{Object, Scope};
use serde_json::Value;

use crate::cluster::Cluster;
use crate::exit::Failure;

/// Whose fields these are, to the API server.
pub(crate) const MANAGER: &str = "portolan-install";
/// The label of what belongs to an installation.
pub(crate) const PART_OF: &str = "app.kubernetes.io/part-of";

/// Whether anything is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trial {
    /// Nothing is.
    DryRun,
    /// Everything is.
    Real,
}

/// What became of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Applied {
    Created,
    Changed,
    Unchanged,
    /// It is somebody else's.
    LeftAlone,
}

/// Applies objects to a cluster.
pub(crate) struct Applier<'a> {
    cluster: &'a Cluster,
    trial: Trial,
}

/// The API of an object's kind, in its namespace.
pub(crate) fn api(cluster: &Cluster, object: &Object) -> Api<DynamicObject> {
    let kind = object.kind();
    let gvk = GroupVersionKind::gvk(kind.group, kind.version, kind.kind);
    let resource = ApiResource::from_gvk_with_plural(&gvk, kind.plural);
    match (kind.scope, object.namespace()) {
        (Scope::Namespaced, Some(namespace)) => {
            Api::namespaced_with(cluster.client.clone(), namespace, &resource)
        }
        _ => Api::all_with(cluster.client.clone(), &resource),
    }
}

impl<'a> Applier<'a> {
    pub(crate) fn new(cluster: &'a Cluster, trial: Trial) -> Self {
        Self { cluster, trial }
    }

    /// Makes an object what it should be.
    pub(crate) async fn apply(&self, object: &Object) -> anyhow::Result<Applied> {
        let (what, api) = (object.description(), api(self.cluster, object));
        let before = api.get_opt(object.name()).await.map_err(|error| self.cluster.explain(&what, &error))?;
        if before.as_ref().is_some_and(|before| is_somebody_elses(object, before)) {
            return Ok(Applied::LeftAlone);
        }
        let mut parameters = PatchParams::apply(MANAGER).force().validation_strict();
        parameters.dry_run = self.trial == Trial::DryRun;
        let applied = api.patch(object.name(), &parameters, &Patch::Apply(object.value())).await;
        let after = match applied {
            Ok(after) => after,
            // What would be in a namespace that is not there yet cannot be tried.
            Err(kube::Error::Api(status))
                if self.trial == Trial::DryRun && status.code == 404 && object.namespace().is_some() =>
            {
                return Ok(Applied::Created);
            }
            Err(error) => return Err(self.cluster.explain(&what, &error)),
        };
        Ok(match before {
            None => Applied::Created,
            Some(before) if is_same(&before, &after) => Applied::Unchanged,
            Some(_) => Applied::Changed,
        })
    }

    /// How it is said.
    pub(crate) fn describe(&self, outcome: Applied) -> &'static str {
        match (outcome, self.trial) {
            (Applied::Created, Trial::Real) => "created",
            (Applied::Changed, Trial::Real) => "changed",
            (Applied::Created, Trial::DryRun) => "would be created",
            (Applied::Changed, Trial::DryRun) => "would be changed",
            (Applied::Unchanged, _) => "unchanged",
            (Applied::LeftAlone, _) => "is somebody else's and stays as it is",
        }
    }
}

/// Definitions of kinds that others define too belong to whoever made them.
fn is_somebody_elses(object: &Object, before: &DynamicObject) -> bool {
    object.kind().kind == "CustomResourceDefinition"
        && !object.name().ends_with(".portolan.dev")
        && before.labels().get(PART_OF).is_none_or(|part_of| part_of != "portolan")
}

/// Whether two states of an object differ in more than who wrote them when.
fn is_same(before: &DynamicObject, after: &DynamicObject) -> bool {
    let content = |object: &DynamicObject| {
        let mut value = serde_json::to_value(object).unwrap_or_default();
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            for field in ["managedFields", "resourceVersion", "generation"] {
                metadata.remove(field);
            }
        }
        value
    };
    content(before) == content(after)
}

/// Deletes an object, with what belongs to it; false if there is none. One that is somebody else's stays.
pub(crate) async fn delete(cluster: &Cluster, object: &Object) -> anyhow::Result<bool> {
    let (what, api) = (object.description(), api(cluster, object));
    let explain = |error: &kube::Error| cluster.explain(&what, error);
    let Some(found) = api.get_opt(object.name()).await.map_err(|error| explain(&error))? else {
        return Ok(false);
    };
    if found.labels().get(PART_OF).is_none_or(|part_of| part_of != "portolan") {
        return Err(Failure::with(
            crate::exit::Exit::Failed,
            format!(
                "{what} has no label {PART_OF}=portolan, so it is not removed: it is somebody else's, or the label was taken off"
            ),
        ));
    }
    let preconditions = Preconditions { uid: found.uid(), resource_version: None };
    let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::background() };
    match api.delete(object.name(), &parameters).await {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        Err(error) => Err(explain(&error)),
    }
}
