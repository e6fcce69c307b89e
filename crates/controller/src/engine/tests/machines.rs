//! Virtual machines: an address stays with its machine over restarts and pods, and goes with it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

use k8s_openapi::api::core::v1::PodStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::*;

fn owner(kind: &str, name: &str) -> OwnerReference {
    OwnerReference {
        kind: kind.into(),
        name: name.into(),
        controller: Some(true),
        ..OwnerReference::default()
    }
}

impl Scene {
    fn machine(&mut self, uid: &str) {
        let mut metadata = named("vm", uid);
        metadata.namespace = Some("default".into());
        let machine = kubevirt::VirtualMachine { metadata };
        self.machines.insert("vm".into(), machine.clone());
        self.engine.feed(&Change::Applied(machine));
    }

    fn delete_machine(&mut self) {
        let machine = self.machines.remove("vm").unwrap();
        self.engine.feed(&Change::deleted(&machine));
    }

    /// The instance, made by the machine or alone.
    fn instance(&mut self, uid: &str, of_machine: bool) {
        let mut metadata = named("vm", uid);
        metadata.namespace = Some("default".into());
        metadata.owner_references = of_machine.then(|| vec![owner("VirtualMachine", "vm")]);
        let instance = kubevirt::VirtualMachineInstance { metadata };
        self.instances.insert("vm".into(), instance.clone());
        self.engine.feed(&Change::Applied(instance));
    }

    fn delete_instance(&mut self) {
        let instance = self.instances.remove("vm").unwrap();
        self.engine.feed(&Change::deleted(&instance));
    }

    /// A pod that runs the machine.
    fn launcher(&mut self, name: &str, created: i64) {
        let mut metadata = named(name, &format!("uid-{name}"));
        metadata.namespace = Some("default".into());
        metadata.annotations = Some([(NETWORKS.to_owned(), "web".to_owned())].into());
        metadata.owner_references = Some(vec![owner("VirtualMachineInstance", "vm")]);
        let time = k8s_openapi::jiff::Timestamp::from_second(created).unwrap();
        metadata.creation_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(time));
        let spec = PodSpec { node_name: Some("node-1".into()), ..PodSpec::default() };
        let pod = Pod { metadata, spec: Some(spec), status: None };
        self.pods.insert(name.into(), pod.clone());
        self.engine.feed(&Change::Applied(pod));
    }

    fn finish(&mut self, name: &str) {
        let pod = self.pods.get_mut(name).unwrap();
        pod.status = Some(PodStatus { phase: Some("Succeeded".into()), ..PodStatus::default() });
        let pod = pod.clone();
        self.engine.feed(&Change::Applied(pod));
    }

    /// The machine's address, and the pod that uses it.
    fn machine_address(&self) -> Option<(String, String)> {
        let mut locks = self.guest_locks();
        let lock = locks.next()?;
        assert!(locks.next().is_none(), "one address for one machine");
        assert_eq!(
            (lock.spec.holder.kind, lock.spec.holder.name.as_str()),
            (HolderKind::VirtualMachine, "vm")
        );
        Some((lock.spec.address.clone(), lock.spec.user.as_ref().unwrap().pod.clone()))
    }

    fn come_to_rest(&mut self) {
        for _ in 0..4 {
            self.settle();
            for retry in self.engine.take_retries() {
                self.engine.retry(retry);
            }
        }
        self.settle();
    }
}

#[test]
fn the_address_of_a_machine_outlives_its_pods_and_goes_with_the_machine() {
    let mut scene = Scene::new();
    scene.launcher("first", 1);
    scene.come_to_rest();
    assert_eq!(scene.machine_address(), None);
    assert_eq!(scene.reasons(), ["Waiting"], "its machine is not known yet");
    scene.machine("uid-vm");
    scene.instance("uid-instance", true);
    scene.come_to_rest();
    let (address, user) = scene.machine_address().unwrap();
    assert_eq!(user, "first");
    // Stopped: no pod, no instance, and the address stays.
    scene.delete_pod("first");
    scene.delete_instance();
    scene.come_to_rest();
    assert_eq!(scene.machine_address(), Some((address.clone(), "first".into())));
    // Started again.
    scene.instance("uid-instance-2", true);
    scene.launcher("second", 2);
    scene.come_to_rest();
    assert_eq!(scene.machine_address(), Some((address.clone(), "second".into())));
    // Deleted while its pod still terminates.
    scene.delete_machine();
    scene.delete_instance();
    scene.come_to_rest();
    assert_eq!(scene.machine_address(), Some((address, "second".into())), "the pod still runs");
    scene.delete_pod("second");
    scene.come_to_rest();
    assert_eq!(scene.machine_address(), None);
    assert!(!scene.units().iter().any(|unit| unit.starts_with("attachment/")), "{:?}", scene.units());
}

#[test]
fn a_second_pod_of_a_running_machine_waits_and_the_first_is_left_alone() {
    let mut scene = Scene::new();
    scene.machine("uid-vm");
    scene.launcher("first", 1);
    scene.come_to_rest();
    let (before, rows) = (scene.machine_address(), scene.nb.content().clone());
    scene.launcher("second", 2);
    scene.come_to_rest();
    assert_eq!((scene.machine_address(), scene.nb.content()), (before.clone(), &rows));
    let (reason, message) = scene.reported.last().unwrap();
    assert_eq!(*reason, "Waiting");
    assert!(message.contains("pod first"), "{message}");
    scene.finish("first");
    scene.come_to_rest();
    let (address, user) = scene.machine_address().unwrap();
    assert_eq!((address, user.as_str()), (before.unwrap().0, "second"));
}

#[test]
fn an_instance_without_a_machine_holds_its_address_itself() {
    let mut scene = Scene::new();
    scene.instance("uid-instance", false);
    scene.launcher("first", 1);
    scene.come_to_rest();
    let address = scene.machine_address();
    assert!(address.is_some());
    scene.delete_pod("first");
    scene.come_to_rest();
    assert_eq!(scene.machine_address(), address);
    scene.delete_instance();
    scene.come_to_rest();
    assert_eq!(scene.machine_address(), None);
}

#[test]
fn an_instance_of_a_machine_that_goes_takes_nothing_with_it() {
    let mut scene = Scene::new();
    scene.machine("uid-vm");
    scene.instance("uid-instance", true);
    scene.launcher("first", 1);
    scene.come_to_rest();
    let address = scene.machine_address();
    scene.delete_pod("first");
    // A list that lacks the instance, and one that lacks the machine, which a live read finds.
    scene.instances.clear();
    scene.list::<kubevirt::VirtualMachineInstance>(vec![]);
    scene.list::<kubevirt::VirtualMachine>(vec![]);
    scene.come_to_rest();
    assert_eq!(scene.machine_address(), address);
    assert!(scene.engine.world().machine("default", "vm").is_some());
}

#[test]
fn what_becomes_of_an_instance_says_nothing_about_a_machine_that_a_list_lacks() {
    let mut scene = Scene::new();
    scene.machine("uid-vm");
    scene.instance("uid-instance", true);
    scene.launcher("first", 1);
    scene.come_to_rest();
    assert!(scene.machine_address().is_some());
    // The machine was deleted while its watch was cut; its instance goes while the live read is under way.
    scene.delete_pod("first");
    scene.machines.clear();
    scene.list::<kubevirt::VirtualMachine>(vec![]);
    scene.delete_instance();
    scene.come_to_rest();
    assert_eq!(scene.machine_address(), None);
    assert!(scene.engine.world().machine("default", "vm").is_none());
}

#[test]
fn whether_rows_of_a_machine_may_go_is_asked_with_the_pods_that_they_are_for() {
    let mut scene = Scene::new();
    scene.machine("uid-vm");
    scene.launcher("launcher", 1);
    scene.settle();
    // A controller that starts, and whose list of locks lacks the machine's.
    let mut next = Scene::unlisted(scene.nb);
    next.list_all(scene.vpcs, scene.subnets, scene.nads);
    let batches = next.engine.plan(&next.cache, 1000);
    assert!(batches.is_empty());
    let asked = next.engine.actions().into_iter().find_map(|action| match action {
        Action::ConfirmAbsence { unit: Unit::Attachment(_), owners, pods } => Some((owners, pods)),
        _ => None,
    });
    assert_eq!(asked, Some((["uid-vm".to_owned()].into(), ["uid-launcher".to_owned()].into())));
}

#[test]
fn of_two_pods_that_were_made_in_one_second_the_one_that_has_the_addresses_keeps_them() {
    let mut scene = Scene::new();
    scene.machine("uid-vm");
    scene.launcher("second", 1);
    scene.come_to_rest();
    let (address, user) = scene.machine_address().unwrap();
    assert_eq!(user, "second");
    // By name and UID it would be before the other.
    scene.launcher("first", 1);
    scene.come_to_rest();
    assert_eq!(scene.machine_address(), Some((address.clone(), "second".into())));
    assert_eq!(scene.reasons(), ["Waiting"]);
    scene.finish("second");
    scene.come_to_rest();
    assert_eq!(scene.machine_address(), Some((address, "first".into())));
}
