//! Values of expressions. Those of the object are seen through its schema, where they are; nothing is copied.

use std::borrow::Cow;
use std::net::IpAddr;
use std::rc::Rc;

use base64::Engine;
use serde_json::{Map as JsonMap, Value as Json};

use crate::formats::parse_duration;
use crate::quantity::Quantity;
use crate::schema::{AdditionalProperties, ListType, Schema, Type};
use crate::url::Url;

use super::EvalError;
use super::functions::named_format::NamedFormat;
use super::functions::semver::Semver;
use super::time::Timestamp;

/// A value while an expression is evaluated.
#[derive(Clone, Debug)]
pub(crate) enum Val<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Cow<'a, str>),
    Bytes(Rc<[u8]>),
    Timestamp(Timestamp),
    /// In nanoseconds.
    Duration(i64),
    List(List<'a>),
    Map(Map<'a>),
    Optional(Option<Box<Val<'a>>>),
    /// A type, by its name.
    Type(&'static str),
    Ip(IpAddr),
    Cidr(IpAddr, u8),
    Url(Rc<Url>),
    Quantity(Quantity),
    Semver(Rc<Semver>),
    Format(NamedFormat),
    /// What no schema describes. It can be compared, and nothing else.
    Preserved(&'a Json),
}

#[derive(Clone, Debug)]
pub(crate) enum List<'a> {
    Json { items: &'a [Json], schema: &'a Schema },
    Values { items: Rc<Vec<Val<'a>>>, kind: &'a ListType },
}

#[derive(Clone, Debug)]
pub(crate) enum Map<'a> {
    Json { fields: &'a JsonMap<String, Json>, schema: &'a Schema },
    Values(Rc<Vec<(Val<'a>, Val<'a>)>>),
}

pub(crate) type Evaluated<'a> = Result<Val<'a>, EvalError>;

impl<'a> Val<'a> {
    /// A value of an object, as its schema says.
    pub(crate) fn from_json(value: &'a Json, schema: &'a Schema) -> Evaluated<'a> {
        if value.is_null() {
            return if schema.nullable {
                Ok(Val::Null)
            } else {
                Err(EvalError::new("invalid data, got null for schema with nullable=false"))
            };
        }
        if schema.int_or_string {
            return match value {
                Json::String(text) => Ok(Val::String(text.into())),
                Json::Number(number) if number.is_i64() => Ok(Val::Int(number.as_i64().unwrap_or_default())),
                _ => Err(EvalError::new(
                    "invalid data, expected XIntOrString value to be either a string or integer",
                )),
            };
        }
        let wrong = |expected: &str| Err(EvalError::new(format!("invalid data, expected {expected}")));
        match schema.kind {
            Some(Type::Object) => match value {
                Json::Object(fields) => Ok(Val::Map(Map::Json { fields, schema })),
                _ => wrong("a map for the provided schema with type=object"),
            },
            Some(Type::Array) => match value {
                Json::Array(items) => Ok(Val::List(List::Json { items, schema })),
                _ => wrong("an array for the provided schema with type=array"),
            },
            Some(Type::String) => match value {
                Json::String(text) => string(text, &schema.format),
                _ => wrong("string"),
            },
            Some(Type::Number) => {
                value.as_f64().map_or_else(|| wrong("float"), |number| Ok(Val::Double(number)))
            }
            Some(Type::Integer) => value.as_i64().map_or_else(|| wrong("int"), |number| Ok(Val::Int(number))),
            Some(Type::Boolean) => value.as_bool().map_or_else(|| wrong("bool"), |flag| Ok(Val::Bool(flag))),
            None => Ok(Val::Preserved(value)),
        }
    }

    pub(super) fn text(text: impl Into<String>) -> Self {
        Val::String(Cow::Owned(text.into()))
    }

    pub(super) fn list(items: Vec<Val<'a>>) -> Self {
        Val::List(List::Values { items: Rc::new(items), kind: &ListType::Atomic })
    }

    pub(super) fn optional(value: Option<Val<'a>>) -> Self {
        Val::Optional(value.map(Box::new))
    }

    /// The name of the value's type.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Val::Null => "null_type",
            Val::Bool(_) => "bool",
            Val::Int(_) => "int",
            Val::Uint(_) => "uint",
            Val::Double(_) => "double",
            Val::String(_) => "string",
            Val::Bytes(_) => "bytes",
            Val::Timestamp(_) => "google.protobuf.Timestamp",
            Val::Duration(_) => "google.protobuf.Duration",
            Val::List(_) => "list",
            Val::Map(_) => "map",
            Val::Optional(_) => "optional_type",
            Val::Type(_) => "type",
            Val::Ip(_) => "net.IP",
            Val::Cidr(..) => "net.CIDR",
            Val::Url(_) => "kubernetes.URL",
            Val::Quantity(_) => "kubernetes.Quantity",
            Val::Semver(_) => "kubernetes.Semver",
            Val::Format(_) => "kubernetes.NamedFormat",
            Val::Preserved(_) => "unknown",
        }
    }
}

fn string<'a>(text: &'a str, format: &str) -> Evaluated<'a> {
    let parsed = match format {
        "duration" => parse_duration(text).map(Val::Duration),
        "date" | "date-time" => Timestamp::parse(text).map(Val::Timestamp),
        "byte" => {
            base64::engine::general_purpose::STANDARD.decode(text).ok().map(|bytes| Val::Bytes(bytes.into()))
        }
        _ => Some(Val::String(text.into())),
    };
    parsed.ok_or_else(|| EvalError::new(format!("Invalid {format} formatted string {text}")))
}

impl<'a> List<'a> {
    pub(super) fn len(&self) -> usize {
        match self {
            List::Json { items, .. } => items.len(),
            List::Values { items, .. } => items.len(),
        }
    }

    pub(super) fn get(&self, index: usize) -> Option<Evaluated<'a>> {
        match self {
            List::Json { items, schema } => {
                let item = items.get(index)?;
                let schema = schema.items.as_deref();
                Some(schema.map_or_else(|| Ok(Val::Preserved(item)), |schema| Val::from_json(item, schema)))
            }
            List::Values { items, .. } => items.get(index).cloned().map(Ok),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Evaluated<'a>> {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    /// What the list is: a list, a set, or a map.
    pub(super) fn kind(&self) -> &'a ListType {
        match self {
            List::Json { schema, .. } => &schema.list_type,
            List::Values { kind, .. } => kind,
        }
    }
}

impl<'a> Map<'a> {
    pub(super) fn len(&self) -> usize {
        match self {
            Map::Json { fields, .. } => fields.len(),
            Map::Values(entries) => entries.len(),
        }
    }

    /// The value of a field or key. `name` is what an expression writes, `unescaped` the property it stands for.
    pub(super) fn field(&self, name: &str, unescaped: Option<&str>) -> Option<Evaluated<'a>> {
        match self {
            Map::Json { fields, schema } => {
                let object = !schema.properties.is_empty();
                let name = if object { unescaped.unwrap_or(name) } else { name };
                let value = fields.get(name)?;
                // A field that is null is one that is not there.
                if object && value.is_null() {
                    return None;
                }
                Some(Val::from_json(value, field_schema(schema, name)?))
            }
            Map::Values(entries) => {
                let (_, value) =
                    entries.iter().find(|(key, _)| matches!(key, Val::String(key) if key == name))?;
                Some(Ok(value.clone()))
            }
        }
    }

    /// The value of a key that was computed.
    pub(super) fn get(&self, key: &Val<'a>) -> Option<Evaluated<'a>> {
        match (self, key) {
            (Map::Json { schema, .. }, Val::String(name)) => {
                let unescaped =
                    (!schema.properties.is_empty()).then(|| super::escape::unescape(name)).flatten();
                self.field(name, unescaped.as_deref())
            }
            (Map::Json { .. }, _) => None,
            (Map::Values(entries), key) => {
                let same = |known: &Val<'a>| super::equality::equal(known, key).unwrap_or(false);
                entries.iter().find(|(known, _)| same(known)).map(|(_, value)| Ok(value.clone()))
            }
        }
    }

    /// The keys that expressions can see, with their values.
    pub(super) fn entries(&self) -> Vec<(Val<'a>, Evaluated<'a>)> {
        match self {
            Map::Json { fields, schema } => {
                let object = !schema.properties.is_empty();
                let entry = |(name, value): (&'a String, &'a Json)| {
                    let schema = field_schema(schema, name)?;
                    let written =
                        if object { super::escape::escape(name)?.into() } else { Cow::Borrowed(&**name) };
                    Some((Val::String(written), Val::from_json(value, schema)))
                };
                fields.iter().filter_map(entry).collect()
            }
            Map::Values(entries) => {
                entries.iter().map(|(key, value)| (key.clone(), Ok(value.clone()))).collect()
            }
        }
    }
}

pub(super) fn field_schema<'a>(schema: &'a Schema, name: &str) -> Option<&'a Schema> {
    match (schema.properties.get(name), &schema.additional) {
        (Some(property), _) => Some(property),
        (None, AdditionalProperties::Of(values)) => Some(values),
        (None, AdditionalProperties::Any | AdditionalProperties::None) => None,
    }
}
