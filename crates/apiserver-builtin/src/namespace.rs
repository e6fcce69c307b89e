//! Namespaces. What is in one is removed, when it ends, by the server's own controller; the `default` service account of each is
//! made by a controller outside.

use std::sync::Arc;

use apimachinery::Status;
use apimachinery::apply::FieldSet;
use apischema::FieldError;
use futures::future::{BoxFuture, FutureExt};
use serde_json::{Value, json};

use super::errors::Errors;
use super::format::qualified_name;
use super::kind::{
    KindExt as _, check_known_finalizer, core, metadata_errors, reset_with_status, set_defaults,
};
use super::table::{age, columns, is_deleting, name};
use super::value::{field_mut, fields_mut, object_mut, set, size, text, texts};
use apischema::Path;
use apiserver::api::Api;
use apiserver::endpoint::Endpoint;
use apiserver::registry::{
    Action, NameRule, Resource, Scope, Strategy, Subresource, SubresourceHandler, SubresourceKind,
    SubresourceRequest, keep_all_but,
};
use apiserver::request::Verb;
use apiserver::selection::SelectableField;
use apiserver::verbs::Answer;

/// The finalizer of those who empty a namespace.
const KUBERNETES: &str = "kubernetes";

pub(super) fn resource() -> Resource {
    let finalize = Subresource {
        name: "finalize".into(),
        kind: SubresourceKind::Custom {
            group: String::new(),
            version: "v1".into(),
            kind: "Namespace".into(),
            handler: Arc::new(Finalize),
        },
        verbs: vec![Verb::Update],
    };
    core("namespaces", "Namespace", Scope::Cluster)
        .short_names(&["ns"])
        .name_rule(NameRule::Dns1123Label)
        .selectable([SelectableField::at("status.phase")])
        .strategy_with(|empty| NamespaceStrategy { empty })
        .shown(columns(&["Name", "Status", "Age"], |namespace, now| {
            vec![name(namespace), text(&namespace["status"]["phase"]).into(), age(namespace, now)]
        }))
        .without(Verb::DeleteCollection)
        .with(finalize)
        .with_status()
}

/// How namespaces behave.
#[derive(Clone, Debug)]
struct NamespaceStrategy {
    empty: Value,
}

impl Strategy for NamespaceStrategy {
    fn prepare_for_create(&self, namespace: &mut Value, _action: Action<'_>) {
        fields_mut(namespace).insert("status".into(), json!({"phase": "Active"}));
        let finalizers = object_mut(namespace, "spec").entry("finalizers").or_insert_with(|| json!([]));
        if !texts(finalizers).any(|finalizer| finalizer == KUBERNETES)
            && let Some(finalizers) = finalizers.as_array_mut()
        {
            finalizers.push(KUBERNETES.into());
        }
        label_with_name(namespace);
    }

    fn prepare_for_update(&self, namespace: &mut Value, old: &Value, action: Action<'_>) {
        // Only whoever finalizes changes the finalizers of the spec.
        if action.subresource != "finalize" {
            let finalizers = old["spec"].get("finalizers").cloned();
            set(object_mut(namespace, "spec"), "finalizers", finalizers);
        }
        set(fields_mut(namespace), "status", old.get("status").cloned());
        label_with_name(namespace);
    }

    fn prepare_for_status_update(&self, namespace: &mut Value, old: &Value, _action: Action<'_>) {
        keep_all_but(namespace, old, &["status", "metadata"]);
        label_with_name(namespace);
    }

    fn validate(&self, namespace: &Value, _action: Action<'_>) -> Vec<FieldError> {
        let mut errors = metadata_errors(namespace);
        let spec = Path::root("spec");
        for finalizer in texts(&namespace["spec"]["finalizers"]) {
            check_finalizer(&mut errors, spec.field("finalizers"), finalizer);
        }
        errors.into_vec()
    }

    fn validate_update(&self, namespace: &Value, _old: &Value, action: Action<'_>) -> Vec<FieldError> {
        let mut errors = metadata_errors(namespace);
        let (spec, status) = (Path::root("spec"), Path::root("status"));
        match action.subresource {
            "status" => {
                let phase = text(&namespace["status"]["phase"]);
                let (right, when) =
                    if is_deleting(namespace) { ("Terminating", "not ") } else { ("Active", "") };
                if phase != right {
                    let detail = format!("may only be '{right}' if `deletionTimestamp` is {when}empty");
                    errors.invalid(status.field("Phase"), phase, detail);
                }
            }
            "finalize" => {
                let path = spec.field("finalizers");
                for (index, finalizer) in texts(&namespace["spec"]["finalizers"]).enumerate() {
                    check_finalizer(&mut errors, path.index(index), finalizer);
                }
            }
            _ => return self.validate(namespace, action),
        }
        errors.into_vec()
    }

    fn holds_deletion(&self, namespace: &Value) -> bool {
        size(&namespace["spec"]["finalizers"]) > 0
    }

    fn deletion_begins(&self, namespace: &mut Value) {
        object_mut(namespace, "status").insert("phase".into(), "Terminating".into());
    }

    fn answers_with_deleted(&self) -> bool {
        true
    }

    fn reset_fields(&self, subresource: &str) -> Option<&FieldSet<'static>> {
        reset_with_status(subresource)
    }

    fn empty(&self) -> Option<&Value> {
        Some(&self.empty)
    }

    fn set_defaults(&self, object: &mut Value) {
        set_defaults(object);
    }
}

fn label_with_name(namespace: &mut Value) {
    let name = namespace["metadata"]["name"].clone();
    object_mut(field_mut(namespace, "metadata"), "labels").insert("kubernetes.io/metadata.name".into(), name);
}

fn check_finalizer(errors: &mut Errors, path: Path<'_>, finalizer: &str) {
    errors.messages(path, finalizer, qualified_name(finalizer));
    check_known_finalizer(errors, path, finalizer);
}

/// `finalize`: those who empty namespaces say that they are done.
#[derive(Clone, Copy, Debug)]
struct Finalize;

impl SubresourceHandler for Finalize {
    fn handle<'a>(
        &'a self,
        api: &'a Api,
        request: SubresourceRequest<'a>,
    ) -> BoxFuture<'a, Result<Answer, Status>> {
        async move {
            let endpoint = Endpoint { subresource: "finalize".into(), ..request.endpoint.clone() };
            api.update(&endpoint, request.context, request.body.unwrap_or_default(), &request.options).await
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{self, action};
    use super::*;

    #[test]
    fn a_new_namespace_is_active_labelled_and_has_its_finalizer() {
        let mut namespace = json!({"metadata": {"name": "a"}, "status": {"phase": "Terminating"}});
        resource().strategy.prepare_for_create(&mut namespace, action(""));
        assert_eq!(
            namespace,
            json!({
                "metadata": {"name": "a", "labels": {"kubernetes.io/metadata.name": "a"}},
                "spec": {"finalizers": ["kubernetes"]},
                "status": {"phase": "Active"},
            })
        );
        assert!(resource().strategy.holds_deletion(&namespace));
        resource().strategy.deletion_begins(&mut namespace);
        assert_eq!(namespace["status"]["phase"], "Terminating");
    }

    #[test]
    fn only_finalizing_takes_finalizers_away() {
        let old = json!({"metadata": {"name": "a"}, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
        let mut updated = json!({"metadata": {"name": "a"}, "spec": {}});
        resource().strategy.prepare_for_update(&mut updated, &old, action(""));
        assert_eq!(updated["spec"], old["spec"]);
        let mut finalized = json!({"metadata": {"name": "a"}, "spec": {}});
        resource().strategy.prepare_for_update(&mut finalized, &old, action("finalize"));
        assert_eq!(finalized["spec"], json!({}));
        assert!(!resource().strategy.holds_deletion(&finalized));
    }

    #[test]
    fn finalizers_have_domains_and_phases_follow_deletion() {
        let namespace = json!({"spec": {"finalizers": ["mine"]}});
        assert_eq!(
            testing::texts(&resource().strategy.validate(&namespace, action(""))),
            [
                "spec.finalizers: Invalid value: \"mine\": name is neither a standard finalizer name nor is it fully \
              qualified"
            ]
        );
        let namespace = json!({"status": {"phase": "Terminating"}});
        assert_eq!(
            testing::texts(&resource().strategy.validate_update(&namespace, &namespace, action("status"))),
            [
                "status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty"
            ]
        );
    }
}
