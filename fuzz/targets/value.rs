//! Any JSON as a column's value or as a monitor's update: decoding never panics, and what it accepts is written so that it
//! reads as the same again.
#![no_main]

use std::sync::{Arc, LazyLock};

use arbitrary::{Arbitrary, Unstructured};
use libfuzzer_sys::fuzz_target;
use ovsdb_core::decode::{RowUpdate, UpdateFormat, Updates, datum, table_updates};
use ovsdb_core::schema::{AtomicType, BaseType, ColumnType};
use ovsdb_core::{Cache, DatabaseSchema, Datum, Layout, SmolStr, Uuid};
use serde_json::{Value, json};

const SCHEMA: &str = r#"{"name": "D", "version": "1.0.0", "tables": {"T": {"columns": {
    "integer": {"type": "integer"},
    "real": {"type": "real"},
    "boolean": {"type": "boolean"},
    "string": {"type": "string"},
    "uuid": {"type": "uuid"},
    "optional": {"type": {"key": "integer", "min": 0}},
    "integers": {"type": {"key": "integer", "min": 0, "max": "unlimited"}},
    "reals": {"type": {"key": "real", "min": 1, "max": 3}},
    "strings": {"type": {"key": "string", "min": 0, "max": "unlimited"}},
    "uuids": {"type": {"key": "uuid", "min": 0, "max": "unlimited"}},
    "one_pair": {"type": {"key": "string", "value": "boolean", "min": 0}},
    "references": {"type": {"key": "integer", "value": "uuid", "min": 0, "max": "unlimited"}},
    "ids": {"type": {"key": "string", "value": "string", "min": 0, "max": "unlimited"}}}}}}"#;

static LAYOUT: LazyLock<Arc<Layout>> = LazyLock::new(|| {
    let schema = DatabaseSchema::parse(SCHEMA.as_bytes()).expect("a schema");
    let table = &schema.tables["T"];
    Layout::new("T", table, table.columns.keys().map(ovsdb_core::SmolStr::as_str)).0
});

#[derive(Arbitrary, Debug)]
enum Input<'a> {
    Column(u8, Json<'a>),
    Pair(u8, Json<'a>, Json<'a>),
    Updates(Format, Vec<Json<'a>>),
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Format {
    Old,
    Diff,
}

/// JSON as bytes, a tree of the protocol's words, or something close to what a server sends.
#[derive(Arbitrary, Debug)]
enum Json<'a> {
    Bytes(&'a [u8]),
    Updates(#[arbitrary(with = row_updates)] String),
    Tree(#[arbitrary(with = |u: &mut Unstructured<'_>| tree(u, 5))] String),
}

impl Json<'_> {
    fn text(&self) -> &[u8] {
        match self {
            Json::Bytes(bytes) => bytes,
            Json::Updates(text) | Json::Tree(text) => text.as_bytes(),
        }
    }
}

fuzz_target!(|input: Input<'_>| {
    match input {
        Input::Column(at, json) => drop(column(at, json.text())),
        Input::Pair(at, old, new) => {
            let (Some(mut old), Some(new)) = (column(at, old.text()), column(at, new.text())) else { return };
            let ty = &LAYOUT.columns()[usize::from(at) % LAYOUT.columns().len()].1;
            let diff = old.diff(&new, ty);
            old.apply_diff(diff, ty);
            assert_eq!(old, new);
        }
        Input::Updates(format, messages) => {
            let mut cache = Cache::new([(LAYOUT.clone(), vec![])]);
            for message in messages {
                let Some(updates) = updates(format, message.text()) else { return };
                if cache.apply(updates).is_err() {
                    return;
                }
            }
        }
    }
});

fn column(at: u8, json: &[u8]) -> Option<Datum> {
    let (name, ty) = &LAYOUT.columns()[usize::from(at) % LAYOUT.columns().len()];
    let decode = |json: &[u8]| datum(&mut serde_json::Deserializer::from_slice(json), ty);
    let value = decode(json).ok()?;
    let again = serde_json::to_vec(&value).expect("a value that was read can be written");
    assert_eq!(decode(&again).as_ref().ok(), Some(&value), "column {name}");
    Some(value)
}

fn updates(format: Format, json: &[u8]) -> Option<Updates> {
    let layouts = [LAYOUT.clone()];
    let format = match format {
        Format::Old => UpdateFormat::Old,
        Format::Diff => UpdateFormat::Diff,
    };
    let updates = table_updates(json, format, &layouts).ok()?;
    for (_, update) in &updates {
        let (uuid, written) = written(format, update);
        let again = format!(r#"{{"T":{{"{uuid}":{written}}}}}"#);
        let again = table_updates(again.as_bytes(), format, &layouts)
            .expect("an update that was read can be read again");
        assert_eq!(again.iter().map(|(_, update)| update).collect::<Vec<_>>(), [update]);
    }
    Some(updates)
}

/// The update as a server writes it. Columns that came twice stay twice.
fn written(format: UpdateFormat, update: &RowUpdate) -> (Uuid, String) {
    fn columns<'a>(columns: impl Iterator<Item = (&'a SmolStr, &'a Datum)>) -> String {
        let column = |(name, value): (&SmolStr, &Datum)| format!("{}:{}", json!(name.as_str()), json!(value));
        columns.map(column).collect::<Vec<_>>().join(",")
    }
    let [insert, delete] = if format == UpdateFormat::Old { ["new", "old"] } else { ["insert", "delete"] };
    match update {
        RowUpdate::Insert(row) => (row.uuid(), format!(r#"{{"{insert}":{{{}}}}}"#, columns(row.iter()))),
        RowUpdate::Modify { uuid, diff } => {
            let diff = diff.iter().map(|(at, value)| (&LAYOUT.columns()[*at].0, value));
            (*uuid, format!(r#"{{"modify":{{{}}}}}"#, columns(diff)))
        }
        RowUpdate::Delete { uuid } => (*uuid, format!(r#"{{"{delete}":null}}"#)),
    }
}

/// Updates of two rows, in any order and number.
fn row_updates(u: &mut Unstructured<'_>) -> arbitrary::Result<String> {
    list(u, |u| {
        let row = u.choose(&["a", "b"])?;
        let kind = u.choose(&["initial", "insert", "modify", "delete", "old", "new"])?;
        let columns = list(u, |u| {
            let (name, ty) = u.choose(LAYOUT.columns())?;
            Ok(format!("{}:{}", json!(name.as_str()), column_value(u, ty)?))
        })?;
        Ok(format!(r#""00000000-0000-0000-0000-00000000000{row}":{{"{kind}":{{{columns}}}}}"#))
    })
    .map(|rows| format!(r#"{{"T":{{{rows}}}}}"#))
}

/// A value of the type, of few different atoms so that sets overlap.
fn column_value(u: &mut Unstructured<'_>, ty: &ColumnType) -> arbitrary::Result<String> {
    fn atom(u: &mut Unstructured<'_>, base: &BaseType) -> arbitrary::Result<String> {
        Ok(match base.atomic_type {
            AtomicType::Integer => u.choose(&["0", "1", "-9223372036854775808"])?.to_string(),
            AtomicType::Real => u.choose(&["0", "-0.0", "1.5e300"])?.to_string(),
            AtomicType::Boolean => u.choose(&["true", "false"])?.to_string(),
            AtomicType::String => u.choose(&[r#""""#, r#""x""#, r#""\u00e9""#])?.to_string(),
            AtomicType::Uuid => {
                format!(r#"["uuid","00000000-0000-0000-0000-00000000000{}"]"#, u.choose(&["a", "b"])?)
            }
        })
    }
    match &ty.value {
        Some(value) => list(u, |u| Ok(format!("[{},{}]", atom(u, &ty.key)?, atom(u, value)?)))
            .map(|l| format!(r#"["map",[{l}]]"#)),
        None if ty.is_scalar() || u.ratio(1, 4)? => atom(u, &ty.key),
        None => list(u, |u| atom(u, &ty.key)).map(|list| format!(r#"["set",[{list}]]"#)),
    }
}

/// JSON text with the words and forms of the protocol.
fn tree(u: &mut Unstructured<'_>, depth: u32) -> arbitrary::Result<String> {
    const WORDS: &[&str] = &[
        "T",
        "set",
        "map",
        "uuid",
        "named-uuid",
        "initial",
        "insert",
        "modify",
        "delete",
        "old",
        "new",
        "_uuid",
        "integer",
        "real",
        "boolean",
        "string",
        "optional",
        "integers",
        "reals",
        "strings",
        "uuids",
        "one_pair",
        "references",
        "ids",
        "00000000-0000-0000-0000-00000000000a",
        "00000000-0000-0000-0000-00000000000b",
    ];
    let quoted = |u: &mut Unstructured<'_>| -> arbitrary::Result<String> {
        let text = if u.ratio(7, 8)? { *u.choose(WORDS)? } else { u.arbitrary::<&str>()? };
        Ok(Value::from(text).to_string())
    };
    let kinds = if depth == 0 { 5 } else { 9 };
    Ok(match u.int_in_range(0..=kinds)? {
        0 => "null".into(),
        1 => u.arbitrary::<bool>()?.to_string(),
        2 => u.arbitrary::<i64>()?.to_string(),
        3 => Value::from(u.arbitrary::<f64>()?).to_string(),
        4 | 5 => quoted(u)?,
        6 => format!("[{}]", list(u, |u| tree(u, depth - 1))?),
        7 => format!("[{},{}]", quoted(u)?, tree(u, depth - 1)?),
        // Names may come twice: nothing but the decoder keeps a peer from that.
        _ => format!("{{{}}}", list(u, |u| Ok(format!("{}:{}", quoted(u)?, tree(u, depth - 1)?)))?),
    })
}

fn list(
    u: &mut Unstructured<'_>,
    mut element: impl FnMut(&mut Unstructured<'_>) -> arbitrary::Result<String>,
) -> arbitrary::Result<String> {
    let count = u.int_in_range(0..=4)?;
    Ok((0..count).map(|_| element(u)).collect::<Result<Vec<_>, _>>()?.join(","))
}
