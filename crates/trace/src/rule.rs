//! Rows of OVN's northbound database in words.

use std::net::IpAddr;

use ipnet::IpNet;
use ovsdb_core::{Atom, Datum, Row};
use portolan_model::Unit;
use portolan_plan::{DesiredRow, tag};

use crate::api::{ObjectReference, Rule};
use crate::desired::object_of;

/// A row that a logical flow was made for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RuleRow<'a>(pub(crate) &'a Row);

impl RuleRow<'_> {
    /// The unit that the row is tagged with; none if it is not Portolan's.
    pub(crate) fn unit(self) -> Option<Unit> {
        tag::unit_of(self.0)?.parse().ok()
    }

    /// The object that asks for the row, with the field; none if it is not Portolan's.
    pub(crate) fn object(self) -> Option<ObjectReference> {
        let mut object = object_of(&self.unit()?);
        let field = match self.0.table().as_str() {
            "Logical_Router_Static_Route" => Some("spec.staticRoutes"),
            "Logical_Router_Policy" => Some("spec.policyRoutes"),
            _ => None,
        };
        if let Some(field) = field {
            object.field = Some(field.to_owned());
        }
        Some(object)
    }

    /// The rule in words, for a packet with this destination.
    pub(crate) fn rule(self, destination: IpAddr) -> Rule {
        let text = match self.0.table().as_str() {
            "Logical_Router_Port" => {
                let networks = self.0.datum("networks").into_iter().flat_map(Datum::keys);
                let mut networks = networks.filter_map(|one| one.as_str()?.parse::<IpNet>().ok());
                let network = networks.find(|network| network.contains(&destination));
                network.map_or_else(
                    || self.describe(),
                    |network| format!("connected network {}", network.trunc()),
                )
            }
            _ => self.describe(),
        };
        Rule { text, object: self.object() }
    }

    /// The row in words.
    pub(crate) fn describe(self) -> String {
        describe(self.0.table(), |column| text(self.0.datum(column)?))
    }

    /// The text in a column.
    pub(crate) fn text(self, column: &str) -> Option<String> {
        text(self.0.datum(column)?)
    }
}

/// A planned row in words.
pub(crate) fn describe_desired(row: &DesiredRow) -> String {
    describe(row.table().name, |column| {
        let (_, value) = row.columns().find(|(name, _)| *name == column)?;
        text(value)
    })
}

fn describe(table: &str, column: impl Fn(&str) -> Option<String>) -> String {
    let of = |name: &str| column(name).unwrap_or_default();
    match table {
        "Logical_Router" => format!("router {}", of("name")),
        "Logical_Switch" => format!("switch {}", of("name")),
        "Logical_Router_Port" => format!("router port {}", of("name")),
        "Logical_Switch_Port" => format!("switch port {}", of("name")),
        "Logical_Router_Static_Route" => {
            let from = if of("policy") == "src-ip" { "from " } else { "" };
            format!("static route {from}{} via {}", of("ip_prefix"), of("nexthop"))
        }
        "Logical_Router_Policy" => {
            let action = match of("action").as_str() {
                "reroute" => format!("reroutes via {}", of("nexthops")),
                "allow" => "allows".to_owned(),
                "drop" => "drops".to_owned(),
                other => other.to_owned(),
            };
            format!("policy route {} ({}) {action}", of("priority"), of("match"))
        }
        "ACL" => format!("ACL {} ({}) {}", of("priority"), of("match"), of("action")),
        "QoS" => format!("rate limit {} ({})", of("direction"), of("match")),
        "DHCP_Options" => format!("the DHCP options for {}", of("cidr")),
        other => format!("a row of table {other}"),
    }
}

/// `Vpc blue`, `Pod default/a`.
pub(crate) fn named(object: &ObjectReference) -> String {
    let namespace = object.namespace.as_ref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
    format!("{} {namespace}{}", object.kind, object.name)
}

/// The elements of a set, or the value, as text.
fn text(datum: &Datum) -> Option<String> {
    let words: Vec<_> = datum
        .keys()
        .map(|atom| match atom {
            Atom::String(text) => text.to_string(),
            atom => atom.to_string(),
        })
        .collect();
    (!words.is_empty()).then(|| words.join(", "))
}
