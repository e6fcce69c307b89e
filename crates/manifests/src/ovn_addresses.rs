//! Where OVN's databases are: a ConfigMap in which each member of `ovn-central` writes its address, and which controllers and agents
//! follow. So members may move, and nobody needs a Service, which may need the network that these databases describe.

use serde_json::json;

use crate::installation::{Installation, Members};
use crate::object::Object;
use crate::pod;

/// The name of the ConfigMap.
pub const ADDRESSES: &str = "ovn-central";

/// The flag that tells a process of it.
pub(crate) fn addresses_flag(installation: &Installation) -> String {
    format!("--ovn-addresses={}/{ADDRESSES}", installation.namespace)
}

/// The ConfigMap without addresses, the right to read it, and the right to write to it.
pub(crate) fn objects(installation: &Installation) -> Vec<Object> {
    // Without `data`: what members write is theirs, and applying this again leaves it alone.
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": pod::metadata(installation, ADDRESSES)});
    let role = |name: &str, verbs: &[&str]| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": pod::metadata(installation, name),
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [ADDRESSES], "verbs": verbs}],
        })
    };
    let mut writer = role(WRITER, &["get", "list", "watch", "patch"]);
    // A pod writes as long as it is the one of its name.
    let pods: Vec<String> =
        (0..Members::Three.number()).map(|ordinal| format!("{MEMBERS}-{ordinal}")).collect();
    if let Some(rules) = writer["rules"].as_array_mut() {
        rules
            .push(json!({"apiGroups": [""], "resources": ["pods"], "resourceNames": pods, "verbs": ["get"]}));
    }
    vec![Object::new(map), Object::new(role(READER, &["get", "list", "watch"])), Object::new(writer)]
}

/// What members are called, before their ordinals.
const MEMBERS: &str = crate::ovn_central::NAME;
const READER: &str = "ovn-addresses-reader";
const WRITER: &str = "ovn-addresses-writer";

/// Lets the service account of a part read the addresses.
pub(crate) fn reader(installation: &Installation, account: &str) -> Object {
    binding(installation, READER, account)
}

/// Lets the service account of a part write its address.
pub(crate) fn writer(installation: &Installation, account: &str) -> Object {
    binding(installation, WRITER, account)
}

fn binding(installation: &Installation, role: &str, account: &str) -> Object {
    Object::new(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": pod::metadata(installation, &format!("{role}-{account}")),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": installation.namespace}],
    }))
}
