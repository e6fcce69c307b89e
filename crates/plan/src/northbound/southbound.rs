//! What ovn-northd makes of a unit in the southbound database: how far one can see there that it is in effect.
//!
//! A datapath stands for a router or switch and refers to its row by UUID; two port bindings of type `patch` stand for each
//! connection between them, under the names of the northbound ports. Both carry names from which the unit is known, so that
//! a change there is related to its unit without a search.

use ovsdb_core::Uuid;
use portolan_api::Family;
use portolan_model::node_subnet::node_subnet;
use portolan_model::{Unit, VpcPair, World};

use super::names;

/// What ovn-northd makes of a unit that is in effect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// The northbound row that the unit's datapath is made for; none if the unit has no datapath of its own.
    pub datapath: Option<Uuid>,
    /// The port bindings that connect it with other datapaths.
    pub patch_ports: Vec<String>,
}

/// What ovn-northd makes of a VPC, with its peerings, or of a subnet. Nothing of what is not in effect.
pub fn expected(unit: &Unit, world: &World) -> Expected {
    match unit {
        Unit::Vpc(name) => {
            let Some(vpc) = world.vpc(name) else { return Expected::default() };
            let remotes = vpc.config.peerings.iter().map(|peering| peering.remote_vpc.as_str());
            let stands =
                |remote: &&str| VpcPair::new(name, remote).is_some_and(|pair| world.peering(&pair).is_some());
            Expected {
                datapath: Some(names::router_row(name, world.owner_of_vpc(vpc)).uuid()),
                patch_ports: remotes.filter(stands).map(|remote| names::peer_port(name, remote)).collect(),
            }
        }
        Unit::Subnet(name) => {
            let Some(view) = world.subnet_view(name) else { return Expected::default() };
            if view.subnet.config.vni.is_some() {
                return Expected::default();
            }
            let ports = view
                .vpc
                .map(|vpc| [names::router_port(vpc.name, name), names::switch_router_port(name, vpc.name)]);
            Expected {
                datapath: Some(names::switch_row(name, &view.subnet.uid).uuid()),
                patch_ports: ports.into_iter().flatten().collect(),
            }
        }
        Unit::Peering(_) | Unit::Attachment(_) | Unit::Node(_) | Unit::Chassis(_) | Unit::Service { .. } => {
            Expected::default()
        }
    }
}

/// The unit of a datapath, by the name that ovn-northd copies from the northbound row.
pub fn unit_of_datapath(name: &str) -> Option<Unit> {
    let unit = match name.split_once(':')? {
        ("vpc", name) => Unit::Vpc(name.to_owned()),
        ("subnet", name) => Unit::Subnet(name.to_owned()),
        ("node", node) => Unit::Subnet(node_subnet(node)),
        _ => return None,
    };
    // Only what reads back is ours.
    unit.to_string().parse().ok()
}

/// The units that a patch port is of: the subnet that it connects with its router, or both VPCs of a peering.
pub fn units_of_patch_port(name: &str) -> Vec<Unit> {
    let Some((near, far)) = name.split_once('/') else { return Vec::new() };
    let ends: Vec<Unit> = [near, far].into_iter().filter_map(unit_of_datapath).collect();
    match ends.iter().find(|unit| matches!(unit, Unit::Subnet(_))) {
        Some(subnet) => vec![subnet.clone()],
        None => ends,
    }
}

/// The name of a VPC's router.
pub fn router_name(vpc: &str) -> String {
    names::router(vpc)
}

/// The row of a subnet's DHCP options of one family.
pub fn dhcp_options_row(subnet: &str, uid: &str, family: Family) -> Uuid {
    names::dhcp_row(subnet, uid, family)
}

#[cfg(test)]
mod tests {
    use portolan_model::fixtures::{mk_subnet, mk_vpc};
    use portolan_model::{Settings, World};

    use super::*;

    #[test]
    fn names_of_datapaths_and_patch_ports_lead_back_to_their_units() {
        let mut world = World::new(Settings::default());
        drop(world.apply(&mk_vpc("blue")));
        drop(world.apply(&mk_subnet("web", "10.0.0.0/24", "blue")));
        let web = Unit::Subnet("web".into());
        let expected = expected(&web, &world);
        assert_eq!(expected.patch_ports, ["vpc:blue/subnet:web", "subnet:web/vpc:blue"]);
        for port in &expected.patch_ports {
            assert_eq!(units_of_patch_port(port), std::slice::from_ref(&web));
        }
        assert_eq!(unit_of_datapath("subnet:web"), Some(web));
        assert_eq!(unit_of_datapath("vpc:blue"), Some(Unit::Vpc("blue".into())));
        assert_eq!(unit_of_datapath("node:a"), Some(Unit::Subnet("node:a".into())));
        assert_eq!(units_of_patch_port("vpc:ovn-cluster/node:a"), [Unit::Subnet("node:a".into())]);
        let [blue, green] = ["blue", "green"].map(|name| Unit::Vpc(name.into()));
        assert_eq!(units_of_patch_port("vpc:blue/vpc:green"), [blue, green]);
        for foreign in ["join", "vpc:", "vpc:A b", "node:", "rtos-web"] {
            assert_eq!(unit_of_datapath(foreign), None, "{foreign}");
            assert_eq!(units_of_patch_port(foreign), []);
        }
    }

    #[test]
    fn the_datapath_is_that_of_the_row_which_is_planned() {
        let mut world = World::new(Settings::default());
        drop(world.apply(&mk_vpc("blue")));
        let unit = Unit::Vpc("blue".into());
        let crate::Plan::Desired(rows) =
            super::super::plan(&unit, &world, &super::super::Settings::default())
        else {
            panic!("the VPC is in effect")
        };
        assert_eq!(expected(&unit, &world).datapath, rows.iter().next().map(crate::DesiredRow::uuid));
    }
}
