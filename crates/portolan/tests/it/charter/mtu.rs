//! The MTU of pods: what fits into the tunnels of every node, to the byte.

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Node;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, ResourceExt as _};
use portolan_testbed::{Pod, Testbed};

use crate::charter::connectivity::said;
use crate::charter::guests::{INTERFACE, PATIENCE, in_a_cluster, link};

const OBJECTS: &str = include_str!("mtu.yaml");

#[test]
fn pods_get_the_mtu_that_the_smallest_link_leaves_and_keep_it() {
    in_a_cluster(Testbed::builder().nodes(2), &[OBJECTS], |cluster| {
        let start = |name: &str, node: &str| cluster.pod(name).on(node).nad("wide").start().unwrap();
        let [old, far] = [start("old", "node1"), start("far", "node2")];
        // A link of 1500 less 58 bytes: headers of IPv4, UDP and geneve with OVN's option, and the Ethernet header inside.
        fits_exactly(cluster, (&old, &far), 1442);

        // A link becomes smaller. It decides for all pods that come; those that run keep what they have.
        let node2 = &cluster.nodes()[1];
        // The API server is told, as a router on the way would tell it: its connections are not what this is about.
        let route = format!("route replace {} dev underlay mtu 1400", node2.address());
        cluster.lab().home().ip(&route).unwrap();
        node2.namespace().ip("link set eth0 mtu 1400\nlink set br-und mtu 1400").unwrap();
        for node in ["node1", "node2"] {
            wait_for_annotation(cluster, node, "mtu", |mtu| mtu == Some("1342"));
        }
        let [new, new_far] = [start("new", "node1"), start("new-far", "node2")];
        fits_exactly(cluster, (&new, &new_far), 1342);
        assert_eq!((&link(&old)["mtu"], &link(&far)["mtu"]), (&1442.into(), &1442.into()));
        for node in ["node1", "node2"] {
            wait_for_annotation(cluster, node, "problem", |problem| {
                let words =
                    ["pods on this node have interfaces with an MTU of up to 1442", "delete these pods"];
                problem.is_some_and(|problem| words.iter().all(|word| problem.contains(word)))
            });
        }
        old.delete().unwrap();
        wait_for_annotation(cluster, "node1", "problem", |problem| problem.is_none());
    });
}

/// Packets of this size get from one to the other and back, and one byte more does not, whatever the interfaces allow.
fn fits_exactly(cluster: &Testbed, (a, b): (&Pod, &Pod), mtu: u16) {
    for pod in [a, b] {
        assert_eq!(link(pod)["mtu"], mtu, "{}", pod.name());
    }
    cluster.ping(a, b).succeeds();
    cluster.ping(b, a).succeeds();
    let (to, over) = (b.address().to_string(), (mtu - 28 + 1).to_string());
    let refused = said(a, &["-c1", "-w10", "-Mdo", "-s", &over, &to]);
    assert!(refused.contains(&format!("message too long, mtu={mtu}")), "{refused}");
    let set = |mtu: u16| {
        for pod in [a, b] {
            pod.netns().ip(&format!("link set {INTERFACE} mtu {mtu}")).unwrap();
        }
    };
    set(mtu + 1);
    let lost = said(a, &["-c3", "-i0.2", "-W1", "-Mdo", "-s", &over, &to]);
    assert!(lost.contains("100% packet loss"), "{lost}");
    set(mtu);
    cluster.ping(a, b).succeeds();
}

/// Waits until an annotation of a Node, without its prefix, is as it should be.
#[track_caller]
fn wait_for_annotation(
    cluster: &Testbed,
    node: &str,
    name: &str,
    is_so: impl Fn(Option<&str>) -> bool + Send + Sync + 'static,
) {
    let (nodes, key) = (Api::<Node>::all(cluster.client()), format!("portolan.dev/{name}"));
    let of = watcher::Config::default().fields(&format!("metadata.name={node}"));
    let seen = cluster.wait(async move {
        let mut last = None;
        let mut stream = std::pin::pin!(watcher(nodes, of).default_backoff().applied_objects());
        let search = async {
            while let Some(node) = stream.next().await {
                let Ok(node) = node else { continue };
                last = node.annotations().get(&key).cloned();
                if is_so(last.as_deref()) {
                    return true;
                }
            }
            false
        };
        let found = tokio::time::timeout(PATIENCE, search).await.unwrap_or_default();
        if found { Ok(()) } else { Err(last) }
    });
    assert_eq!(seen, Ok(()), "{name} of {node}");
}
