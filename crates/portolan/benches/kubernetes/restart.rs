//! How soon the next pod is served after the API server was killed.

use std::time::Instant;

use crate::adds::Adds;
use crate::pods;
use crate::side::Side;

/// Seconds since SIGKILL of the API server, which is started again at once; and of what came one after the other.
pub(crate) struct Restart {
    /// Until a pod was ready that was made as soon as there was somebody to ask.
    pub(crate) ready: f64,
    /// Until the API server was ready.
    pub(crate) serves: f64,
    /// From then until the scheduler had chosen a node.
    pub(crate) scheduled: f64,
    /// The call of the CNI plugins; and in it, waiting for the controller.
    pub(crate) add: f64,
    pub(crate) locks: f64,
}

pub(crate) fn of_api_server(side: &Side) -> Restart {
    let (server, adds, known) = (side.cluster.api_server(), Adds::begin(side), side.calls().len());
    let begun = Instant::now();
    server.kill().unwrap();
    server.restart().unwrap();
    let serves = begun.elapsed().as_secs_f64();
    let times = side.with_client(|client| pods::create(client, 1));
    let ready = begun.elapsed().as_secs_f64();
    let add = adds.taken().into_iter().sum();
    let calls = side.calls().split_off(known);
    let locks = calls.iter().map(|call| call.step("locks") / 1000.0).sum();
    side.with_client(pods::delete);
    side.settle();
    Restart { ready, serves, scheduled: times.all - times.each[0], add, locks }
}
