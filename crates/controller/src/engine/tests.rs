#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Node, Pod, PodSpec, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use portolan_api::nad::NetworkAttachmentDefinition;
use portolan_api::portolan::{HolderKind, IPLock, NetworkAttachment, Subnet, Vpc};
use portolan_api::{kubeovn, kubevirt};
use portolan_model::AttachmentId;
use portolan_model::fixtures::{mk_nad, mk_stored, mk_subnet, mk_validated, mk_vpc};
use portolan_model::node::CHASSIS_ANNOTATION;
use portolan_plan::memdb::MemDb;
use portolan_plan::northbound::DATABASE;
use portolan_plan::{Absence, tag};

use super::*;

const NB_SCHEMA: &str = include_str!("../../../ovn-schema/schemas/ovn-nb.ovsschema");
const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";

/// An API server, a northbound database, and an engine between them.
struct Scene {
    engine: Engine,
    nb: MemDb,
    cache: ovsdb::Cache,
    /// What a live read finds.
    vpcs: Vec<Vpc>,
    subnets: Vec<Subnet>,
    nads: Vec<NetworkAttachmentDefinition>,
    nodes: Vec<Node>,
    pods: BTreeMap<String, Pod>,
    sets: BTreeMap<String, StatefulSet>,
    machines: BTreeMap<String, kubevirt::VirtualMachine>,
    instances: BTreeMap<String, kubevirt::VirtualMachineInstance>,
    locks: BTreeMap<String, IPLock>,
    /// The units whose owners were read live.
    live_reads: Vec<String>,
    version: u64,
    reported: Vec<(&'static str, String)>,
    conditions: Vec<StatusUpdate>,
    creations: usize,
    shown: Vec<PodResults>,
    told_mtus: Vec<(String, u16)>,
    served: Vec<(String, String)>,
    vips: BTreeMap<String, kubeovn::Vip>,
    pools: BTreeMap<String, kubeovn::IPPool>,
    network_attachments: BTreeMap<String, NetworkAttachment>,
    services: BTreeMap<String, Service>,
    slices: BTreeMap<String, EndpointSlice>,
}

impl Scene {
    /// A database that may have rows, and an engine to which nothing was listed yet.
    fn unlisted(nb: MemDb) -> Self {
        Self::unlisted_with(nb, Settings::default())
    }

    fn unlisted_with(nb: MemDb, settings: Settings) -> Self {
        Self::unlisted_as(nb, settings, portolan_plan::Settings::default())
    }

    fn unlisted_as(nb: MemDb, settings: Settings, plan: portolan_plan::Settings) -> Self {
        let engine = Engine::new(settings, plan);
        let cache = nb.cache(DATABASE.indexes());
        Scene {
            engine,
            nb,
            cache,
            vpcs: Vec::new(),
            subnets: Vec::new(),
            nads: Vec::new(),
            nodes: Vec::new(),
            pods: BTreeMap::new(),
            sets: BTreeMap::new(),
            machines: BTreeMap::new(),
            instances: BTreeMap::new(),
            locks: BTreeMap::new(),
            live_reads: Vec::new(),
            version: 0,
            reported: Vec::new(),
            conditions: Vec::new(),
            creations: 0,
            shown: Vec::new(),
            told_mtus: Vec::new(),
            served: Vec::new(),
            vips: BTreeMap::new(),
            pools: BTreeMap::new(),
            network_attachments: BTreeMap::new(),
            services: BTreeMap::new(),
            slices: BTreeMap::new(),
        }
    }

    fn list<K: Observed>(&mut self, objects: Vec<K>) {
        self.engine.feed(&Change::listed(objects));
    }

    fn list_all(&mut self, vpcs: Vec<Vpc>, subnets: Vec<Subnet>, nads: Vec<NetworkAttachmentDefinition>) {
        (self.vpcs, self.subnets, self.nads) = (vpcs.clone(), subnets.clone(), nads.clone());
        self.list(vpcs);
        self.list(subnets);
        self.list(nads);
        self.list(self.pods.values().cloned().collect());
        self.list_the_rest();
    }

    /// Everything that another scene has, but its pods.
    fn list_but_pods(&mut self, other: &Scene) {
        (self.vpcs, self.subnets) = (other.vpcs.clone(), other.subnets.clone());
        self.nads.clone_from(&other.nads);
        self.list(self.vpcs.clone());
        self.list(self.subnets.clone());
        self.list(self.nads.clone());
        self.list_the_rest();
    }

    fn list_the_rest(&mut self) {
        self.list(self.locks.values().cloned().collect());
        self.list::<kubeovn::Vpc>(vec![]);
        self.list::<kubeovn::Subnet>(vec![]);
        self.list::<NetworkAttachment>(vec![]);
        self.list::<kubeovn::IPPool>(vec![]);
        self.list::<kubeovn::Vip>(vec![]);
        self.list::<StatefulSet>(vec![]);
        self.list::<kubevirt::VirtualMachine>(vec![]);
        self.list::<kubevirt::VirtualMachineInstance>(vec![]);
        let mut metadata = named("node-1", "node-1");
        metadata.annotations = Some([(CHASSIS_ANNOTATION.to_owned(), "chassis-1".to_owned())].into());
        self.nodes = vec![Node { metadata, ..Node::default() }];
        self.list(self.nodes.clone());
        self.engine.compare_all(&self.cache);
    }

    /// Two subnets in a VPC, each with a network; everything was listed.
    fn new() -> Self {
        let mut scene = Scene::unlisted(MemDb::new(NB_SCHEMA).unwrap());
        scene.list_all(
            vec![mk_vpc("blue")],
            subnets(),
            vec![mk_nad("default", "web"), mk_nad("default", "db")],
        );
        scene
    }

    fn pod(&mut self, name: &str, networks: &str) {
        let mut metadata = named(name, &format!("uid-{name}"));
        metadata.namespace = Some("default".into());
        metadata.annotations = Some([(NETWORKS.to_owned(), networks.to_owned())].into());
        let spec = PodSpec { node_name: Some("node-1".into()), ..PodSpec::default() };
        let pod = Pod { metadata, spec: Some(spec), status: None };
        self.pods.insert(name.into(), pod.clone());
        self.engine.feed(&Change::Applied(pod));
    }

    fn delete_pod(&mut self, name: &str) {
        let pod = self.pods.remove(name).unwrap();
        self.engine.feed(&Change::deleted(&pod));
    }

    /// The locks to be created now, without creating them.
    /// Gateways get theirs, and whatever else is to be done is done.
    fn proposals(&mut self) -> Vec<IPLock> {
        let mut proposals = Vec::new();
        for action in self.engine.actions() {
            match action {
                Action::CreateLock(lock) if is_guest(&lock) => proposals.push(*lock),
                other => self.perform(other),
            }
        }
        proposals
    }

    /// The locks of guests.
    fn guest_locks(&self) -> impl Iterator<Item = &IPLock> {
        self.locks.values().filter(|lock| is_guest(lock))
    }

    /// Deletes the subnets, as a watch reports it.
    fn delete_subnets(&mut self) {
        for subnet in std::mem::take(&mut self.subnets) {
            self.engine.feed(&Change::deleted(&subnet));
        }
    }

    fn store(&mut self, lock: IPLock) {
        self.creations += usize::from(is_guest(&lock));
        let name = lock.name_any();
        if !self.locks.contains_key(&name) {
            self.version += 1;
            self.locks.insert(name.clone(), mk_stored(lock, self.version));
        }
        self.engine.created(&name, &Creation::Exists);
        self.engine.feed(&Change::Applied(self.locks[&name].clone()));
    }

    /// Makes everything happen until nothing is left to do.
    fn settle(&mut self) {
        for _ in 0..20 {
            let actions = self.engine.actions();
            let batches = self.engine.plan(&self.cache, 1000);
            if actions.is_empty() && batches.is_empty() {
                let more = self.engine.actions();
                if more.is_empty() {
                    return;
                }
                more.into_iter().for_each(|action| self.perform(action));
            }
            actions.into_iter().for_each(|action| self.perform(action));
            for batch in batches {
                self.nb.transact(&batch.transaction()).unwrap();
            }
            self.nb.refresh(&mut self.cache);
            // The database tells of every change, also of our own.
            self.engine.compare_all(&self.cache);
        }
        panic!("it never comes to rest");
    }

    /// Does everything that happens at once, but for the database; stores the statuses of pools, Vips and
    /// NetworkAttachments, and answers them.
    fn written(&mut self, kind: Kind) -> Vec<StatusUpdate> {
        let mut written = Vec::new();
        for _ in 0..20 {
            for action in self.engine.actions() {
                match action {
                    Action::SetConditions(update) if update.kind == kind => {
                        match kind {
                            Kind::IPPool => store(&mut self.engine, self.pools.values_mut(), &update),
                            Kind::NetworkAttachment => {
                                store(&mut self.engine, self.network_attachments.values_mut(), &update);
                            }
                            _ => store(&mut self.engine, self.vips.values_mut(), &update),
                        }
                        written.push(update);
                    }
                    other => self.perform(other),
                }
            }
        }
        written
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::CreateLock(lock) => self.store(*lock),
            Action::MoveLock { moved, .. } => self.move_lock(&moved),
            Action::Confirm(question) => {
                let confirmation = self.found(&question.release.reads());
                self.engine.confirmed(&question, &confirmation);
            }
            Action::DeleteLock { lock, uid, resource_version } => {
                let holder = &self.locks[&lock].spec.holder;
                let id = AttachmentId::new(holder, holder.interface.as_deref().unwrap()).unwrap();
                let deleted = format!("attachment/{id}");
                let duplicate =
                    self.locks.values().any(|other| other.name_any() != lock && other.spec.holder == *holder);
                assert!(duplicate || !self.units().contains(&deleted), "the port of {lock} is still there");
                let gateway = format!("\"{}/", self.locks[&lock].spec.address);
                let ports = self.cache.table("Logical_Router_Port").unwrap();
                let in_use =
                    ports.iter().any(|row| format!("{:?}", row.datum("networks")).contains(&gateway));
                assert!(!in_use, "a router port still has {gateway}");
                assert_eq!(self.locks[&lock].uid().unwrap(), uid);
                assert_eq!(self.locks[&lock].resource_version().unwrap(), resource_version.to_string());
                let lock = self.locks.remove(&lock).unwrap();
                self.engine.feed(&Change::deleted(&lock));
            }
            Action::ConfirmAbsence { unit, owners, .. } => {
                self.live_reads.push(unit.to_string());
                let absence = self.absence(&unit, &owners);
                self.engine.unit_absence(unit, &owners, absence);
            }
            Action::ReadMissing(read) => {
                self.live_reads.push(format!("{read:?}"));
                let confirmation = self.found(std::slice::from_ref(&read));
                self.engine.missing_read(&read, &confirmation);
            }
            Action::ValidateSubnets(_) => {}
            Action::SetConditions(update) => self.conditions.push(update),
            Action::SetFinalizer(update) => self.set_finalizer(&update),
            Action::ConfirmUnused(object) => {
                let usage = self.usage(object.kind);
                self.engine.usage(&object, &usage);
            }
            Action::ShowResults(results) => self.shown.push(results),
            Action::TellMtu { node, mtu } => self.told_mtus.push((node, mtu)),
            Action::ServePrefixes { node, cidrs, .. } => self.served.push((node, cidrs)),
            Action::Report { reason, message, .. } => self.reported.push((reason, message)),
        }
    }

    /// What a live read of a unit's owners finds.
    fn absence(&self, unit: &Unit, owners: &BTreeSet<String>) -> Absence {
        let owns = |uid: Option<String>| uid.is_some_and(|uid| owners.contains(&uid));
        let is_there = match unit {
            Unit::Vpc(_) => self.vpcs.iter().any(|vpc| owns(vpc.uid())),
            Unit::Subnet(_) => self.subnets.iter().any(|subnet| owns(subnet.uid())),
            Unit::Service { name, .. } => owns(self.services.get(name).and_then(ResourceExt::uid)),
            Unit::Node(_) | Unit::Chassis(_) => self.nodes.iter().any(|node| owns(node.uid())),
            Unit::Attachment(_) => self.pods.values().any(|pod| owns(pod.uid())),
            Unit::Peering(pair) => {
                let native = self.vpcs.clone();
                return crate::live::Vpcs { native, ..Default::default() }.peering_absence(pair);
            }
        };
        if is_there { Absence::Refuted } else { Absence::Confirmed }
    }

    /// The reasons of the Events so far.
    fn reasons(&self) -> Vec<&'static str> {
        self.reported.iter().map(|(reason, _)| *reason).collect()
    }

    /// What live reads find.
    fn found(&self, reads: &[Read]) -> Confirmation {
        let mut found = World::default();
        for read in reads {
            match read {
                Read::Pod { name, .. } => self.pods.get(name).map(|pod| drop(found.apply(pod))),
                Read::StatefulSet { name, .. } => self.sets.get(name).map(|set| drop(found.apply(set))),
                Read::Vpc { name, .. } => {
                    let mut vpcs = self.vpcs.iter();
                    vpcs.find(|vpc| vpc.name_any() == *name).map(|vpc| drop(found.apply(vpc)))
                }
                Read::Subnet { name } | Read::SubnetOf { name, .. } => {
                    let mut subnets = self.subnets.iter();
                    subnets.find(|subnet| subnet.name_any() == *name).map(|subnet| drop(found.apply(subnet)))
                }
                Read::Vip { name } => self.vips.get(name).map(|vip| drop(found.apply(vip))),
                Read::NetworkAttachment { name, .. } => {
                    self.network_attachments.get(name).map(|object| drop(found.apply(object)))
                }
                Read::IpPool { name } => self.pools.get(name).map(|pool| drop(found.apply(pool))),
                Read::Lock { name } => self.locks.get(name).map(|lock| drop(found.apply(lock))),
                Read::VirtualMachine { name, .. } => {
                    self.machines.get(name).map(|machine| drop(found.apply(machine)))
                }
                Read::VirtualMachineInstance { name, .. } => {
                    self.instances.get(name).map(|instance| drop(found.apply(instance)))
                }
                Read::Service { name, .. } => {
                    self.services.get(name).map(|service| drop(found.apply(service)))
                }
                Read::EndpointSlice { name, .. } => {
                    self.slices.get(name).map(|slice| drop(found.apply(slice)))
                }
                Read::Node { name } => {
                    let mut nodes = self.nodes.iter();
                    nodes.find(|node| node.name_any() == *name).map(|node| drop(found.apply(node)))
                }
                Read::Nad { name, .. } => {
                    let mut nads = self.nads.iter();
                    nads.find(|nad| nad.name_any() == *name).map(|nad| drop(found.apply(nad)))
                }
            };
        }
        Confirmation::Found(Box::new(found))
    }

    fn move_lock(&mut self, moved: &Move) {
        self.version += 1;
        let lock = self.locks.get_mut(&moved.lock).unwrap();
        assert_eq!(lock.resource_version().unwrap(), moved.resource_version.to_string());
        lock.metadata.resource_version = Some(self.version.to_string());
        lock.metadata.generation = lock.metadata.generation.map(|generation| generation + 1);
        lock.spec.user = Some(moved.user.clone());
        lock.spec.node = Some(moved.node.clone());
        lock.spec.interfaces.clone_from(&moved.interfaces);
        let lock = lock.clone();
        self.engine.feed(&Change::Applied(lock));
    }

    /// The units that have rows.
    fn units(&self) -> BTreeSet<String> {
        let rows = self.cache.tables().iter().flat_map(ovsdb::Table::iter);
        rows.filter_map(|row| tag::unit_of(row)).map(ToString::to_string).collect()
    }
}

/// Writes an update to the stored object, and lets the watch show it.
fn store<'a, K>(engine: &mut Engine, mut stored: impl Iterator<Item = &'a mut K>, update: &StatusUpdate)
where
    K: HasConditions + Observed + serde::Serialize + serde::de::DeserializeOwned + Clone + 'a,
{
    let Some(object) = stored.find(|one| one.meta().uid.as_deref() == Some(update.uid.as_str())) else {
        return;
    };
    let now = serde_json::from_value("2026-01-01T00:00:00Z".into()).unwrap();
    let mut changed = serde_json::to_value(&*object).unwrap();
    if !changed["status"].is_object() {
        changed["status"] = serde_json::json!({});
    }
    if let Some(conditions) = object.updated(&update.conditions, &now) {
        changed["status"]["conditions"] = conditions;
    }
    for (field, value) in update.fields.clone().into_json() {
        let status = changed["status"].as_object_mut().unwrap();
        if value.is_null() { drop(status.remove(&field)) } else { drop(status.insert(field, value)) }
    }
    *object = serde_json::from_value(changed).unwrap();
    engine.feed(&Change::Applied(object.clone()));
}

/// True for a lock that is not a gateway's.
fn is_guest(lock: &IPLock) -> bool {
    lock.spec.holder.kind != HolderKind::Subnet
}

fn named(name: &str, uid: &str) -> kube::core::ObjectMeta {
    kube::core::ObjectMeta { name: Some(name.into()), uid: Some(uid.into()), ..Default::default() }
}

fn subnets() -> Vec<Subnet> {
    [("web", "10.0.0.0/24"), ("db", "10.0.1.0/24")]
        .map(|(name, cidr)| {
            let mut subnet = mk_subnet(name, cidr, "blue");
            subnet.spec.provider = Some(format!("{name}.default.ovn"));
            subnet
        })
        .into()
}

#[test]
fn a_pod_gets_a_lock_per_address_and_then_its_ports() {
    let mut scene = Scene::new();
    scene.pod("app", "web,db");
    let proposals = scene.proposals();
    assert_eq!(proposals.len(), 2, "{proposals:?}");
    assert!(scene.proposals().is_empty(), "what is under way is not asked for again");
    for lock in proposals {
        scene.store(lock);
    }
    scene.settle();
    assert_eq!(scene.creations, 2);
    let units: Vec<_> = scene.units().into_iter().collect();
    let expected = [
        "attachment/pod/default/app/net1/uid-app",
        "attachment/pod/default/app/net2/uid-app",
        "subnet/db",
        "subnet/web",
        "vpc/blue",
    ];
    assert_eq!(units, expected);
}

#[test]
fn nothing_happens_before_everything_was_listed() {
    let mut scene = Scene::unlisted(MemDb::new(NB_SCHEMA).unwrap());
    scene.list(vec![mk_vpc("blue")]);
    scene.list(subnets());
    assert!(scene.engine.actions().is_empty() && scene.engine.plan(&scene.cache, 1000).is_empty());
}

#[test]
fn deletion_in_any_order_leaves_nothing() {
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut scene = Scene::new();
        scene.pod("app", "web,db");
        scene.settle();
        for step in order {
            match step {
                0 => scene.delete_pod("app"),
                1 => scene.delete_subnets(),
                _ => scene.engine.feed(&Change::deleted(&mk_vpc("blue"))),
            }
            scene.settle();
        }
        assert_eq!(scene.live_reads, [""; 0], "every deletion was reported by an event");
        assert!(scene.nb.is_empty(), "{order:?}: {:?}", scene.units());
        assert!(scene.locks.is_empty(), "{order:?}");
    }
}

#[test]
fn two_engines_propose_the_same_lock() {
    let [mut one, mut other] = [Scene::new(), Scene::new()];
    one.pod("app", "web");
    other.pod("app", "web");
    let (mine, theirs) = (one.proposals(), other.proposals());
    assert_eq!(mine, theirs);
    // The other was first: ours exists already, and the watch shows that it is our pod's.
    other.store(theirs[0].clone());
    let name = mine[0].name_any();
    one.engine.created(&name, &Creation::Exists);
    one.engine.feed(&Change::Applied(other.locks[&name].clone()));
    assert!(one.proposals().is_empty());
}

#[test]
fn an_address_that_another_took_is_decided_again() {
    let mut scene = Scene::new();
    scene.pod("app", "web");
    let first = scene.proposals().remove(0);
    let mut theirs = mk_stored(first.clone(), 9);
    theirs.spec.holder.name = "rival".into();
    theirs.spec.holder.uid = "uid-rival".into();
    scene.engine.created(&first.name_any(), &Creation::Exists);
    assert!(scene.proposals().is_empty(), "nothing is known before the watch shows whose it is");
    scene.engine.feed(&Change::Applied(theirs));
    let second = scene.proposals();
    assert_eq!(second.len(), 1);
    assert_ne!(second[0].name_any(), first.name_any());
}

#[test]
fn a_controller_that_died_between_lock_and_plan_is_replaced() {
    let mut scene = Scene::new();
    scene.pod("app", "web");
    scene.proposals().into_iter().for_each(|lock| scene.store(lock));
    // It dies here; the next one finds the lock.
    let mut next = Scene::unlisted(scene.nb);
    (next.pods, next.locks) = (scene.pods, scene.locks);
    next.list_all(vec![mk_vpc("blue")], subnets(), vec![mk_nad("default", "web")]);
    next.settle();
    assert_eq!(next.creations, 0, "the lock that is there is enough");
    assert!(next.units().contains("attachment/pod/default/app/net1/uid-app"));
}

#[test]
fn rows_of_owners_that_went_unseen_go_after_a_live_read() {
    let mut scene = Scene::new();
    scene.settle();
    let mut next = Scene::unlisted(scene.nb);
    next.list_all(vec![], vec![], vec![]);
    assert!(next.engine.plan(&next.cache, 1000).is_empty(), "another writer may be ahead of our watch");
    next.settle();
    assert!(next.nb.is_empty(), "{:?}", next.units());
}

#[test]
fn a_list_that_lacks_objects_changes_nothing_while_a_live_read_finds_them() {
    let mut scene = Scene::new();
    scene.pod("app", "web,db");
    scene.settle();
    let before = scene.nb.content().clone();
    // A server that is starting may list nothing of a kind that it does not know yet.
    scene.list::<Vpc>(vec![]);
    scene.settle();
    scene.list::<Subnet>(vec![]);
    scene.settle();
    assert_eq!(scene.live_reads.len(), 3, "{:?}", scene.live_reads);
    assert_eq!(*scene.nb.content(), before);
    assert_eq!(scene.engine.world().missing().count(), 0, "all was found, and is in effect");
    // The watch goes on from those lists and shows nothing. New pods are served all the same.
    scene.pod("new", "web");
    scene.settle();
    assert_eq!(scene.guest_locks().filter(|lock| lock.spec.holder.name == "new").count(), 1);
}

#[test]
fn what_was_read_of_a_former_subnet_says_nothing_about_the_present_one() {
    let mut scene = Scene::new();
    scene.pod("app", "web");
    scene.settle();
    // The subnet was deleted and made again while the watch was cut; a list lacks it, and a live read finds none.
    let former = scene.subnets.remove(0);
    scene.list::<Subnet>(scene.subnets.clone());
    let read = scene.engine.actions().into_iter().find_map(|action| match action {
        Action::ReadMissing(read) => Some(read),
        _ => None,
    });
    let read = read.unwrap();
    let absent = scene.found(std::slice::from_ref(&read));
    let mut again = former;
    again.metadata.uid = Some("subnet-web-again".into());
    scene.subnets.insert(0, again.clone());
    scene.engine.feed(&Change::Applied(again));
    // Another short list, while the first answer is still on its way.
    scene.list::<Subnet>(scene.subnets[1..].to_vec());
    scene.engine.missing_read(&read, &absent);
    for _ in 0..4 {
        scene.settle();
        scene.engine.take_retries().into_iter().for_each(|retry| scene.engine.retry(retry));
    }
    scene.settle();
    assert!(scene.units().contains("subnet/web") && scene.units().len() == 4, "{:?}", scene.units());
}

#[test]
fn reads_that_fail_are_made_again_one_by_one_after_their_own_pause() {
    let mut scene = Scene::new();
    for index in 0..20 {
        scene.pod(&format!("pod-{index}"), "web");
    }
    scene.settle();
    scene.list::<Pod>(vec![]);
    let reads = |scene: &mut Scene| {
        let actions = scene.engine.actions().into_iter();
        actions
            .filter_map(|action| if let Action::ReadMissing(read) = action { Some(read) } else { None })
            .collect::<Vec<_>>()
    };
    let all = reads(&mut scene);
    assert_eq!(all.len(), 20);
    all.iter().for_each(|read| scene.engine.missing_read(read, &Confirmation::Failed));
    let mut retries = scene.engine.take_retries().into_iter();
    scene.engine.retry(retries.next().unwrap());
    assert_eq!(reads(&mut scene).len(), 1, "only the one whose pause is over");
    scene.list::<Pod>(vec![]);
    assert_eq!(reads(&mut scene).len(), 0, "another list does not end the pauses of the others");
}

#[test]
fn pods_nodes_and_definitions_that_a_list_lacks_change_nothing_while_a_live_read_finds_them() {
    let mut scene = Scene::new();
    scene.pod("app", "web");
    scene.settle();
    let (rows, locks) = (scene.nb.content().clone(), scene.locks.clone());
    scene.list::<Pod>(vec![]);
    scene.list::<Node>(vec![]);
    scene.list::<NetworkAttachmentDefinition>(vec![]);
    // Before an answer comes, a pod that is new is served as if nothing had happened.
    scene.pod("new", "web");
    assert_eq!(scene.proposals().len(), 1);
    scene.delete_pod("new");
    scene.settle();
    assert_eq!(scene.live_reads.len(), 4, "{:?}", scene.live_reads);
    assert_eq!((scene.nb.content(), &scene.locks), (&rows, &locks));
    assert!(scene.engine.world().pod("default", "app").is_some());
    assert_eq!(scene.engine.world().missing().count(), 0, "all was found");
    assert_eq!(scene.reasons(), [""; 0]);
}

#[test]
fn an_answer_that_is_older_than_the_list_says_nothing() {
    let mut scene = Scene::new();
    scene.pod("app", "web");
    scene.settle();
    let read_missing = |scene: &mut Scene| {
        let actions = scene.engine.actions().into_iter();
        let reads = actions.filter_map(|action| match action {
            Action::ReadMissing(read) => Some(read),
            _ => None,
        });
        reads.collect::<Vec<_>>()
    };
    scene.list::<Pod>(vec![]);
    let reads = read_missing(&mut scene);
    let found = scene.found(&reads);
    // The pod was read. Then it is deleted, and a list without it comes before the answer: no watch will report the deletion.
    scene.pods.clear();
    scene.list::<Pod>(vec![]);
    assert_eq!(read_missing(&mut scene), [], "one read at a time");
    scene.engine.missing_read(&reads[0], &found);
    scene.settle();
    assert_eq!((scene.guest_locks().count(), scene.engine.world().missing().count()), (0, 0));
}

#[test]
fn a_pod_that_a_list_lacks_gives_its_address_back_once_a_live_read_confirms_it() {
    let mut scene = Scene::new();
    scene.pod("app", "web");
    scene.settle();
    scene.pods.clear();
    scene.list::<Pod>(vec![]);
    // The API server does not answer: nothing changes, and it is asked again after a while.
    let read = scene.engine.actions().into_iter().find_map(|action| match action {
        Action::ReadMissing(read) => Some(read),
        _ => None,
    });
    let read = read.unwrap();
    scene.engine.missing_read(&read, &Confirmation::Failed);
    scene.settle();
    assert_eq!(scene.guest_locks().count(), 1);
    let retries = scene.engine.take_retries();
    assert_eq!(retries, [Retry::Missing(read)].into());
    retries.into_iter().for_each(|retry| scene.engine.retry(retry));
    scene.settle();
    assert_eq!(scene.guest_locks().count(), 0);
    assert!(scene.units().iter().all(|unit| !unit.starts_with("attachment")), "{:?}", scene.units());
}

#[test]
fn what_a_list_lacks_goes_once_a_live_read_confirms_it() {
    let mut scene = Scene::new();
    scene.settle();
    (scene.vpcs, scene.subnets) = (vec![], vec![]);
    scene.list::<Subnet>(vec![]);
    scene.list::<Vpc>(vec![]);
    scene.settle();
    assert!(scene.nb.is_empty(), "{:?}", scene.units());
    assert_eq!(scene.live_reads.len(), 3, "{:?}", scene.live_reads);
}

#[test]
fn the_deletion_of_a_former_object_removes_nothing_of_the_present_one() {
    let again = |mut subnet: Subnet| {
        subnet.metadata.uid = Some(format!("{}-again", subnet.uid().unwrap()));
        subnet
    };
    let present: Vec<Subnet> = subnets().into_iter().map(again).collect();
    let mut vpc = mk_vpc("blue");
    vpc.metadata.uid = Some("vpc-again".into());
    let mut scene = Scene::unlisted(MemDb::new(NB_SCHEMA).unwrap());
    scene.list_all(vec![vpc.clone()], present.clone(), vec![]);
    scene.settle();
    let before = scene.nb.content().clone();
    // Another controller takes over, whose watches are behind: it sees the former objects, then that they are deleted.
    let mut next = Scene::unlisted(scene.nb);
    next.locks = scene.locks;
    next.list_all(vec![mk_vpc("blue")], subnets(), vec![]);
    (next.vpcs, next.subnets) = (vec![vpc.clone()], present.clone());
    next.engine.feed(&Change::deleted(&mk_vpc("blue")));
    subnets().into_iter().for_each(|subnet| next.engine.feed(&Change::deleted(&subnet)));
    next.settle();
    assert_eq!(*next.nb.content(), before);
    next.engine.feed(&Change::Applied(vpc));
    present.into_iter().for_each(|subnet| next.engine.feed(&Change::Applied(subnet)));
    next.settle();
    assert_eq!(*next.nb.content(), before);
}

/// Two VPCs of which the first asks for the second as its peer; the second asks back if `mutual`.
fn peers(mutual: bool) -> Vec<Vpc> {
    let peering = |remote: &str, address: &str| {
        serde_json::from_value(serde_json::json!([{"remoteVpc": remote, "localConnectIP": address}])).unwrap()
    };
    let [mut blue, mut green] = [mk_vpc("blue"), mk_vpc("green")];
    blue.spec.vpc_peerings = peering("green", "169.254.0.1/30");
    if mutual {
        green.spec.vpc_peerings = peering("blue", "169.254.0.2/30");
    }
    vec![blue, green]
}

#[test]
fn a_peering_that_was_given_up_while_no_controller_ran_is_removed() {
    let mut scene = Scene::unlisted(MemDb::new(NB_SCHEMA).unwrap());
    scene.list_all(peers(true), vec![], vec![]);
    scene.settle();
    assert!(scene.units().contains("peering/blue/green"), "{:?}", scene.units());
    let mut next = Scene::unlisted(scene.nb);
    next.list_all(peers(false), vec![], vec![]);
    next.settle();
    let units: Vec<_> = next.units().into_iter().collect();
    assert_eq!(units, ["vpc/blue", "vpc/green"]);
    assert_eq!(next.live_reads, ["peering/blue/green"]);
}

#[test]
fn a_peering_that_another_controller_made_stays_while_both_vpcs_ask_for_it() {
    let mut scene = Scene::unlisted(MemDb::new(NB_SCHEMA).unwrap());
    scene.list_all(peers(true), vec![], vec![]);
    scene.settle();
    // Our watch is behind: it has not seen yet that the second VPC asks, too.
    let mut next = Scene::unlisted(scene.nb);
    next.list_all(peers(false), vec![], vec![]);
    next.vpcs = peers(true);
    next.settle();
    assert!(next.units().contains("peering/blue/green"), "{:?}", next.units());
}

#[test]
fn addresses_are_given_back_while_other_units_keep_changing() {
    let mut scene = Scene::new();
    scene.pod("old", "web");
    scene.settle();
    scene.delete_pod("old");
    for round in 0..6 {
        // There is always something else to write.
        scene.pod(&format!("new-{round}"), "db");
        for _ in 0..2 {
            scene.engine.actions().into_iter().for_each(|action| scene.perform(action));
        }
        let batches = scene.engine.plan(&scene.cache, 1000);
        assert!(!batches.is_empty());
        for batch in batches {
            scene.nb.transact(&batch.transaction()).unwrap();
            scene.engine.committed(&batch);
        }
        scene.nb.refresh(&mut scene.cache);
    }
    scene.engine.actions().into_iter().for_each(|action| scene.perform(action));
    let holders: Vec<_> = scene.locks.values().map(|lock| lock.spec.holder.name.clone()).collect();
    assert!(!holders.contains(&"old".to_owned()), "{holders:?}");
}

#[test]
fn a_wrong_object_gets_one_event_per_mistake_and_one_when_it_is_right() {
    let mut scene = Scene::new();
    let claim = |provider: &str| {
        let mut nad = mk_nad("default", "claim");
        nad.spec.config = Some(format!(r#"{{"type": "kube-ovn", "provider": "{provider}"}}"#));
        Change::Applied(nad)
    };
    for provider in ["web.sea.ovn", "web.sea.ovn", "db.sea.ovn", "claim.default.ovn", "web.sea.ovn"] {
        scene.engine.feed(&claim(provider));
        scene.settle();
    }
    let expected = ["InvalidDefinition", "InvalidDefinition", "Resolved", "InvalidDefinition"];
    assert_eq!(scene.reasons(), expected, "the second was nothing new, the fourth was right");
    let mut vpc = mk_vpc("blue");
    vpc.spec.policy_routes = serde_json::from_value(serde_json::json!([
        {"priority": 1, "action": "drop", "match": "ip4.src = 10.0.0.1"}
    ]))
    .unwrap();
    scene.engine.feed(&Change::Applied(vpc));
    scene.settle();
    // Its subnets have something to say about it too.
    assert!(scene.reasons().contains(&"InvalidSpec"), "{:?}", scene.reported);
}

#[test]
fn a_pod_that_waits_gets_an_event_for_each_thing_it_waits_for_and_one_at_the_end() {
    let mut scene = Scene::new();
    scene.pod("app", "later");
    scene.settle();
    scene.settle();
    assert_eq!(scene.reasons(), ["Waiting"]);
    // The definition comes, and what is missing now is its Subnet: the last Event must say so.
    scene.engine.feed(&Change::Applied(mk_nad("default", "later")));
    scene.settle();
    let last = scene.reported.last().unwrap().clone();
    assert_eq!((scene.reported.len(), last.0), (2, "Waiting"), "{last:?}");
    assert!(last.1.contains("Subnet"), "{last:?}");
    let mut subnet = mk_subnet("later", "10.0.2.0/24", "blue");
    subnet.spec.provider = Some("later.default.ovn".into());
    scene.engine.feed(&Change::Applied(subnet));
    scene.settle();
    assert_eq!(scene.guest_locks().count(), 1);
    assert_eq!(scene.reasons().last().unwrap(), &"Resolved");
}

mod blocked;
mod conditions;
mod finalizers;
mod gate;
mod ip_pools;
mod locks;
mod machines;
mod network_attachments;
mod node_mtus;
mod node_prefixes;
mod pages;
mod readiness;
mod results;
mod services;
mod standby;
mod stepping_down;
mod tenants;
mod unreadable;
mod vips;
