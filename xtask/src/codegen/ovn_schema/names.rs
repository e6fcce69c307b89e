//! What tables and columns are called in Rust.

use std::collections::BTreeSet;

use anyhow::ensure;
use ovsdb_core::SmolStr;

/// The names of a table: `Logical_Switch_Port`.
pub(super) struct TableNames<'a> {
    /// In the schema.
    pub(super) table: &'a str,
    /// Of the struct: `LogicalSwitchPort`.
    pub(super) row: String,
    /// Of the file: `logical_switch_port`.
    pub(super) module: String,
}

/// The names of a column: `port_security`.
pub(super) struct ColumnNames<'a> {
    /// In the schema.
    pub(super) column: &'a str,
    /// Of the field: `port_security`, or `r#type` for a keyword.
    pub(super) field: String,
    /// Of the typed column: `PORT_SECURITY`.
    pub(super) constant: String,
}

/// Names for tables, no two the same.
pub(super) fn tables<'a>(tables: impl Iterator<Item = &'a SmolStr>) -> anyhow::Result<Vec<TableNames<'a>>> {
    let mut taken = BTreeSet::new();
    tables
        .map(|table| {
            let (row, module) = (row(table), identifier(table));
            ensure!(
                taken.insert(row.to_lowercase()) && taken.insert(format!("mod {module}")),
                "table {table} gets a name that another has: {row}"
            );
            Ok(TableNames { table, row, module })
        })
        .collect()
}

/// Names for one table's columns, no two the same.
pub(super) fn columns<'a>(
    columns: impl Iterator<Item = &'a SmolStr>,
) -> anyhow::Result<Vec<ColumnNames<'a>>> {
    let mut taken = BTreeSet::new();
    columns
        .map(|column| {
            let (field, constant) = (identifier(column), constant(column));
            ensure!(
                taken.insert(field.clone()) && taken.insert(constant.clone()),
                "column {column} gets a name that another has: {field}"
            );
            Ok(ColumnNames { column, field, constant })
        })
        .collect()
}

/// Words begin with a capital letter, and acronyms have only that one: `ACL` is `Acl`, but `QoS` stays as it is.
pub(super) fn row(table: &str) -> String {
    let mut name = String::new();
    let mut in_capitals = false;
    for (at, c) in table.char_indices() {
        let word_begins = at == 0 || table[..at].ends_with('_');
        match c {
            '_' => {}
            _ if word_begins => name.push(c.to_ascii_uppercase()),
            _ if in_capitals => name.push(c.to_ascii_lowercase()),
            _ => name.push(c),
        }
        in_capitals = c.is_ascii_uppercase();
    }
    name
}

fn identifier(name: &str) -> String {
    let name = name.to_ascii_lowercase();
    match name.as_str() {
        // Raw identifiers may not be these.
        "self" | "super" | "crate" => name + "_",
        name if KEYWORDS.contains(&name) => format!("r#{name}"),
        _ => name,
    }
}

fn constant(column: &str) -> String {
    let name = column.to_ascii_uppercase();
    // The struct's own constant would hide the one of `TypedRow`.
    if ["TABLE", "COLUMNS"].contains(&name.as_str()) { name + "_COLUMN" } else { name }
}

const KEYWORDS: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "do", "dyn", "else",
    "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro",
    "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "static", "struct", "trait",
    "true", "try", "type", "typeof", "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_named_as_rust_names_structs() {
        for (table, expected) in [
            ("Logical_Switch_Port", "LogicalSwitchPort"),
            ("ACL", "Acl"),
            ("NB_Global", "NbGlobal"),
            ("DHCPv6_Options", "Dhcpv6Options"),
            ("QoS", "QoS"),
            ("Open_vSwitch", "OpenVSwitch"),
            ("sFlow", "SFlow"),
            ("Logical_DP_Group", "LogicalDpGroup"),
            ("AutoAttach", "AutoAttach"),
        ] {
            assert_eq!(row(table), expected);
        }
    }

    #[test]
    fn keywords_and_the_constants_of_the_trait_are_avoided() {
        assert_eq!(identifier("match"), "r#match");
        assert_eq!(identifier("self"), "self_");
        assert_eq!(constant("table"), "TABLE_COLUMN");
        assert_eq!(constant("port_security"), "PORT_SECURITY");
    }

    #[test]
    fn names_that_would_be_the_same_are_refused() {
        let clash = |a, b| tables([SmolStr::new(a), SmolStr::new(b)].iter()).err().unwrap().to_string();
        assert_eq!(clash("A_B", "AB"), "table AB gets a name that another has: Ab");
        let clash = columns([SmolStr::new("a"), SmolStr::new("A")].iter()).err().unwrap().to_string();
        assert_eq!(clash, "column A gets a name that another has: a");
    }
}
