//! Pods with many interfaces and many addresses, with traffic through each.

use std::time::Duration;

use portolan_testbed::{Namespace, Test};
use serde_json::{Value, json};

use crate::chained::{first_interface, further};
use crate::stage::{Agents, Runtime, Stage, blocking, made_on};

const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";

fn ping(from: &Namespace, by: &str, to: &str) {
    let command = from.command("ping").args(["-c1", "-w10", "-i0.05", "-I", by, to]);
    command.read().unwrap_or_else(|error| panic!("{to} by {by}: {error}"));
}

/// The names of the interfaces that a result has in the pod, but for the first.
fn names(result: &Value) -> Vec<String> {
    let interfaces = result["interfaces"].as_array().unwrap().iter().filter(|one| one["sandbox"].is_string());
    interfaces.map(|one| one["name"].as_str().unwrap().to_owned()).filter(|name| name != "eth0").collect()
}

#[test]
fn up_to_32_interfaces_also_of_one_network_and_with_several_addresses_carry_traffic() {
    Test::new().deadline(Duration::from_secs(300)).run(async |lab| {
        blocking(move || {
            let stage = Stage::start(&lab, 1, Agents::default());
            let node = &stage.testbed.nodes()[0];
            for (name, cidr) in [("blue", "10.1.0.0/24"), ("red", "10.2.0.0/24,fd02::/64"), ("green", "fd03::/64")] {
                let config = json!({ "cniVersion": "1.0.0", "name": name, "type": "kube-ovn" });
                stage.nad(name, &config.to_string());
                stage.subnet(name, cidr, "aegean", Some(&format!("{name}.default.ovn")));
            }
            let add = |container: &str, pod: &str, uid: &str| {
                let netns = first_interface(node, pod);
                let runtime = Runtime::new(node, container, pod, uid, &netns);
                let result = runtime.succeeds_with("ADD", &further());
                (netns, runtime, result)
            };

            // Whom to reach: three networks, one of them with several addresses of one family, one with IPv6 alone.
            let uid = stage.pod_with("peer", "node1", &json!({ NETWORKS: "blue,red,green" }));
            let several = ["10.2.0.2", "10.2.0.3", "10.2.0.4", "fd02::2"];
            let interfaces: [(&str, &str, &[&str]); 3] =
                [("blue", "net1", &["10.1.0.2"]), ("red", "net2", &several), ("green", "net3", &["fd03::2"])];
            let decided = interfaces.map(|(_, interface, addresses)| (interface, addresses));
            stage.assign_all("peer", &uid, ("node1", "aegean"), &interfaces, &decided);
            let (peer, peer_runtime, result) = add("cafe01", "peer", &uid);
            assert_eq!(names(&result), ["net1", "net2", "net3"]);
            let ips = result["ips"].as_array().unwrap().iter().map(|ip| ip["address"].as_str().unwrap());
            let expected = ["10.244.1.7/24", "10.1.0.2/24", "10.2.0.2/24", "10.2.0.3/24", "10.2.0.4/24", "fd02::2/64", "fd03::2/64"];
            assert_eq!(ips.collect::<Vec<_>>(), expected);

            for further_interfaces in [1, 7, 31] {
                let (name, container) = (format!("many{further_interfaces}"), format!("beef{further_interfaces}"));
                // All but the last on one network, which the annotation names again and again; addresses by interface.
                let of = |number: usize| if number == 31 { ("green", "fd03::f:") } else { ("blue", "10.1.0.") };
                let numbers = 1..=further_interfaces;
                let networks: Vec<_> = numbers.clone().map(|number| of(number).0).collect();
                let uid = stage.pod_with(&name, "node1", &json!({ NETWORKS: networks.join(",") }));
                let interfaces: Vec<String> = numbers.clone().map(|number| format!("net{number}")).collect();
                let first = further_interfaces * 5;
                let addresses: Vec<[String; 1]> =
                    numbers.map(|number| [format!("{}{}", of(number).1, first + number)]).collect();
                let addresses: Vec<[&str; 1]> = addresses.iter().map(|[one]| [one.as_str()]).collect();
                let assigned: Vec<(&str, &str, &[&str])> = networks
                    .iter()
                    .zip(&interfaces)
                    .zip(&addresses)
                    .map(|((network, interface), addresses)| (*network, interface.as_str(), &addresses[..]))
                    .collect();
                let decided: Vec<_> =
                    assigned.iter().map(|(_, interface, addresses)| (*interface, *addresses)).collect();
                stage.assign_all(&name, &uid, ("node1", "aegean"), &assigned, &decided);
                let (netns, runtime, result) = add(&container, &name, &uid);
                assert_eq!(names(&result), interfaces);
                for (_, interface, addresses) in &assigned {
                    let address = addresses[0];
                    let six = address.contains(':');
                    ping(&netns, interface, if six { "fd03::2" } else { "10.1.0.2" });
                    ping(&peer, if six { "net3" } else { "net1" }, address);
                }
                runtime.succeeds_with("CHECK", &json!({ "interfaces": "further", "prevResult": result }));
                runtime.succeeds_with("DEL", &further());
            }

            // Several addresses of one interface: each of them is reached, and reaches others.
            let uid = stage.pod_with("one", "node1", &json!({ NETWORKS: "red" }));
            stage.assign_all("one", &uid, ("node1", "aegean"), &[("red", "net1", &["10.2.0.9"])], &[("net1", &["10.2.0.9"])]);
            let (one, one_runtime, _) = add("cafe02", "one", &uid);
            for address in &several[..3] {
                ping(&one, "net1", address);
                ping(&peer, address, "10.2.0.9");
            }

            // A static pod: the runtime knows it by the kubelet's hash, the API server by its mirror's UID.
            let annotations = json!({ NETWORKS: "blue", "kubernetes.io/config.hash": "h4sh", "kubernetes.io/config.source": "file" });
            let uid = stage.pod_with("fixed", "node1", &annotations);
            stage.assign_all("fixed", &uid, ("node1", "aegean"), &[("blue", "net1", &["10.1.0.250"])], &[("net1", &["10.1.0.250"])]);
            let (fixed, fixed_runtime, result) = add("cafe03", "fixed", "h4sh");
            assert_eq!(names(&result), ["net1"]);
            ping(&fixed, "net1", "10.1.0.2");
            fixed_runtime.succeeds_with("CHECK", &json!({ "interfaces": "further", "prevResult": result }));

            // A pod is deleted and made again under its name; the old sandbox ends late.
            stage.kubectl(&["delete", "pod", "one", "--force", "--grace-period=0"], "");
            let uid = stage.pod_with("one", "node1", &json!({ NETWORKS: "red" }));
            stage.assign_all("one", &uid, ("node1", "aegean"), &[("red", "net1", &["10.2.0.10"])], &[("net1", &["10.2.0.10"])]);
            let (again, again_runtime, result) = add("cafe04", "one", &uid);
            one_runtime.succeeds_with("DEL", &further());
            ping(&again, "net1", "10.2.0.2");
            again_runtime.succeeds_with("CHECK", &json!({ "interfaces": "further", "prevResult": result }));
            for runtime in [peer_runtime, fixed_runtime, again_runtime] {
                runtime.succeeds_with("DEL", &further());
            }
            assert_eq!(made_on(node), Vec::<String>::new());
        })
        .await;
    });
}
