//! The primary network with the real binaries, OVN and Open vSwitch: three nodes with prefixes of both families, pods and nodes and what is
//! outside, and nothing left of a node that goes.

mod nat_outgoing;
mod services;
mod stage;
mod tenants;

use std::net::IpAddr;
use std::time::Duration;

use portolan_testbed::{Process, Test};

use crate::primary::stage::Stage;

fn on_stage(body: impl FnOnce(&Stage) + Send + 'static) {
    Test::new().deadline(Duration::from_secs(240)).run(async move |lab| body(&Stage::start(&lab)));
}

#[test]
fn pods_and_nodes_reach_each_other_and_the_outside() {
    on_stage(|stage| {
        let testbed = &stage.testbed;
        let [a, b, c] =
            [("a", "node1"), ("b", "node1"), ("c", "node2")].map(|(name, node)| stage.pod(name, node));
        assert!(
            stage.is_of_node(&a, 1) && stage.is_of_node(&c, 2),
            "{:?} {:?}",
            a.addresses(),
            c.addresses()
        );
        for (from, to) in [(&a, &b), (&a, &c), (&c, &a)] {
            for address in to.addresses() {
                testbed.ping(from, *address).succeeds();
            }
            testbed.tcp(from, to).succeeds();
        }
        for node in testbed.nodes() {
            for pod in [&a, &c] {
                for address in pod.addresses() {
                    stage.transfer(node.namespace(), pod.netns(), *address);
                }
                // By the address that the node has in its own network.
                stage.transfer(pod.netns(), node.namespace(), node.address().into());
            }
        }
        // A subnet of a namespace spans nodes; its pods leave by the node they are on.
        stage.bind_subnet_to_default_namespace();
        let [near, far] = [("near", "node1"), ("far", "node3")].map(|(name, node)| stage.pod(name, node));
        assert!(near.address().to_string().starts_with("10.50.0."), "{:?}", near.addresses());
        testbed.tcp(&near, &far).succeeds();
        testbed.tcp(&near, &c).succeeds();
        stage.transfer(testbed.node("node1").unwrap().namespace(), near.netns(), near.address());
        for (pod, node) in [(&a, "node1"), (&c, "node2"), (&near, "node1"), (&far, "node3")] {
            let node = testbed.node(node).unwrap().address();
            assert_eq!(stage.seen_outside(pod), node, "{} leaves by its node", pod.name());
        }
        // What a node translates on its way to a pod, as for `hostPort`, is translated back, whoever asks; the outside is seen as it is.
        let [node1, node2] = ["node1", "node2"].map(|node| testbed.node(node).unwrap());
        let (at, behind) = (node1.address().into(), a.address());
        stage.forward_port(node1, &a);
        for from in [c.netns(), near.netns(), far.netns(), node2.namespace()] {
            let seen = stage.seen_behind_port(from, at, &a);
            assert!(seen.to_string().starts_with("10.16.1."), "{behind}: {seen}");
        }
        let seen = stage.seen_behind_port(node1.namespace(), at, &a);
        assert!(seen == at || seen.to_string().starts_with("10.16.1."), "its own node: {seen}");
        let outside = IpAddr::from(testbed.underlay().home_address());
        assert_eq!(stage.seen_behind_port(testbed.lab().home(), at, &a), outside);
    });
}

#[test]
fn restarts_change_nothing_and_what_somebody_removes_comes_back() {
    on_stage(|stage| {
        let testbed = &stage.testbed;
        let [a, c] = [("a", "node1"), ("c", "node2")].map(|(name, node)| stage.pod(name, node));
        let node = testbed.node("node1").unwrap();
        let before = (stage.of_ovn(), stage.whole_host(node, 1));
        for process in [testbed.controller().unwrap(), &testbed.agents()[0], node.vswitchd()] {
            process.kill().unwrap();
            process.restart().unwrap();
        }
        stage.node_reaches(node, &c);
        stage.node_reaches(node, &a);
        assert_eq!(stage.seen_outside(&a), node.address());
        stage.wait_for_host(node, &before.1);
        assert_eq!(stage.of_ovn(), before.0);
        assert!(testbed.agents().iter().all(Process::is_alive));

        for damage in [
            &["ip", "address", "flush", "dev", "portolan0"][..],
            &["ip", "route", "del", "10.16.0.0/14"],
            &["ip", "link", "set", "portolan0", "down"],
            &["nft", "flush", "table", "inet", "portolan"],
            &["nft", "delete", "table", "inet", "portolan"],
        ] {
            node.command(damage[0]).args(&damage[1..]).read().unwrap();
            stage.wait_for_host(node, &before.1);
        }
        node.vsctl(&["del-port", "br-int", "portolan0"]).unwrap();
        stage.wait_for_host(node, &before.1);
        stage.node_reaches(node, &c);
        assert_eq!(stage.seen_outside(&a), node.address());

        // On a kernel without nftables an agent says so and goes on.
        testbed.agents()[0].kill().unwrap();
        let agent = stage.agent_without_nftables(node);
        while agent.log_tail().matches("cannot watch nftables").count() < 2
            && agent.log_tail().matches("nft refused to").count() < 2
        {
            std::thread::yield_now();
        }
        assert!(agent.is_alive());
    });
}

#[test]
fn nothing_is_left_of_a_node_that_is_deleted_and_it_may_come_again_with_other_prefixes() {
    on_stage(|stage| {
        let testbed = &stage.testbed;
        let a = stage.pod("a", "node1");
        testbed.agents()[2].kill().unwrap();
        stage.kubectl(&["delete", "node", "node3"]);
        stage.northbound.wait_until(|cache| {
            !portolan_testbed::Northbound::units_in(cache).iter().any(|unit| unit.contains("node3"))
        });
        let locks = [
            "wait",
            "--for=delete",
            "iplocks.portolan.dev",
            "--field-selector=spec.node=node3",
            "--timeout=30s",
        ];
        stage.kubectl(&locks);
        let show = testbed.central().nbctl(&["show"]).unwrap();
        assert!(!show.contains("node3"), "{show}");
        assert!(
            !testbed.central().nbctl(&["lr-route-list", "vpc:ovn-cluster"]).unwrap().contains("10.16.3.")
        );
        assert!(
            !testbed.central().nbctl(&["lr-policy-list", "vpc:ovn-cluster"]).unwrap().contains("10.16.3.")
        );
        stage.make_node("node3");
        stage.give_prefixes("node3", 7);
        testbed.agents()[2].restart().unwrap();
        stage.wait_for_node_ports();
        let again = stage.pod("again", "node3");
        assert!(stage.is_of_node(&again, 7), "{:?}", again.addresses());
        testbed.tcp(&again, &a).succeeds();
        stage.node_reaches(testbed.node("node3").unwrap(), &a);

        // An agent without --primary may have lost the flag by mistake: what is there stays, and goes on.
        let node = testbed.node("node1").unwrap();
        let before = stage.whole_host(node, 1);
        testbed.agents()[0].kill().unwrap();
        let other = stage.agent_with(node, &[]);
        while !other.log_tail().contains("started without --primary: it leaves the port") {
            std::thread::yield_now();
        }
        assert_eq!(stage.of_host(node), before);
        stage.node_reaches(node, &again);
        drop(other);
        let last = stage.agent_with(node, &["--remove-primary"]);
        stage.wait_until_nothing_is_left_on(node);
        drop(last);

        // An agent that sees its own Node go takes away what it made for it.
        stage.kubectl(&["delete", "node", "node2"]);
        stage.wait_until_nothing_is_left_on(testbed.node("node2").unwrap());
    });
}
