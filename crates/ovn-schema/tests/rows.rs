//! Rows as a server sends them become structs, and structs become operations.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ovn_schema::{nb, sb, vswitch};
use ovsdb_core::decode::{RowUpdate, UpdateFormat, table_updates};
use ovsdb_core::{DatabaseSchema, Layout, Row, SmolStr, Transaction, TypedRow, Uuid};

const ROW: Uuid = Uuid::from_u128(0xa);

/// The layout of all the columns that both the struct and the server have.
fn layout<R: TypedRow>(schema: &DatabaseSchema) -> Arc<Layout> {
    Layout::new(R::TABLE, &schema.tables[R::TABLE], R::COLUMNS.iter().copied()).0
}

/// The row that a monitor of `layout` makes of `json`.
fn received(layout: &Arc<Layout>, json: &str) -> Row {
    let update = format!(r#"{{"{}": {{"{ROW}": {{"insert": {json}}}}}}}"#, layout.table());
    let layouts = [layout.clone()];
    let mut updates = table_updates(update.as_bytes(), UpdateFormat::Diff, &layouts).unwrap();
    match updates.pop() {
        Some((0, RowUpdate::Insert(row))) => row,
        other => panic!("{other:?}"),
    }
}

fn encoded<R: TypedRow>(layout: &Arc<Layout>, row: &R) -> Row {
    Row::new(layout.clone(), ROW, row.encode().into())
}

#[test]
fn a_switch_port_reads_as_the_server_sent_it() {
    let layout = layout::<nb::LogicalSwitchPort>(nb::schema());
    let row = received(
        &layout,
        r#"{"name": "p", "addresses": "dynamic", "type": "router", "up": true, "tag": ["set", []],
            "options": ["map", [["router-port", "rp"]]],
            "dhcpv4_options": ["uuid", "00000000-0000-0000-0000-000000000001"]}"#,
    );
    let port = nb::LogicalSwitchPort {
        name: "p".into(),
        addresses: BTreeSet::from(["dynamic".into()]),
        r#type: "router".into(),
        up: Some(true),
        options: BTreeMap::from([("router-port".into(), "rp".into())]),
        dhcpv4_options: Some(Uuid::from_u128(1)),
        ..Default::default()
    };
    assert_eq!(nb::LogicalSwitchPort::decode(&row).unwrap(), port);
    assert_eq!(encoded(&layout, &port), row);
}

#[test]
fn a_map_of_integers_to_references_round_trips() {
    let layout = layout::<vswitch::QoS>(vswitch::schema());
    let queues = BTreeMap::from([(0, Uuid::from_u128(1)), (7, Uuid::from_u128(2))]);
    let qos = vswitch::QoS { queues, r#type: "linux-htb".into(), ..Default::default() };
    assert_eq!(vswitch::QoS::decode(&encoded(&layout, &qos)).unwrap(), qos);
}

#[test]
fn a_row_in_which_nothing_is_set_is_the_default() {
    let layout = layout::<sb::PortBinding>(sb::schema());
    assert_eq!(sb::PortBinding::decode(&received(&layout, "{}")).unwrap(), sb::PortBinding::default());
}

#[test]
fn columns_of_a_newer_server_are_ignored() {
    let mut newer = nb::schema().clone();
    let table = newer.tables.get_mut("Logical_Switch").unwrap();
    let name = table.columns["name"].clone();
    table.columns.insert("colour".into(), name);
    let columns: Vec<String> = table.columns.keys().map(ToString::to_string).collect();
    let (layout, missing) =
        Layout::new("Logical_Switch", &newer.tables["Logical_Switch"], columns.iter().map(String::as_str));
    assert!(missing.is_empty());
    let row = received(&layout, r#"{"name": "s", "colour": "blue", "from_the_future": {"x": [1]}}"#);
    let expected = nb::LogicalSwitch { name: "s".into(), ..Default::default() };
    assert_eq!(nb::LogicalSwitch::decode(&row).unwrap(), expected);
}

#[test]
fn columns_that_an_older_server_lacks_have_their_defaults_and_are_named() {
    let mut older = nb::schema().clone();
    older.tables.get_mut("Logical_Switch_Port").unwrap().columns.remove("mirror_rules");
    let (layout, missing) = Layout::new(
        "Logical_Switch_Port",
        &older.tables["Logical_Switch_Port"],
        nb::LogicalSwitchPort::COLUMNS.iter().copied(),
    );
    assert_eq!(missing, ["mirror_rules"]);
    let port = nb::LogicalSwitchPort::decode(&received(&layout, r#"{"name": "p"}"#)).unwrap();
    assert_eq!(port, nb::LogicalSwitchPort { name: "p".into(), ..Default::default() });
}

#[test]
fn a_value_of_another_type_is_refused_by_table_and_column() {
    let mut other = nb::schema().clone();
    let table = other.tables.get_mut("Logical_Switch").unwrap();
    let ports = table.columns["ports"].clone();
    table.columns.insert("name".into(), ports);
    let row = received(&layout::<nb::LogicalSwitch>(&other), "{}");
    assert_eq!(
        nb::LogicalSwitch::decode(&row).unwrap_err().to_string(),
        "column name of table Logical_Switch holds [], expected exactly one string"
    );
}

#[test]
fn an_insert_says_only_what_is_not_the_default() {
    let acl = nb::Acl { r#match: "ip4".into(), action: "drop".into(), priority: 7, ..Default::default() };
    let mut txn = Transaction::new();
    txn.insert(ROW, &acl);
    let [insert] = txn.operations() else { panic!("one operation") };
    let named: Vec<&str> = insert.columns().into_iter().map(SmolStr::as_str).collect();
    assert_eq!(insert.table().unwrap(), "ACL");
    assert_eq!(named, ["action", "match", "priority"]);
}

#[test]
fn the_schemas_are_those_that_the_constants_name() {
    for (schema, name, version) in [
        (nb::schema(), nb::NAME, nb::VERSION),
        (sb::schema(), sb::NAME, sb::VERSION),
        (vswitch::schema(), vswitch::NAME, vswitch::VERSION),
    ] {
        assert_eq!((schema.name.as_str(), schema.version.as_str()), (name, version));
    }
}
