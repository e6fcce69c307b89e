//! Subnets, with their addresses.

use portolan_api::Family;
use portolan_model::Unit;
use serde::Serialize;

use super::{Format, Readiness, Row};
use crate::cluster::{Described, Snapshot};
use crate::output::age;

/// A subnet.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SubnetRow {
    pub(crate) name: String,
    #[serde(skip)]
    pub(crate) uid: String,
    pub(crate) api_group: String,
    #[serde(flatten)]
    pub(crate) readiness: Readiness,
    pub(crate) vpc: Option<String>,
    pub(crate) cidr: Option<String>,
    pub(crate) gateway: Option<String>,
    pub(crate) provider: Option<String>,
    pub(crate) addresses: Vec<AddressesRow>,
    pub(crate) private: bool,
    pub(crate) dhcp: bool,
    #[serde(serialize_with = "super::timestamp")]
    pub(crate) created: Option<i64>,
}

/// The addresses of one family.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct AddressesRow {
    pub(crate) family: Family,
    pub(crate) used: u128,
    /// Those that can still be assigned.
    pub(crate) free: u128,
}

/// All subnets.
pub(crate) fn rows(snapshot: &Snapshot) -> Vec<SubnetRow> {
    snapshot.subnets.iter().map(|subnet| row(snapshot, subnet)).collect()
}

/// One subnet.
pub(crate) fn row(snapshot: &Snapshot, described: &Described) -> SubnetRow {
    let subnet = snapshot.world.subnet_of_group(described.group, &described.name);
    let config = subnet.map(|subnet| &subnet.config);
    // Of two with one name, the addresses are those of the one that has it.
    let unit = Unit::Subnet(described.name.clone());
    let effective =
        subnet.filter(|subnet| snapshot.world.object_uid(&unit).is_some_and(|uid| uid == subnet.uid));
    let usage = effective.map(|subnet| snapshot.ipam.usage(subnet)).unwrap_or_default();
    let addresses =
        effective.map(|subnet| &subnet.config).into_iter().flat_map(|config| config.cidr.families()).map(
            |family| {
                let (used, free) = match family {
                    Family::IPv4 => (usage.v4_using, usage.v4_available),
                    Family::IPv6 => (usage.v6_using, usage.v6_available),
                };
                AddressesRow { family, used: used.0, free: free.0 }
            },
        );
    SubnetRow {
        name: described.name.clone(),
        uid: described.uid.clone(),
        api_group: described.group.to_string(),
        readiness: Readiness::of_subnet(snapshot, described),
        vpc: config.and_then(|config| config.vpc.clone()),
        cidr: config.map(|config| config.cidr.to_string()),
        gateway: config.map(|config| config.gateway.to_string()),
        provider: config.and_then(|config| config.provider.as_ref()).map(ToString::to_string),
        addresses: addresses.collect(),
        private: config.is_some_and(|config| config.private),
        dhcp: config.is_some_and(|config| config.dhcp.is_some()),
        created: described.created,
    }
}

impl Row for SubnetRow {
    const WHAT: &'static str = "subnet";

    fn columns(format: Format) -> Vec<&'static str> {
        let mut columns = vec!["NAME", "READY", "VPC", "CIDR", "GATEWAY", "PROVIDER", "USED", "FREE"];
        if format.wide {
            columns.extend(["PRIVATE", "DHCP", "GROUP", "AGE", "MESSAGE"]);
        }
        columns
    }

    fn cells(&self, format: Format) -> Vec<String> {
        let of = |value: &Option<String>| value.clone().unwrap_or_default();
        let numbers = |number: fn(&AddressesRow) -> u128| {
            self.addresses.iter().map(|one| number(one).to_string()).collect::<Vec<_>>().join(",")
        };
        let yes = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
        let mut cells = vec![
            self.name.clone(),
            self.readiness.word(),
            of(&self.vpc),
            of(&self.cidr),
            of(&self.gateway),
            of(&self.provider),
            numbers(|one| one.used),
            numbers(|one| one.free),
        ];
        if format.wide {
            cells.extend([
                yes(self.private),
                yes(self.dhcp),
                self.api_group.clone(),
                age(self.created, format.now),
                self.readiness.message.clone(),
            ]);
        }
        cells
    }

    fn names(&self) -> Vec<&str> {
        vec![&self.name]
    }

    fn full_name(&self) -> String {
        format!("subnet.{}/{}", self.api_group, self.name)
    }

    fn uid(&self) -> Option<&str> {
        Some(&self.uid)
    }
}
