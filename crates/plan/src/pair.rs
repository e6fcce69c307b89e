//! Pairs: what units contribute to maps of other rows, such as the value of a variable at one chassis.
//!
//! ```text
//!  Chassis_Template_Var.variables of node1:  p1f0c…_8_local = "10.1.0.4:8080"
//!                                             └ the load balancer's UUID
//! ```
//!
//! A pair's key names the row of the contributing unit that the pair is for, its carrier, so a pair is found again by that row, and a pair
//! whose carrier is gone is nobody's. Keys of any other form are of others. A map whose row is not there yet does not stop whoever
//! contributes to it: the unit comes about without the pair, and waits for the row.

use ovsdb_core::{Atom, Datum, Map, Row, SmolStr, Uuid};

use crate::table::{ParentColumn, Table};

/// One pair that a unit contributes to a map of a row, usually of another unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    pub(crate) table: &'static Table,
    pub(crate) column: &'static str,
    pub(crate) row: Uuid,
    pub(crate) key: SmolStr,
    pub(crate) value: SmolStr,
}

/// What begins the key of a pair: OVN's variables begin with a letter.
const PREFIX: &str = "p";

impl Pair {
    /// The table and the column of the map.
    pub fn column(&self) -> ParentColumn {
        ParentColumn { table: self.table.name, column: self.column }
    }

    /// The row that has the map.
    pub fn row(&self) -> Uuid {
        self.row
    }

    /// The key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The value.
    pub fn value(&self) -> &str {
        &self.value
    }
}

/// The key of a pair for a row, which `suffix` tells from the others for that row.
pub(crate) fn key(carrier: Uuid, suffix: &str) -> String {
    format!("{PREFIX}{}_{suffix}", carrier.simple())
}

/// The keys in a map of the pairs for a row.
pub(crate) fn keys_of(carrier: Uuid, map: &Map) -> impl Iterator<Item = &Atom> {
    map.with_prefix(&key(carrier, "")).iter().map(|(key, _)| key)
}

/// The row that a pair with this key is for; none if it is not ours.
pub(crate) fn carrier(key: &Atom) -> Option<Uuid> {
    let (uuid, _) = key.as_str()?.strip_prefix(PREFIX)?.split_once('_')?;
    (uuid.len() == 32).then(|| Uuid::try_parse(uuid).ok())?
}

/// A map of a row.
pub(crate) fn map<'a>(row: &'a Row, column: &str) -> Option<&'a Map> {
    match row.datum(column)? {
        Datum::Map(map) => Some(map),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_tells_its_carrier() {
        let row = Uuid::from_u128(0x1f0c_5d2e_0000_5000_8000_0000_0000_0001);
        assert_eq!(carrier(&key(row, "8_local").as_str().into()), Some(row));
        for foreign in ["", "p_", "vip", "p1f0c_x", "pxf0c5d2e00005000800000000000000z_1", "NODEIP_IPv4_0"] {
            assert_eq!(carrier(&foreign.into()), None, "{foreign}");
        }
    }
}
