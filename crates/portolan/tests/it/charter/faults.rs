//! The list while a part of the system is killed and comes back: what is connected stays connected, and who comes meanwhile is
//! connected once the part is back.
//!
//! A few of all pairs of case and part are tried, always the same unless `PORTOLAN_SEED` names another choice; all of them with
//! `PORTOLAN_CHARTER=full`.

use portolan_testbed::Database;
use portolan_testbed::{Heartbeat, Testbed, cluster::Component};

use crate::charter::guests::{PATIENCE, guests, in_a_cluster, is_full};
use crate::charter::{addresses, connectivity, dhcp, policy_routes};

/// How many pairs are tried unless all are.
const SAMPLE: usize = 3;

/// The choice that is made unless another is asked for.
const SEED: u64 = 12;

/// A part that is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Controller,
    Agent,
    OvnController,
    Northd,
    NorthboundLeader,
}

const VICTIMS: [Victim; 5] =
    [Victim::Controller, Victim::Agent, Victim::OvnController, Victim::Northd, Victim::NorthboundLeader];

/// A case of the list.
struct Case {
    name: &'static str,
    manifest: &'static str,
    check: fn(&Testbed),
    /// Whether OVN's controller itself answers some of the packets.
    answered_by_ovn_controller: bool,
    /// Who talks all the time: to one on the same node, and to one on another.
    talk: [&'static str; 3],
    /// Who comes while the part is dead, on the node that has lost it.
    late: Late,
}

struct Late {
    namespace: &'static str,
    nad: &'static str,
    gateway: Option<&'static str>,
    address: Option<&'static str>,
}

const fn late(nad: &'static str, gateway: Option<&'static str>) -> Late {
    Late { namespace: "default", nad, gateway, address: None }
}

const CASES: [Case; 9] = [
    Case {
        name: "layer 2",
        manifest: connectivity::LAYER2,
        check: connectivity::layer2,
        answered_by_ovn_controller: false,
        talk: ["switch-vm1", "switch-vm2", "switch-vm3"],
        late: late("switch", None),
    },
    Case {
        name: "layer 3",
        manifest: connectivity::LAYER3,
        check: connectivity::layer3,
        answered_by_ovn_controller: false,
        talk: ["vm1", "vm2", "vm3"],
        late: late("vswitch1", Some("172.20.0.1")),
    },
    Case {
        name: "isolation",
        manifest: connectivity::ISOLATION,
        check: connectivity::isolation,
        answered_by_ovn_controller: false,
        talk: ["green-vm1", "green-vm2", "green-vm2"],
        late: late("green", None),
    },
    Case {
        name: "peering",
        manifest: connectivity::PEERING,
        check: connectivity::peering,
        answered_by_ovn_controller: false,
        talk: ["peer-vm1", "peer-vm2", "peer-vm3"],
        late: late("subnet1", Some("10.21.0.1")),
    },
    Case {
        name: "equal prefixes",
        manifest: connectivity::SAME_CIDR,
        check: connectivity::same_cidr,
        answered_by_ovn_controller: false,
        talk: ["tenant1/vm1", "tenant1/vm2", "tenant1/vm3"],
        late: Late { namespace: "tenant1", ..late("net", Some("10.0.1.1")) },
    },
    Case {
        name: "addresses",
        manifest: addresses::ADDRESSES,
        check: addresses::addresses,
        answered_by_ovn_controller: false,
        talk: ["static1", "any1", "static2"],
        late: Late { address: Some("10.31.0.5"), ..late("small", None) },
    },
    Case {
        name: "policy routes",
        manifest: policy_routes::POLICY_ROUTES,
        check: policy_routes::policy_routes,
        answered_by_ovn_controller: false,
        talk: ["allowed", "guarded1", "guarded2"],
        late: late("servers", Some("10.42.0.1")),
    },
    Case {
        name: "MTU",
        manifest: connectivity::MTU,
        check: connectivity::mtu,
        answered_by_ovn_controller: true,
        talk: ["wide-vm1", "narrow-vm1", "narrow-vm2"],
        late: late("narrow", Some("10.62.0.1")),
    },
    Case {
        name: "DHCP",
        manifest: dhcp::DHCP,
        check: dhcp::dhcp,
        answered_by_ovn_controller: true,
        talk: ["fixed-vm1", "fixed-vm2", "fixed-vm3"],
        late: late("fixed", Some("10.52.0.1")),
    },
];

#[test]
fn connectivity_outlives_every_part_and_newcomers_get_theirs() {
    let rounds = rounds();
    in_a_cluster(Testbed::builder().nodes(2).ovn_raft(), &[], move |cluster| {
        for (number, (case, victim)) in rounds.iter().enumerate() {
            println!("{} while {victim:?} is dead", case.name);
            cluster.apply(case.manifest).unwrap();
            round(cluster, case, *victim, number);
        }
    });
}

fn round(cluster: &Testbed, case: &Case, victim: Victim, number: usize) {
    let talk = guests(cluster, case.talk);
    // That guests run does not say that the other nodes know the way to them: what works before must work after.
    (case.check)(cluster);
    let heartbeats = [Heartbeat::between(&talk[0], &talk[1]), Heartbeat::between(&talk[0], &talk[2])];
    let part = victim.component(cluster);
    part.kill().unwrap();
    let needs_it = case.answered_by_ovn_controller && victim == Victim::OvnController;
    if !needs_it {
        (case.check)(cluster);
    }
    heartbeats.iter().for_each(Heartbeat::goes_on);
    let name = format!("late{number}");
    case.late.create(cluster, &name);
    part.start().unwrap();
    let newcomer = cluster.running_pod(case.late.namespace, &name).unwrap();
    for peer in &talk[1..] {
        cluster.ping(&newcomer, peer).patience(PATIENCE).succeeds();
        cluster.ping(peer, &newcomer).patience(PATIENCE).succeeds();
    }
    heartbeats.iter().for_each(Heartbeat::goes_on);
    heartbeats.into_iter().for_each(Heartbeat::end);
    newcomer.delete().unwrap();
    if needs_it {
        (case.check)(cluster);
    }
}

impl Victim {
    fn component(self, cluster: &Testbed) -> Component<'_> {
        let leader;
        let name = match self {
            Victim::Controller => "controller",
            Victim::Agent => "node1/agent",
            Victim::OvnController => "node1/ovn-controller",
            Victim::Northd => "ovn-northd",
            Victim::NorthboundLeader => {
                let Database::Raft(nb) = cluster.central().nb() else { panic!("the database is no cluster") };
                leader = nb.members()[nb.leader(PATIENCE).unwrap()].name().to_owned();
                &leader
            }
        };
        cluster.component(name).unwrap()
    }
}

impl Late {
    fn create(&self, cluster: &Testbed, name: &str) {
        let mut pod = cluster.pod(name).namespace(self.namespace).on("node1").nad(self.nad);
        if let Some(gateway) = self.gateway {
            pod = pod.with("default-route", vec![gateway]);
        }
        if let Some(address) = self.address {
            pod = pod.with("ips", vec![address]);
        }
        pod.create().unwrap();
    }
}

/// All pairs, or those that the seed chooses: of no part twice before all had their turn.
fn rounds() -> Vec<(&'static Case, Victim)> {
    let seed = std::env::var("PORTOLAN_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(SEED);
    println!("PORTOLAN_SEED={seed}");
    let mut random = Random(seed);
    if is_full() {
        let mut all: Vec<_> = CASES.iter().flat_map(|case| VICTIMS.map(|victim| (case, victim))).collect();
        random.shuffle(&mut all);
        return all;
    }
    let (mut victims, mut cases) = (VICTIMS, CASES.each_ref());
    random.shuffle(&mut victims);
    random.shuffle(&mut cases);
    cases.into_iter().zip(victims).take(SAMPLE).collect()
}

/// SplitMix64: the same numbers for the same seed, everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % limit as u64).unwrap_or_default()
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}
