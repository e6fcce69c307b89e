//! What we send beside what ovs-ofctl sends for the same: byte for byte.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;

use openflow::frame::Frames;
use openflow::message::{Body, Message};
use openflow::{Connection, CtFlush, Icmp, Protocol, Tuple, Versions, Xid, Zones};
use portolan_testbed::TestLab;

/// Plays a switch for one client, and returns what it asked for beside barriers.
fn record(mut stream: UnixStream) -> Vec<Vec<u8>> {
    let hello = Message { version: 6, xid: Xid(1), body: Body::Hello(Versions::OURS) };
    let mut answers = Vec::new();
    hello.write(&mut answers).unwrap();
    let (mut frames, mut requests) = (Frames::new(u16::MAX), Vec::new());
    loop {
        stream.write_all(&answers).unwrap();
        answers.clear();
        let mut bytes = [0; 4096];
        let count = stream.read(&mut bytes).unwrap();
        if count == 0 {
            return requests;
        }
        frames.push(&bytes[..count]);
        while let Some(frame) = frames.next_frame().unwrap() {
            let message = Message::read(&frame).unwrap();
            match message.body {
                Body::Hello(_) => {}
                Body::BarrierRequest => {
                    Message { body: Body::BarrierReply, ..message }.write(&mut answers).unwrap();
                }
                _ => requests.push(frame),
            }
        }
    }
}

/// The message that ovs-ofctl sends for these arguments of `ct-flush`.
fn theirs(lab: &TestLab, listener: &UnixListener, arguments: &[&str]) -> Vec<u8> {
    let address = listener.local_addr().unwrap();
    let switch = format!("unix:{}", address.as_pathname().unwrap().display());
    let listener = listener.try_clone().unwrap();
    let recorder = thread::spawn(move || record(listener.accept().unwrap().0));
    let command =
        lab.command("ovs-ofctl").args(["--timeout=10", "--protocols=OpenFlow15", "ct-flush", &switch]);
    command.args(arguments).read().unwrap();
    let [message]: [Vec<u8>; 1] = recorder.join().unwrap().try_into().unwrap();
    message
}

/// The message that we send, as the first after the hello.
fn ours(flush: &CtFlush) -> Vec<u8> {
    let mut connection = Connection::new();
    connection.sent(usize::MAX);
    connection.receive(&[6, 0, 0, 8, 0, 0, 0, 1]).unwrap();
    connection.flush(flush).unwrap();
    connection.output().to_vec()
}

#[test]
fn flushes_are_the_bytes_that_ovs_ofctl_sends() {
    portolan_testbed::test(async |lab| {
        let listener = UnixListener::bind(lab.path().join("switch")).unwrap();
        let any = Tuple::any();
        let (a, b) = (IpAddr::from(Ipv4Addr::new(10, 0, 0, 1)), IpAddr::from(Ipv4Addr::new(10, 0, 0, 2)));
        let c: IpAddr = "fd00::3".parse::<Ipv6Addr>().unwrap().into();
        let (request, reply) = (Icmp { id: 10, kind: 8, code: 0 }, Icmp { id: 10, kind: 0, code: 0 });
        let flush =
            |protocol, zones, original, reply| CtFlush::new(protocol, zones, original, reply).unwrap();
        let cases: [(&[&str], CtFlush); 9] = [
            (&[], CtFlush::everything()),
            (&["zone=5"], CtFlush::zone(5)),
            (&["ct_nw_proto=17"], flush(Some(Protocol::UDP), Zones::All, any, any)),
            (&["ct_nw_src=10.0.0.1"], flush(None, Zones::All, any.source(a), any)),
            (
                &[
                    "zone=0",
                    "ct_nw_src=10.0.0.1,ct_nw_dst=10.0.0.2,ct_nw_proto=17,ct_tp_src=1000,ct_tp_dst=53",
                ],
                flush(
                    Some(Protocol::UDP),
                    Zones::One(0),
                    any.source(a).destination(b).source_port(1000).destination_port(53),
                    any,
                ),
            ),
            (
                &[
                    "ct_nw_dst=10.0.0.1,ct_nw_proto=17,ct_tp_dst=53",
                    "ct_nw_src=10.0.0.2,ct_nw_proto=17,ct_tp_src=5353",
                ],
                flush(
                    Some(Protocol::UDP),
                    Zones::All,
                    any.destination(a).destination_port(53),
                    any.source(b).source_port(5353),
                ),
            ),
            (
                &["zone=65535", "", "ct_ipv6_src=fd00::3,ct_nw_proto=132,ct_tp_dst=9"],
                flush(Some(Protocol::SCTP), Zones::One(65535), any, any.source(c).destination_port(9)),
            ),
            (
                &[
                    "zone=3",
                    "ct_nw_src=10.0.0.1,ct_nw_dst=10.0.0.2,ct_nw_proto=1,icmp_type=8,icmp_code=0,icmp_id=10",
                ],
                flush(Some(Protocol::ICMP), Zones::One(3), any.source(a).destination(b).icmp(request), any),
            ),
            (
                &[
                    "ct_nw_dst=10.0.0.2,ct_nw_proto=1,icmp_type=8,icmp_code=0,icmp_id=10",
                    "ct_nw_src=10.0.0.2,ct_nw_proto=1,icmp_type=0,icmp_code=0,icmp_id=10",
                ],
                flush(
                    Some(Protocol::ICMP),
                    Zones::All,
                    any.destination(b).icmp(request),
                    any.source(b).icmp(reply),
                ),
            ),
        ];
        for (arguments, flush) in cases {
            let theirs = theirs(&lab, &listener, arguments);
            assert_eq!(ours(&flush), theirs, "{flush} and {arguments:?}");
            let read = CtFlush::read(&Message::read(&theirs).unwrap().body);
            assert_eq!(read, Ok(Some(flush)), "{arguments:?}");
        }
    });
}

#[test]
fn a_complete_tuple_of_ovs_ofctl_without_a_zone_is_read_as_zone_0() {
    portolan_testbed::test(async |lab| {
        let listener = UnixListener::bind(lab.path().join("switch")).unwrap();
        let tuple = "ct_ipv6_src=fd00::1,ct_ipv6_dst=fd00::2,ct_nw_proto=6,ct_tp_src=1,ct_tp_dst=2";
        let theirs = theirs(&lab, &listener, &[tuple]);
        let read = CtFlush::read(&Message::read(&theirs).unwrap().body).unwrap().unwrap();
        assert_eq!(read.to_string(), "protocol 6, original [fd00::1]:1>[fd00::2]:2, zone 0");
    });
}
