//! How whole messages compare with those of ovs-ofctl is in `tests/it/flushing.rs`.

use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::*;

fn read(body: &[u8]) -> Result<Option<CtFlush>, MessageError> {
    CtFlush::read(&CtFlush::body(body))
}

#[test]
fn what_is_not_said_is_not_written() {
    assert_eq!(CtFlush::everything().write(), [0; 8]);
    assert_eq!(CtFlush::zone(5).write(), [0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 8, 0, 5, 0, 0]);
}

#[test]
fn a_tuple_is_written_as_properties_in_a_property() {
    let reply = Tuple::any().source(Ipv4Addr::new(10, 0, 0, 9)).source_port(53);
    let flush = CtFlush::new(Some(Protocol::UDP), Zones::All, Tuple::any(), reply).unwrap();
    let written = flush.write();
    assert_eq!(written[..16], [17, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 40, 0, 0, 0, 0]);
    assert_eq!(
        written[16..40],
        [0, 0, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 9, 0, 0, 0, 0]
    );
    assert_eq!(written[40..], [0, 2, 0, 8, 0, 53, 0, 0]);
}

#[test]
fn other_messages_are_left_alone() {
    let subtype = Body::Experimenter { experimenter: NICIRA, subtype: 29, body: &[0; 8] };
    let experimenter = Body::Experimenter { experimenter: 0x4f4e_4600, subtype: 32, body: &[0; 8] };
    for body in [subtype, experimenter, Body::BarrierRequest] {
        assert_eq!(CtFlush::read(&body), Ok(None));
    }
}

#[test]
fn what_is_malformed_is_refused() {
    let head = [17, 0, 0, 0, 0, 0, 0, 0];
    for rest in [
        &[0, 0, 0, 3][..],
        &[0, 0, 0, 6, 0, 0, 0, 0],
        &[0, 2, 0, 8, 0, 5],
        &[0, 2, 0, 6, 0, 5, 0, 0],
        &[0, 3, 0, 8, 0, 0, 0, 0],
        &[0, 0, 0, 16, 0, 0, 0, 0, 0, 7, 0, 5, 0, 0, 0, 0],
        &[0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 8, 1, 2, 3, 4],
    ] {
        assert!(read(&[&head, rest].concat()).is_err(), "{rest:?}");
    }
    assert!(read(&head[..7]).is_err());
    assert!(read(&[17, 0, 0, 0, 0, 0, 0, 1]).is_err());
}

#[test]
fn a_complete_tuple_without_a_zone_is_read_as_the_switch_takes_it() {
    let tuple = Tuple::any()
        .source(Ipv4Addr::new(10, 0, 0, 1))
        .destination(Ipv4Addr::new(10, 0, 0, 2))
        .source_port(1)
        .destination_port(2);
    let named = CtFlush::new(Some(Protocol::TCP), Zones::One(0), tuple, Tuple::any()).unwrap();
    let unnamed = CtFlush { zones: Zones::All, ..named };
    assert_eq!(read(&unnamed.write()), Ok(Some(named)));
}

fn tuple() -> impl Strategy<Value = Tuple> {
    let address = || {
        proptest::option::of(prop_oneof![
            8 => any::<[u8; 4]>().prop_map(IpAddr::from),
            2 => any::<[u8; 16]>().prop_map(IpAddr::from),
        ])
    };
    let icmp = any::<(u16, u8, u8)>().prop_map(|(id, kind, code)| Icmp { id, kind, code });
    let port = proptest::option::of;
    (address(), address(), port(any::<u16>()), port(any::<u16>()), proptest::option::weighted(0.3, icmp))
        .prop_map(|(source, destination, source_port, destination_port, icmp)| {
            let tuple = Tuple { source_port, destination_port, icmp, ..Tuple::any() };
            let tuple = source.map_or(tuple, |address| tuple.source(address));
            destination.map_or(tuple, |address| tuple.destination(address))
        })
}

proptest! {
    #[test]
    fn what_may_be_flushed_is_read_as_it_was_written(
        protocol in prop_oneof![Just(1), Just(17), Just(58), any::<u8>()],
        zone: Option<u16>,
        original in tuple(),
        reply in tuple(),
    ) {
        let zones = zone.map_or(Zones::All, Zones::One);
        if let Ok(flush) = CtFlush::new(Protocol::new(protocol), zones, original, reply) {
            prop_assert_eq!(read(&flush.write()), Ok(Some(flush)));
        }
    }

    #[test]
    fn any_bytes_are_refused_or_read_and_written_as_what_they_mean(
        mut bytes in proptest::collection::vec(prop_oneof![4 => 0..10_u8, 1 => any::<u8>()], 0..120),
    ) {
        for byte in bytes.iter_mut().take(8).skip(1) {
            *byte = 0;
        }
        if let Ok(Some(flush)) = read(&bytes) {
            prop_assert_eq!(read(&flush.write()), Ok(Some(flush)));
        }
    }
}
