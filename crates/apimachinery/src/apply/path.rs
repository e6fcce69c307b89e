//! Where a field is: the steps from an object to one of its fields.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::order;
use apischema::go_text;

/// One step into a value. The elements of merged lists are known by what tells them apart, not by where they stand.
#[derive(Clone, Debug)]
pub enum PathElement<'a> {
    /// The field of an object: `f:`.
    Field(Cow<'a, str>),
    /// The element of a list whose key fields have these values, in the order of their names: `k:`. Shared, as sets are copied
    /// a lot while they are computed with.
    Key(Arc<[KeyField<'a>]>),
    /// The element of a list that is this value: `v:`.
    Value(Cow<'a, Value>),
    /// The element of a list at this place: `i:`.
    Index(i64),
}

/// A key field of a list element and its value.
pub type KeyField<'a> = (Cow<'a, str>, Cow<'a, Value>);

impl PathElement<'static> {
    /// A field known when this was written.
    pub const fn field(name: &'static str) -> Self {
        PathElement::Field(Cow::Borrowed(name))
    }
}

impl<'a> PathElement<'a> {
    /// One that borrows from nobody.
    pub fn into_owned(self) -> PathElement<'static> {
        let text = |text: Cow<'a, str>| Cow::Owned(text.into_owned());
        match self {
            PathElement::Field(name) => PathElement::Field(text(name)),
            PathElement::Key(fields) => {
                let fields = fields.iter().cloned();
                PathElement::Key(
                    fields.map(|(name, value)| (text(name), Cow::Owned(value.into_owned()))).collect(),
                )
            }
            PathElement::Value(value) => PathElement::Value(Cow::Owned(value.into_owned())),
            PathElement::Index(at) => PathElement::Index(at),
        }
    }

    /// Where it stands among elements of other kinds.
    fn rank(&self) -> u8 {
        match self {
            PathElement::Field(_) => 0,
            PathElement::Key(_) => 1,
            PathElement::Value(_) => 2,
            PathElement::Index(_) => 3,
        }
    }
}

impl Ord for PathElement<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (PathElement::Field(left), PathElement::Field(right)) => left.cmp(right),
            (PathElement::Key(left), PathElement::Key(right)) => {
                let pairs = left.iter().zip(right.iter());
                let mut orders = pairs.map(|((left_name, left), (right_name, right))| {
                    left_name.cmp(right_name).then_with(|| order::compare(left, right))
                });
                orders.find(|order| order.is_ne()).unwrap_or_else(|| left.len().cmp(&right.len()))
            }
            (PathElement::Value(left), PathElement::Value(right)) => order::compare(left, right),
            (PathElement::Index(left), PathElement::Index(right)) => left.cmp(right),
            (left, right) => left.rank().cmp(&right.rank()),
        }
    }
}

impl PartialOrd for PathElement<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for PathElement<'_> {}

/// As conflicts and errors show it: `.spec`, `[name="x"]`, `[="x"]`, `[0]`.
impl fmt::Display for PathElement<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathElement::Field(name) => write!(formatter, ".{name}"),
            PathElement::Key(fields) => {
                formatter.write_str("[")?;
                for (at, (name, value)) in fields.iter().enumerate() {
                    let comma = if at > 0 { "," } else { "" };
                    write!(formatter, "{comma}{name}={}", shown(value))?;
                }
                formatter.write_str("]")
            }
            PathElement::Value(value) => write!(formatter, "[={}]", shown(value)),
            PathElement::Index(at) => write!(formatter, "[{at}]"),
        }
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(truth) => truth.to_string(),
        Value::Number(number) => go_text::number(number),
        Value::String(text) => go_text::quote(text),
        Value::Array(items) => format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(",")),
        Value::Object(fields) => {
            fields.iter().map(|(name, field)| format!("{name}={}", shown(field))).collect::<String>()
        }
    }
}

/// A way into a value.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path<'a>(pub Vec<PathElement<'a>>);

impl Path<'static> {
    /// A path of fields known when this was written.
    pub fn of_fields(names: &[&'static str]) -> Self {
        Path(names.iter().map(|name| PathElement::field(name)).collect())
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|element| element.fmt(formatter))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn key(fields: &[(&'static str, Value)]) -> PathElement<'static> {
        PathElement::Key(
            fields.iter().map(|(name, value)| (Cow::Borrowed(*name), Cow::Owned(value.clone()))).collect(),
        )
    }

    fn value(value: Value) -> PathElement<'static> {
        PathElement::Value(Cow::Owned(value))
    }

    #[test]
    fn elements_have_the_order_of_kubernetes() {
        let ordered = [
            PathElement::field("a"),
            PathElement::field("b"),
            key(&[("name", json!("a"))]),
            key(&[("name", json!("a")), ("port", json!(1))]),
            key(&[("name", json!("b"))]),
            key(&[("port", json!(80))]),
            key(&[("port", json!(443))]),
            value(json!(1)),
            value(json!(1.5)),
            value(json!(2)),
            value(json!("a")),
            value(json!(false)),
            value(json!(true)),
            value(json!(null)),
            PathElement::Index(0),
            PathElement::Index(5),
        ];
        for (at, left) in ordered.iter().enumerate() {
            for (other, right) in ordered.iter().enumerate() {
                assert_eq!(left.cmp(right), at.cmp(&other), "{left} {right}");
            }
        }
        assert_eq!(value(json!(1)), value(json!(1.0)), "numbers are equal whatever their notation");
    }

    #[test]
    fn paths_are_shown_as_kubernetes_shows_them() {
        let path = Path(vec![
            PathElement::field("spec"),
            PathElement::field("containers"),
            key(&[("name", json!("a\"b")), ("port", json!(80))]),
            PathElement::field("args"),
            value(json!("x")),
            PathElement::Index(3),
            value(json!(1.5)),
            value(json!(true)),
        ]);
        assert_eq!(path.to_string(), r#".spec.containers[name="a\"b",port=80].args[="x"][3][=1.5][=true]"#);
    }
}
