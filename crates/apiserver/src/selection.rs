//! Which objects of a resource a request selects.

use std::borrow::Cow;
use std::sync::Arc;

use apimachinery::LabelSelector;
use serde_json::Value;

/// A field by whose value objects can be selected: `spec.nodeName`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SelectableField {
    /// As clients write it.
    pub name: Arc<str>,
    /// Where the value is; the first place that has one counts.
    pub places: Arc<[Box<[Box<str>]>]>,
    /// The value of an object that has none.
    pub absent: &'static str,
}

impl SelectableField {
    /// A field at the path by which it is called: `spec.nodeName`.
    pub fn at(path: &str) -> SelectableField {
        SelectableField::named(path, &[path], "")
    }

    /// A field that is called one thing and found at others.
    pub fn named(name: &str, places: &[&str], absent: &'static str) -> SelectableField {
        let places = places.iter().map(|place| place.split('.').map(Box::from).collect()).collect();
        SelectableField { name: name.into(), places, absent }
    }

    /// The field's value in an object. An empty text is no value.
    pub fn value<'a>(&self, object: &'a Value) -> Cow<'a, str> {
        let at = |place: &[Box<str>]| place.iter().try_fold(object, |value, part| value.get(&**part));
        let text = |value: &'a Value| match value {
            Value::String(text) if text.is_empty() => None,
            Value::String(text) => Some(Cow::Borrowed(text.as_str())),
            Value::Number(number) => Some(Cow::Owned(number.to_string())),
            Value::Bool(flag) => Some(Cow::Borrowed(if *flag { "true" } else { "false" })),
            _ => None,
        };
        self.places.iter().find_map(|place| text(at(place)?)).unwrap_or(Cow::Borrowed(self.absent))
    }
}

/// What a field's value must or must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldRequirement {
    /// The field.
    pub field: SelectableField,
    /// Whether the value must be this one, or must not.
    pub equal: bool,
    /// The value.
    pub value: String,
}

/// Which objects of a resource a request selects.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    namespace: String,
    name: Option<String>,
    fields: Vec<FieldRequirement>,
    labels: LabelSelector,
}

impl Selection {
    /// The objects in a namespace, or with an empty one all.
    pub fn in_namespace(namespace: &str) -> Selection {
        Selection { namespace: namespace.into(), ..Selection::default() }
    }

    /// Of these, the one of that name.
    pub fn with_name(mut self, name: &str) -> Selection {
        self.name = Some(name.into());
        self
    }

    /// Of these, those whose fields are so. What is asked of `metadata.name` and `metadata.namespace` is known from the key,
    /// if it is asked to be equal.
    pub fn with_fields(mut self, requirements: impl IntoIterator<Item = FieldRequirement>) -> Selection {
        for requirement in requirements {
            match &*requirement.field.name {
                "metadata.name" if requirement.equal && self.name.is_none() => {
                    self.name = Some(requirement.value);
                }
                "metadata.namespace" if requirement.equal && self.namespace.is_empty() => {
                    self.namespace = requirement.value;
                }
                _ => self.fields.push(requirement),
            }
        }
        self
    }

    /// Of these, those whose labels are so.
    pub fn with_labels(mut self, labels: LabelSelector) -> Selection {
        self.labels = labels;
        self
    }

    /// The one namespace; empty for all.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The one name, if only one is selected.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// A field whose value must be that one.
    pub fn exact_field(&self) -> Option<(&SelectableField, &str)> {
        self.fields
            .iter()
            .find(|requirement| requirement.equal)
            .map(|requirement| (&requirement.field, requirement.value.as_str()))
    }

    /// Whether everything in the namespace is selected.
    pub fn is_everything(&self) -> bool {
        self.name.is_none() && !self.needs_object()
    }

    /// Whether an object must be looked into to know whether it is selected.
    pub fn needs_object(&self) -> bool {
        !self.fields.is_empty() || !self.labels.is_everything()
    }

    /// Whether an object's key is right.
    pub fn matches_key(&self, namespace: &str, name: &str) -> bool {
        (self.namespace.is_empty() || self.namespace == namespace)
            && self.name.as_ref().is_none_or(|selected| selected == name)
    }

    /// Whether what is in an object is right.
    pub fn matches_object(&self, object: &Value) -> bool {
        self.fields
            .iter()
            .all(|requirement| (requirement.field.value(object) == requirement.value) == requirement.equal)
            && self.labels.matches_object(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_field_without_a_value_has_its_default() {
        let node = SelectableField::at("spec.nodeName");
        assert_eq!(node.value(&json!({"spec": {"nodeName": "n1"}})), "n1");
        assert_eq!(node.value(&json!({"spec": {}})), "");
        assert_eq!(node.value(&json!({"spec": "text"})), "");
        let host = SelectableField::named("spec.hostNetwork", &["spec.hostNetwork"], "false");
        assert_eq!(host.value(&json!({})), "false");
        assert_eq!(host.value(&json!({"spec": {"hostNetwork": true}})), "true");
        let source = SelectableField::named("source", &["source.component", "reportingComponent"], "");
        assert_eq!(
            source.value(&json!({"source": {"component": ""}, "reportingComponent": "kubelet"})),
            "kubelet"
        );
    }

    #[test]
    fn name_and_namespace_are_matched_by_key() {
        let requirement = |name: &str, value: &str| FieldRequirement {
            field: SelectableField::at(name),
            equal: true,
            value: value.into(),
        };
        let selection = Selection::in_namespace("")
            .with_fields([requirement("metadata.name", "a"), requirement("metadata.namespace", "ns")]);
        assert!(!selection.needs_object());
        assert!(selection.matches_key("ns", "a"));
        assert!(!selection.matches_key("ns", "b"));
        assert!(!selection.matches_key("other", "a"));
    }
}
