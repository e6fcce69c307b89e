//! CHECK says what differs from what ADD made.

use std::sync::{Mutex, mpsc};
use std::time::Duration;

use portolan_agent::{ChangeHook, Moment};
use portolan_testbed::Test;
use serde_json::json;

use crate::calls::{Gate, OpenAtEnd};
use crate::plugged::primary;
use crate::stage::{Agents, Runtime, Stage, blocking, made_on};

#[test]
fn check_names_what_differs_and_passes_once_it_is_put_right() {
    Test::new().deadline(Duration::from_secs(240)).run(async |lab| {
        blocking(move || {
            // What somebody does to guards is put right once the gate is open.
            let (gate, (sender, begun)) = (Gate::default(), mpsc::channel());
            let (at_gate, sender) = (gate.clone(), Mutex::new(sender));
            let changes = ChangeHook::new(move |at| {
                if (at.change, at.moment) == ("guard", Moment::Began) {
                    let _ = sender.lock().unwrap().send(());
                    at_gate.pass();
                }
            });
            let stage = Stage::start(&lab, 1, Agents { changes, ..primary(60) });
            let _open = OpenAtEnd(gate.clone());
            let node = &stage.testbed.nodes()[0];
            let uid = stage.pod("argo", "node1");
            stage.assign("argo", &uid, "node1", 7);
            let netns = node.namespace().network_beside("argo").unwrap();
            let argo = Runtime::new(node, "cafe01", "argo", &uid, &netns);
            let result = argo.succeeds("ADD");
            let config = json!({ "prevResult": result });
            argo.succeeds_with("CHECK", &config);
            // What others add is no difference.
            netns.ip("address add 192.0.2.7/24 dev eth0\nroute add 198.51.100.0/24 via 10.0.0.9").unwrap();
            argo.succeeds_with("CHECK", &config);

            for (broken, said, right) in [
                (
                    "link set eth0 address 02:00:00:00:00:01",
                    "eth0: the MAC address is 02:00:00:00:00:01, not 0a:58:0a:00:00:07",
                    "link set eth0 address 0a:58:0a:00:00:07",
                ),
                ("link set eth0 mtu 1300", "eth0: the MTU is 1300, not 1400", "link set eth0 mtu 1400"),
                (
                    "route del default via 10.0.0.1",
                    "eth0: it does not have route 0.0.0.0/0 via 10.0.0.1",
                    "route add default via 10.0.0.1",
                ),
                (
                    "address del fd00::7/64 dev eth0",
                    "eth0: it does not have address fd00::7/64",
                    "address add fd00::7/64 dev eth0 nodad",
                ),
            ] {
                netns.ip(broken).unwrap();
                let (code, output) = argo.call_with("CHECK", &config);
                assert_eq!(
                    (code, &output["code"], &output["details"]),
                    (1, &json!(101), &json!(said)),
                    "{broken}"
                );
                netns.ip(right).unwrap();
                argo.succeeds_with("CHECK", &config);
            }
            // Without a result the same is expected: of the pod and its addresses the agent knows itself.
            netns.ip("address del 10.0.0.7/24 dev eth0").unwrap();
            let (code, output) = argo.call("CHECK");
            let said = json!("eth0: it does not have address 10.0.0.7/24");
            assert_eq!((code, &output["code"], &output["details"]), (1, &json!(101), &said));
            netns.ip("address add 10.0.0.7/24 dev eth0").unwrap();
            argo.succeeds("CHECK");

            // What the agent keeps by itself is named too, as long as it is not done: while a guard is under way, nothing else of the
            // interface is changed. The deadline of what is waited for is the test's.
            let (link, iface_id) = (argo.link(), format!("port:default/argo/eth0/{}", &uid[..8]));
            let until = |is_told: &dyn Fn(&str) -> bool| loop {
                let (code, output) = argo.call_with("CHECK", &config);
                assert!(code == 0 || output["code"] == 101, "{output}");
                if is_told(output["details"].as_str().unwrap_or_default()) {
                    return;
                }
            };
            node.command("nft").args(["delete", "chain", "netdev", "portolan", &link]).read().unwrap();
            begun.recv().unwrap();
            node.vsctl(&["set", "Interface", &link, "external_ids:iface-id=another"]).unwrap();
            let differs = format!("eth0: iface-id of port {link} is another, not {iface_id}");
            let unguarded = format!("eth0: host-side link {link} has no guard");
            until(&|said| said.contains(&differs) && said.contains(&unguarded));
            gate.open();
            until(&str::is_empty);
            // OVN forgets the port, and has it again.
            let central = stage.testbed.central();
            central.nbctl(&["lsp-del", &iface_id]).unwrap();
            until(&|said| said == format!("eth0: OVN has not installed port {link}"));
            let addresses = "0a:58:0a:00:00:07 10.0.0.7 fd00::7";
            central
                .nbctl(&["lsp-add", "sea", &iface_id, "--", "lsp-set-addresses", &iface_id, addresses])
                .unwrap();
            until(&str::is_empty);

            // The host-side link is the agent's own: it comes up again by itself, as `guards` shows.
            netns.ip("link set eth0 down").unwrap();
            let (_, output) = argo.call_with("CHECK", &config);
            assert!(output["details"].as_str().unwrap().contains("eth0: the link is down"), "{output}");
            argo.succeeds("DEL");
            let (_, output) = argo.call_with("CHECK", &config);
            for missing in ["eth0: it has no port", "eth0: there is no such link in the container"] {
                assert!(output["details"].as_str().unwrap().contains(missing), "{output}");
            }
            assert_eq!(made_on(node), Vec::<String>::new());
        })
        .await;
    });
}
