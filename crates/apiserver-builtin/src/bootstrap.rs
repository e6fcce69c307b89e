//! The objects that every cluster has.
//!
//! What is there is left as it is: whoever changes a role keeps the change. The `default` ServiceAccount of a namespace, and
//! the Service `kubernetes`, are for controllers to make.

use apimachinery::Status;
use serde_json::{Value, json};

use super::class::SYSTEM_CLASSES;
use apiserver::api::Api;
use apiserver::authn::{AUTHENTICATED, UNAUTHENTICATED};
use apiserver::context::Context;
use apiserver::endpoint::Endpoint;
use apiserver::options::WriteOptions;

const RBAC: &str = "rbac.authorization.k8s.io";
const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Makes the objects that every cluster has and that are not there. Kinds that are not served are left out.
///
/// # Errors
/// When one cannot be written.
pub async fn bootstrap(api: &Api) -> Result<(), Status> {
    let context = Context::internal("bootstrap");
    let registry = api.registry().snapshot();
    for (group, plural, object) in objects() {
        let Some(resource) = registry.resource(group, plural) else { continue };
        let endpoint = Endpoint::collection(resource.clone(), "");
        let key = endpoint.key(object["metadata"]["name"].as_str().unwrap_or_default());
        let got = api.storage().get(&key).await.map_err(|error| resource.store_failed(&error))?;
        if got.entry.is_some() {
            continue;
        }
        match api.create(&endpoint, &context, object, &WriteOptions::default()).await {
            Ok(_) => {}
            Err(status) if status.code == 409 => {}
            Err(status) => return Err(status),
        }
    }
    Ok(())
}

/// The objects, each with its group and plural, in the order in which they are made.
fn objects() -> Vec<(&'static str, &'static str, Value)> {
    let mut objects: Vec<_> =
        NAMESPACES.into_iter().map(|name| ("", "namespaces", json!({"metadata": {"name": name}}))).collect();
    objects.extend(SYSTEM_CLASSES.into_iter().map(|(name, value)| {
        let class = json!({
            "metadata": {"name": name},
            "value": value,
            "description": match name {
                "system-node-critical" => "Pods that must not be moved from their node.",
                _ => "Pods that the cluster needs, and that may be moved to another node.",
            },
        });
        ("scheduling.k8s.io", "priorityclasses", class)
    }));
    objects.extend(roles().into_iter().map(|role| (RBAC, "clusterroles", role)));
    objects.extend(bindings().into_iter().map(|binding| (RBAC, "clusterrolebindings", binding)));
    objects
}

fn metadata(name: &str) -> Value {
    json!({
        "name": name,
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
    })
}

fn bindings() -> Vec<Value> {
    let binding = |role: &str, groups: &[&str]| {
        let subject = |group: &&str| json!({"kind": "Group", "apiGroup": RBAC, "name": group});
        json!({
            "metadata": metadata(role),
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
            "subjects": groups.iter().map(subject).collect::<Vec<_>>(),
        })
    };
    vec![
        binding("cluster-admin", &["system:masters"]),
        binding("system:basic-user", &[AUTHENTICATED]),
        binding("system:discovery", &[AUTHENTICATED]),
        binding("system:public-info-viewer", &[AUTHENTICATED, UNAUTHENTICATED]),
    ]
}

fn roles() -> Vec<Value> {
    let role = |name: &str, rules: Value| json!({"metadata": metadata(name), "rules": rules});
    let mut roles = vec![
        role(
            "cluster-admin",
            json!([
                {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
                {"nonResourceURLs": ["*"], "verbs": ["*"]},
            ]),
        ),
        role(
            "system:discovery",
            json!([paths(
                "/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version /version/"
            )]),
        ),
        role(
            "system:basic-user",
            json!([
                rule("authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews", "create"),
                rule("authentication.k8s.io", "selfsubjectreviews", "create"),
            ]),
        ),
        // What nobody in particular may see: whether the server is well. Its version is for those it knows.
        role("system:public-info-viewer", json!([paths("/healthz /livez /readyz")])),
    ];
    for (name, part_of) in [("admin", None), ("edit", Some("admin")), ("view", Some("edit"))] {
        let mut whole = json!({
            "metadata": metadata(name),
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {aggregate_to(name): "true"}}]},
            "rules": null,
        });
        if let Some(part_of) = part_of {
            whole["metadata"]["labels"][aggregate_to(part_of)] = "true".into();
        }
        let rules = match name {
            "admin" => ADMIN,
            "edit" => EDIT,
            _ => VIEW,
        };
        let rules = rules.iter().map(|(group, resources, verbs)| rule(group, resources, verbs)).collect();
        let mut part = role(&format!("system:aggregate-to-{name}"), rules);
        part["metadata"]["labels"][aggregate_to(name)] = "true".into();
        roles.extend([whole, part]);
    }
    roles
}

fn aggregate_to(name: &str) -> String {
    format!("{RBAC}/aggregate-to-{name}")
}

fn paths(paths: &str) -> Value {
    json!({"nonResourceURLs": paths.split(' ').collect::<Vec<_>>(), "verbs": ["get"]})
}

fn rule(group: &str, resources: &str, verbs: &str) -> Value {
    json!({
        "apiGroups": [group],
        "resources": resources.split(' ').collect::<Vec<_>>(),
        "verbs": verbs.split(' ').collect::<Vec<_>>(),
    })
}

type Rules = &'static [(&'static str, &'static str, &'static str)];

const READ: &str = "get list watch";
const WRITE: &str = "create delete deletecollection patch update";
const ALL: &str = "create delete deletecollection get list patch update watch";

const ADMIN: Rules =
    &[("authorization.k8s.io", "localsubjectaccessreviews", "create"), (RBAC, "rolebindings roles", ALL)];

const EDIT: Rules = &[
    ("", "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy", READ),
    ("", "serviceaccounts", "impersonate"),
    ("", "pods pods/attach pods/exec pods/portforward pods/proxy", WRITE),
    ("", "pods/eviction", "create"),
    (
        "",
        "configmaps events persistentvolumeclaims replicationcontrollers replicationcontrollers/scale secrets \
         serviceaccounts services services/proxy",
        WRITE,
    ),
    ("", "serviceaccounts/token", "create"),
    (
        "apps",
        "daemonsets deployments deployments/rollback deployments/scale replicasets replicasets/scale statefulsets \
         statefulsets/scale",
        WRITE,
    ),
    ("autoscaling", "horizontalpodautoscalers", WRITE),
    ("batch", "cronjobs jobs", WRITE),
    ("policy", "poddisruptionbudgets", WRITE),
    ("networking.k8s.io", "ingresses networkpolicies", WRITE),
    ("coordination.k8s.io", "leases", ALL),
];

const VIEW: Rules = &[
    (
        "",
        "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods replicationcontrollers \
         replicationcontrollers/scale serviceaccounts services services/status",
        READ,
    ),
    (
        "",
        "bindings events limitranges namespaces/status pods/log pods/status replicationcontrollers/status resourcequotas \
         resourcequotas/status",
        READ,
    ),
    ("", "namespaces", READ),
    ("discovery.k8s.io", "endpointslices", READ),
    (
        "apps",
        "controllerrevisions daemonsets daemonsets/status deployments deployments/scale deployments/status replicasets \
         replicasets/scale replicasets/status statefulsets statefulsets/scale statefulsets/status",
        READ,
    ),
    ("autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status", READ),
    ("batch", "cronjobs cronjobs/status jobs jobs/status", READ),
    ("policy", "poddisruptionbudgets poddisruptionbudgets/status", READ),
    ("networking.k8s.io", "ingresses ingresses/status networkpolicies", READ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources;
    use crate::testing::create;

    #[test]
    fn every_object_is_valid() {
        let resources = resources();
        for (group, plural, object) in objects() {
            let resource = resources
                .iter()
                .find(|resource| resource.group == group && resource.plural == plural)
                .unwrap();
            assert_eq!(create(resource, &object), [""; 0], "{object}");
        }
    }

    #[test]
    fn anonymous_users_may_only_read_health() {
        let bound: Vec<_> = bindings()
            .into_iter()
            .filter(|binding| binding["subjects"].to_string().contains(UNAUTHENTICATED))
            .map(|binding| binding["roleRef"]["name"].clone())
            .collect();
        assert_eq!(bound, ["system:public-info-viewer"]);
        let role = roles().into_iter().find(|role| role["metadata"]["name"] == bound[0]).unwrap();
        assert_eq!(
            role["rules"],
            json!([{"nonResourceURLs": ["/healthz", "/livez", "/readyz"], "verbs": ["get"]}])
        );
    }

    #[test]
    fn admin_includes_edit_and_edit_includes_view() {
        let labels = |name: &str| {
            let role = roles().into_iter().find(|role| role["metadata"]["name"] == name).unwrap();
            role["metadata"]["labels"].clone()
        };
        assert_eq!(labels("edit")[aggregate_to("admin")], "true");
        assert_eq!(labels("view")[aggregate_to("edit")], "true");
        assert_eq!(labels("system:aggregate-to-view")[aggregate_to("view")], "true");
    }
}
