//! An object of the installation, and how the API server serves its kind.

use serde_json::Value;

/// An object, as it is applied.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    kind: &'static ObjectKind,
    value: Value,
}

/// A kind of objects that an installation has.
#[derive(Debug, PartialEq, Eq)]
pub struct ObjectKind {
    /// The group; empty for the core group.
    pub group: &'static str,
    /// The version.
    pub version: &'static str,
    /// The kind.
    pub kind: &'static str,
    /// Its name in URLs.
    pub plural: &'static str,
    /// Whether objects of it have a namespace.
    pub scope: Scope,
}

/// Whether objects of a kind have a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// They have none.
    Cluster,
    /// They have one.
    Namespaced,
}

const fn kind(
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    scope: Scope,
) -> ObjectKind {
    ObjectKind { group, version, kind, plural, scope }
}

/// Every kind there is in an installation, in the order in which objects are applied: what others need comes first, what calls them last. A kind
/// that an installation does not have any more stays here, so that an upgrade finds what earlier versions made.
pub const KINDS: &[ObjectKind] = {
    use Scope::{Cluster, Namespaced};
    const RBAC: &str = "rbac.authorization.k8s.io";
    const ADMISSION: &str = "admissionregistration.k8s.io";
    &[
        kind("", "v1", "Namespace", "namespaces", Cluster),
        kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", Cluster),
        kind("", "v1", "ServiceAccount", "serviceaccounts", Namespaced),
        kind(RBAC, "v1", "ClusterRole", "clusterroles", Cluster),
        kind(RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", Cluster),
        kind(RBAC, "v1", "Role", "roles", Namespaced),
        kind(RBAC, "v1", "RoleBinding", "rolebindings", Namespaced),
        kind(ADMISSION, "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", Cluster),
        kind(
            ADMISSION,
            "v1",
            "ValidatingAdmissionPolicyBinding",
            "validatingadmissionpolicybindings",
            Cluster,
        ),
        kind("", "v1", "ConfigMap", "configmaps", Namespaced),
        kind("", "v1", "Service", "services", Namespaced),
        kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", Namespaced),
        kind("apps", "v1", "StatefulSet", "statefulsets", Namespaced),
        kind("apps", "v1", "DaemonSet", "daemonsets", Namespaced),
        kind("apps", "v1", "Deployment", "deployments", Namespaced),
        kind(ADMISSION, "v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", Cluster),
        kind("apiregistration.k8s.io", "v1", "APIService", "apiservices", Cluster),
    ]
};

impl ObjectKind {
    /// `apiVersion` of its objects.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.into() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Where it stands in the order in which objects are applied.
    pub(crate) fn rank(&self) -> usize {
        KINDS.iter().position(|kind| kind == self).unwrap_or(KINDS.len())
    }
}

impl Object {
    /// An object that this crate made or that is compiled in.
    ///
    /// # Panics
    ///
    /// If its kind is not among those that an installation has, which its tests show.
    pub(crate) fn new(value: Value) -> Self {
        let is = |kind: &&ObjectKind| {
            value["kind"] == kind.kind && value["apiVersion"] == kind.api_version().as_str()
        };
        let Some(kind) = KINDS.iter().find(is) else {
            panic!("invariant: {} {} is a kind of the installation", value["apiVersion"], value["kind"])
        };
        Self { kind, value }
    }

    /// Its kind.
    pub fn kind(&self) -> &'static ObjectKind {
        self.kind
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.value["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// Its namespace, if its kind has one.
    pub fn namespace(&self) -> Option<&str> {
        self.value["metadata"]["namespace"].as_str()
    }

    /// The object.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Sets an annotation.
    pub fn annotate(&mut self, key: &str, value: &str) {
        self.value["metadata"]["annotations"][key] = value.into();
    }

    pub(crate) fn value_mut(&mut self) -> &mut Value {
        &mut self.value
    }

    /// How people call it: `DaemonSet portolan-system/portolan-agent`.
    pub fn description(&self) -> String {
        match self.namespace() {
            Some(namespace) => format!("{} {namespace}/{}", self.kind.kind, self.name()),
            None => format!("{} {}", self.kind.kind, self.name()),
        }
    }

    /// What tells objects apart.
    pub(crate) fn identity(&self) -> (usize, Option<&str>, &str) {
        (self.kind.rank(), self.namespace(), self.name())
    }
}
