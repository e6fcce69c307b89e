//! The UUIDs of rows: a function of what the row is for, so that every writer gives a row the same one.
//!
//! A plan can refer to rows that do not exist yet, an insert that ran twice answers `duplicate uuid` instead of making
//! a twin, and two writers converge on the same rows.

use ovsdb_core::Uuid;

/// The namespace of Portolan's rows. Changing it orphans every row in every database.
const NAMESPACE: Uuid = Uuid::from_u128(0x8c5b_6d0e_2f4a_5a77_9d53_0c1e_7b21_4e9a);

/// The UUID of a row of `table` that `unit` needs as its `key`, for the object that has `owner` as its UID.
///
/// The table is part of it because ovn-northd keeps logical switches and routers in one map by UUID; the owner, because
/// an object made again under its name is another one.
pub fn row_uuid(table: &str, owner: &str, unit: &str, key: &str) -> Uuid {
    // None of the four contains a NUL, so that the name is one to one.
    let name = [table, owner, unit, key].join("\0");
    Uuid::new_v5(&NAMESPACE, name.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_keeps_its_uuid_for_ever() {
        let uuid = row_uuid("Logical_Switch", "2b8f", "subnet:web", "");
        assert_eq!(uuid.to_string(), "163eb444-01d6-5707-b405-c7478e9853de");
    }

    #[test]
    fn every_part_counts() {
        let parts = ["Logical_Switch", "2b8f", "subnet:web", "key"];
        let uuid = |[table, owner, unit, key]: [&str; 4]| row_uuid(table, owner, unit, key);
        for at in 0..parts.len() {
            let mut other = parts;
            other[at] = "other";
            assert_ne!(uuid(other), uuid(parts));
        }
        // Moving a character from one part to the next makes another row.
        assert_ne!(row_uuid("a", "b", "cd", "e"), row_uuid("a", "b", "c", "de"));
    }
}
