//! A subnet.

use portolan_api::kubeovn::support::Egress;
use portolan_api::subnet_config::AllowedNamespaces;

use super::sheet::Sheet;
use super::{Description, found, interfaces, on_subnet};
use crate::cluster::{Described, Snapshot};
use crate::get::{NAME_TAKEN, Ready, subnets};
use crate::output::{age, now};

pub(super) fn describe(snapshot: &Snapshot, name: &str) -> anyhow::Result<Vec<Description>> {
    let all = snapshot.subnets.iter().map(|subnet| (subnet.name.clone(), subnet)).collect();
    let subnets = found("subnet", name, all)?;
    Ok(subnets.into_iter().map(|subnet| describe_one(snapshot, subnet)).collect())
}

pub(super) fn describe_one(snapshot: &Snapshot, described: &Described) -> Description {
    let row = subnets::row(snapshot, described);
    let mut sheet = Sheet::new(format!("Subnet {} ({}): a virtual switch", row.name, row.api_group));
    let yes = |yes: bool| if yes { "yes" } else { "no" };
    sheet.field("Ready", row.readiness.word());
    sheet.field("Age", age(row.created, now()));
    sheet.field("VPC", row.vpc.clone().unwrap_or_else(|| "none: an isolated switch".into()));
    sheet.field("CIDR", row.cidr.clone().unwrap_or_default());
    sheet.field("Gateway", row.gateway.clone().unwrap_or_default());
    sheet.field(
        "Provider",
        row.provider.clone().unwrap_or_else(|| "none: no network attachment definition".into()),
    );
    let addresses =
        row.addresses.iter().map(|one| format!("{}: {} used, {} free", one.family, one.used, one.free));
    sheet.field("Addresses", addresses.collect::<Vec<_>>().join("; "));
    let subnet = snapshot.world.subnet_of_group(described.group, &described.name);
    if let Some(config) = subnet.map(|subnet| &subnet.config) {
        let list = |texts: Vec<String>| texts.join(", ");
        sheet.field("Excluded", list(config.exclude.iter().map(ToString::to_string).collect()));
        sheet.field(
            "MTU",
            config
                .mtu
                .map_or_else(|| "the underlay's less the tunnel's overhead".into(), |mtu| mtu.to_string()),
        );
        sheet.field("DHCP", yes(config.dhcp.is_some()));
        let private = match (config.private, config.allow_subnets.as_slice()) {
            (false, _) => "no".into(),
            (true, []) => "yes: connections from outside are not admitted".into(),
            (true, allowed) => {
                format!("yes, except from {}", list(allowed.iter().map(ToString::to_string).collect()))
            }
        };
        sheet.field("Private", private);
        let egress = snapshot.world.settings().first_interface.egress(config.vpc.as_deref());
        let nat_outgoing = match (egress, config.nat_outgoing) {
            (Egress::ByNode, true) => "yes (the node's address)",
            (Egress::ByNode, false) => "no (the pod's own address; outside needs routes)",
            (Egress::Otherwise, _) => "",
        };
        sheet.field("NAT outgoing", nat_outgoing);
        let allowed = match &config.allowed_namespaces {
            AllowedNamespaces::Own => String::new(),
            AllowedNamespaces::Listed(listed) => listed.join(", "),
            AllowedNamespaces::All => "all".into(),
        };
        sheet.field("Namespaces", config.namespaces.join(", "));
        sheet.field("Allowed", allowed);
        let routes = config.routes.iter().map(|route| {
            let gateway =
                route.gateway.map_or_else(|| "the gateway".to_owned(), |gateway| gateway.to_string());
            format!("{} via {gateway}", route.destination)
        });
        sheet.field("Routes", list(routes.collect()));
    }
    // Of two with one name, one is in effect.
    if row.readiness.reason != NAME_TAKEN {
        // The name it has once it is there: whether it is, the conditions say.
        if row.readiness.ready != Ready::No {
            sheet.field("OVN switch", format!("subnet:{}", row.name));
        }
        interfaces(&mut sheet, "Used by", &on_subnet(snapshot, &row.name));
    }
    sheet.findings(described, &row.readiness);
    Description { sheet, uid: Some(described.uid.clone()) }
}
