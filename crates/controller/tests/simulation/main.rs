//! Deterministic simulation: controllers, agents, an API server and a northbound database, with watches that lag, are reordered
//! between kinds and cut, requests that fail, are lost or executed twice, processes that are killed, leaders that step down and up,
//! and a lock on writing that moves. Nothing depends on time or threads: a seed says all that happens, and is printed when something is wrong.
//!
//! After every step:
//! - no address is in two running pods;
//! - no lock of an address that is in a running pod is deleted;
//! - no two ports have one address; with one controller, no lock is deleted before its port;
//! - no two subnets that overlap are both valid;
//! - the port of a running pod stays for as long as its networks do;
//! - a subnet that someone deletes stays while an address that was locked before is in a running pod, and with one controller while any is;
//!   its VPC stays while a subnet is valid in it; unless someone removes their finalizers by hand.
//!
//! Once nothing fails any more and everything was delivered:
//! - everything comes to rest;
//! - a controller that starts now finds nothing to do: no address to take or give back, nothing to write;
//! - every pod has the addresses of its locks, or asks for something that cannot be had;
//! - nothing that was deleted and that nothing uses is left.
//!
//! `SIMULATION_SEEDS=10000` runs more of them, `SIMULATION_SEED=7` just that one, `SIMULATION_TRACE=1` prints what happens.
//! `SIMULATION_FROM=0` says where the search for what breaks a rule begins: change a test's own seed when what users do changes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should stop there")]

/// Prints what happens, if it is asked for.
macro_rules! trace {
    ($($argument:tt)*) => {
        if std::env::var_os("SIMULATION_TRACE").is_some() {
            eprintln!($($argument)*);
        }
    };
}

mod controller;
mod node;
mod server;
mod users;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node as NodeObject, Pod};
use kube::ResourceExt;
use portolan_api::kubeovn;
use portolan_api::portolan::{IPLock, Subnet, Vpc};
use portolan_controller::engine::{Action, Change};
use portolan_model::{FirstInterface, Requester, Settings, Validation, doors};
use portolan_plan::memdb::MemDb;

use self::controller::Controller;
use self::node::{Guests, Node};
use self::server::{LetGo, Server};

const NB_SCHEMA: &str = include_str!("../../../ovn-schema/schemas/ovn-nb.ovsschema");

/// A rule that is broken on purpose, to see that the simulation finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// A lock that exists is taken over instead of being another's.
    TakesWhatExists,
    /// Live reads before a deletion are not made.
    ConfirmsWithoutReading,
    /// Locks are deleted whatever their UID and version.
    DeletesWithoutPreconditions,
    /// What a list lacks counts as deleted.
    TrustsLists,
    /// Locks are deleted whether or not the removal of their ports was committed.
    DoesNotWaitForCommits,
    /// An agent takes the last of several locks on an interface, not the first.
    IgnoresPrecedence,
    /// Subnets are judged by what was observed, not by lists that were begun after that.
    JudgesByCache,
    /// Whoever waits for something is not told that it is free.
    WakesNobody,
    /// What outlives its pods is still used by the former pod when it has moved.
    KeepsFormerUser,
    /// A lock that cannot be read counts as none.
    ForgetsUnreadable,
}

/// What chance decides.
pub(crate) struct Faults {
    random: fastrand::Rng,
    /// Whether things fail.
    active: bool,
    broken: Option<Broken>,
    /// What is the same for all controllers and agents.
    settings: Settings,
}

impl Faults {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.random.usize(..bound.max(1))
    }

    /// True once in so many times, while things fail.
    pub(crate) fn happens(&mut self, one_in: usize) -> bool {
        self.active && self.below(one_in) == 0
    }

    /// Whether the cluster's primary network is ours.
    pub(crate) fn is_primary(&self) -> bool {
        self.settings.first_interface == FirstInterface::Portolan
    }
}

struct Simulation {
    faults: Faults,
    server: Server,
    nb: MemDb,
    controllers: Vec<Controller>,
    /// Which of them holds the database's lock.
    writer: usize,
    nodes: Vec<Node>,
    guests: Guests,
    /// How much of the history of locks was checked.
    checked: usize,
    /// Running pods whose ports were seen in the database, with the UIDs of the VPC and subnets at that time.
    connected: BTreeMap<String, Vec<Option<String>>>,
    users: users::Users,
}

impl Simulation {
    fn new(seed: u64, broken: Option<Broken>) -> Self {
        // A third of the clusters have their primary network of us.
        let first_interface = if seed % 3 == 1 { FirstInterface::Portolan } else { FirstInterface::Other };
        let settings = Settings { first_interface };
        let random = fastrand::Rng::with_seed(seed);
        let mut faults = Faults { random, active: true, broken, settings };
        let nb = MemDb::new(NB_SCHEMA).unwrap();
        let mut server = Server::default();
        users::prepare(&mut server, &faults);
        let count = 1 + faults.below(3);
        let controllers = (0..count).map(|_| Controller::start(&nb, &mut faults)).collect();
        let nodes = vec![Node::new(settings, broken), Node::new(settings, broken)];
        let (guests, users) = (Guests::new(), users::Users);
        Simulation {
            faults,
            server,
            nb,
            controllers,
            writer: 0,
            nodes,
            guests,
            checked: 0,
            connected: BTreeMap::new(),
            users,
        }
    }

    /// Something happens.
    fn step(&mut self) {
        let Simulation { faults, server, nb, controllers, writer, nodes, guests, .. } = self;
        let at = faults.below(controllers.len());
        let controller = &mut controllers[at];
        match faults.below(100) {
            0..6 => self.users.act(server, guests, faults),
            6..40 => {
                let kind = faults.below(controller::KINDS);
                controller.follow(server, kind);
                controller.act();
            }
            40..42 => {
                controller.relist(server, faults.below(controller::KINDS), faults);
                controller.act();
            }
            42..65 => {
                if !controller.requests.is_empty() {
                    controller.progress(faults.below(controller.requests.len()), server, faults);
                }
            }
            65..78 => {
                controller.write(nb, at == *writer, faults);
            }
            78..82 => {
                controller.refresh(nb);
                controller.act();
            }
            82..86 => {
                let retry = faults.below(controller.retries.len());
                if let Some(retry) = controller.retries.iter().nth(retry).cloned() {
                    controller.retry(retry);
                }
            }
            86..98 => {
                let node = faults.below(nodes.len());
                nodes[node].follow(server, faults.below(node::KINDS));
                for pod in users::pods_of(server, node) {
                    nodes[node].add(&pod, guests);
                }
            }
            98 => {
                *writer = faults.below(controllers.len());
                trace!("controller {writer} is the writer");
                controllers[*writer].locked(nb);
            }
            _ => match faults.below(4) {
                0 => {
                    // Its requests may still be on their way; the answers reach nobody.
                    for request in (0..controller.requests.len()).rev() {
                        controller.progress(request, server, faults);
                    }
                    trace!("controller {at} was killed");
                    controllers[at] = Controller::start(nb, faults);
                }
                1 => {
                    trace!("controller {at} steps down, or up");
                    controller.change_role();
                }
                _ => {}
            },
        }
    }

    /// Everything is delivered and nothing fails, until nothing happens any more.
    fn rest(&mut self) -> Result<(), String> {
        self.faults.active = false;
        self.controllers.iter_mut().for_each(Controller::lead);
        for _ in 0..400 {
            let mut busy = false;
            for at in 0..self.controllers.len() {
                busy |= self.work(at);
                self.check()?;
            }
            for (at, node) in self.nodes.iter_mut().enumerate() {
                for kind in 0..node::KINDS {
                    while node.follow(&self.server, kind) {
                        busy = true;
                    }
                }
                for pod in users::pods_of(&self.server, at) {
                    busy |= node.add(&pod, &mut self.guests);
                }
            }
            busy |= self.users.settle(&mut self.server, &mut self.guests, &self.faults);
            self.check()?;
            if !busy {
                return Ok(());
            }
        }
        let open: Vec<_> = self.controllers.iter().map(Controller::describe).collect();
        Err(format!("it does not come to rest: {open:#?}"))
    }

    fn work(&mut self, at: usize) -> bool {
        let controller = &mut self.controllers[at];
        let mut busy = false;
        for kind in 0..controller::KINDS {
            while controller.follow(&self.server, kind) {
                busy = true;
            }
        }
        controller.act();
        while !controller.requests.is_empty() {
            busy = true;
            controller.progress(0, &mut self.server, &mut self.faults);
        }
        busy |= controller.refresh(&self.nb);
        for _ in 0..1000 {
            if !controller.write(&mut self.nb, at == self.writer, &mut self.faults) {
                break;
            }
            busy = true;
        }
        busy |= !controller.requests.is_empty();
        for retry in std::mem::take(&mut controller.retries) {
            // A unit whose owner a live read found is asked about again for ever, by design; so is what cannot be written.
            controller.engine.retry(retry);
        }
        controller.act();
        busy
    }

    /// What must hold at any time.
    fn check(&mut self) -> Result<(), String> {
        let history = &self.server.locks.history;
        for (at, change) in history.iter().enumerate().skip(self.checked) {
            let Change::Deleted(lock) = change else { continue };
            let name = lock.name_any();
            if let Some((pod, _)) = self.guests.iter().find(|(_, locks)| locks.contains(&name)) {
                return Err(format!("lock {name} of running pod {pod} was deleted"));
            }
            // With several controllers, one whose watch is behind may become the writer and write a port that another one knows to
            // be gone. It sees the lock's deletion before it can see another lock on the address.
            if self.controllers.len() == 1
                && let Some(lock) = stored_before(&history[..at], &name)
                && let Some(port) = self.port_with(lock)
            {
                return Err(format!("lock {name} was deleted while port {port} has its address"));
            }
        }
        self.checked = history.len();
        let mut owners: BTreeMap<&String, &String> = BTreeMap::new();
        for (pod, locks) in &self.guests {
            for lock in locks {
                if let Some(other) = owners.insert(lock, pod) {
                    return Err(format!("pods {other} and {pod} both have the address of {lock}"));
                }
            }
        }
        self.check_let_go()?;
        self.check_subnets()?;
        self.check_prefixes()?;
        self.check_ports()?;
        self.check_connected()
    }

    /// The port of a running pod stays for as long as its networks do.
    fn check_connected(&mut self) -> Result<(), String> {
        let names: Vec<_> = self.nb.content()["Logical_Switch_Port"]
            .values()
            .map(|port| format!("{:?}", port["name"]))
            .collect();
        let guests = &self.guests;
        self.connected.retain(|uid, _| guests.contains_key(uid));
        for pod in self.server.pods.objects.values().filter(|pod| pod.name_any().starts_with("pod-")) {
            let uid = pod.uid().unwrap_or_default();
            if !self.guests.contains_key(&uid) {
                continue;
            }
            let networks = users::networks(pod);
            let subnets =
                networks.iter().map(|network| self.server.get::<Subnet>(network).and_then(ResourceExt::uid));
            let vpc = self.server.get::<Vpc>("blue").and_then(ResourceExt::uid);
            let mut owners: Vec<_> = subnets.chain([vpc]).collect();
            let mut networks = networks.len();
            if self.faults.is_primary() {
                let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default();
                owners.push(self.server.get::<NodeObject>(node).and_then(ResourceExt::uid));
                networks += 1;
            }
            let ports = names.iter().filter(|name| name.ends_with(&format!("/{uid}\"))"))).count();
            match self.connected.get(&uid) {
                Some(before) if *before == owners && ports < networks => {
                    return Err(format!("the port of running pod {uid} was removed"));
                }
                _ if ports == networks && self.has_rows_of(&owners) => {
                    drop(self.connected.insert(uid, owners));
                }
                _ => drop(self.connected.remove(&uid)),
            }
        }
        Ok(())
    }

    /// The port of a lock's holder, if it has the lock's address.
    fn port_with(&self, lock: &IPLock) -> Option<String> {
        let holder = &lock.spec.holder;
        let ports = self.nb.content()["Logical_Switch_Port"].values();
        let mut found = ports.filter(|port| {
            let text = |column: &str| format!("{:?}", port[column]);
            text("external_ids").contains(&format!(
                "/{}/{}\"",
                holder.interface.as_deref().unwrap_or_default(),
                holder.uid
            )) && words(&text("addresses")).any(|word| word == lock.spec.address)
        });
        found.next().map(|port| format!("{:?}", port["name"]))
    }

    /// Whether the switches and the router in the database are those of these objects.
    fn has_rows_of(&self, owners: &[Option<String>]) -> bool {
        let tables = self.nb.content();
        let rows = tables["Logical_Switch"].values().chain(tables["Logical_Router"].values());
        let texts: Vec<_> = rows.map(|row| format!("{:?}", row["external_ids"])).collect();
        let has = |owner: &String| texts.iter().any(|text| text.contains(&format!("\"{owner}\"")));
        owners.iter().all(|owner| owner.as_ref().is_some_and(has))
    }

    /// What a controller let go was not in use.
    fn check_let_go(&mut self) -> Result<(), String> {
        for LetGo { kind, name, deleted, subnet } in std::mem::take(&mut self.server.let_go) {
            if let Some(subnet) = subnet {
                return Err(format!("VPC {name} was let go while subnet {subnet} is in it"));
            }
            if kind == "Vpc" {
                continue;
            }
            for lock in self.server.locks.objects.values().filter(|lock| lock.spec.subnet == name) {
                let lock_name = lock.name_any();
                let Some((pod, _)) = self.guests.iter().find(|(_, locks)| locks.contains(&lock_name)) else {
                    continue;
                };
                // A controller whose watch is behind may lock an address after another one has looked.
                if self.controllers.len() == 1 || created_at(lock) < deleted {
                    return Err(format!("subnet {name} was let go while pod {pod} has {lock_name}"));
                }
            }
        }
        Ok(())
    }

    fn check_subnets(&self) -> Result<(), String> {
        let valid = |subnet: &&Subnet| doors::portolan::validation(subnet) == Validation::Current;
        let native = self.server.subnets.objects.values().filter(valid);
        let native =
            native.map(|one| (one.name_any(), one.spec.vpc.clone(), Some(one.spec.cidr_block.clone())));
        let valid = |subnet: &&kubeovn::Subnet| doors::kubeovn::validation(subnet) == Validation::Current;
        let foreign = self.server.kubeovn_subnets.objects.values().filter(valid);
        let foreign = foreign.map(|one| (one.name_any(), one.spec.vpc.clone(), one.spec.cidr_block.clone()));
        let mut seen = BTreeMap::new();
        for (name, vpc, cidr) in native.chain(foreign) {
            if let Some(other) = seen.insert((vpc, cidr), name.clone()) {
                return Err(format!("subnets {other} and {name} overlap and are both valid"));
            }
        }
        Ok(())
    }

    /// The prefixes of a node and a subnet around them are not both valid.
    fn check_prefixes(&self) -> Result<(), String> {
        let valid = |subnet: &Subnet| doors::portolan::validation(subnet) == Validation::Current;
        if !self.server.get::<Subnet>(users::AROUND_NODES).is_some_and(valid) {
            return Ok(());
        }
        let is_served =
            |node: &&NodeObject| doors::node::node(node).prefixes_validation() == Validation::Current;
        match self.server.nodes.objects.values().find(is_served) {
            Some(node) => Err(format!("node {} and the subnet around it are both valid", node.name_any())),
            None => Ok(()),
        }
    }

    /// No two subnets overlap, so an address is at most in one port.
    fn check_ports(&self) -> Result<(), String> {
        let mut seen = BTreeMap::new();
        for port in self.nb.content()["Logical_Switch_Port"].values() {
            let (name, addresses) = (format!("{:?}", port["name"]), format!("{:?}", port["addresses"]));
            for address in words(&addresses).filter(|word| word.parse::<std::net::IpAddr>().is_ok()) {
                if let Some(other) = seen.insert(address.to_owned(), name.clone()) {
                    return Err(format!("ports {other} and {name} both have {address}"));
                }
            }
        }
        Ok(())
    }

    /// What must hold once everything has come to rest.
    fn check_at_rest(&mut self) -> Result<(), String> {
        let mut fresh = Controller::start(&self.nb, &mut self.faults);
        for kind in 0..controller::KINDS {
            fresh.follow(&self.server, kind);
        }
        let to_do: Vec<_> = fresh
            .engine
            .actions()
            .into_iter()
            .filter(|action| !matches!(action, Action::Report { .. }))
            .collect();
        if !to_do.is_empty() {
            return Err(format!("a controller that starts now would do {to_do:#?}"));
        }
        if fresh.write(&mut self.nb, true, &mut self.faults) {
            return Err("a controller that starts now would write to the database".to_owned());
        }
        if !fresh.requests.is_empty() {
            return Err(format!("a controller that starts now would ask: {}", fresh.describe()));
        }
        let metas = self.server.subnets.objects.values().map(|subnet| &subnet.metadata);
        let metas = metas.chain(self.server.kubeovn_subnets.objects.values().map(|subnet| &subnet.metadata));
        let mut metas = metas.chain(self.server.vpcs.objects.values().map(|vpc| &vpc.metadata));
        if let Some(left) = metas.find(|meta| meta.deletion_timestamp.is_some()) {
            return Err(format!("{:?} was deleted and is still there", left.name));
        }
        for pod in self.server.pods.objects.values() {
            let uid = pod.uid().unwrap_or_default();
            let requester = Requester::pod("default", pod.name_any());
            let finished =
                pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Succeeded");
            match self.guests.get(&uid) {
                Some(locks) => {
                    for lock in locks {
                        let holder =
                            self.server.get::<IPLock>(lock).map(|lock| lock.spec.holder.name.clone());
                        if holder.as_deref() != Some(&pod.name_any()) {
                            return Err(format!(
                                "pod {} has the address of {lock}, which is held by {holder:?}",
                                pod.name_any()
                            ));
                        }
                    }
                }
                None if finished || fresh.has_refused(&requester) || waits_for_subnet(&fresh, pod) => {}
                None => return Err(format!("pod {} has no addresses, and nothing says why", pod.name_any())),
            }
        }
        Ok(())
    }
}

/// The version that the server gave a lock when it was created.
fn created_at(lock: &IPLock) -> u64 {
    let uid = lock.uid().unwrap_or_default();
    uid.rsplit('-').next().and_then(|version| version.parse().ok()).unwrap_or_default()
}

/// Whether a subnet of a pod is not in effect: it has addresses, and starts when the subnet is.
fn waits_for_subnet(controller: &Controller, pod: &Pod) -> bool {
    let world = controller.engine.world();
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default();
    // A node that was made again has other prefixes: who has an address of the former ones has none that works.
    let uid = pod.uid().unwrap_or_default();
    let mut held = world.holdings_of(&Requester::pod("default", pod.name_any())).into_iter();
    let is_elsewhere = held.any(|id| *id.uid() == uid && world.attachment(&id).is_none());
    users::networks(pod).iter().any(|network| world.subnet(network).is_none())
        || controller.engine.world().node(node).is_none()
        || is_elsewhere
}

/// An object as it was stored last.
fn stored_before<'a>(history: &'a [Change<IPLock>], name: &str) -> Option<&'a IPLock> {
    history.iter().rev().find_map(|change| match change {
        Change::Applied(lock) if lock.name_any() == name => Some(lock),
        _ => None,
    })
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_alphanumeric() || c == '.' || c == ':')).filter(|word| !word.is_empty())
}

/// Runs a seed.
fn run(seed: u64, broken: Option<Broken>) -> Result<(), String> {
    let mut simulation = Simulation::new(seed, broken);
    let steps = 200 + simulation.faults.below(800);
    for step in 0..steps {
        simulation.step();
        simulation.check().map_err(|problem| format!("step {step}: {problem}"))?;
    }
    simulation.rest()?;
    simulation.check_at_rest().map_err(|problem| format!("at rest: {problem}"))
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")))
}

#[test]
fn nothing_is_lost_leaked_or_doubled() {
    let seeds = match number("SIMULATION_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("SIMULATION_SEEDS").unwrap_or(120),
    };
    let wrong: Vec<_> = seeds.filter_map(|seed| Some((seed, run(seed, None).err()?))).take(5).collect();
    assert!(
        wrong.is_empty(),
        "{}",
        wrong
            .iter()
            .map(|(seed, problem)| format!("\nSIMULATION_SEED={seed}: {problem}"))
            .collect::<String>()
    );
}

/// Whether any of some hundred seeds finds that a rule is broken. The search begins where one was found before.
fn is_found(broken: Broken, from: u64) {
    let from = number("SIMULATION_FROM").unwrap_or(from);
    let found = (from..from + 1000).find_map(|seed| Some((seed, run(seed, Some(broken)).err()?)));
    match found {
        Some((seed, problem)) => println!("seed {seed}: {problem:.300}"),
        None => panic!("{broken:?} was not found"),
    }
}

#[test]
fn taking_over_a_lock_that_exists_is_found() {
    is_found(Broken::TakesWhatExists, 84);
}

#[test]
fn deleting_locks_without_live_reads_is_found() {
    is_found(Broken::ConfirmsWithoutReading, 51);
}

#[test]
fn deleting_locks_without_preconditions_is_found() {
    is_found(Broken::DeletesWithoutPreconditions, 3605);
}

#[test]
fn trusting_a_list_that_lacks_objects_is_found() {
    is_found(Broken::TrustsLists, 597);
}

#[test]
fn deleting_locks_before_their_ports_are_gone_is_found() {
    is_found(Broken::DoesNotWaitForCommits, 73);
}

#[test]
fn taking_the_last_of_several_locks_is_found() {
    is_found(Broken::IgnoresPrecedence, 106);
}

#[test]
fn judging_subnets_by_what_was_observed_is_found() {
    is_found(Broken::JudgesByCache, 437);
}

#[test]
fn waking_nobody_who_waits_is_found() {
    is_found(Broken::WakesNobody, 1);
}

#[test]
fn leaving_an_ordinals_lock_with_its_former_pod_is_found() {
    is_found(Broken::KeepsFormerUser, 92);
}

#[test]
fn forgetting_a_lock_that_cannot_be_read_is_found() {
    is_found(Broken::ForgetsUnreadable, 683);
}

/// A pod of the simulation, for its users.
pub(crate) fn is_finished(pod: &Pod) -> bool {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Succeeded")
}
