//! Virtual functions of network cards as pods' ends of interfaces, on a card that is made up: what the kernel shows of it is a directory,
//! and its links are pairs.

use std::time::Duration;

use portolan_testbed::{Namespace, NetworkCard, Node, Test};
use serde_json::{Value, json};

use crate::stage::{Agents, Runtime, Stage, blocking, made_on, wait_for_ports};

const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";

/// A node with a card, and an agent that sees it; a network `blue` for pods to ask for.
fn stage_with_card(lab: &portolan_testbed::TestLab, functions: usize) -> (Stage, NetworkCard) {
    let mut stage = Stage::start(lab, 1, Agents::default());
    stage.nad("blue", r#"{"cniVersion":"1.0.0","name":"blue","type":"portolan-cni"}"#);
    stage.kubectl(
        &["annotate", "net-attach-def", "blue", "k8s.v1.cni.cncf.io/resourceName=example.com/vf"],
        "",
    );
    stage.subnet("blue", "10.1.0.0/24", "aegean", Some("blue.default.ovn"));
    let card = NetworkCard::new(&stage.testbed.nodes()[0], functions).unwrap();
    stage.stop_agents();
    stage.settings.sysfs = Some(card.sysfs().to_owned());
    stage.start_agents();
    (stage, card)
}

impl Stage {
    /// A pod with one further interface, and what Multus does to make it.
    fn pod_on_blue(&self, name: &str, last: u8) -> (Namespace, Runtime) {
        let node = &self.testbed.nodes()[0];
        let uid = self.pod_with(name, "node1", &json!({ NETWORKS: "blue" }));
        let address = format!("10.1.0.{last}");
        self.assign_further(name, &uid, "node1", ("blue", "aegean"), ("net1", &address));
        let netns = node.namespace().network_beside(name).unwrap();
        let runtime = Runtime::new(node, &format!("cafe-{name}"), name, &uid, &netns);
        (netns, Runtime { interface: "net1".into(), ..runtime })
    }
}

/// What Multus adds to a definition's configuration for a device that the device plugin gave to the pod.
fn device(address: &str) -> Value {
    json!({ "deviceID": address, "runtimeConfig": { "deviceID": address } })
}

fn ping(from: &Namespace, to: &str) {
    let ping = from.command("ping").args(["-c1", "-w10", "-i0.05", to]);
    ping.read().unwrap_or_else(|error| panic!("{to}: {error}"));
}

fn link_in(netns: &Namespace, name: &str) -> Value {
    let text = netns.command("ip").args(["-json", "link", "show", name]).read().unwrap();
    serde_json::from_str::<Value>(&text).unwrap()[0].clone()
}

fn ports(node: &Node) -> Vec<String> {
    node.vsctl(&["list-ports", "br-int"])
        .unwrap()
        .lines()
        .filter(|port| port.starts_with("pt"))
        .map(str::to_owned)
        .collect()
}

/// The agent does it by itself; a test that waits for ever is ended by its deadline.
fn wait_until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        std::thread::yield_now();
    }
}

#[test]
fn a_function_is_the_pods_interface_until_del_and_then_as_it_was() {
    Test::new().deadline(Duration::from_secs(300)).run(async |lab| {
        blocking(move || {
            let (mut stage, card) = stage_with_card(&lab, 1);
            let before = card.links();
            let (peer, peer_runtime) = stage.pod_on_blue("peer", 2);
            peer_runtime.succeeds("ADD");
            let (argo, runtime) = stage.pod_on_blue("argo", 7);
            let result = runtime.succeeds_with("ADD", &device(&card.address(0)));
            let interfaces = result["interfaces"].as_array().unwrap();
            assert_eq!(interfaces.len(), 2, "{result}");
            assert_eq!(
                (&interfaces[0]["name"], &interfaces[0]["sandbox"]),
                (&json!(runtime.link()), &Value::Null)
            );
            assert_eq!(
                (&interfaces[1]["name"], &interfaces[1]["pciID"]),
                (&json!("net1"), &json!(card.address(0)))
            );
            assert!(interfaces[1]["sandbox"].is_string());

            // It is the function's link that the pod has, and its representor that is plugged and guarded.
            let node = &stage.testbed.nodes()[0];
            assert!(card.links().is_empty(), "{:?}", card.links());
            let net1 = link_in(&argo, "net1");
            assert_eq!((&net1["mtu"], &net1["address"]), (&json!(1400), &interfaces[1]["mac"]));
            let addresses = argo.command("ip").args(["address", "show", "net1"]).read().unwrap();
            assert!(addresses.contains("inet 10.1.0.7/24"), "{addresses}");
            let representor = link_in(node.namespace(), &runtime.link());
            assert_eq!(representor["link_index"], net1["ifindex"], "one pair of links");
            assert!(
                representor["ifalias"].as_str().unwrap().starts_with("portolan/0000:03:00.2/rep0:"),
                "{representor}"
            );
            ping(&argo, "10.1.0.2");
            ping(&peer, "10.1.0.7");
            let check = |stage: &Stage| {
                let _ = stage;
                let mut config = device(&card.address(0));
                config["prevResult"] = result.clone();
                runtime.succeeds_with("CHECK", &config);
            };
            check(&stage);

            // An agent that is started again uses what is there.
            stage.stop_agents();
            stage.start_agents();
            let node = &stage.testbed.nodes()[0];
            wait_for_ports(node, 2);
            check(&stage);
            assert_eq!(link_in(node.namespace(), &runtime.link())["ifindex"], representor["ifindex"]);

            // Drift is repaired as with any interface.
            node.vsctl(&["del-port", "br-int", &runtime.link()]).unwrap();
            wait_for_ports(node, 2);
            node.namespace().ip(&format!("link set {} down", runtime.link())).unwrap();
            ping(&peer, "10.1.0.7");
            check(&stage);

            // The pod has changed what it could.
            argo.ip("link set net1 down\nlink set net1 address 02:00:00:00:00:99 mtu 1300 alias hello")
                .unwrap();
            runtime.succeeds_with("DEL", &device(&card.address(0)));
            assert_eq!(card.links(), before);
            assert_eq!(ports(node), [peer_runtime.link()]);
            runtime.succeeds_with("DEL", &device(&card.address(0)));
            assert!(argo.ip("link show net1").is_err());

            // And again.
            runtime.succeeds_with("ADD", &device(&card.address(0)));
            ping(&argo, "10.1.0.2");
            runtime.succeeds("DEL");
            assert_eq!(card.links(), before);
            peer_runtime.succeeds("DEL");
            assert_eq!(made_on(node), Vec::<String>::new());
        })
        .await;
    });
}

#[test]
fn what_cannot_be_a_pods_interface_is_refused_by_the_fields_name_and_left_as_it_was() {
    Test::new().deadline(Duration::from_secs(300)).run(async |lab| {
        blocking(move || {
            let (stage, card) = stage_with_card(&lab, 4);
            let node = &stage.testbed.nodes()[0];
            let before = card.links();
            let (argo, runtime) = stage.pod_on_blue("argo", 7);
            let refused = |config: &Value, code: u32, reason: &str| {
                let (exit, said) = runtime.call_with("ADD", config);
                let text = format!(
                    "{}: {}",
                    said["msg"].as_str().unwrap(),
                    said["details"].as_str().unwrap_or_default()
                );
                assert_eq!((exit, &said["code"]), (1, &json!(code)), "{config}: {said}");
                assert!(text.contains("deviceID") && text.contains(reason), "{config}: {said}");
                // What was refused is ended as well.
                runtime.succeeds_with("DEL", config);
                assert!(argo.ip("link show net1").is_err());
            };
            for (config, reason) in [
                (json!({ "deviceID": "../../etc" }), "is not the address of a PCI device"),
                (json!({ "deviceID": "0".repeat(200_000) }), "is not the address of a PCI device"),
                (json!({ "deviceID": card.address(0).to_uppercase().replace("03", "0A") }), "in lower case"),
                (json!({ "deviceID": "03:00.2" }), "domain, bus, device and function"),
                (json!({ "deviceID": 7 }), "as text"),
                (
                    json!({ "deviceID": card.address(0), "runtimeConfig": { "deviceID": card.address(1) } }),
                    "must be the same",
                ),
                (json!({ "deviceID": card.address(0), "interfaces": "further" }), "definition of its own"),
            ] {
                refused(&config, 7, reason);
            }
            refused(&device("0000:09:00.1"), 100, "0000:09:00.1 does not exist on this node");
            refused(&device(card.physical()), 100, "is a physical function");
            card.rename_representor("rep1", "absent");
            std::fs::write(card.sysfs().join("class/net/absent/phys_port_name"), "p7\n").unwrap();
            refused(&device(&card.address(1)), 100, "has no representor");
            card.function_has_link(2, None);
            refused(&device(&card.address(2)), 11, "has no link in the node's network namespace");
            // The kernel's pairs of links have no functions that it could give the address to.
            card.bind(2, "vfio-pci");
            refused(
                &device(&card.address(2)),
                100,
                "cannot set the MAC address of virtual function 2 of pf0",
            );
            // The node itself uses the function.
            for (uses, ends, reason) in [
                ("address add 192.0.2.7/24 dev vf0", "address flush dev vf0", "has the address 192.0.2.7/24"),
                (
                    "link set vf0 up\nroute add 198.51.100.0/24 dev vf0",
                    "link set vf0 down",
                    "has a route to 198.51.100.0/24",
                ),
                (
                    "link add bond type bridge\nlink set vf0 master bond",
                    "link del bond",
                    "is a part of another link",
                ),
                (
                    "link add storage link vf0 type macvlan\naddress add 192.0.2.7/24 dev storage",
                    "link del storage",
                    "carries link storage",
                ),
            ] {
                node.namespace().ip(uses).unwrap();
                refused(
                    &device(&card.address(0)),
                    11,
                    &format!("is used by the node itself: its link vf0 {reason}"),
                );
                node.namespace().ip(ends).unwrap();
            }
            // Whoever wrote the definition named the device.
            let annotate = |value: &str| {
                let annotation = format!("k8s.v1.cni.cncf.io/resourceName{value}");
                stage.kubectl(&["annotate", "net-attach-def", "blue", &annotation], "");
            };
            annotate("-");
            refused(&device(&card.address(0)), 7, "Definition default/blue has no annotation");
            annotate("=example.com/vf");
            argo.ip("link add net1 type veth peer name other").unwrap();
            let (_, said) = runtime.call_with("ADD", &device(&card.address(0)));
            assert!(
                said["msg"].as_str().unwrap().contains("cannot become net1: the pod has a link of this name"),
                "{said}"
            );
            argo.ip("link del net1").unwrap();
            runtime.succeeds("DEL");
            assert_eq!((card.links(), made_on(node)), (before.clone(), Vec::new()));

            // Another link has the function's name when it comes back: it must not take that for the function.
            runtime.succeeds_with("ADD", &device(&card.address(3)));
            node.namespace().ip("link add vf3 mtu 1234 type veth peer name other3").unwrap();
            card.function_has_link(3, None);
            runtime.succeeds_with("DEL", &device(&card.address(3)));
            assert_eq!(link_in(node.namespace(), "vf3")["mtu"], 1234);
            assert!(
                node.namespace().ip("link show net1").is_err(),
                "it must not keep the name that it had in the pod, which the pod may have chosen"
            );
            let moved = link_in(node.namespace(), "dev0");
            assert_eq!((&moved["link"], &moved["mtu"]), (&json!("rep3"), &json!(1500)));
            node.namespace().ip("link del vf3\nlink set dev0 name vf3").unwrap();
            let of_others = |links: Vec<String>| {
                links.into_iter().filter(|link| !link.contains("vf3")).collect::<Vec<_>>()
            };
            assert_eq!((of_others(card.links()), made_on(node)), (of_others(before), Vec::new()));
            let before = card.links();

            // The device plugin gives one function to two pods: the first one that comes has it.
            let (_ikaros_netns, ikaros) = stage.pod_on_blue("ikaros", 8);
            let codes = std::thread::scope(|scope| {
                let calls = [&runtime, &ikaros]
                    .map(|one| scope.spawn(|| one.call_with("ADD", &device(&card.address(0)))));
                calls.map(|call| call.join().unwrap())
            });
            let won: Vec<_> = codes.iter().map(|(code, _)| code).collect();
            assert!(won == [&0, &1] || won == [&1, &0], "{codes:?}");
            let (winner, loser, said) = match codes[0].0 {
                0 => (&runtime, &ikaros, &codes[1].1),
                _ => (&ikaros, &runtime, &codes[0].1),
            };
            assert_eq!(said["code"], 11, "{said}");
            card.rename_representor("rep0", &winner.link());
            let (_, said) = loser.call_with("ADD", &device(&card.address(0)));
            assert!(
                said["msg"]
                    .as_str()
                    .unwrap()
                    .contains(&format!("is in use by container {}", winner.container)),
                "{said}"
            );
            assert_eq!(said["code"], 11, "{said}");
            // Nothing of that touched the one that has it.
            loser.succeeds_with("DEL", &device(&card.address(0)));
            winner.succeeds("CHECK");
            winner.succeeds("DEL");
            assert_eq!((card.links(), made_on(node)), (before, Vec::new()));
        })
        .await;
    });
}

#[test]
fn a_function_that_the_kernel_gives_back_gets_its_name_again() {
    Test::new().deadline(Duration::from_secs(300)).run(async |lab| {
        blocking(move || {
            let (mut stage, card) = stage_with_card(&lab, 1);
            let before = card.links();
            let function = device(&card.address(0));

            // DEL comes without a namespace, as after a restart of the node's runtime: nobody can tell where the function is.
            let (argo, runtime) = stage.pod_on_blue("argo", 7);
            runtime.succeeds_with("ADD", &function);
            let without = Runtime { netns: None, ..runtime.clone() };
            without.succeeds_with("DEL", &function);
            // A call that has the namespace brings it back, before it is answered.
            runtime.succeeds_with("DEL", &function);
            assert_eq!(card.links(), before);
            runtime.succeeds_with("ADD", &function);
            without.succeeds_with("DEL", &function);
            let node = &stage.testbed.nodes()[0];
            assert_eq!(ports(node), Vec::<String>::new());
            let representor = link_in(node.namespace(), &runtime.link());
            assert!(
                representor["ifalias"].as_str().unwrap().starts_with("portolan~0000:03:00.2/rep0:"),
                "{representor}"
            );
            without.succeeds_with("DEL", &function);
            // Until the namespace ends no other pod gets it.
            let (ikaros_netns, ikaros) = stage.pod_on_blue("ikaros", 8);
            card.rename_representor("rep0", &runtime.link());
            let (_, said) = ikaros.call_with("ADD", &function);
            assert_eq!(said["code"], 11, "{said}");
            assert!(
                said["msg"].as_str().unwrap().contains("has not come back from container cafe-argo yet"),
                "{said}"
            );

            // The kernel gives it back, while the agent is not there, under the name that it has in the pod.
            stage.stop_agents();
            let node = &stage.testbed.nodes()[0];
            let back = |netns: &Namespace, name: &str| {
                card.function_has_link(0, Some(name));
                netns
                    .ip(&format!("link set net1 netns {} name {name}", node.namespace().path().display()))
                    .unwrap();
            };
            back(&argo, "net1");
            stage.start_agents();
            let node = &stage.testbed.nodes()[0];
            wait_until(|| card.links() == before);
            assert_eq!(made_on(node), Vec::<String>::new());
            card.function_has_link(0, Some("vf0"));
            card.rename_representor(&runtime.link(), "rep0");

            // A namespace ends without DEL, and its pod is deleted.
            ikaros.succeeds_with("ADD", &function);
            let node = &stage.testbed.nodes()[0];
            card.function_has_link(0, Some("dev9"));
            ikaros_netns
                .ip(&format!("link set net1 netns {} name dev9", node.namespace().path().display()))
                .unwrap();
            wait_for_ports(node, 1);
            stage.kubectl(&["delete", "pod", "ikaros", "--force", "--grace-period=0"], "");
            wait_until(|| card.links() == before);
            wait_until(|| made_on(node).is_empty());
        })
        .await;
    });
}
