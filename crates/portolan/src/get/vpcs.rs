//! VPCs.

use serde::Serialize;

use super::{Format, Readiness, Row};
use crate::cluster::{Described, Snapshot};
use crate::output::age;

/// A VPC.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct VpcRow {
    pub(crate) name: String,
    #[serde(skip)]
    pub(crate) uid: String,
    pub(crate) api_group: String,
    #[serde(flatten)]
    pub(crate) readiness: Readiness,
    /// The subnets that are attached to its router.
    pub(crate) subnets: Vec<String>,
    pub(crate) static_routes: usize,
    pub(crate) policy_routes: usize,
    pub(crate) peerings: Vec<PeeringRow>,
    #[serde(serialize_with = "super::timestamp")]
    pub(crate) created: Option<i64>,
}

/// A VPC that another asks to be connected with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PeeringRow {
    pub(crate) remote: String,
    pub(crate) local_connect: String,
    /// Why the two are not connected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) problem: Option<String>,
}

/// All VPCs.
pub(crate) fn rows(snapshot: &Snapshot) -> Vec<VpcRow> {
    snapshot.vpcs.iter().map(|vpc| row(snapshot, vpc)).collect()
}

/// One VPC.
pub(crate) fn row(snapshot: &Snapshot, described: &Described) -> VpcRow {
    let world = &snapshot.world;
    // Of two with one name, what is known is of the one that has it.
    let vpc = world.vpc(&described.name).filter(|vpc| vpc.uid == described.uid);
    let subnets = vpc.iter().flat_map(|vpc| world.subnets_of_vpc(&vpc.name));
    let peerings = vpc.iter().flat_map(|vpc| {
        vpc.config.peerings.iter().map(|peering| PeeringRow {
            remote: peering.remote_vpc.clone(),
            local_connect: peering.local_connect.to_string(),
            problem: world
                .peering_problem(vpc, &peering.remote_vpc)
                .map(|problem| format!("{} {problem}", peering.remote_vpc)),
        })
    });
    VpcRow {
        name: described.name.clone(),
        uid: described.uid.clone(),
        api_group: described.group.to_string(),
        readiness: Readiness::of_vpc(snapshot, described),
        subnets: subnets.map(|subnet| subnet.name.clone()).collect(),
        static_routes: vpc.map_or(0, |vpc| vpc.config.static_routes.len()),
        policy_routes: vpc.map_or(0, |vpc| vpc.config.policy_routes.len()),
        peerings: peerings.collect(),
        created: described.created,
    }
}

impl Row for VpcRow {
    const WHAT: &'static str = "VPC";

    fn columns(format: Format) -> Vec<&'static str> {
        let mut columns = vec!["NAME", "READY", "SUBNETS", "STATIC", "POLICY", "PEERINGS", "AGE"];
        if format.wide {
            columns.extend(["GROUP", "MESSAGE"]);
        }
        columns
    }

    fn cells(&self, format: Format) -> Vec<String> {
        let peerings = self.peerings.iter().map(|peering| match peering.problem {
            None => peering.remote.clone(),
            Some(_) => format!("{} (no)", peering.remote),
        });
        let subnets = if format.wide { self.subnets.join(",") } else { self.subnets.len().to_string() };
        let mut cells = vec![
            self.name.clone(),
            self.readiness.word(),
            subnets,
            self.static_routes.to_string(),
            self.policy_routes.to_string(),
            peerings.collect::<Vec<_>>().join(","),
            age(self.created, format.now),
        ];
        if format.wide {
            let problems = self.peerings.iter().filter_map(|peering| peering.problem.clone());
            let messages = [self.readiness.message.clone()].into_iter().filter(|message| !message.is_empty());
            let messages: Vec<_> = messages.chain(problems).collect();
            cells.extend([self.api_group.clone(), messages.join("; ")]);
        }
        cells
    }

    fn names(&self) -> Vec<&str> {
        vec![&self.name]
    }

    fn full_name(&self) -> String {
        format!("vpc.{}/{}", self.api_group, self.name)
    }

    fn uid(&self) -> Option<&str> {
        Some(&self.uid)
    }
}
