//! Two deciders that lag, race and forget, against one store that lets every name be created once.

use std::collections::{BTreeMap, BTreeSet};

use kube_core::ResourceExt;
use portolan_api::portolan::IPLock;
use portolan_ipam::Ipam;
use portolan_model::fixtures::*;
use portolan_model::holder::Read;
use portolan_model::{FirstInterface, Pod, Requester, Settings, World};
use proptest::prelude::*;

/// The API server: names are unique, every write has the next version.
#[derive(Default)]
struct Store {
    locks: BTreeMap<String, IPLock>,
    pods: BTreeMap<String, Pod>,
    events: Vec<Event>,
}

#[derive(Clone)]
enum Event {
    Lock(IPLock),
    LockGone(IPLock),
    Pod(Pod),
    PodGone(Pod),
}

impl Store {
    fn create(&mut self, lock: IPLock) -> bool {
        let name = lock.name_any();
        if self.locks.contains_key(&name) {
            return false;
        }
        let lock = mk_stored(lock, self.events.len() as u64 + 1);
        self.locks.insert(name, lock.clone());
        self.events.push(Event::Lock(lock));
        true
    }

    /// Deletes a lock if it is still the one that was meant.
    fn delete(&mut self, name: &str, uid: &str) {
        if self.locks.get(name).is_some_and(|lock| lock.uid().as_deref() == Some(uid))
            && let Some(lock) = self.locks.remove(name)
        {
            self.events.push(Event::LockGone(lock));
        }
    }

    /// Starts a pod of this name, or a new life of it.
    fn start(&mut self, name: &str) {
        let life = self.events.len();
        let pod = Pod { uid: format!("{name}-{life}").into(), ..mk_pod("default", name, &[]) };
        self.pods.insert(name.to_owned(), pod.clone());
        self.events.push(Event::Pod(pod));
    }

    fn stop(&mut self, name: &str) {
        if let Some(pod) = self.pods.remove(name) {
            self.events.push(Event::PodGone(pod));
        }
    }
}

/// What pods get addresses of.
#[derive(Clone, Copy, Debug)]
struct Network {
    cidr: &'static str,
    of_node: bool,
}

/// A controller: what it has seen of the store, and what it makes of it.
struct Decider {
    world: World,
    ipam: Ipam,
    seen: usize,
}

impl Decider {
    /// Pods get addresses of a node's prefixes, or of a subnet for all.
    fn new(Network { cidr, of_node }: Network) -> Self {
        let mut world = World::new(Settings { first_interface: FirstInterface::Portolan });
        if of_node {
            let _ = world.apply(&mk_node_with("node-1", cidr));
        } else {
            let mut subnet = mk_subnet("web", cidr, "");
            subnet.spec.default = true;
            let _ = world.apply(&subnet);
        }
        Self { world, ipam: Ipam::new(), seen: 0 }
    }

    fn catch_up(&mut self, store: &Store, events: usize) {
        let until = store.events.len().min(self.seen.saturating_add(events));
        for event in &store.events[self.seen..until] {
            let dirty = match event {
                Event::Pod(pod) => self.world.apply(pod),
                Event::PodGone(pod) => self.world.delete(pod),
                Event::Lock(lock) => self.world.apply(lock),
                Event::LockGone(lock) => self.world.delete(lock),
            };
            for change in &dirty.locks {
                self.ipam.apply(change);
            }
        }
        self.seen = until;
    }

    /// Decides for a pod and does what was decided, up to a crash after so many writes.
    fn act(&mut self, store: &mut Store, pod: &str, writes: usize) {
        let decision = self.ipam.decide(&self.world, &Requester::pod("default", pod));
        for lock in decision.create.into_iter().take(writes) {
            if !store.create(lock) {
                return; // taken meanwhile: the watch will tell by whom
            }
        }
        for release in decision.releases {
            // The live read that every deletion waits for.
            let mut found = World::default();
            for read in release.reads() {
                match read {
                    Read::Pod { name, .. } => store.pods.get(&name).map(|pod| drop(found.apply(pod))),
                    Read::Lock { name } => store.locks.get(&name).map(|lock| drop(found.apply(lock))),
                    other => panic!("{other:?} is not read here"),
                };
            }
            if release.is_confirmed(&found, &self.world) {
                store.delete(&release.lock, &release.uid);
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Start(usize),
    Stop(usize),
    CatchUp(usize, usize),
    Act(usize, usize, usize),
    Restart(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        2 => (0..PODS.len()).prop_map(Step::Start),
        1 => (0..PODS.len()).prop_map(Step::Stop),
        4 => (0..2_usize, 0..6_usize).prop_map(|(who, events)| Step::CatchUp(who, events)),
        6 => (0..2_usize, 0..PODS.len(), 0..3_usize).prop_map(|(who, pod, writes)| Step::Act(who, pod, writes)),
        1 => (0..2_usize).prop_map(Step::Restart),
    ];
    prop::collection::vec(step, 0..80)
}

const PODS: [&str; 5] = ["a", "b", "c", "d", "e"];

/// No two live attachments of the domain have one address.
fn check(world: &World) -> Result<(), TestCaseError> {
    let mut seen = BTreeSet::new();
    for attachment in world.attachments() {
        for address in attachment.addresses.iter() {
            prop_assert!(seen.insert(*address), "{} is held twice", address);
        }
    }
    Ok(())
}

/// A /29 of a node has three addresses for pods: one with five pods has more.
fn networks() -> impl Strategy<Value = Network> {
    let of = |cidr, of_node| Network { cidr, of_node };
    prop::sample::select(vec![
        of("10.0.0.0/24", false),
        of("10.0.0.0/29", false),
        of("10.0.0.0/29,fd00::/125", false),
        of("10.0.0.0/28,fd00::/124", true),
        of("10.0.0.0/24", true),
    ])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_address_has_two_holders_and_all_is_well_in_the_end(
        steps in steps(),
        network in networks(),
    ) {
        let mut store = Store::default();
        let mut deciders = [Decider::new(network), Decider::new(network)];
        for step in steps {
            match step {
                Step::Start(pod) => store.start(PODS[pod]),
                Step::Stop(pod) => store.stop(PODS[pod]),
                Step::CatchUp(who, events) => deciders[who].catch_up(&store, events),
                Step::Act(who, pod, writes) => deciders[who].act(&mut store, PODS[pod], writes),
                Step::Restart(who) => deciders[who] = Decider::new(network),
            }
            for decider in &deciders {
                check(&decider.world)?;
            }
        }
        // Left alone, both come to rest with every pod served and nothing else held. A /29 has five addresses for guests.
        for round in 0..40 {
            let decider = &mut deciders[round % 2];
            decider.catch_up(&store, usize::MAX);
            for pod in PODS {
                decider.act(&mut store, pod, usize::MAX);
                decider.catch_up(&store, usize::MAX);
            }
        }
        let families = network.cidr.split(',').count();
        for decider in &mut deciders {
            decider.catch_up(&store, usize::MAX);
            for pod in PODS {
                let decision = decider.ipam.decide(&decider.world, &Requester::pod("default", pod));
                prop_assert!(decision.is_empty(), "{} still has to {:?}", pod, decision);
            }
            prop_assert_eq!(decider.world.attachments().count(), store.pods.len());
        }
        prop_assert_eq!(store.locks.len(), store.pods.len() * families);
        prop_assert_eq!(&deciders[0].world, &deciders[1].world);
        // Everything that becomes free can be had again.
        for pod in PODS {
            store.stop(pod);
        }
        for decider in &mut deciders {
            decider.catch_up(&store, usize::MAX);
            for pod in PODS {
                decider.act(&mut store, pod, usize::MAX);
            }
        }
        prop_assert!(store.locks.is_empty());
    }

    /// From the same facts, the same proposal.
    #[test]
    fn two_deciders_propose_the_same_lock(pods in prop::collection::vec(0..PODS.len(), 1..5)) {
        let mut store = Store::default();
        for pod in pods {
            store.start(PODS[pod]);
        }
        let network = Network { cidr: "10.0.0.0/16,fd00::/64", of_node: false };
        let mut deciders = [Decider::new(network), Decider::new(network)];
        for decider in &mut deciders {
            decider.catch_up(&store, usize::MAX);
        }
        for pod in PODS {
            let [first, second] =
                deciders.each_ref().map(|d| d.ipam.decide(&d.world, &Requester::pod("default", pod)));
            prop_assert_eq!(first, second);
        }
    }
}
