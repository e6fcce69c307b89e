//! What VPCs and subnets say about themselves, by what OVN's databases have.

use portolan_testbed::{ApiKind, TestLab};

use crate::controller::Stage;

const NATIVE: &str = "
apiVersion: portolan.dev/v1alpha1
kind: Vpc
metadata: {name: red}
spec: {}
---
apiVersion: portolan.dev/v1alpha1
kind: Subnet
metadata: {name: cells}
spec: {vpc: red, cidrBlock: 'fd00:1::/64'}
";

/// A process that is stopped by SIGSTOP until this is dropped.
struct Paused<'a> {
    stage: &'a Stage<'a>,
    pid: u32,
}

impl<'a> Paused<'a> {
    fn new(stage: &'a Stage<'a>, pid: Option<u32>) -> Self {
        let paused = Paused { stage, pid: pid.unwrap() };
        paused.signal("STOP");
        paused
    }

    fn signal(&self, signal: &str) {
        let command = format!("kill -{signal} {}", self.pid);
        self.stage.lab.command("sh").args(["-c", &command]).read().unwrap();
    }
}

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        self.signal("CONT");
    }
}

impl Stage<'_> {
    /// Waits until `Ready` of an object gives this reason.
    fn ready_says(&self, object: &str, reason: &str) {
        let path = r#"jsonpath={.status.conditions[?(@.type=="Ready")].reason}"#;
        self.kubectl(&["wait", &format!("--for={path}={reason}"), "--timeout=60s", object]);
    }

    /// Waits until objects are ready, as a user does.
    fn ready(&self, objects: &[&str]) {
        self.kubectl(&[&["wait", "--for=condition=Ready", "--timeout=60s"], objects].concat());
    }

    fn status(&self, object: &str, field: &str) -> String {
        self.kubectl(&["get", object, &format!("-o=jsonpath={{.status.{field}}}")])
    }

    fn status_is(&self, object: &str, field: &str, value: &str) {
        self.kubectl(&[
            "wait",
            &format!("--for=jsonpath={{.status.{field}}}={value}"),
            "--timeout=60s",
            object,
        ]);
    }

    /// The version of an object: it changes with every write.
    fn version(&self, object: &str) -> String {
        self.kubectl(&["get", object, "-o=jsonpath={.metadata.resourceVersion}"])
    }
}

const VPC: &str = "vpcs.kubeovn.io/blue";
const WEB: &str = "subnets.kubeovn.io/web";
const DB: &str = "subnets.kubeovn.io/db";
const RED: &str = "vpcs.portolan.dev/red";
const CELLS: &str = "subnets.portolan.dev/cells";

fn objects_tell_what_ovn_has(lab: &TestLab, api: ApiKind) {
    let stage = Stage::with_objects(lab, api);
    let central = stage.testbed.central();
    // Rows are committed, and nobody turns them into something.
    let northd = Paused::new(&stage, central.northd().pid());
    let controller = stage.start("only", &["--leader-election=false"]);
    for object in [VPC, WEB, DB] {
        stage.ready_says(object, "WaitingForNorthd");
    }
    let unit = |cache: &ovsdb::Cache| portolan_testbed::Northbound::units_in(cache).contains("subnet/web");
    stage.northbound.wait_until(unit);
    assert_eq!(stage.status(VPC, "standby"), "false");
    drop(northd);
    stage.ready(&[VPC, WEB, DB]);
    let metrics = stage.get(&controller, "/metrics");
    for database in ["northbound", "southbound"] {
        let connected = format!("portolan_controller_{database}_connected 1");
        assert!(metrics.lines().any(|line| line == connected), "{metrics}");
    }
    assert_eq!(stage.status(VPC, "standby"), "true");
    assert_eq!(stage.status(VPC, "router"), "vpc:blue");
    stage.status_is(VPC, "subnets[1]", "web");

    // The same in the other group.
    stage.testbed.apply(NATIVE).unwrap();
    stage.ready(&[RED, CELLS]);
    stage.status_is(RED, "subnets[0]", "cells");
    let available: f64 = stage.status(CELLS, "v6availableIPs").parse().unwrap();
    assert!(available > 1.8e19, "{available}");

    // Usage follows pods, and is a number.
    assert_eq!(stage.status(WEB, "v4availableIPs"), "253");
    for pod in ["a", "b", "c"] {
        stage.serve_pod(pod);
    }
    stage.status_is(WEB, "v4usingIPs", "3");
    assert_eq!(stage.status(WEB, "v4availableIPs"), "250");
    assert_eq!(stage.status(WEB, "v4usingIPrange").split([',', '-']).count().min(2), 2);
    stage.kubectl(&["delete", "pod", "a", "b", "--force", "--grace-period=0"]);
    stage.status_is(WEB, "v4usingIPs", "1");
    let table = stage.kubectl(&["get", WEB]);
    let [head, row] = table.lines().collect::<Vec<_>>().try_into().unwrap();
    assert!(head.contains("V4USED") && head.contains("V4AVAILABLE") && head.contains("READY"), "{table}");
    assert!(row.contains("252") && row.contains("True"), "{table}");
    let table = stage.kubectl(&["get", RED, "-o=wide"]);
    assert!(table.contains("cells") && table.contains("True"), "{table}");

    // Killed and started again: everything is said already.
    let versions = || [VPC, DB, RED, CELLS].map(|object| stage.version(object));
    let before = versions();
    controller.process.kill().unwrap();
    controller.process.restart().unwrap();
    stage.serve_pod("d");
    stage.status_is(WEB, "v4usingIPs", "2");
    assert_eq!(versions(), before, "nothing was written without a reason");

    // Without the southbound database nobody knows.
    let southbound = &central.sb().servers()[0];
    southbound.kill().unwrap();
    stage.ready_says(WEB, "SouthboundUnreachable");
    assert!(stage.kubectl(&["get", CELLS]).contains("Unknown"));
    southbound.restart().unwrap();
    stage.ready(&[VPC, WEB, DB, RED, CELLS]);
    assert!(controller.process.is_alive());
}

#[test]
fn objects_tell_what_ovn_has_on_portolans_own_apiserver() {
    portolan_testbed::test(async |lab| objects_tell_what_ovn_has(&lab, ApiKind::Portolan));
}

#[test]
fn objects_tell_what_ovn_has_on_kube_apiserver() {
    portolan_testbed::test(async |lab| objects_tell_what_ovn_has(&lab, ApiKind::Kubernetes));
}
