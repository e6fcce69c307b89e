//! The test in the place of a switch.

use proptest::prelude::*;

use super::*;

/// What Open vSwitch 3.1 says first.
const HELLO: [u8; 16] = [6, 0, 0, 16, 0, 0, 0, 1, 0, 1, 0, 8, 0, 0, 0, 0x7e];

fn open() -> Connection {
    let mut connection = Connection::new();
    connection.receive(&HELLO).unwrap();
    assert_eq!(connection.next_event(), Some(Event::Open(Version::V1_5)));
    taken(&mut connection);
    connection
}

fn taken(connection: &mut Connection) -> Vec<u8> {
    let output = connection.output().to_vec();
    connection.sent(output.len());
    output
}

fn message(xid: Xid, body: Body<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    Message { version: 6, xid, body }.write(&mut out).unwrap();
    out
}

fn error(code: ErrorCode) -> ErrorMessage {
    ErrorMessage { code, data: vec![1, 2, 3] }
}

#[test]
fn the_best_common_version_is_used_for_everything_after_the_hello() {
    let mut connection = Connection::new();
    assert_eq!(taken(&mut connection), [6, 0, 0, 16, 0, 0, 0, 1, 0, 1, 0, 8, 0, 0, 0, 0x70]);
    assert_eq!(connection.barrier(), Err(RequestError::NotOpen));
    connection.receive(&[4, 0, 0, 8, 0, 0, 0, 1]).unwrap();
    assert_eq!(connection.next_event(), Some(Event::Open(Version::V1_3)));
    assert_eq!(connection.version(), Some(Version::V1_3));
    connection.barrier().unwrap();
    assert_eq!(taken(&mut connection), [4, 20, 0, 8, 0, 0, 0, 2]);
}

#[test]
fn a_switch_without_a_common_version_is_told_so() {
    let mut connection = Connection::new();
    taken(&mut connection);
    let error = connection.receive(&[1, 0, 0, 8, 0, 0, 0, 7]).unwrap_err();
    assert_eq!(error.to_string(), "the switch speaks OpenFlow 1.0, and we speak 1.3, 1.4, 1.5");
    let told = taken(&mut connection);
    assert_eq!(told[..12], [1, 1, 0, told.len() as u8, 0, 0, 0, 7, 0, 0, 0, 0]);
    assert_eq!(connection.receive(&HELLO), Err(error.clone()), "it has ended");
    assert_eq!(connection.probe(), Err(error.clone()));
    assert_eq!(connection.barrier(), Err(RequestError::Ended(error)));
}

#[test]
fn what_is_no_hello_at_first_ends_the_connection() {
    let mut connection = Connection::new();
    assert_eq!(
        connection.receive(&message(Xid(1), Body::BarrierReply)),
        Err(ConnectionError::NoHello { kind: 21 })
    );
    let mut connection = Connection::new();
    let rejected = connection.receive(&message(Xid(1), Body::Error(error(ErrorCode::INCOMPATIBLE))));
    assert_eq!(
        rejected.unwrap_err().to_string(),
        "the switch refused the connection: HELLO_FAILED: INCOMPATIBLE (type 0, code 0)"
    );
}

#[test]
fn an_echo_request_is_answered_with_its_own_bytes() {
    let mut connection = open();
    connection.receive(&message(Xid(77), Body::EchoRequest(b"there?"))).unwrap();
    assert_eq!(taken(&mut connection), message(Xid(77), Body::EchoReply(b"there?")));
    assert_eq!(connection.next_event(), None);
}

#[test]
fn a_switch_that_asks_and_does_not_read_is_left() {
    let mut connection = open();
    let request = message(Xid(7), Body::EchoRequest(&[0; 60_000]));
    // Whoever reads may ask for ever.
    for _ in 0..50 {
        connection.receive(&request).unwrap();
        taken(&mut connection);
    }
    let asked = (0..50).find_map(|_| connection.receive(&request).err());
    assert_eq!(asked, Some(ConnectionError::Flooded));
    assert!(connection.output().len() <= MAX_UNSENT_ANSWERS);
}

#[test]
fn a_silent_switch_is_asked_and_then_left() {
    let mut connection = open();
    connection.probe().unwrap();
    assert_eq!(connection.output(), b"", "it said hello in this interval");
    connection.probe().unwrap();
    assert_eq!(taken(&mut connection), message(Xid(2), Body::EchoRequest(&[])));
    connection.receive(&message(Xid(2), Body::EchoReply(&[]))).unwrap();
    assert_eq!(connection.next_event(), None);

    connection.probe().unwrap();
    connection.probe().unwrap();
    connection.receive(&[6, 2, 0, 8]).unwrap();
    assert_eq!(connection.probe(), Err(ConnectionError::Silent), "half a message is none");
}

#[test]
fn a_switch_that_does_not_say_hello_is_left() {
    let mut connection = Connection::new();
    taken(&mut connection);
    connection.probe().unwrap();
    connection.probe().unwrap();
    assert_eq!(connection.output(), b"", "nothing may be asked before the hello");
    assert_eq!(connection.probe(), Err(ConnectionError::Silent));
}

#[test]
fn errors_are_matched_to_requests_until_a_barrier_is_answered() {
    let mut connection = open();
    let first = connection.flush(&CtFlush::zone(1)).unwrap();
    let second = connection.flush(&CtFlush::zone(2)).unwrap();
    let barrier = connection.barrier().unwrap();
    let later = connection.flush(&CtFlush::zone(3)).unwrap();
    let error = error(ErrorCode::BAD_EXPERIMENTER_TYPE);
    for message in [
        message(second, Body::Error(error.clone())),
        message(Xid(99), Body::Error(error.clone())),
        message(barrier, Body::BarrierReply),
        message(first, Body::Error(error.clone())),
        message(later, Body::Error(error.clone())),
    ] {
        connection.receive(&message).unwrap();
    }
    let events: Vec<Event> = std::iter::from_fn(|| connection.next_event()).collect();
    assert_eq!(
        events,
        [
            Event::Refused { xid: second, error: error.clone() },
            Event::Error { xid: Xid(99), error: error.clone() },
            Event::Done(barrier),
            Event::Error { xid: first, error: error.clone() },
            Event::Refused { xid: later, error },
        ]
    );
}

#[test]
fn a_barrier_that_nobody_asked_for_and_other_messages_are_handed_on() {
    let mut connection = open();
    let flush = connection.flush(&CtFlush::zone(1)).unwrap();
    for (kind, bytes) in [
        (21, message(flush, Body::BarrierReply)),
        (10, message(Xid(0), Body::Other { kind: 10, body: &[1] })),
    ] {
        connection.receive(&bytes).unwrap();
        let Some(Event::Message { kind: found, bytes: all, .. }) = connection.next_event() else { panic!() };
        assert_eq!((found, all), (kind, bytes));
    }
}

#[test]
fn a_message_of_another_version_ends_the_connection() {
    let mut connection = open();
    connection.receive(&HELLO).unwrap();
    let error = connection.receive(&[4, 21, 0, 8, 0, 0, 0, 1]).unwrap_err();
    assert_eq!(error, ConnectionError::Version { agreed: Version::V1_5, found: 4 });
}

#[test]
fn transaction_ids_go_round_past_zero() {
    let mut connection = open();
    connection.last_xid = Xid(u32::MAX - 1);
    assert_eq!(connection.barrier(), Ok(Xid(u32::MAX)));
    assert_eq!(connection.barrier(), Ok(Xid(1)));
}

#[test]
fn a_request_that_is_too_long_is_not_made() {
    let mut connection = open();
    let long = vec![0; 65_528];
    let made = connection.request(Body::Other { kind: 13, body: &long });
    assert_eq!(made, Err(RequestError::TooLong(TooLong { length: 65_536 })));
    assert_eq!(connection.output(), b"");
}

/// Everything that a connection with three requests makes of a stream: events, output and error.
fn outcome(stream: &[u8], reads: &[usize]) -> (Vec<Event>, Vec<u8>, Option<ConnectionError>) {
    let mut connection = open();
    connection.flush(&CtFlush::zone(1)).unwrap();
    connection.barrier().unwrap();
    connection.flush(&CtFlush::zone(2)).unwrap();
    let mut events = Vec::new();
    let mut rest = stream;
    let mut reads = reads.iter();
    let mut error = None;
    while error.is_none() && !rest.is_empty() {
        let (read, behind) = rest.split_at(reads.next().map_or(rest.len(), |read| *read.min(&rest.len())));
        error = connection.receive(read).err();
        events.extend(std::iter::from_fn(|| connection.next_event()));
        rest = behind;
    }
    (events, connection.output().to_vec(), error)
}

fn any_message() -> impl Strategy<Value = Vec<u8>> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..20);
    let xid = || (0..6_u32).prop_map(Xid);
    prop_oneof![
        (xid(), bytes()).prop_map(|(xid, bytes)| message(xid, Body::EchoRequest(&bytes))),
        (xid(), bytes()).prop_map(|(xid, bytes)| message(xid, Body::EchoReply(&bytes))),
        (xid(), any::<u16>(), any::<u16>()).prop_map(|(xid, kind, code)| {
            message(xid, Body::Error(error(ErrorCode::Standard { kind: kind.min(0xfffe), code })))
        }),
        xid().prop_map(|xid| message(xid, Body::BarrierReply)),
        (xid(), 5..30_u8, bytes())
            .prop_map(|(xid, kind, body)| message(xid, Body::Other { kind, body: &body })),
        bytes(),
    ]
}

proptest! {
    #[test]
    fn events_do_not_depend_on_how_the_stream_is_cut(
        messages in proptest::collection::vec(any_message(), 0..20),
        reads in proptest::collection::vec(1..40_usize, 0..40),
    ) {
        let stream = messages.concat();
        prop_assert_eq!(outcome(&stream, &[]), outcome(&stream, &reads));
        prop_assert_eq!(outcome(&stream, &[]), outcome(&stream, &vec![1; stream.len()]));
    }

    #[test]
    fn any_bytes_are_events_or_an_error(stream: Vec<u8>) {
        let mut connection = Connection::new();
        let _ = connection.receive(&stream);
        outcome(&stream, &[]);
    }
}
