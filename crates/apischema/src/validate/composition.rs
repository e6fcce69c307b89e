//! Schemas that must all, one, any or not hold.

use serde_json::Value;

use super::correlation::Correlated;
use super::{Checker, Failures};
use crate::go_text::quote;
use crate::path::Path;
use crate::schema::{Schema, Validation};

/// The outcome of a schema that need not hold.
struct Outcome {
    holds: bool,
    matched: usize,
}

impl Checker<'_> {
    /// Checks the combinations, and tells how many checks the value went through in them.
    pub(super) fn composition(
        &mut self,
        value: &Value,
        validation: &Validation,
        old: Option<Correlated<'_>>,
        path: &Path<'_>,
    ) -> usize {
        let Validation { any_of, one_of, all_of, not, .. } = validation;
        let mut matched = 0;
        if !any_of.is_empty() {
            matched += self.any_of(value, any_of, old, path);
        }
        if !one_of.is_empty() {
            matched += self.one_of(value, one_of, old, path);
        }
        if !all_of.is_empty() {
            matched += self.all_of(value, all_of, old, path);
        }
        if let Some(not) = not
            && self.try_schema(value, not, old, path).holds
        {
            self.fail_composition(path, |name| format!("{} must not validate the schema (not)", quote(name)));
        }
        matched
    }

    fn try_schema(
        &self,
        value: &Value,
        schema: &Schema,
        old: Option<Correlated<'_>>,
        path: &Path<'_>,
    ) -> Outcome {
        let mut attempt = Checker { prefix: self.prefix, failures: Failures::Counted(0) };
        let matched = attempt.node(value, schema, old, path);
        Outcome { holds: attempt.failures.count() == 0, matched }
    }

    fn any_of(
        &mut self,
        value: &Value,
        schemas: &[Schema],
        old: Option<Correlated<'_>>,
        path: &Path<'_>,
    ) -> usize {
        let mut nearest: Option<(usize, &Schema)> = None;
        for schema in schemas {
            let Outcome { holds, matched } = self.try_schema(value, schema, old, path);
            if holds {
                return matched;
            }
            if nearest.is_none_or(|(most, _)| matched > most) {
                nearest = Some((matched, schema));
            }
        }
        self.fail_composition(path, |name| {
            format!("{} must validate at least one schema (anyOf)", quote(name))
        });
        nearest.map_or(0, |nearest| self.explain(value, nearest, old, path))
    }

    /// Goes once more through the schema that came nearest, to tell what is wrong. Where nobody asks for that, it must not:
    /// choices within choices would be gone through twice at every level.
    fn explain(
        &mut self,
        value: &Value,
        (matched, schema): (usize, &Schema),
        old: Option<Correlated<'_>>,
        path: &Path<'_>,
    ) -> usize {
        match self.failures {
            Failures::Counted(_) => matched,
            Failures::Listed(_) => self.node(value, schema, old, path),
        }
    }

    fn one_of(
        &mut self,
        value: &Value,
        schemas: &[Schema],
        old: Option<Correlated<'_>>,
        path: &Path<'_>,
    ) -> usize {
        let mut nearest: Option<(usize, &Schema)> = None;
        let mut first = 0;
        let mut count = 0;
        for schema in schemas {
            let Outcome { holds, matched } = self.try_schema(value, schema, old, path);
            if holds {
                count += 1;
                if count == 1 {
                    first = matched;
                }
            } else if count == 0 && nearest.is_none_or(|(most, _)| matched > most) {
                nearest = Some((matched, schema));
            }
        }
        if count == 1 {
            return first;
        }
        self.fail_composition(path, |name| {
            let found = match count {
                0 => "Found none valid".to_owned(),
                count => format!("Found {count} valid alternatives"),
            };
            format!("{} must validate one and only one schema (oneOf). {found}", quote(name))
        });
        match (count, nearest) {
            (0, Some(nearest)) => self.explain(value, nearest, old, path),
            _ => 0,
        }
    }

    fn all_of(
        &mut self,
        value: &Value,
        schemas: &[Schema],
        old: Option<Correlated<'_>>,
        path: &Path<'_>,
    ) -> usize {
        let mut matched = 0;
        let mut held = 0;
        for schema in schemas {
            let before = self.failures.count();
            matched += self.node(value, schema, old, path);
            held += usize::from(self.failures.count() == before);
        }
        if held < schemas.len() {
            let none = if held == 0 { ". None validated" } else { "" };
            self.fail_composition(path, |name| {
                format!("{} must validate all the schemas (allOf){none}", quote(name))
            });
        }
        matched
    }
}
