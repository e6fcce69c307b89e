//! `FieldsV1`: how a set of fields is written in an object's `managedFields`.
//!
//! ```text
//! {"f:spec": {"f:replicas": {}, "f:containers": {"k:{\"name\":\"a\"}": {".": {}, "f:image": {}}}}}
//! ```
//!
//! Each step into the object is a key; an empty object ends a path, and so does the key `.` beside others.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::path::PathElement;
use super::set::{Branch, FieldSet, Node};
use apischema::go_text;

impl<'a> FieldSet<'a> {
    /// Reads `FieldsV1`. Keys of kinds that nobody knows yet are skipped.
    pub fn from_fields_v1(fields: &'a Value) -> Result<Self, String> {
        Self::from_fields_v1_noting_form(fields).map(|(set, _)| set)
    }

    /// Reads `FieldsV1`, and notes whether it would be written the same again.
    pub(super) fn from_fields_v1_noting_form(fields: &'a Value) -> Result<(Self, Form), String> {
        let mut form = Form::Canonical;
        let branch = read(fields, &mut form)?;
        Ok((branch.children, form))
    }

    /// Writes `FieldsV1`.
    pub fn to_fields_v1(&self) -> Value {
        Value::Object(self.write(false))
    }

    /// Writes `FieldsV1` as text, in the order in which Kubernetes writes it.
    pub fn to_fields_v1_text(&self) -> String {
        let mut text = String::new();
        self.write_text(&mut text, false);
        text
    }

    fn write(&self, is_member: bool) -> Map<String, Value> {
        let own = is_member && !self.is_empty();
        let own = own.then(|| (".".to_owned(), Value::Object(Map::new())));
        let children = self.nodes().iter().map(|Node { element, branch }| {
            (key(element), Value::Object(branch.children.write(branch.member)))
        });
        own.into_iter().chain(children).collect()
    }

    fn write_text(&self, out: &mut String, is_member: bool) {
        out.push('{');
        if is_member && !self.is_empty() {
            out.push_str("\".\":{}");
        }
        for Node { element, branch } in self.nodes() {
            if !out.ends_with('{') {
                out.push(',');
            }
            go_text::write_json_string(out, &key(element));
            out.push(':');
            branch.children.write_text(out, branch.member);
        }
        out.push('}');
    }
}

/// Whether `FieldsV1` is written in its one canonical way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Form {
    Canonical,
    Other,
}

fn read<'a>(fields: &'a Value, form: &mut Form) -> Result<Branch<'a>, String> {
    let fields = match fields {
        Value::Null => {
            *form = Form::Other;
            return Ok(Branch::member());
        }
        Value::Object(fields) => fields,
        other => return Err(format!("expected an object, got {}", go_text::plain(other))),
    };
    let mut member = false;
    let mut nodes = Vec::with_capacity(fields.len());
    for (name, inner) in fields {
        if name == "." {
            member = true;
        } else if let Some(element) = parse(name)? {
            let is_plain = matches!(element, PathElement::Field(_));
            if !is_plain && key(&element) != *name {
                *form = Form::Other;
            }
            nodes.push(Node { element, branch: read(inner, form)? });
        } else {
            *form = Form::Other;
        }
    }
    if nodes.is_empty() && member {
        *form = Form::Other;
    }
    member |= nodes.is_empty();
    Ok(Branch { member, children: FieldSet::of_nodes(nodes) })
}

/// The step that a key stands for; nothing if it is of a kind that nobody knows.
fn parse(key: &str) -> Result<Option<PathElement<'_>>, String> {
    let Some((kind, content)) = key.split_at_checked(2) else {
        return Err("key must be 2 characters long:".to_owned());
    };
    let bad = |error: &dyn std::fmt::Display| format!("parsing key {}: {error}", go_text::quote(key));
    match kind {
        "f:" => Ok(Some(PathElement::Field(Cow::Borrowed(content)))),
        "v:" => {
            let value = serde_json::from_str(content).map_err(|error| bad(&error))?;
            Ok(Some(PathElement::Value(Cow::Owned(value))))
        }
        "k:" => {
            let fields: Map<String, Value> = serde_json::from_str(content).map_err(|error| bad(&error))?;
            let fields = fields.into_iter().map(|(name, value)| (Cow::Owned(name), Cow::Owned(value)));
            Ok(Some(PathElement::Key(fields.collect())))
        }
        "i:" => {
            let at = content.parse().map_err(|error| bad(&error))?;
            Ok(Some(PathElement::Index(at)))
        }
        _ if kind.ends_with(':') => Ok(None),
        _ => Err(format!("missing colon: {key}")),
    }
}

fn key(element: &PathElement<'_>) -> String {
    let mut key = String::new();
    match element {
        PathElement::Field(name) => {
            key.reserve_exact(name.len() + 2);
            key.push_str("f:");
            key.push_str(name);
        }
        PathElement::Key(fields) => {
            key.push_str("k:{");
            for (at, (name, value)) in fields.iter().enumerate() {
                if at > 0 {
                    key.push(',');
                }
                go_text::write_json_string(&mut key, name);
                key.push(':');
                go_text::write_json(&mut key, value);
            }
            key.push('}');
        }
        PathElement::Value(value) => {
            key.push_str("v:");
            go_text::write_json(&mut key, value);
        }
        PathElement::Index(at) => {
            key.push_str("i:");
            key.push_str(&at.to_string());
        }
    }
    key
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_set_is_read_and_written_as_kubernetes_does() {
        let fields = json!({
            "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
            "f:spec": {
                "f:ports": {
                    "k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}},
                    "k:{\"port\":443,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}
                },
                "f:set": {"v:\"a\"": {}, "v:1": {}, "v:true": {}},
                "f:list": {"i:0": {}, "i:10": {}}
            }
        });
        let set = FieldSet::from_fields_v1(&fields).unwrap();
        assert_eq!(
            set.to_string(),
            ".metadata.labels\n.metadata.labels.app\n.spec.list[0]\n.spec.list[10]\n\
             .spec.ports[port=80,protocol=\"TCP\"]\n.spec.ports[port=443,protocol=\"TCP\"]\n\
             .spec.ports[port=80,protocol=\"TCP\"].port\n.spec.ports[port=443,protocol=\"TCP\"].port\n\
             .spec.set[=1]\n.spec.set[=\"a\"]\n.spec.set[=true]"
        );
        assert_eq!(set.to_fields_v1(), fields);
        assert_eq!(
            set.to_fields_v1_text(),
            r#"{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":{"f:list":{"i:0":{},"i:10":{}},"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{}},"k:{\"port\":443,\"protocol\":\"TCP\"}":{".":{},"f:port":{}}},"f:set":{"v:1":{},"v:\"a\"":{},"v:true":{}}}}"#,
            "numbers in the order of numbers"
        );
    }

    #[test]
    fn markup_in_values_is_escaped() {
        let fields = json!({"f:x": {"v:\"\\u003ca\\u0026b\\u003e\"": {}}});
        assert_eq!(FieldSet::from_fields_v1(&fields).unwrap().to_fields_v1(), fields);
    }

    #[test]
    fn what_nobody_knows_is_skipped_and_nonsense_refused() {
        let odd = json!({"z:x": {"f:a": {}}, "f:b": null, "f:c": {"z:y": {}}});
        assert_eq!(FieldSet::from_fields_v1(&odd).unwrap().to_string(), ".b\n.c");
        for bad in [
            json!({"f": {}}),
            json!({"fx": {}}),
            json!({"v:": {}}),
            json!({"k:1": {}}),
            json!({"i:x": {}}),
            json!({"f:a": 1}),
            json!("x"),
            json!({"é": {}}),
        ] {
            assert!(FieldSet::from_fields_v1(&bad).is_err(), "{bad}");
        }
        assert_eq!(FieldSet::from_fields_v1(&json!({})).unwrap(), FieldSet::new());
    }

    fn tree() -> impl Strategy<Value = Value> {
        let leaf = Just(json!({}));
        let key = "(f:[a-c]{0,2}|v:[0-9]|v:\"[a-c<&]\"|k:\\{\"[ab]\":[0-9]\\}|i:[0-9])";
        leaf.prop_recursive(3, 20, 4, move |inner| {
            (any::<bool>(), proptest::collection::btree_map(key, inner, 1..4)).prop_map(|(own, children)| {
                let own = own.then(|| (".".to_owned(), json!({})));
                Value::Object(own.into_iter().chain(children).collect())
            })
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_what_was_read(fields in tree()) {
            let set = FieldSet::from_fields_v1(&fields).unwrap();
            let written = set.to_fields_v1();
            prop_assert_eq!(&FieldSet::from_fields_v1(&written).unwrap(), &set);
            let text: Value = serde_json::from_str(&set.to_fields_v1_text()).unwrap();
            prop_assert_eq!(text, written);
        }
    }
}
