//! Plans that only tests have, of what services, policy and gateways will need: memberships in groups, rows held by one of
//! several tables, rows without `external_ids`.

use std::collections::{BTreeMap, BTreeSet};

use ovn_schema::nb::{
    Acl, AddressSet, ChassisTemplateVar, GatewayChassis, HaChassis, HaChassisGroup, LoadBalancer,
    LoadBalancerGroup, LogicalRouter, LogicalRouterPort, LogicalSwitch, LogicalSwitchPort, Nat, PortGroup,
};
use portolan_plan::table::Planned;
use portolan_plan::{RowRef, Rows};

/// What there should be. Things refer to each other by number; a reference to what is not there is left out.
#[derive(Clone, Debug, Default)]
pub(crate) struct Design {
    /// Switches, by which of their lives.
    pub(crate) switches: BTreeMap<u8, u8>,
    /// Groups of ports with their addresses and rules, by which of their lives.
    pub(crate) groups: BTreeMap<u8, u8>,
    pub(crate) ports: BTreeMap<u8, Port>,
    /// Load balancers, by whether they are in the group of all.
    pub(crate) balancers: BTreeMap<u8, bool>,
    pub(crate) gateways: BTreeMap<u8, Gateway>,
    /// Rows with variables of balancers, by which of their lives.
    pub(crate) chassis: BTreeMap<u8, u8>,
    /// Variables of balancers at chassis, also of such as are not there.
    pub(crate) variables: BTreeMap<(u8, u8), u8>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Port {
    pub(crate) life: u8,
    pub(crate) switch: u8,
    pub(crate) groups: BTreeSet<u8>,
    /// Ports may have the same one.
    pub(crate) address: u8,
}

/// A router with a port on which chassis are scheduled, by another unit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gateway {
    pub(crate) life: u8,
    pub(crate) chassis: BTreeSet<u8>,
    /// By an HA chassis group rather than by gateway chassis.
    pub(crate) group: bool,
}

fn owner(name: &str, life: u8) -> String {
    format!("uid-{name}-{life}")
}

fn reference<R: Planned>(name: &str, life: u8) -> RowRef<R> {
    RowRef::new(&name, &owner(name, life), "")
}

pub(crate) fn port_group(number: u8, life: u8) -> RowRef<PortGroup> {
    reference(&format!("group/{number}"), life)
}

pub(crate) fn address_set(number: u8, life: u8) -> RowRef<AddressSet> {
    reference(&format!("group/{number}"), life)
}

pub(crate) fn address(number: u8) -> String {
    format!("10.0.0.{number}")
}

impl Design {
    /// The rows of every unit.
    pub(crate) fn rows(&self) -> Vec<Rows> {
        let switches = self.switches.iter().map(|(number, life)| switch(*number, *life));
        let groups = self.groups.iter().map(|(number, life)| group(*number, *life));
        let ports = self.ports.iter().filter_map(|(number, port)| self.port(*number, port));
        let balancers = self.balancers.iter().map(|(number, grouped)| self.balancer(*number, *grouped));
        let chassis = self.chassis.iter().map(|(number, life)| chassis(*number, *life));
        let gateways = self.gateways.iter().flat_map(|(number, gateway)| gateway.rows(*number));
        let all = [balancers_of_all()].into_iter().chain(switches).chain(groups).chain(ports);
        all.chain(balancers).chain(gateways).chain(chassis).collect()
    }

    /// A port of a switch, in groups, with its address in their address sets.
    fn port(&self, number: u8, port: &Port) -> Option<Rows> {
        let switch =
            reference::<LogicalSwitch>(&format!("switch/{}", port.switch), *self.switches.get(&port.switch)?);
        let name = format!("port/{number}");
        let mut rows = Rows::new(&name, owner(&name, port.life));
        let address = address(port.address);
        let row = LogicalSwitchPort {
            name: format!("{name}/{}", port.life),
            // No two ports of a switch may have one address; only sets may be told the same by two.
            addresses: [format!("0a:58:0a:00:00:{:02x} 10.9.{number}.{}", port.address, port.address)].into(),
            ..Default::default()
        };
        let row = rows.child("", switch.column(LogicalSwitch::PORTS), row);
        for (group, life) in port.groups.iter().filter_map(|group| self.groups.get_key_value(group)) {
            rows.row_member(&row, &port_group(*group, *life), PortGroup::PORTS);
            let addresses = [address.clone()].into();
            rows.text_members(&row, &address_set(*group, *life), AddressSet::ADDRESSES, &addresses);
        }
        Some(rows)
    }
}

/// A row that balancers have variables in.
fn chassis(number: u8, life: u8) -> Rows {
    let name = format!("variables/{number}");
    let mut rows = Rows::new(&name, owner(&name, life));
    rows.root("", ChassisTemplateVar { chassis: name, ..Default::default() });
    rows
}

impl Design {
    fn balancer(&self, number: u8, grouped: bool) -> Rows {
        let name = format!("balancer/{number}");
        let mut rows = Rows::new(&name, owner(&name, 0));
        let vips =
            (0..4).map(|port| (format!("10.96.0.{number}:{port}"), format!("10.0.0.{port}:80"))).collect();
        let row = rows.root("", LoadBalancer { name, vips, ..Default::default() });
        if grouped {
            let all = RowRef::new(&"balancers", "uid-balancers", "all");
            rows.row_member(&row, &all, LoadBalancerGroup::LOAD_BALANCER);
        }
        for ((_, chassis), value) in self.variables.range((number, 0)..=(number, u8::MAX)) {
            // Of one that is not there it is not known which life it will have.
            let life = self.chassis.get(chassis).copied().unwrap_or_default();
            let map = reference(&format!("variables/{chassis}"), life);
            rows.pair(&row, "80_local", &map, ChassisTemplateVar::VARIABLES, format!("10.0.0.{value}:80"));
        }
        rows
    }
}

fn switch(number: u8, life: u8) -> Rows {
    let name = format!("switch/{number}");
    let mut rows = Rows::new(&name, owner(&name, life));
    let switch = rows.root("", LogicalSwitch { name, ..Default::default() });
    rows.child("", switch.column(LogicalSwitch::ACLS), acl(1000, "ip4"));
    // The group of all balancers is on every switch.
    rows
}

fn group(number: u8, life: u8) -> Rows {
    let name = format!("group/{number}");
    let mut rows = Rows::new(&name, owner(&name, life));
    let (port_group, address_set) = (format!("pg{number}"), format!("as{number}"));
    let group = rows.root("", PortGroup { name: port_group, ..Default::default() });
    rows.root("", AddressSet { name: address_set, ..Default::default() });
    rows.child("", group.column(PortGroup::ACLS), acl(1001, &format!("outport == @pg{number}")));
    rows
}

fn acl(priority: i64, matches: &str) -> Acl {
    let (direction, action) = ("to-lport".to_owned(), "drop".to_owned());
    Acl { priority, direction, r#match: matches.to_owned(), action, ..Default::default() }
}

fn balancers_of_all() -> Rows {
    let mut rows = Rows::new(&"balancers", "uid-balancers");
    rows.root("all", LoadBalancerGroup::default());
    rows
}

impl Gateway {
    /// The router with its port, and who may serve it.
    fn rows(&self, number: u8) -> Vec<Rows> {
        let name = format!("router/{number}");
        let (router_owner, port_name) = (owner(&name, self.life), format!("{name}/out"));
        let mut router = Rows::new(&name, &router_owner);
        let row = router.root("", LogicalRouter { name: name.clone(), ..Default::default() });
        let group_name = format!("chassis/{number}");
        let group = reference::<HaChassisGroup>(&group_name, 0);
        let networks = [format!("192.0.2.{number}/24")].into();
        let port = LogicalRouterPort {
            name: port_name.clone(),
            mac: "0a:58:00:00:00:01".into(),
            networks,
            ha_chassis_group: self.group.then_some(group.uuid()),
            ..Default::default()
        };
        let port = router.child("", row.column(LogicalRouter::PORTS), port);
        let nat = Nat {
            r#type: "snat".into(),
            external_ip: format!("192.0.2.{number}"),
            logical_ip: "10.0.0.0/8".into(),
            gateway_port: Some(port.uuid()),
            ..Default::default()
        };
        router.child("", row.column(LogicalRouter::NAT), nat);

        let mut chassis = Rows::new(&group_name, owner(&group_name, 0));
        let group = self
            .group
            .then(|| chassis.root("", HaChassisGroup { name: group_name.clone(), ..Default::default() }));
        for number in &self.chassis {
            let (key, chassis_name, priority) =
                (number.to_string(), format!("node-{number}"), i64::from(*number));
            match &group {
                Some(group) => {
                    let row = HaChassis { chassis_name, priority, ..Default::default() };
                    chassis.child(&key, group.column(HaChassisGroup::HA_CHASSIS), row);
                }
                None => {
                    let name = format!("{port_name}-{chassis_name}");
                    let row = GatewayChassis { name, chassis_name, priority, ..Default::default() };
                    chassis.child(&key, port.column(LogicalRouterPort::GATEWAY_CHASSIS), row);
                }
            }
        }
        vec![router, chassis]
    }
}
