//! Any bytes, in any reads: a connection never panics and makes the same of them however the stream was cut, and what is read
//! as a flush of tracked connections is written so that it reads as the same again.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use openflow::message::{Body, Message, NICIRA};
use openflow::{Connection, ConnectionError, CtFlush, Event};

#[derive(Arbitrary, Debug)]
enum Input<'a> {
    Stream { beginning: Beginning, limit: u16, cuts: Vec<u8>, stream: &'a [u8] },
    Flush(&'a [u8]),
}

/// Where the stream begins.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Beginning {
    Hello,
    AfterHello,
}

const HELLO: [u8; 8] = [6, 0, 0, 8, 0, 0, 0, 1];

fuzz_target!(|input: Input<'_>| {
    match input {
        Input::Stream { beginning, limit, cuts, stream } => {
            let whole = outcome(beginning, limit, &[], stream);
            assert_eq!(whole, outcome(beginning, limit, &cuts, stream));
        }
        Input::Flush(bytes) => {
            let Ok(Some(flush)) = read(bytes) else { return };
            let mut connection = Connection::new();
            connection.receive(&HELLO).expect("a hello");
            connection.sent(usize::MAX);
            connection.flush(&flush).expect("a flush that was read can be requested");
            let message = Message::read(connection.output()).expect("a message");
            assert_eq!(CtFlush::read(&message.body), Ok(Some(flush)));
        }
    }
});

fn read(body: &[u8]) -> Result<Option<CtFlush>, openflow::message::MessageError> {
    CtFlush::read(&Body::Experimenter { experimenter: NICIRA, subtype: 32, body })
}

/// All events, everything that is to be written, and the error at the end.
fn outcome(
    beginning: Beginning,
    limit: u16,
    cuts: &[u8],
    stream: &[u8],
) -> (Vec<Event>, Vec<u8>, Option<ConnectionError>) {
    let mut connection = Connection::with_max_message(limit);
    if let Beginning::AfterHello = beginning
        && connection.receive(&HELLO).is_ok()
    {
        let requests = [connection.barrier(), connection.flush(&CtFlush::zone(1)), connection.barrier()];
        assert!(requests.iter().all(Result::is_ok), "{requests:?}");
    }
    let (mut rest, mut cuts, mut error) = (stream, cuts.iter(), None);
    while error.is_none() && !rest.is_empty() {
        let (read, behind) =
            rest.split_at(cuts.next().map_or(rest.len(), |cut| rest.len().min((*cut).into())));
        error = connection.receive(read).err();
        rest = behind;
    }
    let events = std::iter::from_fn(|| connection.next_event()).collect();
    (events, connection.output().to_vec(), error)
}
