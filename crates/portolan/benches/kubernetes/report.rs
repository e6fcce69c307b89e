//! What was measured, as a table.

use std::collections::{BTreeMap, BTreeSet};

use crate::bare::Bare;
use crate::components::Component;
use crate::load::Load;
use crate::restart::Restart;
use crate::side::Underlay;
use crate::statistics::{Estimate, percentile};
use crate::steps::{self, Call};

/// So many pods are what most goals are about.
const MANY: usize = 60;
const MIB: f64 = (1 << 20) as f64;

/// Everything that was measured so far; of each pair the reference is first.
pub(crate) struct Report {
    underlay: Underlay,
    loads: BTreeMap<usize, Vec<(Load, Load)>>,
    bare: Vec<Bare>,
    restarts: Vec<(Restart, Restart)>,
}

impl Report {
    pub(crate) fn new(underlay: Underlay) -> Self {
        Self { underlay, loads: BTreeMap::new(), bare: Vec::new(), restarts: Vec::new() }
    }

    pub(crate) fn load(&mut self, pods: usize, bridge: Load, portolan: Load) {
        self.loads.entry(pods).or_default().push((bridge, portolan));
    }

    pub(crate) fn bare(&mut self, bare: Bare) {
        self.bare.push(bare);
    }

    pub(crate) fn restart(&mut self, bridge: Restart, portolan: Restart) {
        self.restarts.push((bridge, portolan));
    }

    pub(crate) fn print(&self) {
        let underlay = match self.underlay {
            Underlay::Plain => "plain links under its nodes",
            Underlay::OpenVSwitch => "Open vSwitch under its nodes too",
        };
        println!("\nreference: bridge + host-local + portmap, {underlay}");
        println!("{:<50}{:>9}{:>10}{:>24}  goal", "", "bridge", "Portolan", "ratio [95 %]");
        for (pods, pairs) in &self.loads {
            times(*pods, pairs);
        }
        if let Some(many) = self.loads.get(&MANY) {
            writes(many);
            usage(many);
            self.beside_the_script(many);
            memory(many);
            agent_steps(many);
        }
        if !self.restarts.is_empty() {
            restarts(&self.restarts);
        }
    }

    /// What the pods cost OVN and Open vSwitch beside the same ports by a script. Both without what an idle cluster costs.
    fn beside_the_script(&self, many: &[(Load, Load)]) {
        println!(
            "\nOVN and Open vSwitch for {MANY} ports, beyond idle, core-seconds ('bridge': by a bare script)"
        );
        for component in [Component::Ovn, Component::OpenVSwitch] {
            let of = |cpu: &BTreeMap<Component, f64>| cpu.get(&component).copied().unwrap_or_default();
            let busy = |cpu, idle, took: f64| of(cpu) - of(idle) * took;
            let pairs = self.bare.iter().zip(many).map(|(bare, (_, load))| {
                (busy(&bare.cpu, &bare.idle, bare.took), busy(&load.cpu, &bare.idle, load.took))
            });
            let pairs: Vec<_> = pairs.collect();
            ratio_line(component.name(), &pairs, Some((1.2, "≤ 1.2")));
        }
    }
}

fn times(pods: usize, pairs: &[(Load, Load)]) {
    println!("\n{pods} at once ({} samples)", pairs.len());
    let of = |figure: &dyn Fn(&Load) -> f64| both(pairs, figure);
    let all_goal = (pods == MANY).then_some((1.05, "≤ 1.05"));
    ratio_line("first request → all Ready, s", &of(&|load| load.times.all), all_goal);
    for percent in [50.0, 95.0] {
        let each = of(&|load| percentile(&load.times.each, percent));
        ratio_line(&format!("scheduled → Ready, p{percent}, s"), &each, None);
    }
    for percent in [50.0, 95.0] {
        let goal = (pods == 1 && percent < 90.0).then_some((1.0, "≤ 1.0"));
        let adds = of(&|load| percentile(&load.adds, percent) * 1000.0);
        ratio_line(&format!("ADD, p{percent}, ms"), &adds, goal);
    }
}

fn writes(pairs: &[(Load, Load)]) {
    for (what, of) in [
        ("created", (|load| &load.created) as fn(&Load) -> &BTreeMap<String, usize>),
        ("deleted", |load| &load.deleted),
    ] {
        println!("\nAPI writes per pod that is {what} (of {MANY} at once)");
        let names: BTreeSet<_> = pairs.iter().flat_map(|(a, b)| of(a).keys().chain(of(b).keys())).collect();
        let per_pod =
            |load: &Load, name: &String| of(load).get(name).copied().unwrap_or_default() as f64 / MANY as f64;
        for name in names {
            let (bridge, portolan) = medians(pairs, |load| per_pod(load, name));
            // What happens now and then is no pod's.
            if bridge.max(portolan) >= 0.05 {
                line(name, bridge, portolan, "", "");
            }
        }
        let all = |load: &Load| of(load).values().sum::<usize>() as f64 / MANY as f64;
        let more: Vec<_> = pairs.iter().map(|(bridge, portolan)| all(portolan) - all(bridge)).collect();
        let more = Estimate::of(&more);
        let (bridge, portolan) = medians(pairs, all);
        let verdict =
            if what == "created" { goal(more, 1.05, "one more per address") } else { String::new() };
        line("in all", bridge, portolan, &difference(more), &verdict);
    }
}

fn usage(pairs: &[(Load, Load)]) {
    println!("\ncore-seconds for {MANY} pods, from the first request until 3 s after the last was Ready");
    let components: BTreeSet<_> = pairs.iter().flat_map(|(a, b)| a.cpu.keys().chain(b.cpu.keys())).collect();
    for component in components {
        let of = |load: &Load| load.cpu.get(component).copied().unwrap_or_default();
        let (bridge, portolan) = medians(pairs, of);
        line(component.name(), bridge, portolan, "", "");
    }
    let own = |load: &Load| {
        [Component::Controller, Component::Agent].iter().filter_map(|own| load.cpu.get(own)).sum::<f64>()
    };
    let own = Estimate::of(&pairs.iter().map(|(_, portolan)| own(portolan)).collect::<Vec<_>>());
    let interval = format!("[{:.2} – {:.2}]", own.low, own.high);
    line("Portolan's own processes", 0.0, own.median, &interval, &goal(own, 0.6, "≤ 0.6"));
    ratio_line("all", &both(pairs, |load| load.cpu.values().sum()), None);
}

fn memory(pairs: &[(Load, Load)]) {
    println!("\nresident memory with {MANY} pods, MiB (the largest process of each)");
    let components: BTreeSet<_> = pairs.iter().flat_map(|(_, b)| b.memory.keys()).collect();
    for component in components {
        let of = |load: &Load| load.memory.get(component).copied().unwrap_or_default() as f64 / MIB;
        let all = Estimate::of(&pairs.iter().map(|(_, portolan)| of(portolan)).collect::<Vec<_>>());
        let verdict = match component {
            Component::Agent => goal(all, 25.0, "≤ 25"),
            Component::Controller => {
                goal(all, 35.0 + 2048.0 * MANY as f64 / MIB, "≤ 35 + 2 KiB per attachment")
            }
            _ => String::new(),
        };
        line(component.name(), medians(pairs, of).0, all.median, "", &verdict);
    }
}

/// Where ADD's time goes in the agent.
fn agent_steps(pairs: &[(Load, Load)]) {
    println!("\nthe agent's part of ADD, {MANY} at once, p50, ms");
    let calls: Vec<&Call> = pairs.iter().flat_map(|(_, portolan)| &portolan.steps).collect();
    let of = |step: &dyn Fn(&Call) -> f64| {
        percentile(&calls.iter().map(|call| step(call)).collect::<Vec<_>>(), 50.0)
    };
    let step = |words: &str, value: f64| println!("  {words:<57}{value:>10.1}");
    step("waits for the controller's address", of(&|call| call.step("locks")));
    for (name, words) in steps::OWN {
        step(words, of(&|call| call.step(name)));
    }
    step("waits for OVN", of(&|call| call.step("installed")));
    step("in all", of(&|call| call.step("total")));
}

fn restarts(pairs: &[(Restart, Restart)]) {
    println!("\nAPI server SIGKILL, started at once → next pod Ready, s ({} samples)", pairs.len());
    for (what, figure) in [
        ("in all", (|one| one.ready) as fn(&Restart) -> f64),
        ("  until the API server is ready", |one| one.serves),
        ("  then until the pod has a node", |one| one.scheduled),
        ("  its ADD", |one| one.add),
        ("    in it, waits for the controller's address", |one| one.locks),
        ("  the rest: kubelet, containers, what is told", |one| {
            one.ready - one.serves - one.scheduled - one.add
        }),
    ] {
        let pairs = both(pairs, figure);
        let later =
            Estimate::of(&pairs.iter().map(|(bridge, portolan)| portolan - bridge).collect::<Vec<_>>());
        let verdict = if what == "in all" { goal(later, 1.0, "≤ +1 s") } else { String::new() };
        let (bridge, portolan): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
        line(what, median(&bridge), median(&portolan), &difference(later), &verdict);
    }
}

fn both<T>(pairs: &[(T, T)], figure: impl Fn(&T) -> f64) -> Vec<(f64, f64)> {
    pairs.iter().map(|(bridge, portolan)| (figure(bridge), figure(portolan))).collect()
}

fn medians<T>(pairs: &[(T, T)], figure: impl Fn(&T) -> f64) -> (f64, f64) {
    let (bridge, portolan): (Vec<_>, Vec<_>) = both(pairs, figure).into_iter().unzip();
    (median(&bridge), median(&portolan))
}

fn median(samples: &[f64]) -> f64 {
    percentile(samples, 50.0)
}

/// A figure of both, and the median of the ratios of each pair.
fn ratio_line(what: &str, pairs: &[(f64, f64)], limit: Option<(f64, &str)>) {
    let (bridge, portolan): (Vec<_>, Vec<_>) = pairs.iter().copied().unzip();
    let ratios: Vec<_> = pairs.iter().map(|(bridge, portolan)| portolan / bridge).collect();
    let ratio = Estimate::of(&ratios);
    let verdict = limit.map(|(limit, words)| goal(ratio, limit, words)).unwrap_or_default();
    let row = format!("{:.2} [{:.2} – {:.2}]", ratio.median, ratio.low, ratio.high);
    line(what, median(&bridge), median(&portolan), &row, &verdict);
}

fn difference(estimate: Estimate) -> String {
    format!("{:+.2} [{:+.2} – {:+.2}]", estimate.median, estimate.low, estimate.high)
}

fn line(what: &str, bridge: f64, portolan: f64, compared: &str, verdict: &str) {
    println!("  {what:<48}{bridge:>9.2}{portolan:>10.2}{compared:>24}  {verdict}");
}

/// Whether an estimate is at most this; not for sure where its interval holds both.
fn goal(estimate: Estimate, limit: f64, words: &str) -> String {
    let verdict = match (estimate.median <= limit, estimate.low <= limit && limit < estimate.high) {
        (true, false) => "met",
        (true, true) => "met, but not for sure",
        (false, false) => "missed",
        (false, true) => "missed, but not for sure",
    };
    format!("{words}: {verdict}")
}
