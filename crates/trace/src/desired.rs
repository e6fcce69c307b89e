//! The rows that objects ask for in OVN's northbound database, and how the rows that are there differ.

use ovsdb_core::{Atom, Datum, Row, Uuid};
use portolan_api::portolan::HolderKind;
use portolan_model::node_subnet::node_of_subnet;
use portolan_model::{Unit, UnitState, World};
use portolan_plan::table::Part;
use portolan_plan::{DesiredRow, Plan, Settings, plan};

use crate::api::{Difference, ObjectReference};
use crate::rule;

/// The rows that a unit should have.
#[derive(Clone, Debug)]
pub(crate) struct Desired {
    pub(crate) unit: Unit,
    pub(crate) state: UnitState,
    pub(crate) rows: Vec<DesiredRow>,
}

impl Desired {
    pub(crate) fn of(world: &World, unit: &Unit, settings: &Settings) -> Self {
        let rows = match plan(unit, world, settings) {
            Plan::Desired(rows) => rows.iter().cloned().collect(),
            Plan::Hold { .. } | Plan::Remove => Vec::new(),
        };
        Self { unit: unit.clone(), state: world.state(unit), rows }
    }

    /// The text in a column of the unit's first row of a table.
    pub(crate) fn text(&self, table: &str, column: &str) -> Option<String> {
        let row = self.rows.iter().find(|row| row.table().name == table)?;
        let (_, value) = row.columns().find(|(name, _)| *name == column)?;
        value.keys().next().and_then(Atom::as_str).map(str::to_owned)
    }

    /// How the rows that are there differ, given how to find them.
    pub(crate) fn differences<'r>(&self, find: impl Fn(Uuid) -> Option<&'r Row>) -> Vec<Difference> {
        let object = object_of(&self.unit);
        let difference = |message| Difference { message, object: Some(object.clone()) };
        let mut differences = Vec::new();
        for row in &self.rows {
            let Some(found) = find(row.uuid()) else {
                let what = rule::describe_desired(row);
                differences.push(difference(format!("OVN lacks {what} of {}", rule::named(&object))));
                continue;
            };
            for (column, expected, present) in different_columns(row, found) {
                let what = rule::describe_desired(row);
                differences.push(difference(format!(
                    "{column} of {what} of {} is {present} in OVN, and should be {expected}",
                    rule::named(&object)
                )));
            }
        }
        differences
    }
}

/// The columns of a row that are not as they should be, with both values.
fn different_columns<'a>(row: &'a DesiredRow, found: &'a Row) -> Vec<(&'static str, String, String)> {
    let owned = row.table().owned;
    let compared = row.columns().filter_map(|(column, expected)| {
        // A server too old for a column has nothing to compare.
        let present = found.datum(column)?;
        let part = owned.iter().find(|owned| owned.column == column).map_or(Part::Whole, |owned| owned.part);
        let present = match (part, present) {
            // Other units contribute its elements.
            (Part::Members | Part::Pairs(_), _) => return None,
            (Part::Whole, present) => present.clone(),
            (part, Datum::Map(map)) => {
                let ours = map.iter().filter(|(key, _)| key.as_str().is_some_and(|key| part.has_key(key)));
                Datum::Map(ours.map(|(key, value)| (key.clone(), value.clone())).collect())
            }
            (_, present) => present.clone(),
        };
        (present != *expected).then(|| (column, expected.to_string(), present.to_string()))
    });
    compared.collect()
}

/// The object that a unit is planned for.
pub(crate) fn object_of(unit: &Unit) -> ObjectReference {
    let object = |kind: &str, namespace: Option<&str>, name: &str, field: Option<&str>| ObjectReference {
        kind: kind.to_owned(),
        namespace: namespace.map(str::to_owned),
        name: name.to_owned(),
        field: field.map(str::to_owned),
    };
    match unit {
        Unit::Vpc(name) => object("Vpc", None, name, None),
        Unit::Subnet(name) => match node_of_subnet(name) {
            Some(node) => object("Node", None, node, Some("spec.podCIDRs")),
            None => object("Subnet", None, name, None),
        },
        Unit::Node(name) | Unit::Chassis(name) => object("Node", None, name, None),
        Unit::Service { namespace, name } => object("Service", Some(namespace), name, None),
        Unit::Peering(pair) => object("Vpc", None, pair.first(), Some("spec.vpcPeerings")),
        Unit::Attachment(id) => {
            let kind = match id.kind() {
                HolderKind::Pod => "Pod",
                HolderKind::StatefulSet => "StatefulSet",
                HolderKind::VirtualMachine => "VirtualMachine",
                HolderKind::NetworkAttachment => "NetworkAttachment",
                HolderKind::Node => "Node",
                HolderKind::Subnet => "Subnet",
                HolderKind::Vip => "Vip",
            };
            object(kind, id.namespace(), id.name(), None)
        }
    }
}
