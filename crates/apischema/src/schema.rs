//! The schema of one value, with what Kubernetes adds to OpenAPI.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

mod components;
pub(crate) mod keywords;
mod parse;
mod pattern;
mod write;

pub use components::Components;
pub use parse::SchemaError;
pub use pattern::CompiledPattern;
pub(crate) use pattern::{compile as compile_pattern, compile_computed as compile_computed_pattern};

/// What a value may be, and how it is merged, pruned and defaulted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schema {
    /// Absent where anything goes, or for an int-or-string.
    pub kind: Option<Type>,
    /// For people. Schemas of core kinds have none: whoever answers `kubectl explain` may fill it in.
    pub description: String,
    /// For people, shorter.
    pub title: String,
    /// `int32`, `date-time`, `byte`…; empty if none.
    pub format: String,
    /// Whether `null` is a value.
    pub nullable: bool,
    /// What stands here when nothing does.
    pub default: Option<Value>,
    /// The named fields of an object.
    pub properties: BTreeMap<String, Arc<Schema>>,
    /// The other fields of an object.
    pub additional: AdditionalProperties,
    /// The elements of an array.
    pub items: Option<Arc<Schema>>,
    /// The fields an object must have.
    pub required: Vec<String>,
    /// Who owns the elements of an array in server-side apply.
    pub list_type: ListType,
    /// Whether the list type was written down where it is the default. It matters for writing it out again, and for
    /// nothing else.
    pub list_type_stated: bool,
    /// Who owns the fields of an object in server-side apply.
    pub map_type: MapType,
    /// How strategic merge patch treats this array or object.
    pub patch: PatchStrategy,
    /// `x-kubernetes-preserve-unknown-fields`.
    pub preserve_unknown_fields: bool,
    /// `x-kubernetes-embedded-resource`.
    pub embedded_resource: bool,
    /// `x-kubernetes-int-or-string`.
    pub int_or_string: bool,
    /// The limits on values; absent where there are none.
    pub validation: Option<Box<Validation>>,
    /// The name of the component that this is the schema of, if it is one's.
    pub type_name: Option<Arc<str>>,
}

/// The JSON type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// `object`
    Object,
    /// `array`
    Array,
    /// `string`
    String,
    /// `integer`
    Integer,
    /// `number`
    Number,
    /// `boolean`
    Boolean,
}

impl Type {
    /// The name in OpenAPI.
    pub fn name(self) -> &'static str {
        match self {
            Type::Object => "object",
            Type::Array => "array",
            Type::String => "string",
            Type::Integer => "integer",
            Type::Number => "number",
            Type::Boolean => "boolean",
        }
    }

    /// The type of that name.
    pub fn of_name(name: &str) -> Option<Type> {
        let types = [Type::Object, Type::Array, Type::String, Type::Integer, Type::Number, Type::Boolean];
        types.into_iter().find(|kind| kind.name() == name)
    }
}

/// What an object may hold besides its named properties.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum AdditionalProperties {
    /// Nothing.
    #[default]
    None,
    /// Anything.
    Any,
    /// Values of this schema: the object is a map.
    Of(Arc<Schema>),
}

/// `x-kubernetes-list-type`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ListType {
    /// One owner for all of it.
    #[default]
    Atomic,
    /// Each element has its owners.
    Set,
    /// Each element, known by these keys, has its owners.
    Map(Vec<String>),
}

/// `x-kubernetes-map-type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MapType {
    /// Each field has its owners.
    #[default]
    Granular,
    /// One owner for all of it.
    Atomic,
}

/// `x-kubernetes-patch-strategy` and `x-kubernetes-patch-merge-key`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatchStrategy {
    /// Whether elements are merged rather than the list replaced.
    pub merge: bool,
    /// Whether keys that the patch does not name are dropped.
    pub retain_keys: bool,
    /// The field by which elements are told apart; absent for lists of plain values.
    pub merge_key: Option<String>,
}

/// Limits on a value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Validation {
    /// The only values allowed; empty if any.
    pub one_of_values: Vec<Value>,
    /// Least number.
    pub minimum: Option<f64>,
    /// Greatest number.
    pub maximum: Option<f64>,
    /// Whether the least number itself is too small.
    pub exclusive_minimum: bool,
    /// Whether the greatest number itself is too great.
    pub exclusive_maximum: bool,
    /// The number is a multiple of this.
    pub multiple_of: Option<f64>,
    /// Least length of a string, in characters.
    pub min_length: Option<u64>,
    /// Greatest length of a string, in characters.
    pub max_length: Option<u64>,
    /// A regular expression that the string matches somewhere.
    pub pattern: Option<String>,
    /// That expression, compiled when it is first needed.
    pub compiled_pattern: CompiledPattern,
    /// Least number of elements.
    pub min_items: Option<u64>,
    /// Greatest number of elements.
    pub max_items: Option<u64>,
    /// Whether elements differ.
    pub unique_items: bool,
    /// Least number of fields.
    pub min_properties: Option<u64>,
    /// Greatest number of fields.
    pub max_properties: Option<u64>,
    /// All of these hold too.
    pub all_of: Vec<Schema>,
    /// At least one of these holds.
    pub any_of: Vec<Schema>,
    /// Exactly one of these holds.
    pub one_of: Vec<Schema>,
    /// This does not hold.
    pub not: Option<Box<Schema>>,
    /// CEL rules.
    pub rules: Vec<Rule>,
}

/// One of `x-kubernetes-validations`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// The expression; `self` is the value, `oldSelf` what was there.
    pub rule: String,
    /// What to say when it is false.
    pub message: Option<String>,
    /// An expression for what to say.
    pub message_expression: Option<String>,
    /// The reason of the cause, as the CRD writes it.
    pub reason: Option<String>,
    /// The field to blame, relative to this one.
    pub field_path: Option<String>,
    /// Whether a rule with `oldSelf` also runs when there is none.
    pub optional_old_self: bool,
}
