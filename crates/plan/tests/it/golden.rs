//! The rows of every feature, for people to read and to hold against `man 5 ovn-nb`.

use std::collections::BTreeMap;
use std::fmt::Write;

use ovsdb_core::{Datum, Uuid};
use portolan_model::Unit;
use portolan_plan::{DesiredRow, Plan, Rows, plan};

use crate::scene::{self, Scene};

#[test]
fn every_feature_has_the_rows_that_its_snapshot_shows() {
    for scene in scene::all() {
        insta::with_settings!({prepend_module_to_snapshot => false, snapshot_path => "../snapshots"}, {
            insta::assert_snapshot!(scene.name, render(&scene));
        });
    }
}

fn render(scene: &Scene) -> String {
    let world = scene.world();
    let rows = |unit: &Unit| match plan(unit, &world, &scene.settings) {
        Plan::Desired(rows) => Some(rows),
        Plan::Hold { .. } | Plan::Remove => None,
    };
    let all: Vec<Rows> = world.units().filter_map(|unit| rows(&unit)).collect();
    let labels: BTreeMap<Uuid, String> = all.iter().flatten().map(|row| (row.uuid(), label(row))).collect();
    let mut text = String::new();
    for unit in scene.shown {
        writeln!(text, "# {unit}").unwrap();
        for row in &rows(&unit.parse().unwrap()).unwrap() {
            render_row(&mut text, row, &labels);
        }
        for pair in rows(&unit.parse().unwrap()).unwrap().pairs() {
            writeln!(
                text,
                "{} of {}: {} = {:?}",
                pair.column().column,
                labels[&pair.row()],
                pair.key(),
                pair.value()
            )
            .unwrap();
        }
        text.push('\n');
    }
    text.trim_end().to_owned()
}

fn render_row(text: &mut String, row: &DesiredRow, labels: &BTreeMap<Uuid, String>) {
    write!(text, "{}", label(row)).unwrap();
    if let Some(parent) = row.parent() {
        write!(text, ", in {} of {}", parent.column().column, labels[&parent.uuid()]).unwrap();
    }
    text.push('\n');
    for (column, value) in row.columns().filter(|(_, value)| !value.is_default()) {
        match value {
            Datum::Map(map) => {
                writeln!(text, "    {column}:").unwrap();
                for (key, value) in map {
                    writeln!(text, "        {} = {value}", key.as_str().unwrap()).unwrap();
                }
            }
            Datum::Set(set) => {
                let element = |atom: &ovsdb_core::Atom| match atom.as_uuid() {
                    Some(uuid) => labels[&uuid].clone(),
                    None => atom.to_string(),
                };
                let elements: Vec<_> = set.iter().map(element).collect();
                writeln!(text, "    {column}: {}", elements.join(", ")).unwrap();
            }
            Datum::Atom(atom) => writeln!(text, "    {column}: {atom}").unwrap(),
        }
    }
}

/// What a person would call the row.
fn label(row: &DesiredRow) -> String {
    let value = |wanted: &str| row.columns().find(|(column, _)| *column == wanted).map(|(_, value)| value);
    let words: Vec<String> = ["name", "cidr", "ip_prefix", "nexthop", "priority", "match", "chassis"]
        .iter()
        .filter_map(|column| value(column).map(ToString::to_string))
        .collect();
    format!("{} {}", row.table().name, words.join(" "))
}
