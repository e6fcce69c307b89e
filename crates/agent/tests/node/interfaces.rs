//! Pods with many interfaces and many addresses, with traffic through each.

use std::time::Duration;

use portolan_model::FirstInterface;
use portolan_testbed::{Namespace, Node, Test};
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
            let mut stage = Stage::start(&lab, 2, Agents::default());
            let [node, other] = stage.testbed.nodes() else { panic!("two nodes") };
            for (name, cidr) in [("blue", "10.1.0.0/24"), ("red", "10.2.0.0/24,fd02::/64"), ("green", "fd03::/64")] {
                let config = json!({ "cniVersion": "1.0.0", "name": name, "type": "kube-ovn" });
                stage.nad(name, &config.to_string());
                stage.subnet(name, cidr, "aegean", Some(&format!("{name}.default.ovn")));
            }
            let add = |node: &Node, container: &str, pod: &str, uid: &str| {
                let netns = first_interface(node, pod);
                let runtime = Runtime::new(node, container, pod, uid, &netns);
                let result = runtime.succeeds_with("ADD", &further());
                (netns, runtime, result)
            };

            // Whom to reach, on another node: three networks, one of them with several addresses of one family, one with IPv6 alone.
            let uid = stage.pod_with("peer", "node2", &json!({ NETWORKS: "blue,red,green" }));
            let several = ["10.2.0.2", "10.2.0.3", "10.2.0.4", "fd02::2"];
            let interfaces: [(&str, &str, &[&str]); 3] =
                [("blue", "net1", &["10.1.0.2"]), ("red", "net2", &several), ("green", "net3", &["fd03::2"])];
            let decided = interfaces.map(|(_, interface, addresses)| (interface, addresses));
            stage.assign_all("peer", &uid, ("node2", "aegean"), &interfaces, &decided);
            let (peer, peer_runtime, result) = add(other, "cafe01", "peer", &uid);
            assert_eq!(names(&result), ["net1", "net2", "net3"]);
            let ips = result["ips"].as_array().unwrap().iter().map(|ip| ip["address"].as_str().unwrap());
            let expected = ["10.244.1.7/24", "10.1.0.2/24", "10.2.0.2/24", "10.2.0.3/24", "10.2.0.4/24", "fd02::2/64", "fd03::2/64"];
            assert_eq!(ips.collect::<Vec<_>>(), expected);

            for further_interfaces in [1, 31] {
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
                let (netns, runtime, result) = add(node, &container, &name, &uid);
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
            let (one, one_runtime, _) = add(node, "cafe02", "one", &uid);
            for address in &several[..3] {
                ping(&one, "net1", address);
                ping(&peer, address, "10.2.0.9");
            }

            // A static pod: the runtime knows it by the kubelet's hash, the API server by its mirror's UID.
            let annotations = json!({ NETWORKS: "blue", "kubernetes.io/config.hash": "h4sh", "kubernetes.io/config.source": "file" });
            let uid = stage.pod_with("fixed", "node1", &annotations);
            stage.assign_all("fixed", &uid, ("node1", "aegean"), &[("blue", "net1", &["10.1.0.250"])], &[("net1", &["10.1.0.250"])]);
            let (fixed, fixed_runtime, result) = add(node, "cafe03", "fixed", "h4sh");
            assert_eq!(names(&result), ["net1"]);
            ping(&fixed, "net1", "10.1.0.2");
            fixed_runtime.succeeds_with("CHECK", &json!({ "interfaces": "further", "prevResult": result }));

            // A pod is deleted and made again under its name; the old sandbox ends late.
            stage.kubectl(&["delete", "pod", "one", "--force", "--grace-period=0"], "");
            let uid = stage.pod_with("one", "node1", &json!({ NETWORKS: "red" }));
            stage.assign_all("one", &uid, ("node1", "aegean"), &[("red", "net1", &["10.2.0.10"])], &[("net1", &["10.2.0.10"])]);
            let (again, again_runtime, result) = add(node, "cafe04", "one", &uid);
            one_runtime.succeeds_with("DEL", &further());
            ping(&again, "net1", "10.2.0.2");
            again_runtime.succeeds_with("CHECK", &json!({ "interfaces": "further", "prevResult": result }));
            for runtime in [fixed_runtime, again_runtime] {
                runtime.succeeds_with("DEL", &further());
            }
            assert_eq!(made_on(node), Vec::<String>::new());

            // As the primary network: all of 32 are Portolan's own.
            stage.stop_agents();
            stage.settings.first_interface = FirstInterface::Portolan;
            stage.start_agents();
            let [node, other] = stage.testbed.nodes() else { panic!("two nodes") };
            let networks = vec!["blue"; 31].join(",");
            let uid = stage.pod_with("own", "node1", &json!({ NETWORKS: networks }));
            let names_of: Vec<String> = (1..=31).map(|number| format!("net{number}")).collect();
            let addresses: Vec<[String; 1]> = (1..=31).map(|number| [format!("10.1.0.{}", 200 + number)]).collect();
            let addresses: Vec<[&str; 1]> = addresses.iter().map(|[one]| [one.as_str()]).collect();
            let of_blue = names_of.iter().zip(&addresses).map(|(name, one)| ("blue", name.as_str(), &one[..]));
            let all: Vec<(&str, &str, &[&str])> =
                std::iter::once(("sea", "eth0", &["10.0.0.7", "fd00::7"][..])).chain(of_blue).collect();
            let decided: Vec<_> = all.iter().map(|(_, interface, addresses)| (*interface, *addresses)).collect();
            stage.assign_all("own", &uid, ("node1", "aegean"), &all, &decided);
            let own = node.namespace().network_beside("own").unwrap();
            let runtime = Runtime::new(node, "cafe05", "own", &uid, &own);
            let result = runtime.succeeds_with("ADD", &json!({ "interfaces": "all" }));
            assert_eq!(names(&result), names_of);
            assert_eq!(result["interfaces"].as_array().unwrap().len(), 64, "eth0 as well, and each with its host-side link");
            for (name, [address]) in names_of.iter().zip(&addresses) {
                ping(&own, name, "10.1.0.2");
                ping(&peer, "net1", address);
            }
            runtime.succeeds_with("CHECK", &json!({ "interfaces": "all", "prevResult": result }));
            runtime.succeeds_with("DEL", &json!({ "interfaces": "all" }));
            peer_runtime.succeeds_with("DEL", &further());
            assert_eq!([made_on(node), made_on(other)], [Vec::<String>::new(), Vec::new()]);
        })
        .await;
    });
}

/// Asserts that a pod has the routes of a network definition, of a Subnet, and a default route of one family, and that its first interface
/// keeps those of the cluster's networks, which are 10.96.0.0/12 and fd96::/64, and the other default route.
pub(crate) fn assert_routes_of_networks(stage: &Stage) {
    let node = &stage.testbed.nodes()[0];
    let routes = json!([{ "dst": "172.16.0.0/16", "gw": "10.2.0.9" }, { "dst": "fd16::/64" }]);
    let red = json!({ "cniVersion": "1.0.0", "name": "red", "type": "portolan-cni", "routes": routes });
    stage.nad("red", &red.to_string());
    stage.nad("green", r#"{"cniVersion":"1.0.0","name":"green","type":"portolan-cni"}"#);
    for (name, cidr, routes) in [
        (
            "red",
            "10.2.0.0/24,fd02::/64",
            json!([{ "dst": "172.17.0.0/16" }, { "dst": "fd17::/64", "gw": "fd02::9" }]),
        ),
        ("green", "10.3.0.0/24,fd03::/64", json!([])),
    ] {
        stage.apply(&json!({ "apiVersion": "portolan.dev/v1alpha1", "kind": "Subnet", "metadata": { "name": name },
            "spec": { "vpc": "aegean", "cidrBlock": cidr, "mtu": 1400, "allowedNamespaces": ["*"], "routes": routes,
                "provider": format!("{name}.default.ovn") } }));
        stage.validate("subnets.portolan.dev", name);
    }
    // The default route of IPv6 goes by the second network; that of IPv4 stays.
    let networks = r#"[{"name": "red"}, {"name": "green", "default-route": ["fd03::1"]}]"#;
    let uid = stage.pod_with("argo", "node1", &json!({ NETWORKS: networks }));
    let interfaces: [(&str, &str, &[&str]); 2] =
        [("red", "net1", &["10.2.0.7", "fd02::7"]), ("green", "net2", &["10.3.0.7", "fd03::7"])];
    let decided = interfaces.map(|(_, interface, addresses)| (interface, addresses));
    stage.assign_all("argo", &uid, ("node1", "aegean"), &interfaces, &decided);
    let netns = first_interface(node, "argo");
    netns.ip("address add fd44::7/64 dev eth0 nodad\nroute add default via fd44::1").unwrap();
    let runtime = Runtime::new(node, "cafe01", "argo", &uid, &netns);
    let result = runtime.succeeds_with("ADD", &further());
    for (address, way) in [
        // Of the definition, with a router of its own and with the Subnet's; of the Subnet, likewise.
        ("172.16.0.1", ("10.2.0.9", "net1")),
        ("fd16::1", ("fd02::1", "net1")),
        ("172.17.0.1", ("10.2.0.1", "net1")),
        ("fd17::1", ("fd02::9", "net1")),
        ("2001:db8::1", ("fd03::1", "net2")),
        ("192.0.2.1", ("10.244.1.1", "eth0")),
        // Services, by the first interface.
        ("fd96::10", ("fd44::1", "eth0")),
        ("10.96.0.10", ("10.244.1.1", "eth0")),
    ] {
        let (router, interface) = way_to(&netns, address);
        assert_eq!((router.as_str(), interface.as_str()), way, "{address}");
    }
    runtime.succeeds_with("CHECK", &json!({ "interfaces": "further", "prevResult": result }));
    // What it took the place of is in effect again.
    runtime.succeeds_with("DEL", &further());
    assert_eq!(way_to(&netns, "2001:db8::1"), ("fd44::1".to_owned(), "eth0".to_owned()));
    assert_eq!(made_on(node), Vec::<String>::new());
}

/// The router and the link by which the kernel sends to an address.
fn way_to(netns: &Namespace, address: &str) -> (String, String) {
    let answer = netns.command("ip").args(["route", "get", address]).read().unwrap();
    let after = |word: &str| {
        answer.split_whitespace().skip_while(|one| *one != word).nth(1).unwrap_or_default().to_owned()
    };
    (after("via"), after("dev"))
}
