//! The way to another host, through a real kernel's firewall.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

use std::fs::File;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd as _;
use std::time::Duration;

use portolan_host::path_probe::{Doorkeeper, Echo, EchoSocket, knock, largest};
use portolan_host::rtnetlink::LinkSettings;
use portolan_host::{Rtnetlink, Veth, netns};
use portolan_testbed::{Lab, Namespace};

const PATIENCE: Duration = Duration::from_millis(300);
const TUNNELS: u16 = 6081;
const NONCE: u64 = 0x0102_0304_0506_0708;

/// Another host, beside the lab's home namespace, in which a test runs. Each has an address of both families.
fn other(lab: &Lab) -> (Namespace, File) {
    let other = lab.namespace("other").unwrap();
    let namespace = File::open(other.path()).unwrap();
    let mut here = Rtnetlink::open().unwrap();
    let veth = Veth { name: "way", peer: "eth0", peer_netns: namespace.as_fd(), peer_mac: None, mtu: 1500 };
    here.add_veth(&veth).unwrap();
    let mut there = Rtnetlink::open_in(namespace.as_fd()).unwrap();
    for (host, name, number) in [(&mut here, "way", 1), (&mut there, "eth0", 2)] {
        host.set_link(name, LinkSettings { up: true, ..Default::default() }).unwrap();
        let link = host.link(name).unwrap().unwrap();
        for address in [format!("192.0.2.{number}/24"), format!("fd00::{number}/64")] {
            host.add_address(&link, address.parse().unwrap()).unwrap();
        }
    }
    (other, namespace)
}

fn nft(host: &Namespace, commands: &str) {
    host.command("nft").args(["-f", "-"]).stdin(commands).read().unwrap();
}

#[test]
fn the_largest_packet_that_passes_is_found() {
    portolan_testbed::test(async |lab| {
        let (other, _namespace) = other(&lab);
        for (number, to) in ["192.0.2.2", "fd00::2"].into_iter().enumerate() {
            let to: IpAddr = to.parse().unwrap();
            let mut socket = EchoSocket::open(to, u16::try_from(number).unwrap()).unwrap();
            let mut passes = || largest(1396, 1404, |size| socket.ask(size, PATIENCE)).unwrap();
            assert_eq!(passes(), Some(1404));
            let less = "add table inet t; add chain inet t drops { type filter hook prerouting priority 0; }
                add rule inet t drops icmp type echo-request meta length > 1400 drop
                add rule inet t drops icmpv6 type echo-request meta length > 1400 drop";
            nft(&other, less);
            assert_eq!(passes(), Some(1400), "{to}");
            nft(
                &other,
                "flush chain inet t drops; add rule inet t drops icmpv6 type echo-request drop
                add rule inet t drops icmp type echo-request drop",
            );
            assert_eq!(passes(), None, "{to}");
            nft(&other, "delete table inet t");
            assert_eq!(socket.ask(1501, PATIENCE).unwrap(), Echo::TooLarge, "the own link has 1500");
        }
        let mut nobody = EchoSocket::open("192.0.2.9".parse().unwrap(), 9).unwrap();
        assert_eq!(nobody.ask(1280, Duration::from_millis(50)).unwrap(), Echo::Silent);
    });
}

#[test]
fn a_port_that_somebody_has_is_answered_for_if_the_firewall_lets_it_in() {
    portolan_testbed::test(async |lab| {
        let (other, namespace) = other(&lab);
        for to in ["192.0.2.2", "fd00::2"] {
            let to: IpAddr = to.parse().unwrap();
            let door = SocketAddr::new(to, TUNNELS);
            let _owner = netns::within(namespace.as_fd(), || Ok(UdpSocket::bind(door).unwrap())).unwrap();
            // It answers for as long as this process lives.
            let of_keeper = namespace.try_clone().unwrap();
            std::thread::spawn(move || {
                netns::within(of_keeper.as_fd(), || Doorkeeper::open(to, TUNNELS, NONCE)?.answer()).map(drop)
            });
            let (often, long, short) =
                (Duration::from_millis(50), Duration::from_secs(20), Duration::from_millis(200));
            assert!(knock(door, NONCE, often, long).unwrap(), "{to}");
            assert!(!knock(door, NONCE + 1, often, short).unwrap(), "of another examination");
            nft(
                &other,
                "add table inet t; add chain inet t drops { type filter hook input priority 0; }
                add rule inet t drops udp dport 6081 drop",
            );
            assert!(!knock(door, NONCE, often, short).unwrap(), "{to}");
            nft(&other, "delete table inet t");
            assert!(knock(door, NONCE, often, long).unwrap(), "{to}");
        }
    });
}
