//! The API server misbehaves, and comes back: pods that run are not touched, pods that come get their interfaces, and OVN has what a
//! controller that starts from nothing would write.
//!
//! All faults on one cluster, one after another, on either API server. `PORTOLAN_FAULT=late` tries those whose names contain that.

mod undisturbed;

use std::time::Duration;

use portolan_testbed::{ApiKind, Injected, Pod, Test, TestLab, Testbed};

use crate::api_faults::undisturbed::Undisturbed;

const OBJECTS: &str = include_str!("api_faults/objects.yaml");

/// What the controller and the agents watch.
const RESOURCES: &[&str] = &["/api/v1/pods", "/api/v1/nodes", "/apis/apps/v1/statefulsets"];
const CUSTOM_RESOURCES: &[&str] = &[
    "/apis/kubeovn.io/v1/vpcs",
    "/apis/kubeovn.io/v1/subnets",
    "/apis/portolan.dev/v1alpha1/iplocks",
    "/apis/k8s.cni.cncf.io/v1/network-attachment-definitions",
];
const GROUPS: &[&str] = &["kubeovn.io", "portolan.dev", "k8s.cni.cncf.io"];

/// What happens to the API server.
struct Fault {
    name: &'static str,
    /// Makes it happen, lets pods come meanwhile, and ends it.
    inflict: fn(&Testbed, meanwhile: &dyn Fn()),
}

const FAULTS: &[Fault] = &[
    Fault { name: "killed", inflict: killed },
    Fault {
        name: "watches-cut",
        inflict: |testbed, meanwhile| {
            for _ in 0..3 {
                testbed.faults().cut_watches();
            }
            meanwhile();
        },
    },
    Fault {
        name: "watches-expired",
        inflict: |testbed, meanwhile| {
            testbed.faults().expire_watches();
            meanwhile();
        },
    },
    Fault { name: "410", inflict: |testbed, meanwhile| refused(testbed, 410, meanwhile) },
    Fault { name: "429", inflict: |testbed, meanwhile| refused(testbed, 429, meanwhile) },
    Fault { name: "500", inflict: |testbed, meanwhile| refused(testbed, 500, meanwhile) },
    Fault { name: "503", inflict: |testbed, meanwhile| refused(testbed, 503, meanwhile) },
    Fault { name: "late-404", inflict: |testbed, meanwhile| late(testbed, 404, meanwhile) },
    Fault { name: "late-503", inflict: |testbed, meanwhile| late(testbed, 503, meanwhile) },
];

#[test]
fn running_pods_are_untouched_and_new_ones_served_whatever_portolans_own_apiserver_does() {
    run(ApiKind::Portolan);
}

#[test]
fn running_pods_are_untouched_and_new_ones_served_whatever_kube_apiserver_does() {
    run(ApiKind::Kubernetes);
}

/// A watch lasts for minutes without a word, so nobody but TCP can tell that nobody is at the other end any more.
#[test]
fn connections_that_are_dead_without_an_end_are_given_up_long_before_watches_end() {
    let a_watch = Duration::from_secs(290);
    Test::new().deadline(a_watch - Duration::from_secs(90)).run(async move |lab: TestLab| {
        let testbed = Testbed::builder().api(ApiKind::Kubernetes).start(&lab).unwrap();
        testbed.apply(OBJECTS).unwrap();
        testbed.pod("before").on("node1").nad("web").start().unwrap();
        let dead = lose_connections(&testbed);
        assert!(dead > 5, "the controller watches: {dead}");
        testbed.pod("after").on("node1").nad("web").start().unwrap();
    });
}

/// What comes and goes on the controller's connections is lost from now on; new ones are as good as ever.
fn lose_connections(testbed: &Testbed) -> usize {
    let controller = testbed.controller().unwrap();
    let (namespace, pid) = (controller.namespace(), controller.pid().unwrap());
    let listed = namespace.command("ss").args(["-tnpH", "state", "established"]).read().unwrap();
    let own = listed.lines().filter(|line| line.contains(&format!("pid={pid},")));
    // Columns: two queues, the own address, the other.
    let port = |line: &str| Some(line.split_whitespace().nth(2)?.rsplit_once(':')?.1.to_owned());
    let ports: Vec<_> = own.filter_map(port).collect();
    let set = ports.join(", ");
    let rules = format!(
        "table inet dead {{\n chain input {{\n type filter hook input priority 0\n tcp dport {{ {set} }} drop\n tcp sport {{ {set} }} drop\n }}\n }}\n"
    );
    namespace.command("nft").args(["-f", "-"]).stdin(rules).read().unwrap();
    ports.len()
}

/// SIGKILL, and a new start.
fn killed(testbed: &Testbed, meanwhile: &dyn Fn()) {
    let server = ["apiserver", "kube-apiserver"].into_iter().find_map(|name| testbed.component(name).ok());
    let server = server.expect("the API server is a component");
    server.kill().unwrap();
    server.start().unwrap();
    meanwhile();
}

/// Every watch ends, and every new one, and every list, is refused for a while. Discovery works.
fn refused(testbed: &Testbed, status: u16, meanwhile: &dyn Fn()) {
    let refused = testbed.faults().answer(status, &[RESOURCES, CUSTOM_RESOURCES].concat());
    end(testbed, &refused, meanwhile);
}

/// The server is new and serves built-in kinds only, for a while.
fn late(testbed: &Testbed, status: u16, meanwhile: &dyn Fn()) {
    let late = testbed.faults().serve_late(status, GROUPS);
    end(testbed, &late, meanwhile);
}

fn end(testbed: &Testbed, injected: &Injected, meanwhile: &dyn Fn()) {
    testbed.faults().cut_watches();
    injected.wait_until_met(1);
    meanwhile();
    injected.wait_until_met(2);
}

fn run(api: ApiKind) {
    let wanted = std::env::var("PORTOLAN_FAULT").unwrap_or_default();
    Test::new().deadline(Duration::from_secs(600)).run(async move |lab: TestLab| {
        let testbed = Testbed::builder().nodes(2).api(api).faults().start(&lab).unwrap();
        testbed.apply(OBJECTS).unwrap();
        for fault in FAULTS.iter().filter(|fault| fault.name.contains(&wanted)) {
            println!("{}", fault.name);
            try_fault(&testbed, fault);
        }
    });
}

fn try_fault(testbed: &Testbed, fault: &Fault) {
    let pod = |name: &str, node: &str, nad: &str, gateway: &str| {
        let name = format!("{name}-{}", fault.name);
        let pod = testbed.pod(&name).on(node).nad(nad).with("default-route", vec![gateway]);
        pod.create().unwrap();
        name
    };
    let running = |name: String| testbed.running_pod("default", &name).unwrap();
    let old = [
        running(pod("old1", "node1", "web", "10.0.0.1")),
        running(pod("old2", "node2", "web", "10.0.0.1")),
        running(pod("old3", "node2", "db", "10.0.1.1")),
    ];
    let undisturbed = Undisturbed::watch(testbed, &old);
    (fault.inflict)(testbed, &|| {
        pod("during", "node1", "web", "10.0.0.1");
    });
    let during = running(format!("during-{}", fault.name));
    let after = running(pod("after", "node2", "db", "10.0.1.1"));
    for (a, b) in [(&during, &after), (&during, &old[1]), (&after, &old[0])] {
        testbed.ping(a, b).succeeds();
        testbed.ping(b, a).succeeds();
    }
    undisturbed.assert(testbed, fault.name);
    assert_equals_a_fresh_plan(testbed, fault.name);
    for pod in old.iter().chain([&during, &after]) {
        pod.delete().unwrap();
    }
}

/// A controller that starts from nothing finds nothing to change: the only transaction that it makes is for a pod that is new.
fn assert_equals_a_fresh_plan(testbed: &Testbed, fault: &str) {
    let northbound = testbed.northbound();
    let controller = testbed.controller().unwrap();
    controller.kill().unwrap();
    let before = northbound.transactions().len();
    controller.restart().unwrap();
    let fresh: Pod = testbed.pod(&format!("fresh-{fault}")).on("node1").nad("web").start().unwrap();
    let made = northbound.transactions().split_off(before);
    let own = format!("attachment/pod/default/{}/net1", fresh.name());
    let is_own = |comment: &String| comment.contains(&own) && !comment.ends_with(" more");
    let others: Vec<_> = made.iter().filter(|comment| !is_own(comment)).collect();
    assert!(others.is_empty(), "after {fault} a new controller had something to change: {others:#?}");
    assert_eq!(made.len(), 1, "after {fault}: {made:#?}");
    fresh.delete().unwrap();
}
