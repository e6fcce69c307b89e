//! What OVN's databases and `ovn-trace` say about one packet.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use ovsdb_core::{Row, Uuid};
use portolan_model::Unit;

use crate::ovn_trace::Ways;
use crate::ovn_trace::output::Flow;
use crate::rule::RuleRow;

/// What OVN says about one packet.
#[derive(Clone, Debug)]
pub(crate) struct Observed {
    /// What the logical flows do with it.
    pub(crate) ways: Ways,
    /// The switches and routers on its ways, by OVN's name.
    pub(crate) datapaths: BTreeMap<String, Datapath>,
    /// Of logical flows by the first 32 bits of their UUID: the first 32 bits of the UUID of the row that they were made for.
    pub(crate) hints: HashMap<u32, u32>,
    /// The rows for which a router has routing flows, by the first 32 bits of their UUID: for routers that have no route.
    pub(crate) routes_in_effect: BTreeMap<String, BTreeSet<u32>>,
    /// Rows of the northbound database.
    pub(crate) rows: Rows,
}

/// A logical switch or router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Datapath {
    /// What it was made for; none if it is not Portolan's.
    pub(crate) unit: Option<Unit>,
    pub(crate) kind: DatapathKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DatapathKind {
    Switch,
    Router,
}

/// Rows of the northbound database, by UUID.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rows {
    rows: HashMap<Uuid, Row>,
    by_prefix: HashMap<u32, Uuid>,
    /// Prefixes that no row has.
    missing: HashSet<u32>,
}

/// Where a logical port is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Binding {
    /// The chassis that has claimed it.
    pub(crate) chassis: Option<String>,
    /// Its flows are installed there.
    pub(crate) up: bool,
}

impl Observed {
    /// The row that a flow was made for, if the flow says so and the row is there.
    pub(crate) fn row_of(&self, flow: &Flow) -> Option<RuleRow<'_>> {
        self.rows.by_prefix(*self.hints.get(&flow.uuid?)?).map(RuleRow)
    }

    /// Whether a flow was made for a row that is not in the northbound database any more.
    pub(crate) fn is_stale(&self, flow: &Flow) -> bool {
        let hint = flow.uuid.and_then(|uuid| self.hints.get(&uuid));
        hint.is_some_and(|hint| self.rows.missing.contains(hint))
    }
}

impl Rows {
    pub(crate) fn extend(&mut self, rows: impl IntoIterator<Item = Row>) {
        for row in rows {
            self.by_prefix.insert(prefix(row.uuid()), row.uuid());
            self.rows.insert(row.uuid(), row);
        }
    }

    pub(crate) fn get(&self, uuid: Uuid) -> Option<&Row> {
        self.rows.get(&uuid)
    }

    pub(crate) fn by_prefix(&self, prefix: u32) -> Option<&Row> {
        self.rows.get(self.by_prefix.get(&prefix)?)
    }

    /// Notes that no row has this prefix.
    pub(crate) fn is_missing(&mut self, prefix: u32) {
        self.missing.insert(prefix);
    }
}

/// The first 32 bits of a UUID: how OVN shortens them.
pub(crate) fn prefix(uuid: Uuid) -> u32 {
    uuid.as_fields().0
}

/// Flows that may have been made for a rule that someone wrote. All others are OVN's own machinery.
pub(crate) fn may_be_rule(flow: &Flow) -> bool {
    const STAGES: [&str; 5] = ["_routing", "_policy", "_acl", "_lb", "nat"];
    flow.uuid.is_some() && flow.matches != "1" && STAGES.iter().any(|stage| flow.stage.contains(stage))
}
