//! What a schema says about ownership: whether a value is one field or several, and what tells the elements of a list apart.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use apischema::{AdditionalProperties, ListType, MapType, Schema};
use serde_json::Value;

use super::path::PathElement;
use apischema::go_text;

/// The type of a value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Type<'s> {
    /// A whole object: it has `apiVersion`, `kind` and `metadata`, whether its schema says so or not.
    Object(&'s Schema),
    /// What a schema says. The flag is whether it stands inside one that keeps unknown fields, which it then does too.
    Known(&'s Schema, bool),
    /// Whatever the value looks like: objects have fields, lists are one field.
    Deduced,
    /// One field, whatever the value looks like.
    Atomic,
    /// None: the schema does not have this field.
    Undeclared,
}

/// The forms that a value of a type may have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Forms<'s> {
    pub(super) scalar: Option<Scalar>,
    pub(super) list: Option<List<'s>>,
    pub(super) map: Option<Fields<'s>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Form {
    Map,
    Scalar,
    List,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scalar {
    Number,
    Text,
    Boolean,
    Any,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct List<'s> {
    pub(super) kind: &'s ListType,
    pub(super) element: Type<'s>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'s> {
    pub(super) is_atomic: bool,
    /// The type of the fields that the schema does not name.
    pub(super) others: Type<'s>,
    named: &'s BTreeMap<String, Arc<Schema>>,
    keeps_unknown: bool,
    is_object: bool,
}

/// Types whose schemas say less than Kubernetes knows about them.
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const RAW_EXTENSION: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";

static NO_FIELDS: BTreeMap<String, Arc<Schema>> = BTreeMap::new();
static ATOMIC_LIST: ListType = ListType::Atomic;
static TEXT: LazyLock<Schema> =
    LazyLock::new(|| Schema { kind: Some(apischema::Type::String), ..Schema::default() });

impl<'s> Type<'s> {
    pub(super) fn forms(self) -> Forms<'s> {
        match self {
            Type::Object(schema) => Forms { map: Some(Fields::of(schema, false, true)), ..Forms::NONE },
            Type::Known(schema, inherited) => Forms::of(schema, inherited),
            Type::Deduced => Forms::any(Type::Deduced, false),
            Type::Atomic => Forms::any(Type::Atomic, true),
            Type::Undeclared => Forms::NONE,
        }
    }

    /// The forms, or those of anything for a field that the schema does not have: objects may be older than their schema.
    pub(super) fn lenient_forms(self) -> Forms<'s> {
        match self {
            Type::Undeclared => Type::Deduced.forms(),
            known => known.forms(),
        }
    }
}

impl<'s> Forms<'s> {
    const NONE: Self = Forms { scalar: None, list: None, map: None };

    fn any(field: Type<'s>, is_atomic: bool) -> Self {
        Forms {
            scalar: Some(Scalar::Any),
            list: Some(List { kind: &ATOMIC_LIST, element: Type::Atomic }),
            map: Some(Fields {
                is_atomic,
                others: field,
                named: &NO_FIELDS,
                keeps_unknown: false,
                is_object: false,
            }),
        }
    }

    fn of(schema: &'s Schema, inherited: bool) -> Self {
        match schema.type_name.as_deref() {
            Some(QUANTITY) => return Forms { scalar: Some(Scalar::Any), ..Self::NONE },
            Some(RAW_EXTENSION) => return Type::Atomic.forms(),
            _ => {}
        }
        // A type with a name of its own does not inherit.
        let inherited = inherited && schema.type_name.is_none();
        let list = || {
            let items = schema.items.as_deref();
            let keeps_unknown = inherited || schema.preserve_unknown_fields;
            let element = items.map_or(Type::Atomic, |items| Type::Known(items, keeps_unknown));
            Some(List { kind: &schema.list_type, element })
        };
        let map = || Some(Fields::of(schema, inherited, schema.embedded_resource));
        let scalar = |scalar| Forms { scalar: Some(scalar), ..Self::NONE };
        match schema.kind {
            None => Forms { scalar: Some(Scalar::Any), list: list(), map: map() },
            Some(apischema::Type::Object) => Forms { map: map(), ..Self::NONE },
            Some(apischema::Type::Array) => Forms { list: list(), ..Self::NONE },
            Some(apischema::Type::Integer | apischema::Type::Number) => scalar(Scalar::Number),
            Some(apischema::Type::Boolean) => scalar(Scalar::Boolean),
            Some(apischema::Type::String) if matches!(schema.format.as_str(), "" | "byte") => {
                scalar(Scalar::Text)
            }
            Some(apischema::Type::String) => scalar(Scalar::Any),
        }
    }

    /// The form of this value. If it is of none that it may have, it counts as the first of those.
    pub(super) fn form(&self, value: &Value) -> Option<Form> {
        let own = match value {
            Value::Null => None,
            Value::Bool(_) | Value::Number(_) | Value::String(_) => self.scalar.map(|_| Form::Scalar),
            Value::Array(_) => self.list.map(|_| Form::List),
            Value::Object(_) => self.map.map(|_| Form::Map),
        };
        own.or_else(|| self.first())
    }

    fn first(&self) -> Option<Form> {
        let map = self.map.map(|_| Form::Map);
        map.or(self.scalar.map(|_| Form::Scalar)).or(self.list.map(|_| Form::List))
    }
}

impl<'s> Fields<'s> {
    fn of(schema: &'s Schema, inherited: bool, is_object: bool) -> Self {
        let keeps_unknown = inherited || schema.preserve_unknown_fields;
        let others = match &schema.additional {
            AdditionalProperties::None if keeps_unknown || schema.properties.is_empty() => Type::Deduced,
            AdditionalProperties::None => Type::Undeclared,
            AdditionalProperties::Any => Type::Deduced,
            AdditionalProperties::Of(field) => Type::Known(field, keeps_unknown),
        };
        Fields {
            is_atomic: schema.map_type == MapType::Atomic,
            others,
            named: &schema.properties,
            keeps_unknown,
            is_object,
        }
    }

    /// The type of a field that the schema names.
    pub(super) fn named(&self, name: &str) -> Option<Type<'s>> {
        let own = self.named.get(name);
        if self.is_object {
            match name {
                "metadata" if own.is_none_or(|own| own.properties.is_empty()) => {
                    return Some(Type::Known(apischema::core::object_meta(), false));
                }
                "apiVersion" | "kind" if own.is_none() => return Some(Type::Known(&TEXT, false)),
                _ => {}
            }
        }
        own.map(|own| Type::Known(own, self.keeps_unknown))
    }

    /// The type of a field.
    pub(super) fn field(&self, name: &str) -> Type<'s> {
        self.named(name).unwrap_or(self.others)
    }

    /// Whether nothing is known of any field.
    pub(super) fn is_deduced(&self) -> bool {
        self.named.is_empty() && !self.is_object && matches!(self.others, Type::Deduced)
    }

    /// What a key field is when an element does not have it.
    fn default(&self, name: &str) -> Option<&'s Value> {
        self.named.get(name)?.default.as_ref()
    }
}

impl<'s> List<'s> {
    pub(super) fn is_atomic(&self) -> bool {
        *self.kind == ListType::Atomic
    }

    /// What tells this element of a list from the others.
    pub(super) fn element_of<'v>(&self, item: &'v Value) -> Result<PathElement<'v>, String>
    where
        's: 'v,
    {
        match self.kind {
            ListType::Atomic => Err("invalid indexing of non-associative list".to_owned()),
            ListType::Set => match item {
                Value::Object(_) => {
                    Err("associative list without keys has an element that's a map type".to_owned())
                }
                Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
                Value::Null => {
                    Err("associative list without keys has an element that's an explicit null".to_owned())
                }
                scalar => Ok(PathElement::Value(Cow::Borrowed(scalar))),
            },
            ListType::Map(keys) => self.keyed_element_of(keys, item),
        }
    }

    fn keyed_element_of<'v>(&self, keys: &'s [String], item: &'v Value) -> Result<PathElement<'v>, String>
    where
        's: 'v,
    {
        let fields = match item {
            Value::Object(fields) => fields,
            Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
            _ => return Err("associative list with keys may not have non-map elements".to_owned()),
        };
        let mut element = Vec::with_capacity(keys.len());
        for key in keys {
            let value = match fields.get(key) {
                Some(value) => Some(value),
                None => self.element.forms().map.and_then(|map| map.default(key)),
            };
            element.extend(value.map(|value| (Cow::Borrowed(key.as_str()), Cow::Borrowed(value))));
        }
        if element.is_empty() {
            return Err(format!(
                "associative list with keys has an element that omits all key fields {} (and doesn't have default values \
                 for any key fields)",
                go_text::quote_list(keys)
            ));
        }
        element.sort_by(|(left, _), (right, _)| left.cmp(right));
        Ok(PathElement::Key(element.into()))
    }
}
