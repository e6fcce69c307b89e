//! A schema's CEL rules, compiled once and kept in the shape of the schema.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::cel::{OldSelf, Outcome, Program, Val};
use crate::field_error::{FieldError, FieldErrorKind};
use crate::field_path;
use crate::path::Path;
use crate::schema::{AdditionalProperties, Rule, Schema};
use crate::validate::{Correlated, OldItems, unchanged};

/// What one rule may cost for one value.
const COST_PER_RULE: u64 = 1_000_000;
/// What all rules together may cost for one object.
const COST_PER_OBJECT: u64 = 10_000_000;
/// How long the text of a message expression may be.
const MAX_MESSAGE: usize = 5 * 1024;

/// A rule ready to run.
#[derive(Debug)]
pub(crate) struct CompiledRule {
    rule: Rule,
    program: Program,
    message: Option<Program>,
    /// The field to blame, as Statuses write it.
    field: Option<String>,
}

/// What does not compile in a rule, and where.
#[derive(Debug)]
pub(crate) enum RuleError {
    Rule(String),
    MessageExpression(String),
}

impl CompiledRule {
    /// Compiles a rule about values of a schema.
    pub(crate) fn compile(rule: &Rule, schema: &Schema) -> Result<CompiledRule, RuleError> {
        let old_self = old_self(rule);
        let program = Program::compile(&rule.rule, schema, old_self)
            .map_err(|error| RuleError::Rule(format!("compilation failed: {error}")))?;
        if program.outcome != Outcome::Bool {
            return Err(RuleError::Rule("cel expression must evaluate to a bool".to_owned()));
        }
        let message = rule.message_expression.as_deref().map(|source| {
            let program = Program::compile(source, schema, old_self).map_err(|error| {
                RuleError::MessageExpression(format!("messageExpression compilation failed: {error}"))
            })?;
            if program.outcome != Outcome::Text {
                let complaint = "messageExpression must evaluate to a string";
                return Err(RuleError::MessageExpression(complaint.to_owned()));
            }
            Ok(program)
        });
        let field = rule.field_path.as_deref().and_then(|path| field_path::resolve(path, schema).ok());
        let field = field.map(|(path, _)| path);
        Ok(CompiledRule { rule: rule.clone(), program, message: message.transpose()?, field })
    }

    pub(crate) fn uses_old_self(&self) -> bool {
        self.program.uses_old_self
    }

    /// What the rule may cost at most for one value of its schema.
    pub(crate) fn max_cost(&self, schema: &Schema) -> u64 {
        self.program.max_cost(schema)
    }

    /// What its message may cost at most, if it is an expression.
    pub(crate) fn max_message_cost(&self, schema: &Schema) -> Option<u64> {
        self.message.as_ref().map(|program| program.max_cost(schema))
    }
}

fn old_self(rule: &Rule) -> OldSelf {
    if rule.optional_old_self { OldSelf::Optional } else { OldSelf::Given }
}

/// The rules of a schema and of all below it. There is a node only where there is a rule at it or below.
#[derive(Debug)]
pub(crate) struct Rules {
    /// The schema that rules here see: that of a resource always has a name, a kind and a version.
    schema: Arc<Schema>,
    here: Vec<StoredRule>,
    properties: BTreeMap<String, Rules>,
    items: Option<Box<Rules>>,
    additional: Option<Box<Rules>>,
}

/// A rule of a stored schema.
#[derive(Debug)]
enum StoredRule {
    Compiled(Box<CompiledRule>),
    /// It does not compile, for this reason: another version of the server may have taken it. Nothing is written that it is about.
    Broken(String),
}

impl StoredRule {
    fn compile(rule: &Rule, schema: &Schema) -> StoredRule {
        let compiled = match CompiledRule::compile(rule, schema) {
            // The rule holds, whether or not its message can be made.
            Err(RuleError::MessageExpression(_)) => {
                CompiledRule::compile(&Rule { message_expression: None, ..rule.clone() }, schema)
            }
            compiled => compiled,
        };
        match compiled {
            Ok(compiled) => StoredRule::Compiled(Box::new(compiled)),
            Err(RuleError::Rule(reason) | RuleError::MessageExpression(reason)) => StoredRule::Broken(reason),
        }
    }
}

impl Rules {
    /// Compiles the rules of a resource's schema.
    pub(crate) fn compile(schema: &Arc<Schema>) -> Option<Rules> {
        let visible = with_metadata(schema, true);
        Self::node(&visible)
    }

    fn node(schema: &Arc<Schema>) -> Option<Rules> {
        let rules = schema.validation.iter().flat_map(|validation| &validation.rules);
        let here: Vec<_> = rules.map(|rule| StoredRule::compile(rule, schema)).collect();
        let properties: BTreeMap<_, _> = schema
            .properties
            .iter()
            .filter_map(|(name, property)| Some((name.clone(), Self::node(property)?)))
            .collect();
        let items = schema.items.as_ref().and_then(Self::node).map(Box::new);
        let additional = match &schema.additional {
            AdditionalProperties::Of(values) => Self::node(values).map(Box::new),
            AdditionalProperties::Any | AdditionalProperties::None => None,
        };
        let any = !here.is_empty() || !properties.is_empty() || items.is_some() || additional.is_some();
        any.then(|| Rules { schema: schema.clone(), here, properties, items, additional })
    }

    /// What the rules say about an object, and about what it was before.
    pub(crate) fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut run = Run { budget: COST_PER_OBJECT, errors: Vec::new() };
        let correlation =
            Correlation { here: old.map(|old| Correlated { old, schema: &self.schema }), parent: None };
        // Once the budget is spent there is an error that says so; nothing more runs.
        let _ = run.node(self, new, old, correlation, &Path::ROOT);
        run.errors
    }

    /// What the rules of a schema inside of an object say about a value.
    pub(crate) fn validate_value(
        schema: &Arc<Schema>,
        new: &Value,
        old: Option<&Value>,
        path: &str,
    ) -> Vec<FieldError> {
        let visible = with_metadata(schema, schema.embedded_resource);
        let mut errors = Self::node(&visible).map_or(vec![], |rules| rules.validate(new, old));
        for error in &mut errors {
            error.path = if error.path == crate::path::ROOT_NAME {
                path.to_owned()
            } else if error.path.starts_with('[') {
                format!("{path}{}", error.path)
            } else {
                format!("{path}.{}", error.path)
            };
        }
        errors
    }
}

/// The schema as rules see it: a resource's kind, version and name are there whatever it says.
pub(crate) fn with_metadata(schema: &Arc<Schema>, is_resource: bool) -> Arc<Schema> {
    let embedded = |schema: &Arc<Schema>| with_metadata(schema, schema.embedded_resource);
    let properties: BTreeMap<_, _> =
        schema.properties.iter().map(|(name, property)| (name.clone(), embedded(property))).collect();
    let items = schema.items.as_ref().map(embedded);
    let additional = match &schema.additional {
        AdditionalProperties::Of(values) => AdditionalProperties::Of(embedded(values)),
        other => other.clone(),
    };
    let same = |a: &Arc<Schema>, b: &Arc<Schema>| Arc::ptr_eq(a, b);
    let unchanged = properties.iter().all(|(name, property)| same(property, &schema.properties[name]))
        && items.iter().zip(&schema.items).all(|(a, b)| same(a, b))
        && match (&additional, &schema.additional) {
            (AdditionalProperties::Of(a), AdditionalProperties::Of(b)) => same(a, b),
            _ => true,
        };
    if unchanged && (!is_resource || has_metadata(schema)) {
        return schema.clone();
    }
    let mut visible = Schema { properties, items, additional, ..Schema::clone(schema) };
    if is_resource && !has_metadata(schema) {
        let text = || Arc::new(Schema { kind: Some(crate::Type::String), ..Schema::default() });
        let metadata = Schema {
            kind: Some(crate::Type::Object),
            properties: ["name", "generateName"].map(|name| (name.to_owned(), text())).into(),
            ..Schema::default()
        };
        visible.properties.insert("kind".to_owned(), text());
        visible.properties.insert("apiVersion".to_owned(), text());
        // The rules of the metadata's own schema stay.
        let validation = schema.properties.get("metadata").and_then(|metadata| metadata.validation.clone());
        visible.properties.insert("metadata".to_owned(), Arc::new(Schema { validation, ..metadata }));
    }
    Arc::new(visible)
}

fn has_metadata(schema: &Schema) -> bool {
    let is = |schema: &Schema, name: &str, kind: crate::Type| {
        schema.properties.get(name).is_some_and(|property| property.kind == Some(kind))
    };
    let named = |metadata: &Arc<Schema>| {
        is(metadata, "name", crate::Type::String) && is(metadata, "generateName", crate::Type::String)
    };
    is(schema, "kind", crate::Type::String)
        && is(schema, "apiVersion", crate::Type::String)
        && is(schema, "metadata", crate::Type::Object)
        && schema.properties.get("metadata").is_some_and(named)
}

/// What a value was before, for errors that are let pass because nothing changed.
#[derive(Clone, Copy)]
struct Correlation<'a> {
    here: Option<Correlated<'a>>,
    /// The nearest value around it that is known from before, and what that was.
    parent: Option<(&'a Value, Correlated<'a>)>,
}

impl<'a> Correlation<'a> {
    fn inside(self, new: &'a Value, child: impl FnOnce(Correlated<'a>) -> Option<Correlated<'a>>) -> Self {
        match self.here {
            Some(here) => Correlation { here: child(here), parent: Some((new, here)) },
            None => self,
        }
    }

    fn is_unchanged(self, new: &Value) -> bool {
        match (self.here, self.parent) {
            (Some(here), _) => unchanged(new, here.old, here.schema),
            (None, Some((parent, here))) => unchanged(parent, here.old, here.schema),
            (None, None) => false,
        }
    }
}

/// No further rule may run.
struct Spent;

struct Run {
    budget: u64,
    errors: Vec<FieldError>,
}

impl Run {
    fn node<'a>(
        &mut self,
        rules: &'a Rules,
        new: &'a Value,
        old: Option<&'a Value>,
        correlation: Correlation<'a>,
        path: &Path<'_>,
    ) -> Result<(), Spent> {
        if new.is_null() {
            return Ok(());
        }
        let old = old.filter(|old| !old.is_null());
        self.rules(rules, new, old, correlation, path)?;
        match new {
            Value::Array(items) => {
                let Some(below) = &rules.items else { return Ok(()) };
                // What was there before is not looked up more than once.
                let before = old.map(|old| OldItems::new(old, &rules.schema));
                let find = |item: &Value| before.as_ref().and_then(|before| before.item(item));
                for (index, item) in items.iter().enumerate() {
                    let found = find(item);
                    let inner = correlation.inside(new, |_| found);
                    self.node(below, item, found.map(|found| found.old), inner, &path.index(index))?;
                }
            }
            Value::Object(fields) => {
                let before = |name: &str| old.and_then(|old| old.get(name));
                if let Some(below) = &rules.additional {
                    for (key, value) in fields {
                        let inner = correlation.inside(new, |here| here.field(key));
                        self.node(below, value, before(key), inner, &path.key(key))?;
                    }
                }
                for (name, below) in &rules.properties {
                    let Some(value) = fields.get(name) else { continue };
                    // A change of version cannot be seen.
                    let hidden = path.is_root() && matches!(&**name, "apiVersion" | "kind");
                    let inner = if hidden {
                        Correlation { here: None, parent: None }
                    } else {
                        correlation.inside(new, |here| here.field(name))
                    };
                    self.node(below, value, before(name), inner, &path.field(name))?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn rules<'a>(
        &mut self,
        rules: &'a Rules,
        new: &'a Value,
        old: Option<&'a Value>,
        correlation: Correlation<'a>,
        path: &Path<'_>,
    ) -> Result<(), Spent> {
        let kind = rules.schema.kind.map_or("", crate::Type::name);
        for stored in &rules.here {
            let compiled = match stored {
                StoredRule::Compiled(compiled) => compiled,
                StoredRule::Broken(reason) => {
                    let detail = format!("rule compile error: {reason}");
                    self.errors.push(FieldError::invalid(path.to_field_path(), kind, detail));
                    continue;
                }
            };
            let CompiledRule { rule, program, .. } = &**compiled;
            if program.uses_old_self && old.is_none() && !rule.optional_old_self {
                continue;
            }
            let evaluation = program.evaluate(new, old, old_self(rule), &rules.schema, COST_PER_RULE);
            if evaluation.cost > self.budget {
                let detail = format!(
                    "validation failed due to running out of cost budget, no further validation rules will be run: {}",
                    shown(rule)
                );
                self.errors.push(FieldError::invalid(path.to_field_path(), kind, detail));
                return Err(Spent);
            }
            self.budget -= evaluation.cost;
            match evaluation.result {
                Ok(Val::Bool(true)) => {}
                Ok(_) => {
                    let error = self.violation(compiled, new, old, &rules.schema, kind, path);
                    let (error, spent) = match error {
                        Ok(error) => (error, false),
                        Err(error) => (error, true),
                    };
                    // What was wrong before and has not changed is let pass; a rule about the change is not.
                    if program.uses_old_self || !correlation.is_unchanged(new) {
                        self.errors.push(error);
                    }
                    if spent {
                        return Err(Spent);
                    }
                }
                Err(error) => {
                    let cancelled = error.cancelled;
                    let detail = if cancelled {
                        format!(
                            "'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {}",
                            shown(rule)
                        )
                    } else if error.to_string().starts_with("no such overload") {
                        format!(
                            "'{error}': call arguments did not match a supported operator, function or macro signature \
                             for rule: {}",
                            shown(rule)
                        )
                    } else {
                        format!("{error} evaluating rule: {}", shown(rule))
                    };
                    self.errors.push(FieldError::invalid(path.to_field_path(), kind, detail));
                    if cancelled {
                        return Err(Spent);
                    }
                }
            }
        }
        Ok(())
    }

    /// The error of a rule that does not hold. It is the last one if its message used up what was left.
    fn violation(
        &mut self,
        compiled: &CompiledRule,
        new: &Value,
        old: Option<&Value>,
        schema: &Schema,
        kind: &str,
        path: &Path<'_>,
    ) -> Result<FieldError, FieldError> {
        let CompiledRule { rule, message, field, .. } = compiled;
        let path = match field {
            Some(field) if path.is_root() => field.clone(),
            Some(field) if field.starts_with('[') => format!("{}{field}", path.to_field_path()),
            Some(field) => format!("{}.{field}", path.to_field_path()),
            None => path.to_field_path(),
        };
        let default = || {
            let own = rule.message.as_deref().map(str::trim);
            own.map_or_else(|| format!("failed rule: {}", shown(rule)), str::to_owned)
        };
        let Some(program) = message else { return Ok(error_for_reason(path, kind, default(), rule)) };
        let evaluation = program.evaluate(new, old, old_self(rule), schema, COST_PER_RULE);
        if evaluation.cost > self.budget {
            let detail = "messageExpression evaluation failed due to running out of cost budget, no further validation \
                          rules will be run";
            return Err(FieldError::invalid(path, kind, detail));
        }
        self.budget -= evaluation.cost;
        let text = match evaluation.result {
            Ok(Val::String(text)) => text.trim().to_owned(),
            Err(error) if error.cancelled => {
                let source = crate::go_text::quote(rule.message_expression.as_deref().unwrap_or_default());
                let detail = format!(
                    "no further validation rules will be run due to call cost exceeds limit for messageExpression: {source}"
                );
                return Err(FieldError::invalid(path, kind, detail));
            }
            _ => String::new(),
        };
        let usable = !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n');
        Ok(error_for_reason(path, kind, if usable { text } else { default() }, rule))
    }
}

/// How a rule is called in messages.
fn shown(rule: &Rule) -> &str {
    rule.message.as_deref().unwrap_or(&rule.rule).trim()
}

fn error_for_reason(path: String, kind: &str, detail: String, rule: &Rule) -> FieldError {
    match rule.reason.as_deref() {
        Some("FieldValueForbidden") => FieldError::forbidden(path, detail),
        Some("FieldValueRequired") => FieldError::required(path, detail),
        Some("FieldValueDuplicate") => {
            FieldError { kind: FieldErrorKind::Duplicate, path, value: kind.into(), detail: String::new() }
        }
        _ => FieldError::invalid(path, kind, detail),
    }
}
