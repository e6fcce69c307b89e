//! A VPC.

use portolan_api::vpc_config::{PolicyAction, RoutePolicy};

use super::sheet::Sheet;
use super::{Description, found};
use crate::cluster::{Described, Snapshot};
use crate::get::{Ready, vpcs};
use crate::output::{age, now};

pub(super) fn describe(snapshot: &Snapshot, name: &str) -> anyhow::Result<Vec<Description>> {
    let all = snapshot.vpcs.iter().map(|vpc| (vpc.name.clone(), vpc)).collect();
    let vpcs = found("VPC", name, all)?;
    Ok(vpcs.into_iter().map(|vpc| describe_one(snapshot, vpc)).collect())
}

pub(super) fn describe_one(snapshot: &Snapshot, described: &Described) -> Description {
    let row = vpcs::row(snapshot, described);
    let mut sheet = Sheet::new(format!("VPC {} ({}): a virtual router", row.name, row.api_group));
    sheet.field("Ready", row.readiness.word());
    sheet.field("Age", age(row.created, now()));
    // The name it has once it is there: whether it is, the conditions say.
    if row.readiness.ready != Ready::No {
        sheet.field("OVN router", format!("vpc:{}", row.name));
    }
    let vpc = snapshot.world.vpc(&row.name).filter(|vpc| vpc.uid == described.uid);
    if let Some(vpc) = vpc {
        sheet.field("Namespaces", vpc.config.namespaces.join(", "));
        sheet.field("Default subnet", vpc.config.default_subnet.clone().unwrap_or_default());
        let subnets = snapshot.world.subnets_of_vpc(&vpc.name).map(|subnet| {
            let config = &subnet.config;
            [subnet.name.clone(), config.cidr.to_string(), config.gateway.to_string()]
        });
        let subnets: Vec<_> = subnets.collect();
        if subnets.is_empty() {
            sheet.lines("Subnets", ["none: spec.vpc of a Subnet names its VPC".to_owned()]);
        } else {
            sheet.table("Subnets", ["NAME", "CIDR", "GATEWAY"], subnets);
        }
        let routes = vpc.config.static_routes.iter().map(|route| {
            let what = match route.policy {
                RoutePolicy::Destination => "to",
                RoutePolicy::Source => "from",
            };
            format!("{what} {} via {}", route.prefix, route.next_hop)
        });
        let routes: Vec<_> = routes.collect();
        if !routes.is_empty() {
            sheet.lines("Static routes", routes);
        }
        let policies = vpc.config.policy_routes.iter().map(|policy| {
            let action = match &policy.action {
                PolicyAction::Allow => "allow".to_owned(),
                PolicyAction::Drop => "drop".to_owned(),
                PolicyAction::Reroute(hops) => {
                    format!(
                        "reroute via {}",
                        hops.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
                    )
                }
            };
            [policy.priority.to_string(), policy.matches.clone(), action]
        });
        let policies: Vec<_> = policies.collect();
        if !policies.is_empty() {
            sheet.table("Policy routes", ["PRIORITY", "MATCH", "ACTION"], policies);
        }
    }
    if !row.peerings.is_empty() {
        let peerings = row.peerings.iter().map(|peering| match &peering.problem {
            None => format!("{}: connected, {} on this side", peering.remote, peering.local_connect),
            Some(problem) => format!("{}: not connected: {problem}", peering.remote),
        });
        sheet.lines("Peerings", peerings);
    }
    sheet.findings(described, &row.readiness);
    Description { sheet, uid: Some(described.uid.clone()) }
}
