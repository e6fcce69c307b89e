//! CEL rules are well-formed and compile.

use std::sync::Arc;

use serde_json::Value;

use super::{Place, json};
use crate::cel::max_cardinality;
use crate::field_error::{FieldError, RULE_FIELDS};
use crate::path::Path;
use crate::rules::{CompiledRule, RuleError, with_metadata};
use crate::schema::keywords::VALIDATIONS;
use crate::schema::{AdditionalProperties, ListType, Rule, Schema, Type};

const REASONS: &[&str] =
    &["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// Checks what can be seen without compiling.
pub(super) fn check_words(schema: &Value, place: Place<'_>, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let path = path.field(VALIDATIONS);
    for (index, rule) in json::list(schema, VALIDATIONS).iter().enumerate() {
        let path = path.index(index);
        let at = |keyword: &str| place.at(path.field(keyword));
        let (text, message) = (json::text(rule, "rule").trim(), json::text(rule, "message"));
        if text.is_empty() {
            errors.push(FieldError::required(at("rule"), "rule is not specified"));
        } else if !message.is_empty() && message.trim().is_empty() {
            errors.push(FieldError::invalid(at("message"), message, "must be non-empty if specified"));
        } else if has_line_break(message.trim()) {
            errors.push(FieldError::invalid(at("message"), message, "must not contain line breaks"));
        } else if has_line_break(text) && message.is_empty() {
            let detail = "message must be specified if rule contains line breaks";
            errors.push(FieldError::required(at("message"), detail));
        }
        let expression = json::text(rule, "messageExpression");
        if !expression.is_empty() && expression.trim().is_empty() {
            let detail = "messageExpression must be non-empty if specified";
            errors.push(FieldError::required(at("messageExpression"), detail));
        }
        if let Some(reason) = rule.get("reason").and_then(Value::as_str)
            && !REASONS.contains(&reason)
        {
            errors.push(FieldError::not_supported(at("reason"), reason, REASONS));
        }
        check_field_path(schema, json::text(rule, "fieldPath"), &at("fieldPath"), errors);
    }
}

fn check_field_path(schema: &Value, field_path: &str, path: &str, errors: &mut Vec<FieldError>) {
    if field_path.is_empty() {
        return;
    }
    let mut complain = |detail: &str| errors.push(FieldError::invalid(path, field_path, detail));
    if field_path.trim().is_empty() {
        complain("must be non-empty if specified");
    }
    if has_line_break(field_path) {
        complain("must not contain line breaks");
    }
    if Schema::from_json(schema).is_ok_and(|schema| crate::field_path::resolve(field_path, &schema).is_err())
    {
        complain("must be a valid path");
    }
}

fn has_line_break(text: &str) -> bool {
    text.contains(['\n', '\r'])
}

/// What one rule may cost at most.
const MAX_RULE_COST: u64 = 10_000_000;
/// What all rules of a schema may cost together.
const MAX_TOTAL_COST: u64 = 100_000_000;
/// How many of the most expensive rules are named when they cost too much together.
const NAMED_RULES: usize = 4;

/// Compiles rules and collects what is wrong with them.
pub(super) struct RuleContext<'a> {
    place: Place<'a>,
    errors: Vec<FieldError>,
    total_cost: u64,
    /// Where the rules are that count, and what they cost.
    expensive: Vec<(String, u64)>,
}

/// What holds for a schema because of where it is.
#[derive(Clone, Copy)]
struct Where<'a> {
    /// The outermost list whose elements cannot be told from each other.
    uncorrelated: Option<&'a Path<'a>>,
    /// How many values of it there can be, if the schemas around it say.
    cardinality: Option<u64>,
}

impl<'a> RuleContext<'a> {
    pub(super) fn new(place: Place<'a>) -> Self {
        RuleContext { place, errors: Vec::new(), total_cost: 0, expensive: Vec::new() }
    }

    pub(super) fn check(&mut self, schema: &Schema) {
        let visible = with_metadata(&Arc::new(schema.clone()), true);
        self.schema(&visible, &Path::ROOT, Where { uncorrelated: None, cardinality: Some(1) });
        if self.total_cost > MAX_TOTAL_COST {
            self.expensive.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
            let detail =
                "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            let expensive = std::mem::take(&mut self.expensive).into_iter().take(NAMED_RULES);
            self.errors.extend(expensive.map(|(path, _)| FieldError::forbidden(path, detail)));
            let total = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
            let detail = too_expensive(total, self.total_cost, MAX_TOTAL_COST);
            self.errors.push(FieldError::forbidden(self.place.prefix, detail));
        }
    }

    pub(super) fn into_errors(self) -> Vec<FieldError> {
        self.errors
    }

    fn schema(&mut self, schema: &Schema, path: &Path<'_>, here: Where<'_>) {
        let cardinality =
            here.cardinality.zip(factor(schema)).map(|(outer, factor)| outer.saturating_mul(factor));
        let inside = Where { cardinality, ..here };
        if let AdditionalProperties::Of(values) = &schema.additional {
            self.schema(values, &path.field("additionalProperties"), inside);
        }
        let properties = path.field("properties");
        for (name, property) in &schema.properties {
            self.schema(property, &properties.key(name), inside);
        }
        if let Some(items) = &schema.items {
            let map = matches!(schema.list_type, ListType::Map(_));
            let uncorrelated = here.uncorrelated.or((!map).then_some(path));
            self.schema(items, &path.field("items"), Where { uncorrelated, ..inside });
        }
        let rules = schema.validation.iter().flat_map(|validation| &validation.rules);
        let path = path.field(VALIDATIONS);
        for (index, rule) in rules.enumerate() {
            self.rule(rule, schema, &path.index(index), here);
        }
    }

    fn rule(&mut self, rule: &Rule, schema: &Schema, path: &Path<'_>, here: Where<'_>) {
        let place = self.place;
        let at = |keyword: &str| place.at(path.field(keyword));
        let compiled = match CompiledRule::compile(rule, schema) {
            Ok(compiled) => Some(compiled),
            Err(RuleError::Rule(detail)) => {
                self.errors.push(FieldError::invalid(at("rule"), shown(rule), detail));
                None
            }
            Err(RuleError::MessageExpression(detail)) => {
                self.errors.push(FieldError::invalid(at("messageExpression"), shown(rule), detail));
                None
            }
        };
        if let Some(compiled) = &compiled {
            let times = here.cardinality.unwrap_or_else(|| max_cardinality(schema));
            let cost = compiled.max_cost(schema).saturating_mul(times);
            self.observe(at("rule"), "estimated rule cost", cost);
            if let Some(cost) = compiled.max_message_cost(schema) {
                self.observe(at("messageExpression"), "estimated messageExpression cost", cost);
            }
        }
        if compiled.is_some_and(|compiled| compiled.uses_old_self()) {
            if let Some(list) = here.uncorrelated {
                let list = place.at(*list);
                let detail = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {list}"
                );
                self.errors.push(FieldError::invalid(at("rule"), rule.rule.as_str(), detail));
            }
        } else if rule.optional_old_self {
            let detail = "may not be set if oldSelf is not used in rule";
            self.errors.push(FieldError::invalid(at("optionalOldSelf"), true, detail));
        }
    }

    fn observe(&mut self, path: String, name: &str, cost: u64) {
        if cost > MAX_RULE_COST {
            self.errors.push(FieldError::forbidden(path.as_str(), too_expensive(name, cost, MAX_RULE_COST)));
        }
        self.total_cost = self.total_cost.saturating_add(cost);
        if cost >= MAX_TOTAL_COST / 100 {
            self.expensive.push((path, cost));
        }
    }
}

/// How many values there can be inside of one value of a schema, if it says.
fn factor(schema: &Schema) -> Option<u64> {
    let validation = schema.validation.as_deref();
    match (schema.kind, &schema.additional) {
        (Some(Type::Object), AdditionalProperties::Of(_) | AdditionalProperties::Any) => {
            validation?.max_properties
        }
        (Some(Type::Array), _) => validation?.max_items,
        _ => Some(1),
    }
}

fn too_expensive(name: &str, cost: u64, limit: u64) -> String {
    let times = cost as f64 / limit as f64;
    let times = if times > 100.0 {
        "more than 100x".to_owned()
    } else if times < 1.5 {
        format!("{times:.6}x")
    } else {
        format!("{times:.1}x")
    };
    format!(
        "{name} exceeds budget by factor of {times} (try simplifying the rule, or adding maxItems, maxProperties, and \
         maxLength where arrays, maps, and strings are declared)"
    )
}

/// A rule as kube-apiserver shows it in errors: under its own names, and with all fields.
fn shown(rule: &Rule) -> Value {
    let text = |text: &Option<String>| Value::from(text.clone().unwrap_or_default());
    let values = [
        rule.rule.as_str().into(),
        text(&rule.message),
        text(&rule.message_expression),
        rule.reason.clone().into(),
        text(&rule.field_path),
        rule.optional_old_self.then_some(true).into(),
    ];
    Value::Object(RULE_FIELDS.map(str::to_owned).into_iter().zip(values).collect())
}
