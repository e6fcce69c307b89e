//! The trace is right whatever the routes are: VPCs with random routes, policy routes and peerings; traces between random pods are
//! compared with real pings.
//!
//! `PORTOLAN_SEED` chooses other rounds, `PORTOLAN_TRACE_ROUNDS` more of them.

use std::time::Duration;

use fastrand::Rng;
use ovsdb::Cache;
use portolan_model::{Settings, Unit, VpcPair, World};
use portolan_plan::{DesiredRow, Plan, plan, tag};
use portolan_testbed::Pod;
use serde_json::{Value, json};

use crate::cli::{Harbour, in_a_harbour_for};

const SEED: u64 = 20_261_116;
const ROUNDS: usize = 3;
const TRACES: usize = 8;

const VPCS: [&str; 3] = ["blue", "green", "red"];
const PREFIXES: [&str; 9] = [
    "0.0.0.0/0",
    "10.0.0.0/8",
    "10.0.0.0/24",
    "10.0.0.0/23",
    "10.0.1.0/24",
    "10.9.0.0/24",
    "10.9.0.0/16",
    "10.5.0.0/24",
    "10.5.0.0/16",
];

#[test]
fn traces_agree_with_pings_whatever_the_routes_are() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seed = number("PORTOLAN_SEED").unwrap_or(SEED);
    let rounds = number("PORTOLAN_TRACE_ROUNDS").map_or(ROUNDS, |rounds| rounds as usize);
    println!("PORTOLAN_SEED={seed}");
    let deadline = Duration::from_secs(180) + Duration::from_secs(60) * u32::try_from(rounds).unwrap();
    in_a_harbour_for(deadline, move |harbour| {
        let pods = [
            harbour.pod("a", "node1", "web", "10.0.0.1"),
            harbour.pod("b", "node2", "web", "10.0.0.1"),
            harbour.pod("c", "node2", "db", "10.0.1.1"),
            harbour.pod("d", "node1", "far", "10.9.0.1"),
            harbour.pod("own", "node1", "own", "10.5.0.1"),
            harbour.pod("own2", "node2", "own2", "10.5.1.1"),
        ];
        let mut random = Rng::with_seed(seed);
        let mut verdicts = std::collections::BTreeMap::<String, usize>::new();
        for round in 0..rounds {
            let vpcs = vpcs(&mut random, &pods);
            let list = json!({"apiVersion": "v1", "kind": "List", "items": vpcs});
            harbour.cluster.apply(&list.to_string()).unwrap();
            harbour.wait_until_in_effect();
            for _ in 0..TRACES {
                let from = random.choice(&pods).unwrap();
                let others = pods.iter().filter(|pod| pod.name() != from.name()).collect::<Vec<_>>();
                let to = random.choice(others).unwrap();
                let (_, status) = harbour.trace(&[from.name(), to.name()]);
                let context =
                    || format!("round {round}, {} to {}: {status:#}\n{vpcs:#?}", from.name(), to.name());
                let verdict = status["verdict"].as_str().unwrap().to_owned();
                match verdict.as_str() {
                    "Reachable" => assert!(pings(from, to), "no ping gets through: {}", context()),
                    "NotReachable" => assert!(!pings(from, to), "a ping gets through: {}", context()),
                    // A pod has to route it, or next hops lead to different ends.
                    "Unknown" => assert!(status["forward"]["error"].is_null(), "{}", context()),
                    _ => panic!("{}", context()),
                }
                *verdicts.entry(verdict).or_default() += 1;
            }
        }
        println!("{verdicts:?}");
        assert!(verdicts.contains_key("NotReachable") && verdicts.contains_key("Reachable"), "{verdicts:?}");
    });
}

/// Whether a ping is answered. Anything else than an answer or its absence is an error.
fn pings(from: &Pod, to: &Pod) -> bool {
    let address = to.address().to_string();
    let output =
        from.command("ping").args(["-n", "-c", "2", "-i", "0.2", "-W", "2", &address]).output().unwrap();
    match output.status.code() {
        Some(0) => true,
        Some(1) => false,
        code => panic!("ping ended with {code:?}: {}", String::from_utf8_lossy(&output.stderr)),
    }
}

impl Harbour {
    /// Waits until OVN's northbound database has what the VPCs ask for, and until the nodes have it.
    fn wait_until_in_effect(&self) {
        let client = self.cluster.client();
        let planned = self.cluster.wait(async move {
            let mut world = World::new(Settings::default());
            let ours =
                kube::Api::<portolan_api::portolan::Vpc>::all(client.clone()).list(&Default::default()).await;
            let theirs = kube::Api::<portolan_api::kubeovn::Vpc>::all(client).list(&Default::default()).await;
            drop(world.reset(&ours.unwrap().items));
            drop(world.reset(&theirs.unwrap().items));
            planned(&world)
        });
        self.cluster.northbound().wait_until(move |cache| is_in_effect(&planned, cache));
        self.cluster.central().nbctl(&["--wait=hv", "sync"]).unwrap();
    }
}

/// The rows that the VPCs and their peerings should have.
fn planned(world: &World) -> Vec<(String, Vec<DesiredRow>)> {
    let pairs = [(0, 1), (1, 2), (0, 2)].map(|(a, b)| VpcPair::new(VPCS[a], VPCS[b]).unwrap());
    let units = VPCS.map(|vpc| Unit::Vpc(vpc.into())).into_iter().chain(pairs.map(Unit::Peering));
    let planned = units.map(|unit| {
        let rows: Vec<DesiredRow> = match plan(&unit, world, &portolan_plan::Settings::default()) {
            Plan::Desired(rows) => rows.iter().cloned().collect(),
            _ => Vec::new(),
        };
        (unit.to_string(), rows)
    });
    planned.collect()
}

fn is_in_effect(planned: &[(String, Vec<DesiredRow>)], cache: &Cache) -> bool {
    let is_there = |row: &DesiredRow| {
        let found = cache.table(row.table().name).and_then(|table| table.get(row.uuid()));
        // Of maps, others may have keys too.
        let mut columns = row.columns().filter(|(column, _)| !["external_ids", "options"].contains(column));
        found.is_some_and(|found| columns.all(|(column, value)| found.datum(column) == Some(value)))
    };
    let tables =
        portolan_plan::northbound::DATABASE.tables.iter().filter_map(|table| cache.table(table.name));
    let tagged: Vec<_> =
        tables.flat_map(ovsdb::Table::iter).filter_map(|row| tag::unit_of(row.as_ref())).collect();
    planned.iter().all(|(unit, rows)| {
        let of_unit = tagged.iter().filter(|tag| **tag == unit).count();
        of_unit == rows.len() && rows.iter().all(is_there)
    })
}

/// Three VPCs, some of them connected, by one side or both.
fn vpcs(random: &mut Rng, pods: &[Pod]) -> Vec<Value> {
    let pairs = [(0, 1), (1, 2), (0, 2)];
    let mut peerings = [const { Vec::new() }; 3];
    for (number, (a, b)) in pairs.into_iter().enumerate() {
        let side = |end: usize| format!("169.254.{number}.{end}/30");
        if random.u8(0..4) > 0 {
            peerings[a].push(json!({"remoteVpc": VPCS[b], "localConnectIP": side(1)}));
            if random.u8(0..6) > 0 {
                peerings[b].push(json!({"remoteVpc": VPCS[a], "localConnectIP": side(2)}));
            }
        }
    }
    let vpc = |number: usize| {
        let group = if number == 0 { "kubeovn.io/v1" } else { "portolan.dev/v1alpha1" };
        json!({"apiVersion": group, "kind": "Vpc", "metadata": {"name": VPCS[number]}, "spec": {
            "vpcPeerings": peerings[number], "staticRoutes": routes(random, pods), "policyRoutes": policies(random, pods)}})
    };
    (0..3).map(vpc).collect()
}

/// The other side of some peering, a pod, or an address that nothing has.
fn next_hop(random: &mut Rng, pods: &[Pod]) -> String {
    match random.u8(0..10) {
        0 => "192.0.2.1".into(),
        1 => random.choice(pods).unwrap().address().to_string(),
        2 => "10.9.0.200".into(),
        _ => format!("169.254.{}.{}", random.u8(0..3), random.u8(1..3)),
    }
}

fn routes(random: &mut Rng, pods: &[Pod]) -> Vec<Value> {
    let mut routes: Vec<Value> = Vec::new();
    for _ in 0..random.usize(0..6) {
        let prefix = match random.u8(0..6) {
            0 => format!("{}/32", random.choice(pods).unwrap().address()),
            _ => random.choice(PREFIXES).unwrap().to_owned(),
        };
        // OVN ranks a route from everywhere like no route at all: whether it counts is undefined.
        let from_everywhere = prefix == "0.0.0.0/0";
        let policy = if random.u8(0..4) == 0 && !from_everywhere { "policySrc" } else { "policyDst" };
        let route = json!({"cidr": prefix, "nextHopIP": next_hop(random, pods), "policy": policy});
        if !routes.contains(&route) {
            routes.push(route);
        }
    }
    routes
}

fn policies(random: &mut Rng, pods: &[Pod]) -> Vec<Value> {
    // Of two with one priority OVN may choose either.
    let priorities = [10, 20, 30, 40];
    let mut policies = Vec::new();
    for priority in &priorities[..random.usize(0..4)] {
        let address = random.choice(pods).unwrap().address();
        let prefix = random.choice(PREFIXES).unwrap();
        let expressions = [
            format!("ip4.src == {address}"),
            format!("ip4.dst == {{{address}, 10.0.1.0/24}}"),
            format!("!(ip4.src == {address}) && tcp.dst == {{80, 443}}"),
            format!("ip4.src != {prefix} && udp"),
            format!("icmp4 && ip4.src == {prefix}"),
            format!("!(tcp.dst == 80) && ip4.dst == {prefix}"),
            format!("1000 > udp.dst && ip4.src == {prefix}"),
            "40 <= tcp.dst < 81".to_owned(),
            "icmp4.type == 0".to_owned(),
        ];
        let matches = random.choice(expressions).unwrap();
        let mut policy = json!({"priority": priority, "match": matches, "action": "drop"});
        match random.u8(0..3) {
            0 => policy["action"] = json!("allow"),
            1 => {
                policy["action"] = json!("reroute");
                policy["nextHopIP"] = json!(next_hop(random, pods));
            }
            _ => {}
        }
        policies.push(policy);
    }
    policies
}
