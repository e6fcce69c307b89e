//! A core kind: its names as discovery has them, with the schema of that name.

use apimachinery::apply::FieldSet;
use apimachinery::normal_form::NormalForm;
use serde_json::Value;

use super::behaviour::{Behaving, Behaviour};
use super::errors::Errors;
use super::value::{text, texts};
use apischema::Path;
use apiserver::registry::{Columns, Resource, ScalePaths, Scope, Strategy, Subresource, Version};
use apiserver::request::Verb;
use apiserver::verbs::{spec_field, status_field};

/// A resource of the core group.
pub(super) fn core(plural: &str, kind: &str, scope: Scope) -> Resource {
    kind_of("", plural, kind, scope)
}

/// A resource of a built-in group, with its schema.
pub(super) fn kind_of(group: &str, plural: &str, kind: &str, scope: Scope) -> Resource {
    let schema = apischema::core::schema(group, "v1", kind);
    Resource::new(group, "v1", plural, kind, scope).version(|version| Version { schema, ..version })
}

/// Writes an object as Kubernetes does, with the defaults of its kind.
pub(super) fn set_defaults(object: &mut Value) {
    let (api_version, kind) = (text(&object["apiVersion"]).to_owned(), text(&object["kind"]).to_owned());
    let (group, _) = api_version.rsplit_once('/').unwrap_or(("", &api_version));
    apischema::core::default(group, &kind, object);
}

/// What is wrong with the metadata of an object of a core kind, besides what is with that of any. More errors are added to it.
pub(super) fn metadata_errors(object: &Value) -> Errors {
    let (mut errors, metadata) = (Errors::default(), Path::root("metadata"));
    let path = metadata.field("finalizers");
    for (index, finalizer) in texts(&object["metadata"]["finalizers"]).enumerate() {
        check_known_finalizer(&mut errors, path.index(index), finalizer);
    }
    errors
}

/// A finalizer without a domain is one of Kubernetes' own.
pub(super) fn check_known_finalizer(errors: &mut Errors, path: Path<'_>, finalizer: &str) {
    let known = ["kubernetes", "orphan", "foregroundDeletion"];
    if !finalizer.contains('/') && !known.contains(&finalizer) {
        let detail = "name is neither a standard finalizer name nor is it fully qualified";
        errors.invalid(path, finalizer, detail);
    }
}

/// What writes of a kind with a status ignore: those of the object the status, those of the status the spec.
pub(super) fn reset_with_status(subresource: &str) -> Option<&'static FieldSet<'static>> {
    match subresource {
        "" => Some(status_field()),
        "status" => Some(spec_field()),
        _ => None,
    }
}

/// What all resources of this module add to a [`Resource`].
pub(super) trait KindExt: Sized {
    /// With this strategy, made of what an object has before anything is set.
    fn strategy_with<S: Strategy + 'static>(self, strategy: impl FnOnce(Value) -> S) -> Resource;
    /// With this behaviour.
    fn behaving(self, behaviour: Behaviour) -> Resource;
    /// Shown by `kubectl get` in these columns.
    fn shown(self, columns: Columns) -> Resource;
    /// With a status that is written by itself.
    fn with_status(self) -> Resource;
    /// With a number of replicas, selected by `status.selector` or the text made of it.
    fn with_scale(self) -> Resource;
    /// With a subresource.
    fn with(self, subresource: Subresource) -> Resource;
    /// Without a verb.
    fn without(self, verb: Verb) -> Resource;
}

impl KindExt for Resource {
    fn strategy_with<S: Strategy + 'static>(self, strategy: impl FnOnce(Value) -> S) -> Resource {
        let schema = self.versions[self.storage_version].schema.as_ref();
        let empty = schema.map_or(Value::Null, |schema| NormalForm::of(schema).empty().clone());
        self.strategy(strategy(empty))
    }

    fn behaving(self, behaviour: Behaviour) -> Resource {
        self.strategy_with(|empty| Behaving { behaviour, empty })
    }

    fn shown(self, columns: Columns) -> Resource {
        self.version(|version| version.columns(columns))
    }

    fn with_status(self) -> Resource {
        self.with(Subresource::status())
    }

    fn with_scale(self) -> Resource {
        self.with(Subresource::scale(ScalePaths {
            spec_replicas: ".spec.replicas".into(),
            status_replicas: ".status.replicas".into(),
            label_selector: Some(".spec.selector".into()),
        }))
    }

    fn with(self, subresource: Subresource) -> Resource {
        self.version(|version| version.subresource(subresource))
    }

    fn without(mut self, verb: Verb) -> Resource {
        self.verbs.retain(|known| *known != verb);
        self
    }
}
