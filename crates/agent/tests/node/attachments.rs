//! Ports of the node itself, which `NetworkAttachment`s ask for.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Shutdown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use portolan_host::{Admits, GuardMonitor, LinkMonitor};
use portolan_testbed::{Namespace, Node, Test};
use serde_json::{Value, json};
use tokio::io::unix::AsyncFd;

use crate::guards::wait_for_guards;
use crate::health::get;
use crate::isolation::{Receiver, answers, mac_of, reaches, send};
use crate::stage::{Agents, Runtime, Stage, Stopped, blocking, made_on, wait_for_ports};

/// Uses an interface of the node as whoever asked for it would: with an address, and a table of routes of its own.
fn use_interface(node: &Namespace, link: &str, address: &str) {
    let table = 100 + u32::from(address.parse::<Ipv4Addr>().unwrap().octets()[3]);
    node.ip(&format!(
        "address add {address}/32 dev {link}\nroute add 10.0.0.0/24 dev {link} table {table}\n\
         rule add from {address} lookup {table}"
    ))
    .unwrap();
}

/// Waits until an address answers what an interface of the node asks.
fn reaches_by(node: &Namespace, link: &str, address: &str) {
    node.command("ping").args(["-c1", "-w10", "-i0.05", "-I", link, address]).read().unwrap();
}

/// Waits until something of the links of a node, or of their guards, is as it should be.
pub(crate) fn wait_for_links(node: &Node, is: impl Fn(&Node) -> bool) {
    let (links, guards) =
        node.namespace().run(|| (LinkMonitor::open().unwrap(), GuardMonitor::open().unwrap()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        #[expect(deprecated, reason = "its successor is unsafe")]
        let (links, guards) = (AsyncFd::new(links).unwrap(), AsyncFd::new(guards).unwrap());
        while !is(node) {
            tokio::select! {
                ready = links.readable() => drop(ready.unwrap().try_io(|links| links.get_ref().read())),
                ready = guards.readable() => drop(ready.unwrap().try_io(|guards| guards.get_ref().read())),
            }
        }
    });
}

fn shown(node: &Node, link: &str) -> String {
    node.command("ip").args(["-d", "-o", "link", "show", link]).read().unwrap()
}

fn status(stage: &Stage, name: &str) -> Value {
    let object = stage.kubectl(&["get", "pna", name, "-o", "json"], "");
    serde_json::from_str::<Value>(&object).unwrap()["status"].clone()
}

#[test]
fn interfaces_of_two_nodes_reach_each_other_and_a_pod_and_say_what_they_are() {
    Test::new().deadline(Duration::from_secs(300)).run(async |lab| {
        blocking(move || {
            let stage = Stage::start(&lab, 2, Agents::default());
            let [one, two] = stage.testbed.nodes() else { panic!("two nodes") };
            let uids = [stage.attachment("left", "node1", None), stage.attachment("right", "node2", None)];
            // Nobody has given it an address: it says so if that lasts.
            let said = stage.ready_reason("left", "NotAddressed");
            assert_eq!(said, "it has no addresses that are in effect; see the condition Addressed");
            stage.address("node1", &[("left", &uids[0], 21)]);
            stage.address("node2", &[("right", &uids[1], 22)]);
            let links = [stage.ready("left"), stage.ready("right")];

            let says = status(&stage, "left");
            assert_eq!(says["hostIP"], one.address().to_string());
            assert_eq!(says["interface"], links[0]);
            assert!(says.get("address").is_none(), "that is the controller's to say");
            let link = shown(one, &links[0]);
            for part in ["mtu 1400", "0a:58:0a:00:00:15", ",UP", "portolan-holder NetworkAttachment"] {
                assert!(link.contains(part), "{part}: {link}");
            }
            assert_eq!(one.command("ip").args(["-o", "address", "show", &links[0]]).read().unwrap(), "");

            use_interface(one.namespace(), &links[0], "10.0.0.21");
            use_interface(two.namespace(), &links[1], "10.0.0.22");
            reaches_by(one.namespace(), &links[0], "10.0.0.22");
            reaches_by(two.namespace(), &links[1], "10.0.0.21");
            let uid = stage.pod("argo", "node1");
            stage.assign("argo", &uid, "node1", 7);
            let netns = one.namespace().network_beside("argo").unwrap();
            let argo = Runtime::new(one, "cafe01", "argo", &uid, &netns);
            argo.succeeds("ADD");
            reaches_by(two.namespace(), &links[1], "10.0.0.7");
            reaches(&netns, "10.0.0.22".parse().unwrap());
            argo.succeeds("CHECK");
            argo.succeeds("DEL");
        })
        .await;
    });
}

#[test]
fn a_tenant_reaches_an_interface_of_the_node_by_its_own_address_and_nothing_else_of_the_node() {
    Test::new().deadline(Duration::from_secs(300)).run(async |lab| {
        blocking(move || {
            let mut stage = Stage::start(&lab, 1, Agents::default());
            let node = &stage.testbed.nodes()[0];
            // The tenant's network contains the node's own addresses, and one interface even has one of them in OVN.
            node.namespace()
                .ip("address add 10.0.0.200/24 dev br-und\naddress add fd00::200/64 dev br-und nodad")
                .unwrap();
            // It forwards, to a host behind it too.
            let beyond = node.namespace().network_beside("beyond").unwrap();
            node.namespace().veth("to-beyond", &beyond, "eth0").unwrap();
            node.namespace().ip("address add 203.0.113.1/24 dev to-beyond\nlink set to-beyond up").unwrap();
            beyond.ip("address add 203.0.113.2/24 dev eth0\nlink set eth0 up").unwrap();
            node.command("sysctl").args(["-qw", "net.ipv4.ip_forward=1"]).read().unwrap();
            let uids = [stage.attachment("front", "node1", None), stage.attachment("same", "node1", None)];
            stage.address("node1", &[("front", &uids[0], 21), ("same", &uids[1], 200)]);
            let [front, same] = [stage.ready("front"), stage.ready("same")];
            let uid = stage.pod("argo", "node1");
            stage.assign("argo", &uid, "node1", 7);
            let pod = node.namespace().network_beside("argo").unwrap();
            let argo = Runtime::new(node, "cafe01", "argo", &uid, &pod);
            argo.succeeds("ADD");
            use_interface(node.namespace(), &front, "10.0.0.21");
            // Whatever it thinks of where that comes from.
            for link in ["all", &front] {
                let setting = format!("net.ipv4.conf.{link}.rp_filter=0");
                node.command("sysctl").args(["-qw", &setting]).read().unwrap();
            }
            pod.ip("route add 203.0.113.0/24 dev eth0").unwrap();
            let far: [IpAddr; 1] = ["203.0.113.2".parse().unwrap()];

            let own: [IpAddr; 2] = ["10.0.0.200".parse().unwrap(), "fd00::200".parse().unwrap()];
            let its: IpAddr = "10.0.0.21".parse().unwrap();
            let macs = |node: &Node| [mac_of(node.namespace(), &front), mac_of(node.namespace(), &same)];
            let apart = |node: &Node| {
                let receives = Receiver::at(node.namespace(), &own);
                let hears = Receiver::at(node.namespace(), &[its]);
                // Whoever asks for the node's address hears the interface that has it in OVN, and gets no further.
                assert!(!answers(&pod, own[0]), "the node answers a pod");
                for mac in macs(node) {
                    send(&pod, "eth0", &own, &mac, "from the pod");
                }
                // Nor does the node forward what it is sent.
                let forwarded = Receiver::at(&beyond, &far);
                send(&pod, "eth0", &far, &macs(node)[0], "from the pod");
                // What is sent after all that arrives: what was sent before has passed its link.
                while hears.received().is_empty() {
                    send(&pod, "eth0", &[its], &macs(node)[0], "from the pod");
                    reaches(&pod, its);
                }
                assert_eq!(receives.received(), Vec::<String>::new(), "the node received what a pod sent");
                assert_eq!(forwarded.received(), Vec::<String>::new(), "the node forwarded what a pod sent");
            };
            apart(node);

            // Without guards, and nobody to make them again, the node hears the pod and forwards what it sends: so the test would notice.
            stage.stop_agents();
            let node = &stage.testbed.nodes()[0];
            node.command("nft").args(["flush", "ruleset"]).read().unwrap();
            for (at, to) in [(node.namespace(), &own[..1]), (&beyond, &far[..])] {
                let receives = Receiver::at(at, to);
                while receives.received().is_empty() {
                    send(&pod, "eth0", to, &macs(node)[0], "from the pod");
                    reaches(&pod, its);
                }
            }

            // An agent that starts makes them again, and one that runs does too.
            let monitor = node.namespace().run(GuardMonitor::open).unwrap();
            stage.start_agents();
            let links = [front.clone(), same.clone()];
            wait_for_guards(monitor, &links, Admits::OwnAddresses);
            // Nor does it take one away whose link has somebody else's note.
            stage.stop_agents();
            let node = &stage.testbed.nodes()[0];
            node.namespace().ip(&format!("link set {front} alias storage")).unwrap();
            stage.start_agents();
            let node = &stage.testbed.nodes()[0];
            wait_for_links(node, |node| shown(node, &front).contains("portolan-holder NetworkAttachment"));
            let node = &stage.testbed.nodes()[0];
            apart(node);
            let monitor = node.namespace().run(GuardMonitor::open).unwrap();
            node.command("nft").args(["flush", "ruleset"]).read().unwrap();
            wait_for_guards(monitor, &links, Admits::OwnAddresses);
            apart(node);
            // A chain that has lost its rules lets nothing through, and is no guard of such an interface.
            let missed = |node: &Node| {
                let (_, metrics) = get(node, "/metrics");
                let line =
                    metrics.lines().find_map(|line| line.strip_prefix("portolan_agent_guards_missed_total "));
                line.unwrap().parse::<u32>().unwrap()
            };
            let (before, monitor) = (missed(node), node.namespace().run(GuardMonitor::open).unwrap());
            node.command("nft").args(["flush", "table", "netdev", "portolan"]).read().unwrap();
            wait_for_guards(monitor, &links, Admits::OwnAddresses);
            reaches(&pod, its);
            assert_eq!(missed(node), before + 2);
            argo.succeeds("DEL");
        })
        .await;
    });
}

#[test]
fn a_port_of_the_node_is_made_again_whatever_becomes_of_it_and_goes_with_its_object() {
    Test::new().deadline(Duration::from_secs(300)).run(async |lab| {
        blocking(move || {
            let mut stage = Stage::start(&lab, 1, Agents::default());
            let node = &stage.testbed.nodes()[0];
            let uid = stage.attachment("front", "node1", None);
            // Of another node's and of none this one makes nothing.
            stage.attachment("elsewhere", "node2", None);
            stage.address("node1", &[("front", &uid, 21)]);
            let link = stage.ready("front");
            wait_for_ports(node, 1);

            // Somebody sets it down, loosens its settings, removes its port, its link, and the program that carries it.
            let is_up = |node: &Node| shown(node, &link).contains(",UP");
            node.namespace().ip(&format!("link set {link} down")).unwrap();
            wait_for_links(node, is_up);
            let settings = format!("/proc/sys/net/ipv4/conf/{link}/arp_ignore");
            let path = settings.clone();
            node.namespace().run(move || std::fs::write(path, "0")).unwrap();
            node.namespace().ip(&format!("link set {link} down")).unwrap();
            wait_for_links(node, |node| {
                let path = settings.clone();
                node.namespace().run(move || std::fs::read_to_string(path)).unwrap() == "1\n"
            });
            wait_for_links(node, is_up);
            node.vsctl(&["del-port", "br-int", &link]).unwrap();
            node.vsctl(&["wait-until", "Interface", &link, "external_ids:ovn-installed=true"]).unwrap();
            wait_for_links(node, |node| {
                node.namespace().ip(&format!("link show {link}")).is_ok() && is_up(node)
            });
            node.vsctl(&["set", "Interface", &link, "mtu_request=1300", "external_ids:iface-id=other"])
                .unwrap();
            let iface_id = format!("external_ids:iface-id=\"port:default/front/attachment/{}\"", &uid[..8]);
            node.vsctl(&["wait-until", "Interface", &link, &iface_id]).unwrap();
            node.vswitchd().kill().unwrap();
            node.vswitchd().restart().unwrap();
            use_interface(node.namespace(), &link, "10.0.0.21");
            let other = stage.attachment("other", "node1", None);
            stage.address("node1", &[("other", &other, 22)]);
            let second = stage.ready("other");
            stage.ready("front");
            let pod = stage.pod("argo", "node1");
            stage.assign("argo", &pod, "node1", 7);
            let netns = node.namespace().network_beside("argo").unwrap();
            let argo = Runtime::new(node, "cafe01", "argo", &pod, &netns);
            argo.succeeds("ADD");
            reaches_by(node.namespace(), &link, "10.0.0.7");
            argo.succeeds("DEL");

            // It is deleted and made again under its name: another interface, and nothing of the first stays.
            stage.kubectl(&["delete", "pna", "front"], "");
            let again = stage.attachment("front", "node1", None);
            stage
                .testbed
                .central()
                .nbctl(&["lsp-del", &format!("port:default/front/attachment/{}", &uid[..8])])
                .unwrap();
            stage.address("node1", &[("front", &again, 23)]);
            let third = stage.ready("front");
            assert_ne!(third, link);
            wait_for_links(node, |node| node.namespace().ip(&format!("link show {link}")).is_err());

            // It is deleted while the agent is down; and a link without a port is left of what Open vSwitch lost.
            stage.stop_agents();
            let node = &stage.testbed.nodes()[0];
            stage.kubectl(&["delete", "pna", "front", "other"], "");
            node.vswitchd().kill().unwrap();
            node.vsctl(&["--no-wait", "del-port", "br-int", &second]).unwrap();
            node.vswitchd().restart().unwrap();
            assert!(node.namespace().ip(&format!("link show {second}")).is_ok(), "it is left");
            stage.start_agents();
            let node = &stage.testbed.nodes()[0];
            wait_for_links(node, |node| made_on(node).is_empty());
        })
        .await;
    });
}

#[test]
fn an_interface_that_is_moved_to_another_namespace_works_there_and_can_be_made_again() {
    Test::new().deadline(Duration::from_secs(300)).run(async |lab| {
        blocking(move || {
            let mut stage = Stage::start(&lab, 1, Agents::default());
            let node = &stage.testbed.nodes()[0];
            let uid = stage.attachment("front", "node1", None);
            stage.address("node1", &[("front", &uid, 21)]);
            let front = stage.ready("front");
            let pod_uid = stage.pod("argo", "node1");
            stage.assign("argo", &pod_uid, "node1", 7);
            let pod = node.namespace().network_beside("argo").unwrap();
            let argo = Runtime::new(node, "cafe01", "argo", &pod_uid, &pod);
            argo.succeeds("ADD");

            let own = node.namespace().network_beside("own").unwrap();
            node.namespace().ip(&format!("link set {front} netns {}", own.path().display())).unwrap();
            own.ip(&format!("link set {front} up\naddress add 10.0.0.21/24 dev {front}")).unwrap();
            reaches(&own, "10.0.0.7".parse().unwrap());
            reaches(&pod, "10.0.0.21".parse().unwrap());
            let said = stage.ready_reason("front", "NotInNodeNamespace");
            assert!(said.contains(&format!("remove port {front} from Open vSwitch")), "{said}");
            // An agent that starts leaves it where it is.
            stage.stop_agents();
            stage.start_agents();
            let node = &stage.testbed.nodes()[0];
            argo.succeeds("CHECK");
            assert!(node.namespace().ip(&format!("link show {front}")).is_err());
            reaches(&own, "10.0.0.7".parse().unwrap());

            // However late ovs-vswitchd sees that the port is gone: one that was added before would be to it the one that it has.
            let stopped = Stopped::vswitchd(node);
            let raised =
                format!("next_cfg>{}", node.vsctl(&["get", "Open_vSwitch", ".", "next_cfg"]).unwrap());
            own.ip(&format!("link del {front}")).unwrap();
            node.vsctl(&["--no-wait", "del-port", "br-int", &front]).unwrap();
            node.vsctl(&["wait-until", "Open_vSwitch", ".", &raised]).unwrap();
            let ports = node.vsctl(&["list-ports", "br-int"]).unwrap();
            assert!(!ports.contains(&front), "{ports}");
            drop(stopped);
            stage.ready_reason("front", "InEffect");
            let shown = shown(node, &front);
            assert!(shown.contains(",UP") && shown.contains("portolan-holder NetworkAttachment"), "{shown}");
            use_interface(node.namespace(), &front, "10.0.0.21");
            reaches(&pod, "10.0.0.21".parse().unwrap());
            argo.succeeds("DEL");
        })
        .await;
    });
}

#[test]
fn while_open_vswitch_cannot_be_reached_nobody_says_that_an_interface_is_ready() {
    Test::new().deadline(Duration::from_secs(300)).run(async |lab| {
        blocking(move || {
            let mut stage = Stage::start(&lab, 1, Agents::default());
            // The node's own traffic goes through Open vSwitch here, so it is the agent's connection that is cut and not the database's end.
            stage.stop_agents();
            let directory = stage.testbed.nodes()[0].run_directory();
            let connections =
                Connections::between(&directory.join("openvswitch/db.sock"), directory.join("cut.sock"));
            stage.settings.ovsdb = Some(directory.join("cut.sock"));
            stage.start_agents();
            let uids = [stage.attachment("front", "node1", None), stage.attachment("back", "node1", None)];
            stage.address("node1", &[("front", &uids[0], 21)]);
            let front = stage.ready("front");
            connections.cut();
            // What is asked for meanwhile cannot be sent, which is no fault of the interface's.
            stage.address("node1", &[("back", &uids[1], 22)]);
            for name in ["front", "back"] {
                stage.ready_reason(name, "OpenVSwitchUnreachable");
                let status = status(&stage, name);
                let conditions = status["conditions"].as_array().unwrap();
                let ready = conditions.iter().find(|condition| condition["type"] == "Ready").unwrap();
                assert_eq!(ready["status"], "Unknown", "{name}: {status}");
            }
            assert_eq!(status(&stage, "front")["interface"], front, "what was said of it stays");
            let events = ["get", "events", "--field-selector=reason=InterfaceFailed", "-o=name"];
            assert_eq!(stage.kubectl(&events, ""), "");
            connections.allow();
            for name in ["front", "back"] {
                stage.ready_reason(name, "InEffect");
            }
        })
        .await;
    });
}

/// A socket in the place of another one, whose connections can be cut.
struct Connections(Arc<Mutex<(Allowed, Vec<UnixStream>)>>);

#[derive(Clone, Copy, PartialEq)]
enum Allowed {
    Yes,
    No,
}

impl Connections {
    fn between(server: &Path, socket: PathBuf) -> Self {
        let listener = UnixListener::bind(socket).unwrap();
        let state = Arc::new(Mutex::new((Allowed::Yes, Vec::new())));
        let (shared, server) = (Arc::clone(&state), server.to_owned());
        // Both end with the process.
        std::thread::spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                let mut state = shared.lock().unwrap();
                if state.0 == Allowed::No {
                    continue;
                }
                let to_server = UnixStream::connect(&server).unwrap();
                for (from, to) in [(&client, &to_server), (&to_server, &client)] {
                    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    std::thread::spawn(move || drop(std::io::copy(&mut from, &mut to)));
                }
                state.1.extend([client, to_server]);
            }
        });
        Self(state)
    }

    fn cut(&self) {
        let mut state = self.0.lock().unwrap();
        state.0 = Allowed::No;
        state.1.drain(..).for_each(|connection| connection.shutdown(Shutdown::Both).unwrap());
    }

    fn allow(&self) {
        self.0.lock().unwrap().0 = Allowed::Yes;
    }
}

#[test]
fn what_makes_no_sense_is_refused_with_the_field_and_what_stands_in_the_way_is_said() {
    Test::new().deadline(Duration::from_secs(300)).run(async |lab| {
        blocking(move || {
            let stage = Stage::start(&lab, 1, Agents::default());
            let refusal = |spec: Value| {
                let object = json!({ "apiVersion": "portolan.dev/v1alpha1", "kind": "NetworkAttachment",
                    "metadata": { "name": "wrong", "namespace": "default" }, "spec": spec });
                let kubectl = stage.testbed.kubectl().unwrap().args(["apply", "-f", "-"]);
                let output = kubectl.stdin(object.to_string()).output().unwrap();
                assert!(!output.status.success(), "{object}");
                String::from_utf8_lossy(&output.stderr).into_owned()
            };
            let with = |key: &str, value: Value| {
                let mut spec = json!({ "node": "node1", "subnet": "sea" });
                spec[key] = value;
                spec
            };
            for (spec, field) in [
                (with("node", json!(7)), "spec.node"),
                (with("node", json!("")), "spec.node"),
                (with("subnet", json!("x".repeat(300))), "spec.subnet"),
                (with("address", json!("10.0.0.300")), "spec.address"),
                (with("mac", json!("$(reboot)")), "spec.mac"),
                (with("tap", json!(true)), "spec.tap"),
                (with("tap", json!({ "user": -1 })), "spec.tap.user"),
                (with("tap", json!({ "user": 4_294_967_295_u32 })), "spec.tap.user"),
                (with("tap", json!({ "group": "kvm" })), "spec.tap.group"),
            ] {
                let said = refusal(spec);
                assert!(said.contains(field), "{field}: {said}");
            }
            // What no schema can tell.
            let object = json!({ "apiVersion": "portolan.dev/v1alpha1", "kind": "NetworkAttachment",
                "metadata": { "name": "odd", "namespace": "default" },
                "spec": { "node": "node1", "subnet": "Sea_1" } });
            stage.apply(&object);
            let said = stage.ready_reason("odd", "InvalidSpec");
            assert!(said.starts_with("spec.subnet: "), "{said}");

            // Something else has the name of the link: Open vSwitch says so, and so does the object; and no other notices.
            let (uid, good) =
                (stage.attachment("late", "node1", None), stage.attachment("good", "node1", None));
            let link = portolan_plan::host::LinkName::of_attachment(&uid);
            let node = &stage.testbed.nodes()[0];
            node.namespace().ip(&format!("link add {link} type veth peer name other")).unwrap();
            stage.address("node1", &[("late", &uid, 21), ("good", &good, 22)]);
            stage.ready("good");
            let said = stage.ready_reason("late", "InterfaceFailed");
            assert!(said.contains(link.as_str()), "{said}");
            let events = ["get", "events", "--field-selector=reason=InterfaceFailed", "-o=name"];
            assert_eq!(stage.kubectl(&events, "").lines().count(), 1, "it is told once");
            node.namespace().ip("link del other").unwrap();
            // ovs-vswitchd tries again when links of the node change.
            stage.ready("late");
        })
        .await;
    });
}

#[test]
fn a_node_with_many_interfaces_plans_one_for_a_change_of_one_and_writes_no_status_twice() {
    Test::new().deadline(Duration::from_secs(600)).run(async |lab| {
        blocking(move || {
            const COUNT: u8 = 200;
            let mut stage = Stage::start(&lab, 1, Agents::default());
            let node = &stage.testbed.nodes()[0];
            let names: Vec<_> = (0..COUNT).map(|number| format!("port{number}")).collect();
            let items = names.iter().map(|name| {
                json!({ "apiVersion": "portolan.dev/v1alpha1", "kind": "NetworkAttachment",
                    "metadata": { "name": name, "namespace": "default" }, "spec": { "node": "node1", "subnet": "sea" } })
            });
            stage.apply(&json!({ "apiVersion": "v1", "kind": "List", "items": items.collect::<Vec<_>>() }));
            let uids = stage.kubectl(
                &["get", "pna", "-o=jsonpath={range .items[*]}{.metadata.name} {.metadata.uid}{\"\\n\"}{end}"],
                "",
            );
            let uids: BTreeMap<_, _> =
                uids.lines().filter_map(|line| line.split_once(' ')).collect();
            let all = names.iter().zip(20..).map(|(name, last)| {
                (name.as_str(), uids[name.as_str()], last)
            });
            stage.address("node1", &all.collect::<Vec<_>>());
            wait_for_ports(node, COUNT.into());
            stage.kubectl(&["wait", "--for=condition=Ready", "--timeout=120s", "pna", "--all"], "");

            let planned = || -> u64 {
                let (_, metrics) = get(node, "/metrics");
                let line = metrics.lines().find(|line| line.starts_with("portolan_agent_units_planned_total "));
                line.unwrap().rsplit(' ').next().unwrap().parse().unwrap()
            };
            let before = planned();
            let gone = stage.ready("port7");
            stage.kubectl(&["delete", "pna", "port7"], "");
            wait_for_ports(node, usize::from(COUNT) - 1);
            wait_for_links(node, |node| node.namespace().ip(&format!("link show {gone}")).is_err());
            let for_one = planned() - before;
            println!("{for_one} plans for the end of one of {COUNT} interfaces, {before} for the making of all");
            assert!(for_one <= 20, "{for_one}");
            assert!(before <= u64::from(COUNT) * 20, "{before}");

            let writes = |stage: &Stage| {
                let log = std::fs::read_to_string(stage.testbed.api().audit_log().unwrap()).unwrap();
                let requests = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
                let mut writes = BTreeMap::<String, usize>::new();
                for request in requests {
                    let object = &request["objectRef"];
                    if request["verb"] == "patch" && object["resource"] == "networkattachments" {
                        *writes.entry(object["name"].as_str().unwrap().to_owned()).or_default() += 1;
                    }
                }
                writes
            };
            let before = writes(&stage);
            println!("{} status writes", before.values().sum::<usize>());
            // One when it is ready; and one for each of the three things that it waits for, where that takes long.
            assert!(before.values().all(|writes| (1..=4).contains(writes)), "{before:?}");
            // An agent that starts again writes nothing of those that are there.
            stage.stop_agents();
            stage.start_agents();
            let uid = stage.attachment("witness", "node1", None);
            stage.address("node1", &[("witness", &uid, 240)]);
            stage.ready("witness");
            let mut after = writes(&stage);
            assert!(after.remove("witness").is_some());
            assert_eq!(after, before);
        })
        .await;
    });
}
