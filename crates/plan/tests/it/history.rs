//! Histories: what may happen to a World, to a database, and to the driver between them.

use ovsdb_core::{Atom, Clause, Datum, Map, Mutation, Mutator, Operation, Set, SmolStr, Transaction, Uuid};
use portolan_model::{FirstInterface, Settings, World};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::driver::{Driver, FOREIGN};
use crate::object::{Guest, Object, node_port, pod, primary_node, subnet, vpc};
use crate::support::northbound;

/// A place for an object, and which object of many is there.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Slot {
    Vpc(usize, VpcKind),
    Subnet(usize, SubnetKind),
    Guest(usize, GuestKind),
    Node(usize, NodeKind),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeKind {
    life: u8,
    /// Prefixes of its own, found free of clashes.
    prefixes: bool,
    /// Its port has its addresses.
    port: bool,
    dual: bool,
    address: u8,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct VpcKind {
    life: u8,
    peer: Option<usize>,
    routes: u8,
    policies: u8,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct SubnetKind {
    life: u8,
    vpc: Option<usize>,
    dual: bool,
    dhcp: bool,
    private: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct GuestKind {
    life: u8,
    subnet: usize,
    vpc: Option<usize>,
    dual: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// An object is made or changed.
    Apply(Slot),
    /// Whatever is in the place of this object goes.
    Delete(Slot),
    /// Somebody else writes into a row of ours, and a port into a switch of ours.
    Mark(usize),
    /// Somebody else takes away a row of ours, or changes it; the driver does not know and starts anew.
    Damage(usize, Damage),
    /// The driver works, in transactions of so many changes, and may die on the way.
    Round(usize, Option<usize>),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Damage {
    TakeAway,
    Untag,
    Rewrite,
}

const VPCS: [&str; 3] = ["a", "b", "ovn-cluster"];
const NODES: [&str; 2] = ["node-1", "node-2"];
const SUBNETS: [&str; 4] = ["s0", "s1", "s2", "s3"];
const GUESTS: [&str; 6] = ["g0", "g1", "g2", "g3", "g4", "g5"];

pub(crate) fn slot() -> impl Strategy<Value = Slot> {
    let vpc = || prop::option::weighted(0.8, 0..VPCS.len());
    let vpc_kind = (0..2_u8, vpc(), 0..4_u8, 0..4_u8).prop_map(|(life, peer, routes, policies)| VpcKind {
        life,
        peer,
        routes,
        policies,
    });
    let subnet_kind = (0..2_u8, vpc(), any::<bool>(), any::<bool>(), any::<bool>())
        .prop_map(|(life, vpc, dual, dhcp, private)| SubnetKind { life, vpc, dual, dhcp, private });
    let guest_kind = (0..2_u8, 0..SUBNETS.len(), vpc(), any::<bool>())
        .prop_map(|(life, subnet, vpc, dual)| GuestKind { life, subnet, vpc, dual });
    let node_kind = (0..2_u8, any::<[bool; 3]>(), 0..2_u8)
        .prop_map(|(life, [prefixes, port, dual], address)| NodeKind { life, prefixes, port, dual, address });
    prop_oneof![
        1 => (0..VPCS.len(), vpc_kind).prop_map(|(at, kind)| Slot::Vpc(at, kind)),
        1 => (0..SUBNETS.len(), subnet_kind).prop_map(|(at, kind)| Slot::Subnet(at, kind)),
        2 => (0..GUESTS.len(), guest_kind).prop_map(|(at, kind)| Slot::Guest(at, kind)),
        1 => (0..NODES.len(), node_kind).prop_map(|(at, kind)| Slot::Node(at, kind)),
    ]
}

pub(crate) fn event() -> impl Strategy<Value = Event> {
    let damage = prop_oneof![Just(Damage::TakeAway), Just(Damage::Untag), Just(Damage::Rewrite)];
    prop_oneof![
        8 => slot().prop_map(Event::Apply),
        2 => slot().prop_map(Event::Delete),
        1 => any::<usize>().prop_map(Event::Mark),
        1 => (any::<usize>(), damage).prop_map(|(at, damage)| Event::Damage(at, damage)),
        4 => (1..12_usize, prop::option::weighted(0.2, 0..4_usize)).prop_map(|(n, dies)| Event::Round(n, dies)),
    ]
}

impl Slot {
    /// The place alone.
    fn place(self) -> (u8, usize) {
        match self {
            Slot::Vpc(at, _) => (0, at),
            Slot::Subnet(at, _) => (1, at),
            Slot::Guest(at, _) => (2, at),
            Slot::Node(at, _) => (3, at),
        }
    }

    fn objects(self) -> Vec<Object> {
        match self {
            Slot::Vpc(at, kind) => {
                vec![vpc(VPCS[at], &format!("uid-{}-{}", VPCS[at], kind.life), &kind.spec(at))]
            }
            Slot::Subnet(at, kind) => {
                vec![subnet(SUBNETS[at], &format!("uid-{}-{}", SUBNETS[at], kind.life), &kind.spec(at))]
            }
            Slot::Guest(at, kind) => kind.guest(at).locks().collect(),
            Slot::Node(at, kind) => kind.objects(at),
        }
    }
}

impl NodeKind {
    fn objects(self, at: usize) -> Vec<Object> {
        const V4: [[&str; 2]; 2] = [["10.60.0.2", "10.60.0.3"], ["10.60.1.2", "10.60.1.3"]];
        const V6: [[&str; 2]; 2] = [["fd00:60::2", "fd00:60::3"], ["fd00:61::2", "fd00:61::3"]];
        let v6 = if self.dual { format!(",fd00:6{at}::/64") } else { String::new() };
        let cidrs = if self.prefixes { format!("10.60.{at}.0/24{v6}") } else { String::new() };
        let addresses = [format!("192.168.0.{}", self.address)];
        let uid = format!("uid-{}-{}", NODES[at], self.life);
        let node = primary_node(NODES[at], &uid, &cidrs, &addresses);
        let v6 = if self.dual { &V6[at][..] } else { &[] };
        let port = node_port(NODES[at], &uid, &[&V4[at][..], v6].concat());
        let locks: Vec<_> = if self.port { port.locks().collect() } else { Vec::new() };
        std::iter::once(node).chain(locks).collect()
    }
}

impl VpcKind {
    fn spec(self, at: usize) -> Value {
        let route = |n: u8| json!({"cidr": format!("172.16.{}.0/24", n / 2), "nextHopIP": format!("10.0.0.{}", n + 2)});
        let policy = |n: u8| json!({"priority": 10 + n, "match": format!("ip4.dst == 10.{n}.0.0/16"), "action": "drop"});
        let peer = self.peer.filter(|peer| *peer != at).map(|peer| {
            // The two agree on a network that follows from both.
            let (low, high) = (at.min(peer), at.max(peer));
            let address = format!("169.254.{}.{}/30", low * 4 + high, if at < peer { 1 } else { 2 });
            json!({"remoteVpc": VPCS[peer], "localConnectIP": address})
        });
        json!({
            "staticRoutes": (0..self.routes).map(route).collect::<Vec<_>>(),
            "policyRoutes": (0..self.policies).map(policy).collect::<Vec<_>>(),
            "vpcPeerings": peer.into_iter().collect::<Vec<_>>(),
        })
    }
}

impl SubnetKind {
    fn spec(self, at: usize) -> Value {
        let v6 = if self.dual { format!(",fd00:{at}::/64") } else { String::new() };
        let mut spec = json!({
            "cidrBlock": format!("10.{at}.0.0/24{v6}"), "enableDHCP": self.dhcp, "private": self.private,
        });
        if let Some(vpc) = self.vpc {
            spec["vpc"] = VPCS[vpc].into();
        }
        spec
    }
}

impl GuestKind {
    fn guest(self, at: usize) -> Guest {
        const V4: [[&str; 6]; 4] = addresses_v4();
        const V6: [[&str; 6]; 4] = addresses_v6();
        let subnet = SUBNETS[self.subnet];
        let domain = self.vpc.map_or_else(|| format!("subnet/{subnet}"), |vpc| format!("vpc/{}", VPCS[vpc]));
        let v6 = self.dual.then_some(V6[self.subnet][at]);
        let addresses: Vec<&str> = std::iter::once(V4[self.subnet][at]).chain(v6).collect();
        let guest = pod(GUESTS[at], subnet, &domain, &addresses);
        Guest { uid: format!("uid-{}-{}", self.life, GUESTS[at]), ..guest }
    }
}

const fn addresses_v4() -> [[&'static str; 6]; 4] {
    [
        ["10.0.0.10", "10.0.0.11", "10.0.0.12", "10.0.0.13", "10.0.0.14", "10.0.0.15"],
        ["10.1.0.10", "10.1.0.11", "10.1.0.12", "10.1.0.13", "10.1.0.14", "10.1.0.15"],
        ["10.2.0.10", "10.2.0.11", "10.2.0.12", "10.2.0.13", "10.2.0.14", "10.2.0.15"],
        ["10.3.0.10", "10.3.0.11", "10.3.0.12", "10.3.0.13", "10.3.0.14", "10.3.0.15"],
    ]
}

const fn addresses_v6() -> [[&'static str; 6]; 4] {
    [
        ["fd00::10", "fd00::11", "fd00::12", "fd00::13", "fd00::14", "fd00::15"],
        ["fd00:1::10", "fd00:1::11", "fd00:1::12", "fd00:1::13", "fd00:1::14", "fd00:1::15"],
        ["fd00:2::10", "fd00:2::11", "fd00:2::12", "fd00:2::13", "fd00:2::14", "fd00:2::15"],
        ["fd00:3::10", "fd00:3::11", "fd00:3::12", "fd00:3::13", "fd00:3::14", "fd00:3::15"],
    ]
}

/// A history in the making.
pub(crate) struct History {
    pub(crate) driver: Driver,
    pub(crate) present: Vec<Slot>,
}

impl History {
    pub(crate) fn new(first_interface: FirstInterface) -> Self {
        let mut database = northbound();
        database.transact(&foreign_rows()).unwrap();
        let world = World::new(Settings { first_interface });
        History { driver: Driver::new(database, world), present: Vec::new() }
    }

    pub(crate) fn happen(&mut self, event: &Event) {
        match *event {
            Event::Apply(slot) => {
                self.delete(slot, &slot.objects());
                for object in slot.objects() {
                    let dirty = object.apply(&mut self.driver.world);
                    self.driver.note(dirty);
                }
                self.present.push(slot);
            }
            Event::Delete(slot) => self.delete(slot, &[]),
            Event::Mark(at) => self.mark(at),
            Event::Damage(at, damage) => self.damage(at, damage),
            Event::Round(limit, dies_at) => self.driver.round(limit, dies_at),
        }
    }

    /// Takes away what is in a place, but for objects that `stay` under their names.
    pub(crate) fn delete(&mut self, slot: Slot, stay: &[Object]) {
        let Some(at) = self.present.iter().position(|present| present.place() == slot.place()) else {
            return;
        };
        let name = |object: &Object| match object {
            Object::Lock(lock) => lock.metadata.name.clone(),
            _ => None,
        };
        for object in self.present.remove(at).objects() {
            let replaced = stay.iter().any(|other| name(other) == name(&object));
            if !replaced {
                let dirty = object.delete(&mut self.driver.world);
                self.driver.note(dirty);
            }
        }
    }

    fn mark(&mut self, at: usize) {
        let rows = self.driver.our_rows();
        let Some(&(table, uuid)) = rows.get(at % rows.len().max(1)) else { return };
        let ids = Datum::Map([(Atom::from(FOREIGN), Atom::from("kept"))].into_iter().collect::<Map>());
        let mut transaction = Transaction::new();
        transaction.push(mutate(
            table,
            uuid,
            vec![Mutation::new("external_ids", Mutator::Insert, ids.clone())],
        ));
        if table == "Logical_Switch_Port" {
            transaction.push(mutate(table, uuid, vec![Mutation::new("options", Mutator::Insert, ids)]));
            let no = Datum::Set([Atom::from(false)].into_iter().collect());
            transaction.push(update(table, uuid, "enabled", no));
        }
        if table == "Logical_Switch" {
            let port = Uuid::new_v5(&uuid, at.to_string().as_bytes());
            let name = Datum::Atom(Atom::from(format!("foreign {port}")));
            transaction.push(insert("Logical_Switch_Port", port, vec![("name", name)]));
            let ports = Mutation::elements("ports", Mutator::Insert, [Atom::from(port)]);
            transaction.push(mutate(table, uuid, vec![ports]));
        }
        if self.driver.database.clone().transact(&transaction).is_ok() {
            self.driver.interfere(&transaction);
            self.driver.mark(table, uuid);
        }
    }

    fn damage(&mut self, at: usize, damage: Damage) {
        let rows = self.driver.our_rows();
        let Some(&(table, uuid)) = rows.get(at % rows.len().max(1)) else { return };
        let parent = portolan_plan::northbound::DATABASE.table(table).unwrap().parents.first();
        let transaction = match (damage, parent) {
            (Damage::TakeAway, None) => {
                let condition = vec![Clause::uuid(uuid)];
                one(Operation::Delete { table: table.into(), condition })
            }
            (Damage::TakeAway, Some(parent)) => {
                let gone = Mutation::elements(parent.column, Mutator::Delete, [Atom::from(uuid)]);
                let everywhere = Operation::Mutate {
                    table: parent.table.into(),
                    condition: vec![],
                    mutations: vec![gone],
                };
                one(everywhere)
            }
            (Damage::Untag, _) => {
                let tags = ["portolan/unit", "portolan/owner", "portolan/parent"];
                let tags = Datum::Set(tags.into_iter().map(Atom::from).collect::<Set>());
                one(mutate(table, uuid, vec![Mutation::new("external_ids", Mutator::Delete, tags)]))
            }
            (Damage::Rewrite, _) => {
                let column = match table {
                    "DHCP_Options" => "cidr",
                    "Logical_Router_Static_Route" => "nexthop",
                    "Logical_Router_Policy" | "ACL" => "match",
                    _ => "name",
                };
                one(update(table, uuid, column, Datum::Atom(Atom::from(format!("wrong {uuid}")))))
            }
        };
        // What loses its tag and is not wanted any more is nobody's; so before and after, everything is as it should be.
        self.driver.settle(usize::MAX);
        if self.driver.database.clone().transact(&transaction).is_ok() {
            self.driver.interfere(&transaction);
        }
        self.driver.restart();
        if matches!(damage, Damage::Untag) {
            self.driver.settle(usize::MAX);
        }
    }
}

fn one(operation: Operation) -> Transaction {
    let mut transaction = Transaction::new();
    transaction.push(operation);
    transaction
}

fn mutate(table: &str, uuid: Uuid, mutations: Vec<Mutation>) -> Operation {
    Operation::Mutate { table: table.into(), condition: vec![Clause::uuid(uuid)], mutations }
}

fn update(table: &str, uuid: Uuid, column: &str, value: Datum) -> Operation {
    Operation::Update {
        table: table.into(),
        condition: vec![Clause::uuid(uuid)],
        row: vec![(column.into(), value)],
    }
}

fn insert(table: &str, uuid: Uuid, row: Vec<(&str, Datum)>) -> Operation {
    let row = row.into_iter().map(|(column, value)| (SmolStr::new(column), value)).collect();
    Operation::Insert { table: table.into(), uuid: Some(uuid), uuid_name: None, row }
}

/// Somebody else's switch with a port, router and DHCP options.
pub(crate) fn foreign_rows() -> Transaction {
    let [switch, port, router, dhcp] = [1_u128, 2, 3, 4].map(|n| Uuid::from_u128(n << 96 | n));
    let text = |text: &str| Datum::Atom(Atom::from(text));
    let mut transaction = Transaction::new();
    transaction.push(insert("Logical_Switch_Port", port, vec![("name", text("theirs"))]));
    let ports = Datum::Set([Atom::from(port)].into_iter().collect());
    transaction.push(insert("Logical_Switch", switch, vec![("name", text("subnet:s0")), ("ports", ports)]));
    transaction.push(insert("Logical_Router", router, vec![("name", text("vpc:a"))]));
    transaction.push(insert("DHCP_Options", dhcp, vec![("cidr", text("10.0.0.0/24"))]));
    transaction
}
