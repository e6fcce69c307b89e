//! What it costs that one endpoint of a Service changes while SIZE Services with 20 endpoints each are there, on ten nodes: under policy
//! `cluster`, or under policy `local`, where it is a change of one variable of one chassis. `cargo xtask instructions` counts it.

use std::hint::black_box;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use ovsdb_core::Cache;
use portolan_model::fixtures::{mk_node, mk_service, mk_slice};
use portolan_model::{FirstInterface, World};
use portolan_plan::memdb::MemDb;
use portolan_plan::northbound::DATABASE;
use portolan_plan::{Batch, Plan, Rows, Settings, batches, plan};

const NB_SCHEMA: &str = include_str!("../../ovn-schema/schemas/ovn-nb.ovsschema");
const NODES: usize = 10;
const ENDPOINTS: usize = 20;

/// The measured step.
#[inline(never)]
fn measured(world: &mut World, changed: &EndpointSlice, settings: &Settings, cache: &Cache) -> Vec<Batch> {
    let dirty = world.apply(changed);
    let rows = dirty.units.iter().filter_map(|unit| match plan(unit, world, settings) {
        Plan::Desired(rows) => Some(rows),
        Plan::Hold { .. } | Plan::Remove => None,
    });
    let rows: Vec<_> = rows.collect();
    batches(DATABASE.diff(&rows, &[], cache).atoms, 1000)
}

fn service(number: usize, policy: &str) -> Service {
    let ip = format!("10.96.{}.{}", number / 250, number % 250 + 1);
    let mut service = mk_service(&format!("service-{number:06}"), &[&ip]);
    if let Some(spec) = service.spec.as_mut() {
        spec.internal_traffic_policy = Some(policy.to_owned());
    }
    service
}

/// Its endpoints, of which the first has this host number.
fn slice(number: usize, first: usize) -> EndpointSlice {
    let node = |at: usize| format!("node-{:02}", at % NODES);
    let address = |at: usize| {
        let host = if at == 0 { first } else { at + 1 };
        format!("10.{}.{}.{host}", 128 + number / 250, number % 250)
    };
    let endpoints: Vec<(String, String)> = (0..ENDPOINTS).map(|at| (address(at), node(at))).collect();
    let endpoints: Vec<(&str, &str)> =
        endpoints.iter().map(|(ip, node)| (ip.as_str(), node.as_str())).collect();
    mk_slice(&format!("service-{number:06}"), &endpoints)
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let size: usize = arguments.next().and_then(|size| size.parse().ok()).unwrap_or(100);
    let policy = if arguments.next().as_deref() == Some("local") { "Local" } else { "Cluster" };
    let networks = "10.96.0.0/16".parse().into_iter().collect();
    let settings = Settings { service_cidrs: networks, ..Settings::default() };
    let mut world = World::new(portolan_model::Settings { first_interface: FirstInterface::Portolan });
    (0..NODES).for_each(|at| drop(world.apply(&mk_node(&format!("node-{at:02}")))));
    for number in 0..size {
        drop(world.apply(&service(number, policy)));
        drop(world.apply(&slice(number, 1)));
    }
    let planned = world.units().filter_map(|unit| match plan(&unit, &world, &settings) {
        Plan::Desired(rows) => Some(rows),
        Plan::Hold { .. } | Plan::Remove => None,
    });
    let all: Vec<Rows> = planned.collect();
    let mut database = MemDb::new(NB_SCHEMA).expect("a schema");
    let nothing = database.cache(DATABASE.indexes());
    for batch in batches(DATABASE.diff(&all, &[], &nothing).atoms, usize::MAX) {
        database.transact(&batch.transaction()).expect("it is taken");
    }
    let cache = database.cache(DATABASE.indexes());
    let changed = slice(size / 2, 99);
    // Whoever counts switches that on now.
    println!("ready");
    std::io::stdin().read_line(&mut String::new()).expect("a line or the end");
    let batches = black_box(measured(black_box(&mut world), &changed, &settings, black_box(&cache)));
    let operations: usize = batches.iter().map(|batch| batch.transaction().operations().len()).sum();
    assert_eq!(operations, 1, "one row: {batches:#?}");
    println!("{size} Services: {operations} operation for one endpoint's change");
}
