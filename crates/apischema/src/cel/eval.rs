//! Trees to values.

use std::collections::HashMap;
use std::rc::Rc;

use regex::Regex;
use serde_json::Value as Json;

use crate::schema::{Schema, compile_computed_pattern};

use super::EvalError;
use super::ast::{
    Call, Comprehension, ComprehensionKind, Element, Entry, Kind, Literal, Node, OptionalMap, Select,
    SelectMode,
};
use super::checker::{OLD_SELF_SLOT, OldSelf, SELF_SLOT};
use super::equality::equal;
use super::functions::Cost;
use super::value::{Evaluated, Map, Val};

const LIST_COST: u64 = 10;
const MAP_COST: u64 = 30;
/// Compiling takes far longer than matching.
const PATTERN_COST: u64 = 2_000;
const MAX_PATTERNS: usize = 16;

/// An evaluation under way.
pub(super) struct Evaluator<'a> {
    variables: Vec<Val<'a>>,
    /// Patterns that are no literals, since the same one is often used again.
    patterns: HashMap<String, Regex>,
    cost: u64,
    limit: u64,
}

impl<'a> Evaluator<'a> {
    pub(super) fn new(slots: usize, limit: u64) -> Self {
        Evaluator { variables: vec![Val::Null; slots], patterns: HashMap::new(), cost: 0, limit }
    }

    pub(super) fn cost(&self) -> u64 {
        self.cost
    }

    pub(super) fn start(
        &mut self,
        root: &'a Node,
        this: &'a Json,
        old: Option<&'a Json>,
        old_self: OldSelf,
        schema: &'a Schema,
    ) -> Evaluated<'a> {
        self.variables[SELF_SLOT] = Val::from_json(this, schema)?;
        let old = old.map(|old| Val::from_json(old, schema)).transpose()?;
        self.variables[OLD_SELF_SLOT] = match old_self {
            OldSelf::Optional => Val::optional(old),
            OldSelf::Given => old.unwrap_or(Val::Null),
        };
        self.node(root)
    }

    fn charge(&mut self, cost: u64) -> Result<(), EvalError> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limit { Err(EvalError::cancelled()) } else { Ok(()) }
    }

    fn node(&mut self, node: &'a Node) -> Evaluated<'a> {
        match &node.kind {
            Kind::Literal(literal) => Ok(literal_value(literal)),
            Kind::TypeName(name) => Ok(Val::Type(name)),
            Kind::Variable { slot, .. } => {
                self.charge(1)?;
                Ok(self.variables[*slot].clone())
            }
            Kind::Select(select) => self.select(select),
            Kind::Call(call) => self.call(call),
            Kind::And(terms) => self.logical(terms, false),
            Kind::Or(terms) => self.logical(terms, true),
            Kind::Choice(parts) => {
                let [condition, then, otherwise] = &**parts;
                match self.node(condition)? {
                    Val::Bool(true) => self.node(then),
                    Val::Bool(false) => self.node(otherwise),
                    _ => Err(EvalError::no_such_overload()),
                }
            }
            Kind::List(elements) => self.list(elements),
            Kind::Map(entries) => self.map(entries),
            Kind::Comprehension(comprehension) => self.comprehension(comprehension),
            Kind::OptionalMap(optional) => self.optional_map(optional),
        }
    }

    /// `&&` and `||`: one side may decide whatever is wrong with the other.
    fn logical(&mut self, [left, right]: &'a [Node; 2], decides: bool) -> Evaluated<'a> {
        let left = self.node(left);
        if matches!(left, Ok(Val::Bool(value)) if value == decides) || is_cancelled(&left) {
            return left;
        }
        let right = self.node(right);
        match (left, right) {
            (_, Ok(Val::Bool(value))) if value == decides => Ok(Val::Bool(decides)),
            (Err(error), _) | (_, Err(error)) => Err(error),
            (Ok(Val::Bool(_)), Ok(Val::Bool(_))) => Ok(Val::Bool(!decides)),
            _ => Err(EvalError::no_such_overload()),
        }
    }

    fn select(&mut self, select: &'a Select) -> Evaluated<'a> {
        let Select { operand, field, unescaped, mode } = select;
        let operand = self.node(operand)?;
        if *mode != SelectMode::Presence {
            self.charge(1)?;
        }
        let (target, was_optional) = match operand {
            Val::Optional(None) => {
                return Ok(if *mode == SelectMode::Presence {
                    Val::Bool(false)
                } else {
                    Val::Optional(None)
                });
            }
            Val::Optional(Some(inner)) => (*inner, true),
            other => (other, false),
        };
        let Val::Map(map) = target else { return Err(EvalError::no_such_overload()) };
        let found = map.field(field, unescaped.as_deref());
        match mode {
            SelectMode::Presence => Ok(Val::Bool(found.is_some())),
            SelectMode::Value if !was_optional => {
                found.unwrap_or_else(|| Err(EvalError::new(format!("no such key: {field}"))))
            }
            SelectMode::Value | SelectMode::Optional => Ok(Val::optional(found.transpose()?)),
        }
    }

    fn call(&mut self, call: &'a Call) -> Evaluated<'a> {
        let Call { target, arguments, implementation, regex, .. } = call;
        // Most calls have few arguments.
        let mut values = Vec::with_capacity(arguments.len() + 1);
        for node in target.iter().chain(arguments) {
            values.push(self.node(node)?);
        }
        let implementation = implementation.ok_or_else(EvalError::no_such_overload)?;
        self.charge(match implementation.cost {
            Cost::Constant => 1,
            Cost::Traversal => values.iter().map(traversal_cost).sum::<u64>() + 1,
            Cost::Regex => regex_cost(&values),
        })?;
        match (implementation.cost, regex, values.get(1)) {
            (Cost::Regex, None, Some(Val::String(pattern))) => {
                let regex = self.pattern(pattern)?;
                (implementation.run)(&values, Some(&regex))
            }
            _ => (implementation.run)(&values, regex.as_ref()),
        }
    }

    /// The compiled form of a pattern that was computed.
    fn pattern(&mut self, pattern: &str) -> Result<Regex, EvalError> {
        if let Some(regex) = self.patterns.get(pattern) {
            return Ok(regex.clone());
        }
        self.charge(PATTERN_COST)?;
        let regex = compile_computed_pattern(pattern)
            .map_err(|error| EvalError::new(format!("Illegal regex: {error}")))?;
        // A few are enough for loops in loops; all would be too much to hold.
        if self.patterns.len() == MAX_PATTERNS {
            self.patterns.clear();
        }
        self.patterns.insert(pattern.to_owned(), regex.clone());
        Ok(regex)
    }

    fn list(&mut self, elements: &'a [Element]) -> Evaluated<'a> {
        self.charge(LIST_COST)?;
        let mut items = Vec::with_capacity(elements.len());
        for Element { value, optional } in elements {
            match (self.node(value)?, optional) {
                (Val::Optional(inner), true) => items.extend(inner.map(|inner| *inner)),
                (_, true) => return Err(EvalError::no_such_overload()),
                (value, false) => items.push(value),
            }
        }
        Ok(Val::list(items))
    }

    fn map(&mut self, entries: &'a [Entry]) -> Evaluated<'a> {
        self.charge(MAP_COST)?;
        let mut values: Vec<(Val<'a>, Val<'a>)> = Vec::with_capacity(entries.len());
        for Entry { key, value, optional } in entries {
            let key = self.node(key)?;
            let value = match (self.node(value)?, optional) {
                (Val::Optional(None), true) => continue,
                (Val::Optional(Some(inner)), true) => *inner,
                (_, true) => return Err(EvalError::no_such_overload()),
                (value, false) => value,
            };
            self.charge(values.len() as u64)?;
            for (known, _) in &values {
                if equal(known, &key)? {
                    return Err(EvalError::new("Failed with repeated key"));
                }
            }
            values.push((key, value));
        }
        Ok(Val::Map(Map::Values(Rc::new(values))))
    }

    fn comprehension(&mut self, comprehension: &'a Comprehension) -> Evaluated<'a> {
        let range = self.node(&comprehension.range)?;
        let mut fold = Fold::new(comprehension.kind);
        match range {
            Val::List(list) => {
                for (index, item) in list.iter().enumerate() {
                    let first = if comprehension.variables.len() == 1 {
                        item
                    } else {
                        self.variables[comprehension.slot + 1] = item?;
                        Ok(Val::Int(index as i64))
                    };
                    if self.step(comprehension, first?, &mut fold)? {
                        break;
                    }
                }
            }
            Val::Map(map) => {
                for (key, value) in map.entries() {
                    if comprehension.variables.len() == 2 {
                        self.variables[comprehension.slot + 1] = value?;
                    }
                    if self.step(comprehension, key, &mut fold)? {
                        break;
                    }
                }
            }
            _ => return Err(EvalError::no_such_overload()),
        }
        fold.finish()
    }

    /// Does one element, and tells whether it was the last that matters.
    fn step(
        &mut self,
        comprehension: &'a Comprehension,
        first: Val<'a>,
        fold: &mut Fold<'a>,
    ) -> Result<bool, EvalError> {
        self.charge(1)?;
        let Comprehension { filter, body, slot, .. } = comprehension;
        self.variables[*slot] = first;
        if let Some(filter) = filter
            && !truth(&self.node(filter)?)?
        {
            return Ok(false);
        }
        let result = self.node(body);
        if is_cancelled(&result) {
            return result.map(|_| true);
        }
        // A body that has its own comprehensions does not touch this one's variables.
        let first = &self.variables[*slot];
        fold.add(first, result)
    }

    fn optional_map(&mut self, optional: &'a OptionalMap) -> Evaluated<'a> {
        let OptionalMap { operand, body, flat, slot, .. } = optional;
        match self.node(operand)? {
            Val::Optional(None) => Ok(Val::Optional(None)),
            Val::Optional(Some(inner)) => {
                self.variables[*slot] = *inner;
                let result = self.node(body)?;
                Ok(if *flat { result } else { Val::optional(Some(result)) })
            }
            _ => Err(EvalError::no_such_overload()),
        }
    }
}

/// What a comprehension has come to.
struct Fold<'a> {
    kind: ComprehensionKind,
    /// What one element said that others may still overrule.
    error: Option<EvalError>,
    decided: bool,
    count: u64,
    items: Vec<Val<'a>>,
    entries: Vec<(Val<'a>, Val<'a>)>,
}

impl<'a> Fold<'a> {
    fn new(kind: ComprehensionKind) -> Self {
        Fold { kind, error: None, decided: false, count: 0, items: Vec::new(), entries: Vec::new() }
    }

    fn add(&mut self, first: &Val<'a>, result: Evaluated<'a>) -> Result<bool, EvalError> {
        match self.kind {
            ComprehensionKind::All | ComprehensionKind::Exists => {
                let decides = self.kind == ComprehensionKind::Exists;
                match result.and_then(|value| truth(&value)) {
                    Ok(value) if value == decides => {
                        self.decided = true;
                        return Ok(true);
                    }
                    Ok(_) => {}
                    Err(error) => {
                        self.error.get_or_insert(error);
                    }
                }
            }
            ComprehensionKind::ExistsOne => self.count += u64::from(truth(&result?)?),
            ComprehensionKind::List => self.items.push(result?),
            ComprehensionKind::Filter => {
                if truth(&result?)? {
                    self.items.push(first.clone());
                }
            }
            ComprehensionKind::Map => self.entries.push((first.clone(), result?)),
        }
        Ok(false)
    }

    fn finish(self) -> Evaluated<'a> {
        match (self.kind, self.error) {
            (ComprehensionKind::Exists, _) if self.decided => Ok(Val::Bool(true)),
            (ComprehensionKind::All, _) if self.decided => Ok(Val::Bool(false)),
            (_, Some(error)) => Err(error),
            (ComprehensionKind::All, None) => Ok(Val::Bool(true)),
            (ComprehensionKind::Exists, None) => Ok(Val::Bool(false)),
            (ComprehensionKind::ExistsOne, None) => Ok(Val::Bool(self.count == 1)),
            (ComprehensionKind::List | ComprehensionKind::Filter, None) => Ok(Val::list(self.items)),
            (ComprehensionKind::Map, None) => Ok(Val::Map(Map::Values(Rc::new(self.entries)))),
        }
    }
}

fn truth(value: &Val<'_>) -> Result<bool, EvalError> {
    match value {
        Val::Bool(value) => Ok(*value),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn is_cancelled(result: &Evaluated<'_>) -> bool {
    matches!(result, Err(error) if error.cancelled)
}

fn literal_value(literal: &Literal) -> Val<'_> {
    match literal {
        Literal::Null => Val::Null,
        Literal::Bool(value) => Val::Bool(*value),
        Literal::Int(value) => Val::Int(*value),
        Literal::Uint(value) => Val::Uint(*value),
        Literal::Double(value) => Val::Double(*value),
        Literal::String(text) => Val::String(text.into()),
        Literal::Bytes(bytes) => Val::Bytes(bytes.as_slice().into()),
    }
}

/// What it costs to go through a value once.
fn traversal_cost(value: &Val<'_>) -> u64 {
    match value {
        Val::String(text) => text.len() as u64 / 10,
        Val::Bytes(bytes) => bytes.len() as u64 / 10,
        Val::List(list) => list.len() as u64,
        Val::Map(map) => map.len() as u64,
        Val::Optional(Some(inner)) => traversal_cost(inner),
        _ => 0,
    }
}

/// Text times pattern: what a matcher that never goes back may need.
fn regex_cost(values: &[Val<'_>]) -> u64 {
    let length = |index: usize| match values.get(index) {
        Some(Val::String(text)) => text.len() as u64,
        _ => 0,
    };
    ((1 + length(0)).div_ceil(10)) * (length(1).div_ceil(4)).max(1)
}
