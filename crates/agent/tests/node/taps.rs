//! Taps, which other processes open: the guest here is a thread of the test.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::mpsc;
use std::time::Duration;

use portolan_host::{Tap, tap};
use portolan_testbed::Test;
use serde_json::json;

use crate::attachments::wait_for_links;
use crate::isolation::{Receiver, answers, mac_of, reaches};
use crate::stage::{Agents, Runtime, Stage, blocking, made_on, wait_for_ports};

const MAC: [u8; 6] = [0x0a, 0x58, 10, 0, 0, 23];
const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 23);

/// A guest that answers ARP and pings, until its tap is gone.
fn guest(mut device: File) {
    let mut buffer = [0; 2048];
    while let Ok(length) = device.read(&mut buffer) {
        if let Some(answer) = answer(&buffer[..length]) {
            device.write_all(&answer).unwrap();
        }
    }
}

fn answer(frame: &[u8]) -> Option<Vec<u8>> {
    let (ethernet, rest) = frame.split_at_checked(14)?;
    let sender = &ethernet[6..12];
    let mut answer = [sender, &MAC, &ethernet[12..14]].concat();
    match ethernet[12..14] {
        // A request for the guest's address: the sender becomes the target.
        [8, 6] if rest.get(6..8)? == [0, 1] && rest.get(24..28)? == ADDRESS.octets() => {
            answer.extend([&rest[..6], &[0, 2], &MAC, &ADDRESS.octets(), &rest[8..18]].concat());
        }
        // An echo request without options: the answer differs in its type, and so does its checksum.
        [8, 0] if rest.get(9)? == &1 && rest.get(20)? == &8 && rest.get(16..20)? == ADDRESS.octets() => {
            let mut packet = rest.to_vec();
            packet.copy_within(12..16, 16);
            packet[12..16].copy_from_slice(&ADDRESS.octets());
            packet[20] = 0;
            let sum = u32::from(u16::from_be_bytes([packet[22], packet[23]])) + 0x0800;
            let sum = u16::try_from((sum & 0xffff) + (sum >> 16)).ok()?;
            packet[22..24].copy_from_slice(&sum.to_be_bytes());
            answer.extend(packet);
        }
        _ => return None,
    }
    Some(answer)
}

/// A datagram from the guest, without a checksum of its own.
fn datagram(mac: &str, to: Ipv4Addr, port: u16, text: &[u8]) -> Vec<u8> {
    let mac: Vec<u8> = mac.split(':').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
    let length = u16::try_from(8 + text.len()).unwrap();
    let udp = [&port.to_be_bytes()[..], &port.to_be_bytes(), &length.to_be_bytes(), &[0, 0], text].concat();
    let total = (20 + length).to_be_bytes();
    let mut header =
        [&[0x45, 0], &total[..], &[0, 0, 0, 0, 64, 17, 0, 0], &ADDRESS.octets(), &to.octets()].concat();
    let words = header.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let sum: u32 = words.sum();
    let sum = !u16::try_from((sum & 0xffff) + (sum >> 16)).unwrap();
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    [&mac[..], &MAC, &[8, 0], &header, &udp].concat()
}

#[test]
fn a_guest_that_opens_its_tap_is_on_the_network_and_does_not_reach_the_node() {
    Test::new().deadline(Duration::from_secs(300)).run(async |lab| {
        blocking(move || {
            let mut stage = Stage::start(&lab, 1, Agents::default());
            let node = &stage.testbed.nodes()[0];
            node.namespace().ip("address add 10.0.0.200/24 dev br-und").unwrap();
            let uid = stage.attachment("vm", "node1", Some(json!({ "user": 54321 })));
            stage.address("node1", &[("vm", &uid, 23)]);
            let link = stage.ready("vm");
            let shown = node.command("ip").args(["-d", "-o", "link", "show", &link]).read().unwrap();
            for part in ["type tap", "persist on", "user 54321", "mtu 1400", ",UP"] {
                assert!(shown.contains(part), "{part}: {shown}");
            }
            let pod_uid = stage.pod("argo", "node1");
            stage.assign("argo", &pod_uid, "node1", 7);
            let pod = node.namespace().network_beside("argo").unwrap();
            let argo = Runtime::new(node, "cafe01", "argo", &pod_uid, &pod);
            argo.succeeds("ADD");
            let address: IpAddr = ADDRESS.into();
            assert!(!answers(&pod, address), "nobody has it open");

            let name = link.clone();
            let device = node.namespace().run(move || tap::open(&name)).unwrap();
            let mut writer = device.try_clone().unwrap();
            let (ended, has_ended) = mpsc::channel();
            std::thread::spawn(move || {
                guest(device);
                ended.send(()).unwrap();
            });
            reaches(&pod, address);

            // What the guest sends to the node does not arrive there: the kernel's copy is dropped.
            let own: Ipv4Addr = "10.0.0.200".parse().unwrap();
            let receives = Receiver::at(node.namespace(), &[own.into()]);
            let frame = |mac: &str| datagram(mac, own, 7000, b"from the guest");
            writer.write_all(&frame(&mac_of(node.namespace(), &link))).unwrap();
            writer.write_all(&frame(&mac_of(node.namespace(), "br-und"))).unwrap();
            reaches(&pod, address);
            assert_eq!(receives.received(), Vec::<String>::new(), "the node received what the guest sent");
            // Without its guard it does: so the test would notice.
            stage.stop_agents();
            let node = &stage.testbed.nodes()[0];
            node.command("nft").args(["flush", "ruleset"]).read().unwrap();
            while receives.received().is_empty() {
                writer.write_all(&frame(&mac_of(node.namespace(), &link))).unwrap();
            }
            drop(receives);

            // The guest goes on when the agent and Open vSwitch are started again.
            node.vswitchd().kill().unwrap();
            node.vswitchd().restart().unwrap();
            stage.start_agents();
            let node = &stage.testbed.nodes()[0];
            reaches(&pod, address);
            // The tap goes with its object, whoever has it open.
            argo.succeeds("DEL");
            stage.kubectl(&["delete", "pna", "vm"], "");
            wait_for_ports(node, 0);
            has_ended.recv().unwrap();
            wait_for_links(node, |node| made_on(node).is_empty());
        })
        .await;
    });
}

#[test]
fn a_tap_that_somebody_removed_is_made_again_and_one_that_was_left_unfinished_is_finished_or_removed() {
    Test::new().deadline(Duration::from_secs(300)).run(async |lab| {
        blocking(move || {
            let mut stage = Stage::start(&lab, 1, Agents::default());
            let uid = stage.attachment("vm", "node1", Some(json!({})));
            stage.address("node1", &[("vm", &uid, 23)]);
            let link = stage.ready("vm");
            let node = &stage.testbed.nodes()[0];
            let index = |node: &portolan_testbed::Node| {
                let shown = node.command("ip").args(["-o", "link", "show", &link]).read().ok()?;
                shown.split(':').next().map(str::to_owned)
            };
            let first = index(node);
            node.namespace().ip(&format!("link del {link}")).unwrap();
            wait_for_links(node, |node| index(node).is_some_and(|index| Some(index) != first));
            stage.ready("vm");
            // Its note has no room for its name.
            let name = "n".repeat(240);
            let long = stage.attachment(&name, "node1", Some(json!({})));
            stage.address("node1", &[(&name, &long, 24)]);
            let long = stage.ready(&name);
            // An agent was killed after it had made the taps and nothing else.
            stage.stop_agents();
            let node = &stage.testbed.nodes()[0];
            let left = portolan_plan::host::LinkName::of_attachment("gone").to_string();
            // Nothing but its tap is left of the one that is deleted meanwhile.
            stage.kubectl(&["delete", "pna", &name], "");
            node.vsctl(&["del-port", "br-int", &long]).unwrap();
            let shown = node.command("ip").args(["-o", "link", "show", &long]).read().unwrap();
            assert!(shown.contains("portolan-holder") && !shown.contains(&name), "{shown}");
            node.namespace().ip(&format!("link del {link}")).unwrap();
            for name in [link.clone(), left.clone()] {
                node.namespace()
                    .run(move || tap::add(&Tap { name: &name, user: None, group: None, mtu: 1400 }))
                    .unwrap();
            }
            stage.start_agents();
            let node = &stage.testbed.nodes()[0];
            for link in [left, long] {
                wait_for_links(node, |node| node.namespace().ip(&format!("link show {link}")).is_err());
            }
            let is_up = |node: &portolan_testbed::Node| {
                node.command("ip").args(["-o", "link", "show", &link]).read().unwrap().contains(",UP")
            };
            wait_for_links(node, is_up);
            stage.kubectl(&["delete", "pna", "vm"], "");
            wait_for_links(node, |node| made_on(node).is_empty());
        })
        .await;
    });
}
