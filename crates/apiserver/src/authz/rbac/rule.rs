//! One rule of a role: what it allows, and what it covers of another.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

/// A `PolicyRule`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rule {
    /// What may be done.
    pub verbs: Vec<String>,
    /// In which API groups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<String>,
    /// With which resources; `pods/log` is a subresource, `*/scale` that of all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// Only those of these names, unless empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
    /// Paths that are not of resources.
    #[serde(rename = "nonResourceURLs", skip_serializing_if = "Vec::is_empty")]
    pub non_resource_urls: Vec<String>,
}

/// A request, as far as rules look at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleRequest<'a> {
    /// For a resource.
    Resource {
        /// The verb.
        verb: &'a str,
        /// Its API group.
        group: &'a str,
        /// The resource.
        resource: &'a str,
        /// The subresource; empty for the object itself.
        subresource: &'a str,
        /// The object's name; empty for all.
        name: &'a str,
    },
    /// For another path.
    NonResource {
        /// The verb.
        verb: &'a str,
        /// The path.
        path: &'a str,
    },
}

const ALL: &str = "*";

fn has(set: &[String], element: &str) -> bool {
    set.iter().any(|one| one == element)
}

fn has_or_all(set: &[String], element: &str) -> bool {
    has(set, ALL) || has(set, element)
}

impl Rule {
    /// Whether it allows the request.
    pub fn allows(&self, request: &RuleRequest<'_>) -> bool {
        match *request {
            RuleRequest::NonResource { verb, path } => {
                has_or_all(&self.verbs, verb)
                    && self.non_resource_urls.iter().any(|own| covers_path(own, path))
            }
            RuleRequest::Resource { verb, group, resource, subresource, name } => {
                has_or_all(&self.verbs, verb)
                    && has_or_all(&self.api_groups, group)
                    && self.resources.iter().any(|own| is_resource(own, resource, subresource))
                    && (self.resource_names.is_empty() || has(&self.resource_names, name))
            }
        }
    }

    /// The same as rules of one verb, one group, one resource and one name each.
    fn simple(&self) -> Vec<Rule> {
        let mut simple = Vec::new();
        let one = |text: &String| vec![text.clone()];
        for verb in &self.verbs {
            for group in &self.api_groups {
                for resource in &self.resources {
                    let rule = Rule {
                        verbs: one(verb),
                        api_groups: one(group),
                        resources: one(resource),
                        ..Rule::default()
                    };
                    if self.resource_names.is_empty() {
                        simple.push(rule);
                    } else {
                        let named = |name| Rule { resource_names: one(name), ..rule.clone() };
                        simple.extend(self.resource_names.iter().map(named));
                    }
                }
            }
            simple.extend(self.non_resource_urls.iter().map(|url| Rule {
                verbs: one(verb),
                non_resource_urls: one(url),
                ..Rule::default()
            }));
        }
        simple
    }

    /// Whether it allows all that a simple rule does.
    fn covers(&self, simple: &Rule) -> bool {
        let all = |own: &[String], wanted: &[String]| {
            has(own, ALL) || wanted.iter().all(|element| has(own, element))
        };
        let resource = |wanted: &String| match wanted.split_once('/') {
            Some((_, subresource)) => {
                has_or_all(&self.resources, wanted) || has(&self.resources, &format!("*/{subresource}"))
            }
            None => has_or_all(&self.resources, wanted),
        };
        let names = self.resource_names.is_empty()
            || !simple.resource_names.is_empty()
                && simple.resource_names.iter().all(|name| has(&self.resource_names, name));
        let path = |wanted: &String| self.non_resource_urls.iter().any(|own| covers_path(own, wanted));
        all(&self.verbs, &simple.verbs)
            && all(&self.api_groups, &simple.api_groups)
            && simple.resources.iter().all(resource)
            && names
            && simple.non_resource_urls.iter().all(path)
    }
}

fn is_resource(own: &str, resource: &str, subresource: &str) -> bool {
    if own == ALL {
        return true;
    }
    match own.split_once('/') {
        _ if subresource.is_empty() => own == resource,
        Some((first, second)) => second == subresource && (first == ALL || first == resource),
        None => false,
    }
}

fn covers_path(own: &str, wanted: &str) -> bool {
    own == wanted || own.strip_suffix('*').is_some_and(|start| wanted.starts_with(start))
}

/// What of `wanted` is not covered by `held`, one line per resource, as kube-apiserver writes it; empty if nothing.
pub fn uncovered(held: &[Rule], wanted: &[Rule]) -> Vec<String> {
    let missing =
        wanted.iter().flat_map(Rule::simple).filter(|rule| !held.iter().any(|own| own.covers(rule)));
    // Rules that differ in nothing but their verbs are shown as one.
    let mut compact: Vec<Rule> = Vec::new();
    for rule in missing {
        let same = |other: &&mut Rule| {
            rule.non_resource_urls.is_empty()
                && (&other.api_groups, &other.resources, &other.resource_names, &other.non_resource_urls)
                    == (&rule.api_groups, &rule.resources, &rule.resource_names, &rule.non_resource_urls)
        };
        match compact.iter_mut().find(same) {
            Some(other) => other.verbs.extend(rule.verbs),
            None => compact.push(rule),
        }
    }
    let lines: BTreeSet<String> = compact.iter().map(ToString::to_string).collect();
    lines.into_iter().collect()
}

impl fmt::Display for Rule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.non_resource_urls),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ];
        let shown = parts.iter().filter(|(_, values)| !values.is_empty()).map(|(name, values)| {
            let quoted: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
            format!("{name}:[{}]", quoted.join(" "))
        });
        write!(formatter, "{{{}}}", shown.collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(verbs: &[&str], groups: &[&str], resources: &[&str], names: &[&str]) -> Rule {
        let owned = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
        Rule {
            verbs: owned(verbs),
            api_groups: owned(groups),
            resources: owned(resources),
            resource_names: owned(names),
            ..Rule::default()
        }
    }

    fn request<'a>(verb: &'a str, resource: &'a str, subresource: &'a str, name: &'a str) -> RuleRequest<'a> {
        RuleRequest::Resource { verb, group: "", resource, subresource, name }
    }

    #[test]
    fn a_rule_allows_what_it_names_and_no_more() {
        let pods = rule(&["get", "list"], &[""], &["pods"], &[]);
        assert!(pods.allows(&request("get", "pods", "", "a")));
        assert!(!pods.allows(&request("delete", "pods", "", "a")));
        assert!(!pods.allows(&request("get", "pods", "log", "a")), "a subresource is a thing of its own");
        assert!(!pods.allows(&request("get", "services", "", "a")));
        assert!(!pods.allows(&RuleRequest::Resource {
            verb: "get",
            group: "apps",
            resource: "pods",
            subresource: "",
            name: ""
        }));
        let scales = rule(&["update"], &["*"], &["*/scale"], &[]);
        assert!(scales.allows(&request("update", "deployments", "scale", "a")));
        assert!(!scales.allows(&request("update", "deployments", "", "a")));
        let named = rule(&["get"], &[""], &["secrets"], &["mine"]);
        assert!(named.allows(&request("get", "secrets", "", "mine")));
        assert!(!named.allows(&request("get", "secrets", "", "")), "a list is of all names");
    }

    #[test]
    fn paths_match_whole_or_by_their_start() {
        let rule = Rule {
            verbs: vec!["get".into()],
            non_resource_urls: vec!["/healthz".into(), "/apis/*".into()],
            ..Rule::default()
        };
        let get = |path| rule.allows(&RuleRequest::NonResource { verb: "get", path });
        assert!(get("/healthz") && get("/apis/apps"));
        assert!(!get("/healthz/ping") && !get("/apis") && !get("/"));
    }

    #[test]
    fn missing_permissions_are_listed_by_resource() {
        let held = [rule(&["get"], &[""], &["pods"], &[]), rule(&["*"], &[""], &["secrets"], &["mine"])];
        let wanted = [
            rule(&["get", "delete", "create"], &[""], &["pods"], &[]),
            rule(&["get"], &[""], &["secrets"], &["mine"]),
        ];
        assert_eq!(
            uncovered(&held, &wanted),
            [r#"{APIGroups:[""], Resources:["pods"], Verbs:["delete" "create"]}"#]
        );
        let all = [rule(&["*"], &["*"], &["*"], &[])];
        assert_eq!(uncovered(&all, &wanted), Vec::<String>::new());
        assert_eq!(uncovered(&held, &[rule(&["get"], &[""], &["secrets"], &[])]).len(), 1);
    }
}
