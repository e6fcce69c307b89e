//! What the tests share.

use portolan_plan::memdb::MemDb;

/// The schema of OVN's northbound database.
pub(crate) const NB_SCHEMA: &str = include_str!("../../../ovn-schema/schemas/ovn-nb.ovsschema");

/// An empty northbound database in memory.
pub(crate) fn northbound() -> MemDb {
    MemDb::new(NB_SCHEMA).unwrap()
}
