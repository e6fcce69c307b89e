//! Objects, as YAML, a file for each kind.

use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::archive::Archive;
use super::redact::{self, Owner};
use crate::cluster::Cluster;

/// How many objects of a kind there are.
const MOST: u32 = 2000;

/// Which objects of a kind are of interest.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    All,
    /// In the namespace of the installation.
    Own,
    /// Those that are named or labelled as Portolan's.
    Ours,
    /// Pods of others that have or want networks of Portolan.
    Users,
    /// Events of the namespace, by Portolan's components, or on its kinds.
    Told,
}

struct Kind(&'static str, &'static str, &'static str, &'static str, Which);

const KINDS: &[Kind] = &[
    Kind("portolan.dev", "v1alpha1", "Vpc", "vpcs", Which::All),
    Kind("portolan.dev", "v1alpha1", "Subnet", "subnets", Which::All),
    Kind("portolan.dev", "v1alpha1", "IPLock", "iplocks", Which::All),
    Kind("portolan.dev", "v1alpha1", "NetworkAttachment", "networkattachments", Which::All),
    Kind("kubeovn.io", "v1", "Vpc", "vpcs", Which::All),
    Kind("kubeovn.io", "v1", "Subnet", "subnets", Which::All),
    Kind("kubeovn.io", "v1", "IPPool", "ippools", Which::All),
    Kind("kubeovn.io", "v1", "Vip", "vips", Which::All),
    Kind(
        "k8s.cni.cncf.io",
        "v1",
        "NetworkAttachmentDefinition",
        "network-attachment-definitions",
        Which::All,
    ),
    Kind("", "v1", "Node", "nodes", Which::All),
    Kind("", "v1", "Pod", "pods", Which::Users),
    Kind("", "v1", "Event", "events", Which::Told),
    Kind("", "v1", "ConfigMap", "configmaps", Which::Own),
    Kind("", "v1", "Secret", "secrets", Which::Own),
    Kind("", "v1", "Service", "services", Which::Own),
    Kind("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", Which::Own),
    Kind("coordination.k8s.io", "v1", "Lease", "leases", Which::Own),
    Kind("apps", "v1", "DaemonSet", "daemonsets", Which::Own),
    Kind("apps", "v1", "Deployment", "deployments", Which::Own),
    Kind("apps", "v1", "StatefulSet", "statefulsets", Which::Own),
    Kind(
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        Which::Ours,
    ),
    Kind("apiregistration.k8s.io", "v1", "APIService", "apiservices", Which::Ours),
    Kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", Which::Ours),
];

pub(super) async fn collect(
    cluster: &Cluster,
    namespace: &str,
    deadline: Instant,
    archive: &mut Archive,
) -> anyhow::Result<()> {
    for kind in KINDS {
        let Kind(group, _, _, plural, _) = kind;
        let title = if group.is_empty() { (*plural).to_owned() } else { format!("{plural}.{group}") };
        let file = format!("objects/{title}.yaml");
        let listed = match timeout_at(deadline, list(cluster, kind, namespace)).await {
            Ok(listed) => listed,
            Err(_) => Err("the time was up".to_owned()),
        };
        match listed {
            Ok((text, more)) => {
                archive.add(&file, text.as_bytes())?;
                if more {
                    archive.missing(&file, &format!("there are more than {MOST}; the rest is left out"));
                }
            }
            Err(reason) => archive.missing(&file, &reason),
        }
    }
    Ok(())
}

/// The objects as one text, and whether there are more.
async fn list(cluster: &Cluster, kind: &Kind, own: &str) -> Result<(String, bool), String> {
    let Kind(group, version, name, plural, which) = kind;
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, name), plural);
    let api: Api<DynamicObject> = match which {
        Which::Own => Api::namespaced_with(cluster.client.clone(), own, &resource),
        _ => Api::all_with(cluster.client.clone(), &resource),
    };
    let list = api.list(&ListParams::default().limit(MOST)).await;
    let list = list.map_err(|error| format!("{:#}", cluster.explain(plural, &error)))?;
    let more = list.metadata.continue_.is_some_and(|more| !more.is_empty());
    let mut text = String::new();
    for object in list.items {
        let mut value = serde_json::to_value(&object).map_err(|error| error.to_string())?;
        value["apiVersion"] = json!(resource.api_version);
        value["kind"] = json!(resource.kind);
        if !is_wanted(&value, *which, own) {
            continue;
        }
        shorten(&mut value, name);
        let owner = if is_portolans(&value, own) { Owner::Portolan } else { Owner::Others };
        redact::object(&mut value, owner);
        text += "---\n";
        text += &serde_saphyr::to_string(&value).map_err(|error| error.to_string())?;
    }
    Ok((text, more))
}

fn is_portolans(object: &Value, own: &str) -> bool {
    let metadata = &object["metadata"];
    metadata["namespace"] == own && metadata["labels"]["app.kubernetes.io/part-of"] == "portolan"
}

fn is_wanted(object: &Value, which: Which, own: &str) -> bool {
    let metadata = &object["metadata"];
    let annotated = || metadata["annotations"].as_object().into_iter().flatten().map(|(key, _)| key.as_str());
    match which {
        Which::All | Which::Own => true,
        Which::Ours => {
            let name = metadata["name"].as_str().unwrap_or_default();
            name.starts_with("portolan") || name.ends_with(".portolan.dev") || name.ends_with("kubeovn.io")
        }
        Which::Users => {
            let networks = ["portolan.dev/", "cni.cncf.io/", "ovn.kubernetes.io/", "k8s.plugin.opnfv.org/"];
            metadata["namespace"] == own
                || annotated().any(|key| networks.iter().any(|network| key.contains(network)))
        }
        Which::Told => {
            let text =
                |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
            let api = text("/involvedObject/apiVersion");
            metadata["namespace"] == own
                || text("/involvedObject/namespace") == own
                || text("/reportingComponent").starts_with("portolan")
                || text("/source/component").starts_with("portolan")
                || ["portolan.dev/", "kubeovn.io/"].iter().any(|group| api.starts_with(group))
        }
    }
}

/// Leaves out what is long and says nothing.
fn shorten(object: &mut Value, kind: &str) {
    match kind {
        // They are those of a version, which is said elsewhere.
        "CustomResourceDefinition" => {
            for version in
                object.pointer_mut("/spec/versions").and_then(Value::as_array_mut).into_iter().flatten()
            {
                if let Some(version) = version.as_object_mut() {
                    version.remove("schema");
                }
            }
        }
        "Node" => {
            if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
                status.remove("images");
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_and_events_of_others_are_taken_only_if_they_concern_portolan() {
        let own = "portolan-system";
        let pod = |namespace: &str, annotation: &str| json!({"metadata": {"namespace": namespace, "annotations": {annotation: ""}}});
        assert!(is_wanted(&pod(own, "x"), Which::Users, own));
        assert!(is_wanted(&pod("default", "k8s.v1.cni.cncf.io/networks"), Which::Users, own));
        assert!(is_wanted(&pod("default", "web.default.ovn.kubernetes.io/ip_address"), Which::Users, own));
        assert!(!is_wanted(&pod("default", "x"), Which::Users, own));
        let event = |object: &str, component: &str| json!({"metadata": {"namespace": "default"}, "involvedObject": {"apiVersion": object}, "reportingComponent": component});
        assert!(is_wanted(&event("v1", "portolan-controller"), Which::Told, own));
        assert!(is_wanted(&event("kubeovn.io/v1", ""), Which::Told, own));
        assert!(!is_wanted(&event("v1", "kubelet"), Which::Told, own));
    }
}
