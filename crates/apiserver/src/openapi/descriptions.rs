//! What Kubernetes says about its types and their fields, for those who ask to have them explained. The sentences are those that
//! the crate `k8s-openapi` has for its types.

use apischema::core::Enumerations;
use k8s_openapi::api::{
    admissionregistration::v1 as admissionregistration, apps::v1 as apps,
    authentication::v1 as authentication, authorization::v1 as authorization, autoscaling::v1 as autoscaling,
    batch::v1 as batch, certificates::v1 as certificates, coordination::v1 as coordination, core::v1 as core,
    discovery::v1 as discovery, events::v1 as events, networking::v1 as networking, node::v1 as node,
    policy::v1 as policy, rbac::v1 as rbac, scheduling::v1 as scheduling, storage::v1 as storage,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1 as apiextensions;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

/// What is said about types and their fields. It is long, few ask for it, and nobody asks often: it is made when it is wanted
/// and not kept.
pub(super) struct Descriptions {
    by_type: Map<String, Value>,
    enumerations: Enumerations,
}

impl Descriptions {
    pub(super) fn make() -> Descriptions {
        let mut generator = SchemaGenerator::new(SchemaSettings::draft07());
        add_kinds(&mut generator);
        Descriptions { by_type: generator.take_definitions(false), enumerations: Enumerations::read() }
    }

    /// What is said about a field of a type.
    pub(super) fn of(&self, type_name: &str, field: &str) -> Option<&str> {
        self.by_type.get(type_name)?["properties"][field]["description"].as_str()
    }

    /// Puts into a type's schema what is said about it and its fields, and which values the fields may have.
    pub(super) fn add_to(&self, type_name: &str, schema: &mut Value) {
        self.enumerations.add_to(type_name, schema);
        let Some(described) = self.by_type.get(type_name) else { return };
        if let (Some(description), Value::Object(schema)) = (described.get("description"), &mut *schema) {
            schema.insert("description".into(), description.clone());
        }
        let Some(Value::Object(fields)) = schema.get_mut("properties") else { return };
        for (name, field) in fields {
            if let (Some(description), Value::Object(field)) = (self.of(type_name, name), field) {
                field.insert("description".into(), description.into());
            }
        }
    }
}

macro_rules! add {
    ($generator:ident, $($kind:ty),* $(,)?) => { $($generator.subschema_for::<$kind>();)* };
}

/// The kinds that are served, and with them all types that they refer to.
fn add_kinds(generator: &mut SchemaGenerator) {
    add!(
        generator,
        admissionregistration::MutatingWebhookConfiguration,
        admissionregistration::ValidatingWebhookConfiguration,
        apiextensions::CustomResourceDefinition,
        apps::ControllerRevision,
        apps::DaemonSet,
        apps::Deployment,
        apps::ReplicaSet,
        apps::StatefulSet,
        authentication::SelfSubjectReview,
        authentication::TokenReview,
        authorization::LocalSubjectAccessReview,
        authorization::SelfSubjectAccessReview,
        authorization::SelfSubjectRulesReview,
        authorization::SubjectAccessReview,
        autoscaling::Scale,
        batch::CronJob,
        batch::Job,
        certificates::CertificateSigningRequest,
        coordination::Lease,
        core::Binding,
        core::ConfigMap,
        core::Endpoints,
        core::Event,
        core::LimitRange,
        core::Namespace,
        core::Node,
        core::PersistentVolume,
        core::PersistentVolumeClaim,
        core::Pod,
        core::PodTemplate,
        core::ReplicationController,
        core::ResourceQuota,
        core::Secret,
        core::Service,
        core::ServiceAccount,
        discovery::EndpointSlice,
        events::Event,
        meta::DeleteOptions,
        meta::Status,
        networking::Ingress,
        networking::IngressClass,
        networking::NetworkPolicy,
        node::RuntimeClass,
        policy::Eviction,
        policy::PodDisruptionBudget,
        rbac::ClusterRole,
        rbac::ClusterRoleBinding,
        rbac::Role,
        rbac::RoleBinding,
        scheduling::PriorityClass,
        storage::CSIDriver,
        storage::CSINode,
        storage::StorageClass,
        storage::VolumeAttachment,
    );
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn kinds_and_their_fields_are_described() {
        let descriptions = Descriptions::make();
        let name = "io.k8s.api.core.v1.Pod";
        let mut schema = apischema::core::components().documents()[name].clone();
        descriptions.add_to(name, &mut schema);
        assert!(schema["description"].as_str().is_some_and(|text| text.starts_with("Pod is")), "{schema}");
        let spec = &schema["properties"]["spec"]["description"];
        assert_eq!(spec.as_str(), descriptions.of(name, "spec"));
        assert!(spec.is_string());
        assert_eq!(descriptions.of(name, "nothing"), None);
    }

    #[test]
    fn unknown_types_are_not_described() {
        let mut schema = json!({"type": "object"});
        Descriptions::make().add_to("com.example.v1.Ship", &mut schema);
        assert_eq!(schema, json!({"type": "object"}));
    }
}
