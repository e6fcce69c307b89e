//! Which requests a webhook is for.

use serde::Deserialize;

use crate::admission::Operation;

/// A rule of a webhook: it is for requests of these operations to these resources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Rule {
    operations: Vec<String>,
    api_groups: Vec<String>,
    api_versions: Vec<String>,
    resources: Vec<String>,
    scope: Option<String>,
}

/// What a rule is asked about.
#[derive(Clone, Copy, Debug)]
pub(super) struct RuleRequest<'a> {
    pub(super) operation: Operation,
    pub(super) group: &'a str,
    pub(super) version: &'a str,
    pub(super) resource: &'a str,
    pub(super) subresource: &'a str,
    /// Empty if the object is in none.
    pub(super) namespace: &'a str,
}

impl Rule {
    /// Whether it is for that.
    pub(super) fn matches(&self, asked: RuleRequest<'_>) -> bool {
        let has = |set: &[String], element: &str| set.iter().any(|one| one == "*" || one == element);
        self.is_for_scope(asked)
            && has(&self.operations, asked.operation.as_str())
            && has(&self.api_groups, asked.group)
            && has(&self.api_versions, asked.version)
            && self.resources.iter().any(|rule| is_for_resource(rule, asked.resource, asked.subresource))
    }

    fn is_for_scope(&self, asked: RuleRequest<'_>) -> bool {
        let is_namespace = (asked.group, asked.version, asked.resource) == ("", "v1", "namespaces");
        let in_namespace = !is_namespace && !asked.namespace.is_empty();
        match self.scope.as_deref() {
            None | Some("*") => true,
            Some("Namespaced") => in_namespace,
            Some("Cluster") => !in_namespace,
            Some(_) => false,
        }
    }
}

fn is_for_resource(rule: &str, resource: &str, subresource: &str) -> bool {
    let (of_resource, of_subresource) = rule.split_once('/').unwrap_or((rule, ""));
    (of_resource == "*" || of_resource == resource)
        && (of_subresource == "*" || of_subresource == subresource)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const POD: RuleRequest<'_> = RuleRequest {
        operation: Operation::Create,
        group: "",
        version: "v1",
        resource: "pods",
        subresource: "",
        namespace: "n",
    };

    fn matches(resources: &[&str], scope: Option<&str>, asked: RuleRequest<'_>) -> bool {
        let rule = json!({"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["*"], "resources": resources, "scope": scope});
        Rule::deserialize(rule).unwrap().matches(asked)
    }

    #[test]
    fn a_rule_for_a_resource_does_not_match_its_subresources() {
        let status = RuleRequest { subresource: "status", ..POD };
        assert!(matches(&["pods"], None, POD) && !matches(&["pods"], None, status));
        assert!(matches(&["*"], None, POD) && !matches(&["*"], None, status));
        assert!(matches(&["*/*"], None, POD) && matches(&["*/*"], None, status));
        assert!(matches(&["pods/*"], None, status) && !matches(&["*/status"], None, POD));
        assert!(!matches(&["services"], None, POD));
    }

    #[test]
    fn a_rule_matches_only_its_operations_and_groups() {
        assert!(!matches(&["pods"], None, RuleRequest { operation: Operation::Update, ..POD }));
        assert!(!matches(&["pods"], None, RuleRequest { group: "apps", ..POD }));
    }

    #[test]
    fn a_namespace_is_in_none() {
        assert!(matches(&["*"], Some("Namespaced"), POD) && !matches(&["*"], Some("Cluster"), POD));
        let namespace = RuleRequest { resource: "namespaces", ..POD };
        assert!(
            matches(&["*"], Some("Cluster"), namespace) && !matches(&["*"], Some("Namespaced"), namespace)
        );
        assert!(matches(&["*"], Some("Cluster"), RuleRequest { resource: "nodes", namespace: "", ..POD }));
    }
}
