//! What every connection needs.

use std::time::Duration;

use openflow::client::{ClientError, flush};
use openflow::message::{Body, Message, NICIRA};
use openflow::{ConnectionError, CtFlush, Event, Version};

use crate::switch::{PATIENCE, Peer, Switch};

#[test]
fn open_vswitch_says_hello_and_answers_echo_and_barrier() {
    portolan_testbed::test(async |lab| {
        let switch = Switch::start(&lab);
        let mut peer = Peer::connect(&switch);
        assert_eq!(peer.next_event(), Ok(Event::Open(Version::V1_5)));

        peer.connection.probe().unwrap();
        peer.connection.probe().unwrap();
        peer.write();
        let answer = peer.read().unwrap();
        assert_eq!(Message::read(&answer).unwrap().body, Body::EchoReply(&[]));
        peer.connection.probe().unwrap();

        let barrier = peer.connection.barrier().unwrap();
        assert_eq!(peer.next_event(), Ok(Event::Done(barrier)));
    });
}

#[test]
fn the_version_is_one_that_the_bridge_allows() {
    portolan_testbed::test(async |lab| {
        let switch = Switch::start(&lab);
        for (allowed, version) in [("OpenFlow13", Version::V1_3), ("OpenFlow10,OpenFlow14", Version::V1_4)] {
            switch.node.vsctl(&["set", "Bridge", "br-int", &format!("protocols={allowed}")]).unwrap();
            let mut peer = Peer::connect(&switch);
            assert_eq!(peer.next_event(), Ok(Event::Open(version)));
            assert_eq!(flush(&switch.socket(), &[CtFlush::zone(1)], PATIENCE).unwrap(), []);
        }
        switch.node.vsctl(&["set", "Bridge", "br-int", "protocols=OpenFlow10"]).unwrap();
        let error = flush(&switch.socket(), &[], PATIENCE).unwrap_err();
        assert!(matches!(error, ClientError::Connection(ConnectionError::Incompatible { .. })), "{error}");
        assert_eq!(error.to_string(), "the switch speaks OpenFlow 1.0, and we speak 1.3, 1.4, 1.5");
    });
}

#[test]
fn what_makes_no_sense_is_refused_by_name_and_the_connection_goes_on() {
    portolan_testbed::test(async |lab| {
        let switch = Switch::start(&lab);
        let mut peer = Peer::connect(&switch);
        assert_eq!(peer.next_event(), Ok(Event::Open(Version::V1_5)));
        let experimenter = |experimenter, subtype, body| Body::Experimenter { experimenter, subtype, body };
        let cases = [
            (Body::Other { kind: 99, body: &[1, 2, 3] }, "BAD_REQUEST: BAD_TYPE"),
            (Body::Other { kind: 13, body: &[] }, "BAD_REQUEST: BAD_LEN"),
            (experimenter(0x00c0_ffee, 1, &[]), "BAD_REQUEST: BAD_EXPERIMENTER"),
            (experimenter(NICIRA, 0xffff, &[]), "BAD_REQUEST: BAD_EXPERIMENTER_TYPE"),
            (experimenter(NICIRA, 32, &[0, 0, 0, 0, 0, 0, 0, 1]), "NICIRA: MUST_BE_ZERO"),
            (
                experimenter(NICIRA, 32, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 5, 1, 0, 0, 0]),
                "BAD_PROPERTY: BAD_LEN",
            ),
        ];
        for (request, name) in cases {
            let request = peer.connection.request(request).unwrap();
            let barrier = peer.connection.barrier().unwrap();
            let event = peer.next_event();
            let Ok(Event::Refused { xid, error }) = event else { panic!("{event:?} in place of {name}") };
            assert_eq!((xid, error.code.name()), (request, Some(name)), "{}", error.code);
            assert_eq!(peer.next_event(), Ok(Event::Done(barrier)));
        }
    });
}

#[test]
fn a_switch_that_hangs_or_is_gone_is_an_error_in_time_and_nothing_once_it_is_back() {
    portolan_testbed::test(async |lab| {
        let switch = Switch::start(&lab);
        let vswitchd = switch.node.vswitchd();
        let signal = |signal: &str| {
            lab.command("kill").arg(signal).arg(vswitchd.pid().unwrap().to_string()).read().unwrap();
        };
        let ask = |patience| flush(&switch.socket(), &[CtFlush::zone(1)], patience);

        signal("-STOP");
        let hangs = ask(Duration::from_millis(50)).unwrap_err();
        assert!(matches!(hangs, ClientError::Timeout(_)), "{hangs:?}");
        signal("-CONT");
        assert_eq!(ask(PATIENCE).unwrap(), []);

        vswitchd.kill().unwrap();
        let gone = ask(PATIENCE).unwrap_err();
        assert!(matches!(gone, ClientError::Connect(_)), "{gone:?}");
        vswitchd.restart().unwrap();
        // Waits until ovs-vswitchd has made its bridges again.
        switch.node.vsctl(&["set", "Bridge", "br-int", "external-ids:back=true"]).unwrap();
        assert_eq!(ask(PATIENCE).unwrap(), []);
    });
}
