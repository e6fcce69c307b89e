//! One operation after the other.

use std::collections::BTreeSet;

use ovsdb_core::schema::ColumnType;
use ovsdb_core::{
    Atom, Clause, Datum, Function, Map, Mutation, Mutator, Operation, Set, SmolStr, Until, Uuid,
};

use super::constraint::{Cardinality, fit, has_room};
use super::{Columns, Done, MemDb, Refusal};

impl MemDb {
    pub(super) fn execute(
        &mut self,
        operation: &Operation,
        deleted: &mut BTreeSet<(SmolStr, Uuid)>,
    ) -> Result<Done, Refusal> {
        match operation {
            Operation::Insert { table, uuid: Some(uuid), uuid_name: None, row } => {
                self.insert(table, *uuid, row, deleted)
            }
            Operation::Update { table, condition, row } => {
                let row = self.values(table, row)?;
                let mutable = |column: &SmolStr| self.schema.tables[table].columns[column].mutable;
                if let Some((column, _)) = row.iter().find(|(column, _)| !mutable(column)) {
                    return Err(Refusal::new("constraint violation", format!("{column} never changes")));
                }
                self.each(table, condition, |columns| {
                    columns.extend(row.iter().cloned());
                    Ok(())
                })
            }
            Operation::Mutate { table, condition, mutations } => self.mutate(table, condition, mutations),
            Operation::Delete { table, condition } => {
                let matching = self.matching(table, condition)?;
                for uuid in &matching {
                    deleted.insert((table.clone(), *uuid));
                    self.rows_mut(table).remove(uuid);
                }
                Ok(Done::Count(matching.len() as u64))
            }
            Operation::Wait { table, condition, columns, until, rows, .. } => {
                let is = self.matching(table, condition)?;
                let project = |uuid: &Uuid| -> Vec<Datum> {
                    columns.iter().map(|column| self.column(table, *uuid, column)).collect()
                };
                let is: BTreeSet<Vec<Datum>> = is.iter().map(project).collect();
                let wanted = |row: &Vec<(SmolStr, Datum)>| -> Vec<Datum> {
                    let value = |column| row.iter().find(|(name, _)| name == column).map(|(_, v)| v.clone());
                    columns.iter().filter_map(value).collect()
                };
                let wanted: BTreeSet<Vec<Datum>> = rows.iter().map(wanted).collect();
                if (is == wanted) == (*until == Until::Equal) {
                    Ok(Done::Nothing)
                } else {
                    Err(Refusal::new("timed out", "\"wait\" timed out"))
                }
            }
            Operation::Assert { lock } if !self.locks.contains(lock) => {
                Err(Refusal::new("not owner", format!("lock {lock} is not held")))
            }
            Operation::Abort => Err(Refusal::new("aborted", "aborted by request")),
            Operation::Assert { .. } | Operation::Comment(_) | Operation::Commit { .. } => Ok(Done::Nothing),
            Operation::Insert { .. } | Operation::Select { .. } => {
                Err(Refusal::new("not supported", format!("{} in this form", operation.name())))
            }
        }
    }

    fn insert(
        &mut self,
        table: &SmolStr,
        uuid: Uuid,
        row: &[(SmolStr, Datum)],
        deleted: &BTreeSet<(SmolStr, Uuid)>,
    ) -> Result<Done, Refusal> {
        self.table_schema(table)?;
        if self.content[table].contains_key(&uuid) || deleted.contains(&(table.clone(), uuid)) {
            return Err(Refusal::new("duplicate uuid", uuid.to_string()));
        }
        let given = self.values(table, row)?;
        let schema = &self.table_schema(table)?.columns;
        let mut columns: Columns = Columns::new();
        for (name, column) in schema {
            let default = Datum::default_of(&column.column_type);
            self.limits.check(table, name, column, &default).or_else(|refusal| {
                // What the caller gives replaces the default.
                if given.iter().any(|(given, _)| given == name) { Ok(()) } else { Err(refusal) }
            })?;
            columns.insert(name.clone(), default);
        }
        columns.extend(given);
        self.rows_mut(table).insert(uuid, columns);
        Ok(Done::Inserted(uuid))
    }

    fn mutate(
        &mut self,
        table: &SmolStr,
        condition: &[Clause],
        mutations: &[Mutation],
    ) -> Result<Done, Refusal> {
        let mut prepared = Vec::with_capacity(mutations.len());
        for mutation in mutations {
            let column = self.table_schema(table)?.columns.get(&mutation.column);
            let column = column.ok_or_else(|| no_column(table, &mutation.column))?.clone();
            if !column.mutable {
                let details = format!("{} never changes", mutation.column);
                return Err(Refusal::new("constraint violation", details));
            }
            let value = match (&mutation.mutator, &mutation.value) {
                (Mutator::Delete, Datum::Set(_) | Datum::Atom(_)) if column.column_type.is_map() => {
                    let keys = ColumnType { value: None, ..column.column_type.clone() };
                    fit(&keys, &mutation.value, Cardinality::Any)?
                }
                (Mutator::Delete, value) => fit(&column.column_type, value, Cardinality::Any)?,
                (_, value) => fit(&column.column_type, value, Cardinality::UpToColumn)?,
            };
            if matches!(mutation.mutator, Mutator::Insert | Mutator::Delete) {
                self.limits.check(table, &mutation.column, &column, &value)?;
            }
            prepared.push((mutation, column, value));
        }
        let (limits, name) = (self.limits.clone(), table.clone());
        self.each(table, condition, |columns| {
            for (mutation, column, value) in &prepared {
                let is = columns.get_mut(&mutation.column).expect("invariant: rows have all their columns");
                mutated(is, mutation.mutator, value)?;
                if !has_room(&column.column_type, is) {
                    let details = format!("column {} has no room for {is}", mutation.column);
                    return Err(Refusal::new("constraint violation", details));
                }
                limits.check(&name, &mutation.column, column, is)?;
            }
            Ok(())
        })
    }

    /// Values for columns, in the form that the columns have.
    fn values(&self, table: &SmolStr, row: &[(SmolStr, Datum)]) -> Result<Vec<(SmolStr, Datum)>, Refusal> {
        let schema = self.table_schema(table)?;
        let fitted = row.iter().map(|(name, value)| {
            let column = schema.columns.get(name).ok_or_else(|| no_column(table, name))?;
            let value = fit(&column.column_type, value, Cardinality::OfColumn)?;
            self.limits.check(table, name, column, &value)?;
            Ok((name.clone(), value))
        });
        fitted.collect()
    }

    fn each(
        &mut self,
        table: &SmolStr,
        condition: &[Clause],
        mut change: impl FnMut(&mut Columns) -> Result<(), Refusal>,
    ) -> Result<Done, Refusal> {
        let matching = self.matching(table, condition)?;
        for uuid in &matching {
            change(self.rows_mut(table).get_mut(uuid).expect("invariant: it was found just now"))?;
        }
        Ok(Done::Count(matching.len() as u64))
    }

    fn matching(&self, table: &SmolStr, condition: &[Clause]) -> Result<Vec<Uuid>, Refusal> {
        let schema = self.table_schema(table)?;
        let mut matching: Vec<Uuid> = self.content[table].keys().copied().collect();
        for clause in condition {
            let value = match schema.columns.get(&clause.column) {
                Some(column) => {
                    let cardinality = match clause.function {
                        Function::Includes => Cardinality::UpToColumn,
                        Function::Excludes => Cardinality::Any,
                        _ => Cardinality::OfColumn,
                    };
                    let value = fit(&column.column_type, &clause.value, cardinality)?;
                    self.limits.check(table, &clause.column, column, &value)?;
                    value
                }
                None if clause.column == "_uuid" => clause.value.clone(),
                None => return Err(no_column(table, &clause.column)),
            };
            matching.retain(|uuid| {
                satisfies(&self.column(table, *uuid, &clause.column), clause.function, &value)
            });
        }
        Ok(matching)
    }

    fn column(&self, table: &SmolStr, uuid: Uuid, column: &SmolStr) -> Datum {
        match self.content[table][&uuid].get(column) {
            Some(value) => value.clone(),
            None => Datum::Atom(Atom::Uuid(uuid)),
        }
    }

    fn rows_mut(&mut self, table: &SmolStr) -> &mut std::collections::BTreeMap<Uuid, Columns> {
        self.content.get_mut(table).expect("invariant: every table of the schema is there")
    }
}

fn no_column(table: &SmolStr, column: &SmolStr) -> Refusal {
    Refusal::new("syntax error", format!("table {table} has no column {column}"))
}

fn satisfies(is: &Datum, function: Function, value: &Datum) -> bool {
    let has = |key: &Atom, map_value: Option<&Atom>| match (is, map_value) {
        (Datum::Map(map), Some(value)) => map.get(key) == Some(value),
        _ => is.keys().any(|own| own == key),
    };
    let each: Vec<bool> = match value {
        Datum::Map(map) => map.iter().map(|(key, value)| has(key, Some(value))).collect(),
        _ => value.keys().map(|key| has(key, None)).collect(),
    };
    match function {
        Function::Equal => is == value,
        Function::NotEqual => is != value,
        Function::Includes => each.iter().all(|has| *has),
        Function::Excludes => !each.iter().any(|has| *has),
        Function::Less => is < value,
        Function::LessOrEqual => is <= value,
        Function::Greater => is > value,
        Function::GreaterOrEqual => is >= value,
    }
}

/// Changes a value relative to what it is.
fn mutated(is: &mut Datum, mutator: Mutator, by: &Datum) -> Result<(), Refusal> {
    let new = match (&*is, mutator, by) {
        (Datum::Set(set), Mutator::Insert, by) => {
            Datum::Set(set.iter().chain(by.keys()).cloned().collect::<Set>())
        }
        (Datum::Set(set), Mutator::Delete, by) => {
            Datum::Set(set.iter().filter(|atom| !by.keys().any(|gone| gone == *atom)).cloned().collect())
        }
        (Datum::Map(map), Mutator::Insert, Datum::Map(by)) => {
            let new = by.iter().filter(|(key, _)| map.get(key).is_none());
            Datum::Map(map.iter().chain(new).cloned().collect::<Map>())
        }
        (Datum::Map(map), Mutator::Delete, Datum::Map(by)) => {
            Datum::Map(map.iter().filter(|(key, value)| by.get(key) != Some(value)).cloned().collect())
        }
        (Datum::Map(map), Mutator::Delete, by) => {
            Datum::Map(map.iter().filter(|(key, _)| !by.keys().any(|gone| gone == key)).cloned().collect())
        }
        (Datum::Atom(Atom::Integer(is)), mutator, Datum::Atom(Atom::Integer(by))) => {
            Datum::Atom(Atom::Integer(arithmetic(*is, mutator, *by)?))
        }
        _ => return Err(Refusal::new("not supported", format!("{mutator:?} of {is} by {by}"))),
    };
    *is = new;
    Ok(())
}

fn arithmetic(is: i64, mutator: Mutator, by: i64) -> Result<i64, Refusal> {
    if by == 0 && matches!(mutator, Mutator::Divide | Mutator::Remainder) {
        return Err(Refusal::new("domain error", "division by zero"));
    }
    let result = match mutator {
        Mutator::Add => is.checked_add(by),
        Mutator::Subtract => is.checked_sub(by),
        Mutator::Multiply => is.checked_mul(by),
        Mutator::Divide => is.checked_div(by),
        Mutator::Remainder => is.checked_rem(by),
        Mutator::Insert | Mutator::Delete => {
            return Err(Refusal::new("syntax error", "an integer is no set"));
        }
    };
    result.ok_or_else(|| Refusal::new("range error", "the result is no 64-bit integer"))
}
