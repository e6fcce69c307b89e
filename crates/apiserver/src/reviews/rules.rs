//! By which rules somebody may do what they may.

use serde_json::{Map, Value, json};

use crate::authn::UserInfo;
use crate::authz::rbac::{Rbac, Rule, SUPERUSERS};

/// The status of a review of rules in a namespace.
pub(super) fn status(user: &UserInfo, namespace: &str, rbac: Option<&Rbac>) -> Value {
    let mut rules = match rbac {
        Some(rbac) => rbac.read(|policy| policy.rules_for(&user.name, &user.groups, namespace)),
        None => Vec::new(),
    };
    // Superusers, and everybody where nobody is asked, may do everything whatever rules say.
    if rbac.is_none() || user.groups.iter().any(|group| group == SUPERUSERS) {
        let all = || vec!["*".to_owned()];
        rules.push(Rule { verbs: all(), api_groups: all(), resources: all(), ..Rule::default() });
        rules.push(Rule { verbs: all(), non_resource_urls: all(), ..Rule::default() });
    }
    let (mut of_resources, mut of_paths) = (Vec::new(), Vec::new());
    for rule in &rules {
        if !rule.resources.is_empty() {
            of_resources.push(shown(&[
                ("verbs", &rule.verbs),
                ("apiGroups", &rule.api_groups),
                ("resources", &rule.resources),
                ("resourceNames", &rule.resource_names),
            ]));
        }
        if !rule.non_resource_urls.is_empty() {
            of_paths.push(shown(&[("verbs", &rule.verbs), ("nonResourceURLs", &rule.non_resource_urls)]));
        }
    }
    json!({"resourceRules": of_resources, "nonResourceRules": of_paths, "incomplete": false})
}

fn shown(parts: &[(&str, &Vec<String>)]) -> Value {
    let parts = parts.iter().filter(|(_, values)| !values.is_empty());
    Value::Object(
        parts.map(|(name, values)| ((*name).to_owned(), (*values).clone().into())).collect::<Map<_, _>>(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn superusers_may_do_everything() {
        let admin = UserInfo::new("admin", [SUPERUSERS.into()]);
        let status = status(&admin, "default", Some(&Rbac::default()));
        assert_eq!(
            status["resourceRules"],
            json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}])
        );
        assert_eq!(status["nonResourceRules"], json!([{"verbs": ["*"], "nonResourceURLs": ["*"]}]));
        let nobody = super::status(&UserInfo::new("jane", []), "default", Some(&Rbac::default()));
        assert_eq!(nobody, json!({"resourceRules": [], "nonResourceRules": [], "incomplete": false}));
    }
}
