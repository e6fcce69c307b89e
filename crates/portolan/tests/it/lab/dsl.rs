//! What tests say about pods and traffic, and what a test that fails leaves behind.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use portolan_testbed::{Test, TestLab, Testbed};

use crate::lab::OBJECTS;

/// Two switches that nothing joins.
const APART: &str = r#"
apiVersion: kubeovn.io/v1
kind: Subnet
metadata: {name: apart}
spec: {cidrBlock: 10.0.2.0/24, gateway: 10.0.2.1, provider: apart.default.ovn, protocol: IPv4}
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: apart, namespace: default}
spec: {config: '{"cniVersion": "0.3.1", "type": "kube-ovn", "provider": "apart.default.ovn"}'}
"#;

#[test]
fn traffic_gets_through_where_it_should_and_nowhere_else() {
    in_a_cluster(2, |cluster| {
        cluster.apply(APART).unwrap();
        let a =
            cluster.pod("a").on("node1").nad("web").with("default-route", vec!["10.0.0.1"]).start().unwrap();
        let fixed = vec!["10.0.1.77"];
        let b =
            cluster.pod("b").on("node2").nad("db").with("default-route", vec!["10.0.1.1"]).with("ips", fixed);
        let b = b.start().unwrap();
        let apart = |name: &str, node: &str| {
            cluster.pod(name).on(node).nad("apart").with("default-route", vec!["10.0.2.1"]).start().unwrap()
        };
        let (c, d) = (apart("c", "node2"), apart("d", "node1"));
        assert_eq!((b.address().to_string().as_str(), b.node()), ("10.0.1.77", "node2"));

        cluster.ping(&a, &b).succeeds();
        cluster.tcp(&a, &b).succeeds();
        cluster.udp(&b, &a).succeeds();

        cluster.ping(&a, &c).is_dropped(&d);
        cluster.tcp(&a, &c).is_dropped(&d);
        cluster.udp(&a, &c).is_dropped(&d);

        b.delete().unwrap();
        cluster.ping(&a, b.address()).is_unanswered();
        let again = cluster.pod("b").on("node1").nad("web").start().unwrap();
        cluster.ping(&again, &a).succeeds();
    });
}

/// What "nothing gets through" is said with must be able to say otherwise: of packets that are answered, of packets that arrive and
/// are answered by nobody, and of packets that were never sent.
#[test]
fn assertions_that_nothing_arrives_fail_when_something_does_and_when_nothing_was_sent() {
    in_a_cluster(1, |cluster| {
        let pod = |name: &str| cluster.pod(name).on("node1").nad("web").start().unwrap();
        let (a, b, witness) = (pod("a"), pod("b"), pod("witness"));
        let complaint = |attempt: &dyn Fn()| {
            let panic = catch_unwind(AssertUnwindSafe(attempt)).expect_err("it fails");
            *panic.downcast::<String>().unwrap()
        };
        let answered = complaint(&|| cluster.ping(&a, &b).is_unanswered());
        assert!(answered.contains("it is answered, and should not be"), "{answered}");
        let connected = complaint(&|| cluster.tcp(&a, &b).is_dropped(&witness));
        assert!(connected.contains("a connection is made"), "{connected}");
        let no_route = complaint(&|| {
            cluster.ping(&a, "192.0.2.1".parse::<std::net::IpAddr>().unwrap()).is_unanswered();
        });
        assert!(no_route.contains("could not be sent (exit status: 2)"), "{no_route}");
        let routed = complaint(&|| cluster.ping(&a, &b).has_no_route());
        assert!(routed.contains("there should be no route"), "{routed}");

        // One way only: what `b` sends is dropped at its own end, so nobody who sends to it hears anything.
        let mute = "add table inet mute; add chain inet mute out { type filter hook output priority 0; policy drop; }";
        b.command("nft").arg(mute).read().unwrap();
        cluster.ping(&a, &b).is_unanswered();
        for attempt in [
            &(|| cluster.ping(&a, &b).is_dropped(&witness)) as &dyn Fn(),
            &|| cluster.tcp(&a, &b).is_dropped(&witness),
            &|| cluster.udp(&a, &b).is_dropped(&witness),
        ] {
            let arrived = complaint(attempt);
            assert!(arrived.contains("it arrives, and should not: "), "{arrived}");
            assert!(arrived.contains(&format!("IPv4 from {}", a.address())), "{arrived}");
        }
        // A witness that does not get through can say nothing.
        let deaf = "add table inet deaf; add chain inet deaf out { type filter hook output priority 0; policy drop; }";
        witness.command("nft").arg(deaf).read().unwrap();
        let nothing = complaint(&|| cluster.udp(&a, &b).is_dropped(&witness));
        assert!(nothing.contains("witness cannot"), "{nothing}");
    });
}

const VICTIM: &str = "PORTOLAN_TEST_VICTIM";

#[test]
fn a_test_that_fails_leaves_what_is_needed_to_find_out_why() {
    let directory = tempfile::tempdir().unwrap();
    let victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "lab::dsl::victim", "--ignored", "--nocapture"])
        .env(VICTIM, "1")
        .env("PORTOLAN_LAB_ARTEFACTS", directory.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&victim.stderr);
    assert!(said.contains("a does not reach 10.0.0.250"), "{said}");
    let made =
        std::fs::read_dir(directory.path()).unwrap().next().expect("it left a directory").unwrap().path();
    assert!(said.contains(made.to_str().unwrap()), "{said}");
    for (file, words) in [
        ("objects.yaml", "kind: IPLock"),
        ("OVN_Northbound.txt", "port:default/a/net1"),
        ("OVN_Southbound.txt", "Port_Binding"),
        ("node1.flows.txt", "table=0"),
        ("node1.ovs.txt", "br-int"),
        ("node1.default_a.links.txt", "net1"),
        ("controller.log", "INFO"),
        ("node1.agent.log", "default/a"),
    ] {
        let text = read(&made.join(file));
        assert!(text.contains(words), "{file}: {text}");
    }
}

#[test]
#[ignore = "run by a_test_that_fails_leaves_what_is_needed_to_find_out_why"]
fn victim() {
    if std::env::var_os(VICTIM).is_none() {
        return;
    }
    in_a_cluster(1, |cluster| {
        let a = cluster.pod("a").nad("web").start().unwrap();
        cluster
            .ping(&a, "10.0.0.250".parse::<std::net::IpAddr>().unwrap())
            .patience(Duration::from_secs(1))
            .succeeds();
    });
}

fn in_a_cluster(nodes: usize, body: impl FnOnce(&Testbed) + Send + 'static) {
    Test::new().deadline(Duration::from_secs(120)).run(async move |lab: TestLab| {
        let cluster = Testbed::builder().nodes(nodes).start(&lab).unwrap();
        cluster.apply(OBJECTS).unwrap();
        body(&cluster);
    });
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
}
