//! Controllers are killed at random points while pods come and go: no address is held twice, no lock is lost, left over or taken from
//! a pod that lives, and in the end OVN has what a fresh plan says.
//!
//! Everything that is random follows from a seed, which is printed; when a process dies is counted in changes that others see, so
//! the same seed tries about the same points again. `PORTOLAN_CRASH_ROUNDS=200` kills that often, and
//! `PORTOLAN_CRASH_SEED` chooses the seed.

mod churn;
mod observer;
mod victims;

use std::time::Duration;

use portolan_testbed::{ApiKind, Daemon, Process, Test, TestLab, Testbed};

use crate::crash_rounds::churn::Churn;
use crate::crash_rounds::observer::Observer;
use crate::crash_rounds::victims::Victim;

const PORTOLAN: &str = env!("CARGO_BIN_EXE_portolan");
/// How many subnets the pods are spread over.
const SUBNETS: usize = 20;
/// The user of the controller whose watches lag.
const LAGGING: &str = "portolan-controller-2";

/// How much is tried.
struct Extent {
    seed: u64,
    rounds: usize,
    /// About how many attachments there are.
    attachments: usize,
}

impl Extent {
    /// What the environment says, or so many rounds.
    fn from_environment(rounds: usize) -> Self {
        let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
        let rounds =
            number("PORTOLAN_CRASH_ROUNDS").map_or(rounds, |rounds| usize::try_from(rounds).unwrap());
        let attachments = if rounds < 100 { 100 } else { 500 };
        let extent = Extent { seed: number("PORTOLAN_CRASH_SEED").unwrap_or(1), rounds, attachments };
        println!("PORTOLAN_CRASH_SEED={} PORTOLAN_CRASH_ROUNDS={rounds}", extent.seed);
        extent
    }

    fn deadline(&self) -> Duration {
        Duration::from_secs(240 + 10 * self.rounds as u64)
    }
}

fn controller(testbed: &Testbed, lab: &TestLab, name: &str, user: Option<&str>) -> Process {
    let kubeconfig = match user {
        Some(user) => testbed.kubeconfig_for(user).unwrap(),
        None => testbed.kubeconfig().to_owned(),
    };
    Daemon::new(name, PORTOLAN)
        .args(["controller", "--leader-election=false", "--ovn-nb", &testbed.central().nb().endpoint()])
        .args(["--ovn-sb", &testbed.central().sb().endpoint()])
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .start(lab.home())
        .unwrap()
}

/// Lets pods come and go, and one after another something die in the middle of it.
fn rounds(testbed: &Testbed, extent: &Extent, victims: &[Victim<'_>]) {
    testbed.apply(&churn::objects(SUBNETS)).unwrap();
    let mut random = fastrand::Rng::with_seed(extent.seed);
    let observer = Observer::start(testbed);
    let mut churn = Churn::new(testbed, &observer, extent.attachments);
    churn.fill(&mut random);
    let mut order: Vec<&Victim<'_>> = victims.iter().collect();
    for round in 0..extent.rounds {
        // Each dies once before one dies again.
        if round % victims.len() == 0 {
            random.shuffle(&mut order);
        }
        let victim = order[round % victims.len()];
        let seen = observer.count();
        // Each of these makes at least one change that the observer sees, once a controller has dealt with it.
        let steps = churn.burst(&mut random);
        let after = random.u64(0..=steps);
        println!("round {round}: {} dies after {after} of {steps} changes", victim.name());
        observer.wait_for(seen + after, churn.living());
        // Not only right after what others see: also between that.
        std::thread::sleep(Duration::from_micros(random.u64(0..=20_000)));
        victim.kill_and_start();
    }
    observer.settled(churn.living());
    assert_eq!(observer.violations(), Vec::<String>::new());
    observer.assert_fresh_plan();
    assert!(observer.released() > 0, "addresses were given back meanwhile");
}

#[test]
fn a_controller_that_is_killed_at_random_loses_leaks_and_doubles_nothing() {
    let extent = Extent::from_environment(7);
    Test::new().deadline(extent.deadline()).run(async move |lab: TestLab| {
        let testbed = Testbed::builder().nodes(0).without_controller().without_agents().start(&lab).unwrap();
        let only = controller(&testbed, &lab, "only", None);
        rounds(&testbed, &extent, &[Victim::Process(&only)]);
    });
}

#[test]
fn three_controllers_at_once_lose_leak_and_double_nothing_whatever_is_killed() {
    let extent = Extent::from_environment(7);
    Test::new().deadline(extent.deadline()).run(async move |lab: TestLab| {
        let testbed = Testbed::builder()
            .nodes(0)
            .api(ApiKind::KubernetesOnEtcdCluster)
            .ovn_raft()
            .faults()
            .without_controller()
            .without_agents()
            .start(&lab)
            .unwrap();
        testbed.faults().delay_watches(LAGGING, Duration::from_secs(2));
        let first = controller(&testbed, &lab, "first", None);
        let second = controller(&testbed, &lab, "second", None);
        let lagging = controller(&testbed, &lab, "lagging", Some(LAGGING));
        let victims = [
            Victim::Process(&first),
            Victim::Process(&second),
            Victim::Process(&lagging),
            Victim::NorthboundLeader(&testbed),
            Victim::EtcdLeader(&testbed),
            Victim::ApiServer(&testbed),
            Victim::Northd(&testbed),
        ];
        rounds(&testbed, &extent, &victims);
    });
}
