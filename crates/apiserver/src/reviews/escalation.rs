//! Nobody gives others what they do not have themselves, unless they may.

use std::sync::Arc;

use apimachinery::group::GroupResource;
use apimachinery::{Status, meta};
use futures::future::{BoxFuture, FutureExt as _, ready};
use serde::Deserialize as _;
use serde_json::Value;

use crate::admission::{Admission, Attributes, Operation};
use crate::api::Api;
use crate::authn::UserInfo;
use crate::authz::rbac::{Rbac, Rule, SUPERUSERS, uncovered};
use crate::authz::{self, Authorizer, Decision, ResourceAttributes};

const GROUP: &str = "rbac.authorization.k8s.io";

/// Refuses roles that hold more than their writers do, and bindings to such. Whoever may `escalate` a role or `bind` it is
/// exempt, and so are superusers.
///
/// It comes last among the plug-ins that are asked before an object is checked: it must see what others make of the object.
#[derive(Clone, Debug)]
pub struct RoleEscalation {
    rbac: Rbac,
    authorizer: Arc<dyn Authorizer>,
}

impl RoleEscalation {
    /// Compares with these rules, and asks this one about exemptions.
    pub fn new(rbac: Rbac, authorizer: Arc<dyn Authorizer>) -> RoleEscalation {
        RoleEscalation { rbac, authorizer }
    }

    async fn check(&self, attributes: Attributes<'_>, object: &Value) -> Result<(), Status> {
        let user = &attributes.context.user;
        let unchanged = attributes.old.is_some_and(|old| is_only_for_the_collector(object, old));
        if unchanged || user.groups.iter().any(|group| group == SUPERUSERS) {
            return Ok(());
        }
        match attributes.endpoint.resource.plural.as_str() {
            "roles" | "clusterroles" => self.check_role(attributes, object).await,
            "rolebindings" | "clusterrolebindings" => self.check_binding(attributes, object).await,
            _ => Ok(()),
        }
    }

    async fn check_role(&self, attributes: Attributes<'_>, object: &Value) -> Result<(), Status> {
        let (endpoint, user) = (attributes.endpoint, &attributes.context.user);
        let resource = &endpoint.resource;
        if self.may(user, "escalate", &resource.plural, &endpoint.namespace, &endpoint.name).await {
            return Ok(());
        }
        let forbidden = |why: &str| resource.forbidden(meta::name(object), why);
        let wanted: Vec<Rule> = Vec::deserialize(&object["rules"]).unwrap_or_default();
        self.covered(user, &endpoint.namespace, &wanted).map_err(|why| forbidden(&why))?;
        // What is gathered from other roles can be anything.
        let gathers = [Some(object), attributes.old].into_iter().flatten().any(has_aggregation_rule);
        if gathers && self.covered(user, "", &everything()).is_err() {
            return Err(forbidden("must have cluster-admin privileges to use the aggregationRule"));
        }
        Ok(())
    }

    async fn check_binding(&self, attributes: Attributes<'_>, object: &Value) -> Result<(), Status> {
        let (endpoint, user) = (attributes.endpoint, &attributes.context.user);
        let reference = &object["roleRef"];
        let name = reference["name"].as_str().unwrap_or_default();
        let (plural, role_namespace) = match reference["kind"].as_str() {
            Some("ClusterRole") => ("clusterroles", ""),
            Some("Role") => ("roles", endpoint.namespace.as_str()),
            // What it is, is checked elsewhere.
            _ => return Ok(()),
        };
        if self.may(user, "bind", plural, &endpoint.namespace, name).await {
            return Ok(());
        }
        let wanted = self.rbac.read(|policy| policy.rules_of_role(role_namespace, name));
        let wanted = wanted.ok_or_else(|| Status::not_found(&GroupResource::new(GROUP, plural), name))?;
        let covered = self.covered(user, &endpoint.namespace, &wanted);
        covered.map_err(|why| endpoint.resource.forbidden(meta::name(object), &why))
    }

    async fn may(&self, user: &UserInfo, verb: &str, resource: &str, namespace: &str, name: &str) -> bool {
        let resource =
            ResourceAttributes { group: GROUP, version: "*", resource, subresource: "", namespace, name };
        let asked = authz::Attributes { user, verb, resource: Some(resource), path: "" };
        self.authorizer.authorize(asked).await == Decision::Allow
    }

    /// Whether a user has all that; else what is missing.
    fn covered(&self, user: &UserInfo, namespace: &str, wanted: &[Rule]) -> Result<(), String> {
        let held = self.rbac.read(|policy| policy.rules_for(&user.name, &user.groups, namespace));
        let missing = uncovered(&held, wanted);
        if missing.is_empty() {
            return Ok(());
        }
        let groups: Vec<String> = user.groups.iter().map(|group| format!("{group:?}")).collect();
        Err(format!(
            "user {:?} (groups=[{}]) is attempting to grant RBAC permissions not currently held:\n{}",
            user.name,
            groups.join(" "),
            missing.join("\n")
        ))
    }
}

fn everything() -> [Rule; 2] {
    let all = || vec!["*".to_owned()];
    [
        Rule { verbs: all(), api_groups: all(), resources: all(), ..Rule::default() },
        Rule { verbs: all(), non_resource_urls: all(), ..Rule::default() },
    ]
}

fn has_aggregation_rule(role: &Value) -> bool {
    role.pointer("/aggregationRule/clusterRoleSelectors")
        .and_then(Value::as_array)
        .is_some_and(|all| !all.is_empty())
}

/// Whether nothing changes but what the garbage collector needs to change.
fn is_only_for_the_collector(object: &Value, old: &Value) -> bool {
    let without = |object: &Value| {
        let mut object = object.clone();
        if let Some(metadata) = meta::metadata_mut(&mut object) {
            for field in ["finalizers", "ownerReferences", "managedFields", "resourceVersion"] {
                metadata.remove(field);
            }
        }
        object
    };
    without(object) == without(old)
}

impl Admission for RoleEscalation {
    fn name(&self) -> &'static str {
        "RoleEscalation"
    }

    fn handles(&self, operation: Operation) -> bool {
        matches!(operation, Operation::Create | Operation::Update)
    }

    fn admit<'a>(
        &'a self,
        _api: &'a Api,
        attributes: Attributes<'a>,
        object: &'a mut Value,
    ) -> BoxFuture<'a, Result<(), Status>> {
        if attributes.endpoint.resource.group != GROUP {
            return ready(Ok(())).boxed();
        }
        self.check(attributes, object).boxed()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn changes_of_the_garbage_collector_are_exempt_from_the_escalation_check() {
        let role = |rules: Value, finalizers: Value| json!({"metadata": {"name": "a", "finalizers": finalizers}, "rules": rules});
        let old = role(json!([]), json!(["x"]));
        assert!(is_only_for_the_collector(&role(json!([]), json!([])), &old));
        assert!(!is_only_for_the_collector(&role(json!([{}]), json!([])), &old));
        assert!(is_only_for_the_collector(&old, &old), "a write that changes nothing gives nothing");
    }
}
