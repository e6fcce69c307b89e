//! Calls that are stuck, given up, too many, or not the runtime's.

use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use portolan_agent::{Moment, Step, StepHook};
use portolan_cni::Verb;
use portolan_plan::host::{LinkName, Note, Sandbox};
use portolan_testbed::Test;
use serde_json::json;

use crate::plugged::primary;
use crate::stage::{Agents, Runtime, Stage, blocking, made_on, plugin};

/// A gate that threads wait at until it is opened.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    pub(crate) fn pass(&self) {
        let (open, opened) = &*self.0;
        drop(opened.wait_while(open.lock().unwrap(), |open| !*open).unwrap());
    }

    pub(crate) fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }
}

/// Opens when the test ends, however it ends: the agent waits for its threads.
pub(crate) struct OpenAtEnd(pub(crate) Gate);

impl Drop for OpenAtEnd {
    fn drop(&mut self) {
        self.0.open();
    }
}

#[test]
fn a_thread_that_is_stuck_keeps_neither_the_answer_nor_other_containers_and_what_it_makes_is_removed() {
    Test::new().deadline(Duration::from_secs(240)).run(async |lab| {
        blocking(move || {
            let gate = Gate::default();
            let (sender, seen) = mpsc::channel();
            let sender = Mutex::new(sender);
            let at_gate = gate.clone();
            let steps = StepHook::new(move |at| {
                if at.container != "stuck" {
                    return;
                }
                let _ = sender.lock().unwrap().send((at.step, at.moment));
                if (at.step, at.moment) == (Step::Link, Moment::Began) {
                    at_gate.pass();
                }
            });
            let stage = Stage::start(&lab, 1, Agents { steps, ..primary(5) });
            let _open = OpenAtEnd(gate.clone());
            let node = &stage.testbed.nodes()[0];
            let uids = [stage.pod("argo", "node1"), stage.pod("kimon", "node1")];
            stage.assign("argo", &uids[0], "node1", 7);
            stage.assign("kimon", &uids[1], "node1", 8);
            let netns = ["argo", "kimon"].map(|name| node.namespace().network_beside(name).unwrap());
            let stuck = Runtime::new(node, "stuck", "argo", &uids[0], &netns[0]);
            let other = Runtime::new(node, "cafe02", "kimon", &uids[1], &netns[1]);

            let add = stuck.clone();
            let add = thread::spawn(move || add.call("ADD"));
            let until = |wanted: (Step, Moment)| while seen.recv().unwrap() != wanted {};
            until((Step::Link, Moment::Began));
            other.succeeds("ADD");
            other.succeeds("CHECK");
            other.succeeds("DEL");
            let (code, said) = add.join().unwrap();
            assert_eq!((code, &said["code"]), (1, &json!(11)), "{said}");
            assert!(said["details"].as_str().unwrap().contains("step link (link eth0)"), "{said}");

            // Nothing new is begun for the container while that thread may still make links; it can be ended, though.
            let (code, said) = stuck.call("ADD");
            assert_eq!((code, &said["code"]), (1, &json!(11)), "{said}");
            assert!(said["details"].as_str().unwrap().contains("still at work on links of stuck"), "{said}");
            stuck.succeeds("DEL");
            other.succeeds("ADD");
            other.succeeds("DEL");

            // The thread goes on and makes its link.
            gate.open();
            until((Step::Link, Moment::Ended));
            until((Step::Undo, Moment::Ended));
            assert_eq!(made_on(node), Vec::<String>::new());
            stuck.succeeds("ADD");
            stuck.succeeds("CHECK");
            stuck.succeeds("DEL");
            assert_eq!(made_on(node), Vec::<String>::new());
        })
        .await;
    });
}

#[test]
fn stuck_threads_keep_no_place_among_those_that_make_links_at_a_time() {
    Test::new().deadline(Duration::from_secs(240)).run(async |lab| {
        blocking(move || {
            const PLACES: u8 = 4;
            let gate = Gate::default();
            let (sender, seen) = mpsc::channel();
            let sender = Mutex::new(sender);
            let at_gate = gate.clone();
            let steps = StepHook::new(move |at| {
                if at.container.starts_with("stuck") && (at.step, at.moment) == (Step::Link, Moment::Began) {
                    let _ = sender.lock().unwrap().send(());
                    at_gate.pass();
                }
            });
            let stage = Stage::start(&lab, 1, Agents { steps, ..primary(60) });
            let _open = OpenAtEnd(gate.clone());
            let node = &stage.testbed.nodes()[0];
            let begin = |name: &str, address| {
                let uid = stage.pod(name, "node1");
                stage.assign(name, &uid, "node1", address);
                let netns = node.namespace().network_beside(name).unwrap();
                (Runtime::new(node, name, name, &uid, &netns), netns)
            };
            let stuck: Vec<_> = (0..PLACES).map(|n| begin(&format!("stuck{n}"), 7 + n)).collect();
            let (other, _netns) = begin("other", 7 + PLACES);
            let adds: Vec<_> = stuck.iter().map(|(runtime, _)| runtime.clone()).collect();
            let adds: Vec<_> =
                adds.into_iter().map(|runtime| thread::spawn(move || runtime.call("ADD"))).collect();
            (0..PLACES).for_each(|_| seen.recv().unwrap());
            other.succeeds("ADD");
            gate.open();
            for add in adds {
                let (code, said) = add.join().unwrap();
                assert_eq!(code, 0, "{said}");
            }
        })
        .await;
    });
}

#[test]
fn a_call_that_was_given_up_while_it_waited_for_its_turn_does_nothing_and_gc_knows_links_without_ports() {
    Test::new().deadline(Duration::from_secs(240)).run(async |lab| {
        blocking(move || {
            let (sender, seen) = mpsc::channel();
            let sender = Mutex::new(sender);
            let steps = StepHook::new(move |at| _ = sender.lock().unwrap().send((at.step, at.moment)));
            let stage = Stage::start(&lab, 1, Agents { steps, ..primary(120) });
            let node = &stage.testbed.nodes()[0];
            let uid = stage.pod("argo", "node1");
            let netns = node.namespace().network_beside("argo").unwrap();
            let argo = Runtime::new(node, "cafe01", "argo", &uid, &netns);
            let first = argo.clone();
            let first = thread::spawn(move || first.call("ADD"));
            while seen.recv().unwrap() != (Step::Locks, Moment::Began) {}
            // Another ADD of the same container waits behind it, and its plugin is killed.
            drop(argo.begin(Verb::Add));
            argo.succeeds("STATUS");
            stage.assign("argo", &uid, "node1", 7);
            let (code, said) = first.join().unwrap();
            assert_eq!(code, 0, "{said}");
            argo.succeeds("CHECK");

            // An agent was killed after it had made a link, before there was a port.
            let sandbox = Sandbox { container: "cafe09".into(), call: "eth0".into() };
            let network = "portolan".to_owned();
            let note = Note {
                sandbox,
                interface: "eth0".into(),
                pod_uid: Some("gone".into()),
                network,
                function: None,
            };
            let left = LinkName::new("cafe09", "eth0").to_string();
            // The agent removes what has its name and no note, so the note comes first.
            let make = format!(
                "link add unnamed type veth peer name left\nlink set unnamed alias \"{note}\"\n\
                 link set unnamed name {left}\nlink set {left} up"
            );
            node.namespace().ip(&make).unwrap();
            assert!(made_on(node).contains(&left));
            let valid =
                json!({ "cni.dev/valid-attachments": [{ "containerID": "cafe01", "ifname": "eth0" }] });
            let (code, said) = argo.call_with("GC", &valid);
            assert_eq!(code, 0, "{said}");
            assert!(!made_on(node).contains(&left));
            argo.succeeds("CHECK");

            // Only root is served, also where the socket's permissions would let others in.
            let socket = &argo.places.socket;
            assert_eq!(socket.metadata().unwrap().permissions().mode() & 0o777, 0o600);
            let plugin = plugin();
            let status = |user: &str| {
                let config = json!({ "cniVersion": "1.1.0", "name": "portolan", "type": "portolan-cni" });
                let command = node.command("setpriv").args(["--reuid", user, "--clear-groups"]).arg(&plugin);
                let output = command.env("CNI_COMMAND", "STATUS").stdin(config.to_string()).output().unwrap();
                String::from_utf8_lossy(&output.stdout).into_owned()
            };
            assert_eq!(status("0"), "");
            assert!(status("65534").contains("Permission denied"), "{}", status("65534"));
            std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o666)).unwrap();
            for directory in socket.ancestors().skip(1).take(1) {
                std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o755)).unwrap();
            }
            let said = status("65534");
            assert!(said.contains("only root may call the agent") && said.contains("65534"), "{said}");
            argo.succeeds("DEL");
            assert_eq!(made_on(node), Vec::<String>::new());
        })
        .await;
    });
}
