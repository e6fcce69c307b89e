//! Every call against the kernel, in namespaces of its own, checked with the usual tools.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use ipnet::IpNet;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, socket,
};
use portolan_host::rtnetlink::LinkSettings;
use portolan_host::{
    Admits, ChangeMonitor, Ethtool, ForwardMonitor, GuardChange, GuardMonitor, LinkChange, LinkKind,
    LinkMonitor, Masquerade, Route, Rtnetlink, Tap, Veth, announce, forward_policy, guard, masquerade, netns,
    sysctl, tap,
};
use portolan_testbed::{Lab, Namespace};

const MAC: [u8; 6] = [0x0a, 0x58, 10, 0, 0, 7];

struct Place {
    host: Rtnetlink,
    pod: Namespace,
    netns: File,
}

/// A pair of links between the lab's home namespace, in which a test runs, and a pod.
fn place(lab: &Lab) -> Place {
    let pod = lab.namespace("pod").unwrap();
    let netns = File::open(pod.path()).unwrap();
    let mut host = Rtnetlink::open().unwrap();
    let veth = Veth { name: "pt0", peer: "eth0", peer_netns: netns.as_fd(), peer_mac: Some(MAC), mtu: 1400 };
    host.add_veth(&veth).unwrap();
    Place { host, pod, netns }
}

#[test]
fn a_pair_of_links_has_the_names_the_mac_the_mtu_and_the_alias_it_was_given() {
    portolan_testbed::test(async |lab| {
        let mut place = place(&lab);
        let alias = "portolan sandbox eth0";
        place
            .host
            .set_link("pt0", LinkSettings { alias: Some(alias), up: true, ..Default::default() })
            .unwrap();
        let link = place.host.link("pt0").unwrap().unwrap();
        assert_eq!((link.alias.as_deref(), link.mtu, link.up), (Some(alias), 1400, true));
        let mut inside = Rtnetlink::open_in(place.netns.as_fd()).unwrap();
        let eth0 = inside.link("eth0").unwrap().unwrap();
        assert_eq!((eth0.mac, eth0.mtu, eth0.up), (Some(MAC), 1400, false));
        let other = [0x0a, 0x58, 10, 0, 0, 9];
        let settings = LinkSettings { mac: Some(other), mtu: Some(1300), up: true, alias: None };
        inside.set_link("eth0", settings).unwrap();
        let eth0 = inside.link("eth0").unwrap().unwrap();
        assert_eq!((eth0.mac, eth0.mtu, eth0.up), (Some(other), 1300, true));

        let names: Vec<_> = place.host.links().unwrap().into_iter().map(|link| link.name).collect();
        assert!(names.contains(&"pt0".into()) && names.contains(&"lo".into()), "{names:?}");
        assert!(place.host.delete_link("pt0").unwrap());
        assert!(!place.host.delete_link("pt0").unwrap(), "removing what is gone is no error");
        assert_eq!(place.host.link("pt0").unwrap(), None);
        assert_eq!(inside.link("eth0").unwrap(), None);
        let error = place.host.set_link("pt0", LinkSettings::default()).unwrap_err();
        assert_eq!(error.to_string(), "there is no link pt0");
    });
}

#[test]
fn addresses_and_routes_are_usable_at_once() {
    portolan_testbed::test(async |lab| {
        let mut place = place(&lab);
        place.host.set_link("pt0", LinkSettings { up: true, ..Default::default() }).unwrap();
        let mut inside = Rtnetlink::open_in(place.netns.as_fd()).unwrap();
        inside.set_link("eth0", LinkSettings { up: true, ..Default::default() }).unwrap();
        let eth0 = inside.link("eth0").unwrap().unwrap();
        for address in ["10.0.0.7/24", "fd00::7/64"] {
            inside.add_address(&eth0, address.parse().unwrap()).unwrap();
            inside.add_address(&eth0, address.parse().unwrap()).unwrap();
        }
        let routes = [("0.0.0.0/0", Some("10.0.0.1")), ("10.9.0.0/16", None), ("::/0", Some("fd00::1"))];
        for (destination, gateway) in routes {
            let gateway = gateway.map(|text| text.parse().unwrap());
            let route = Route { destination: destination.parse().unwrap(), gateway };
            inside.set_route(&eth0, route).unwrap();
            inside.set_route(&eth0, route).unwrap();
        }
        let ip = |arguments: &[&str]| place.pod.command("ip").args(arguments).read().unwrap();
        assert!(ip(&["-4", "address", "show", "eth0"]).contains("inet 10.0.0.7/24 brd 10.0.0.255"));
        let v6 = ip(&["-6", "address", "show", "eth0"]);
        let line = v6.lines().find(|line| line.contains("fd00::7/64")).unwrap();
        assert!(!line.contains("tentative"), "{line}");
        assert!(ip(&["-4", "route"]).contains("default via 10.0.0.1 dev eth0 proto static"));
        assert!(ip(&["-4", "route"]).contains("10.9.0.0/16 dev eth0"));
        assert!(ip(&["-6", "route"]).contains("default via fd00::1 dev eth0"));

        let unreachable = Route {
            destination: "10.8.0.0/16".parse().unwrap(),
            gateway: Some("192.0.2.1".parse().unwrap()),
        };
        let error = inside.set_route(&eth0, unreachable).unwrap_err();
        assert_eq!(error.to_string(), "cannot add route 10.8.0.0/16 via 192.0.2.1 on eth0");
    });
}

#[test]
fn checksum_offload_is_off() {
    portolan_testbed::test(async |lab| {
        let place = place(&lab);
        Ethtool::open_in(place.netns.as_fd()).unwrap().checksum_offload_off("eth0").unwrap();
        Ethtool::open().unwrap().checksum_offload_off("pt0").unwrap();
        for features in [
            place.pod.command("ethtool").args(["-k", "eth0"]).read().unwrap(),
            lab.command("ethtool").args(["-k", "pt0"]).read().unwrap(),
        ] {
            assert!(features.contains("tx-checksumming: off"), "{features}");
            assert!(features.contains("tx-tcp-segmentation: off"), "{features}");
        }
        assert!(Ethtool::open().unwrap().checksum_offload_off("none").is_err());
    });
}

#[test]
fn a_new_address_is_announced_to_neighbours() {
    portolan_testbed::test(async |lab| {
        let mut place = place(&lab);
        lab.home().sysctl("net.ipv4.conf.all.arp_accept", "1").unwrap();
        lab.home().sysctl("net.ipv4.conf.pt0.arp_accept", "1").unwrap();
        place.host.set_link("pt0", LinkSettings { up: true, ..Default::default() }).unwrap();
        lab.home().ip("address add 10.0.0.1/24 dev pt0\naddress add fd00::1/64 dev pt0 nodad").unwrap();
        // Neighbour advertisements only correct what is known already.
        lab.home().ip("neighbour add fd00::7 lladdr 02:00:00:00:00:01 dev pt0 nud stale").unwrap();
        let mut inside = Rtnetlink::open_in(place.netns.as_fd()).unwrap();
        inside.set_link("eth0", LinkSettings { up: true, ..Default::default() }).unwrap();
        let eth0 = inside.link("eth0").unwrap().unwrap();
        let addresses = ["10.0.0.7".parse().unwrap(), "fd00::7".parse().unwrap()];
        let changes = neighbour_changes();
        announce::announce(place.netns.as_fd(), &eth0, MAC, &addresses).unwrap();
        let known = || lab.command("ip").args(["neighbour"]).read().unwrap();
        let heard = |text: &str| {
            ["10.0.0.7 ", "fd00::7 "].iter().all(|who| {
                text.lines().any(|line| line.starts_with(who) && line.contains("0a:58:0a:00:00:07"))
            })
        };
        while !heard(&known()) {
            // The test's own deadline ends a wait in vain.
            recv(changes.as_raw_fd(), &mut [0; 4096], MsgFlags::empty()).unwrap();
        }
    });
}

#[test]
fn an_address_is_announced_though_the_kernel_does_not_use_the_queue_of_its_link_yet() {
    portolan_testbed::test(async |lab| {
        let mut place = place(&lab);
        let mut inside = Rtnetlink::open_in(place.netns.as_fd()).unwrap();
        inside.set_link("eth0", LinkSettings { up: true, ..Default::default() }).unwrap();
        let eth0 = inside.link("eth0").unwrap().unwrap();
        let announce = || announce::announce(place.netns.as_fd(), &eth0, MAC, &["10.0.0.7".parse().unwrap()]);
        // Without a carrier there is nobody to be told, which is no fault of the call's.
        announce().unwrap();
        // What is put into such a queue is thrown away, silently. It lasts a moment, too short for a test, which has one that lasts.
        place.pod.command("tc").args(["qdisc", "add", "dev", "eth0", "root", "blackhole"]).read().unwrap();
        let all = SockProtocol::EthAll;
        let listener = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, all).unwrap();
        place.host.set_link("pt0", LinkSettings { up: true, ..Default::default() }).unwrap();
        announce().unwrap();
        let mut frame = [0; 256];
        // ARP, from the address that is announced. The test's own deadline ends a wait in vain.
        while !(recv(listener.as_raw_fd(), &mut frame, MsgFlags::empty()).unwrap() >= 32
            && frame[12..14] == [8, 6]
            && frame[28..32] == [10, 0, 0, 7])
        {}
    });
}

/// A socket that the kernel notifies of every change of neighbours in the calling thread's namespace.
fn neighbour_changes() -> OwnedFd {
    const NEIGHBOURS: u32 = 4;
    let (family, protocol) = (AddressFamily::Netlink, SockProtocol::NetlinkRoute);
    let socket = socket(family, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol).unwrap();
    bind(socket.as_raw_fd(), &NetlinkAddr::new(0, NEIGHBOURS)).unwrap();
    socket
}

#[test]
fn a_guarded_link_reaches_packet_sockets_and_nothing_else_of_the_host() {
    portolan_testbed::test(async |lab| {
        let mut place = place(&lab);
        guard::ipv6_off("pt0").unwrap();
        place.host.set_link("pt0", LinkSettings { up: true, ..Default::default() }).unwrap();
        lab.home().ip("address add 10.0.0.1/24 dev pt0").unwrap();
        let mut inside = Rtnetlink::open_in(place.netns.as_fd()).unwrap();
        inside.set_link("eth0", LinkSettings { up: true, ..Default::default() }).unwrap();
        let eth0 = inside.link("eth0").unwrap().unwrap();
        inside.add_address(&eth0, "10.0.0.7/24".parse().unwrap()).unwrap();
        assert!(!lab.command("ip").args(["-6", "address", "show", "pt0"]).read().unwrap().contains("fe80"));

        let server = UdpSocket::bind("10.0.0.1:7000").unwrap();
        server.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        let says = || {
            let sent = netns::within(place.netns.as_fd(), || {
                UdpSocket::bind("10.0.0.7:0").unwrap().send_to(b"hello", "10.0.0.1:7000").unwrap();
                Ok(())
            });
            sent.unwrap();
            server.recv(&mut [0; 16]).is_ok()
        };
        assert!(says(), "without a guard the host hears its pods");
        guard::guard("pt0", Admits::Nothing).unwrap();
        guard::guard("pt0", Admits::Nothing).unwrap();
        assert!(!says(), "with a guard it does not");
        assert_eq!(guard::guarded().unwrap(), [("pt0".to_owned(), Admits::Nothing)]);
        guard::release_ingress("pt0").unwrap();
        guard::release_ingress("pt0").unwrap();
        assert_eq!(guard::guarded().unwrap(), []);
        assert!(says());
    });
}

#[test]
fn a_link_with_a_guard_for_its_own_addresses_reaches_these_and_no_other_of_the_host() {
    portolan_testbed::test(async |lab| {
        let mut place = place(&lab);
        let is_strict = |host: &mut Rtnetlink| host.link("pt0").unwrap().unwrap().is_strict;
        assert!(!is_strict(&mut place.host));
        guard::make_strict("pt0").unwrap();
        assert!(is_strict(&mut place.host));
        place.host.set_link("pt0", LinkSettings { up: true, ..Default::default() }).unwrap();
        lab.home().ip("link set lo up\naddress add 10.0.0.200/32 dev lo").unwrap();
        let mut inside = Rtnetlink::open_in(place.netns.as_fd()).unwrap();
        inside.set_link("eth0", LinkSettings { up: true, ..Default::default() }).unwrap();
        let eth0 = inside.link("eth0").unwrap().unwrap();
        inside.add_address(&eth0, "10.0.0.7/24".parse().unwrap()).unwrap();
        let mac = place.host.link("pt0").unwrap().unwrap().mac.unwrap();
        let mac = mac.map(|byte| format!("{byte:02x}")).join(":");
        let answers = |address: &str| {
            place.pod.command("ping").args(["-c1", "-W0.3", address]).output().unwrap().status.success()
        };

        let server = UdpSocket::bind("0.0.0.0:7000").unwrap();
        server.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        let hears = |address: &'static str| {
            // Whoever knows the MAC address needs no answer to ARP.
            place.pod.ip(&format!("neighbour replace {address} lladdr {mac} dev eth0")).unwrap();
            let sent = netns::within(place.netns.as_fd(), || {
                let socket = UdpSocket::bind("10.0.0.7:0").unwrap();
                socket.send_to(address.as_bytes(), (address, 7000)).unwrap();
                Ok(())
            });
            sent.unwrap();
            let mut buffer = [0; 16];
            server.recv(&mut buffer).is_ok_and(|length| &buffer[..length] == address.as_bytes())
        };
        assert!(!answers("10.0.0.200"), "ARP is answered for addresses of the link only");
        assert!(hears("10.0.0.200"), "without a guard the host has one stack for all of its links");
        // Twice: rules do not add up.
        guard::guard("pt0", Admits::OwnAddresses).unwrap();
        guard::guard("pt0", Admits::OwnAddresses).unwrap();
        assert_eq!(guard::guarded().unwrap(), [("pt0".to_owned(), Admits::OwnAddresses)]);
        let rules = lab.command("nft").args(["list", "chain", "netdev", "portolan", "pt0"]).read().unwrap();
        assert_eq!(rules.matches("accept").count(), 2, "{rules}");
        assert!(!hears("10.0.0.200"));
        assert!(!hears("10.0.0.5"), "nobody has it yet");
        lab.home().ip("address add 10.0.0.5/24 dev pt0").unwrap();
        place.pod.ip("neighbour del 10.0.0.5 dev eth0").unwrap();
        assert!(answers("10.0.0.5"));
        assert!(hears("10.0.0.5"));
        assert!(!hears("10.0.0.200"));
        // What the host is to forward does not come in either.
        lab.command("sysctl").args(["-qw", "net.ipv4.ip_forward=1"]).read().unwrap();
        place
            .pod
            .ip(&format!(
                "route add 10.9.0.0/16 via 10.0.0.5\nneighbour replace 10.0.0.5 lladdr {mac} dev eth0"
            ))
            .unwrap();
        assert!(!answers("10.9.0.1"));
        guard::release_ingress("pt0").unwrap();
        assert!(hears("10.0.0.200"));
    });
}

#[test]
fn a_tap_stays_when_it_is_closed_and_belongs_to_whom_it_was_made_for() {
    portolan_testbed::test(async |lab| {
        assert!(tap::open("tap0").is_err(), "what is not there is not made by opening it");
        let shown = |name: &str| lab.command("ip").args(["-d", "link", "show", "dev", name]).read().unwrap();
        for (name, user, group, expected) in [
            ("tap0", None, None, "user root"),
            ("tap1", Some(54321), None, "user 54321"),
            ("tap2", None, Some(54322), "group 54322"),
            ("tap3", Some(54321), Some(54322), "user 54321 group 54322"),
        ] {
            tap::add(&Tap { name, user, group, mtu: 1400 }).unwrap();
            let shown = shown(name);
            assert!(
                shown.contains("type tap") && shown.contains("persist on") && shown.contains(expected),
                "{name}: {shown}"
            );
            assert_eq!(user.is_none() && group.is_some(), !shown.contains(" user "), "{name}: {shown}");
        }
        let mut host = Rtnetlink::open().unwrap();
        let link = host.link("tap0").unwrap().unwrap();
        assert_eq!(link.mtu, 1400);
        // Whatever ends the making of one leaves nothing.
        let error = tap::add(&Tap { name: "tap4", user: None, group: None, mtu: 1 << 20 }).unwrap_err();
        assert_eq!(error.to_string(), "cannot change link tap4");
        assert_eq!(host.link("tap4").unwrap(), None);
        assert_eq!((link.kind, link.up), (LinkKind::Tap, false));
        let long = Tap { name: "a-name-that-is-too-long", user: None, group: None, mtu: 1400 };
        let long = tap::add(&long).unwrap_err();
        assert_eq!(long.to_string(), "cannot make tap a-name-that-is-too-long");

        // What is written into it comes out of the link, and the other way.
        lab.home().ip("link set tap0 up\naddress add 10.0.0.1/24 dev tap0").unwrap();
        let mut device = tap::open("tap0").unwrap();
        lab.home().ip("neighbour replace 10.0.0.7 lladdr 0a:58:0a:00:00:07 dev tap0").unwrap();
        UdpSocket::bind("10.0.0.1:7000").unwrap().send_to(b"out", "10.0.0.7:7000").unwrap();
        let mut frame = [0; 2048];
        loop {
            let length = device.read(&mut frame).unwrap();
            if frame[..length].ends_with(b"out") {
                break;
            }
        }
        device.write_all(&[0xff; 60]).unwrap();
    });
}

#[test]
fn changes_of_links_are_reported() {
    portolan_testbed::test(async |lab| {
        let monitor = LinkMonitor::open().unwrap();
        let mut place = place(&lab);
        place
            .host
            .set_link("pt0", LinkSettings { alias: Some("note"), up: true, ..Default::default() })
            .unwrap();
        place.host.delete_link("pt0").unwrap();
        // The kernel queues notifications before it answers the request that caused them.
        let mut changes = Vec::new();
        while let Ok(more) = monitor.read() {
            changes.extend(more);
        }
        let noted = |link: &portolan_host::Link| link.name == "pt0" && link.alias.as_deref() == Some("note");
        let removed = |change: &LinkChange| matches!(change, LinkChange::Removed(link) if noted(link));
        let present = |change: &LinkChange| matches!(change, LinkChange::Present(link) if noted(link));
        assert!(changes.iter().any(present), "{changes:?}");
        assert!(changes.last().is_some_and(removed), "{changes:?}");
    });
}

#[test]
fn a_guard_is_what_nft_would_make_of_it_and_all_of_it_or_nothing() {
    portolan_testbed::test(async |lab| {
        let place = place(&lab);
        let listed = || lab.command("nft").args(["list", "ruleset"]).read().unwrap();
        let own_addresses = "meta protocol arp accept; meta protocol ip fib daddr . iif type local accept;";
        for (admits, rules) in [(Admits::Nothing, ""), (Admits::OwnAddresses, own_addresses)] {
            guard::guard("pt0", admits).unwrap();
            let made = listed();
            assert!(guard::remove_table().unwrap());
            let text = format!(
                "table netdev portolan {{ chain pt0 {{
                 type filter hook ingress device pt0 priority -500; policy drop; {rules}\n}}\n}}\n"
            );
            lab.command("nft").args(["-f", "-"]).stdin(text).read().unwrap();
            assert_eq!(made, listed());
            assert!(guard::remove_table().unwrap());
        }
        assert!(!guard::remove_table().unwrap());
        // No link has such a name: the table, which comes first, is not made either.
        let error = guard::guard(&"pt0".repeat(100), Admits::OwnAddresses).unwrap_err().to_string();
        assert!(error.starts_with("cannot guard link pt0pt0"), "{error}");
        assert_eq!(listed(), "");
        drop(place);
    });
}

#[test]
fn guards_can_be_made_and_removed_by_many_at_once() {
    portolan_testbed::test(async |lab| {
        let mut place = place(&lab);
        let links: Vec<_> = (0..50).map(|number| format!("g{number:02}")).collect();
        for (number, link) in links.iter().enumerate() {
            let (peer, peer_netns) = (format!("e{number}"), place.netns.as_fd());
            place
                .host
                .add_veth(&Veth { name: link, peer: &peer, peer_netns, peer_mac: None, mtu: 1400 })
                .unwrap();
        }
        let each = |work: &(dyn Fn(&str) + Sync)| {
            std::thread::scope(|scope| links.iter().for_each(|link| drop(scope.spawn(|| work(link)))));
        };
        each(&|link| guard::guard(link, Admits::OwnAddresses).unwrap());
        let mut guarded = guard::guarded().unwrap();
        guarded.sort_by(|one, other| one.0.cmp(&other.0));
        assert!(guarded.into_iter().eq(links.iter().map(|link| (link.clone(), Admits::OwnAddresses))));
        each(&|link| guard::release_ingress(link).unwrap());
        assert_eq!(guard::guarded().unwrap(), []);
    });
}

#[test]
fn changes_of_guards_are_reported() {
    portolan_testbed::test(async |lab| {
        let place = place(&lab);
        let monitor = GuardMonitor::open().unwrap();
        let changes = || {
            // The kernel queues notifications before it answers the request that caused them.
            let read = std::iter::from_fn(|| monitor.read().ok());
            let mut changes: Vec<_> = read.flatten().collect();
            changes.dedup();
            changes
        };
        let nft = |arguments: &[&str]| lab.command("nft").args(arguments).read().unwrap();
        let present = |admits| GuardChange::Present("pt0".into(), admits);
        let removed = GuardChange::Removed("pt0".into());
        for admits in [Admits::Nothing, Admits::OwnAddresses, Admits::Nothing, Admits::OwnAddresses] {
            guard::guard("pt0", admits).unwrap();
            assert_eq!(changes(), [present(admits)]);
            assert_eq!(guard::guarded().unwrap(), [("pt0".to_owned(), admits)]);
        }
        nft(&["add", "chain", "netdev", "portolan", "pt0", "{ policy accept; }"]);
        assert_eq!(changes(), std::slice::from_ref(&removed), "it lets everything through");
        assert_eq!(guard::guarded().unwrap(), []);
        // Without its rules it lets nothing through, and with others something else.
        guard::guard("pt0", Admits::OwnAddresses).unwrap();
        assert_eq!(changes(), [present(Admits::OwnAddresses)]);
        nft(&["flush", "table", "netdev", "portolan"]);
        assert_eq!(changes(), [present(Admits::Nothing)]);
        for rule in [
            "accept",
            "meta protocol arp accept",
            "meta protocol ip accept",
            "counter",
            "fib daddr type local accept",
        ] {
            nft(&["add", "rule", "netdev", "portolan", "pt0", rule]);
            assert_eq!(changes(), std::slice::from_ref(&removed), "{rule}");
            assert_eq!(guard::guarded().unwrap(), [], "{rule}");
            guard::guard("pt0", Admits::Nothing).unwrap();
            assert_eq!(changes(), [present(Admits::Nothing)], "{rule}");
        }
        guard::guard("pt0", Admits::OwnAddresses).unwrap();
        assert_eq!(changes(), [present(Admits::OwnAddresses)]);
        nft(&["insert", "rule", "netdev", "portolan", "pt0", "meta protocol ip6 accept"]);
        assert_eq!(changes(), std::slice::from_ref(&removed));
        guard::guard("pt0", Admits::OwnAddresses).unwrap();
        assert_eq!(changes(), [present(Admits::OwnAddresses)]);
        // Of others nothing is said.
        nft(&["add", "table", "netdev", "other"]);
        nft(&["add", "chain", "netdev", "other", "pt0"]);
        nft(&["add", "rule", "netdev", "other", "pt0", "accept"]);
        assert_eq!(changes(), []);
        nft(&["flush", "ruleset"]);
        assert_eq!(changes(), [removed]);
        drop(place);
    });
}

/// A queue that overflows loses the newest notifications, and goes on losing until it is empty: what is left in it is older than the
/// list that follows, and must not be taken for news.
#[test]
fn after_a_loss_nothing_older_than_the_loss_is_reported_and_everything_newer_is() {
    portolan_testbed::test(async |lab| {
        let mut place = place(&lab);
        let monitor = LinkMonitor::open().unwrap();
        fn note(alias: &str) -> LinkSettings<'_> {
            LinkSettings { alias: Some(alias), up: true, ..Default::default() }
        }
        place.host.set_link("pt0", note("note")).unwrap();
        // `lo` stands for all other links of a busy node.
        for number in 0..2000 {
            place.host.set_link("lo", note(&number.to_string())).unwrap();
        }
        place.host.delete_link("pt0").unwrap();
        assert_eq!(monitor.read().unwrap(), [LinkChange::Lost]);
        // The list that is then asked for does not have the link, and a change comes after it.
        assert_eq!(place.host.link("pt0").unwrap(), None);
        place.host.set_link("lo", note("the last")).unwrap();
        let mut changes = Vec::new();
        while let Ok(more) = monitor.read() {
            changes.extend(more);
        }
        let is_gone = |change: &LinkChange| matches!(change, LinkChange::Present(link) if link.name == "pt0");
        assert!(!changes.iter().any(is_gone), "a link that is gone is reported as present");
        let last = |change: &LinkChange| matches!(change, LinkChange::Present(link) if link.alias.as_deref() == Some("the last"));
        assert!(changes.iter().any(last), "a change after the loss is not reported: {changes:?}");

        // The same of guards.
        let netns = place.netns.as_fd();
        let veth = Veth { name: "pt0", peer: "eth0", peer_netns: netns, peer_mac: None, mtu: 1400 };
        place.host.add_veth(&veth).unwrap();
        let monitor = GuardMonitor::open().unwrap();
        guard::guard("pt0", Admits::Nothing).unwrap();
        // These stand for those of all other links.
        let others: Vec<_> = (0..4000).map(|number| format!("add chain netdev portolan c{number}")).collect();
        for some in others.chunks(1000) {
            lab.command("nft").args(["-f", "-"]).stdin(some.join("\n")).read().unwrap();
        }
        guard::release_ingress("pt0").unwrap();
        assert_eq!(monitor.read().unwrap(), [GuardChange::Lost]);
        assert!(guard::guarded().unwrap().iter().all(|(link, _)| link != "pt0"));
        guard::guard("pt0", Admits::Nothing).unwrap();
        let read = std::iter::from_fn(|| monitor.read().ok());
        assert_eq!(read.flatten().collect::<Vec<_>>(), [GuardChange::Present("pt0".into(), Admits::Nothing)]);
    });
}

#[test]
fn addresses_and_routes_are_taken_away_again() {
    portolan_testbed::test(async |lab| {
        let mut place = place(&lab);
        place.host.set_link("pt0", LinkSettings { up: true, ..Default::default() }).unwrap();
        let mut inside = Rtnetlink::open_in(place.netns.as_fd()).unwrap();
        inside.set_link("eth0", LinkSettings { up: true, ..Default::default() }).unwrap();
        let link = place.host.link("pt0").unwrap().unwrap();
        for (address, destination, gateway) in
            [("10.9.0.2/24", "10.8.0.0/16", "10.9.0.1"), ("fd00:9::2/64", "fd00:8::/48", "fd00:9::1")]
        {
            let (address, gateway) = (address.parse().unwrap(), Some(gateway.parse().unwrap()));
            let route = Route { destination: destination.parse().unwrap(), gateway };
            place.host.add_address(&link, address).unwrap();
            place.host.set_route(&link, route).unwrap();
            assert!(place.host.routes(&link).unwrap().contains(&route));
            // Once more is no error.
            for _ in 0..2 {
                place.host.remove_route(&link, route).unwrap();
                assert!(!place.host.routes(&link).unwrap().contains(&route));
            }
            for _ in 0..2 {
                place.host.remove_address(&link, address).unwrap();
                assert!(!place.host.addresses(&link).unwrap().contains(&address));
            }
        }
    });
}

#[test]
fn the_table_that_masquerades_is_written_and_seen_to_be_changed() {
    portolan_testbed::test(async |lab| {
        let wanted = Masquerade {
            link: "pt0".into(),
            // One of them lies in another, as where a node's prefix is in that of the cluster.
            pods: nets(&["10.16.0.0/14", "10.16.1.0/24", "fd00:16::/48"]),
            unmasqueraded: nets(&["10.17.0.0/24"]),
            nodes: nets(&["172.31.0.12/32", "fd00:31::12/128"]),
            own: ["10.16.1.3", "fd00:16::3"].map(|address| address.parse().unwrap()).into(),
        };
        assert_eq!(masquerade::listed().unwrap(), None);
        masquerade::remove().unwrap();
        let changes = ChangeMonitor::of_table(masquerade::TABLE).unwrap();
        let nothing = |changes: &ChangeMonitor| {
            changes.read().is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
        };
        // Of others, whatever they are called.
        for table in ["inet portolan2", "ip portolan", "netdev portolan", "inet portola"] {
            lab.command("nft").args(["add", "table"]).args(table.split(' ')).read().unwrap();
        }
        assert!(nothing(&changes));
        wanted.apply().unwrap();
        assert!(!changes.read().unwrap().is_empty());
        while changes.read().is_ok() {}
        let written = masquerade::listed().unwrap().unwrap();
        wanted.apply().unwrap();
        assert_eq!(masquerade::listed().unwrap(), Some(written.clone()), "writing it again changes nothing");
        assert_eq!(masquerade::nodes_in(&written), wanted.nodes);
        let text = lab.command("nft").args(["list", "table", "inet", "portolan"]).read().unwrap();
        for rule in [
            "elements = { 10.16.0.0/14 }",
            "elements = { fd00:16::/48 }",
            "elements = { 10.17.0.0/24 }",
            "oifname != \"pt0\" ip saddr @pods-v4 ip daddr != @pods-v4 ct status dnat masquerade",
            "oifname != \"pt0\" ip saddr @pods-v4 ip daddr != @pods-v4 ip saddr != @unmasqueraded-v4 masquerade",
            "oifname != \"pt0\" ip6 saddr @pods-v6 ip6 daddr != @pods-v6 ip6 saddr != @unmasqueraded-v6 masquerade",
            "oifname \"pt0\" ct status dnat ip saddr @pods-v4 snat ip to 10.16.1.3",
            "oifname \"pt0\" ct status dnat ip6 saddr @pods-v6 snat ip6 to fd00:16::3",
            "oifname \"pt0\" ct status dnat ip saddr @nodes-v4 snat ip to 10.16.1.3",
            "oifname \"pt0\" ct status dnat ip6 saddr @nodes-v6 snat ip6 to fd00:16::3",
            "iifname \"pt0\" oifname \"pt0\" drop",
        ] {
            assert!(text.contains(rule), "{rule}: {text}");
        }
        while changes.read().is_ok() {}
        lab.command("nft").args(["flush", "chain", "inet", "portolan", "postrouting"]).read().unwrap();
        assert!(!changes.read().unwrap().is_empty());
        assert_ne!(masquerade::listed().unwrap(), Some(written.clone()));
        wanted.apply().unwrap();
        assert_eq!(masquerade::listed().unwrap(), Some(written));
        lab.command("nft").args(["flush", "ruleset"]).read().unwrap();
        assert_eq!(masquerade::listed().unwrap(), None);
        wanted.apply().unwrap();
        masquerade::remove().unwrap();
        assert_eq!(masquerade::listed().unwrap(), None);
    });
}

fn nets(texts: &[&str]) -> Vec<IpNet> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn a_change_of_networks_is_one_of_elements() {
    portolan_testbed::test(async |lab| {
        let with = |pods: &[&str], unmasqueraded: &[&str]| Masquerade {
            link: "pt0".into(),
            pods: nets(pods),
            unmasqueraded: nets(unmasqueraded),
            nodes: Vec::new(),
            own: vec!["10.16.1.3".parse().unwrap()],
        };
        let handles = || {
            let text = lab.command("nft").args(["-a", "list", "table", "inet", "portolan"]).read().unwrap();
            text.lines().filter(|line| line.contains("# handle")).map(str::to_owned).collect::<Vec<_>>()
        };
        let mut before = with(&["10.16.0.0/14"], &[]);
        before.apply().unwrap();
        for after in [
            // Next to each other; in one that comes; both at once; and of the other family.
            with(&["10.16.0.0/14", "10.50.0.0/24"], &["10.50.0.0/24"]),
            with(&["10.16.0.0/14", "10.50.0.0/23"], &["10.50.0.0/24", "10.50.1.0/24"]),
            with(&["10.16.0.0/14", "10.50.0.0/24"], &["10.50.0.0/24"]),
            with(&["10.16.0.0/14", "10.50.0.0/16"], &["10.50.0.0/16"]),
            with(&["10.16.0.0/14", "10.50.7.0/24", "fd00:50::/64"], &["10.50.7.0/24", "fd00:50::/64"]),
            with(&["10.16.0.0/14", "fd00:50::/63"], &["fd00:50::/63"]),
            with(&["10.16.0.0/14", "fd00:50::/63"], &[]),
            with(&[], &[]),
        ] {
            let objects = handles();
            after.apply_after(&before).unwrap();
            assert_eq!(handles(), objects, "rules and sets stay: {after:?}");
            let listed = masquerade::listed().unwrap().unwrap();
            assert_eq!(masquerade::unmasqueraded_in(&listed), after.unmasqueraded);
            after.apply().unwrap();
            assert_eq!(masquerade::listed().unwrap(), Some(listed), "{after:?}");
            after.apply_after(&after).unwrap();
            before = after;
        }
        // Where the table is not what it was taken for, nothing is done by halves.
        let (taken_for, after) = (with(&["10.50.0.0/24"], &[]), with(&["10.51.0.0/24"], &[]));
        let listed = masquerade::listed().unwrap();
        assert!(after.apply_after(&taken_for).is_err());
        assert_eq!(masquerade::listed().unwrap(), listed);
    });
}

#[test]
fn changes_of_a_link_and_of_routes_by_it_are_reported_and_those_of_others_are_not() {
    portolan_testbed::test(async |lab| {
        let nothing = |changes: &ChangeMonitor| {
            changes.read().is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
        };
        let ip = |lines: &str| lab.home().ip(lines).unwrap();
        ip("link add other type veth peer name other2");
        ip("link set other up");
        ip("link set other2 up");
        let changes = ChangeMonitor::of_link("pt0").unwrap();
        let place = place(&lab);
        assert!(!changes.read().unwrap().is_empty(), "it is made");
        ip("link set pt0 up");
        place.pod.ip("link set eth0 up").unwrap();
        ip("address add 192.0.2.1/24 dev pt0");
        while changes.read().is_ok() {}
        for of_others in ["link set other alias x", "route add 198.51.100.0/24 dev other", "link set lo up"] {
            ip(of_others);
        }
        // The loopback gets addresses.
        while changes.read().is_ok() {}
        ip("route add 203.0.113.0/24 dev other");
        assert!(nothing(&changes));
        // A routing daemon takes no more than a share of the reader's time, and what comes after it is found.
        let many = (0..150).map(|number| format!("route add 10.1.{number}.0/24 dev other\n"));
        ip(&many.collect::<String>());
        ip("route add 203.0.113.0/25 dev pt0");
        assert_eq!(changes.read().unwrap(), []);
        assert!(std::iter::from_fn(|| changes.read().ok()).any(|some| !some.is_empty()));
        for of_it in
            ["route add 198.51.100.0/25 dev pt0", "route del 198.51.100.0/25", "link set pt0 alias y"]
        {
            ip(of_it);
            assert!(!changes.read().unwrap().is_empty(), "{of_it}");
            while changes.read().is_ok() {}
        }
        ip("address add 192.0.2.129/25 dev other");
        assert!(!changes.read().unwrap().is_empty(), "an address of another link");
    });
}

#[test]
fn chains_that_drop_what_is_forwarded_are_found_unless_a_rule_beside_them_names_the_link() {
    portolan_testbed::test(async |lab| {
        let found = || {
            let chains = forward_policy::dropping_chains("portolan0").unwrap();
            chains.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let nft = |line: &str| lab.command("nft").arg(line).read().unwrap();
        let monitor = ForwardMonitor::open("portolan0").unwrap();
        // Whether what came until now concerns it.
        let concerned = || {
            let mut any = false;
            while let Ok(changes) = monitor.read() {
                any |= !changes.is_empty();
            }
            any
        };
        assert_eq!(found(), [""; 0]);
        nft("add table ip filter");
        nft("add chain ip filter FORWARD { type filter hook forward priority 0; policy accept; }");
        nft(
            "add table ip6 filter; add chain ip6 filter FORWARD { type filter hook forward priority 0; policy drop; }",
        );
        nft("add chain ip filter INPUT { type filter hook input priority 0; policy drop; }");
        assert_eq!(found(), ["ip6 filter FORWARD"]);
        assert!(concerned());
        nft("add rule ip filter INPUT iifname lo accept");
        nft("add chain ip filter OTHER");
        assert!(!concerned(), "others change rules all the time");
        nft("chain ip filter FORWARD { policy drop; }");
        assert!(concerned());
        assert_eq!(found(), ["ip filter FORWARD", "ip6 filter FORWARD"]);
        nft("add rule ip filter FORWARD iifname portolan0 accept");
        assert!(concerned());
        assert_eq!(found(), ["ip6 filter FORWARD"]);
        nft("add rule ip6 filter FORWARD iifname portolan01 accept");
        assert_eq!(found(), ["ip6 filter FORWARD"], "another link");
        nft("delete table ip6 filter");
        assert!(concerned());
        assert_eq!(found(), [""; 0]);
    });
}

#[test]
fn a_node_that_forwards_goes_on_taking_routes_where_it_has_some_that_were_advertised_and_by_its_own_link() {
    portolan_testbed::test(async |lab| {
        let mut place = place(&lab);
        let ip = |lines: &str| lab.home().ip(lines).unwrap();
        ip("link add other type veth peer name other2");
        ip("link set pt0 up");
        ip("link set other up");
        // The node's own, by which no router has said anything yet.
        ip("link add own type veth peer name own2");
        ip("link set own up");
        ip("address add 203.0.113.7/24 dev own");
        place.pod.ip("link set eth0 up").unwrap();
        // As the kernel does when a router advertises itself.
        let route = ["-6", "route", "add", "default", "via", "fe80::1", "dev", "pt0", "proto", "ra"];
        lab.command("ip").args(route).read().unwrap();
        let setting = |link: &str, name: &str| {
            let path = format!("/proc/sys/net/ipv6/conf/{link}/{name}");
            lab.command("cat").arg(path).read().unwrap()
        };
        assert_eq!([setting("pt0", "accept_ra"), setting("other", "accept_ra")], ["1", "1"]);
        let own = ["203.0.113.7".parse().unwrap()];
        lab.home().run(move || sysctl::forward_ipv6(&mut Rtnetlink::open().unwrap(), &own)).unwrap();
        assert_eq!([setting("pt0", "accept_ra"), setting("other", "accept_ra")], ["2", "1"]);
        assert_eq!(setting("own", "accept_ra"), "2");
        assert_eq!([setting("default", "accept_ra"), setting("all", "forwarding")], ["1", "1"]);

        ip("address add 192.0.2.1/24 dev other");
        ip("address add 198.51.100.1/24 dev pt0");
        let pt0 = place.host.link("pt0").unwrap().unwrap();
        let connected = place.host.connected_networks(&pt0).unwrap();
        assert_eq!(connected, ["192.0.2.0/24", "203.0.113.0/24"].map(|net| net.parse().unwrap()));
    });
}
