//! Structure stands in the tree itself, and value validations beside it say nothing about structure.

use serde_json::{Value, json};

use super::{Place, completeness, json};
use crate::field_error::FieldError;
use crate::path::Path;
use crate::schema::compile_pattern;
use crate::schema::keywords::{
    EMBEDDED_RESOURCE, INT_OR_STRING, LIST_MAP_KEYS, LIST_TYPE, MAP_TYPE, PRESERVE_UNKNOWN_FIELDS,
    VALIDATIONS,
};

#[derive(Clone, Copy, PartialEq)]
enum Level {
    Root,
    Item,
    Field,
}

/// What keeps a schema from being structural, in order of the messages.
pub(super) fn errors(schema: &Value, place: Place<'_>) -> Vec<FieldError> {
    let mut walk = Walk { place, errors: Vec::new() };
    walk.structure(schema, Level::Root, &Path::ROOT);
    completeness::check(schema, place, &mut walk.errors);
    walk.errors.sort_by_cached_key(ToString::to_string);
    walk.errors
}

struct Walk<'a> {
    place: Place<'a>,
    errors: Vec<FieldError>,
}

impl Walk<'_> {
    fn forbid(&mut self, path: &Path<'_>, keyword: &str, detail: &str) {
        self.errors.push(FieldError::forbidden(self.place.at(path.field(keyword)), detail));
    }

    fn require(&mut self, path: &Path<'_>, keyword: &str, detail: &str) {
        self.errors.push(FieldError::required(self.place.at(path.field(keyword)), detail));
    }

    fn invalid(&mut self, path: &Path<'_>, keyword: &str, value: impl Into<Value>, detail: &str) {
        self.errors.push(FieldError::invalid(self.place.at(path.field(keyword)), value, detail));
    }

    fn structure(&mut self, schema: &Value, level: Level, path: &Path<'_>) {
        let kind = json::text(schema, "type");
        let items = json::schema(schema, "items");
        if kind == "array" && items.is_none() {
            self.require(path, "items", "must be specified");
        }
        if let Some(items) = items {
            self.structure(items, Level::Item, &path.field("items"));
        }
        let properties = path.field("properties");
        for (name, property) in json::fields(schema, "properties") {
            self.structure(property, Level::Field, &properties.key(name));
        }
        let additional = json::present(schema, "additionalProperties");
        if additional.is_some() && level == Level::Root {
            self.forbid(path, "additionalProperties", "must not be used at the root");
        }
        if let Some(values) = json::schema(schema, "additionalProperties") {
            self.structure(values, Level::Field, &path.field("additionalProperties"));
        }
        self.extensions(schema, path);
        let int_or_string = IntOrString::of(schema);
        self.value_validation(schema, int_or_string, path);
        self.kind(schema, kind, level, path);
        let embedded = json::flag(schema, EMBEDDED_RESOURCE);
        if embedded && additional.is_some() {
            let detail = "must not be used if x-kubernetes-embedded-resource is set";
            self.forbid(path, "additionalProperties", detail);
        }
        self.metadata(schema, level, embedded, path);
        if embedded && !json::flag(schema, PRESERVE_UNKNOWN_FIELDS) && !json::has_fields(schema, "properties")
        {
            let detail = "must not be empty if x-kubernetes-embedded-resource is true without \
                          x-kubernetes-preserve-unknown-fields";
            self.require(path, "properties", detail);
        }
    }

    fn extensions(&mut self, schema: &Value, path: &Path<'_>) {
        if !json::flag(schema, INT_OR_STRING) {
            return;
        }
        for keyword in [PRESERVE_UNKNOWN_FIELDS, EMBEDDED_RESOURCE] {
            if json::flag(schema, keyword) {
                self.invalid(path, keyword, true, "must be false if x-kubernetes-int-or-string is true");
            }
        }
    }

    fn kind(&mut self, schema: &Value, kind: &str, level: Level, path: &Path<'_>) {
        let free = json::flag(schema, INT_OR_STRING) || json::flag(schema, PRESERVE_UNKNOWN_FIELDS);
        let embedded = json::flag(schema, EMBEDDED_RESOURCE);
        match (kind, embedded) {
            ("object", true) => {}
            ("", true) => {
                self.require(path, "type", "must be object if x-kubernetes-embedded-resource is true");
            }
            (other, true) => {
                self.invalid(path, "type", other, "must be object if x-kubernetes-embedded-resource is true");
            }
            ("", false) if !free => {
                let detail = match level {
                    Level::Root => "must not be empty at the root",
                    Level::Item => "must not be empty for specified array items",
                    Level::Field => "must not be empty for specified object fields",
                };
                self.require(path, "type", detail);
            }
            _ => {}
        }
        if level == Level::Root && !kind.is_empty() && kind != "object" {
            self.invalid(path, "type", kind, "must be object at the root");
        }
    }

    fn metadata(&mut self, schema: &Value, level: Level, embedded: bool, path: &Path<'_>) {
        let resource = level == Level::Root || embedded;
        let properties = path.field("properties");
        for name in ["kind", "apiVersion"] {
            if let (true, Some(property)) = (resource, json::property(schema, name)) {
                let kind = json::text(property, "type");
                if kind != "string" {
                    self.invalid(&properties.key(name), "type", kind, "must be string");
                }
            }
        }
        let Some(metadata) = json::property(schema, "metadata") else { return };
        let path = properties.key("metadata");
        let kind = json::text(metadata, "type");
        if resource && kind != "object" {
            self.invalid(&path, "type", kind, "must be object");
        }
        if level == Level::Root && !restricts_names_only(metadata) {
            let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
            self.errors.push(FieldError::forbidden(self.place.at(path), detail));
        }
    }

    /// Value validations under `allOf` and the like must not add structure.
    fn value_validation(&mut self, schema: &Value, int_or_string: IntOrString, path: &Path<'_>) {
        if int_or_string != IntOrString::AnyOf {
            self.branches(schema, "anyOf", path, false);
        }
        self.branches(schema, "allOf", path, int_or_string == IntOrString::AllOf);
        self.branches(schema, "oneOf", path, false);
        if let Some(not) = json::schema(schema, "not") {
            self.nested(not, IntOrString::Not, &path.field("not"));
        }
        let pattern = json::text(schema, "pattern");
        if let Err(error) = compile_pattern(pattern) {
            let detail =
                format!("must be a valid regular expression, but isn't: {}", regex_error(pattern, &error));
            self.invalid(path, "pattern", pattern, &detail);
        }
    }

    fn branches(&mut self, schema: &Value, keyword: &str, path: &Path<'_>, first_is_int_or_string: bool) {
        let path = path.field(keyword);
        for (index, branch) in json::list(schema, keyword).iter().enumerate() {
            let pattern =
                if first_is_int_or_string && index == 0 { IntOrString::AnyOf } else { IntOrString::Not };
            self.nested(branch, pattern, &path.index(index));
        }
    }

    fn nested(&mut self, schema: &Value, int_or_string: IntOrString, path: &Path<'_>) {
        self.value_validation(schema, int_or_string, path);
        if let Some(items) = json::schema(schema, "items") {
            self.nested(items, IntOrString::Not, &path.field("items"));
        }
        let properties = path.field("properties");
        for (name, property) in json::fields(schema, "properties") {
            self.nested(property, IntOrString::Not, &properties.key(name));
        }
        if matches!(json::present(schema, "additionalProperties"), Some(value) if *value != Value::Bool(false))
        {
            self.forbid(path, "additionalProperties", "must be undefined to be structural");
        }
        if json::present(schema, "default").is_some() {
            self.forbid(path, "default", "must be undefined to be structural");
        }
        for keyword in ["type", "title", "description"] {
            if !json::text(schema, keyword).is_empty() {
                self.forbid(path, keyword, "must be empty to be structural");
            }
        }
        for keyword in ["nullable", PRESERVE_UNKNOWN_FIELDS, EMBEDDED_RESOURCE, INT_OR_STRING] {
            if json::flag(schema, keyword) {
                self.forbid(path, keyword, "must be false to be structural");
            }
        }
        for keyword in [LIST_MAP_KEYS, VALIDATIONS] {
            if !json::list(schema, keyword).is_empty() {
                self.forbid(path, keyword, "must be empty to be structural");
            }
        }
        for keyword in [LIST_TYPE, MAP_TYPE] {
            if json::present(schema, keyword).is_some() {
                self.forbid(path, keyword, "must be undefined to be structural");
            }
        }
        if json::property(schema, "metadata").is_some() {
            let path = self.place.at(properties.key("metadata"));
            self.errors.push(FieldError::forbidden(path, "must not be specified in a nested context"));
        }
    }
}

/// Where an int-or-string spells out its two types, which is the one place that types may stand in a branch.
#[derive(Clone, Copy, PartialEq)]
enum IntOrString {
    Not,
    AnyOf,
    AllOf,
}

impl IntOrString {
    fn of(schema: &Value) -> IntOrString {
        let types = json!([{"type": "integer"}, {"type": "string"}]);
        if schema.get("anyOf") == Some(&types) {
            IntOrString::AnyOf
        } else if json::list(schema, "allOf").first().and_then(|first| first.get("anyOf")) == Some(&types) {
            IntOrString::AllOf
        } else {
            IntOrString::Not
        }
    }
}

/// Whether the schema of the root's metadata says nothing but how the object may be called.
fn restricts_names_only(metadata: &Value) -> bool {
    let names_only =
        json::fields(metadata, "properties").all(|(name, _)| name == "name" || name == "generateName");
    let nothing_else = metadata.as_object().is_some_and(|fields| {
        fields.iter().all(|(keyword, value)| {
            matches!(&**keyword, "properties" | "type" | "default")
                || value.is_null()
                || *value == Value::Bool(false)
        })
    });
    names_only && nothing_else
}

/// What is wrong with an expression, in the words of Go's engine where it has some.
fn regex_error(pattern: &str, error: &regex::Error) -> String {
    let text = error.to_string();
    let reason = text.lines().last().unwrap_or_default();
    let reason = reason.strip_prefix("error: ").unwrap_or(reason);
    // The line with the pattern is followed by one with a mark.
    let mark = text.lines().nth(2).and_then(|line| line.strip_prefix("    ")).and_then(|line| line.find('^'));
    let from = mark.and_then(|mark| pattern.get(mark..)).unwrap_or(pattern);
    let one = |from: &str, count: usize| from.chars().take(count).collect::<String>();
    let (reason, part) = match reason {
        "unclosed character class" => ("missing closing ]", from.to_owned()),
        "unclosed group" => ("missing closing )", pattern.to_owned()),
        "unopened group" => ("unexpected )", pattern.to_owned()),
        "repetition operator missing expression" => ("missing argument to repetition operator", one(from, 1)),
        "unrecognized escape sequence" => ("invalid escape sequence", one(from, 2)),
        reason if reason.starts_with("look-around") => ("invalid or unsupported Perl syntax", one(from, 3)),
        reason if reason.starts_with("invalid character class range") => {
            ("invalid character class range", one(from, 3))
        }
        "incomplete escape sequence, reached end of pattern prematurely" => {
            ("trailing backslash at end of expression", String::new())
        }
        reason => return format!("error parsing regexp: {reason}"),
    };
    format!("error parsing regexp: {reason}: `{part}`")
}
