//! The types of expressions, before any is evaluated.

use std::fmt;

use crate::schema::{AdditionalProperties, Schema, Type as JsonType};

use super::ast::Shape;
use super::escape::{escape, unescape};

/// What an expression is of.
#[derive(Clone, Debug)]
pub(super) enum Type<'s> {
    /// Known only when it is evaluated.
    Dyn,
    /// Something is wrong and has been reported; nothing more is to be said about it.
    Error,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Timestamp,
    Duration,
    List(Box<Type<'s>>),
    Map(Box<Type<'s>>, Box<Type<'s>>),
    /// An object with the fields of a schema.
    Object(&'s Schema),
    Optional(Box<Type<'s>>),
    /// The type of a type.
    Kind,
    /// One of Kubernetes' own.
    Opaque(&'static str),
    /// Not known yet; the same number is the same type.
    Variable(usize),
}

pub(super) const IP: &str = "net.IP";
pub(super) const CIDR: &str = "net.CIDR";
pub(super) const URL: &str = "kubernetes.URL";
pub(super) const QUANTITY: &str = "kubernetes.Quantity";
pub(super) const SEMVER: &str = "kubernetes.Semver";
pub(super) const FORMAT: &str = "kubernetes.NamedFormat";

/// The type that values of a schema have in expressions; nothing if expressions cannot see them.
pub(super) fn declared(schema: &Schema) -> Option<Type<'_>> {
    if schema.int_or_string {
        return Some(Type::Dyn);
    }
    Some(match schema.kind? {
        JsonType::Array => Type::List(Box::new(declared(schema.items.as_deref()?)?)),
        JsonType::Object => match &schema.additional {
            AdditionalProperties::Of(values) => {
                Type::Map(Box::new(Type::String), Box::new(declared(values)?))
            }
            AdditionalProperties::Any | AdditionalProperties::None => Type::Object(schema),
        },
        JsonType::String => match &*schema.format {
            "byte" => Type::Bytes,
            "duration" => Type::Duration,
            "date" | "date-time" => Type::Timestamp,
            _ => Type::String,
        },
        JsonType::Boolean => Type::Bool,
        JsonType::Number => Type::Double,
        JsonType::Integer => Type::Int,
    })
}

/// The type of an object's field by its name in expressions.
pub(super) fn field<'s>(schema: &'s Schema, name: &str) -> Option<Type<'s>> {
    let property = unescape(name)?;
    // What is written plainly although it must be escaped names nothing; but after a dot no word is reserved.
    if escape(&property)? != name && property != name {
        return None;
    }
    declared(schema.properties.get(&property)?)
}

impl Type<'_> {
    /// What costs depend on.
    pub(super) fn shape(&self) -> Shape {
        match self {
            Type::Bool | Type::Int | Type::Uint | Type::Double | Type::Timestamp | Type::Duration => {
                Shape::Scalar
            }
            Type::String | Type::Bytes => Shape::Text,
            Type::List(element) => Shape::List(Box::new(element.shape())),
            Type::Map(..) => Shape::Map,
            Type::Object(_) => Shape::Object,
            Type::Optional(inner) => Shape::Optional(Box::new(inner.shape())),
            Type::Opaque(_) => Shape::Opaque,
            Type::Dyn | Type::Error | Type::Null | Type::Kind | Type::Variable(_) => Shape::Dyn,
        }
    }

    pub(super) fn is_dyn(&self) -> bool {
        matches!(self, Type::Dyn | Type::Error)
    }
}

impl fmt::Display for Type<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Type::Dyn | Type::Variable(_) => "dyn",
            Type::Error => "!error!",
            Type::Null => "null",
            Type::Bool => "bool",
            Type::Int => "int",
            Type::Uint => "uint",
            Type::Double => "double",
            Type::String => "string",
            Type::Bytes => "bytes",
            Type::Timestamp => "timestamp",
            Type::Duration => "duration",
            Type::List(element) => return write!(formatter, "list({element})"),
            Type::Map(key, value) => return write!(formatter, "map({key}, {value})"),
            Type::Optional(value) => return write!(formatter, "optional_type({value})"),
            Type::Object(_) => "object",
            Type::Kind => "type",
            Type::Opaque(name) => name,
        };
        formatter.write_str(name)
    }
}

/// What variables of types have turned out to be.
#[derive(Clone, Debug, Default)]
pub(super) struct Bindings<'s>(Vec<Option<Type<'s>>>);

impl<'s> Bindings<'s> {
    pub(super) fn fresh(&mut self) -> Type<'s> {
        self.0.push(None);
        Type::Variable(self.0.len() - 1)
    }

    /// The type with all that is known of its variables.
    pub(super) fn resolve(&self, kind: &Type<'s>) -> Type<'s> {
        match kind {
            Type::Variable(index) => match &self.0[*index] {
                Some(bound) => self.resolve(bound),
                None => Type::Variable(*index),
            },
            Type::List(element) => Type::List(Box::new(self.resolve(element))),
            Type::Map(key, value) => Type::Map(Box::new(self.resolve(key)), Box::new(self.resolve(value))),
            Type::Optional(value) => Type::Optional(Box::new(self.resolve(value))),
            other => other.clone(),
        }
    }

    /// Whether a value of the one type can be used where the other is wanted. What that says about variables is kept.
    pub(super) fn assign(&mut self, from: &Type<'s>, to: &Type<'s>) -> bool {
        let before = self.0.clone();
        let fits = self.unify(from, to);
        if !fits {
            self.0 = before;
        }
        fits
    }

    fn unify(&mut self, from: &Type<'s>, to: &Type<'s>) -> bool {
        let (from, to) = (self.resolve(from), self.resolve(to));
        match (&from, &to) {
            (Type::Variable(a), Type::Variable(b)) if a == b => true,
            (Type::Variable(index), other) | (other, Type::Variable(index)) => {
                // A type that holds itself has no end.
                if holds(other, *index) {
                    return false;
                }
                self.0[*index] = Some(other.clone());
                true
            }
            (a, b) if a.is_dyn() || b.is_dyn() => true,
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => self.unify(a, b),
            (Type::Map(a, x), Type::Map(b, y)) => self.unify(a, b) && self.unify(x, y),
            (Type::Object(a), Type::Object(b)) => std::ptr::eq(*a, *b),
            (Type::Opaque(a), Type::Opaque(b)) => a == b,
            (Type::Null, Type::Object(_) | Type::Opaque(_) | Type::Timestamp | Type::Duration)
            | (Type::Object(_) | Type::Opaque(_) | Type::Timestamp | Type::Duration, Type::Null) => true,
            (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
        }
    }
}

fn holds(kind: &Type<'_>, index: usize) -> bool {
    match kind {
        Type::Variable(other) => *other == index,
        Type::List(inner) | Type::Optional(inner) => holds(inner, index),
        Type::Map(key, value) => holds(key, index) || holds(value, index),
        _ => false,
    }
}
