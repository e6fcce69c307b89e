//! Answers to transactions.

use ovsdb_core::decode::selected_row;
use ovsdb_core::{DatabaseSchema, Layout, Operation, Row, SmolStr, Transaction, Uuid};
use serde_json::Value;

use crate::error::{ErrorKind, OvsdbError, TransactError};

/// What a transaction did.
#[derive(Debug, PartialEq)]
pub struct Reply {
    /// One result per operation.
    pub results: Vec<OperationResult>,
    /// The cache's revision that includes the transaction's changes, as far as they are monitored.
    pub revision: u64,
}

/// What an operation did.
#[derive(Debug, PartialEq)]
pub enum OperationResult {
    /// `insert` made this row.
    Inserted(Uuid),
    /// `update`, `mutate` or `delete` touched this many rows.
    Count(u64),
    /// `select` found these rows.
    Rows(Vec<Row>),
    /// Other operations have nothing to say.
    Done,
}

/// Refuses operations on tables or columns that the server does not have, before anything is sent.
pub(crate) fn check(operations: &[Operation], schema: &DatabaseSchema) -> Result<(), TransactError> {
    for (index, operation) in operations.iter().enumerate() {
        let Some(name) = operation.table() else { continue };
        let Some(table) = schema.tables.get(name) else {
            return Err(TransactError::NoTable {
                index,
                operation: operation.name(),
                database: schema.name.clone(),
                table: name.clone(),
            });
        };
        let implied = |column: &SmolStr| matches!(column.as_str(), "_uuid" | "_version");
        let missing = |column: &&&SmolStr| !implied(column) && !table.columns.contains_key(**column);
        if let Some(column) = operation.columns().iter().find(missing) {
            return Err(TransactError::NoColumn {
                index,
                operation: operation.name(),
                table: name.clone(),
                column: (*column).clone(),
            });
        }
    }
    Ok(())
}

/// Interprets the result of a `transact` request.
pub(crate) fn parse(
    json: &[u8],
    transaction: &Transaction,
    schema: &DatabaseSchema,
    revision: u64,
) -> Result<Reply, TransactError> {
    let malformed = |what: String| TransactError::Malformed(what);
    let items: Vec<Value> = serde_json::from_slice(json).map_err(|e| malformed(e.to_string()))?;
    let operations = transaction.operations();
    let mut results = Vec::with_capacity(operations.len());
    for (index, (operation, item)) in operations.iter().zip(&items).enumerate() {
        if let Some(error) = ovsdb_error(item) {
            return Err(TransactError::Operation {
                index,
                operation: operation.name(),
                table: operation.table().cloned(),
                error,
            });
        }
        let result = result(operation, item, schema)
            .ok_or_else(|| malformed(format!("operation {index} ({}) answered {item}", operation.name())))?;
        results.push(result);
    }
    // An answer longer than the request ends with the reason why committing failed.
    if let Some(error) = items.get(operations.len()).and_then(ovsdb_error) {
        return Err(TransactError::Commit(error));
    }
    if results.len() < operations.len() {
        return Err(malformed(format!("{} results for {} operations", results.len(), operations.len())));
    }
    for &(index, expected) in transaction.expected_counts() {
        if let OperationResult::Count(actual) = results[index]
            && actual != expected
        {
            let operation = &operations[index];
            let table = operation.table().cloned().unwrap_or_default();
            return Err(TransactError::Count { index, operation: operation.name(), table, expected, actual });
        }
    }
    Ok(Reply { results, revision })
}

fn result(operation: &Operation, item: &Value, schema: &DatabaseSchema) -> Option<OperationResult> {
    match operation {
        Operation::Insert { .. } => {
            let uuid = item.get("uuid")?.get(1)?.as_str()?;
            Some(OperationResult::Inserted(uuid.parse().ok()?))
        }
        Operation::Update { .. } | Operation::Mutate { .. } | Operation::Delete { .. } => {
            Some(OperationResult::Count(item.get("count")?.as_u64()?))
        }
        Operation::Select { table, columns, .. } => {
            let table_schema = schema.tables.get(table)?;
            let all = table_schema.columns.keys().map(SmolStr::as_str);
            let (layout, _) = match columns {
                Some(columns) => Layout::new(table, table_schema, columns.iter().map(SmolStr::as_str)),
                None => Layout::new(table, table_schema, all),
            };
            let rows = item.get("rows")?.as_array()?;
            let rows: Result<_, _> = rows.iter().map(|row| selected_row(row, &layout)).collect();
            Some(OperationResult::Rows(rows.ok()?))
        }
        _ => item.is_object().then_some(OperationResult::Done),
    }
}

fn ovsdb_error(item: &Value) -> Option<OvsdbError> {
    let error = item.get("error")?.as_str()?.to_owned();
    let details = item.get("details").and_then(Value::as_str).unwrap_or_default().to_owned();
    Some(OvsdbError { kind: ErrorKind::from_name(&error), error, details })
}
