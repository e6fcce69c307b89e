//! Which values a column may hold.

use std::collections::BTreeMap;

use ovsdb_core::schema::{AtomicType, BaseType, ColumnSchema, ColumnType, Max};
use ovsdb_core::{Atom, Datum, SmolStr};
use serde_json::Value;

use super::Refusal;

/// The ranges that a schema gives for columns' values.
#[derive(Debug, Default)]
pub(super) struct Limits(BTreeMap<(SmolStr, SmolStr), Range>);

#[derive(Clone, Copy, Debug, Default)]
struct Range {
    min_integer: Option<i64>,
    max_integer: Option<i64>,
    max_length: Option<u64>,
}

/// How many elements an operation's value may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cardinality {
    /// As many as the column.
    OfColumn,
    /// As many as the column, or fewer.
    UpToColumn,
    /// Any number.
    Any,
}

impl Limits {
    pub(super) fn parse(schema_json: &str) -> Result<Self, serde_json::Error> {
        let schema: Value = serde_json::from_str(schema_json)?;
        let mut limits = Limits::default();
        for (table, definition) in schema["tables"].as_object().into_iter().flatten() {
            for (column, definition) in definition["columns"].as_object().into_iter().flatten() {
                let key = &definition["type"]["key"];
                let range = Range {
                    min_integer: key["minInteger"].as_i64(),
                    max_integer: key["maxInteger"].as_i64(),
                    max_length: key["maxLength"].as_u64(),
                };
                limits.0.insert((table.into(), column.into()), range);
            }
        }
        Ok(limits)
    }

    /// Whether every atom of the value is one that the column may hold.
    pub(super) fn check(
        &self,
        table: &SmolStr,
        column: &SmolStr,
        schema: &ColumnSchema,
        value: &Datum,
    ) -> Result<(), Refusal> {
        let range = self.0.get(&(table.clone(), column.clone())).copied().unwrap_or_default();
        let refuse = |atom: &Atom| {
            Refusal::new(
                "constraint violation",
                format!("column {column} of table {table} may not hold {atom}"),
            )
        };
        for key in value.keys() {
            if !range.has(key) || !permits(&schema.column_type.key, key) {
                return Err(refuse(key));
            }
        }
        if let (Datum::Map(map), Some(base)) = (value, &schema.column_type.value) {
            for (_, value) in map {
                if !permits(base, value) {
                    return Err(refuse(value));
                }
            }
        }
        Ok(())
    }
}

impl Range {
    fn has(self, atom: &Atom) -> bool {
        match atom {
            Atom::Integer(value) => {
                self.min_integer.is_none_or(|min| *value >= min)
                    && self.max_integer.is_none_or(|max| *value <= max)
            }
            Atom::String(text) => {
                self.max_length.is_none_or(|max| u64::try_from(text.chars().count()).is_ok_and(|n| n <= max))
            }
            _ => true,
        }
    }
}

/// Whether the schema's list of permitted values, if there is one, has this one.
fn permits(base: &BaseType, atom: &Atom) -> bool {
    let Some(permitted) = &base.permitted else { return true };
    let is = |value: &Value| match atom {
        Atom::String(text) => value.as_str() == Some(text.as_str()),
        Atom::Integer(number) => value.as_i64() == Some(*number),
        _ => false,
    };
    match permitted.as_array().map(Vec::as_slice) {
        Some([Value::String(tag), Value::Array(values)]) if tag == "set" => values.iter().any(is),
        _ => is(permitted),
    }
}

/// The value in the form that the column's type has, if it is of that type.
pub(super) fn fit(column: &ColumnType, value: &Datum, cardinality: Cardinality) -> Result<Datum, Refusal> {
    let wrong = || Refusal::new("syntax error", format!("{value} is not of the column's type"));
    let of_type = |atom: &Atom, of: AtomicType| {
        if atom.atomic_type() == of && !matches!(atom, Atom::NamedUuid(_)) { Ok(()) } else { Err(wrong()) }
    };
    for key in value.keys() {
        of_type(key, column.key.atomic_type)?;
    }
    let fitted = match (value, &column.value) {
        (Datum::Map(map), Some(base)) => {
            map.iter().try_for_each(|(_, value)| of_type(value, base.atomic_type))?;
            value.clone()
        }
        (Datum::Atom(atom), None) if !column.is_scalar() => Datum::Set([atom.clone()].into_iter().collect()),
        (Datum::Set(set), None) if column.is_scalar() => {
            Datum::Atom(set.iter().next().filter(|_| set.len() == 1).ok_or_else(wrong)?.clone())
        }
        (Datum::Atom(_) | Datum::Set(_), None) => value.clone(),
        _ => return Err(wrong()),
    };
    let fits = match cardinality {
        Cardinality::OfColumn => has_room(column, &fitted),
        Cardinality::UpToColumn => has_room(&ColumnType { min: 0, ..column.clone() }, &fitted),
        Cardinality::Any => true,
    };
    if fits { Ok(fitted) } else { Err(wrong()) }
}

/// Whether the column may have as many elements as the value.
pub(super) fn has_room(column: &ColumnType, value: &Datum) -> bool {
    let len = value.keys().count();
    let below = match column.max {
        Max::Count(max) => u32::try_from(len).is_ok_and(|len| len <= max),
        Max::Unlimited => true,
    };
    below && (len > 0 || column.min == 0)
}
