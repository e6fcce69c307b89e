//! What functions do. A library is a table of signatures and a list of implementations; an implementation serves all
//! overloads of its name, since values know their types.

use std::fmt;

use regex::Regex;

use super::EvalError;
use super::value::{Evaluated, Val};

mod conversion;
mod format;
mod lists;
pub(super) mod named_format;
mod net;
mod operators;
mod optional;
mod patterns;
mod quantities;
pub(super) mod semver;
mod sets;
mod strings;
mod times;
mod urls;

/// How a function is run. The receiver is the first argument; a pattern comes compiled.
pub(super) type Run = for<'a> fn(&[Val<'a>], Option<&Regex>) -> Evaluated<'a>;

/// A function's doing, and what it costs.
#[derive(Clone, Copy)]
pub(super) struct Implementation {
    pub(super) run: Run,
    pub(super) cost: Cost,
}

impl fmt::Debug for Implementation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Implementation").field("cost", &self.cost).finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Cost {
    /// The same whatever the arguments are.
    Constant,
    /// It goes through its arguments.
    Traversal,
    /// It goes through the first argument once for each part of the second.
    Regex,
}

pub(super) type Library = (&'static str, &'static [(&'static str, Implementation)]);

pub(super) const LIBRARIES: &[Library] = &[
    (operators::SIGNATURES, operators::FUNCTIONS),
    (conversion::SIGNATURES, conversion::FUNCTIONS),
    (strings::SIGNATURES, strings::FUNCTIONS),
    (patterns::SIGNATURES, patterns::FUNCTIONS),
    (lists::SIGNATURES, lists::FUNCTIONS),
    (sets::SIGNATURES, sets::FUNCTIONS),
    (times::SIGNATURES, times::FUNCTIONS),
    (optional::SIGNATURES, optional::FUNCTIONS),
    (net::SIGNATURES, net::FUNCTIONS),
    (urls::SIGNATURES, urls::FUNCTIONS),
    (quantities::SIGNATURES, quantities::FUNCTIONS),
    (semver::SIGNATURES, semver::FUNCTIONS),
    (named_format::SIGNATURES, named_format::FUNCTIONS),
];

const fn constant(run: Run) -> Implementation {
    Implementation { run, cost: Cost::Constant }
}

const fn traversal(run: Run) -> Implementation {
    Implementation { run, cost: Cost::Traversal }
}

const fn regex(run: Run) -> Implementation {
    Implementation { run, cost: Cost::Regex }
}

fn no_such_overload<'a>() -> Evaluated<'a> {
    Err(EvalError::no_such_overload())
}

fn fail<'a>(message: impl Into<String>) -> Evaluated<'a> {
    Err(EvalError::new(message))
}
