//! Roles, and who has them. Nobody is kept here from giving more than they have: that is for admission.

use serde_json::{Value, json};

use super::behaviour::Behaviour;
use super::errors::Errors;
use super::format::{dns1123_subdomain, path_segment};
use super::kind::{KindExt as _, kind_of};
use super::labels::check_selector;
use super::table::{age, columns, name};
use super::value::{is_set, items, same, size, text};
use apischema::Path;
use apiserver::registry::{Columns, NameRule, Resource, Scope};

const GROUP: &str = "rbac.authorization.k8s.io";

pub(super) fn resources() -> [Resource; 4] {
    let kind = |plural: &str, kind: &str, scope: Scope| {
        kind_of(GROUP, plural, kind, scope).name_rule(NameRule::PathSegment)
    };
    let plain = Behaviour { creates_on_update: true, ..Behaviour::PLAIN };
    [
        kind("roles", "Role", Scope::Namespaced)
            .behaving(Behaviour {
                validate: |role, errors| check_rules(errors, role, Scope::Namespaced),
                ..plain
            })
            .shown(created_at()),
        kind("clusterroles", "ClusterRole", Scope::Cluster)
            .behaving(Behaviour { validate: check_cluster_role, ..plain })
            .shown(created_at()),
        kind("rolebindings", "RoleBinding", Scope::Namespaced)
            .behaving(Behaviour {
                validate: |binding, errors| check_binding(errors, binding, Scope::Namespaced),
                validate_update: check_role_ref_change,
                ..plain
            })
            .shown(binding_columns()),
        kind("clusterrolebindings", "ClusterRoleBinding", Scope::Cluster)
            .behaving(Behaviour {
                validate: |binding, errors| check_binding(errors, binding, Scope::Cluster),
                validate_update: check_role_ref_change,
                ..plain
            })
            .shown(binding_columns()),
    ]
}

/// Roles are shown as kinds without columns of their own are.
fn created_at() -> Columns {
    Columns::default()
}

fn binding_columns() -> Columns {
    columns(&["Name", "Role", "Age", "Users*", "Groups*", "ServiceAccounts*"], |binding, now| {
        let of_kind = |kind: &str| -> Value {
            let subjects =
                items(&binding["subjects"]).iter().filter(|subject| text(&subject["kind"]) == kind);
            let names = subjects.map(|subject| match kind {
                "ServiceAccount" => format!("{}/{}", text(&subject["namespace"]), text(&subject["name"])),
                _ => text(&subject["name"]).to_owned(),
            });
            names.collect::<Vec<_>>().join(", ").into()
        };
        let role = &binding["roleRef"];
        vec![
            name(binding),
            format!("{}/{}", text(&role["kind"]), text(&role["name"])).into(),
            age(binding, now),
            of_kind("User"),
            of_kind("Group"),
            of_kind("ServiceAccount"),
        ]
    })
}

fn check_rules(errors: &mut Errors, role: &Value, scope: Scope) {
    let path = Path::root("rules");
    for (index, rule) in items(&role["rules"]).iter().enumerate() {
        check_rule(errors, path.index(index), rule, scope);
    }
}

fn check_rule(errors: &mut Errors, path: Path<'_>, rule: &Value, scope: Scope) {
    if size(&rule["verbs"]) == 0 {
        errors.required(path.field("verbs"), "verbs must contain at least one value");
    }
    let urls = &rule["nonResourceURLs"];
    if size(urls) > 0 {
        let path = path.field("nonResourceURLs");
        if scope == Scope::Namespaced {
            errors.invalid(path, urls.clone(), "namespaced rules cannot apply to non-resource URLs");
        }
        if ["apiGroups", "resources", "resourceNames"].iter().any(|field| size(&rule[*field]) > 0) {
            let detail = "rules cannot apply to both regular resources and non-resource URLs";
            errors.invalid(path, urls.clone(), detail);
        }
        return;
    }
    if size(&rule["apiGroups"]) == 0 {
        errors.required(path.field("apiGroups"), "resource rules must supply at least one api group");
    }
    if size(&rule["resources"]) == 0 {
        errors.required(path.field("resources"), "resource rules must supply at least one resource");
    }
}

fn check_cluster_role(role: &Value, errors: &mut Errors) {
    check_rules(errors, role, Scope::Cluster);
    if !is_set(&role["aggregationRule"]) {
        return;
    }
    let rule = Path::root("aggregationRule");
    let (path, selectors) =
        (rule.field("clusterRoleSelectors"), items(&role["aggregationRule"]["clusterRoleSelectors"]));
    if selectors.is_empty() {
        errors.required(path, "at least one clusterRoleSelector required if aggregationRule is non-nil");
    }
    for (index, selector) in selectors.iter().enumerate() {
        let before = errors.len();
        check_selector(errors, path.index(index), selector);
        if errors.len() > before {
            errors.invalid(path.index(index), Value::Null, "invalid label selector.");
        }
    }
}

fn check_binding(errors: &mut Errors, binding: &Value, scope: Scope) {
    let (role, path) = (&binding["roleRef"], Path::root("roleRef"));
    let kinds: &[&str] = match scope {
        Scope::Namespaced => &["Role", "ClusterRole"],
        Scope::Cluster => &["ClusterRole"],
    };
    if text(&role["apiGroup"]) != GROUP {
        errors.not_supported(path.field("apiGroup"), text(&role["apiGroup"]), &[GROUP]);
    }
    if !kinds.contains(&text(&role["kind"])) {
        errors.not_supported(path.field("kind"), text(&role["kind"]), kinds);
    }
    match text(&role["name"]) {
        "" => errors.required(path.field("name"), ""),
        name => errors.messages(path.field("name"), name, path_segment(name)),
    }
    let path = Path::root("subjects");
    for (index, subject) in items(&binding["subjects"]).iter().enumerate() {
        check_subject(errors, path.index(index), subject, scope);
    }
}

fn check_subject(errors: &mut Errors, path: Path<'_>, subject: &Value, scope: Scope) {
    let (name, group) = (text(&subject["name"]), text(&subject["apiGroup"]));
    if name.is_empty() {
        errors.required(path.field("name"), "");
    }
    match text(&subject["kind"]) {
        "ServiceAccount" => {
            if !name.is_empty() {
                errors.messages(path.field("name"), name, dns1123_subdomain(name));
            }
            if !group.is_empty() {
                errors.not_supported(path.field("apiGroup"), group, &[""]);
            }
            if scope == Scope::Cluster && text(&subject["namespace"]).is_empty() {
                errors.required(path.field("namespace"), "");
            }
        }
        "User" | "Group" => {
            if group != GROUP {
                errors.not_supported(path.field("apiGroup"), group, &[GROUP]);
            }
        }
        other => errors.not_supported(path.field("kind"), other, &["ServiceAccount", "User", "Group"]),
    }
}

fn check_role_ref_change(new: &Value, old: &Value, errors: &mut Errors) {
    if !same(&new["roleRef"], &old["roleRef"]) {
        // Clients know the reference by the names that its fields have in Go.
        let role = &new["roleRef"];
        let shown = json!({"APIGroup": role["apiGroup"], "Kind": role["kind"], "Name": role["name"]});
        errors.invalid(Path::root("roleRef"), shown, "cannot change roleRef");
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{cells, create, update};
    use super::*;

    fn binding(kind: &str, name: &str) -> Value {
        json!({
            "metadata": {"name": "b", "creationTimestamp": "2024-01-01T00:00:00Z"},
            "roleRef": {"apiGroup": GROUP, "kind": kind, "name": name},
            "subjects": [
                {"kind": "User", "apiGroup": GROUP, "name": "alice"},
                {"kind": "ServiceAccount", "name": "s", "namespace": "n"},
            ],
        })
    }

    #[test]
    fn rules_say_what_may_be_done_with_what() {
        let [role, cluster_role, ..] = resources();
        let rule = |rule: Value| json!({"rules": [rule]});
        assert!(
            create(&role, &rule(json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]})))
                .is_empty()
        );
        assert_eq!(
            create(&role, &rule(json!({}))),
            [
                "rules[0].verbs: Required value: verbs must contain at least one value",
                "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
                "rules[0].resources: Required value: resource rules must supply at least one resource"
            ]
        );
        let urls = rule(json!({"verbs": ["get"], "nonResourceURLs": ["/healthz"]}));
        assert!(create(&cluster_role, &urls).is_empty());
        assert_eq!(
            create(&role, &urls),
            [
                "rules[0].nonResourceURLs: Invalid value: [\"/healthz\"]: namespaced rules cannot apply to non-resource URLs"
            ]
        );
        assert_eq!(
            create(&cluster_role, &json!({"aggregationRule": {}})),
            [
                "aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if \
              aggregationRule is non-nil"
            ]
        );
    }

    #[test]
    fn bindings_keep_their_role() {
        let [_, _, role_binding, cluster_role_binding] = resources();
        assert!(create(&role_binding, &binding("Role", "r")).is_empty());
        assert_eq!(
            update(&role_binding, &binding("Role", "r"), &binding("Role", "s")),
            [
                "roleRef: Invalid value: {\"APIGroup\":\"rbac.authorization.k8s.io\",\"Kind\":\"Role\",\"Name\":\"r\"}: \
              cannot change roleRef"
            ]
        );
        assert_eq!(
            create(&cluster_role_binding, &binding("Role", "")),
            [
                "roleRef.kind: Unsupported value: \"Role\": supported values: \"ClusterRole\"",
                "roleRef.name: Required value"
            ]
        );
        let mut bad = binding("ClusterRole", "r");
        bad["subjects"] = json!([{"kind": "ServiceAccount", "name": "s"}, {"kind": "Robot", "name": "x"}]);
        assert_eq!(
            create(&cluster_role_binding, &bad),
            [
                "subjects[0].namespace: Required value",
                "subjects[1].kind: Unsupported value: \"Robot\": supported values: \"ServiceAccount\", \"User\", \"Group\""
            ]
        );
        assert_eq!(
            cells(&role_binding, &binding("Role", "r"), "2024-01-01T00:00:09Z"),
            ["b", "Role/r", "9s", "alice", "", "n/s"]
        );
    }
}
