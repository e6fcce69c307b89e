//! The Common Expression Language, as far as Kubernetes' validation rules use it.
//!
//! An engine of our own, because three things are needed together: expressions are checked against the schema's types when
//! a CRD is made, they run on JSON where it is, and they cannot run for long whatever they are and whatever they are given.
//!
//! ```text
//! text ─ lexer ─ parser, macros ─▶ tree ─ checker ─▶ Program ─ eval ─▶ value, cost
//! ```

mod ast;
mod checker;
mod equality;
pub(crate) mod escape;
mod estimate;
mod eval;
mod functions;
mod lexer;
mod macros;
mod parser;
mod signatures;
mod size;
mod time;
mod types;
mod value;

use serde_json::Value;
use thiserror::Error;

use crate::schema::Schema;

pub(crate) use checker::OldSelf;
pub(crate) use size::max_cardinality;
pub(crate) use time::{Timestamp, parse_zone};
use types::Type;
pub(crate) use value::Val;

/// Why an expression is none. The text shows where.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub(crate) struct CompileError(String);

impl CompileError {
    fn new(message: String) -> Self {
        CompileError(message)
    }

    fn at(source: &str, offset: usize, message: &str) -> Self {
        CompileError(Self::line(source, offset, message))
    }

    /// A message with the line it is about, and a mark below it.
    fn line(source: &str, offset: usize, message: &str) -> String {
        let offset = offset.min(source.len());
        let before = source.get(..offset).unwrap_or(source);
        let number = before.matches('\n').count() + 1;
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let column = source.get(start..offset).unwrap_or_default().chars().count();
        let text = source[start..].lines().next().unwrap_or_default().replace('\t', " ");
        let dots = ".".repeat(column);
        format!("ERROR: <input>:{number}:{}: {message}\n | {text}\n | {dots}^", column + 1)
    }
}

/// Why an expression has no value.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{message}")]
pub(crate) struct EvalError {
    message: String,
    /// Whether it ran for too long.
    pub(crate) cancelled: bool,
}

impl EvalError {
    fn new(message: impl Into<String>) -> Self {
        EvalError { message: message.into(), cancelled: false }
    }

    fn no_such_overload() -> Self {
        EvalError::new("no such overload")
    }

    fn cancelled() -> Self {
        let message = "operation cancelled: actual cost limit exceeded".to_owned();
        EvalError { message, cancelled: true }
    }
}

/// What an expression gives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Outcome {
    Bool,
    Text,
    /// Something else, or not known before it is evaluated.
    Other,
}

/// A compiled expression.
#[derive(Debug)]
pub(crate) struct Program {
    root: ast::Node,
    pub(crate) outcome: Outcome,
    pub(crate) uses_old_self: bool,
    slots: usize,
}

/// A value and what it cost to get it.
pub(crate) struct Evaluation<'a> {
    pub(crate) result: Result<Val<'a>, EvalError>,
    pub(crate) cost: u64,
}

impl Program {
    /// Compiles an expression about a value of a schema.
    pub(crate) fn compile(source: &str, schema: &Schema, old_self: OldSelf) -> Result<Program, CompileError> {
        let mut root = parser::parse(source)?;
        let checked = checker::check(source, &mut root, schema, old_self)?;
        let outcome = match checked.result {
            Type::Bool => Outcome::Bool,
            Type::String => Outcome::Text,
            _ => Outcome::Other,
        };
        Ok(Program { root, outcome, uses_old_self: checked.uses_old_self, slots: checked.slots })
    }

    /// What the expression may cost at most for a value of the schema it was compiled for.
    pub(crate) fn max_cost(&self, schema: &Schema) -> u64 {
        estimate::max_cost(&self.root, schema)
    }

    /// Evaluates the expression for a value and what it was before. It stops when it has cost more than the limit.
    pub(crate) fn evaluate<'a>(
        &'a self,
        this: &'a Value,
        old: Option<&'a Value>,
        old_self: OldSelf,
        schema: &'a Schema,
        limit: u64,
    ) -> Evaluation<'a> {
        let mut evaluator = eval::Evaluator::new(self.slots, limit);
        let result = evaluator.start(&self.root, this, old, old_self, schema);
        Evaluation { result, cost: evaluator.cost() }
    }
}

#[cfg(test)]
mod tests;
