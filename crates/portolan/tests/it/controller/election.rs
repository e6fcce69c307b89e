//! Controllers elect a leader; the others are ready to take over.

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::runtime::wait::await_condition;
use portolan_testbed::{ApiKind, TestLab};
use rustix::process::{Pid, Signal, kill_process};

use crate::controller::{Controller, NAMESPACE, Stage};

impl Stage<'_> {
    /// Waits until this controller has the Lease.
    fn led_by(&self, name: &str) {
        let api = Api::<Lease>::namespaced(self.testbed.client(), NAMESPACE);
        // Identities go on with something random.
        let prefix = format!("{name}_");
        let led = move |lease: Option<&Lease>| {
            let holder = lease.and_then(|lease| lease.spec.as_ref()?.holder_identity.as_deref());
            holder.is_some_and(|holder| holder.starts_with(&prefix))
        };
        self.testbed
            .wait(async move { await_condition(api, "portolan-controller", led).await.map(drop) })
            .unwrap();
    }

    fn metric(&self, controller: &Controller, line: &str) -> bool {
        self.get(controller, "/metrics").lines().any(|one| one == line)
    }
}

impl Controller {
    fn send(&self, signal: Signal) {
        let pid = self.process.pid().and_then(|pid| Pid::from_raw(pid.cast_signed())).unwrap();
        kill_process(pid, signal).unwrap();
    }
}

fn leaders_are_replaced(lab: &TestLab, api: ApiKind) {
    let stage = Stage::with_objects(lab, api);
    let first = stage.start("first", &[]);
    stage.serve_pod("a");
    stage.led_by("first");
    let second = stage.start("second", &[]);
    stage.serve_pod("b");
    assert!(stage.metric(&first, "portolan_controller_leader 1"));
    assert!(stage.metric(&first, "portolan_controller_northbound_writer 1"));
    // The port may be there before the controller has the answers that it counts.
    for count in ["lock_seconds_count 2", "northbound_commit_seconds_count 2"] {
        let counted = || stage.metric(&first, &format!("portolan_controller_{count}"));
        std::iter::repeat_with(counted).find(|counted| *counted);
    }
    assert!(stage.metric(&second, "portolan_controller_leader 0"));
    assert!(stage.metric(&second, "portolan_controller_northbound_writer 0"));
    // SIGKILL: the Lease ends by itself.
    first.process.kill().unwrap();
    stage.serve_pod("c");
    stage.led_by("second");
    // SIGTERM: it is given back.
    let third = stage.start("third", &[]);
    assert!(stage.get(&third, "/readyz").ends_with("\n200"), "{}", stage.get(&third, "/readyz"));
    second.process.stop().unwrap();
    assert!(second.process.log_tail().contains("gave the Lease back"), "{}", second.process.log_tail());
    stage.serve_pod("d");
    stage.led_by("third");
    // The standby never wrote a lock, and each pod has one.
    assert!(!stage.metric(&third, "portolan_controller_lock_creations_total{outcome=\"done\"} 2"));
    let locks = stage.kubectl(&["get", "iplocks", "-o=jsonpath={.items[*].spec.holder.name}"]);
    for pod in ["a", "b", "c", "d"] {
        assert_eq!(locks.split(' ').filter(|name| *name == pod).count(), 1, "{locks}");
    }
    // Somebody deletes the Lease.
    stage.kubectl(&["delete", "-n", NAMESPACE, "lease/portolan-controller"]);
    stage.led_by("third");
    stage.serve_pod("e");
    assert!(third.process.is_alive());
}

#[test]
fn a_leader_that_is_killed_or_stopped_is_replaced_on_portolans_own_apiserver() {
    portolan_testbed::test(async |lab| leaders_are_replaced(&lab, ApiKind::Portolan));
}

#[test]
fn a_leader_that_is_killed_or_stopped_is_replaced_on_kube_apiserver() {
    portolan_testbed::test(async |lab| leaders_are_replaced(&lab, ApiKind::Kubernetes));
}

fn acts_without_namespace(lab: &TestLab, api: ApiKind) {
    let stage = Stage::new(lab, api);
    stage.testbed.apply(crate::controller::OBJECTS).unwrap();
    let controller = stage.start("only", &[]);
    stage.serve_pod("a");
    let log = std::fs::read_to_string(controller.process.log()).unwrap();
    let said =
        log.lines().filter(|line| line.contains("acts without election. Create the namespace")).count();
    assert_eq!(said, 1, "{log}");
    assert!(log.contains("portolan-system/portolan-controller"), "{log}");
    stage.kubectl(&["create", "namespace", NAMESPACE]);
    stage.led_by("only");
}

#[test]
fn without_the_namespace_of_the_lease_a_controller_acts_and_says_so_on_portolans_own_apiserver() {
    portolan_testbed::test(async |lab| acts_without_namespace(&lab, ApiKind::Portolan));
}

#[test]
fn without_the_namespace_of_the_lease_a_controller_acts_and_says_so_on_kube_apiserver() {
    portolan_testbed::test(async |lab| acts_without_namespace(&lab, ApiKind::Kubernetes));
}

fn a_stopped_leader_is_replaced(lab: &TestLab, api: ApiKind) {
    let stage = Stage::with_objects(lab, api);
    let first = stage.start("first", &[]);
    stage.serve_pod("a");
    stage.led_by("first");
    let second = stage.start("second", &[]);
    assert!(stage.get(&second, "/readyz").ends_with("\n200"), "{}", stage.get(&second, "/readyz"));
    // It keeps its connections, and the OVSDB lock with them.
    first.send(Signal::STOP);
    stage.serve_pod("b");
    stage.led_by("second");
    let comments = stage.northbound.transactions().len();
    // Once it goes on, it finds that another one leads, and does nothing any more.
    first.send(Signal::CONT);
    let stands_by = || stage.metric(&first, "portolan_controller_leader 0");
    std::iter::repeat_with(stands_by).find(|stands_by| *stands_by);
    assert!(stage.metric(&first, "portolan_controller_northbound_writer 0"));
    assert!(stage.metric(&first, "portolan_controller_leader_transitions_total 2"));
    stage.serve_pod("c");
    assert!(stage.metric(&second, "portolan_controller_northbound_writer 1"));
    assert_eq!(stage.northbound.transactions().len(), comments + 1, "one transaction for one pod");
    let locks = stage.kubectl(&["get", "iplocks", "-o=jsonpath={.items[*].spec.holder.name}"]);
    for pod in ["a", "b", "c"] {
        assert_eq!(locks.split(' ').filter(|name| *name == pod).count(), 1, "{locks}");
    }
}

/// One that hangs is next in line for the OVSDB lock when its successor gives it up.
fn a_stopped_leader_does_not_get_the_lock_back(lab: &TestLab, api: ApiKind) {
    let stage = Stage::with_objects(lab, api);
    let first = stage.start("first", &[]);
    stage.serve_pod("a");
    stage.led_by("first");
    let second = stage.start("second", &[]);
    assert!(stage.get(&second, "/readyz").ends_with("\n200"), "{}", stage.get(&second, "/readyz"));
    first.send(Signal::STOP);
    stage.serve_pod("b");
    let third = stage.start("third", &[]);
    assert!(stage.get(&third, "/readyz").ends_with("\n200"), "{}", stage.get(&third, "/readyz"));
    second.process.stop().unwrap();
    stage.serve_pod("c");
    stage.led_by("third");
    first.send(Signal::CONT);
}

#[test]
fn a_leader_that_hangs_does_not_keep_the_next_but_one_from_writing() {
    portolan_testbed::test(async |lab| a_stopped_leader_does_not_get_the_lock_back(&lab, ApiKind::Portolan));
}

#[test]
fn a_leader_that_hangs_is_replaced_and_does_no_harm_when_it_goes_on() {
    portolan_testbed::test(async |lab| a_stopped_leader_is_replaced(&lab, ApiKind::Portolan));
}

#[test]
fn a_controller_without_the_northbound_database_leaves_the_lease_to_one_that_has_it() {
    portolan_testbed::test(async |lab| {
        let stage = Stage::with_objects(&lab, ApiKind::Portolan);
        let nowhere = lab.directory("nowhere").unwrap().join("nb.sock");
        let first = stage.start_with("first", &format!("unix:{}", nowhere.display()), &[]);
        // It is up, and has listed everything.
        let synced = || stage.metric(&first, "portolan_controller_synced 1");
        std::iter::repeat_with(synced).find(|synced| *synced);
        let second = stage.start("second", &[]);
        stage.serve_pod("a");
        stage.led_by("second");
        assert!(stage.metric(&first, "portolan_controller_leader 0"));
        assert!(stage.metric(&second, "portolan_controller_leader 1"));
    });
}
