//! Memberships, parents per row and order from needs: any history of designs ends in the database of the last one.

use std::collections::{BTreeMap, BTreeSet};

use ovn_schema::nb::{AddressSet, LogicalSwitch, LogicalSwitchPort, PortGroup};
use ovsdb_core::{Atom, Cache, Clause, Datum, Mutation, Mutator, Operation, SmolStr, Transaction, Uuid};
use portolan_plan::memdb::{Content, Done, MemDb};
use portolan_plan::northbound::DATABASE;
use portolan_plan::{Diff, Obstacle, RowRef, Rows, batches};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::prelude::*;

use crate::overlay::{Design, Gateway, Port, address, address_set, port_group};
use crate::support::northbound;

/// A database, and what was written to it.
struct Writer {
    database: MemDb,
    cache: Cache,
    /// Units that were written once.
    known: BTreeSet<SmolStr>,
}

impl Writer {
    fn new() -> Self {
        let database = northbound();
        let cache = database.cache(DATABASE.indexes());
        Writer { database, cache, known: BTreeSet::new() }
    }

    /// Compares the units that `chosen` chooses, and writes the difference in transactions of at most `limit` changes.
    fn write(&mut self, design: &Design, limit: usize, chosen: impl Fn(usize) -> bool) -> Diff {
        let desired: BTreeMap<SmolStr, Rows> =
            design.rows().into_iter().map(|rows| (rows.unit().clone(), rows)).collect();
        self.known.extend(desired.keys().cloned());
        let all = (0..self.known.len()).all(&chosen);
        let chosen =
            self.known.iter().enumerate().filter(|(at, _)| chosen(*at)).map(|(_, unit)| unit.clone());
        let (wanted, stale): (Vec<_>, Vec<_>) = chosen.partition(|unit| desired.contains_key(unit));
        let wanted: Vec<Rows> = wanted.iter().map(|unit| desired[unit].clone()).collect();
        let diff = DATABASE.diff(&wanted, &stale, &self.cache);
        for batch in batches(diff.atoms.clone(), limit) {
            let transaction = batch.transaction();
            // A row that a unit refers to which is not compared is refused, and tried again later.
            let refused = self.database.clone().transact(&transaction).err();
            if !all && refused.is_some_and(|refusal| refusal.error == "referential integrity violation") {
                break;
            }
            self.transact(&transaction);
        }
        self.database.refresh(&mut self.cache);
        diff
    }

    fn transact(&mut self, transaction: &Transaction) {
        let done = self.database.transact(transaction);
        let done = done.unwrap_or_else(|refusal| panic!("{refusal}\n{transaction:#?}"));
        for (at, expected) in transaction.expected_counts() {
            assert_eq!(done[*at], Done::Count(*expected), "operation {at} of {transaction:#?}");
        }
    }

    /// Writes until there is nothing left to do. Who contributes to a map that is not there waits, and for nothing else.
    fn settle(&mut self, design: &Design, limit: usize) {
        for _ in 0..4 {
            if self.write(design, limit, |_| true).atoms.is_empty() {
                break;
            }
        }
        let left = self.write(design, limit, |_| true);
        assert_eq!(left.atoms, [], "it never comes to rest");
        let is_for_map =
            |obstacle: &Obstacle| matches!(obstacle, Obstacle::Missing { table: "Chassis_Template_Var", .. });
        assert!(left.waiting.iter().all(|waiting| is_for_map(&waiting.obstacle)), "{:?}", left.waiting);
    }

    fn interfere(&mut self, operation: Operation) {
        let mut transaction = Transaction::new();
        transaction.push(operation);
        self.database.transact(&transaction).unwrap();
        self.database.refresh(&mut self.cache);
    }
}

fn made_at_once(design: &Design) -> Content {
    let mut writer = Writer::new();
    writer.settle(design, usize::MAX);
    writer.database.content().clone()
}

fn mutate(table: &str, uuid: Uuid, column: &str, mutator: Mutator, element: impl Into<Atom>) -> Operation {
    let mutations = vec![Mutation::elements(SmolStr::new(column), mutator, [element.into()])];
    Operation::Mutate { table: table.into(), condition: vec![Clause::uuid(uuid)], mutations }
}

fn design() -> impl Strategy<Value = Design> {
    let port = (0..2_u8, 0..3_u8, btree_set(0..3_u8, 0..3), 1..4_u8)
        .prop_map(|(life, switch, groups, address)| Port { life, switch, groups, address });
    let gateway = (0..2_u8, btree_set(1..4_u8, 0..3), any::<bool>())
        .prop_map(|(life, chassis, group)| Gateway { life, chassis, group });
    (
        btree_map(0..3_u8, 0..2_u8, 0..4),
        btree_map(0..3_u8, 0..2_u8, 0..4),
        btree_map(0..5_u8, port, 0..6),
        btree_map(0..3_u8, any::<bool>(), 0..4),
        btree_map(0..2_u8, gateway, 0..3),
        btree_map(0..3_u8, 0..2_u8, 0..4),
        btree_map((0..3_u8, 0..3_u8), 1..4_u8, 0..6),
    )
        .prop_map(|(switches, groups, ports, balancers, gateways, chassis, variables)| Design {
            switches,
            groups,
            ports,
            balancers,
            gateways,
            chassis,
            variables,
        })
}

/// What happens between two designs.
#[derive(Clone, Debug)]
enum Event {
    /// Another design, of which some units are written.
    Write(Design, usize, u64),
    /// Somebody takes an element out of one of our sets.
    Steal(usize),
    /// Somebody puts an address into one of our sets.
    Plant(usize),
    /// Somebody takes a variable out of one of our maps.
    Forget(usize),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (design(), 1..20_usize, prop_oneof![Just(u64::MAX), any::<u64>()])
            .prop_map(|(design, limit, mask)| Event::Write(design, limit, mask)),
        1 => any::<usize>().prop_map(Event::Steal),
        1 => any::<usize>().prop_map(Event::Plant),
        1 => any::<usize>().prop_map(Event::Forget),
    ]
}

fn happen(writer: &mut Writer, event: &Event) {
    let sets = |writer: &Writer| -> Vec<(&'static str, Uuid, &'static str, Vec<Atom>)> {
        let columns =
            [("Port_Group", "ports"), ("Address_Set", "addresses"), ("Load_Balancer_Group", "load_balancer")];
        let content = writer.database.content();
        let of = |(table, column): (&'static str, &'static str)| {
            content[table]
                .iter()
                .map(move |(uuid, row)| (table, *uuid, column, row[column].keys().cloned().collect()))
        };
        columns.into_iter().flat_map(of).collect()
    };
    match event {
        Event::Write(design, limit, mask) => {
            writer.write(design, *limit, |at| mask >> (at % 64) & 1 == 1);
        }
        Event::Steal(at) => {
            let elements: Vec<_> = sets(writer)
                .into_iter()
                .flat_map(|(table, row, column, set)| {
                    set.into_iter().map(move |element| (table, row, column, element))
                })
                .collect();
            if let Some((table, row, column, element)) = elements.get(at % elements.len().max(1)).cloned() {
                writer.interfere(mutate(table, row, column, Mutator::Delete, element));
            }
        }
        Event::Forget(at) => {
            let content = &writer.database.content()["Chassis_Template_Var"];
            let all: Vec<_> = content
                .iter()
                .flat_map(|(uuid, row)| row["variables"].keys().map(move |key| (*uuid, key.clone())))
                .collect();
            if let Some((row, key)) = all.get(at % all.len().max(1)).cloned() {
                writer.interfere(mutate("Chassis_Template_Var", row, "variables", Mutator::Delete, key));
            }
        }
        Event::Plant(at) => {
            let sets: Vec<_> =
                sets(writer).into_iter().filter(|(table, ..)| *table == "Address_Set").collect();
            if let Some((table, row, column, _)) = sets.get(at % sets.len().max(1)) {
                writer.interfere(mutate(table, *row, column, Mutator::Insert, "203.0.113.9"));
            }
        }
    }
}

fn config() -> ProptestConfig {
    let asked_for = std::env::var_os("PROPTEST_CASES").is_some();
    let default = ProptestConfig { max_shrink_iters: 2000, ..ProptestConfig::default() };
    if asked_for { default } else { ProptestConfig { cases: 128, ..default } }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_history_of_designs_ends_in_the_database_of_the_last_one(
        events in vec(event(), 0..8), last in design(), limit in 1..20_usize,
    ) {
        let mut writer = Writer::new();
        for event in &events {
            happen(&mut writer, event);
        }
        writer.settle(&last, limit);
        prop_assert_eq!(writer.database.content(), &made_at_once(&last));
        // When everything is taken away, nothing is left.
        writer.write(&Design::default(), limit, |_| true);
        writer.settle(&Design::default(), limit);
        prop_assert_eq!(writer.database.content(), &made_at_once(&Design::default()));
    }
}

fn two_ports() -> Design {
    let port = |address| Port { groups: [0].into(), address, ..Port::default() };
    let (switches, groups) = ([(0, 0)].into(), [(0, 0)].into());
    let ports = [(0, port(1)), (1, port(2))].into();
    Design { switches, groups, ports, ..Design::default() }
}

fn addresses(writer: &Writer) -> Vec<String> {
    let set = &writer.database.content()["Address_Set"][&address_set(0, 0).uuid()]["addresses"];
    set.keys().map(|element| element.as_str().unwrap().to_owned()).collect()
}

fn summary(diff: &Diff) -> Vec<String> {
    let operations = diff.atoms.iter().flat_map(|atom| atom.transaction().operations().to_vec());
    let summary = |operation: Operation| match &operation {
        Operation::Mutate { table, mutations, .. } => {
            let elements: usize = mutations.iter().map(|mutation| mutation.value.keys().count()).sum();
            format!("mutate {table}: {elements}")
        }
        other => format!("{} {}", other.name(), other.table().unwrap()),
    };
    operations.map(summary).collect()
}

#[test]
fn a_port_comes_with_its_memberships_in_one_transaction() {
    let mut design = two_ports();
    let mut writer = Writer::new();
    let port = design.ports.remove(&1).unwrap();
    writer.settle(&design, usize::MAX);
    design.ports.insert(1, port);
    let diff = writer.write(&design, 1, |_| true);
    assert_eq!(diff.atoms.len(), 1, "however small the transactions are");
    assert_eq!(
        summary(&diff),
        [
            "insert Logical_Switch_Port",
            "mutate Address_Set: 1",
            "mutate Logical_Switch: 1",
            "mutate Port_Group: 1"
        ]
    );
    assert_eq!(addresses(&writer), ["10.0.0.1", "10.0.0.2"]);
}

#[test]
fn a_port_that_leaves_a_group_is_taken_out_by_its_own_unit() {
    let mut design = two_ports();
    let mut writer = Writer::new();
    writer.settle(&design, usize::MAX);
    design.ports.get_mut(&1).unwrap().groups.clear();
    // Only that unit is compared, and it does not own the group.
    let at = writer.known.iter().position(|unit| unit == "port/1").unwrap();
    let diff = writer.write(&design, usize::MAX, |unit| unit == at);
    assert_eq!(
        summary(&diff),
        ["mutate Logical_Switch_Port: 1", "mutate Address_Set: 1", "mutate Port_Group: 1"],
        "the tag, the address, the port"
    );
    assert_eq!(writer.database.content(), &made_at_once(&design));
}

#[test]
fn an_address_that_two_ports_contribute_stays_until_the_last_of_them_goes() {
    let mut design = two_ports();
    design.ports.get_mut(&1).unwrap().address = 1;
    let mut writer = Writer::new();
    writer.settle(&design, usize::MAX);
    design.ports.remove(&0);
    writer.settle(&design, usize::MAX);
    assert_eq!(addresses(&writer), ["10.0.0.1"]);
    design.ports.remove(&1);
    writer.settle(&design, usize::MAX);
    assert_eq!(addresses(&writer), [""; 0]);
}

#[test]
fn ports_that_exchange_their_addresses_keep_both_in_the_set() {
    let mut design = two_ports();
    let mut writer = Writer::new();
    writer.settle(&design, usize::MAX);
    design.ports.get_mut(&0).unwrap().address = 2;
    design.ports.get_mut(&1).unwrap().address = 1;
    writer.write(&design, 1, |_| true);
    assert_eq!(addresses(&writer), ["10.0.0.1", "10.0.0.2"], "in one round, in transactions of any size");
    writer.settle(&design, 1);
    assert_eq!(writer.database.content(), &made_at_once(&design));
}

#[test]
fn an_address_goes_with_the_switch_that_its_port_was_on() {
    let mut design = two_ports();
    let mut writer = Writer::new();
    writer.settle(&design, usize::MAX);
    // The ports' units are not compared: they wait for a live read, say.
    design.switches.clear();
    let at = writer.known.iter().position(|unit| unit == "switch/0").unwrap();
    writer.write(&design, usize::MAX, |unit| unit == at);
    assert_eq!(addresses(&writer), [""; 0]);
}

#[test]
fn an_address_that_nobody_contributes_goes_when_its_set_is_compared() {
    let design = two_ports();
    let mut writer = Writer::new();
    writer.settle(&design, usize::MAX);
    let set = address_set(0, 0).uuid();
    writer.interfere(mutate("Address_Set", set, "addresses", Mutator::Insert, "203.0.113.9"));
    writer.settle(&design, usize::MAX);
    assert_eq!(addresses(&writer), [address(1), address(2)]);
}

#[test]
fn a_change_of_members_concerns_the_units_that_contribute_them() {
    let design = two_ports();
    let mut writer = Writer::new();
    writer.settle(&design, usize::MAX);
    let old =
        |writer: &Writer, table: &str, uuid| writer.cache.table(table).unwrap().get(uuid).unwrap().clone();
    for (table, uuid, column, element) in [
        ("Address_Set", address_set(0, 0).uuid(), "addresses", Atom::from("10.0.0.2")),
        (
            "Port_Group",
            port_group(0, 0).uuid(),
            "ports",
            Atom::from(RowRef::<LogicalSwitchPort>::new(&"port/1", "uid-port/1-0", "").uuid()),
        ),
    ] {
        let before = old(&writer, table, uuid);
        writer.interfere(mutate(table, uuid, column, Mutator::Delete, element));
        let after = old(&writer, table, uuid);
        let change = ovsdb_core::change::Change { old: Some(before), new: Some(after) };
        let touched = DATABASE.touched(&[change], &writer.cache);
        assert_eq!(touched.units, [SmolStr::new("port/1")].into());
        assert_eq!(touched.rows, [uuid]);
    }
    writer.settle(&design, usize::MAX);
    assert_eq!(writer.database.content(), &made_at_once(&design));
}

#[test]
fn a_foreign_port_stays_in_our_group_and_our_port_in_a_foreign_one() {
    let mut design = two_ports();
    let mut writer = Writer::new();
    writer.settle(&design, usize::MAX);
    let [theirs, switch, group] = [1_u128, 2, 3].map(|n| Uuid::from_u128(n << 96 | n));
    let insert = |table: &str, uuid, row: Vec<(&str, Datum)>| Operation::Insert {
        table: table.into(),
        uuid: Some(uuid),
        uuid_name: None,
        row: row.into_iter().map(|(column, value)| (column.into(), value)).collect(),
    };
    let set = |uuid: Uuid| Datum::Set([Atom::from(uuid)].into_iter().collect());
    let ours = RowRef::<LogicalSwitchPort>::new(&"port/1", "uid-port/1-0", "").uuid();
    let name = |name: &str| ("name", Datum::Atom(Atom::from(name)));
    let mut transaction = Transaction::new();
    transaction.push(insert("Logical_Switch_Port", theirs, vec![name("theirs")]));
    transaction.push(insert("Logical_Switch", switch, vec![("ports", set(theirs))]));
    transaction.push(insert("Port_Group", group, vec![name("theirs"), ("ports", set(ours))]));
    transaction.push(mutate("Port_Group", port_group(0, 0).uuid(), "ports", Mutator::Insert, theirs));
    writer.database.transact(&transaction).unwrap();
    writer.database.refresh(&mut writer.cache);
    design.ports.get_mut(&1).unwrap().groups.clear();
    writer.settle(&design, usize::MAX);
    let groups = &writer.database.content()["Port_Group"];
    assert_eq!(groups[&group]["ports"], set(ours));
    assert!(groups[&port_group(0, 0).uuid()]["ports"].keys().any(|port| *port == Atom::from(theirs)));
}

#[test]
fn units_that_need_each_other_wait_and_others_do_not() {
    // Each has a port in a group of the other.
    let unit = |name: &'static str, other: &'static str| {
        let mut rows = Rows::new(&name, name);
        rows.root("", PortGroup { name: name.into(), ..Default::default() });
        let switch = rows.root("", LogicalSwitch::default());
        let port = LogicalSwitchPort { name: format!("port of {name}"), ..Default::default() };
        let port = rows.child("", switch.column(LogicalSwitch::PORTS), port);
        rows.row_member(&port, &RowRef::<PortGroup>::new(&other, other, ""), PortGroup::PORTS);
        rows
    };
    let mut third = Rows::new(&"third", "third");
    third.root("", AddressSet { name: "third".into(), ..Default::default() });
    let mut behind = Rows::new(&"behind", "behind");
    let set = behind.root("", AddressSet { name: "behind".into(), ..Default::default() });
    let one = RowRef::<PortGroup>::new(&"one", "one", "");
    let switch = behind.root("", LogicalSwitch::default());
    let port = behind.child("", switch.column(LogicalSwitch::PORTS), LogicalSwitchPort::default());
    behind.row_member(&port, &one, PortGroup::PORTS);
    drop(set);
    let desired = [unit("one", "other"), unit("other", "one"), third, behind];
    let diff = DATABASE.diff(&desired, &[], &northbound().cache(DATABASE.indexes()));
    let coming: Vec<_> = diff.atoms.iter().map(portolan_plan::Atom::unit).collect();
    assert_eq!(coming, ["third"]);
    let waiting: Vec<_> =
        diff.waiting.iter().map(|waiting| (waiting.unit.as_str(), &waiting.obstacle)).collect();
    let cycle = |of: &str| Obstacle::Cycle {
        units: vec!["one".into(), "other".into()],
        uuid: RowRef::<PortGroup>::new(&of, of, "").uuid(),
    };
    let missing = Obstacle::Missing { table: "Port_Group", uuid: one.uuid() };
    assert_eq!(waiting, [("one", &cycle("other")), ("other", &cycle("one")), ("behind", &missing)]);
    assert_eq!(
        cycle("one").to_string(),
        "these units need rows of each other, so none of them can come first: one, other"
    );
}

#[test]
fn a_name_goes_from_one_unit_to_another_in_any_order() {
    let group = |unit: &'static str, name: &str| {
        let mut rows = Rows::new(&unit, unit);
        rows.root("", PortGroup { name: name.into(), ..Default::default() });
        rows
    };
    let mut database = northbound();
    let write = |database: &mut MemDb, desired: &[Rows], stale: &[SmolStr]| {
        let diff = DATABASE.diff(desired, stale, &database.cache(DATABASE.indexes()));
        assert_eq!(diff.waiting, []);
        for batch in batches(diff.atoms, 1) {
            database.transact(&batch.transaction()).unwrap();
        }
    };
    write(&mut database, &[group("a", "web")], &[]);
    // The one that gives it up sorts after the one that takes it.
    write(&mut database, &[group("0", "web"), group("a", "db")], &[]);
    // A root row whose name is needed goes before the new one comes.
    write(&mut database, &[group("b", "web")], &["0".into()]);
    let names: Vec<_> =
        database.content()["Port_Group"].values().map(|row| row["name"].to_string()).collect();
    assert_eq!(BTreeSet::from_iter(names), [r#""db""#.to_owned(), r#""web""#.to_owned()].into());
    // Of two that want the same one, one waits.
    let diff =
        DATABASE.diff(&[group("x", "new"), group("y", "new")], &[], &database.cache(DATABASE.indexes()));
    assert_eq!((diff.atoms.len(), diff.waiting.len()), (1, 1));
}
