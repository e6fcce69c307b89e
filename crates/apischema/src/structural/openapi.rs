//! What kube-apiserver does not support in a schema, and how its extensions may be used.

use serde_json::Value;

use super::rules::RuleContext;
use super::{Place, json, rules};
use crate::field_error::FieldError;
use crate::path::Path;
use crate::schema::Schema;
use crate::schema::keywords::{
    EMBEDDED_RESOURCE, LIST_MAP_KEYS, LIST_TYPE, MAP_TYPE, PRESERVE_UNKNOWN_FIELDS,
};

const TYPES: &[&str] = &["array", "boolean", "integer", "number", "object", "string"];

/// What is wrong with a schema. Its CEL rules are compiled only if all else is right, for which it is needed parsed.
pub(super) fn errors(schema: &Value, place: Place<'_>, parsed: Option<&Schema>) -> Vec<FieldError> {
    let mut walk = Walk { place, errors: Vec::new() };
    walk.schema(schema, Where::default(), &Path::ROOT);
    if let (true, Some(parsed)) = (walk.errors.is_empty(), parsed) {
        let mut rules = RuleContext::new(place);
        rules.check(parsed);
        walk.errors.extend(rules.into_errors());
    }
    walk.errors
}

/// What holds where the walk is.
#[derive(Clone, Copy, Default)]
struct Where<'a> {
    /// Whether this is not the root.
    inner: bool,
    inside_metadata: bool,
    /// Why no default may stand here.
    no_default: Option<&'a str>,
}

impl Where<'_> {
    fn inside(self) -> Self {
        Where { inner: true, ..self }
    }
}

struct Walk<'a> {
    place: Place<'a>,
    errors: Vec<FieldError>,
}

impl Walk<'_> {
    fn forbid(&mut self, path: &Path<'_>, keyword: &str, detail: impl Into<String>) {
        self.errors.push(FieldError::forbidden(self.place.at(path.field(keyword)), detail));
    }

    fn require(&mut self, path: &Path<'_>, keyword: &str, detail: &str) {
        self.errors.push(FieldError::required(self.place.at(path.field(keyword)), detail));
    }

    fn invalid(&mut self, path: &Path<'_>, keyword: &str, value: impl Into<Value>, detail: &str) {
        self.errors.push(FieldError::invalid(self.place.at(path.field(keyword)), value, detail));
    }

    fn schema(&mut self, schema: &Value, here: Where<'_>, path: &Path<'_>) {
        self.unsupported(schema, here, path);
        if json::flag(schema, "uniqueItems") {
            let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            self.forbid(path, "uniqueItems", detail);
        }
        self.children(schema, here, path);
        self.extensions(schema, path);
        rules::check_words(schema, self.place, path, &mut self.errors);
    }

    fn unsupported(&mut self, schema: &Value, here: Where<'_>, path: &Path<'_>) {
        let kind = json::text(schema, "type");
        if !kind.is_empty() && !TYPES.contains(&kind) {
            self.errors.push(FieldError::not_supported(self.place.at(path.field("type")), kind, TYPES));
        }
        if let (Some(reason), Some(_)) = (here.no_default, json::present(schema, "default")) {
            self.forbid(path, "default", format!("must not be set {reason}"));
        }
        if !json::text(schema, "id").is_empty() {
            self.forbid(path, "id", "id is not supported");
        }
        if json::present(schema, "additionalItems").is_some() {
            self.forbid(path, "additionalItems", "additionalItems is not supported");
        }
        for keyword in ["patternProperties", "definitions", "dependencies"] {
            if json::has_fields(schema, keyword) {
                self.forbid(path, keyword, format!("{keyword} is not supported"));
            }
        }
        if json::present(schema, "$ref").is_some() {
            self.forbid(path, "$ref", "$ref is not supported");
        }
        if kind == "null" {
            self.forbid(path, "type", "type cannot be set to null, use nullable as an alternative");
        }
        if schema.get("items").is_some_and(Value::is_array) {
            self.forbid(path, "items", "items must be a schema object and not an array");
        }
        if here.inside_metadata && json::flag(schema, EMBEDDED_RESOURCE) {
            self.forbid(path, EMBEDDED_RESOURCE, "must not be used inside of resource meta");
        }
    }

    fn children(&mut self, schema: &Value, here: Where<'_>, path: &Path<'_>) {
        let inside = here.inside();
        if let Some(additional) = json::present(schema, "additionalProperties") {
            if json::has_fields(schema, "properties") && *additional != Value::Bool(true) {
                let detail = "additionalProperties and properties are mutual exclusive";
                self.forbid(path, "additionalProperties", detail);
            }
            if additional.is_object() {
                let no_default = if here.inside_metadata {
                    Some("inside additionalProperties applying to object metadata")
                } else {
                    here.no_default
                };
                self.schema(additional, Where { no_default, ..inside }, &path.field("additionalProperties"));
            }
        }
        let resource = !here.inner || json::flag(schema, EMBEDDED_RESOURCE);
        let properties = path.field("properties");
        for (name, property) in json::fields(schema, "properties") {
            let metadata = resource && matches!(&**name, "metadata" | "kind" | "apiVersion");
            let reason = (metadata && !here.inner).then(|| format!("in top-level {name}"));
            let below = Where {
                inside_metadata: here.inside_metadata || metadata,
                no_default: reason.as_deref().or(here.no_default),
                ..inside
            };
            self.schema(property, below, &properties.key(name));
        }
        if let Some(not) = json::schema(schema, "not") {
            self.schema(not, inside, &path.field("not"));
        }
        for keyword in ["allOf", "oneOf", "anyOf"] {
            let path = path.field(keyword);
            for (index, branch) in json::list(schema, keyword).iter().enumerate() {
                self.schema(branch, inside, &path.index(index));
            }
        }
        if let Some(items) = json::schema(schema, "items") {
            self.schema(items, inside, &path.field("items"));
        }
    }

    fn extensions(&mut self, schema: &Value, path: &Path<'_>) {
        if schema.get(PRESERVE_UNKNOWN_FIELDS) == Some(&Value::Bool(false)) {
            self.invalid(path, PRESERVE_UNKNOWN_FIELDS, false, "must be true or undefined");
        }
        self.extension_of_type(schema, MAP_TYPE, "object", &["atomic", "granular"], path);
        self.extension_of_type(schema, LIST_TYPE, "array", &["atomic", "set", "map"], path);
        let list_type = json::text(schema, LIST_TYPE);
        let items = json::schema(schema, "items");
        if let ("set", Some(items)) = (list_type, items) {
            self.set_items(items, path);
        }
        if !json::list(schema, LIST_MAP_KEYS).is_empty() && list_type != "map" {
            let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
            match list_type {
                "" => self.require(path, LIST_TYPE, detail),
                other => self.invalid(path, LIST_TYPE, other, detail),
            }
        }
        if list_type == "map" {
            self.map_items(schema, items, path);
        }
        if let ("set" | "map", Some(items)) = (list_type, items) {
            self.keys(schema, list_type, items, path);
        }
    }

    fn extension_of_type(
        &mut self,
        schema: &Value,
        keyword: &str,
        kind: &str,
        values: &[&str],
        path: &Path<'_>,
    ) {
        if json::present(schema, keyword).is_none() {
            return;
        }
        let detail = format!("must be {kind} if {keyword} is specified");
        match json::text(schema, "type") {
            "" => self.require(path, "type", &detail),
            actual if actual != kind => self.invalid(path, "type", actual, &detail),
            _ => {}
        }
        let value = json::text(schema, keyword);
        if !values.contains(&value) {
            self.errors.push(FieldError::not_supported(self.place.at(path.field(keyword)), value, values));
        }
    }

    fn set_items(&mut self, items: &Value, path: &Path<'_>) {
        let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
        let inner = json::present(items, LIST_TYPE).cloned().unwrap_or_default();
        let path = path.field("items");
        match json::text(items, "type") {
            "array" if !matches!(json::text(items, LIST_TYPE), "" | "atomic") => {
                self.invalid(&path, LIST_TYPE, inner, detail);
            }
            "object" if json::text(items, MAP_TYPE) != "atomic" => {
                self.invalid(&path, MAP_TYPE, inner, detail);
            }
            _ => {}
        }
    }

    fn map_items(&mut self, schema: &Value, items: Option<&Value>, path: &Path<'_>) {
        let keys = json::list(schema, LIST_MAP_KEYS);
        if keys.is_empty() {
            self.require(path, LIST_MAP_KEYS, "must not be empty if x-kubernetes-list-type is map");
        }
        let Some(items) = items else {
            if json::present(schema, "items").is_none() {
                self.require(path, "items", "must have a schema if x-kubernetes-list-type is map");
            }
            return;
        };
        let kind = json::text(items, "type");
        let items_path = path.field("items");
        if kind != "object" {
            let detail = "must be object if parent array's x-kubernetes-list-type is map";
            self.invalid(&items_path, "type", kind, detail);
            return;
        }
        let properties = items_path.field("properties");
        for (index, key) in keys.iter().enumerate() {
            let name = key.as_str().unwrap_or_default();
            match json::property(items, name).map(|property| json::text(property, "type")) {
                Some("array" | "object") => {
                    let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                    self.invalid(&properties.key(name), "type", kind, detail);
                }
                Some(_) => {}
                None => {
                    self.invalid(
                        path,
                        LIST_MAP_KEYS,
                        keys.to_vec(),
                        "entries must all be names of item properties",
                    );
                }
            }
            if keys[..index].contains(key) {
                self.invalid(path, LIST_MAP_KEYS, keys.to_vec(), "must not contain duplicate entries");
            }
        }
    }

    /// Elements of sets and maps are told apart by values that must be there.
    fn keys(&mut self, schema: &Value, list_type: &str, items: &Value, path: &Path<'_>) {
        let items_path = path.field("items");
        if json::flag(items, "nullable") {
            let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
            self.forbid(&items_path, "nullable", detail);
        }
        if list_type != "map" {
            return;
        }
        let required = json::list(items, "required");
        let properties = items_path.field("properties");
        for key in json::list(schema, LIST_MAP_KEYS) {
            let name = key.as_str().unwrap_or_default();
            let Some(property) = json::property(items, name) else { continue };
            let path = properties.key(name);
            if !required.contains(key) && json::present(property, "default").is_none() {
                let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a \
                              required property";
                self.require(&path, "default", detail);
            }
            if json::flag(property, "nullable") {
                let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
                self.forbid(&path, "nullable", detail);
            }
        }
    }
}
