//! The defaults that kube-apiserver computes for its own kinds.
//!
//! What a function sees has been stripped: a field that is zero and may be left out is not there, so "missing" is all there
//! is to ask for.

use serde_json::{Map, Value};

mod admission;
mod apps;
mod batch;
mod cluster;
mod networking;
mod pod;
mod storage;

type Fields = Map<String, Value>;

/// Fills in the defaults of a kind.
pub(super) fn fill_in(group: &str, kind: &str, object: &mut Value) {
    let Value::Object(object) = object else { return };
    match (group, kind) {
        ("", "Pod") => pod::pod(object),
        ("", "PodTemplate") => pod::template_in(object),
        ("", "ReplicationController") => apps::replication_controller(object),
        ("", "Service") => networking::service(object),
        ("", "Endpoints") => networking::endpoints(object),
        ("", "Namespace") => cluster::namespace(object),
        ("", "Node") => cluster::node(object),
        ("", "Secret") => cluster::secret(object),
        ("", "LimitRange") => cluster::limit_range(object),
        ("", "PersistentVolume") => storage::persistent_volume(object),
        ("", "PersistentVolumeClaim") => storage::persistent_volume_claim(object),
        ("apps", "Deployment") => apps::deployment(object),
        ("apps", "ReplicaSet") => apps::replica_set(object),
        ("apps", "StatefulSet") => apps::stateful_set(object),
        ("apps", "DaemonSet") => apps::daemon_set(object),
        ("batch", "Job") => batch::job(object),
        ("batch", "CronJob") => batch::cron_job(object),
        ("discovery.k8s.io", "EndpointSlice") => networking::endpoint_slice(object),
        ("networking.k8s.io", "NetworkPolicy") => networking::network_policy(object),
        ("networking.k8s.io", "IngressClass") => networking::ingress_class(object),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => cluster::role_binding(object),
        ("admissionregistration.k8s.io", _) => admission::webhooks_and_policies(kind, object),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => cluster::custom_resource_definition(object),
        ("apiregistration.k8s.io", "APIService") => cluster::api_service(object),
        ("authentication.k8s.io", "TokenRequest") => {
            set(inside(object, "spec"), "expirationSeconds", 3600);
        }
        ("autoscaling", "HorizontalPodAutoscaler") => {
            let spec = inside(object, "spec");
            set(spec, "minReplicas", 1);
            set(spec, "targetCPUUtilizationPercentage", 80);
        }
        ("scheduling.k8s.io", "PriorityClass") => set(object, "preemptionPolicy", "PreemptLowerPriority"),
        ("storage.k8s.io", "StorageClass") => storage::storage_class(object),
        ("storage.k8s.io", "CSIDriver") => storage::csi_driver(object),
        _ => {}
    }
}

/// Sets a field that is missing.
fn set(fields: &mut Fields, name: &str, value: impl Into<Value>) {
    if !fields.contains_key(name) {
        fields.insert(name.to_owned(), value.into());
    }
}

fn text<'a>(fields: &'a Fields, name: &str) -> &'a str {
    fields.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The fields of a struct that is a field, which is made if it is missing.
fn inside<'a>(fields: &'a mut Fields, name: &str) -> &'a mut Fields {
    let value = fields.entry(name).or_insert_with(|| Value::Object(Fields::new()));
    if !value.is_object() {
        *value = Value::Object(Fields::new());
    }
    value.as_object_mut().expect("invariant: it was made an object just now")
}

/// The fields of a struct that is a field, if it is there.
fn present<'a>(fields: &'a mut Fields, name: &str) -> Option<&'a mut Fields> {
    fields.get_mut(name)?.as_object_mut()
}

/// The structs of a list that is a field.
fn each<'a>(fields: &'a mut Fields, name: &str) -> impl Iterator<Item = &'a mut Fields> {
    let items = fields.get_mut(name).and_then(Value::as_array_mut);
    items.into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Copies into a map the entries of another that it lacks.
fn add_missing(into: &mut Fields, from: &Fields) {
    for (key, value) in from {
        if !into.contains_key(key) {
            into.insert(key.clone(), value.clone());
        }
    }
}

#[cfg(test)]
mod tests;
