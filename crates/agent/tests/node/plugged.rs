//! Pods whose first interface is Portolan's.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use portolan_cni::Verb;
use portolan_host::LinkMonitor;
use portolan_model::FirstInterface;
use portolan_testbed::{Namespace, Test};
use serde_json::json;

use crate::stage::{Agents, Runtime, Stage, blocking, made_on, wait_for_link};

/// Agents of a cluster whose primary network is Portolan's.
pub(crate) fn primary(deadline: u64) -> Agents {
    let deadline = Duration::from_secs(deadline);
    Agents { deadline, first_interface: FirstInterface::Portolan, ..Agents::default() }
}

#[test]
fn pods_on_two_nodes_are_plugged_reach_each_other_and_leave_nothing() {
    Test::new().deadline(Duration::from_secs(180)).run(async |lab| {
        blocking(move || {
            // No call ends by its deadline.
            let stage = Stage::start(&lab, 2, primary(3600));
            let [one, two] = stage.testbed.nodes() else { panic!("two nodes") };
            let uids = [stage.pod("argo", "node1"), stage.pod("ikaros", "node2")];
            let netns = [one, two].map(|one| one.namespace().network_beside("pod").unwrap());
            let argo = Runtime::new(one, "cafe01", "argo", &uids[0], &netns[0]);
            let ikaros = Runtime::new(two, "cafe02", "ikaros", &uids[1], &netns[1]);

            // One call comes before its pod has addresses, the other after.
            let early = {
                let argo = argo.clone();
                thread::spawn(move || argo.succeeds("ADD"))
            };
            stage.assign("ikaros", &uids[1], "node2", 8);
            stage.assign("argo", &uids[0], "node1", 7);
            let result = early.join().unwrap();
            ikaros.succeeds("ADD");

            assert_eq!(result["interfaces"][1]["name"], "eth0");
            assert_eq!(result["interfaces"][1]["mac"], "0a:58:0a:00:00:07");
            assert_eq!(result["interfaces"][1]["mtu"], 1400);
            let sandbox = netns[0].path().display().to_string();
            assert_eq!(result["interfaces"][1]["sandbox"], sandbox);
            assert_eq!(
                result["ips"][0],
                json!({ "address": "10.0.0.7/24", "gateway": "10.0.0.1", "interface": 1 })
            );
            assert_eq!(result["ips"][1]["address"], "fd00::7/64");
            assert_eq!(result["routes"][0], json!({ "dst": "0.0.0.0/0", "gw": "10.0.0.1" }));

            for (netns, address) in [(&netns[0], "10.0.0.8"), (&netns[1], "10.0.0.7"), (&netns[0], "fd00::8")]
            {
                netns.command("ping").args(["-c1", "-w10", "-i0.05", address]).read().unwrap();
            }
            // Packets as large as there may be, whole: 1400 bytes with their headers.
            for (size, address) in [("-s1372", "10.0.0.8"), ("-s1352", "fd00::8")] {
                netns[0].command("ping").args(["-c1", "-w10", "-Mdo", size, address]).read().unwrap();
            }
            send_4_mib(&netns[0], &netns[1], "10.0.0.8:7000");
            argo.succeeds("CHECK");
            argo.succeeds("STATUS");
            let valid = json!([{ "containerID": "cafe01", "ifname": "eth0" }]);
            assert_eq!(argo.call_with("GC", &json!({ "cni.dev/valid-attachments": valid })).0, 0);
            argo.succeeds("CHECK");

            // What the agent knows is enough to make a pod's interfaces again; of another pod nobody can say when it is known.
            let (kimon, waits) = (stage.pod("kimon", "node1"), stage.pod("waits", "node1"));
            stage.assign("kimon", &kimon, "node1", 9);
            let beside = |name: &str| one.namespace().network_beside(name).unwrap();
            let (third, fourth) = (beside("third"), beside("fourth"));
            let kimon = Runtime::new(one, "cafe03", "kimon", &kimon, &third);
            kimon.succeeds("ADD");
            kimon.succeeds("DEL");
            stage.testbed.component("kube-apiserver").unwrap().kill().unwrap();
            kimon.succeeds("ADD");
            kimon.succeeds("CHECK");
            kimon.succeeds("DEL");
            for (name, uid, what) in
                [("waits", waits.as_str(), "pod default/waits"), ("new", "7", "was not seen")]
            {
                let (code, said) = Runtime::new(one, "cafe04", name, uid, &fourth).call("ADD");
                assert_eq!((code, &said["code"]), (1, &json!(11)), "{said}");
                assert!(said["msg"].as_str().unwrap().contains("the API server cannot be reached"), "{said}");
                assert!(said["details"].as_str().unwrap().contains(what), "{said}");
            }

            // DEL needs neither the API server nor the namespace.
            argo.succeeds("DEL");
            argo.succeeds("DEL");
            assert_eq!(made_on(one), Vec::<String>::new());
            assert_eq!(argo.call("CHECK").0, 1);
            assert!(!made_on(two).is_empty(), "the other node's is untouched");
            Runtime { netns: None, ..ikaros }.succeeds("DEL");
            assert_eq!(made_on(two), Vec::<String>::new());
        })
        .await;
    });
}

#[test]
fn a_call_that_is_given_up_is_undone_and_a_late_del_leaves_the_new_sandbox_alone() {
    Test::new().deadline(Duration::from_secs(180)).run(async |lab| {
        blocking(move || {
            let stage = Stage::start(&lab, 1, primary(60));
            let node = &stage.testbed.nodes()[0];
            let uid = stage.pod("argo", "node1");
            let (first, second) = (
                node.namespace().network_beside("first").unwrap(),
                node.namespace().network_beside("second").unwrap(),
            );
            let old = Runtime::new(node, "cafe01", "argo", &uid, &first);
            old.succeeds("STATUS");
            let links = node.namespace().run(LinkMonitor::open).unwrap();

            // The plugin is killed while the pod's addresses are awaited, and its link is there already.
            let plugin = Runtime { container: "cafe00".into(), ..old.clone() }.begin(Verb::Add);
            wait_for_link(links);
            drop(plugin);
            // Calls for one sandbox take turns: the answer to this one comes when the other is undone.
            let undone = Runtime { container: "cafe00".into(), ..old.clone() };
            assert_eq!(undone.call("CHECK").0, 1);
            assert_eq!(made_on(node), Vec::<String>::new());

            stage.assign("argo", &uid, "node1", 7);
            old.succeeds("ADD");
            let new = Runtime::new(node, "cafe02", "argo", &uid, &second);
            new.succeeds("ADD");
            old.succeeds("DEL");
            new.succeeds("CHECK");
            assert_eq!(old.call("CHECK").0, 1);

            // The runtime no longer knows the new one either.
            assert_eq!(new.call_with("GC", &json!({ "cni.dev/valid-attachments": [] })).0, 0);
            assert_eq!(made_on(node), Vec::<String>::new());
        })
        .await;
    });
}

fn send_4_mib(from: &Namespace, to: &Namespace, address: &'static str) {
    const LENGTH: u64 = 4 << 20;
    let listener = to.run(move || TcpListener::bind(address)).unwrap();
    let sender = from.spawn_thread("sender", move || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(&vec![7; usize::try_from(LENGTH).unwrap()]).unwrap();
    });
    let (stream, _) = listener.accept().unwrap();
    assert_eq!(std::io::copy(&mut stream.take(LENGTH + 1), &mut std::io::sink()).unwrap(), LENGTH);
    sender.unwrap().join().unwrap();
}
