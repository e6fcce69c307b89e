//! Worlds of any size, and the cache of a database that has all they ask for.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use ovn_schema::nb;
use ovsdb_core::decode::{RowUpdate, Updates};
use ovsdb_core::{Atom, Cache, Datum, Layout, Row, Set, SmolStr, Uuid};
use portolan_api::condition::{Condition, VALIDATED};
use portolan_api::portolan::{
    DecidedInterface, Holder, HolderKind, IPLock, IPLockSpec, LockAddress, Subnet, SubnetSpec, SubnetStatus,
    Vpc, VpcSpec,
};
use portolan_api::{Domain, Family, Mac};
use portolan_model::{AttachmentId, World};
use portolan_plan::northbound::DATABASE;
use portolan_plan::{Plan, Rows, Settings, plan};

/// A World with `attachments` attachments, `per_subnet` in each subnet, all in one VPC.
pub(crate) fn world(attachments: usize, per_subnet: usize) -> World {
    let mut world = World::default();
    let mut vpc = Vpc::new("blue", VpcSpec::default());
    vpc.metadata.uid = Some("uid-blue".into());
    drop(world.apply(&vpc));
    for at in 0..=attachments / per_subnet {
        drop(world.apply(&subnet(at)));
    }
    for at in 0..attachments {
        drop(world.apply(&lock(at, at / per_subnet)));
    }
    world
}

fn subnet(at: usize) -> Subnet {
    let prefix = Ipv4Addr::from_bits(0x0a00_0000 + (u32::try_from(at).unwrap_or(0) << 12));
    let spec = SubnetSpec {
        vpc: Some("blue".into()),
        cidr_block: format!("{prefix}/20"),
        enable_dhcp: true,
        ..SubnetSpec::default()
    };
    let mut subnet = Subnet::new(&format!("subnet-{at}"), spec);
    subnet.metadata.uid = Some(format!("00000000-0000-4000-8000-{at:012}"));
    subnet.metadata.generation = Some(1);
    subnet.status = Some(SubnetStatus { conditions: vec![validated()], ..SubnetStatus::default() });
    subnet
}

fn validated() -> Condition {
    let condition = serde_json::json!({
        "type": VALIDATED, "status": "True", "reason": "Fits", "message": "", "observedGeneration": 1,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    serde_json::from_value(condition).expect("invariant: this is a condition")
}

/// The lock of one attachment.
pub(crate) fn lock(at: usize, subnet: usize) -> IPLock {
    let number = u32::try_from(at).unwrap_or(0);
    let base = 0x0a00_0000 + (u32::try_from(subnet).unwrap_or(0) << 12);
    let address = Ipv4Addr::from_bits(base + 16 + number % 4000);
    let holder = holder(at);
    let spec = IPLockSpec {
        subnet: format!("subnet-{subnet}"),
        mac: Some(Mac::derive(address.into(), None).to_string()),
        iface_id: AttachmentId::new(&holder, "eth0").map(|id| id.iface_id()),
        holder,
        node: Some(format!("node-{}", at % 1000)),
        interfaces: vec![DecidedInterface { interface: "eth0".into(), families: vec![Family::IPv4] }],
        ..IPLockSpec::default()
    };
    let mut lock = IPLock::of(&Domain::Vpc("blue".into()), LockAddress::Ip(address.into()), spec);
    lock.metadata.uid = Some(format!("10000000-0000-4000-8000-{at:012}"));
    lock.metadata.resource_version = Some((at + 1).to_string());
    lock.metadata.generation = Some(1);
    lock
}

fn holder(at: usize) -> Holder {
    Holder {
        kind: HolderKind::Pod,
        namespace: Some(format!("team-{}", at % 50)),
        name: format!("web-{at}"),
        uid: format!("20000000-0000-4000-8000-{at:012}"),
        interface: Some("eth0".into()),
    }
}

/// The rows of every unit, one after the other.
pub(crate) fn full_plan(world: &World) -> impl Iterator<Item = Rows> {
    world.units().filter_map(|unit| match plan(&unit, world, &Settings::default()) {
        Plan::Desired(rows) => Some(rows),
        Plan::Hold { .. } | Plan::Remove => None,
    })
}

/// The cache of a database that has these rows, with the columns that we write.
pub(crate) fn cache(rows: impl Iterator<Item = Rows>) -> Cache {
    let layouts: Vec<_> = DATABASE
        .tables
        .iter()
        .map(|table| {
            Layout::new(table.name, &nb::schema().tables[table.name], DATABASE.columns(table.name)).0
        })
        .collect();
    let place: HashMap<&str, usize> =
        DATABASE.tables.iter().enumerate().map(|(at, table)| (table.name, at)).collect();
    let mut updates = Updates::new();
    let mut held: HashMap<(Uuid, &str), Vec<Atom>> = HashMap::new();
    for rows in rows {
        for row in &rows {
            if let Some(parent) = row.parent() {
                let held = held.entry((parent.uuid(), parent.column().column)).or_default();
                held.push(Atom::Uuid(row.uuid()));
            }
            let layout = &layouts[place[row.table().name]];
            let value = |name: &SmolStr| {
                row.columns().find(|(column, _)| column == name).map(|(_, value)| value.clone())
            };
            let values = layout
                .columns()
                .iter()
                .map(|(name, of)| value(name).unwrap_or_else(|| Datum::default_of(of)));
            let row = Row::new(layout.clone(), row.uuid(), values.collect());
            updates.push((place[row.table().as_str()], RowUpdate::Insert(row)));
        }
    }
    // Parents know their children only now.
    for (at, update) in &mut updates {
        let RowUpdate::Insert(row) = update else { continue };
        let layout = &layouts[*at];
        let columns =
            layout.columns().iter().map(|(name, _)| match held.remove(&(row.uuid(), name.as_str())) {
                Some(children) => Datum::Set(children.into_iter().collect::<Set>()),
                None => row.datum(name).cloned().unwrap_or_else(|| Datum::Set(Set::default())),
            });
        *row = Row::new(layout.clone(), row.uuid(), columns.collect());
    }
    let indexes: HashMap<&str, _> = DATABASE.indexes().into_iter().collect();
    let mut cache = Cache::new(
        DATABASE.tables.iter().zip(layouts).map(|(table, layout)| (layout, indexes[table.name].clone())),
    );
    drop(cache.replace(updates));
    cache
}
