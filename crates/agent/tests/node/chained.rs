//! Beside another plugin that makes the first interface.

use std::thread;
use std::time::Duration;

use portolan_host::LinkMonitor;
use portolan_testbed::{Namespace, Node, Test};
use serde_json::{Value, json};

use crate::interfaces::assert_routes_of_networks;
use crate::plugged::primary;
use crate::stage::{Agents, Runtime, Stage, blocking, made_on, wait_for_link, wait_for_ports};

const LAYER3: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/harvester/layer3.yaml");

/// A pod's namespace with the first interface that another plugin made.
pub(crate) fn first_interface(node: &Node, name: &str) -> Namespace {
    let netns = node.namespace().network_beside(name).unwrap();
    netns.ip("link add eth0 type veth peer name eth0-host\nlink set eth0 up\nlink set eth0-host up").unwrap();
    netns.ip("address add 10.244.1.7/24 dev eth0\nroute add default via 10.244.1.1").unwrap();
    netns
}

/// The network configuration of a plugin chained after another, with the other's result.
pub(crate) fn further() -> Value {
    json!({ "interfaces": "further", "prevResult": { "cniVersion": "1.1.0",
        "interfaces": [{ "name": "eth0", "mac": "02:00:00:00:00:07", "sandbox": "/proc/1/ns/net" }],
        "ips": [{ "address": "10.244.1.7/24", "interface": 0 }] } })
}

fn way_to(netns: &Namespace, address: &str) -> String {
    let answer = netns.command("ip").args(["route", "get", address]).read().unwrap();
    answer.split_whitespace().skip_while(|word| *word != "dev").nth(1).unwrap().to_owned()
}

fn ping(netns: &Namespace, from: &[&str], to: &str) {
    netns.command("ping").args(["-c1", "-w10", "-i0.05"]).args(from).arg(to).read().unwrap();
}

#[test]
fn pods_that_need_nothing_pass_and_requests_that_cannot_be_met_end_with_the_reason() {
    Test::new().deadline(Duration::from_secs(240)).run(async |lab| {
        blocking(move || {
            let stage =
                Stage::start(&lab, 1, Agents { deadline: Duration::from_secs(60), ..Agents::default() });
            let node = &stage.testbed.nodes()[0];
            stage.nad("macvlan", r#"{"cniVersion":"0.3.1","name":"macvlan","type":"macvlan"}"#);
            stage.nad("blue", r#"{"cniVersion":"1.0.0","name":"blue","type":"portolan-cni"}"#);
            stage.subnet("blue", "10.1.0.0/24", "aegean", Some("blue.default.ovn"));
            let networks = "k8s.v1.cni.cncf.io/networks";
            let nothing = [
                ("plain", json!({})),
                ("foreign", json!({ networks: "macvlan" })),
                ("empty", json!({ networks: "" })),
                ("address", json!({ "ovn.kubernetes.io/ip_address": "10.0.0.9" })),
            ];
            for (name, annotations) in nothing {
                let uid = stage.pod_with(name, "node1", &annotations);
                let netns = first_interface(node, name);
                let runtime = Runtime::new(node, name, name, &uid, &netns);
                let result = runtime.succeeds_with("ADD", &further());
                assert_eq!(result["ips"], further()["prevResult"]["ips"], "{name}");
                // The runtime passes the result of the whole chain.
                let whole = json!({ "interfaces": "further", "prevResult": result });
                runtime.succeeds_with("CHECK", &whole);
                runtime.succeeds_with("DEL", &whole);
            }

            // Once the kubelet has reported the pod's addresses, its owner is told of the network that nobody made. Not so where another
            // plugin has made it before, or Multus has written what it made.
            let reported = json!({ "status": { "podIP": "10.244.1.7", "podIPs": [{ "ip": "10.244.1.7" }] } }).to_string();
            let status = "k8s.v1.cni.cncf.io/network-status";
            let add = |name: &str, previous: &str| {
                let uid = stage.pod_with(name, "node1", &json!({ networks: "macvlan" }));
                let netns = first_interface(node, name);
                let mut config = further();
                let interfaces = config["prevResult"]["interfaces"].as_array_mut().unwrap();
                interfaces.push(json!({ "name": previous }));
                Runtime::new(node, name, name, &uid, &netns).succeeds_with("ADD", &config);
                uid
            };
            let (before, multus, told) = (add("before", "net1"), add("multus", "veth1"), add("told", "veth1"));
            stage.kubectl(&["annotate", "pod", "multus", &format!("{status}=[]")], "");
            for pod in ["before", "multus", "told"] {
                stage.kubectl(&["patch", "pod", pod, "--subresource=status", "--type=merge", "-p", &reported], "");
            }
            let event = |pod: &str, uid: &str| format!("event/{pod}.default.macvlan.{uid}");
            stage.kubectl(&["wait", "--for=create", "--timeout=60s", &event("told", &told)], "");
            let events = stage.kubectl(&["get", "events", "-o", "name"], "");
            assert!(!events.contains(&event("before", &before)) && !events.contains(&event("multus", &multus)), "{events}");
            let shown = stage.kubectl(&["get", &event("told", &told), "-o", "jsonpath={.reason} {.message}"], "");
            let said = "NetworkNotHandled network attachment definition default/macvlan is of plugin macvlan, and nothing on node node1 \
                        has created interface net1: install Multus";
            assert!(shown.starts_with(said), "{shown}");

            // The same where Portolan makes the first interface too. A definition that is named twice is told of once.
            let alone = stage.pod_with("alone", "node1", &json!({ networks: "macvlan,macvlan" }));
            stage.assign("alone", &alone, "node1", 9);
            let netns = node.namespace().network_beside("alone").unwrap();
            let runtime = Runtime::new(node, "alone", "alone", &alone, &netns);
            // Until the agent has seen the locks, a pod whose first interface is another plugin's asks for nothing.
            let mut adds = std::iter::repeat_with(|| runtime.call("ADD"));
            adds.find(|(code, _)| *code == 0).unwrap();
            stage.kubectl(&["patch", "pod", "alone", "--subresource=status", "--type=merge", "-p", &reported], "");
            stage.kubectl(&["wait", "--for=create", "--timeout=60s", &event("alone", &alone)], "");
            let shown = stage.kubectl(&["get", &event("alone", &alone), "-o", "jsonpath={.message}"], "");
            assert!(shown.contains("has created interface net1 and net2: install Multus"), "{shown}");
            runtime.succeeds("DEL");
            // Not so in a call for one definition, which comes from Multus.
            let delegate = stage.pod_with("delegate", "node1", &json!({ networks: "blue,macvlan" }));
            stage.assign_further("delegate", &delegate, "node1", ("blue", "aegean"), ("net1", "10.1.0.7"));
            let netns = first_interface(node, "delegate");
            let runtime = Runtime::new(node, "delegate", "delegate", &delegate, &netns);
            let runtime = Runtime { interface: "net1".into(), ..runtime };
            runtime.succeeds_with("ADD", &json!({ "name": "blue" }));
            stage.kubectl(&["patch", "pod", "delegate", "--subresource=status", "--type=merge", "-p", &reported], "");
            runtime.succeeds_with("DEL", &json!({ "name": "blue" }));
            let last = add("last", "veth1");
            stage.kubectl(&["patch", "pod", "last", "--subresource=status", "--type=merge", "-p", &reported], "");
            stage.kubectl(&["wait", "--for=create", "--timeout=60s", &event("last", &last)], "");
            let events = stage.kubectl(&["get", "events", "-o", "name"], "");
            assert!(!events.contains(&event("delegate", &delegate)), "{events}");
            assert_eq!(events.matches("event/alone.").count(), 1, "{events}");

            // What the pod asks for cannot be: the error says where and why.
            let uid = stage.pod_with("typo", "node1", &json!({ networks: "[{\"name\": 7}]" }));
            let netns = first_interface(node, "typo");
            let (code, said) = Runtime::new(node, "typo", "typo", &uid, &netns).call_with("ADD", &further());
            assert_eq!((code, &said["code"]), (1, &json!(7)), "{said}");
            assert!(said["details"].as_str().unwrap().contains(networks), "{said}");

            // A pod that waits is deleted: its ADD ends.
            let uid = stage.pod_with("waits", "node1", &json!({ networks: "missing" }));
            let netns = first_interface(node, "waits");
            let runtime = Runtime::new(node, "waits", "waits", &uid, &netns);
            let add = thread::spawn(move || runtime.call_with("ADD", &further()));
            stage.kubectl(&["delete", "pod", "waits", "--wait=false"], "");
            let (code, said) = add.join().unwrap();
            assert_eq!(code, 1, "{said}");
            assert!(said["msg"].as_str().unwrap().contains("pod default/waits is being deleted"), "{said}");
            // One that does not exist is not waited for.
            let netns = first_interface(node, "nobody");
            let (code, said) =
                Runtime::new(node, "nobody", "nobody", "7", &netns).call_with("ADD", &further());
            assert_eq!((code, &said["code"]), (1, &json!(3)), "{said}");
            assert_eq!(made_on(node), Vec::<String>::new());
        })
        .await;
    });
}

#[test]
fn while_the_agent_is_down_pods_that_ask_for_nothing_start_and_others_are_told_to_try_again() {
    Test::new().deadline(Duration::from_secs(240)).run(async |lab| {
        blocking(move || {
            let mut stage = Stage::start(&lab, 1, Agents::default());
            // As the documentation has it: the runtime passes the pod's annotations.
            let annotations = |annotations: Value| {
                let key = portolan_cni::annotations::CAPABILITY;
                let mut config = further();
                config["capabilities"] = json!({ key: true });
                config["runtimeConfig"] = json!({ key: annotations });
                config
            };
            let networks = json!({ "k8s.v1.cni.cncf.io/networks": "sea" });
            let plain = stage.pod_with("plain", "node1", &json!({}));
            let asks = stage.pod_with("asks", "node1", &networks);
            stage.stop_agents();
            let node = &stage.testbed.nodes()[0];
            let netns = first_interface(node, "plain");
            let runtime = Runtime::new(node, "plain", "plain", &plain, &netns);
            let result = runtime.succeeds_with("ADD", &annotations(json!({})));
            assert_eq!(result["ips"], further()["prevResult"]["ips"]);
            runtime.succeeds_with("DEL", &annotations(json!({})));
            let netns = first_interface(node, "asks");
            let runtime = Runtime::new(node, "asks", "asks", &asks, &netns);
            let (code, said) = runtime.call_with("ADD", &annotations(networks));
            assert_eq!((code, &said["code"]), (1, &json!(11)), "{said}");
            let text = said.to_string();
            assert!(text.contains("cannot be reached") && text.contains("cni.sock"), "{said}");
            assert_eq!(made_on(node), Vec::<String>::new());
        })
        .await;
    });
}

#[test]
fn an_add_that_lasts_too_long_names_what_is_missing() {
    Test::new().deadline(Duration::from_secs(240)).run(async |lab| {
        blocking(move || {
            let stage = Stage::start(&lab, 1, primary(5));
            let node = &stage.testbed.nodes()[0];
            let networks = json!({ "k8s.v1.cni.cncf.io/networks": "missing" });
            let uid = stage.pod_with("waits", "node1", &networks);
            let netns = first_interface(node, "waits");
            let runtime = Runtime::new(node, "waits", "waits", &uid, &netns);
            let details = |(code, said): (u8, Value)| {
                assert_eq!((code, &said["code"]), (1, &json!(11)), "{said}");
                said["details"].as_str().unwrap().to_owned()
            };
            let missing = details(runtime.call_with("ADD", &further()));
            assert!(missing.contains("network attachment definition default/missing"), "{missing}");

            // Without ovs-vswitchd nothing takes the port up.
            let uid = stage.pod("argo", "node1");
            stage.assign("argo", &uid, "node1", 7);
            node.vswitchd().kill().unwrap();
            let netns = node.namespace().network_beside("argo").unwrap();
            let argo = Runtime::new(node, "cafe01", "argo", &uid, &netns);
            let missing = details(argo.call("ADD"));
            assert!(missing.contains("is ovs-vswitchd running on this node?"), "{missing}");
            // Without its database the call is answered all the same, and undone when the database is back.
            node.vswitchd().restart().unwrap();
            node.ovn_controller().unwrap().kill().unwrap();
            let (links, add) = (node.namespace().run(LinkMonitor::open).unwrap(), argo.clone());
            let add = thread::spawn(move || add.call("ADD"));
            wait_for_link(links);
            node.ovsdb_server().kill().unwrap();
            let missing = details(add.join().unwrap());
            assert!(missing.contains("database of Open vSwitch"), "{missing}");
            node.ovsdb_server().restart().unwrap();
            wait_for_ports(node, 0);
            argo.succeeds("DEL");
            assert_eq!(made_on(node), Vec::<String>::new());
        })
        .await;
    });
}

#[test]
fn a_further_interface_takes_the_default_route_and_the_pod_shows_its_networks() {
    Test::new().deadline(Duration::from_secs(240)).run(async |lab| {
        blocking(move || {
            let networks = ["10.96.0.0/12", "fd96::/64"].map(|network| network.parse().unwrap()).into();
            let agents = Agents { deadline: Duration::from_secs(60), cluster_networks: networks, ..Agents::default() };
            let stage = Stage::start(&lab, 1, agents);
            let node = &stage.testbed.nodes()[0];
            // The example as it is shipped: the pod asks for `default-route`.
            stage.kubectl(&["apply", "-f", LAYER3], "");
            for subnet in ["vswitch1", "vswitch2"] {
                stage.validate("subnets.kubeovn.io", subnet);
            }
            let uid = stage.uid("vm1");
            stage.assign_further("vm1", &uid, "node1", ("vswitch1", "commonvpc"), ("net1", "172.20.0.7"));
            // Behind the first interface: another pod, a service and the node. Behind the further one: OVN's router, which has the
            // address of somebody far away.
            let netns = node.namespace().network_beside("vm1").unwrap();
            let primary = node.namespace().network_beside("primary").unwrap();
            let probes = node.address().to_string();
            netns.veth("eth0", &primary, "vm1").unwrap();
            netns.ip("address add 10.244.1.7/24 dev eth0\nroute add default via 10.244.1.1").unwrap();
            primary
                .ip(&format!(
                    "link set lo up\naddress add 10.244.1.1/24 dev vm1\naddress add 10.96.0.10/32 dev lo\n\
                     address add {probes}/32 dev lo"
                ))
                .unwrap();
            let router = ["lr-add", "far", "--", "lrp-add", "far", "to-vswitch1", "0a:58:ac:14:00:01"];
            let port = ["--", "lsp-add", "vswitch1", "from-far", "--", "lsp-set-type", "from-far", "router"];
            let peer = ["--", "lsp-set-addresses", "from-far", "router", "--", "lsp-set-options", "from-far"];
            let networks = ["172.20.0.1/16", "192.0.2.1/32"];
            let central = stage.testbed.central();
            central.nbctl(&[&router[..], &networks, &port, &peer, &["router-port=to-vswitch1"]].concat()).unwrap();
            let vm1 = Runtime::new(node, "cafe01", "vm1", &uid, &netns);
            assert_eq!(way_to(&netns, "192.0.2.1"), "eth0");
            let result = vm1.succeeds_with("ADD", &further());
            assert_eq!(result["interfaces"][2]["name"], "net1", "{result}");
            assert_eq!([way_to(&netns, "192.0.2.1"), way_to(&netns, "172.30.0.9")], ["net1", "net1"]);
            for address in ["192.0.2.1", "10.244.1.1", "10.96.0.10", &probes] {
                ping(&netns, &[], address);
            }
            // Who begins is answered on the way that it came: the kubelet's probes, and services.
            for from in ["10.244.1.1", "10.96.0.10", &probes] {
                ping(&primary, &["-I", from], "10.244.1.7");
            }

            // Once the kubelet has reported the pod's address, the agent shows all of its networks.
            let status = json!({ "status": { "podIP": "10.244.1.7", "podIPs": [{ "ip": "10.244.1.7" }] } }).to_string();
            stage.kubectl(&["patch", "pod", "vm1", "--subresource=status", "--type=merge", "-p", &status], "");
            let annotation = r"jsonpath={.metadata.annotations.k8s\.v1\.cni\.cncf\.io/network-status}";
            stage.kubectl(&["wait", "pod", "vm1", "--timeout=60s", &format!("--for={annotation}")], "");
            let shown = stage.kubectl(&["get", "pod", "vm1", "-o", annotation], "");
            let shown: Value = serde_json::from_str(&shown).unwrap();
            assert_eq!(
                shown,
                json!([
                    { "name": "portolan", "interface": "eth0", "ips": ["10.244.1.7"], "default": false, "dns": {} },
                    { "name": "default/vswitch1", "interface": "net1", "ips": ["172.20.0.7"],
                      "mac": "0a:58:ac:14:00:07", "default": true, "dns": {} },
                ])
            );
            vm1.succeeds_with("DEL", &further());
            assert_eq!(made_on(node), Vec::<String>::new());
            assert_routes_of_networks(&stage);
        })
        .await;
    });
}

#[test]
fn two_definitions_without_provider_are_served_one_call_each() {
    Test::new().deadline(Duration::from_secs(240)).run(async |lab| {
        blocking(move || {
            let stage =
                Stage::start(&lab, 1, Agents { deadline: Duration::from_secs(60), ..Agents::default() });
            let node = &stage.testbed.nodes()[0];
            for (name, cidr) in [("blue", "10.1.0.0/24"), ("red", "10.2.0.0/24")] {
                let config = json!({ "cniVersion": "1.0.0", "name": name, "type": "portolan-cni" });
                stage.nad(name, &config.to_string());
                stage.subnet(name, cidr, "aegean", Some(&format!("{name}.default.ovn")));
            }
            let uid = stage.pod_with("argo", "node1", &json!({ "k8s.v1.cni.cncf.io/networks": "blue,red" }));
            let decided = ["net1", "net2"];
            stage.assign_interface("argo", &uid, "node1", ("blue", "aegean"), ("net1", "10.1.0.7"), &decided);
            stage.assign_interface("argo", &uid, "node1", ("red", "aegean"), ("net2", "10.2.0.7"), &decided);
            let netns = first_interface(node, "argo");
            let argo = Runtime::new(node, "cafe01", "argo", &uid, &netns);
            // As Multus calls: each definition's configuration, one interface each.
            for (interface, name) in [("net1", "blue"), ("net2", "red")] {
                let one = Runtime { interface: interface.into(), ..argo.clone() };
                let result = one.succeeds_with("ADD", &json!({ "name": name }));
                let names: Vec<_> =
                    result["interfaces"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
                assert_eq!((names.len(), names[1]), (2, &json!(interface)), "{result}");
            }
            for (interface, name) in [("net1", "blue"), ("net2", "red")] {
                let one = Runtime { interface: interface.into(), ..argo.clone() };
                one.succeeds_with("CHECK", &json!({ "name": name }));
                one.succeeds_with("DEL", &json!({ "name": name }));
            }
            assert_eq!(made_on(node), Vec::<String>::new());
        })
        .await;
    });
}
