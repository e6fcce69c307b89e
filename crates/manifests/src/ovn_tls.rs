//! Certificates of OVN's databases and their clients: where they are published, and the rights to ask for them and to sign them.
//!
//! Controllers keep the authorities; `crates/ovn-tls` says how. What is named here is named there.

use serde_json::{Value, json};

use crate::installation::Installation;
use crate::object::Object;
use crate::pod;

/// The Secrets with the authorities, and the ConfigMaps with their certificates.
const AUTHORITIES: [&str; 2] = ["ovn-central-authority", "ovn-chassis-authority"];
/// The signers in requests.
const SIGNERS: [&str; 2] = ["portolan.dev/ovn-central", "portolan.dev/ovn-chassis"];
const REQUESTER: &str = "portolan-ovn-certificates";
const SIGNER: &str = "portolan-ovn-signer";
const RBAC: &str = "rbac.authorization.k8s.io";

/// The flag of daemons that speak TLS.
pub(crate) fn flag(installation: &Installation) -> String {
    format!("--tls={}", installation.namespace)
}

/// The flag of controllers.
pub(crate) fn controllers_flag(installation: &Installation) -> String {
    format!("--ovn-tls={}", installation.namespace)
}

/// The ConfigMaps without certificates, the roles, and the rights of those who sign: `signer` is their service account, `requesters` are
/// those who ask.
pub(crate) fn objects(installation: &Installation, signer: &str, requesters: &[&str]) -> Vec<Object> {
    // Without `data`: what controllers write is theirs, and applying this again leaves it alone.
    let maps = AUTHORITIES.map(|name| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": pod::metadata(installation, name)})
    });
    let certificates = "certificates.k8s.io";
    let requests = "certificatesigningrequests";
    let follow = ["list", "watch"];
    let of_authorities = |kind: &str, verbs: &[&str]| json!({"apiGroups": [""], "resources": [kind], "resourceNames": AUTHORITIES, "verbs": verbs});
    let mut values: Vec<Value> = maps.into();
    values.extend([
        json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole", "metadata": {"name": REQUESTER, "labels": pod::labels(REQUESTER)},
            "rules": [{"apiGroups": [certificates], "resources": [requests], "verbs": ["create", "list", "watch"]}],
        }),
        json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole", "metadata": {"name": SIGNER, "labels": pod::labels(SIGNER)},
            "rules": [
                {"apiGroups": [certificates], "resources": [requests], "verbs": follow},
                {"apiGroups": [certificates], "resources": [format!("{requests}/approval"), format!("{requests}/status")], "verbs": ["patch"]},
                {"apiGroups": [certificates], "resources": ["signers"], "resourceNames": SIGNERS, "verbs": ["approve", "sign"]},
            ],
        }),
        json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "Role", "metadata": pod::metadata(installation, REQUESTER),
            "rules": [of_authorities("configmaps", &follow)],
        }),
        json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "Role", "metadata": pod::metadata(installation, SIGNER),
            "rules": [
                of_authorities("configmaps", &["list", "watch", "patch"]),
                of_authorities("secrets", &["get", "list", "watch", "patch"]),
                // What is created cannot be limited by its name.
                {"apiGroups": [""], "resources": ["configmaps", "secrets"], "verbs": ["create"]},
            ],
        }),
    ]);
    for (role, accounts) in [(REQUESTER, requesters), (SIGNER, &[signer][..])] {
        values.push(binding(installation, "ClusterRole", role, accounts));
        values.push(binding(installation, "Role", role, accounts));
    }
    values.into_iter().map(Object::new).collect()
}

fn binding(installation: &Installation, kind: &str, role: &str, accounts: &[&str]) -> Value {
    let namespace = &installation.namespace;
    let subject = |account: &&str| json!({"kind": "ServiceAccount", "name": account, "namespace": namespace});
    let subjects: Vec<Value> = accounts.iter().map(subject).collect();
    let metadata = match kind {
        "ClusterRole" => json!({"name": role, "labels": pod::labels(role)}),
        _ => pod::metadata(installation, role),
    };
    json!({
        "apiVersion": format!("{RBAC}/v1"),
        "kind": format!("{kind}Binding"),
        "metadata": metadata,
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": role},
        "subjects": subjects,
    })
}
