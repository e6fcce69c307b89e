//! Schemas as OpenAPI v3.

use serde_json::{Map, Value};

use super::keywords::{
    EMBEDDED_RESOURCE, INT_OR_STRING, LIST_MAP_KEYS, LIST_TYPE, MAP_TYPE, PATCH_MERGE_KEY, PATCH_STRATEGY,
    PRESERVE_UNKNOWN_FIELDS, VALIDATIONS,
};
use super::{AdditionalProperties, ListType, MapType, PatchStrategy, Rule, Schema, Validation};

impl Schema {
    /// The schema as OpenAPI v3 has it, with Kubernetes' extensions. [`Schema::from_json`] reads it back.
    pub fn to_json(&self) -> Value {
        let mut json = Map::new();
        self.write_meaning(&mut json);
        self.write_structure(&mut json);
        self.write_extensions(&mut json);
        if let Some(validation) = &self.validation {
            validation.write(&mut json);
        }
        Value::Object(json)
    }

    fn write_meaning(&self, json: &mut Map<String, Value>) {
        if let Some(kind) = self.kind {
            put(json, "type", kind.name());
        }
        for (keyword, text) in
            [("description", &self.description), ("title", &self.title), ("format", &self.format)]
        {
            if !text.is_empty() {
                put(json, keyword, text.as_str());
            }
        }
        flag(json, "nullable", self.nullable);
        if let Some(default) = &self.default {
            put(json, "default", default.clone());
        }
    }

    fn write_structure(&self, json: &mut Map<String, Value>) {
        if !self.properties.is_empty() {
            let properties = self.properties.iter().map(|(name, schema)| (name.clone(), schema.to_json()));
            put(json, "properties", Value::Object(properties.collect()));
        }
        match &self.additional {
            AdditionalProperties::None => {}
            AdditionalProperties::Any => put(json, "additionalProperties", true),
            AdditionalProperties::Of(schema) => put(json, "additionalProperties", schema.to_json()),
        }
        if let Some(items) = &self.items {
            put(json, "items", items.to_json());
        }
        if !self.required.is_empty() {
            put(json, "required", self.required.clone());
        }
    }

    fn write_extensions(&self, json: &mut Map<String, Value>) {
        match &self.list_type {
            ListType::Atomic if self.list_type_stated => put(json, LIST_TYPE, "atomic"),
            ListType::Atomic => {}
            ListType::Set => put(json, LIST_TYPE, "set"),
            ListType::Map(keys) => {
                put(json, LIST_TYPE, "map");
                put(json, LIST_MAP_KEYS, keys.clone());
            }
        }
        if self.map_type == MapType::Atomic {
            put(json, MAP_TYPE, "atomic");
        }
        self.patch.write(json);
        flag(json, PRESERVE_UNKNOWN_FIELDS, self.preserve_unknown_fields);
        flag(json, EMBEDDED_RESOURCE, self.embedded_resource);
        flag(json, INT_OR_STRING, self.int_or_string);
    }
}

impl PatchStrategy {
    fn write(&self, json: &mut Map<String, Value>) {
        let strategies: Vec<_> = [(self.merge, "merge"), (self.retain_keys, "retainKeys")]
            .into_iter()
            .filter_map(|(chosen, name)| chosen.then_some(name))
            .collect();
        if !strategies.is_empty() {
            put(json, PATCH_STRATEGY, strategies.join(","));
        }
        if let Some(key) = &self.merge_key {
            put(json, PATCH_MERGE_KEY, key.as_str());
        }
    }
}

impl Validation {
    fn write(&self, json: &mut Map<String, Value>) {
        if !self.one_of_values.is_empty() {
            put(json, "enum", self.one_of_values.clone());
        }
        let numbers =
            [("minimum", self.minimum), ("maximum", self.maximum), ("multipleOf", self.multiple_of)];
        for (keyword, limit) in numbers {
            if let Some(limit) = limit {
                put(json, keyword, number(limit));
            }
        }
        let counts = [
            ("minLength", self.min_length),
            ("maxLength", self.max_length),
            ("minItems", self.min_items),
            ("maxItems", self.max_items),
            ("minProperties", self.min_properties),
            ("maxProperties", self.max_properties),
        ];
        for (keyword, limit) in counts {
            if let Some(limit) = limit {
                put(json, keyword, limit);
            }
        }
        flag(json, "exclusiveMinimum", self.exclusive_minimum);
        flag(json, "exclusiveMaximum", self.exclusive_maximum);
        flag(json, "uniqueItems", self.unique_items);
        if let Some(pattern) = &self.pattern {
            put(json, "pattern", pattern.as_str());
        }
        for (keyword, schemas) in [("allOf", &self.all_of), ("anyOf", &self.any_of), ("oneOf", &self.one_of)]
        {
            if !schemas.is_empty() {
                put(json, keyword, schemas.iter().map(Schema::to_json).collect::<Vec<_>>());
            }
        }
        if let Some(not) = &self.not {
            put(json, "not", not.to_json());
        }
        if !self.rules.is_empty() {
            put(json, VALIDATIONS, self.rules.iter().map(Rule::to_json).collect::<Vec<_>>());
        }
    }
}

impl Rule {
    fn to_json(&self) -> Value {
        let mut json = Map::new();
        put(&mut json, "rule", self.rule.as_str());
        let texts = [
            ("message", &self.message),
            ("messageExpression", &self.message_expression),
            ("reason", &self.reason),
            ("fieldPath", &self.field_path),
        ];
        for (keyword, text) in texts {
            if let Some(text) = text {
                put(&mut json, keyword, text.as_str());
            }
        }
        flag(&mut json, "optionalOldSelf", self.optional_old_self);
        Value::Object(json)
    }
}

fn put(json: &mut Map<String, Value>, keyword: &str, value: impl Into<Value>) {
    json.insert(keyword.to_owned(), value.into());
}

fn flag(json: &mut Map<String, Value>, keyword: &str, set: bool) {
    if set {
        put(json, keyword, true);
    }
}

/// A whole number is written without a point, as every Kubernetes client writes it.
fn number(limit: f64) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if limit.fract() == 0.0 && limit.abs() <= EXACT { Value::from(limit as i64) } else { Value::from(limit) }
}
