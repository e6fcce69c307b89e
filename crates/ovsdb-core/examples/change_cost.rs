//! Changes one row of a cache that holds SIZE rows. `cargo xtask instructions` counts what that costs.

use std::hint::black_box;

use ovsdb_core::decode::{UpdateFormat, table_updates};
use ovsdb_core::{Batch, Cache, DatabaseSchema, Index, Layout, Uuid};

const SCHEMA: &str = r#"{"name":"D","version":"1.0.0","tables":{"T":{"columns":{
    "name":{"type":"string"},
    "addresses":{"type":{"key":"string","min":0,"max":"unlimited"}},
    "external_ids":{"type":{"key":"string","value":"string","min":0,"max":"unlimited"}}}}}}"#;

fn uuid(n: u64) -> Uuid {
    Uuid::new_v5(&Uuid::nil(), &n.to_le_bytes())
}

/// From the server's message to the change that consumers get, indexes included.
#[inline(never)]
fn measured(cache: &mut Cache, message: &[u8]) -> Batch {
    let layouts = cache.layouts();
    let updates = table_updates(message, UpdateFormat::Diff, &layouts).expect("a good update");
    cache.apply(updates).expect("a row that is there")
}

fn main() {
    let size: u64 = std::env::args().nth(1).and_then(|arg| arg.parse().ok()).expect("SIZE");
    let schema = DatabaseSchema::parse(SCHEMA.as_bytes()).expect("a schema");
    let (layout, _) = Layout::new("T", &schema.tables["T"], ["name", "addresses", "external_ids"]);
    let indexes = vec![
        Index::column("name"),
        Index::map_key("external_ids", "unit"),
        Index::map_key("external_ids", "kind"),
    ];
    let mut cache = Cache::new([(layout, indexes)]);
    for n in 0..size {
        let row = format!(
            r#"{{"T":{{"{}":{{"insert":{{"name":"row {n}","addresses":["set",["10.0.0.1","10.0.0.2"]],
            "external_ids":["map",[["kind","port"],["unit","attachment/{n}"]]]}}}}}}}}"#,
            uuid(n)
        );
        let layouts = cache.layouts();
        let updates = table_updates(row.as_bytes(), UpdateFormat::Diff, &layouts).expect("a good update");
        cache.apply(updates).expect("a new row");
    }
    let message = format!(
        r#"{{"T":{{"{}":{{"modify":{{"name":"changed","addresses":"10.0.0.3","external_ids":["map",[["unit","other"]]]}}}}}}}}"#,
        uuid(size / 2)
    );
    // Whoever counts switches that on now.
    println!("ready");
    std::io::stdin().read_line(&mut String::new()).expect("a line or the end");
    let batch = measured(&mut cache, message.as_bytes());
    assert_eq!(black_box(batch).changes.len(), 1);
    // Freeing a large cache takes longer than anything that is measured here.
    std::mem::forget(cache);
}
