//! Model and OVN agree whatever the routes are: VPCs with random routes, policy routes and peerings, each traced between random pods.
//!
//! `PORTOLAN_SEED` repeats a choice, `PORTOLAN_TRACE_ROUNDS` makes more of them.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fastrand::Rng;
use portolan_testbed::Pod;
use serde_json::{Value, json};

use crate::in_a_harbour_for;

const ROUNDS: usize = 4;
const TRACES: usize = 12;
/// How long OVN may be behind.
const PATIENCE: Duration = Duration::from_secs(30);

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
fn model_and_ovn_agree_whatever_the_routes_are() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let seed: u64 = number("PORTOLAN_SEED").unwrap_or(now);
    let rounds = number("PORTOLAN_TRACE_ROUNDS").map_or(ROUNDS, |rounds| rounds as usize);
    println!("PORTOLAN_SEED={seed}");
    let deadline = Duration::from_secs(120) + PATIENCE * u32::try_from(rounds).unwrap();
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
            let applied = Instant::now();
            for _ in 0..TRACES {
                let from = random.choice(&pods).unwrap();
                let to = random
                    .choice(pods.iter().filter(|pod| pod.name() != from.name()).collect::<Vec<_>>())
                    .unwrap();
                let what =
                    random.choice([&[][..], &["--port=80"], &["--port=53", "--protocol=udp"]]).unwrap();
                let arguments = [&[from.name(), to.name()], what].concat();
                let verdict = loop {
                    let (_, trace) = harbour.trace(&arguments);
                    let verdict = trace["verdict"].as_str().unwrap().to_owned();
                    assert!(
                        verdict != "disagreement" || applied.elapsed() < PATIENCE,
                        "round {round}, {arguments:?}: {trace:#}\n{vpcs:#?}"
                    );
                    if verdict != "disagreement" {
                        break verdict;
                    }
                };
                *verdicts.entry(verdict).or_default() += 1;
            }
        }
        println!("{verdicts:?}");
        assert!(verdicts.contains_key("not-reachable"), "some do not get through: {verdicts:?}");
    });
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

/// The other side of some peering, a pod, or nobody.
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
        let policy = if random.u8(0..4) == 0 { "policySrc" } else { "policyDst" };
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
