//! Where the API servers are: every process that asks them follows what they say of themselves, and finds on its node what was last known when
//! the address that it was given is gone.

use serde_json::{Value, json};

use crate::installation::Installation;
use crate::object::Object;
use crate::pod;

/// The directory of nodes, and where containers have it. All of a node write and read the same file.
const DIRECTORY: &str = "/var/lib/portolan/api-servers";
const VOLUME: &str = "api-servers";
/// The role in namespace `default`, which is also in `deploy/controller-rbac.yaml` and `deploy/agent-rbac.yaml`.
const ROLE: &str = "portolan-api-servers";

/// The flag that tells a process of it.
pub(crate) fn flag() -> String {
    format!("--api-servers-file={DIRECTORY}/addresses")
}

pub(crate) fn volume() -> Value {
    pod::host_path(VOLUME, DIRECTORY)
}

/// For a process that keeps it.
pub(crate) fn mount() -> Value {
    pod::mount(VOLUME, DIRECTORY)
}

/// For a process that is not root, and leaves the writing to others.
pub(crate) fn read_only_mount() -> Value {
    json!({"name": VOLUME, "mountPath": DIRECTORY, "readOnly": true})
}

/// Lets the service account of a part follow where API servers are, and nothing else of namespace `default`.
pub(crate) fn reader(installation: &Installation, account: &str) -> Object {
    let name = format!("{ROLE}-{account}");
    Object::new(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name, "namespace": "default", "labels": pod::labels(&name)},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": ROLE},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": installation.namespace}],
    }))
}
