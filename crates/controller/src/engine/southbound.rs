//! What ovn-northd has made of units, as the southbound database shows it.
//!
//! Only datapaths and the ports that connect them are known here, not the ports of pods: memory follows the number of VPCs and
//! subnets.

use std::collections::HashMap;

use ovsdb::Uuid;
use ovsdb::change::Change as RowChange;
use portolan_model::Unit;
use portolan_plan::northbound::southbound::{Expected, unit_of_datapath, units_of_patch_port};

use super::Engine;

/// Whether the southbound database is followed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SouthboundStatus {
    /// It was not reached yet, and not for long: nothing is said about it.
    #[default]
    Connecting,
    /// What is known of it is what it has.
    Followed,
    /// It cannot be reached.
    Lost {
        /// Where and why not, as in `cannot be reached at unix:/run/ovn/ovnsb_db.sock: …`.
        why: String,
    },
}

/// What is known of the southbound database.
#[derive(Debug, Default)]
pub(super) struct Southbound {
    pub(super) status: SouthboundStatus,
    /// By the northbound row that they are made for. While ovn-northd replaces one there may be two.
    datapaths: HashMap<Uuid, u32>,
    /// By name.
    patch_ports: HashMap<String, u32>,
}

impl Southbound {
    /// What ovn-northd has not made yet, for people.
    pub(super) fn missing(&self, expected: &Expected) -> Option<String> {
        if expected.datapath.is_some_and(|row| !self.datapaths.contains_key(&row)) {
            return Some("datapath".to_owned());
        }
        let port = expected.patch_ports.iter().find(|port| !self.patch_ports.contains_key(*port))?;
        Some(format!("port {port}"))
    }

    /// Takes a row in, and answers the units that it is of.
    fn count(&mut self, row: &ovsdb::Row, change: Counted) -> Vec<Unit> {
        match row.table().as_str() {
            DATAPATHS => {
                let id = |key| row.datum("external_ids")?.map_get(key)?.as_str();
                let made_for = id("logical-switch").or_else(|| id("logical-router"));
                let Some(made_for) = made_for.and_then(|uuid| uuid.parse::<Uuid>().ok()) else {
                    return Vec::new();
                };
                change.apply(&mut self.datapaths, made_for);
                id("name").and_then(unit_of_datapath).into_iter().collect()
            }
            PORTS => {
                // A server too old for conditions sends the ports of pods too.
                let text = |column| row.datum(column)?.keys().next()?.as_str();
                let (Some("patch"), Some(name)) = (text("type"), text("logical_port")) else {
                    return Vec::new();
                };
                change.apply(&mut self.patch_ports, name.to_owned());
                units_of_patch_port(name)
            }
            _ => Vec::new(),
        }
    }
}

const DATAPATHS: &str = "Datapath_Binding";
const PORTS: &str = "Port_Binding";

/// Whether a row came or went.
#[derive(Clone, Copy)]
enum Counted {
    Came,
    Went,
}

impl Counted {
    fn apply<K: std::hash::Hash + Eq>(self, counts: &mut HashMap<K, u32>, key: K) {
        let count = counts.get(&key).copied().unwrap_or_default();
        match self {
            Counted::Came => drop(counts.insert(key, count + 1)),
            Counted::Went if count > 1 => drop(counts.insert(key, count - 1)),
            Counted::Went => drop(counts.remove(&key)),
        }
    }
}

impl Engine {
    /// Rows of the southbound database changed: `Datapath_Binding` with `external_ids`, `Port_Binding` with `logical_port` and
    /// `type`.
    pub fn southbound_changed(&mut self, changes: &[RowChange]) {
        for change in changes {
            let southbound = &mut self.readiness.southbound;
            let mut units = Vec::new();
            if let Some(old) = &change.old {
                units.extend(southbound.count(old, Counted::Went));
            }
            if let Some(new) = &change.new {
                units.extend(southbound.count(new, Counted::Came));
            }
            for unit in units {
                self.compare_conditions_of_unit(&unit);
            }
        }
    }

    /// Whether the southbound database is followed. Tell of its rows before saying that it is.
    pub fn southbound_status(&mut self, status: SouthboundStatus) {
        if self.readiness.southbound.status != status {
            self.readiness.southbound.status = status;
            self.compare_all_conditions();
        }
    }
}
