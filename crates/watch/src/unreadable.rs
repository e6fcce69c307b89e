//! Objects that exist and cannot be decoded: a definition without a schema, an edit by hand or an object stored by another version can
//! leave any value in any field. Such an object is reported by itself, with the field that is wrong, and hides no other.

use std::borrow::Cow;
use std::fmt;

use kube::Resource;
use kube::core::{ObjectMeta, PartialObjectMeta};
use serde::de::{DeserializeOwned, Deserializer};
use serde::{Deserialize, de};
use serde_json::Value;

/// An object that exists and cannot be decoded.
#[derive(Clone, Debug)]
pub struct Unreadable<K> {
    /// Which object it is.
    pub object: PartialObjectMeta<K>,
    /// All of it, as the API server has it.
    pub content: Value,
    /// The field that cannot be decoded, as in `spec.routes[1].cidr`. Empty if it is the object as a whole.
    pub field: String,
    /// What is wrong with that field.
    pub problem: String,
}

impl<K> fmt::Display for Unreadable<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field.as_str() {
            "" => f.write_str(&self.problem),
            field => write!(f, "{field}: {}", self.problem),
        }
    }
}

impl<K: DeserializeOwned> Unreadable<K> {
    /// None if this is not an object at all: it has no name.
    fn new(mut content: Value, error: &serde_json::Error) -> Option<Self> {
        let metadata = metadata(&content)?;
        let problem = error.to_string();
        let field = blamed_field::<K>(&mut content, &problem);
        let object = PartialObjectMeta { types: None, metadata, _phantom: std::marker::PhantomData };
        Some(Unreadable { object, content, field, problem })
    }
}

/// Only what identifies the object, if its metadata is what cannot be decoded.
fn metadata(content: &Value) -> Option<ObjectMeta> {
    let value = content.get("metadata")?;
    let text = |key: &str| Some(value.get(key)?.as_str()?.to_owned());
    let name = text("name")?;
    Some(ObjectMeta::deserialize(value).unwrap_or_else(|_| ObjectMeta {
        name: Some(name),
        namespace: text("namespace"),
        uid: text("uid"),
        resource_version: text("resourceVersion"),
        ..ObjectMeta::default()
    }))
}

/// An object that was received, decoded if it can be. It stands in for its kind where all objects of that must be read:
/// `Api<Received<K>>`.
#[derive(Clone, Debug)]
pub enum Received<K> {
    /// It can be decoded.
    Readable(K),
    /// It exists all the same.
    Unreadable(Box<Unreadable<K>>),
}

impl<K: Resource<DynamicType = ()>> Resource for Received<K> {
    type DynamicType = ();
    type Scope = K::Scope;

    fn kind((): &()) -> Cow<'_, str> {
        K::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        K::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        K::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        K::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        match self {
            Received::Readable(object) => object.meta(),
            Received::Unreadable(unreadable) => &unreadable.object.metadata,
        }
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match self {
            Received::Readable(object) => object.meta_mut(),
            Received::Unreadable(unreadable) => &mut unreadable.object.metadata,
        }
    }
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Received<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let content = Value::deserialize(deserializer)?;
        match K::deserialize(&content) {
            Ok(object) => Ok(Received::Readable(object)),
            Err(error) => match Unreadable::new(content, &error) {
                Some(unreadable) => Ok(Received::Unreadable(Box::new(unreadable))),
                None => Err(de::Error::custom(error)),
            },
        }
    }
}

/// What of an object is known in any case.
impl<K: Resource<DynamicType = ()>> Received<K> {
    pub(crate) fn into_partial(self) -> PartialObjectMeta<K> {
        match self {
            Received::Readable(object) => partial(&object),
            Received::Unreadable(unreadable) => unreadable.object,
        }
    }
}

pub(crate) fn partial<K: Resource<DynamicType = ()>>(object: &K) -> PartialObjectMeta<K> {
    PartialObjectMeta { types: None, metadata: object.meta().clone(), _phantom: std::marker::PhantomData }
}

/// A field, or an element of a list.
enum Step {
    Field(String),
    Element(usize),
}

/// How often an object is decoded to find the field that is wrong. A large one is blamed as a whole, or down to a list in it.
const ATTEMPTS: usize = 200;

/// The innermost field without which decoding fails otherwise, or not at all. serde's errors do not say where.
fn blamed_field<K: DeserializeOwned>(content: &mut Value, problem: &str) -> String {
    let (mut path, mut attempts) = (Vec::new(), ATTEMPTS);
    while let Some(step) = blamed_step::<K>(content, &path, problem, &mut attempts) {
        path.push(step);
    }
    let mut text = String::new();
    for step in path {
        match step {
            Step::Field(name) if text.is_empty() => text = name,
            Step::Field(name) => text = format!("{text}.{name}"),
            Step::Element(index) => text = format!("{text}[{index}]"),
        }
    }
    text
}

fn blamed_step<K: DeserializeOwned>(
    content: &mut Value,
    path: &[Step],
    problem: &str,
    attempts: &mut usize,
) -> Option<Step> {
    let fails_alike =
        |content: &Value| K::deserialize(content).is_err_and(|error| error.to_string() == problem);
    let size = match at(content, path)? {
        Value::Object(fields) => fields.len(),
        Value::Array(elements) => elements.len(),
        _ => 0,
    };
    *attempts = attempts.checked_sub(size)?;
    match at(content, path)? {
        Value::Object(fields) => {
            let names: Vec<String> = fields.keys().cloned().collect();
            names.into_iter().find_map(|name| {
                let value = at(content, path)?.as_object_mut()?.remove(&name)?;
                let blamed = !fails_alike(content);
                at(content, path)?.as_object_mut()?.insert(name.clone(), value);
                blamed.then_some(Step::Field(name))
            })
        }
        Value::Array(elements) => (0..elements.len()).find_map(|index| {
            let value = at(content, path)?.as_array_mut()?.remove(index);
            let blamed = !fails_alike(content);
            at(content, path)?.as_array_mut()?.insert(index, value);
            blamed.then_some(Step::Element(index))
        }),
        _ => None,
    }
}

fn at<'v>(content: &'v mut Value, path: &[Step]) -> Option<&'v mut Value> {
    path.iter().try_fold(content, |value, step| match step {
        Step::Field(name) => value.get_mut(name),
        Step::Element(index) => value.get_mut(index),
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    use super::*;

    fn received(content: Value) -> Received<Pod> {
        serde_json::from_value(content).expect("it has a name")
    }

    #[test]
    fn the_field_that_is_wrong_is_named() {
        for (field, value) in [
            ("spec", json!("text")),
            ("spec.nodeName", json!({"spec": {"nodeName": 7, "containers": []}})["spec"].clone()),
            (
                "spec.containers[1].ports[0].containerPort",
                json!({"containers": [
                {"name": "a"}, {"name": "b", "ports": [{"containerPort": "http"}]}]}),
            ),
        ] {
            let content = json!({"metadata": {"name": "a", "namespace": "b", "uid": "c"}, "spec": value});
            let Received::Unreadable(unreadable) = received(content.clone()) else { panic!("{content}") };
            assert_eq!(unreadable.field, field, "{unreadable}");
            assert_eq!(unreadable.content, content, "looking for the field changes nothing");
            let metadata = &unreadable.object.metadata;
            assert_eq!((metadata.name.as_deref(), metadata.uid.as_deref()), (Some("a"), Some("c")));
        }
    }

    #[test]
    fn an_object_is_identified_also_if_its_metadata_is_what_is_wrong() {
        let content = json!({"metadata": {"name": "a", "namespace": "b", "uid": "c", "resourceVersion": "9", "labels": 7}});
        let Received::Unreadable(unreadable) = received(content) else { panic!() };
        assert_eq!(unreadable.field, "metadata.labels");
        let metadata = unreadable.object.metadata;
        assert_eq!(
            (metadata.namespace.as_deref(), metadata.resource_version.as_deref()),
            (Some("b"), Some("9"))
        );
        let nameless = json!({"metadata": {"labels": 7}});
        assert!(serde_json::from_value::<Received<Pod>>(nameless).is_err());
    }

    #[test]
    fn a_large_object_is_not_decoded_once_for_each_of_its_parts() {
        let elements: Vec<_> = (0..100_000).map(|number| json!({"name": format!("c{number}")})).collect();
        let mut pod = json!({"metadata": {"name": "a"}, "spec": {"containers": elements}});
        pod["spec"]["containers"][99_999]["name"] = json!(7);
        let problem = serde_json::from_value::<Pod>(pod.clone()).unwrap_err().to_string();
        assert_eq!(blamed_field::<Pod>(&mut pod, &problem), "spec.containers");
    }
}
