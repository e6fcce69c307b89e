//! The kinds of Kubernetes itself: their schemas and the defaults that kube-apiserver gives them.
//!
//! The facts are in `core/kinds.json`, made by `cargo xtask codegen` from Kubernetes' own OpenAPI documents; the
//! values that fields may have are apart, in `core/enumerations.json` ([`Enumerations`]). Defaults that stand in those documents are
//! only those that generators could see; the ones that kube-apiserver computes are in [`default()`].

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, OnceLock};

use serde_json::Value;

pub use enumerations::Enumerations;

use crate::{Components, Schema};

mod decoding;
mod defaults;
mod encoding;
mod enumerations;
mod go_types;

/// A kind that this crate has a schema of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    /// The group; empty for the core group.
    pub group: String,
    /// The version in the group.
    pub version: String,
    /// The kind, such as `Pod` or `PodList`.
    pub kind: String,
    /// The name of its type among [`components()`].
    pub type_name: String,
}

/// All kinds, in order of group, version and kind.
pub fn kinds() -> &'static [Kind] {
    static KINDS: LazyLock<Vec<Kind>> = LazyLock::new(|| {
        let documents = components().documents().iter();
        let mut kinds: Vec<_> = documents.flat_map(|(name, schema)| kinds_of_type(name, schema)).collect();
        kinds.sort();
        kinds
    });
    &KINDS
}

fn kinds_of_type(name: &str, schema: &Value) -> Vec<Kind> {
    let kinds = schema["x-kubernetes-group-version-kind"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kind = |gvk: &Value| Kind {
        group: text(&gvk["group"]),
        version: text(&gvk["version"]),
        kind: text(&gvk["kind"]),
        type_name: name.to_owned(),
    };
    kinds.map(kind).collect()
}

/// The schema of a kind, or nothing if this crate has none. It is parsed once, and shares with other kinds the types that
/// they share.
pub fn schema(group: &str, version: &str, kind: &str) -> Option<Arc<Schema>> {
    // Every write asks for one, so no lock is taken once it is there.
    static SCHEMAS: LazyLock<Vec<OnceLock<Option<Arc<Schema>>>>> =
        LazyLock::new(|| kinds().iter().map(|_| OnceLock::new()).collect());
    let wanted = (group, version, kind);
    let place =
        kinds().binary_search_by(|known| (&*known.group, &*known.version, &*known.kind).cmp(&wanted)).ok()?;
    SCHEMAS[place].get_or_init(|| components().schema(&kinds()[place].type_name).ok()).clone()
}

/// Makes of an object what kube-apiserver makes of it by reading it: fields that are zero or null go, defaults come, and
/// what is always written out is there; quantities and times are written in their one way. Doing it again changes nothing.
///
/// An object of a kind that this crate does not know stays as it is. What depends on more than the object (addresses of
/// Services, names, times) is the server's to fill in.
pub fn default(group: &str, kind: &str, object: &mut Value) {
    let Some(schema) = schema(group, "v1", kind) else { return };
    encoding::strip(object, &schema);
    defaults::fill_in(group, kind, object);
    encoding::fill(object, &schema);
}

/// Why kube-apiserver could not read an object of a kind, in the words of Go's JSON decoder; nothing if it could.
pub fn decode_error(group: &str, version: &str, kind: &str, object: &Value) -> Option<String> {
    decoding::error(object, &*schema(group, version, kind)?, decoding::Reader::Json)
}

/// The same in the words of the converter that kube-apiserver reads the outcome of a strategic merge patch with.
pub fn conversion_error(group: &str, version: &str, kind: &str, object: &Value) -> Option<String> {
    decoding::error(object, &*schema(group, version, kind)?, decoding::Reader::Converter)
}

/// Why kube-apiserver could not read an object's metadata.
pub(crate) fn metadata_decode_error(metadata: &Value) -> Option<String> {
    decoding::error_of_type(metadata, object_meta(), "v1.ObjectMeta")
}

/// What an object's metadata looks like after kube-apiserver read and wrote it, which it does with that of custom resources too.
pub fn encode_metadata(metadata: &mut Value) {
    encoding::strip(metadata, object_meta());
    encoding::fill(metadata, object_meta());
}

/// The schema of every kind's `metadata`.
pub fn object_meta() -> &'static Schema {
    static OBJECT_META: LazyLock<Arc<Schema>> = LazyLock::new(|| {
        let name = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
        components().schema(name).expect("invariant: the generated file has it; tests look")
    });
    &OBJECT_META
}

/// The schema with which a walk through a value goes on where a schema ends because its type holds itself, as a schema in a
/// CRD does; and in those few places that hold either one of these or something else.
pub(crate) fn continued(schema: &Schema, value: &Value) -> Option<Arc<Schema>> {
    if !schema.preserve_unknown_fields || !value.is_object() {
        return None;
    }
    let name = schema.type_name.as_deref()?;
    let name =
        ["OrBool", "OrArray", "OrStringArray"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
    go_types::of(name)?;
    components().schema(name).ok()
}

/// The types as an OpenAPI v3 document's components have them, each by its name.
pub fn components() -> &'static Components {
    static COMPONENTS: LazyLock<Components> = LazyLock::new(|| {
        let documents: BTreeMap<String, Value> = serde_json::from_str(include_str!("core/kinds.json"))
            .expect("invariant: the generated file is JSON; tests read all of it");
        Components::new(documents)
    });
    &COMPONENTS
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{AdditionalProperties, ListType, MapType};

    #[test]
    fn every_kind_has_a_schema_of_an_object() {
        assert!(kinds().len() > 80, "{}", kinds().len());
        for Kind { group, version, kind, .. } in kinds() {
            let schema = schema(group, version, kind).unwrap_or_else(|| panic!("{group}/{version} {kind}"));
            assert_eq!(schema.kind, Some(crate::Type::Object), "{kind}");
            assert!(schema.properties.contains_key("kind") || kind == "WatchEvent", "{kind}");
        }
        assert_eq!(schema("", "v1", "Podd"), None);
        for name in components().documents().keys() {
            components().schema(name).unwrap();
        }
    }

    #[test]
    fn the_kinds_a_lab_needs_are_there() {
        for (group, kinds) in [
            ("", "Namespace Node Pod Service ConfigMap Secret ServiceAccount Event Endpoints Binding Status"),
            (
                "",
                "PersistentVolumeClaim ReplicationController LimitRange ResourceQuota DeleteOptions PodList",
            ),
            ("discovery.k8s.io", "EndpointSlice"),
            ("events.k8s.io", "Event"),
            ("coordination.k8s.io", "Lease"),
            ("rbac.authorization.k8s.io", "Role RoleBinding ClusterRole ClusterRoleBinding"),
            ("networking.k8s.io", "NetworkPolicy Ingress IngressClass"),
            ("apps", "Deployment ReplicaSet StatefulSet DaemonSet ControllerRevision"),
            ("batch", "Job CronJob"),
            ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration MutatingWebhookConfiguration"),
            ("apiextensions.k8s.io", "CustomResourceDefinition"),
            ("certificates.k8s.io", "CertificateSigningRequest"),
            ("policy", "PodDisruptionBudget Eviction"),
            ("autoscaling", "Scale"),
            ("authorization.k8s.io", "SubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview"),
            ("authorization.k8s.io", "LocalSubjectAccessReview"),
            ("authentication.k8s.io", "TokenReview SelfSubjectReview TokenRequest"),
            ("scheduling.k8s.io", "PriorityClass"),
            ("storage.k8s.io", "StorageClass"),
            ("node.k8s.io", "RuntimeClass"),
            ("apiregistration.k8s.io", "APIService"),
        ] {
            for kind in kinds.split(' ') {
                assert!(schema(group, "v1", kind).is_some(), "{group} {kind}");
            }
        }
    }

    #[test]
    fn what_a_strategic_merge_patch_made_is_refused_in_the_converters_words() {
        let error = |object: Value| conversion_error("apps", "v1", "Deployment", &object);
        for (object, words) in [
            (json!({"spec": {"replicas": "three"}}), "unrecognized type: int32"),
            (json!({"spec": {"replicas": 1.5}}), "cannot convert float64 to int32"),
            (json!({"spec": {"paused": "yes"}}), "unrecognized type: bool"),
            (json!({"spec": {"strategy": 5}}), "cannot restore struct from: int64"),
            (json!({"spec": {"selector": {"matchLabels": [1]}}}), "cannot restore map from slice"),
            (
                json!({"spec": {"template": {"spec": {"tolerations": "x"}}}}),
                "cannot restore slice from string",
            ),
            (json!({"spec": {"template": {"spec": {"nodeName": {}}}}}), "unrecognized type: string"),
            (json!({"metadata": {"labels": {"a": 1}}}), "cannot convert int64 to string"),
            (
                json!({"metadata": {"creationTimestamp": 5}}),
                "json: cannot unmarshal number into Go value of type string",
            ),
        ] {
            assert_eq!(error(object.clone()).as_deref(), Some(words), "{object}");
        }
        assert_eq!(error(json!({"spec": {"replicas": 3, "paused": null}})), None);
    }

    #[test]
    fn kinds_share_the_types_they_have_in_common() {
        let pod = schema("", "v1", "Pod").unwrap();
        let deployment = schema("apps", "v1", "Deployment").unwrap();
        let template = &deployment.properties["spec"].properties["template"];
        assert!(Arc::ptr_eq(&pod.properties["metadata"], &deployment.properties["metadata"]));
        assert!(Arc::ptr_eq(&pod.properties["spec"], &template.properties["spec"]));
    }

    #[test]
    fn facts_for_merging_are_those_of_kubernetes() {
        let pod = schema("", "v1", "Pod").unwrap();
        let spec = &pod.properties["spec"];
        let containers = &spec.properties["containers"];
        assert_eq!(containers.list_type, ListType::Map(vec!["name".to_owned()]));
        assert_eq!(containers.patch.merge_key.as_deref(), Some("name"));
        assert!(containers.patch.merge);
        let ports = &containers.items.as_ref().unwrap().properties["ports"];
        assert_eq!(ports.list_type, ListType::Map(vec!["containerPort".to_owned(), "protocol".to_owned()]));
        let protocol = &ports.items.as_ref().unwrap().properties["protocol"];
        assert_eq!(protocol.default, Some("TCP".into()));
        assert_eq!(spec.properties["nodeSelector"].map_type, MapType::Atomic);
        let volumes = &spec.properties["volumes"].patch;
        assert!(volumes.merge && volumes.retain_keys);
        let strategy = &schema("apps", "v1", "Deployment").unwrap().properties["spec"].properties["strategy"];
        assert!(strategy.patch.retain_keys && !strategy.patch.merge);
        let limits = &containers.items.as_ref().unwrap().properties["resources"].properties["limits"];
        let AdditionalProperties::Of(quantity) = &limits.additional else { panic!("{limits:?}") };
        assert_eq!(quantity.kind, None);
        let service = schema("", "v1", "Service").unwrap();
        let port = service.properties["spec"].properties["ports"].items.clone().unwrap();
        assert!(port.properties["targetPort"].int_or_string);
    }

    #[test]
    fn the_schema_inside_a_crd_takes_anything_below_itself() {
        let crd = schema("apiextensions.k8s.io", "v1", "CustomResourceDefinition").unwrap();
        let version = crd.properties["spec"].properties["versions"].items.clone().unwrap();
        let json_schema = &version.properties["schema"].properties["openAPIV3Schema"];
        let AdditionalProperties::Of(property) = &json_schema.properties["properties"].additional else {
            panic!("{json_schema:?}")
        };
        assert!(property.preserve_unknown_fields);
    }
}
