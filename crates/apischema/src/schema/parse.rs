//! Schemas from OpenAPI v3, as a CRD's `openAPIV3Schema` has it or a component of an OpenAPI document.

use std::sync::Arc;

use serde_json::{Map, Value};
use thiserror::Error;

use super::keywords::{
    EMBEDDED_RESOURCE, INT_OR_STRING, LIST_MAP_KEYS, LIST_TYPE, MAP_TYPE, PATCH_MERGE_KEY, PATCH_STRATEGY,
    PRESERVE_UNKNOWN_FIELDS, VALIDATIONS,
};
use super::{AdditionalProperties, ListType, MapType, PatchStrategy, Rule, Schema, Type, Validation};

/// Deeper schemas are refused, so that no walk along a schema runs out of stack. JSON as text does not nest much deeper: its
/// parser stops at 128 levels, and a level of a schema is two of those.
const MAX_DEPTH: usize = 64;

/// Why a document is not a schema.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SchemaError {
    /// A keyword holds a value of another type.
    #[error("{keyword} must be {expected}")]
    Keyword {
        /// Which.
        keyword: String,
        /// What it should hold.
        expected: &'static str,
    },
    /// It refers to a schema that is not there.
    #[error("no schema {0:?} to refer to")]
    UnknownReference(String),
    /// It refers to another schema where none may be referred to.
    #[error("$ref is not supported")]
    Reference,
    /// It nests too deep.
    #[error("schema nests deeper than {MAX_DEPTH} levels")]
    TooDeep,
}

impl Schema {
    /// The schema that an OpenAPI v3 document without references describes, such as a CRD's `openAPIV3Schema`.
    ///
    /// Keywords that mean nothing to a server (`example`, `externalDocs`) are dropped. Whether the schema is one that
    /// Kubernetes accepts is the business of `structural_errors`.
    pub fn from_json(json: &Value) -> Result<Schema, SchemaError> {
        Parser { references: &mut NoReferences, depth: 0 }.schema(json)
    }
}

/// Where a parser finds the schemas that others refer to.
pub(super) trait References {
    /// The schema of that name.
    fn resolve(&mut self, name: &str) -> Result<Arc<Schema>, SchemaError>;

    /// Whether a schema that says nothing about its fields allows them all. So it is among an OpenAPI document's
    /// components; in a CRD it means that there are none.
    fn open(&self) -> bool;
}

struct NoReferences;

impl References for NoReferences {
    fn resolve(&mut self, _: &str) -> Result<Arc<Schema>, SchemaError> {
        Err(SchemaError::Reference)
    }

    fn open(&self) -> bool {
        false
    }
}

pub(super) struct Parser<'a> {
    pub(super) references: &'a mut dyn References,
    pub(super) depth: usize,
}

impl Parser<'_> {
    fn shared(&mut self, json: &Value) -> Result<Arc<Schema>, SchemaError> {
        let Some((reference, beside)) = reference(json) else { return Ok(Arc::new(self.schema(json)?)) };
        let target = self.references.resolve(reference)?;
        let mut schema = Schema::clone(&target);
        self.beside_reference(&mut schema, beside)?;
        // Most references add nothing, and the tree below a type is the same wherever it is used.
        Ok(if schema == *target { target } else { Arc::new(schema) })
    }

    pub(super) fn schema(&mut self, json: &Value) -> Result<Schema, SchemaError> {
        let fields = json.as_object().ok_or_else(|| wrong("schema", "an object"))?;
        if self.depth == MAX_DEPTH {
            return Err(SchemaError::TooDeep);
        }
        self.depth += 1;
        let schema = match reference(json) {
            Some(_) => self.shared(json).map(|schema| Schema::clone(&schema)),
            None => self.fields(fields),
        };
        self.depth -= 1;
        schema
    }

    fn fields(&mut self, fields: &Map<String, Value>) -> Result<Schema, SchemaError> {
        let mut schema = Schema {
            kind: text(fields, "type")?
                .filter(|name| !name.is_empty())
                .map(|name| Type::of_name(name).ok_or_else(|| wrong("type", "the name of a JSON type")))
                .transpose()?,
            description: owned(fields, "description")?,
            title: owned(fields, "title")?,
            format: owned(fields, "format")?,
            nullable: flag(fields, "nullable")?,
            default: fields.get("default").filter(|default| !default.is_null()).cloned(),
            required: texts(fields, "required")?,
            patch: patch_strategy(fields)?,
            preserve_unknown_fields: flag(fields, PRESERVE_UNKNOWN_FIELDS)?,
            embedded_resource: flag(fields, EMBEDDED_RESOURCE)?,
            int_or_string: flag(fields, INT_OR_STRING)?,
            ..Schema::default()
        };
        (schema.list_type, schema.list_type_stated) = list_type(fields)?;
        schema.map_type = map_type(fields)?;
        for (name, property) in object(fields, "properties")?.into_iter().flatten() {
            schema.properties.insert(name.clone(), self.shared(property)?);
        }
        schema.additional = match fields.get("additionalProperties") {
            None | Some(Value::Null | Value::Bool(false)) => AdditionalProperties::None,
            Some(Value::Bool(true)) => AdditionalProperties::Any,
            Some(other) => AdditionalProperties::Of(self.shared(other)?),
        };
        schema.items = present(fields, "items").map(|items| self.shared(items)).transpose()?;
        if schema.format == "int-or-string" {
            // Components spell this out as a format and a choice of two types.
            schema.int_or_string = true;
        } else {
            let validation = self.validation(fields)?;
            schema.validation = (validation != Validation::default()).then(|| Box::new(validation));
        }
        if self.references.open() && says_nothing(&schema) {
            schema.preserve_unknown_fields = true;
        }
        Ok(schema)
    }

    fn validation(&mut self, fields: &Map<String, Value>) -> Result<Validation, SchemaError> {
        Ok(Validation {
            one_of_values: array(fields, "enum")?.cloned().unwrap_or_default(),
            minimum: number(fields, "minimum")?,
            maximum: number(fields, "maximum")?,
            exclusive_minimum: flag(fields, "exclusiveMinimum")?,
            exclusive_maximum: flag(fields, "exclusiveMaximum")?,
            multiple_of: number(fields, "multipleOf")?,
            min_length: count(fields, "minLength")?,
            max_length: count(fields, "maxLength")?,
            pattern: text(fields, "pattern")?.filter(|pattern| !pattern.is_empty()).map(str::to_owned),
            min_items: count(fields, "minItems")?,
            max_items: count(fields, "maxItems")?,
            unique_items: flag(fields, "uniqueItems")?,
            min_properties: count(fields, "minProperties")?,
            max_properties: count(fields, "maxProperties")?,
            all_of: self.schemas(fields, "allOf")?,
            any_of: self.schemas(fields, "anyOf")?,
            one_of: self.schemas(fields, "oneOf")?,
            not: present(fields, "not").map(|not| self.schema(not).map(Box::new)).transpose()?,
            rules: array(fields, VALIDATIONS)?.into_iter().flatten().map(rule).collect::<Result<_, _>>()?,
            ..Validation::default()
        })
    }

    fn schemas(&mut self, fields: &Map<String, Value>, keyword: &str) -> Result<Vec<Schema>, SchemaError> {
        array(fields, keyword)?.into_iter().flatten().map(|schema| self.schema(schema)).collect()
    }

    /// What stands beside a reference holds for this use of the type alone.
    fn beside_reference(
        &mut self,
        schema: &mut Schema,
        beside: &Map<String, Value>,
    ) -> Result<(), SchemaError> {
        if let Some(description) = text(beside, "description")? {
            description.clone_into(&mut schema.description);
        }
        // Components give a struct that is always there the default `{}`, which adds nothing to a value.
        let empty = |default: &Value| default.as_object().is_some_and(Map::is_empty);
        if let Some(default) = present(beside, "default").filter(|default| !empty(default)) {
            schema.default = Some(default.clone());
        }
        if beside.contains_key(PATCH_STRATEGY) || beside.contains_key(PATCH_MERGE_KEY) {
            schema.patch = patch_strategy(beside)?;
        }
        if beside.contains_key(LIST_TYPE) {
            (schema.list_type, schema.list_type_stated) = list_type(beside)?;
        }
        if beside.contains_key(MAP_TYPE) {
            schema.map_type = map_type(beside)?;
        }
        schema.nullable |= flag(beside, "nullable")?;
        Ok(())
    }
}

/// The name that a schema refers to, and what it says beside. OpenAPI v3 allows nothing beside `$ref`, so documents wrap
/// the reference in `allOf` to say more.
fn reference(json: &Value) -> Option<(&str, &Map<String, Value>)> {
    let fields = json.as_object()?;
    let target = match fields.get("allOf").and_then(Value::as_array).map(Vec::as_slice) {
        Some([only]) => only.get("$ref"),
        _ => fields.get("$ref"),
    };
    let target = target?.as_str()?;
    Some((target.rsplit_once('/').map_or(target, |(_, name)| name), fields))
}

fn says_nothing(schema: &Schema) -> bool {
    let structure = !schema.properties.is_empty()
        || schema.additional != AdditionalProperties::None
        || schema.items.is_some()
        || schema.int_or_string
        || schema.validation.is_some();
    matches!(schema.kind, None | Some(Type::Object)) && !structure
}

fn list_type(fields: &Map<String, Value>) -> Result<(ListType, bool), SchemaError> {
    Ok(match text(fields, LIST_TYPE)? {
        None => (ListType::Atomic, false),
        Some("atomic") => (ListType::Atomic, true),
        Some("set") => (ListType::Set, true),
        Some("map") => (ListType::Map(texts(fields, LIST_MAP_KEYS)?), true),
        Some(_) => return Err(wrong(LIST_TYPE, "atomic, set or map")),
    })
}

fn map_type(fields: &Map<String, Value>) -> Result<MapType, SchemaError> {
    match text(fields, MAP_TYPE)? {
        None | Some("granular") => Ok(MapType::Granular),
        Some("atomic") => Ok(MapType::Atomic),
        Some(_) => Err(wrong(MAP_TYPE, "atomic or granular")),
    }
}

fn patch_strategy(fields: &Map<String, Value>) -> Result<PatchStrategy, SchemaError> {
    let strategies = text(fields, PATCH_STRATEGY)?.unwrap_or_default();
    let chosen = |name| strategies.split(',').any(|strategy| strategy == name);
    Ok(PatchStrategy {
        merge: chosen("merge"),
        retain_keys: chosen("retainKeys"),
        merge_key: text(fields, PATCH_MERGE_KEY)?.map(str::to_owned),
    })
}

fn rule(json: &Value) -> Result<Rule, SchemaError> {
    let fields = json.as_object().ok_or_else(|| wrong(VALIDATIONS, "objects"))?;
    let optional =
        |keyword| Ok(text(fields, keyword)?.filter(|text: &&str| !text.is_empty()).map(str::to_owned));
    Ok(Rule {
        rule: owned(fields, "rule")?,
        message: optional("message")?,
        message_expression: optional("messageExpression")?,
        reason: optional("reason")?,
        field_path: optional("fieldPath")?,
        optional_old_self: flag(fields, "optionalOldSelf")?,
    })
}

fn wrong(keyword: &str, expected: &'static str) -> SchemaError {
    SchemaError::Keyword { keyword: keyword.to_owned(), expected }
}

fn present<'a>(fields: &'a Map<String, Value>, keyword: &str) -> Option<&'a Value> {
    fields.get(keyword).filter(|value| !value.is_null())
}

/// The value of a keyword, if it is there, as `cast` reads it.
fn read<'a, T>(
    fields: &'a Map<String, Value>,
    keyword: &str,
    expected: &'static str,
    cast: impl Fn(&'a Value) -> Option<T>,
) -> Result<Option<T>, SchemaError> {
    present(fields, keyword).map(|value| cast(value).ok_or_else(|| wrong(keyword, expected))).transpose()
}

fn text<'a>(fields: &'a Map<String, Value>, keyword: &str) -> Result<Option<&'a str>, SchemaError> {
    read(fields, keyword, "a string", Value::as_str)
}

fn owned(fields: &Map<String, Value>, keyword: &str) -> Result<String, SchemaError> {
    Ok(text(fields, keyword)?.unwrap_or_default().to_owned())
}

fn flag(fields: &Map<String, Value>, keyword: &str) -> Result<bool, SchemaError> {
    Ok(read(fields, keyword, "a boolean", Value::as_bool)?.unwrap_or_default())
}

fn number(fields: &Map<String, Value>, keyword: &str) -> Result<Option<f64>, SchemaError> {
    read(fields, keyword, "a number", Value::as_f64)
}

fn count(fields: &Map<String, Value>, keyword: &str) -> Result<Option<u64>, SchemaError> {
    read(fields, keyword, "a whole number that is not negative", Value::as_u64)
}

fn array<'a>(fields: &'a Map<String, Value>, keyword: &str) -> Result<Option<&'a Vec<Value>>, SchemaError> {
    read(fields, keyword, "an array", Value::as_array)
}

fn object<'a>(
    fields: &'a Map<String, Value>,
    keyword: &str,
) -> Result<Option<&'a Map<String, Value>>, SchemaError> {
    read(fields, keyword, "an object", Value::as_object)
}

fn texts(fields: &Map<String, Value>, keyword: &str) -> Result<Vec<String>, SchemaError> {
    let strings = array(fields, keyword)?.into_iter().flatten();
    strings.map(|item| item.as_str().map(str::to_owned).ok_or_else(|| wrong(keyword, "strings"))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn round_trip(json: &Value) {
        let schema = Schema::from_json(json).unwrap();
        assert_eq!(schema.to_json(), *json);
        assert_eq!(Schema::from_json(&schema.to_json()).unwrap(), schema);
    }

    #[test]
    fn every_keyword_survives_the_way_there_and_back() {
        round_trip(&json!({
            "type": "object", "description": "d", "title": "t", "nullable": true, "default": {"a": 1},
            "required": ["a", "b"], "minProperties": 1, "maxProperties": 9, "x-kubernetes-map-type": "atomic",
            "properties": {
                "a": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 2.5, "multipleOf": 0.5,
                      "exclusiveMinimum": true, "exclusiveMaximum": true, "enum": [1, 2]},
                "b": {"type": "string", "minLength": 1, "maxLength": 2, "pattern": "^a$"},
                "c": {"type": "array", "minItems": 1, "maxItems": 2, "uniqueItems": true,
                      "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
                "d": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                      "items": {"type": "object", "properties": {"k": {"type": "string"}}},
                      "x-kubernetes-patch-strategy": "merge,retainKeys", "x-kubernetes-patch-merge-key": "k"},
                "e": {"type": "object", "additionalProperties": {"type": "boolean"}},
                "f": {"type": "object", "additionalProperties": true},
                "g": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
                "h": {"type": "object", "x-kubernetes-embedded-resource": true,
                      "x-kubernetes-preserve-unknown-fields": true},
                "i": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "atomic"},
                "j": {"type": "number", "not": {"minimum": 1}, "allOf": [{"maximum": 2}], "oneOf": [{"enum": [1]}]},
            },
            "x-kubernetes-validations": [
                {"rule": "self.a > 0", "message": "m", "messageExpression": "'m'", "reason": "FieldValueInvalid",
                 "fieldPath": ".a", "optionalOldSelf": true},
                {"rule": "true"},
            ],
        }));
    }

    #[test]
    fn an_object_without_fields_is_empty_in_a_crd() {
        let schema = Schema::from_json(&json!({"type": "object"})).unwrap();
        assert!(!schema.preserve_unknown_fields);
    }

    #[test]
    fn what_is_not_a_schema_is_refused_by_the_keyword() {
        for (json, message) in [
            (json!([]), "schema must be an object"),
            (json!({"type": "thing"}), "type must be the name of a JSON type"),
            (json!({"minLength": -1}), "minLength must be a whole number that is not negative"),
            (json!({"items": 3}), "schema must be an object"),
            (json!({"$ref": "#/definitions/a"}), "$ref is not supported"),
            (json!({"x-kubernetes-list-type": "heap"}), "x-kubernetes-list-type must be atomic, set or map"),
        ] {
            assert_eq!(Schema::from_json(&json).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn nesting_has_an_end() {
        let mut json = json!({"type": "string"});
        for _ in 0..1000 {
            json = json!({"type": "array", "items": json});
        }
        assert_eq!(Schema::from_json(&json), Err(SchemaError::TooDeep));
    }
}
