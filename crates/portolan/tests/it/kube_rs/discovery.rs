//! Discovery, and kinds that are known only at run time.

use kube::api::{DynamicObject, PostParams};
use kube::core::GroupVersionKind;
use kube::discovery::{Discovery, Scope, verbs};
use kube::{Api, ResourceExt as _};
use serde_json::json;

use crate::kube_rs::Space;

pub(crate) async fn kinds_are_found_in_both_ways(space: Space) {
    let one_by_one = Discovery::new(space.client.clone()).run().await.unwrap();
    let aggregated = Discovery::new(space.client.clone()).run_aggregated().await.unwrap();
    let kinds =
        [("", "v1", "Pod"), ("apps", "v1", "Deployment"), ("rbac.authorization.k8s.io", "v1", "ClusterRole")];
    for (group, version, kind) in kinds {
        let kind = GroupVersionKind::gvk(group, version, kind);
        let (resource, capabilities) = one_by_one.resolve_gvk(&kind).unwrap();
        let (also, capabilities_too) = aggregated.resolve_gvk(&kind).unwrap();
        assert_eq!(resource, also);
        assert_eq!(capabilities.scope, capabilities_too.scope);
        assert_eq!(capabilities.scope == Scope::Cluster, kind.kind == "ClusterRole");
        assert!(capabilities.supports_operation(verbs::WATCH));
        let names = |capabilities: &kube::discovery::ApiCapabilities| {
            let mut names: Vec<_> =
                capabilities.subresources.iter().map(|(one, _)| one.plural.clone()).collect();
            names.sort();
            names
        };
        assert_eq!(names(&capabilities), names(&capabilities_too));
    }
    let kind = GroupVersionKind::gvk("coordination.k8s.io", "v1", "Lease");
    let (resource, _) = kube::discovery::pinned_kind(&space.client, &kind).await.unwrap();
    let api = Api::<DynamicObject>::namespaced_with(space.client.clone(), space.name, &resource);
    let lease = DynamicObject::new("l", &resource).data(json!({"spec": {"holderIdentity": "me"}}));
    let lease = api.create(&PostParams::default(), &lease).await.unwrap();
    assert_eq!((lease.name_any().as_str(), &lease.data["spec"]["holderIdentity"]), ("l", &json!("me")));
    assert_eq!(space.client.apiserver_version().await.unwrap().major, "1");
}
