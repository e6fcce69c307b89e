//! Objects are applied and deleted.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::Api;
use kube::ResourceExt as _;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, Preconditions,
};
use portolan_manifests::{Object, ObjectKind, Scope};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::exit::Failure;

/// Whose fields these are, to the API server.
pub(crate) const MANAGER: &str = "portolan-install";
/// The same, of notes that applying again must not take off.
const CREATOR: &str = "portolan-install-created";
/// The label of what belongs to an installation.
pub(crate) const PART_OF: &str = "app.kubernetes.io/part-of";
/// The annotation of definitions of others' kinds that `portolan install` created, with their UID. The label says less: applying the manifest
/// puts it on definitions that were there before, with all objects of their kinds.
const CREATED: &str = "portolan.dev/created-by-install";

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
    api_of(cluster, object.kind(), object.namespace())
}

/// The API of a kind, in a namespace if objects of the kind have one.
pub(super) fn api_of(cluster: &Cluster, kind: &ObjectKind, namespace: Option<&str>) -> Api<DynamicObject> {
    let gvk = GroupVersionKind::gvk(kind.group, kind.version, kind.kind);
    let resource = ApiResource::from_gvk_with_plural(&gvk, kind.plural);
    match (kind.scope, namespace) {
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
        if before.is_none() && self.trial == Trial::Real && is_of_others_kind(object) {
            self.note_creation(object, &after).await?;
        }
        Ok(match before {
            None => Applied::Created,
            Some(before) if is_same(&before, &after) => Applied::Unchanged,
            Some(_) => Applied::Changed,
        })
    }

    /// Notes on a definition that it was created here, unless somebody else did so in the same moment. Where this is interrupted, the definition
    /// stays when Portolan is removed.
    async fn note_creation(&self, object: &Object, after: &DynamicObject) -> anyhow::Result<()> {
        let Some(uid) = after.uid().filter(|_| others_that_define(after).is_empty()) else { return Ok(()) };
        let note = json!({"metadata": {"uid": uid, "annotations": {CREATED: uid}}});
        let parameters = PatchParams { field_manager: Some(CREATOR.into()), ..PatchParams::default() };
        let (api, patch) = (api(self.cluster, object), Patch::Merge(&note));
        let noted = api.patch_metadata(object.name(), &parameters, &patch).await;
        noted.map(drop).map_err(|error| self.cluster.explain(&object.description(), &error))
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
    is_of_others_kind(object) && before.labels().get(PART_OF).is_none_or(|part_of| part_of != "portolan")
}

/// Whether it is a definition that others bring too, such as Multus and Kube-OVN.
fn is_of_others_kind(object: &Object) -> bool {
    object.kind().kind == "CustomResourceDefinition" && !object.name().ends_with(".portolan.dev")
}

/// Why a definition must not be deleted with Portolan, if that is so: objects of others would go with it.
pub(crate) fn why_others_may_need(object: &Object, found: &DynamicObject) -> Option<String> {
    if !is_of_others_kind(object) {
        return None;
    }
    if found.uid().is_none_or(|uid| found.annotations().get(CREATED) != Some(&uid)) {
        return Some("nothing shows that `portolan install` created it".into());
    }
    let others = others_that_define(found);
    (!others.is_empty()).then(|| format!("{} wrote it too", others.join(", ")))
}

/// Who else has said what is in a definition.
fn others_that_define(found: &DynamicObject) -> Vec<String> {
    let defines = |entry: &&ManagedFieldsEntry| {
        let fields = entry.fields_v1.as_ref().map(|fields| &fields.0);
        entry.subresource.is_none() && fields.is_some_and(|fields| fields.get("f:spec").is_some())
    };
    let managers = found.managed_fields().iter().filter(defines).filter_map(|entry| entry.manager.clone());
    managers.filter(|manager| manager != MANAGER).collect()
}

/// Whether `portolan install` applied an object: who only gave it the label did not.
pub(super) fn was_applied(fields: &[ManagedFieldsEntry]) -> bool {
    let is_ours = |entry: &ManagedFieldsEntry| {
        entry.manager.as_deref() == Some(MANAGER) && entry.operation.as_deref() == Some("Apply")
    };
    fields.iter().any(is_ours)
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
