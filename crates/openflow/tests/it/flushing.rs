//! Connections that a real switch tracks are forgotten, those that were named and no others.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use openflow::client::flush;
use openflow::{CtFlush, Icmp, Protocol, Tuple, Zones};
use portolan_testbed::{TestLab, VethGuest};

use crate::switch::{PATIENCE, Switch, at, send};

const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const B_TOO: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 3);
const FRONTEND: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 100);

const B_MAC: &str = "0a:58:0a:00:00:02";

/// A switch that tracks every packet in the zones 1 and 2, and translates what is sent to the frontend: from port 2000 on to one
/// address of the second guest, and from port 2001 on to the other.
fn tracking_switch(lab: &TestLab) -> (Switch, VethGuest, VethGuest) {
    let switch = Switch::start(lab);
    switch.add_flow("priority=1,actions=NORMAL");
    for protocol in ["udp", "udp6", "icmp"] {
        switch.add_flow(&format!("priority=2,{protocol},actions=ct(commit,zone=1),ct(commit,zone=2),NORMAL"));
    }
    for (port, backend) in [(2000, B), (2001, B_TOO)] {
        switch.add_flow(&format!(
            "priority=3,udp,nw_dst={FRONTEND},tp_src={port},actions=ct(commit,zone=3,nat(dst={backend}:5353),table=1)"
        ));
    }
    switch.add_flow("table=1,actions=NORMAL");
    let a = switch.guest("guest1", "0a:58:0a:00:00:01", &["10.0.0.1/24", "fd00::1/64"]);
    let b = switch.guest("guest2", B_MAC, &["10.0.0.2/24", "10.0.0.3/24", "fd00::2/64"]);
    a.namespace().ip(&format!("neighbour add {FRONTEND} lladdr {B_MAC} dev eth0")).unwrap();
    (switch, a, b)
}

/// The tracked UDP connections as `source port>destination port@zone`.
fn tracked(switch: &Switch) -> BTreeSet<String> {
    let show = |line: String| {
        let field = |name: &str| {
            let (_, rest) = line.split_once(name)?;
            rest.split(|character: char| !character.is_ascii_digit()).next()
        };
        let zone = field("zone=").unwrap_or("0");
        format!("{}>{}@{zone}", field("sport=").unwrap(), field("dport=").unwrap())
    };
    switch.tracked("udp").into_iter().map(show).collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(ToString::to_string).collect()
}

fn udp(zones: Zones, original: Tuple, reply: Tuple) -> CtFlush {
    CtFlush::new(Some(Protocol::UDP), zones, original, reply).unwrap()
}

/// Flushes, and expects that nothing is refused.
fn forget(switch: &Switch, flushes: &[CtFlush]) {
    assert_eq!(flush(&switch.socket(), flushes, PATIENCE).unwrap(), []);
}

#[test]
fn a_partial_tuple_is_forgotten_in_all_zones_or_in_the_named_one() {
    portolan_testbed::test(async |lab| {
        let (switch, a, b) = tracking_switch(&lab);
        for (source, destination) in [(1000, 53), (1001, 53), (1000, 54), (1000, 55)] {
            let to = at("10.0.0.2", destination);
            send((&a, at("10.0.0.1", source)), (&b, to), to);
        }
        assert_eq!(
            tracked(&switch),
            set(&[
                "1000>53@1",
                "1000>53@2",
                "1001>53@1",
                "1001>53@2",
                "1000>54@1",
                "1000>54@2",
                "1000>55@1",
                "1000>55@2"
            ])
        );
        let to_b = Tuple::any().destination(B);
        forget(&switch, &[udp(Zones::All, to_b.destination_port(53), Tuple::any())]);
        assert_eq!(tracked(&switch), set(&["1000>54@1", "1000>54@2", "1000>55@1", "1000>55@2"]));

        forget(&switch, &[udp(Zones::One(1), to_b.destination_port(54), Tuple::any())]);
        assert_eq!(tracked(&switch), set(&["1000>54@2", "1000>55@1", "1000>55@2"]));

        // Nobody has these: nothing happens, and that is no error.
        let others = [to_b.destination_port(99), Tuple::any().source(B), Tuple::any().destination(FRONTEND)];
        forget(&switch, &others.map(|tuple| udp(Zones::All, tuple, Tuple::any())));
        forget(&switch, &[CtFlush::new(Some(Protocol::TCP), Zones::All, to_b, Tuple::any()).unwrap()]);
        assert_eq!(tracked(&switch), set(&["1000>54@2", "1000>55@1", "1000>55@2"]));

        forget(&switch, &[CtFlush::zone(2)]);
        assert_eq!(tracked(&switch), set(&["1000>55@1"]));
        forget(&switch, &[CtFlush::new(None, Zones::All, Tuple::any().source(A), Tuple::any()).unwrap()]);
        assert_eq!(tracked(&switch), set(&[]));
    });
}

#[test]
fn a_complete_tuple_is_forgotten_in_its_zone_and_with_something_of_the_reply_in_all() {
    portolan_testbed::test(async |lab| {
        let (switch, a, b) = tracking_switch(&lab);
        let to = at("10.0.0.2", 53);
        for source in [1000, 1001] {
            send((&a, at("10.0.0.1", source)), (&b, to), to);
        }
        let complete = Tuple::any().source(A).destination(B).source_port(1000).destination_port(53);
        forget(&switch, &[udp(Zones::One(0), complete, Tuple::any())]);
        assert_eq!(tracked(&switch), set(&["1000>53@1", "1000>53@2", "1001>53@1", "1001>53@2"]));
        forget(&switch, &[udp(Zones::One(1), complete, Tuple::any())]);
        assert_eq!(tracked(&switch), set(&["1000>53@2", "1001>53@1", "1001>53@2"]));
        forget(&switch, &[udp(Zones::All, complete.source_port(1001), Tuple::any().source(B))]);
        assert_eq!(tracked(&switch), set(&["1000>53@2"]));
    });
}

#[test]
fn only_what_a_load_balancer_sent_to_one_backend_is_forgotten() {
    portolan_testbed::test(async |lab| {
        let (switch, a, b) = tracking_switch(&lab);
        for (source, backend) in [(2000, "10.0.0.2"), (2001, "10.0.0.3")] {
            send((&a, at("10.0.0.1", source)), (&b, at(backend, 5353)), at("10.0.0.100", 53));
        }
        assert_eq!(tracked(&switch), set(&["2000>53@3", "2001>53@3"]));
        let frontend = Tuple::any().destination(FRONTEND).destination_port(53);
        let backend = Tuple::any().source(B_TOO);
        forget(&switch, &[udp(Zones::All, frontend, backend.source_port(5354))]);
        assert_eq!(tracked(&switch), set(&["2000>53@3", "2001>53@3"]));
        forget(&switch, &[udp(Zones::All, frontend, backend.source_port(5353))]);
        assert_eq!(tracked(&switch), set(&["2000>53@3"]));
    });
}

#[test]
fn ipv6_and_icmp_connections_are_forgotten_too() {
    portolan_testbed::test(async |lab| {
        let (switch, a, b) = tracking_switch(&lab);
        let to = at("fd00::2", 53);
        send((&a, at("fd00::1", 1000)), (&b, to), to);
        assert_eq!(tracked(&switch), set(&["1000>53@1", "1000>53@2"]));
        let six = Tuple::any().destination(to.ip());
        forget(&switch, &[udp(Zones::All, six, Tuple::any())]);
        assert_eq!(tracked(&switch), set(&[]));

        a.command("ping").args(["-c1", "-W5", "10.0.0.2"]).read().unwrap();
        let pings = switch.tracked("icmp");
        let (_, id) = pings.first().unwrap().split_once("id=").unwrap();
        let id = id.split(',').next().unwrap().parse().unwrap();
        let icmp = |id| {
            let original = Tuple::any().destination(B).icmp(Icmp { id, kind: 8, code: 0 });
            let reply = Tuple::any().source(B).icmp(Icmp { id, kind: 0, code: 0 });
            CtFlush::new(Some(Protocol::ICMP), Zones::All, original, reply).unwrap()
        };
        forget(&switch, &[icmp(id ^ 1)]);
        assert_eq!(switch.tracked("icmp"), pings);
        forget(&switch, &[icmp(id)]);
        assert_eq!(switch.tracked("icmp"), BTreeSet::new());
    });
}

#[test]
fn any_number_of_flushes_is_sent_at_once() {
    portolan_testbed::test(async |lab| {
        let (switch, a, b) = tracking_switch(&lab);
        let to = at("10.0.0.2", 53);
        for source in [1000, 1001] {
            send((&a, at("10.0.0.1", source)), (&b, to), to);
        }
        let flushes: Vec<CtFlush> =
            (2..2000).map(|port| udp(Zones::All, Tuple::any().source_port(port), Tuple::any())).collect();
        forget(&switch, &flushes);
        assert_eq!(tracked(&switch), set(&[]));
    });
}
