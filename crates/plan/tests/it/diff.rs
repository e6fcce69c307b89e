//! What a change of the World costs in operations, and what happens when things are not as they should be.

use ovsdb_core::{Atom, Datum, Mutation, Mutator, Operation, SmolStr, Transaction, Uuid};
use portolan_model::{Unit, World};
use portolan_plan::memdb::MemDb;
use portolan_plan::northbound::DATABASE;
use portolan_plan::{
    Batch, DatabaseTarget, Diff, Obstacle, Plan, Reconciler, Rows, Settings, Urgency, Waiting, batches, plan,
};
use serde_json::{Value, json};

use crate::object::{Object, pod, subnet, vpc};
use crate::support::northbound;

fn world(objects: &[Object]) -> World {
    let mut world = World::default();
    for object in objects {
        drop(object.apply(&mut world));
    }
    world
}

fn rows(world: &World) -> Vec<Rows> {
    let rows = |unit| match plan(&unit, world, &Settings::default()) {
        Plan::Desired(rows) => Some(rows),
        Plan::Hold { .. } | Plan::Remove => None,
    };
    world.units().filter_map(rows).collect()
}

fn of_units(rows: Vec<Rows>, units: &[&str]) -> Vec<Rows> {
    rows.into_iter().filter(|rows| units.iter().any(|unit| rows.unit() == unit)).collect()
}

/// The operations that bring rows about, as one transaction.
fn operations(rows: &[Rows], stale: &[&str], database: &MemDb) -> Transaction {
    let stale: Vec<SmolStr> = stale.iter().map(SmolStr::new).collect();
    let mut batches =
        batches(DATABASE.diff(rows, &stale, &database.cache(DATABASE.indexes())).atoms, usize::MAX);
    assert!(batches.len() <= 1);
    batches.pop().map(|batch| batch.transaction()).unwrap_or_default()
}

fn bring_about(rows: &[Rows], stale: &[&str], database: &mut MemDb) {
    database.transact(&operations(rows, stale, database)).unwrap();
}

/// What operations do, in short.
fn summary(transaction: &Transaction) -> Vec<String> {
    let columns = |operation: &Operation| {
        let named = operation.columns().into_iter().filter(|column| *column != "_uuid");
        named.map(SmolStr::as_str).collect::<Vec<_>>().join(", ")
    };
    let summary = |operation: &Operation| match operation {
        Operation::Insert { table, .. } => format!("insert {table}"),
        Operation::Mutate { table, mutations, .. } => {
            let elements: usize = mutations.iter().map(|mutation| mutation.value.keys().count()).sum();
            format!("mutate {table}: {elements} in {}", columns(operation))
        }
        other => format!("{} {}: {}", other.name(), other.table().unwrap(), columns(other)),
    };
    transaction.operations().iter().map(summary).collect()
}

fn blue(spec: &Value) -> Vec<Object> {
    vec![vpc("blue", "uid-blue", &json!({})), subnet("blue-1", "uid-blue-1", spec)]
}

fn plain() -> Vec<Object> {
    blue(&json!({"vpc": "blue", "cidrBlock": "10.1.0.0/16"}))
}

const WEB: &str = "attachment/pod/default/web/eth0/uid-web";

#[test]
fn a_port_costs_one_row_and_one_mutate_whatever_the_switch_holds() {
    for guests in [0, 1, 500] {
        let mut objects = plain();
        for n in 0..guests {
            let address: &str = Box::leak(format!("10.1.{}.{}", 1 + n / 250, 1 + n % 250).into_boxed_str());
            let name: &str = Box::leak(format!("guest-{n}").into_boxed_str());
            objects.extend(pod(name, "blue-1", "vpc/blue", &[address]).locks());
        }
        let mut database = northbound();
        bring_about(&rows(&world(&objects)), &[], &mut database);
        objects.extend(pod("web", "blue-1", "vpc/blue", &["10.1.200.1"]).locks());
        let new = of_units(rows(&world(&objects)), &[WEB]);

        let come = operations(&new, &[], &database);
        assert_eq!(summary(&come), ["insert Logical_Switch_Port", "mutate Logical_Switch: 1 in ports"]);
        assert_eq!(come.expected_counts(), [(1, 1)]);
        database.transact(&come).unwrap();
        assert_eq!(DATABASE.diff(&new, &[], &database.cache(DATABASE.indexes())), Diff::default());

        let go = operations(&[], &[WEB], &database);
        assert_eq!(summary(&go), ["mutate Logical_Switch: 1 in ports"]);
        database.transact(&go).unwrap();
        assert_eq!(database.content()["Logical_Switch_Port"].len(), guests + 1);
    }
}

#[test]
fn ports_that_come_together_cost_one_mutate_together() {
    let mut objects = plain();
    let mut database = northbound();
    bring_about(&rows(&world(&objects)), &[], &mut database);
    objects.extend(pod("a", "blue-1", "vpc/blue", &["10.1.0.10"]).locks());
    objects.extend(pod("b", "blue-1", "vpc/blue", &["10.1.0.11"]).locks());
    assert_eq!(
        summary(&operations(&rows(&world(&objects)), &[], &database)),
        ["insert Logical_Switch_Port", "insert Logical_Switch_Port", "mutate Logical_Switch: 2 in ports"]
    );
}

#[test]
fn only_what_differs_is_written() {
    let mut objects = plain();
    objects.extend(pod("web", "blue-1", "vpc/blue", &["10.1.0.10"]).locks());
    let mut database = northbound();
    bring_about(&rows(&world(&objects)), &[], &mut database);

    // The pod's node is known by now.
    objects.push(crate::object::node("node-1", "chassis-7"));
    let change = operations(&rows(&world(&objects)), &[], &database);
    assert_eq!(summary(&change), ["mutate Logical_Switch_Port: 2 in options, options"]);

    objects[1] = subnet(
        "blue-1",
        "uid-blue-1",
        &json!({"vpc": "blue", "cidrBlock": "10.1.0.0/16", "gateway": "10.1.9.9"}),
    );
    let change = operations(&of_units(rows(&world(&objects)), &["subnet/blue-1"]), &[], &database);
    assert_eq!(summary(&change), ["update Logical_Router_Port: mac, networks"]);
}

#[test]
fn rules_that_replace_others_come_in_the_transaction_in_which_those_go() {
    let spec = |allow: &str| json!({"vpc": "blue", "cidrBlock": "10.1.0.0/16", "private": true, "allowSubnets": [allow]});
    let mut database = northbound();
    bring_about(&rows(&world(&blue(&spec("10.2.0.0/24")))), &[], &mut database);
    let changed = rows(&world(&blue(&spec("10.3.0.0/24"))));
    assert_eq!(summary(&operations(&changed, &[], &database)), ["update ACL: match"]);

    let routes = |hop: &str| {
        let spec = json!({"staticRoutes": [{"cidr": "172.16.0.0/12", "nextHopIP": hop}]});
        vec![vpc("blue", "uid-blue", &spec)]
    };
    let mut database = northbound();
    bring_about(&rows(&world(&routes("10.1.0.2"))), &[], &mut database);
    let changed = DATABASE.diff(&rows(&world(&routes("10.1.0.3"))), &[], &database.cache(DATABASE.indexes()));
    // However small the transactions are.
    let batches = batches(changed.atoms, 1);
    assert_eq!(batches.len(), 1);
    assert_eq!(
        summary(&batches[0].transaction()),
        ["insert Logical_Router_Static_Route", "mutate Logical_Router: 2 in static_routes, static_routes"]
    );
}

#[test]
fn a_subnet_made_again_takes_its_ports_over() {
    let cidr = json!({"vpc": "blue", "cidrBlock": "10.1.0.0/16", "private": true});
    let guest = || pod("web", "blue-1", "vpc/blue", &["10.1.0.10"]).locks().collect::<Vec<_>>();
    let mut database = northbound();
    bring_about(&rows(&world(&[blue(&cidr), guest()].concat())), &[], &mut database);

    let again = vec![vpc("blue", "uid-blue", &json!({})), subnet("blue-1", "another-uid", &cidr)];
    let change =
        DATABASE.diff(&rows(&world(&[again, guest()].concat())), &[], &database.cache(DATABASE.indexes()));
    let units: Vec<&str> = change.atoms.iter().map(|atom| atom.unit().as_str()).collect();
    // The new switch, then the port moves, then the old switch goes, its rules with it.
    assert_eq!(units, ["subnet/blue-1", WEB, "subnet/blue-1"]);
    assert_eq!(
        summary(&change.atoms[1].transaction()),
        ["mutate Logical_Switch: 1 in ports", "mutate Logical_Switch: 1 in ports",]
    );
    assert_eq!(summary(&change.atoms[2].transaction()), ["delete Logical_Switch: "]);
    for atom in &change.atoms {
        database.transact(&atom.transaction()).unwrap();
        assert_eq!(database.content()["Logical_Switch_Port"].len(), 2);
    }
    assert_eq!(database.content()["Logical_Switch"].len(), 1);
    assert_eq!(database.content()["ACL"].len(), 2);
}

#[test]
fn a_port_that_somebody_moved_is_taken_back() {
    let mut objects = plain();
    objects.extend(pod("web", "blue-1", "vpc/blue", &["10.1.0.10"]).locks());
    let wanted = rows(&world(&objects));
    let mut database = northbound();
    bring_about(&wanted, &[], &mut database);
    let before = database.content().clone();
    let port = of_units(wanted.clone(), &[WEB])[0].iter().next().unwrap().uuid();
    let theirs = Uuid::from_u128(1 << 96);
    let ports = Datum::Set([Atom::from(port)].into_iter().collect());
    let mut moved = Transaction::new();
    moved.push(Operation::Mutate {
        table: "Logical_Switch".into(),
        condition: vec![],
        mutations: vec![Mutation::new("ports", Mutator::Delete, ports.clone())],
    });
    moved.push(Operation::Insert {
        table: "Logical_Switch".into(),
        uuid: Some(theirs),
        uuid_name: None,
        row: vec![("ports".into(), ports)],
    });
    database.transact(&moved).unwrap();

    // If it is not wanted any more, it goes from where it is.
    let mut without = database.clone();
    bring_about(&[], &[WEB], &mut without);
    assert!(!without.content()["Logical_Switch_Port"].contains_key(&port));

    // Its own switch is required: without that, the port would be lost with the move.
    let back = operations(&wanted, &[], &database);
    assert_eq!(
        summary(&back),
        ["wait Logical_Switch: ", "mutate Logical_Switch: 1 in ports", "mutate Logical_Switch: 1 in ports"]
    );
    database.transact(&back).unwrap();
    assert!(database.content()["Logical_Switch"][&theirs]["ports"].is_default());
    assert_eq!(database.content()["Logical_Switch_Port"], before["Logical_Switch_Port"]);
}

#[test]
fn a_port_waits_for_its_switch_and_nothing_else_waits_with_it() {
    let mut objects = plain();
    objects.extend(pod("web", "blue-1", "vpc/blue", &["10.1.0.10"]).locks());
    let all = rows(&world(&objects));
    let switch = of_units(all.clone(), &["subnet/blue-1"])[0].iter().next().unwrap().uuid();
    let without_switch = of_units(all, &["vpc/blue", WEB]);
    let change = DATABASE.diff(&without_switch, &[], &northbound().cache(DATABASE.indexes()));
    assert_eq!(
        change.waiting,
        [Waiting { unit: WEB.into(), obstacle: Obstacle::Missing { table: "Logical_Switch", uuid: switch } }]
    );
    assert_eq!(
        change.waiting[0].obstacle.to_string(),
        format!("row {switch} of table Logical_Switch is not there yet")
    );
    let units: Vec<_> = change.atoms.iter().map(portolan_plan::Atom::unit).collect();
    assert_eq!(units, ["vpc/blue"]);
}

#[test]
fn a_name_that_somebody_else_has_stops_one_unit_only() {
    let mut objects = plain();
    objects.extend(pod("web", "blue-1", "vpc/blue", &["10.1.0.10"]).locks());
    let mut database = northbound();
    let [switch, port] = [1_u128, 2].map(|n| Uuid::from_u128(n << 96 | n));
    let name = "port:default/web/eth0/uid-web";
    let mut theirs = Transaction::new();
    theirs.push(Operation::Insert {
        table: "Logical_Switch_Port".into(),
        uuid: Some(port),
        uuid_name: None,
        row: vec![("name".into(), Datum::Atom(Atom::from(name)))],
    });
    theirs.push(Operation::Insert {
        table: "Logical_Switch".into(),
        uuid: Some(switch),
        uuid_name: None,
        row: vec![("ports".into(), Datum::Set([Atom::from(port)].into_iter().collect()))],
    });
    database.transact(&theirs).unwrap();
    let change = DATABASE.diff(&rows(&world(&objects)), &[], &database.cache(DATABASE.indexes()));
    let obstacle = Obstacle::NameTaken { table: "Logical_Switch_Port", name: name.into(), by: port };
    assert_eq!(change.waiting, [Waiting { unit: WEB.into(), obstacle }]);
    assert_eq!(change.atoms.len(), 2);
}

/// Of each of them this writer hears alone.
#[test]
fn guests_that_take_each_others_addresses_do_not_wait_for_each_other_for_ever() {
    for names in [&["a", "b"][..], &["a", "b", "c"][..]] {
        let addresses = ["10.1.0.10", "10.1.0.11", "10.1.0.12"];
        let guests = |shift: usize| {
            let mut objects = plain();
            for (at, name) in names.iter().copied().enumerate() {
                let address = addresses[(at + shift) % names.len()];
                objects.extend(pod(name, "blue-1", "vpc/blue", &[address]).locks());
            }
            world(&objects)
        };
        let mut database = northbound();
        bring_about(&rows(&guests(0)), &[], &mut database);
        let after = guests(1);
        let cache = database.cache(DATABASE.indexes());
        let mut reconciler: Reconciler<DatabaseTarget<Unit>> =
            Reconciler::new(DatabaseTarget::new(&DATABASE));
        let mut changes = Vec::new();
        for (at, name) in names.iter().enumerate() {
            let unit: Unit = format!("attachment/pod/default/{name}/eth0/uid-{name}").parse().unwrap();
            reconciler.changed(unit, Urgency::Immediate);
            let round = reconciler.reconcile(|unit| plan(unit, &after, &Settings::default()), &cache);
            let is_last = at + 1 == names.len();
            assert_eq!((round.changes.is_empty(), reconciler.waiting() > 0), (!is_last, !is_last), "{name}");
            changes.extend(round.changes);
        }
        let batches = batches(changes, usize::MAX);
        assert_eq!(batches.len(), 1, "no address is without a port in between");
        database.transact(&batches[0].transaction()).unwrap();
        assert_eq!(DATABASE.diff(&rows(&after), &[], &database.cache(DATABASE.indexes())), Diff::default());
    }
}

#[test]
fn a_cache_that_is_behind_costs_a_duplicate_uuid_and_another_diff() {
    let wanted = rows(&world(&plain()));
    let mut database = northbound();
    let behind = database.cache(DATABASE.indexes());
    bring_about(&wanted, &[], &mut database);
    let before = database.content().clone();
    let again = batches(DATABASE.diff(&wanted, &[], &behind).atoms, usize::MAX);
    assert_eq!(database.transact(&again[0].transaction()).unwrap_err().error, "duplicate uuid");
    assert_eq!(*database.content(), before);
    assert_eq!(DATABASE.diff(&wanted, &[], &database.cache(DATABASE.indexes())), Diff::default());
}

#[test]
fn transactions_keep_to_their_limit_and_never_tear_a_unit_apart() {
    let mut objects = plain();
    for (name, address) in [("a", "10.1.0.10"), ("b", "10.1.0.11"), ("c", "10.1.0.12"), ("d", "10.1.0.13")] {
        objects.extend(pod(name, "blue-1", "vpc/blue", &[address]).locks());
    }
    let change = DATABASE.diff(&rows(&world(&objects)), &[], &northbound().cache(DATABASE.indexes()));
    let sizes =
        |limit| -> Vec<usize> { batches(change.atoms.clone(), limit).iter().map(Batch::len).collect() };
    // A router is 1 change, a subnet 5 (three rows, two of them held), a port 2.
    assert_eq!(sizes(usize::MAX), [6]);
    assert_eq!(sizes(6), [2, 3, 1]);
    assert_eq!(sizes(4), [1, 1, 2, 2]);
    assert_eq!(sizes(1), [1, 1, 1, 1, 1, 1]);
}
