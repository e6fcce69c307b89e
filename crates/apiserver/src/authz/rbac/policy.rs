//! Roles and bindings, with the index by which a request finds those that concern it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use apimachinery::LabelSelector;
use serde::Deserialize;
use serde_json::Value;

use super::rule::{Rule, RuleRequest};

/// All roles and bindings, indexed by subject. Synchronous; fed with objects as they are created, updated and deleted.
#[derive(Debug, Default)]
pub struct Policy {
    /// By namespace, empty for cluster roles, and name.
    roles: HashMap<(String, String), Role>,
    bindings: HashMap<(String, String), Binding>,
    /// The keys of the bindings that name a subject.
    by_subject: HashMap<Subject, HashSet<(String, String)>>,
}

/// The subject of a binding.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Subject {
    User(String),
    Group(String),
}

#[derive(Debug)]
struct Role {
    rules: Arc<[Rule]>,
    labels: serde_json::Map<String, Value>,
    /// The labels of the roles whose rules are this one's too.
    aggregates: Vec<LabelSelector>,
}

#[derive(Debug)]
struct Binding {
    /// The namespace of a Role, empty for a ClusterRole; and its name.
    role: (String, String),
    subjects: Vec<BoundSubject>,
}

/// The subject of a binding, and the kind and name that the binding has for it.
#[derive(Debug)]
struct BoundSubject {
    subject: Subject,
    kind: String,
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RoleRef {
    kind: String,
    name: String,
}

#[derive(Deserialize)]
struct SubjectReference {
    kind: String,
    name: String,
    #[serde(default)]
    namespace: String,
}

/// Which of the four kinds an object is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `Role` or `ClusterRole`.
    Role,
    /// `RoleBinding` or `ClusterRoleBinding`.
    Binding,
}

impl Policy {
    /// An object was created or updated.
    pub fn apply(&mut self, kind: Kind, object: &Value) {
        let Some(key) = key_of(object) else { return };
        match kind {
            Kind::Role => {
                let rules: Vec<Rule> = parsed(&object["rules"]).unwrap_or_default();
                let labels = object["metadata"]["labels"].as_object().cloned().unwrap_or_default();
                let selectors = object["aggregationRule"]["clusterRoleSelectors"].as_array();
                let aggregates = selectors.into_iter().flatten();
                let aggregates =
                    aggregates.filter_map(|one| LabelSelector::from_object(Some(one)).ok()).collect();
                self.roles.insert(key, Role { rules: rules.into(), labels, aggregates });
            }
            Kind::Binding => {
                self.delete(Kind::Binding, object);
                let Some(reference) = parsed::<RoleRef>(&object["roleRef"]) else { return };
                let namespace = if reference.kind == "Role" { key.0.clone() } else { String::new() };
                let subjects: Vec<SubjectReference> = parsed(&object["subjects"]).unwrap_or_default();
                let subjects: Vec<BoundSubject> =
                    subjects.into_iter().filter_map(|one| BoundSubject::of(one, &key.0)).collect();
                for BoundSubject { subject, .. } in &subjects {
                    self.by_subject.entry(subject.clone()).or_default().insert(key.clone());
                }
                self.bindings.insert(key, Binding { role: (namespace, reference.name), subjects });
            }
        }
    }

    /// An object was deleted.
    pub fn delete(&mut self, kind: Kind, object: &Value) {
        let Some(key) = key_of(object) else { return };
        match kind {
            Kind::Role => {
                self.roles.remove(&key);
            }
            Kind::Binding => {
                let subjects = self.bindings.remove(&key).into_iter().flat_map(|binding| binding.subjects);
                for BoundSubject { subject, .. } in subjects {
                    if let Some(keys) = self.by_subject.get_mut(&subject) {
                        keys.remove(&key);
                        if keys.is_empty() {
                            self.by_subject.remove(&subject);
                        }
                    }
                }
            }
        }
    }

    /// Whether a user is allowed to make a request; in a namespace, or cluster-wide if that is empty.
    pub fn allows(&self, user: &str, groups: &[String], namespace: &str, request: &RuleRequest<'_>) -> bool {
        self.roles_of(user, groups, namespace)
            .any(|role| self.rules_of(role).any(|rule| rule.allows(request)))
    }

    /// All rules that apply to a user; in a namespace, or cluster-wide if that is empty. Those of cluster role bindings come first.
    pub fn rules_for(&self, user: &str, groups: &[String], namespace: &str) -> Vec<Rule> {
        let bindings = self.bindings_of(user, groups, namespace);
        bindings.into_iter().flat_map(|(_, binding)| self.rules_of(&binding.role)).cloned().collect()
    }

    /// The binding that allows a request, in Kubernetes' words; absent if none does.
    pub fn reason(
        &self,
        user: &str,
        groups: &[String],
        namespace: &str,
        request: &RuleRequest<'_>,
    ) -> Option<String> {
        let bindings = self.bindings_of(user, groups, namespace);
        let (key, binding) = bindings
            .into_iter()
            .find(|(_, binding)| self.rules_of(&binding.role).any(|rule| rule.allows(request)))?;
        let is_of = |subject: &Subject| match subject {
            Subject::User(name) => name == user,
            Subject::Group(name) => groups.contains(name),
        };
        let subject = binding.subjects.iter().find(|bound| is_of(&bound.subject))?;
        let (kind, name) = match key {
            (namespace, name) if namespace.is_empty() => ("ClusterRoleBinding", name.clone()),
            (namespace, name) => ("RoleBinding", format!("{name}/{namespace}")),
        };
        let role_kind = if binding.role.0.is_empty() { "ClusterRole" } else { "Role" };
        Some(format!(
            "RBAC: allowed by {kind} {name:?} of {role_kind} {:?} to {} {:?}",
            binding.role.1, subject.kind, subject.name
        ))
    }

    /// The errors in a user's bindings, in Kubernetes' words: roles that do not exist. Empty if there are none.
    pub fn errors(&self, user: &str, groups: &[String], namespace: &str) -> String {
        let bindings =
            self.bindings_of(user, groups, namespace).into_iter().map(|(_, binding)| &binding.role);
        let mut missing: Vec<String> = Vec::new();
        for (namespace, name) in bindings.filter(|role| !self.roles.contains_key(role)) {
            let kind = if namespace.is_empty() { "clusterrole" } else { "role" };
            let error = format!("{kind}.rbac.authorization.k8s.io {name:?} not found");
            if !missing.contains(&error) {
                missing.push(error);
            }
        }
        match missing.as_slice() {
            [] => String::new(),
            [one] => format!("RBAC: {one}"),
            several => format!("RBAC: [{}]", several.join(", ")),
        }
    }

    /// The bindings that name a user or his groups, those of the cluster first, each by name.
    fn bindings_of(
        &self,
        user: &str,
        groups: &[String],
        namespace: &str,
    ) -> Vec<(&(String, String), &Binding)> {
        let groups = groups.iter().map(|group| Subject::Group(group.clone()));
        let subjects = std::iter::once(Subject::User(user.to_owned())).chain(groups);
        let keys = subjects.filter_map(|subject| self.by_subject.get(&subject)).flatten();
        let here = |(of, _): &&(String, String)| of.is_empty() || of == namespace;
        let keys: BTreeSet<&(String, String)> = keys.filter(here).collect();
        keys.into_iter().filter_map(|key| Some((key, self.bindings.get(key)?))).collect()
    }

    /// The rules of a role; of a cluster role if `namespace` is empty. None if there is no such role.
    pub fn rules_of_role(&self, namespace: &str, name: &str) -> Option<Vec<Rule>> {
        let key = (namespace.to_owned(), name.to_owned());
        self.roles.contains_key(&key).then(|| self.rules_of(&key).cloned().collect())
    }

    /// The roles that a user has by name and by groups.
    fn roles_of<'a>(
        &'a self,
        user: &str,
        groups: &[String],
        namespace: &'a str,
    ) -> impl Iterator<Item = &'a (String, String)> + use<'a> {
        let groups = groups.iter().map(|group| Subject::Group(group.clone()));
        let subjects: Vec<Subject> = std::iter::once(Subject::User(user.to_owned())).chain(groups).collect();
        let keys = subjects.into_iter().filter_map(|subject| self.by_subject.get(&subject)).flatten();
        keys.filter(move |(of, _)| of.is_empty() || of == namespace)
            .filter_map(|key| self.bindings.get(key).map(|binding| &binding.role))
    }

    fn rules_of<'a>(&'a self, key: &(String, String)) -> impl Iterator<Item = &'a Rule> + use<'a> {
        let role = self.roles.get(key);
        let aggregates = role.map(|role| role.aggregates.as_slice()).unwrap_or_default();
        let own = role.into_iter().flat_map(|role| role.rules.iter());
        // Roles that are put together from others are few, and asked for seldom.
        let matching = move |role: &&Role| aggregates.iter().any(|selector| selector.matches(&role.labels));
        let cluster = self
            .roles
            .iter()
            .filter(move |((namespace, _), _)| !aggregates.is_empty() && namespace.is_empty());
        let gathered = cluster.map(|(_, role)| role).filter(matching).flat_map(|role| role.rules.iter());
        own.chain(gathered)
    }
}

impl BoundSubject {
    /// A service account is a user with a name of its own.
    fn of(reference: SubjectReference, namespace: &str) -> Option<Self> {
        let SubjectReference { kind, name, namespace: given } = reference;
        let (subject, name) = match kind.as_str() {
            "User" => (Subject::User(name.clone()), name),
            "Group" => (Subject::Group(name.clone()), name),
            "ServiceAccount" => {
                let of = if given.is_empty() { namespace } else { &given };
                if of.is_empty() {
                    return None;
                }
                (Subject::User(format!("system:serviceaccount:{of}:{name}")), format!("{name}/{of}"))
            }
            _ => return None,
        };
        Some(BoundSubject { subject, kind, name })
    }
}

fn key_of(object: &Value) -> Option<(String, String)> {
    let metadata = &object["metadata"];
    let namespace = metadata["namespace"].as_str().unwrap_or_default();
    Some((namespace.to_owned(), metadata["name"].as_str()?.to_owned()))
}

fn parsed<'a, T: Deserialize<'a>>(value: &'a Value) -> Option<T> {
    T::deserialize(value).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn binding(namespace: &str, role: &str, subjects: &Value) -> Value {
        let kind = role.split('/').next().unwrap_or_default();
        json!({"metadata": {"namespace": namespace, "name": format!("b-{}", role.replace('/', "-").to_lowercase())},
            "roleRef": {"kind": kind, "name": role.split('/').next_back()}, "subjects": subjects})
    }

    fn role(namespace: &str, name: &str, verb: &str) -> Value {
        json!({"metadata": {"namespace": namespace, "name": name},
            "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": [verb]}]})
    }

    const GET: RuleRequest<'_> =
        RuleRequest::Resource { verb: "get", group: "", resource: "pods", subresource: "", name: "" };

    #[test]
    fn a_role_reaches_as_far_as_its_binding() {
        let mut policy = Policy::default();
        policy.apply(Kind::Role, &role("one", "reader", "get"));
        policy.apply(Kind::Role, &role("", "everywhere", "get"));
        let ann = json!([{"kind": "User", "name": "ann"}]);
        policy.apply(Kind::Binding, &binding("one", "Role/reader", &ann));
        assert!(policy.allows("ann", &[], "one", &GET));
        assert!(!policy.allows("ann", &[], "two", &GET) && !policy.allows("ann", &[], "", &GET));
        assert!(!policy.allows("bob", &[], "one", &GET));
        policy.delete(Kind::Binding, &binding("one", "Role/reader", &ann));
        assert!(!policy.allows("ann", &[], "one", &GET));
        assert!(policy.by_subject.is_empty(), "nothing is left of a binding that is gone");
        // A cluster role in a namespace, and then everywhere.
        policy.apply(Kind::Binding, &binding("two", "ClusterRole/everywhere", &ann));
        assert!(policy.allows("ann", &[], "two", &GET) && !policy.allows("ann", &[], "one", &GET));
        policy.apply(Kind::Binding, &binding("", "ClusterRole/everywhere", &ann));
        assert!(policy.allows("ann", &[], "one", &GET) && policy.allows("ann", &[], "", &GET));
    }

    #[test]
    fn groups_and_service_accounts_are_subjects_and_a_changed_binding_is_the_new_one() {
        let mut policy = Policy::default();
        policy.apply(Kind::Role, &role("one", "reader", "get"));
        let subjects =
            json!([{"kind": "Group", "name": "crew"}, {"kind": "ServiceAccount", "name": "robot"}]);
        policy.apply(Kind::Binding, &binding("one", "Role/reader", &subjects));
        assert!(policy.allows("x", &["crew".into()], "one", &GET));
        assert!(policy.allows("system:serviceaccount:one:robot", &[], "one", &GET));
        policy.apply(Kind::Binding, &binding("one", "Role/reader", &json!([])));
        assert!(!policy.allows("x", &["crew".into()], "one", &GET));
    }

    #[test]
    fn a_role_aggregates_the_rules_of_roles_with_its_labels() {
        let mut policy = Policy::default();
        policy.apply(
            Kind::Role,
            &json!({"metadata": {"name": "view"}, "rules": [],
                "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"to": "view"}}]}}),
        );
        let mut pods = role("", "view-pods", "get");
        policy.apply(
            Kind::Binding,
            &binding("", "ClusterRole/view", &json!([{"kind": "User", "name": "ann"}])),
        );
        policy.apply(Kind::Role, &pods);
        assert!(!policy.allows("ann", &[], "", &GET));
        pods["metadata"]["labels"] = json!({"to": "view"});
        policy.apply(Kind::Role, &pods);
        assert!(policy.allows("ann", &[], "one", &GET));
        assert_eq!(policy.rules_of_role("", "view").map(|rules| rules.len()), Some(1));
        assert_eq!(policy.rules_of_role("", "absent"), None);
    }
}
