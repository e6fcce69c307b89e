//! The tables that Portolan writes: which of their columns it owns, and what holds their rows.

use std::collections::BTreeMap;

use ovn_schema::nb::{
    Acl, DhcpOptions, LogicalRouter, LogicalRouterPolicy, LogicalRouterPort, LogicalRouterStaticRoute,
    LogicalSwitch, LogicalSwitchPort,
};
use ovsdb_core::TypedRow;

use crate::tag;

/// A table with what there is to know about Portolan's rows in it.
#[derive(Debug)]
pub struct Table {
    /// The table's name.
    pub name: &'static str,
    /// The columns that Portolan writes. Whatever others write into the rest stays.
    pub owned: &'static [Owned],
    /// What holds the table's rows; none for a root table.
    pub parent: Option<ParentColumn>,
    /// Whether no two rows may have one `name`.
    pub unique_name: bool,
}

/// A column that Portolan writes, in full or in part.
#[derive(Debug)]
pub struct Owned {
    /// The column's name.
    pub column: &'static str,
    /// Which part of it.
    pub part: Part,
    /// The table that the column's weak references are to. The server drops one whose row is missing, without a word.
    pub refers_to: Option<&'static str>,
}

/// Which part of a column is Portolan's.
#[derive(Clone, Copy, Debug)]
pub enum Part {
    /// All of it.
    Whole,
    /// These keys of a map.
    Keys(&'static [&'static str]),
    /// The keys of a map that begin like this.
    KeysWithPrefix(&'static str),
}

/// The column that keeps a row of a table that is not a root table alive.
#[derive(Clone, Copy, Debug)]
pub struct ParentColumn {
    /// The parent's table.
    pub table: &'static str,
    /// The column, a set of strong references.
    pub column: &'static str,
}

/// A row type that Portolan plans.
pub trait Planned: TypedRow {
    /// What there is to know about its table.
    const RULES: &'static Table;
    /// The row's `external_ids`.
    fn external_ids(&mut self) -> &mut BTreeMap<String, String>;
}

/// All the tables that Portolan writes.
pub const TABLES: &[&Table] = &[
    LogicalRouter::RULES,
    LogicalSwitch::RULES,
    DhcpOptions::RULES,
    LogicalRouterPort::RULES,
    LogicalSwitchPort::RULES,
    LogicalRouterStaticRoute::RULES,
    LogicalRouterPolicy::RULES,
    Acl::RULES,
];

impl Part {
    /// Whether a map's key is Portolan's.
    pub fn has_key(self, key: &str) -> bool {
        match self {
            Part::Whole => true,
            Part::Keys(keys) => keys.contains(&key),
            Part::KeysWithPrefix(prefix) => key.starts_with(prefix),
        }
    }
}

const fn whole(column: &'static str) -> Owned {
    Owned { column, part: Part::Whole, refers_to: None }
}

const fn keys(column: &'static str, keys: &'static [&'static str]) -> Owned {
    Owned { column, part: Part::Keys(keys), refers_to: None }
}

const fn weak(column: &'static str, table: &'static str) -> Owned {
    Owned { column, part: Part::Whole, refers_to: Some(table) }
}

const TAGS: Owned =
    Owned { column: "external_ids", part: Part::KeysWithPrefix(tag::PREFIX), refers_to: None };

/// Rows held by this column.
macro_rules! held_by {
    ($parent:ident::$column:ident) => {
        Some(ParentColumn { table: $parent::TABLE, column: $parent::$column.name() })
    };
}

macro_rules! planned {
    ($row:ident, $parent:expr, unique_name: $unique_name:literal, [$($owned:expr),* $(,)?]) => {
        impl Planned for $row {
            const RULES: &'static Table = &Table {
                name: $row::TABLE,
                owned: &[TAGS, $($owned),*],
                parent: $parent,
                unique_name: $unique_name,
            };

            fn external_ids(&mut self) -> &mut BTreeMap<String, String> {
                &mut self.external_ids
            }
        }
    };
}

planned!(
    LogicalRouter,
    None,
    unique_name: false,
    [
        whole(LogicalRouter::NAME.name()),
        keys(
            LogicalRouter::OPTIONS.name(),
            &["always_learn_from_arp_request", "mac_binding_age_threshold"]
        ),
    ]
);

planned!(LogicalSwitch, None, unique_name: false, [whole(LogicalSwitch::NAME.name())]);

planned!(
    DhcpOptions,
    None,
    unique_name: false,
    [whole(DhcpOptions::CIDR.name()), whole(DhcpOptions::OPTIONS.name())]
);

planned!(
    LogicalRouterPort,
    held_by!(LogicalRouter::PORTS),
    unique_name: true,
    [
        whole(LogicalRouterPort::NAME.name()),
        whole(LogicalRouterPort::MAC.name()),
        whole(LogicalRouterPort::NETWORKS.name()),
        whole(LogicalRouterPort::PEER.name()),
        whole(LogicalRouterPort::IPV6_RA_CONFIGS.name()),
        keys(LogicalRouterPort::OPTIONS.name(), &["gateway_mtu"]),
    ]
);

planned!(
    LogicalSwitchPort,
    held_by!(LogicalSwitch::PORTS),
    unique_name: true,
    [
        whole(LogicalSwitchPort::NAME.name()),
        whole(LogicalSwitchPort::TYPE.name()),
        whole(LogicalSwitchPort::ADDRESSES.name()),
        whole(LogicalSwitchPort::PORT_SECURITY.name()),
        weak(LogicalSwitchPort::DHCPV4_OPTIONS.name(), DhcpOptions::TABLE),
        weak(LogicalSwitchPort::DHCPV6_OPTIONS.name(), DhcpOptions::TABLE),
        keys(LogicalSwitchPort::OPTIONS.name(), &["iface-id-ver", "requested-chassis", "router-port"]),
    ]
);

planned!(
    LogicalRouterStaticRoute,
    held_by!(LogicalRouter::STATIC_ROUTES),
    unique_name: false,
    [
        whole(LogicalRouterStaticRoute::IP_PREFIX.name()),
        whole(LogicalRouterStaticRoute::NEXTHOP.name()),
        whole(LogicalRouterStaticRoute::POLICY.name()),
        keys(LogicalRouterStaticRoute::OPTIONS.name(), &["ecmp_symmetric_reply"]),
    ]
);

planned!(
    LogicalRouterPolicy,
    held_by!(LogicalRouter::POLICIES),
    unique_name: false,
    [
        whole(LogicalRouterPolicy::PRIORITY.name()),
        whole(LogicalRouterPolicy::MATCH.name()),
        whole(LogicalRouterPolicy::ACTION.name()),
        whole(LogicalRouterPolicy::NEXTHOPS.name()),
    ]
);

planned!(
    Acl,
    held_by!(LogicalSwitch::ACLS),
    unique_name: false,
    [
        whole(Acl::PRIORITY.name()),
        whole(Acl::DIRECTION.name()),
        whole(Acl::MATCH.name()),
        whole(Acl::ACTION.name()),
    ]
);

#[cfg(test)]
mod tests {
    use ovn_schema::nb;
    use ovsdb_core::schema::Strength;

    use super::*;

    #[test]
    fn the_rules_fit_the_schema() {
        let schema = nb::schema();
        for table in TABLES {
            let columns = &schema.tables[table.name].columns;
            assert_eq!(schema.tables[table.name].is_root, table.parent.is_none(), "{}", table.name);
            let name_is_unique = schema.tables[table.name].indexes.contains(&vec!["name".into()]);
            assert_eq!(name_is_unique, table.unique_name, "{}", table.name);
            if let Some(parent) = table.parent {
                let held = &schema.tables[parent.table].columns[parent.column].column_type;
                let reference = held.key.reference.as_ref().unwrap();
                assert_eq!((&*reference.table, reference.strength), (table.name, Strength::Strong));
            }
            for owned in table.owned {
                let column = &columns[owned.column].column_type;
                assert!(matches!(owned.part, Part::Whole) || column.is_map(), "{}", owned.column);
                let weak = column.key.reference.as_ref().map(|reference| &*reference.table);
                assert_eq!(weak, owned.refers_to, "{}.{}", table.name, owned.column);
            }
        }
    }
}
